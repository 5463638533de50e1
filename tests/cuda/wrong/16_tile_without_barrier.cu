// expect: racecheck line 7 or 8
#include <cstdio>

__global__ void reversed(int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    x[t] = s[63 - t];
}

int main() {
    int h[64], *x;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    reversed<<<1, 64>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
