// Computes prefix sums of `width` elements that begin at a multiple of 16 bytes, in one pass, on a Hopper GPU. All
// blocks are resident at once. In each round every block processes one tile, and publishes its sum. From the sums of a
// round each block computes the prefix of its own tile, and the prefix of the next round. Bulk copies prefetch tiles,
// and a tile's sum is published one round before other blocks need it, so that waits are rare.
// Requires definitions of the types Elem (of an element) and Sum (of a sum, 32 bits), THREADS, VECS_PER_THREAD (16-byte
// loads), STAGES, BLOCKS (of the grid). A warp loads WARP_LOAD elements at once, and WARP_TILE elements of a tile.
constexpr int V = 16 / sizeof(Elem), WARP_LOAD = 32 * V, WARP_TILE = VECS_PER_THREAD * WARP_LOAD;
constexpr int WARPS = THREADS / 32, TILE = WARPS * WARP_TILE;
constexpr int TILE_BYTES = TILE * sizeof(Elem), WORDS_PER_LANE = (BLOCKS + 31) / 32;  // of the status
struct alignas(16) Vector { Elem data[V]; };

// The status of a tile: 1 and its sum, stored as one word; 0 until the sum is known
typedef unsigned long long Word;
__device__ Word pack_word(Sum sum) { unsigned bits; memcpy(&bits, &sum, 4); return 1ull << 32 | bits; }
__device__ Sum sum_of(Word w) { unsigned bits = (unsigned)w; Sum s; memcpy(&s, &bits, 4); return s; }

__device__ Sum warp_sum(Sum x) {                            // returns the sum over the warp to all lanes
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

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

__global__ void __launch_bounds__(THREADS)
scan_bulk(const Elem *x, Elem *out, Word *status, long long width, int tiles) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 filled[STAGES];
    __shared__ Sum warp_sums[WARPS], warp_prefixes[2][WARPS], tile_prefix;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block = blockIdx.x;
    const int rounds = (tiles - block + BLOCKS - 1) / BLOCKS;                // of this block
    const long long full_tiles = width / TILE;
    auto tile = [&](int round) { return (long long)round * BLOCKS + block; };
    auto fill = [&](int round) {                            // called by one thread; a partial tile is loaded later
        if (round >= rounds || tile(round) >= full_tiles) return;
        u32 stage = round % STAGES, bar = address(filled + stage);
        barrier_expect(bar, TILE_BYTES);
        bulk_copy(address(ring + stage * TILE_BYTES), x + tile(round) * TILE, TILE_BYTES, bar);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(address(filled + s), 1);
        fence_mbarrier_init();
        for (int s = 0; s < STAGES; s++) fill(s);
    }
    __syncthreads();

    Sum round_prefix = 0;                                   // in warp 0: the sum of all elements before this round
    // sum the tile of `next_round`, and write the result of the tile of `current_round`
    for (int next_round = 0; next_round <= rounds; next_round++) {
        const int current_round = next_round - 1;
        Word words[WORDS_PER_LANE] = {};                    // the status of the blocks' tiles of `current_round`
        if (warp == 0 && current_round >= 0)
            #pragma unroll
            for (int a = 0; a < WORDS_PER_LANE; a++) {
                int b = a * 32 + lane;
                words[a] = b < BLOCKS && (long long)current_round * BLOCKS + b < tiles
                    ? ((volatile Word *)status)[(long long)current_round * BLOCKS + b] : pack_word(0);
            }
        if (next_round < rounds) {
            Elem *elements = (Elem *)(ring + next_round % STAGES * TILE_BYTES);
            if (tile(next_round) < full_tiles) barrier_wait(address(filled + next_round % STAGES), next_round / STAGES);
            else {
                for (int i = threadIdx.x; i < TILE; i += THREADS)
                    elements[i] = tile(next_round) * TILE + i < width ? x[tile(next_round) * TILE + i] : Elem(0);
                __syncthreads();
            }
            Sum warp_total = 0;
            #pragma unroll
            for (int l = 0; l < VECS_PER_THREAD; l++) {
                Vector vector = ((const Vector *)(elements + warp * WARP_TILE))[l * 32 + lane];
                for (int v = 0; v < V; v++) warp_total += (Sum)vector.data[v];
            }
            warp_total = warp_sum(warp_total);
            if (lane == 0) warp_sums[warp] = warp_total;
        }
        __syncthreads();                                    // warp_sums is complete, the previous tile is written
        if (threadIdx.x == 0 && next_round >= 2) fill(next_round - 2 + STAGES);
        if (warp == 0) {
            if (next_round < rounds) {
                Sum inclusive = warp_scan(lane < WARPS ? warp_sums[lane] : Sum(0)), prefix = previous_lane(inclusive);
                if (lane < WARPS) warp_prefixes[next_round % 2][lane] = prefix;
                if (lane == 31) ((volatile Word *)status)[tile(next_round)] = pack_word(inclusive);
            }
            if (current_round >= 0) {
                Sum prefix = 0, sum_of_round = 0;
                #pragma unroll
                for (int a = 0; a < WORDS_PER_LANE; a++) {
                    int b = a * 32 + lane;
                    while (words[a] == 0) words[a] = ((volatile Word *)status)[(long long)current_round * BLOCKS + b];
                    sum_of_round += sum_of(words[a]);
                    if (b < block) prefix += sum_of(words[a]);
                }
                prefix = warp_sum(prefix);
                if (lane == 0) tile_prefix = round_prefix + prefix;
                round_prefix += warp_sum(sum_of_round);
            }
        }
        __syncthreads();
        if (current_round < 0) continue;
        const Elem *elements = (const Elem *)(ring + current_round % STAGES * TILE_BYTES) + warp * WARP_TILE;
        const long long first = tile(current_round) * TILE + warp * WARP_TILE + lane * V;
        Sum prefix = tile_prefix + warp_prefixes[current_round % 2][warp];
        Sum in_vector[VECS_PER_THREAD][V], vector_sums[VECS_PER_THREAD];  // prefix sums in a vector, in a load
        #pragma unroll
        for (int l = 0; l < VECS_PER_THREAD; l++) {
            Vector vector = ((const Vector *)elements)[l * 32 + lane];
            for (int v = 0; v < V; v++) in_vector[l][v] = (Sum)vector.data[v] + (v ? in_vector[l][v-1] : Sum(0));
            vector_sums[l] = warp_scan(in_vector[l][V-1]);
        }
        #pragma unroll
        for (int l = 0; l < VECS_PER_THREAD; l++) {
            Sum load_sum = __shfl_sync(~0u, vector_sums[l], 31), load_prefix = prefix + previous_lane(vector_sums[l]);
            Vector vector;
            for (int v = 0; v < V; v++) vector.data[v] = Elem(load_prefix + in_vector[l][v]);
            if (tile(current_round) < full_tiles) __stcg((uint4 *)(out + first + l * WARP_LOAD), *(uint4 *)&vector);
            else
                for (int v = 0; v < V; v++)
                    if (first + l * WARP_LOAD + v < width) out[first + l * WARP_LOAD + v] = vector.data[v];
            prefix += load_sum;
        }
    }
}
