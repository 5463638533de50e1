// expect: racecheck line 7
#include <cstdio>

__global__ void booked(int *lock, int *balance) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) { }
        *balance += blockIdx.x;
        atomicExch(lock, 0);   // a __threadfence() belongs before it, and one behind the loop
    }
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    booked<<<10, 32>>>(out, out + 1);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
