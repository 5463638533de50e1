// The cross entropy of rows of `width` logits in two passes: `losses` reads a row and saves two values, from which
// `gradients` computes the gradient. The probabilities are not stored.
// Defined above: the types From (of logits) and Sum (of all arithmetic), V (elements per load), THREADS (at least 2 V),
// and AHEAD (loads in flight).
struct alignas(V * sizeof(From)) Pack { From at[V]; };

// A row may begin at any address, so there are single elements before the first aligned pack and after the last one.
struct Row {
    unsigned width, head, packs, singles;                   // head: single elements before the packs
    __device__ Row(const From *elements, unsigned width) : width(width) {
        const unsigned past = (size_t)elements % sizeof(Pack) / sizeof(From);
        head = min(width, (V - past) % V), packs = (width - head) / V, singles = width - packs * V;
    }
    __device__ unsigned index_of(unsigned single) const { return single < head ? single : width - singles + single; }
    __device__ unsigned pack_of(long long i) const {        // the pack of element i, or ~0u for a single element
        return i >= head && i < head + packs * V ? (unsigned)(i - head) / V : ~0u;
    }
};

constexpr Sum LOG2E = 1.44269504088896340736, LN2 = 0.69314718055994530942;
constexpr Sum LOWEST = sizeof(Sum) == 4 ? -3e38 : -1e308;   // finite, because infinity - infinity is NaN

