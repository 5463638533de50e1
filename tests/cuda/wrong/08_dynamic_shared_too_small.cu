// expect: memcheck line 7
#include <cstdio>

__global__ void reversed(int *x) {
    extern __shared__ int s[];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    x[t] = s[blockDim.x - 1 - t];
}

int main() {
    int h[64], *x;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    reversed<<<1, 64, 64>>>(x);   // bytes, not elements
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
