// Finds the K first elements of each row in the order of `order`, sorted, with one read of the row. `blocks` blocks
// share a row: each of them writes its K first elements, as candidates, and a second launch finds the K first of these.
// Defined above: what `order` needs (KEY_BITS up to 32; DESCENDING for the largest elements), THREADS, ITEMS (elements
// per thread and iteration), V (elements per load), K, CAPACITY (of the buffer; a power of two, at least
// K + min(K, THREADS) * ITEMS), CROWDED (the buffer is sorted when it has more), GROUPS (of threads, for the first
// limit), CANDIDATES (reads the candidates of another launch), the type Held (of what a thread loads: Bits, or Word of
// candidates), FINAL (writes values and indices), PDL_FIRST and PDL_SECOND (of two launches with programmatic dependent
// launch).
typedef unsigned long long Word;
struct alignas(V * sizeof(Bits)) Pack { Bits at[V]; };
constexpr int STEP = THREADS * ITEMS;

// An element as one word, smaller words first: its order, then its index. No two words of a row are equal, so the
// result does not depend on the order in which threads work. NONE comes after all elements.
constexpr Word NONE = ~0ull;
__device__ __forceinline__ Word word(Bits ordered, unsigned index) { return (Word)ordered << 32 | index; }

// Sorts the first `size` words of an array in shared memory by a bitonic network; `size` is a power of two. A warp that
// exchanges words at a distance of up to 32 works on 64 words of its own.
__device__ void sort_words(Word *at, int size) {
    __syncthreads();
    for (int length = 2; length <= size; length *= 2)
        for (int stride = length / 2; stride > 0; stride /= 2) {
            for (int pair = threadIdx.x; pair < size / 2; pair += THREADS) {
                int a = 2 * pair - (pair & (stride - 1)), b = a + stride;
                Word low = at[a], high = at[b];
                if ((low > high) == ((a & length) == 0 || length == size)) {
                    at[a] = high;
                    at[b] = low;
                }
            }
            if (stride > 32 || (stride == 1 && length >= 64)) __syncthreads();
            else __syncwarp();
        }
    __syncthreads();
}

__device__ __forceinline__ int power_of_two(int least) { return least <= 2 ? 2 : 1 << (32 - __clz(least - 1)); }

// Returns a limit from the smallest words of groups of threads: the K-th smallest of them, plus 1. K groups have a word
// below it, so a word that is not below it is not one of the K first. At most K groups have words below it.
__device__ __forceinline__ Word limit_of(Word least, int groups, Word *smallest) {
    const int lanes = THREADS / groups;
    for (int d = 1; d < lanes; d *= 2) least = min(least, __shfl_xor_sync(~0u, least, d));
    if (threadIdx.x % lanes == 0) smallest[threadIdx.x / lanes] = least;
    sort_words(smallest, groups);
    return smallest[K - 1] + (smallest[K - 1] < NONE);
}

