// expect: initcheck line 7
#include <cstdio>

__global__ void accumulated(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += x[i];
}

int main() {
    const int n = 64;
    float h[n], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);   // and never cleared
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    accumulated<<<2, 32>>>(x, y, n);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
