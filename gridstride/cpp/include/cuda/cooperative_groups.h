// Cooperative groups, up to a cluster of blocks. A group inside a warp is the mask of its lanes.
#pragma once
#include "emulator.h"

namespace cooperative_groups {

class thread_group {
public:
    unsigned mask;                    // the lanes of a group inside a warp; 0: the whole block
    explicit thread_group(unsigned mask) : mask(mask) {}
    unsigned size() const { return mask ? unsigned(__popc(mask)) : blockDim.x * blockDim.y * blockDim.z; }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const {
        return mask ? unsigned(__popc(mask & ((1u << gridstride::lane()) - 1))) : unsigned(gridstride::thread_rank());
    }
    GRIDSTRIDE_INLINE void sync(int line = __builtin_LINE()) const {
        if (mask) gridstride::sync_warp(mask, line);
        else gridstride::sync_block(line);
    }
};

class thread_block : public thread_group {
public:
    thread_block() : thread_group(0) {}
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }
// Scratch memory for tiles of more than a warp; unused in the emulator
template <unsigned max_threads = 1024> struct block_tile_memory { char unused; };
template <unsigned max_threads> thread_block this_thread_block(block_tile_memory<max_threads> &) { return {}; }
template <class Group> GRIDSTRIDE_INLINE void synchronize(const Group &g, int line = __builtin_LINE()) { g.sync(line); }

// Collectives of groups inside a warp; arguments and results are ranks, not lanes
class warp_group : public thread_group {
public:
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    template <class T> GRIDSTRIDE_INLINE T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        return shuffle_from(int(thread_rank()) - int(delta), value, line);
    }
    template <class T> GRIDSTRIDE_INLINE T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        return shuffle_from(int(thread_rank() + delta), value, line);
    }
    GRIDSTRIDE_INLINE unsigned ballot(int predicate, int line = __builtin_LINE()) const {
        return ranks_of(__ballot_sync(mask, predicate, line));
    }
    GRIDSTRIDE_INLINE int any(int predicate, int line = __builtin_LINE()) const {
        return __any_sync(mask, predicate, line);
    }
    GRIDSTRIDE_INLINE int all(int predicate, int line = __builtin_LINE()) const {
        return __all_sync(mask, predicate, line);
    }
    template <class T> GRIDSTRIDE_INLINE unsigned match_any(T value, int line = __builtin_LINE()) const {
        return ranks_of(__match_any_sync(mask, value, line));
    }
    template <class T> GRIDSTRIDE_INLINE unsigned match_all(T value, int &all, int line = __builtin_LINE()) const {
        return ranks_of(__match_all_sync(mask, value, &all, line));
    }
protected:
    warp_group(unsigned mask, unsigned meta_rank, unsigned meta_size)
        : thread_group(mask), meta_rank(meta_rank), meta_size(meta_size) {}
    int lane_of(int rank) const { return int(__fns(mask, 0, rank + 1)); }
    template <class T> GRIDSTRIDE_INLINE T shuffle_from(int rank, T value, int line) const {
        return gridstride::shuffle(
            mask, value, rank >= 0 && rank < int(size()) ? lane_of(rank) : gridstride::lane(), line);
    }
    unsigned ranks_of(unsigned lanes) const {
        unsigned r = 0;
        for (int rank = 0, n = int(size()); rank < n; rank++) r |= (lanes >> lane_of(rank) & 1) << rank;
        return r;
    }
    unsigned meta_rank, meta_size;
};

class coalesced_group : public warp_group {
public:
    template <class T> GRIDSTRIDE_INLINE T shfl(T value, unsigned rank, int line = __builtin_LINE()) const {
        return shuffle_from(int(rank), value, line);
    }
    explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
        : warp_group(mask, meta_rank, meta_size) {}
};
GRIDSTRIDE_INLINE coalesced_group coalesced_threads(int line = __builtin_LINE()) {
    return coalesced_group(gridstride::active_mask(line));
}

template <unsigned n, class Parent = void> class thread_block_tile;

