// Bulk copies by TMA: cp.async.bulk for contiguous bytes, cp.async.bulk.tensor for boxes of a tensor map
#include <algorithm>
#include <string>
#include <string.h>
#include "clusters.h"
#include "engines.h"
#include "findings.h"
#include "residents.h"

namespace gridstride {

static char *shared_in_block(Worker &block, uint32_t address, uint32_t bytes, const char *operation, int line) {
    const uint32_t offset = offset_of(address) - shared_window;
    if (offset > shared_cap - bytes) shared_pointer(address, 1, operation, line);
    return block.shared + offset;
}
static void check_bulk_size(const void *address, uint32_t bytes, const char *operation, int line) {
    must_be_aligned(address, 16, operation, line);
    if (bytes % 16 == 0 && bytes) return;
    fail(Code::bulk_bytes, {{"operation", operation}, {"bytes", bytes}}, line);
}
// Calls copy_to_block(block) for all blocks of the cluster in the multicast mask, or for the current block if it is 0.
template <class F> static void visit_targets(uint32_t blocks, int line, F copy_to_block) {
    if (!blocks) return copy_to_block(*worker);
    const auto &cluster = worker->leader->cluster;
    for (uint32_t i = 0; i < 16; i++) {
        if (!(blocks >> i & 1)) continue;
        if (i >= cluster.size() && (i || !cluster.empty())) fail(Code::copy_to_no_block, {}, line);
        copy_to_block(cluster.empty() ? *worker : *cluster[i]);
    }
}
// Checks and records a bulk copy to address `target` in the shared memory of `block`. The copy completes on the
// mbarrier of `block`, or of `barrier_block`, at the offset of `barrier_address`.
static void start_bulk_copy(Worker &block, uint32_t target, uint32_t bytes, uint32_t barrier_address, int line,
    Worker *barrier_block = nullptr) {
    auto &barriers = engines_of(barrier_block ? *barrier_block : block).barriers;
    auto barrier = barriers.find(offset_of(barrier_address));
    if (barrier == barriers.end()) barrier_at(barrier_address, "a bulk copy ends", line);
    if (detector.is_enabled && checks(fencecheck) && !barrier->second.is_fenced)
        fail(Code::barrier_not_visible, {}, line);
    if (detector.is_enabled) {
        const uintptr_t target_address = reinterpret_cast<uintptr_t>(block.shared) + offset_of(target) - shared_window;
        detector.access(
            reinterpret_cast<uintptr_t>(barrier->second.address), 8, true, atomic_bit | line_bit | uint32_t(line));
        detector.access(target_address, bytes, true, async_proxy_location(line));
        barrier->second.in_flight.push_back({target_address, bytes, detector.self, async_proxy_location(line), 0});
    }
    barrier->second.bytes -= bytes;
    complete_phase_if_done(barrier->second);
}
void bulk_load(uint32_t target, const void *source, uint32_t bytes, uint32_t barrier_address, uint32_t blocks,
    int line) {
    check_bulk_size(source, bytes, "cp.async.bulk", line);
    report_access(source, bytes, false, line);
    visit_targets(blocks, line, [&](Worker &target_block) {
        Worker &block = blocks ? target_block : block_at(target, line);
        char *shared = shared_in_block(block, target, bytes, "cp.async.bulk", line);
        must_be_aligned(shared, 16, "cp.async.bulk", line);
        start_bulk_copy(block, target, bytes, barrier_address, line);
        memcpy(shared, source, bytes);
    });
}
void try_cancel(uint32_t target, uint32_t barrier_address, bool for_cluster, int line) {
    const Canceled answer = cancel_block();
    visit_targets(for_cluster ? (1u << cluster_blocks()) - 1 : 0, line, [&](Worker &block) {
        char *shared = shared_in_block(block, target, sizeof answer, "clusterlaunchcontrol.try_cancel", line);
        must_be_aligned(shared, 16, "clusterlaunchcontrol.try_cancel", line);
        start_bulk_copy(block, target, sizeof answer, barrier_address, line);
        memcpy(shared, &answer, sizeof answer);
    });
}
void store_async(uint32_t target, const void *source, uint32_t bytes, uint32_t barrier_address, int line) {
    Worker &block = block_at(target, line);
    char *shared = shared_pointer(target, bytes, "st.async", line);
    if (&block_at(barrier_address, line) != &block)
        fail(Code::no_mbarrier, {{"operation", "st.async to another block"}}, line);
    // This is not recorded as a use of the other block's shared memory, because that block waits for the bytes; if it
    // does not, the missing wait is reported.
    const Access previous_use = detector.is_enabled ? block.detector_state->last_cluster_access : Access{};
    start_bulk_copy(block, target, bytes, barrier_address, line);
    if (detector.is_enabled) block.detector_state->last_cluster_access = previous_use;
    memcpy(shared, source, bytes);
}
// Checks the source of a copy to global memory, and records that the copy reads it until the thread has waited; returns
// the source's address.
static char *source_of_store(uint32_t source, uint32_t bytes, unsigned alignment, const char *operation, int line) {
    require_own_block(source, operation, line);
    char *shared = shared_in_block(*worker, source, bytes, operation, line);
    must_be_aligned(shared, alignment, operation, line);
    if (detector.is_enabled)
        current_requests().stores.push_back({reinterpret_cast<uintptr_t>(shared), bytes, detector.self,
            async_proxy_location(line), current_requests().num_store_groups});
    return shared;
}
static void record_async_proxy_read(const char *shared, uint32_t bytes, int line) {
    if (detector.is_enabled)
        detector.access(reinterpret_cast<uintptr_t>(shared), bytes, false, async_proxy_location(line));
}
void bulk_store(void *target, uint32_t source, uint32_t bytes, int line) {
    check_bulk_size(target, bytes, "cp.async.bulk", line);
    const char *shared = source_of_store(source, bytes, 16, "cp.async.bulk", line);
    record_async_proxy_read(shared, bytes, line);
    report_access(target, bytes, true, line);
    memcpy(target, shared, bytes);
}

void bulk_prefetch(const void *source, uint32_t bytes, int line) {
    check_bulk_size(source, bytes, "cp.async.bulk.prefetch", line);
}

// Reports a copy in a mode that its tensor map, or its coordinates, do not allow.
[[noreturn]] static void fail_mode(const char *part, const std::string &value, const char *allowed,
    int line) {
    fail(Code::tensor_map_mode, {{"part", part}, {"value", value.c_str()}, {"allowed", allowed}}, line);
}
// Reports a filter whose corner is not in the bounding box.
static void check_filter_corner(const TensorMap &tensor_map, const int32_t *coordinates, int line) {
    static const char *const parts[] = {"", "the filter's W coordinate", "the filter's H coordinate",
        "the filter's D coordinate"};
    for (int axis = 1; axis < tensor_map.rank - 1; axis++)
        if (coordinates[axis] < tensor_map.lower_corner(axis) ||
            coordinates[axis] > tensor_map.sizes[axis] - 1 + tensor_map.upper_corner(axis))
            fail_mode(parts[axis], std::to_string(coordinates[axis]), "a coordinate in the bounding box", line);
}
static void check_mode(const TensorMap &tensor_map, const int32_t *coordinates, TensorMode mode, int line) {
    if (mode == TensorMode::im2col && !tensor_map.im2col)
        fail_mode("the mode of the tensor map", "tiled", "im2col", line);
    if (mode != TensorMode::im2col && tensor_map.im2col)
        fail_mode("the mode of the tensor map", "im2col", "tiled", line);
    if (mode == TensorMode::rows && tensor_map.rank != 2)
        fail_mode("the number of axes of the tensor map", std::to_string(tensor_map.rank), "2", line);
    if (mode == TensorMode::rows && tensor_map.box[1] != 1)
        fail_mode("the number of rows of the tensor map's box", std::to_string(tensor_map.box[1]), "1", line);
    if (mode == TensorMode::im2col) check_filter_corner(tensor_map, coordinates, line);
}
static const TensorMap &check_tensor_map(const void *map, const int32_t *coordinates, int rank, TensorMode mode,
    const char *operation, int line) {
    const auto &tensor_map = *static_cast<const TensorMap *>(map);
    if (!is_tensor_map(tensor_map)) fail(Code::no_tensor_map, {}, line);
    check_mode(tensor_map, coordinates, mode, line);
    if (tensor_map.rank != rank)
        fail(Code::coordinates, {{"operation", operation}, {"given", rank}, {"axes", tensor_map.rank}}, line);
    if (coordinates[0] * tensor_map.itemsize % 16)
        fail(Code::box_misaligned,
            {{"operation", operation}, {"at", coordinates[0]}, {"elements", 16 / tensor_map.itemsize}}, line);
    return tensor_map;
}
// Calls visit(offset in the box, address in global memory, bytes) per row of the box at `coordinates`; rows are along
// the innermost axis. A row is split at the bounds of the array; the address is null for segments that are out of
// bounds.
template <class F> static void visit_rows(const TensorMap &tensor_map, const int32_t *coordinates, F visit) {
    int32_t index[5] = {};
    const int row_bytes = tensor_map.box[0] * tensor_map.itemsize;
    for (uint32_t offset = 0;; offset += uint32_t(row_bytes)) {
        const char *row = tensor_map.base;
        bool is_inside = true;
        for (int axis = 1; axis < tensor_map.rank; axis++) {
            const int64_t coordinate = int64_t(coordinates[axis]) + index[axis];
            is_inside &= coordinate >= 0 && coordinate < tensor_map.sizes[axis];
            row += coordinate * tensor_map.strides[axis];
        }
        // elements `begin` to `end` of the row are in bounds
        const int64_t extent = int64_t(tensor_map.sizes[0]) - coordinates[0];
        const int begin = int(std::clamp<int64_t>(-int64_t(coordinates[0]), 0, tensor_map.box[0])),
                  end = is_inside ? int(std::clamp<int64_t>(extent, begin, tensor_map.box[0])) : begin;
        const uint32_t begin_byte = uint32_t(begin * tensor_map.itemsize),
                       end_byte = uint32_t(end * tensor_map.itemsize);
        if (begin_byte) visit(offset, nullptr, begin_byte);
        if (end_byte > begin_byte)
            visit(offset + begin_byte, row + int64_t(coordinates[0] + begin) * tensor_map.itemsize,
                end_byte - begin_byte);
        if (uint32_t(row_bytes) > end_byte) visit(offset + end_byte, nullptr, uint32_t(row_bytes) - end_byte);
        int axis = 1;
        while (axis < tensor_map.rank && ++index[axis] == tensor_map.box[axis]) index[axis++] = 0;
        if (axis >= tensor_map.rank) return;
    }
}
// Calls visit(offset, address, bytes) for the channels of each pixel under a filter (TensorMode::im2col): along W, then
// H, D and N, from one corner of the bounding box to the other. `coordinates` ends with an offset per spatial axis.
template <class F> static void visit_pixels(const TensorMap &tensor_map, const int32_t *coordinates, F visit) {
    const int last = tensor_map.rank - 1, *const offsets = coordinates + tensor_map.rank;
    int32_t at[5];
    std::copy_n(coordinates, 5, at);
    TensorMap pixel = tensor_map;          // a box of one pixel
    std::fill_n(pixel.box + 1, 4, 1);
    const uint32_t pixel_bytes = uint32_t(tensor_map.box[0] * tensor_map.itemsize);
    for (int i = 0; i < tensor_map.box[1]; i++) {
        int32_t moved[5];
        std::copy_n(at, 5, moved);
        for (int axis = 1; axis < last; axis++) moved[axis] += offsets[axis - 1];
        visit_rows(pixel, moved, [&](uint32_t offset, const char *address, uint32_t bytes) {
            visit(uint32_t(i) * pixel_bytes + offset, address, bytes);
        });
        int axis = 1;
        for (; axis < last; axis++) {
            at[axis] += tensor_map.traversal_stride(axis);
            if (at[axis] <= tensor_map.sizes[axis] - 1 + tensor_map.upper_corner(axis)) break;
            at[axis] = tensor_map.lower_corner(axis);
        }
        if (axis == last) at[last]++;
    }
}
template <class F>
static void visit_segments(const TensorMap &tensor_map, const int32_t *coordinates, TensorMode mode, F visit) {
    if (mode == TensorMode::tiled) return visit_rows(tensor_map, coordinates, visit);
    if (mode == TensorMode::im2col) return visit_pixels(tensor_map, coordinates, visit);
    const uint32_t row_bytes = uint32_t(tensor_map.box[0] * tensor_map.itemsize);
    for (int i = 0; i < 4; i++) {
        const int32_t at[] = {coordinates[0], coordinates[1 + i]};
        visit_rows(tensor_map, at, [&](uint32_t offset, const char *address, uint32_t bytes) {
            visit(uint32_t(i) * row_bytes + offset, address, bytes);
        });
    }
}
static bool is_box_inside(const TensorMap &tensor_map, const int32_t *coordinates) {
    for (int axis = 0; axis < tensor_map.rank; axis++)
        if (coordinates[axis] < 0 || coordinates[axis] > tensor_map.sizes[axis] - tensor_map.box[axis]) return false;
    return true;
}
static uint32_t box_bytes(const TensorMap &tensor_map, TensorMode mode) {
    uint32_t bytes = uint32_t(tensor_map.itemsize);
    if (mode == TensorMode::im2col) return bytes * uint32_t(tensor_map.box[0] * tensor_map.box[1]);
    if (mode == TensorMode::rows) bytes *= 4;
    for (int axis = 0; axis < tensor_map.rank; axis++) bytes *= uint32_t(tensor_map.box[axis]);
    return bytes;
}
// Calls visit(swizzled offset, offset, bytes) per 16 bytes, the unit that a swizzle moves.
template <class F> static void visit_units(uint32_t address, uint32_t bytes, int swizzle, F visit) {
    for (uint32_t i = 0, unit_bytes; i < bytes; i += unit_bytes) {
        unit_bytes = std::min(16 - (address + i) % 16, bytes - i);
        visit(swizzle_offset(address + i, swizzle), i, unit_bytes);
    }
}
// Returns the block of the CTA pair whose rank has the same parity as `rank`.
static Worker &block_of_pair(Worker &block, uint32_t rank) {
    const auto &cluster = worker->leader->cluster;
    if (cluster.empty()) return block;
    const size_t own_rank = size_t(std::find(cluster.begin(), cluster.end(), &block) - cluster.begin());
    return *cluster[std::min((own_rank & ~size_t(1)) + rank % 2, cluster.size() - 1)];
}
void tensor_load(uint32_t target, const void *map, const int32_t *coordinates, int rank, uint32_t barrier_address,
    uint32_t blocks, int line, bool of_pair, TensorMode mode) {
    const TensorMap &tensor_map = check_tensor_map(map, coordinates, rank, mode, "cp.async.bulk.tensor", line);
    const uint32_t bytes = box_bytes(tensor_map, mode);
    if (detector.is_enabled)
        visit_segments(tensor_map, coordinates, mode, [&](uint32_t, const char *source, uint32_t unit_bytes) {
            if (source) report_access(source, unit_bytes, false, line);
        });
    visit_targets(blocks, line, [&](Worker &target_block) {
        Worker &block = blocks ? target_block : block_at(target, line);
        const uint32_t first = offset_of(target);
        must_be_aligned(shared_in_block(block, target, bytes, "cp.async.bulk.tensor", line), 128,
            "cp.async.bulk.tensor", line);
        start_bulk_copy(block, target, bytes, barrier_address, line,
            of_pair ? &block_of_pair(block, barrier_address / block_window) : nullptr);
        visit_segments(tensor_map, coordinates, mode, [&](uint32_t offset, const char *source, uint32_t segment_bytes) {
            visit_units(first + offset, segment_bytes, tensor_map.swizzle,
                [&](uint32_t swizzled_offset, uint32_t i, uint32_t unit_bytes) {
                char *shared = block.shared + swizzled_offset - shared_window;
                source ? memcpy(shared, source + i, unit_bytes) : memset(shared, 0, unit_bytes);
            });
        });
    });
}
void tensor_store(const void *map, const int32_t *coordinates, int rank, uint32_t source, int line, TensorMode mode) {
    const TensorMap &tensor_map = check_tensor_map(map, coordinates, rank, mode, "cp.async.bulk.tensor", line);
    const bool is_tiled = mode == TensorMode::tiled;
    for (int axis = 0; axis < rank && is_tiled; axis++)
        if (coordinates[axis] < 0) fail(Code::box_before, {{"at", coordinates[axis]}, {"axis", axis}}, line);
    const bool is_inside = is_tiled && is_box_inside(tensor_map, coordinates);
    const uint32_t bytes = box_bytes(tensor_map, mode);
    const char *shared = source_of_store(source, bytes, 128, "cp.async.bulk.tensor", line);
    if (is_inside) record_async_proxy_read(shared, bytes, line);
    visit_segments(tensor_map, coordinates, mode, [&](uint32_t offset, const char *target, uint32_t row_bytes) {
        if (!target) return;
        report_access(target, row_bytes, true, line);
        visit_units(offset_of(source) + offset, row_bytes, tensor_map.swizzle,
            [&](uint32_t swizzled_offset, uint32_t i, uint32_t unit_bytes) {
            const char *unit = worker->shared + swizzled_offset - shared_window;
            if (!is_inside) record_async_proxy_read(unit, unit_bytes, line);
            memcpy(const_cast<char *>(target) + i, unit, unit_bytes);
        });
    });
}
void bulk_commit() { current_requests().num_store_groups++; }
// Completes the reads of all groups except the newest `groups`.
static void finish_reads(std::vector<Copy> &reads, uint32_t committed, uint32_t groups) {
    const auto is_complete = [&](const Copy &copy) { return copy.group + groups < committed; };
    ++detector.now;                                          // later than all releases so far
    for (const Copy &copy : reads)
        if (is_complete(copy)) detector.complete_reads(copy);
    reads.erase(std::remove_if(reads.begin(), reads.end(), is_complete), reads.end());
    detector.wait_for_async_proxy(detector.self, ++detector.now);
}
void bulk_wait(uint32_t groups) {
    if (detector.is_enabled) finish_reads(current_requests().stores, current_requests().num_store_groups, groups);
}
}
