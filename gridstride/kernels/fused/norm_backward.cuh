// Computes dx from dy and, with PARAM_GRADS, partial sums of the gradients of weight and bias. With x_hat = (x - mean)
// * inv_std and g = dy * weight: dx = inv_std * (g - mean(g) - x_hat * mean(g * x_hat)); without CENTERED, mean and
// mean(g) are 0. With HAS_RESIDUAL, other operators use the sum x as well; `dsum`, the gradient of x from these
// operators, is added to dx. Blocks are persistent, so the column gradients accumulate in registers over all rows of a
// block. With PIPELINED, on a Hopper GPU, bulk copies prefetch rows into a pipeline of STAGES stages in shared memory;
// otherwise, with PREFETCH, a thread loads its next row before it finishes the current one.
struct Row { Vector x[VECS_PER_THREAD], dy[VECS_PER_THREAD], dsum[VECS_PER_THREAD]; Acc inv_std, mean; };

// ARRAYS: input arrays; COLUMN_GRADS: gradients per column, of the weight and, with CENTERED, of the bias
constexpr int ARRAYS = HAS_RESIDUAL ? 3 : 2, COLUMN_GRADS = CENTERED ? 2 : 1;

__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
norm_backward(const Elem *x, const Elem *dy, const Elem *weight, const Elem *dsum, const Acc *row_stats, Elem *dx,
              Acc *partials, long long rows, int vectors) {
    extern __shared__ __align__(128) char stages[];
    __shared__ u64 full_barriers[PIPELINED ? STAGES : 1];
    const int thread = threadIdx.x % ROW_THREADS, row_in_block = threadIdx.x / ROW_THREADS, width = vectors * VEC;
    const long long first = (long long)blockIdx.x * ROWS_PER_BLOCK, stride = (long long)gridDim.x * ROWS_PER_BLOCK;
    const Vector *arrays[3] = {(const Vector *)x, (const Vector *)dy, (const Vector *)dsum};
    const Vector *weights = (const Vector *)weight;
    Acc *partial = partials + (long long)blockIdx.x * COLUMN_GRADS * width;
    Acc column_grads[COLUMN_GRADS][VECS_PER_THREAD][VEC] = {};
    Vector weights_in_registers[VECS_PER_THREAD];
    auto load = [&](Row &dst, long long row, const Vector *x, const Vector *dy, const Vector *dsum) {
        if (row >= rows) return;
        visit_registers(vectors, [&](int k, int i) {
            dst.x[k] = x[i];
            dst.dy[k] = dy[i];
            if constexpr (HAS_RESIDUAL) dst.dsum[k] = dsum[i];
        });
    };
    auto load_row = [&](Row &dst, long long row) {
        load(dst, row, arrays[0] + row * vectors, arrays[1] + row * vectors, arrays[2] + row * vectors);
    };
    auto load_stats = [&](Row &dst, long long row) {
        dst.inv_std = row < rows ? row_stats[row] : Acc(0);
        dst.mean = CENTERED && row < rows ? row_stats[rows + row] : Acc(0);
    };
    const int stage_vectors = ROWS_PER_BLOCK * vectors;  // vectors per array and stage
    auto fill = [&](int iteration) {  // called by one thread
        const long long row = first + iteration * stride;
        if (row >= rows) return;
        const int bytes = (int)min((long long)ROWS_PER_BLOCK, rows - row) * vectors * (int)sizeof(Vector);
        barrier_expect(address(full_barriers + iteration % STAGES), ARRAYS * bytes);
        for (int a = 0; a < ARRAYS; a++)
            bulk_copy_evict_first(address((Vector *)stages + (iteration % STAGES * ARRAYS + a) * stage_vectors),
                                  arrays[a] + row * vectors, bytes, address(full_barriers + iteration % STAGES));
    };
    if constexpr (PIPELINED) {
        if (threadIdx.x == 0) {
            for (int s = 0; s < STAGES; s++) barrier_init(address(full_barriers + s), 1);
            fence_mbarrier_init();
            for (int s = 0; s < STAGES; s++) fill(s);
        }
        __syncthreads();
    }
    if constexpr (HAS_WEIGHT)
        visit_registers(vectors, [&](int k, int i) { weights_in_registers[k] = weights[i]; });

    Row current, next;
    load_stats(next, first + row_in_block);
    if constexpr (PREFETCH && !PIPELINED) load_row(next, first + row_in_block);
    for (int iteration = 0; first + iteration * stride < rows; iteration++) {
        const long long row = first + iteration * stride + row_in_block;
        current = next;
        load_stats(next, row + stride);
        if constexpr (PIPELINED) {
            const Vector *stage = (const Vector *)stages + iteration % STAGES * ARRAYS * stage_vectors;
            stage += row_in_block * vectors;
            barrier_wait(address(full_barriers + iteration % STAGES), iteration / STAGES);
            load(current, row, stage, stage + stage_vectors, stage + 2 * stage_vectors);
        } else if constexpr (PREFETCH) load_row(next, row + stride);
        else load_row(current, row);
        const int row_vectors = row < rows ? vectors : 0;
        Acc sums[COLUMN_GRADS] = {};  // of g * x_hat, and of g
        visit_registers(row_vectors, [&](int k, int) {
            #pragma unroll
            for (int v = 0; v < VEC; v++) {
                const Acc x_hat = (Acc(current.x[k].data[v]) - current.mean) * current.inv_std;
                const Acc d = Acc(current.dy[k].data[v]), g = HAS_WEIGHT ? d * Acc(weights_in_registers[k].data[v]) : d;
                sums[0] += g * x_hat;
                if constexpr (CENTERED) sums[1] += g;
                if constexpr (!PARAM_GRADS) continue;
                column_grads[0][k][v] += d * x_hat;
                if constexpr (CENTERED) column_grads[1][k][v] += d;
            }
        });
        row_sum(sums, iteration % 2);
        if constexpr (PIPELINED) {  // all threads have read this stage
            if constexpr (ROW_WARPS == 1) __syncthreads();
            if (threadIdx.x == 0) fill(iteration + STAGES);
        }
        visit_registers(row_vectors, [&](int k, int i) {
            Vector res;
            #pragma unroll
            for (int v = 0; v < VEC; v++) {
                const Acc x_hat = (Acc(current.x[k].data[v]) - current.mean) * current.inv_std;
                const Acc d = Acc(current.dy[k].data[v]), g = HAS_WEIGHT ? d * Acc(weights_in_registers[k].data[v]) : d;
                Acc value = g - x_hat * (sums[0] / width);
                if constexpr (CENTERED) value -= sums[1] / width;
                value *= current.inv_std;
                if constexpr (HAS_RESIDUAL) value += Acc(current.dsum[k].data[v]);
                res.data[v] = Elem(value);
            }
            store((Vector *)dx + row * vectors + i, res);
        });
    }
    if constexpr (!PARAM_GRADS) return;
    if constexpr (ROWS_PER_BLOCK > 1) {  // add the column gradients of all rows of the block
        __shared__ Acc shared_grads[ROWS_PER_BLOCK > 1 ? ROWS_PER_BLOCK : 1][VECS_PER_THREAD * VEC][ROW_THREADS];
        for (int m = 0; m < COLUMN_GRADS; m++) {
            for (int k = 0; k < VECS_PER_THREAD * VEC; k++)
                shared_grads[row_in_block][k][thread] = column_grads[m][k / VEC][k % VEC];
            __syncthreads();
            if (row_in_block == 0)
                for (int k = 0; k < VECS_PER_THREAD * VEC; k++)
                    for (int r = 1; r < ROWS_PER_BLOCK; r++)
                        column_grads[m][k / VEC][k % VEC] += shared_grads[r][k][thread];
            __syncthreads();
        }
        if (row_in_block > 0) return;
    }
    for (int m = 0; m < COLUMN_GRADS; m++)
        visit_registers(vectors, [&](int k, int i) {
            #pragma unroll
            for (int v = 0; v < VEC; v++) partial[m * width + i * VEC + v] = column_grads[m][k][v];
        });
}
