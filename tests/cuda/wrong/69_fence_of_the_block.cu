// expect: racecheck line 6 or 12
#include <cstdio>

__global__ void passed(int *data, int *flag, int *out) {
    if (blockIdx.x == 0) {
        *data = 42;
        __threadfence_block();   // and the reader is in another block
        atomicExch(flag, 1);
    } else {
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
    passed<<<2, 1>>>(data, flag, out);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
