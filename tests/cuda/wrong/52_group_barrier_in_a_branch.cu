// expect: synccheck line 13 or 16
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;

__global__ void first_tile_sum(const int *x, int *y) {
    __shared__ int s[64];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    int t = block.thread_rank();
    s[t] = x[t];
    if (tile.meta_group_rank() == 1) {
        block.sync();
        s[t] += 1;
    }
    block.sync();
    y[t] = s[63 - t];
}   // the tile's barrier is meant in the branch

int main() {
    int h[64], *x, *y;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    first_tile_sum<<<1, 64>>>(x, y);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
