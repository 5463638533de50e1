// Bulk copies (TMA): cp.async.bulk of contiguous bytes, and of boxes of a tensor map
#include <algorithm>
#include <string.h>
#include "clusters.h"
#include "engines.h"
#include "findings.h"

namespace gridstride {

static char *shared_in(Worker &there, uint32_t at, uint32_t bytes, const char *what, int line) {
    const uint32_t offset = offset_of(at) - shared_window;
    if (offset > shared_cap - bytes) shared_pointer(at, 1, what, line);
    return there.shared + offset;
}
static void check_bulk_size(const void *p, uint32_t bytes, const char *what, int line) {
    must_be_aligned(p, 16, what, line);
    if (bytes % 16 == 0 && bytes) return;
    fail(Code::bulk_bytes, {{"operation", what}, {"bytes", bytes}}, line);
}
// Calls f(block) once per block of the cluster in the multicast mask, with the current block if the mask is 0.
template <class F> static void call_targets(uint32_t blocks, int line, F f) {
    if (!blocks) return f(*worker);
    const auto &c = worker->leader->cluster;
    for (uint32_t i = 0; i < 16; i++) {
        if (!(blocks >> i & 1)) continue;
        if (i >= c.size() && (i || !c.empty())) fail(Code::copy_to_no_block, {}, line);
        f(c.empty() ? *worker : *c[i]);
    }
}
// Checks and records a bulk copy to `to` in the shared memory of the block `there`. It completes on the mbarrier of
// this block at the offset of `bar`.
static void start_bulk_copy(Worker &there, uint32_t to, uint32_t bytes, uint32_t bar, int line) {
    auto &all = engines_of(there).barriers;
    auto b = all.find(offset_of(bar));
    if (b == all.end()) barrier_at(bar, "a bulk copy ends", line);
    if (detector.on && checks(racecheck) && !b->second.is_fenced) fail(Code::barrier_not_visible, {}, line);
    if (detector.on) {
        const uintptr_t a = reinterpret_cast<uintptr_t>(there.shared) + offset_of(to) - shared_window;
        detector.access(
            reinterpret_cast<uintptr_t>(b->second.address), 8, true, atomic_bit | line_bit | uint32_t(line));
        detector.access(a, bytes, true, engine_location(line));
        b->second.in_flight.push_back({a, bytes, detector.me, engine_location(line), 0});
    }
    b->second.bytes -= bytes;
    complete_phase_if_done(b->second);
}
void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar, uint32_t blocks, int line) {
    check_bulk_size(from, bytes, "cp.async.bulk", line);
    report_access(from, bytes, false, line);
    call_targets(blocks, line, [&](Worker &w) {
        Worker &b = blocks ? w : block_at(to, line);
        char *p = shared_in(b, to, bytes, "cp.async.bulk", line);
        must_be_aligned(p, 16, "cp.async.bulk", line);
        start_bulk_copy(b, to, bytes, bar, line);
        memcpy(p, from, bytes);
    });
}
void store_async(uint32_t to, const void *from, uint32_t bytes, uint32_t bar, int line) {
    Worker &b = block_at(to, line);
    char *p = shared_pointer(to, bytes, "st.async", line);
    if (&block_at(bar, line) != &b)
        fail(Code::no_mbarrier, {{"operation", "st.async, whose values go to another block,"}}, line);
    // This does not count as a use of the block's shared memory, because the block waits for the bytes; if it does not,
    // there is another finding.
    const Access used = detector.on ? b.clock->used_by_others : Access{};
    start_bulk_copy(b, to, bytes, bar, line);
    if (detector.on) b.clock->used_by_others = used;
    memcpy(p, from, bytes);
}
// Records that a copy to global memory reads the block's shared memory until the thread waits; returns the address.
static char *source_of_store(uint32_t from, uint32_t bytes, unsigned alignment, const char *what, int line) {
    require_own_block(from, what, line);
    char *p = shared_in(*worker, from, bytes, what, line);
    must_be_aligned(p, alignment, what, line);
    if (detector.on) {
        detector.access(reinterpret_cast<uintptr_t>(p), bytes, false, engine_location(line));
        current_requests().stores.push_back({reinterpret_cast<uintptr_t>(p), bytes, detector.me, engine_location(line),
            current_requests().num_store_groups});
    }
    return p;
}
void bulk_store(void *to, uint32_t from, uint32_t bytes, int line) {
    check_bulk_size(to, bytes, "cp.async.bulk", line);
    const char *p = source_of_store(from, bytes, 16, "cp.async.bulk", line);
    report_access(to, bytes, true, line);
    memcpy(to, p, bytes);
}

