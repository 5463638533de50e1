// expect: racecheck line 8 or 11
#include <cstdio>

__global__ void histogram(const int *x, int n, int *bins) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (x[i] > 2)
        atomicAdd(&bins[3], 1);
    else
        atomicAdd(&bins[x[i]], 1);
    if (i == 0) bins[3] = bins[3] + 100;
}

int main() {
    const int n = 128;
    int h[n], *x, *bins;
    for (int i = 0; i < n; i++) h[i] = i % 5;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&bins, 4 * sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(bins, 0, 4 * sizeof(int));
    histogram<<<2, 64>>>(x, n, bins);
    cudaMemcpy(h, bins, 4 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[3], cudaGetErrorName(cudaGetLastError()));
}
