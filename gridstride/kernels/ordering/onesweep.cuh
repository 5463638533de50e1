// One pass of a radix sort: writes the keys of each row, stably sorted by one digit, to another array. A block takes a
// tile of the row, and finds the position of its first key of each digit by decoupled look-back.
// Defined above: the constants of `order` and `rank`, ITEMS (keys per thread), MIN_BLOCKS (per SM), VALUES (the source
// of the values), the types Value, Payload and Stored (of a value that is read, exchanged and written), WITH_KEYS
// (whether keys are written), SEPARATE (values are exchanged in other shared memory than the keys, at the same time;
// otherwise in the same memory after them, which allows larger tiles).
constexpr int TILE = THREADS * ITEMS;
enum { NO_VALUES, POSITIONS, READ };
// The status of a digit of a tile: a state and a count of keys. INVALID: not counted yet; AGGREGATE: the count of the
// tile; PREFIX (the inclusive prefix): the index in the row after the last key of this digit of this tile.
enum : unsigned { INVALID = 0, AGGREGATE = 1u << 30, PREFIX = 2u << 30, VALUE_MASK = AGGREGATE - 1 };
constexpr int WINDOW = 4;                                   // tiles that a look-back reads at once

// Returns the index in the row of the tile's first key of the digit of this thread; `status` is that of the first tile.
__device__ __forceinline__ unsigned look_back(const volatile unsigned *status, int tile) {
    unsigned before = 0;
    for (int t = tile - 1;; t -= WINDOW) {
        unsigned words[WINDOW];
        #pragma unroll
        for (int w = 0; w < WINDOW; w++) words[w] = t >= w ? status[(t - w) * DIGITS] : (unsigned)PREFIX;
        #pragma unroll
        for (int w = 0; w < WINDOW; w++) {
            while (words[w] == INVALID) words[w] = status[(t - w) * DIGITS];
            before += words[w] & VALUE_MASK;
            if (words[w] & PREFIX) return before;
        }
    }
}

