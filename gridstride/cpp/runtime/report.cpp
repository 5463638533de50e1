// Stores the finding of a detector, with its threads, lines and the name of the element.
#include "detector.h"
#include "findings.h"
#include "operations.h"

namespace gridstride {

void Detector::find(Code code, Fields fields, const Access &at, const Access *other, const DeferredRace *held) {
    finish_pending_writes();                              // an earlier race of this thread is reported first
    if (take_finding(code, fields)) describe(found, at, other, held);
    end_launch();
}
void Detector::describe(Finding &f, const Access &at, const Access *other, const DeferredRace *held) const {
    Field::copy(f.kernel, base_name(w->launch->kernel).c_str());
    f.has_who = 1;
    set_thread(*w, int(at.who % max_threads), at.who / max_threads - 1, f.at);
    put_line(at, f.at);
    if (held) f.called = find_call_in_kernel(*w, f.at, held->frames, held->depth);
    else if (at.when >= now || at.when == not_completed) f.called = find_call_in_kernel(*w, f.at);
    if (!other) return;
    f.has_other = 1;
    const Operation *first = has_unordered && other->when < launch_start ? operations.unordered(other->when) : nullptr;
    const Launch &l = *w->launch;
    set_thread(first ? first->grid : l.grid, first ? first->block : l.block, int(other->who % max_threads),
        other->who / max_threads - 1, f.other);
    put_line(*other, f.other, first ? first->image : image.base);
}

void Detector::put_line(const Access &a, Location &p, uintptr_t base) const {
    if (const int line = line_of(a.where)) p.line = line;
    else locate(pc_of(a.where, base), p);
}

ElementName Detector::element_name(uintptr_t a, unsigned owner, const Allocation *p) const {
    ElementName r = {};
    if (p) {
        Field::copy(r.name, p->shown_name());
        r.rank = 1;
        r.at[0] = p->index_of(a);
    } else if (owner) {
        const Worker &home = home_of(a);
        const SharedArray &s = home.arrays[owner - 1];
        Field::copy(r.name, s.name);
        r.rank = s.shape.rank;
        s.index_of(a - reinterpret_cast<uintptr_t>(home.shared), r.at);
    }
    return r;
}
}
