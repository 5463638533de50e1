// right: each array comes to its first values by another way: memset, copy, symbol, kernel, another stream
#include <cstdio>

__device__ int zeros[32], listed[32] = {1, 2, 3};

__global__ void filled(int *x, int v) { x[threadIdx.x] = v; }
__global__ void sum(const int *a, const int *b, const int *c, const int *d, int *out) {
    int t = threadIdx.x;
    out[t] = a[t] + b[t] + c[t] + d[t] + zeros[t] + listed[t];
}

int main() {
    int h[32], *a, *b, *c, *d, *out;
    for (int i = 0; i < 32; i++) h[i] = i;
    for (int **p : {&a, &b, &c, &d, &out}) cudaMalloc(p, sizeof h);
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaMemset(a, 0, sizeof h);
    cudaMemcpy(b, h, sizeof h, cudaMemcpyHostToDevice);
    filled<<<1, 32, 0, s>>>(c, 1000);
    cudaMemcpyAsync(d, b, sizeof h, cudaMemcpyDeviceToDevice, s);
    cudaStreamSynchronize(s);
    sum<<<1, 32>>>(a, b, c, d, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[31], cudaGetErrorName(cudaGetLastError()));
    cudaStreamDestroy(s);
}
