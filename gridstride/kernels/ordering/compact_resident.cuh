// Writes the selected elements to the front of another array, in their order, in one pass, on a Hopper GPU. Flags begin
// at a multiple of 16 bytes. All blocks are resident at once; in each round every block processes one tile, and each of
// its writing warps a chunk of the tile:
// - The writing warps count the flags of a tile COUNT_DISTANCE rounds before they write its elements, so that the other
//   blocks know the counts in time. A warp keeps a mask of the selected elements per group of 32, and the number of
//   those before the group in the chunk. It loads the selected elements to registers LOAD_DISTANCE rounds before it
//   writes them. All elements of one or two bytes are instead prefetched to shared memory, by bulk copies, because
//   loads of so few bytes per thread are slow. Loads with the L2 hint evict-first (__ldcs) would be slower, measured on
//   an H200.
// - The publishing warp adds up the counts of a tile, and publishes their sum.
// - The summing warp adds up the counts that all blocks have published for a round, which gives the index at which the
//   selected elements of this block's tile begin. It starts SUM_LAG rounds late, so that it rarely has to poll.
// mbarriers connect the warps of a block. Each of the SLOTS slots holds the counts and masks of one tile.
// Requires definitions of Bits (of an element), WARPS (that write), VECTORS (512 elements of a chunk), STAGES (chunks
// in shared memory, per warp; 0: elements are loaded to registers), LOAD_DISTANCE, COUNT_DISTANCE, SUM_LAG, BLOCKS (of
// the grid).
constexpr int GROUPS = 16 * VECTORS, CHUNK = 32 * GROUPS, TILE = WARPS * CHUNK;
constexpr int SLOTS = COUNT_DISTANCE + 1, WORDS_PER_LANE = (BLOCKS + 31) / 32, GROUPS_AT_ONCE = 8;
constexpr int CHUNK_BYTES = CHUNK * sizeof(Bits);
constexpr bool BULK = STAGES > 0;
static_assert(LOAD_DISTANCE <= COUNT_DISTANCE, "elements are loaded after they are counted");
enum : unsigned { KNOWN = 1u << 31 };       // set in the published word of a tile; the other bits are its count

__device__ unsigned inclusive_warp_scan(unsigned x) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        unsigned below = __shfl_up_sync(~0u, x, d);
        if (lane >= d) x += below;
    }
    return x;
}

// Returns a bit per flag of a word: bits 0, 8, 16, 24 become bits 0, 1, 2, 3.
__device__ unsigned bits_of(unsigned flags) { return (flags & 0x01010101) * 0x10204080 >> 28; }

struct Shared {                             // of a block
    u64 counted[SLOTS], ready[SLOTS], filled[WARPS][BULK ? STAGES : 1];
    uint4 masks[SLOTS][WARPS][GROUPS / 4];  // of the groups
    uint2 group_prefixes[SLOTS][WARPS][GROUPS / 4]; // selected elements before each group in its chunk, 16 bits each
    unsigned warp_counts[SLOTS][WARPS];         // selected elements of each chunk, then those before it in the tile
    long long tile_prefix[SLOTS];
};

// The publishing warp
__device__ void publish_counts(Shared &shared, volatile unsigned *status, int rounds) {
    const int lane = threadIdx.x % 32;
    for (int round = 0; round < rounds; round++) {
        const int slot = round % SLOTS;
        barrier_wait(address(shared.counted + slot), round / SLOTS);
        const unsigned count = lane < WARPS ? shared.warp_counts[slot][lane] : 0;
        const unsigned inclusive = inclusive_warp_scan(count);
        if (lane == 31) status[(long long)round * BLOCKS + blockIdx.x] = KNOWN | inclusive;
        if (lane < WARPS) shared.warp_counts[slot][lane] = inclusive - count;
        __syncwarp();
        if (lane == 0) barrier_arrive(address(shared.ready + slot));
    }
}

