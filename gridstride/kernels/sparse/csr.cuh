// Computes out = w @ x for a sparse w in CSR. `values` and `columns` have the elements of w and their columns; row r
// begins at index row_offsets[r]. x is k x n, out is rows x n, both row-major. Accumulators are float. Requires
// definitions of Elem (the type of all elements), and V (elements per load).
struct alignas(V*sizeof(Elem)) Vector { Elem v[V]; };

// A warp multiplies a row of w by 32*V columns of x.
__global__ void __launch_bounds__(256) multiply_rows(const int *row_offsets, const int *columns, const Elem *values,
                                                     const Elem *x, Elem *out, int rows, int n) {
    int lane = threadIdx.x%32, row = blockIdx.x*8 + threadIdx.x/32, c = (blockIdx.y*32 + lane)*V;
    if (row >= rows) return;
    float sum[V] = {};
    int end = row_offsets[row + 1];
    for (int start = row_offsets[row]; start < end; start += 32) {     // 32 elements per iteration, one per lane
        bool in_bounds = start + lane < end;
        int column = in_bounds ? columns[start + lane] : 0;
        float value = in_bounds ? float(values[start + lane]) : 0;
        #pragma unroll 4
        for (int i = 0; i < min(32, end - start); i++) {
            int x_row = __shfl_sync(~0u, column, i);
            float scale = __shfl_sync(~0u, value, i);
            if (c >= n) continue;
            Vector v = *(const Vector *)(x + (size_t)x_row*n + c);
            #pragma unroll
            for (int j = 0; j < V; j++) sum[j] += scale*float(v.v[j]);
        }
    }
    if (c >= n) return;
    Vector res;
    #pragma unroll
    for (int j = 0; j < V; j++) res.v[j] = Elem(sum[j]);
    *(Vector *)(out + (size_t)row*n + c) = res;
}

// Multiplies by a single column: a warp multiplies a row of w, one element per lane and iteration.
__global__ void __launch_bounds__(256) multiply_vector(const int *row_offsets, const int *columns, const Elem *values,
                                                       const Elem *x, Elem *out, int rows) {
    int lane = threadIdx.x%32, row = blockIdx.x*8 + threadIdx.x/32;
    if (row >= rows) return;
    float sum = 0;
    int end = row_offsets[row + 1];
    #pragma unroll 4
    for (int i = row_offsets[row] + lane; i < end; i += 32) sum += float(values[i])*float(x[columns[i]]);
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) out[row] = Elem(sum);
}
