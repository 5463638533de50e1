// Computes dx from dy and, with LEARNT, partial sums of the gradients of weight and bias. With n = (x - mean) * factor
// and g = dy * weight: dx = factor * (g - mean(g) - n * mean(g * n)); without CENTERED, mean and mean(g) are 0. With
// ADDED, x is a sum that is used by other operators, too; `dsum` is its gradient from them, which is added. Blocks are
// persistent, so the gradients of columns accumulate in registers over all rows of a block.
// With RING, on a Hopper GPU, bulk copies prefetch rows into a pipeline of STAGES buffers in shared memory; otherwise,
// with AHEAD, a thread loads its next row before it finishes the current one. If a row is longer than HELD packs per
// thread, the other elements are read again, and their column gradients accumulate in memory.
struct Row { Pack x[HELD], dy[HELD], dsum[HELD]; Sum factor, mean; };

// Arrays that are read; gradients of columns that are computed
constexpr int ARRAYS = ADDED ? 3 : 2, COLUMN_GRADS = CENTERED ? 2 : 1;

template<class F>  // f(x, dy, weights, index in the row, index in the thread or -1)
__device__ void each_pack(const Row &row, const Pack (&scales)[HELD], const Pack *x, const Pack *dy,
                          const Pack *weights, int packs, F f) {
    each_held(packs, [&](int h, int i) { f(row.x[h], row.dy[h], scales[h], i, h); });
    each_beyond(packs, [&](int i) { f(x[i], dy[i], SCALED ? weights[i] : Pack(), i, -1); });
}

