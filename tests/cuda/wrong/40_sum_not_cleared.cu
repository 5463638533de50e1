// expect: initcheck line 7
#include <cstdio>

__global__ void sum(const int *x, int n, int *total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(total, x[i]);
}

int main() {
    const int n = 100;
    int h[n], *x, *total;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&total, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sum<<<4, 32>>>(x, n, total);
    cudaMemcpy(h, total, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
