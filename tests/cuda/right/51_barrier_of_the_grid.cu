// right: blocks read what other blocks wrote before the barrier of the grid
#include <cstdio>
#include <cooperative_groups.h>

__global__ void turned(int *a, int *b) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    a[i] = i;
    grid.sync();
    b[i] = a[n - 1 - i];
    grid.sync();
    a[i] = b[(i + 1) % n];
}

int main() {
    int h[512], *out;
    cudaMalloc(&out, sizeof h);
    cudaMemset(out, 0, sizeof h);
    int *b = out + 256;
    void *args[] = {&out, &b};
    cudaLaunchCooperativeKernel((const void *)turned, dim3(4), dim3(64), args);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[1], h[511], cudaGetErrorName(cudaGetLastError()));
}
