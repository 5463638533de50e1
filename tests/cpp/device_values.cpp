// What the device functions give, one line for each: a digest of the results over many arguments where a GPU is exact,
// the results themselves where it is not. nvcc made device_values.txt of this file; other compilers must make the same.
#include <stdio.h>
#include <string.h>
#ifndef __CUDACC__
#include "emulator.h"
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

typedef unsigned long long Word;
typedef __nv_bfloat16 brain;
typedef __nv_bfloat162 brain2;

__device__ const int integers[] = {
    0, 1, -1, 2, 3, 31, 32, 33, 255, 256, -128, 127, 0x7fff, 0x8000, 0xffff, 0x7fffffff, int(0x80000000),
    int(0x80000001), int(0x80808080), 0x7f7f7f7f, 0x00ff00ff, int(0xff00ff00), 0x01010101, 0x7fff8000, int(0x80007fff),
    0x12345678, int(0xfedcba98), 0x00010000, 16777215, 16777216, 16777217, -16777217};
__device__ const double reals[] = {
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 1e-45, -1e-40, 1.1754943e-38, 3.4028234663852886e38,
    -3.4028234663852886e38, 2147483648.0, 2147483520.0, -2147483648.0, -2147483904.0, 4294967296.0, 4294967040.0,
    9223372036854775808.0, 18446744073709551616.0, -9223372036854775808.0, 1e300, 5e-324, 65504.0, 65519.996, 65520.0,
    1.0009765625, 1.00048828125, 3.3895313892515355e38};

