// right: the last block has more threads than there are elements, and they touch nothing
#include <cstdio>

__global__ void doubled(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}

int main() {
    const int n = 101;
    float h[n], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    doubled<<<(n + 31) / 32, 32>>>(x, y, n);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %s\n", h[n - 1], cudaGetErrorName(cudaGetLastError()));
}
