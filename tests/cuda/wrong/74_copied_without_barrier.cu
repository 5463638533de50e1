// expect: racecheck line 7 or 8
#include <cstdio>

__global__ void copied(int *out, const int *x, int n) {
    __shared__ int s[64];
    if (threadIdx.x == 0)
        memcpy(s, x, n * sizeof(int));
    out[threadIdx.x] = s[threadIdx.x];
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    copied<<<1, 64>>>(out, out + 64, 64);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