__global__ void __launch_bounds__(THREADS, 1024 / THREADS)            // 64 registers
topk(const Bits *x, const Word *candidates, Word *candidates_out, Bits *values, long long *indices, int row_width,
     int width, int blocks, int share) {
    extern __shared__ __align__(16) unsigned char memory[];
    Word *buffer = (Word *)memory, *smallest = buffer + CAPACITY;        // `smallest`: a word per thread
    __shared__ int count, has_failed;
    if (PDL_FIRST) asm volatile("griddepcontrol.launch_dependents;");
    if (PDL_SECOND) asm volatile("griddepcontrol.wait;" ::: "memory");
    const int tid = threadIdx.x, part = blockIdx.x % blocks;
    const size_t row = blockIdx.x / blocks;
    const int begin = part * share, end = min(width, begin + share);
    const Bits *elements = x + row * row_width;
    const Word *words = candidates + row * width;
    Word limit = NONE;                                      // a word that is not smaller is not one of the K first
    if (tid == 0) {
        count = has_failed = 0;
        smallest[0] = 0;
    }

    Held held[ITEMS], next[ITEMS];                          // of this iteration, and of the next one
    auto index_of = [&](int at, int i) { return at + (i / V * THREADS + tid) * V + i % V; };
    auto load = [&](int at) {
        #pragma unroll
        for (int i = 0; i < ITEMS; i += V) {
            int first = index_of(at, i);
            if (CANDIDATES)
                for (int v = 0; v < V; v++) next[i + v] = first + v < end ? (Held)words[first + v] : (Held)NONE;
            else if (first + V <= end) {
                Pack pack = *(const Pack *)(elements + first);
                #pragma unroll
                for (int v = 0; v < V; v++) next[i + v] = pack.at[v];
            } else
                for (int v = 0; v < V; v++) next[i + v] = first + v < end ? elements[first + v] : Bits(0);
        }
    };
    load(begin);
    __syncthreads();
    if (CANDIDATES) {
        // The candidates are sorted lists of K words. The first words of each list, together at least K, are up to the
        // largest of the last of these.
        const int lists = width / K, first = (K + lists - 1) / lists;
        for (int i = tid; i < lists; i += THREADS) atomicMax(&smallest[0], words[i * K + first - 1]);
        __syncthreads();
        limit = smallest[0] + (smallest[0] < NONE);
        __syncthreads();
    }
    for (int at = begin; at < end; at += STEP) {
        #pragma unroll
        for (int i = 0; i < ITEMS; i++) held[i] = CANDIDATES ? next[i] : (Held)order((Bits)next[i]);
        if (at + STEP < end) load(at + STEP);
        const bool whole = at + STEP <= end;
        auto word_at = [&](int i) -> Word {
            if (CANDIDATES) return held[i];
            int index = index_of(at, i);
            return whole || index < end ? word(held[i], index) : NONE;
        };
        auto least_word = [&] {
            Word least = NONE;
            #pragma unroll
            for (int i = 0; i < ITEMS; i++) least = min(least, word_at(i));
            return least;
        };
        if (!CANDIDATES && GROUPS > K && at == begin && end - begin > CROWDED)
            limit = limit_of(least_word(), GROUPS, smallest);
        bool is_appended = false, is_crowded;
        do {                                                // a thread appends all its words below the limit, or none
            bool is_last = false;
            int mine = 0;
            #pragma unroll
            for (int i = 0; i < ITEMS; i++) mine += word_at(i) < limit;
            if (mine && !is_appended) {
                int to = atomicAdd(&count, mine);
                is_appended = to + mine <= CAPACITY;
                is_last = to + mine > CROWDED;
                if (is_appended) {
                    #pragma unroll
                    for (int i = 0; i < ITEMS; i++) if (word_at(i) < limit) buffer[to++] = word_at(i);
                } else {
                    for (; to < CAPACITY; to++) buffer[to] = NONE;
                    atomicExch(&has_failed, 1);
                }
            }
            is_crowded = __syncthreads_or(is_last);
            if (!is_crowded) break;
            int kept = min(count, CAPACITY), size = power_of_two(max(kept, K));
            is_crowded = has_failed;                        // then try again
            for (int i = kept + tid; i < size; i += THREADS) buffer[i] = NONE;
            sort_words(buffer, size);
            if (kept >= K) limit = min(limit, buffer[K - 1]);
            if (is_crowded && THREADS > K) limit = min(limit, limit_of(least_word(), THREADS, smallest));
            if (tid == 0) {
                count = min(kept, K);
                has_failed = 0;
            }
            __syncthreads();
        } while (is_crowded);
    }
    __syncthreads();
    int found = count, size = power_of_two(max(found, K));
    for (int i = found + tid; i < size; i += THREADS) buffer[i] = NONE;
    sort_words(buffer, size);
    for (int i = tid; i < K; i += THREADS) {
        Word w = buffer[i];
        if (FINAL) {
            unsigned index = (unsigned)w;
            indices[row * K + i] = index;
            values[row * K + i] = elements[index];
        } else candidates_out[(size_t)blockIdx.x * K + i] = w;
    }
}
