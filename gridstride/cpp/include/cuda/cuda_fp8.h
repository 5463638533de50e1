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
    static constexpr int mantissa_bits = e4m3 ? 3 : 2, min_exponent = e4m3 ? -6 : -14;
    static constexpr double max_value = e4m3 ? 448 : 57344;
    static constexpr int max_code = e4m3 ? 0x7e : 0x7b, nan = 0x7f, overflow_code = e4m3 ? 0x7f : 0x7c;

    // Rounds to nearest, ties to even. A value that is too large becomes the largest value if `saturate`; otherwise
    // infinity, or NaN for E4M3.
    static __nv_fp8_storage_t encode(double x, __nv_saturation_t saturate) {
        if (x != x) return nan;
        const int sign = __builtin_signbit(x) ? 0x80 : 0;
        const double magnitude = fabs(x);
        if (!(magnitude <= 2 * max_value)) return __nv_fp8_storage_t(sign | (saturate ? max_code : overflow_code));
        const int exponent = magnitude > 0 ? std::max(ilogb(magnitude), min_exponent) : min_exponent;
        const double units = nearbyint(ldexp(magnitude, mantissa_bits - exponent));
        if (ldexp(units, exponent - mantissa_bits) > max_value)
            return __nv_fp8_storage_t(sign | (saturate ? max_code : overflow_code));
        return __nv_fp8_storage_t(sign | (int(units) + ((exponent - min_exponent) << mantissa_bits)));
    }
    static float decode(__nv_fp8_storage_t code) {
        const int bits = code & 0x7f, exponent = bits >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
        if (bits == nan || (!e4m3 && bits > overflow_code)) return bit_cast<float>(0x7fffffffu);
        const float magnitude =
            !e4m3 && bits == overflow_code ? bit_cast<float>(0x7f800000u)
            : exponent ? ldexpf(float(mantissa + (1 << mantissa_bits)), exponent - 1 + min_exponent - mantissa_bits)
                       : ldexpf(float(mantissa), min_exponent - mantissa_bits);
        return code & 0x80 ? -magnitude : magnitude;
    }
};
inline __nv_fp8_storage_t encode(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? Format<__NV_E4M3>::encode(x, saturate) : Format<__NV_E5M2>::encode(x, saturate);
}
inline float decode(__nv_fp8_storage_t code, __nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? Format<__NV_E4M3>::decode(code) : Format<__NV_E5M2>::decode(code);
}
inline __nv_fp8x2_storage_t encode_pair(
    double x, double y, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_fp8x2_storage_t(encode(x, saturate, kind) | encode(y, saturate, kind) << 8);
}

template <__nv_fp8_interpretation_t kind> struct Scalar {
    __nv_fp8_storage_t __x;
    Scalar() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    explicit Scalar(T x) : __x(encode(double(x), __NV_SATFINITE, kind)) {}
    explicit Scalar(__half x) : Scalar(float(x)) {}
    explicit Scalar(__nv_bfloat16 x) : Scalar(float(x)) {}
    explicit operator __half() const { return __half(decode(__x, kind)); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(decode(__x, kind)); }
    explicit operator bool() const { return __x & 0x7f; }
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>>
    explicit operator T() const { return T(decode(__x, kind)); }
};
template <__nv_fp8_interpretation_t kind> struct Pair {
    __nv_fp8x2_storage_t __x;
    Pair() = default;
    explicit Pair(float2 x) : __x(encode_pair(x.x, x.y, __NV_SATFINITE, kind)) {}
    explicit Pair(double2 x) : __x(encode_pair(x.x, x.y, __NV_SATFINITE, kind)) {}
    explicit Pair(__half2 x) : Pair(__half22float2(x)) {}
    explicit Pair(__nv_bfloat162 x) : Pair(__bfloat1622float2(x)) {}
    explicit operator float2() const { return {decode(__x & 0xff, kind), decode(__x >> 8, kind)}; }
    explicit operator __half2() const { return __float22half2_rn(float2(*this)); }
};
template <__nv_fp8_interpretation_t kind> struct Quad {
    __nv_fp8x4_storage_t __x;
    Quad() = default;
    explicit Quad(float4 x)
        : __x(encode_pair(x.x, x.y, __NV_SATFINITE, kind) | unsigned(encode_pair(x.z, x.w, __NV_SATFINITE, kind))
                                                                << 16) {}
    explicit operator float4() const {
        return {decode(__x & 0xff, kind), decode(__x >> 8 & 0xff, kind), decode(__x >> 16 & 0xff, kind),
            decode(__x >> 24, kind)};
    }
};
}
}
typedef gridstride::fp8::Scalar<__NV_E4M3> __nv_fp8_e4m3;
typedef gridstride::fp8::Scalar<__NV_E5M2> __nv_fp8_e5m2;
typedef gridstride::fp8::Pair<__NV_E4M3> __nv_fp8x2_e4m3;
typedef gridstride::fp8::Pair<__NV_E5M2> __nv_fp8x2_e5m2;
typedef gridstride::fp8::Quad<__NV_E4M3> __nv_fp8x4_e4m3;
typedef gridstride::fp8::Quad<__NV_E5M2> __nv_fp8x4_e5m2;

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::encode(x, s, k);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::encode(x, s, k);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::encode(float(__half(x)), s, k);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(
    __nv_bfloat16_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::encode(float(__nv_bfloat16(x)), s, k);
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::encode_pair(x.x, x.y, s, k);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return gridstride::fp8::encode_pair(x.x, x.y, s, k);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t k) {
    return __half(gridstride::fp8::decode(x, k));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t k) {
    return __half2(__half(gridstride::fp8::decode(x & 0xff, k)), __half(gridstride::fp8::decode(x >> 8, k)));
}
