// Barriers, fences and what the lanes of a warp do together.
#pragma once
#include <type_traits>
#include "intrinsics.h"
#include "runtime.h"

// The block
GRIDSTRIDE_INLINE void __syncthreads(int line = __builtin_LINE()) { gridstride::sync_block(line); }
GRIDSTRIDE_INLINE int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
    return gridstride::sync_block_count(predicate, line);
}
GRIDSTRIDE_INLINE int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
    return gridstride::sync_block_count(!predicate, line) == 0;
}
GRIDSTRIDE_INLINE int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
    return gridstride::sync_block_count(predicate, line) != 0;
}
inline void __threadfence_block() { gridstride::fence(gridstride::Scope::block); }
inline void __threadfence() { gridstride::fence(gridstride::Scope::device); }
inline void __threadfence_system() { gridstride::fence(gridstride::Scope::system); }

namespace gridstride {
// What the lanes in `mask` brought: `[i]` is lane i's, `took` the lanes that came.
template <class T> struct Brought {
    const void *all;
    unsigned took;
    GRIDSTRIDE_UNSEEN Brought(unsigned mask, const T &mine, int line) {
        took = warp_exchange(mask, &mine, sizeof(T), all, line);
    }
    GRIDSTRIDE_UNSEEN auto operator[](int i) const {
        T value;
        __builtin_memcpy(static_cast<void *>(&value), static_cast<const char *>(all) + 16 * i, sizeof value);
        return value;
    }
};

// The value of lane `from`. It goes in parts of a size that the compiler knows, or the copy would be a call of memcpy,
// which the detectors look at.
template <size_t at = 0, class T> GRIDSTRIDE_UNSEEN auto shuffled(unsigned mask, T mine, int from, int line) {
    constexpr int bytes = sizeof(T) - at < 16 ? sizeof(T) - at : 16;
    char *part = reinterpret_cast<char *>(&mine) + at;
    const void *all;
    const unsigned took = warp_exchange(mask, part, bytes, all, line);
#ifdef GRIDSTRIDE_CHECKED
    unsigned undefined;
    __builtin_memcpy(&undefined, static_cast<const char *>(all) + undefined_lanes, sizeof undefined);
    const int byte = (undefined | ~took) >> from & 1 ? undefined_byte(from, line) : -1;
#else
    constexpr int byte = -1;
#endif
    if (took >> from & 1) __builtin_memcpy(part, static_cast<const char *>(all) + 16 * from, bytes);
    else if (byte >= 0) __builtin_memset(part, byte, bytes);
    if constexpr (at + bytes < sizeof(T)) return shuffled<at + bytes>(mask, mine, from, line);
    else return mine;
}

// The segment of `width` lanes that the caller is in, and whom the four shuffles read in it
struct Segment {
    int me, first, last;
    explicit Segment(int width) : me(lane()), first(me & (32 - width)), last(first | (31 & ~(32 - width))) {}
    int at(int i) const { return first | (i & (last - first)); }
    int up(unsigned n) const { const int i = me - int(n & 31); return i < first ? me : i; }
    int down(unsigned n) const { const int i = me + int(n & 31); return i > last ? me : i; }
    int across(int n) const { const int i = me ^ (n & 31); return i > last ? me : i; }
};

// The lanes for which `f(what they brought)` holds
template <class T, class F> GRIDSTRIDE_UNSEEN auto lanes_where(const Brought<T> &brought, F f) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) if (brought.took >> i & 1 && f(brought[i])) r |= 1u << i;
    return r;
}
GRIDSTRIDE_UNSEEN inline unsigned ballot(unsigned mask, bool predicate, unsigned &took, int line) {
    const Brought<bool> brought(mask, predicate, line);
    took = brought.took;
    return lanes_where(brought, [](bool p) { return p; });
}
template <class T> GRIDSTRIDE_UNSEEN unsigned matching(unsigned mask, T mine, unsigned &took, int line) {
    const Brought<T> brought(mask, mine, line);
    took = brought.took;
    return lanes_where(brought, [=](T other) { return __builtin_memcmp(&other, &mine, sizeof mine) == 0; });
}
// `op` over what the lanes brought, in their order
template <class T, class F> GRIDSTRIDE_UNSEEN auto reduced(unsigned mask, T mine, F op, int line) {
    const Brought<T> brought(mask, mine, line);
    unsigned left = brought.took;
    if (!left) return mine;
    T r = brought[__builtin_ctz(left)];
    while (left &= left - 1) r = op(r, brought[__builtin_ctz(left)]);
    return r;
}
}

// The address of a shared variable, as PTX has it
inline size_t __cvta_generic_to_shared(const void *p) { return gridstride::shared_address(p); }
inline size_t __cvta_generic_to_global(const void *p) { return size_t(p); }

