// expect: racecheck line 12 or 9
#include <cstdio>
#include <cstdint>
__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__global__ void rows(const int *x, int *out) {
    __shared__ alignas(16) unsigned short s[2][8][8];
    int t = threadIdx.x;
    s[t / 64][t % 64 / 8][t % 8] = x[t];
    __syncwarp();                                     // a tile is the work of two warps
    unsigned a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(a) : "r"(address(s[t / 64][t % 8])) : "memory");
    out[t] = a;
}

int main() {
    int h[128], *x, *out;
    for (int i = 0; i < 128; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    rows<<<1, 128>>>(x, out);
    cudaMemcpy(h, out, 128 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
