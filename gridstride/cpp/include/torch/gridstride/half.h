// torch::Half and torch::BFloat16: 16 bits in memory, arithmetic in float, rounded to nearest even after each
// operation.
#pragma once
#include <stdint.h>
#include <string.h>
#include <type_traits>

#ifdef __CUDACC__
#define GRIDSTRIDE_HOST_DEVICE __host__ __device__ inline
#else
#define GRIDSTRIDE_HOST_DEVICE inline
#endif

namespace gridstride {
namespace bindings {
GRIDSTRIDE_HOST_DEVICE float as_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
GRIDSTRIDE_HOST_DEVICE uint32_t as_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }

GRIDSTRIDE_HOST_DEVICE float half_to_float(uint16_t h) {
#if defined(__CUDA_ARCH__) && !defined(GRIDSTRIDE_EMULATOR)
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
#else
    const uint32_t sign = uint32_t(h & 0x8000) << 16, magnitude = uint32_t(h & 0x7fff) << 13;
    if (magnitude >= 0x7c00u << 13) return as_float(sign | 0x7f800000u | magnitude);      // infinity, NaN
    // * 2^112: from half's exponent to float's; subnormals too
    const float x = as_float(magnitude) * as_float(0x77800000u);
    return as_float(sign | as_bits(x));
#endif
}
GRIDSTRIDE_HOST_DEVICE uint16_t float_to_half(float x) {
#if defined(__CUDA_ARCH__) && !defined(GRIDSTRIDE_EMULATOR)
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#else
    const uint32_t sign = as_bits(x) >> 16 & 0x8000, magnitude = as_bits(x) & 0x7fffffff;
    if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);                     // rounds to 65536 or more
    // subnormal: the addition rounds
    if (magnitude < 0x38800000) return uint16_t(sign | (as_bits(as_float(magnitude) + 0.5f) - 0x3f000000));
    return uint16_t(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
#endif
}
GRIDSTRIDE_HOST_DEVICE float bfloat_to_float(uint16_t b) { return as_float(uint32_t(b) << 16); }
GRIDSTRIDE_HOST_DEVICE uint16_t float_to_bfloat(float x) {
    const uint32_t bits = as_bits(x);
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct HalfBits {
    static GRIDSTRIDE_HOST_DEVICE float widen(uint16_t h) { return half_to_float(h); }
    static GRIDSTRIDE_HOST_DEVICE uint16_t round(float x) { return float_to_half(x); }
};
struct BFloat16Bits {
    static GRIDSTRIDE_HOST_DEVICE float widen(uint16_t b) { return bfloat_to_float(b); }
    static GRIDSTRIDE_HOST_DEVICE uint16_t round(float x) { return float_to_bfloat(x); }
};

template <class Bits> struct alignas(2) SixteenBits {
    uint16_t x;
    SixteenBits() = default;
    GRIDSTRIDE_HOST_DEVICE SixteenBits(float f) : x(Bits::round(f)) {}
    GRIDSTRIDE_HOST_DEVICE operator float() const { return Bits::widen(x); }
    struct from_bits_t {};
    static constexpr from_bits_t from_bits() { return {}; }
    GRIDSTRIDE_HOST_DEVICE constexpr SixteenBits(uint16_t bits, from_bits_t) : x(bits) {}
    GRIDSTRIDE_HOST_DEVICE SixteenBits &operator+=(float b) { return *this = SixteenBits(float(*this) + b); }
    GRIDSTRIDE_HOST_DEVICE SixteenBits &operator-=(float b) { return *this = SixteenBits(float(*this) - b); }
    GRIDSTRIDE_HOST_DEVICE SixteenBits &operator*=(float b) { return *this = SixteenBits(float(*this) * b); }
    GRIDSTRIDE_HOST_DEVICE SixteenBits &operator/=(float b) { return *this = SixteenBits(float(*this) / b); }
    GRIDSTRIDE_HOST_DEVICE SixteenBits operator-() const { return SixteenBits(uint16_t(x ^ 0x8000), from_bits_t()); }
};
using Half = SixteenBits<HalfBits>;
using BFloat16 = SixteenBits<BFloat16Bits>;

template <class T> constexpr bool is_sixteen_bits = false;
template <class Bits> constexpr bool is_sixteen_bits<SixteenBits<Bits>> = true;

// The type of a result: 16 bits for two 16-bit floats, or one and an integer; float or double if an operand has that
// type
template <class S, class B>
using SixteenBitResult = std::enable_if_t<is_sixteen_bits<S> && (std::is_same_v<S, B> || std::is_integral_v<B>), S>;
#define GRIDSTRIDE_SIXTEEN_BIT_OPERATOR(op) \
    template <class S, class B> GRIDSTRIDE_HOST_DEVICE SixteenBitResult<S, B> operator op(S a, B b) { \
        return S(float(a) op float(b)); \
    } \
    template <class S, class B> \
    GRIDSTRIDE_HOST_DEVICE std::enable_if_t<!is_sixteen_bits<B>, SixteenBitResult<S, B>> operator op(B a, S b) { \
        return S(float(a) op float(b)); \
    }
GRIDSTRIDE_SIXTEEN_BIT_OPERATOR(+)
GRIDSTRIDE_SIXTEEN_BIT_OPERATOR(-) GRIDSTRIDE_SIXTEEN_BIT_OPERATOR(*) GRIDSTRIDE_SIXTEEN_BIT_OPERATOR(/)
#undef GRIDSTRIDE_SIXTEEN_BIT_OPERATOR
}
}
namespace torch { using ::gridstride::bindings::Half; using ::gridstride::bindings::BFloat16; }
