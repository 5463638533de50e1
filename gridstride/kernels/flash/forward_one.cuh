
__global__ void __launch_bounds__(128*(WGS + 1), 1)
attention_forward(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                  const __grid_constant__ TensorMap v, out_t *out, float *lse, const int *lens, unsigned *taken,
                  float factor, int batch, int heads, int group, int rows, int keys, int window, int section,
                  long long out_batch, long long out_head, long long out_row, int first, int all) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ int which[AHEAD];
    Sizes z = {batch, heads, group, rows, keys, window, section};
    attend(smem, which, q, k, v, {z, lens, {out, lse, out_batch, out_head, out_row, first, all}, factor}, taken);
}
