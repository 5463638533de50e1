// expect: racecheck line 8
#include <cstdio>

__global__ void row_sums(const int *m, int *sums, int w) {
    int v = m[blockIdx.x * w + threadIdx.x];
    for (int by = 16; by; by /= 2) v += __shfl_down_sync(~0u, v, by);
    if (threadIdx.x == 0)
        sums[threadIdx.x] = v;
}   // the block's number is meant

int main() {
    const int h = 4, w = 32;
    int m[h * w], *d, *sums;
    for (int i = 0; i < h * w; i++) m[i] = i;
    cudaMalloc(&d, sizeof m);
    cudaMalloc(&sums, h * sizeof(int));
    cudaMemcpy(d, m, sizeof m, cudaMemcpyHostToDevice);
    cudaMemset(sums, 0, h * sizeof(int));
    row_sums<<<h, w>>>(d, sums, w);
    cudaMemcpy(m, sums, h * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", m[1], m[3], cudaGetErrorName(cudaGetLastError()));
}
