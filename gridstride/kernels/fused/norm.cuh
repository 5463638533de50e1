// Rows, each divided by its root mean square (CENTERED: less its mean, and divided by its standard deviation), times
// `weight` (SCALED), plus `bias` (SHIFTED). ADDED: of x + residual, which is kept in `sum`. `kept` gets of each row
// what it was multiplied by, and with CENTERED its mean.
// A thread keeps HELD packs of a row in registers, and of a longer row reads the others again. Above: EARLY, whether
// the weights are loaded together with the row.
__global__ void __launch_bounds__(THREADS)
norm_forward(const From *x, const From *residual, const From *weight, const From *bias, From *sum, From *y, Sum *kept,
             long long rows, int packs, Sum eps) {
    const int thread = threadIdx.x % GROUP, width = packs * V;
    const long long row = (long long)blockIdx.x * GROUPS + threadIdx.x / GROUP;
    const int own = row < rows ? packs : 0;                 // packs of the row; none, where there is no row
    const Pack *from = (const Pack *)x + row * packs, *more = (const Pack *)residual + row * packs;
    const Pack *weights = (const Pack *)weight, *biases = (const Pack *)bias;
    Pack *to = (Pack *)y + row * packs, *added = (Pack *)sum + row * packs;
    auto add = [&](Pack a, Pack b) {
        for (int v = 0; v < V; v++) a.at[v] = From(Sum(a.at[v]) + Sum(b.at[v]));
        return a;
    };

    Pack held[HELD], other[HELD], scales[HELD];
    #pragma unroll
    for (int h = 0; h < HELD; h++)
        if (thread + h * GROUP < own) {
            held[h] = from[thread + h * GROUP];
            if constexpr (ADDED) other[h] = more[thread + h * GROUP];
            if constexpr (SCALED && EARLY) scales[h] = weights[thread + h * GROUP];
        }
    if constexpr (ADDED) {
        #pragma unroll
        for (int h = 0; h < HELD; h++)
            if (thread + h * GROUP < own) store(added + thread + h * GROUP, held[h] = add(held[h], other[h]));
        for (int i = thread + HELD * GROUP; i < own; i += GROUP) added[i] = add(from[i], more[i]);
        from = added;
    }
    auto each = [&](auto f) {                               // f(pack, where it is, which of those that are held or -1)
        #pragma unroll
        for (int h = 0; h < HELD; h++)
            if (thread + h * GROUP < own) f(held[h], thread + h * GROUP, h);
        for (int i = thread + HELD * GROUP; i < own; i += GROUP) f(from[i], i, -1);
    };

    Sum mean[1] = {}, square[1] = {};
    if constexpr (CENTERED) {
        each([&](const Pack &pack, int, int) {
            #pragma unroll
            for (int v = 0; v < V; v++) mean[0] += Sum(pack.at[v]);
        });
        group_sum(mean, 0);
        mean[0] /= width;
    }
    each([&](const Pack &pack, int, int) {
        #pragma unroll
        for (int v = 0; v < V; v++) square[0] += (Sum(pack.at[v]) - mean[0]) * (Sum(pack.at[v]) - mean[0]);
    });
    group_sum(square, 1);
    const Sum factor = 1 / sqrt(square[0] / width + eps);
    each([&](const Pack &pack, int i, int h) {
        Pack scale, shift, res;
        if constexpr (SCALED) scale = EARLY && h >= 0 ? scales[h < 0 ? 0 : h] : weights[i];
        if constexpr (SHIFTED) shift = biases[i];
        #pragma unroll
        for (int v = 0; v < V; v++) {
            Sum value = (Sum(pack.at[v]) - mean[0]) * factor;
            if constexpr (SCALED) value *= Sum(scale.at[v]);
            if constexpr (SHIFTED) value += Sum(shift.at[v]);
            res.at[v] = From(value);
        }
        store(to + i, res);
    });
    if (own && thread == 0) {
        kept[row] = factor;
        if constexpr (CENTERED) kept[rows + row] = mean[0];
    }
}
