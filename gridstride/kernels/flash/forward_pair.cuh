
// Attention to two arrays of keys, the second of which a neighbour is still sending, in `parts` groups of heads.
// `arrived` counts the groups that have arrived; its value is `expected` after the last one.
struct TwoArrays {
    const TensorMap &own, &other;
    const volatile int *arrived, *expected;
    int kv_heads, heads, parts, ready;  // heads of k per sequence and in the batch; number of parts, and of those ready
};

__device__ void prefetch(const TwoArrays &x) { prefetch(x.own); prefetch(x.other); }
__device__ void wait_for_other(TwoArrays &x, int head) {
    int part = head*x.parts/x.heads;
    if (part < x.ready) return;
    int expected = *x.expected - (x.parts - 1 - part);
    while (*x.arrived - expected < 0) __nanosleep(100);
    __threadfence_system();
    asm volatile("fence.proxy.async;" ::: "memory");         // TMA reads the keys, through the async proxy
    x.ready = part + 1;
}
__device__ void load_keys(u32 to, TwoArrays &x, int key, int head, const Tile &t, u32 full, u32 empty,
                          PipelineState &pipe) {
    bool other = key >= t.own_steps*BN;
    if (other) wait_for_other(x, t.batch*x.kv_heads + head);
    load_keys(to, other ? x.other : x.own, other ? key - t.own_steps*BN : key, head, t, full, empty, pipe);
}

__global__ void __launch_bounds__(128*(WGS + 1), 1)
attention_forward_pair(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                       const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap other_k,
                       const __grid_constant__ TensorMap other_v, out_t *out, float *lse, const int *arrived,
                       const int *expected, const int *order, unsigned *tile_counter, float factor, int batch,
                       int heads, int group, int rows, int keys, int window, int section, int from, int other_keys,
                       int parts) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ int buffer_tile[Q_BUFFERS];
    Sizes dims = {batch, heads, group, rows, keys, window, section, from, other_keys, order};
    int kv_heads = heads/group;
    TwoArrays all_k = {k, other_k, arrived, expected, kv_heads, batch*kv_heads, parts, 0};
    TwoArrays all_v = {v, other_v, arrived, expected, kv_heads, batch*kv_heads, parts, 0};
    long long row = HD, head = row*rows;                     // the output is contiguous
    Out to = {out, lse, head*heads, head, row, 0, rows};
    attend(smem, buffer_tile, q, all_k, all_v, {dims, nullptr, to, factor}, tile_counter);
}
