// Norms of rows: each row is divided by its root mean square. With CENTERED its mean is subtracted first, and it is
// divided by its standard deviation. Then it is multiplied by `weight` (SCALED), and `bias` (SHIFTED) is added. With
// ADDED the input is x + residual, which is stored in `sum`. `row_stats` gets the factor of each row, and with CENTERED
// also its mean. A thread keeps HELD packs of a row in registers, and reads the remaining packs of a longer row again.
// Defined above: BLOCKS per SM, and LOAD_EARLY: load the weights together with the row.
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
norm_forward(const From *x, const From *residual, const From *weight, const From *bias, From *sum, From *y,
             Sum *row_stats, long long rows, int packs, Sum eps) {
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
        row_stats[row] = factor;
        if constexpr (CENTERED) row_stats[rows + row] = mean[0];
    }
}
