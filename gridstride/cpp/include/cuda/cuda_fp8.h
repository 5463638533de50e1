// Floats of 8 bits: E4M3 (largest 448, no infinity) and E5M2 (largest 57344).
#pragma once
#include "cuda_bf16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace gridstride {
namespace fp8 {
template <__nv_fp8_interpretation_t kind> struct Format {
    static constexpr bool e4m3 = kind == __NV_E4M3;
    static constexpr int digits = e4m3 ? 3 : 2, least = e4m3 ? -6 : -14;      // after the point; the exponent
    static constexpr double most = e4m3 ? 448 : 57344;
    static constexpr int most_code = e4m3 ? 0x7e : 0x7b, nan = 0x7f, beyond = e4m3 ? 0x7f : 0x7c;

    // Rounds to nearest, ties to even; a number that is too large becomes the largest number, infinity, or E4M3's NaN
    static __nv_fp8_storage_t rounded(double x, __nv_saturation_t saturate) {
        if (x != x) return nan;
        const int sign = __builtin_signbit(x) ? 0x80 : 0;
        const double size = fabs(x);
        if (!(size <= 2 * most)) return __nv_fp8_storage_t(sign | (saturate ? most_code : beyond));
        const int exponent = size > 0 ? std::max(ilogb(size), least) : least;
        const double steps = nearbyint(ldexp(size, digits - exponent));
        if (ldexp(steps, exponent - digits) > most)
            return __nv_fp8_storage_t(sign | (saturate ? most_code : beyond));
        return __nv_fp8_storage_t(sign | (int(steps) + ((exponent - least) << digits)));
    }
    static float value(__nv_fp8_storage_t code) {
        const int bits = code & 0x7f, exponent = bits >> digits, mantissa = bits & ((1 << digits) - 1);
        if (bits == nan || (!e4m3 && bits > beyond)) return as<float>(0x7fffffffu);
        const float size = !e4m3 && bits == beyond ? as<float>(0x7f800000u)
                           : exponent ? ldexpf(float(mantissa + (1 << digits)), exponent - 1 + least - digits)
                                      : ldexpf(float(mantissa), least - digits);
        return code & 0x80 ? -size : size;
    }
};
inline __nv_fp8_storage_t rounded(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? Format<__NV_E4M3>::rounded(x, saturate) : Format<__NV_E5M2>::rounded(x, saturate);
}
inline float value(__nv_fp8_storage_t code, __nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? Format<__NV_E4M3>::value(code) : Format<__NV_E5M2>::value(code);
}
inline __nv_fp8x2_storage_t pair(double x, double y, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_fp8x2_storage_t(rounded(x, saturate, kind) | rounded(y, saturate, kind) << 8);
}

template <__nv_fp8_interpretation_t kind> struct Number {
    __nv_fp8_storage_t __x;
    Number() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    explicit Number(T x) : __x(rounded(double(x), __NV_SATFINITE, kind)) {}
    explicit Number(__half x) : Number(float(x)) {}
    explicit Number(__nv_bfloat16 x) : Number(float(x)) {}
    explicit operator __half() const { return __half(value(__x, kind)); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(value(__x, kind)); }
    explicit operator bool() const { return __x & 0x7f; }
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>>
    explicit operator T() const { return T(value(__x, kind)); }
};
template <__nv_fp8_interpretation_t kind> struct Pair {
    __nv_fp8x2_storage_t __x;
    Pair() = default;
    explicit Pair(float2 x) : __x(pair(x.x, x.y, __NV_SATFINITE, kind)) {}
    explicit Pair(double2 x) : __x(pair(x.x, x.y, __NV_SATFINITE, kind)) {}
    explicit Pair(__half2 x) : Pair(__half22float2(x)) {}
    explicit Pair(__nv_bfloat162 x) : Pair(__bfloat1622float2(x)) {}
    explicit operator float2() const { return {value(__x & 0xff, kind), value(__x >> 8, kind)}; }
    explicit operator __half2() const { return __float22half2_rn(float2(*this)); }
};
template <__nv_fp8_interpretation_t kind> struct Quad {
    __nv_fp8x4_storage_t __x;
    Quad() = default;
    explicit Quad(float4 x)
        : __x(pair(x.x, x.y, __NV_SATFINITE, kind) | unsigned(pair(x.z, x.w, __NV_SATFINITE, kind)) << 16) {}
    explicit operator float4() const {
        return {value(__x & 0xff, kind), value(__x >> 8 & 0xff, kind), value(__x >> 16 & 0xff, kind),
            value(__x >> 24, kind)};
    }
};
}
}
typedef gridstride::fp8::Number<__NV_E4M3> __nv_fp8_e4m3;
typedef gridstride::fp8::Number<__NV_E5M2> __nv_fp8_e5m2;
typedef gridstride::fp8::Pair<__NV_E4M3> __nv_fp8x2_e4m3;
typedef gridstride::fp8::Pair<__NV_E5M2> __nv_fp8x2_e5m2;
typedef gridstride::fp8::Quad<__NV_E4M3> __nv_fp8x4_e4m3;
typedef gridstride::fp8::Quad<__NV_E5M2> __nv_fp8x4_e5m2;

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::rounded(x, s, k);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::rounded(x, s, k);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::rounded(float(__half(x)), s, k);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(
    __nv_bfloat16_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::rounded(float(__nv_bfloat16(x)), s, k);
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::pair(x.x, x.y, s, k);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::pair(x.x, x.y, s, k);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t k) {
    return __half(gridstride::fp8::value(x, k));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t k) {
    return __half2(__half(gridstride::fp8::value(x & 0xff, k)), __half(gridstride::fp8::value(x >> 8, k)));
}
