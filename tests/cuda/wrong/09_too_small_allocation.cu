// expect: memcheck line 6
#include <cstdio>

__global__ void squares(double *x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        x[i] = double(i) * i;
}

int main() {
    const int n = 200;
    double h[n] = {}, *x;
    cudaMalloc(&x, n);   // the size of one element is missing
    squares<<<1, 32>>>(x, n);
    cudaMemcpy(h, x, n, cudaMemcpyDeviceToHost);
    printf("%g %s\n", h[2], cudaGetErrorName(cudaGetLastError()));
}
