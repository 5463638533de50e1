// CUDA's intrinsics for bits, integers and conversions, loads and stores with cache hints, clocks and traps.
#pragma once
#include <fenv.h>
#include <math.h>
#include <time.h>
#include "math_device.h"
#include "runtime.h"
#include "vector_types.h"

namespace gridstride {
template <class...> constexpr bool always_false = false;           // false, but only when the template is instantiated
template <class T> struct non_deduced { using type = T; };  // makes a parameter a non-deduced context

// Returns the bits of `from` as a `To`.
template <class To, class From> inline auto bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "the two types must have the same size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

template <class I> constexpr I largest = I(-1) < I(0) ? I((1ull << (8 * sizeof(I) - 1)) - 1) : I(-1);
template <class I> constexpr I smallest = I(-1) - largest<I>;

// Converts an integral float to an integer, as a GPU does: a value out of range becomes the nearest integer.
template <class I, class T> auto saturate_to(T x) {
    constexpr T end = T(largest<I> / 2 + 1) * 2;
    if (x != x) return sizeof(I) <= 4 && sizeof(T) == 4 ? I(0) : I(1ull << (8 * sizeof(I) - 1));
    return x >= end ? largest<I> : x < T(smallest<I>) ? smallest<I> : I(x);
}

template <class T> constexpr auto magnitude(T x) { return x < 0 ? -x : x; }

// Applies `op` to the corresponding packed integers, of type `I`, of two words.
template <class I, class F> auto map_packed(unsigned a, unsigned b, F op) {
    unsigned r = 0;
    for (unsigned s = 0; s < 32; s += 8 * sizeof(I))
        r |= (unsigned(op(int(I(a >> s)), int(I(b >> s)))) & 0xffffffffu >> (32 - 8 * sizeof(I))) << s;
    return r;
}
template <class I> constexpr auto clamp_to(int x) {
    return x > largest<I> ? largest<I> : x < smallest<I> ? smallest<I> : x;
}

template <class A, class B> auto dot(A a, B b, int start, int n) {   // a0*b[start] + a1*b[start+1] + ...
    unsigned r = 0;
    for (int i = 0; i < n; i++) r += unsigned(a[i] * b[start + i]);
    return int(r);
}
template <class T, int n> struct PackedItems { T item[n]; auto operator[](int i) const { return item[i]; } };
}

// Bits
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) r |= unsigned(bytes >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
    return r;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
    return unsigned((((unsigned long long)hi << 32 | lo) << (n & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
    return unsigned(((unsigned long long)hi << 32 | lo) >> (n & 31));
}
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n) {
    return n >= 32 ? lo : __funnelshift_l(lo, hi, n);
}
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) {
    return n >= 32 ? hi : __funnelshift_r(lo, hi, n);
}
// Returns the index of the offset-th set bit, from bit `base` upwards or, for a negative offset, downwards.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
    if (offset == 0) return base < 32 && mask >> base & 1 ? base : ~0u;
    int remaining = offset < 0 ? -offset : offset;
    for (int i = int(base); i >= 0 && i < 32; i += offset < 0 ? -1 : 1)
        if (mask >> i & 1 && --remaining == 0) return unsigned(i);
    return ~0u;
}

// Integers
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)(__extension__ (__int128)a * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(__extension__ (unsigned __int128)a * b >> 64);
}
inline int __mul24(int a, int b) {
    return int(unsigned((long long)(int(unsigned(a) << 8) >> 8) * (int(unsigned(b) << 8) >> 8)));
}
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
inline unsigned __sad(int a, int b, unsigned c) { return c + unsigned(gridstride::magnitude((long long)a - b)); }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
inline int __hadd(int a, int b) { return int(((long long)a + b) >> 1); }
inline int __rhadd(int a, int b) { return int(((long long)a + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b + 1) >> 1); }

