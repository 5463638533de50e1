// nvcc's built-in atomic functions __nv_atomic_*, which have parameters for order and scope.
#pragma once
#include "cuda/atomic"

#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4

namespace gridstride {
constexpr Scope nv_scope(int s) {
    return s == __NV_THREAD_SCOPE_SYSTEM   ? Scope::system
           : s == __NV_THREAD_SCOPE_THREAD ? Scope::thread
           : s == __NV_THREAD_SCOPE_BLOCK  ? Scope::block
                                           : Scope::device;
}
constexpr Order nv_order(int o) { return order_of(cuda::memory_order(o)); }
}
#define GRIDSTRIDE_SCOPE_AND_LINE int scope = __NV_THREAD_SCOPE_SYSTEM, int line = __builtin_LINE()
template <class T> GRIDSTRIDE_INLINE T __nv_atomic_load_n(const T *p, int order, GRIDSTRIDE_SCOPE_AND_LINE) {
    return gridstride::atomic_load<T>(p, gridstride::nv_scope(scope), gridstride::nv_order(order), line);
}
template <class T> GRIDSTRIDE_INLINE void __nv_atomic_load(const T *p, T *to, int order, GRIDSTRIDE_SCOPE_AND_LINE) {
    *to = __nv_atomic_load_n(p, order, scope, line);
}
template <class T, class V>
GRIDSTRIDE_INLINE void __nv_atomic_store_n(T *p, V value, int order, GRIDSTRIDE_SCOPE_AND_LINE) {
    gridstride::atomic_store<T>(p, T(value), gridstride::nv_scope(scope), gridstride::nv_order(order), line);
}
template <class T>
GRIDSTRIDE_INLINE void __nv_atomic_store(T *p, const T *value, int order, GRIDSTRIDE_SCOPE_AND_LINE) {
    __nv_atomic_store_n(p, *value, order, scope, line);
}
#define GRIDSTRIDE_CHANGE(name, expression) \
    template <class T, class V> GRIDSTRIDE_INLINE T name(T *p, V value, int order, GRIDSTRIDE_SCOPE_AND_LINE) { \
        const T v = T(value); \
        return gridstride::atomic_apply<T>(p, gridstride::nv_scope(scope), gridstride::nv_order(order), line, \
            [=](T old) { return T(expression); }); \
    }
GRIDSTRIDE_CHANGE(__nv_atomic_exchange_n, ((void)old, v))
GRIDSTRIDE_CHANGE(__nv_atomic_fetch_add, gridstride::Add::apply(old, v))
GRIDSTRIDE_CHANGE(__nv_atomic_fetch_sub, gridstride::Subtract::apply(old, v))
GRIDSTRIDE_CHANGE(__nv_atomic_fetch_min, v < old ? v : old)
GRIDSTRIDE_CHANGE(__nv_atomic_fetch_max, old < v ? v : old)
GRIDSTRIDE_CHANGE(__nv_atomic_fetch_and, old & v)
GRIDSTRIDE_CHANGE(__nv_atomic_fetch_or, old | v)
GRIDSTRIDE_CHANGE(__nv_atomic_fetch_xor, old ^ v)
#undef GRIDSTRIDE_CHANGE
template <class T, class V> GRIDSTRIDE_INLINE bool __nv_atomic_compare_exchange_n(
    T *p, T *expected, V value, bool, int order, int, GRIDSTRIDE_SCOPE_AND_LINE) {
    using namespace gridstride;
    const T expected_value = *expected;
    const T old = atomic_compare_and_swap<T>(p, expected_value, T(value), nv_scope(scope), nv_order(order), line);
    *expected = old;
    return have_equal_bits(old, expected_value);
}
#undef GRIDSTRIDE_SCOPE_AND_LINE
