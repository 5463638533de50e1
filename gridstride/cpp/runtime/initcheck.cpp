// What nobody has written holds no value.
#include "detector.h"
#include "findings.h"

namespace gridstride {

// A word of shared memory is read that nobody has written: a race if somebody still does before the next barrier, else
// it holds no value.
void Detector::suspect(const Cell &c, uintptr_t a, const Access &at) {
    if (!suspicion.cell) suspicion = {&c, a, at};
}
void Detector::judge() {
    if (!suspicion.cell) return;
    const auto s = suspicion;
    suspicion.cell = nullptr;
    unwritten(s.a, shared_cell(s.a).owner, {s.at.who, 0, s.at.where}, nullptr);     // long ago: it is elsewhere now
}

void Detector::unwritten(uintptr_t a, unsigned owner, const Access &at, const Piece *p) {
    if (!checks(initcheck)) return;
    const Named x = named(a, owner, p);
    find(is_engine(at) ? Code::unwritten_for_engine
         : p           ? Code::unwritten
                       : Code::unwritten_shared,
        {x.array(), x.index()}, at);
}
}