__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
onesweep(const Bits *keys, Bits *sorted, const Value *values, Stored *sorted_values, const unsigned *counts,
         unsigned *status, unsigned *next_status, unsigned *tickets, int width, int tiles, int pass) {
    extern __shared__ __align__(16) unsigned char memory[];
    Bits *exchange = (Bits *)memory;
    Payload *exchange_values = (Payload *)(memory + (SEPARATE ? TILE * sizeof(Bits) : 0));
    __shared__ unsigned counters[WARPS][DIGITS], base[DIGITS], warp_sums[DIGITS / 32];
    __shared__ unsigned ticket;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, tid = threadIdx.x;
    // tiles are numbered in the order in which blocks start, so no block waits for one that has not started
    if (tid == 0) ticket = atomicAdd(&tickets[pass], 1u);
    for (int i = tid; i < WARPS * DIGITS; i += THREADS) counters[i / DIGITS][i % DIGITS] = 0;
    __syncthreads();
    const int row = ticket / tiles, tile = ticket % tiles, begin = tile * TILE, shift = 8 * pass;
    const int tile_keys = min(TILE, width - begin);         // keys in the tile
    const bool is_full = tile_keys == TILE;
    const Bits *from = keys + (size_t)row * width + begin;
    auto digit_of = [&](Bits key) { return unsigned(order(key) >> shift) & (DIGITS - 1); };

    Bits key[ITEMS];
    unsigned ranks[(ITEMS + 1) / 2] = {};                   // two of 16 bits each, so that larger tiles fit
    auto rank_at = [&](int i) { return ranks[i / 2] >> i % 2 * 16 & 0xffff; };
    const int first = warp * 32 * ITEMS + lane;             // a warp reads 32 * ITEMS consecutive keys
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) key[i] = is_full || first + i * 32 < tile_keys ? from[first + i * 32] : Bits(0);
    auto digit_at = [&](int i) {                            // past the end of the row: the last digit
        return is_full || first + i * 32 < tile_keys ? digit_of(key[i]) : DIGITS - 1;
    };
    ranks[0] = warp_rank(digit_at(0), counters[warp]);
    bool is_equal = __shfl_sync(~0u, ranks[0], 31) == 31;   // all digits of the warp's first 32 keys, and then of all
    if (is_equal) {
        #pragma unroll
        for (int i = 1; i < ITEMS; i++) is_equal &= digit_at(i) == digit_at(0);
        is_equal = __all_sync(~0u, is_equal);
    }
    if (is_equal) {
        #pragma unroll
        for (int i = 1; i < ITEMS; i++) ranks[i / 2] |= (i * 32 + lane) << i % 2 * 16;
        if (lane == 0) counters[warp][digit_at(0)] = 32 * ITEMS;
    } else {
        #pragma unroll
        for (int i = 1; i < ITEMS; i++) ranks[i / 2] |= warp_rank(digit_at(i), counters[warp]) << i % 2 * 16;
    }
    __syncthreads();

    // thread d counts digit d: in the warps before each warp, then in the tile
    unsigned before_warp[WARPS], count = 0;
    if (tid < DIGITS)
        #pragma unroll
        for (int w = 0; w < WARPS; w++) {
            before_warp[w] = count;
            count += counters[w][tid];
        }
    const unsigned valid_count = count - (tid == DIGITS - 1 ? TILE - tile_keys : 0);
    volatile unsigned *words = status + (size_t)row * tiles * DIGITS + tid;
    if (tid < DIGITS && tile > 0) words[tile * DIGITS] = AGGREGATE | valid_count;
    const unsigned start = scan_digits(count, warp_sums);   // of digit d in the sorted tile
    if (tid < DIGITS)
        #pragma unroll
        for (int w = 0; w < WARPS; w++) counters[w][tid] = start + before_warp[w];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        ranks[i / 2] += counters[warp][digit_at(i)] << i % 2 * 16;
        exchange[rank_at(i)] = key[i];
    }
    Payload payload[ITEMS];                                 // loaded during the look-back
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int index = first + i * 32;
        if (VALUES == POSITIONS) payload[i] = begin + index;
        if (VALUES == READ)
            payload[i] = is_full || index < tile_keys ? values[(size_t)row * width + begin + index] : Payload(0);
    }
    unsigned before = 0;
    if (tile == 0)                                          // the first tile begins where the preceding digits end
        before = scan_digits(tid < DIGITS ? counts[((size_t)row * sizeof(Bits) + pass) * DIGITS + tid] : 0, warp_sums);
    else if (tid < DIGITS) before = look_back(words, tile);
    if (tid < DIGITS) {
        words[tile * DIGITS] = PREFIX | (before + valid_count);
        next_status[((size_t)row * tiles + tile) * DIGITS + tid] = INVALID;
        base[tid] = before - start;
    }
    auto exchange_all_values = [&] {
        #pragma unroll
        for (int i = 0; i < ITEMS; i++) exchange_values[rank_at(i)] = payload[i];
    };
    if (VALUES != NO_VALUES && SEPARATE) exchange_all_values();
    __syncthreads();

    Bits *row_sorted = sorted + (size_t)row * width;
    Stored *row_values = sorted_values + (size_t)row * width;
    unsigned digits[(ITEMS + 3) / 4] = {};                  // of the keys that this thread writes, four of 8 bits each
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int from_rank = tid + i * THREADS;
        if (is_full || from_rank < tile_keys) {
            const Bits k = exchange[from_rank];
            const unsigned digit = digit_of(k);
            digits[i / 4] |= digit << i % 4 * 8;
            if (WITH_KEYS) row_sorted[base[digit] + from_rank] = k;
            if (VALUES != NO_VALUES && SEPARATE) row_values[base[digit] + from_rank] = exchange_values[from_rank];
        }
    }
    if (VALUES == NO_VALUES || SEPARATE) return;
    __syncthreads();                                        // all keys are written, so values may overwrite them
    exchange_all_values();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int from_rank = tid + i * THREADS;
        if (is_full || from_rank < tile_keys)
            row_values[base[digits[i / 4] >> i % 4 * 8 & (DIGITS - 1)] + from_rank] = exchange_values[from_rank];
    }
}
