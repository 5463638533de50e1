// expect: racecheck line 7
#include <cstdio>

__global__ void count(const int *x, int n, int *even) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] % 2 == 0)
        *even += 1;
}

int main() {
    const int n = 100;
    int h[n], *x, *even;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&even, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(even, 0, sizeof(int));
    count<<<4, 32>>>(x, n, even);
    cudaMemcpy(h, even, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
