// Synchronization without a barrier: fences, and flags, which are addresses that atomic operations access. A store to a
// flag releases all accesses before the writer's last fence; a release store releases all accesses before itself. An
// acquire load acquires these accesses immediately, any other load at the reader's next fence. Block scope limits both
// to the block.
// `sim/order.py` and `tile/run.py` implement the same memory model for the other two engines.
#include "detector.h"
#include "threads.h"

namespace gridstride {

VectorClock Detector::current_clock() {
    const uint32_t mine = me % max_threads;
    ++now;
    VectorClock k = block_view.acquired;
    if (any_acquired) k.join(views[mine].acquired);
    k.add(me, {now, warp_synced[mine / 32], block_synced});
    for (uint32_t l = 0; l < 32 && !lanes_synced.empty(); l++)
        if (const uint32_t time = lanes_synced[size_t(mine) * 32 + l]) k.add(me - mine % 32 + l, {time, 0, 0});
    return k;
}
SyncState Detector::release() {
    SyncState t = block_view;
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
    if (s.last_fence.is_of_device && !widest) s.apply_fence(me);
    s.last_fence.is_open = true, s.last_fence.is_of_device = widest;
    if (lanes_synced.empty()) {
        s.last_fence.acquired = block_view.acquired, s.last_fence.acquired.join(s.acquired);
        ++now;
    } else s.last_fence.acquired = current_clock();
    uint32_t(&times)[3] = s.last_fence.times;
    times[0] = s.fence_time = now, times[1] = warp_synced[mine / 32], times[2] = block_synced;
}

// Returns the clock of the accesses before the last fences of threads `from` to `to` of the block, those for which
// `counts` returns true. One clock is built for all threads, because joining one clock per thread is slow.
template <class F> static VectorClock before_fences(
    std::vector<ThreadView> &views, uint32_t first, int from, int to, F counts) {
    const auto last = [&](int i) { return &views[size_t(i)].last_fence; };
    VectorClock k = VectorClock::of_block(
        first, from, to, [&](int i) { return counts(*last(i), i) ? last(i)->times : nullptr; });
    const VectorClock *before = nullptr;
    for (int i = from; i < to; i++)
        if (counts(*last(i), i) && !(before && before->is_same(last(i)->acquired)))
            k.join(*(before = &last(i)->acquired));
    return k;
}
// Returns the state of threads `from` to `to`, the given lanes per warp, after a common barrier: the join of their
// views.
SyncState Detector::join_views(int from, int to, uint32_t lanes) {
    SyncState joined;
    bool open[2] = {};                     // fences of block scope, of device scope
    for (int i = from; i < to; i++)
        if (const ThreadView &s = views[size_t(i)]; lanes >> i % 32 & 1) {
            joined.join(s);
            if (s.last_fence.is_open) open[s.last_fence.is_of_device] = true;
        }
    const auto gather = [&](bool wide) {
        return before_fences(views, thread_number(*w, 0), from, to,
            [=](const auto &last_fence, int i) {
                return lanes >> i % 32 & 1 && last_fence.is_open && last_fence.is_of_device >= wide;
            });
    };
    if (open[1]) joined.fenced[1].join(gather(true));
    if (open[0]) joined.fenced[0].join(gather(false));
    else joined.fenced[0].join(joined.fenced[1]);
    for (int i = from; i < to; i++)
        if (lanes >> i % 32 & 1) views[size_t(i)].last_fence.is_open = false;
    return joined;
}

// Returns the flag at this address; null if there is none, or if there was a plain write after its last store
Flag *Detector::flag_at(uintptr_t a) {
    const auto f = flags.find(a / 4);
    if (f == flags.end()) return nullptr;
    const bool global = memory.holds(a);
    const Cell &c = global ? cells.word_cells[(a - reinterpret_cast<uintptr_t>(memory.base)) / 4] : shared_cell(a);
    const Access &last = c.write;
    const bool plain = last.time > f->second.time && !(last.location & atomic_bit);
    return plain || f->second.time < (global ? launch_start : block_start) ? nullptr : &f->second;
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
    const VectorClock *fenced = any_acquired ? current_view().fenced : block_view.fenced;
    Flag *f = flag_at(a);
    const bool goes_on = f && (use == Use::modify || f->thread == me);
    if (f && !goes_on) *f = {};
    if (!releases && !block_view.fenced[0] && !fenced[0]) {
        if (f) f->thread = me, f->time = now, f->is_fenced = false;
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
    f->thread = me, f->time = now, f->is_fenced = releases || after_fence;
}

void Detector::atomic(
    const void *address, unsigned bytes, Use use, gridstride::Scope scope, Order order, uint32_t at) {
    finish_pending_writes();
    const uintptr_t a = reinterpret_cast<uintptr_t>(address), end = a + bytes;
    const bool reads = use != Use::store, writes = use != Use::load, alone = scope == gridstride::Scope::thread,
               global = memory.at(a), shared = !global && is_shared(address), orders = !alone && (shared || global);
    const bool acquires = order != Order::relaxed && order != Order::release,
               releases = order != Order::relaxed && order != Order::acquire;
    if (reads && orders && !flags.empty())
        for (uintptr_t i = a / 4 * 4; i < end; i += 4) on_atomic_load(i, scope, acquires);
    if (__builtin_expect(has_unordered, 0) && reads && orders && global) acquire_operation(a);
    after_fence = any_acquired && views[me % max_threads].fence_time > views[me % max_threads].store_time;
    if (writes && has_deferred_races) report_deferred_races(a, end);
    const uint32_t location = alone ? at : atomic_bit | (scope == gridstride::Scope::block ? narrow_bit : 0) | at;
    if (reads) access(a, bytes, false, location | (writes ? modify_bit : 0));
    if (writes) access(a, bytes, true, location);
    if (writes && orders && (releases || any_acquired || !flags.empty()))
        for (uintptr_t i = a / 4 * 4; i < end; i += 4) on_atomic_store(i, use, scope, releases);
    if (any_acquired && writes && shared && at & volatile_bit) view().store_time = now;
    ++now;
}

// A volatile access; a thread that spins must yield to the others.
void Detector::volatile_access(const void *p, unsigned n, bool write, uint32_t at) {
    const bool global = memory.at(reinterpret_cast<uintptr_t>(p));
    if (!global && !is_shared(p)) return access(reinterpret_cast<uintptr_t>(p), n, write, at);
    const bool spinning = !write && worker->is_spinning(p, n, at);
    if (spinning || global || ++worker->num_spins % 64 == 0) yield();
    atomic(p, n, write ? Use::store : Use::load, gridstride::Scope::system, Order::relaxed, volatile_bit | at);
}

// Has an earlier atomic read, which happens before this access, seen the value of the atomic write `earlier`? Then that
// write happens before this access.
bool Detector::observed(const Cell &c, const Access &earlier, uint32_t since) {
    if (any_acquired && (block_view.strong.includes(earlier.thread, earlier.time) ||
                            views[me % max_threads].strong.includes(earlier.thread, earlier.time)))
        return true;
    if (&earlier != &c.write) return false;
    for (const Access &r : {c.read, c.second_read})
        if (r.location & atomic_bit && r.time >= earlier.time && happens_before(r, since)) {
            view().strong.add(earlier.thread, {earlier.time + 1, 0, 0});
            return true;
        }
    return false;
}

// Do two unordered accesses that are atomic or volatile conflict? Atomics conflict if the scope of one does not include
// the block of the other. A volatile access of global memory is relaxed in PTX, but if two threads write, one value is
// lost, unless the second thread has acquired the flag of the first. In shared memory, a volatile access orders nothing
// unless there is a fence before the write. Nor does it order a read of a value that another lane of the same warp has
// written: such code relies on lockstep execution, which GPUs since Volta do not guarantee.
bool Detector::strong_conflict(const Access &earlier, const Access &later, uintptr_t a, bool wrote, bool writes) {
    const bool same_block = earlier.thread / max_threads == me / max_threads;
    if ((earlier.location | later.location) & narrow_bit && !same_block) return true;
    if (wrote && writes) {
        if (!(earlier.location & later.location & volatile_bit)) return false;
        Flag *f = flag_at(a);
        return !f || f->thread != earlier.thread || !f->is_fenced ||
               !current_clock().includes(f->device ? f->device : f->by_block[me / max_threads]);
    }
    const bool in_step = wrote && earlier.thread / 32 == me / 32;
    if ((memory.holds(a) && !in_step) || !((wrote ? earlier : later).location & volatile_bit)) return false;
    const Flag *f = wrote ? flag_at(a) : nullptr;
    return wrote ? !f || f->thread != earlier.thread || !f->is_fenced : !after_fence;
}
}
