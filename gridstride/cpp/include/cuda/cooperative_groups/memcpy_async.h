// cooperative_groups::memcpy_async: the threads of the group copy immediately, element by element
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <class G, class T, class S>
GRIDSTRIDE_INLINE void memcpy_async(const G &group, T *to, const S *from, size_t bytes) {
    static_assert(sizeof(T) == sizeof(S), "memcpy_async: the elements of the two arrays must have the same size");
    for (size_t i = group.thread_rank(); i < bytes / sizeof(T); i += group.size()) to[i] = from[i];
}
// Copies as many elements as the smaller array has.
template <class G, class T, class S>
GRIDSTRIDE_INLINE void memcpy_async(const G &group, T *to, size_t to_count, const S *from, size_t from_count) {
    memcpy_async(group, to, from, (to_count < from_count ? to_count : from_count) * sizeof(T));
}
template <class G> GRIDSTRIDE_INLINE void wait(const G &group, int line = __builtin_LINE()) { group.sync(line); }
template <unsigned stages, class G> GRIDSTRIDE_INLINE void wait_prior(const G &group, int line = __builtin_LINE()) {
    group.sync(line);
}
}
