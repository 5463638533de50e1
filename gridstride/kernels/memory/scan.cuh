// Computes prefix sums along rows of `width` elements in one pass, by decoupled look-back: each block sums a tile,
// publishes the sum, and adds the published sums of the preceding tiles.
// Requires definitions of the types Elem (of an element) and Sum (of a sum, 32 bits), V (elements per vector), THREADS,
// VECS_PER_THREAD, MIN_BLOCKS (per SM). A warp loads WARP_LOAD elements at once, and WARP_TILE elements of a tile.
constexpr int WARP_LOAD = 32 * V, WARP_TILE = VECS_PER_THREAD * WARP_LOAD, WARPS = THREADS / 32;
constexpr int TILE = WARPS * WARP_TILE;
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };

// The status of a tile: a state, and the sum that it announces. INVALID: no sum yet; AGGREGATE: the sum of the tile's
// elements; PREFIX: the inclusive prefix, which is the sum of all elements of the row up to the end of the tile. State
// and sum are stored as one word, so no fence is needed.
typedef unsigned long long Word;
enum { INVALID, AGGREGATE, PREFIX };
__device__ Word pack_word(int state, Sum sum) {
    unsigned bits;
    memcpy(&bits, &sum, 4);
    return (Word)state << 32 | bits;
}
__device__ int state_of(Word w) { return w >> 32; }
__device__ Sum sum_of(Word w) { unsigned bits = (unsigned)w; Sum s; memcpy(&s, &bits, 4); return s; }

__device__ Sum previous_lane(Sum x) {                         // returns the value of the previous lane, 0 to lane 0
    Sum previous = __shfl_up_sync(~0u, x, 1);
    return threadIdx.x % 32 ? previous : Sum(0);
}

__device__ Sum warp_scan(Sum x) {                           // inclusive scan over the lanes of a warp
    int lane = threadIdx.x % 32;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        Sum previous = __shfl_up_sync(~0u, x, d);
        if (lane >= d) x += previous;
    }
    return x;
}

__device__ void store(Vector *dst, Vector vector) {                // with a streaming hint if the vector has 16 bytes
    if constexpr (sizeof(Vector) == 16) __stcs((uint4 *)dst, *(uint4 *)&vector);
    else *dst = vector;
}

// Called by all lanes of a warp: returns the sum of all tiles of the row before tile `t`; reads 32 tiles at a time.
__device__ Sum look_back(const volatile Word *status, int t) {
    int lane = threadIdx.x % 32;
    Sum prefix = 0;
    for (t -= 1 + lane;; t -= 32) {
        Word w = t >= 0 ? status[t] : pack_word(PREFIX, 0);        // before the row begins: nothing to add
        while (__any_sync(~0u, state_of(w) == INVALID)) {
            __nanosleep(100);                               // polling without a pause would delay the writers
            if (state_of(w) == INVALID) w = status[t];
        }
        unsigned ends = __ballot_sync(~0u, state_of(w) == PREFIX);
        int nearest = ends ? __ffs(ends) - 1 : 31;          // the nearest tile with an inclusive prefix
        Sum x = lane <= nearest ? sum_of(w) : 0;
        for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
        prefix += x;
        if (ends) return prefix;
    }
}

__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
scan_rows(const Elem *x, Elem *out, Word *status, Word *ticket, long long width, int tiles) {    // tiles: per row
    __shared__ Sum warp_prefixes[WARPS];
    __shared__ int tile_index;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // tiles are numbered in the order in which blocks start, so no block waits for one that has not started
    if (threadIdx.x == 0) tile_index = tiles > 1 ? atomicAdd(ticket, 1ull) : blockIdx.x;
    __syncthreads();
    int row = tile_index / tiles, t = tile_index % tiles;
    long long first = (long long)t * TILE + warp * WARP_TILE + lane * V;      // index in the row
    const Elem *src = x + row * width;
    Elem *dst = out + row * width;
    const bool is_full = (long long)(t + 1) * TILE <= width;

    Sum in_vector[VECS_PER_THREAD][V], vector_sums[VECS_PER_THREAD];  // prefix sums in a vector, in a load
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        Vector vector;
        if (is_full) vector = *(const Vector *)(src + first + l * WARP_LOAD);
        else
            for (int v = 0; v < V; v++) {
                long long i = first + l * WARP_LOAD + v;
                vector.data[v] = i < width ? src[i] : Elem(0);
            }
        for (int v = 0; v < V; v++) in_vector[l][v] = (Sum)vector.data[v];
    }
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        for (int v = 1; v < V; v++) in_vector[l][v] += in_vector[l][v-1];
        vector_sums[l] = warp_scan(in_vector[l][V-1]);
    }
    Sum warp_total = 0;                                     // sum of the warp's loads so far
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        Sum load_sum = __shfl_sync(~0u, vector_sums[l], 31);
        vector_sums[l] = warp_total + previous_lane(vector_sums[l]);  // the sum of the warp's preceding elements
        warp_total += load_sum;
    }
    if (lane == 0) warp_prefixes[warp] = warp_total;
    __syncthreads();
    if (warp == 0) {
        Sum inclusive = warp_scan(lane < WARPS ? warp_prefixes[lane] : Sum(0)), tile = __shfl_sync(~0u, inclusive, 31);
        Sum exclusive = previous_lane(inclusive);             // the sum of the warps before warp `lane`
        Sum prefix = 0;
        if (tiles > 1) {
            volatile Word *row_status = status + (size_t)row * tiles;
            if (t > 0) {
                if (lane == 0) row_status[t] = pack_word(AGGREGATE, tile);
                prefix = look_back(row_status, t);
            }
            if (lane == 0) row_status[t] = pack_word(PREFIX, prefix + tile);
        }
        if (lane < WARPS) warp_prefixes[lane] = prefix + exclusive;
    }
    __syncthreads();
    Sum prefix = warp_prefixes[warp];
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        Vector vector;
        for (int v = 0; v < V; v++) vector.data[v] = Elem(prefix + vector_sums[l] + in_vector[l][v]);
        if (is_full) store((Vector *)(dst + first + l * WARP_LOAD), vector);
        else
            for (int v = 0; v < V; v++)
                if (first + l * WARP_LOAD + v < width) dst[first + l * WARP_LOAD + v] = vector.data[v];
    }
}
