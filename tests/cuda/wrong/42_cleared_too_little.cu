// expect: initcheck line 7
#include <cstdio>

__global__ void scaled(float *x, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        x[i] = v * by + 1;
    }
}

int main() {
    const int n = 100;
    float h[n], *x;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemset(x, 0, n);   // a quarter of it
    scaled<<<4, 32>>>(x, n, 2);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
