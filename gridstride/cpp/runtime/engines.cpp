// The state of a block's engines, and the checks when a thread or a block ends
#include <algorithm>
#include "clusters.h"
#include "engines.h"
#include "findings.h"
#include "tensor_memory.h"

namespace gridstride {

Engines &engines_of(Worker &w) {
    if (!w.engines) w.engines = new Engines(), engines_of(*w.leader);
    return *w.engines;
}

// Reports requests that an exiting thread has not waited for.
static void require_no_requests_in_flight(const Requests &requests) {
    for (auto &result : requests.pending_results)
        if (!result.is_awaited) fail(Code::result_not_awaited, {}, result.line);
    if (!requests.stores.empty()) fail(Code::store_not_awaited, {}, Detector::line_of(requests.stores[0].location));
}
// When the last thread of a block exits, reports copies in flight into its shared memory, and accesses by other blocks
// that are not ordered before the exit.
static void check_end_of_block(Worker &w) {
    for (const auto &barrier : engines_of(w).barriers)
        for (const auto *copies : {&barrier.second.completed, &barrier.second.in_flight})
            if (!copies->empty() && checks(racecheck))
                detector.report_finding(Code::load_not_awaited, {}, {(*copies)[0].thread, 0, (*copies)[0].location});
    const Access &use = detector.last_cluster_access;
    bool is_ordered = !use.thread || detector.block_view.acquired.includes(use.thread, use.time);
    for (const ThreadView &view : detector.views) is_ordered |= view.acquired.includes(use.thread, use.time);
    if (!is_ordered && checks(memcheck))
        detector.report_finding(Code::block_may_end, {}, use);
}
void end_thread(Worker &w) {
    Engines &cluster_engines = engines_of(*w.leader);
    // the cluster barrier does not wait for an exited thread
    if (!cluster_engines.cluster_arrived_in.empty() && arrival_phase() == cluster_engines.cluster_phase + 1)
        cluster_engines.cluster_arrived--;
    if (!detector.is_enabled) return;
    if (!w.leader->cluster.empty()) cluster_engines.cluster_releasing.join(detector.release());
    if (checks(racecheck)) require_no_requests_in_flight(current_requests());
    if (w.num_live == 1) check_end_of_block(w), check_tensor_memory_at_end(w), check_setmaxnreg_at_end(w);
}
void begin_engines(Worker &w) {
    if (!w.engines) return;
    delete w.engines;
    w.engines = nullptr;
}
}
