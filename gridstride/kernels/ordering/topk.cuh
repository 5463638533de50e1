// Finds the K first elements of each row in the order of `order`, sorted, with one read of the row. `blocks` blocks
// share a row: each of them writes its K first elements, as candidates, and a second launch finds the K first of these.
// Defined above: what `order` needs (KEY_BITS up to 32; DESCENDING for the largest elements), THREADS, ITEMS (elements
// per thread and iteration), V (elements per load), K, CAPACITY (of the buffer; a power of two, at least
// K + min(K, THREADS) * ITEMS), CANDIDATES (reads the candidates of another launch), FINAL (writes values and indices),
// PDL_FIRST and PDL_SECOND (of two launches with programmatic dependent launch).
typedef unsigned long long Word;
struct alignas(V * sizeof(Bits)) Pack { Bits at[V]; };

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

__global__ void __launch_bounds__(THREADS)
topk(const Bits *x, const Word *candidates, Word *candidates_out, Bits *values, long long *indices, int row_width,
     int width, int blocks, int share) {
    extern __shared__ __align__(16) unsigned char memory[];
    Word *buffer = (Word *)memory, *smallest = buffer + CAPACITY;        // `smallest`: a word per thread
    __shared__ int count, total;
    if (PDL_FIRST) asm volatile("griddepcontrol.launch_dependents;");
    if (PDL_SECOND) asm volatile("griddepcontrol.wait;" ::: "memory");
    const int tid = threadIdx.x, part = blockIdx.x % blocks;
    const size_t row = blockIdx.x / blocks;
    const int begin = part * share, end = min(width, begin + share);
    const Bits *elements = x + row * row_width;
    Word limit = NONE;                                      // a word that is not smaller is not one of the K first
    if (tid == 0) count = total = 0;
    __syncthreads();
    for (int at = begin; at < end; at += THREADS * ITEMS) {
        Word words[ITEMS];
        #pragma unroll
        for (int i = 0; i < ITEMS; i += V) {
            int first = at + (i / V * THREADS + tid) * V;
            if (CANDIDATES)
                for (int v = 0; v < V; v++) words[i + v] = first + v < end ? candidates[row * width + first + v] : NONE;
            else if (first + V <= end) {
                Pack pack = *(const Pack *)(elements + first);
                #pragma unroll
                for (int v = 0; v < V; v++) words[i + v] = word(order(pack.at[v]), first + v);
            } else
                for (int v = 0; v < V; v++)
                    words[i + v] = first + v < end ? word(order(elements[first + v]), first + v) : NONE;
        }
        auto number_below = [&](Word limit) {
            int number = 0;
            #pragma unroll
            for (int i = 0; i < ITEMS; i++) number += words[i] < limit;
            return number;
        };
        int mine = number_below(limit);
        if (!__syncthreads_or(mine)) continue;
        if (mine) atomicAdd(&total, mine);                  // total: with those in the buffer
        __syncthreads();
        if (total > CAPACITY) {
            int kept = count, size = power_of_two(max(kept, K));
            for (int i = kept + tid; i < size; i += THREADS) buffer[i] = NONE;
            if (kept) sort_words(buffer, size);
            if (kept >= K) limit = min(limit, buffer[K - 1]);
            if (K < THREADS) {
                // Of the smallest words per thread, the K-th smallest is a limit: K threads have a word up to it, so at
                // most K * ITEMS words are up to it.
                Word least = NONE;
                #pragma unroll
                for (int i = 0; i < ITEMS; i++) least = min(least, words[i]);
                smallest[tid] = least;
                sort_words(smallest, THREADS);
                limit = min(limit, smallest[K - 1] + (smallest[K - 1] < NONE));
            }
            mine = number_below(limit);
            if (tid == 0) count = total = min(kept, K);
            __syncthreads();
        }
        if (mine) {
            int to = atomicAdd(&count, mine);
            #pragma unroll
            for (int i = 0; i < ITEMS; i++) if (words[i] < limit) buffer[to++] = words[i];
        }
        __syncthreads();
        if (tid == 0) total = count;
        __syncthreads();
    }
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
