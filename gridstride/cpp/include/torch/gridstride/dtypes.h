// torch::ScalarType: element types, with PyTorch's names and codes, and the ScalarType of each C++ type
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <type_traits>
#include "half.h"

struct __half;
struct __half2;
struct __nv_bfloat16;
struct __nv_bfloat162;

namespace torch {

// PyTorch's names and codes
#define GRIDSTRIDE_DTYPES(X) \
    X(Byte, 0, 1, uint8_t) X(Char, 1, 1, int8_t) X(Short, 2, 2, int16_t) X(Int, 3, 4, int32_t) X(Long, 4, 8, int64_t) \
    X(Half, 5, 2, ::gridstride::bindings::Half) X(Float, 6, 4, float) X(Double, 7, 8, double) X(Bool, 11, 1, bool) \
    X(BFloat16, 15, 2, ::gridstride::bindings::BFloat16) X(UInt16, 27, 2, uint16_t) X(UInt32, 28, 4, uint32_t) \
    X(UInt64, 29, 8, uint64_t)
#define GRIDSTRIDE_DTYPES_WITHOUT_A_CLASS(X) \
    X(ComplexFloat, 9, 8, 0) X(ComplexDouble, 10, 16, 0) X(Float8_e5m2, 23, 1, 0) X(Float8_e4m3fn, 24, 1, 0)

enum class ScalarType : int8_t {
#define X(name, code, size, T) name = code,
    GRIDSTRIDE_DTYPES(X) GRIDSTRIDE_DTYPES_WITHOUT_A_CLASS(X)
#undef X
    Undefined = 44
};
#define X(name, code, size, T) constexpr ScalarType k##name = ScalarType::name;
GRIDSTRIDE_DTYPES(X)
GRIDSTRIDE_DTYPES_WITHOUT_A_CLASS(X)
#undef X
    constexpr ScalarType kUInt8 = kByte,
                         kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong, kFloat16 = kHalf,
                         kFloat32 = kFloat, kFloat64 = kDouble;

constexpr size_t elementSize(ScalarType t) {
#define X(name, code, size, T) if (t == ScalarType::name) return size;
    GRIDSTRIDE_DTYPES(X) GRIDSTRIDE_DTYPES_WITHOUT_A_CLASS(X)
#undef X
    return 0;
}
constexpr bool isFloatingType(ScalarType t) {
    return t == kHalf || t == kFloat || t == kDouble || t == kBFloat16 || t == kFloat8_e5m2 || t == kFloat8_e4m3fn;
}
constexpr bool isIntegralType(ScalarType t, bool with_bool = false) {
    return t == kByte || t == kChar || t == kShort || t == kInt || t == kLong || t == kUInt16 || t == kUInt32 ||
           t == kUInt64 || (with_bool && t == kBool);
}

template <class T, class = void> constexpr ScalarType dtype_of = ScalarType::Undefined;
#define X(name, code, size, T) template <> inline constexpr ScalarType dtype_of<T> = ScalarType::name;
GRIDSTRIDE_DTYPES(X)
#undef X
// int64_t is `long` or `long long`; the other one of these types has 64 bits, or 32 in a browser
#ifdef __wasm__
template <> inline constexpr ScalarType dtype_of<long> = kInt;
template <> inline constexpr ScalarType dtype_of<unsigned long> = kUInt32;
#else
template <> inline constexpr ScalarType dtype_of<long long> = kLong;
template <> inline constexpr ScalarType dtype_of<unsigned long long> = kUInt64;
#endif
template <> inline constexpr ScalarType dtype_of<char> = kChar;
template <> inline constexpr ScalarType dtype_of<__half> = kHalf;
template <> inline constexpr ScalarType dtype_of<__half2> = kHalf;
template <> inline constexpr ScalarType dtype_of<__nv_bfloat16> = kBFloat16;
template <> inline constexpr ScalarType dtype_of<__nv_bfloat162> = kBFloat16;
template <class T> constexpr ScalarType dtype_of<const T> = dtype_of<T>;
// A vector type such as float4 has the ScalarType of its x.
template <class T>
constexpr ScalarType dtype_of<T, std::void_t<decltype(T::x), decltype(T::y)>> = dtype_of<std::decay_t<decltype(T::x)>>;
}
