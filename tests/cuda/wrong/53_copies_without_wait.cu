// expect: racecheck line 12
#include <cstdio>
#include <cstdint>
#include <cuda_pipeline.h>

__global__ void turned(const int *x, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], x + t, 4);
    __pipeline_commit();
    __syncthreads();              // a barrier waits for threads, not for their copies
    out[t] = s[63 - t];
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    turned<<<1, 64>>>(x, out);
    cudaMemcpy(h, out, 64 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[63], cudaGetErrorName(cudaGetLastError()));
}
