// expect: initcheck line 11
#include <cstdio>

__global__ void inner(const int *x, int *y, int n) {   // the two ends are left out
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1];
}
__global__ void copied(const int *y, int *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = y[i];
}

int main() {
    const int n = 80;
    int h[n], *x, *y, *z;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h), cudaMalloc(&y, sizeof h), cudaMalloc(&z, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    inner<<<3, 32>>>(x, y, n);
    copied<<<3, 32>>>(y, z, n);
    cudaMemcpy(h, z, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[1], cudaGetErrorName(cudaGetLastError()));
}
