// The start and the end of a launch in the detectors, and host accesses to device memory
#include "detector.h"
#include "findings.h"
#include "launch.h"
#include "loader.h"
#include "operations.h"
#include "platform.h"
#include "ranks.h"
#include "unload.h"


namespace gridstride {

// Finds the image of the module that contains this code; returns false if it is unknown, or only partly known.
static bool find_image(void *code, LoadedImage &image) {
    Dl_info info;
    if (!find_symbol(code, info)) return false;
    image.base = image.end = reinterpret_cast<uintptr_t>(info.dli_fbase);
#ifdef GRIDSTRIDE_ELF                      // macOS: dladdr() accepts any address there
    visit_modules([&image](const dl_phdr_info &library) {
        for (int i = 0; i < library.dlpi_phnum && library.dlpi_addr == image.base; i++) {
            const auto &segment = library.dlpi_phdr[i];
            if (segment.p_type == PT_LOAD)
                image.end = std::max(image.end, uintptr_t(library.dlpi_addr + segment.p_vaddr + segment.p_memsz));
            if (segment.p_type == PT_LOAD && segment.p_flags & PF_X)
                image.code = uintptr_t(library.dlpi_addr + segment.p_vaddr), image.code_bytes = segment.p_memsz;
            if (segment.p_type == PT_TLS)
                image.tls = reinterpret_cast<uintptr_t>(library.dlpi_tls_data),
                    image.tls_end = image.tls + segment.p_memsz;
        }
    });
#elif defined(__wasm__)
    image.end = reinterpret_cast<uintptr_t>(&__data_end);                // its constants and variables
#endif
    return image.tls || !image.tls_end;
}
// Returns the image of a module, cached per function, because the loader takes most of the time of a small launch.
// Incomplete images are not cached: an OS thread gets the thread-local variables of a module at their first use. The
// cache is cleared after an unload, as another module may have the addresses now.
LoadedImage image_of(void *code) {
    static thread_local struct {
        void *code;
        LoadedImage image;
    } cache[16];
    static thread_local size_t num_unloaded = 0;
    if (num_unloaded != num_unloaded_modules()) memset(cache, 0, sizeof cache), num_unloaded = num_unloaded_modules();
    auto &entry = cache[reinterpret_cast<uintptr_t>(code) / 16 % 16];
    if (entry.code != code) entry.image = {}, entry.code = find_image(code, entry.image) ? code : nullptr;
    return entry.image;
}

Detector::Scope::Scope(bool of_several_devices) {
    detector.has_several_devices = of_several_devices, detector.device = 0;
    if (!options.checks) return;
    if (!memory.reserve() || !detector.cells.reserve(memory.size) || !detector.shared_cells.reserve(shared_cap))
        fail(Code::no_addresses, {});
    detector.is_enabled = checks_enabled = true;
    Worker &w = this_worker();
    detector.w = &w;
    detector.shared_base = reinterpret_cast<uintptr_t>(w.shared);
    detector.launch_start = ++detector.now;
    detector.begin_tag_epoch();
    detector.forget_ranges(), detector.ranges.num_recorded = 0;
    detector.pending.active = false, detector.pending.words.clear();
    detector.pending.store = {};
    detector.deferred_races.clear();
    detector.has_deferred_races = false;
    detector.flags.clear();
    detector.discard_arrays();
    const uintptr_t builtins[] = {reinterpret_cast<uintptr_t>(&threadIdx), reinterpret_cast<uintptr_t>(&blockIdx),
        reinterpret_cast<uintptr_t>(&blockDim), reinterpret_cast<uintptr_t>(&gridDim)};
    detector.builtins = *std::min_element(builtins, builtins + 4);
    detector.builtin_bytes = *std::max_element(builtins, builtins + 4) + sizeof(dim3) - detector.builtins;
}
void Detector::begin_launch(const Launch &l) {
    image = image_of(reinterpret_cast<void *>(l.thread));
    launch = &l;
    begin_arguments();
    has_peers = begin_peers();
    unordered_since = launch_start;
    clear_begin = clear_end = 0;
    has_unordered_operations = operations.begin_launch(&l, image.base, unordered_since);
}
// Switches to the checks of another running launch, whose operation is the current one.
void Detector::enter_launch(const LaunchChecks &checks_of_launch, uint32_t device_index) {
    launch = checks_of_launch.launch, image = checks_of_launch.image;
    has_all_addresses = checks_of_launch.has_all_addresses, launch_id = checks_of_launch.launch_id;
    device = device_index;
    unordered_since = launch_start;
    clear_begin = clear_end = 0;
    has_unordered_operations = operations.begin_launch(nullptr, 0, unordered_since);
}
void Detector::begin_after(const SyncState &released) {
    if (!is_enabled || !released.any()) return;
    view();
    acquired_since_barrier = false;
    block_view = released;
}
// Orders all earlier accesses of the blocks before all later ones, for a grid barrier while other launches run.
void Detector::join_blocks(const std::vector<Worker *> &blocks, const VectorClock &all_threads) {
    SyncState joined;
    joined.acquired = all_threads;
    for (Worker *block : blocks) enter(*block), joined.join(block_view);
    for (Worker *block : blocks) {
        enter(*block);
        view();
        acquired_since_barrier = false;
        block_view = joined;
    }
}

Detector::Scope::~Scope() {
    detector.is_enabled = checks_enabled = detector.has_unordered_operations = false;
    detector.shared_base = detector.own_stack = no_address;
    detector.has_several_devices = detector.has_peers = false;
    if (has_shared_memory) unlock_all_shared();            // a finding may have ended an atomic operation
    // discards findings that a stopped launch did not report, because a later launch may run without checks
    detector.uninitialized_read.reset(), detector.uninitialized_in_launch.reset();
    detector.undo_skipped_writes();
    detector.restore_variables(stops_launch);
}

// Discards the state of the parent's launch, in a forked child.
void Detector::abandon() {
    is_enabled = checks_enabled = has_unordered_operations = has_peers = false, shared_base = own_stack = no_address;
    uninitialized_read.reset(), uninitialized_in_launch.reset();
    saved_variables.clear();
}

void Detector::enter(Worker &block) {
    if (!is_enabled || w == &block) return;
    record_ranges(), ranges.generation++;
    if (!w->detector_state) w->detector_state = new BlockDetectorState();
    if (!block.detector_state) {
        block.detector_state = new BlockDetectorState();
        block.detector_state->w = &block, block.detector_state->shared_base = reinterpret_cast<uintptr_t>(block.shared);
        if (!block.detector_state->shared_cells.reserve(shared_cap)) fail(Code::no_addresses, {});
    }
    std::swap(*w->detector_state, static_cast<BlockDetectorState &>(*this));
    std::swap(*block.detector_state, static_cast<BlockDetectorState &>(*this));
}

// Checks an access to the shared memory of another block of the cluster.
void Detector::access_other_block(Worker &block, uintptr_t address, unsigned bytes, bool write, uint32_t location) {
    // Variables at file scope are bound once, to the memory of the first block.
    const FileScope &scope = block.root->file_scopes[image.base];
    const uintptr_t offset = address - reinterpret_cast<uintptr_t>(block.shared);
    if (&block == w->leader &&
        (offset >= shared_cap - scope.used || (!w->has_declared_dynamic && !scope.dynamic.empty() &&
            offset < launch->shared)))
        report_finding(Code::cluster_variable, {}, {self, now, location});
    block.detector_state->last_cluster_access = {self, now, location};
    block.detector_state->discard_read_tags();
    access_words(block.detector_state->shared_cells, offset, bytes, write, location, address, nullptr);
    if (checks(racecheck) && !has_acquired_start(block))
        report_finding(Code::block_not_begun, {}, {self, now, location});
}
// Returns whether the current thread has acquired the start of `block`, through a cluster barrier or otherwise.
bool Detector::has_acquired_start(const Worker &block) const {
    for (int rank = 0; rank < block.num_threads; rank++)
        if (is_acquired({thread_id(block, rank), block.detector_state->block_start, 0})) return true;
    return false;
}

// Records the reads of a range in its cells.
void Detector::record_range(RangeReads &range) {
    const Access *const reads[] = {&range.read, &range.second_read};
    uintptr_t word = range.offset / 4;
    for (uint32_t i = 0; i < range.count; i++, word += uintptr_t(range.stride / 4))
        for (int read = 0; read < range.num_unrecorded; read++)
            record_shared_read(shared_cells.word_cells[word], *reads[read]);
    range.num_unrecorded = 0;
}
void Detector::record_shared_read(Cell &c, const Access &read) const {
    const bool has_read = c.read.time >= block_synced, has_second = c.second_read.time >= block_synced;
    const bool is_of_one_warp = c.read.thread / 32 == c.second_read.thread / 32;
    if (!has_read || c.read.thread == read.thread) c.read = read;
    else if (!has_second || (is_of_one_warp && c.read.thread / 32 != read.thread / 32)) c.second_read = read;
}
void Detector::record_unrecorded_ranges() {
    ranges.num_recorded += ranges.num_unrecorded;
    for (uint32_t i = 0; i < ranges.num_unrecorded; i++) record_range(ranges.entries[ranges.unrecorded[i]]);
    forget_ranges();
    ranges.has_writes = true;
}
// Discards reads that the cells need not contain, because a barrier of the block orders them before later accesses.
void Detector::forget_ranges() {
    for (uint32_t i = 0; i < ranges.num_unrecorded; i++) {
        RangeReads &range = ranges.entries[ranges.unrecorded[i]];
        range.num_unrecorded = 0, range.is_listed = false;
    }
    ranges.num_unrecorded = 0, ranges.has_writes = false;
}
void BlockDetectorState::restart_read_tags() {
    shared_cells.discard_tags(), detector.ranges.generation++;
    read_key = read_key % max_threads + max_threads;
}

// Clears the cells of arrays of an earlier launch.
void BlockDetectorState::discard_arrays() {
    for (size_t i = 0; i < low_cells; i++) shared_cells.word_cells[i] = {};
    for (size_t i = high_cells; i < shared_cap / 4; i++) shared_cells.word_cells[i] = {};
    low_cells = 0, high_cells = shared_cap / 4;
}
void Detector::add_array(Worker &worker, const char *name, size_t offset, const Shape &shape) {
    if (!is_enabled) return;
    const bool is_below_file_scope = offset < shared_cap - worker.root->file_scopes[image.base].used;
    if (is_below_file_scope) low_cells = std::max(low_cells, (offset + shape.bytes + 3) / 4);
    else high_cells = std::min(high_cells, offset / 4);
    worker.arrays.emplace_back(name, offset, shape);
    for (size_t i = offset / 4; i < (offset + shape.bytes + 3) / 4; i++)
        shared_cells.word_cells[i].owner = uint16_t(worker.arrays.size());
}
// Begins a run with an access that continues no run. If both runs are in use and the older one belongs to an earlier
// launch, that run is flushed to the cells.
bool Detector::begin_run(
    Line &line, bool write, const Access &current, uintptr_t offset, uint32_t words, uint32_t log_words) {
    Run *const runs = write ? line.writes : line.reads;
    runs[0].drop(words), runs[1].drop(words);
    if (runs[0].mask && runs[1].mask) {
        if (runs[1].time >= launch_start) return cells.expand(offset, 1), false;
        cells.flush(offset / line_bytes, runs[1], write ? &Cell::write : &Cell::read);
        line.flags() |= Run::flushed_bit;
    }
    if (runs[0].mask) runs[1].assign(runs[0]);
    const uintptr_t first = reinterpret_cast<uintptr_t>(memory.base) + offset / line_bytes * line_bytes;
    const Allocation &allocation = *memory.at(first);
    const bool is_inside = first >= allocation.lo && first + line_bytes <= allocation.hi,
               is_initialized = !allocation.is_uninitialized || (line.writes[0].mask | line.writes[1].mask) == 0xffff;
    runs->begin(current, word_of(offset) >> log_words, words, Run::key_of(current.location, log_words) |
        (is_inside ? Run::inside_bit : 0) | (!write && is_initialized ? Run::initialized_bit : 0));
    return true;
}
// Clears the shadow memory of a freed allocation. Allocations share no pages, so the pages of its cells are freed.
void Detector::discard(const Allocation &p) {
    const auto [from, to] = memory.span(p);
    if (cells.word_cells) cells.discard(from, to - from);
    operations.discard(p.lo, p.hi);
}
// Saves a device variable before the first write to it: if a finding ends the launch, its writes to device variables
// are undone. Otherwise the next launch would find, for example, the counter of a barrier at which only some threads
// have arrived. Large variables are not saved, because that could take longer than the launch.
void Detector::save_variable(Allocation &variable) {
    constexpr size_t max_saved_bytes = size_t(128) << 10;
    const char *begin = reinterpret_cast<const char *>(variable.lo);
    const size_t bytes = variable.hi - variable.lo;
    variable.checks_writes = false;
    saved_variables.push_back({variable.lo, {begin, begin + (bytes > max_saved_bytes ? 0 : bytes)}});
}
void Detector::restore_variables(bool undo) {
    for (const SavedVariable &saved : saved_variables) {
        Allocation *variable = memory.at(saved.lo);
        if (undo) memcpy(reinterpret_cast<void *>(saved.lo), saved.bytes.data(), saved.bytes.size());
        variable->checks_writes = true;
    }
    saved_variables.clear();
}
void Detector::record_host_write(uintptr_t a, size_t bytes) {
    Allocation *p = memory.at(a);
    if (!p || !p->is_uninitialized) return;
    if (a == p->lo && a + bytes == p->hi) {
        p->is_uninitialized = false;
        return;
    }
    if (!cells.reserve(memory.size)) return;
    const uintptr_t base = reinterpret_cast<uintptr_t>(memory.base);
    for (uintptr_t i = a; i < a + bytes;) {
        if (i % 4 == 0 && i + 4 <= a + bytes) cells.word_cells[(i - base) / 4].written = 1, i += 4;
        else {
            cells.expand(i - base, 1);
            Cell &word = cells.word_cells[(i - base) / 4], *byte_cells = cells.byte_cells + (i - base) / 4 * 4;
            if (!word.has_byte_cells) {
                for (int byte = 0; byte < 4; byte++) byte_cells[byte] = word;
                word.has_byte_cells = 1;
            }
            byte_cells[(i - base) % 4].written = 1, i++;
        }
    }
}
}
