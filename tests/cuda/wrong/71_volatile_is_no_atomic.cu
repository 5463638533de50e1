// expect: racecheck line 5
#include <cstdio>

__global__ void summed(volatile int *data) {
    data[0] += threadIdx.x;
}

int main() {
    int *x;
    cudaMalloc(&x, sizeof(int));
    cudaMemset(x, 0, sizeof(int));
    summed<<<1, 64>>>(x);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
