// right: host and device write the same memory, by turns, with cudaDeviceSynchronize between
#include <cstdio>

__global__ void doubled(int *x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main() {
    const int n = 40;
    int *x;
    cudaMallocManaged(&x, n * sizeof(int));
    for (int i = 0; i < n; i++) x[i] = i;
    for (int k = 0; k < 3; k++) {
        doubled<<<1, 64>>>(x, n);
        cudaDeviceSynchronize();
        for (int i = 0; i < n; i++) x[i] += k;
    }
    printf("%d %d ", x[0], x[n - 1]);
    cudaFree(x);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
