// Computes the gradients of a norm in one launch, by the formulas of norm_backward.cuh. The first `column_blocks`
// blocks sum the gradients of weight and bias: each takes STRIP vectors of all rows, and its threads divide the rows.
// The other blocks compute dx: ROW_THREADS threads per row. So x and dy are read twice, the second time mostly from the
// L2 cache, but there are no partial sums in global memory, and no block waits for another. Requires definitions of
// STRIP, and ROWS_IN_FLIGHT, the rows that a thread loads before it adds.

// COLUMN_GRADS: gradients per column, of the weight and, with CENTERED, of the bias
constexpr int COLUMN_GRADS = CENTERED ? 2 : 1;

template<class F>  // f(x, dy, weights, index in the row)
__device__ void visit_vectors(const Vector (&x)[VECS_PER_THREAD], const Vector (&dy)[VECS_PER_THREAD],
                              const Vector *row_x, const Vector *row_dy, const Vector *weights, int vectors, F f) {
    visit_registers(vectors, [&](int k, int i) { f(x[k], dy[k], HAS_WEIGHT ? weights[i] : Vector(), i); });
    visit_remaining(vectors, [&](int i) { f(row_x[i], row_dy[i], HAS_WEIGHT ? weights[i] : Vector(), i); });
}

__device__ void row_gradients(const Vector *x, const Vector *dy, const Vector *weights, const Vector *dsum,
                              const Acc *row_stats, Vector *dx, long long first, long long rows, int vectors) {
    const int width = vectors * VEC;
    const long long row = first + threadIdx.x / ROW_THREADS;
    const int row_vectors = row < rows ? vectors : 0;
    Vector xs[VECS_PER_THREAD], dys[VECS_PER_THREAD];
    x += row * vectors, dy += row * vectors;
    visit_registers(row_vectors, [&](int k, int i) {
        xs[k] = x[i];
        dys[k] = dy[i];
    });
    const Acc inv_std = row < rows ? row_stats[row] : Acc(0);
    const Acc mean = CENTERED && row < rows ? row_stats[rows + row] : Acc(0);
    Acc sums[COLUMN_GRADS] = {};  // of g * x_hat, and of g
    visit_vectors(xs, dys, x, dy, weights, row_vectors,
    [&](const Vector &x, const Vector &dy, const Vector &scale, int) {
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            const Acc g = HAS_WEIGHT ? Acc(dy.data[v]) * Acc(scale.data[v]) : Acc(dy.data[v]);
            sums[0] += g * ((Acc(x.data[v]) - mean) * inv_std);
            if constexpr (CENTERED) sums[1] += g;
        }
    });
    row_sum(sums, 0);
    visit_vectors(xs, dys, x, dy, weights, row_vectors,
    [&](const Vector &x, const Vector &dy, const Vector &scale, int i) {
        Vector res, residual_grad;
        if constexpr (HAS_RESIDUAL) residual_grad = dsum[row * vectors + i];
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            const Acc g = HAS_WEIGHT ? Acc(dy.data[v]) * Acc(scale.data[v]) : Acc(dy.data[v]);
            Acc value = g - (Acc(x.data[v]) - mean) * inv_std * (sums[0] / width);
            if constexpr (CENTERED) value -= sums[1] / width;
            value *= inv_std;
            if constexpr (HAS_RESIDUAL) value += Acc(residual_grad.data[v]);
            res.data[v] = Elem(value);
        }
        store(dx + row * vectors + i, res);
    });
}

__device__ void column_gradients(const Vector *x, const Vector *dy, const Acc *row_stats, Elem *dweight, Elem *dbias,
                                 long long rows, int vectors) {
    constexpr int WARPS = THREADS / 32, COLUMNS = STRIP * VEC, ROW_STEP = THREADS / STRIP;
    __shared__ Acc warp_grads[COLUMN_GRADS][WARPS][COLUMNS];
    const int strip_vector = threadIdx.x % STRIP, lane = threadIdx.x % 32, i = blockIdx.x * STRIP + strip_vector;
    Acc grads[COLUMN_GRADS][VEC] = {};
    for (long long first = threadIdx.x / STRIP; i < vectors && first < rows; first += ROWS_IN_FLIGHT * ROW_STEP) {
        Vector xs[ROWS_IN_FLIGHT], dys[ROWS_IN_FLIGHT];
        Acc inv_std[ROWS_IN_FLIGHT], mean[ROWS_IN_FLIGHT];
        #pragma unroll
        for (int r = 0; r < ROWS_IN_FLIGHT; r++) {
            const long long row = first + r * ROW_STEP;
            if (row >= rows) continue;
            xs[r] = x[row * vectors + i];
            dys[r] = dy[row * vectors + i];
            inv_std[r] = row_stats[row];
            mean[r] = CENTERED ? row_stats[rows + row] : Acc(0);
        }
        #pragma unroll
        for (int r = 0; r < ROWS_IN_FLIGHT; r++) {
            if (first + r * ROW_STEP >= rows) continue;
            #pragma unroll
            for (int v = 0; v < VEC; v++) {
                const Acc d = Acc(dys[r].data[v]);
                grads[0][v] += d * ((Acc(xs[r].data[v]) - mean[r]) * inv_std[r]);
                if constexpr (CENTERED) grads[1][v] += d;
            }
        }
    }
    for (int m = 0; m < COLUMN_GRADS; m++)
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            #pragma unroll
            for (int d = STRIP; d < 32; d *= 2) grads[m][v] += __shfl_xor_sync(~0u, grads[m][v], d);
            if (lane < STRIP) warp_grads[m][threadIdx.x / 32][lane * VEC + v] = grads[m][v];
        }
    __syncthreads();
    for (int c = threadIdx.x; c < COLUMN_GRADS * COLUMNS; c += THREADS) {
        const int m = c / COLUMNS, column = c % COLUMNS;
        if (blockIdx.x * COLUMNS + column >= vectors * VEC) continue;
        Acc sum = 0;
        for (int w = 0; w < WARPS; w++) sum += warp_grads[m][w][column];
        (m ? dbias : dweight)[blockIdx.x * COLUMNS + column] = Elem(sum);
    }
}

__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
norm_backward_direct(const Elem *x, const Elem *dy, const Elem *weight, const Elem *dsum, const Acc *row_stats,
                     Elem *dx, Elem *dweight, Elem *dbias, long long rows, int vectors, int column_blocks) {
    const Vector *xs = (const Vector *)x, *dys = (const Vector *)dy;
    if ((int)blockIdx.x < column_blocks)
        column_gradients(xs, dys, row_stats, dweight, dbias, rows, vectors);
    else
        row_gradients(xs, dys, (const Vector *)weight, (const Vector *)dsum, row_stats, (Vector *)dx,
                      (long long)(blockIdx.x - column_blocks) * ROWS_PER_BLOCK, rows, vectors);
}
