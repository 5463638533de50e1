// Rows, each divided by its root mean square (CENTERED: less its mean, and divided by its standard deviation), times
// `weight` (SCALED), plus `bias` (SHIFTED). ADDED: of x + residual, which is kept in `sum`. `kept` gets of each row
// what it was multiplied by, and with CENTERED its mean.
// A thread keeps HELD packs of a row in registers, and of a longer row reads the others again. Above: BLOCKS, of an
// SM, and LOAD_EARLY, whether the weights are loaded together with the row.
template<class F> __device__ void each_pack(const Pack (&held)[HELD], const Pack *row, int packs, F f) {
    each_held(packs, [&](int h, int i) { f(held[h], i, h); });
    each_beyond(packs, [&](int i) { f(row[i], i, -1); });
}

__device__ Pack operator+(Pack a, const Pack &b) {
    #pragma unroll
    for (int v = 0; v < V; v++) a.at[v] = From(Sum(a.at[v]) + Sum(b.at[v]));
    return a;
}

__global__ void __launch_bounds__(THREADS, BLOCKS)
norm_forward(const From *x, const From *residual, const From *weight, const From *bias, From *sum, From *y, Sum *kept,
             long long rows, int packs, Sum eps) {
    const int width = packs * V;
    const long long row = (long long)blockIdx.x * GROUPS + threadIdx.x / GROUP;
    const int own = row < rows ? packs : 0;                 // packs of the row; none, where there is no row
    const Pack *from = (const Pack *)x + row * packs, *more = (const Pack *)residual + row * packs;
    const Pack *weights = (const Pack *)weight, *biases = (const Pack *)bias;
    Pack *to = (Pack *)y + row * packs, *added = (Pack *)sum + row * packs;
    Pack held[HELD], other[HELD], scales[HELD];
    each_held(own, [&](int h, int i) {
        held[h] = from[i];
        if constexpr (ADDED) other[h] = more[i];
        if constexpr (SCALED && LOAD_EARLY) scales[h] = weights[i];
    });
    if constexpr (ADDED) {
        each_held(own, [&](int h, int i) { store(added + i, held[h] = held[h] + other[h]); });
        each_beyond(own, [&](int i) { added[i] = from[i] + more[i]; });
        from = added;
    }

    Sum mean[1] = {}, square[1] = {};
    if constexpr (CENTERED) {
        each_pack(held, from, own, [&](const Pack &pack, int, int) {
            #pragma unroll
            for (int v = 0; v < V; v++) mean[0] += Sum(pack.at[v]);
        });
        group_sum(mean, 0);
        mean[0] /= width;
    }
    each_pack(held, from, own, [&](const Pack &pack, int, int) {
        #pragma unroll
        for (int v = 0; v < V; v++) square[0] += (Sum(pack.at[v]) - mean[0]) * (Sum(pack.at[v]) - mean[0]);
    });
    group_sum(square, 1);
    const Sum factor = 1 / sqrt(square[0] / width + eps);
    each_pack(held, from, own, [&](const Pack &pack, int i, int h) {
        Pack scale, shift, res;
        if constexpr (SCALED) scale = LOAD_EARLY && h >= 0 ? scales[h < 0 ? 0 : h] : weights[i];
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
    if (own && threadIdx.x % GROUP == 0) {
        kept[row] = factor;
        if constexpr (CENTERED) kept[rows + row] = mean[0];
    }
}