__host__ __device__ inline Word scrambled(Word x) {
    x = (x + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull; x ^= x >> 29; x *= 0x94d049bb133111ebull;
    return x ^ x >> 32;
}

__device__ inline Word bits(int x) { return unsigned(x); }
__device__ inline Word bits(unsigned x) { return x; }
__device__ inline Word bits(bool x) { return x; }
__device__ inline Word bits(short x) { return (unsigned short)x; }
__device__ inline Word bits(unsigned short x) { return x; }
__device__ inline Word bits(signed char x) { return (unsigned char)x; }
__device__ inline Word bits(unsigned char x) { return x; }
__device__ inline Word bits(long x) { return Word(x); }
__device__ inline Word bits(unsigned long x) { return Word(x); }
__device__ inline Word bits(long long x) { return Word(x); }
__device__ inline Word bits(Word x) { return x; }
__device__ inline Word bits(float x) { return isnan(x) ? 0x7fffffff : __float_as_uint(x); }
__device__ inline Word bits(double x) { return isnan(x) ? 0x7fffffffffffffff : Word(__double_as_longlong(x)); }
__device__ inline Word bits(half x) { return __hisnan(x) ? 0x7fff : __half_as_ushort(x); }
__device__ inline Word bits(brain x) { return __hisnan(x) ? 0x7fff : __bfloat16_as_ushort(x); }
__device__ inline Word bits(half2 x) { return bits(x.x) | bits(x.y) << 16; }
__device__ inline Word bits(brain2 x) { return bits(x.x) | bits(x.y) << 16; }
__device__ inline Word bits(float2 x) { return bits(x.x) | bits(x.y) << 32; }

__device__ inline int integer(int i, int kind) {
    return kind < 32 ? integers[kind] : int(scrambled(Word(i) * 64 + kind)) >> (kind & 15);
}
__device__ inline Word wide(int i, int kind) {
    return kind < 32 ? Word((long long)integers[kind]) << (i & 31) : scrambled(Word(i) * 64 + kind) >> (kind & 31);
}
__device__ inline float real(int i, int kind) {
    return kind < 32 ? float(reals[kind])
         : kind < 48 ? __int_as_float(int(scrambled(Word(i) * 64 + kind)))
         : float(integer(i, kind)) / 1024;
}
__device__ inline double real2(int i, int kind) {
    return kind < 32 ? reals[kind]
         : kind < 48 ? __longlong_as_double((long long)scrambled(Word(i) * 64 + kind))
         : kind < 56 ? double(real(i, kind))
         : double(integer(i, kind)) / 1024;
}
__device__ inline unsigned short short_real(int i, int kind) {   // bits of a half or a bfloat16, often near another's
    return (unsigned short)(kind < 8 ? 0x8000 * (kind & 1) + 0x400 * (kind >> 1)
                            : kind < 16 ? 0x7c00 + 0x100 * (kind - 8)
                            : kind < 40 ? scrambled(Word(i) * 64 + kind)
                            : scrambled(Word(i)) + unsigned(kind));
}

#define ROUNDINGS(X, before, after) X(before##_rn after) X(before##_rz after) X(before##_ru after) X(before##_rd after)
#define BITS(X) \
    X(__popc(u)) X(__popcll(p)) X(__clz(a)) X(__clzll(l)) X(__ffs(a)) X(__ffsll(l)) X(__brev(u)) X(__brevll(p)) \
    X(__byte_perm(u, v, w)) \
    X(__funnelshift_l(u, v, w)) X(__funnelshift_r(u, v, w)) X(__funnelshift_lc(u, v, w)) X(__funnelshift_rc(u, v, w)) \
    X(__fns(u, v & 31, c % 33)) \
    X(__mulhi(a, b)) X(__umulhi(u, v)) X(__mul64hi(l, m)) X(__umul64hi(p, q)) X(__mul24(a, b)) X(__umul24(u, v)) \
    X(__sad(a, b, w)) X(__usad(u, v, w)) \
    X(__hadd(a, b)) X(__rhadd(a, b)) X(__uhadd(u, v)) X(__urhadd(u, v)) X(__dp4a(a, b, c)) X(__dp4a(u, v, w)) \
    X(__dp2a_lo(a, b, c)) X(__dp2a_hi(a, b, c)) X(__dp2a_lo(u, v, w)) X(__dp2a_hi(u, v, w)) \
    X(__float_as_int(x)) X(__double2hiint(d)) X(__double2loint(d)) X(__hiloint2double(a, b))
#define SIMD(X, n) \
    X(__vadd##n(u, v)) X(__vsub##n(u, v)) X(__vabs##n(u)) X(__vabsss##n(u)) X(__vneg##n(u)) X(__vnegss##n(u)) \
    X(__vaddss##n(u, v)) X(__vaddus##n(u, v)) \
    X(__vsubss##n(u, v)) X(__vsubus##n(u, v)) X(__vabsdiffs##n(u, v)) X(__vabsdiffu##n(u, v)) X(__vavgs##n(u, v)) \
    X(__vavgu##n(u, v)) X(__vhaddu##n(u, v)) \
    X(__vmaxs##n(u, v)) X(__vmaxu##n(u, v)) X(__vmins##n(u, v)) X(__vminu##n(u, v)) X(__vsads##n(u, v)) \
    X(__vsadu##n(u, v)) \
    X(__vcmpeq##n(u, v)) X(__vcmpne##n(u, v)) X(__vcmpgts##n(u, v)) X(__vcmpgtu##n(u, v)) X(__vcmpges##n(u, v)) \
    X(__vcmpgeu##n(u, v)) \
    X(__vcmplts##n(u, v)) X(__vcmpltu##n(u, v)) X(__vcmples##n(u, v)) X(__vcmpleu##n(u, v)) X(__vseteq##n(u, v)) \
    X(__vsetles##n(u, v)) X(__vsetgtu##n(u, v))
#define EXTREMA(X, f) \
    X(f(a, b)) X(f(u, v)) X(f(a, v)) X(f(u, b)) X(f(l, m)) X(f(p, q)) X(f(l, q)) X(f(x, y)) X(f(d, e)) X(f(x, e)) \
    X(f(d, y)) X(f(long(l), (unsigned long)q))
#define ARITHMETIC(X, P, F, x, y, z) \
    ROUNDINGS(X, P##add, (x, y)) ROUNDINGS(X, P##sub, (x, y)) ROUNDINGS(X, P##mul, (x, y)) \
    ROUNDINGS(X, P##div, (x, y)) \
    ROUNDINGS(X, P##rcp, (x)) ROUNDINGS(X, P##sqrt, (x)) ROUNDINGS(X, F, (x, y, z))
#define CONVERSIONS(X) \
    ROUNDINGS(X, __float2int, (x)) ROUNDINGS(X, __float2uint, (x)) ROUNDINGS(X, __float2ll, (x)) \
    ROUNDINGS(X, __float2ull, (x)) \
    ROUNDINGS(X, __double2int, (d)) ROUNDINGS(X, __double2uint, (d)) ROUNDINGS(X, __double2ll, (d)) \
    ROUNDINGS(X, __double2ull, (d)) \
    ROUNDINGS(X, __int2float, (a)) ROUNDINGS(X, __uint2float, (u)) ROUNDINGS(X, __ll2float, (l)) \
    ROUNDINGS(X, __ull2float, (p)) \
    ROUNDINGS(X, __ll2double, (l)) ROUNDINGS(X, __ull2double, (p)) ROUNDINGS(X, __double2float, (d)) \
    X(__int2double_rn(a)) X(__uint2double_rn(u)) \
    X(__saturatef(x)) X(__fmaf_ieee_rz(x, y, z)) X(__fdividef(y, fmaxf(fabsf(x), 0x1.8p126f))) \
    X(bool(isnan(__powf(x, y))))
#define HALVES(X, word, word2, self, T, T2, h, g, k, hh, gg, kk) \
    X(__hadd(h, g)) X(__hsub(h, g)) X(__hmul(h, g)) X(__hdiv(h, g)) X(__hfma(h, g, k)) X(__hfma_sat(h, g, k)) \
    X(__hfma_relu(h, g, k)) X(__hadd_sat(h, g)) X(__hsub_sat(h, g)) X(__hmul_sat(h, g)) \
    X(__hadd_rn(h, g)) X(__hsub_rn(h, g)) X(__hmul_rn(h, g)) X(__hneg(h)) X(__habs(h)) X(__hmax(h, g)) X(__hmin(h, g)) \
    X(__hmax_nan(h, g)) X(__hmin_nan(h, g)) \
    X(__hadd2(hh, gg)) X(__hsub2(hh, gg)) X(__hmul2(hh, gg)) X(__h2div(hh, gg)) X(__hfma2(hh, gg, kk)) \
    X(__hfma2_sat(hh, gg, kk)) X(__hfma2_relu(hh, gg, kk)) X(__hcmadd(hh, gg, kk)) X(__hneg2(hh)) X(__habs2(hh)) \
    X(__hmax2(hh, gg)) X(__hmin2_nan(hh, gg)) \
    X(h + g) X(h - g) X(h * g) X(h / g) X(-h) X(hh + gg) X(hh * gg) X(h == g) X(h != g) X(h < g) X(h <= g) X(h > g) \
    X(h >= g) X(hh == gg) X(hh != gg) X(bool(h)) \
    X(__heq(h, g)) X(__hne(h, g)) X(__hle(h, g)) X(__hge(h, g)) X(__hlt(h, g)) X(__hgt(h, g)) X(__hequ(h, g)) \
    X(__hneu(h, g)) X(__hleu(h, g)) X(__hgeu(h, g)) X(__hltu(h, g)) X(__hgtu(h, g)) \
    X(__heq2(hh, gg)) X(__hneu2(hh, gg)) X(__hlt2_mask(hh, gg)) X(__hgeu2_mask(hh, gg)) X(__hbeq2(hh, gg)) \
    X(__hbgtu2(hh, gg)) X(__hisnan(h)) X(__hisinf(h) != 0) X(__hisnan2(hh)) \
    X(hsqrt(h)) X(hceil(h)) X(hfloor(h)) X(hrint(h)) X(htrunc(h)) X(h2sqrt(hh)) X(h2rint(hh)) \
    X(__##word##2float(h)) X(__double2##word(d)) X(__float2##word(x)) ROUNDINGS(X, __float2##word, (x)) \
    ROUNDINGS(X, __int2##word, (a)) ROUNDINGS(X, __uint2##word, (u)) ROUNDINGS(X, __ll2##word, (l)) \
    ROUNDINGS(X, __ull2##word, (p)) \
    ROUNDINGS(X, __short2##word, (short(a))) ROUNDINGS(X, __ushort2##word, ((unsigned short)a)) \
    ROUNDINGS(X, __##word##2int, (h)) ROUNDINGS(X, __##word##2uint, (h)) ROUNDINGS(X, __##word##2ll, (h)) \
    ROUNDINGS(X, __##word##2ull, (h)) ROUNDINGS(X, __##word##2short, (h)) ROUNDINGS(X, __##word##2ushort, (h)) \
    X(__##word##2char_rz(h)) X(__##word##2uchar_rz(h)) X(T(a)) X(T(d)) X(T(l)) X(int(h)) X((unsigned char)h) \
    X((long long)h) \
    X(__##word##_as_short(h)) X(__##self(h)) X(__float2##word2##_rn(x)) X(__floats2##word2##_rn(x, y)) \
    X(__float22##word2##_rn(make_float2(x, y))) X(__##word2##2float2(hh)) \
    X(__low2float(hh)) X(__high2float(hh)) X(__low2##word(hh)) X(__high2##word(hh)) X(__low2##word2(hh)) \
    X(__high2##word2(hh)) X(__lows2##word2(hh, gg)) X(__highs2##word2(hh, gg)) X(__lowhigh2highlow(hh)) \
    X(make_##word2(h, g))
#define EXACT(X) \
    BITS(X) SIMD(X, 2) SIMD(X, 4) EXTREMA(X, min) EXTREMA(X, max) ARITHMETIC(X, __f, __fmaf, x, y, z) \
    ARITHMETIC(X, __d, __fma, d, e, f) CONVERSIONS(X) \
    HALVES(X, half, half2, half2half2, half, half2, h, g, k, hh, gg, kk) \
    HALVES(X, bfloat16, bfloat162, bfloat162bfloat162, brain, brain2, r, s, t, rr, ss, tt) \
    X(half(r)) X(brain(h)) X(CUDART_INF_F + a) X(CUDART_PI_F * float(b & 255))

// By how many units in the last place the GPU's result may be wrong (CUDA C++ Programming Guide, Mathematical
// Functions); x is in (0, 1), y in (-8, 8)
#define CLOSE(X) \
    X(2, rsqrtf(x)) X(1, rcbrtf(y)) X(1, sinpif(y)) X(1, cospif(y)) X(2, erfinvf(2 * x - 1)) X(4, erfcinvf(2 * x)) \
    X(4, erfcxf(y)) X(5, normcdff(y)) X(5, normcdfinvf(x)) X(6, cyl_bessel_i0f(y)) X(6, cyl_bessel_i1f(y)) \
    X(3, norm3df(x, y, 1.5f)) X(3, norm4df(x, y, 1.5f, -x)) X(2, rhypotf(x, y)) X(2, rnorm3df(x, y, 1.5f)) \
    X(2, rnorm4df(x, y, 1.5f, -x)) X(2, exp10f(y)) X(1, __frsqrt_rn(x)) X(2, __fdividef(y, x))
#define CLOSE2(X) \
    X(1, rsqrt(x)) X(1, rcbrt(y)) X(2, sinpi(y)) X(2, cospi(y)) X(5, erfinv(2 * x - 1)) X(6, erfcinv(2 * x)) \
    X(4, erfcx(y)) X(5, normcdf(y)) X(8, normcdfinv(x)) X(6, cyl_bessel_i0(y)) X(6, cyl_bessel_i1(y)) \
    X(1, norm3d(x, y, 1.5)) X(2, norm4d(x, y, 1.5, -x)) X(1, rhypot(x, y)) X(1, rnorm3d(x, y, 1.5)) \
    X(2, rnorm4d(x, y, 1.5, -x)) X(1, exp10(y))

struct Arguments {
    int a, b, c;
    unsigned u, v, w;
    long long l, m;
    Word p, q;
    float x, y, z;
    double d, e, f;
    half h, g, k;
    brain r, s, t;
    half2 hh, gg, kk;
    brain2 rr, ss, tt;
    __device__ explicit Arguments(int i) {
        const int i1 = i & 63, i2 = i >> 6 & 63, i3 = int(scrambled(Word(i)) & 63);
        a = integer(i, i1), b = integer(i + 1, i2), c = integer(i + 2, i3);
        u = unsigned(a), v = unsigned(b), w = unsigned(c);
        p = wide(i, i1), q = wide(i + 1, i2);
        l = (long long)p, m = (long long)q;
        x = real(i, i1), y = real(i + 1, i2), z = real(i + 2, i3);
        d = real2(i, i1), e = real2(i + 1, i2), f = real2(i + 2, i3);
        const unsigned short h1 = short_real(i, i1), h2 = short_real(i, i2), h3 = short_real(i, i3);
        h = __ushort_as_half(h1), g = __ushort_as_half(h2), k = __ushort_as_half(h3);
        r = __ushort_as_bfloat16(h1), s = __ushort_as_bfloat16(h2), t = __ushort_as_bfloat16(h3);
        hh = __halves2half2(h, g), gg = __halves2half2(k, h), kk = __halves2half2(g, k);
        rr = __halves2bfloat162(r, s), ss = __halves2bfloat162(t, r), tt = __halves2bfloat162(s, t);
    }
    __device__ Word result(int which) const {
        enum { first = __COUNTER__ + 1 };
#define X(...) case __COUNTER__ - first: return bits(__VA_ARGS__);
        switch (which) { EXACT(X) }
#undef X
        return 0;
    }
};


struct Point {
    float x, y;
    __device__ double result(int which) const {
        enum { first = __COUNTER__ + 1 };
#define X(ulps, ...) case __COUNTER__ - first: return double(__VA_ARGS__);
        switch (which) { CLOSE(X) }
#undef X
        return 0;
    }
};
struct Point2 {
    double x, y;
    __device__ double result(int which) const {
        enum { first = __COUNTER__ + 1 };
#define X(ulps, ...) case __COUNTER__ - first: return __VA_ARGS__;
        switch (which) { CLOSE2(X) }
#undef X
        return 0;
    }
};

#define X(...) #__VA_ARGS__,
const char *const exact_names[] = {EXACT(X)};
#undef X
#define X(ulps, ...) #ulps "\tfloat\t" #__VA_ARGS__,
const char *const close_names[] = {CLOSE(X)};
#undef X
#define X(ulps, ...) #ulps "\tdouble\t" #__VA_ARGS__,
const char *const close2_names[] = {CLOSE2(X)};
#undef X

enum { pairs = 4096, points = 12, exact = sizeof exact_names / sizeof *exact_names,
       close = sizeof close_names / sizeof *close_names, close2 = sizeof close2_names / sizeof *close2_names };

__device__ void evaluate(int which, Word *digests, double *values) {
    if (which < exact) {
        Word digest = 1;
        for (int i = 0; i < pairs; i++) digest = scrambled(digest ^ Arguments(i).result(which));
        digests[which] = digest;
    }
    for (int i = 0; i < points; i++) {
        const double x = (i + 0.3) / points, y = (i - 5.3) * 1.37;
        if (which < close) values[which * points + i] = Point{float(x), float(y)}.result(which);
        if (which < close2) values[(close + which) * points + i] = Point2{x, y}.result(which);
    }
}

Word digests[exact];
double values[(close + close2) * points];

#ifdef __CUDACC__
__global__ void all(Word *digests, double *values) { evaluate(int(threadIdx.x), digests, values); }
void run() {
    Word *d;
    double *v;
    cudaMalloc(&d, sizeof digests);
    cudaMalloc(&v, sizeof values);
    all<<<1, exact>>>(d, v);
    cudaMemcpy(digests, d, sizeof digests, cudaMemcpyDeviceToHost);
    cudaMemcpy(values, v, sizeof values, cudaMemcpyDeviceToHost);
    if (cudaGetLastError() != cudaSuccess) fprintf(stderr, "the launch failed\n");
}
#else
void run() { for (int i = 0; i < exact; i++) evaluate(i, digests, values); }
#endif

int main() {
    run();
    for (int i = 0; i < exact; i++) fprintf(stdout, "exact\t%s\t%016llx\n", exact_names[i], digests[i]);
    for (int i = 0; i < close + close2; i++) {
        fprintf(stdout, "close\t%s", i < close ? close_names[i] : close2_names[i - close]);
        for (int j = 0; j < points; j++) fprintf(stdout, "\t%a", values[i * points + j]);
        fprintf(stdout, "\n");
    }
}
