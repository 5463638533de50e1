// Writes the selected elements to the front of another array, in their order, in one pass, on a Hopper GPU. Arrays
// begin at multiples of 16 bytes. All blocks are resident at once. In each round every block processes one tile, and
// publishes how many of its elements are selected. From the counts of a round each block computes where its own tile's
// elements go, and where those of the next round begin. Bulk copies prefetch tiles, and a tile's count is published
// one round before other blocks need it, so that waits are rare.
// Requires definitions of Bits (of an element), THREADS, VECS_PER_THREAD (loads of V elements), STAGES, BLOCKS (of the
// grid).
constexpr int V = 4, WARP_LOAD = 32 * V, WARPS = THREADS / 32, WARP_TILE = VECS_PER_THREAD * WARP_LOAD;
constexpr int TILE = WARPS * WARP_TILE;
constexpr int X_BYTES = TILE * sizeof(Bits), STAGE_BYTES = X_BYTES + TILE;       // elements, then a flag per element
constexpr int PER_STORE = 16 / sizeof(Bits), WORDS_PER_LANE = (BLOCKS + 31) / 32;   // of the status
struct alignas(sizeof(Bits) == 8 ? 16 : V * sizeof(Bits)) Vector { Bits data[V]; };

// The status of a tile: 1 and its count of selected elements, in one word; 0 until the count is known
typedef unsigned long long Word;
enum : Word { KNOWN = 1ull << 32 };

// Returns the exclusive prefix sum over the lanes of a warp; `sum` becomes the sum over all lanes.
__device__ unsigned exclusive_warp_scan(unsigned x, unsigned &sum) {
    const int lane = threadIdx.x % 32;
    unsigned inclusive = x;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        unsigned previous = __shfl_up_sync(~0u, inclusive, d);
        if (lane >= d) inclusive += previous;
    }
    sum = __shfl_sync(~0u, inclusive, 31);
    return inclusive - x;
}

