#include <cstdio>

__global__ void every_op(const int *x, int *out) {
    int t = threadIdx.x, v = x[t];
    unsigned u = unsigned(v), all = 0xffffffffu;
    int r[8] = {__reduce_add_sync(all, v), __reduce_min_sync(all, v), __reduce_max_sync(all, v),
                int(__reduce_add_sync(all, u)), int(__reduce_min_sync(all, u)), int(__reduce_max_sync(all, u)),
                int(__reduce_and_sync(all, u | 0xff00u)), int(__reduce_or_sync(all, u & 0x0ff0u))};
    unsigned x_or = __reduce_xor_sync(all, u);
    int spread = 0;
    for (int k = 0; k < 8; k++) spread += __reduce_max_sync(all, r[k]) - __reduce_min_sync(all, r[k]);
    if (t == 31) {
        for (int k = 0; k < 8; k++) out[k] = r[k];
        out[8] = int(x_or);
        out[9] = spread;   // every lane has the same result
    }
}

__global__ void by_groups(const int *x, int *out) {
    int t = threadIdx.x;
    unsigned mask = t < 4 ? 0xfu : t < 20 ? 0xffff0u : 0xfff00000u;
    if (t < 4) out[t] = __reduce_add_sync(mask, x[t]);
    else if (t < 20) out[t] = __reduce_add_sync(mask, x[t]);
    else out[t] = __reduce_add_sync(mask, x[t]);
}

// How many lanes hold the same value, and the sum of their lanes: the group is found by matching.
__global__ void by_value(const int *x, int *out) {
    int t = threadIdx.x;
    unsigned group = __match_any_sync(~0u, x[t] & 3);
    for (unsigned todo = ~0u; todo;) {
        unsigned now = __shfl_sync(~0u, group, __ffs(todo) - 1);
        if (now == group) out[t] = 1000 * __popc(now) + __reduce_add_sync(now, t);
        todo &= ~now;
    }
}

int main() {
    int h[32], *x, *o;
    for (int i = 0; i < 32; i++) h[i] = i * i * 7 - 1000;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&o, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    every_op<<<1, 32>>>(x, o);
    cudaMemcpy(h, o, 10 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 10; i++) printf("%d ", h[i]);
    by_groups<<<1, 32>>>(x, o);
    cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
    printf("\n%d %d %d %d %d %d\n", h[0], h[3], h[4], h[19], h[20], h[31]);
    by_value<<<1, 32>>>(x, o);
    cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
    for (int v : h) printf("%d ", v);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
}
