// What orders two accesses: barriers, fences, launches, and an atomic that others have seen.
#include "detector.h"
#include "undefined.h"

namespace gridstride {

void Detector::begin_block(Worker &worker) {
    if (!on) return;
    w = &worker;
    memset(engines_see, 0, sizeof engines_see);
    memset(engines_see_warp, 0, sizeof engines_see_warp);
    engines_see_block = 0, used_by_others = {}, barrier_line = 0;
    unwritten.reset();
    engines_see_others = {};
    if (told) {
        sights.clear();
        all = {};
        told = fresh = false;
    }
    partial.clear();
    for (auto &o : products_over) o.clear();
    for (auto &c : copies) {                // of the block before, or of a launch that was ended
        for (auto &o : c.open) landed(o);
        c.open.clear(), c.group = 0;
    }
    block_start = block_floor = ++now;
    for (auto &f : warp_floor) f = now;
}

// A barrier of the block counts as the fence behind the flags that its threads have read.
void Detector::block_barrier(Worker &worker) {
    if (!on) return;
    judge(unwritten);
    forget_undefined(worker);
    block_floor = ++now;
    if (!fresh) return;
    all.add(met(0, int(sights.size())));
    for (Sight &s : sights) {
        for (const Known &k : s.seen) all.known.add(k);
        s.clear();
    }
    fresh = false;
}

void Detector::warp_barrier(Worker &worker, int warp, uint32_t lanes) {
    if (!on) return;
    ++now;
    const Warp &p = worker.warps[warp];
    if (lanes == (p.exists & ~p.finished)) warp_floor[warp] = now;
    else {
        partial.resize(size_t(max_threads) * 32, 0);
        uint32_t most[32] = {};
        for (int l = 0; l < 32; l++)
            if (lanes >> l & 1)
                for (int k = 0; k < 32; k++)
                    most[k] = std::max(
                        lanes >> k & 1 ? now : 0u, std::max(most[k], partial[size_t(warp * 32 + l) * 32 + size_t(k)]));
        for (int l = 0; l < 32; l++)
            if (lanes >> l & 1) memcpy(&partial[size_t(warp * 32 + l) * 32], most, sizeof most);
    }
    if (!fresh) return;
    const Told told = met(warp * 32, warp * 32 + 32, lanes);
    for (int l = 0; l < 32; l++)
        if (lanes >> l & 1) static_cast<Told &>(sights[size_t(warp * 32 + l)]) = told;
}

// A thread's fence.proxy.async: for what it wrote, and for what others wrote that is in order before it.
void Detector::fence_engines() {
    const uint32_t rank = me % max_threads, warp = rank / 32;
    engines_see[rank] = ++now;
    engines_see_warp[warp] = std::max(engines_see_warp[warp], warp_floor[warp]);
    engines_see_block = std::max(engines_see_block, block_floor);
    if (told) engines_see_others.add(all.known), engines_see_others.add(sights[rank].known);
}
bool Detector::engines_saw(const Access &a) const {
    if (a.when < block_start || is_engine(a)) return true;
    const BlockClock *home = this;
    for (const Worker *b : w->leader->cluster)
        if (b != w && b->block + 1 == a.who / max_threads) home = b->clock;
    const uint32_t rank = a.who % max_threads;
    return home->engines_see_others.covers(a.who, a.when) ||
           a.when < std::max({home->engines_see[rank], home->engines_see_warp[rank / 32], home->engines_see_block,
                        engines_see[me % max_threads]});
}
}
