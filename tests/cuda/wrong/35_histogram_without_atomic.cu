// expect: racecheck line 10
#include <cstdio>

__global__ void histogram(const unsigned char *x, int n, int *bins) {
    __shared__ int mine[16];
    int t = threadIdx.x;
    if (t < 16) mine[t] = 0;
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x)
        mine[x[i] / 16]++;
    __syncthreads();
    if (t < 16) bins[t] = mine[t];
}

int main() {
    const int n = 300;
    unsigned char h[n], *x;
    int counts[16], *bins;
    for (int i = 0; i < n; i++) h[i] = i * 7;
    cudaMalloc(&x, n);
    cudaMalloc(&bins, sizeof counts);
    cudaMemcpy(x, h, n, cudaMemcpyHostToDevice);
    histogram<<<1, 64>>>(x, n, bins);
    cudaMemcpy(counts, bins, sizeof counts, cudaMemcpyDeviceToHost);
    printf("%d %s\n", counts[0] > 0, cudaGetErrorName(cudaGetLastError()));
}
