
__global__ void __launch_bounds__(128*(WGS + 1), 1)
attention_forward(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                  const __grid_constant__ TensorMap v, out_t *out, float *lse, const int *lens, unsigned *tile_counter,
                  float scale_log2, int batch, int heads, int group, int rows, int keys, int window, int section_heads,
                  long long out_batch, long long out_head, long long out_row, int first_row, int total_rows) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ int buffer_tile[Q_BUFFERS];
    Sizes dims = {batch, heads, group, rows, keys, window, section_heads};
    Out outputs = {out, lse, out_batch, out_head, out_row, first_row, total_rows};
    attend(smem, buffer_tile, q, k, v, {dims, lens, outputs, scale_log2}, tile_counter);
}
