// expect: racecheck line 10 or 15
#include <cstdio>

__device__ unsigned finished;

__global__ void sum(const int *x, int n, int *parts, int *total) {
    int t = threadIdx.x, i = blockIdx.x * 32 + t, v = i < n ? x[i] : 0;
    for (int by = 16; by; by /= 2) v += __shfl_down_sync(~0u, v, by);
    if (t == 0) {
        parts[blockIdx.x] = v;
        // a __threadfence() belongs here
        if (atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1) {
            int s = 0;
            for (int b = 0; b < gridDim.x; b++)
                s += parts[b];
            *total = s;
        }
    }
}

int main() {
    const int n = 500, blocks = (n + 31) / 32;
    int h[n], *x, *parts, *total;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&parts, blocks * sizeof(int));
    cudaMalloc(&total, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(parts, 0, blocks * sizeof(int));
    sum<<<blocks, 32>>>(x, n, parts, total);
    cudaMemcpy(h, total, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
