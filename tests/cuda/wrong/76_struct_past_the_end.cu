// expect: memcheck line 8
#include <cstdio>

struct Row { float x, y, z, w, u, v; };

__global__ void shifted(Row *rows, int n) {
    int i = threadIdx.x;
    Row mine = rows[i + 1];
    __syncthreads();
    if (i < n) rows[i] = mine;
}

int main() {
    Row *rows;
    cudaMalloc(&rows, 64 * sizeof(Row));
    cudaMemset(rows, 0, 64 * sizeof(Row));
    shifted<<<1, 64>>>(rows, 64);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
