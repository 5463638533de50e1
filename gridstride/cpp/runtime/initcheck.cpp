// initcheck: reports reads of uninitialized elements. A finding is deferred: if another thread writes the element
// later, unordered, it is a data race instead, which Detector::conflicts detects at that write. So the first such read
// is stored with its finding, and reported when no later write can race with it: at the next block-wide barrier for
// shared memory, at the end of the launch for memory that other blocks may write.
#include "detector.h"
#include "findings.h"

namespace gridstride {

void Detector::record_uninitialized_read(uintptr_t a, unsigned owner, const Access &read,
    const Allocation *allocation) {
    auto &stored_read = allocation || !w->leader->cluster.empty() ? uninitialized_in_launch : uninitialized_read;
    if (stored_read || !checks(initcheck)) return;
    const Code code = is_by_async_proxy(read) ? Code::unwritten_for_engine
                      : allocation            ? Code::unwritten
                                              : Code::unwritten_shared;
    if (is_allowed(code, read)) return;
    const ElementName element = element_name(a, owner, allocation);
    stored_read.reset(new UninitializedRead{read.thread, {}});
    fill(stored_read->finding, code, {element.array(), element.index()});
    describe(stored_read->finding, read, nullptr, nullptr);
    if (!checks(racecheck) || (is_by_async_proxy(read) && !allocation)) report_uninitialized(stored_read);
}

// Reports the stored read, because no later write can race with it.
void Detector::report_uninitialized(std::unique_ptr<UninitializedRead> &stored_read) {
    if (!stored_read) return;
    claim_finding(stored_read->finding);
    end_launch();
}
void Detector::report_uninitialized_of_launch() {
    if (uninitialized_in_launch && !stops_launch) claim_finding(uninitialized_in_launch->finding);
}

// Returns the stored uninitialized read that may have caused a finding of this kind, and is reported instead; null if
// there is none. Only a read by the same thread can cause a wrong address. In a deadlock, the wait may be for a write
// that would race with a read of shared memory, so that read is not reported as the cause.
const Finding *Detector::cause_of(Kind kind) const {
    if (!is_enabled || kind == racecheck || kind == initcheck || kind == interrupted || kind == launch_failed)
        return nullptr;
    const auto may_be_cause = [&](const UninitializedRead *read) { return read &&
        (kind != memcheck || read->thread == self); };
    if (kind != synccheck && may_be_cause(uninitialized_read.get())) return &uninitialized_read->finding;
    return may_be_cause(uninitialized_in_launch.get()) ? &uninitialized_in_launch->finding : nullptr;
}
}
