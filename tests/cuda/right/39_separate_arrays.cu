// right: two streams work at the same time, on different halves of one array
#include <cstdio>

__global__ void increased(int *x, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += by;
}

int main() {
    const int n = 128;
    int h[n], *x;
    cudaStream_t s[2];
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    for (auto &o : s) cudaStreamCreate(&o);
    for (int k = 0; k < 4; k++) increased<<<2, 32, 0, s[k % 2]>>>(x + k % 2 * 64, 64, k + 1);
    cudaDeviceSynchronize();
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[63], h[127], cudaGetErrorName(cudaGetLastError()));
    for (auto &o : s) cudaStreamDestroy(o);
}
