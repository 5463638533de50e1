// cooperative_groups::reduce: combines values n/2, n/4, ..., 1 lanes apart, in the order of a GPU, so that float sums
// agree
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <unsigned n, class P, class T, class F>
GRIDSTRIDE_INLINE auto reduce(const thread_block_tile<n, P> &tile, T value, F op, int line = __builtin_LINE())
    -> decltype(op(value, value)) {
    decltype(op(value, value)) r = value;
    for (unsigned d = n / 2; d > 0; d /= 2) r = op(r, tile.shfl_xor(r, d, line));
    return r;
}
template <class T, class F>
GRIDSTRIDE_INLINE auto reduce(const coalesced_group &group, T value, F op, int line = __builtin_LINE())
    -> decltype(op(value, value)) {
    if (group.size() == 32) return reduce(tiled_partition<32>(this_thread_block()), value, op, line);
    return group.shfl(scan_values(group, value, op, line), group.size() - 1, line);
}
}
