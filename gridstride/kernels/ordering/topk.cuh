// Finds the first K elements of each row in the order of `order`, sorted, and reads the row once. `blocks` blocks share
// a row: each of them writes its first K elements, as candidates, and a second launch finds the first K of these.
// Requires definitions of the constants of `order` (KEY_BITS up to 32; DESCENDING for the largest elements), THREADS,
// ITEMS (elements per thread and iteration), V (elements per load), K, CAPACITY (of the buffer; a power of two, at
// least K + min(K, THREADS) * ITEMS), SORT_THRESHOLD (the buffer is sorted when it has more words), GROUPS (of threads,
// for the first limit), CANDIDATES (reads the candidates of another launch), the type Loaded (of what a thread loads:
// Bits, or Word of candidates), FINAL (writes values and indices), PDL_PRIMARY and PDL_SECONDARY (of the two kernels of
// a programmatic dependent launch).
typedef unsigned long long Word;
struct alignas(V * sizeof(Bits)) Vector { Bits data[V]; };
constexpr int STEP = THREADS * ITEMS;

// An element as one word, smaller words first: its order, then its index. No two words of a row are equal, so the
// result does not depend on the order in which threads work. NONE comes after all elements.
constexpr Word NONE = ~0ull;
__device__ __forceinline__ Word make_word(Bits ordered, unsigned index) { return (Word)ordered << 32 | index; }

// Sorts the first `size` words of an array in shared memory by a bitonic network; `size` is a power of two. Exchanges
// at a distance of up to 32 stay within the 64 words of one warp, so they need no barrier of the block.
__device__ void sort_words(Word *words, int size) {
    __syncthreads();
    for (int length = 2; length <= size; length *= 2)
        for (int stride = length / 2; stride > 0; stride /= 2) {
            for (int pair = threadIdx.x; pair < size / 2; pair += THREADS) {
                int a = 2 * pair - (pair & (stride - 1)), b = a + stride;
                Word low = words[a], high = words[b];
                if ((low > high) == ((a & length) == 0 || length == size)) {
                    words[a] = high;
                    words[b] = low;
                }
            }
            if (stride > 32 || (stride == 1 && length >= 64)) __syncthreads();
            else __syncwarp();
        }
    __syncthreads();
}

__device__ __forceinline__ int pow2_at_least(int n) { return n <= 2 ? 2 : 1 << (32 - __clz(n - 1)); }

// Returns a limit from the smallest words of groups of threads: the K-th smallest of them, plus 1. K groups have a word
// below it, so a word that is not below it is not one of the first K. At most K groups have words below it.
__device__ __forceinline__ Word limit_of(Word thread_min, int groups, Word *group_minima) {
    const int lanes = THREADS / groups;
    for (int d = 1; d < lanes; d *= 2) thread_min = min(thread_min, __shfl_xor_sync(~0u, thread_min, d));
    if (threadIdx.x % lanes == 0) group_minima[threadIdx.x / lanes] = thread_min;
    sort_words(group_minima, groups);
    return group_minima[K - 1] + (group_minima[K - 1] < NONE);
}

