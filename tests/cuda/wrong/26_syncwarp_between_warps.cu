// expect: racecheck line 7 or 9
#include <cstdio>

__global__ void scaled(int *x) {
    __shared__ int factor;
    int t = threadIdx.x;
    if (t == 0) factor = x[0] + 1;
    __syncwarp();   // holds for the first warp only
    int f = t < 32 ? 1 : factor;
    x[64 + t] = x[t] * f;
}

int main() {
    int h[128], *x;
    for (int i = 0; i < 64; i++) h[i] = i + 1;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, 64 * sizeof(int), cudaMemcpyHostToDevice);
    scaled<<<1, 64>>>(x);
    cudaMemcpy(h, x + 64, 64 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[63], cudaGetErrorName(cudaGetLastError()));
}
