// right: threads write neighbouring members of one struct, and members that are no bit fields
#include <cstdio>

struct Flags { unsigned short low, high; unsigned char rest[4]; };

__global__ void set(Flags *out) {
    __shared__ Flags f;
    int t = threadIdx.x;
    if (t == 0) f.low = 7;
    if (t == 32) f.high = 9;
    if (t >= 40 && t < 44) f.rest[t - 40] = t;
    __syncthreads();
    if (t == 1) *out = f;
}

int main() {
    Flags h, *out;
    cudaMalloc(&out, sizeof h);
    set<<<1, 64>>>(out);
    cudaMemcpy(&h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h.low, h.high, h.rest[3], cudaGetErrorName(cudaGetLastError()));
}
