// out = m @ n of 16-bit floats that are summed in float32; each matrix lies row after row, or memory holds its
// transpose.
// Above: BM, BN, BK, STAGES, WGS (warpgroups that multiply), CM, CN and CK (blocks of a cluster: along wgmma's rows,
// along its columns, and for parts of k), BLOCKS (of an SM), DOWN and UP (registers of a thread that copies, and of one
// that multiplies), TURNED (is the transpose of out computed, so that wgmma's first tile is n's and its second m's?),
// BESIDE (do two warpgroups work side by side?), PING (do they take turns at whole tiles, so that one multiplies while
// the other stores?), EARLY (does the kernel begin before the one ahead has ended?),
// M_TURNED, N_TURNED (does memory hold the transpose?), M and COLUMNS (a consumer has 64*M x COLUMNS sums), N (columns
// that it stores of them), OUT_COLS (columns that leave at once), ROOM (bytes that a warpgroup has for these, and for
// sums that others send), GROUP; wgmma, and of lesson 22 `place`, `load_part` and `store_results`.
constexpr bool A_DOWN = TURNED ? !N_TURNED : M_TURNED, B_DOWN = TURNED ? M_TURNED : !N_TURNED;  // k: down the columns?
// CM parts of whole eights
constexpr int ROWS = (BN + 8*CM-1)/(8*CM)*8*CM;
constexpr int A_BYTES = BM*128, B_BYTES = (B_DOWN ? (BN + BOX-1)/BOX*BOX : ROWS)*128;           // boxes come whole
constexpr int SHARERS = CM*CN, CLUSTER = SHARERS*CK;
constexpr int A_STEP = A_DOWN ? 16*128 : 32, B_STEP = B_DOWN ? 16*2*BOX : 32;                   // bytes to 16 k on
constexpr int A_OWN = BESIDE || PING ? 0 : M*64*128, B_OWN = BESIDE ? COLUMNS*128 : 0;
constexpr int TAKERS = PING ? 1 : WGS, EVERY = PING ? WGS : 1;  // warpgroups of a tile; one has each EVERY-th tile
constexpr bool MOVED = WGS > 1 || BLOCKS > 1;       // do registers move to who multiplies? Else all have enough
// what a cluster computes
constexpr int HIGH = TURNED ? BN*CN : BM*CM, WIDE = TURNED ? BM*CM : BN*CN;
constexpr u64 UPPER = (u64)(1024 >> 4 | 1 << 30) << 32;       // of each descriptor: eight rows of 128 bytes, or of 64
constexpr u64 B_UPPER = B_DOWN && BOX == 32 ? (u64)(512 >> 4 | 2u << 30) << 32 : UPPER;

// My part of a box of ROWS rows, each of WIDTH bytes, for all `blocks` of the cluster that want it
template<int PARTS, int ROWS, int WIDTH>
__device__ void load_box(u32 to, const TensorMap &x, int row, int column, u32 bar, int part, short blocks) {
    constexpr int OWN = ROWS/PARTS;
    if (PARTS == 1) tma_load(to, x, row, column, bar);
    else tma_load_for(to + part*OWN*WIDTH, x, row + part*OWN, column, bar, blocks);
}
// LONG rows of wgmma's tile, from `row` on, 64 k from `at` on; where these go down, in boxes of COLS columns
template<bool DOWN, int PARTS, int LONG, int COLS>
__device__ void load_tile(u32 to, const TensorMap &x, int row, int at, u32 bar, int part, short blocks) {
    if (!DOWN) load_box<PARTS, LONG, 128>(to, x, row, at, bar, part, blocks);
    else for (int r = 0; r < LONG; r += COLS)
        load_box<PARTS, BK, 2*COLS>(to + r*128, x, at, row + r, bar, part, blocks);
}

// starts d (+)= a step's product; da and db: the lower halves of its tiles' descriptors
__device__ void multiply_step(float (&d)[M][COLUMNS/2], u32 da, u32 db, bool more) {
    fence_sums(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK/16; i++)
        #pragma unroll
        for (int x = 0; x < M; x++)
            wgmma<A_DOWN, B_DOWN>(d[x], UPPER | (da + (x*64*128 + i*A_STEP)/16), B_UPPER | (db + i*B_STEP/16),
                                  more || i > 0);
    wgmma_commit();
}

__device__ u32 in_block(u32 at, int block) {                // the same place of another block
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(block));
    return there;
}
__device__ void send_four(u32 to, const float *v, u32 bar) {        // to another block, whose barrier counts the bytes
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(bar) : "memory");
}

