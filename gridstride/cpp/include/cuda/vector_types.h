// CUDA's vector types: char1 ... double4, dim3, and their make_ functions.
#pragma once

#define GRIDSTRIDE_INLINE inline __attribute__((always_inline))   // its accesses are attributed to the caller

#define GRIDSTRIDE_VECTOR(T, name) \
    struct name##1 { T x; }; \
    struct alignas(sizeof(T) < 8 ? 2 * sizeof(T) : 16) name##2 { T x, y; }; \
    struct name##3 { T x, y, z; }; \
    struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; }; \
    constexpr name##1 make_##name##1(T x) { return {x}; } \
    constexpr name##2 make_##name##2(T x, T y) { return {x, y}; } \
    constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define GRIDSTRIDE_ALIGNED_VECTOR(T, name, bytes) \
    struct alignas(bytes) name##4_##bytes##a { T x, y, z, w; }; \
    constexpr name##4_##bytes##a make_##name##4_##bytes##a(T x, T y, T z, T w) { return {x, y, z, w}; }
#define GRIDSTRIDE_LONG_VECTOR(T, name) \
    GRIDSTRIDE_VECTOR(T, name) GRIDSTRIDE_ALIGNED_VECTOR(T, name, 16) GRIDSTRIDE_ALIGNED_VECTOR(T, name, 32)

GRIDSTRIDE_VECTOR(signed char, char)
GRIDSTRIDE_VECTOR(unsigned char, uchar)
GRIDSTRIDE_VECTOR(short, short)
GRIDSTRIDE_VECTOR(unsigned short, ushort)
GRIDSTRIDE_VECTOR(int, int)
GRIDSTRIDE_VECTOR(unsigned, uint)
GRIDSTRIDE_VECTOR(float, float)
GRIDSTRIDE_LONG_VECTOR(long, long)
GRIDSTRIDE_LONG_VECTOR(unsigned long, ulong)
GRIDSTRIDE_LONG_VECTOR(long long, longlong)
GRIDSTRIDE_LONG_VECTOR(unsigned long long, ulonglong)
GRIDSTRIDE_LONG_VECTOR(double, double)

#undef GRIDSTRIDE_VECTOR
#undef GRIDSTRIDE_ALIGNED_VECTOR
#undef GRIDSTRIDE_LONG_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
