// expect: racecheck line 10 or 12 or 13 or 18
#include <cstdio>
#define R 2

__global__ void sums(const int *x, int *y, int n) {
    __shared__ int s[64 + 2 * R];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    for (int k = t; k < 64 + 2 * R; k += 64) s[k] = 0;
    __syncthreads();
    s[t + R] = i < n ? x[i] : 0;
    if (t < R) {
        s[t] = i >= R ? x[i - R] : 0;
        s[t + 64 + R] = i + 64 < n ? x[i + 64] : 0;
    }
    // a barrier belongs here
    int v = 0;
    for (int j = 0; j <= 2 * R; j++)
        v += s[t + j];
    if (i < n) y[i] = v;
}

int main() {
    const int n = 150;
    int h[n], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sums<<<3, 64>>>(x, y, n);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
