// 6-bit floats without infinities and NaNs: E2M3 (maximum 7.5) and E3M2 (maximum 28); each is stored in one byte.
#pragma once
#include "cuda_fp8.h"

typedef __nv_fp8_storage_t __nv_fp6_storage_t;
typedef __nv_fp8x2_storage_t __nv_fp6x2_storage_t;
typedef __nv_fp8x4_storage_t __nv_fp6x4_storage_t;
enum __nv_fp6_interpretation_t { __NV_E2M3, __NV_E3M2 };

typedef gridstride::small::Scalar<gridstride::E2M3> __nv_fp6_e2m3;
typedef gridstride::small::Scalar<gridstride::E3M2> __nv_fp6_e3m2;
typedef gridstride::small::Pair<gridstride::E2M3, __nv_fp6x2_storage_t> __nv_fp6x2_e2m3;
typedef gridstride::small::Pair<gridstride::E3M2, __nv_fp6x2_storage_t> __nv_fp6x2_e3m2;
typedef gridstride::small::Quad<gridstride::E2M3, __nv_fp6x4_storage_t> __nv_fp6x4_e2m3;
typedef gridstride::small::Quad<gridstride::E3M2, __nv_fp6x4_storage_t> __nv_fp6x4_e3m2;

#define GRIDSTRIDE_WORD fp6
#define GRIDSTRIDE_ENUM __NV_E2M3
#define GRIDSTRIDE_KIND E2M3
#define GRIDSTRIDE_KIND2 E3M2
#include "small_float_conversions.inc"
