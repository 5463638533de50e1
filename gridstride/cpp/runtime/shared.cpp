// Allocates the arrays in the shared memory of a block.
#include <algorithm>
#include "clusters.h"
#include "detector.h"
#include "findings.h"
#include "launch.h"
#include "loader.h"

namespace gridstride {

static std::atomic<int> num_sites{0};
int shared_site() { return num_sites++; }

static size_t allocate(Worker &w, const char *name, const Shape &shape) {
    // An array has exactly the alignment that it declares, so that code that relies on a larger alignment fails.
    const size_t alignment = std::max(shape.alignment, size_t(128)),
                 offset = (w.shared_used + alignment - 1) / alignment * alignment + (shape.has_alignment ? 0
                     : std::max(shape.alignment, size_t(16)));
    const size_t static_bytes = offset + shape.bytes;
    if (static_bytes + shared_gap > shared_cap) fail(Code::static_size, {});
    w.shared_static += shape.bytes;
    size_t limit = size_t(48) << 10;
    const size_t total_bytes = w.shared_static + w.launch->shared;
    if (total_bytes > limit && max_dynamic_shared_of(*w.launch) > limit) limit = shared_limit;
    if (total_bytes > limit) {
        reject_launch(*w.launch, Code::shared_sum,
            {{"bytes", w.shared_static}, {"dynamic", w.launch->shared}, {"limit", limit}});
        stops_launch = true;
        end_launch();
    }
    w.shared_used = (offset + shape.bytes + (checks(memcheck) ? shared_gap : 0) + 127) / 128 * 128;
    detector.add_array(w, name, offset, shape);
    return offset;
}
// An array has the same offset in all blocks of a cluster, so the first block that executes its declaration allocates
// it in all of them.
static void allocate_in_cluster(Worker &w, size_t site, const char *name, const Shape &shape) {
    for (Worker *block : w.leader->cluster) {
        if (block == &w) continue;
        detector.enter(*block);
        block->offset.resize(w.offset.size(), 0);
        block->offset[site] = 1 + allocate(*block, name, shape);
    }
    detector.enter(w);
    w.offset[site] = 1 + allocate(w, name, shape);
}
void *shared_alloc(const int *declaration, const char *name, const Shape &shape) {
    Worker &w = *worker;
    const size_t site = size_t(*declaration);
    if (site >= w.offset.size()) w.offset.resize(site + 16, 0);
    if (!w.offset[site]) allocate_in_cluster(w, site, name, shape);
    return w.shared + w.offset[site] - 1;
}
// Returns the file scope of the module with this code. An OS thread creates all its variables at once, possibly before
// its first launch.
static FileScope &file_scope(Worker &w, const void *code) {
    Dl_info info;
    return w.root->file_scopes[find_symbol(code, info) ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0];
}
void *shared_at_file_scope(const char *name, const Shape &shape) {
    DeviceLock device_lock;
    Worker &w = this_worker();
    FileScope &scope = file_scope(w, __builtin_return_address(0));
    const size_t alignment = shape.bytes < 1024 ? 128 : 1024;
    scope.used = (scope.used + shape.bytes + shared_gap + alignment - 1) / alignment * alignment;
    scope.arrays.emplace_back(name, shared_cap - scope.used, shape);
    detector.add_array(w, name, shared_cap - scope.used, shape);
    return w.shared + shared_cap - scope.used;
}
void *shared_dynamic(const char *name, const Shape &shape) {
    Worker &w = this_worker();
    if (!w.is_running || !w.has_declared_dynamic) {
        FileScope &scope = file_scope(w, __builtin_return_address(0));
        if (!w.is_running) scope.dynamic.clear();
        if (scope.dynamic.empty()) scope.dynamic.emplace_back(name, 0, shape);
        if (w.is_running) w.has_declared_dynamic = true, w.dynamic(name, shape);
    }
    return w.shared;
}
uint32_t shared_address(const void *p) {
    const size_t offset = worker ? size_t(static_cast<const char *>(p) - worker->shared) : shared_cap;
    if (offset >= shared_cap) return 0;
    return uint32_t(offset) + shared_window + (worker->leader->cluster.empty() ? 0 : cluster_rank() * block_window);
}
char *shared_pointer(uint32_t address, unsigned bytes, const char *operation, int line) {
    const uint32_t offset = address % block_window - shared_window;
    if (offset > shared_cap - bytes || address / block_window >= cluster_blocks())
        fail(Code::no_shared_address, {{"operation", operation}, {"address", address}}, line);
    Worker &block = block_at(address, line);
    must_be_aligned(block.shared + offset, bytes, operation, line);
    return block.shared + offset;
}
void must_be_aligned(const void *p, unsigned bytes, const char *operation, int line) {
    if (reinterpret_cast<uintptr_t>(p) % bytes) detector.report_misaligned_operand(p, bytes, operation, line);
}
template <unsigned n, bool write> static bool access_global(uintptr_t a, uint32_t location) {
    const uintptr_t offset = a - reinterpret_cast<uintptr_t>(memory.base);
    if (offset >= memory.size || offset % n || (write && detector.pending.active)) return false;
    Line &line = detector.cells.line_at(offset);
    const bool is_compact = !line.has(Run::expanded_bit) && !detector.has_unordered_operations;
    return (is_compact && detector.continues_run<n, write>(line, offset, location)) ||
           detector.fast_global_access<n, write>(offset, location);
}
template <bool write> static bool access_global(uintptr_t a, unsigned bytes, uint32_t location) {
    switch (bytes) {
    case 4: return access_global<4, write>(a, location);
    case 8: return access_global<8, write>(a, location);
    case 16: return access_global<16, write>(a, location);
    default: return false;
    }
}
void report_access(const void *p, unsigned bytes, bool write, int line) {
    if (!detector.is_enabled) return;
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    const uint32_t location = line_bit | uint32_t(line);
    if (detector.fast_shared_accesses(a - detector.shared_base, bytes, write, location)) return;
    if (!(write ? access_global<true>(a, bytes, location) : access_global<false>(a, bytes, location)))
        detector.access(a, bytes, write, location);
}
void Worker::dynamic(const char *name, const Shape &shape) {
    const size_t num_elements = shape.itemsize ? launch->shared / shape.itemsize : 0;
    const Shape array_shape = {launch->shared, shape.itemsize, 1, {num_elements, 0, 0, 0}};
    if (!array_shape.bytes || !detector.is_enabled) return;
    if (dynamic_array) {
        arrays[dynamic_array - 1] = SharedArray(name, 0, array_shape);
        return;
    }
    detector.add_array(*this, name, 0, array_shape);
    dynamic_array = arrays.size();
}
}
