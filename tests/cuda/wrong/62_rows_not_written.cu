// expect: initcheck line 7
#include <cstdio>
#include <cstdint>
__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ unsigned ldmatrix(const unsigned short *row) {
    unsigned x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(address(row)) : "memory");
    return x;
}

__global__ void rows(const int *x, int *out) {
    __shared__ alignas(16) unsigned short s[8][8];
    int t = threadIdx.x;
    if (t < 28) reinterpret_cast<unsigned *>(s)[t] = x[t];   // the last row has four more
    __syncwarp();
    out[t] = ldmatrix(s[t % 8]);
}

int main() {
    int h[32], *x, *out;
    for (int i = 0; i < 32; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    rows<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
