// What orders two accesses: barriers, fences, launches, and an atomic that others have seen.
#include "detector.h"

namespace gridstride {

void Detector::begin_block(Worker &worker) {
    if (!on) return;
    w = &worker;
    memset(fenced, 0, sizeof fenced);
    memset(acquired, 0, sizeof acquired);
    memset(engines_see, 0, sizeof engines_see);
    memset(engines_see_warp, 0, sizeof engines_see_warp);
    engines_see_block = 0, used_by_others = {}, suspicion.cell = nullptr;
    memset(waited, 0, sizeof waited);
    any_acquired = false;
    partial.clear();
    for (auto &c : copies) {                // of the block before, or of a launch that was ended
        for (auto &o : c.open) landed(o);
        c.open.clear(), c.group = 0;
    }
    block_start = block_floor = ++now;
    for (auto &f : warp_floor) f = now;
}

void Detector::block_barrier(Worker &worker) {
    if (!on) return;
    judge();
    block_floor = ++now;
    if (!any_acquired) return;
    uint32_t most = 0, known = 0;
    for (int i = 0; i < worker.n; i++) most = std::max(most, acquired[i]), known = std::max(known, waited[i]);
    for (int i = 0; i < worker.n; i++) acquired[i] = most, waited[i] = known;
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
    if (!any_acquired) return;
    uint32_t most = 0, known = 0;
    for (int i = warp * 32, l = 0; l < 32; l++, i++)
        if (lanes >> l & 1) most = std::max(most, acquired[i]), known = std::max(known, waited[i]);
    for (int i = warp * 32, l = 0; l < 32; l++, i++)
        if (lanes >> l & 1) acquired[i] = most, waited[i] = known;
}

// A thread's fence.proxy.async: for what it wrote, and for what others wrote that is in order before it.
void Detector::fence_engines() {
    const uint32_t rank = me % max_threads, warp = rank / 32;
    engines_see[rank] = ++now;
    engines_see_warp[warp] = std::max(engines_see_warp[warp], warp_floor[warp]);
    engines_see_block = std::max(engines_see_block, std::max(block_floor, acquired[rank]));
}
bool Detector::engines_saw(const Access &a) const {
    if (a.when < block_start || is_engine(a)) return true;
    const BlockClock *home = this;
    for (const Worker *b : w->leader->cluster)
        if (b != w && b->block + 1 == a.who / max_threads) home = b->clock;
    const uint32_t rank = a.who % max_threads;
    return a.when < std::max({home->engines_see[rank], home->engines_see_warp[rank / 32], home->engines_see_block,
                        engines_see[me % max_threads]});
}

void Detector::atomic(
    Worker &worker, const void *address, int bytes, Use use, gridstride::Scope scope, Order order, uint32_t at) {
    const int rank = worker.rank[worker.current];
    const bool writes = use != Use::load;
    const bool released_here = order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
    if (writes && (fenced[rank] || released_here)) {
        Release &r = released[address];
        const bool narrow = released_here && !fenced[rank] ? scope == gridstride::Scope::block
                                                           : fenced[rank] & line_bit && !released_here;
        ++now;
        if (narrow) r.block_scope = now, r.block = worker.block;
        else r.device = now;
        r.waited = std::max(r.waited, waited[rank]);
    }
    if (auto r = released.find(address); r != released.end()) {
        acquire(rank, r->second.device), knows(rank, r->second.waited);
        if (r->second.block == worker.block) acquire(rank, r->second.block_scope);
    }
    const uint32_t where =
        atomic_bit | (scope == gridstride::Scope::block || scope == gridstride::Scope::thread ? narrow_bit : 0) | at;
    if (use != Use::store) access(reinterpret_cast<uintptr_t>(address), unsigned(bytes), false, where);
    if (writes) access(reinterpret_cast<uintptr_t>(address), unsigned(bytes), true, where);
    ++now;
}
}
