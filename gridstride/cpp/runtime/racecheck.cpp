// racecheck: reports data races. Two threads access the same address, at least one of them writes, and neither
// access happens before the other, because there is no barrier in between, and no release that the later thread has
// acquired (Detector::conflicts, detector.h; the clocks are in vector_clock.h). A cell records two reads, so that a
// write that is ordered after one of them still races with the other. `report_race` finds the most specific reason,
// such as synchronization that is too weak (a fence with block scope, a flag that was loaded without acquire), and
// reports it with both accesses. `Racecheck` in `sim/detectors.py` implements the same rule for the simulator,
// `Shadow.racecheck` in `tile/shadow.py` for Triton.
#include <tuple>
#include "detector.h"
#include "findings.h"
#include "operations.h"

namespace gridstride {

void Detector::report_copy_in_flight(const Access &copy, const Access &current, const char *later_kind, uintptr_t a,
    unsigned owner, const Allocation *allocation) {
    if (!checks(racecheck)) return;
    if (is_by_async_proxy(copy)) return report_bulk_in_flight(copy, current, later_kind, a, owner, allocation);
    const auto &queue = copies[copy.thread % max_threads];
    const uint32_t open_group = queue.group;
    const bool is_committed = std::any_of(queue.pending.begin(), queue.pending.end(),
        [&](const Copy &c) { return a - c.to < c.bytes && c.location == copy.location && c.group < open_group; });
    const ElementName element = element_name(a, owner, allocation);
    const Code owner_code = copy.thread == self ? Code::own_copy : Code::other_copy;
    report_finding(is_committed ? Code::copy_not_waited_for : Code::copy_not_committed,
        {element.array(), element.index(), {"now", later_kind}, {"whose", owner_code}}, current, &copy);
}
void Detector::report_bulk_in_flight(const Access &copy, const Access &current, const char *later_kind, uintptr_t a,
    unsigned owner, const Allocation *allocation) {
    const ElementName element = element_name(a, owner, allocation);
    report_finding(Code::bulk_in_flight, {element.array(), element.index(), {"now", later_kind}}, current, &copy);
}
// Writes of threads to shared memory are visible to the async proxy only after a proxy fence of the writer, or of the
// thread that issues the request.
void Detector::report_no_proxy_fence(const Cell &cell, const Access &current, uintptr_t a, unsigned owner) {
    if (!checks(fencecheck)) return;
    const ElementName element = element_name(a, owner, nullptr);
    report_finding(Code::no_proxy_fence, {element.array(), element.index()}, current, &cell.write);
}

void Detector::report_race(const Access &earlier, const Access &later, const char *earlier_kind, const char *later_kind,
    uintptr_t a, unsigned owner, const Allocation *allocation) {
    if (!checks(racecheck)) return;
    const ElementName element = element_name(a, owner, allocation);
    if (earlier.time < launch_start && allocation && has_unordered_operations)
        return report_operation_race(earlier, later, earlier_kind, later_kind, element);
    if (is_by_async_proxy(earlier) || is_by_async_proxy(later))
        return report_async_proxy_race(earlier, later, element, earlier_kind, later_kind);
    const uint32_t common_bits = earlier.location & later.location;
    const bool are_both_atomic = common_bits & atomic_bit,
               same_block = earlier.thread / max_threads == later.thread / max_threads,
               other_device = !is_same_device(earlier.thread);
    const auto includes = [&](const VectorClock &clock) { return clock.includes(earlier.thread, earlier.time); };
    const ThreadView *my_view = any_acquired ? &views[self % max_threads] : nullptr;
    const auto report = [&](Code code, Fields fields) {
        if (!may_be_validated(earlier, later, later_kind)) return report_finding(code, fields, later, &earlier);
        const uint32_t reader = later_kind[0] == 'r' ? later.thread : earlier.thread;
        defer_race({code, element, earlier_kind, later_kind, barrier_line, earlier, later, reader, a, {}, 0});
    };
    report(are_both_atomic && common_bits & volatile_bit                             ? Code::race_of_volatiles
           : are_both_atomic && other_device                                         ? Code::atomic_of_device
           : are_both_atomic                                                         ? Code::atomic_of_block
           : my_view && std::any_of(my_view->loaded, my_view->loaded + scope_levels, includes) ? Code::flag_not_acquired
           : my_view && (includes(my_view->any_scope) || includes(block_view.any_scope))
               ? other_device ? Code::scope_of_device : Code::fence_of_block
           : other_device                                                            ? Code::race_of_devices
           : same_block                                                              ? Code::race
           : allocation                                                              ? Code::race_of_blocks
                                                                                     : Code::race_of_cluster,
        {element.array(), element.index(), {"before", earlier_kind}, {"now", later_kind}, {"barrier", barrier_line}});
}
// Returns whether one access is a plain read, the other an atomic write, and the reader's next access may be a
// compare-and-swap.
bool Detector::may_be_validated(const Access &earlier, const Access &later, const char *later_kind) const {
    if (later_kind[0] == 'r') return is_atomic_update(earlier.location) && !(later.location & (atomic_bit | async_bit));
    if (!is_atomic_update(later.location) || earlier.location & (atomic_bit | async_bit)) return false;
    if (earlier.thread / max_threads != self / max_threads) return false;
    const uint8_t state = w->state[w->slot[earlier.thread % max_threads]];
    return state == ready || state == in_warp;
}
void Detector::defer_race(DeferredRace race) {                // reports the race if the reader has too many
    size_t num_races_of_reader = 0;
    for (const DeferredRace &deferred : deferred_races) {
        if (deferred.reader == race.reader && deferred.address == race.address) return;
        num_races_of_reader += deferred.reader == race.reader;
    }
    if (num_races_of_reader == max_deferred_races) return report_race(race);
    race.depth = collect_frames(race.frames);
    deferred_races.push_back(race);
    has_deferred_races = true;
}
// Drops the deferred races of the current thread at this address: its compare-and-swap validates the values that it has
// read there since the last barrier.
void Detector::on_compare_and_swap(const void *address, unsigned bytes) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(address);
    const auto is_validated = [&](const DeferredRace &deferred) {
        return deferred.reader == self && deferred.address - a < bytes;
    };
    auto &races = deferred_races;
    if (has_deferred_races) races.erase(std::remove_if(races.begin(), races.end(), is_validated), races.end());
    has_deferred_races = !deferred_races.empty();
    const bool global = memory.holds(a);
    const Worker &holder = global ? *w : holder_of(a);
    const uintptr_t offset = a - reinterpret_cast<uintptr_t>(global ? memory.base : holder.shared);
    if (!global && offset >= shared_cap) return;
    if (!global) record_ranges();
    if (global) cells.expand(offset, bytes), cells.discard_tags(offset, bytes);
    else (&holder == w ? *this : *holder.detector_state).discard_read_tags();
    const Cells &cells_of_memory = global ? cells : &holder == w ? shared_cells : holder.detector_state->shared_cells;
    for (uintptr_t i = offset / 4; i < (offset + bytes + 3) / 4; i++)
        if (Cell &word = cells_of_memory.word_cells[i]; !word.has_byte_cells) discard_read(word);
        else
            for (uintptr_t byte = std::max(offset, i * 4); byte < std::min(offset + bytes, i * 4 + 4); byte++)
                discard_read(cells_of_memory.byte_cells[byte]);
}
void Detector::discard_read(Cell &cell) {
    for (Access *read : {&cell.read, &cell.second_read})
        if (read->thread == self && read->time >= block_synced && !(read->location & (atomic_bit | async_bit)))
            *read = {};
}
// Reports the deferred races of the current thread at these addresses: no compare-and-swap has validated its reads.
void Detector::report_deferred_races(uintptr_t from, uintptr_t to) {
    for (const DeferredRace &deferred : deferred_races)
        if (deferred.reader == self && deferred.address - from < to - from) report_race(deferred);
}
void Detector::report_race(const DeferredRace &deferred) {
    const ElementName &element = deferred.element;
    report_finding(deferred.code,
        {element.array(), element.index(), {"before", deferred.earlier_kind}, {"now", deferred.later_kind},
            {"barrier", deferred.barrier}},
        deferred.later, &deferred.earlier, &deferred);
}
static const char *verb(const char *kind) { return kind[0] == 'r' ? "reads" : "writes"; }
void Detector::report_operation_race(
    const Access &earlier, const Access &later, const char *earlier_kind, const char *later_kind,
    const ElementName &element) {
    const Operation *first = operations.unordered(earlier), *second = current_operation();
    if (!first || !second) return;
    report_finding(Code::unordered_operations,
        {element.array(), element.index(), {"now", verb(later_kind)}, {"before", verb(earlier_kind)},
            GRIDSTRIDE_OPERATION("second", *second), GRIDSTRIDE_OPERATION("first", *first)},
        later, &earlier);
}
bool Detector::is_unordered(const Access &earlier) const { return operations.unordered(earlier); }
// Checks an access against operations such as copies, whose reads and writes no cell records.
void Detector::check_operations(uintptr_t a, unsigned n, bool write, uint32_t location) {
    const Conflict conflict = operations.find_launch_conflict(a, n, write);
    const Operation *second = current_operation();
    if (!conflict.operation || !second || !checks(racecheck)) return;
    const ElementName element = element_name(a, 0, memory.at(a));
    report_finding(Code::unordered_operations,
        {element.array(), element.index(), {"now", write ? "writes" : "reads"},
            {"before", conflict.is_write ? "writes" : "reads"},
            GRIDSTRIDE_OPERATION("second", *second), GRIDSTRIDE_OPERATION("first", *conflict.operation)},
        {self, now, location});
}
bool Detector::find_clear_range(uintptr_t a, unsigned n) {
    std::tie(clear_begin, clear_end) = operations.clear_range(a);
    return a + n <= clear_end;
}
// Called when the current thread reads a flag that a launch in another stream may have set: orders that launch before
// the next accesses of the thread.
void Detector::acquire_operation(uintptr_t a) {
    const Access &last_write = cells.word_cells[(a - reinterpret_cast<uintptr_t>(memory.base)) / 4].write;
    if (!(last_write.location & atomic_bit) || last_write.time >= launch_start || !from_unordered_launch(last_write))
        return;
    unordered_since = launch_start;
    has_unordered_operations = operations.acquire(last_write, unordered_since);
    clear_begin = clear_end = 0;
}
void Detector::record_read_across_launches(Cell &cell, const Access &current) {
    for (Access *read : {&cell.read, &cell.second_read})
        if (read->time >= launch_start ? read->thread == self : happens_before(*read, ordered_until())) {
            *read = current;
            return;
        }
}
void Detector::report_async_proxy_race(
    const Access &earlier, const Access &later, const ElementName &element, const char *earlier_kind,
    const char *later_kind) {
    const bool earlier_reads = earlier_kind[0] == 'r', later_reads = later_kind[0] == 'r';
    if (is_by_async_proxy(earlier) && earlier_reads)
        return report_finding(in_flight(earlier) ? Code::engine_reads : Code::engine_has_read,
            {element.array(), element.index(), {"now", later_kind}}, later, &earlier);
    const Code first_code = is_by_async_proxy(earlier) ? Code::a_bulk_copy : Code::a_thread,
               second_code = !is_by_async_proxy(later) ? Code::a_thread
                        : later_reads       ? Code::an_engine
                                          : Code::a_bulk_copy;
    report_finding(is_by_async_proxy(earlier) ? Code::after_engine : Code::before_engine,
        {element.array(), element.index(), {"before", earlier_kind}, {"first", first_code}, {"now", later_kind},
            {"second", second_code}},
        later, &earlier);
}

