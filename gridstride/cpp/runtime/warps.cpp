// What the lanes of a warp do together.
#include <algorithm>
#include <string.h>
#include "detector.h"
#include "synccheck.h"
#include "threads.h"

namespace gridstride {

// Are all the lanes there that `lane` waits for? Then they go on.
bool Worker::try_warp(Warp &p, int l) {
    const bool together = p.op[l] == 2;
    const uint32_t wanted = together ? ~0u : p.mask[l] & p.exists & ~p.finished;
    if (wanted & ~p.arrived) return false;
    const int first = int(&p - warps) * 32;
    for (uint32_t left = wanted; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        if (p.mask[i] != p.mask[l] || p.op[i] != p.op[l] ||
            (together && (p.f[i] != p.f[l] || line[first + i] != line[first + l])))
            return false;
    }
    if (together) {
        void *all[32];
        for (int i = 0; i < 32; i++) memcpy(&all[i], p.given[i], sizeof *all);
        p.f[l](all);
        for (int i = 0; i < 32; i++) state[slot[first + i]] = ready;
        p.arrived = 0;
        return true;
    }
    WarpExchange *x = p.exchange;
    while (x->readers) x++;
    x->readers = p.op[l] ? __builtin_popcount(wanted) : 0;
    x->undefined = p.undefined;
    for (uint32_t left = wanted; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        if (p.op[l]) memcpy(x->slot[i], p.given[i], 16), p.got[i] = x;
        p.group[i] = wanted;
        state[slot[first + i]] = ready;
    }
    p.arrived &= ~wanted;
    if (!p.op[l]) detector.warp_barrier(*this, int(&p - warps), wanted);
    return true;
}

static void begin_warps(Worker &w) {
    if (w.warps_used) return;
    w.warps_used = true;
    for (int i = 0; i < (w.n + 31) / 32; i++) {
        Warp &p = w.warps[i];
        p.exists = w.n - 32 * i >= 32 ? ~0u : (1u << (w.n - 32 * i)) - 1;
        p.finished = p.arrived = p.undefined = 0;
        for (int l = 0; l < 32; l++) {
            p.got[l] = nullptr;
            const int r = 32 * i + l;
            if (r < w.n && w.slot[r] < w.next && w.state[w.slot[r]] == done) p.finished |= 1u << l;
        }
        for (auto &x : p.exchange) x.readers = 0;
    }
}

// Was it computed from `undefined_byte`? As a float such a value is about 1e33, and so are sums, products and maxima of
// it. As an integer it is a multiple of 0x01010101, and so are sums, but for what was added. Few floats look like one.
template <class T> static bool is_garbage(T value) {
    const int top = int(value >> (8 * sizeof(T) - 8)), exponent = top & 0x7f;
    if (exponent >= 0x74 && exponent < 0x7c) return true;
    if (sizeof(T) == 2 || top == 0 || top == 0xff) return false;
    const T equal_bytes = T(~T(0) / 0xff), most = exponent > 0x20 && exponent < 0x60 ? 1 << 12 : 1 << 15;
    return T(value - T(top) * equal_bytes + most) < 2 * most || T(value - T(top + 1) * equal_bytes + most) < 2 * most;
}
template <class T> static bool has_garbage(const char *value, int bytes) {
    for (T part; bytes >= int(sizeof part); value += sizeof part, bytes -= int(sizeof part)) {
        memcpy(&part, value, sizeof part);
        if (is_garbage(part)) return true;
    }
    return false;
}
// A byte tells nothing.
bool comes_from_absent(const void *value, int bytes) {
    const auto *v = static_cast<const char *>(value);
    return bytes % 8 == 0   ? has_garbage<uint64_t>(v, bytes)
           : bytes % 4 == 0 ? has_garbage<uint32_t>(v, bytes)
                            : has_garbage<uint16_t>(v, bytes);
}
static Code why_absent(const Warp &p, int from, int reader) {
    return !(p.exists >> from & 1)         ? Code::apart_absent
           : !(p.mask[reader] >> from & 1) ? Code::not_in_mask
           : p.finished >> from & 1        ? Code::apart_returned
                                           : Code::apart_elsewhere;
}
// The sign alternates, so that neither a maximum nor a minimum hides them all.
int undefined_byte(int from, int line) {
    Worker &w = *worker;
    if (!detector.on || !checks(synccheck)) return -1;
    const int r = current_rank(), l = r % 32;
    Warp &p = w.warps[r / 32];
    const bool present = p.group[l] >> from & 1;
    if (from == l || (present && p.undefined >> l & 1)) return -1;
    p.origin[l] = present ? p.origin[from] : UndefinedValue{line, from, why_absent(p, from, l)};
    p.undefined |= 1u << l;
    w.values_undefined = detector.pending.active = true;
    return !present && w.undefined_reads++ % 2 ? 0xf6 : 0x76;
}

static unsigned meet(unsigned mask, int op, const void *mine, int bytes, int line) {
    Worker &w = *worker;
    begin_warps(w);
    const int r = current_rank(), l = r % 32;
    Warp &p = w.warps[r / 32];
    if (p.got[l]) p.got[l]->readers--, p.got[l] = nullptr;
    if (!(mask >> l & 1)) wrong_mask(w, mask, line);
    if (__builtin_expect(p.undefined >> l & 1, 0) && bytes > 1 && !comes_from_absent(mine, bytes))
        p.undefined &= ~(1u << l);
    if (bytes) memcpy(p.given[l], mine, size_t(bytes));
    p.mask[l] = mask, p.op[l] = uint8_t(op), p.arrived |= 1u << l;
    w.line[r] = line;
    w.state[w.current] = in_warp;
    detector.settle();
    if (!w.try_warp(p, l)) w.await_turn();
    return p.group[l];
}

void sync_warp(unsigned mask, int line) { meet(mask, 0, nullptr, 0, line); }
unsigned warp_exchange(unsigned mask, const void *mine, int bytes, const void *&all, int line) {
    const unsigned group = meet(mask, 1, mine, bytes, line);
    const int r = current_rank();
    all = worker->warps[r / 32].got[r % 32]->slot;
    return group;
}
void warp_together(const char *what, void *mine, void (*f)(void *const *), int line) {
    Worker &w = *worker;
    begin_warps(w);
    Warp &p = w.warps[current_rank() / 32];
    p.what[lane()] = what, p.f[lane()] = f;
    meet(~0u, 2, &mine, sizeof mine, line);
}
unsigned active_mask(int line) {
    Worker &w = *worker;
    begin_warps(w);
    const int r = current_rank();
    w.line[r] = line;
    w.wait(at_active_mask);
    return w.warps[r / 32].group[r % 32];
}
}
