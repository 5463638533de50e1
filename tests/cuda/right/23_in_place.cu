// right: every thread reads and writes its own elements only, of arrays that all the blocks share
#include <cstdio>

__global__ void updated(int *x, int *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        x[i] = x[i] * 3 + 1;
        int held = x[i];
        x[i] = y[i];
        y[i] = held;
        x[i] += y[i];
    }
}
__global__ void swapped_ends(int *x, int n) {   // two elements for each thread
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) {
        int held = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = held;
    }
}

int main() {
    const int n = 131;
    int h[n], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemcpy(y, h, sizeof h, cudaMemcpyHostToDevice);
    updated<<<2, 32>>>(x, y, n);
    swapped_ends<<<3, 32>>>(x, n);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[65], h[130], cudaGetErrorName(cudaGetLastError()));
}
