// initcheck: a read of an uninitialized element, which no thread has written. It is deferred: if another thread writes
// the element later, and nothing orders the two, it is a data race, which Detector::conflicts finds at that write. So
// the first such read is noted with its whole finding, and reported as soon as it happens before every later write: at
// the block's barrier for shared memory, at the end of the launch for memory that other blocks write, too.
#include "detector.h"
#include "findings.h"

namespace gridstride {

void Detector::read_unwritten(uintptr_t a, unsigned owner, const Access &at, const Piece *p) {
    auto &noted = p || !w->leader->cluster.empty() ? unwritten_in_launch : unwritten;
    if (noted || !checks(initcheck)) return;
    const Named x = named(a, owner, p);
    noted.reset(new UnwrittenRead{at.who, {}});
    fill(noted->finding,
        is_engine(at) ? Code::unwritten_for_engine
        : p           ? Code::unwritten
                      : Code::unwritten_shared,
        {x.array(), x.index()});
    describe(noted->finding, at, nullptr, nullptr);
    if (!checks(racecheck) || (is_engine(at) && !p)) judge(noted);
}

// No write can be a data race with it any more.
void Detector::judge(std::unique_ptr<UnwrittenRead> &noted) {
    if (!noted) return;
    take_finding(noted->finding);
    end_launch();
}
void Detector::judge_launch() {
    if (unwritten_in_launch && !stop) take_finding(unwritten_in_launch->finding);
}

// What goes wrong after such a read may be caused by the value that it got: then the read is reported. For an address
// this holds in the same thread only. In a block that is in a deadlock, no thread can write the shared memory any more.
const Finding *Detector::cause_of(Kind kind) const {
    if (!on || kind == racecheck || kind == initcheck || kind == interrupted || kind == launch_failed) return nullptr;
    const auto fits = [&](const UnwrittenRead *read) { return read && (kind != memcheck || read->who == me); };
    if (kind != synccheck && fits(unwritten.get())) return &unwritten->finding;
    return fits(unwritten_in_launch.get()) ? &unwritten_in_launch->finding : nullptr;
}
}
