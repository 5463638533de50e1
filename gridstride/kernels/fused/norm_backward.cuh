// The gradient of x from that of y, and with LEARNT parts of the gradients of weight and bias. With n = (x - mean) *
// factor and g = dy * weight: dx = factor * (g - mean(g) - n * mean(g * n)), where only CENTERED has mean and mean(g).
// ADDED: x was a sum that is used elsewhere, too; `dsum`, its gradient from there, is added.
// Blocks stay, and take row after row: what a row adds to the columns' gradients stays in registers until the end. A
// thread loads its next row before it is through with one (AHEAD). What a longer row has beyond HELD packs of a thread
// is read again, and is summed in memory.
struct Row { Pack x[HELD], dy[HELD]; };

__global__ void __launch_bounds__(THREADS, BLOCKS)
norm_backward(const From *x, const From *dy, const From *weight, const From *dsum, const Sum *kept, From *dx,
              Sum *parts, long long rows, int packs) {
    const int thread = threadIdx.x % GROUP, group = threadIdx.x / GROUP, width = packs * V, stride = gridDim.x * GROUPS;
    const Pack *weights = (const Pack *)weight;
    constexpr int MORE = CENTERED ? 2 : 1;                  // gradients of columns: of weight, of bias
    Sum *part = parts + (long long)blockIdx.x * MORE * width;
    Sum columns[MORE][HELD][V] = {};
    Pack scales[HELD];
    auto each_held = [&](int own, auto f) {
        #pragma unroll
        for (int h = 0; h < HELD; h++)
            if (thread + h * GROUP < own) f(h, thread + h * GROUP);
    };
    auto load = [&](Row &to, long long row) {
        each_held(row < rows ? packs : 0, [&](int h, int i) {
            to.x[h] = ((const Pack *)x)[row * packs + i];
            to.dy[h] = ((const Pack *)dy)[row * packs + i];
        });
    };
    if constexpr (SCALED) each_held(packs, [&](int h, int i) { scales[h] = weights[i]; });

    Row now, next;
    int turn = 0;
    long long row = (long long)blockIdx.x * GROUPS + group;
    if constexpr (AHEAD) load(next, row);
    for (; row - group < rows; row += stride, turn ^= 1) {
        if constexpr (AHEAD) {
            now = next;
            load(next, row + stride);
        } else load(now, row);
        const int own = row < rows ? packs : 0;
        const Sum factor = own ? kept[row] : Sum(0), mean = CENTERED && own ? kept[rows + row] : Sum(0);
        const Pack *row_x = (const Pack *)x + row * packs, *row_dy = (const Pack *)dy + row * packs;
        auto each = [&](auto f) {                           // f(x, dy, weights, where, which of those held or -1)
            each_held(own, [&](int h, int i) { f(now.x[h], now.dy[h], scales[h], i, h); });
            for (int i = thread + HELD * GROUP; i < own; i += GROUP)
                f(row_x[i], row_dy[i], SCALED ? weights[i] : row_x[i], i, -1);
        };
        Sum sums[MORE] = {};                                // of g * n, and of g
        each([&](const Pack &x, const Pack &dy, const Pack &scale, int i, int h) {
            #pragma unroll
            for (int v = 0; v < V; v++) {
                const Sum n = (Sum(x.at[v]) - mean) * factor, d = Sum(dy.at[v]), g = SCALED ? d * Sum(scale.at[v]) : d;
                sums[0] += g * n;
                if constexpr (CENTERED) sums[1] += g;
                if constexpr (!LEARNT) continue;
                if (h >= 0) {
                    columns[0][h < 0 ? 0 : h][v] += d * n;
                    if constexpr (CENTERED) columns[1][h < 0 ? 0 : h][v] += d;
                } else {
                    const bool first = row - group == (long long)blockIdx.x * GROUPS;
                    part[i * V + v] = d * n + (first ? Sum(0) : part[i * V + v]);
                    if constexpr (CENTERED) part[width + i * V + v] = d + (first ? Sum(0) : part[width + i * V + v]);
                }
            }
        });
        group_sum(sums, turn);
        each([&](const Pack &x, const Pack &dy, const Pack &scale, int i, int) {
            Pack res, elsewhere;
            if constexpr (ADDED) elsewhere = ((const Pack *)dsum)[row * packs + i];
            #pragma unroll
            for (int v = 0; v < V; v++) {
                const Sum n = (Sum(x.at[v]) - mean) * factor, d = Sum(dy.at[v]), g = SCALED ? d * Sum(scale.at[v]) : d;
                Sum value = g - n * (sums[0] / width);
                if constexpr (CENTERED) value -= sums[1] / width;
                value *= factor;
                if constexpr (ADDED) value += Sum(elsewhere.at[v]);
                res.at[v] = From(value);
            }
            store((Pack *)dx + row * packs + i, res);
        });
    }
    if constexpr (!LEARNT) return;
    if constexpr (GROUPS > 1) {                             // the columns of all groups of the block, one after another
        __shared__ Sum of_group[GROUPS > 1 ? GROUPS : 1][HELD * V][GROUP];
        for (int m = 0; m < MORE; m++) {
            for (int h = 0; h < HELD * V; h++) of_group[group][h][thread] = columns[m][h / V][h % V];
            __syncthreads();
            if (group == 0)
                for (int h = 0; h < HELD * V; h++)
                    for (int o = 1; o < GROUPS; o++) columns[m][h / V][h % V] += of_group[o][h][thread];
            __syncthreads();
        }
        if (group > 0) return;
    }
    for (int m = 0; m < MORE; m++)
        each_held(packs, [&](int h, int i) {
            #pragma unroll
            for (int v = 0; v < V; v++) part[m * width + i * V + v] = columns[m][h][v];
        });
}