// The summing warp
__device__ void sum_counts(Shared &shared, volatile unsigned *status, long long *total, int rounds, int tiles) {
    const int lane = threadIdx.x % 32;
    long long round_prefix = 0;
    for (int round = 0; round < rounds; round++) {
        const int slot = round % SLOTS, later = min(round + SUM_LAG, rounds - 1);
        const long long first = (long long)round * BLOCKS;
        barrier_wait(address(shared.counted + later % SLOTS), later / SLOTS);    // since then the slot is free
        unsigned words[WORDS_PER_LANE] = {}, prefix = 0, round_count = 0;
        for (bool is_known = false; !is_known;) {           // poll all unknown words at the same time
            #pragma unroll
            for (int a = 0; a < WORDS_PER_LANE; a++) {
                const int b = a * 32 + lane;
                if (!words[a] && b < BLOCKS && first + b < tiles) words[a] = status[first + b];
                else words[a] |= KNOWN;
            }
            is_known = true;
            #pragma unroll
            for (int a = 0; a < WORDS_PER_LANE; a++) is_known &= words[a] != 0;
        }
        #pragma unroll
        for (int a = 0; a < WORDS_PER_LANE; a++) {
            round_count += words[a] & ~KNOWN;
            if (a * 32 + lane < blockIdx.x) prefix += words[a] & ~KNOWN;
        }
        prefix = __reduce_add_sync(~0u, prefix);
        if (lane == 0) {
            shared.tile_prefix[slot] = round_prefix + prefix;
            barrier_arrive(address(shared.ready + slot));
        }
        round_prefix += __reduce_add_sync(~0u, round_count);
    }
    if (lane == 0 && (tiles - 1) % BLOCKS == blockIdx.x) *total = round_prefix;
}

