// __nv_bfloat16: 8 bits of exponent, 7 of mantissa; the upper half of a float.
#pragma once
#include "cuda_fp16.h"

#define GRIDSTRIDE_T __nv_bfloat16
#define GRIDSTRIDE_T2 __nv_bfloat162
#define GRIDSTRIDE_OTHER __half
#define GRIDSTRIDE_WORD bfloat16
#define GRIDSTRIDE_WORD2 bfloat162
#define GRIDSTRIDE_SELF 2bfloat162
#define GRIDSTRIDE_M 7
#include "sixteen_bits_functions.inc"

inline __half::__half(__nv_bfloat16 v) : __half(float(v)) {}
inline __nv_bfloat16::__nv_bfloat16(__half v) : __nv_bfloat16(float(v)) {}

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7f)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)
