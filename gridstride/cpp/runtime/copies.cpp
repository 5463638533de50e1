// cp.async: the emulator copies immediately, but the detectors treat the copy as in flight until its thread has waited.
#include <algorithm>
#include <string.h>
#include "engines.h"
#include "findings.h"

namespace gridstride {

void copy_async(void *to, const void *from, unsigned bytes, unsigned num_read, const char *operation, int line) {
    typedef uint32_t __attribute__((may_alias)) Word;
    if (!shared_address(to))
        fail(Code::copy_target, {{"operation", operation}, {"address", reinterpret_cast<uintptr_t>(to)}}, line);
    must_be_aligned(to, bytes, operation, line), must_be_aligned(from, bytes, operation, line);
    if (detector.is_enabled)
        detector.copy(
            reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, num_read,
                line_bit | uint32_t(line));
    for (unsigned i = 0; i < bytes; i += 4) {
        Word word = 0;
        if (i < num_read) memcpy(&word, static_cast<const char *>(from) + i, std::min(num_read - i, 4u));
        static_cast<Word *>(to)[i / 4] = word;
    }
}
void copy_async_commit() {
    if (detector.is_enabled) detector.commit();
}
void copy_async_wait(unsigned groups) {
    if (detector.is_enabled) detector.wait_for_copies(groups);
}
void copy_async_wait_all() { copy_async_commit(), copy_async_wait(0); }

void Detector::copy(uintptr_t to, uintptr_t from, unsigned bytes, unsigned num_read, uint32_t location) {
    if (num_read) access(from, num_read, false, location);
    access(to, bytes, true, location | async_bit);
    auto &queue = copies[self % max_threads];
    queue.pending.push_back({to, bytes, self, location | async_bit, queue.group});
}

// Completes all groups of copies of the current thread except the newest `groups`.
void Detector::wait_for_copies(unsigned groups) {
    auto &queue = copies[self % max_threads];
    size_t num_completed = 0;
    while (num_completed < queue.pending.size() && queue.pending[num_completed].group + groups < queue.group)
        complete_copy(queue.pending[num_completed++]);
    queue.pending.erase(queue.pending.begin(), queue.pending.begin() + std::ptrdiff_t(num_completed));
}
void Detector::complete_copy(const Copy &c) {
    visit_cells(c, [&](Cell &cell) { complete_access(cell.write, c); });
}
void Detector::complete_reads(const Copy &c) {
    visit_cells(c, [&](Cell &cell) { complete_access(cell.read, c), complete_access(cell.second_read, c); });
}

// Checks and records a read of 16 bytes by wgmma. A cell records two reads, but more than two warpgroups may read the
// same bytes, so a separate table records these reads. `checked_write` is the write of the last checked cell:
// neighbouring cells usually have the same write, which is checked only once.
void Detector::record_mma_read(uintptr_t a, uint32_t location, uint32_t group, Access &checked_write) {
    finish_pending_writes();
    const Access read = {self, not_completed, location};
    const size_t offset = a - shared_base;
    for (size_t i = offset; i < offset + 16; i += 4) {
        Cell &word = shared_cells.word_cells[i / 4], *cells = word.has_byte_cells ? shared_cells.byte_cells + i : &word;
        if (!word.owner) return report_out_of_bounds_shared(i, false, location);
        for (size_t byte = 0; byte < (word.has_byte_cells ? 4 : 1); byte++) {
            if (memcmp(&cells[byte].write, &checked_write, sizeof checked_write)) {
                check_read(cells[byte], word.owner, false, shared_base + i + byte, read, nullptr);
                checked_write = cells[byte].write;
            }
            cells[byte].read_by_mma |= 1;
        }
    }
    if (mma_reads.empty()) mma_reads.resize(max_threads / 128 * shared_cap / 16);
    mma_reads[self % max_threads / 128 * shared_cap / 16 + offset / 16] = {now, location, group};
}
// Records that a warp has issued a wgmma of wgmma-group `group` with an operand in registers. The accesses of the warp
// so far, such as the loads of this operand, happen before the wgmma is complete.
void Detector::issue_with_registers(int warp, uint32_t group) {
    auto &issued = issued_with_registers[warp / 4];
    while (issued.size() <= group) issued.push_back(issued.empty() ? VectorClock() : issued.back());
    ++now;
    issued[group].add(thread_id(*w, warp * 32), {now, now, 0});
}
// Records that the current thread has waited for the first `groups` wgmma-groups of its warpgroup.
void Detector::complete_mma_groups(uint32_t groups) {
    const uint32_t warpgroup = self % max_threads / 128;
    auto &completion_times = mma_groups_completed[warpgroup];
    while (completion_times.size() < groups) completion_times.push_back(++now);
    ++now;                                 // later than all releases
    wait_for_async_proxy(thread_id(*w, int(warpgroup * 128)), completion_times[groups - 1] + 1);
    const auto &issued = issued_with_registers[warpgroup];
    if (!issued.empty()) view().acquired.join(issued[std::min(size_t(groups), issued.size()) - 1]);
}
// Checks a write to bytes that wgmma has read since the previous write: each warpgroup must have waited for its
// wgmma-groups, and the current thread must have synchronized with it since.
void Detector::check_mma_reads(const Access &previous_write, const Access &write, uintptr_t a, unsigned owner) {
    const Worker &holder = holder_of(a);
    const BlockDetectorState &holder_state = &holder == w ? *this : *holder.detector_state;
    const size_t index = (a - reinterpret_cast<uintptr_t>(holder.shared)) / 16;
    check_operand_reads(previous_write, write, a, owner);
    for (int warpgroup = 0; warpgroup * 128 < holder.num_threads && !holder_state.mma_reads.empty(); warpgroup++) {
        const MmaRead &mma_read = holder_state.mma_reads[size_t(warpgroup) * shared_cap / 16 + index];
        if (mma_read.time < std::max(previous_write.time, holder_state.block_start)) continue;
        const auto &completion_times = holder_state.mma_groups_completed[warpgroup];
        const uint32_t completed_at = mma_read.group < completion_times.size()
            ? completion_times[mma_read.group] : not_completed;
        const Access read = {thread_id(holder, warpgroup * 128), completed_at, mma_read.location};
        if (!happens_before(read, block_start))
            report_race(read, write, "read", is_atomic_update(write.location) ? "changed atomically" : "written", a,
                owner,
                nullptr);
    }
}

// Checks and records a read of 16 bytes by tcgen05.mma or tcgen05.cp, in the shared memory of this block or the other
// block of its CTA pair. Instructions of two threads may read the same bytes.
void Detector::read_by_tensor_cores(Worker &holder, uintptr_t a, const OperandRead &read, Access &checked_write) {
    finish_pending_writes();
    BlockDetectorState &holder_state = &holder == w ? *this : *holder.detector_state;
    const uintptr_t base = reinterpret_cast<uintptr_t>(holder.shared);
    const Access access = {self, not_completed, read.location};
    const size_t offset = a - base;
    for (size_t i = offset; i < offset + 16; i += 4) {
        Cell &word = holder_state.shared_cells.word_cells[i / 4],
             *cells_of_word = word.has_byte_cells ? holder_state.shared_cells.byte_cells + i : &word;
        if (!word.owner) return report_out_of_bounds_shared(i, false, read.location);
        for (size_t byte = 0; byte < (word.has_byte_cells ? 4 : 1); byte++) {
            if (memcmp(&cells_of_word[byte].write, &checked_write, sizeof checked_write)) {
                check_read(cells_of_word[byte], word.owner, false, base + i + byte, access, nullptr);
                checked_write = cells_of_word[byte].write;
            }
            cells_of_word[byte].read_by_mma |= 2;
        }
    }
    if (holder_state.operand_reads.empty()) holder_state.operand_reads.resize(shared_cap / 16 * 2);
    OperandRead *const slots = &holder_state.operand_reads[offset / 16 * 2];
    slots[slots[0].time < holder_state.block_start || slots[0].pipe == read.pipe ? 0 : 1] = read;
}
void Detector::check_operand_reads(const Access &previous_write, const Access &write, uintptr_t a, unsigned owner) {
    const Worker &holder = holder_of(a);
    const BlockDetectorState &holder_state = &holder == w ? *this : *holder.detector_state;
    if (holder_state.operand_reads.empty()) return;
    const uintptr_t base = reinterpret_cast<uintptr_t>(holder.shared);
    const OperandRead *const slots = &holder_state.operand_reads[(a - base) / 16 * 2];
    for (int slot = 0; slot < 2; slot++) {
        const OperandRead &read = slots[slot];
        const uint32_t since = previous_write.time == not_completed ? 0 : previous_write.time;
        if (!read.pipe || read.time < std::max(since, holder_state.block_start)) continue;
        const auto &completed = read.pipe->completed;
        const uint32_t completed_at = read.commit < completed.size() ? completed[read.commit] : not_completed;
        if (happens_before({read.pipe->thread, completed_at, read.location}, block_start)) continue;
        report_race({read.pipe->thread & ~(1u << 31), completed_at, read.location}, write, "read",
            is_atomic_update(write.location) ? "changed atomically" : "written", a, owner, nullptr);
    }
}
}