// Dot products of bytes, and of shorts with bytes
inline int __dp4a(int a, int b, int c) {
    using Bytes = gridstride::PackedItems<signed char, 4>;
    return int(
        unsigned(c) + unsigned(gridstride::dot(gridstride::bit_cast<Bytes>(a), gridstride::bit_cast<Bytes>(b), 0, 4)));
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    using Bytes = gridstride::PackedItems<unsigned char, 4>;
    return c + unsigned(gridstride::dot(gridstride::bit_cast<Bytes>(a), gridstride::bit_cast<Bytes>(b), 0, 4));
}
inline int __dp4a(char4 a, char4 b, int c) {
    return __dp4a(gridstride::bit_cast<int>(a), gridstride::bit_cast<int>(b), c);
}
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
    return __dp4a(gridstride::bit_cast<unsigned>(a), gridstride::bit_cast<unsigned>(b), c);
}
#define GRIDSTRIDE_DP2A(name, start) \
    inline int name(int a, int b, int c) { \
        using namespace gridstride; \
        const auto bytes = bit_cast<PackedItems<signed char, 4>>(b); \
        return int(unsigned(c) + unsigned(dot(bit_cast<PackedItems<short, 2>>(a), bytes, start, 2))); \
    } \
    inline unsigned name(unsigned a, unsigned b, unsigned c) { \
        using namespace gridstride; \
        const auto bytes = bit_cast<PackedItems<unsigned char, 4>>(b); \
        return c + unsigned(dot(bit_cast<PackedItems<unsigned short, 2>>(a), bytes, start, 2)); \
    } \
    inline int name(short2 a, char4 b, int c) { \
        return name(gridstride::bit_cast<int>(a), gridstride::bit_cast<int>(b), c); \
    } \
    inline unsigned name(ushort2 a, uchar4 b, unsigned c) { \
        return name(gridstride::bit_cast<unsigned>(a), gridstride::bit_cast<unsigned>(b), c); \
    }
GRIDSTRIDE_DP2A(__dp2a_lo, 0)
GRIDSTRIDE_DP2A(__dp2a_hi, 2)
#undef GRIDSTRIDE_DP2A

// SIMD operations on two shorts or four bytes in a word
#define GRIDSTRIDE_PAIRWISE(name, n, I, expression) \
    inline unsigned name##n(unsigned x, unsigned y) { \
        using gridstride::magnitude; \
        return gridstride::map_packed<I>(x, y, [](int a, int b) { return expression; }); \
    }
#define GRIDSTRIDE_UNARY(name, n, I, expression) \
    inline unsigned name##n(unsigned x) { \
        return gridstride::map_packed<I>(x, 0, [](int a, int) { return expression; }); \
    }