// Of CK blocks each has multiplied its part of k, the q-th, and gets all sums of N columns, added in one order. The
// others send theirs into `room` of my warp, EACH fours from each, where a thread finds its own rows and columns; no
// barrier of the cluster and no fence is needed, which take thousands of cycles. `like`: of SHARERS, which am I?
constexpr int EACH = M*N/8*32;
__device__ void add_up(float (&all)[M][N/2], const float (&d)[M][COLUMNS/2], float4 *room, u32 bar, int q, int like) {
    room += threadIdx.x%32;
    #pragma unroll
    for (int b = 0; b < CK; b++) {
        int block = b*SHARERS + like;
        u32 to = in_block(address(room + (q - (q > b))*EACH), block), there = in_block(bar, block);
        #pragma unroll
        for (int e = 0; e < M*N/2; e += 4) {
            int x = e/(N/2), c = e%(N/2);
            const float *from = &d[x][min(b*N, COLUMNS - N)/2 + c];         // shares may overlap
            if (b != q) send_four(to + e/4*32*16, from, there);
            else for (int f = 0; f < 4; f++) all[x][c + f] = from[f];
        }
    }
    barrier_wait(bar, 0);
    #pragma unroll
    for (int e = 0; e < M*N/2; e += 4) {
        float *to = &all[e/(N/2)][e%(N/2)], mine[4] = {to[0], to[1], to[2], to[3]};
        to[0] = to[1] = to[2] = to[3] = 0;
        #pragma unroll
        for (int b = 0; b < CK; b++) {
            float4 v = b == q ? make_float4(mine[0], mine[1], mine[2], mine[3]) : room[(b - (b > q))*EACH + e/4*32];
            to[0] += v.x; to[1] += v.y; to[2] += v.z; to[3] += v.w;
        }
    }
}

// Says that this thread is there, without a wait for all that it wrote, which takes a thousand cycles: what others need
// of that they get by barriers
__device__ void cluster_here() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }

// `place` here and now, and not where its results are needed first: that is where everybody waits for them
__device__ void first_place(int tile, int tall, int wide, int &tr, int &tc) {
    place(tile, tall, wide, tr, tc);
    asm volatile("" : "+r"(tr), "+r"(tc));
}

// Warpgroups that take turns: a barrier tells only whether its phase is an even one, so who waits for a stage must not
// be two rounds of the stages ahead. A warpgroup begins when the other one has seen all stages of its tile
__device__ void await_turn(int wg) { asm volatile("bar.sync %0, 256;" :: "r"(WGS + 1 + wg) : "memory"); }
__device__ void give_turn(int wg) { asm volatile("bar.arrive %0, 256;" :: "r"(WGS + 1 + wg) : "memory"); }

