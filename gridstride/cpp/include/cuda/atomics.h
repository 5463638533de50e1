// CUDA's atomic functions: relaxed, with device scope, or with the scope of the suffix `_block` or `_system`.
#pragma once
#include <type_traits>
#include "runtime.h"
#include "vector_types.h"

namespace gridstride {
// An atomic store: an exchange whose result is unused
struct Store { template <class T> static auto apply(T, T v) { return v; } };

template <class Op, class T> GRIDSTRIDE_NO_TSAN auto atomic_update(T *p, T value, Scope scope, int line) {
    atomic_begin(p, sizeof(T), std::is_same_v<Op, Store> ? Use::store : Use::modify, scope, Order::relaxed, line);
    const T old = load_unchecked(p);
    store_unchecked<T>(p, Op::apply(old, value));
    atomic_end(p);
    return old;
}
template <class T> GRIDSTRIDE_NO_TSAN auto compare_and_swap(T *p, T expected, T value, Scope scope, int line) {
    atomic_begin(p, sizeof(T), Use::swap, scope, Order::relaxed, line);
    const T old = load_unchecked(p);
    if (old == expected) store_unchecked(p, value);
    atomic_end(p);
    return old;
}

// The type in which sums wrap around: for an integer type, its unsigned version
template <class T, bool = std::is_integral_v<T>> struct WrappingType { using type = T; };
template <class T> struct WrappingType<T, true> { using type = std::make_unsigned_t<T>; };

struct Add {
    template <class T> static auto apply(T old, T v) {
        using W = typename WrappingType<T>::type;
        return T(W(old) + W(v));
    }
};
struct Subtract {
    template <class T> static auto apply(T old, T v) {
        using W = typename WrappingType<T>::type;
        return T(W(old) - W(v));
    }
};
struct Exchange { template <class T> static auto apply(T, T v) { return v; } };
struct Minimum { template <class T> static auto apply(T old, T v) { return v < old ? v : old; } };
struct Maximum { template <class T> static auto apply(T old, T v) { return old < v ? v : old; } };
struct And { template <class T> static auto apply(T old, T v) { return old & v; } };
struct Or { template <class T> static auto apply(T old, T v) { return old | v; } };
struct Xor { template <class T> static auto apply(T old, T v) { return old ^ v; } };
struct Increment { static unsigned apply(unsigned old, unsigned last) { return old >= last ? 0 : old + 1; } };
struct Decrement {
    static unsigned apply(unsigned old, unsigned last) { return old == 0 || old > last ? last : old - 1; }
};
struct AddComponents {
    static float2 apply(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
    static float4 apply(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
};
}

#define GRIDSTRIDE_ATOMIC(name, Op, T) \
    GRIDSTRIDE_INLINE T name(T *p, T value, int line = __builtin_LINE()) { \
        return gridstride::atomic_update<gridstride::Op, T>(p, value, gridstride::Scope::device, line); \
    } \
    GRIDSTRIDE_INLINE T name##_block(T *p, T value, int line = __builtin_LINE()) { \
        return gridstride::atomic_update<gridstride::Op, T>(p, value, gridstride::Scope::block, line); \
    } \
    GRIDSTRIDE_INLINE T name##_system(T *p, T value, int line = __builtin_LINE()) { \
        return gridstride::atomic_update<gridstride::Op, T>(p, value, gridstride::Scope::system, line); \
    }
#define GRIDSTRIDE_ATOMIC_INTEGERS(name, Op) \
    GRIDSTRIDE_ATOMIC(name, Op, int) \
    GRIDSTRIDE_ATOMIC(name, Op, unsigned) GRIDSTRIDE_ATOMIC(name, Op, unsigned long long)
GRIDSTRIDE_ATOMIC_INTEGERS(atomicAdd, Add)
GRIDSTRIDE_ATOMIC(atomicAdd, Add, float)
GRIDSTRIDE_ATOMIC(atomicAdd, Add, double)
GRIDSTRIDE_ATOMIC(atomicAdd, AddComponents, float2)
GRIDSTRIDE_ATOMIC(atomicAdd, AddComponents, float4)
GRIDSTRIDE_ATOMIC(atomicSub, Subtract, int)
GRIDSTRIDE_ATOMIC(atomicSub, Subtract, unsigned)
GRIDSTRIDE_ATOMIC_INTEGERS(atomicExch, Exchange)
GRIDSTRIDE_ATOMIC(atomicExch, Exchange, float)
namespace gridstride::unread {
GRIDSTRIDE_ATOMIC_INTEGERS(atomicExch, Store)
GRIDSTRIDE_ATOMIC(atomicExch, Store, float)
}
GRIDSTRIDE_ATOMIC_INTEGERS(atomicMin, Minimum)
GRIDSTRIDE_ATOMIC(atomicMin, Minimum, long long)
GRIDSTRIDE_ATOMIC_INTEGERS(atomicMax, Maximum)
GRIDSTRIDE_ATOMIC(atomicMax, Maximum, long long)
GRIDSTRIDE_ATOMIC_INTEGERS(atomicAnd, And)
GRIDSTRIDE_ATOMIC_INTEGERS(atomicOr, Or)
GRIDSTRIDE_ATOMIC_INTEGERS(atomicXor, Xor)
GRIDSTRIDE_ATOMIC(atomicInc, Increment, unsigned)
GRIDSTRIDE_ATOMIC(atomicDec, Decrement, unsigned)
#undef GRIDSTRIDE_ATOMIC_INTEGERS

#define GRIDSTRIDE_CAS(T) \
    GRIDSTRIDE_INLINE T atomicCAS(T *p, T expected, T value, int line = __builtin_LINE()) { \
        return gridstride::compare_and_swap<T>(p, expected, value, gridstride::Scope::device, line); \
    } \
    GRIDSTRIDE_INLINE T atomicCAS_block(T *p, T expected, T value, int line = __builtin_LINE()) { \
        return gridstride::compare_and_swap<T>(p, expected, value, gridstride::Scope::block, line); \
    } \
    GRIDSTRIDE_INLINE T atomicCAS_system(T *p, T expected, T value, int line = __builtin_LINE()) { \
        return gridstride::compare_and_swap<T>(p, expected, value, gridstride::Scope::system, line); \
    }
GRIDSTRIDE_CAS(int)
GRIDSTRIDE_CAS(unsigned)
GRIDSTRIDE_CAS(unsigned long long)
GRIDSTRIDE_CAS(unsigned short)
#undef GRIDSTRIDE_CAS
