// One pass of a radix sort: writes the keys of each row, stably sorted by one digit, to another array. A block takes a
// tile of the row, and finds the position of its first key of each digit by decoupled look-back. A pass is skipped for
// rows whose keys all have the same digit, such as the high bytes of small integers.
// Requires definitions of the constants of `order` and `rank`, ITEMS (keys per thread), MIN_BLOCKS (per SM), VALUES
// (moved with the keys), the type Value, SEPARATE (values are exchanged in other shared memory than the keys, at the
// same time; otherwise in the same memory after them, which allows larger tiles).
constexpr int TILE = THREADS * ITEMS, PASSES = sizeof(Bits);
enum { NO_VALUES, POSITIONS, READ };                        // POSITIONS: the result is the index of each key, no keys
// The status of a digit of a tile: a state and a count of keys. INVALID: not counted yet; AGGREGATE: the count of the
// tile; PREFIX (the inclusive prefix): the index in the row after the last key of this digit of this tile.
enum : unsigned { INVALID = 0, AGGREGATE = 1u << 30, PREFIX = 2u << 30, VALUE_MASK = AGGREGATE - 1 };
constexpr int WINDOW = 4;                                   // tiles that a look-back reads at once

// Returns the index in the row of the tile's first key of the digit of this thread; `status` is that of the first tile.
__device__ __forceinline__ unsigned look_back(const volatile unsigned *status, int tile) {
    unsigned prefix = 0;
    for (int t = tile - 1;; t -= WINDOW) {
        unsigned words[WINDOW];
        #pragma unroll
        for (int w = 0; w < WINDOW; w++) words[w] = t >= w ? status[(t - w) * DIGITS] : (unsigned)PREFIX;
        #pragma unroll
        for (int w = 0; w < WINDOW; w++) {
            while (words[w] == INVALID) words[w] = status[(t - w) * DIGITS];
            prefix += words[w] & VALUE_MASK;
            if (words[w] & PREFIX) return prefix;
        }
    }
}

// Called by a warp: returns the mask of the passes that are not skipped for a row, whose first key is given. If all
// keys are equal, the last pass copies them.
__device__ __forceinline__ unsigned necessary_passes(Bits key, const unsigned *row_counts, int width) {
    const int pass = threadIdx.x % 32;
    bool is_necessary = false;
    if (pass < PASSES) {
        unsigned digit = unsigned(order(key) >> 8 * pass) & (DIGITS - 1);
        is_necessary = row_counts[pass * DIGITS + digit] != (unsigned)width;
    }
    unsigned mask = __ballot_sync(~0u, is_necessary);
    return mask ? mask : 1u << (PASSES - 1);
}