// Records that two threads write to the same address. Whether they write the same value is checked after the second
// store.
void Detector::record_conflicting_writes(
    const Access &earlier, const Access &later, uintptr_t a, unsigned n, unsigned owner, const Allocation *allocation) {
    if (is_by_async_proxy(later)) return report_race(earlier, later, "written", "written", a, owner, allocation);
    if (is_atomic_update(later.location))
        return report_race(earlier, later, "written", "changed atomically", a, owner, allocation);
    PendingWrite write = {a, n, {}, earlier};
    memcpy(write.old, reinterpret_cast<const void *>(a), n);
    pending.active = true, pending.current = later;
    pending.words.push_back(write);
}
void Detector::finish_step(bool reports) {
    finish_pending_writes();
    if (reports) report_deferred_races();
}
void Detector::compare_pending_writes() {
    if (!skipped_writes.empty()) undo_skipped_writes();
    pending.range = {};
    if (pending.store.bytes) check_stored_value();
    pending.active = has_undefined(*w);
    if (pending.words.empty()) return;
    const auto owner = [&](const PendingWrite &write) {
        return memory.at(write.address) ? 0u : shared_cell(write.address).owner;
    };
    for (const PendingWrite &differing : pending.words)
        if (memcmp(differing.old, reinterpret_cast<const void *>(differing.address), differing.bytes)) {
            const PendingWrite write = differing;
            pending.words.clear();
            // time 0, because the current thread is no longer at this access
            return report_race(write.other, {pending.current.thread, 0, pending.current.location}, "written", "written",
                write.address, owner(write), memory.at(write.address));
        }
    const PendingWrite first = pending.words[0];
    pending.words.clear();
    if (!checks(racecheck) || pending.current.location & volatile_bit || first.other.time < launch_start) return;
    for (uint32_t location : warned_at)
        if (location == pending.current.location) return;
    warned_at.push_back(pending.current.location);
    const ElementName element = element_name(first.address, owner(first), memory.at(first.address));
    if (Location *location = begin_warning(Code::same_value, 0, {element.array(), element.index()}))
        set_line(pending.current, *location);
}
}
