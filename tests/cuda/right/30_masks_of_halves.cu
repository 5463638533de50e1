// right: parts of a warp are in different branches, each with a mask of those who are there
#include <cstdio>

__global__ void sums(const int *x, int *out) {
    int t = threadIdx.x, v = x[t];
    if (t < 16) {
        for (int by = 8; by; by /= 2) v += __shfl_xor_sync(0x0000ffff, v, by);
    } else if (t < 24) {
        for (int by = 4; by; by /= 2) v += __shfl_xor_sync(0x00ff0000, v, by);
        __syncwarp(0x00ff0000);
    } else if (t % 2) {
        v = __ballot_sync(0xaa000000, v % 3 == 0);
    }
    __syncwarp();
    out[t] = v;
}

int main() {
    int h[32], *x, *out;
    for (int i = 0; i < 32; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sums<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %x %d %s\n", h[0], h[16], unsigned(h[25]), h[26], cudaGetErrorName(cudaGetLastError()));
}
