// right: all threads clear one place by atomicExch, and a barrier stands before the rest
#include <cstdio>

__global__ void cleared(int *out) {
    __shared__ int s[4];
    atomicExch(&s[threadIdx.x % 4], 0);
    __syncthreads();
    atomicAdd(&s[threadIdx.x % 4], 1);
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x % 4];
}

int main() {
    int h[64], *out;
    cudaMalloc(&out, sizeof h);
    cudaMemset(out, 0, sizeof h);
    cleared<<<1, 64>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[63], cudaGetErrorName(cudaGetLastError()));
}
