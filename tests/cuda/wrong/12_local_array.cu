// expect: memcheck line 8
#include <cstdio>

__global__ void looked_up(const int *x, int *y) {
    int cubes[8];
    int t = threadIdx.x;
    for (int i = 0; i < 8; i++) cubes[i] = i * i * i;
    y[t] = cubes[x[t]];
}

int main() {
    int h[32], *x, *y;
    for (int i = 0; i < 32; i++) h[i] = i % 9;   // 8 is one too many
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    looked_up<<<1, 32>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
