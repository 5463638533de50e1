// CUDA's complex numbers for C: pairs of a real and an imaginary part
#pragma once
#include "emulator.h"

#define GRIDSTRIDE_COMPLEX(C, R, f) \
    typedef R##2 C; \
    inline C make_##C(R x, R y) { return make_##R##2(x, y); } \
    inline R cuCreal##f(C a) { return a.x; } \
    inline R cuCimag##f(C a) { return a.y; } \
    inline R cuCabs##f(C a) { return hypot(a.x, a.y); } \
    inline C cuConj##f(C a) { return {a.x, -a.y}; } \
    inline C cuCadd##f(C a, C b) { return {a.x + b.x, a.y + b.y}; } \
    inline C cuCsub##f(C a, C b) { return {a.x - b.x, a.y - b.y}; } \
    inline C cuCmul##f(C a, C b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; } \
    inline C cuCdiv##f(C a, C b) { \
        const R s = 1 / (fabs(b.x) + fabs(b.y)), x = b.x * s, y = b.y * s, n = 1 / (x * x + y * y); \
        return {(a.x * s * x + a.y * s * y) * n, (a.y * s * x - a.x * s * y) * n}; \
    } \
    inline C cuCfma##f(C a, C b, C c) { return cuCadd##f(cuCmul##f(a, b), c); }
GRIDSTRIDE_COMPLEX(cuFloatComplex, float, f)
GRIDSTRIDE_COMPLEX(cuDoubleComplex, double, )
#undef GRIDSTRIDE_COMPLEX
typedef cuFloatComplex cuComplex;
inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) { return {a.x, a.y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) { return {float(a.x), float(a.y)}; }
