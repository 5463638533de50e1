// Stores the finding of a detector, with its threads, lines and the name of the element.
#include "detector.h"
#include "findings.h"
#include "operations.h"

namespace gridstride {

void Detector::find(Code code, Fields fields, const Access &at, const Access *other, const DeferredRace *deferred) {
    finish_pending_writes();                              // an earlier race of this thread is reported first
    if (take_finding(code, fields)) describe(current_finding, at, other, deferred);
    end_launch();
}
void Detector::describe(Finding &f, const Access &at, const Access *other, const DeferredRace *deferred) const {
    Field::copy(f.kernel, base_name(w->launch->kernel).c_str());
    f.has_thread = 1;
    set_thread(*w, int(at.thread % max_threads), at.thread / max_threads - 1, f.location);
    put_line(at, f.location);
    if (deferred) f.called = find_call_in_kernel(*w, f.location, deferred->frames, deferred->depth);
    else if (at.time >= now || at.time == not_completed) f.called = find_call_in_kernel(*w, f.location);
    if (!other) return;
    f.has_other = 1;
    const Operation *first = has_unordered && other->time < launch_start ? operations.unordered(other->time) : nullptr;
    const Launch &l = *w->launch;
    set_thread(first ? first->grid : l.grid, first ? first->block : l.block, int(other->thread % max_threads),
        other->thread / max_threads - 1, f.other);
    put_line(*other, f.other, first ? first->image : image.base);
}

void Detector::put_line(const Access &a, Location &p, uintptr_t base) const {
    if (const int line = line_of(a.location)) p.line = line;
    else locate(pc_of(a.location, base), p);
}

ElementName Detector::element_name(uintptr_t a, unsigned owner, const Allocation *p) const {
    ElementName r = {};
    if (p) {
        Field::copy(r.name, p->name_or_default());
        r.rank = 1;
        r.at[0] = p->index_of(a);
    } else if (owner) {
        const Worker &holder = holder_of(a);
        const SharedArray &s = holder.arrays[owner - 1];
        Field::copy(r.name, s.name);
        r.rank = s.shape.rank;
        s.index_of(a - reinterpret_cast<uintptr_t>(holder.shared), r.at);
    }
    return r;
}
}
