// The functions of one type of 16 bits; included once for each of them, with these macros set.
//   GRIDSTRIDE_T, GRIDSTRIDE_T2   the type and its pair
//   GRIDSTRIDE_WORD, GRIDSTRIDE_WORD2   what names of conversions call them (half, half2)
//   GRIDSTRIDE_M   bits of mantissa
#define GRIDSTRIDE_PASTE_(a, b, c) a##b##c
#define GRIDSTRIDE_PASTE(a, b, c) GRIDSTRIDE_PASTE_(a, b, c)
#define GRIDSTRIDE_RAW GRIDSTRIDE_PASTE(, GRIDSTRIDE_T, _raw)
#define GRIDSTRIDE_RAW2 GRIDSTRIDE_PASTE(, GRIDSTRIDE_T2, _raw)
#define GRIDSTRIDE_NAMED(before, after) GRIDSTRIDE_PASTE(before, GRIDSTRIDE_WORD, after)
#define GRIDSTRIDE_NAMED2(before, after) GRIDSTRIDE_PASTE(before, GRIDSTRIDE_WORD2, after)
#define GRIDSTRIDE_ROUNDED(x, toward) GRIDSTRIDE_T(GRIDSTRIDE_RAW{gridstride::narrowed<GRIDSTRIDE_M>(gridstride::odd(x), gridstride::Toward::toward)})

struct alignas(2) GRIDSTRIDE_RAW { unsigned short x; };
struct alignas(4) GRIDSTRIDE_RAW2 { unsigned short x, y; };

struct alignas(2) GRIDSTRIDE_T {
    GRIDSTRIDE_T() = default;
    constexpr GRIDSTRIDE_T(const GRIDSTRIDE_RAW &raw) : __x(raw.x) {}
    explicit GRIDSTRIDE_T(GRIDSTRIDE_OTHER);
    GRIDSTRIDE_T(float v) : __x(gridstride::narrowed<GRIDSTRIDE_M>(v)) {}
#define GRIDSTRIDE_FROM(I, wide) GRIDSTRIDE_T(I v) : __x(gridstride::narrowed<GRIDSTRIDE_M>(gridstride::odd(wide(v)))) {}
#define GRIDSTRIDE_TO(I) operator I() const { return gridstride::saturated<I>(truncf(float(*this))); }
    GRIDSTRIDE_FROM(double, double)
    GRIDSTRIDE_FROM(short, int)
    GRIDSTRIDE_FROM(unsigned short, int)
    GRIDSTRIDE_FROM(int, int)
    GRIDSTRIDE_FROM(unsigned, unsigned)
    GRIDSTRIDE_FROM(long, (long long))
    GRIDSTRIDE_FROM(unsigned long, (unsigned long long))
    GRIDSTRIDE_FROM(long long, (long long))
    GRIDSTRIDE_FROM(unsigned long long, (unsigned long long))
    GRIDSTRIDE_T &operator=(const GRIDSTRIDE_RAW &raw) { __x = raw.x; return *this; }
    GRIDSTRIDE_T &operator=(float v) { return *this = GRIDSTRIDE_T(v); }
    GRIDSTRIDE_T &operator=(double v) { return *this = GRIDSTRIDE_T(v); }
    GRIDSTRIDE_T &operator=(short v) { return *this = GRIDSTRIDE_T(v); }
    GRIDSTRIDE_T &operator=(unsigned short v) { return *this = GRIDSTRIDE_T(v); }
    GRIDSTRIDE_T &operator=(int v) { return *this = GRIDSTRIDE_T(v); }
    GRIDSTRIDE_T &operator=(unsigned v) { return *this = GRIDSTRIDE_T(v); }
    GRIDSTRIDE_T &operator=(long long v) { return *this = GRIDSTRIDE_T(v); }
    GRIDSTRIDE_T &operator=(unsigned long long v) { return *this = GRIDSTRIDE_T(v); }
    operator GRIDSTRIDE_RAW() const { return {__x}; }
    operator float() const { return gridstride::widened<GRIDSTRIDE_M>(__x); }
    operator bool() const { return (__x & 0x7fff) != 0; }
    GRIDSTRIDE_TO(signed char)
    GRIDSTRIDE_TO(unsigned char)
    GRIDSTRIDE_TO(char)
    GRIDSTRIDE_TO(short)
    GRIDSTRIDE_TO(unsigned short)
    GRIDSTRIDE_TO(int)
    GRIDSTRIDE_TO(unsigned)
    GRIDSTRIDE_TO(long)
    GRIDSTRIDE_TO(unsigned long)
    GRIDSTRIDE_TO(long long)
    GRIDSTRIDE_TO(unsigned long long)
#undef GRIDSTRIDE_FROM
#undef GRIDSTRIDE_TO
protected:
    unsigned short __x;
};

