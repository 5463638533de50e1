// All-reduce over the memory of several GPUs. Each rank runs the same kernel on its GPU. `inboxes` and `flags` are
// tables of addresses, rank by rank: a kernel stores into the inbox of another GPU, and reads its own.
//
// `state` counts the rounds (calls) on this GPU, so that a CUDA graph can repeat a kernel. A rank completes a round
// only after data of the same round has arrived from every other rank. Therefore all kernels of round r - 1 have
// ended when round r + 1 begins on any rank, and an inbox with two slots, for even and odd rounds, is never
// overwritten early.
//
// Sums are computed in float32, in the order of the ranks, and rounded once: all ranks get the same bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifndef VECTORS
#define VECTORS 2  // vectors of 16 bytes per thread and chunk
#endif
#ifndef LEAD
#define LEAD 2  // chunks that a block sends before it waits for the first
#endif

const int THREADS = 512, CHUNK = THREADS*VECTORS, MAX_BLOCKS = 512;

__device__ inline u64 wait_word(const u64 *p, unsigned round, int rank, Watchdog watch) {
    Timer timer;
    u64 word;
    while ((unsigned)((word = load_relaxed(p)) >> 32) != round) timer.poll(watch, rank, round);
    return word;
}
__device__ inline void wait_flag(const u64 *p, u64 value, int rank, Watchdog watch) {
    Timer timer;
    while (load_acquire(p) < value) timer.poll(watch, rank, (unsigned)(value >> 32));
}

