// right: written by one thread, read by another, with a barrier between
#include <cstdio>

__global__ void reversed(int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    x[t] = s[63 - t];
}

int main() {
    int h[64], *x;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    reversed<<<1, 64>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h[0], h[63], cudaGetErrorName(cudaGetLastError()));
}
