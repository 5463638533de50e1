// Floats of 4, 6 and 8 bits. `SmallFloat` has a sign bit, then the exponent, then the mantissa; `E8M0`, the scale of a
// block, is a power of two without a sign. Both convert to and from codes with `encode` and `decode`.
#pragma once
#include "sixteen_bits.h"

enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

namespace gridstride {
enum class Specials { none, nan, infinity_and_nan };    // the values of a format that are not finite

template <int exponent_bits, int mantissa_bits, Specials specials> struct SmallFloat {
    static constexpr int bits = 1 + exponent_bits + mantissa_bits, sign_bit = 1 << (bits - 1);
    static constexpr int slot_bits = bits == 4 ? 4 : 8;                 // bits per element of a pair
    static constexpr int min_exponent = 2 - (1 << (exponent_bits - 1)), last_code = sign_bit - 1;
    // A value that is too large becomes infinity; without infinities, NaN; without NaNs, the maximum.
    static constexpr int overflow_code =
        specials == Specials::infinity_and_nan ? last_code >> mantissa_bits << mantissa_bits : last_code;
    static constexpr int max_code = specials == Specials::none ? last_code : overflow_code - 1;

    static float decode(unsigned code) {
        const int magnitude_code = code & last_code, exponent = magnitude_code >> mantissa_bits,
                  mantissa = magnitude_code & ((1 << mantissa_bits) - 1);
        if (magnitude_code > max_code && (specials == Specials::nan || mantissa)) return bit_cast<float>(0x7fffffffu);
        const float magnitude = magnitude_code > max_code ? bit_cast<float>(0x7f800000u)
            : exponent ? ldexpf(float(mantissa + (1 << mantissa_bits)), exponent - 1 + min_exponent - mantissa_bits)
                       : ldexpf(float(mantissa), min_exponent - mantissa_bits);
        return code & sign_bit ? -magnitude : magnitude;
    }
    // Rounds to nearest even, or towards zero. With `saturate`, a value that is too large becomes the maximum. A NaN
    // loses its sign.
    static unsigned encode(double x, bool saturate = true, cudaRoundMode rounding = cudaRoundNearest) {
        if (x != x) return last_code;
        const unsigned sign = __builtin_signbit(x) ? sign_bit : 0,
                       too_large = sign | (saturate ? max_code : overflow_code);
        const double magnitude = fabs(x), max_value = decode(max_code);
        if (!(magnitude <= 2 * max_value)) return too_large;
        const int exponent = magnitude > 0 ? std::max(ilogb(magnitude), min_exponent) : min_exponent;
        const double scaled = ldexp(magnitude, mantissa_bits - exponent),
                     units = rounding == cudaRoundZero ? trunc(scaled) : nearbyint(scaled);
        if (ldexp(units, exponent - mantissa_bits) > max_value) return too_large;
        return sign | (unsigned(units) + ((exponent - min_exponent) << mantissa_bits));
    }
    static bool is_nonzero(unsigned code) { return code & last_code; }
};

using E2M1 = SmallFloat<2, 1, Specials::none>;
using E2M3 = SmallFloat<2, 3, Specials::none>;
using E3M2 = SmallFloat<3, 2, Specials::none>;
using E4M3 = SmallFloat<4, 3, Specials::nan>;
using E5M2 = SmallFloat<5, 2, Specials::infinity_and_nan>;

// Code c represents 2^(c - 127); 255 is NaN.
struct E8M0 {
    static constexpr int slot_bits = 8, nan = 255;

    static float decode(unsigned code) {
        return bit_cast<float>(code == nan ? 0x7fff0000u : code ? code << 23 : 0x400000u);
    }
    // Returns the code of the magnitude, rounded up or, with cudaRoundZero, down, but not below 2^-127.
    static unsigned encode(float x, bool saturate = true, cudaRoundMode rounding = cudaRoundPosInf) {
        const unsigned magnitude = bit_cast<unsigned>(x) & 0x7fffffff, exponent = magnitude >> 23;
        if (magnitude > 0x7f800000) return nan;
        const bool rounds_up = rounding == cudaRoundPosInf && magnitude & 0x7fffff && magnitude > 0x400000;
        return std::min(exponent + rounds_up, unsigned(saturate ? nan - 1 : nan));
    }
    static unsigned encode(double x, bool saturate = true, cudaRoundMode rounding = cudaRoundPosInf) {
        return encode(round_to_odd(x), saturate, rounding);
    }
    static bool is_nonzero(unsigned) { return true; }
};

// The first of two elements has the lowest bits.
template <class Format, class T, class... Options> unsigned encode_pair(T x, T y, Options... options) {
    return Format::encode(x, options...) | Format::encode(y, options...) << Format::slot_bits;
}
template <class Format> float decode_slot(unsigned codes, int i) {
    return Format::decode(codes >> i * Format::slot_bits & ((1 << Format::slot_bits) - 1));
}
}
