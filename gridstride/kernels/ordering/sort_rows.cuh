// Sorts each row in one block, stably, by a radix sort in shared memory.
// Requires definitions of the constants of `order` and `rank`, ITEMS (keys per thread), the type Stored (of a value),
// WITH_VALUES (values are moved, too), WITH_POSITIONS (the index of each key is written instead of the keys).
constexpr int TILE = THREADS * ITEMS;

__global__ void __launch_bounds__(THREADS)
sort_rows(const Bits *keys, Bits *sorted, const Stored *values, Stored *sorted_values, long long *positions,
          int width) {
    extern __shared__ __align__(16) unsigned char memory[];
    unsigned(*counters)[DIGITS] = (unsigned(*)[DIGITS])memory;           // per warp
    Bits *exchange = (Bits *)(counters + WARPS);
    unsigned short *exchange_positions = (unsigned short *)(exchange + TILE);
    __shared__ unsigned warp_sums[DIGITS / 32];
    constexpr bool HAS_PAYLOAD = WITH_VALUES || WITH_POSITIONS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, tid = threadIdx.x, first = warp * 32 * ITEMS + lane;
    const size_t row = (size_t)blockIdx.x * width;
    Bits key[ITEMS];
    unsigned short position[ITEMS];
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        position[i] = first + i * 32;
        key[i] = position[i] < width ? keys[row + position[i]] : Bits(0);
    }
    for (int pass = 0; pass < sizeof(Bits); pass++) {
        for (int i = tid; i < WARPS * DIGITS; i += THREADS) counters[i / DIGITS][i % DIGITS] = 0;
        __syncthreads();
        unsigned rank[ITEMS], digit[ITEMS];
        #pragma unroll
        for (int i = 0; i < ITEMS; i++) {                   // elements past the end of the row stay there
            digit[i] = first + i * 32 < width ? unsigned(order(key[i]) >> 8 * pass) & (DIGITS - 1) : DIGITS - 1;
            rank[i] = warp_rank(digit[i], counters[warp]);
        }
        __syncthreads();
        unsigned warp_prefixes[WARPS], count = 0;
        if (tid < DIGITS)
            #pragma unroll
            for (int w = 0; w < WARPS; w++) {
                warp_prefixes[w] = count;
                count += counters[w][tid];
            }
        const unsigned start = scan_digits(count, warp_sums);
        if (tid < DIGITS)
            #pragma unroll
            for (int w = 0; w < WARPS; w++) counters[w][tid] = start + warp_prefixes[w];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            rank[i] += counters[warp][digit[i]];
            exchange[rank[i]] = key[i];
            if (HAS_PAYLOAD) exchange_positions[rank[i]] = position[i];
        }
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            key[i] = exchange[first + i * 32];
            if (HAS_PAYLOAD) position[i] = exchange_positions[first + i * 32];
        }
    }
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int index = first + i * 32;
        if (index >= width) continue;
        if (WITH_POSITIONS) positions[row + index] = position[i];
        else sorted[row + index] = key[i];
        if (WITH_VALUES) sorted_values[row + index] = values[row + position[i]];
    }
}
