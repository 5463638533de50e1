// Vector clocks, with which racecheck decides whether one access happens before another. If neither happens before the
// other, and one of them is a write, they are a data race. The clock of a thread has a time per other thread: accesses
// of that thread before this time happen before the next access of the clock's owner.
//
// A clock is a tree over thread indices with 32 children per node: lanes of a warp, warps of a block, blocks. The
// `floor` of a node is a lower bound for the times of all threads below it, so that after a block-wide barrier one time
// at the block's node replaces 1024 times. `includes` descends from the root and stops at the first `floor` that is
// late enough; `join` is the pointwise maximum of two trees. Nodes are immutable, so that clocks share equal subtrees.
// The simulator has the same clock in `sim/order.py`.
#pragma once
#include <algorithm>
#include <stdint.h>
#include <stdlib.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gridstride {

class VectorClock {
public:
    VectorClock() = default;
    VectorClock(const VectorClock &other) : root(share(other.root)) {}
    VectorClock(VectorClock &&other) noexcept : root(std::exchange(other.root, nullptr)) {}
    VectorClock &operator=(VectorClock other) noexcept {
        std::swap(root, other.root);
        return *this;
    }
    ~VectorClock() { release(root); }
    explicit operator bool() const { return root; }

    // Returns whether the access of `thread` at `time` happens before an access with this clock.
    bool includes(uint32_t thread, uint32_t time) const {
        const Node *n = root;
        if (!n || time >= n->latest || uint64_t(thread) >> 5 * (n->level + 1)) return false;
        while (n && time >= n->floor) {
            const Slot *s = n->at(thread >> 5 * n->level & 31);
            if (!s || !n->level) return s && time < s->time;
            n = s->child;
        }
        return n;
    }
    // Adds the accesses of `thread` before times[0], those of its warp before times[1], of its block before times[2].
    void add(uint32_t thread, const uint32_t (&times)[3]) {
        uint32_t level = 2;
        while (uint64_t(thread) >> 5 * (level + 1)) level++;
        add_levels(std::max(level, root ? root->level : 0));
        Node *updated = insert(root, root ? root->level : level, thread, times);
        release(root);
        root = updated;
    }
    // Returns a clock of threads `from` to `to` (exclusive) of the block whose first thread is `first`; times(i)
    // returns the times of thread i, as for `add`, or null to omit the thread.
    template <class F> static VectorClock of_block(uint32_t first, int from, int to, F times) {
        Slot warps[32];
        uint32_t warp_mask = 0, block_floor = 0;
        for (int w = from / 32, count = 0; w * 32 < to; w++) {
            Slot lanes[32];
            uint32_t mask = 0, floor = 0, filled = 0;
            for (int i = std::max(from, w * 32); i < std::min(to, w * 32 + 32); i++)
                if (const uint32_t *t = times(i)) {
                    lanes[filled++].time = t[0], mask |= 1u << i % 32;
                    floor = std::max(floor, t[1]), block_floor = std::max(block_floor, t[2]);
                }
            if (mask) warps[count++].child = make(0, floor, mask, lanes), warp_mask |= 1u << w;
        }
        VectorClock clock;
        if (warp_mask) clock.root = make(1, block_floor, warp_mask, warps);
        for (uint32_t level = 2; warp_mask && (level == 2 || first >> 5 * level); level++) {
            const Slot below = {clock.root};
            clock.root = make(level, 0, 1u << (first >> 5 * level & 31), &below);
        }
        return clock;
    }
    // Returns a clock of all accesses before `time` by the blocks `first` to `end` (exclusive; block = thread / 1024).
    static VectorClock of_blocks(uint32_t first, uint32_t end, uint32_t time) {
        uint32_t level = 2;
        while (uint64_t(end) >> 5 * (level - 1)) level++;
        VectorClock clock;
        clock.root = make_range(level, 0, first, end, time);
        return clock;
    }
    // Makes this clock the pointwise maximum of both.
    void join(const VectorClock &other) {
        if (root == other.root || !other.root) return;
        if (!root) {
            *this = other;
            return;
        }
        VectorClock extended = other;
        add_levels(extended.root->level), extended.add_levels(root->level);
        Node *joined = join_nodes(root, extended.root);
        release(root);
        root = joined;
    }
    // Processes that share memory (peers.cpp): threads with equal bits above the lowest 25 belong to one of them. In
    // `of_process` and `visit_processes`, `threads` is the clock of its threads, whose index has 25 bits.
    static VectorClock of_process(uint32_t number, const VectorClock &threads) {
        VectorClock clock = threads;
        clock.add_levels(process_level);
        for (uint32_t level = process_level + 1; clock.root && level <= process_level + 2; level++) {
            const Slot below = {clock.root};
            clock.root = make(level, 0, 1u << (number >> 5 * (level - process_level - 1) & 31), &below);
        }
        return clock;
    }
    template <class F> void visit_processes(F f) const {
        VectorClock clock = *this;
        clock.add_levels(process_level + 2);
        if (!clock.root) return;
        for (uint32_t high = 0; high < 32; high++)
            if (const Slot *const group = clock.root->at(high))
                for (uint32_t low = 0; low < 32; low++)
                    if (const Slot *const threads = group->child->at(low)) {
                        VectorClock of_threads;
                        of_threads.root = share(threads->child);
                        f(high * 32 + low, of_threads);
                    }
    }
    static VectorClock of_all(uint32_t time) {             // all accesses of a process before `time`
        VectorClock clock;
        clock.root = make(process_level, time, 0, nullptr);
        return clock;
    }
    void write(std::vector<uint32_t> &words) const { write_node(root, words); }
    static VectorClock read(const uint32_t *&words) {
        VectorClock clock;
        clock.root = read_node(words);
        return clock;
    }
    bool shares_root(const VectorClock &other) const { return root == other.root; }
    bool includes(const VectorClock &other) const {
        VectorClock joined = *this;
        joined.join(other);
        return joined.root == root;
    }

private:
    struct Node;
    union Slot {
        Node *child;
        uint64_t time;                 // at level 0: the time of a lane
    };
    struct Node {
        uint32_t references, level, floor, latest, mask;     // latest: the maximum time; mask: which children exist
        Slot slots[1];
        int slot_index(uint32_t i) const { return __builtin_popcount(mask & ((1u << i) - 1)); }
        const Slot *at(uint32_t i) const { return mask >> i & 1 ? slots + slot_index(i) : nullptr; }
    };
    Node *root = nullptr;

