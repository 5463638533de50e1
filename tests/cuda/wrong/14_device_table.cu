// expect: memcheck line 9
#include <cstdio>

__device__ int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

__global__ void looked_up(int *out) {
    int month = threadIdx.x + 1;
    if (month <= 12)
        out[threadIdx.x] = days[month];
}

int main() {
    int h[12], *out;
    cudaMalloc(&out, sizeof h);
    looked_up<<<1, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %s\n", h[0], cudaGetErrorName(cudaGetLastError()));
}
