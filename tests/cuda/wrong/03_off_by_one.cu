// expect: memcheck line 8
#include <cstdio>

__global__ void differences(const int *x, int *d, int n) {   // there are n - 1 of them
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        d[i] =
            x[i + 1] - x[i];
}

int main() {
    const int n = 70;
    int h[n], *x, *d;
    for (int i = 0; i < n; i++) h[i] = i * i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&d, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    differences<<<(n + 31) / 32, 32>>>(x, d, n);
    cudaMemcpy(h, d, (n - 1) * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[n - 2], cudaGetErrorName(cudaGetLastError()));
}