    static constexpr uint32_t process_level = 4;
    static void write_node(const Node *n, std::vector<uint32_t> &words) {
        words.insert(words.end(), {n->level, n->floor, n->mask});
        for (int i = 0, count = __builtin_popcount(n->mask); i < count; i++)
            if (n->level) write_node(n->slots[i].child, words);
            else words.push_back(uint32_t(n->slots[i].time));
    }
    static Node *read_node(const uint32_t *&words) {
        const uint32_t level = words[0], floor = words[1], mask = words[2];
        words += 3;
        Slot slots[32];
        for (int i = 0, count = __builtin_popcount(mask); i < count; i++)
            if (level) slots[i].child = read_node(words);
            else slots[i].time = *words++;
        return make(level, floor, mask, slots);
    }
    static Node *share(Node *n) {
        if (n) n->references++;
        return n;
    }
    static void release(Node *n) {
        if (!n || --n->references) return;
        for (int i = 0, count = __builtin_popcount(n->mask); n->level && i < count; i++) release(n->slots[i].child);
        free(n);
    }
    static Node *make(uint32_t level, uint32_t floor, uint32_t mask, const Slot *slots) {
        const int count = __builtin_popcount(mask);
        auto *n = static_cast<Node *>(malloc(sizeof(Node) + sizeof(Slot) * size_t(std::max(count, 1) - 1)));
        if (!n) abort();
        n->references = 1, n->level = level, n->floor = n->latest = floor, n->mask = mask;
        for (int i = 0; i < count; i++) {
            n->slots[i] = slots[i];
            n->latest = std::max(n->latest, level ? slots[i].child->latest : uint32_t(slots[i].time));
        }
        return n;
    }
    // Makes the node at `level` (at least 1) whose first block is `base`, for the blocks `first` to `end` (exclusive).
    static Node *make_range(uint32_t level, uint64_t base, uint32_t first, uint32_t end, uint32_t time) {
        const uint64_t blocks = uint64_t(1) << 5 * (level - 1), step = blocks / 32;
        if (base >= first && base + blocks <= end) return make(level, time, 0, nullptr);
        Slot slots[32];
        uint32_t mask = 0, count = 0;
        for (uint32_t i = 0; i < 32; i++)
            if (base + i * step < end && base + (i + 1) * step > first)
                slots[count++].child = make_range(level - 1, base + i * step, first, end, time), mask |= 1u << i;
        return make(level, 0, mask, slots);
    }
    void add_levels(uint32_t level) {        // adds levels above the root; the clock stays the same
        while (root && root->level < level) {
            const Slot below = {root};
            root = make(root->level + 1, 0, 1, &below);
        }
    }
    static Node *insert(const Node *n, uint32_t level, uint32_t thread, const uint32_t (&times)[3]) {
        const uint32_t i = thread >> 5 * level & 31, old = n ? n->mask : 0, mask = old | 1u << i;
        const uint32_t min_floor = level == 0 ? times[1] : level == 1 ? times[2] : 0;
        Slot slots[32];
        for (uint32_t remaining = mask, k = 0; remaining; remaining &= remaining - 1, k++) {
            const uint32_t j = uint32_t(__builtin_ctz(remaining));
            const Slot *s = n ? n->at(j) : nullptr;
            if (level && j == i) slots[k].child = insert(s ? s->child : nullptr, level - 1, thread, times);
            else if (level) slots[k].child = share(s->child);
            else slots[k].time = std::max(s ? s->time : 0, j == i ? uint64_t(times[0]) : 0);
        }
        return make(level, std::max(n ? n->floor : 0, min_floor), mask, slots);
    }
    // Returns the join of two nodes, which is one of the two itself if it includes the other.
    static Node *join_nodes(Node *a, Node *b) {
        if (!b || a == b || (a && b->latest <= a->floor)) return share(a);
        if (!a || a->latest <= b->floor) return share(b);
        const uint32_t mask = a->mask | b->mask, floor = std::max(a->floor, b->floor);
        bool is_a = a->mask == mask && a->floor == floor, is_b = b->mask == mask && b->floor == floor;
        Slot slots[32];
        int count = 0;
        for (uint32_t remaining = mask; remaining; remaining &= remaining - 1, count++) {
            const uint32_t i = uint32_t(__builtin_ctz(remaining));
            const Slot *x = a->at(i), *y = b->at(i);
            if (a->level) slots[count].child = join_nodes(x ? x->child : nullptr, y ? y->child : nullptr);
            else slots[count].time = std::max(x ? x->time : 0, y ? y->time : 0);
            is_a &= x && (a->level ? slots[count].child == x->child : slots[count].time == x->time);
            is_b &= y && (a->level ? slots[count].child == y->child : slots[count].time == y->time);
        }
        if (!is_a && !is_b) return make(a->level, floor, mask, slots);
        for (int i = 0; a->level && i < count; i++) release(slots[i].child);
        return share(is_a ? a : b);
    }
};