__device__ float pow2(float x) {                          // 2^x; 0 where it is below the smallest normal number
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ double pow2(double x) { return exp2(x); }

// e^x is 2^(x LOG2E). `shift` is the largest logit times LOG2E, `sum` the sum of all 2^(x LOG2E - shift), none of which
// exceeds 1. The shift is rounded once and used consistently, so its rounding error cancels in the result.
struct Sums { Sum shift, sum; };
__device__ float shift_of(float x) { return __fmul_rn(x, LOG2E); }
__device__ double shift_of(double x) { return __dmul_rn(x, LOG2E); }
__device__ Sum exp_minus(Sum x, Sum shift) { return pow2(fma(x, LOG2E, -shift)); }

__device__ Sums join(Sums a, Sums b) {
    Sum shift = a.shift > b.shift ? a.shift : b.shift;
    return {shift, a.sum * pow2(a.shift - shift) + b.sum * pow2(b.shift - shift)};
}

template<int N> __device__ void add(Sums &sums, const From (&given)[N]) {
    Sum x[N], most = (Sum)given[0];
    #pragma unroll
    for (int n = 0; n < N; n++) {
        x[n] = (Sum)given[n];
        most = x[n] > most ? x[n] : most;
    }
    Sum shift = shift_of(most);
    if (shift > sums.shift) sums = {shift, sums.sum * pow2(sums.shift - shift)};
    #pragma unroll
    for (int n = 0; n < N; n++) sums.sum += exp_minus(x[n], sums.shift);
}
__device__ void add(Sums &sums, From x) {
    const From one[1] = {x};
    add(sums, one);
}

__device__ Sums warp_join(Sums sums, int lanes) {  // each lane gets the joined Sums of its group of `lanes` lanes
    for (int d = lanes / 2; d > 0; d /= 2)
        sums = join(sums, {__shfl_xor_sync(~0u, sums.shift, d), __shfl_xor_sync(~0u, sums.sum, d)});
    return sums;
}

__device__ Sums block_join(Sums sums) {                     // each thread gets the joined Sums of its block
    __shared__ Sums of_warp[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    sums = warp_join(sums, 32);
    if (lane == 0) of_warp[warp] = sums;
    __syncthreads();
    return warp_join(lane < THREADS / 32 ? of_warp[lane] : Sums{LOWEST, 0}, 32);
}

__device__ Sum loss_of(Sum x, Sums sums) {                  // log(sum of e^x) - x of the target
    return (log2(sums.sum) + fma(x, -LOG2E, sums.shift)) * LN2;
}

__device__ From gradient_of(From x, Sums sums, Sum factor, bool target) {    // (softmax - 1 for the target) * factor
    return From((exp_minus((Sum)x, sums.shift) / sums.sum - target) * factor);
}

__device__ Pack gradient_of(Pack pack, Sums sums, Sum factor) {              // where the target is not among them
    factor /= sums.sum;
    #pragma unroll
    for (int v = 0; v < V; v++) pack.at[v] = From(exp_minus((Sum)pack.at[v], sums.shift) * factor);
    return pack;
}

__device__ Pack load(const Pack *from) {                    // past the L1 cache: it is read once
    if constexpr (sizeof(Pack) != 16) return *from;
    uint4 words = __ldcs((const uint4 *)from);
    Pack pack;
    memcpy(&pack, &words, sizeof(Pack));
    return pack;
}

__device__ void store(Pack *to, const Pack &pack) {
    if constexpr (sizeof(Pack) != 16) *to = pack;
    else __stcs((uint4 *)to, *(const uint4 *)&pack);
}

// One block per row
__global__ void __launch_bounds__(THREADS)
losses(const From *x, const long long *target, Sum *loss, Sum *row_stats, unsigned width, long long ignored) {
    const size_t row = blockIdx.x;
    const From *elements = x + row * width;
    const Row parts(elements, width);
    const Pack *packs = (const Pack *)(elements + parts.head);
    Sums sums = {LOWEST, 0};
    for (unsigned i = threadIdx.x; i < parts.packs; i += AHEAD * THREADS) {
        Pack pack[AHEAD];
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)                     // all loads first, then what needs them
            if (i + a * THREADS < parts.packs) pack[a] = packs[i + a * THREADS];
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (i + a * THREADS < parts.packs) add(sums, pack[a].at);
    }
    if (threadIdx.x < parts.singles) add(sums, elements[parts.index_of(threadIdx.x)]);
    sums = block_join(sums);
    if (threadIdx.x != 0) return;
    const long long t = target[row];
    loss[row] = t == ignored ? Sum(0) : loss_of((Sum)elements[t], sums);
    row_stats[2 * row] = sums.shift, row_stats[2 * row + 1] = sums.sum;
}

// `blocks` blocks per row, each with `share` packs; `gradient` may be `x`, and has the same alignment. The upstream
// gradient is one value per row (each = 1), or one for all (each = 0); all is multiplied by `scale`.
__global__ void __launch_bounds__(THREADS)
gradients(const From *x, const long long *target, const Sum *row_stats, const Sum *upstream, const Sum *scale,
          From *gradient, unsigned width, unsigned share, int blocks, int each, long long ignored) {
    const size_t row = blockIdx.x / blocks;
    const unsigned part = blockIdx.x % blocks;
    const long long t = target[row];
    const From *elements = x + row * width;
    From *made = gradient + row * width;
    const Row parts(elements, width);
    const Pack *packs = (const Pack *)(elements + parts.head);
    Pack *to = (Pack *)(made + parts.head);
    const Sums sums = {row_stats[2 * row], row_stats[2 * row + 1]};
    const Sum factor = upstream[row * each] * *scale;
    const unsigned hit = parts.pack_of(t), begin = part * share, end = min(parts.packs, begin + share);
    if (part == 0 && threadIdx.x < parts.singles) {
        const unsigned i = parts.index_of(threadIdx.x);
        made[i] = t == ignored ? From(0) : gradient_of(elements[i], sums, factor, i == t);
    }
    for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) {
        if (t == ignored) {
            store(to + i, Pack{});
            continue;
        }
        const From old = i == hit ? elements[t] : From(0);   // read before it may be overwritten
        store(to + i, gradient_of(load(packs + i), sums, factor));
        if (i == hit) made[t] = gradient_of(old, sums, factor, true);
    }
}
