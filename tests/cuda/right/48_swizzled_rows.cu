// right: ldmatrix reads rows that lie elsewhere in the tile, each at a multiple of 16 bytes
#include <cstdio>
#include <cstdint>
__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ unsigned ldmatrix(const unsigned short *row) {
    unsigned x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(address(row)) : "memory");
    return x;
}

__global__ void swizzled(const int *x, int *out) {
    __shared__ alignas(128) unsigned short s[8 * 64];
    int t = threadIdx.x;
    for (int i = t; i < 8 * 64; i += 32) s[i / 64 * 64 + ((i % 64) ^ i / 64 % 8 * 8)] = i / 64 * 100 + i % 64;
    __syncwarp();
    unsigned sum = 0;
    for (int c = 0; c < 64; c += 8) sum = sum * 3 + ldmatrix(&s[t % 8 * 64 + (c ^ t % 8 * 8)]);
    out[t] = sum;
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    swizzled<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
