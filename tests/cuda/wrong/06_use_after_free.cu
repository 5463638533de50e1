// expect: memcheck line 7
#include <cstdio>

__global__ void filled(int *x, int v) { x[threadIdx.x] = v; }
__global__ void copied(const int *x, int *y) {
    int t = threadIdx.x;
    y[t] = x[t] + 1;
}

int main() {
    int *x, *y, h[32];
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    filled<<<1, 32>>>(x, 7);
    cudaDeviceSynchronize();
    cudaFree(x);
    copied<<<1, 32>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
