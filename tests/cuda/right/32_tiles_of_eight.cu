// right: some of the tiles of a warp work on shared memory, each with its own barrier
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;

__global__ void tile_sums(const int *x, int *out) {
    __shared__ int s[64];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int t = threadIdx.x, r = tile.thread_rank(), *mine = s + tile.meta_group_rank() * 8;
    if (tile.meta_group_rank() % 3 == 1) {
        out[t] = 0;
        return;   // a tile as a whole
    }
    mine[r] = x[t];
    for (int half = 4; half; half /= 2) {
        tile.sync();
        if (r < half) mine[r] += mine[r + half];
    }
    tile.sync();
    out[t] = mine[0] + tile.shfl(t, 7);
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    tile_sums<<<1, 64>>>(x, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[8], h[63], cudaGetErrorName(cudaGetLastError()));
}
