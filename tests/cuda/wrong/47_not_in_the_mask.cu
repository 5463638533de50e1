// expect: synccheck line 8
#include <cstdio>

__global__ void exchanged(int *x) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp(0x0000ffff);
    if (t < 16) x[t] = s[15 - t];
}   // all 32 lanes call it, half of them are not named

int main() {
    int h[32], *x;
    for (int i = 0; i < 32; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    exchanged<<<1, 32>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
