// Sorts each row in one warp, stably, by a bitonic network of shuffles. A lane holds ITEMS elements: those at lane,
// lane + 32, ... of the row. Elements are compared by key, then by position, so that equal keys keep their order.
// Requires definitions of the constants of `order`, THREADS, ITEMS (a power of two), the type Stored (of a value),
// WITH_VALUES, WITH_POSITIONS (the index of each key is written instead of the keys).
struct Element { Bits ordered; int position; };

__device__ __forceinline__ bool precedes(Element a, Element b) {
    return a.ordered < b.ordered || (a.ordered == b.ordered && a.position < b.position);
}

__global__ void __launch_bounds__(THREADS)
sort_short_rows(const Bits *keys, Bits *sorted, const Stored *values, Stored *sorted_values, long long *positions,
                int width, long long rows) {
    const int lane = threadIdx.x % 32;
    const long long row_index = (long long)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (row_index >= rows) return;                          // the whole warp
    const size_t row = row_index * width;
    Element elements[ITEMS];
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {                       // past the end of the row: after all keys
        int p = lane + i * 32;
        elements[i] = {p < width ? order(keys[row + p]) : Bits(~Bits(0)), p};
    }
    #pragma unroll
    for (int size = 2; size <= 32 * ITEMS; size *= 2)       // merges pairs of sorted sequences into one of this size
        #pragma unroll
        for (int stride = size / 2; stride > 0; stride /= 2)
            #pragma unroll
            for (int i = 0; i < ITEMS; i++) {
                int p = lane + i * 32;
                bool ascending = (p & size) == 0 || size == 32 * ITEMS;
                if (stride < 32) {
                    Element other = {__shfl_xor_sync(~0u, elements[i].ordered, stride),
                                     __shfl_xor_sync(~0u, elements[i].position, stride)};
                    bool keeps_first = ((p & stride) == 0) == ascending;
                    if (precedes(other, elements[i]) == keeps_first) elements[i] = other;
                } else if ((p & stride) == 0) {             // both elements are in this lane
                    int j = i ^ stride / 32;
                    if (precedes(elements[j], elements[i]) == ascending) {
                        Element other = elements[i];
                        elements[i] = elements[j];
                        elements[j] = other;
                    }
                }
            }
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int index = lane + i * 32;
        if (index >= width) continue;
        if (WITH_POSITIONS) positions[row + index] = elements[i].position;
        else sorted[row + index] = keys[row + elements[i].position];
        if (WITH_VALUES) sorted_values[row + index] = values[row + elements[i].position];
    }
}