__global__ void __launch_bounds__(THREADS, 1024 / THREADS)            // 64 registers
topk(const Bits *x, const Word *candidates, Word *candidates_out, Bits *values, long long *indices, int row_width,
     int width, int blocks, int block_elements) {
    extern __shared__ __align__(16) unsigned char memory[];
    Word *buffer = (Word *)memory, *group_minima = buffer + CAPACITY;    // `group_minima`: a word per thread
    __shared__ int count, has_failed;
    if (PDL_PRIMARY) asm volatile("griddepcontrol.launch_dependents;");
    if (PDL_SECONDARY) asm volatile("griddepcontrol.wait;" ::: "memory");
    const int tid = threadIdx.x, part = blockIdx.x % blocks;
    const size_t row = blockIdx.x / blocks;
    const int begin = part * block_elements, end = min(width, begin + block_elements);
    const Bits *elements = x + row * row_width;
    const Word *words = candidates + row * width;
    Word limit = NONE;                                      // a word that is not smaller is not one of the first K
    if (tid == 0) {
        count = has_failed = 0;
        group_minima[0] = 0;
    }

    Loaded loaded[ITEMS], next[ITEMS];                      // of this iteration, and of the next one
    auto index_of = [&](int start, int i) { return start + (i / V * THREADS + tid) * V + i % V; };
    auto load = [&](int start) {
        #pragma unroll
        for (int i = 0; i < ITEMS; i += V) {
            int first = index_of(start, i);
            if (CANDIDATES)
                for (int v = 0; v < V; v++) next[i + v] = first + v < end ? (Loaded)words[first + v] : (Loaded)NONE;
            else if (first + V <= end) {
                Vector vector = *(const Vector *)(elements + first);
                #pragma unroll
                for (int v = 0; v < V; v++) next[i + v] = vector.data[v];
            } else
                for (int v = 0; v < V; v++) next[i + v] = first + v < end ? elements[first + v] : Bits(0);
        }
    };
    load(begin);
    __syncthreads();
    if (CANDIDATES) {
        // The candidates are sorted lists of K words. The first `first` words of each list are at least K words in
        // total, so the largest of them, which is the last one of some list, gives a limit.
        const int lists = width / K, first = (K + lists - 1) / lists;
        for (int i = tid; i < lists; i += THREADS) atomicMax(&group_minima[0], words[i * K + first - 1]);
        __syncthreads();
        limit = group_minima[0] + (group_minima[0] < NONE);
        __syncthreads();
    }
    for (int start = begin; start < end; start += STEP) {
        #pragma unroll
        for (int i = 0; i < ITEMS; i++) loaded[i] = CANDIDATES ? next[i] : (Loaded)order((Bits)next[i]);
        if (start + STEP < end) load(start + STEP);
        const bool is_full = start + STEP <= end;
        auto word_at = [&](int i) -> Word {
            if (CANDIDATES) return loaded[i];
            int index = index_of(start, i);
            return is_full || index < end ? make_word(loaded[i], index) : NONE;
        };
        auto thread_min = [&] {
            Word smallest_word = NONE;
            #pragma unroll
            for (int i = 0; i < ITEMS; i++) smallest_word = min(smallest_word, word_at(i));
            return smallest_word;
        };
        if (!CANDIDATES && GROUPS > K && start == begin && end - begin > SORT_THRESHOLD)
            limit = limit_of(thread_min(), GROUPS, group_minima);
        bool is_appended = false, is_full_buffer;
        do {                                                // a thread appends all its words below the limit, or none
            bool is_last = false;
            int num_below = 0;
            #pragma unroll
            for (int i = 0; i < ITEMS; i++) num_below += word_at(i) < limit;
            if (num_below && !is_appended) {
                int index = atomicAdd(&count, num_below);
                is_appended = index + num_below <= CAPACITY;
                is_last = index + num_below > SORT_THRESHOLD;
                if (is_appended) {
                    #pragma unroll
                    for (int i = 0; i < ITEMS; i++) if (word_at(i) < limit) buffer[index++] = word_at(i);
                } else {
                    for (; index < CAPACITY; index++) buffer[index] = NONE;
                    atomicExch(&has_failed, 1);
                }
            }
            is_full_buffer = __syncthreads_or(is_last);
            if (!is_full_buffer) break;
            int num_kept = min(count, CAPACITY), size = pow2_at_least(max(num_kept, K));
            is_full_buffer = has_failed;                    // then try again
            for (int i = num_kept + tid; i < size; i += THREADS) buffer[i] = NONE;
            sort_words(buffer, size);
            if (num_kept >= K) limit = min(limit, buffer[K - 1]);
            if (is_full_buffer && THREADS > K) limit = min(limit, limit_of(thread_min(), THREADS, group_minima));
            if (tid == 0) {
                count = min(num_kept, K);
                has_failed = 0;
            }
            __syncthreads();
        } while (is_full_buffer);
    }
    __syncthreads();
    int num_words = count, size = pow2_at_least(max(num_words, K));
    for (int i = num_words + tid; i < size; i += THREADS) buffer[i] = NONE;
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