struct alignas(4) GRIDSTRIDE_T2 {
    GRIDSTRIDE_T x, y;
    GRIDSTRIDE_T2() = default;
    constexpr GRIDSTRIDE_T2(const GRIDSTRIDE_T &a, const GRIDSTRIDE_T &b) : x(a), y(b) {}
    constexpr GRIDSTRIDE_T2(const GRIDSTRIDE_RAW2 &raw) : x(GRIDSTRIDE_RAW{raw.x}), y(GRIDSTRIDE_RAW{raw.y}) {}
    GRIDSTRIDE_T2 &operator=(const GRIDSTRIDE_RAW2 &raw) { return *this = GRIDSTRIDE_T2(raw); }
    operator GRIDSTRIDE_RAW2() const { return {GRIDSTRIDE_RAW(x).x, GRIDSTRIDE_RAW(y).x}; }
};

// Conversions to float and from it
inline float GRIDSTRIDE_NAMED(__, 2float)(GRIDSTRIDE_T a) { return float(a); }
inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(__double2, )(double a) { return GRIDSTRIDE_T(a); }
inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(__float2, )(float a) { return GRIDSTRIDE_T(a); }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(make_, )(GRIDSTRIDE_T a, GRIDSTRIDE_T b) { return {a, b}; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED(__, GRIDSTRIDE_SELF)(GRIDSTRIDE_T a) { return {a, a}; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(__float2, _rn)(float a) { return {GRIDSTRIDE_T(a), GRIDSTRIDE_T(a)}; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(__floats2, _rn)(float a, float b) { return {GRIDSTRIDE_T(a), GRIDSTRIDE_T(b)}; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(__float22, _rn)(float2 a) { return {GRIDSTRIDE_T(a.x), GRIDSTRIDE_T(a.y)}; }
inline float2 GRIDSTRIDE_NAMED2(__, 2float2)(GRIDSTRIDE_T2 a) { return {float(a.x), float(a.y)}; }
inline float __low2float(GRIDSTRIDE_T2 a) { return float(a.x); }
inline float __high2float(GRIDSTRIDE_T2 a) { return float(a.y); }

// Pairs and their parts
inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(__low2, )(GRIDSTRIDE_T2 a) { return a.x; }
inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(__high2, )(GRIDSTRIDE_T2 a) { return a.y; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(__low2, )(GRIDSTRIDE_T2 a) { return {a.x, a.x}; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(__high2, )(GRIDSTRIDE_T2 a) { return {a.y, a.y}; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(__lows2, )(GRIDSTRIDE_T2 a, GRIDSTRIDE_T2 b) { return {a.x, b.x}; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(__highs2, )(GRIDSTRIDE_T2 a, GRIDSTRIDE_T2 b) { return {a.y, b.y}; }
inline GRIDSTRIDE_T2 GRIDSTRIDE_NAMED2(__halves2, )(GRIDSTRIDE_T a, GRIDSTRIDE_T b) { return {a, b}; }
inline GRIDSTRIDE_T2 __lowhigh2highlow(GRIDSTRIDE_T2 a) { return {a.y, a.x}; }

// The same bits as another type
inline unsigned short GRIDSTRIDE_NAMED(__, _as_ushort)(GRIDSTRIDE_T a) { return GRIDSTRIDE_RAW(a).x; }
inline short GRIDSTRIDE_NAMED(__, _as_short)(GRIDSTRIDE_T a) { return short(GRIDSTRIDE_RAW(a).x); }
inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(__ushort_as_, )(unsigned short a) { return GRIDSTRIDE_RAW{a}; }
inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(__short_as_, )(short a) { return GRIDSTRIDE_RAW{(unsigned short)a}; }

// Conversions with a given rounding
#define GRIDSTRIDE_FROM(name, I) \
    inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(name, _rn)(I a) { return GRIDSTRIDE_ROUNDED(a, nearest); } \
    inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(name, _rz)(I a) { return GRIDSTRIDE_ROUNDED(a, zero); } \
    inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(name, _ru)(I a) { return GRIDSTRIDE_ROUNDED(a, up); } \
    inline GRIDSTRIDE_T GRIDSTRIDE_NAMED(name, _rd)(I a) { return GRIDSTRIDE_ROUNDED(a, down); }
#define GRIDSTRIDE_TO(I, name) \
    inline I GRIDSTRIDE_NAMED(__, name##_rn)(GRIDSTRIDE_T a) { return gridstride::saturated<I>(rintf(float(a))); } \
    inline I GRIDSTRIDE_NAMED(__, name##_rz)(GRIDSTRIDE_T a) { return gridstride::saturated<I>(truncf(float(a))); } \
    inline I GRIDSTRIDE_NAMED(__, name##_ru)(GRIDSTRIDE_T a) { return gridstride::saturated<I>(ceilf(float(a))); } \
    inline I GRIDSTRIDE_NAMED(__, name##_rd)(GRIDSTRIDE_T a) { return gridstride::saturated<I>(floorf(float(a))); }
GRIDSTRIDE_FROM(__float2, float)
GRIDSTRIDE_FROM(__short2, short)
GRIDSTRIDE_FROM(__ushort2, unsigned short)
GRIDSTRIDE_FROM(__int2, int)
GRIDSTRIDE_FROM(__uint2, unsigned)
GRIDSTRIDE_FROM(__ll2, long long)
GRIDSTRIDE_FROM(__ull2, unsigned long long)
GRIDSTRIDE_TO(short, 2short)
GRIDSTRIDE_TO(unsigned short, 2ushort)
GRIDSTRIDE_TO(int, 2int)
GRIDSTRIDE_TO(unsigned, 2uint)
GRIDSTRIDE_TO(long long, 2ll)
GRIDSTRIDE_TO(unsigned long long, 2ull)
inline signed char GRIDSTRIDE_NAMED(__, 2char_rz)(GRIDSTRIDE_T a) { return (signed char)a; }
inline unsigned char GRIDSTRIDE_NAMED(__, 2uchar_rz)(GRIDSTRIDE_T a) { return (unsigned char)a; }
#undef GRIDSTRIDE_FROM
#undef GRIDSTRIDE_TO

// Arithmetic: each operation is rounded. A float has so many more bits that rounding through it is exact but for fma.
#define GRIDSTRIDE_BINARY(name, name2, expression) \
    inline GRIDSTRIDE_T name(GRIDSTRIDE_T x, GRIDSTRIDE_T y) { const float a = float(x), b = float(y); return GRIDSTRIDE_T(expression); } \
    inline GRIDSTRIDE_T2 name2(GRIDSTRIDE_T2 x, GRIDSTRIDE_T2 y) { return {name(x.x, y.x), name(x.y, y.y)}; }
#define GRIDSTRIDE_CLAMPED(name, name2, op) \
    inline GRIDSTRIDE_T name(GRIDSTRIDE_T a, GRIDSTRIDE_T b) { return GRIDSTRIDE_T(__saturatef(float(op(a, b)))); } \
    inline GRIDSTRIDE_T2 name2(GRIDSTRIDE_T2 a, GRIDSTRIDE_T2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
GRIDSTRIDE_BINARY(__hadd, __hadd2, a + b)
GRIDSTRIDE_BINARY(__hsub, __hsub2, a - b)
GRIDSTRIDE_BINARY(__hmul, __hmul2, a * b)
GRIDSTRIDE_BINARY(__hadd_rn, __hadd2_rn, a + b)
GRIDSTRIDE_BINARY(__hsub_rn, __hsub2_rn, a - b)
GRIDSTRIDE_BINARY(__hmul_rn, __hmul2_rn, a * b)
GRIDSTRIDE_BINARY(__hdiv, __h2div, a / b)
GRIDSTRIDE_CLAMPED(__hadd_sat, __hadd2_sat, __hadd)
GRIDSTRIDE_CLAMPED(__hsub_sat, __hsub2_sat, __hsub)
GRIDSTRIDE_CLAMPED(__hmul_sat, __hmul2_sat, __hmul)
#undef GRIDSTRIDE_CLAMPED
inline GRIDSTRIDE_T __hneg(GRIDSTRIDE_T a) { return GRIDSTRIDE_T(-float(a)); }
inline GRIDSTRIDE_T __habs(GRIDSTRIDE_T a) { return GRIDSTRIDE_T(fabsf(float(a))); }
inline GRIDSTRIDE_T2 __hneg2(GRIDSTRIDE_T2 a) { return {__hneg(a.x), __hneg(a.y)}; }
inline GRIDSTRIDE_T2 __habs2(GRIDSTRIDE_T2 a) { return {__habs(a.x), __habs(a.y)}; }
inline GRIDSTRIDE_T __hfma(GRIDSTRIDE_T a, GRIDSTRIDE_T b, GRIDSTRIDE_T c) {
    return GRIDSTRIDE_T(gridstride::odd_fma(float(a), float(b), float(c)));
}
inline GRIDSTRIDE_T __hfma_sat(GRIDSTRIDE_T a, GRIDSTRIDE_T b, GRIDSTRIDE_T c) { return GRIDSTRIDE_T(__saturatef(float(__hfma(a, b, c)))); }
inline GRIDSTRIDE_T __hfma_relu(GRIDSTRIDE_T a, GRIDSTRIDE_T b, GRIDSTRIDE_T c) {
    const GRIDSTRIDE_T r = __hfma(a, b, c); return float(r) <= 0 ? GRIDSTRIDE_T(0.0f) : r;
}
#define GRIDSTRIDE_TERNARY(name2, name) \
    inline GRIDSTRIDE_T2 name2(GRIDSTRIDE_T2 a, GRIDSTRIDE_T2 b, GRIDSTRIDE_T2 c) { return {name(a.x, b.x, c.x), name(a.y, b.y, c.y)}; }
GRIDSTRIDE_TERNARY(__hfma2, __hfma)
GRIDSTRIDE_TERNARY(__hfma2_sat, __hfma_sat)
GRIDSTRIDE_TERNARY(__hfma2_relu, __hfma_relu)
#undef GRIDSTRIDE_TERNARY
inline GRIDSTRIDE_T2 __hcmadd(GRIDSTRIDE_T2 a, GRIDSTRIDE_T2 b, GRIDSTRIDE_T2 c) {   // complex numbers: a * b + c
    return {__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
}

// Comparisons: those in u hold for what is not a number
inline bool __hisnan(GRIDSTRIDE_T a) { return isnan(float(a)); }
inline int __hisinf(GRIDSTRIDE_T a) { return isinf(float(a)) ? float(a) > 0 ? 1 : -1 : 0; }
inline GRIDSTRIDE_T2 __hisnan2(GRIDSTRIDE_T2 a) { return {GRIDSTRIDE_T(float(__hisnan(a.x))), GRIDSTRIDE_T(float(__hisnan(a.y)))}; }
#define GRIDSTRIDE_COMPARISON(op, expression) \
    inline bool __h##op(GRIDSTRIDE_T x, GRIDSTRIDE_T y) { const float a = float(x), b = float(y); return expression; } \
    inline GRIDSTRIDE_T2 __h##op##2(GRIDSTRIDE_T2 a, GRIDSTRIDE_T2 b) { \
        return {GRIDSTRIDE_T(float(__h##op(a.x, b.x))), GRIDSTRIDE_T(float(__h##op(a.y, b.y)))}; \
    } \
    inline unsigned __h##op##2_mask(GRIDSTRIDE_T2 a, GRIDSTRIDE_T2 b) { \
        return (__h##op(a.x, b.x) ? 0xffffu : 0u) | (__h##op(a.y, b.y) ? 0xffff0000u : 0u); \
    } \
    inline bool __hb##op##2(GRIDSTRIDE_T2 a, GRIDSTRIDE_T2 b) { return __h##op(a.x, b.x) && __h##op(a.y, b.y); }
GRIDSTRIDE_COMPARISON(eq, a == b)
GRIDSTRIDE_COMPARISON(ne, a < b || a > b)
GRIDSTRIDE_COMPARISON(le, a <= b)
GRIDSTRIDE_COMPARISON(ge, a >= b)
GRIDSTRIDE_COMPARISON(lt, a < b)
GRIDSTRIDE_COMPARISON(gt, a > b)
GRIDSTRIDE_COMPARISON(equ, !(a < b || a > b))
GRIDSTRIDE_COMPARISON(neu, a != b)
GRIDSTRIDE_COMPARISON(leu, !(a > b))
GRIDSTRIDE_COMPARISON(geu, !(a < b))
GRIDSTRIDE_COMPARISON(ltu, !(a >= b))
GRIDSTRIDE_COMPARISON(gtu, !(a <= b))
#undef GRIDSTRIDE_COMPARISON
GRIDSTRIDE_BINARY(__hmax, __hmax2, gridstride::maximum(a, b))
GRIDSTRIDE_BINARY(__hmin, __hmin2, gridstride::minimum(a, b))
GRIDSTRIDE_BINARY(__hmax_nan, __hmax2_nan, a != a || b != b ? NAN : gridstride::maximum(a, b))
GRIDSTRIDE_BINARY(__hmin_nan, __hmin2_nan, a != a || b != b ? NAN : gridstride::minimum(a, b))
#undef GRIDSTRIDE_BINARY

// Functions
#define GRIDSTRIDE_UNARY(name, expression) \
    inline GRIDSTRIDE_T h##name(GRIDSTRIDE_T x) { const double a = double(float(x)); return GRIDSTRIDE_T(expression); } \
    inline GRIDSTRIDE_T2 h2##name(GRIDSTRIDE_T2 x) { return {h##name(x.x), h##name(x.y)}; }
GRIDSTRIDE_UNARY(sqrt, sqrt(a))
GRIDSTRIDE_UNARY(rsqrt, 1 / sqrt(a))
GRIDSTRIDE_UNARY(rcp, 1 / a)
GRIDSTRIDE_UNARY(log, log(a))
GRIDSTRIDE_UNARY(log2, log2(a))
GRIDSTRIDE_UNARY(log10, log10(a))
GRIDSTRIDE_UNARY(exp, exp(a))
GRIDSTRIDE_UNARY(exp2, exp2(a))
GRIDSTRIDE_UNARY(exp10, exp10(a))
GRIDSTRIDE_UNARY(cos, cos(a))
GRIDSTRIDE_UNARY(sin, sin(a))
GRIDSTRIDE_UNARY(tanh, tanh(a))
GRIDSTRIDE_UNARY(tanh_approx, tanh(a))
GRIDSTRIDE_UNARY(ceil, ceil(a))
GRIDSTRIDE_UNARY(floor, floor(a))
GRIDSTRIDE_UNARY(rint, rint(a))
GRIDSTRIDE_UNARY(trunc, trunc(a))
#undef GRIDSTRIDE_UNARY

// Operators
#define GRIDSTRIDE_OPERATORS(T, add, subtract, multiply, divide, negate, one) \
    inline T operator+(const T &a, const T &b) { return add(a, b); } \
    inline T operator-(const T &a, const T &b) { return subtract(a, b); } \
    inline T operator*(const T &a, const T &b) { return multiply(a, b); } \
    inline T operator/(const T &a, const T &b) { return divide(a, b); } \
    GRIDSTRIDE_INLINE T &operator+=(T &a, const T &b) { return a = add(a, b); } \
    GRIDSTRIDE_INLINE T &operator-=(T &a, const T &b) { return a = subtract(a, b); } \
    GRIDSTRIDE_INLINE T &operator*=(T &a, const T &b) { return a = multiply(a, b); } \
    GRIDSTRIDE_INLINE T &operator/=(T &a, const T &b) { return a = divide(a, b); } \
    GRIDSTRIDE_INLINE T &operator++(T &a) { return a = add(a, one); } \
    GRIDSTRIDE_INLINE T &operator--(T &a) { return a = subtract(a, one); } \
    GRIDSTRIDE_INLINE T operator++(T &a, int) { const T old = a; a = add(old, one); return old; } \
    GRIDSTRIDE_INLINE T operator--(T &a, int) { const T old = a; a = subtract(old, one); return old; } \
    inline T operator+(const T &a) { return a; } \
    inline T operator-(const T &a) { return negate(a); }
GRIDSTRIDE_OPERATORS(GRIDSTRIDE_T, __hadd, __hsub, __hmul, __hdiv, __hneg, GRIDSTRIDE_T(1.0f))
GRIDSTRIDE_OPERATORS(GRIDSTRIDE_T2, __hadd2, __hsub2, __hmul2, __h2div, __hneg2, (GRIDSTRIDE_T2{GRIDSTRIDE_T(1.0f), GRIDSTRIDE_T(1.0f)}))
#undef GRIDSTRIDE_OPERATORS
#define GRIDSTRIDE_RELATION(op, name, name2) \
    inline bool operator op(const GRIDSTRIDE_T &a, const GRIDSTRIDE_T &b) { return name(a, b); } \
    inline bool operator op(const GRIDSTRIDE_T2 &a, const GRIDSTRIDE_T2 &b) { return name2(a, b); }
GRIDSTRIDE_RELATION(==, __heq, __hbeq2)
GRIDSTRIDE_RELATION(!=, __hneu, __hbneu2)
GRIDSTRIDE_RELATION(>, __hgt, __hbgt2)
GRIDSTRIDE_RELATION(<, __hlt, __hblt2)
GRIDSTRIDE_RELATION(>=, __hge, __hbge2)
GRIDSTRIDE_RELATION(<=, __hle, __hble2)
#undef GRIDSTRIDE_RELATION

// What the other headers do for every type
GRIDSTRIDE_SHUFFLES(GRIDSTRIDE_T)
GRIDSTRIDE_SHUFFLES(GRIDSTRIDE_T2)
namespace gridstride {
GRIDSTRIDE_CACHED(GRIDSTRIDE_T)
GRIDSTRIDE_CACHED(GRIDSTRIDE_T2)
}
GRIDSTRIDE_INLINE GRIDSTRIDE_T atomicAdd(GRIDSTRIDE_T *p, GRIDSTRIDE_T value, int line = __builtin_LINE()) {
    return gridstride::atomically<gridstride::Add, GRIDSTRIDE_T>(p, value, gridstride::Scope::device, line);
}
GRIDSTRIDE_INLINE GRIDSTRIDE_T2 atomicAdd(GRIDSTRIDE_T2 *p, GRIDSTRIDE_T2 value, int line = __builtin_LINE()) {
    return gridstride::atomically<gridstride::Add, GRIDSTRIDE_T2>(p, value, gridstride::Scope::device, line);
}

#undef GRIDSTRIDE_PASTE_
#undef GRIDSTRIDE_PASTE
#undef GRIDSTRIDE_RAW
#undef GRIDSTRIDE_RAW2
#undef GRIDSTRIDE_NAMED
#undef GRIDSTRIDE_NAMED2
#undef GRIDSTRIDE_ROUNDED
#undef GRIDSTRIDE_T
#undef GRIDSTRIDE_T2
#undef GRIDSTRIDE_OTHER
#undef GRIDSTRIDE_WORD
#undef GRIDSTRIDE_WORD2
#undef GRIDSTRIDE_SELF
#undef GRIDSTRIDE_M