#define GRIDSTRIDE_COMPARISON(name, n, I, op) \
    GRIDSTRIDE_PAIRWISE(__vcmp##name, n, I, a op b ? -1 : 0) \
    GRIDSTRIDE_PAIRWISE(__vset##name, n, I, a op b ? 1 : 0)
#define GRIDSTRIDE_SUM_OF_ITEMS(name, n, difference) \
    inline unsigned name##n(unsigned x, unsigned y) { \
        unsigned r = 0; \
        for (unsigned d = difference##n(x, y); d; d = n == 2 ? d >> 16 : d >> 8) r += d & (n == 2 ? 0xffffu : 0xffu); \
        return r; \
    }
#define GRIDSTRIDE_SIMD(n, S, U) \
    GRIDSTRIDE_PAIRWISE(__vadd, n, U, a + b) \
    GRIDSTRIDE_PAIRWISE(__vaddss, n, S, gridstride::clamp_to<S>(a + b)) \
    GRIDSTRIDE_PAIRWISE(__vaddus, n, U, gridstride::clamp_to<U>(a + b)) \
    GRIDSTRIDE_PAIRWISE(__vsub, n, U, a - b) \
    GRIDSTRIDE_PAIRWISE(__vsubss, n, S, gridstride::clamp_to<S>(a - b)) \
    GRIDSTRIDE_PAIRWISE(__vsubus, n, U, gridstride::clamp_to<U>(a - b)) \
    GRIDSTRIDE_PAIRWISE(__vabsdiffs, n, S, magnitude(a - b)) \
    GRIDSTRIDE_PAIRWISE(__vabsdiffu, n, U, magnitude(a - b)) \
    GRIDSTRIDE_PAIRWISE(__vhaddu, n, U, (a + b) >> 1) \
    GRIDSTRIDE_PAIRWISE(__vavgu, n, U, (a + b + 1) >> 1) \
    GRIDSTRIDE_PAIRWISE(__vavgs, n, S, (a + b + (a + b >= 0)) >> 1) \
    GRIDSTRIDE_PAIRWISE(__vmaxs, n, S, a > b ? a : b) \
    GRIDSTRIDE_PAIRWISE(__vmaxu, n, U, a > b ? a : b) \
    GRIDSTRIDE_PAIRWISE(__vmins, n, S, a < b ? a : b) \
    GRIDSTRIDE_PAIRWISE(__vminu, n, U, a < b ? a : b) \
    GRIDSTRIDE_UNARY(__vabs, n, S, gridstride::magnitude(a)) \
    GRIDSTRIDE_UNARY(__vabsss, n, S, gridstride::clamp_to<S>(gridstride::magnitude(a))) \
    GRIDSTRIDE_UNARY(__vneg, n, S, -a) \
    GRIDSTRIDE_UNARY(__vnegss, n, S, gridstride::clamp_to<S>(-a)) \
    GRIDSTRIDE_COMPARISON(eq, n, U, ==) \
    GRIDSTRIDE_COMPARISON(ne, n, U, !=) \
    GRIDSTRIDE_COMPARISON(gts, n, S, >) \
    GRIDSTRIDE_COMPARISON(gtu, n, U, >) \
    GRIDSTRIDE_COMPARISON(ges, n, S, >=) \
    GRIDSTRIDE_COMPARISON(geu, n, U, >=) \
    GRIDSTRIDE_COMPARISON(lts, n, S, <) \
    GRIDSTRIDE_COMPARISON(ltu, n, U, <) \
    GRIDSTRIDE_COMPARISON(les, n, S, <=) \
    GRIDSTRIDE_COMPARISON(leu, n, U, <=) \
    GRIDSTRIDE_SUM_OF_ITEMS(__vsads, n, __vabsdiffs) \
    GRIDSTRIDE_SUM_OF_ITEMS(__vsadu, n, __vabsdiffu)
GRIDSTRIDE_SIMD(2, short, unsigned short)
GRIDSTRIDE_SIMD(4, signed char, unsigned char)
#undef GRIDSTRIDE_PAIRWISE
#undef GRIDSTRIDE_UNARY
#undef GRIDSTRIDE_COMPARISON
#undef GRIDSTRIDE_SUM_OF_ITEMS
#undef GRIDSTRIDE_SIMD

// Reinterpretation of the bits as another type
inline int __float_as_int(float x) { return gridstride::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return gridstride::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return gridstride::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return gridstride::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return gridstride::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return gridstride::bit_cast<double>(x); }
inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
inline double __hiloint2double(int hi, int lo) {
    return __longlong_as_double((long long)((unsigned long long)unsigned(hi) << 32 | unsigned(lo)));
}

// Conversions to integers: to the nearest (ties to even), towards zero, up, down
#define GRIDSTRIDE_TO_INTEGER(T, name, I) \
    inline I name##_rn(T x) { return gridstride::saturate_to<I>(rint(x)); } \
    inline I name##_rz(T x) { return gridstride::saturate_to<I>(trunc(x)); } \
    inline I name##_ru(T x) { return gridstride::saturate_to<I>(ceil(x)); } \
    inline I name##_rd(T x) { return gridstride::saturate_to<I>(floor(x)); }
GRIDSTRIDE_TO_INTEGER(float, __float2int, int)
GRIDSTRIDE_TO_INTEGER(float, __float2uint, unsigned)
GRIDSTRIDE_TO_INTEGER(float, __float2ll, long long)
GRIDSTRIDE_TO_INTEGER(float, __float2ull, unsigned long long)
GRIDSTRIDE_TO_INTEGER(double, __double2int, int)
GRIDSTRIDE_TO_INTEGER(double, __double2uint, unsigned)
GRIDSTRIDE_TO_INTEGER(double, __double2ll, long long)
GRIDSTRIDE_TO_INTEGER(double, __double2ull, unsigned long long)
#undef GRIDSTRIDE_TO_INTEGER

// Conversions to floats. Zero is converted without a rounding mode, because some processors round it down to -0.
#define GRIDSTRIDE_TO_FLOAT(T, name, I) \
    inline T name##_rn(I x) { return T(x); } \
    inline T name##_rz(I x) { \
        return x == 0 ? T(x) : gridstride::with_rounding(FE_TOWARDZERO, gridstride::convert_to<T, I>, x); \
    } \
    inline T name##_ru(I x) { \
        return x == 0 ? T(x) : gridstride::with_rounding(FE_UPWARD, gridstride::convert_to<T, I>, x); \
    } \
    inline T name##_rd(I x) { \
        return x == 0 ? T(x) : gridstride::with_rounding(FE_DOWNWARD, gridstride::convert_to<T, I>, x); \
    }
