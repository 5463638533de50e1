// Classes for scalars, pairs and quads of 4-, 6- and 8-bit floats.
#pragma once
#include "cuda_bf16.h"
#include "small_floats.h"

namespace gridstride {
namespace small {
template <class Format> struct Scalar {
    unsigned char __x;
    Scalar() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> explicit Scalar(T x) {
        if constexpr (std::is_floating_point_v<T>) __x = Format::encode(x);
        else if constexpr (std::is_signed_v<T>) __x = Format::encode(round_to_odd((long long)x));
        else __x = Format::encode(round_to_odd((unsigned long long)x));
    }
    explicit Scalar(__half x) : Scalar(float(x)) {}
    explicit Scalar(__nv_bfloat16 x) : Scalar(float(x)) {}
    explicit operator __half() const { return __half(Format::decode(__x)); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(Format::decode(__x)); }
    explicit operator bool() const { return Format::is_nonzero(__x); }
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>>
    explicit operator T() const {
        if constexpr (std::is_floating_point_v<T>) return T(Format::decode(__x));
        else return saturate_to<T>(truncf(Format::decode(__x)));
    }
};

template <class Format, class Storage> struct Pair {
    Storage __x;
    Pair() = default;
    explicit Pair(float2 x) : __x(Storage(encode_pair<Format>(x.x, x.y))) {}
    explicit Pair(double2 x) : __x(Storage(encode_pair<Format>(x.x, x.y))) {}
    explicit Pair(__half2 x) : Pair(__half22float2(x)) {}
    explicit Pair(__nv_bfloat162 x) : Pair(__bfloat1622float2(x)) {}
    explicit operator float2() const { return {decode_slot<Format>(__x, 0), decode_slot<Format>(__x, 1)}; }
    explicit operator __half2() const { return __float22half2_rn(float2(*this)); }
    template <class F = Format, class = std::enable_if_t<std::is_same_v<F, E8M0>>>
    explicit operator __nv_bfloat162() const {
        return __float22bfloat162_rn(float2(*this));
    }
};

template <class Format, class Storage> struct Quad {
    Storage __x;
    Quad() = default;
    explicit Quad(float4 x) : Quad(x.x, x.y, x.z, x.w) {}
    explicit Quad(double4 x) : Quad(x.x, x.y, x.z, x.w) {}
    Quad(__half2 low, __half2 high) : Quad(__half22float2(low), __half22float2(high)) {}
    Quad(__nv_bfloat162 low, __nv_bfloat162 high) : Quad(__bfloat1622float2(low), __bfloat1622float2(high)) {}
    explicit operator float4() const {
        return {decode_slot<Format>(__x, 0), decode_slot<Format>(__x, 1), decode_slot<Format>(__x, 2),
            decode_slot<Format>(__x, 3)};
    }
private:
    Quad(float2 low, float2 high) : Quad(low.x, low.y, high.x, high.y) {}
    template <class T> Quad(T x, T y, T z, T w)
        : __x(Storage(encode_pair<Format>(x, y) | encode_pair<Format>(z, w) << 2 * Format::slot_bits)) {}
};
}
}
