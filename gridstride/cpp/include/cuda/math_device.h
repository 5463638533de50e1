// CUDA's mathematical functions that <math.h> lacks. The fast intrinsics (`__expf`) return the accurate result.
// The functions are noexcept, because some C libraries declare functions of the same names as noexcept.
#pragma once
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include "vector_types.h"

namespace gridstride {
constexpr double pi = 3.14159265358979323846;

// Returns `x` so that the compiler cannot fuse its computation with the next operation.
GRIDSTRIDE_INLINE float prevent_fusion(float x) {
#if defined(__aarch64__)
    asm("" : "+w"(x));
#elif defined(__FMA__)
    asm("" : "+x"(x));
#endif
    return x;
}
GRIDSTRIDE_INLINE double prevent_fusion(double x) {
#if defined(__aarch64__)
    asm("" : "+w"(x));
#elif defined(__FMA__)
    asm("" : "+x"(x));
#endif
    return x;
}

template <class T> constexpr auto smaller(T a, T b) { return a < b ? a : b; }
template <class T> constexpr auto larger(T a, T b) { return a < b ? b : a; }
// Minimum and maximum, with -0 less than 0, and NaNs ignored
template <class T> auto minimum(T a, T b) { return a != a ? b : a < b || (a == b && signbit(a)) || b != b ? a : b; }
template <class T> auto maximum(T a, T b) { return a != a ? b : a > b || (a == b && signbit(b)) || b != b ? a : b; }
template <class T> auto sum(T a, T b, T) { return a + b; }
template <class T> auto difference(T a, T b, T) { return a - b; }
template <class T> auto product(T a, T b, T) { return a * b; }
template <class T> auto quotient(T a, T b, T) { return a / b; }
template <class T> auto multiply_add(T a, T b, T c) { return fma(a, b, c); }
template <class T> auto square_root(T a, T, T) { return sqrt(a); }
template <class R, class T> auto convert_to(T a, T, T) { return R(a); }

// Returns `f(a, b, c)`, rounded in `direction`. The operands are volatile, because compilers assume that the rounding
// mode never changes.
template <class R, class T> auto with_rounding(int direction, R (*f)(T, T, T), T a, T b = T(0), T c = T(0)) {
    volatile T va = a, vb = b, vc = c;
    const int old_mode = fegetround();
    fesetround(direction);
    volatile R r = f(va, vb, vc);
    fesetround(old_mode);
    return r;
}

// Returns x >= 0 with erf(x) = y and erfc(x) = c = 1 - y: Winitzki's approximation, refined by Halley iterations.
inline double erf_root(double y, double c) {
    const double a = 0.147, l = log(c * (1 + y)), t = 2 / (pi * a) + l / 2;
    double x = sqrt(fmax(sqrt(t * t - l / a) - t, 0));
    for (int i = 0; i < 4; i++) {
        const double u = (y < 0.5 ? erf(x) - y : c - erfc(x)) * (sqrt(pi) / 2) * exp(x * x);
        x -= u / (1 + x * u);
    }
    return x;
}

// The modified Bessel function I_n for n = 0 or 1: its power series, all of whose terms are positive.
inline double bessel_i(int n, double x) {
    const double q = x * x / 4;
    double term = n ? x / 2 : 1, total = term;
    for (int k = 1; fabs(term) > 1e-17 * fabs(total) && !isinf(total); k++) total += term *= q / (double(k) * (k + n));
    return total;
}
}

// Arithmetic with a rounding mode
#define GRIDSTRIDE_DIRECTIONS(T, name, parameters, ...) \
    inline T name##_rz parameters { return gridstride::with_rounding<T, T>(FE_TOWARDZERO, __VA_ARGS__); } \
    inline T name##_ru parameters { return gridstride::with_rounding<T, T>(FE_UPWARD, __VA_ARGS__); } \
    inline T name##_rd parameters { return gridstride::with_rounding<T, T>(FE_DOWNWARD, __VA_ARGS__); }
