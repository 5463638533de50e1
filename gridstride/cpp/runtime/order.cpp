// The memory model between threads that share no barrier: fences, and flags, which are addresses that atomics use. A
// store to a flag releases what happens before the writer's last fence, or, if it is a release itself, all that happens
// before it. A load acquires that at once if it is an acquire, else at the reader's next fence. What has block scope
// holds within the block. `sim/order.py` and `tile/run.py` are the same model of the other two engines.
#include "detector.h"
#include "threads.h"

namespace gridstride {

VectorClock Detector::current_clock() {
    const uint32_t mine = me % max_threads;
    ++now;
    VectorClock k = all.acquired;
    if (any_acquired) k.join(views[mine].acquired);
    k.add(me, {now, warp_synced[mine / 32], block_synced});
    for (uint32_t l = 0; l < 32 && !partial.empty(); l++)
        if (const uint32_t time = partial[size_t(mine) * 32 + l]) k.add(me - mine % 32 + l, {time, 0, 0});
    return k;
}
SyncState Detector::release() {
    SyncState t = all;
    if (any_acquired) t.join(current_view());
    t.acquired = current_clock();
    return t;
}
void Detector::acquire(const SyncState &t) {
    view();
    current_view().join(t);
}

void Detector::fence(gridstride::Scope scope, Order order) {
    if (scope == gridstride::Scope::thread) return;
    ThreadView &s = view();
    const int widest = scope != gridstride::Scope::block;
    for (int wide = 0; wide <= widest && order != Order::release; wide++)
        if (s.loaded[wide]) s.acquired.join(std::exchange(s.loaded[wide], {}));
    if (order == Order::acquire) return;
    const uint32_t mine = me % max_threads;
    if (s.last.device_scope && !widest) s.apply_fence(me);
    s.last.open = true, s.last.device_scope = widest;
    if (partial.empty()) {
        s.last.acquired = all.acquired, s.last.acquired.join(s.acquired);
        ++now;
    } else s.last.acquired = current_clock();
    s.last.times[0] = s.fence = now, s.last.times[1] = warp_synced[mine / 32], s.last.times[2] = block_synced;
}

// What happens before the last fences of threads `from` to `to` of the block, as far as they count: of all at once,
// because one by one takes long.
template <class F> static VectorClock before_fences(
    std::vector<ThreadView> &views, uint32_t first, int from, int to, F counts) {
    const auto last = [&](int i) { return &views[size_t(i)].last; };
    VectorClock k = VectorClock::of_block(
        first, from, to, [&](int i) { return counts(*last(i), i) ? last(i)->times : nullptr; });
    const VectorClock *before = nullptr;
    for (int i = from; i < to; i++)
        if (counts(*last(i), i) && !(before && before->is(last(i)->acquired))) k.join(*(before = &last(i)->acquired));
    return k;
}
// What threads `from` to `to` have after a barrier that they share: the join of their views; of each warp these lanes.
SyncState Detector::join_views(int from, int to, uint32_t lanes) {
    SyncState joined;
    bool open[2] = {};                     // fences of block scope, of device scope
    for (int i = from; i < to; i++)
        if (const ThreadView &s = views[size_t(i)]; lanes >> i % 32 & 1) {
            joined.join(s);
            if (s.last.open) open[s.last.device_scope] = true;
        }
    const auto gather = [&](bool wide) {
        return before_fences(views, thread_number(*w, 0), from, to,
            [=](const auto &last, int i) { return lanes >> i % 32 & 1 && last.open && last.device_scope >= wide; });
    };
    if (open[1]) joined.fenced[1].join(gather(true));
    if (open[0]) joined.fenced[0].join(gather(false));
    else joined.fenced[0].join(joined.fenced[1]);
    for (int i = from; i < to; i++)
        if (lanes >> i % 32 & 1) views[size_t(i)].last.open = false;
    return joined;
}

// The flag at this address, unless a plain write came later; for shared memory, in the block at work
Flag *Detector::flag_at(uintptr_t a) {
    const auto f = flags.find(a / 4);
    if (f == flags.end()) return nullptr;
    const bool global = memory.holds(a);
    const Cell &c = global ? cells.words[(a - reinterpret_cast<uintptr_t>(memory.base)) / 4] : shared_cell(a);
    const Access &last = c.write;
    const bool plain = last.when > f->second.when && !(last.where & atomic_bit);
    return plain || f->second.when < (global ? launch_start : block_start) ? nullptr : &f->second;
}
void Detector::on_atomic_load(uintptr_t a, gridstride::Scope scope, bool acquires) {
    const Flag *f = flag_at(a);
    if (!f) return;
    const uint32_t block = me / max_threads;
    ThreadView &s = view();
    const auto load = [&](const VectorClock &released, int device_scope) {
        s.loaded[device_scope].join(released);
        if (acquires) s.acquired.join(released);
    };
    if (scope != gridstride::Scope::block) load(f->device, 1);
    if (const auto own = f->by_block.find(block); own != f->by_block.end()) load(own->second, 0);
    s.any_block.join(f->any_block);
    s.waited.join(f->waited);
}
void Detector::on_atomic_store(uintptr_t a, Use use, gridstride::Scope scope, bool releases) {
    const VectorClock *fenced = any_acquired ? current_view().fenced : all.fenced;
    Flag *f = flag_at(a);
    const bool goes_on = f && (use == Use::modify || f->who == me);
    if (f && !goes_on) *f = {};
    if (!releases && !all.fenced[0] && !fenced[0]) {
        if (f) f->who = me, f->when = now, f->fenced = false;
        return;
    }
    const SyncState mine = release();
    if (!f) *(f = &flags[a / 4]) = {};
    for (int wide = 0; wide <= (scope != gridstride::Scope::block); wide++) {
        if (!wide && f->by_block.size() > 1024) f->by_block.clear();
        VectorClock &k = wide ? f->device : f->by_block[me / max_threads];
        if (releases) k.join(mine.acquired);
        k.join(mine.fenced[wide]);
        if (!wide) f->any_block.join(k);
    }
    f->waited.join(mine.waited);
    f->who = me, f->when = now, f->fenced = releases || after_fence;
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
        for (uintptr_t i = a / 4 * 4; i < end; i += 4) on_atomic_load(i, scope, acquires);
    if (__builtin_expect(crosses, 0) && reads && orders && global) acquire_operation(a);
    after_fence = any_acquired && views[me % max_threads].fence > views[me % max_threads].stored;
    if (writes && holds) report_held(a, end);
    const uint32_t where = alone ? at : atomic_bit | (scope == gridstride::Scope::block ? narrow_bit : 0) | at;
    if (reads) access(a, bytes, false, where | (writes ? modify_bit : 0));
    if (writes) access(a, bytes, true, where);
    if (writes && orders && (releases || any_acquired || !flags.empty()))
        for (uintptr_t i = a / 4 * 4; i < end; i += 4) on_atomic_store(i, use, scope, releases);
    if (any_acquired && writes && shared && at & volatile_bit) view().stored = now;
    ++now;
}

// A thread that spins must let the others go on.
void Detector::volatile_access(const void *p, unsigned n, bool write, uint32_t at) {
    const bool global = memory.at(reinterpret_cast<uintptr_t>(p));
    if (!global && !is_shared(p)) return access(reinterpret_cast<uintptr_t>(p), n, write, at);
    const bool spinning = !write && worker->is_spinning(p, n, at);
    if (spinning || global || ++worker->spins % 64 == 0) yield();
    atomic(p, n, write ? Use::store : Use::load, gridstride::Scope::system, Order::relaxed, volatile_bit | at);
}

// Has an earlier atomic read seen what an atomic wrote there? Then that write happens before this access.
bool Detector::observed(const Cell &c, const Access &earlier, uint32_t since) {
    if (any_acquired && (all.strong.includes(earlier.who, earlier.when) ||
                            views[me % max_threads].strong.includes(earlier.who, earlier.when)))
        return true;
    if (&earlier != &c.write) return false;
    for (const Access &r : {c.read, c.read2})
        if (r.where & atomic_bit && r.when >= earlier.when && happens_before(r, since)) {
            view().strong.add(earlier.who, {earlier.when + 1, 0, 0});
            return true;
        }
    return false;
}

// Two accesses that are atomic or volatile, with no order between them. Atomics must reach each other's block. A
// volatile access of global memory is PTX's relaxed one, but two threads that write so lose what one of them has
// written, unless the second has acquired the first one's flag. In shared memory volatile orders nothing, unless a
// fence is before the write; nor does it when a lane reads what another lane of its warp has written: such code counts
// on lockstep, which no GPU since Volta promises.
bool Detector::strong_conflict(const Access &earlier, const Access &later, uintptr_t a, bool wrote, bool writes) {
    if ((earlier.where | later.where) & narrow_bit && earlier.who / max_threads != me / max_threads) return true;
    if (wrote && writes) {
        if (!(earlier.where & later.where & volatile_bit)) return false;
        Flag *f = flag_at(a);
        return !f || f->who != earlier.who || !f->fenced ||
               !current_clock().includes(f->device ? f->device : f->by_block[me / max_threads]);
    }
    const bool in_step = wrote && earlier.who / 32 == me / 32;
    if ((memory.holds(a) && !in_step) || !((wrote ? earlier : later).where & volatile_bit)) return false;
    const Flag *f = wrote ? flag_at(a) : nullptr;
    return wrote ? !f || f->who != earlier.who || !f->fenced : !after_fence;
}
}