// The warp
GRIDSTRIDE_INLINE void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
    gridstride::sync_warp(mask, line);
}
GRIDSTRIDE_INLINE unsigned __activemask(int line = __builtin_LINE()) { return gridstride::active_mask(line); }

#define GRIDSTRIDE_SHUFFLES(T) \
    GRIDSTRIDE_INLINE T __shfl_sync( \
        unsigned mask, T value, int from, int width = warpSize, int line = __builtin_LINE()) { \
        return gridstride::shuffled(mask, value, gridstride::Segment(width).at(from), line); \
    } \
    GRIDSTRIDE_INLINE T __shfl_up_sync( \
        unsigned mask, T value, unsigned delta, int width = warpSize, int line = __builtin_LINE()) { \
        return gridstride::shuffled(mask, value, gridstride::Segment(width).up(delta), line); \
    } \
    GRIDSTRIDE_INLINE T __shfl_down_sync( \
        unsigned mask, T value, unsigned delta, int width = warpSize, int line = __builtin_LINE()) { \
        return gridstride::shuffled(mask, value, gridstride::Segment(width).down(delta), line); \
    } \
    GRIDSTRIDE_INLINE T __shfl_xor_sync( \
        unsigned mask, T value, int lanes, int width = warpSize, int line = __builtin_LINE()) { \
        return gridstride::shuffled(mask, value, gridstride::Segment(width).across(lanes), line); \
    }
GRIDSTRIDE_SHUFFLES(int)
GRIDSTRIDE_SHUFFLES(unsigned)
GRIDSTRIDE_SHUFFLES(long)
GRIDSTRIDE_SHUFFLES(unsigned long)
GRIDSTRIDE_SHUFFLES(long long)
GRIDSTRIDE_SHUFFLES(unsigned long long)
GRIDSTRIDE_SHUFFLES(float)
GRIDSTRIDE_SHUFFLES(double)

GRIDSTRIDE_INLINE unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    unsigned took;
    return gridstride::ballot(mask, predicate, took, line);
}
GRIDSTRIDE_INLINE int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __ballot_sync(mask, predicate, line) != 0;
}
GRIDSTRIDE_INLINE int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __ballot_sync(mask, !predicate, line) == 0;
}
GRIDSTRIDE_INLINE int __uni_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    unsigned took;
    const unsigned yes = gridstride::ballot(mask, predicate, took, line);
    return yes == 0 || yes == took;
}

template <class T> GRIDSTRIDE_INLINE unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "__match_any_sync compares integers, float and double");
    unsigned took;
    return gridstride::matching(mask, value, took, line);
}
template <class T>
GRIDSTRIDE_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all, int line = __builtin_LINE()) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "__match_all_sync compares integers, float and double");
    unsigned took;
    const bool same = gridstride::matching(mask, value, took, line) == took;
    *all = same;
    return same ? took : 0;
}

#define GRIDSTRIDE_REDUCTION(name, T, expression) \
    GRIDSTRIDE_INLINE T __reduce_##name##_sync(unsigned mask, T value, int line = __builtin_LINE()) { \
        return gridstride::reduced<T>(mask, value, [](T a, T b) { return T(expression); }, line); \
    }
GRIDSTRIDE_REDUCTION(add, unsigned, a + b)
GRIDSTRIDE_REDUCTION(add, int, unsigned(a) + unsigned(b))
GRIDSTRIDE_REDUCTION(min, unsigned, a < b ? a : b)
GRIDSTRIDE_REDUCTION(min, int, a < b ? a : b)
GRIDSTRIDE_REDUCTION(max, unsigned, a < b ? b : a)
GRIDSTRIDE_REDUCTION(max, int, a < b ? b : a)
GRIDSTRIDE_REDUCTION(and, unsigned, a & b)
GRIDSTRIDE_REDUCTION(or, unsigned, a | b)
GRIDSTRIDE_REDUCTION(xor, unsigned, a ^ b)
#undef GRIDSTRIDE_REDUCTION

// Those of before 2017, which no GPU of today has
#define GRIDSTRIDE_GONE(name) \
    template <class... A> int name(A...) { \
        static_assert(gridstride::never<A...>, \
            #name " was removed from CUDA: name the lanes that take part, " #name "_sync(mask, ...)"); \
        return 0; \
    }
GRIDSTRIDE_GONE(__shfl)
GRIDSTRIDE_GONE(__shfl_up)
GRIDSTRIDE_GONE(__shfl_down)
GRIDSTRIDE_GONE(__shfl_xor)
GRIDSTRIDE_GONE(__ballot)
GRIDSTRIDE_GONE(__any)
GRIDSTRIDE_GONE(__all)
#undef GRIDSTRIDE_GONE
