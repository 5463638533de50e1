// The detectors at the start and the end of a launch, and at accesses of the host to checked memory
#include <dlfcn.h>
#include "detector.h"
#include "findings.h"
#include "launch.h"
#include "operations.h"
#include "unload.h"

#ifndef __APPLE__
#include <link.h>
#endif

namespace gridstride {

// Looks up the image of the module with this code; returns false if it is unknown, or only partly known.
static bool ask_loader(void *code, Image &image) {
    Dl_info info;
    if (!dladdr(code, &info)) return false;
    image.base = image.end = reinterpret_cast<uintptr_t>(info.dli_fbase);
#ifndef __APPLE__                          // because dladdr() accepts any address there
    dl_iterate_phdr(
        [](dl_phdr_info *library, size_t, void *p) {
            auto &r = *static_cast<Image *>(p);
            for (int i = 0; i < library->dlpi_phnum && library->dlpi_addr == r.base; i++) {
                const auto &part = library->dlpi_phdr[i];
                if (part.p_type == PT_LOAD)
                    r.end = std::max(r.end, uintptr_t(library->dlpi_addr + part.p_vaddr + part.p_memsz));
                if (part.p_type == PT_LOAD && part.p_flags & PF_X)
                    r.code = uintptr_t(library->dlpi_addr + part.p_vaddr), r.code_bytes = part.p_memsz;
                if (part.p_type == PT_TLS)
                    r.tls = reinterpret_cast<uintptr_t>(library->dlpi_tls_data), r.tls_end = r.tls + part.p_memsz;
            }
            return 0;
        },
        &image);
#endif
    return image.tls || !image.tls_end;
}
// Returns the image of a module, cached per function, because the loader takes most of the time of a small launch.
// Incomplete images are not cached: an OS thread gets the thread-local variables of a module at their first use. The
// cache is cleared after an unload, as another module may have the addresses now.
Image image_of(void *code) {
    static thread_local struct {
        void *code;
        Image image;
    } known[16];
    static thread_local size_t since = 0;
    if (since != modules_unloaded()) memset(known, 0, sizeof known), since = modules_unloaded();
    auto &k = known[reinterpret_cast<uintptr_t>(code) / 16 % 16];
    if (k.code != code) k.image = {}, k.code = ask_loader(code, k.image) ? code : nullptr;
    return k.image;
}

Detector::Scope::Scope(const Launch &l) {
    if (!options.checks) return;
    if (!memory.reserve() || !detector.cells.reserve(memory.size) || !detector.shared_cells.reserve(shared_cap))
        fail(Code::no_addresses, {});
    detector.on = checks_enabled = true;
    Worker &w = this_worker();
    detector.w = &w;
    detector.shared_base = reinterpret_cast<uintptr_t>(w.shared);
    detector.launch_start = ++detector.now;
    detector.pending.active = false, detector.pending.words.clear();
    detector.pending.stored = {};
    detector.deferred_races.clear();
    detector.has_deferred_races = false;
    detector.flags.clear();
    detector.forget_arrays();
    detector.image = image_of(reinterpret_cast<void *>(l.thread));
    detector.launch = &l;
    detector.begin_arguments();
    detector.unordered_since = detector.launch_start;
    detector.has_unordered = operations.begin_launch(&l, detector.image.base, detector.unordered_since);
    const uintptr_t builtins[] = {reinterpret_cast<uintptr_t>(&threadIdx), reinterpret_cast<uintptr_t>(&blockIdx),
        reinterpret_cast<uintptr_t>(&blockDim), reinterpret_cast<uintptr_t>(&gridDim)};
    detector.builtins = *std::min_element(builtins, builtins + 4);
    detector.builtin_bytes = *std::max_element(builtins, builtins + 4) + sizeof(dim3) - detector.builtins;
}
Detector::Scope::~Scope() {
    detector.on = checks_enabled = detector.has_unordered = false, detector.shared_base = nowhere;
    // What a launch that was stopped did not report is not a finding of a later one, which may run without checks.
    detector.unwritten.reset(), detector.unwritten_in_launch.reset();
    detector.restore_variables(stops_launch);
}

// Discards the state of a launch, in a forked child.
void Detector::abandon() {
    on = checks_enabled = has_unordered = false, shared_base = nowhere;
    unwritten.reset(), unwritten_in_launch.reset();
    saved_variables.clear();
}

void Detector::enter(Worker &to) {
    if (!on || w == &to) return;
    if (!w->clock) w->clock = new BlockClock();
    if (!to.clock) {
        to.clock = new BlockClock();
        to.clock->w = &to, to.clock->shared_base = reinterpret_cast<uintptr_t>(to.shared);
        if (!to.clock->shared_cells.reserve(shared_cap)) fail(Code::no_addresses, {});
    }
    std::swap(*w->clock, static_cast<BlockClock &>(*this));
    std::swap(*to.clock, static_cast<BlockClock &>(*this));
}

// Checks an access of the shared memory of another block of the cluster.
void Detector::in_another_block(Worker &there, uintptr_t a, unsigned n, bool write, uint32_t location) {
    // Variables at file scope are bound once, to the memory of the first block.
    const FileScope &scope = there.root->file_scopes[image.base];
    const uintptr_t off = a - reinterpret_cast<uintptr_t>(there.shared);
    if (&there == w->leader &&
        (off >= shared_cap - scope.used || (!w->has_met_dynamic && !scope.dynamic.empty() && off < launch->shared)))
        find(Code::cluster_variable, {}, {me, now, location});
    there.clock->used_by_others = {me, now, location};
    access_words(there.clock->shared_cells, off, n, write, location, a, nullptr);
    if (checks(racecheck) && !is_begin_acquired(there)) find(Code::block_not_begun, {}, {me, now, location});
}
// Has the current thread acquired anything from that block, by the barrier of the cluster or otherwise?
bool Detector::is_begin_acquired(const Worker &there) const {
    for (int rank = 0; rank < there.num_threads; rank++)
        if (is_acquired({thread_number(there, rank), there.clock->block_start, 0})) return true;
    return false;
}

// Clears the cells of arrays of an earlier launch.
void BlockClock::forget_arrays() {
    for (size_t i = 0; i < low_cells; i++) shared_cells.word_cells[i] = {};
    for (size_t i = high_cells; i < shared_cap / 4; i++) shared_cells.word_cells[i] = {};
    low_cells = 0, high_cells = shared_cap / 4;
}
void Detector::new_array(Worker &worker, const char *name, size_t at, const Shape &s) {
    if (!on) return;
    const bool low = at < shared_cap - worker.root->file_scopes[image.base].used;
    if (low) low_cells = std::max(low_cells, (at + s.bytes + 3) / 4);
    else high_cells = std::min(high_cells, at / 4);
    worker.arrays.emplace_back(name, at, s);
    for (size_t i = at / 4; i < (at + s.bytes + 3) / 4; i++)
        shared_cells.word_cells[i].owner = uint16_t(worker.arrays.size());
}
// Clears the shadow memory of a freed allocation. It shares no page with others, so that the pages of its cells are
// freed.
void Detector::forget(const Allocation &p) {
    const auto [from, to] = memory.span(p);
    if (cells.word_cells) cells.forget(from, to - from);
    operations.forget(p.lo, p.hi);
}
// If a launch is ended, its writes to device variables are undone: otherwise the next launch would find, for example, a
// counter of a barrier that is half done. Large variables are not saved, because that could take longer than the
// launch.
constexpr size_t max_saved_bytes = size_t(128) << 10;
void Detector::save_variable(Allocation &p) {
    const char *lo = reinterpret_cast<const char *>(p.lo);
    const size_t n = p.hi - p.lo;
    p.check_writes = false;
    saved_variables.push_back({p.lo, {lo, lo + (n > max_saved_bytes ? 0 : n)}});
}
void Detector::restore_variables(bool ended) {
    for (const SavedVariable &s : saved_variables) {
        Allocation *p = memory.at(s.lo);
        if (ended) memcpy(reinterpret_cast<void *>(s.lo), s.bytes.data(), s.bytes.size());
        p->check_writes = true;
    }
    saved_variables.clear();
}
void Detector::host_wrote(uintptr_t a, size_t n) {
    Allocation *p = memory.at(a);
    if (!p || !p->uninitialized) return;
    if (a == p->lo && a + n == p->hi) {
        p->uninitialized = false;
        return;
    }
    if (!cells.reserve(memory.size)) return;
    const uintptr_t base = reinterpret_cast<uintptr_t>(memory.base);
    for (uintptr_t i = a; i < a + n;) {
        if (i % 4 == 0 && i + 4 <= a + n) cells.word_cells[(i - base) / 4].written = 1, i += 4;
        else {
            Cell &c = cells.word_cells[(i - base) / 4], *b = cells.byte_cells + (i - base) / 4 * 4;
            if (!c.has_byte_cells) {
                for (int k = 0; k < 4; k++) b[k] = c;
                c.has_byte_cells = 1;
            }
            b[(i - base) % 4].written = 1, i++;
        }
    }
}
}
