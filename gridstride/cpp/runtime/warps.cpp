// Warp operations: shuffles, votes, __syncwarp, and collectives such as mma, which all lanes execute together.
#include <string.h>
#include "detector.h"
#include "synccheck.h"
#include "threads.h"
#include "undefined.h"

namespace gridstride {

// Have all lanes arrived that lane `l` waits for? Then makes them ready.
bool Worker::try_warp(Warp &p, int l) {
    const bool is_collective = p.op[l] == 2;
    const uint32_t expected = is_collective ? ~0u : p.mask[l] & p.exists & ~p.finished;
    if (expected & ~p.arrived) return false;
    const int first = int(&p - warps) * 32;
    for (uint32_t left = expected; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        if (p.mask[i] != p.mask[l] || p.op[i] != p.op[l] ||
            (is_collective && (p.collective[i] != p.collective[l] || line[first + i] != line[first + l])))
            return false;
    }
    if (is_collective) {
        void *all[32];
        for (int i = 0; i < 32; i++) memcpy(&all[i], p.operand[i], sizeof *all);
        p.collective[l](all);
        for (int i = 0; i < 32; i++) state[slot[first + i]] = ready;
        p.arrived = 0;
        return true;
    }
    WarpExchange *x = p.exchange;
    while (x->readers) x++;
    x->readers = p.op[l] ? __builtin_popcount(expected) : 0;
    x->undefined = undefined_in(first / 32);
    for (uint32_t left = expected; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        if (p.op[l]) memcpy(x->slot[i], p.operand[i], 16), p.exchange_of[i] = x;
        p.group[i] = expected;
        state[slot[first + i]] = ready;
    }
    p.arrived &= ~expected;
    if (!p.op[l]) detector.warp_barrier(*this, int(&p - warps), expected);
    return true;
}

static void begin_warps(Worker &w) {
    if (w.uses_warps) return;
    w.uses_warps = true;
    for (int i = 0; i < (w.num_threads + 31) / 32; i++) {
        Warp &p = w.warps[i];
        p.exists = w.num_threads - 32 * i >= 32 ? ~0u : (1u << (w.num_threads - 32 * i)) - 1;
        p.finished = p.arrived = 0;
        for (int l = 0; l < 32; l++) {
            p.exchange_of[l] = nullptr;
            const int r = 32 * i + l;
            if (r < w.num_threads && w.slot[r] < w.next && w.state[w.slot[r]] == done) p.finished |= 1u << l;
        }
        for (auto &x : p.exchange) x.readers = 0;
    }
}

// The current lane arrives at a warp operation, and waits for the others; returns the mask of its lanes. `all` receives
// the address of the lanes' values.
static inline unsigned warp_operation(
    unsigned mask, int op, const void *mine, int bytes, int line, const void **all = nullptr) {
    Worker &w = *worker;
    begin_warps(w);
    const int r = current_rank(), l = r % 32;
    Warp &p = w.warps[r / 32];
    if (p.exchange_of[l]) p.exchange_of[l]->readers--, p.exchange_of[l] = nullptr;
    if (!(mask >> l & 1)) report_wrong_mask(w, mask, line);
    if (__builtin_expect(w.is_undefined(r), 0) && bytes > 1 && !shows_undefined(mine, bytes))
        w.undefined[r / 32] &= ~(1u << l);
    if (bytes) memcpy(p.operand[l], mine, size_t(bytes));
    p.mask[l] = mask, p.op[l] = uint8_t(op), p.arrived |= 1u << l;
    w.line[r] = line;
    w.state[w.current] = in_warp;
    detector.finish_pending_writes();
    if (!w.try_warp(p, l)) w.switch_threads();
    if (all) *all = p.exchange_of[l]->slot;
    return p.group[l];
}

void sync_warp(unsigned mask, int line) { warp_operation(mask, 0, nullptr, 0, line); }
unsigned warp_exchange(unsigned mask, const void *mine, int bytes, const void *&all, int line) {
    return warp_operation(mask, 1, mine, bytes, line, &all);
}
void run_for_warp(const char *what, void *mine, void (*f)(void *const *), int line) {
    Worker &w = *worker;
    begin_warps(w);
    Warp &p = w.warps[current_rank() / 32];
    p.instruction[lane()] = what, p.collective[lane()] = f;
    warp_operation(~0u, 2, &mine, sizeof mine, line);
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
