// initcheck: reports reads of elements that no thread has written. A finding is deferred: if another thread writes the
// element later without an order, it is a data race instead, which Detector::conflicts detects at that write. So the
// first such read is stored with its finding, and reported when no later write can race with it: at the next barrier of
// the block for shared memory, at the end of the launch for memory that other blocks may write.
#include "detector.h"
#include "findings.h"

namespace gridstride {

void Detector::record_unwritten_read(uintptr_t a, unsigned owner, const Access &read, const Allocation *allocation) {
    auto &stored_read = allocation || !w->leader->cluster.empty() ? unwritten_in_launch : unwritten;
    if (stored_read || !checks(initcheck)) return;
    const ElementName element = element_name(a, owner, allocation);
    stored_read.reset(new UnwrittenRead{read.thread, {}});
    fill(stored_read->finding,
        is_engine(read) ? Code::unwritten_for_engine
        : allocation           ? Code::unwritten
                      : Code::unwritten_shared,
        {element.array(), element.index()});
    describe(stored_read->finding, read, nullptr, nullptr);
    if (!checks(racecheck) || (is_engine(read) && !allocation)) report_unwritten(stored_read);
}

// Reports the stored read, because no later write can race with it.
void Detector::report_unwritten(std::unique_ptr<UnwrittenRead> &stored_read) {
    if (!stored_read) return;
    claim_finding(stored_read->finding);
    end_launch();
}
void Detector::report_unwritten_of_launch() {
    if (unwritten_in_launch && !stops_launch) claim_finding(unwritten_in_launch->finding);
}

// Returns the stored uninitialized read that may have caused a finding of this kind, and is reported instead; null if
// there is none. Only a read by the same thread can cause a wrong address. In a deadlock, the wait may be for a write
// that would race with a read of shared memory, so that read is not reported as the cause.
const Finding *Detector::cause_of(Kind kind) const {
    if (!on || kind == racecheck || kind == initcheck || kind == interrupted || kind == launch_failed) return nullptr;
    const auto may_be_cause = [&](const UnwrittenRead *read) { return read &&
        (kind != memcheck || read->thread == self); };
    if (kind != synccheck && may_be_cause(unwritten.get())) return &unwritten->finding;
    return may_be_cause(unwritten_in_launch.get()) ? &unwritten_in_launch->finding : nullptr;
}
}
