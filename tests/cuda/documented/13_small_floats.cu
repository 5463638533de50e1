//> e2m1 rn 4e48be7a48414f08
//> e2m3 rn 0a18722dbff99e14
//> e3m2 rn bb4a79deb7262d0c
//> e2m1 rz d294c16955078008
//> e2m3 rz b520ff6c1e55488c
//> e3m2 rz 305e71d1be14b218
//> e8m0 rz 4784337b5fb66210
//> e8m0 rp 19accfae21062070
//> e8m0 rz saturated 61991b5c0376e094
//> e8m0 rp saturated 20a8b66135e9a670
//> values de70dcaa3ccfc290
//> f3, 6490 0 -0.5 2 4, 201f2302 0.125 -0.1875 28 -0, fe7f7e00 5.87747e-39 0.5 1 1.70141e+38
//> e 1f 05 82 be 4
//> ptx a4 2612 2a11 b542 7f81 bc004000 3f804080 b840
// So does the library's own header, compiled for a host (the lines before `ptx`).
#include <cstdio>
#include <cstring>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

static unsigned long long digest = 0;
static void add(unsigned long long x) { digest = (digest ^ x) * 0x9e3779b97f4a7c15ull; }
static float bits(unsigned x) { float f; memcpy(&f, &x, 4); return f; }
static unsigned of(float f) { unsigned x; memcpy(&x, &f, 4); return f == f ? x : 0x7fc00000u; }
static void show(const char *what) { printf("%s %016llx\n", what, digest), digest = 0; }
static __nv_bfloat16_raw bf16(unsigned x) { __nv_bfloat16_raw r; r.x = (unsigned short)x; return r; }

template <class F> static void each(const char *what, F f) {
    for (unsigned i = 0; i < 65536; i++)
        for (unsigned low : {0u, 1u, 0xffffu}) f(bits(i << 16 | low));
    show(what);
}

static void conversions() {
    const cudaRoundMode modes[] = {cudaRoundNearest, cudaRoundZero};
    const char *names[][2] = {{"e2m1 rn", "e2m1 rz"}, {"e2m3 rn", "e2m3 rz"}, {"e3m2 rn", "e3m2 rz"}};
    for (int m = 0; m < 2; m++) {
        each(names[0][m], [&](float x) {
            add(__nv_cvt_float_to_fp4(x, __NV_E2M1, modes[m]));
            if (x == x) add(__nv_cvt_double_to_fp4(double(x) * 1.0000001, __NV_E2M1, modes[m]));
        });
        for (auto k : {__NV_E2M3, __NV_E3M2})
            each(names[k == __NV_E2M3 ? 1 : 2][m], [&](float x) {
                add(__nv_cvt_float_to_fp6(x, k, modes[m]));
                if (x == x) add(__nv_cvt_double_to_fp6(double(x) * 1.0000001, k, modes[m]));
            });
    }
    for (auto s : {__NV_NOSAT, __NV_SATFINITE})
        for (auto mode : {cudaRoundZero, cudaRoundPosInf})
            each(mode == cudaRoundZero ? s ? "e8m0 rz saturated" : "e8m0 rz" : s ? "e8m0 rp saturated" : "e8m0 rp",
                 [&](float x) {
                     add(__nv_cvt_float_to_e8m0(x, s, mode));
                     if (x == x) add(__nv_cvt_double_to_e8m0(double(x) * 1.0000001, s, mode));
                     add(__nv_cvt_bfloat16raw_to_e8m0(bf16(of(x) >> 16), s, mode));
                 });
}

