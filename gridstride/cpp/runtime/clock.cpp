// The logical clock of racecheck, which advances at barriers, fences and launches.
//
// `now` counts these events, and each access is stored with the current value of `now`, its time. A block-wide barrier
// sets `block_synced` to a new `now`: all accesses of the block with an earlier time happen before later accesses. So
// whether a barrier orders two accesses takes one comparison of integers (`happens_before`, detector.h). `warp_synced`
// is the corresponding time per warp, `lanes_synced` per pair of lanes, for barriers of part of a warp, and
// `launch_start` for launches and grid barriers. Only accesses that a thread acquires through a flag or an mbarrier
// require a vector clock (vector_clock.h).
#include "detector.h"
#include "undefined.h"

namespace gridstride {

void Detector::begin_block(Worker &worker) {
    if (!is_enabled) return;
    w = &worker;
    memset(proxy_fenced, 0, sizeof proxy_fenced);
    memset(proxy_fenced_warp, 0, sizeof proxy_fenced_warp);
    proxy_fenced_block = 0, last_cluster_access = {}, barrier_line = 0;
    uninitialized_read.reset();
    proxy_fenced_clock = {};
    if (any_acquired) {
        views.clear();
        block_view = {};
        any_acquired = acquired_since_barrier = false;
    }
    lanes_synced.clear();
    for (auto &times : mma_groups_completed) times.clear();
    for (auto &issued : issued_with_registers) issued.clear();
    for (auto &queue : copies) {                // left by the previous block or an aborted launch
        for (auto &copy : queue.pending) complete_copy(copy);
        queue.pending.clear(), queue.group = 0;
    }
    block_start = block_synced = ++now;
    discard_read_tags();
    forget_ranges(), ranges.generation++;
    for (auto &time : warp_synced) time = now;
}

// Records a block-wide barrier. It is also an acquire fence: all threads of the block acquire what others released
// through the flags that any of them has loaded.
void Detector::block_barrier(Worker &worker) {
    if (!is_enabled) return;
    report_uninitialized(uninitialized_read);
    discard_undefined(worker);
    block_synced = ++now;
    discard_read_tags();
    forget_ranges();
    if (!acquired_since_barrier) return;
    block_view.join(join_views(0, int(views.size())));
    for (ThreadView &view : views) {
        for (const VectorClock &released : view.loaded) block_view.acquired.join(released);
        view.clear();
    }
    acquired_since_barrier = false;
}

void Detector::warp_barrier(Worker &worker, int warp, uint32_t lanes) {
    if (!is_enabled) return;
    ++now;
    const Warp &warp_state = worker.warps[warp];
    if (lanes == (warp_state.launched & ~warp_state.finished)) warp_synced[warp] = now;
    else {
        lanes_synced.resize(size_t(max_threads) * 32, 0);
        uint32_t latest[32] = {};
        for (int lane = 0; lane < 32; lane++)
            if (lanes >> lane & 1)
                for (int other = 0; other < 32; other++)
                    latest[other] = std::max({lanes >> other & 1 ? now : 0u, latest[other],
                        lanes_synced[size_t(warp * 32 + lane) * 32 + size_t(other)]});
        for (int lane = 0; lane < 32; lane++)
            if (lanes >> lane & 1) memcpy(&lanes_synced[size_t(warp * 32 + lane) * 32], latest, sizeof latest);
    }
    if (!acquired_since_barrier) return;
    const SyncState joined = join_views(warp * 32, warp * 32 + 32, lanes);
    for (int lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1) static_cast<SyncState &>(views[size_t(warp * 32 + lane)]) = joined;
}

// Records a fence.proxy.async of the current thread, which makes all writes that happen before it visible to the async
// proxy (TMA, wgmma and tcgen05).
void Detector::fence_proxy() {
    const uint32_t rank = self % max_threads, warp = rank / 32;
    proxy_fenced[rank] = ++now;
    proxy_fenced_warp[warp] = std::max(proxy_fenced_warp[warp], warp_synced[warp]);
    proxy_fenced_block = std::max(proxy_fenced_block, block_synced);
    if (any_acquired) proxy_fenced_clock.join(block_view.acquired), proxy_fenced_clock.join(views[rank].acquired);
}
bool Detector::is_proxy_fenced(const Access &access) const {
    if (access.time < block_start || is_by_async_proxy(access)) return true;
    const BlockDetectorState *holder = this;
    for (const Worker *block : w->leader->cluster)
        if (block != w && thread_id(*block, 0) / max_threads == access.thread / max_threads)
            holder = block->detector_state;
    const uint32_t rank = access.thread % max_threads;
    return holder->proxy_fenced_clock.includes(access.thread, access.time) ||
           access.time < std::max({holder->proxy_fenced[rank], holder->proxy_fenced_warp[rank / 32],
                        holder->proxy_fenced_block, proxy_fenced[self % max_threads]});
}
}
