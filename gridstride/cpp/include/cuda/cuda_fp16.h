// __half: 5 bits of exponent, 10 of mantissa.
#pragma once
#include "emulator.h"
#include "sixteen_bits.h"

struct __nv_bfloat16;

#define GRIDSTRIDE_T __half
#define GRIDSTRIDE_T2 __half2
#define GRIDSTRIDE_OTHER __nv_bfloat16
#define GRIDSTRIDE_WORD half
#define GRIDSTRIDE_WORD2 half2
#define GRIDSTRIDE_SELF 2half2
#define GRIDSTRIDE_M 10
#include "sixteen_bits_functions.inc"

typedef __half half, nv_half, __nv_half;
typedef __half2 half2, nv_half2, __nv_half2;
typedef __half_raw __nv_half_raw;
typedef __half2_raw __nv_half2_raw;

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bff)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00)
