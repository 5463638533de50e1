// 16-bit floats: a sign bit, the exponent and `m` bits of mantissa (half: 10, bfloat16: 7). Conversions are correctly
// rounded and operate on the bits, so that they are the same on every machine.
#pragma once
#include <fenv.h>
#include "intrinsics.h"

namespace gridstride {
enum class Rounding { nearest, zero, up, down };

// Rounds a float to 16 bits; a NaN becomes 0x7fff, as on a GPU
template <int m> unsigned short narrow(float x, Rounding rounding = Rounding::nearest) {
    constexpr unsigned shift = 23 - m, bias = 127 - ((1 << (14 - m)) - 1), infinity = (0x7fffu >> m) << m;
    const unsigned bits = bit_cast<unsigned>(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff,
                   exponent = magnitude >> 23;
    if (magnitude >= 0x7f800000) return (unsigned short)(magnitude > 0x7f800000 ? 0x7fff : sign | infinity);
    unsigned num_dropped = shift, value = magnitude - (bias << 23);
    if (exponent <= bias && bias) { // denormal: one bit less per step of the exponent below the smallest normal one
        value = (magnitude & 0x7fffff) | (exponent ? 0x800000 : 0);
        num_dropped = shift + 1 + bias - exponent < 25 ? shift + 1 + bias - exponent : 25;
    }
    const unsigned dropped_bits = value & ((1u << num_dropped) - 1), tie = 1u << (num_dropped - 1),
                   kept_bits = value >> num_dropped;
    const bool rounds_up = rounding == Rounding::nearest ? dropped_bits > tie || (dropped_bits == tie && kept_bits & 1)
                                                : dropped_bits && rounding == (sign ? Rounding::down : Rounding::up);
    if (kept_bits + rounds_up < infinity) return (unsigned short)(sign | (kept_bits + rounds_up));
    return (unsigned short)(sign | (rounding == Rounding::nearest || rounding == (sign ? Rounding::down : Rounding::up)
                                           ? infinity
                                           : infinity - 1));
}

template <int m> float widen(unsigned short h) {
    constexpr unsigned shift = 23 - m, bias = 127 - ((1 << (14 - m)) - 1);
    const unsigned sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu, exponent = magnitude >> m;
    if (exponent == 0x7fffu >> m) return bit_cast<float>(sign | 0x7f800000u | (magnitude & ((1u << m) - 1)) << shift);
    if constexpr (bias != 0)   // otherwise each denormal is a denormal float
        if (exponent == 0)
            return bit_cast<float>(sign | bit_cast<unsigned>(float(magnitude) / float(1u << (m + 126 - bias))));
    return bit_cast<float>(sign | ((magnitude << shift) + (bias << 23)));
}

// Rounds to odd: the last bit of an inexact result is set. A second rounding to fewer bits then never mistakes it for a
// tie, so both together are correctly rounded.
inline float round_to_odd(double x) {
    const float f = float(x);
    if (double(f) == x || x != x || bit_cast<unsigned>(f) & 1) return f;
    return bit_cast<float>(bit_cast<unsigned>(f) + (fabs(double(f)) < fabs(x) ? 1u : -1u));
}
inline float round_to_odd(unsigned long long x) {
    int shift = 0;
    for (; x >> 32; shift++) x = x >> 1 | (x & 1);
    return round_to_odd(ldexp(double(x), shift));
}
inline float round_to_odd(long long x) {
    return x < 0 ? -round_to_odd(0 - (unsigned long long)x) : round_to_odd((unsigned long long)x);
}
inline float round_to_odd(int x) { return round_to_odd(double(x)); }
inline float round_to_odd(unsigned x) { return round_to_odd(double(x)); }
inline float round_to_odd(float x) { return x; }

inline float fma_rounded_to_odd(float a, float b, float c) {
    // the exact result is s + error
    const double p = double(a) * double(b), s = p + double(c), back = s - p,
                 error = (p - (s - back)) + (double(c) - back);
    const long long bits = bit_cast<long long>(s);
    if (!(error < 0 || error > 0) || bits & 1) return round_to_odd(s);
    return round_to_odd(bit_cast<double>(bits + ((error > 0) == (s > 0) ? 1 : -1)));
}
}