static const TensorMap &map_at(const void *map, const int32_t *at, int rank, const char *what, int line) {
    const auto &m = *static_cast<const TensorMap *>(map);
    if (!is_tensor_map(m)) fail(Code::no_tensor_map, {}, line);
    if (m.rank != rank) fail(Code::coordinates, {{"operation", what}, {"given", rank}, {"axes", m.rank}}, line);
    if (at[0] * m.itemsize % 16)
        fail(Code::box_misaligned, {{"operation", what}, {"at", at[0]}, {"elements", 16 / m.itemsize}}, line);
    return m;
}
// Calls f(offset in the box, address in global memory, bytes) per row of the box that begins at `at`, along the
// innermost axis. A row is split at the bounds of the array; the address is null for parts that are out of bounds.
template <class F> static void rows_of(const TensorMap &m, const int32_t *at, F f) {
    int32_t i[5] = {};
    const int inner = m.box[0] * m.itemsize;
    for (uint32_t offset = 0;; offset += uint32_t(inner)) {
        const char *row = m.base;
        bool inside = true;
        for (int d = 1; d < m.rank; d++) {
            const int64_t x = int64_t(at[d]) + i[d];
            inside &= x >= 0 && x < m.sizes[d];
            row += x * m.strides[d];
        }
        const int from = int(std::clamp<int64_t>(-int64_t(at[0]), 0, m.box[0])),
                  to = inside ? int(std::clamp<int64_t>(int64_t(m.sizes[0]) - at[0], from, m.box[0])) : from;
        const uint32_t a = uint32_t(from * m.itemsize), b = uint32_t(to * m.itemsize);
        if (a) f(offset, nullptr, a);
        if (b > a) f(offset + a, row + int64_t(at[0] + from) * m.itemsize, b - a);
        if (uint32_t(inner) > b) f(offset + b, nullptr, uint32_t(inner) - b);
        int d = 1;
        while (d < m.rank && ++i[d] == m.box[d]) i[d++] = 0;
        if (d >= m.rank) return;
    }
}
static uint32_t box_bytes(const TensorMap &m) {
    uint32_t n = uint32_t(m.itemsize);
    for (int d = 0; d < m.rank; d++) n *= uint32_t(m.box[d]);
    return n;
}
// Calls f(swizzled offset, offset, bytes) per 16 bytes, which a swizzle moves as a unit.
template <class F> static void pieces(uint32_t at, uint32_t bytes, int swizzle, F f) {
    for (uint32_t i = 0, n; i < bytes; i += n) {
        n = std::min(16 - (at + i) % 16, bytes - i);
        f(swizzle_offset(at + i, swizzle), i, n);
    }
}
void tensor_load(uint32_t to, const void *map, const int32_t *at, int rank, uint32_t bar, uint32_t blocks, int line) {
    const TensorMap &m = map_at(map, at, rank, "cp.async.bulk.tensor", line);
    if (detector.on)
        rows_of(m, at, [&](uint32_t, const char *from, uint32_t n) {
            if (from) report_access(from, n, false, line);
        });
    call_targets(blocks, line, [&](Worker &w) {
        Worker &b = blocks ? w : block_at(to, line);
        const uint32_t first = offset_of(to);
        must_be_aligned(
            shared_in(b, to, box_bytes(m), "cp.async.bulk.tensor", line), 128, "cp.async.bulk.tensor", line);
        start_bulk_copy(b, to, box_bytes(m), bar, line);
        rows_of(m, at, [&](uint32_t offset, const char *from, uint32_t bytes) {
            pieces(first + offset, bytes, m.swizzle, [&](uint32_t offset_there, uint32_t i, uint32_t n) {
                char *p = b.shared + offset_there - shared_window;
                from ? memcpy(p, from + i, n) : memset(p, 0, n);
            });
        });
    });
}
void tensor_store(const void *map, const int32_t *at, int rank, uint32_t from, int line) {
    const TensorMap &m = map_at(map, at, rank, "cp.async.bulk.tensor", line);
    for (int d = 0; d < rank; d++)
        if (at[d] < 0) fail(Code::box_before, {{"at", at[d]}, {"axis", d}}, line);
    source_of_store(from, box_bytes(m), 128, "cp.async.bulk.tensor", line);
    rows_of(m, at, [&](uint32_t offset, const char *to, uint32_t n) {
        if (!to) return;
        report_access(to, n, true, line);
        pieces(offset_of(from) + offset, n, m.swizzle, [&](uint32_t offset_there, uint32_t i, uint32_t k) {
            memcpy(const_cast<char *>(to) + i, worker->shared + offset_there - shared_window, k);
        });
    });
}
void bulk_commit() { current_requests().num_store_groups++; }
// Completes the reads of all groups except the newest `groups`.
static void finish_reads(std::vector<Copy> &reads, uint32_t committed, uint32_t groups) {
    const auto over = [&](const Copy &c) { return c.group + groups < committed; };
    ++detector.now;                                          // so that the time is later than all releases
    for (const Copy &c : reads)
        if (over(c)) detector.complete_reads(c);
    reads.erase(std::remove_if(reads.begin(), reads.end(), over), reads.end());
    detector.wait_for_engine(detector.me, ++detector.now);
}
void bulk_wait(uint32_t groups) {
    if (detector.on) finish_reads(current_requests().stores, current_requests().num_store_groups, groups);
}
}
