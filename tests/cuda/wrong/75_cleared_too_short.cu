// expect: initcheck line 11
#include <cstdio>

__global__ void cleared(int *x, int n) {
    memset(x, 0, n);   // bytes, not elements
}

__global__ void summed(int *x, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    x[0] = sum;
}

int main() {
    int *x;
    cudaMalloc(&x, 64 * sizeof(int));
    cleared<<<1, 1>>>(x, 64);
    summed<<<1, 1>>>(x, 64);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
