// The state of a block's engines, and the checks when a thread or a block ends
#include <algorithm>
#include "clusters.h"
#include "engines.h"
#include "findings.h"

namespace gridstride {

Engines &engines_of(Worker &w) {
    if (!w.engines) w.engines = new Engines(), engines_of(*w.leader);
    return *w.engines;
}

// A thread exits: reports requests that it has not waited for.
static void check_nothing_in_flight(const Requests &mine) {
    for (auto &h : mine.pending_results)
        if (!h.is_awaited) fail(Code::result_not_awaited, {}, h.line);
    if (!mine.stores.empty()) fail(Code::store_not_awaited, {}, Detector::line_of(mine.stores[0].location));
}
// The last thread of a block exits: reports copies into its shared memory that are in flight, and accesses of other
// blocks that are not ordered before the exit.
static void block_ends(Worker &w) {
    for (const auto &b : engines_of(w).barriers)
        for (const auto *copies : {&b.second.completed, &b.second.in_flight})
            if (!copies->empty() && checks(racecheck))
                detector.find(Code::load_not_awaited, {}, {(*copies)[0].thread, 0, (*copies)[0].location});
    const Access &use = detector.used_by_others;
    bool ordered = !use.thread || detector.block_view.acquired.includes(use.thread, use.time);
    for (const ThreadView &s : detector.views) ordered |= s.acquired.includes(use.thread, use.time);
    if (!ordered && checks(memcheck))
        detector.find(Code::block_may_end, {}, use);
}
void end_thread(Worker &w) {
    Engines &all = engines_of(*w.leader);
    // the barrier of the cluster does not wait for an exited thread
    if (!all.cluster_arrived_in.empty() && arrived_in() == all.cluster_phase + 1) all.cluster_arrived--;
    if (!detector.on) return;
    if (!w.leader->cluster.empty()) all.cluster_releasing.join(detector.release());
    if (checks(racecheck)) check_nothing_in_flight(current_requests());
    if (w.live == 1) block_ends(w);
}
void begin_engines(Worker &w) {
    if (!w.engines) return;
    delete w.engines;
    w.engines = nullptr;
}
}
