// Synchronization without a barrier: fences, and flags, which are addresses that atomic operations access. A store to a
// flag releases all accesses before the writer's last fence; a release store releases all accesses before itself. An
// acquire load acquires these accesses immediately; after any other load, the reader's next fence acquires them. Block
// scope limits release and acquire to the block, device scope to the device.
// `sim/order.py` (simulator) and `tile/run.py` (Triton) implement the same memory model.
#include "detector.h"
#include "ranks.h"
#include "residents.h"
#include "threads.h"

namespace gridstride {

VectorClock Detector::current_clock() {
    const uint32_t rank = self % max_threads;
    ++now;
    VectorClock clock = block_view.acquired;
    if (any_acquired) clock.join(views[rank].acquired);
    clock.add(self, {now, warp_synced[rank / 32], block_synced});
    for (uint32_t lane = 0; lane < 32 && !lanes_synced.empty(); lane++)
        if (const uint32_t time = lanes_synced[size_t(rank) * 32 + lane])
            clock.add(self - rank % 32 + lane, {time, 0, 0});
    return clock;
}
SyncState Detector::release() {
    SyncState state = block_view;
    if (any_acquired) state.join(current_view());
    state.acquired = current_clock();
    return state;
}
void Detector::acquire(const SyncState &state) {
    view();
    current_view().join(state);
}

// Loads the flag of the last volatile load again: another process may have stored it between the hook and the load.
void Detector::load_polled(ThreadView &thread_view) {
    const void *const address = std::exchange(thread_view.polled, nullptr);
    const uintptr_t word = reinterpret_cast<uintptr_t>(address) / 4 * 4;
    lock_shared(address);
    import_flag(word);
    unlock_shared(address);
    on_atomic_load(word, gridstride::Scope::system, false);
}
void Detector::fence(gridstride::Scope scope, Order order) {
    if (scope == gridstride::Scope::thread) return;
    ThreadView &thread_view = view();
    const int level = level_of(scope);
    if (has_peers && thread_view.polled) load_polled(thread_view);
    for (int l = 0; l <= level && order != Order::release; l++)
        if (VectorClock &loaded = thread_view.loaded[l])
            thread_view.acquired.join(std::exchange(loaded, {}));
    if (order == Order::acquire) return;
    const uint32_t rank = self % max_threads;
    if (thread_view.last_fence.level > level) thread_view.apply_fence(self);
    thread_view.last_fence.is_pending = true, thread_view.last_fence.level = level;
    if (lanes_synced.empty()) {
        thread_view.last_fence.acquired = block_view.acquired,
            thread_view.last_fence.acquired.join(thread_view.acquired);
        ++now;
    } else thread_view.last_fence.acquired = current_clock();
    uint32_t(&times)[3] = thread_view.last_fence.times;
    times[0] = thread_view.fence_time = now, times[1] = warp_synced[rank / 32], times[2] = block_synced;
}

// Returns the clock of the accesses before the last fences of threads `from` to `to` (exclusive) for which `counts`
// returns true. The times of all threads are built into one clock, because joining a clock per thread is slow.
template <class F> static VectorClock clock_before_fences(
    std::vector<ThreadView> &views, uint32_t first, int from, int to, F counts) {
    const auto fence_of = [&](int i) { return &views[size_t(i)].last_fence; };
    VectorClock clock = VectorClock::of_block(
        first, from, to, [&](int i) { return counts(*fence_of(i), i) ? fence_of(i)->times : nullptr; });
    const VectorClock *last_joined = nullptr;
    for (int i = from; i < to; i++)
        if (counts(*fence_of(i), i) && !(last_joined && last_joined->shares_root(fence_of(i)->acquired)))
            clock.join(*(last_joined = &fence_of(i)->acquired));
    return clock;
}
// Returns the join of the views of threads `from` to `to` (exclusive), restricted to `lanes` of each warp: their state
// after a common barrier.
SyncState Detector::join_views(int from, int to, uint32_t lanes) {
    SyncState joined;
    bool has_pending_fence[scope_levels] = {};
    for (int i = from; i < to; i++)
        if (const ThreadView &thread_view = views[size_t(i)]; lanes >> i % 32 & 1) {
            joined.join(thread_view);
            if (thread_view.last_fence.is_pending) has_pending_fence[thread_view.last_fence.level] = true;
        }
    const auto join_fences = [&](int level) {
        return clock_before_fences(views, thread_id(*w, 0), from, to,
            [=](const auto &last_fence, int i) {
                return lanes >> i % 32 & 1 && last_fence.is_pending && last_fence.level >= level;
            });
    };
    for (int level = scope_levels - 1; level >= 0; level--)
        if (has_pending_fence[level]) joined.fenced[level].join(join_fences(level));
        else if (level < scope_levels - 1) joined.fenced[level].join(joined.fenced[level + 1]);
    for (int i = from; i < to; i++)
        if (lanes >> i % 32 & 1) views[size_t(i)].last_fence.is_pending = false;
    return joined;
}

// Returns the flag at this address; null if there is none, or if a plain write has overwritten it.
Flag *Detector::flag_at(uintptr_t a) {
    const auto entry = flags.find(a / 4);
    if (entry == flags.end()) return nullptr;
    const bool global = memory.holds(a);
    const Cell &cell = global ? cells.word_cells[(a - reinterpret_cast<uintptr_t>(memory.base)) / 4] : shared_cell(a);
    const Access &last_write = cell.write;
    const bool was_overwritten = last_write.time > entry->second.time && !(last_write.location & atomic_bit);
    return was_overwritten || entry->second.time < (global ? launch_start : block_start) ? nullptr : &entry->second;
}
void Detector::on_atomic_load(uintptr_t a, gridstride::Scope scope, bool acquires) {
    Flag *flag = flag_at(a);
    if (!flag) return;
    const uint32_t block = self / max_threads;
    const int scope_level = level_of(scope);
    ThreadView &thread_view = view();
    const auto load = [&](const VectorClock &released, int level) {
        thread_view.loaded[level].join(released);
        if (has_peers) peers_next.join(released);
        if (acquires) thread_view.acquired.join(released);
    };
    if (scope_level >= device_level) load(flag->of_device(device), device_level);
    if (scope_level >= system_level) load(flag->system, system_level);
    if (const auto own_block = flag->by_block.find(block); own_block != flag->by_block.end())
        load(own_block->second, block_level);
    thread_view.any_scope.join(flag->any_scope);
    thread_view.waited.join(flag->waited);
}
void Detector::on_atomic_store(uintptr_t a, Use use, gridstride::Scope scope, bool releases) {
    const VectorClock *fenced = any_acquired ? current_view().fenced : block_view.fenced;
    Flag *flag = flag_at(a);
    const bool continues_release_sequence = flag && (use == Use::modify || flag->thread == self);
    if (flag && !continues_release_sequence) *flag = {};
    if (!releases && !block_view.fenced[0] && !fenced[0]) {
        if (flag) flag->thread = self, flag->time = now, flag->is_fenced = false;
        return;
    }
    const SyncState released = release();
    if (!flag) *(flag = &flags[a / 4]) = {};
    for (int level = 0; level <= level_of(scope); level++) {
        if (!level && flag->by_block.size() > 1024) flag->by_block.clear();
        VectorClock &clock = level == block_level    ? flag->by_block[self / max_threads]
                             : level == device_level ? flag->of_device(device)
                                                     : flag->system;
        if (releases) clock.join(released.acquired);
        clock.join(released.fenced[level]);
        if (!level) flag->any_scope.join(clock);
    }
    flag->waited.join(released.waited);
    flag->thread = self, flag->time = now, flag->is_fenced = releases || after_fence;
}

void Detector::atomic(
    const void *address, unsigned bytes, Use use, gridstride::Scope scope, Order order, uint32_t access_location) {
    finish_pending_writes();
    const uintptr_t a = reinterpret_cast<uintptr_t>(address), end = a + bytes;
    const bool reads = use != Use::store, writes = use != Use::load,
        is_thread_scope = scope == gridstride::Scope::thread,
               global = memory.at(a), shared = !global && is_shared(address), synchronizes = !is_thread_scope &&
                   (shared || global);
    const bool acquires = order != Order::relaxed && order != Order::release,
               releases = order != Order::relaxed && order != Order::acquire;
    const bool has_record = has_peers && synchronizes && global;
    for (uintptr_t i = a / 4 * 4; has_record && i < end; i += 4) import_flag(i);
    if (reads && synchronizes && !flags.empty())
        for (uintptr_t i = a / 4 * 4; i < end; i += 4) on_atomic_load(i, scope, acquires);
    if (__builtin_expect(has_unordered_operations, 0) && reads && synchronizes && global) acquire_operation(a);
    after_fence = any_acquired && views[self % max_threads].fence_time > views[self % max_threads].store_time;
    if (writes && has_deferred_races) report_deferred_races(a, end);
    const uint32_t location = is_thread_scope ? access_location
        : atomic_bit | (scope == gridstride::Scope::block ? block_scope_bit : 0) | access_location |
            (scope == gridstride::Scope::device && (has_several_devices || has_peers) ? device_bit : 0);
    if (reads) access(a, bytes, false, location | (writes ? modify_bit : 0));
    if (writes) access(a, bytes, true, location);
    if (writes && synchronizes && (releases || any_acquired || !flags.empty()))
        for (uintptr_t i = a / 4 * 4; i < end; i += 4) on_atomic_store(i, use, scope, releases);
    for (uintptr_t i = a / 4 * 4; has_record && writes && i < end; i += 4) export_flag(i);
    if (any_acquired && writes && shared && access_location & volatile_bit) view().store_time = now;
    ++now;
}

// Checks a volatile access. A thread that spins yields to the others.
void Detector::volatile_access(const void *address, unsigned bytes, bool write, uint32_t access_location) {
    const bool global = memory.at(reinterpret_cast<uintptr_t>(address));
    if (!global && !is_shared(address)) return access(reinterpret_cast<uintptr_t>(address), bytes, write,
        access_location);
    const bool spins = !write && worker->is_spinning(address, bytes, access_location);
    if (spins || global || ++worker->num_spins % 64 == 0) yield();
    if (write && has_several_devices) await_observers(address);
    if (has_peers && write) await_peers(address);
    if (has_peers) lock_shared(address);
    atomic(address, bytes, write ? Use::store : Use::load, gridstride::Scope::system, Order::relaxed,
        volatile_bit | access_location);
    if (has_peers) unlock_shared(address);
    if (has_peers && global && !write) view().polled = address;
}

// Returns whether an atomic read that happens before this access has observed the atomic write `earlier`, so that the
// write happens before this access, too.
bool Detector::was_observed(const Cell &cell, const Access &earlier, uint32_t ordered_since) {
    if (any_acquired && (block_view.strong.includes(earlier.thread, earlier.time) ||
                            views[self % max_threads].strong.includes(earlier.thread, earlier.time)))
        return true;
    if (&earlier != &cell.write) return false;
    for (const Access &atomic_read : {cell.read, cell.second_read})
        if (atomic_read.location & atomic_bit && atomic_read.time >= earlier.time &&
            happens_before(atomic_read, ordered_since)) {
            view().strong.add(earlier.thread, {earlier.time + 1, 0, 0});
            return true;
        }
    return false;
}

// Returns whether two unordered accesses that are atomic or volatile conflict. Atomics conflict if the scope of one
// does not include the block of the other. A volatile access to global memory is relaxed in PTX, but if two threads
// write, one value is lost, unless the second thread has acquired the flag of the first. In shared memory, a volatile
// access orders nothing unless there is a fence before the write. Nor does it order a read of a value that another lane
// of the same warp has written: such code relies on lockstep execution, which GPUs since Volta do not guarantee.
bool Detector::strong_conflict(const Access &earlier, const Access &later, uintptr_t a, bool earlier_writes,
    bool later_writes) {
    const bool same_block = earlier.thread / max_threads == self / max_threads;
    if ((earlier.location | later.location) & block_scope_bit && !same_block) return true;
    const bool is_any_of_device = has_several_devices && (is_of_device_scope(earlier) || is_of_device_scope(later));
    if (is_any_of_device && !is_same_device(earlier.thread)) return true;
    if (earlier_writes && later_writes) {
        if (!(earlier.location & later.location & volatile_bit)) return false;
        Flag *flag = flag_at(a);
        return !flag || flag->thread != earlier.thread || !flag->is_fenced ||
               !current_clock().includes(flag->system ? flag->system : flag->of_device(device)
                   ? flag->of_device(device) : flag->by_block[self / max_threads]);
    }
    const bool same_warp = earlier_writes && earlier.thread / 32 == self / 32;
    if ((memory.holds(a) && !same_warp) || !((earlier_writes ? earlier : later).location & volatile_bit)) return false;
    const Flag *flag = earlier_writes ? flag_at(a) : nullptr;
    return earlier_writes ? !flag || flag->thread != earlier.thread || !flag->is_fenced : !after_fence;
}
}