GRIDSTRIDE_TO_FLOAT(float, __int2float, int)
GRIDSTRIDE_TO_FLOAT(float, __uint2float, unsigned)
GRIDSTRIDE_TO_FLOAT(float, __ll2float, long long)
GRIDSTRIDE_TO_FLOAT(float, __ull2float, unsigned long long)
GRIDSTRIDE_TO_FLOAT(double, __ll2double, long long)
GRIDSTRIDE_TO_FLOAT(double, __ull2double, unsigned long long)
GRIDSTRIDE_TO_FLOAT(float, __double2float, double)
#undef GRIDSTRIDE_TO_FLOAT
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }

// Loads and stores with cache hints: plain accesses, which the detectors attribute to the caller.
namespace gridstride {
template <class T> constexpr bool has_cached_access = false;
#define GRIDSTRIDE_CACHED(T) template <> inline constexpr bool has_cached_access<T> = true;
#define GRIDSTRIDE_CACHED_VECTORS(T) GRIDSTRIDE_CACHED(T##2) GRIDSTRIDE_CACHED(T##4)
GRIDSTRIDE_CACHED(char) GRIDSTRIDE_CACHED(signed char) GRIDSTRIDE_CACHED(unsigned char) GRIDSTRIDE_CACHED(short)
GRIDSTRIDE_CACHED(unsigned short) GRIDSTRIDE_CACHED(int) GRIDSTRIDE_CACHED(unsigned) GRIDSTRIDE_CACHED(long)
GRIDSTRIDE_CACHED(unsigned long) GRIDSTRIDE_CACHED(long long) GRIDSTRIDE_CACHED(unsigned long long)
GRIDSTRIDE_CACHED(float) GRIDSTRIDE_CACHED(double) GRIDSTRIDE_CACHED_VECTORS(char) GRIDSTRIDE_CACHED_VECTORS(uchar)
GRIDSTRIDE_CACHED_VECTORS(short) GRIDSTRIDE_CACHED_VECTORS(ushort) GRIDSTRIDE_CACHED_VECTORS(int)
GRIDSTRIDE_CACHED_VECTORS(uint) GRIDSTRIDE_CACHED_VECTORS(float) GRIDSTRIDE_CACHED(longlong2)
GRIDSTRIDE_CACHED(ulonglong2) GRIDSTRIDE_CACHED(double2)
#undef GRIDSTRIDE_CACHED_VECTORS
}
#define GRIDSTRIDE_LOAD(name) \
    template <class T> GRIDSTRIDE_INLINE T name(const T *p) { \
        static_assert(gridstride::has_cached_access<T>, \
            #name " reads scalars and vectors of at most 16 bytes, such as float4"); \
        return *p; \
    }
#define GRIDSTRIDE_STORE(name) \
    template <class T> GRIDSTRIDE_INLINE void name(T *p, typename gridstride::non_deduced<T>::type value) { \
        static_assert(gridstride::has_cached_access<T>, \
            #name " writes scalars and vectors of at most 16 bytes, such as float4"); \
        *p = value; \
    }
GRIDSTRIDE_LOAD(__ldg)
GRIDSTRIDE_LOAD(__ldca)
GRIDSTRIDE_LOAD(__ldcg)
GRIDSTRIDE_LOAD(__ldcs)
GRIDSTRIDE_LOAD(__ldlu)
GRIDSTRIDE_LOAD(__ldcv)
GRIDSTRIDE_STORE(__stwb)
GRIDSTRIDE_STORE(__stcg)
GRIDSTRIDE_STORE(__stcs)
GRIDSTRIDE_STORE(__stwt)
#undef GRIDSTRIDE_LOAD
#undef GRIDSTRIDE_STORE

// Clocks, which count nanoseconds, not cycles
inline long long clock64() {
    gridstride::record_clock_read();
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
inline clock_t gridstride_clock() { return gridstride::on_device() ? clock_t(clock64()) : clock(); }
namespace std { using ::gridstride_clock; }
#define clock(...) gridstride_clock(__VA_ARGS__)
inline void __nanosleep(unsigned) { gridstride::yield_thread(); }
[[noreturn]] inline void __trap() { gridstride::trap(gridstride::Code::trap_called); }
[[noreturn]] inline void __brkpt() { gridstride::trap(gridstride::Code::breakpoint); }
inline void __prof_trigger(int) {}
#ifndef __clang__
#define __builtin_assume(...) ((__VA_ARGS__) ? (void)0 : __builtin_unreachable())
#endif
