// expect: memcheck line 8
#include <cstdio>

__global__ void shifted(const int *x, int *y, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int v = x[i];
        y[int(i) - 1] = v;
    }
}

int main() {
    const int n = 64;
    int h[n], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    shifted<<<2, 32>>>(x, y, n);
    cudaMemcpy(h, y, (n - 1) * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