// The number of the current round. The last block of a kernel increments it, after all blocks have read it.
__device__ inline unsigned next_round(const u32 *state) { return *(const volatile unsigned *)state + 1; }
__device__ inline void end_round(u32 *state) {
    __syncthreads();
    if (threadIdx.x || atomicAdd(&state[1], 1) != gridDim.x - 1) return;
    state[1] = 0;
    atomicAdd(&state[0], 1);
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void assign(float &dst, float x) { dst = x; }
__device__ inline void assign(__half &dst, float x) { dst = __float2half_rn(x); }
__device__ inline void assign(__nv_bfloat16 &dst, float x) { dst = __float2bfloat16_rn(x); }

// Elements that are moved together, a word of 4 bytes (`unsigned`) or a vector of 16 (`uint4`), and sums of such
// elements.
template <class T, class Bits> struct Accumulators {
    static const int N = sizeof(Bits)/sizeof(T);
    float x[N];
    __device__ Accumulators() {
        for (int i = 0; i < N; i++) x[i] = 0;
    }
    __device__ void add(Bits bits) {
        const T *y = reinterpret_cast<const T *>(&bits);
        #pragma unroll
        for (int i = 0; i < N; i++) x[i] += to_float(y[i]);
    }
    __device__ Bits to_bits() const {
        Bits bits;
        T *y = reinterpret_cast<T *>(&bits);
        #pragma unroll
        for (int i = 0; i < N; i++) assign(y[i], x[i]);
        return bits;
    }
};

// One shot, for small arrays: one 8-byte store carries a 4-byte word and the round. Such a store is atomic, so the word
// is its own flag and needs no fence. n counts words.
template <class T> __global__ void __launch_bounds__(THREADS)
all_reduce_words(const T *x, T *out, long long n, const u64 *inboxes, long long slot, u32 *state, u64 report,
                 u64 timeout, int rank, int ranks) {
    const unsigned round = next_round(state);
    const Watchdog watch = {(u64 *)report, timeout};
    const long long first = blockIdx.x*(long long)THREADS + threadIdx.x, step = gridDim.x*(long long)THREADS;
    const long long start = (round & 1)*ranks*slot;
    for (long long i = first; i < n; i += step) {
        const u64 word = (u64)round << 32 | ((const unsigned *)x)[i];
        for (int p = 1; p < ranks; p++) store_relaxed((u64 *)inboxes[(rank + p) % ranks] + start + rank*slot + i, word);
    }
    const u64 *inbox = (const u64 *)inboxes[rank] + start;
    for (long long i = first; i < n; i += step) {
        const unsigned own = ((const unsigned *)x)[i];
        Accumulators<T, unsigned> accumulators;
        for (int r = 0; r < ranks; r++)
            accumulators.add(r == rank ? own : (unsigned)wait_word(inbox + r*slot + i, round, r, watch));
        ((unsigned *)out)[i] = accumulators.to_bits();
    }
    end_round(state);
}

// Chunks with flags, for large arrays. Block b of a rank exchanges chunks b, b + gridDim.x, ... with block b of the
// other ranks. flags[r] + (stage*MAX_BLOCKS + b)*ranks + s counts the chunks of this round that rank s has sent to
// rank r.
struct Exchange {
    const u64 *flags;
    u64 round;
    int rank, ranks;
    Watchdog watch;
    __device__ u64 *flag(int owner, int stage, int source) const {
        return (u64 *)flags[owner] + (stage*MAX_BLOCKS + blockIdx.x)*ranks + source;
    }
    // All threads of the block call both functions. After `signal`, other ranks may read what this block has stored.
    __device__ void signal(int stage, int chunks) const {
        __syncthreads();
        const int p = threadIdx.x;
        if (p < ranks && p != rank) store_release(flag(p, stage, rank), round << 32 | chunks);
    }
    __device__ void wait(int stage, int chunks) const {
        const int p = threadIdx.x;
        if (p < ranks && p != rank) wait_flag(flag(rank, stage, p), round << 32 | chunks, p, watch);
        __syncthreads();
    }
};

// Chunk k of this block, of an array of n vectors. All loads of a chunk are issued before its first store.
struct Chunk {
    long long first, n;
    __device__ Chunk(int k, long long n) : first((blockIdx.x + k*(long long)gridDim.x)*CHUNK + threadIdx.x), n(n) {}
    template <class F> __device__ void apply(F f) const {
        #pragma unroll
        for (int v = 0; v < VECTORS; v++)
            if (first + v*THREADS < n) f(v, first + v*THREADS);
    }
};
__device__ inline int count_chunks(long long n) {
    const long long chunks = (n + CHUNK - 1)/CHUNK;
    return chunks <= blockIdx.x ? 0 : (int)((chunks - blockIdx.x + gridDim.x - 1)/gridDim.x);
}
__device__ inline void load(uint4 *vectors, const uint4 *src, Chunk chunk) {
    chunk.apply([&](int v, long long i) { vectors[v] = src[i]; });
}
__device__ inline void store(const uint4 *vectors, uint4 *dst, Chunk chunk) {
    chunk.apply([&](int v, long long i) { dst[i] = vectors[v]; });
}
// Adds a chunk of `own` and those of all other ranks, which are `stride` vectors apart in `inbox`.
template <class T> __device__ inline void reduce_chunk(uint4 *total, const uint4 *own, const uint4 *inbox,
                                                       long long stride, Chunk chunk, int rank, int ranks) {
    Accumulators<T, uint4> accumulators[VECTORS];
    uint4 vectors[VECTORS];
    #pragma unroll 1
    for (int r = 0; r < ranks; r++) {
        load(vectors, r == rank ? own : inbox + r*stride, chunk);
        chunk.apply([&](int v, long long) { accumulators[v].add(vectors[v]); });
    }
    chunk.apply([&](int v, long long) { total[v] = accumulators[v].to_bits(); });
}

// One shot: each rank sends its whole array to all others. n counts vectors of 16 bytes.
template <class T> __global__ void __launch_bounds__(THREADS)
all_reduce_one_shot(const T *x, T *out, long long n, const u64 *inboxes, long long slot, const u64 *flags,
                    u32 *state, u64 report, u64 timeout, int rank, int ranks) {
    uint4 vectors[VECTORS];
    const unsigned round = next_round(state);
    const Exchange exchange = {flags, round, rank, ranks, {(u64 *)report, timeout}};
    const long long start = (round & 1)*ranks*slot;
    const int chunks = count_chunks(n);
    for (int k = 0; k < chunks + LEAD; k++) {
        if (k < chunks) {
            load(vectors, (const uint4 *)x, Chunk(k, n));
            #pragma unroll 1
            for (int p = 1; p < ranks; p++)
                store(vectors, (uint4 *)inboxes[(rank + p) % ranks] + start + rank*slot, Chunk(k, n));
            exchange.signal(0, k + 1);
        }
        if (k < LEAD) continue;
        exchange.wait(0, k - LEAD + 1);
        reduce_chunk<T>(vectors, (const uint4 *)x, (const uint4 *)inboxes[rank] + start, slot, Chunk(k - LEAD, n), rank,
                        ranks);
        store(vectors, (uint4 *)out, Chunk(k - LEAD, n));
    }
    end_round(state);
}

// Two shots: rank r adds part r of the array (reduce-scatter), and sends the sums to all others (all-gather). n
// counts vectors of 16 bytes, `part` those of a part. An inbox has `ranks` parts that others send for the sum, then
// n sums. Neither needs a second slot: a rank that has all sums knows that all ranks have read their parts, and sums
// of the next round are sent only after parts of that round have arrived.
template <class T> __global__ void __launch_bounds__(THREADS)
all_reduce_two_shots(const T *x, T *out, long long n, long long part, const u64 *inboxes, const u64 *flags,
                     u32 *state, u64 report, u64 timeout, int rank, int ranks) {
    uint4 vectors[VECTORS];
    const Exchange exchange = {flags, next_round(state), rank, ranks, {(u64 *)report, timeout}};
    const uint4 *own = (const uint4 *)x, *inbox = (const uint4 *)inboxes[rank];
    const int chunks = count_chunks(part);
    auto part_chunk = [=](int k, int owner) { return Chunk(k, min(part, max(n - owner*part, 0LL))); };
    for (int k = 0; k < chunks + 2*LEAD; k++) {
        if (k < chunks) {
            #pragma unroll 1
            for (int p = 1; p < ranks; p++) {
                const int owner = (rank + p) % ranks;
                load(vectors, own + owner*part, part_chunk(k, owner));
                store(vectors, (uint4 *)inboxes[owner] + rank*part, part_chunk(k, owner));
            }
            exchange.signal(0, k + 1);
        }
        if (k >= LEAD && k - LEAD < chunks) {
            const Chunk chunk = part_chunk(k - LEAD, rank);
            exchange.wait(0, k - LEAD + 1);
            reduce_chunk<T>(vectors, own + rank*part, inbox, part, chunk, rank, ranks);
            store(vectors, (uint4 *)out + rank*part, chunk);
            #pragma unroll 1
            for (int p = 1; p < ranks; p++)
                store(vectors, (uint4 *)inboxes[(rank + p) % ranks] + (ranks + rank)*part, chunk);
            exchange.signal(1, k - LEAD + 1);
        }
        if (k < 2*LEAD) continue;
        exchange.wait(1, k - 2*LEAD + 1);
        #pragma unroll 1
        for (int p = 1; p < ranks; p++) {
            const int owner = (rank + p) % ranks;
            load(vectors, inbox + (ranks + owner)*part, part_chunk(k - 2*LEAD, owner));
            store(vectors, (uint4 *)out + owner*part, part_chunk(k - 2*LEAD, owner));
        }
    }
    end_round(state);
}

// Begins a round of copies: counts it, and waits until all other ranks have begun it. `started` has the addresses of an
// array of flags per rank; flag p of rank r is the last round that rank p has begun, so that it has ended all earlier
// ones, and others may write to its memory. The counter is in the memory of the GPU, so that a CUDA graph can repeat a
// call.
__global__ void begin_round(CopyState *state, const u64 *started, int rank, int ranks) {
    const u32 round = (u32)state->round + 1;
    const int p = threadIdx.x;
    __syncthreads();
    if (p == rank) state->round = round;
    if (p >= ranks || p == rank) return;
    store_release((u32 *)started[p] + rank, round);
    wait_arrival((const u32 *)started[rank] + p, round, p, {state->report, state->timeout});
}

// Waits in stream order for a flag that the copy engine of another rank stores after a copy.
__global__ void wait_copy(const u32 *flag, const CopyState *state, int source) {
    wait_arrival(flag, (u32)state->round, source, {state->report, state->timeout});
}

// Adds this rank's array of n elements and those of the other ranks, `stride` elements apart, in the order of the
// ranks.
template <class T> __global__ void __launch_bounds__(THREADS)
add_partial_sums(const T *own, const T *inbox, T *out, long long n, long long stride, int rank, int ranks) {
    const long long i = blockIdx.x*(long long)THREADS + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int r = 0; r < ranks; r++) sum += to_float(r == rank ? own[i] : inbox[r*stride + i]);
    assign(out[i], sum);
}
