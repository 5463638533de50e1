#include <cstdio>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Small whole numbers: all products and sums are exact, in whatever order.
__device__ float element(int i, int j) { return (i * 7 + j * 3) % 11 - 5; }
__device__ unsigned pair(float lower, float upper, __half) {
    return __half_as_ushort(__float2half(lower)) | __half_as_ushort(__float2half(upper)) << 16;
}
__device__ unsigned pair(float lower, float upper, __nv_bfloat16) {
    return __bfloat16_as_ushort(__float2bfloat16(lower)) | __bfloat16_as_ushort(__float2bfloat16(upper)) << 16;
}

__device__ void k16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], __half) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ void k16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ void k8(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4], __half) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
__device__ void k8(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4], __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

__device__ void put(float *out, const float *c) {   // the 16 x 8 result
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4; i++) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}

template <class T> __global__ void sixteen_bits(float *out) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned a[4], b[2];
    float c[4], d[4];
    for (int i = 0; i < 4; i++)
        a[i] = pair(element(g + i % 2 * 8, 2 * t + i / 2 * 8), element(g + i % 2 * 8, 2 * t + 1 + i / 2 * 8), T());
    for (int i = 0; i < 2; i++) b[i] = pair(element(2 * t + i * 8, g + 20), element(2 * t + 1 + i * 8, g + 20), T());
    for (int i = 0; i < 4; i++) c[i] = (g + i / 2 * 8) * 1000 + (2 * t + i % 2) * 100;
    k8(d, a, b, c, T());
    put(out, d);
    k16(c, a, b, T());
    put(out + 128, c);
}

__global__ void tf32(float *out) {   // the 13 bits that tf32 lacks are cut off, unless cvt rounds them
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned a[4], b[2];
    float c[4] = {}, d[4];
    for (int i = 0; i < 4; i++) a[i] = __float_as_uint((g * 3 + i * 2 + t) % 4 ? 1 + 1 / 1024.f + 1 / 4096.f : -1);
    for (int i = 0; i < 2; i++)
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(b[i]) : "f"(t ? float((g * g + 2 * i * t + t) % 5 - 2) : 1 + 3 / 4096.f));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
                   "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
    put(out, d);
    for (int i = 0; i < 4; i++) c[i] = d[i];
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b[1]));
    put(out + 128, c);
}

__global__ void sums_in_half(float *out) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned a[4], b[2], c[2] = {pair(t, g, __half()), pair(g, t, __half())};
    for (int i = 0; i < 4; i++)
        a[i] = pair(element(g + i % 2 * 8, 2 * t + i / 2 * 8), element(g + i % 2 * 8, 2 * t + 1 + i / 2 * 8), __half());
    for (int i = 0; i < 2; i++)
        b[i] = pair(element(2 * t + i * 8, g + 20), element(2 * t + 1 + i * 8, g + 20), __half());
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (int i = 0; i < 4; i++)
        out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = __half2float(__ushort_as_half(c[i / 2] >> i % 2 * 16));
}

int main() {
    float h[7 * 128], *out;
    cudaMalloc(&out, sizeof h);
    sixteen_bits<__nv_bfloat16><<<1, 32>>>(out);
    sixteen_bits<__half><<<1, 32>>>(out + 256);
    tf32<<<1, 32>>>(out + 512);
    sums_in_half<<<1, 32>>>(out + 768);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 7 * 128; i++) printf("%.9g%s", h[i], i % 8 < 7 ? " " : i % 128 == 127 ? "\n\n" : "\n");
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
