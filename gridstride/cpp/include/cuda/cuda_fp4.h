// Floats of 4 bits, without infinities and NaNs: E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6); two share a byte.
#pragma once
#include "cuda_fp6.h"

typedef __nv_fp8_storage_t __nv_fp4_storage_t;
typedef __nv_fp8_storage_t __nv_fp4x2_storage_t;
typedef __nv_fp8x2_storage_t __nv_fp4x4_storage_t;
enum __nv_fp4_interpretation_t { __NV_E2M1 };

typedef gridstride::small::Scalar<gridstride::E2M1> __nv_fp4_e2m1;
typedef gridstride::small::Pair<gridstride::E2M1, __nv_fp4x2_storage_t> __nv_fp4x2_e2m1;
typedef gridstride::small::Quad<gridstride::E2M1, __nv_fp4x4_storage_t> __nv_fp4x4_e2m1;

#define GRIDSTRIDE_WORD fp4
#define GRIDSTRIDE_ENUM __NV_E2M1
#define GRIDSTRIDE_KIND E2M1
#define GRIDSTRIDE_KIND2 E2M1
#include "small_float_conversions.inc"
