// cp.async. The emulator copies immediately, but the detectors treat the copy as in flight until its thread has waited.
#include <algorithm>
#include <string.h>
#include "detector.h"
#include "findings.h"

namespace gridstride {

void copy_async(void *to, const void *from, unsigned bytes, unsigned read, const char *what, int line) {
    typedef uint32_t __attribute__((may_alias)) Word;
    if (!shared_address(to))
        fail(Code::copy_target, {{"operation", what}, {"address", reinterpret_cast<uintptr_t>(to)}}, line);
    must_be_aligned(to, bytes, what, line), must_be_aligned(from, bytes, what, line);
    if (detector.on)
        detector.copy(
            reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, read, line_bit | uint32_t(line));
    for (unsigned i = 0; i < bytes; i += 4) {
        Word word = 0;
        if (i < read) memcpy(&word, static_cast<const char *>(from) + i, std::min(read - i, 4u));
        static_cast<Word *>(to)[i / 4] = word;
    }
}
void copy_async_commit() {
    if (detector.on) detector.commit();
}
void copy_async_wait(unsigned groups) {
    if (detector.on) detector.wait_for_copies(groups);
}
void copy_async_wait_all() { copy_async_commit(), copy_async_wait(0); }

void Detector::copy(uintptr_t to, uintptr_t from, unsigned bytes, unsigned read, uint32_t location) {
    if (read) access(from, read, false, location);
    access(to, bytes, true, location | async_bit);
    auto &mine = copies[me % max_threads];
    mine.open.push_back({to, bytes, me, location | async_bit, mine.group});
}

// Completes all groups of copies of the current thread except the newest `groups`.
void Detector::wait_for_copies(unsigned groups) {
    auto &mine = copies[me % max_threads];
    size_t n = 0;
    while (n < mine.open.size() && mine.open[n].group + groups < mine.group) complete_copy(mine.open[n++]);
    mine.open.erase(mine.open.begin(), mine.open.begin() + std::ptrdiff_t(n));
}
void Detector::complete_copy(const Copy &c) {
    each_cell(c, [&](Cell &cell) { complete_access(cell.write, c); });
}
void Detector::complete_reads(const Copy &c) {
    each_cell(c, [&](Cell &cell) { complete_access(cell.read, c), complete_access(cell.second_read, c); });
}

// Checks and records a read of 16 bytes by wgmma. More warpgroups may read the same bytes than a cell has reads, so
// these reads are recorded in a separate table. `fine` is the last write that was checked; most cells have the same
// write.
void Detector::read_by_product(uintptr_t a, uint32_t location, uint32_t group, Access &fine) {
    finish_pending_writes();
    const Access mine = {me, not_completed, location};
    const size_t off = a - shared_base;
    for (size_t i = off; i < off + 16; i += 4) {
        Cell &word = shared_cells.word_cells[i / 4], *cells = word.has_byte_cells ? shared_cells.byte_cells + i : &word;
        if (!word.owner) return report_out_of_bounds_shared(i, false, location);
        for (size_t b = 0; b < (word.has_byte_cells ? 4 : 1); b++) {
            if (memcmp(&cells[b].write, &fine, sizeof fine)) {
                check_read(cells[b], word.owner, false, shared_base + i + b, mine, nullptr);
                fine = cells[b].write;
            }
            cells[b].in_product = 1;
        }
    }
    if (product_reads.empty()) product_reads.resize(max_threads / 128 * shared_cap / 16);
    product_reads[me % max_threads / 128 * shared_cap / 16 + off / 16] = {now, location, group};
}
// Records that the current thread has waited for the first `groups` groups of products of its warpgroup.
void Detector::complete_products(uint32_t groups) {
    const uint32_t warpgroup = me % max_threads / 128;
    auto &over = products_completed[warpgroup];
    while (over.size() < groups) over.push_back(++now);
    ++now;                                 // later than all releases
    wait_for_engine(thread_number(*w, int(warpgroup * 128)), over[groups - 1] + 1);
}
// Checks a write to bytes that wgmma has read since the write `before`: each warpgroup must have waited for its
// products, and the current thread must have synchronized with it since.
void Detector::check_product_reads(const Access &before, const Access &mine, uintptr_t a, unsigned owner) {
    const Worker &holder = holder_of(a);
    const BlockClock &there = &holder == w ? *this : *holder.clock;
    const size_t index = (a - reinterpret_cast<uintptr_t>(holder.shared)) / 16;
    for (int i = 0; i * 128 < holder.num_threads; i++) {
        const ProductRead &r = there.product_reads[size_t(i) * shared_cap / 16 + index];
        if (r.time < std::max(before.time, there.block_start)) continue;
        const auto &over = there.products_completed[i];
        const uint32_t completed_at = r.group < over.size() ? over[r.group] : not_completed;
        const Access read = {thread_number(holder, i * 128), completed_at, r.location};
        if (!happens_before(read, block_start))
            race(read, mine, "read", changes(mine.location) ? "changed atomically" : "written", a, owner, nullptr);
    }
}
}
