// Barriers, fences and warp operations
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
// The values that the lanes in `mask` exchange: `[i]` is that of lane i; `present`: the lanes that take part
template <class T> struct LaneValues {
    const void *all;
    unsigned present;
    GRIDSTRIDE_UNSEEN LaneValues(unsigned mask, const T &mine, int line) {
        present = warp_exchange(mask, &mine, sizeof(T), all, line);
    }
    GRIDSTRIDE_UNSEEN auto operator[](int i) const {
        T value;
        __builtin_memcpy(static_cast<void *>(&value), static_cast<const char *>(all) + 16 * i, sizeof value);
        return value;
    }
};

// Returns the value of lane `from`. It is copied in parts of constant size, because the detectors check calls of
// memcpy.
template <size_t at = 0, class T> GRIDSTRIDE_UNSEEN auto shuffle(unsigned mask, T mine, int from, int line) {
    constexpr int bytes = sizeof(T) - at < 16 ? sizeof(T) - at : 16;
    char *part = reinterpret_cast<char *>(&mine) + at;
    const void *all;
    const unsigned present = warp_exchange(mask, part, bytes, all, line);
#ifdef GRIDSTRIDE_CHECKED
    unsigned undefined;
    __builtin_memcpy(&undefined, static_cast<const char *>(all) + undefined_lanes, sizeof undefined);
    const int byte = (undefined | ~present) >> from & 1 ? undefined_byte(from, line) : -1;
#else
    constexpr int byte = -1;
#endif
    if (present >> from & 1) __builtin_memcpy(part, static_cast<const char *>(all) + 16 * from, bytes);
    else if (byte >= 0) __builtin_memset(part, byte, bytes);
    if constexpr (at + bytes < sizeof(T)) return shuffle<at + bytes>(mask, mine, from, line);
    else return mine;
}

// The segment of `width` lanes with the current one, and the lanes that the four shuffles read
struct Segment {
    int me, first, last;
    explicit Segment(int width) : me(lane()), first(me & (32 - width)), last(first | (31 & ~(32 - width))) {}
    int at(int i) const { return first | (i & (last - first)); }
    int up(unsigned n) const { const int i = me - int(n & 31); return i < first ? me : i; }
    int down(unsigned n) const { const int i = me + int(n & 31); return i > last ? me : i; }
    int across(int n) const { const int i = me ^ (n & 31); return i > last ? me : i; }
};

// Returns the mask of the lanes for whose value `f` holds.
template <class T, class F> GRIDSTRIDE_UNSEEN auto lanes_where(const LaneValues<T> &values, F f) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) if (values.present >> i & 1 && f(values[i])) r |= 1u << i;
    return r;
}
GRIDSTRIDE_UNSEEN inline unsigned ballot(unsigned mask, bool predicate, unsigned &present, int line) {
    const LaneValues<bool> values(mask, predicate, line);
    present = values.present;
    return lanes_where(values, [](bool p) { return p; });
}
template <class T> GRIDSTRIDE_UNSEEN unsigned lanes_equal_to(unsigned mask, T mine, unsigned &present, int line) {
    const LaneValues<T> values(mask, mine, line);
    present = values.present;
    return lanes_where(values, [=](T other) { return __builtin_memcmp(&other, &mine, sizeof mine) == 0; });
}
// Reduces the values of the lanes by `op`, in order of the lanes.
template <class T, class F> GRIDSTRIDE_UNSEEN auto reduce_lanes(unsigned mask, T mine, F op, int line) {
    const LaneValues<T> values(mask, mine, line);
    unsigned left = values.present;
    if (!left) return mine;
    T r = values[__builtin_ctz(left)];
    while (left &= left - 1) r = op(r, values[__builtin_ctz(left)]);
    return r;
}
}

// the address of a shared variable in PTX
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
        return gridstride::shuffle(mask, value, gridstride::Segment(width).at(from), line); \
    } \
    GRIDSTRIDE_INLINE T __shfl_up_sync( \
        unsigned mask, T value, unsigned delta, int width = warpSize, int line = __builtin_LINE()) { \
        return gridstride::shuffle(mask, value, gridstride::Segment(width).up(delta), line); \
    } \
    GRIDSTRIDE_INLINE T __shfl_down_sync( \
        unsigned mask, T value, unsigned delta, int width = warpSize, int line = __builtin_LINE()) { \
        return gridstride::shuffle(mask, value, gridstride::Segment(width).down(delta), line); \
    } \
    GRIDSTRIDE_INLINE T __shfl_xor_sync( \
        unsigned mask, T value, int lanes, int width = warpSize, int line = __builtin_LINE()) { \
        return gridstride::shuffle(mask, value, gridstride::Segment(width).across(lanes), line); \
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
    unsigned present;
    return gridstride::ballot(mask, predicate, present, line);
}
GRIDSTRIDE_INLINE int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __ballot_sync(mask, predicate, line) != 0;
}
GRIDSTRIDE_INLINE int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __ballot_sync(mask, !predicate, line) == 0;
}
GRIDSTRIDE_INLINE int __uni_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    unsigned present;
    const unsigned yes = gridstride::ballot(mask, predicate, present, line);
    return yes == 0 || yes == present;
}

template <class T> GRIDSTRIDE_INLINE unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "__match_any_sync compares integers, float and double");
    unsigned present;
    return gridstride::lanes_equal_to(mask, value, present, line);
}
template <class T>
GRIDSTRIDE_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all, int line = __builtin_LINE()) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "__match_all_sync compares integers, float and double");
    unsigned present;
    const bool same = gridstride::lanes_equal_to(mask, value, present, line) == present;
    *all = same;
    return same ? present : 0;
}

#define GRIDSTRIDE_REDUCTION(name, T, expression) \
    GRIDSTRIDE_INLINE T __reduce_##name##_sync(unsigned mask, T value, int line = __builtin_LINE()) { \
        return gridstride::reduce_lanes<T>(mask, value, [](T a, T b) { return T(expression); }, line); \
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

// warp operations without a mask, which CUDA has removed
#define GRIDSTRIDE_REMOVED(name) \
    template <class... A> int name(A...) { \
        static_assert(gridstride::always_false<A...>, \
            #name " was removed from CUDA: name the lanes that take part, " #name "_sync(mask, ...)"); \
        return 0; \
    }
GRIDSTRIDE_REMOVED(__shfl)
GRIDSTRIDE_REMOVED(__shfl_up)
GRIDSTRIDE_REMOVED(__shfl_down)
GRIDSTRIDE_REMOVED(__shfl_xor)
GRIDSTRIDE_REMOVED(__ballot)
GRIDSTRIDE_REMOVED(__any)
GRIDSTRIDE_REMOVED(__all)
#undef GRIDSTRIDE_REMOVED
