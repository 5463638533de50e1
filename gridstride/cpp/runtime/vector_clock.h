// Vector clocks, by which racecheck decides whether one access happens before another; if not, and one of the two is a
// write, it is a data race. A thread's clock has, per other thread, the time up to which that one's accesses happen
// before its own. It is a tree over the threads' indices, 32 children per node: lanes, warps of a block, blocks. A
// node's `floor` holds for all threads below it: after a barrier of the block, one time at the block's node replaces
// those of 1024 threads. `includes` goes down from the root and stops at the first `floor` that is late enough; `join`
// is the maximum of two trees. Nodes never change, so that clocks with the same content share them. The simulator has
// the same clock in `sim/order.py`.
#pragma once
#include <algorithm>
#include <stdint.h>
#include <stdlib.h>
#include <unordered_map>
#include <utility>

namespace gridstride {

class VectorClock {
public:
    VectorClock() = default;
    VectorClock(const VectorClock &o) : root(share(o.root)) {}
    VectorClock(VectorClock &&o) noexcept : root(std::exchange(o.root, nullptr)) {}
    VectorClock &operator=(VectorClock o) noexcept {
        std::swap(root, o.root);
        return *this;
    }
    ~VectorClock() { drop(root); }
    explicit operator bool() const { return root; }

    // Does thread `who`'s access at `when` happen before what has this clock?
    bool includes(uint32_t who, uint32_t when) const {
        const Node *n = root;
        if (!n || when >= n->latest || uint64_t(who) >> 5 * (n->level + 1)) return false;
        while (n && when >= n->floor) {
            const Slot *s = n->at(who >> 5 * n->level & 31);
            if (!s || !n->level) return s && when < s->time;
            n = s->child;
        }
        return n;
    }
    // All that `who` did before times[0], its warp before times[1], its block before times[2]
    void add(uint32_t who, const uint32_t (&times)[3]) {
        uint32_t level = 2;
        while (uint64_t(who) >> 5 * (level + 1)) level++;
        lift(std::max(level, root ? root->level : 0));
        Node *with_it = with(root, root ? root->level : level, who, times);
        drop(root);
        root = with_it;
    }
    // The clock of threads of one block, whose first is `first`: times(i) of the i-th thread, or null
    template <class F> static VectorClock of_block(uint32_t first, int from, int to, F times) {
        Slot warps[32];
        uint32_t some = 0, block_floor = 0;
        for (int w = from / 32, count = 0; w * 32 < to; w++) {
            Slot lanes[32];
            uint32_t mask = 0, floor = 0, filled = 0;
            for (int i = std::max(from, w * 32); i < std::min(to, w * 32 + 32); i++)
                if (const uint32_t *t = times(i)) {
                    lanes[filled++].time = t[0], mask |= 1u << i % 32;
                    floor = std::max(floor, t[1]), block_floor = std::max(block_floor, t[2]);
                }
            if (mask) warps[count++].child = make(0, floor, mask, lanes), some |= 1u << w;
        }
        VectorClock k;
        if (some) k.root = make(1, block_floor, some, warps);
        for (uint32_t level = 2; some && (level == 2 || first >> 5 * level); level++) {
            const Slot below = {k.root};
            k.root = make(level, 0, 1u << (first >> 5 * level & 31), &below);
        }
        return k;
    }
    // The pointwise maximum of both clocks: all that happens before either
    void join(const VectorClock &o) {
        if (root == o.root || !o.root) return;
        if (!root) {
            *this = o;
            return;
        }
        VectorClock other = o;
        lift(other.root->level), other.lift(root->level);
        Node *both = joined(root, other.root);
        drop(root);
        root = both;
    }
    bool is(const VectorClock &o) const { return root == o.root; }
    bool includes(const VectorClock &o) const {
        VectorClock both = *this;
        both.join(o);
        return both.root == root;
    }

private:
    struct Node;
    union Slot {
        Node *child;
        uint64_t time;                 // of a lane, at level 0
    };
    struct Node {
        uint32_t users, level, floor, latest, mask;     // latest: of the times in here; mask: of the children
        Slot slots[1];
        int slot_index(uint32_t i) const { return __builtin_popcount(mask & ((1u << i) - 1)); }
        const Slot *at(uint32_t i) const { return mask >> i & 1 ? slots + slot_index(i) : nullptr; }
    };
    Node *root = nullptr;