#define GRIDSTRIDE_ARITHMETIC(T, p, fma_name) \
    inline T __##p##add_rn(T a, T b) { \
        using gridstride::prevent_fusion; \
        return prevent_fusion(prevent_fusion(a) + prevent_fusion(b)); \
    } \
    inline T __##p##sub_rn(T a, T b) { \
        using gridstride::prevent_fusion; \
        return prevent_fusion(prevent_fusion(a) - prevent_fusion(b)); \
    } \
    inline T __##p##mul_rn(T a, T b) { return gridstride::prevent_fusion(a * b); } \
    inline T __##p##div_rn(T a, T b) { return a / b; } \
    inline T __##p##rcp_rn(T a) { return 1 / a; } \
    inline T __##p##sqrt_rn(T a) { return sqrt(a); } \
    inline T fma_name##_rn(T a, T b, T c) { return fma(a, b, c); } \
    GRIDSTRIDE_DIRECTIONS(T, __##p##add, (T a, T b), gridstride::sum<T>, a, b) \
    GRIDSTRIDE_DIRECTIONS(T, __##p##sub, (T a, T b), gridstride::difference<T>, a, b) \
    GRIDSTRIDE_DIRECTIONS(T, __##p##mul, (T a, T b), gridstride::product<T>, a, b) \
    GRIDSTRIDE_DIRECTIONS(T, __##p##div, (T a, T b), gridstride::quotient<T>, a, b) \
    GRIDSTRIDE_DIRECTIONS(T, __##p##rcp, (T a), gridstride::quotient<T>, T(1), a) \
    GRIDSTRIDE_DIRECTIONS(T, __##p##sqrt, (T a), gridstride::square_root<T>, a) \
    GRIDSTRIDE_DIRECTIONS(T, fma_name, (T a, T b, T c), gridstride::multiply_add<T>, a, b, c)
GRIDSTRIDE_ARITHMETIC(float, f, __fmaf)
GRIDSTRIDE_ARITHMETIC(double, d, __fma)
#undef GRIDSTRIDE_ARITHMETIC
#undef GRIDSTRIDE_DIRECTIONS
inline float __fmaf_ieee_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
inline float __fmaf_ieee_rz(float a, float b, float c) { return __fmaf_rz(a, b, c); }
inline float __fmaf_ieee_ru(float a, float b, float c) { return __fmaf_ru(a, b, c); }
inline float __fmaf_ieee_rd(float a, float b, float c) { return __fmaf_rd(a, b, c); }
inline float __frsqrt_rn(float x) { return float(1 / sqrt(double(x))); }

// min and max have exactly CUDA's overloads, so that a call that is ambiguous in CUDA is ambiguous here, too.
#define GRIDSTRIDE_EXTREMA(R, A, B) \
    constexpr R min(A a, B b) { return gridstride::smaller<R>(a, b); } \
    constexpr R max(A a, B b) { return gridstride::larger<R>(a, b); }
#define GRIDSTRIDE_INTEGER_EXTREMA(S, U) \
    GRIDSTRIDE_EXTREMA(S, S, S) GRIDSTRIDE_EXTREMA(U, U, U) GRIDSTRIDE_EXTREMA(U, S, U) GRIDSTRIDE_EXTREMA(U, U, S)
GRIDSTRIDE_INTEGER_EXTREMA(int, unsigned)
GRIDSTRIDE_INTEGER_EXTREMA(long, unsigned long)
GRIDSTRIDE_INTEGER_EXTREMA(long long, unsigned long long)
#undef GRIDSTRIDE_INTEGER_EXTREMA
#undef GRIDSTRIDE_EXTREMA
inline float min(float a, float b) { return gridstride::minimum(a, b); }
inline float max(float a, float b) { return gridstride::maximum(a, b); }
inline double min(double a, double b) { return gridstride::minimum(a, b); }
inline double max(double a, double b) { return gridstride::maximum(a, b); }
inline double min(float a, double b) { return gridstride::minimum(double(a), b); }
inline double max(float a, double b) { return gridstride::maximum(double(a), b); }
inline double min(double a, float b) { return gridstride::minimum(a, double(b)); }
inline double max(double a, float b) { return gridstride::maximum(a, double(b)); }
// These are templates, so that a program may define functions of the same names.
#define GRIDSTRIDE_NAMED_EXTREMA(T, prefix) \
    template <class = void> constexpr T prefix##min(T a, T b) { return min(a, b); } \
    template <class = void> constexpr T prefix##max(T a, T b) { return max(a, b); }
GRIDSTRIDE_NAMED_EXTREMA(unsigned, u)
GRIDSTRIDE_NAMED_EXTREMA(long long, ll)
GRIDSTRIDE_NAMED_EXTREMA(unsigned long long, ull)
#undef GRIDSTRIDE_NAMED_EXTREMA

// Functions for double, and for float with the suffix f and as overloads
#define GRIDSTRIDE_ALSO_FLOAT(name) \
    inline float name##f(float x) noexcept { return float(name(double(x))); } \
    inline float name(float x) noexcept { return name##f(x); }
inline double rsqrt(double x) noexcept { return 1 / sqrt(x); }
inline double rcbrt(double x) noexcept { return 1 / cbrt(x); }
inline double sinpi(double x) noexcept {
    const double r = remainder(x, 2.0);   // exact, in [-1, 1]
    if (fabs(r) == 1 || r == 0) return copysign(0.0, x);
    return sin(gridstride::pi * (fabs(r) > 0.5 ? copysign(1.0, r) - r : r));
}
inline double cospi(double x) noexcept {
    const double r = fabs(remainder(x, 2.0));
    if (r < 0.25) return cos(gridstride::pi * r);
    return r <= 0.75 ? sin(gridstride::pi * (0.5 - r)) : -cos(gridstride::pi * (1 - r));
}
inline double erfinv(double y) noexcept {
    if (!(fabs(y) < 1)) return fabs(y) == 1 ? y * INFINITY : NAN;
    return copysign(gridstride::erf_root(fabs(y), 1 - fabs(y)), y);
}
inline double erfcinv(double c) noexcept {
    if (!(c > 0 && c < 2)) return c == 0 ? INFINITY : c == 2 ? -INFINITY : NAN;
    return c <= 1 ? gridstride::erf_root(1 - c, c) : -gridstride::erf_root(c - 1, 2 - c);
}
inline double erfcx(double x) noexcept {   // exp(x*x) * erfc(x); for a large x, a series in 1/x
    if (x < 25) return exp(x * x) * (1 + fma(x, x, -x * x)) * erfc(x);
    double term = 1 / (x * sqrt(gridstride::pi)), total = term;
    for (int k = 1; k < 9; k++) total += term *= -(2 * k - 1) / (2 * x * x);
    return total;
}
inline double normcdf(double x) noexcept {
    constexpr double root = 0.70710678118654752440, low = -4.83364665672645672e-17;   // their sum is sqrt(1/2)
    // far from 0, erfc magnifies a small error of its argument
    const double t = -x * root, rounding_error = fma(-x, root, -t) - x * low;
    return isinf(x) ? x > 0 : (erfc(t) - rounding_error * 2 / sqrt(gridstride::pi) * exp(-t * t)) / 2;
}
inline double normcdfinv(double p) noexcept { return -sqrt(2.0) * erfcinv(2 * p); }
inline double cyl_bessel_i0(double x) noexcept { return gridstride::bessel_i(0, x); }
inline double cyl_bessel_i1(double x) noexcept { return gridstride::bessel_i(1, x); }
#ifdef __APPLE__
inline double exp10(double x) noexcept { return __exp10(x); }
inline float exp10f(float x) noexcept { return __exp10f(x); }
#endif
inline float exp10(float x) noexcept { return exp10f(x); }
GRIDSTRIDE_ALSO_FLOAT(rsqrt)
GRIDSTRIDE_ALSO_FLOAT(rcbrt)
GRIDSTRIDE_ALSO_FLOAT(sinpi)
GRIDSTRIDE_ALSO_FLOAT(cospi)
GRIDSTRIDE_ALSO_FLOAT(erfinv)
GRIDSTRIDE_ALSO_FLOAT(erfcinv)
GRIDSTRIDE_ALSO_FLOAT(erfcx)
GRIDSTRIDE_ALSO_FLOAT(normcdf)
GRIDSTRIDE_ALSO_FLOAT(normcdfinv)
GRIDSTRIDE_ALSO_FLOAT(cyl_bessel_i0)
GRIDSTRIDE_ALSO_FLOAT(cyl_bessel_i1)
#undef GRIDSTRIDE_ALSO_FLOAT

// These replace calls of the C library's functions: sincos is inlined, so that its stores are attributed to the caller;
// fmin and fmax are faster, and order -0 and 0 as a GPU does. The address of such a function is still the C library's.
#ifdef __APPLE__
GRIDSTRIDE_INLINE void sincosf(float x, float *s, float *c) noexcept { const float t = sinf(x); *c = cosf(x); *s = t; }
GRIDSTRIDE_INLINE void sincos(double x, double *s, double *c) noexcept { const double t = sin(x); *c = cos(x); *s = t; }
#else
#ifdef __GLIBC__
#define GRIDSTRIDE_AS_DECLARED noexcept
#else
#define GRIDSTRIDE_AS_DECLARED
#endif
#define GRIDSTRIDE_REPLACEMENT extern inline __attribute__((gnu_inline, always_inline))
GRIDSTRIDE_REPLACEMENT void sincosf(float x, float *s, float *c) GRIDSTRIDE_AS_DECLARED {
    const float t = sinf(x);
    *c = cosf(x);
    *s = t;
}
GRIDSTRIDE_REPLACEMENT void sincos(double x, double *s, double *c) GRIDSTRIDE_AS_DECLARED {
    const double t = sin(x);
    *c = cos(x);
    *s = t;
}
GRIDSTRIDE_REPLACEMENT float fminf(float a, float b) GRIDSTRIDE_AS_DECLARED { return gridstride::minimum(a, b); }
GRIDSTRIDE_REPLACEMENT float fmaxf(float a, float b) GRIDSTRIDE_AS_DECLARED { return gridstride::maximum(a, b); }
GRIDSTRIDE_REPLACEMENT double fmin(double a, double b) GRIDSTRIDE_AS_DECLARED { return gridstride::minimum(a, b); }
GRIDSTRIDE_REPLACEMENT double fmax(double a, double b) GRIDSTRIDE_AS_DECLARED { return gridstride::maximum(a, b); }
#undef GRIDSTRIDE_REPLACEMENT
#undef GRIDSTRIDE_AS_DECLARED
#endif
GRIDSTRIDE_INLINE void sincos(float x, float *s, float *c) noexcept { sincosf(x, s, c); }
GRIDSTRIDE_INLINE void sincospi(double x, double *s, double *c) noexcept { *s = sinpi(x); *c = cospi(x); }
GRIDSTRIDE_INLINE void sincospif(float x, float *s, float *c) noexcept { *s = sinpif(x); *c = cospif(x); }
GRIDSTRIDE_INLINE void sincospi(float x, float *s, float *c) noexcept { sincospif(x, s, c); }

// Norms
inline double norm3d(double a, double b, double c) noexcept { return hypot(hypot(a, b), c); }
inline double norm4d(double a, double b, double c, double d) noexcept { return hypot(hypot(a, b), hypot(c, d)); }
inline double rhypot(double a, double b) noexcept { return 1 / hypot(a, b); }
inline double rnorm3d(double a, double b, double c) noexcept { return 1 / norm3d(a, b, c); }
inline double rnorm4d(double a, double b, double c, double d) noexcept { return 1 / norm4d(a, b, c, d); }
inline float norm3df(float a, float b, float c) noexcept { return float(norm3d(a, b, c)); }
inline float norm4df(float a, float b, float c, float d) noexcept { return float(norm4d(a, b, c, d)); }
inline float rhypotf(float a, float b) noexcept { return float(rhypot(double(a), double(b))); }
inline float rnorm3df(float a, float b, float c) noexcept { return float(rnorm3d(a, b, c)); }
inline float rnorm4df(float a, float b, float c, float d) noexcept { return float(rnorm4d(a, b, c, d)); }
GRIDSTRIDE_INLINE double norm(int n, const double *p) noexcept {
    double r = 0;
    for (int i = 0; i < n; i++) r = hypot(r, p[i]);
    return r;
}
GRIDSTRIDE_INLINE float normf(int n, const float *p) noexcept {
    double r = 0; for (int i = 0; i < n; i++) r = hypot(r, double(p[i])); return float(r);
}
GRIDSTRIDE_INLINE double rnorm(int n, const double *p) noexcept { return 1 / norm(n, p); }
GRIDSTRIDE_INLINE float rnormf(int n, const float *p) noexcept { return 1 / normf(n, p); }

// The fast intrinsics. Special cases, in which a GPU returns a very different value, are the same here.
inline float fdividef(float a, float b) noexcept { return a / b; }
inline float __fdividef(float a, float b) noexcept {   // 1/b becomes 0 before b is infinite
    return fabsf(b) > 0x1p126f && !isinf(b) ? a * copysignf(0.0f, b) : a / b;
}
inline float __expf(float x) noexcept { return expf(x); }
inline float __logf(float x) noexcept { return logf(x); }
inline float __log2f(float x) noexcept { return log2f(x); }
inline float __log10f(float x) noexcept { return log10f(x); }
inline float __sinf(float x) noexcept { return sinf(x); }
inline float __cosf(float x) noexcept { return cosf(x); }
inline float __tanf(float x) noexcept { return tanf(x); }
inline float __tanhf(float x) noexcept { return tanhf(x); }
// NaN for a negative x
inline float __powf(float x, float y) noexcept { return float(exp2(y * log2(double(x)))); }
#ifndef __APPLE__
inline float __exp10f(float x) noexcept { return exp10f(x); }
GRIDSTRIDE_INLINE void __sincosf(float x, float *s, float *c) noexcept { sincosf(x, s, c); }
#endif
inline float __saturatef(float x) noexcept { return x > 0 ? (x < 1 ? x : 1) : 0; }
