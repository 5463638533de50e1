// expect: initcheck line 11
#include <cstdio>

__global__ void sums(const int *x, int *y, int n) {
    __shared__ int s[34];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    s[t + 1] = i < n ? x[i] : 0;
    if (t == 0) s[0] = i > 0 ? x[i - 1] : 0;   // the right end is forgotten
    __syncthreads();
    if (i < n)
        y[i] = s[t] + s[t + 1] + s[t + 2];
}

int main() {
    const int n = 64;
    int h[n], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sums<<<2, 32>>>(x, y, n);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
