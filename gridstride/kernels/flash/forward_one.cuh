
__global__ void __launch_bounds__(128*(WGS + 1), 1)
attention_forward(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                  const __grid_constant__ TensorMap v, out_t *out, float *lse, const int *lens, unsigned *tile_counter,
                  float factor, int batch, int heads, int group, int rows, int keys, int window, int section,
                  long long out_batch, long long out_head, long long out_row, int first, int total_rows) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ int buffer_tile[Q_BUFFERS];
    Sizes dims = {batch, heads, group, rows, keys, window, section};
    Out to = {out, lse, out_batch, out_head, out_row, first, total_rows};
    attend(smem, buffer_tile, q, k, v, {dims, lens, to, factor}, tile_counter);
}
