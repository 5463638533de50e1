// expect: synccheck line 9
#include <cstdio>
#include <cstdint>

__global__ void half_a_warp(const int *x, int *out) {
    float c[4] = {};
    unsigned a = x[threadIdx.x], b = 0x3f803f80;
    if (threadIdx.x < 16)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4}, {%5}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a), "r"(b));
    out[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}

int main() {
    int h[32], *x, *out;
    for (int i = 0; i < 32; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    half_a_warp<<<1, 32>>>(x, out);
    cudaMemcpy(h, out, 32 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[7], h[31], cudaGetErrorName(cudaGetLastError()));
}
