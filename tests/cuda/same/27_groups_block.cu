#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;

__global__ void ranks(int *out) {
    cg::thread_block block = cg::this_thread_block();
    dim3 i = block.thread_index(), g = block.group_index(), d = block.group_dim();
    int at = g.x * block.size() + block.thread_rank();
    out[at] = i.x + 10 * i.y + 100 * i.z + 1000 * g.x + 10000 * int(d.x * d.y * d.z == block.num_threads());
}

// Any group will do: a block, or a tile of it
template <typename Group> __device__ int sum_of(const Group &g, int *s, int v) {
    int r = g.thread_rank();
    s[r] = v;
    for (int n = g.size() / 2; n > 0; n /= 2) {
        g.sync();
        if (r < n) s[r] += s[r + n];
    }
    g.sync();
    int total = s[0];
    g.sync();
    return total;
}

__global__ void sums(const int *x, int *by_block, int *by_tile) {
    __shared__ int s[64];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    int of_block = sum_of(block, s, v);
    int of_tile = sum_of(tile, s + tile.meta_group_rank() * 16, v);
    if (block.thread_rank() == 0) by_block[blockIdx.x] = of_block;
    if (tile.thread_rank() == 0) by_tile[blockIdx.x * tile.meta_group_size() + tile.meta_group_rank()] = of_tile;
}

__global__ void ordered(int *out) {
    __shared__ int ring[48];
    cg::thread_block b = cg::this_thread_block();
    unsigned t = b.thread_rank(), n = b.size();
    ring[t] = t;
    for (int step = 0; step < 3; step++) {
        cg::sync(b);
        int left = ring[(t + n - 1) % n];
        b.sync();
        ring[t] = left * 2;
    }
    b.sync();
    out[t] = ring[t] + b.dim_threads().x;
}

int main() {
    int h[128], o[96], *x, *d;
    for (int i = 0; i < 128; i++) h[i] = i * 17 % 23;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&d, sizeof o);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    ranks<<<4, dim3(2, 3, 4)>>>(d);
    cudaMemcpy(o, d, sizeof o, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 96; i += 7) printf("%d ", o[i]);
    sums<<<2, 64>>>(x, d, d + 2);
    cudaMemcpy(o, d, 40, cudaMemcpyDeviceToHost);
    printf("\n");
    for (int i = 0; i < 10; i++) printf("%d ", o[i]);
    ordered<<<1, 48>>>(d);
    cudaMemcpy(o, d, 192, cudaMemcpyDeviceToHost);
    printf("\n%d %d %d %d\n%s\n", o[0], o[2], o[3], o[47], cudaGetErrorName(cudaGetLastError()));
}
