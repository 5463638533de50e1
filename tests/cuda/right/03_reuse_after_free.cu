// right: memory that was freed comes back from the next cudaMalloc, perhaps at the same address
#include <cstdio>

__global__ void filled(int *x, int v) { x[threadIdx.x] = v + threadIdx.x; }
__global__ void copied(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x] + 1; }

int main() {
    int *y, h[32], sum = 0;
    cudaMalloc(&y, sizeof h);
    for (int k = 0; k < 4; k++) {
        int *x;
        cudaMalloc(&x, sizeof h);
        filled<<<1, 32>>>(x, k * 100);
        copied<<<1, 32>>>(x, y);
        cudaFree(x);
        cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
        sum += h[31];
    }
    cudaFree(y);
    printf("%d %s\n", sum, cudaGetErrorName(cudaGetLastError()));
}
