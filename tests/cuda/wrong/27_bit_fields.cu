// expect: racecheck line 10 or 11
#include <cstdio>

struct Flags { unsigned low : 16, high : 16; };

__global__ void set(Flags *out) {
    __shared__ Flags f;
    if (threadIdx.x == 0) f.low = 1, f.high = 1;
    __syncthreads();
    if (threadIdx.x == 0) f.low = 7;
    if (threadIdx.x == 32) f.high = 9;
    __syncthreads();
    if (threadIdx.x == 0) *out = f;
}

int main() {
    Flags h, *out;
    cudaMalloc(&out, sizeof h);
    set<<<1, 64>>>(out);
    cudaMemcpy(&h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", h.low, h.high, cudaGetErrorName(cudaGetLastError()));
}
