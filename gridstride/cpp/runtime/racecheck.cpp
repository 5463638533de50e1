// racecheck: the findings of a data race. Two threads access one address, one of them writes, and neither access
// happens before the other: no barrier, no release that the other has acquired (Detector::conflicts, detector.h; the
// clocks are in vector_clock.h). A cell remembers two readers, so that a write that is ordered after one of them still
// races with the other. `race` looks for the most specific reason: which order was tried and is too weak (a fence of
// the block only, a flag that was loaded without an acquire), and reports it with both accesses. The same rule is
// `Racecheck` in `sim/detectors.py` for the simulator, and `Shadow.racecheck` in `tile/shadow.py` for Triton.
#include "detector.h"
#include "findings.h"
#include "operations.h"

namespace gridstride {

void Detector::report_copy_in_flight(
    const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Allocation *p) {
    if (!checks(racecheck)) return;
    if (is_engine(copy)) return report_bulk_in_flight(copy, mine, then, a, owner, p);
    const auto &theirs = copies[copy.who % max_threads];
    const uint32_t now_open = theirs.group;
    const bool committed = std::any_of(theirs.open.begin(), theirs.open.end(),
        [&](const Copy &c) { return a - c.to < c.bytes && c.where == copy.where && c.group < now_open; });
    const ElementName x = element_name(a, owner, p);
    const Code whose = copy.who == me ? Code::own_copy : Code::other_copy;
    find(committed ? Code::copy_not_waited_for : Code::copy_not_committed,
        {x.array(), x.index(), {"now", then}, {"whose", whose}}, mine, &copy);
}
void Detector::report_bulk_in_flight(
    const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Allocation *p) {
    const ElementName x = element_name(a, owner, p);
    find(Code::bulk_in_flight, {x.array(), x.index(), {"now", then}}, mine, &copy);
}
// The engines see what threads have written to shared memory only after a fence of the writer or of the thread that
// starts them.
void Detector::report_no_proxy_fence(const Cell &c, const Access &mine, uintptr_t a, unsigned owner) {
    if (!checks(racecheck)) return;
    const ElementName x = element_name(a, owner, nullptr);
    find(Code::no_proxy_fence, {x.array(), x.index()}, mine, &c.write);
}

void Detector::race(const Access &earlier, const Access &later, const char *before, const char *then, uintptr_t a,
    unsigned owner, const Allocation *p) {
    if (!checks(racecheck)) return;
    const ElementName x = element_name(a, owner, p);
    if (earlier.when < launch_start && p && has_unordered) return race_of_operations(earlier, later, before, then, x);
    if (is_engine(earlier) || is_engine(later)) return engine_race(earlier, later, x, before, then);
    const uint32_t both = earlier.where & later.where;
    const bool strong = both & atomic_bit, within = earlier.who / max_threads == later.who / max_threads;
    const auto includes = [&](const VectorClock &clock) { return clock.includes(earlier.who, earlier.when); };
    const ThreadView *mine = any_acquired ? &views[me % max_threads] : nullptr;
    const auto report = [&](Code code, Fields fields) {
        if (!may_be_validated(earlier, later, then)) return find(code, fields, later, &earlier);
        const uint32_t reader = then[0] == 'r' ? later.who : earlier.who;
        defer_race({code, x, before, then, barrier_line, earlier, later, reader, a, {}, 0});
    };
    report(strong && both & volatile_bit                                     ? Code::race_of_volatiles
           : strong                                                          ? Code::atomic_of_block
           : mine && (includes(mine->loaded[0]) || includes(mine->loaded[1])) ? Code::flag_not_acquired
           : mine && (includes(mine->any_block) || includes(block_view.any_block))   ? Code::fence_of_block
           : within                                                          ? Code::race
           : p                                                               ? Code::race_of_blocks
                                                                             : Code::race_of_cluster,
        {x.array(), x.index(), {"before", before}, {"now", then}, {"barrier", barrier_line}});
}
// Is one of the two a plain read, the other an atomic change, and may the reader's next step be a compare-and-swap?
bool Detector::may_be_validated(const Access &earlier, const Access &later, const char *then) const {
    if (then[0] == 'r') return changes(earlier.where) && !(later.where & (atomic_bit | async_bit));
    if (!changes(later.where) || earlier.where & (atomic_bit | async_bit)) return false;
    if (earlier.who / max_threads != me / max_threads) return false;
    const uint8_t state = w->state[w->slot[earlier.who % max_threads]];
    return state == ready || state == in_warp;
}
void Detector::defer_race(DeferredRace race) {
    size_t of_reader = 0;
    for (const DeferredRace &h : deferred_races) {
        if (h.reader == race.reader && h.a == race.a) return;
        of_reader += h.reader == race.reader;
    }
    if (of_reader == max_deferred_races) return report_race(race);
    race.depth = frames_here(race.frames);
    deferred_races.push_back(race);
    has_deferred_races = true;
}
// The thread at work compares and swaps: what it has read there since the last barrier was checked by this.
void Detector::on_compare_and_swap(const void *address, unsigned bytes) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(address);
    const auto is_checked = [&](const DeferredRace &h) { return h.reader == me && h.a - a < bytes; };
    auto &races = deferred_races;
    if (has_deferred_races) races.erase(std::remove_if(races.begin(), races.end(), is_checked), races.end());
    has_deferred_races = !deferred_races.empty();
    const bool global = memory.holds(a);
    const Worker &home = global ? *w : home_of(a);
    const uintptr_t off = a - reinterpret_cast<uintptr_t>(global ? memory.base : home.shared);
    if (!global && off >= shared_cap) return;
    const Cells &c = global ? cells : &home == w ? shared_cells : home.clock->shared_cells;
    for (uintptr_t i = off / 4; i < (off + bytes + 3) / 4; i++)
        if (Cell &word = c.words[i]; !word.split) forget_read(word);
        else
            for (uintptr_t b = std::max(off, i * 4); b < std::min(off + bytes, i * 4 + 4); b++) forget_read(c.bytes[b]);
}
void Detector::forget_read(Cell &c) {
    for (Access *r : {&c.read, &c.read2})
        if (r->who == me && r->when >= block_synced && !(r->where & (atomic_bit | async_bit))) *r = {};
}
// What the thread at work has read of these addresses was not checked.
void Detector::report_deferred_races(uintptr_t from, uintptr_t to) {
    for (const DeferredRace &h : deferred_races)
        if (h.reader == me && h.a - from < to - from) report_race(h);
}
void Detector::report_race(const DeferredRace &h) {
    const ElementName &x = h.element;
    find(h.code, {x.array(), x.index(), {"before", h.before}, {"now", h.then}, {"barrier", h.barrier}}, h.later,
        &h.earlier, &h);
}
static const char *verb(const char *did) { return did[0] == 'r' ? "reads" : "writes"; }
void Detector::race_of_operations(
    const Access &earlier, const Access &later, const char *before, const char *then, const ElementName &x) {
    const Operation *first = operations.unordered(earlier.when), *second = current_operation();
    if (!first || !second) return;
    find(Code::unordered_operations,
        {x.array(), x.index(), {"now", verb(then)}, {"before", verb(before)}, GRIDSTRIDE_OPERATION("second", *second),
            GRIDSTRIDE_OPERATION("first", *first)},
        later, &earlier);
}
bool Detector::is_unordered(const Access &earlier) const { return operations.unordered(earlier.when); }
// An operation such as a copy: no cell records its reads and writes.
void Detector::check_operations(uintptr_t a, unsigned n, bool write, uint32_t where) {
    const Conflict c = operations.conflict_of_kernel(a, n, write);
    const Operation *second = current_operation();
    if (!c.operation || !second || !checks(racecheck)) return;
    const ElementName x = element_name(a, 0, memory.at(a));
    find(Code::unordered_operations,
        {x.array(), x.index(), {"now", write ? "writes" : "reads"}, {"before", c.wrote ? "writes" : "reads"},
            GRIDSTRIDE_OPERATION("second", *second), GRIDSTRIDE_OPERATION("first", *c.operation)},
        {me, now, where});
}
// A flag is read that another stream's launch has set: that launch counts as ordered.
void Detector::acquire_operation(uintptr_t a) {
    const Access &last = cells.words[(a - reinterpret_cast<uintptr_t>(memory.base)) / 4].write;
    if (!(last.where & atomic_bit) || last.when >= launch_start || !from_unordered_launch(last)) return;
    unordered_since = launch_start;
    has_unordered = operations.acquire(last.when, unordered_since);
}
void Detector::note_read_across_launches(Cell &c, const Access &mine) {
    for (Access *r : {&c.read, &c.read2})
        if (r->when >= launch_start ? r->who == me : happens_before(*r, ordered_until())) {
            *r = mine;
            return;
        }
}
void Detector::engine_race(
    const Access &earlier, const Access &later, const ElementName &x, const char *before, const char *then) {
    const bool read_before = before[0] == 'r', reads_now = then[0] == 'r';
    if (is_engine(earlier) && read_before)
        return find(in_flight(earlier) ? Code::engine_reads : Code::engine_has_read,
            {x.array(), x.index(), {"now", then}}, later, &earlier);
    const Code first = is_engine(earlier) ? Code::a_bulk_copy : Code::a_thread,
               second = !is_engine(later) ? Code::a_thread
                        : reads_now       ? Code::an_engine
                                          : Code::a_bulk_copy;
    find(is_engine(earlier) ? Code::after_engine : Code::before_engine,
        {x.array(), x.index(), {"before", before}, {"first", first}, {"now", then}, {"second", second}}, later,
        &earlier);
}

