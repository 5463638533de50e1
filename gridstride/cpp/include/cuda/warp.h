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
// The values that the lanes in `mask` exchange: `[i]` is the value of lane i; `participants`: the mask of lanes
template <class T> struct LaneValues {
    const void *bytes;
    unsigned participants;
    GRIDSTRIDE_NO_TSAN LaneValues(unsigned mask, const T &own_value, int line) {
        participants = warp_exchange(mask, &own_value, sizeof(T), bytes, line);
    }
    GRIDSTRIDE_NO_TSAN auto operator[](int i) const {
        T value;
        __builtin_memcpy(static_cast<void *>(&value), static_cast<const char *>(bytes) + 16 * i, sizeof value);
        return value;
    }
};

// Returns the value of lane `source`. It is copied in chunks of constant size, because the detectors check calls of
// memcpy.
template <size_t offset = 0, class T>
GRIDSTRIDE_NO_TSAN auto shuffle(unsigned mask, T value, int source, int line) {
    constexpr int bytes = sizeof(T) - offset < 16 ? sizeof(T) - offset : 16;
    char *chunk = reinterpret_cast<char *>(&value) + offset;
    const void *all_chunks;
    const unsigned participants = warp_exchange(mask, chunk, bytes, all_chunks, line);
#ifdef GRIDSTRIDE_CHECKED
    unsigned undefined;
    __builtin_memcpy(&undefined, static_cast<const char *>(all_chunks) + undefined_lanes, sizeof undefined);
    const int byte = (undefined | ~participants) >> source & 1 ? undefined_byte(source, line) : -1;
#else
    constexpr int byte = -1;
#endif
    if (participants >> source & 1) __builtin_memcpy(chunk, static_cast<const char *>(all_chunks) + 16 * source, bytes);
    else if (byte >= 0) __builtin_memset(chunk, byte, bytes);
    if constexpr (offset + bytes < sizeof(T)) return shuffle<offset + bytes>(mask, value, source, line);
    else return value;
}

// The segment of `width` lanes that contains the current lane, and the lanes that the four shuffles read
struct Segment {
    int own_lane, first, last;
    explicit Segment(int width)
        : own_lane(lane()), first(own_lane & (32 - width)), last(first | (31 & ~(32 - width))) {}
    int index(int i) const { return first | (i & (last - first)); }
    int up(unsigned n) const { const int i = own_lane - int(n & 31); return i < first ? own_lane : i; }
    int down(unsigned n) const { const int i = own_lane + int(n & 31); return i > last ? own_lane : i; }
    int exclusive_or(int n) const { const int i = own_lane ^ (n & 31); return i > last ? own_lane : i; }
};

// Returns the mask of the lanes whose value satisfies `f`.
template <class T, class F> GRIDSTRIDE_NO_TSAN auto lanes_where(const LaneValues<T> &values, F f) {
    unsigned lanes = 0;
    for (int i = 0; i < 32; i++) if (values.participants >> i & 1 && f(values[i])) lanes |= 1u << i;
    return lanes;
}
GRIDSTRIDE_NO_TSAN inline unsigned ballot(unsigned mask, bool predicate, unsigned &participants, int line) {
    const LaneValues<bool> values(mask, predicate, line);
    participants = values.participants;
    return lanes_where(values, [](bool p) { return p; });
}
template <class T>
GRIDSTRIDE_NO_TSAN unsigned lanes_equal_to(unsigned mask, T own_value, unsigned &participants, int line) {
    const LaneValues<T> values(mask, own_value, line);
    participants = values.participants;
    return lanes_where(values, [=](T other) { return __builtin_memcmp(&other, &own_value, sizeof own_value) == 0; });
}
// Reduces the values of the lanes with `op`, in lane order.
template <class T, class F> GRIDSTRIDE_NO_TSAN auto reduce_lanes(unsigned mask, T own_value, F op, int line) {
    const LaneValues<T> values(mask, own_value, line);
    unsigned remaining = values.participants;
    if (!remaining) return own_value;
    T result = values[__builtin_ctz(remaining)];
    while (remaining &= remaining - 1) result = op(result, values[__builtin_ctz(remaining)]);
    return result;
}
}

// Returns the 32-bit address of a shared variable.
inline size_t __cvta_generic_to_shared(const void *p) { return gridstride::shared_address(p); }
inline size_t __cvta_generic_to_global(const void *p) { return size_t(p); }

// The warp
GRIDSTRIDE_INLINE void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
    gridstride::sync_warp(mask, line);
}
GRIDSTRIDE_INLINE unsigned __activemask(int line = __builtin_LINE()) { return gridstride::active_mask(line); }

#define GRIDSTRIDE_SHUFFLES(T) \
    GRIDSTRIDE_INLINE T __shfl_sync( \
        unsigned mask, T value, int source, int width = warpSize, int line = __builtin_LINE()) { \
        return gridstride::shuffle(mask, value, gridstride::Segment(width).index(source), line); \
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
        return gridstride::shuffle(mask, value, gridstride::Segment(width).exclusive_or(lanes), line); \
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
    unsigned participants;
    return gridstride::ballot(mask, predicate, participants, line);
}
GRIDSTRIDE_INLINE int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __ballot_sync(mask, predicate, line) != 0;
}
GRIDSTRIDE_INLINE int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __ballot_sync(mask, !predicate, line) == 0;
}
GRIDSTRIDE_INLINE int __uni_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    unsigned participants;
    const unsigned true_lanes = gridstride::ballot(mask, predicate, participants, line);
    return true_lanes == 0 || true_lanes == participants;
}

template <class T> GRIDSTRIDE_INLINE unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "__match_any_sync compares integers, float and double");
    unsigned participants;
    return gridstride::lanes_equal_to(mask, value, participants, line);
}
template <class T>
GRIDSTRIDE_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all, int line = __builtin_LINE()) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "__match_all_sync compares integers, float and double");
    unsigned participants;
    const bool all_equal = gridstride::lanes_equal_to(mask, value, participants, line) == participants;
    *all = all_equal;
    return all_equal ? participants : 0;
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

// Warp operations without a mask, which CUDA has removed. The ellipsis makes a program's own overload a better match.
#define GRIDSTRIDE_REMOVED(name) \
    template <class T = void> int name(...) { \
        static_assert(gridstride::always_false<T>, \
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
