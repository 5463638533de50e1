// right: the lanes that go on are found by a ballot, and only they take part in what follows
#include <cstdio>

__global__ void kept_sums(const int *x, int n, int *sum, int *last) {
    int t = threadIdx.x;
    unsigned mask = __ballot_sync(0xffffffff, t < n && x[t < n ? t : 0] > 5);
    if (mask >> t & 1) {
        int v = __reduce_add_sync(mask, x[t]), highest = 31 - __clz(mask);
        int w = __shfl_sync(mask, x[t], highest);
        if (t == __ffs(mask) - 1) *sum = v, *last = w;
    }
}

int main() {
    const int n = 27;
    int h[n], *x, *out;
    for (int i = 0; i < n; i++) h[i] = i * 5 % 14;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, 2 * sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    kept_sums<<<1, 32>>>(x, n, out, out + 1);
    cudaMemcpy(h, out, 2 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[1], cudaGetErrorName(cudaGetLastError()));
}