__global__ void __launch_bounds__((WARPS + 2) * 32)
compact_resident(const Bits *x, const unsigned char *keep, Bits *out, long long *total, unsigned *status,
                 long long size, int tiles) {
    __shared__ Shared shared;
    extern __shared__ __align__(128) unsigned char ring[];  // the stages of all warps
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int rounds = (tiles - (int)blockIdx.x + BLOCKS - 1) / BLOCKS;         // of this block
    if (threadIdx.x == 0) {
        for (int i = 0; i < WARPS * STAGES; i++) barrier_init(address(shared.filled[0] + i), 1);
        for (int s = 0; s < SLOTS; s++) {
            barrier_init(address(shared.counted + s), WARPS);
            barrier_init(address(shared.ready + s), 2);     // the publishing and the summing warp
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (warp == WARPS) return publish_counts(shared, status, rounds);
    if (warp > WARPS) return sum_counts(shared, status, total, rounds, tiles);

    auto begin_of = [&](int round) { return ((long long)round * BLOCKS + blockIdx.x) * TILE + warp * CHUNK; };
    auto load_flags = [&](uint4 (&flags)[VECTORS], int round) {
        #pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const long long i = begin_of(round) + v * 512 + lane * 16;
            if (round < rounds && i + 16 <= size) flags[v] = *(const uint4 *)(keep + i);
            else {
                unsigned words[4] = {};
                #pragma unroll
                for (int b = 0; b < 16; b++)
                    if (round < rounds && i + b < size) words[b / 4] |= (unsigned)keep[i + b] << b % 4 * 8;
                flags[v] = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    };
    auto count = [&](const uint4 (&flags)[VECTORS], int round) {                // a lane has half of a group per vector
        const int slot = round % SLOTS;
        unsigned short *group_prefixes = (unsigned short *)shared.group_prefixes[slot][warp];
        unsigned *masks = (unsigned *)shared.masks[slot][warp], chunk_count = 0;
        #pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const unsigned half = bits_of(flags[v].x) | bits_of(flags[v].y) << 4 | bits_of(flags[v].z) << 8
                | bits_of(flags[v].w) << 12;
            const unsigned inclusive = inclusive_warp_scan(__popc(half)), other = __shfl_down_sync(~0u, half, 1);
            if (lane % 2 == 0) {
                masks[v * 16 + lane / 2] = half | other << 16;
                group_prefixes[v * 16 + lane / 2] = chunk_count + inclusive - __popc(half);
            }
            chunk_count += __shfl_sync(~0u, inclusive, 31);
        }
        if (lane == 0) shared.warp_counts[slot][warp] = chunk_count;
        __syncwarp();
        if (lane == 0) barrier_arrive(address(shared.counted + slot));
    };
    constexpr int RING = BULK ? STAGES : 1;
    auto stage_of = [&](int round) { return (Bits *)(ring + (warp * RING + round % RING) * CHUNK_BYTES); };
    auto filled = [&](int round) { return address(shared.filled[warp] + round % RING); };
    auto fill = [&](int round) {                            // called by one lane; a partial chunk is loaded later
        if (round >= rounds || begin_of(round) + CHUNK > size) return;
        barrier_expect(filled(round), CHUNK_BYTES);
        bulk_copy_evict_first(address(stage_of(round)), x + begin_of(round), CHUNK_BYTES, filled(round));
    };
    auto wait_for_stage = [&](int round) {
        const long long begin = begin_of(round);
        if (begin + CHUNK <= size) return barrier_wait(filled(round), round / RING);
        for (int i = lane; i < CHUNK && begin + i < size; i += 32) stage_of(round)[i] = x[begin + i];
        __syncwarp();
    };
    auto load_elements = [&](Bits (&elements)[GROUPS], int round) {
        if (round >= rounds) return;
        const Bits *warp_x = x + begin_of(round) + lane;
        #pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const unsigned mask = ((const unsigned *)shared.masks[round % SLOTS][warp])[g];
            if (mask & 1u << lane) elements[g] = warp_x[g * 32];
        }
    };
    if (BULK && lane == 0)
        for (int s = 0; s < STAGES; s++) fill(s);
    uint4 flags[COUNT_DISTANCE + 1][VECTORS];                        // of the first rounds, all loaded at the same time
    #pragma unroll
    for (int round = 0; round <= COUNT_DISTANCE; round++) load_flags(flags[round], round);
    #pragma unroll
    for (int round = 0; round < COUNT_DISTANCE; round++)
        if (round < rounds) count(flags[round], round);
    Bits next[LOAD_DISTANCE][GROUPS] = {};                         // the elements of this round and of those after it
    if constexpr (!BULK)
        #pragma unroll
        for (int round = 0; round < LOAD_DISTANCE; round++) load_elements(next[round], round);

    for (int round = 0; round < rounds; round++) {
        const int slot = round % SLOTS;
        if (round + COUNT_DISTANCE < rounds) {
            count(flags[COUNT_DISTANCE], round + COUNT_DISTANCE);
            load_flags(flags[COUNT_DISTANCE], round + COUNT_DISTANCE + 1);    // for the next round
        }
        Bits elements[GROUPS];
        if constexpr (BULK) wait_for_stage(round);
        else {
            #pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                elements[g] = next[0][g];
                #pragma unroll
                for (int later = 1; later < LOAD_DISTANCE; later++) next[later - 1][g] = next[later][g];
            }
            load_elements(next[LOAD_DISTANCE - 1], round + LOAD_DISTANCE);
        }
        barrier_wait(address(shared.ready + slot), round / SLOTS);
        Bits *warp_out = out + shared.tile_prefix[slot] + shared.warp_counts[slot][warp];
        asm volatile("" : "+l"(warp_out));                        // one address, to which offsets of 32 bits are added
        #pragma unroll
        for (int g = 0; g < GROUPS; g += GROUPS_AT_ONCE) {
            uint4 masks[GROUPS_AT_ONCE / 4];
            uint2 prefixes[GROUPS_AT_ONCE / 4];
            #pragma unroll
            for (int i = 0; i < GROUPS_AT_ONCE / 4; i++) {
                masks[i] = shared.masks[slot][warp][g / 4 + i];
                prefixes[i] = shared.group_prefixes[slot][warp][g / 4 + i];
            }
            if constexpr (BULK)
                #pragma unroll
                for (int i = 0; i < GROUPS_AT_ONCE; i++) elements[g + i] = stage_of(round)[(g + i) * 32 + lane];
            #pragma unroll
            for (int i = 0; i < GROUPS_AT_ONCE; i++) {
                const unsigned mask = ((const unsigned *)masks)[i];
                const unsigned index = ((const unsigned *)prefixes)[i / 2] >> i % 2 * 16 & 0xffff;
                Bits *dst = warp_out + (index + __popc(mask & ((1u << lane) - 1)));
                if (mask & 1u << lane) *dst = elements[g + i];
            }
        }
        __syncwarp();                                       // the slot and the stage are free
        if (BULK && lane == 0) fill(round + STAGES);
    }
}
