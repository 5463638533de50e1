// 8-bit floats: E4M3 (maximum 448, no infinity), E5M2 (maximum 57344), and E8M0 (powers of two, for block scaling).
#pragma once
#include "small_float_types.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

typedef gridstride::small::Scalar<gridstride::E4M3> __nv_fp8_e4m3;
typedef gridstride::small::Scalar<gridstride::E5M2> __nv_fp8_e5m2;
typedef gridstride::small::Scalar<gridstride::E8M0> __nv_fp8_e8m0;
typedef gridstride::small::Pair<gridstride::E4M3, __nv_fp8x2_storage_t> __nv_fp8x2_e4m3;
typedef gridstride::small::Pair<gridstride::E5M2, __nv_fp8x2_storage_t> __nv_fp8x2_e5m2;
typedef gridstride::small::Pair<gridstride::E8M0, __nv_fp8x2_storage_t> __nv_fp8x2_e8m0;
typedef gridstride::small::Quad<gridstride::E4M3, __nv_fp8x4_storage_t> __nv_fp8x4_e4m3;
typedef gridstride::small::Quad<gridstride::E5M2, __nv_fp8x4_storage_t> __nv_fp8x4_e5m2;
typedef gridstride::small::Quad<gridstride::E8M0, __nv_fp8x4_storage_t> __nv_fp8x4_e8m0;

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return k == __NV_E4M3 ? gridstride::E4M3::encode(x, s) : gridstride::E5M2::encode(x, s);
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_fp8x2_storage_t(__nv_cvt_double_to_fp8(x.x, s, k) | __nv_cvt_double_to_fp8(x.y, s, k) << 8);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_cvt_double_to_fp8(x, s, k);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_cvt_double2_to_fp8x2({x.x, x.y}, s, k);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_cvt_float_to_fp8(float(__half(x)), s, k);
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(
    __half2_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_cvt_float2_to_fp8x2(__half22float2(__half2(x)), s, k);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(
    __nv_bfloat16_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_cvt_float_to_fp8(float(__nv_bfloat16(x)), s, k);
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(
    __nv_bfloat162_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
    return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(__nv_bfloat162(x)), s, k);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t k) {
    return __half(k == __NV_E4M3 ? gridstride::E4M3::decode(x) : gridstride::E5M2::decode(x));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t k) {
    return __half2(__nv_cvt_fp8_to_halfraw(x & 0xff, k), __nv_cvt_fp8_to_halfraw(x >> 8, k));
}

inline __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t s, cudaRoundMode rounding) {
    return gridstride::E8M0::encode(x, s, rounding);
}
inline __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double x, __nv_saturation_t s, cudaRoundMode rounding) {
    return gridstride::E8M0::encode(x, s, rounding);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(
    __nv_bfloat16_raw x, __nv_saturation_t s, cudaRoundMode rounding) {
    return gridstride::E8M0::encode(float(__nv_bfloat16(x)), s, rounding);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_e8m0x2(float2 x, __nv_saturation_t s, cudaRoundMode rounding) {
    return gridstride::encode_pair<gridstride::E8M0>(x.x, x.y, s, rounding);
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_e8m0x2(double2 x, __nv_saturation_t s, cudaRoundMode rounding) {
    return gridstride::encode_pair<gridstride::E8M0>(x.x, x.y, s, rounding);
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat162raw_to_e8m0x2(
    __nv_bfloat162_raw x, __nv_saturation_t s, cudaRoundMode rounding) {
    return __nv_cvt_float2_to_e8m0x2(__bfloat1622float2(__nv_bfloat162(x)), s, rounding);
}
inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
    return __nv_bfloat16(gridstride::E8M0::decode(x));
}
inline __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
    return __nv_bfloat162(__nv_cvt_e8m0_to_bf16raw(x & 0xff), __nv_cvt_e8m0_to_bf16raw(x >> 8));
}