// The first pass reads `x` and `values`. The last one writes `out` and `out_values` or `positions`, the others
// alternately the buffers and `out`.
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
onesweep(const Bits *x, Bits *out, Bits *out_buffer, const Value *values, Value *out_values, Value *values_buffer,
         long long *positions, const unsigned *counts, unsigned *status0, unsigned *status1, unsigned *tickets,
         int width, int tiles, int pass) {
    extern __shared__ __align__(16) unsigned char memory[];
    Bits *exchange = (Bits *)memory;
    Value *exchange_values = (Value *)(memory + (SEPARATE ? TILE * sizeof(Bits) : 0));
    __shared__ unsigned counters[WARPS][DIGITS], base[DIGITS], warp_sums[DIGITS / 32];
    __shared__ unsigned ticket, shared_mask;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, tid = threadIdx.x;
    const int row = blockIdx.x / tiles;
    const size_t row_begin = (size_t)row * width;
    // tiles are numbered in the order in which blocks start, so no block waits for one that has not started
    if (tid == 0) ticket = atomicAdd(&tickets[row * PASSES + pass], 1u);
    if (warp == 1) {
        unsigned mask = necessary_passes(x[row_begin], counts + (size_t)row * PASSES * DIGITS, width);
        if (lane == 0) shared_mask = mask;
    }
    for (int i = tid; i < WARPS * DIGITS; i += THREADS) counters[i / DIGITS][i % DIGITS] = 0;
    __syncthreads();
    const unsigned passes = shared_mask;
    if (!(passes >> pass & 1)) return;
    const bool is_first = !(passes & ((1u << pass) - 1)), is_last = !(passes >> pass >> 1);
    const bool writes_buffer = __popc(passes >> pass >> 1) % 2;
    const int tile = ticket, begin = tile * TILE, shift = 8 * pass;
    const int tile_keys = min(TILE, width - begin);         // keys in the tile
    const bool is_full = tile_keys == TILE;
    const Bits *src = (is_first ? x : writes_buffer ? out : out_buffer) + row_begin + begin;
    auto digit_of = [&](Bits key) { return unsigned(order(key) >> shift) & (DIGITS - 1); };

    Bits key[ITEMS];
    unsigned ranks[(ITEMS + 1) / 2] = {};                   // two of 16 bits each, so that larger tiles fit
    auto rank_at = [&](int i) { return ranks[i / 2] >> i % 2 * 16 & 0xffff; };
    const int first = warp * 32 * ITEMS + lane;             // a warp reads 32 * ITEMS consecutive keys
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) key[i] = is_full || first + i * 32 < tile_keys ? src[first + i * 32] : Bits(0);
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
    unsigned warp_prefixes[WARPS], count = 0;
    if (tid < DIGITS)
        #pragma unroll
        for (int w = 0; w < WARPS; w++) {
            warp_prefixes[w] = count;
            count += counters[w][tid];
        }
    const unsigned valid_count = count - (tid == DIGITS - 1 ? TILE - tile_keys : 0);
    const bool is_odd = __popc(passes & ((1u << pass) - 1)) % 2;   // executed passes alternate between the two arrays
    volatile unsigned *words = (is_odd ? status1 : status0) + (size_t)row * tiles * DIGITS + tid;
    if (tid < DIGITS && tile > 0) words[tile * DIGITS] = AGGREGATE | valid_count;
    const unsigned start = scan_digits(count, warp_sums);   // of digit d in the sorted tile
    if (tid < DIGITS)
        #pragma unroll
        for (int w = 0; w < WARPS; w++) counters[w][tid] = start + warp_prefixes[w];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        ranks[i / 2] += counters[warp][digit_at(i)] << i % 2 * 16;
        exchange[rank_at(i)] = key[i];
    }
    Value payload[ITEMS];                                   // loaded during the look-back
    const Value *src_values = (is_first ? values : writes_buffer ? out_values : values_buffer) + row_begin + begin;
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int index = first + i * 32;
        if (VALUES == POSITIONS && is_first) payload[i] = begin + index;
        else if (VALUES != NO_VALUES)
            payload[i] = is_full || index < tile_keys ? src_values[index] : Value(0);
    }
    unsigned prefix = 0;
    if (tile == 0)                                          // the first tile begins where the preceding digits end
        prefix = scan_digits(tid < DIGITS ? counts[((size_t)row * PASSES + pass) * DIGITS + tid] : 0, warp_sums);
    else if (tid < DIGITS) prefix = look_back(words, tile);
    if (tid < DIGITS) {
        words[tile * DIGITS] = PREFIX | (prefix + valid_count);
        (is_odd ? status0 : status1)[((size_t)row * tiles + tile) * DIGITS + tid] = INVALID;
        base[tid] = prefix - start;
    }
    auto exchange_all_values = [&] {
        #pragma unroll
        for (int i = 0; i < ITEMS; i++) exchange_values[rank_at(i)] = payload[i];
    };
    if (VALUES != NO_VALUES && SEPARATE) exchange_all_values();
    __syncthreads();

    Bits *dst = (writes_buffer ? out_buffer : out) + row_begin;
    Value *dst_values = (writes_buffer ? values_buffer : out_values) + row_begin;
    auto store_value = [&](unsigned i, Value value) {
        if (VALUES == POSITIONS && is_last) positions[row_begin + i] = value;
        else dst_values[i] = value;
    };
    unsigned digits[(ITEMS + 3) / 4] = {};                  // of the keys that this thread writes, four of 8 bits each
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int rank = tid + i * THREADS;
        if (is_full || rank < tile_keys) {
            const Bits k = exchange[rank];
            const unsigned digit = digit_of(k);
            digits[i / 4] |= digit << i % 4 * 8;
            if (VALUES != POSITIONS || !is_last) dst[base[digit] + rank] = k;
            if (VALUES != NO_VALUES && SEPARATE) store_value(base[digit] + rank, exchange_values[rank]);
        }
    }
    if (VALUES == NO_VALUES || SEPARATE) return;
    __syncthreads();                                        // all keys are written, so values may overwrite them
    exchange_all_values();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int rank = tid + i * THREADS;
        if (is_full || rank < tile_keys)
            store_value(base[digits[i / 4] >> i % 4 * 8 & (DIGITS - 1)] + rank, exchange_values[rank]);
    }
}
