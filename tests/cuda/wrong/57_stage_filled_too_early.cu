// expect: racecheck line 14 or 10
#include <cstdio>
#include <cstdint>
#include <cuda_pipeline.h>

__global__ void sums(const int *x, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 3; i++) {
        __pipeline_memcpy_async(&s[t], x + 64 * i + t, 4);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        sum += s[63 - t];
    }                             // and none here, before the next copies
    out[t] = sum;
}

int main() {
    int h[192], *x, *out;
    for (int i = 0; i < 192; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sums<<<1, 64>>>(x, out);
    cudaMemcpy(h, out, 64 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[63], cudaGetErrorName(cudaGetLastError()));
}
