
// Attention to two arrays of keys, the second of which a neighbour is still sending, in `parts` groups of heads.
// `arrived` counts the groups that have arrived; its value is `wanted` after the last one.
struct TwoArrays { const TensorMap &own, &other; const volatile int *arrived, *wanted; int each, heads, parts, ready; };

__device__ void prefetch(const TwoArrays &x) { prefetch(x.own); prefetch(x.other); }
__device__ void wait_for_other(TwoArrays &x, int head) {
    int part = head*x.parts/x.heads;
    if (part < x.ready) return;
    int wanted = *x.wanted - (x.parts - 1 - part);
    while (*x.arrived - wanted < 0) __nanosleep(100);
    __threadfence_system();
    asm volatile("fence.proxy.async;" ::: "memory");         // TMA reads the keys, through the async proxy
    x.ready = part + 1;
}
__device__ void load_keys(u32 to, TwoArrays &x, int key, int head, const Tile &t, u32 full, u32 empty,
                          PipelineState &at) {
    bool other = key >= t.own*BN;
    if (other) wait_for_other(x, t.batch*x.each + head);
    load_keys(to, other ? x.other : x.own, other ? key - t.own*BN : key, head, t, full, empty, at);
}

__global__ void __launch_bounds__(128*(WGS + 1), 1)
attention_forward_pair(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                       const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap other_k,
                       const __grid_constant__ TensorMap other_v, out_t *out, float *lse, const int *arrived,
                       const int *wanted, const int *order, unsigned *taken, float factor, int batch, int heads,
                       int group, int rows, int keys, int window, int section, int from, int others, int parts) {
    extern __shared__ __align__(1024) char smem[];
    __shared__ int which[AHEAD];
    Sizes z = {batch, heads, group, rows, keys, window, section, from, others, order};
    int each = heads/group;
    TwoArrays all_k = {k, other_k, arrived, wanted, each, batch*each, parts, 0};
    TwoArrays all_v = {v, other_v, arrived, wanted, each, batch*each, parts, 0};
    long long row = HD, head = row*rows;                     // the output is contiguous
    Out to = {out, lse, head*heads, head, row, 0, rows};
    attend(smem, which, q, all_k, all_v, {z, nullptr, to, factor}, taken);
}
