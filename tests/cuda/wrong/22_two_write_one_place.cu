// expect: racecheck line 7
#include <cstdio>

__global__ void halved(const int *x, int *y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t / 2] = x[t];
    __syncthreads();
    if (t < 32) y[t] = s[t];
}

int main() {
    int h[64], *x, *y;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    halved<<<1, 64>>>(x, y);
    cudaMemcpy(h, y, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
