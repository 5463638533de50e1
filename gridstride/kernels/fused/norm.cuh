// RMS norm divides each row by its root mean square; layer norm (CENTERED) subtracts its mean and divides by its
// standard deviation. Then the row is multiplied by `weight` (HAS_WEIGHT), and `bias` is added (HAS_BIAS). With
// HAS_RESIDUAL the input is x + residual, which is stored in `sum`. Unless it is null, `row_stats` receives the
// reciprocal of the root mean square or standard deviation of each row and, with CENTERED, its mean. A thread keeps
// VECS_PER_THREAD vectors of a row in registers, and reads the remaining vectors of a longer row again. Requires
// definitions of BLOCKS_PER_SM, and LOAD_EARLY: load the weights together with the row.
template<class F>
__device__ void visit_vectors(const Vector (&inputs)[VECS_PER_THREAD], const Vector *row, int vectors, F f) {
    visit_registers(vectors, [&](int k, int i) { f(inputs[k], i, k); });
    visit_remaining(vectors, [&](int i) { f(row[i], i, -1); });
}

__device__ Vector operator+(Vector a, const Vector &b) {
    #pragma unroll
    for (int v = 0; v < VEC; v++) a.data[v] = Elem(Acc(a.data[v]) + Acc(b.data[v]));
    return a;
}

__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
norm_forward(const Elem *x, const Elem *residual, const Elem *weight, const Elem *bias, Elem *sum, Elem *y,
             Acc *row_stats, long long rows, int vectors, Acc eps) {
    const int width = vectors * VEC;
    const long long row = (long long)blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / ROW_THREADS;
    const int row_vectors = row < rows ? vectors : 0;  // 0 past the last row
    const Vector *input_row = (const Vector *)x + row * vectors;
    const Vector *residual_row = (const Vector *)residual + row * vectors;
    const Vector *weights = (const Vector *)weight, *biases = (const Vector *)bias;
    Vector *output_row = (Vector *)y + row * vectors, *sum_row = (Vector *)sum + row * vectors;
    Vector inputs[VECS_PER_THREAD], residuals[VECS_PER_THREAD], weights_in_registers[VECS_PER_THREAD];
    visit_registers(row_vectors, [&](int k, int i) {
        inputs[k] = input_row[i];
        if constexpr (HAS_RESIDUAL) residuals[k] = residual_row[i];
        if constexpr (HAS_WEIGHT && LOAD_EARLY) weights_in_registers[k] = weights[i];
    });
    if constexpr (HAS_RESIDUAL) {
        visit_registers(row_vectors, [&](int k, int i) {
            store(sum_row + i, inputs[k] = inputs[k] + residuals[k]);
        });
        visit_remaining(row_vectors, [&](int i) { sum_row[i] = input_row[i] + residual_row[i]; });
        input_row = sum_row;
    }

    Acc mean[1] = {}, variance[1] = {};
    if constexpr (CENTERED) {
        visit_vectors(inputs, input_row, row_vectors, [&](const Vector &vector, int, int) {
            #pragma unroll
            for (int v = 0; v < VEC; v++) mean[0] += Acc(vector.data[v]);
        });
        row_sum(mean, 0);
        mean[0] /= width;
    }
    visit_vectors(inputs, input_row, row_vectors, [&](const Vector &vector, int, int) {
        #pragma unroll
        for (int v = 0; v < VEC; v++) variance[0] += (Acc(vector.data[v]) - mean[0]) * (Acc(vector.data[v]) - mean[0]);
    });
    row_sum(variance, 1);
    const Acc inv_std = 1 / sqrt(variance[0] / width + eps);
    visit_vectors(inputs, input_row, row_vectors, [&](const Vector &vector, int i, int k) {
        Vector scale, shift, res;
        if constexpr (HAS_WEIGHT) scale = LOAD_EARLY && k >= 0 ? weights_in_registers[k < 0 ? 0 : k] : weights[i];
        if constexpr (HAS_BIAS) shift = biases[i];
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            Acc value = (Acc(vector.data[v]) - mean[0]) * inv_std;
            if constexpr (HAS_WEIGHT) value *= Acc(scale.data[v]);
            if constexpr (HAS_BIAS) value += Acc(shift.data[v]);
            res.data[v] = Elem(value);
        }
        store(output_row + i, res);
    });
    if (row_stats && row_vectors && threadIdx.x % ROW_THREADS == 0) {
        row_stats[row] = inv_std;
        if constexpr (CENTERED) row_stats[rows + row] = mean[0];
    }
}
