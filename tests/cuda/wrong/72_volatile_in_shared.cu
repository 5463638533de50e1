// expect: racecheck line 8
#include <cstdio>

__global__ void summed(int *out) {
    __shared__ volatile int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    sum += threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *out = sum;
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    summed<<<1, 64>>>(out);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
