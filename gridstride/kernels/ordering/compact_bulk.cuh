// As `compact`, on a Hopper GPU, of elements that a flag selects. All blocks are resident at once. In each round every
// block processes one tile, and publishes its number of selected elements. From these of a round each block
// computes where its own tile begins in the result, and where the next round does. Bulk copies prefetch tiles, and a
// number is published one round before other blocks need it, so that waits are rare.
// Defined above: Bits (of an element), THREADS, LINES (packs per thread), STAGES, BLOCKS (of the grid).
constexpr int V = 4, LINE = 32 * V, SHARE = LINES * LINE, WARPS = THREADS / 32, TILE = WARPS * SHARE;
constexpr int BYTES = TILE * sizeof(Bits), STAGE_BYTES = BYTES + TILE, ASKS = (BLOCKS + 31) / 32;
struct alignas(sizeof(Bits) == 8 ? 16 : V * sizeof(Bits)) Pack { Bits at[V]; };

// The status of a tile: KNOWN and the number of its selected elements; 0 until that is known
typedef unsigned long long Word;
constexpr Word KNOWN = 1ull << 63;

__device__ Word warp_sum(Word x) {                          // returns the sum over the warp to all lanes
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

__device__ unsigned warp_scan(unsigned x) {                 // inclusive scan over the lanes of a warp
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        unsigned before = __shfl_up_sync(~0u, x, d);
        if (threadIdx.x % 32 >= d) x += before;
    }
    return x;
}

__global__ void __launch_bounds__(THREADS)
compact_bulk(const Bits *x, const unsigned char *keep, Bits *out, long long *total, Word *status, long long size,
             int tiles) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 filled[STAGES];
    __shared__ unsigned of_warp[WARPS], before_warp[2][WARPS];
    __shared__ Word before_tile;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block = blockIdx.x;
    const int rounds = (tiles - block + BLOCKS - 1) / BLOCKS;                // of this block
    const long long whole = size / TILE;                    // full tiles
    auto tile = [&](int round) { return (long long)round * BLOCKS + block; };
    auto elements = [&](int round) { return (Bits *)(ring + round % STAGES * STAGE_BYTES); };
    auto flags = [&](int round) { return (unsigned char *)elements(round) + BYTES; };
    auto fill = [&](int round) {                            // called by one thread; a partial tile is loaded later
        if (round >= rounds || tile(round) >= whole) return;
        u32 bar = address(filled + round % STAGES);
        barrier_expect(bar, STAGE_BYTES);
        bulk_copy(address(elements(round)), x + tile(round) * TILE, BYTES, bar);
        bulk_copy(address(flags(round)), keep + tile(round) * TILE, TILE, bar);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(address(filled + s), 1);
        barriers_ready();
        for (int s = 0; s < STAGES; s++) fill(s);
    }
    __syncthreads();

    Word before_round = 0;                                  // in warp 0: the number before this round
    unsigned marks[LINES], marks_now[LINES];                // flags of tile `next`, and of tile `now`
    for (int next = 0; next <= rounds; next++) {            // count tile `next`, and write the result of tile `now`
        const int now = next - 1;
        Word words[ASKS] = {};                              // the status of the blocks' tiles of round `now`
        if (warp == 0 && now >= 0)
            #pragma unroll
            for (int a = 0; a < ASKS; a++) {
                int b = a * 32 + lane;
                words[a] = b < BLOCKS && (long long)now * BLOCKS + b < tiles
                    ? ((volatile Word *)status)[(long long)now * BLOCKS + b] : (Word)KNOWN;
            }
        #pragma unroll
        for (int l = 0; l < LINES; l++) marks_now[l] = marks[l];
        if (next < rounds) {
            if (tile(next) < whole) barrier_wait(address(filled + next % STAGES), next / STAGES);
            else {
                for (int i = threadIdx.x; i < TILE; i += THREADS) {
                    long long at = tile(next) * TILE + i;
                    elements(next)[i] = at < size ? x[at] : Bits(0);
                    flags(next)[i] = at < size ? keep[at] : 0;
                }
                __syncthreads();
            }
            unsigned count = 0;
            #pragma unroll
            for (int l = 0; l < LINES; l++) {
                marks[l] = ((const unsigned *)(flags(next) + warp * SHARE))[l * 32 + lane];
                count += __popc(marks[l]);                  // a flag is 0 or 1
            }
            for (int d = 16; d > 0; d /= 2) count += __shfl_xor_sync(~0u, count, d);
            if (lane == 0) of_warp[warp] = count;
        }
        __syncthreads();                                    // of_warp is complete, and tile now-1 is written
        if (threadIdx.x == 0 && next >= 2) fill(next - 2 + STAGES);
        if (warp == 0) {
            if (next < rounds) {
                unsigned own = lane < WARPS ? of_warp[lane] : 0, upto = warp_scan(own);
                if (lane < WARPS) before_warp[next % 2][lane] = upto - own;
                if (lane == 31) ((volatile Word *)status)[tile(next)] = KNOWN | upto;
            }
            if (now >= 0) {
                Word before = 0, all = 0;
                #pragma unroll
                for (int a = 0; a < ASKS; a++) {
                    int b = a * 32 + lane;
                    while (words[a] == 0) words[a] = ((volatile Word *)status)[(long long)now * BLOCKS + b];
                    all += words[a] & ~KNOWN;
                    if (b < block) before += words[a] & ~KNOWN;
                }
                before = warp_sum(before);
                if (lane == 0) before_tile = before_round + before;
                before_round += warp_sum(all);
                if (lane == 0 && tile(now) == tiles - 1) *total = before_round;
            }
        }
        __syncthreads();
        if (now < 0) continue;
        Bits *share = elements(now) + warp * SHARE;
        Pack pack[LINES];
        unsigned packed = 0;                                // the number per line, in 8 bits each
        #pragma unroll
        for (int l = 0; l < LINES; l++) {
            pack[l] = ((const Pack *)share)[l * 32 + lane];
            packed |= (unsigned)__popc(marks_now[l]) << 8 * l;
        }
        const unsigned upto = warp_scan(packed), sums = __shfl_sync(~0u, upto, 31), exclusive = upto - packed;
        unsigned of_lines = 0;
        __syncwarp();
        #pragma unroll
        for (int l = 0; l < LINES; l++) {                   // the selected elements, in front
            unsigned to = of_lines + (exclusive >> 8 * l & 255);
            #pragma unroll
            for (int v = 0; v < V; v++) if (marks_now[l] >> 8 * v & 1) share[to++] = pack[l].at[v];
            of_lines += sums >> 8 * l & 255;
        }
        __syncwarp();
        Bits *to = out + before_tile + before_warp[now % 2][warp];
        for (int i = lane; i < of_lines; i += 32) to[i] = share[i];
        fence_for_tma();                                    // a bulk copy overwrites them next
    }
}