template <unsigned n> class thread_block_tile<n, void> : public warp_group {
    static_assert(n >= 1 && n <= 32 && (n & (n - 1)) == 0,
        "a tile must have 1, 2, 4, 8, 16 or 32 threads; the emulator does not support tiles that span warps");

public:
    static constexpr unsigned size() { return n; }
    static constexpr unsigned num_threads() { return n; }
    unsigned thread_rank() const { return unsigned(gridstride::lane()) % n; }
    template <class T> GRIDSTRIDE_INLINE T shfl(T value, int rank, int line = __builtin_LINE()) const {
        return this->shuffle_from(rank & int(n - 1), value, line);
    }
    template <class T> GRIDSTRIDE_INLINE T shfl_xor(T value, unsigned ranks, int line = __builtin_LINE()) const {
        return this->shuffle_from(int(thread_rank() ^ ranks), value, line);
    }
    thread_block_tile(unsigned meta_rank, unsigned meta_size)
        : warp_group((n == 32 ? ~0u : (1u << n % 32) - 1) << (unsigned(gridstride::lane()) & ~(n - 1)), meta_rank,
              meta_size) {}
};
template <unsigned n, class Parent> class thread_block_tile : public thread_block_tile<n, void> {
public:
    explicit thread_block_tile(const Parent &parent)
        : thread_block_tile<n, void>(unsigned(parent.thread_rank()) / n, (unsigned(parent.size()) + n - 1) / n) {}
};
inline thread_block_tile<1> this_thread() { return thread_block_tile<1>(0, 1); }

template <unsigned n, class Parent> thread_block_tile<n, Parent> tiled_partition(const Parent &parent) {
    return thread_block_tile<n, Parent>(parent);
}
template <unsigned n, unsigned m, class P>
thread_block_tile<n, thread_block_tile<m, P>> tiled_partition(const thread_block_tile<m, P> &parent) {
    static_assert(n <= m, "a tile must not be larger than its parent");
    return tiled_partition<n, thread_block_tile<m, P>>(parent);
}

// Returns the lanes of `mask` that are in the same tile of `n` ranks as the caller.
inline unsigned lanes_of_tile(unsigned mask, unsigned rank, unsigned n) {
    unsigned lanes = 0;
    for (unsigned i = 0, r = 0; i < 32; i++) if (mask >> i & 1 && r++ / n == rank / n) lanes |= 1u << i;
    return lanes;
}
inline thread_group tiled_partition(const thread_group &parent, unsigned n) {
    if (n == 0 || n > 32 || n & (n - 1)) gridstride::trap(gridstride::Code::tile_threads);
    return thread_group(lanes_of_tile(
        parent.mask ? parent.mask : ~0u, parent.mask ? parent.thread_rank() : unsigned(gridstride::lane()), n));
}
inline coalesced_group tiled_partition(const coalesced_group &parent, unsigned n) {
    if (n == 0 || n > 32 || n & (n - 1)) gridstride::trap(gridstride::Code::tile_threads);
    return coalesced_group(
        lanes_of_tile(parent.mask, parent.thread_rank(), n), parent.thread_rank() / n, (parent.size() + n - 1) / n);
}

// Partitions a group by label or predicate.
template <class T>
GRIDSTRIDE_INLINE coalesced_group labeled_partition(const warp_group &group, T label, int line = __builtin_LINE()) {
    const unsigned members = __match_any_sync(group.mask, label, line), first = members & (0 - members);
    const unsigned leaders = __ballot_sync(group.mask, first == 1u << gridstride::lane(), line);
    return coalesced_group(members, unsigned(__popc(leaders & (first - 1))), unsigned(__popc(leaders)));
}
GRIDSTRIDE_INLINE coalesced_group binary_partition(
    const warp_group &group, bool predicate, int line = __builtin_LINE()) {
    const unsigned true_lanes = __ballot_sync(group.mask, predicate, line),
                   members = group.mask & (predicate ? true_lanes : ~true_lanes);
    return members == group.mask ? coalesced_group(members) : coalesced_group(members, predicate, 2);
}
GRIDSTRIDE_INLINE coalesced_group labeled_partition(const warp_group &group, bool label, int line = __builtin_LINE()) {
    return binary_partition(group, label, line);
}

