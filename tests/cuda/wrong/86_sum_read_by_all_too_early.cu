// expect: racecheck line 8 or 9
#include <cstdio>

__global__ void shared_sum(int *out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, threadIdx.x);
    out[threadIdx.x] = sum;
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    shared_sum<<<1, 64>>>(out);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
