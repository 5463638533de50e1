// right: each thread reads only what it copied and waited for itself, so no barrier is needed
#include <cstdio>
#include <cstdint>
#include <cuda_pipeline.h>

__global__ void turned(const int *x, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], x + t, 4);
    __pipeline_commit();
    __pipeline_memcpy_async(&s[t + 32], x + t + 32, 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    int first = s[t];
    __pipeline_wait_prior(0);
    out[t] = first * 100 + s[t + 32];
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    turned<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
