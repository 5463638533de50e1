// expect: racecheck line 7
#include <cstdio>

__global__ void count(const int *x, int n, int *total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0)
        atomicAdd_block(total, 1);
}   // atomic among the threads of a block, but the blocks share the counter

int main() {
    const int n = 200;
    int h[n], *x, *total;
    for (int i = 0; i < n; i++) h[i] = i % 3;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&total, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(total, 0, sizeof(int));
    count<<<4, 64>>>(x, n, total);
    cudaMemcpy(h, total, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0] > 0, cudaGetErrorName(cudaGetLastError()));
}
