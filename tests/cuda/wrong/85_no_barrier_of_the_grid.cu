// expect: racecheck line 8 or 10
#include <cstdio>
#include <cooperative_groups.h>

__global__ void turned(int *a, int *b) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    a[i] = i;
    __syncthreads();   // grid.sync() is needed
    b[i] = a[n - 1 - i];
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    int *b = out + 512;
    void *args[] = {&out, &b};
    cudaLaunchCooperativeKernel((const void *)turned, dim3(4), dim3(64), args);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