// Two threads write one address. Whether they write the same value shows when the second store is done.
void Detector::note_conflicting_writes(
    const Access &earlier, const Access &later, uintptr_t a, unsigned n, unsigned owner, const Allocation *p) {
    if (is_engine(later)) return race(earlier, later, "written", "written", a, owner, p);
    if (changes(later.where)) return race(earlier, later, "written", "changed atomically", a, owner, p);
    PendingWrite write = {a, n, {}, earlier};
    memcpy(write.old, reinterpret_cast<const void *>(a), n);
    pending.active = true, pending.mine = later;
    pending.words.push_back(write);
}
void Detector::finish_step(bool reports) {
    finish_pending_writes();
    if (reports) report_deferred_races();
}
void Detector::compare_pending_writes() {
    pending.range = {};
    if (pending.stored.n) check_stored_value();
    pending.active = has_undefined(*w);
    if (pending.words.empty()) return;
    const auto owner = [&](const PendingWrite &d) { return memory.at(d.a) ? 0u : shared_cell(d.a).owner; };
    for (const PendingWrite &d : pending.words)
        if (memcmp(d.old, reinterpret_cast<const void *>(d.a), d.n))
            // when: long ago, the thread is elsewhere now
            return race(d.other, {pending.mine.who, 0, pending.mine.where}, "written", "written", d.a, owner(d),
                memory.at(d.a));
    const PendingWrite first = pending.words[0];
    pending.words.clear();
    if (!checks(racecheck) || pending.mine.where & volatile_bit || first.other.when < launch_start) return;
    for (uint32_t where : warned_at)
        if (where == pending.mine.where) return;
    warned_at.push_back(pending.mine.where);
    const ElementName x = element_name(first.a, owner(first), memory.at(first.a));
    if (Location *at = begin_warning(Code::same_value, 0, {x.array(), x.index()})) put_line(pending.mine, *at);
}
}