__global__ void __launch_bounds__(THREADS)
compact_bulk(const Bits *x, const unsigned char *keep, Bits *out, long long *total, Word *status, long long size,
             int tiles) {
    extern __shared__ __align__(128) unsigned char ring[];
    Bits *exchange = (Bits *)(ring + STAGES * STAGE_BYTES);             // PER_STORE more elements than a tile
    __shared__ u64 full[STAGES];
    __shared__ unsigned warp_counts[WARPS], warp_prefixes[2][WARPS], in_tile[2];
    __shared__ long long tile_prefix;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block = blockIdx.x;
    const int rounds = (tiles - block + BLOCKS - 1) / BLOCKS;                // of this block
    const int first = warp * WARP_TILE + lane * V;      // of this thread's elements in a tile
    auto tile = [&](int round) { return (long long)round * BLOCKS + block; };
    auto fill = [&](int round) {                            // called by one thread; a partial tile is loaded later
        if (round >= rounds || (tile(round) + 1) * TILE > size) return;
        u32 dst = address(ring + round % STAGES * STAGE_BYTES), bar = address(full + round % STAGES);
        barrier_expect(bar, STAGE_BYTES);
        bulk_copy_evict_first(dst + X_BYTES, keep + tile(round) * TILE, TILE, bar);
        bulk_copy_evict_first(dst, x + tile(round) * TILE, X_BYTES, bar);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(address(full + s), 1);
        fence_mbarrier_init();
        for (int s = 0; s < STAGES; s++) fill(s);
    }
    __syncthreads();

    long long round_prefix = 0;                             // in warp 0: elements selected before this round
    // of the tile of `current_round`: a bit per element; ranks in the warp
    unsigned current_selected = 0, current_offset[VECS_PER_THREAD];
    // count the tile of `next_round`, and write the elements of that of `current_round`
    for (int next_round = 0; next_round <= rounds; next_round++) {
        const int current_round = next_round - 1;
        Word words[WORDS_PER_LANE];                         // the status of the blocks' tiles of `current_round`
        if (warp == 0 && current_round >= 0)
            #pragma unroll
            for (int a = 0; a < WORDS_PER_LANE; a++) {
                const int b = a * 32 + lane;
                words[a] = b < BLOCKS && (long long)current_round * BLOCKS + b < tiles
                    ? ((volatile Word *)status)[(long long)current_round * BLOCKS + b] : KNOWN;
            }
        unsigned selected = 0, offset[VECS_PER_THREAD];
        if (next_round < rounds) {
            unsigned char *flags = ring + next_round % STAGES * STAGE_BYTES + X_BYTES;
            const long long begin = tile(next_round) * TILE;
            if (begin + TILE <= size) barrier_wait(address(full + next_round % STAGES), next_round / STAGES);
            else {
                Bits *elements = (Bits *)(flags - X_BYTES);
                for (int i = threadIdx.x; i < TILE; i += THREADS) {
                    elements[i] = begin + i < size ? x[begin + i] : Bits(0);
                    flags[i] = begin + i < size ? keep[begin + i] : 0;
                }
                __syncthreads();
            }
            unsigned packed = 0, load_counts;               // the count per load, in 8 bits each
            #pragma unroll
            for (int l = 0; l < VECS_PER_THREAD; l++) {               // bits 0, 8, 16, 24 of the flags to 0, 1, 2, 3
                unsigned bits = (*(const unsigned *)(flags + first + l * WARP_LOAD) & 0x01010101) * 0x10204080 >> 28;
                selected |= bits << V * l;
                packed |= __popc(bits) << 8 * l;
            }
            unsigned exclusive = exclusive_warp_scan(packed, load_counts), warp_count = 0;
            #pragma unroll
            for (int l = 0; l < VECS_PER_THREAD; l++) {
                offset[l] = warp_count + (exclusive >> 8 * l & 255);
                warp_count += load_counts >> 8 * l & 255;
            }
            if (lane == 0) warp_counts[warp] = warp_count;
        }
        __syncthreads();                                    // warp_counts is complete, exchange is written to `out`
        if (warp == 0) {
            if (next_round < rounds) {
                unsigned tile_count, prefix = exclusive_warp_scan(lane < WARPS ? warp_counts[lane] : 0, tile_count);
                if (lane < WARPS) warp_prefixes[next_round % 2][lane] = prefix;
                if (lane == 0) {
                    ((volatile Word *)status)[tile(next_round)] = KNOWN | tile_count;
                    in_tile[next_round % 2] = tile_count;
                }
            }
            if (current_round >= 0) {
                unsigned prefix = 0, round_count = 0;
                for (bool is_known = false; !is_known;) {   // poll all unknown words at the same time
                    #pragma unroll
                    for (int a = 0; a < WORDS_PER_LANE; a++)
                        if (!words[a])
                            words[a] = ((volatile Word *)status)[(long long)current_round * BLOCKS + a * 32 + lane];
                    is_known = true;
                    #pragma unroll
                    for (int a = 0; a < WORDS_PER_LANE; a++) is_known &= words[a] != 0;
                }
                #pragma unroll
                for (int a = 0; a < WORDS_PER_LANE; a++) {
                    round_count += (unsigned)words[a];
                    if (a * 32 + lane < block) prefix += (unsigned)words[a];
                }
                prefix = __reduce_add_sync(~0u, prefix);
                if (lane == 0) tile_prefix = round_prefix + prefix;
                round_prefix += __reduce_add_sync(~0u, round_count);
            }
        }
        __syncthreads();
        if (current_round >= 0) {
            const Bits *elements = (const Bits *)(ring + current_round % STAGES * STAGE_BYTES) + first;
            const long long first_out = tile_prefix;
            const int shift = first_out % PER_STORE, end = shift + in_tile[current_round % 2];       // in exchange
            #pragma unroll
            for (int l = 0; l < VECS_PER_THREAD; l++) {
                const Vector vector = *(const Vector *)(elements + l * WARP_LOAD);
                unsigned index = shift + warp_prefixes[current_round % 2][warp] + current_offset[l];
                #pragma unroll
                for (int v = 0; v < V; v++)
                    if (current_selected >> (V * l + v) & 1) exchange[index++] = vector.data[v];
            }
            __syncthreads();                                // exchange is complete, and the stage is free
            if (threadIdx.x == 0) {
                fill(current_round + STAGES);
                if (tile(current_round) == tiles - 1) *total = first_out + end - shift;
            }
            Bits *aligned = out + (first_out - shift);      // at a multiple of 16 bytes
            for (int i = threadIdx.x * PER_STORE; i < end; i += THREADS * PER_STORE)
                if (i >= shift && i + PER_STORE <= end) *(uint4 *)(aligned + i) = *(const uint4 *)(exchange + i);
                else
                    for (int e = max(i, shift); e < min(i + PER_STORE, end); e++) aligned[e] = exchange[e];
        }
        current_selected = selected;
        #pragma unroll
        for (int l = 0; l < VECS_PER_THREAD; l++) current_offset[l] = offset[l];
    }
}