// The scopes that contain other threads: block, device, system. Their levels are array indices.
constexpr int block_level = 0, device_level = 1, system_level = 2, scope_levels = 3;

// The state that a release or a barrier publishes, as vector clocks. `acquired`: all accesses that happen before it;
// `strong`: further accesses that do, all atomic; `fenced`: accesses before the last fence, [0] of any scope, [1] of
// device scope or wider, [2] of system scope; `any_scope`: accesses that flags release in any scope; `waited`: per
// thread or warpgroup, the time up to which the engines have completed its requests. An acquire joins the published
// state to that of the thread.
// The simulator has the same clocks in `Order` (`sim/order.py`), the checked Triton executor in `ReleaseEvent`
// (`tile/run.py`).
struct SyncState {
    VectorClock acquired, strong, fenced[scope_levels], any_scope, waited;
    bool any() const { return waited || acquired || strong || any_scope || fenced[0] || fenced[1]; }
    void join(const SyncState &other) {
        if (!other.any()) return;
        const bool are_same = fenced[0].shares_root(fenced[1]) && other.fenced[0].shares_root(other.fenced[1]);
        acquired.join(other.acquired), strong.join(other.strong);
        any_scope.join(other.any_scope), waited.join(other.waited);
        fenced[0].join(other.fenced[0]);
        are_same ? void(fenced[1] = fenced[0]) : fenced[1].join(other.fenced[1]);
        fenced[2].join(other.fenced[2]);
    }
};
// The state that a thread has acquired by itself, not by a block-wide barrier. `loaded`: the accesses that flags have
// released before the thread loaded them, [0] within its block, [1] to the device, [2] to the system; the next fence of
// the thread with that scope or a wider one acquires them.
struct ThreadView : SyncState {
    VectorClock loaded[scope_levels];
    uint32_t fence_time = 0;           // the time of its last fence
    uint32_t store_time = 0;           // the time of its last volatile store to shared memory
    const void *polled = nullptr;      // the last volatile load of memory that processes share
    // The last fence: the times of the thread, and the accesses that the thread had acquired. `apply_fence` adds them
    // to `fenced` before `fenced` is read.
    struct {
        bool is_pending;
        int level;
        uint32_t times[3];
        VectorClock acquired;
    } last_fence = {};
    // Resets only what is set: most threads have acquired nothing.
    void clear() {
        if (any() || loaded[0] || loaded[1] || loaded[2]) *this = {};
        else last_fence.acquired = {}, last_fence.is_pending = false, fence_time = store_time = 0;
    }
    void apply_fence(uint32_t thread) {
        if (!last_fence.is_pending) return;
        last_fence.is_pending = false;
        last_fence.acquired.add(thread, last_fence.times);
        for (int level = 1; level <= last_fence.level; level++) fenced[level] = last_fence.acquired;
        fenced[0] = std::move(last_fence.acquired);
    }
};
// An address that atomic operations access, and the state that its writers have released since the last plain write.
struct Flag {
    VectorClock device, system;                         // released to device 0, and to the system
    VectorClock any_scope, waited;                      // as in SyncState
    std::vector<VectorClock> other_devices;             // released to device 1, 2, ...
    std::unordered_map<uint32_t, VectorClock> by_block; // released within one block
    uint32_t thread = 0, time = 0;
    bool is_fenced = false;            // whether there was a fence before the last write
    uint32_t version = 0;              // of its record for other processes (peers.cpp); 0: none
    VectorClock &of_device(uint32_t index) {
        if (!index) return device;
        if (other_devices.size() < index) other_devices.resize(index);
        return other_devices[index - 1];
    }
};
}
