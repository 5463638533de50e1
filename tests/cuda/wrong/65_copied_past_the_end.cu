// expect: memcheck line 9
#include <cstdio>
#include <cstdint>
#include <cuda_pipeline.h>

__global__ void copied(const int *x, int *out) {
    __shared__ alignas(16) int s[128];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[4 * t], x + 4 * t, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
    out[t] = s[127 - t];
}

int main() {
    int h[122], *x, *out;
    for (int i = 0; i < 122; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    copied<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
