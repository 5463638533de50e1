// expect: racecheck line 11 or 10
#include <cstdio>
#include <mma.h>
using namespace nvcuda;

__global__ void ones(const int *x, int *out) {
    __shared__ alignas(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
    wmma::fill_fragment(f, float(x[1]));
    wmma::store_matrix_sync(tile, f, 16, wmma::mem_row_major);
    for (int i = threadIdx.x; i < 256; i += 32) out[i] = tile[i];
}

int main() {
    int h[256], *x, *out;
    for (int i = 0; i < 256; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    ones<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 256 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[77], h[255], cudaGetErrorName(cudaGetLastError()));
}
