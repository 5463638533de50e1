// One pass of a radix sort: writes the keys of each row, stably sorted by one digit, to another array. A block takes a
// tile of the row; it finds out where its keys of each digit begin by decoupled look-back.
// Defined above: what `order` and `rank` need, ITEMS (keys per thread), MIN_BLOCKS (per SM), VALUES (the source of the
// values), the types Value, Moved and Stored (of a value that is read, exchanged and written), WITH_KEYS (whether keys
// are written).
constexpr int TILE = THREADS * ITEMS;
enum { NO_VALUES, POSITIONS, READ };
// The status of a digit of a tile: a state and a number of keys. NOTHING: not counted yet; OWN: the number in the tile;
// ALL: the index in the row after the last key of this digit of this tile.
enum : unsigned { NOTHING = 0, OWN = 1u << 30, ALL = 2u << 30, NUMBER = OWN - 1 };
constexpr int WINDOW = 4;                                   // tiles that a look-back reads at once

// Returns the index in the row of the tile's first key of the digit of this thread; `status` is that of the first tile.
__device__ __forceinline__ unsigned look_back(const volatile unsigned *status, int tile) {
    unsigned before = 0;
    for (int t = tile - 1;; t -= WINDOW) {
        unsigned words[WINDOW];
        #pragma unroll
        for (int w = 0; w < WINDOW; w++) words[w] = t >= w ? status[(t - w) * DIGITS] : (unsigned)ALL;
        #pragma unroll
        for (int w = 0; w < WINDOW; w++) {
            while (words[w] == NOTHING) words[w] = status[(t - w) * DIGITS];
            before += words[w] & NUMBER;
            if (words[w] & ALL) return before;
        }
    }
}

__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
onesweep(const Bits *keys, Bits *sorted, const Value *values, Stored *sorted_values, const unsigned *counts,
         unsigned *status, unsigned *next_status, unsigned *tickets, int width, int tiles, int pass) {
    extern __shared__ __align__(16) unsigned char memory[];
    Moved *exchange_values = (Moved *)memory;
    Bits *exchange = (Bits *)(exchange_values + (VALUES == NO_VALUES ? 0 : TILE));
    __shared__ unsigned counters[WARPS][DIGITS], base[DIGITS], of_warp[DIGITS / 32];
    __shared__ unsigned ticket;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, tid = threadIdx.x;
    // tiles are numbered in the order in which blocks start, so no block waits for one that has not started
    if (tid == 0) ticket = atomicAdd(&tickets[pass], 1u);
    for (int i = tid; i < WARPS * DIGITS; i += THREADS) counters[i / DIGITS][i % DIGITS] = 0;
    __syncthreads();
    const int row = ticket / tiles, tile = ticket % tiles, begin = tile * TILE, shift = 8 * pass;
    const int here = min(TILE, width - begin);              // keys in the tile
    const bool whole = here == TILE;
    const Bits *from = keys + (size_t)row * width + begin;
    auto digit_of = [&](Bits key) { return unsigned(order(key) >> shift) & (DIGITS - 1); };

    Bits key[ITEMS];
    unsigned rank[ITEMS];
    const int first = warp * 32 * ITEMS + lane;             // a warp reads 32 * ITEMS consecutive keys
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) key[i] = whole || first + i * 32 < here ? from[first + i * 32] : Bits(0);
    auto digit_at = [&](int i) {                            // past the end of the row: the last digit
        return whole || first + i * 32 < here ? digit_of(key[i]) : DIGITS - 1;
    };
    rank[0] = warp_rank(digit_at(0), counters[warp]);
    bool is_equal = __shfl_sync(~0u, rank[0], 31) == 31;    // all digits of the warp's first 32 keys, and then of all
    if (is_equal) {
        #pragma unroll
        for (int i = 1; i < ITEMS; i++) is_equal &= digit_at(i) == digit_at(0);
        is_equal = __all_sync(~0u, is_equal);
    }
    if (is_equal) {
        #pragma unroll
        for (int i = 1; i < ITEMS; i++) rank[i] = i * 32 + lane;
        if (lane == 0) counters[warp][digit_at(0)] = 32 * ITEMS;
    } else {
        #pragma unroll
        for (int i = 1; i < ITEMS; i++) rank[i] = warp_rank(digit_at(i), counters[warp]);
    }
    __syncthreads();

    // thread d counts digit d: in the warps before each warp, then in the tile
    unsigned of_digit[WARPS], count = 0;
    if (tid < DIGITS)
        #pragma unroll
        for (int w = 0; w < WARPS; w++) {
            of_digit[w] = count;
            count += counters[w][tid];
        }
    const unsigned number = count - (tid == DIGITS - 1 ? TILE - here : 0);
    volatile unsigned *words = status + (size_t)row * tiles * DIGITS + tid;
    if (tid < DIGITS && tile > 0) words[tile * DIGITS] = OWN | number;
    const unsigned start = scan_digits(count, of_warp);     // of digit d in the sorted tile
    if (tid < DIGITS)
        #pragma unroll
        for (int w = 0; w < WARPS; w++) counters[w][tid] = start + of_digit[w];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        rank[i] += counters[warp][digit_at(i)];
        exchange[rank[i]] = key[i];
    }
    Moved moved[ITEMS];                                     // loaded during the look-back
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = first + i * 32;
        if (VALUES == POSITIONS) moved[i] = begin + at;
        if (VALUES == READ) moved[i] = whole || at < here ? values[(size_t)row * width + begin + at] : Moved(0);
    }
    unsigned before = 0;
    if (tile == 0)                                          // the first tile begins where the preceding digits end
        before = scan_digits(tid < DIGITS ? counts[((size_t)row * sizeof(Bits) + pass) * DIGITS + tid] : 0, of_warp);
    else if (tid < DIGITS) before = look_back(words, tile);
    if (tid < DIGITS) {
        words[tile * DIGITS] = ALL | (before + number);
        next_status[((size_t)row * tiles + tile) * DIGITS + tid] = NOTHING;
        base[tid] = before - start;
    }
    if (VALUES != NO_VALUES)
        #pragma unroll
        for (int i = 0; i < ITEMS; i++) exchange_values[rank[i]] = moved[i];
    __syncthreads();

    Bits *row_sorted = sorted + (size_t)row * width;
    Stored *row_values = sorted_values + (size_t)row * width;
    #pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int from_rank = tid + i * THREADS;
        if (whole || from_rank < here) {
            Bits k = exchange[from_rank];
            unsigned to = base[digit_of(k)] + from_rank;
            if (WITH_KEYS) row_sorted[to] = k;
            if (VALUES != NO_VALUES) row_values[to] = exchange_values[from_rank];
        }
    }
}
