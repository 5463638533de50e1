// expect: racecheck line 7 or 15
#include <cstdio>

__global__ void passed(int *data, int *flag, int *out) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 1)
            *data = 42;
        if (threadIdx.x == 0) {   // a __syncthreads() belongs before it
            __threadfence();
            atomicExch(flag, 1);
        }
    } else if (threadIdx.x == 0) {
        while (atomicAdd(flag, 0) == 0) { }
        __threadfence();
        *out = *data;
    }
}

int main() {
    int *data, *flag, *out;
    cudaMalloc(&data, sizeof(int));
    cudaMalloc(&flag, sizeof(int));
    cudaMalloc(&out, sizeof(int));
    cudaMemset(data, 0, sizeof(int));
    cudaMemset(flag, 0, sizeof(int));
    passed<<<2, 64>>>(data, flag, out);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
