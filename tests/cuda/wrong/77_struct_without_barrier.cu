// expect: racecheck line 8 or 9
#include <cstdio>

struct Row { int x, y, z; };

__global__ void turned(const Row *rows, Row *out) {
    __shared__ Row s[64];
    s[threadIdx.x] = rows[threadIdx.x];
    out[threadIdx.x] = s[63 - threadIdx.x];
}

int main() {
    Row *rows;
    cudaMalloc(&rows, 128 * sizeof(Row));
    cudaMemset(rows, 0, 128 * sizeof(Row));
    turned<<<1, 64>>>(rows, rows + 64);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
