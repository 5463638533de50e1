// cooperative_groups::inclusive_scan and exclusive_scan
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <class G, class T, class F>
GRIDSTRIDE_INLINE auto inclusive_scan(const G &group, T value, F op, int line = __builtin_LINE())
    -> decltype(op(value, value)) {
    return scan_values(group, value, op, line);
}
template <class G, class T> GRIDSTRIDE_INLINE T inclusive_scan(const G &group, T value, int line = __builtin_LINE()) {
    return inclusive_scan(group, value, plus<T>(), line);
}

// Like inclusive_scan, but without the thread's own value; thread 0 receives T().
template <class G, class T, class F>
GRIDSTRIDE_INLINE auto exclusive_scan(const G &group, T value, F op, int line = __builtin_LINE())
    -> decltype(op(value, value)) {
    const auto r = group.shfl_up(inclusive_scan(group, value, op, line), 1, line);
    return group.thread_rank() == 0 ? decltype(op(value, value))() : r;
}
template <class G, class T> GRIDSTRIDE_INLINE T exclusive_scan(const G &group, T value, int line = __builtin_LINE()) {
    return exclusive_scan(group, value, plus<T>(), line);
}
}
