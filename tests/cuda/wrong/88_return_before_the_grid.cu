// expect: synccheck line 10
#include <cstdio>
#include <cooperative_groups.h>

__global__ void turned(int *a, int *b, int n) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    if (i >= n) return;   // some threads of the last block
    a[i] = i;
    grid.sync();
    b[i] = a[n - 1 - i];
}

int main() {
    int *out;
    cudaMalloc(&out, 1024 * sizeof(int));
    cudaMemset(out, 0, 1024 * sizeof(int));
    int *b = out + 512, n = 230;
    void *args[] = {&out, &b, &n};
    cudaLaunchCooperativeKernel((const void *)turned, dim3(4), dim3(64), args);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
