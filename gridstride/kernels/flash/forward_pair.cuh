
// Attention to two arrays of keys, the second of which a neighbour is still sending, in `num_parts` groups of heads.
// `arrived` counts the groups that have arrived; its value is `expected` after the last one.
struct TwoArrays {
    const TensorMap &own_map, &other_map;
    const volatile int *arrived, *expected;
    int kv_heads, heads;               // heads of k per sequence, and in the batch
    int num_parts, num_ready;          // num_ready: parts that have arrived
};

__device__ void prefetch(const TwoArrays &x) { prefetch(x.own_map); prefetch(x.other_map); }
__device__ void wait_for_other(TwoArrays &x, int head) {
    int part = head*x.num_parts/x.heads;
    if (part < x.num_ready) return;
    int expected = *x.expected - (x.num_parts - 1 - part);
    while (*x.arrived - expected < 0) __nanosleep(100);
    __threadfence_system();
    asm volatile("fence.proxy.async;" ::: "memory");         // TMA reads the keys, through the async proxy
    x.num_ready = part + 1;
}
__device__ void load_kv(u32 dst, TwoArrays &x, int key, int head, const Tile &t, u32 full, u32 empty,
                        PipelineState &pipe) {
    bool other = key >= t.own_steps*BN;
    if (other) wait_for_other(x, t.batch*x.kv_heads + head);
    load_kv(dst, other ? x.other_map : x.own_map, other ? key - t.own_steps*BN : key, head, t, full, empty, pipe);
}

__global__ void __launch_bounds__(128*(WGS + 1), 1)
attention_forward_pair(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                       const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap other_k,
                       const __grid_constant__ TensorMap other_v, out_t *out, float *lse, const int *arrived,
                       const int *expected, const int *order, unsigned *tile_counter, float scale_log2, int batch,
                       int heads, int group, int rows, int keys, int window, int section_heads,
                       int other_first_row, int other_keys, int num_parts) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ int buffer_tile[Q_BUFFERS];
    Sizes dims = {batch, heads, group, rows, keys, window, section_heads, other_first_row, other_keys, order};
    int kv_heads = heads/group;
    TwoArrays all_k = {k, other_k, arrived, expected, kv_heads, batch*kv_heads, num_parts, 0};
    TwoArrays all_v = {v, other_v, arrived, expected, kv_heads, batch*kv_heads, num_parts, 0};
    long long row = HD, head = row*rows;                     // the output is contiguous
    Out outputs = {out, lse, head*heads, head, row, 0, rows};
    attend(smem, buffer_tile, q, all_k, all_v, {dims, nullptr, outputs, scale_log2}, tile_counter);
}
