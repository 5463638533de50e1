// Functions for dynamic programming (DPX), which combine sums, minima and maxima; `relu` clamps negative results to 0.
// 16x2 functions compute both halves of a word separately.
#pragma once
#include "intrinsics.h"

namespace gridstride {
namespace dpx {
template <class T> T add(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return T(U(a) + U(b));
}
template <class T> T larger(T a, T b) { return a < b ? b : a; }
template <class T> T smaller(T a, T b) { return b < a ? b : a; }
template <class T> T relu(T a) { return larger(a, T(0)); }
template <class T, class F, class... A> unsigned halves(F f, A... words) {
    using U = std::make_unsigned_t<T>;
    const unsigned low = U(f(T(U(words))...)), high = U(f(T(U(words >> 16))...));
    return high << 16 | low;
}
}
}
#define GRIDSTRIDE_DPX(name, T, suffix, parameters, ...) \
    GRIDSTRIDE_INLINE T name##suffix parameters { using namespace gridstride::dpx; return __VA_ARGS__; }
#define GRIDSTRIDE_DPX_32(T, s) \
    GRIDSTRIDE_DPX(__viaddmax_, T, s, (T a, T b, T c), larger(add(a, b), c)) \
    GRIDSTRIDE_DPX(__viaddmin_, T, s, (T a, T b, T c), smaller(add(a, b), c)) \
    GRIDSTRIDE_DPX(__vimax3_, T, s, (T a, T b, T c), larger(larger(a, b), c)) \
    GRIDSTRIDE_DPX(__vimin3_, T, s, (T a, T b, T c), smaller(smaller(a, b), c))
GRIDSTRIDE_DPX_32(int, s32)
GRIDSTRIDE_DPX_32(unsigned, u32)
GRIDSTRIDE_DPX(__viaddmax_, int, s32_relu, (int a, int b, int c), relu(larger(add(a, b), c)))
GRIDSTRIDE_DPX(__viaddmin_, int, s32_relu, (int a, int b, int c), relu(smaller(add(a, b), c)))
GRIDSTRIDE_DPX(__vimax3_, int, s32_relu, (int a, int b, int c), relu(larger(larger(a, b), c)))
GRIDSTRIDE_DPX(__vimin3_, int, s32_relu, (int a, int b, int c), relu(smaller(smaller(a, b), c)))
GRIDSTRIDE_DPX(__vimax_, int, s32_relu, (int a, int b), relu(larger(a, b)))
GRIDSTRIDE_DPX(__vimin_, int, s32_relu, (int a, int b), relu(smaller(a, b)))
#define GRIDSTRIDE_DPX_16(T, s, F) \
    GRIDSTRIDE_DPX(__viaddmax_, unsigned, s, (unsigned a, unsigned b, unsigned c), \
        halves<T>([](T x, T y, T z) { return F(larger(add(x, y), z)); }, a, b, c)) \
    GRIDSTRIDE_DPX(__viaddmin_, unsigned, s, (unsigned a, unsigned b, unsigned c), \
        halves<T>([](T x, T y, T z) { return F(smaller(add(x, y), z)); }, a, b, c)) \
    GRIDSTRIDE_DPX(__vimax3_, unsigned, s, (unsigned a, unsigned b, unsigned c), \
        halves<T>([](T x, T y, T z) { return F(larger(larger(x, y), z)); }, a, b, c)) \
    GRIDSTRIDE_DPX(__vimin3_, unsigned, s, (unsigned a, unsigned b, unsigned c), \
        halves<T>([](T x, T y, T z) { return F(smaller(smaller(x, y), z)); }, a, b, c))
GRIDSTRIDE_DPX_16(short, s16x2, )
GRIDSTRIDE_DPX_16(short, s16x2_relu, relu)
GRIDSTRIDE_DPX_16(unsigned short, u16x2, )
#undef GRIDSTRIDE_DPX_16
#undef GRIDSTRIDE_DPX_32
#undef GRIDSTRIDE_DPX
#define GRIDSTRIDE_DPX_PREDICATE(name, T, s, op) \
    GRIDSTRIDE_INLINE T name##s(T a, T b, bool *first) { return (*first = a op b) ? a : b; }
GRIDSTRIDE_DPX_PREDICATE(__vibmax_, int, s32, >=)
GRIDSTRIDE_DPX_PREDICATE(__vibmin_, int, s32, <=)
GRIDSTRIDE_DPX_PREDICATE(__vibmax_, unsigned, u32, >=)
GRIDSTRIDE_DPX_PREDICATE(__vibmin_, unsigned, u32, <=)
#undef GRIDSTRIDE_DPX_PREDICATE
