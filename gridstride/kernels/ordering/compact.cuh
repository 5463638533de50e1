// Writes the selected elements to the front of another array, in their order, in one pass by decoupled look-back.
// Requires the constants of `order` (for elements that are not compared: KIND UNSIGNED), THREADS, UNIQUE
// (selects the first of equal neighbours; otherwise `keep` selects), ALIGNED (loads of V elements are aligned),
// WITH_POSITIONS (the indices of the selected elements are written, too).
constexpr int V = 4, VECS_PER_THREAD = 4, WARPS = THREADS / 32, WARP_LOAD = 32 * V;
constexpr int WARP_TILE = VECS_PER_THREAD * WARP_LOAD, TILE = WARPS * WARP_TILE;
struct alignas(sizeof(Bits) == 8 ? 16 : V * sizeof(Bits)) Vector { Bits data[V]; };

// The status of a tile: a state, and a count of selected elements. INVALID: not counted yet; AGGREGATE: the count of
// the tile (its aggregate); PREFIX: the count up to the end of the tile (the inclusive prefix).
typedef unsigned long long Word;
enum : Word { INVALID = 0, AGGREGATE = 1ull << 62, PREFIX = 2ull << 62, VALUE_MASK = AGGREGATE - 1 };

// Called by all lanes of a warp: returns the number of selected elements before tile `t`. It reads WINDOW tiles at a
// time, because hundreds of preceding tiles may not have published their prefixes yet.
constexpr int WINDOW = 128;
__device__ Word look_back(const volatile Word *status, int t) {
    int lane = threadIdx.x % 32;
    Word prefix = 0;
    for (t -= 1 + lane;; t -= WINDOW) {
        Word words[WINDOW / 32];
        #pragma unroll
        for (int w = 0; w < WINDOW / 32; w++) words[w] = t >= w * 32 ? status[t - w * 32] : (Word)PREFIX;
        #pragma unroll
        for (int w = 0; w < WINDOW / 32; w++) {
            while (__any_sync(~0u, words[w] == INVALID))
                if (words[w] == INVALID) words[w] = status[t - w * 32];
            unsigned ends = __ballot_sync(~0u, (words[w] & PREFIX) != 0);
            int nearest = ends ? __ffs(ends) - 1 : 31;
            Word x = lane <= nearest ? words[w] & VALUE_MASK : 0;
            for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
            prefix += x;
            if (ends) return prefix;
        }
    }
}

__device__ __forceinline__ bool differ(Bits a, Bits b) {    // NaN differs from itself
    return order(a) != order(b) || (KIND == FLOATING && Bits(a & ~SIGN) > INFINITE);
}

__global__ void __launch_bounds__(THREADS, 1536 / THREADS)
compact(const Bits *x, const unsigned char *keep, Bits *out, long long *positions, long long *total, Word *status,
        Word *ticket, long long size, int tiles) {
    extern __shared__ __align__(16) unsigned char memory[];
    Bits *exchange = (Bits *)memory;
    unsigned short *exchange_positions = (unsigned short *)(exchange + TILE);   // if positions are written
    __shared__ unsigned warp_sums[WARPS];
    __shared__ Word tile_prefix;
    __shared__ int tile_index;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) tile_index = atomicAdd(ticket, 1ull);  // so no block waits for one that has not started
    __syncthreads();
    const int t = tile_index;
    const long long begin = (long long)t * TILE, first = begin + warp * WARP_TILE + lane * V;
    const bool is_full = begin + TILE <= size;

    Vector vector[VECS_PER_THREAD];
    unsigned selected[VECS_PER_THREAD];                               // a bit per element
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        long long i = first + l * WARP_LOAD;
        if (is_full && ALIGNED) vector[l] = *(const Vector *)(x + i);
        else
            for (int v = 0; v < V; v++) vector[l].data[v] = i + v < size ? x[i + v] : Bits(0);
    }
    unsigned packed = 0;                                    // the count per load, in 8 bits each
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        long long i = first + l * WARP_LOAD;
        selected[l] = 0;
        if (UNIQUE) {
            Bits previous = __shfl_up_sync(~0u, vector[l].data[V - 1], 1);
            if (lane == 0 && i > 0 && i <= size) previous = x[i - 1];
            for (int v = 0; v < V; v++) {
                bool is_first = i + v == 0 || differ(v ? vector[l].data[v ? v - 1 : 0] : previous, vector[l].data[v]);
                selected[l] |= unsigned(i + v < size && is_first) << v;
            }
        } else if (is_full && ALIGNED) {
            unsigned flags = *(const unsigned *)(keep + i);
            selected[l] = (flags & 0x01010101) * 0x10204080 >> 28;       // bits 0, 8, 16, 24 to 0, 1, 2, 3
        } else
            for (int v = 0; v < V; v++) selected[l] |= unsigned(i + v < size && keep[i + v]) << v;
        packed |= (unsigned)__popc(selected[l]) << 8 * l;
    }
    unsigned inclusive = packed;                            // a load has at most 128 elements, so no sum overflows
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        unsigned previous = __shfl_up_sync(~0u, inclusive, d);
        if (lane >= d) inclusive += previous;
    }
    const unsigned load_counts = __shfl_sync(~0u, inclusive, 31), exclusive = inclusive - packed;
    unsigned offset[VECS_PER_THREAD], warp_count = 0;
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        offset[l] = warp_count + (exclusive >> 8 * l & 255);
        warp_count += load_counts >> 8 * l & 255;
    }
    if (lane == 0) warp_sums[warp] = warp_count;
    __syncthreads();
    unsigned warp_prefix = 0, in_tile = 0;
    #pragma unroll
    for (int w = 0; w < WARPS; w++) {
        if (w == warp) warp_prefix = in_tile;
        in_tile += warp_sums[w];
    }
    if (warp == 0) {
        volatile Word *words = status;
        Word prefix = 0;
        if (t > 0) {
            if (lane == 0) words[t] = AGGREGATE | in_tile;
            prefix = look_back(words, t);
        }
        if (lane == 0) {
            words[t] = PREFIX | (prefix + in_tile);
            tile_prefix = prefix;
            if (t == tiles - 1) *total = prefix + in_tile;
        }
    }
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        unsigned index = warp_prefix + offset[l];
        #pragma unroll
        for (int v = 0; v < V; v++)
            if (selected[l] >> v & 1) {
                exchange[index] = vector[l].data[v];
                if (WITH_POSITIONS) exchange_positions[index] = first - begin + l * WARP_LOAD + v;
                index++;
            }
    }
    __syncthreads();
    const long long first_out = tile_prefix;
    for (int i = threadIdx.x; i < in_tile; i += THREADS) {
        out[first_out + i] = exchange[i];
        if (WITH_POSITIONS) positions[first_out + i] = begin + exchange_positions[i];
    }
}
