// Shared memory of a block: where its arrays are.
#include <algorithm>
#include <dlfcn.h>
#include "clusters.h"
#include "detector.h"
#include "findings.h"
#include "launch.h"

namespace gridstride {

static std::atomic<int> sites{0};
int shared_site() { return sites++; }

static size_t allocate(Worker &w, const char *name, const Shape &s) {
    // An array has exactly the alignment of its declaration, so that code that relies on a larger alignment fails.
    const size_t by = std::max(s.alignment, size_t(128)),
                 at = (w.shared_used + by - 1) / by * by + (s.has_alignment ? 0 : std::max(s.alignment, size_t(16)));
    const size_t static_bytes = at + s.bytes;
    if (static_bytes + shared_gap > shared_cap) fail(Code::static_size, {});
    w.shared_static += s.bytes;
    size_t allowed = size_t(48) << 10;
    const size_t wanted = w.shared_static + w.launch->shared;
    if (wanted > allowed && max_dynamic_shared_of(*w.launch) > allowed) allowed = shared_limit;
    if (wanted > allowed) {
        refuse(*w.launch, Code::shared_sum,
            {{"bytes", w.shared_static}, {"dynamic", w.launch->shared}, {"most", allowed}});
        stops_launch = true;
        end_launch();
    }
    w.shared_used = (at + s.bytes + (checks(memcheck) ? shared_gap : 0) + 127) / 128 * 128;
    detector.new_array(w, name, at, s);
    return at;
}
// An array has the same offset in all blocks of a cluster, whichever of them comes to it first.
static void put_in_cluster(Worker &w, size_t site, const char *name, const Shape &s) {
    for (Worker *b : w.leader->cluster) {
        if (b == &w) continue;
        detector.enter(*b);
        b->offset.resize(w.offset.size(), 0);
        b->offset[site] = 1 + allocate(*b, name, s);
    }
    detector.enter(w);
    w.offset[site] = 1 + allocate(w, name, s);
}
void *shared_alloc(int site, const char *name, const Shape &s) {
    Worker &w = *worker;
    if (size_t(site) >= w.offset.size()) w.offset.resize(size_t(site) + 16, 0);
    if (!w.offset[size_t(site)]) put_in_cluster(w, size_t(site), name, s);
    return w.shared + w.offset[size_t(site)] - 1;
}
// A thread's variables of file scope begin to live all together, which may be before its first launch.
static FileScope &file_scope(Worker &w, const void *caller) {
    Dl_info info;
    return w.root->file_scopes[dladdr(caller, &info) ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0];
}
void *shared_at_file_scope(const char *name, const Shape &s) {
    DeviceLock device_lock;
    Worker &w = this_worker();
    FileScope &f = file_scope(w, __builtin_return_address(0));
    const size_t by = s.bytes < 1024 ? 128 : 1024;
    f.used = (f.used + s.bytes + shared_gap + by - 1) / by * by;
    f.arrays.emplace_back(name, shared_cap - f.used, s);
    detector.new_array(w, name, shared_cap - f.used, s);
    return w.shared + shared_cap - f.used;
}
void *shared_dynamic(const char *name, const Shape &s) {
    Worker &w = this_worker();
    if (!w.running || !w.has_met_dynamic) {
        FileScope &f = file_scope(w, __builtin_return_address(0));
        if (!w.running) f.dynamic.clear();
        if (f.dynamic.empty()) f.dynamic.emplace_back(name, 0, s);
        if (w.running) w.has_met_dynamic = true, w.dynamic(name, s);
    }
    return w.shared;
}
uint32_t shared_address(const void *p) {
    const size_t at = worker ? size_t(static_cast<const char *>(p) - worker->shared) : shared_cap;
    return at < shared_cap ? uint32_t(at) + shared_window : 0;
}
char *shared_pointer(uint32_t address, unsigned bytes, const char *what, int line) {
    const uint32_t at = address % block_window - shared_window;
    if (at > shared_cap - bytes || address / block_window > cluster_blocks())
        fail(Code::no_shared_address, {{"operation", what}, {"address", address}}, line);
    Worker &there = block_at(address, line);
    must_be_aligned(there.shared + at, bytes, what, line);
    return there.shared + at;
}
void must_be_aligned(const void *p, unsigned bytes, const char *what, int line) {
    if (reinterpret_cast<uintptr_t>(p) % bytes) detector.report_misplaced(p, bytes, what, line);
}
void report_access(const void *p, unsigned bytes, bool write, int line) {
    if (detector.on) detector.access(reinterpret_cast<uintptr_t>(p), bytes, write, line_bit | uint32_t(line));
}
void Worker::dynamic(const char *name, const Shape &s) {
    const size_t items = s.itemsize ? launch->shared / s.itemsize : 0;
    const Shape whole = {launch->shared, s.itemsize, 1, {items, 0, 0, 0}};
    if (!whole.bytes || !detector.on) return;
    if (dynamic_array) {
        arrays[dynamic_array - 1] = SharedArray(name, 0, whole);
        return;
    }
    detector.new_array(*this, name, 0, whole);
    dynamic_array = arrays.size();
}
}
