// expect: memcheck line 12
#include <cstdio>
#include <cstdint>
__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__global__ void rows(const int *x, int *out) {
    extern __shared__ unsigned short s[];             // 8 rows of 8
    int t = threadIdx.x;
    for (int i = t; i < 64; i += 32) s[i] = x[i];
    __syncwarp();
    unsigned a, b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b) : "r"(address(s + t % 16 * 8)) : "memory");
    out[t] = a + b;
}

int main() {
    int h[64], *x, *out;
    for (int i = 0; i < 64; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    rows<<<1, 32, 128>>>(x, out);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
