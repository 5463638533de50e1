// Order between threads that no barrier joins: fences, and flags, which are places that are used atomically. A writer
// publishes what is ordered before its fence, or before its release; a reader knows of it behind a fence of its own, or
// by acquiring. Scopes: what is of the block holds within the block.
#include "detector.h"
#include "threads.h"

namespace gridstride {

Known Detector::known_now() {
    const uint32_t mine = me % max_threads;
    ++now;
    Known k = all.known;
    if (told) k.add(sights[mine].known);
    k.add(me, {now, warp_floor[mine / 32], block_floor});
    for (uint32_t l = 0; l < 32 && !partial.empty(); l++)
        if (const uint32_t time = partial[size_t(mine) * 32 + l]) k.add(me - mine % 32 + l, {time, 0, 0});
    return k;
}
Told Detector::tell() {
    Told t = all;
    if (told) t.add(sight_now());
    t.known = known_now();
    return t;
}
void Detector::hear(const Told &t) {
    sight();
    sight_now().add(t);
}

void Detector::fence(gridstride::Scope scope, Order order) {
    if (scope == gridstride::Scope::thread) return;
    Sight &s = sight();
    const int widest = scope != gridstride::Scope::block;
    for (int wide = 0; wide <= widest && order != Order::release; wide++)
        if (s.seen[wide]) s.known.add(std::exchange(s.seen[wide], {}));
    if (order == Order::acquire) return;
    const uint32_t mine = me % max_threads;
    if (s.last.wide && !widest) s.enter_fence(me);
    s.last.open = true, s.last.wide = widest;
    if (partial.empty()) {
        s.last.known = all.known, s.last.known.add(s.known);
        ++now;
    } else s.last.known = known_now();
    s.last.times[0] = s.fence = now, s.last.times[1] = warp_floor[mine / 32], s.last.times[2] = block_floor;
}

// What was in order before the last fences of threads `from` to `to` of the block, as far as they count: of all at
// once, because one by one takes long.
template <class F> static Known before_fences(std::vector<Sight> &sights, uint32_t first, int from, int to, F counts) {
    const auto last = [&](int i) { return &sights[size_t(i)].last; };
    Known k = Known::of_block(first, from, to, [&](int i) { return counts(*last(i), i) ? last(i)->times : nullptr; });
    const Known *before = nullptr;
    for (int i = from; i < to; i++)
        if (counts(*last(i), i) && !(before && before->is(last(i)->known))) k.add(*(before = &last(i)->known));
    return k;
}
// What those tell each other who meet at a barrier: of each warp these lanes.
Told Detector::met(int from, int to, uint32_t lanes) {
    Told told;
    bool open[2] = {};                     // narrow fences, wide ones
    for (int i = from; i < to; i++)
        if (const Sight &s = sights[size_t(i)]; lanes >> i % 32 & 1) {
            told.add(s);
            if (s.last.open) open[s.last.wide] = true;
        }
    const auto gather = [&](bool wide) {
        return before_fences(sights, thread_number(*w, 0), from, to,
            [=](const auto &last, int i) { return lanes >> i % 32 & 1 && last.open && last.wide >= wide; });
    };
    if (open[1]) told.fenced[1].add(gather(true));
    if (open[0]) told.fenced[0].add(gather(false));
    else told.fenced[0].add(told.fenced[1]);
    for (int i = from; i < to; i++)
        if (lanes >> i % 32 & 1) sights[size_t(i)].last.open = false;
    return told;
}

// The flag that lies there, unless somebody has written it plainly since; for shared memory, in the block at work
Flag *Detector::flag_at(uintptr_t a) {
    const auto f = flags.find(a / 4);
    if (f == flags.end()) return nullptr;
    const bool global = memory.holds(a);
    const Cell &c = global ? cells.words[(a - reinterpret_cast<uintptr_t>(memory.base)) / 4] : shared_cell(a);
    const Access &last = c.write;
    const bool plain = last.when > f->second.when && !(last.where & atomic_bit);
    return plain || f->second.when < (global ? launch_start : block_start) ? nullptr : &f->second;
}
void Detector::look(uintptr_t a, gridstride::Scope scope, bool acquires) {
    const Flag *f = flag_at(a);
    if (!f) return;
    const uint32_t block = me / max_threads;
    Sight &s = sight();
    const auto take = [&](const Known &published, int wide) {
        s.seen[wide].add(published);
        if (acquires) s.known.add(published);
    };
    if (scope != gridstride::Scope::block) take(f->wide, 1);
    if (const auto own = f->near.find(block); own != f->near.end()) take(own->second, 0);
    s.narrow.add(f->any);
    s.waited.add(f->waited);
}
void Detector::publish(uintptr_t a, Use use, gridstride::Scope scope, bool releases) {
    const Known *fenced = told ? sight_now().fenced : all.fenced;
    Flag *f = flag_at(a);
    const bool goes_on = f && (use == Use::modify || f->who == me);
    if (f && !goes_on) *f = {};
    if (!releases && !all.fenced[0] && !fenced[0]) {
        if (f) f->who = me, f->when = now, f->fenced = false;
        return;
    }
    const Told mine = tell();
    if (!f) *(f = &flags[a / 4]) = {};
    for (int wide = 0; wide <= (scope != gridstride::Scope::block); wide++) {
        if (!wide && f->near.size() > 1024) f->near.clear();
        Known &k = wide ? f->wide : f->near[me / max_threads];
        if (releases) k.add(mine.known);
        k.add(mine.fenced[wide]);
        if (!wide) f->any.add(k);
    }
    f->waited.add(mine.waited);
    f->who = me, f->when = now, f->fenced = releases || behind_fence;
}

void Detector::atomic(
    const void *address, unsigned bytes, Use use, gridstride::Scope scope, Order order, uint32_t at) {
    settle();
    const uintptr_t a = reinterpret_cast<uintptr_t>(address), end = a + bytes;
    const bool reads = use != Use::store, writes = use != Use::load, alone = scope == gridstride::Scope::thread,
               global = memory.at(a), shared = !global && is_shared(address), orders = !alone && (shared || global);
    const bool acquires = order != Order::relaxed && order != Order::release,
               releases = order != Order::relaxed && order != Order::acquire;
    if (reads && orders && !flags.empty())
        for (uintptr_t i = a / 4 * 4; i < end; i += 4) look(i, scope, acquires);
    if (__builtin_expect(crosses, 0) && reads && orders && global) acquire_operation(a);
    behind_fence = told && sights[me % max_threads].fence > sights[me % max_threads].stored;
    if (writes && holds) tell_held(a, end);
    const uint32_t where = alone ? at : atomic_bit | (scope == gridstride::Scope::block ? narrow_bit : 0) | at;
    if (reads) access(a, bytes, false, where | (writes ? modify_bit : 0));
    if (writes) access(a, bytes, true, where);
    if (writes && orders && (releases || told || !flags.empty()))
        for (uintptr_t i = a / 4 * 4; i < end; i += 4) publish(i, use, scope, releases);
    if (told && writes && shared && at & volatile_bit) sight().stored = now;
    ++now;
}

// A thread that spins must let the others go on.
void Detector::volatile_access(const void *p, unsigned n, bool write, uint32_t at) {
    const bool global = memory.at(reinterpret_cast<uintptr_t>(p));
    if (!global && !is_shared(p)) return access(reinterpret_cast<uintptr_t>(p), n, write, at);
    const bool in_vain = !write && worker->looks_in_vain(p, n, at);
    if (in_vain || global || ++worker->spins % 64 == 0) yield();
    atomic(p, n, write ? Use::store : Use::load, gridstride::Scope::system, Order::relaxed, volatile_bit | at);
}

// Has a thread before this one read what was written there atomically? Then that write is in order.
bool Detector::observed(const Cell &c, const Access &earlier, uint32_t since) {
    if (told && (all.strong.covers(earlier.who, earlier.when) ||
                    sights[me % max_threads].strong.covers(earlier.who, earlier.when)))
        return true;
    if (&earlier != &c.write) return false;
    for (const Access &r : {c.read, c.read2})
        if (r.where & atomic_bit && r.when >= earlier.when && ordered(r, since)) {
            sight().strong.add(earlier.who, {earlier.when + 1, 0, 0});
            return true;
        }
    return false;
}

// Two accesses that are atomic or volatile, with no order between them. Atomics must reach each other's block. A
// volatile access of global memory is PTX's relaxed one, but two threads that write so lose what one of them has
// written, unless the second has the first one's flag behind it. In shared memory volatile orders nothing, unless a
// fence is before the write; nor does it when a lane reads what another lane of its warp has written: such code counts
// on lockstep, which no GPU since Volta promises.
bool Detector::strong_conflict(const Access &earlier, const Access &later, uintptr_t a, bool wrote, bool writes) {
    if ((earlier.where | later.where) & narrow_bit && earlier.who / max_threads != me / max_threads) return true;
    if (wrote && writes) {
        if (!(earlier.where & later.where & volatile_bit)) return false;
        Flag *f = flag_at(a);
        return !f || f->who != earlier.who || !f->fenced ||
               !known_now().holds(f->wide ? f->wide : f->near[me / max_threads]);
    }
    const bool in_step = wrote && earlier.who / 32 == me / 32;
    if ((memory.holds(a) && !in_step) || !((wrote ? earlier : later).where & volatile_bit)) return false;
    const Flag *f = wrote ? flag_at(a) : nullptr;
    return wrote ? !f || f->who != earlier.who || !f->fenced : !behind_fence;
}
}
