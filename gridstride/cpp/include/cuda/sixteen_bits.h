// Floats of 16 bits: 1 for the sign, then the exponent, then `m` bits of mantissa (half: 10, bfloat16: 7). Conversions
// are correctly rounded and done on the bits, so that they are the same on every machine.
#pragma once
#include <fenv.h>
#include "intrinsics.h"

namespace gridstride {
enum class Toward { nearest, zero, up, down };

// Rounds a float to 16 bits; a NaN becomes 0x7fff, as on a GPU
template <int m> unsigned short narrowed(float x, Toward toward = Toward::nearest) {
    constexpr unsigned drop = 23 - m, bias = 127 - ((1 << (14 - m)) - 1), infinity = (0x7fffu >> m) << m;
    const unsigned bits = as<unsigned>(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff,
                   exponent = magnitude >> 23;
    if (magnitude >= 0x7f800000) return (unsigned short)(magnitude > 0x7f800000 ? 0x7fff : sign | infinity);
    unsigned lost = drop, value = magnitude - (bias << 23);
    if (exponent <= bias && bias) {                       // denormal: one bit less per exponent below
        value = (magnitude & 0x7fffff) | (exponent ? 0x800000 : 0);
        lost = drop + 1 + bias - exponent < 25 ? drop + 1 + bias - exponent : 25;
    }
    const unsigned dropped = value & ((1u << lost) - 1), tie = 1u << (lost - 1), kept = value >> lost;
    const bool away = toward == Toward::nearest ? dropped > tie || (dropped == tie && kept & 1)
                                                : dropped && toward == (sign ? Toward::down : Toward::up);
    if (kept + away < infinity) return (unsigned short)(sign | (kept + away));
    return (unsigned short)(sign |
                            (toward == Toward::nearest || toward == (sign ? Toward::down : Toward::up) ? infinity
                                                                                                       : infinity - 1));
}

template <int m> float widened(unsigned short h) {
    constexpr unsigned drop = 23 - m, bias = 127 - ((1 << (14 - m)) - 1);
    const unsigned sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu, exponent = magnitude >> m;
    if (exponent == 0x7fffu >> m) return as<float>(sign | 0x7f800000u | (magnitude & ((1u << m) - 1)) << drop);
    if constexpr (bias != 0)   // else a denormal is one of float's, too
        if (exponent == 0) return as<float>(sign | as<unsigned>(float(magnitude) / float(1u << (m + 126 - bias))));
    return as<float>(sign | ((magnitude << drop) + (bias << 23)));
}

// Rounds to odd: an inexact result becomes odd, so that a second rounding to fewer bits still sees on which side of a
// tie the exact value is.
inline float odd(double x) {
    const float f = float(x);
    if (double(f) == x || x != x || as<unsigned>(f) & 1) return f;
    return as<float>(as<unsigned>(f) + (fabs(double(f)) < fabs(x) ? 1u : -1u));
}
inline float odd(unsigned long long x) {
    int shift = 0;
    for (; x >> 32; shift++) x = x >> 1 | (x & 1);
    return odd(ldexp(double(x), shift));
}
inline float odd(long long x) { return x < 0 ? -odd(0 - (unsigned long long)x) : odd((unsigned long long)x); }
inline float odd(int x) { return odd(double(x)); }
inline float odd(unsigned x) { return odd(double(x)); }
inline float odd(float x) { return x; }

inline float odd_fma(float a, float b, float c) {
    // s + error is exact
    const double p = double(a) * double(b), s = p + double(c), back = s - p,
                 error = (p - (s - back)) + (double(c) - back);
    const long long bits = as<long long>(s);
    if (!(error < 0 || error > 0) || bits & 1) return odd(s);
    return odd(as<double>(bits + ((error > 0) == (s > 0) ? 1 : -1)));
}
}
