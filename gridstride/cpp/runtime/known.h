// What a thread knows of the others: up to when the accesses of each are ordered before its own. A vector clock, as a
// tree over the threads' numbers, 32 below each node: lanes, warps of a block, blocks. A node's `floor` holds for all
// below it. Nodes never change, so that those who know the same share them.
#pragma once
#include <algorithm>
#include <stdint.h>
#include <stdlib.h>
#include <unordered_map>
#include <utility>

namespace gridstride {

class Known {
public:
    Known() = default;
    Known(const Known &o) : root(share(o.root)) {}
    Known(Known &&o) noexcept : root(std::exchange(o.root, nullptr)) {}
    Known &operator=(Known o) noexcept {
        std::swap(root, o.root);
        return *this;
    }
    ~Known() { drop(root); }
    explicit operator bool() const { return root; }

    // Is what thread `who` did at `when` in here?
    bool covers(uint32_t who, uint32_t when) const {
        const Node *n = root;
        if (!n || when >= n->most || uint64_t(who) >> 5 * (n->level + 1)) return false;
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
    // The same of threads of one block, whose first is `first`: times(i) of the i-th, or null
    template <class F> static Known of_block(uint32_t first, int from, int to, F times) {
        Slot warps[32];
        uint32_t some = 0, block_floor = 0;
        for (int w = from / 32, count = 0; w * 32 < to; w++) {
            Slot lanes[32];
            uint32_t mask = 0, floor = 0, known = 0;
            for (int i = std::max(from, w * 32); i < std::min(to, w * 32 + 32); i++)
                if (const uint32_t *t = times(i)) {
                    lanes[known++].time = t[0], mask |= 1u << i % 32;
                    floor = std::max(floor, t[1]), block_floor = std::max(block_floor, t[2]);
                }
            if (mask) warps[count++].child = make(0, floor, mask, lanes), some |= 1u << w;
        }
        Known k;
        if (some) k.root = make(1, block_floor, some, warps);
        for (uint32_t level = 2; some && (level == 2 || first >> 5 * level); level++) {
            const Slot below = {k.root};
            k.root = make(level, 0, 1u << (first >> 5 * level & 31), &below);
        }
        return k;
    }
    void add(const Known &o) {
        if (root == o.root || !o.root) return;
        if (!root) {
            *this = o;
            return;
        }
        Known other = o;
        lift(other.root->level), other.lift(root->level);
        Node *both = merged(root, other.root);
        drop(root);
        root = both;
    }
    bool is(const Known &o) const { return root == o.root; }
    bool holds(const Known &o) const {
        Known both = *this;
        both.add(o);
        return both.root == root;
    }

private:
    struct Node;
    union Slot {
        Node *child;
        uint64_t time;                 // of a lane, where the level is 0
    };
    struct Node {
        uint32_t users, level, floor, most, mask;     // most: the latest time in here; mask: which of the 32 there are
        Slot slots[1];
        int place(uint32_t i) const { return __builtin_popcount(mask & ((1u << i) - 1)); }
        const Slot *at(uint32_t i) const { return mask >> i & 1 ? slots + place(i) : nullptr; }
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
        n->users = 1, n->level = level, n->floor = n->most = floor, n->mask = mask;
        for (int i = 0; i < count; i++) {
            n->slots[i] = slots[i];
            n->most = std::max(n->most, level ? slots[i].child->most : uint32_t(slots[i].time));
        }
        return n;
    }
    void lift(uint32_t level) {        // a taller tree of the same
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
    // What is in one of them or the other; one of the two itself, if it has all of the other's
    static Node *merged(Node *a, Node *b) {
        if (!b || a == b || (a && b->most <= a->floor)) return share(a);
        if (!a || a->most <= b->floor) return share(b);
        const uint32_t mask = a->mask | b->mask, floor = std::max(a->floor, b->floor);
        bool is_a = a->mask == mask && a->floor == floor, is_b = b->mask == mask && b->floor == floor;
        Slot slots[32];
        int count = 0;
        for (uint32_t left = mask; left; left &= left - 1, count++) {
            const uint32_t i = uint32_t(__builtin_ctz(left));
            const Slot *x = a->at(i), *y = b->at(i);
            if (a->level) slots[count].child = merged(x ? x->child : nullptr, y ? y->child : nullptr);
            else slots[count].time = std::max(x ? x->time : 0, y ? y->time : 0);
            is_a &= x && (a->level ? slots[count].child == x->child : slots[count].time == x->time);
            is_b &= y && (a->level ? slots[count].child == y->child : slots[count].time == y->time);
        }
        if (!is_a && !is_b) return make(a->level, floor, mask, slots);
        for (int i = 0; a->level && i < count; i++) drop(slots[i].child);
        return share(is_a ? a : b);
    }
};

// What barriers hand on: what is ordered before; of which atomic accesses beside these; what was ordered before a fence
// (of whatever scope, of the device's); what flags publish within some block; and up to when engines are known to have
// done what each thread, or warpgroup, has asked them for.
struct Told {
    Known known, strong, fenced[2], narrow, waited;
    bool any() const { return waited || known || strong || narrow || fenced[0] || fenced[1]; }
    void add(const Told &o) {
        if (!o.any()) return;
        const bool same = fenced[0].is(fenced[1]) && o.fenced[0].is(o.fenced[1]);
        known.add(o.known), strong.add(o.strong), narrow.add(o.narrow), waited.add(o.waited);
        fenced[0].add(o.fenced[0]);
        same ? void(fenced[1] = fenced[0]) : fenced[1].add(o.fenced[1]);
    }
};
// What one thread has been told beside its block. seen: what the flags that it has read publish within its block, to
// all of the device; a fence makes it known.
struct Sight : Told {
    Known seen[2];
    uint32_t fence = 0, stored = 0;    // when its last fence was, and its last volatile write of shared memory
    // its last fence, which `fenced` has as soon as somebody asks: what was known, and its own times
    struct {
        bool open, wide;
        uint32_t times[3];
        Known known;
    } last = {};
    // Nothing is left of it; most threads have called fences at most.
    void clear() {
        if (any() || seen[0] || seen[1]) *this = {};
        else last.known = {}, last.open = false, fence = stored = 0;
    }
    void enter_fence(uint32_t me) {
        if (!last.open) return;
        last.open = false;
        last.known.add(me, last.times);
        if (last.wide) fenced[1] = last.known;
        fenced[0] = std::move(last.known);
    }
};
// A place that is used atomically: what its writers have published, since the last plain write.
struct Flag {
    Known wide, any, waited;                           // to all of the device; within some block; as in Told
    std::unordered_map<uint32_t, Known> near;          // within each
    uint32_t who = 0, when = 0;
    bool fenced = false;               // the last write has a fence before it
};
}