    static Node *share(Node *n) {
        if (n) n->users++;
        return n;
    }
    static void drop(Node *n) {
        if (!n || --n->users) return;
        for (int i = 0, count = __builtin_popcount(n->mask); n->level && i < count; i++) drop(n->slots[i].child);
        free(n);
    }
    static Node *make(uint32_t level, uint32_t floor, uint32_t mask, const Slot *slots) {
        const int count = __builtin_popcount(mask);
        auto *n = static_cast<Node *>(malloc(sizeof(Node) + sizeof(Slot) * size_t(std::max(count, 1) - 1)));
        if (!n) abort();
        n->users = 1, n->level = level, n->floor = n->latest = floor, n->mask = mask;
        for (int i = 0; i < count; i++) {
            n->slots[i] = slots[i];
            n->latest = std::max(n->latest, level ? slots[i].child->latest : uint32_t(slots[i].time));
        }
        return n;
    }
    void lift(uint32_t level) {        // a taller tree of the same clock
        while (root && root->level < level) {
            const Slot below = {root};
            root = make(root->level + 1, 0, 1, &below);
        }
    }
    static Node *with(const Node *n, uint32_t level, uint32_t who, const uint32_t (&times)[3]) {
        const uint32_t i = who >> 5 * level & 31, old = n ? n->mask : 0, mask = old | 1u << i;
        const uint32_t least = level == 0 ? times[1] : level == 1 ? times[2] : 0;
        Slot slots[32];
        for (uint32_t left = mask, k = 0; left; left &= left - 1, k++) {
            const uint32_t j = uint32_t(__builtin_ctz(left));
            const Slot *s = n ? n->at(j) : nullptr;
            if (level) slots[k].child = j == i ? with(s ? s->child : nullptr, level - 1, who, times) : share(s->child);
            else slots[k].time = std::max(s ? s->time : 0, j == i ? uint64_t(times[0]) : 0);
        }
        return make(level, std::max(n ? n->floor : 0, least), mask, slots);
    }
    // The join of two nodes: one of the two itself, if it includes the other
    static Node *joined(Node *a, Node *b) {
        if (!b || a == b || (a && b->latest <= a->floor)) return share(a);
        if (!a || a->latest <= b->floor) return share(b);
        const uint32_t mask = a->mask | b->mask, floor = std::max(a->floor, b->floor);
        bool is_a = a->mask == mask && a->floor == floor, is_b = b->mask == mask && b->floor == floor;
        Slot slots[32];
        int count = 0;
        for (uint32_t left = mask; left; left &= left - 1, count++) {
            const uint32_t i = uint32_t(__builtin_ctz(left));
            const Slot *x = a->at(i), *y = b->at(i);
            if (a->level) slots[count].child = joined(x ? x->child : nullptr, y ? y->child : nullptr);
            else slots[count].time = std::max(x ? x->time : 0, y ? y->time : 0);
            is_a &= x && (a->level ? slots[count].child == x->child : slots[count].time == x->time);
            is_b &= y && (a->level ? slots[count].child == y->child : slots[count].time == y->time);
        }
        if (!is_a && !is_b) return make(a->level, floor, mask, slots);
        for (int i = 0; a->level && i < count; i++) drop(slots[i].child);
        return share(is_a ? a : b);
    }
};

// What one release of the memory model publishes, and what a barrier hands on: all that happens before it
// (`acquired`); which atomic accesses besides (`strong`); what happened before a fence (of whatever scope; of the
// device's scope); what flags release within some block (`any_block`); and up to when engines are known to have
// completed what each thread, or warpgroup, has requested (`waited`). An acquire joins it to the thread's own. In the
// simulator these clocks are fields of `Order` (`sim/order.py`), in the checked Triton executor there is `ReleaseEvent`
// (`tile/run.py`).
struct SyncState {
    VectorClock acquired, strong, fenced[2], any_block, waited;
    bool any() const { return waited || acquired || strong || any_block || fenced[0] || fenced[1]; }
    void join(const SyncState &o) {
        if (!o.any()) return;
        const bool same = fenced[0].is(fenced[1]) && o.fenced[0].is(o.fenced[1]);
        acquired.join(o.acquired), strong.join(o.strong), any_block.join(o.any_block), waited.join(o.waited);
        fenced[0].join(o.fenced[0]);
        same ? void(fenced[1] = fenced[0]) : fenced[1].join(o.fenced[1]);
    }
};
// What one thread has acquired on its own, without a barrier of its block. loaded: what the flags that it has loaded
// publish within its block, and to all of the device; its next fence acquires it.
struct ThreadView : SyncState {
    VectorClock loaded[2];
    uint32_t fence = 0, stored = 0;    // when its last fence was, and its last volatile write of shared memory
    // its last fence, which `fenced` includes once it is needed: what the thread had acquired, and its own times
    struct {
        bool open, device_scope;
        uint32_t times[3];
        VectorClock acquired;
    } last = {};
    // Most threads have executed fences at most, so most have little to clear.
    void clear() {
        if (any() || loaded[0] || loaded[1]) *this = {};
        else last.acquired = {}, last.open = false, fence = stored = 0;
    }
    void apply_fence(uint32_t me) {
        if (!last.open) return;
        last.open = false;
        last.acquired.add(me, last.times);
        if (last.device_scope) fenced[1] = last.acquired;
        fenced[0] = std::move(last.acquired);
    }
};
// An address that atomics use: what its writers have released since the last plain write.
struct Flag {
    VectorClock device, any_block, waited;              // to all of the device; within some block; as in SyncState
    std::unordered_map<uint32_t, VectorClock> by_block; // within each block
    uint32_t who = 0, when = 0;
    bool fenced = false;               // the last write has a fence before it
};
}