__global__ void __launch_bounds__(THREADS, BLOCKS)
norm_backward(const From *x, const From *dy, const From *weight, const From *dsum, const Sum *row_stats, From *dx,
              Sum *parts, long long rows, int packs) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 filled[RING ? STAGES : 1];
    const int thread = threadIdx.x % GROUP, group = threadIdx.x / GROUP, width = packs * V;
    const long long first = (long long)blockIdx.x * GROUPS, stride = (long long)gridDim.x * GROUPS;
    const Pack *arrays[3] = {(const Pack *)x, (const Pack *)dy, (const Pack *)dsum}, *weights = (const Pack *)weight;
    Sum *part = parts + (long long)blockIdx.x * COLUMN_GRADS * width;
    Sum columns[COLUMN_GRADS][HELD][V] = {};
    Pack scales[HELD];
    auto load = [&](Row &to, long long row, const Pack *x, const Pack *dy, const Pack *dsum) {
        if (row >= rows) return;
        each_held(packs, [&](int h, int i) {
            to.x[h] = x[i];
            to.dy[h] = dy[i];
            if constexpr (ADDED) to.dsum[h] = dsum[i];
        });
    };
    auto load_row = [&](Row &to, long long row) {
        load(to, row, arrays[0] + row * packs, arrays[1] + row * packs, arrays[2] + row * packs);
    };
    auto load_stats = [&](Row &to, long long row) {
        to.factor = row < rows ? row_stats[row] : Sum(0);
        to.mean = CENTERED && row < rows ? row_stats[rows + row] : Sum(0);
    };
    const int stage_packs = GROUPS * packs;                        // packs per array and stage
    auto fill = [&](int iteration) {                             // called by one thread
        const long long row = first + iteration * stride;
        if (row >= rows) return;
        const int bytes = (int)min((long long)GROUPS, rows - row) * packs * (int)sizeof(Pack);
        barrier_expect(address(filled + iteration % STAGES), ARRAYS * bytes);
        for (int a = 0; a < ARRAYS; a++)
            bulk_copy_once(address((Pack *)ring + (iteration % STAGES * ARRAYS + a) * stage_packs),
                           arrays[a] + row * packs, bytes, address(filled + iteration % STAGES));
    };
    if constexpr (RING) {
        if (threadIdx.x == 0) {
            for (int s = 0; s < STAGES; s++) barrier_init(address(filled + s), 1);
            barriers_ready();
            for (int s = 0; s < STAGES; s++) fill(s);
        }
        __syncthreads();
    }
    if constexpr (SCALED) each_held(packs, [&](int h, int i) { scales[h] = weights[i]; });

    Row current, next;
    load_stats(next, first + group);
    if constexpr (AHEAD && !RING) load_row(next, first + group);
    for (int iteration = 0; first + iteration * stride < rows; iteration++) {
        const long long row = first + iteration * stride + group;
        current = next;
        load_stats(next, row + stride);
        if constexpr (RING) {
            const Pack *stage = (const Pack *)ring + iteration % STAGES * ARRAYS * stage_packs + group * packs;
            barrier_wait(address(filled + iteration % STAGES), iteration / STAGES);
            load(current, row, stage, stage + stage_packs, stage + 2 * stage_packs);
        } else if constexpr (AHEAD) load_row(next, row + stride);
        else load_row(current, row);
        const int own = row < rows ? packs : 0;
        const Pack *far_x = arrays[0] + row * packs, *far_dy = arrays[1] + row * packs;
        Sum sums[COLUMN_GRADS] = {};                                // of g * n, and of g
        each_pack(current, scales, far_x, far_dy, weights, own,
        [&](const Pack &x, const Pack &dy, const Pack &scale, int i, int h) {
            #pragma unroll
            for (int v = 0; v < V; v++) {
                const Sum n = (Sum(x.at[v]) - current.mean) * current.factor, d = Sum(dy.at[v]);
                const Sum g = SCALED ? d * Sum(scale.at[v]) : d;
                sums[0] += g * n;
                if constexpr (CENTERED) sums[1] += g;
                if constexpr (!LEARNT) continue;
                if (h >= 0) {
                    columns[0][h < 0 ? 0 : h][v] += d * n;
                    if constexpr (CENTERED) columns[1][h < 0 ? 0 : h][v] += d;
                } else {
                    part[i * V + v] = d * n + (iteration ? part[i * V + v] : Sum(0));
                    if constexpr (CENTERED)
                        part[width + i * V + v] = d + (iteration ? part[width + i * V + v] : Sum(0));
                }
            }
        });
        group_sum(sums, iteration % 2);
        if constexpr (RING) {                               // all threads have read this stage
            if constexpr (WARPS == 1) __syncthreads();
            if (threadIdx.x == 0) fill(iteration + STAGES);
        }
        each_pack(current, scales, far_x, far_dy, weights, own,
        [&](const Pack &x, const Pack &dy, const Pack &scale, int i, int h) {
            Pack res, residual_grad;
            if constexpr (ADDED) residual_grad = h < 0 ? arrays[2][row * packs + i] : current.dsum[h < 0 ? 0 : h];
            #pragma unroll
            for (int v = 0; v < V; v++) {
                const Sum n = (Sum(x.at[v]) - current.mean) * current.factor, d = Sum(dy.at[v]);
                Sum value = (SCALED ? d * Sum(scale.at[v]) : d) - n * (sums[0] / width);
                if constexpr (CENTERED) value -= sums[1] / width;
                value *= current.factor;
                if constexpr (ADDED) value += Sum(residual_grad.at[v]);
                res.at[v] = From(value);
            }
            store((Pack *)dx + row * packs + i, res);
        });
    }
    if constexpr (!LEARNT) return;
    if constexpr (GROUPS > 1) {                             // add the columns of all groups of the block
        __shared__ Sum of_group[GROUPS > 1 ? GROUPS : 1][HELD * V][GROUP];
        for (int m = 0; m < COLUMN_GRADS; m++) {
            for (int h = 0; h < HELD * V; h++) of_group[group][h][thread] = columns[m][h / V][h % V];
            __syncthreads();
            if (group == 0)
                for (int h = 0; h < HELD * V; h++)
                    for (int o = 1; o < GROUPS; o++) columns[m][h / V][h % V] += of_group[o][h][thread];
            __syncthreads();
        }
        if (group > 0) return;
    }
    for (int m = 0; m < COLUMN_GRADS; m++)
        each_held(packs, [&](int h, int i) {
            #pragma unroll
            for (int v = 0; v < V; v++) part[m * width + i * V + v] = columns[m][h][v];
        });
}
