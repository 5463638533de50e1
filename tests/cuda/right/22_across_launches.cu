// right: blocks read what other blocks wrote in the launch before; launches of a stream are in order
#include <cstdio>

__global__ void smoothed(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (i > 0 ? in[i - 1] : 0) + in[i] + (i < n - 1 ? in[i + 1] : 0);
}

int main() {
    const int n = 100;
    int h[n], *a, *b;
    for (int i = 0; i < n; i++) h[i] = i % 5;
    cudaMalloc(&a, sizeof h);
    cudaMalloc(&b, sizeof h);
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    for (int k = 0; k < 3; k++) {
        smoothed<<<4, 32>>>(a, b, n);
        smoothed<<<4, 32>>>(b, a, n);
    }
    cudaMemcpy(h, a, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[50], h[99], cudaGetErrorName(cudaGetLastError()));
}
