//> lop3 d2 96 e8
//> halves 3.5 -7 | 1.25 9 | bf16 3.5 -7
//> packed 1122334455667788 11223344
//> sums 496 -1 31 496
//> old 7 1
//> bytes 1 1
//> shuffled 5 32 1
// Results of instructions as PTX's specification defines them, and a program's own overloads of removed functions.
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ int __any(int p) { return __any_sync(0xffffffffu, p); }
__device__ float __shfl_down(float x, int by) { return __shfl_down_sync(0xffffffffu, x, by); }
template <class T> __device__ T __shfl(T x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }

__global__ void bits() {
    unsigned a, b, c, d;
    asm("lop3.b32 %0, %1, %2, %3, 0xd2;" : "=r"(a) : "r"(0xf0), "r"(0xcc), "r"(0xaa));
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(b) : "r"(0xf0), "r"(0xcc), "r"(0xaa));
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(c) : "r"(0xf0), "r"(0xcc), "r"(0xaa));
    printf("lop3 %x %x %x\n", a & 0xff, b & 0xff, c & 0xff);
    __half2 x = __floats2half2_rn(1.5f, -2), y = __floats2half2_rn(2, 4), z = __floats2half2_rn(0.5f, 1), r, s;
    unsigned *px = (unsigned *)&x, *py = (unsigned *)&y, *pz = (unsigned *)&z, *pr = (unsigned *)&r,
             *ps = (unsigned *)&s;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(*pr) : "r"(*px), "r"(*py), "r"(*pz));
    asm("mul.f16x2 %0, %1, %1;" : "=r"(d) : "r"(*px));
    asm("sub.f16x2 %0, %1, %2;" : "=r"(*ps) : "r"(*(unsigned *)&d), "r"(0xc5003c00));
    __nv_bfloat162 u = __floats2bfloat162_rn(1.5f, -2), v = __floats2bfloat162_rn(2, 4),
                   w = __floats2bfloat162_rn(0.5f, 1), t;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(*(unsigned *)&t)
        : "r"(*(unsigned *)&u), "r"(*(unsigned *)&v), "r"(*(unsigned *)&w));
    printf("halves %g %g | %g %g | bf16 %g %g\n", __low2float(r), __high2float(r), __low2float(s), __high2float(s),
        __low2float(t), __high2float(t));
    unsigned long long whole;
    unsigned short low, high;
    asm("mov.b64 %0, {%1, %2};" : "=l"(whole) : "r"(0x55667788), "r"(0x11223344));
    asm("mov.b32 {%0, %1}, %2;" : "=h"(low), "=h"(high) : "r"(0x11223344));
    asm("mov.b32 %0, {%1, %2};" : "=r"(d) : "h"(low), "h"(high));
    printf("packed %llx %x\n", whole, d);
}
__global__ void atomics(int *x) {
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(x), "r"(threadIdx.x) : "memory");
    asm volatile("red.global.min.s32 [%0], %1;" ::"l"(x + 1), "r"((int)threadIdx.x - 1) : "memory");
    asm volatile("red.global.max.u32 [%0], %1;" ::"l"(x + 2), "r"(threadIdx.x) : "memory");
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(x + 3), "f"((float)threadIdx.x) : "memory");
    if (threadIdx.x) return;
    int old;
    asm volatile("atom.acquire.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(x + 4), "r"(1) : "memory");
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(x[6]) : "l"(x + 4) : "memory");
    x[5] = old;
}
__global__ void bytes(int *out) {
    int lane = threadIdx.x, c[4] = {1, 2, 3, 4}, d[4] = {};
    unsigned a[4], b[2];
    // A[i][j] = i - j, B[i][j] = i + 3*j, as signed bytes
    for (int i = 0; i < 4; i++) {
        a[i] = 0;
        for (int e = 0; e < 4; e++)
            a[i] |= (unsigned)(unsigned char)(lane / 4 + i % 2 * 8 - (i / 2 * 16 + lane % 4 * 4 + e)) << 8 * e;
    }
    for (int i = 0; i < 2; i++) {
        b[i] = 0;
        for (int e = 0; e < 4; e++)
            b[i] |= (unsigned)(unsigned char)(i * 16 + lane % 4 * 4 + e + 3 * (lane / 4)) << 8 * e;
    }
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
    bool same = true;
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2, sum = i + 1;
        for (int k = 0; k < 32; k++) sum += (row - k) * (k + 3 * column);
        same = same && d[i] == sum;
    }
    out[lane] = same;
}
__global__ void shuffles() {
    float x = __shfl_down((float)threadIdx.x, 5);
    int any = __any(threadIdx.x == 9), n = __shfl((int)threadIdx.x + 1, 31);
    if (threadIdx.x == 0) printf("shuffled %g %d %d\n", x, n, any != 0);
}
int main() {
    int *x, h[32] = {0, 5, 0, 0, 7};
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    bits<<<1, 1>>>();
    atomics<<<1, 32>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("sums %d %d %d %g\nold %d %d\n", h[0], h[1], h[2], *(float *)&h[3], h[5], h[6]);
    bytes<<<1, 32>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    bool all = true;
    for (int i : h) all = all && i == 1;
    printf("bytes %d %d\n", all, h[31]);
    shuffles<<<1, 32>>>();
    return cudaDeviceSynchronize();
}
