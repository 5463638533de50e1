// expect: racecheck line 7
#include <cstdio>

__global__ void added(int *count, int *total) {
    __threadfence();   // of its own, which orders nothing that others do
    atomicAdd(count, 1);
    total[0] += 1;
}

int main() {
    int *x;
    cudaMalloc(&x, 2 * sizeof(int));
    cudaMemset(x, 0, 2 * sizeof(int));
    added<<<1, 256>>>(x, x + 1);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