// The whole grid; its barrier is for cooperative launches.
class grid_group {
public:
    static dim3 block_index() { return blockIdx; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
    static unsigned long long block_rank() {
        return blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long num_threads() { return num_blocks() * blockDim.x * blockDim.y * blockDim.z; }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() {
        return block_rank() * (blockDim.x * blockDim.y * blockDim.z) + unsigned(gridstride::thread_rank());
    }
    static bool is_valid() { return gridstride::is_cooperative(); }
    GRIDSTRIDE_INLINE static void sync(int line = __builtin_LINE()) { gridstride::grid_sync(line); }
};
inline grid_group this_grid() { return {}; }

// The blocks of a cluster run at the same time, and can access each other's shared memory.
class cluster_group {
public:
    static dim3 dim_blocks() { return gridstride::cluster_shape(); }
    static dim3 block_index() {
        const dim3 n = dim_blocks();
        return dim3(blockIdx.x % n.x, blockIdx.y % n.y, blockIdx.z % n.z);
    }
    static unsigned block_rank() { return gridstride::cluster_rank(); }
    static unsigned num_blocks() { return gridstride::cluster_blocks(); }
    static unsigned num_threads() { return num_blocks() * blockDim.x * blockDim.y * blockDim.z; }
    static unsigned size() { return num_threads(); }
    static unsigned thread_rank() {
        return block_rank() * (blockDim.x * blockDim.y * blockDim.z) + unsigned(gridstride::thread_rank());
    }
    GRIDSTRIDE_INLINE static void barrier_arrive(int line = __builtin_LINE()) { gridstride::cluster_arrive(line); }
    GRIDSTRIDE_INLINE static void barrier_wait(int line = __builtin_LINE()) { gridstride::cluster_wait(line); }
    GRIDSTRIDE_INLINE static void sync(int line = __builtin_LINE()) { barrier_arrive(line), barrier_wait(line); }
    // Returns the address of the same variable in another block's shared memory.
    template <class T> GRIDSTRIDE_INLINE static T *map_shared_rank(T *p, unsigned rank, int line = __builtin_LINE()) {
        return reinterpret_cast<T *>(gridstride::shared_pointer(
            gridstride::map_shared(gridstride::shared_address(p), rank, line), 1, "map_shared_rank", line));
    }
};
inline cluster_group this_cluster() { return {}; }

template <class G> GRIDSTRIDE_INLINE void sync(const G &group, int line = __builtin_LINE()) { group.sync(line); }
template <class G> auto thread_rank(const G &group) { return group.thread_rank(); }
template <class G> auto group_size(const G &group) { return group.size(); }

// Calls `f(args...)` in one thread of the group; `invoke_one_broadcast` returns its result in all of them.
template <class G, class F, class... A> GRIDSTRIDE_INLINE void invoke_one(const G &group, F &&f, A &&...args) {
    if (group.thread_rank() == 0) f(static_cast<A &&>(args)...);
}
template <class G, class F, class... A>
GRIDSTRIDE_INLINE auto invoke_one_broadcast(const G &group, F &&f, A &&...args)
    -> decltype(f(static_cast<A &&>(args)...)) {
    decltype(f(static_cast<A &&>(args)...)) result{};
    if (group.thread_rank() == 0) result = f(static_cast<A &&>(args)...);
    return group.shfl(result, 0);
}

// An inclusive scan: thread r receives op(... op(value 0, value 1) ..., value r).
template <class G, class T, class F>
GRIDSTRIDE_INLINE auto scan_values(const G &group, T value, F op, int line) -> decltype(op(value, value)) {
    decltype(op(value, value)) r = value;
    for (unsigned d = 1; d < group.size(); d *= 2) {
        const auto left = group.shfl_up(r, d, line);
        if (group.thread_rank() >= d) r = op(left, r);
    }
    return r;
}

// The operators of reduce and scan
#define GRIDSTRIDE_OPERATOR(name, expression) \
    template <class T> struct name { T operator()(T a, T b) const { return T(expression); } };
GRIDSTRIDE_OPERATOR(plus, a + b)
GRIDSTRIDE_OPERATOR(less, b < a ? b : a)
GRIDSTRIDE_OPERATOR(greater, a < b ? b : a)
GRIDSTRIDE_OPERATOR(bit_and, a & b)
GRIDSTRIDE_OPERATOR(bit_or, a | b)
GRIDSTRIDE_OPERATOR(bit_xor, a ^ b)
#undef GRIDSTRIDE_OPERATOR
}
