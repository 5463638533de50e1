// expect: memcheck line 8
#include <cstdio>
#define TPB 32

__global__ void rotated(int *x) {
    __shared__ int s[TPB];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    x[t] = s[(t + 1) % TPB];
}

int main() {
    int h[64], *x;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    rotated<<<1, 64>>>(x);   // made for 32
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
