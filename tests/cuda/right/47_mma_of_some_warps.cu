// right: the branch around mma is the same for all lanes of a warp
#include <cstdio>
#include <cstdint>
__device__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void some(const int *x, int *out) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float c[4] = {};
    unsigned a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = 0x3f803f80;   // ones
    for (int i = 0; i < 2; i++) b[i] = 0x40003f80;   // one and two
    if (x[warp] % 2) mma(c, a, b);
    for (int i = 0; i < warp; i++) mma(c, a, b);
    out[threadIdx.x] = c[0] + c[1] + c[2] + c[3] + lane;
}

int main() {
    int h[96], *x, *out;
    for (int i = 0; i < 96; i++) h[i] = i * 5 % 31;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    some<<<1, 96>>>(x, out);
    cudaMemcpy(h, out, 96 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d %s\n", h[0], h[33], h[95], cudaGetErrorName(cudaGetLastError()));
}
