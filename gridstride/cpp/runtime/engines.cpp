// The requests of a block to engines (copies, products), from the first one to the end of the block.
#include <algorithm>
#include "clusters.h"
#include "engines.h"
#include "findings.h"

namespace gridstride {

Engines &engines_of(Worker &w) {
    if (!w.engines) w.engines = new Engines(), engines_of(*w.leader);
    return *w.engines;
}

// A thread returns: nothing that it requested may be in flight.
static void nothing_left(const Asked &mine) {
    for (auto &h : mine.held)
        if (!h.given) fail(Code::result_not_awaited, {}, h.line);
    if (!mine.stores.empty()) fail(Code::store_not_awaited, {}, Detector::line_of(mine.stores[0].where));
}
// The last thread of a block returns: its shared memory goes.
static void block_ends(Worker &w) {
    for (const auto &b : engines_of(w).barriers)
        for (const auto *copies : {&b.second.there, &b.second.coming})
            if (!copies->empty() && checks(racecheck))
                detector.find(Code::load_not_awaited, {}, {(*copies)[0].who, 0, (*copies)[0].where});
    const Access &use = detector.used_by_others;
    bool ordered = !use.who || detector.all.acquired.includes(use.who, use.when);
    for (const ThreadView &s : detector.views) ordered |= s.acquired.includes(use.who, use.when);
    if (!ordered && checks(memcheck))
        detector.find(Code::block_may_end, {}, use);
}
void thread_ends(Worker &w) {
    Engines &all = engines_of(*w.leader);
    // a thread that has ended is not waited for
    if (!all.cluster_arrived_in.empty() && arrived_in() == all.cluster_phase + 1) all.cluster_arrived--;
    if (!detector.on) return;
    if (!w.leader->cluster.empty()) all.cluster_releasing.join(detector.release());
    if (checks(racecheck)) nothing_left(asked());
    if (w.live == 1) block_ends(w);
}
void begin_engines(Worker &w) {
    if (!w.engines) return;
    delete w.engines;
    w.engines = nullptr;
}
}
