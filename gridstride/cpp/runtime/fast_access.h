// The fast paths of an access, which record most accesses of correct kernels without a call of a function. Each returns
// false if `Detector::access` must make the full check. hooks.cpp and shared.cpp call them; detector.h includes this
// file, and declares the members that it defines.
#pragma once
#include "detector.h"

namespace gridstride {

// Returns whether an access to shared memory cannot race with those of the current thread: it precedes the last barrier
// of the block, or the current thread made it.
inline __attribute__((always_inline)) bool Detector::is_settled(const Access &a) const {
    return a.time < block_synced || (a.thread == self && a.time <= now && !(a.location & async_proxy_bit));
}

// The fast path, for most accesses of correct kernels: a word of shared memory is written before the last barrier and
// read after it, or read before and written after, or only one thread accesses it. Returns false if `access` must make
// the full check.
inline __attribute__((always_inline)) bool Detector::fast_shared_access(uintptr_t off, bool write, uint32_t location) {
    Cell &c = shared_cells.word_cells[off / 4];
    if (c.has_byte_cells | !c.owner || !is_settled(c.write)) return false;
    const bool read = c.read.time >= block_synced, read2 = c.second_read.time >= block_synced;
    if (write) {
        if (c.read_by_mma || ((read | read2) && !(is_settled(c.read) && is_settled(c.second_read)))) return false;
        ranges.has_writes = true;
        c.write = {self, now, location};
        return true;
    }
    if (c.write.time < block_start) return false;
    if (!read) c.read = {self, now, location};
    else if (c.read.thread == self) c.read.time = now, c.read.location = location;
    else if (w->uses_warps) record_read(c, {self, now, location}, block_start);
    else {
        if (read2 && is_of_other_warp(c) && any_acquired) return false;   // one of them may happen before this read
        if (!read2 || is_of_other_warp(c)) c.second_read = {self, now, location};
        tag_reads(off / 4, c);
    }
    return true;
}

// `fast_shared_access` for one or two bytes of a word whose bytes have cells
template <unsigned n, bool write>
inline __attribute__((always_inline)) bool Detector::fast_shared_bytes(uintptr_t off, uint32_t location) {
    const Cell &word = shared_cells.word_cells[off / 4];
    if (!word.has_byte_cells | !word.owner | (write && pending.active)) return false;
    Cell *const bytes = shared_cells.byte_cells + off;
    for (Cell *c = bytes; c < bytes + n; c++)
        if (!is_settled(c->write) || (write ? c->read_by_mma || !is_settled(c->read) || !is_settled(c->second_read)
                                            : c->write.time < block_start))
            return false;
    if (write) record_ranges(), ranges.has_writes = true;
    const Access current = {self, now, location};
    for (Cell *c = bytes; c < bytes + n; c++)
        if (write) c->write = current;
        else if (c->read.time < block_synced || c->read.thread == self) c->read = current;
        else record_read(*c, current, block_start);
    return true;
}

// `fast_shared_access` for consecutive words
inline bool Detector::fast_shared_accesses(uintptr_t off, unsigned bytes, bool write, uint32_t location) {
    if (off >= shared_cap - bytes || (off | bytes) % 4 || (write && pending.active)) return false;
    if (write) record_ranges();
    for (const uintptr_t end = off + bytes; off < end; off += 4)
        if (!(!write && is_tagged(off)) && !fast_shared_access(off, write, location)) return false;
    return true;
}

inline void Detector::tag_reads(uintptr_t word, const Cell &c) {
    shared_cells.tags[word] = tag_of(c.read, c.second_read);
}
inline uint32_t Detector::tag_of(const Access &read, const Access &second_read) const {
    const uint32_t scope = read.thread / 32 == second_read.thread / 32 ? 0 : block_tag;
    return (read_key & ~uint32_t(max_threads - 1)) | read.thread % max_threads | scope;
}

// Returns whether an earlier access cannot be part of a data race: it precedes the launch, or the current thread
// made it. The fast path of global memory requires this of all accesses that its cells record.
inline __attribute__((always_inline)) bool Detector::cannot_conflict(const Access &a, uint32_t since) const {
    return a.time < since ||
           (a.thread == self && a.time >= launch_start && !(a.location & (async_proxy_bit | async_bit)));
}

// A tag of global memory contains the indices of two blocks that have read the word, modulo 2^11, and `tag_epoch`,
// which changes with `launch_start`: further reads by other blocks change nothing in its cell.
inline __attribute__((always_inline)) bool Detector::is_read_by_others(uint32_t tag) const {
    const uint32_t block = self / max_threads;
    return tag >> 22 == tag_epoch && ((tag >> 11 ^ block) & 2047) && ((tag ^ block) & 2047) && !any_acquired &&
           !w->uses_warps && !has_several_devices;
}

inline void Detector::tag_global_reads(Cell &c) {
    if (any_acquired || w->uses_warps || c.has_byte_cells) return;
    const uint32_t blocks[] = {c.read.thread / max_threads, c.second_read.thread / max_threads};
    if (blocks[0] == self / max_threads || blocks[1] == self / max_threads) return;
    cells.set_tag(size_t(&c - cells.word_cells), tag_epoch << 22 | blocks[0] % 2048 << 11 | blocks[1] % 2048);
}

inline void Detector::begin_tag_epoch() {
    if (++tag_epoch < 1024) return;
    cells.discard_tags();
    tag_epoch = 1;
}

// The fastest path: an access that continues the last run of a compact line, and conflicts with no other access
template <unsigned n, bool write> inline __attribute__((always_inline)) bool Detector::continues_run(
    Line &line, uintptr_t offset, uint32_t location) const {
    constexpr uint32_t log_words = log_words_of(n), flags = Run::inside_bit | (write ? 0 : Run::initialized_bit);
    const unsigned word = word_of(offset), item = word >> log_words;
    const uint32_t words = words_of<n>(word);
    Run *const runs = write ? line.writes : line.reads;
    const Run *const others = write ? line.reads : line.writes;
    if (runs->time != now || runs->key != (Run::key_of(location, log_words) | flags)) return false;
    if (runs->thread_of(item) != self || (n == 16 && word % 4)) return false;
    if (others->time >= launch_start && (others->mask | others[1].mask) & words &&
        ((others[1].mask & words && others[1].time >= launch_start) ||
            (others->mask & words && (others->log_words() != log_words || others->thread_of(item) != self))))
        return false;
    if (runs[1].mask & words && runs[1].time >= launch_start) return false;   // perhaps by another thread
    runs->mask = uint16_t(runs->mask | words), runs[1].drop(words);
    return true;
}

// Whether an access to words of a line can race with this run
inline bool Detector::may_conflict(
    const Run &run, unsigned item, uint32_t log_words, uint32_t words, uint32_t since) const {
    return run.mask & words && run.time >= since &&
           (run.time < launch_start || run.log_words() != log_words || run.thread_of(item) != self);
}

// Records an access to a compact line; expands the line and returns false if the access fits no run
template <unsigned n, bool write> inline bool Detector::access_line(Line &line, uintptr_t offset, uint32_t location) {
    constexpr uint32_t log_words = log_words_of(n);
    const unsigned word = word_of(offset), item = word >> log_words;
    const uint32_t words = words_of<n>(word), since = ordered_until();
    const auto conflicts = [&](const Run *runs) {
        return may_conflict(runs[0], item, log_words, words, since) ||
               may_conflict(runs[1], item, log_words, words, since);
    };
    // A run records one thread per word; a word that several threads read needs a cell, which records two.
    if ((n == 16 && word % 4) || conflicts(line.writes) || conflicts(line.reads) ||
        (has_unordered_operations && line.has(Run::flushed_bit)))
        return cells.expand(offset, n), false;
    if (!is_usable_word<n, write>(offset, (line.writes[0].mask | line.writes[1].mask) & words)) return false;
    Run *const runs = write ? line.writes : line.reads;
    const Access current = {self, now, location};
    for (Run *run : {runs, runs + 1})
        if (run->is_continued(current, item, log_words)) {
            runs[run == runs].drop(words);
            run->mask = uint16_t(run->mask | words);
            return true;
        }
    return begin_run(line, write, current, offset, words, log_words);
}

// Whether the launch may make this access. `written`: a mask of the words whose writes the runs record
template <unsigned n, bool write> inline __attribute__((always_inline)) bool Detector::is_usable_word(
    uintptr_t offset, uint32_t written) const {
    const uintptr_t a = reinterpret_cast<uintptr_t>(memory.base) + offset;
    const Allocation *p = memory.at(a);
    if (!p || p->usable_in != launch_id || a < p->lo || a + n > p->hi || (write && p->checks_writes))
        return false;
    if (write || !p->is_uninitialized || __builtin_popcount(written) == n / 4) return true;
    const Cell *c = cells.word_cells + offset / 4;
    return std::all_of(c, c + n / 4, [](const Cell &cell) { return cell.write.time || cell.written; });
}

// `offset`: from the base of the arena
template <unsigned n, bool write> inline bool Detector::fast_global_access(uintptr_t offset, uint32_t location) {
    if (__builtin_expect(has_unordered_operations, 0) &&
        !is_clear_of_operations(reinterpret_cast<uintptr_t>(memory.base) + offset, n))
        return false;
    Line &line = cells.line_at(offset);
    if (!line.has(Run::expanded_bit)) return n % 4 == 0 && access_line<n, write>(line, offset, location);
    return access_cells<n, write>(offset, location);
}

template <unsigned n, bool write> inline __attribute__((always_inline)) bool Detector::access_cells(
    uintptr_t offset, uint32_t location) {
    if (!write && n == 4 && is_read_by_others(cells.tags[offset / 4])) return true;
    const uintptr_t a = reinterpret_cast<uintptr_t>(memory.base) + offset;
    const Allocation *p = memory.at(a);
    if (!p || p->usable_in != launch_id || a < p->lo || a + n > p->hi || (write && p->checks_writes))
        return false;
    Cell *c = cells.word_cells + offset / 4;
    constexpr bool by_bytes = n % 4;            // a byte, or two
    if (c->has_byte_cells != by_bytes) return false;
    if (by_bytes) c = cells.byte_cells + offset;
    const uint32_t since = ordered_until();
    for (const Cell *end = c + (by_bytes ? n : n / 4); c < end; c++) {
        if ((!by_bytes && c->has_byte_cells) | !cannot_conflict(c->write, since)) return false;
        if (!write) {
            if (p->is_uninitialized && !c->write.time) return false;
            if (__builtin_expect(has_unordered_operations, 0)) record_read_across_launches(*c, {self, now,
                location});
            else record_plain_read(*c, location, by_bytes);
        } else {
            if (int(!cannot_conflict(c->read, since)) | int(!cannot_conflict(c->second_read, since))) return false;
            c->write = {self, now, location};
        }
    }
    return true;
}

// Records reads of `count` elements of n bytes; returns false if one of them must be checked by `access`.
template <unsigned n>
inline bool Detector::record_strided_reads(const LoopReads::Read &r, size_t count, uint32_t location) {
    const uintptr_t last = r.first + uintptr_t(r.stride) * (count - 1);
    const uintptr_t low = std::min(r.first, last), high = std::max(r.first, last);
    const auto is_within = [=](uintptr_t base, size_t size) { return low - base < size && high - base < size; };
    if ((r.first | uintptr_t(r.stride)) % n) return false;
    if (is_within(shared_base, shared_cap - n)) return record_shared_reads<n>(r, count, location);
    if (is_within(own_stack, stack_bytes)) return r.is_array;      // a pointer may point to the loop's own variable
    const uintptr_t base = reinterpret_cast<uintptr_t>(memory.base);
    if (!is_within(base, memory.size) || has_unordered_operations) return false;
    uintptr_t offset = r.first - base;
    for (size_t i = 0; i < count; i++, offset += uintptr_t(r.stride))
        if (!record_global_read<n>(offset, location)) return false;
    return true;
}

template <unsigned n> inline bool Detector::record_global_read(uintptr_t offset, uint32_t location) {
    if (is_read_by_others(cells.line_tags[offset / line_bytes])) return true;
    Line &line = cells.line_at(offset);
    return (!line.has(Run::expanded_bit) && (continues_run<n, false>(line, offset, location) ||
                                                access_line<n, false>(line, offset, location))) ||
           (line.has(Run::expanded_bit) && access_cells<n, false>(offset, location));
}

template <unsigned n>
inline bool Detector::record_shared_reads(const LoopReads::Read &r, size_t count, uint32_t location) {
    const uint32_t offset = uint32_t(r.first - shared_base);
    RangeReads &range = ranges.find(offset, r.stride, count);
    const bool is_known = n == 4 && range.is_of(offset, r.stride, count, ranges.generation);
    if (is_known && is_covered(range.tag)) return true;
    if (is_known && range.num_unrecorded) return add_read(range, location), true;
    if (n != 4 || any_acquired || w->uses_warps || ranges.num_recorded > RangeTable::max_recorded)
        return record_shared_words<n>(r, count, range, location);
    return begin_range(range, offset, r.stride, count, location);
}

// Records reads that begin a range, or replace it.
inline bool Detector::begin_range(
    RangeReads &range, uint32_t offset, intptr_t stride, size_t count, uint32_t location) {
    const bool is_checked = !ranges.has_writes && range.is_of(offset, stride, count, ranges.generation);
    if (!is_checked && !can_read_words(offset, stride, count)) return false;
    if (range.num_unrecorded) record_range(range);
    range.begin(offset, stride, count, ranges.generation);
    range.read = {self, now, location}, range.num_unrecorded = 1;
    if (!range.is_listed) ranges.unrecorded[ranges.num_unrecorded++] = uint8_t(&range - ranges.entries);
    range.is_listed = true;
    return true;
}
// Adds a read by a further thread, as `fast_shared_access` does for a word.
inline void Detector::add_read(RangeReads &range, uint32_t location) {
    if (range.read.thread == self) return;
    range.second_read = {self, now, location}, range.num_unrecorded = 2;
    range.tag = tag_of(range.read, range.second_read);
}
// Returns whether each word was written before the last barrier, so that reading it is correct.
inline bool Detector::can_read_words(uint32_t offset, intptr_t stride, size_t count) const {
    uintptr_t word = offset / 4;
    for (size_t i = 0; i < count; i++, word += uintptr_t(stride / 4)) {
        const Cell &c = shared_cells.word_cells[word];
        if (c.has_byte_cells | !c.owner | (c.write.time >= block_synced) | (c.write.time < block_start)) return false;
    }
    return true;
}

// Records the reads in the cells. If their words had one tag, further reads of the range are recorded by this tag.
template <unsigned n>
inline bool Detector::record_shared_words(
    const LoopReads::Read &r, size_t count, RangeReads &range, uint32_t location) {
    const uint32_t offset = uint32_t(r.first - shared_base), *const tags = shared_cells.tags;
    bool has_one_tag = n == 4;
    uintptr_t at = offset;
    for (size_t i = 0; i < count; i++, at += uintptr_t(r.stride))
        for (unsigned word = 0; word < n; word += 4) {
            if (!is_tagged(at + word) && !fast_shared_access(at + word, false, location)) return false;
            has_one_tag &= tags[at / 4] == tags[offset / 4];
        }
    if (!has_one_tag) return true;
    if (range.num_unrecorded) record_range(range);
    range.begin(offset, r.stride, count, ranges.generation);
    range.tag = tags[offset / 4];
    return true;
}
}