#ifdef __CUDACC__
__global__ void convert(const float *x, unsigned *out) {
    unsigned halves, bfloats;
    unsigned short e2m1, e2m3, e3m2, e4m3, scales, from_halves;
    asm("{ .reg .b8 pair; cvt.rn.satfinite.e2m1x2.f32 pair, %2, %1; mov.b16 %0, {pair, 0}; }"
        : "=h"(e2m1) : "f"(x[0]), "f"(x[1]));
    asm("cvt.rn.satfinite.e2m3x2.f32 %0, %2, %1;" : "=h"(e2m3) : "f"(x[0]), "f"(x[1]));
    asm("cvt.rn.satfinite.e3m2x2.f32 %0, %2, %1;" : "=h"(e3m2) : "f"(x[0]), "f"(x[1]));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(e4m3) : "f"(x[0]), "f"(x[1]));
    asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %2, %1;" : "=h"(scales) : "f"(x[0]), "f"(x[1]));
    asm("{ .reg .b8 pair, rest; mov.b16 {pair, rest}, %1; cvt.rn.f16x2.e2m1x2 %0, pair; }" : "=r"(halves) : "h"(e2m1));
    asm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(bfloats) : "h"(scales));
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(from_halves) : "r"(halves));
    const unsigned results[] = {e2m1, e2m3, e3m2, e4m3, scales, halves, bfloats, from_halves};
    for (int i = 0; i < 8; i++) out[i] = results[i];
}

static int device_part() {
    const float x[] = {2.4f, -0.8f};
    float *in;
    unsigned *out, results[8];
    cudaMalloc(&in, sizeof x), cudaMalloc(&out, sizeof results);
    cudaMemcpy(in, x, sizeof x, cudaMemcpyHostToDevice);
    convert<<<1, 1>>>(in, out);
    cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost);
    printf("ptx %02x %04x %04x %04x %04x %08x %08x %04x\n", results[0], results[1], results[2], results[3], results[4],
        results[5], results[6], results[7]);
    return cudaFree(in) || cudaFree(out);
}
#else
static int device_part() { return 0; }
#endif

int main() {
    conversions();
    for (unsigned i = 0; i < 256; i++) {
        __nv_fp8_e8m0 scale;
        scale.__x = (__nv_fp8_storage_t)i;
        add(of(float(scale))), add(of(float(__nv_bfloat16(scale)))), add(of(float(__half(scale)))), add(int(scale));
        __nv_fp6_e2m3 a;
        __nv_fp6_e3m2 b;
        __nv_fp4_e2m1 c;
        a.__x = b.__x = (__nv_fp6_storage_t)(i & 63), c.__x = (__nv_fp4_storage_t)(i & 15);
        add(of(float(a))), add(of(float(b))), add(of(float(c))), add(unsigned(a)), add((unsigned char)c), add(bool(c));
        const float2 two = __half22float2(__nv_cvt_fp4x2_to_halfraw2((__nv_fp4x2_storage_t)i, __NV_E2M1));
        add(of(two.x)), add(of(two.y));
    }
    show("values");
    const __nv_fp4x2_e2m1 two(float2{1.3f, -500});
    const __nv_fp4x4_e2m1 four(float4{0.25f, -0.26f, 2.5f, 3.5f});
    const __nv_fp6x4_e3m2 six(__half2(0.1f, -0.2f), __half2(30, -0.f));
    const __nv_fp8x4_e8m0 scales(float4{0, 0.3f, -1, 3e38f});
    const float4 y = float4(four), z = float4(six), s = float4(scales);
    printf("%02x, %04x %g %g %g %g, %08x %g %g %g %g, %08x %g %g %g %g\n", two.__x, four.__x, y.x, y.y, y.z, y.w,
        six.__x, z.x, z.y, z.z, z.w, scales.__x, s.x, s.y, s.z, s.w);
    printf("%x %02x %02x %02x %02x %x\n", __nv_fp4_e2m1(-5).__x, __nv_fp6_e2m3(17u).__x, __nv_fp6_e3m2(0.3).__x,
        __nv_fp8_e8m0(5).__x, __nv_fp8_e8m0((1ull << 62) + 1).__x, __nv_fp4_e2m1(__nv_bfloat16(2.5f)).__x);
    return device_part();
}
