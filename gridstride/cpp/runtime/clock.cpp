// What makes one access happen before another: barriers, fences, launches, and atomics that release and acquire.
//
// `now` counts such events, and each access is stored with the `now` at which it was made. A barrier of the block sets
// `block_synced` to a new `now`: an access of the block with an earlier time happens before all that follows. So the
// order by barriers is one comparison of two integers (`happens_before`, detector.h); `warp_synced` is the same per
// warp, `partial` for barriers of some lanes, `launch_start` for launches and the grid's barrier. Only what a thread
// has acquired by a flag or an mbarrier needs a vector clock (vector_clock.h).
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
    if (any_acquired) {
        views.clear();
        all = {};
        any_acquired = acquired_since_barrier = false;
    }
    partial.clear();
    for (auto &products : products_over) products.clear();
    for (auto &c : copies) {                // of the block before, or of a launch that was ended
        for (auto &open_copy : c.open) landed(open_copy);
        c.open.clear(), c.group = 0;
    }
    block_start = block_synced = ++now;
    for (auto &f : warp_synced) f = now;
}

// A barrier of the block counts as the fence after the loads of flags: it acquires what its threads have loaded.
void Detector::block_barrier(Worker &worker) {
    if (!on) return;
    judge(unwritten);
    forget_undefined(worker);
    block_synced = ++now;
    if (!acquired_since_barrier) return;
    all.join(join_views(0, int(views.size())));
    for (ThreadView &s : views) {
        for (const VectorClock &k : s.loaded) all.acquired.join(k);
        s.clear();
    }
    acquired_since_barrier = false;
}

void Detector::warp_barrier(Worker &worker, int warp, uint32_t lanes) {
    if (!on) return;
    ++now;
    const Warp &p = worker.warps[warp];
    if (lanes == (p.exists & ~p.finished)) warp_synced[warp] = now;
    else {
        partial.resize(size_t(max_threads) * 32, 0);
        uint32_t latest[32] = {};
        for (int l = 0; l < 32; l++)
            if (lanes >> l & 1)
                for (int k = 0; k < 32; k++)
                    latest[k] = std::max({lanes >> k & 1 ? now : 0u, latest[k],
                        partial[size_t(warp * 32 + l) * 32 + size_t(k)]});
        for (int l = 0; l < 32; l++)
            if (lanes >> l & 1) memcpy(&partial[size_t(warp * 32 + l) * 32], latest, sizeof latest);
    }
    if (!acquired_since_barrier) return;
    const SyncState joined = join_views(warp * 32, warp * 32 + 32, lanes);
    for (int l = 0; l < 32; l++)
        if (lanes >> l & 1) static_cast<SyncState &>(views[size_t(warp * 32 + l)]) = joined;
}

// A thread's fence.proxy.async: for what it wrote, and for what others wrote that is in order before it.
void Detector::fence_engines() {
    const uint32_t rank = me % max_threads, warp = rank / 32;
    engines_see[rank] = ++now;
    engines_see_warp[warp] = std::max(engines_see_warp[warp], warp_synced[warp]);
    engines_see_block = std::max(engines_see_block, block_synced);
    if (any_acquired) engines_see_others.join(all.acquired), engines_see_others.join(views[rank].acquired);
}
bool Detector::engines_saw(const Access &a) const {
    if (a.when < block_start || is_engine(a)) return true;
    const BlockClock *home = this;
    for (const Worker *b : w->leader->cluster)
        if (b != w && b->block + 1 == a.who / max_threads) home = b->clock;
    const uint32_t rank = a.who % max_threads;
    return home->engines_see_others.includes(a.who, a.when) ||
           a.when < std::max({home->engines_see[rank], home->engines_see_warp[rank / 32], home->engines_see_block,
                        engines_see[me % max_threads]});
}
}
