// Tensor memory: allocation, tcgen05.ld and tcgen05.st, tcgen05.wait and tcgen05.fence, and the order of accesses
#include <algorithm>
#include <string.h>
#include "clusters.h"
#include "tensor_memory.h"
#include "findings.h"

namespace gridstride {

constexpr uint32_t pipe_bit = 1u << 31;    // in a clock, the ID of a pipe, not of a thread

TensorMemory &tensor_memory_of(Worker &w) {
    Engines &e = engines_of(w);
    if (!e.tensor) e.tensor.reset(new TensorMemory());
    return *e.tensor;
}
TensorPipe &current_pipe() {
    TensorPipe &pipe = engines_of(*worker).pipes[current_rank()];
    pipe.thread = Detector::thread_id(*worker, current_rank()) | pipe_bit;
    return pipe;
}
Worker &pair_of(Worker &w, const char *operation, int line) {
    const auto &cluster = w.leader->cluster;
    const size_t other = (size_t(std::find(cluster.begin(), cluster.end(), &w) - cluster.begin())) ^ 1;
    if (other >= cluster.size()) fail(Code::tensor_pair, {{"operation", operation}}, line);
    return *cluster[other];
}
// Records the cta_group of a tcgen05 instruction; reports one that differs, because all must be the same in a kernel.
void set_tensor_group(Worker &w, int cta_group, const char *operation, int line) {
    TensorMemory &memory_of_block = tensor_memory_of(w);
    if (cta_group == 2) pair_of(w, operation, line);
    if (!memory_of_block.cta_group) memory_of_block.cta_group = cta_group, memory_of_block.group_line = line;
    if (memory_of_block.cta_group == cta_group || !detector.is_enabled || !checks(memcheck)) return;
    const Access other = {detector.self, 0, line_bit | uint32_t(memory_of_block.group_line)};
    detector.report_finding(Code::tensor_groups,
        {{"operation", operation}, {"group", cta_group}, {"other_group", memory_of_block.cta_group}},
        {detector.self, detector.now, line_bit | uint32_t(line)}, &other);
}
static Access current_access(int line) { return {detector.self, detector.now, line_bit | uint32_t(line)}; }

// An allocation: its warp waits until enough columns are free, with cta_group::2 also for the other block of the pair.

struct TensorRequest {
    Worker *block;
    uint32_t thread, columns, first, count; // count: allocations of the block, including this one
    int cta_group, line;
    bool is_done;
};
static bool try_allocate(void *arg) {
    auto &request = *static_cast<TensorRequest *>(arg);
    if (request.is_done) return true;
    TensorMemory &tensor = tensor_memory_of(*request.block);
    for (uint32_t first = 0; first + request.columns <= tensor_columns; first += request.columns) {
        bool is_free = true;
        for (uint32_t column = first; column < first + request.columns; column += 32) is_free &= !tensor.at(column);
        if (!is_free) continue;
        tensor.allocations.push_back({first, request.columns, request.line, request.cta_group,
            {request.thread, 0, line_bit | uint32_t(request.line)}});
        memset(tensor.written[first], 0, sizeof tensor.written[0] * request.columns);
        memset(tensor.cells[first], 0, sizeof tensor.cells[0] * request.columns);
        request.first = first, request.count = ++tensor.num_allocations;
        return request.is_done = true;
    }
    return false;
}
static void describe_allocation(void *arg, Finding &f, const char *name) {
    const auto &request = *static_cast<TensorRequest *>(arg);
    uint32_t used = 0;
    for (const auto &a : tensor_memory_of(*request.block).allocations) used += a.columns;
    f.add({{name, Code::for_tensor_memory, 2}, {"columns", request.columns}, {"used", used}});
}
struct PairWait {
    TensorMemory *other;
    uint32_t count;
};
static bool has_pair_allocated(void *arg) {
    const auto &wait = *static_cast<PairWait *>(arg);
    return wait.other->num_allocations >= wait.count;
}
static void check_columns(uint32_t columns, const char *operation, int line) {
    if (columns >= 32 && columns <= tensor_columns && !(columns & (columns - 1))) return;
    fail(Code::tensor_columns, {{"operation", operation}, {"columns", columns}}, line);
}
static void begin_request(void *const *lanes) {
    const auto &first = *static_cast<TensorRequest *>(lanes[0]);
    TensorMemory &tensor = tensor_memory_of(*worker);
    if (tensor.relinquish_line && detector.is_enabled && checks(memcheck)) {
        const Access other = {detector.self, 0, line_bit | uint32_t(tensor.relinquish_line)};
        detector.report_finding(Code::tensor_relinquished, {}, current_access(first.line), &other);
    }
}
void tmem_alloc(int cta_group, uint32_t to, uint32_t columns, int line) {
    check_columns(columns, "tcgen05.alloc", line);
    set_tensor_group(*worker, cta_group, "tcgen05.alloc", line);
    const uint32_t thread = Detector::thread_id(*worker, current_rank());
    TensorRequest request = {worker, thread, columns, 0, 0, cta_group, line, false};
    run_for_warp("tcgen05.alloc", &request, begin_request, line);
    if (lane()) return;
    wait_until(try_allocate, &request, line, describe_allocation);
    if (cta_group == 2) {
        PairWait wait = {&tensor_memory_of(pair_of(*worker, "tcgen05.alloc", line)), request.count};
        wait_until(has_pair_allocated, &wait, line,
            [](void *, Finding &f, const char *name) { f.add({{name, Code::for_tensor_pair}}); });
    }
    char *p = shared_pointer(to, 4, "tcgen05.alloc", line);
    report_access(p, 4, true, line);
    memcpy(p, &request.first, 4);
}
static void check_all_complete(Worker &w, const TensorAllocation &, int line);
void tmem_dealloc(int cta_group, uint32_t address, uint32_t columns, int line) {
    check_columns(columns, "tcgen05.dealloc", line);
    set_tensor_group(*worker, cta_group, "tcgen05.dealloc", line);
    struct Call {
        uint32_t address, columns;
        int line;
    } call = {address, columns, line};
    run_for_warp("tcgen05.dealloc", &call, [](void *const *lanes) {
        const Call &first = *static_cast<Call *>(lanes[0]);
        TensorMemory &tensor = tensor_memory_of(*worker);
        for (auto a = tensor.allocations.begin(); a != tensor.allocations.end(); ++a) {
            if (a->first != (first.address & 0xffff) || a->columns != first.columns) continue;
            if (detector.is_enabled) check_all_complete(*worker, *a, first.line);
            tensor.freed.push_back(*a);
            tensor.freed.back().line = first.line;
            tensor.allocations.erase(a);
            return;
        }
        fail(Code::tensor_freed_twice, {{"column", first.address & 0xffff}, {"columns", first.columns}}, first.line);
    }, line);
}
void tmem_relinquish(int cta_group, int line) {
    set_tensor_group(*worker, cta_group, "tcgen05.relinquish_alloc_permit", line);
    int own_line = line;
    run_for_warp("tcgen05.relinquish_alloc_permit", &own_line, [](void *const *lanes) {
        tensor_memory_of(*worker).relinquish_line = *static_cast<int *>(lanes[0]);
    }, line);
}
void check_tensor_range(Worker &w, uint32_t first_lane, uint32_t lanes, uint32_t column, uint32_t columns,
    const char *operation, int line) {
    const TensorMemory &tensor = tensor_memory_of(w);
    const uint32_t end = column + columns;
    const bool exists = first_lane + lanes <= tensor_lanes && end <= tensor_columns;
    if (exists && !(detector.is_enabled && checks(memcheck))) return;
    for (uint32_t i = column; i < end; i++) {
        if (exists && tensor.at(i)) continue;
        for (auto a = tensor.freed.rbegin(); exists && a != tensor.freed.rend(); ++a)
            if (i - a->first < a->columns)
                return detector.report_finding(Code::tensor_freed, {{"operation", operation}, {"column", i}},
                    current_access(line),
                    &static_cast<const Access &>(Access{detector.self, 0, line_bit | uint32_t(a->line)}));
        if (!exists && i < tensor_columns && first_lane + lanes <= tensor_lanes) continue;
        fail(Code::tensor_outside,
            {{"operation", operation}, {"lane", first_lane + lanes - 1}, {"column", exists ? i : end - 1}}, line);
    }
}

// Returns whether an access by `thread` at `time` happens before the last tcgen05.fence::after_thread_sync of the
// current thread.
static bool precedes_fence(uint32_t thread, uint32_t time) {
    const FenceView &fence = engines_of(*worker).requests[size_t(current_rank())].fence_view;
    if (thread & pipe_bit) return fence.waited.includes(thread, time);
    if (thread / max_threads == detector.self / max_threads) {
        if (time < fence.block_synced) return true;
        if (thread / 32 == detector.self / 32 && time < fence.warp_synced) return true;
    }
    return fence.acquired.includes(thread, time);
}
// Returns whether `is_ordered` holds for any thread of the warp, whose threads execute these instructions together.
template <class F> static bool any_of_warp(uint32_t thread, F is_ordered) {
    for (uint32_t lane = 0; lane < 32; lane++)
        if (is_ordered(thread / 32 * 32 + lane)) return true;
    return false;
}
static bool warp_happens_before(uint32_t thread, uint32_t time) {
    return any_of_warp(thread, [&](uint32_t t) { return detector.happens_before({t, time, 0}, 0); });
}
static bool warp_precedes_fence(uint32_t thread, uint32_t time) {
    return any_of_warp(thread, [&](uint32_t t) { return precedes_fence(t, time); });
}
// Returns whether the tensor cores execute these two instructions in the order in which one thread issues them.
static bool are_pipelined(const TensorAccess &earlier, const TensorAccess &later, bool earlier_writes) {
    if (earlier.cta_group != later.cta_group) return false;
    switch (earlier.operation) {
        case TensorAccess::mma:
            if (later.operation == TensorAccess::mma) return earlier.shape == later.shape && earlier_writes;
            return later.operation == TensorAccess::shift || !earlier_writes;
        case TensorAccess::copy: return later.operation != TensorAccess::shift;
        default: return true;
    }
}
// The synchronization that is missing between two accesses: the code of the finding, and the phrase that explains it
struct MissingSync {
    bool is_missing;
    Code code, why;
};
constexpr MissingSync nothing_missing = {false, Code::tensor_race, Code::not_committed};
static MissingSync missing_sync(Code code, Code why = Code::not_committed) { return {true, code, why}; }
// Returns whether the fence after a synchronization is missing.
static MissingSync missing_after_fence(bool is_fenced) {
    return is_fenced ? nothing_missing : missing_sync(Code::tensor_no_fence, Code::fence_after);
}

static MissingSync missing_after_pipe(const TensorAccess &earlier, const TensorAccess &later, bool earlier_writes) {
    const TensorPipe &pipe = *earlier.pipe;
    const bool may_pipeline = later.uses_pipe() && are_pipelined(earlier, later, earlier_writes);
    if (later.pipe == earlier.pipe && may_pipeline) return nothing_missing;
    if (may_pipeline && earlier.fenced && warp_happens_before(earlier.thread, earlier.fenced))
        return missing_after_fence(warp_precedes_fence(earlier.thread, earlier.fenced));
    const uint32_t completed = earlier.commit < pipe.completed.size() ? pipe.completed[earlier.commit] : 0;
    if (!completed)
        return missing_sync(
            Code::tensor_in_flight, earlier.commit < pipe.commits() ? Code::commit_not_awaited : Code::not_committed);
    const uint32_t rank = detector.self % max_threads;
    const bool is_ordered = detector.any_acquired && (detector.block_view.waited.includes(pipe.thread, completed) ||
                                                         detector.views[rank].waited.includes(pipe.thread, completed));
    if (!is_ordered) return missing_sync(Code::tensor_in_flight, Code::commit_not_awaited);
    return missing_after_fence(precedes_fence(pipe.thread, completed));
}
static MissingSync missing_after_warp(const TensorAccess &earlier) {
    const bool is_same_warp = earlier.thread / 32 == detector.self / 32;
    if (!is_same_warp && !warp_happens_before(earlier.thread, earlier.time)) return missing_sync(Code::tensor_race);
    if (!earlier.awaited)
        return missing_sync(Code::tensor_in_flight,
            earlier.operation == TensorAccess::load ? Code::load_without_wait : Code::store_without_wait);
    if (is_same_warp) return nothing_missing;
    if (earlier.fenced && warp_happens_before(earlier.thread, earlier.fenced))
        return missing_after_fence(warp_precedes_fence(earlier.thread, earlier.fenced));
    if (warp_happens_before(earlier.thread, earlier.awaited))
        return missing_sync(Code::tensor_no_fence, Code::fence_before);
    return missing_sync(Code::tensor_race);
}
static MissingSync missing_between(const TensorAccess &earlier, const TensorAccess &later, bool earlier_writes) {
    return earlier.uses_pipe() ? missing_after_pipe(earlier, later, earlier_writes) : missing_after_warp(earlier);
}
static const char *name_of(TensorAccess::Operation operation) {
    static const char *const names[] = {"tcgen05.ld", "tcgen05.st", "tcgen05.mma", "tcgen05.cp", "tcgen05.shift"};
    return names[operation];
}
static void report_missing_sync(const MissingSync &m, const TensorAccess &earlier, const char *now, uint32_t location,
    uint32_t lane, uint32_t column) {
    if (!checks(m.code == Code::tensor_no_fence ? fencecheck : racecheck)) return;
    const char *const before = name_of(earlier.operation);
    const Access access = {detector.self, detector.now, location}, other = earlier.as_access();
    if (m.code == Code::tensor_race)
        return detector.report_finding(Code::tensor_race,
            {{"before", before}, {"now", now}, {"lane", lane}, {"column", column}}, access, &other);
    detector.report_finding(m.code == Code::tensor_in_flight ? Code::tensor_in_flight : Code::tensor_no_fence,
        {{"before", before}, {"now", now}, {"lane", lane}, {"column", column}, {"why", m.why}}, access, &other);
}
static void check_order_of(const TensorAccess &earlier, const TensorAccess &later, bool earlier_writes, uint32_t lane,
    uint32_t column) {
    const MissingSync m = missing_between(earlier, later, earlier_writes);
    if (m.is_missing) report_missing_sync(m, earlier, name_of(later.operation), later.location, lane, column);
}
// Most cells record the same accesses as the previous cell, which are checked only once.
void check_tensor_order(Worker &w, const TensorAccess &later, const TensorRange &range) {
    if (!checks(racecheck) && !checks(fencecheck)) return;
    const TensorMemory &tensor = tensor_memory_of(w);
    TensorCell checked = {};
    for (uint32_t column = range.column; column < range.column + range.columns; column++)
        for (uint32_t group = 0; group < tensor_lanes / lanes_of_cell; group++) {
            if (!(range.lanes >> group & 1)) continue;
            const TensorCell &cell = tensor.cells[column][group];
            if (!memcmp(&cell, &checked, sizeof cell)) continue;
            checked = cell;
            const uint32_t first_lane = group * lanes_of_cell;
            if (cell.write) check_order_of(tensor.accesses[cell.write - 1], later, true, first_lane, column);
            for (const uint32_t read : cell.reads)
                if (range.writes && read) check_order_of(tensor.accesses[read - 1], later, false, first_lane, column);
        }
}
size_t add_tensor_access(TensorMemory &tensor, TensorAccess::Operation operation, int cta_group, uint32_t shape,
    int line) {
    TensorAccess access = {operation, uint8_t(cta_group), detector.self, detector.now, line_bit | uint32_t(line), 0, 0,
        nullptr, 0, shape};
    if (access.uses_pipe()) {
        TensorPipe &pipe = current_pipe();
        access.pipe = &pipe, access.commit = pipe.commits();
        pipe.lines.back() = uint32_t(line);
        if (&tensor == &tensor_memory_of(*worker)) pipe.unfenced.push_back(tensor.accesses.size());
    }
    tensor.accesses.push_back(access);
    return tensor.accesses.size() - 1;
}
void record_tensor_access(TensorMemory &tensor, size_t index, const TensorRange &range) {
    const uint32_t access_id = uint32_t(index) + 1;
    const TensorAccess &access = tensor.accesses[index];
    for (uint32_t column = range.column; column < range.column + range.columns; column++)
        for (uint32_t group = 0; group < tensor_lanes / lanes_of_cell; group++) {
            if (!(range.lanes >> group & 1)) continue;
            TensorCell &cell = tensor.cells[column][group];
            if (range.writes) {
                cell = {access_id, {0, 0}};
                continue;
            }
            // replaces an earlier read by the same warp, so that at most two warps are recorded
            const auto is_same = [&](uint32_t read) {
                return !read || tensor.accesses[read - 1].thread / 32 == access.thread / 32;
            };
            cell.reads[is_same(cell.reads[0]) ? 0 : 1] = access_id;
        }
}
// Stores a read of uninitialized memory: if another thread writes it later, unordered, a data race is reported instead
// (initcheck.cpp). A read by tcgen05.mma is reported immediately.
void check_tensor_written(Worker &w, uint32_t lane, uint32_t column, int line, bool by_mma) {
    if (!detector.is_enabled || !checks(initcheck) || tensor_memory_of(w).is_written(column, lane)) return;
    auto &stored_read = w.leader->cluster.empty() ? detector.uninitialized_read : detector.uninitialized_in_launch;
    if (stored_read || detector.is_allowed(Code::tensor_unwritten, current_access(line))) return;
    stored_read.reset(new UninitializedRead{detector.self, {}});
    fill(stored_read->finding, Code::tensor_unwritten, {{"lane", lane}, {"column", column}});
    detector.describe(stored_read->finding, current_access(line), nullptr, nullptr);
    if (by_mma || !checks(racecheck)) detector.report_uninitialized(stored_read);
}
// PTX requires tcgen05.wait::ld before the columns are freed. A program without it has usually used the registers by
// then, so this is a missing wait (fencecheck), not a race.
static void report_load_not_awaited(const TensorAccess &freeing, const TensorAccess &load, uint32_t lane,
    uint32_t column) {
    if (!checks(fencecheck)) return;
    const Access other = load.as_access();
    detector.report_finding(Code::tensor_load_not_awaited, {{"lane", lane}, {"column", column}}, freeing.as_access(),
        &other);
}
// Reports instructions that are still in flight when the columns that they access are freed.
static void check_all_complete(Worker &w, const TensorAllocation &allocation, int line) {
    TensorAccess freeing = {TensorAccess::store, 0, detector.self, detector.now, line_bit | uint32_t(line), 0, 0,
        nullptr, 0, 0};
    if (!checks(racecheck) && !checks(fencecheck)) return;
    const TensorMemory &tensor = tensor_memory_of(w);
    for (uint32_t column = allocation.first; column < allocation.first + allocation.columns; column++)
        for (const TensorCell &cell : tensor.cells[column])
            for (const uint32_t access_id : {cell.write, cell.reads[0], cell.reads[1]}) {
                if (!access_id) continue;
                const TensorAccess &earlier = tensor.accesses[access_id - 1];
                const MissingSync m = missing_between(earlier, freeing, true);
                if (!m.is_missing || m.code != Code::tensor_in_flight) continue;
                const uint32_t lane = uint32_t(&cell - tensor.cells[column]) * lanes_of_cell;
                if (m.why == Code::load_without_wait) report_load_not_awaited(freeing, earlier, lane, column);
                else report_missing_sync(m, earlier, "tcgen05.dealloc", freeing.location, lane, column);
            }
}

// tcgen05.ld and tcgen05.st

namespace {
struct Position { uint32_t lane, column; };
struct Move {
    const TensorMove *call;
    uint32_t *const *registers;
    int line;
    bool stores;
};
}
// Returns the position of register `i` of a lane, relative to the instruction's address.
static Position position(const TensorMove &m, uint32_t lane, uint32_t i) {
    switch (m.shape) {
        case TensorShape::s32x32b: return {lane, i};
        case TensorShape::s16x64b: return {lane / 4 + lane % 2 * 8, i * 2 + lane / 2 % 2};
        case TensorShape::s16x128b: return {lane / 4 + i % 2 * 8, i / 2 * 4 + lane % 4};
        case TensorShape::s16x256b: return {lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2};
        default: return {lane % 16, i + (lane < 16 ? 0 : m.split / (m.packs ? 2 : 1))};
    }
}
static uint32_t registers_of(const TensorMove &m) {
    return m.shape == TensorShape::s16x128b ? m.repeats * 2
           : m.shape == TensorShape::s16x256b ? m.repeats * 4 : m.repeats;
}
// Returns the number of columns that the instruction accesses; for s16x32bx2, which accesses two ranges, of one range.
static uint32_t columns_of(const TensorMove &m) {
    const uint32_t per_repeat = m.shape == TensorShape::s16x64b ? 2 : m.shape == TensorShape::s16x128b ? 4
        : m.shape == TensorShape::s16x256b ? 8 : 1;
    return m.repeats * per_repeat * (m.packs ? 2 : 1);
}
static void move_registers(void *const *lanes) {
    const Move &first = *static_cast<Move *>(lanes[0]);
    TensorMemory &tensor = tensor_memory_of(*worker);
    const uint32_t base_lane = first.call->address >> 16, base_column = first.call->address & 0xffff;
    for (uint32_t lane = 0; lane < 32; lane++) {
        const Move &move = *static_cast<Move *>(lanes[lane]);
        if (move.call->address != first.call->address)
            fail(Code::tensor_addresses, {{"operation", first.stores ? "tcgen05.st" : "tcgen05.ld"}}, first.line);
        for (uint32_t i = 0, n = registers_of(*move.call); i < n; i++) {
            Position at = position(*move.call, lane, i);
            const uint32_t row = base_lane + at.lane, column = base_column + at.column * (move.call->packs ? 2 : 1);
            uint32_t *const word = &tensor.words[column][row];
            uint32_t &value = *move.registers[i];
            constexpr uint32_t next = tensor_lanes;
            if (!first.stores) value = move.call->packs ? (word[0] & 0xffff) | word[next] << 16 : word[0];
            else if (!move.call->packs) word[0] = value;
            else word[0] = value & 0xffff, word[next] = value >> 16;
            for (uint32_t c = column; first.stores && c <= column + (move.call->packs ? 1 : 0); c++)
                tensor.written[c][row / 64] |= uint64_t(1) << row % 64;
        }
    }
    if (!detector.is_enabled) return;
    const size_t index = add_tensor_access(tensor, first.stores ? TensorAccess::store : TensorAccess::load, 0, 0,
        first.line);
    tensor.accesses[index].thread = detector.self / 32 * 32;
    (first.stores ? tensor.pending_stores : tensor.pending_loads)[current_rank() / 32].push_back(index);
    const uint32_t groups = first.call->shape == TensorShape::s32x32b ? 3 : 1, columns = columns_of(*first.call);
    const TensorRange range = {base_column, columns, groups << base_lane / lanes_of_cell, !first.stores, first.stores};
    record_tensor_access(tensor, index, range);
    if (first.call->shape == TensorShape::s16x32bx2)
        record_tensor_access(tensor, index,
            {base_column + first.call->split, columns, range.lanes, range.reads, range.writes});
}
// Checks the accesses of one lane.
static void check_move(const TensorMove &m, bool stores, int line) {
    const char *const operation = stores ? "tcgen05.st" : "tcgen05.ld";
    const uint32_t base_lane = m.address >> 16, column = m.address & 0xffff,
                   lanes = m.shape == TensorShape::s32x32b ? 32 : 16, warp = uint32_t(current_rank() / 32),
                   first = warp % 4 * 32, columns = columns_of(m), split = m.shape == TensorShape::s16x32bx2
                       ? m.split : 0;
    if (base_lane < first || base_lane + lanes > first + 32 || base_lane % 16)
        fail(Code::tensor_lanes,
            {{"operation", operation}, {"warp", warp}, {"lane", base_lane}, {"last", base_lane + lanes - 1},
                {"first", first}, {"last_allowed", first + 31}},
            line);
    check_tensor_range(*worker, base_lane, lanes, column, columns, operation, line);
    if (split) check_tensor_range(*worker, base_lane, lanes, column + split, columns, operation, line);
    if (!detector.is_enabled) return;
    const TensorAccess access = {stores ? TensorAccess::store : TensorAccess::load, 0, detector.self, detector.now,
        line_bit | uint32_t(line), 0, 0, nullptr, 0, 0};
    const uint32_t group = base_lane / lanes_of_cell + (lanes == 32 ? uint32_t(lane()) / lanes_of_cell : 0);
    for (const uint32_t from : {column, column + split})
        if (from == column || split)
            check_tensor_order(*worker, access, {from, columns, 1u << group, !stores, stores});
    for (uint32_t i = 0, n = registers_of(m); !stores && i < n; i++) {
        const Position at = position(m, uint32_t(lane()), i);
        for (uint32_t c = 0; c < (m.packs ? 2u : 1u); c++)
            check_tensor_written(*worker, base_lane + at.lane, column + at.column * (m.packs ? 2 : 1) + c, line,
                false);
    }
}

// The registers are valid immediately: PTX orders their use after the load, even without tcgen05.wait::ld.
void tmem_load(const TensorMove &m, uint32_t *const *registers, int line) {
    check_move(m, false, line);
    Move move = {&m, registers, line, false};
    run_for_warp("tcgen05.ld", &move, move_registers, line);
}
void tmem_store(const TensorMove &m, uint32_t *const *registers, int line) {
    check_move(m, true, line);
    Move move = {&m, registers, line, true};
    run_for_warp("tcgen05.st", &move, move_registers, line);
}
void tmem_wait(bool loads, int line) {
    struct Call {
        bool loads;
    } call = {loads};
    run_for_warp(loads ? "tcgen05.wait::ld" : "tcgen05.wait::st", &call, [](void *const *lanes) {
        if (!detector.is_enabled) return;
        TensorMemory &tensor = tensor_memory_of(*worker);
        const bool waits_for_loads = static_cast<Call *>(lanes[0])->loads;
        auto &pending = (waits_for_loads ? tensor.pending_loads : tensor.pending_stores)[current_rank() / 32];
        for (const size_t index : pending) tensor.accesses[index].awaited = detector.now;
        auto &unfenced = engines_of(*worker).unfenced[current_rank() / 32];
        unfenced.insert(unfenced.end(), pending.begin(), pending.end());
        pending.clear();
        ++detector.now;
    }, line);
}
void tmem_fence(bool is_before) {
    if (!detector.is_enabled) return;
    const int rank = current_rank();
    ++detector.now;
    if (is_before) {
        TensorMemory &tensor = tensor_memory_of(*worker);
        auto &of_warp = engines_of(*worker).unfenced[rank / 32];
        for (const size_t index : of_warp) tensor.accesses[index].fenced = detector.now;
        of_warp.clear();
        for (const size_t index : current_pipe().unfenced) tensor.accesses[index].fenced = detector.now;
        current_pipe().unfenced.clear();
        ++detector.now;
        return;
    }
    FenceView &fence = engines_of(*worker).requests[size_t(rank)].fence_view;
    fence = {detector.block_synced, detector.warp_synced[rank / 32], detector.block_view.acquired,
        detector.block_view.waited};
    if (!detector.any_acquired) return;
    fence.acquired.join(detector.views[size_t(rank)].acquired);
    fence.waited.join(detector.views[size_t(rank)].waited);
}
void complete_commit(TensorPipe &pipe, uint32_t commit) {
    while (pipe.completed.size() <= commit) pipe.completed.push_back(++detector.now);
    ++detector.now;
}

// When a block ends, reports MMAs that no thread has waited for, and columns that are still allocated.
void check_tensor_memory_at_end(Worker &w) {
    for (const auto &entry : engines_of(w).pipes) {
        const TensorPipe &pipe = entry.second;
        for (size_t commit = pipe.completed.size(); commit < pipe.lines.size() && checks(racecheck); commit++)
            if (pipe.lines[commit])
                detector.report_finding(
                    Code::mma_not_awaited, {}, {pipe.thread & ~pipe_bit, 0, line_bit | pipe.lines[commit]});
    }
    if (!engines_of(w).tensor || !checks(memcheck)) return;
    for (const TensorAllocation &a : engines_of(w).tensor->allocations)
        detector.report_finding(Code::tensor_leak, {{"columns", a.columns}}, a.allocating_access);
}
}
