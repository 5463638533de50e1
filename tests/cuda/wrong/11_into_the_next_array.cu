// expect: memcheck line 11
#include <cstdio>

__global__ void neighbours(const int *x, int *y) {
    __shared__ int a[32], b[32];
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = -x[t];
    __syncthreads();
    y[t] = b[t] +
           a[t + 1];
}

int main() {
    int h[32], *x, *y;
    for (int i = 0; i < 32; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    neighbours<<<1, 32>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
