// right: memcpy and memset of lengths known at run time, with barriers between
#include <cstdio>

__global__ void copied(const int *x, int *out, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    memset(s + t, 0, sizeof(int));
    __syncthreads();
    if (t == 0) memcpy(s, x, n * sizeof(int));
    __syncthreads();
    memcpy(out + t, s + 63 - t, sizeof(int));
}

int main() {
    int h[64], *out;
    cudaMalloc(&out, sizeof h);
    cudaMemset(out, 0, sizeof h);
    int *x;
    for (int i = 0; i < 64; i++) h[i] = i + 1;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    copied<<<1, 64>>>(x, out, 64);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[63], cudaGetErrorName(cudaGetLastError()));
}
