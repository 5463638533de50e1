
// The same of two arrays of keys, of which a neighbour is still sending the other one, `parts` of the heads one after
// the other: `told` says what has come, and `wanted` what has to in the end, each part a number less.
struct Both { const TensorMap &own, &other; const volatile int *told, *wanted; int each, heads, parts, here; };

__device__ void prefetch(const Both &x) { prefetch(x.own); prefetch(x.other); }
__device__ void wait_for_other(Both &x, int head) {
    int part = head*x.parts/x.heads;
    if (part < x.here) return;
    int wanted = *x.wanted - (x.parts - 1 - part);
    while (*x.told - wanted < 0) __nanosleep(100);
    __threadfence_system();
    asm volatile("fence.proxy.async;" ::: "memory");         // what comes next is read by copies, not by loads
    x.here = part + 1;
}
__device__ void load_keys(u32 to, Both &x, int key, int head, const Tile &t, u32 full, u32 empty, Place &at) {
    bool other = key >= t.own*BN;
    if (other) wait_for_other(x, t.batch*x.each + head);
    load_keys(to, other ? x.other : x.own, other ? key - t.own*BN : key, head, t, full, empty, at);
}

__global__ void __launch_bounds__(128*(WGS + 1), 1)
attention_forward_pair(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                       const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap other_k,
                       const __grid_constant__ TensorMap other_v, out_t *out, float *lse, const int *told,
                       const int *wanted, const int *order, unsigned *taken, float factor, int batch, int heads,
                       int group, int rows, int keys, int window, int section, int from, int others, int parts) {
    extern __shared__ __align__(1024) char room[];
    __shared__ int which[AHEAD];
    Sizes z = {batch, heads, group, rows, keys, window, section, from, others, order};
    int each = heads/group;
    Both all_k = {k, other_k, told, wanted, each, batch*each, parts, 0};
    Both all_v = {v, other_v, told, wanted, each, batch*each, parts, 0};
    long long row = HD, head = row*rows;                     // the results lie row after row
    Out to = {out, lse, head*heads, head, row, 0, rows};
    attend(room, which, q, all_k, all_v, {z, nullptr, to, factor}, taken);
}
