#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
namespace cg = cooperative_groups;

template <int SIZE> __global__ void reduced(const int *x, int *out) {
    auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    int t = threadIdx.x, v = x[t];
    int sum = cg::reduce(tile, v, cg::plus<int>());
    int least = cg::reduce(tile, v, cg::less<int>()), most = cg::reduce(tile, v, cg::greater<int>());
    int bits = cg::reduce(tile, v & 0xff, cg::bit_or<int>()), both = cg::reduce(tile, v, cg::bit_xor<int>());
    out[t] = sum * 7 + least * 5 + most * 3 + bits + both;
}

__global__ void tile_calls(const int *x, int *out) {
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    int t = threadIdx.x, v = x[t], r = tile.thread_rank();
    int a = tile.shfl(v, 3), b = tile.shfl_up(v, 2), c = tile.shfl_down(v, 1), d = tile.shfl_xor(v, 5);
    int all = tile.all(v >= 0), any = tile.any(v == 40);
    unsigned ballot = tile.ballot(v & 1), same = tile.match_any(v % 3);
    if (r < 2) b = 0;    // what a lane gets from outside of its tile is its own
    if (r == 7) c = 0;
    out[t] = a + 2 * b + 3 * c + 5 * d + 1000 * (all != 0) + 2000 * (any != 0) + 10000 * __popc(ballot) + 100000 * same;
}

__device__ double largest(cg::thread_block_tile<4> g, double v) {
    for (int by = g.num_threads() / 2; by > 0; by /= 2) v = fmax(v, g.shfl_xor(v, by));
    return v;
}
__global__ void doubles(const int *x, double *out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto four = cg::tiled_partition<4>(warp);
    double m = largest(four, x[threadIdx.x] * 0.5), s = cg::reduce(warp, m, cg::plus<double>());
    float f = cg::reduce(four, float(x[threadIdx.x]), [](float a, float b) { return a < b ? a : b; });
    warp.sync();
    if (four.thread_rank() == 0) out[threadIdx.x / 4] = m + s * 100 + f / 4;
}

__global__ void branch(const int *x, int *n) {   // the lanes that are in this branch now
    if (x[threadIdx.x] % 2) {
        auto active = cg::coalesced_threads();
        int r = active.shfl(int(threadIdx.x), 0) >= 0 ? 1 : 0;
        atomicAdd(n, r);
    }
}

int main() {
    int h[64], o[64], *x, *d;
    double g[16], *e;
    for (int i = 0; i < 64; i++) h[i] = i * 37 % 61 - 3;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&d, sizeof h);
    cudaMalloc(&e, sizeof g);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    void (*kernels[])(const int *, int *) = {reduced<32>, reduced<16>, reduced<4>, reduced<1>, tile_calls};
    for (auto k : kernels) {
        k<<<1, 64>>>(x, d);
        cudaMemcpy(o, d, sizeof o, cudaMemcpyDeviceToHost);
        for (int i = 0; i < 64; i += 5) printf("%d ", o[i]);
        printf("\n");
    }
    doubles<<<1, 64>>>(x, e);
    cudaMemcpy(g, e, sizeof g, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 16; i += 3) printf("%g ", g[i]);
    cudaMemset(d, 0, 4);
    branch<<<1, 64>>>(x, d);
    cudaMemcpy(o, d, 4, cudaMemcpyDeviceToHost);
    printf("%d\n%s\n", o[0], cudaGetErrorName(cudaGetLastError()));
}
