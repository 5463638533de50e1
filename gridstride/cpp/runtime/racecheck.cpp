// Two accesses of one place with nothing between them.
#include "detector.h"
#include "findings.h"

namespace gridstride {

void Detector::too_early(
    const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Piece *p) {
    if (!checks(racecheck)) return;
    if (is_engine(copy)) return too_early_for_engine(copy, mine, then, a, owner, p);
    const auto &theirs = copies[copy.who % max_threads];
    const uint32_t now_open = theirs.group;
    const bool committed = std::any_of(theirs.open.begin(), theirs.open.end(),
        [&](const Copy &c) { return a - c.to < c.bytes && c.where == copy.where && c.group < now_open; });
    const Named x = named(a, owner, p);
    const Code whose = copy.who == me ? Code::own_copy : Code::other_copy;
    find(committed ? Code::copy_not_waited_for : Code::copy_not_committed,
        {x.array(), x.index(), {"now", then}, {"whose", whose}}, mine, &copy);
}
void Detector::too_early_for_engine(
    const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Piece *p) {
    const Named x = named(a, owner, p);
    find(Code::bulk_under_way, {x.array(), x.index(), {"now", then}}, mine, &copy);
}
// The engines see what threads have written to shared memory only behind a fence of either the writer or whoever starts
// them.
void Detector::not_yet_seen(const Cell &c, const Access &mine, uintptr_t a, unsigned owner) {
    if (!checks(racecheck)) return;
    const Named x = named(a, owner, nullptr);
    find(Code::no_proxy_fence, {x.array(), x.index()}, mine, &c.write);
}

void Detector::race(const Access &earlier, const Access &later, const char *before, const char *then, uintptr_t a,
    unsigned owner, const Piece *p) {
    if (!checks(racecheck)) return;
    const Named x = named(a, owner, p);
    if (is_engine(earlier) || is_engine(later)) return engine_race(earlier, later, x, before, then);
    const uint32_t both = earlier.where & later.where;
    const bool strong = both & atomic_bit, within = earlier.who / max_threads == later.who / max_threads;
    const auto covers = [&](const Known &k) { return k.covers(earlier.who, earlier.when); };
    const Sight *mine = told ? &sights[me % max_threads] : nullptr;
    find(strong && both & volatile_bit                                   ? Code::race_of_volatiles
         : strong                                                        ? Code::atomic_of_block
         : mine && (covers(mine->seen[0]) || covers(mine->seen[1]))      ? Code::flag_not_acquired
         : mine && (covers(mine->narrow) || covers(all.narrow))          ? Code::fence_of_block
         : within                                                        ? Code::race
         : p                                                             ? Code::race_of_blocks
                                                                         : Code::race_of_cluster,
        {x.array(), x.index(), {"before", before}, {"now", then}, {"barrier", barrier_line}}, later, &earlier);
}
void Detector::engine_race(
    const Access &earlier, const Access &later, const Named &x, const char *before, const char *then) {
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

// Two threads write one place. Whether they write the same value shows as soon as the second has written it.
void Detector::two_writes(
    const Access &earlier, const Access &later, uintptr_t a, unsigned n, unsigned owner, const Piece *p) {
    if (is_engine(later)) return race(earlier, later, "written", "written", a, owner, p);
    if (changes(later.where)) return race(earlier, later, "written", "changed atomically", a, owner, p);
    Doubt doubt = {a, n, {}, earlier};
    memcpy(doubt.old, reinterpret_cast<const void *>(a), n);
    pending.active = true, pending.mine = later;
    pending.words.push_back(doubt);
}
void Detector::settle_pending() {
    pending.active = false;
    const auto owner = [&](const Doubt &d) { return memory.at(d.a) ? 0u : shared_cell(d.a).owner; };
    for (const Doubt &d : pending.words)
        if (memcmp(d.old, reinterpret_cast<const void *>(d.a), d.n))
            // when: long ago, the thread is elsewhere now
            return race(d.other, {pending.mine.who, 0, pending.mine.where}, "written", "written", d.a, owner(d),
                memory.at(d.a));
    const Doubt first = pending.words[0];
    pending.words.clear();
    if (!checks(racecheck) || pending.mine.where & volatile_bit) return;
    for (uint32_t where : warned_at)
        if (where == pending.mine.where) return;
    warned_at.push_back(pending.mine.where);
    const Named x = named(first.a, owner(first), memory.at(first.a));
    if (Place *at = begin_warning(Code::same_value, 0, {x.array(), x.index()})) put_line(pending.mine, *at);
}
}
