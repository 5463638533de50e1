#include <cstdio>

__global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
template <int N> __global__ void tiled(float *y) {
    __shared__ float s[N];
    s[threadIdx.x % N] = 1;
    extern __shared__ float more[];
    more[threadIdx.x] = 2;
    y[threadIdx.x] = s[threadIdx.x % N] + more[threadIdx.x];
}

int main() {
    const int n = 2000;
    float *x, *y, *h = new float[n];
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(y, 0, n * sizeof(float));

    int blocks = -1, fewer = -1;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, saxpy, 128, 0);
    printf("%d\n", blocks > 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fewer, tiled<64>, 64, 40 * 1024);
    printf("%d\n", fewer > 0);

    int min_grid = 0, block = 0;
    cudaOccupancyMaxPotentialBlockSize(&min_grid, &block, saxpy, 0, 0);
    printf("%d %d %d\n", min_grid > 0, block > 0 && block <= 1024, block % 32);
    saxpy<<<(n + block - 1) / block, block>>>(y, x, 2, n);
    cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += h[i] != 2 * i;
    printf("%d wrong\n", wrong);

    cudaFuncAttributes a;
    cudaFuncGetAttributes(&a, tiled<64>);
    printf("%d\n", a.maxThreadsPerBlock >= 64);
    tiled<64><<<1, 64, 64 * sizeof(float)>>>(y);
    cudaMemcpy(h, y, 64 * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g\n%s\n", h[63], cudaGetErrorName(cudaGetLastError()));
}
