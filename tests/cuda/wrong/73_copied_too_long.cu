// expect: memcheck line 5
#include <cstdio>

__global__ void copied(int *out, const int *x, int n) {
    memcpy(out, x, n * sizeof(int));
}

int main() {
    int *x, *out;
    cudaMalloc(&x, 100 * sizeof(int));
    cudaMalloc(&out, 90 * sizeof(int));
    cudaMemset(x, 0, 100 * sizeof(int));
    copied<<<1, 1>>>(out, x, 100);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