__global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128*(WGS + 1), BLOCKS)
halves_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
         const __grid_constant__ TensorMap out, int h, int w, int k) {
    static_assert(ROOM >= 128*OUT_COLS && ROOM >= (CK - 1)*EACH*4*16, "results have room, and sums");
    static_assert(TURNED || N%16 == 0, "boxes of results have whole sixteens of columns");
    static_assert(!BESIDE || !B_DOWN || COLUMNS%BOX == 0, "each warpgroup has whole boxes");
    static_assert(!PING || (CK == 1 && !BESIDE), "who takes turns has all of a tile");
    extern __shared__ __align__(1024) char shared[];
    u32 a = address(shared), b = a + STAGES*A_BYTES, o = b + STAGES*B_BYTES;
    u32 full = o + WGS*ROOM, empty = full + 8*STAGES, added = empty + 8*STAGES;
    int me = blockIdx.x%CLUSTER, q = me/SHARERS, i = me%CM, j = me%SHARERS/CM;
    int wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, turn = 0;
    int cluster = blockIdx.x/CLUSTER, clusters = gridDim.x/CLUSTER;
    if (threadIdx.x == 32) { prefetch(m); prefetch(n); prefetch(out); }      // three begin, each in a warp of its own
    int tall = (h + HIGH-1)/HIGH, wide = (w + WIDE-1)/WIDE, tiles = tall*wide, steps = (k + BK-1)/BK, tr, tc;
    int begin = q*steps/CK, end = (q + 1)*steps/CK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2*STAGES; s++) barrier_init(full + 8*s, s < STAGES ? 1 : TAKERS*(CM + CN - 1));
        if (CK > 1) { barrier_init(added, 1); barrier_expect(added, WGS*(CK - 1)*EACH*4*16); }
        barriers_ready();
    } else if (threadIdx.x == WGS*128) first_place(cluster, tall, wide, tr, tc);    // divides meanwhile
    if (CLUSTER > 1) { cluster_here(); cluster_wait(); } else __syncthreads();
    if (EARLY) {                                            // from here on all that kernels ahead wrote is there
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    if (wg == WGS) {                                        // producer
        if (MOVED) registers_down<DOWN>();
        short same_i = ((1 << SHARERS) - 1)/((1 << CM) - 1) << i << q*SHARERS;  // who wants the first tile, the second
        short same_j = ((1 << CM) - 1) << j*CM << q*SHARERS;
        bool back = false;                                  // what was last is still in the L2 cache
        if (threadIdx.x == WGS*128) for (int tile = cluster; tile < tiles; back = !back) {
            int x = ((TURNED ? tc : tr)*CM + i)*BM, y = ((TURNED ? tr : tc)*CN + j)*BN;
            for (int step = begin; step < end; step++) {
                int at = (back ? begin + end-1 - step : step)*BK;
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, turn-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                load_tile<A_DOWN, CN, BM, 64>(a + s*A_BYTES, TURNED ? n : m, x, at, bar, j, same_i);
                load_tile<B_DOWN, CM, B_DOWN ? BN : ROWS, BOX>(b + s*B_BYTES, TURNED ? m : n, y, at, bar, i, same_j);
                if (++s == STAGES) { s = 0; turn++; }
            }
            if ((tile += clusters) < tiles) place(tile, tall, wide, tr, tc);
        }
        if (CLUSTER > 1) cluster_here();
    } else {                                                // consumers
        if (MOVED) registers_up<UP>();
        int warp = threadIdx.x/32, t = threadIdx.x%128, last = -1;
        bool tells = t < CLUSTER && t/SHARERS == q && (t%CM == i || t%SHARERS/CM == j);       // thread t tells block t
        bool sends = TURNED ? t == 0 : t%32 == 0;           // for the warpgroup, for the warp
        u32 room = o + wg*ROOM + warp%4*(ROOM/4), mine = TURNED ? o + wg*ROOM : room;
        u32 da = descriptor(a + wg*A_OWN, A_DOWN ? 64*128 : 16), db = descriptor(b + wg*B_OWN, B_DOWN ? BOX*128 : 16);
        float d[M][COLUMNS/2];
        int tile = cluster + (PING ? wg*clusters : 0);
        first_place(tile, tall, wide, tr, tc);              // while the first numbers come
        // Who fills a stage again waits for all; others might be gone when they are told
        int refills = CLUSTER > 1 ? (tiles - cluster + clusters-1)/clusters*(end - begin) - STAGES : 1 << 30;
        auto pass = [&](int others) {                       // the stages of so many tiles are another warpgroup's
            s += others*(end - begin);
            turn += s/STAGES;
            s %= STAGES;
            refills -= others*(end - begin);
        };
        if (PING) pass(wg);
        if (PING && CLUSTER > 1 && tile >= tiles) cluster_here();
        while (tile < tiles) {
            if (PING && tile > cluster) await_turn(wg);
            for (int step = begin; step < end; step++) {
                barrier_wait(full + 8*s, turn);
                multiply_step(d, da + s*(A_BYTES/16), db + s*(B_BYTES/16), step > begin);
                wgmma_wait<1>();                            // the step before is done, and its stage is free
                if (last >= 0 && refills-- > 0 && tells) barrier_arrive_at(empty + 8*last, t);
                last = s;
                if (++s == STAGES) { s = 0; turn++; }
            }
            if (PING && tile + clusters < tiles) give_turn(1 - wg);
            wgmma_wait<0>();
            fence_sums(d);
            int x = ((TURNED ? tc : tr)*CM + i)*BM + wg*(A_OWN/128) + (TURNED ? 0 : warp%4*16);
            int y = ((TURNED ? tr : tc)*CN + j)*BN + (BESIDE ? wg*COLUMNS : 0);
            if (refills-- > 0 && tells) barrier_arrive_at(empty + 8*last, t);
            last = -1;
            if (PING) pass(EVERY - 1);
            if (CLUSTER > 1 && tile + EVERY*clusters >= tiles) cluster_here();
            if constexpr (CK > 1) {                         // a cluster has one tile
                float all[M][N/2];
                add_up(all, d, (float4 *)(shared + room - a), added, q, j*CM + i);
                store_results(all, out, x, y + min(q*N, COLUMNS - N), h, w, mine, sends, wg);
            } else store_results(reinterpret_cast<float (&)[M][N/2]>(d), out, x, y, h, w, mine, sends, wg);
            if ((tile += EVERY*clusters) < tiles) place(tile, tall, wide, tr, tc);
        }
        if (sends) stores_have_read();
    }
    if (CLUSTER > 1) cluster_wait();                        // others may still fill my stages
}
