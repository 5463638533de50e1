// memcheck: accesses of addresses that a kernel, or host code, must not access
#include <dlfcn.h>
#include <errno.h>
#include "addresses.h"
#include "detector.h"
#include "findings.h"
#include "launch.h"
#include "operations.h"

namespace gridstride {

// May the launch access this allocation? An index that has overflowed may lead into an array of another launch. If no
// argument can contain another address, only arrays to which arguments and device variables point are accessible.
void Detector::begin_arguments() {
    launch_number++, has_all_addresses = launch->nargs > 0;
    for (int i = 0; i < launch->nargs; i++) {
        const uintptr_t a = reinterpret_cast<uintptr_t>(launch->args[i].pointer);
        Allocation *const p = memory.at(a);
        // such as `x + n` or `x - 1`
        const bool is_live = p && p->live, is_out_of_bounds = !is_live && memory.surrounds(a);
        has_all_addresses = has_all_addresses && launch->args[i].without_address && !is_out_of_bounds;
        if (is_live) p->usable_in = launch_number;
    }
}
bool Detector::is_usable(Allocation &p) {
    if (!p.live) return false;
    const bool known = !has_all_addresses || p.symbol || p.of_kernel || !checks(memcheck) || is_address_known(p);
    if (known) p.usable_in = launch_number;
    return known;
}
// Is an address of the allocation stored in a device variable, now or before the launch, or in an array that the launch
// may access? The last location is tried first, because searching all of them takes long.
bool Detector::is_address_known(Allocation &p) const {
    const auto contains_address = [&p](uintptr_t from, uintptr_t to) {
        for (uintptr_t a; from + sizeof a <= to; from += sizeof a) {
            memcpy(&a, reinterpret_cast<const void *>(from), sizeof a);
            if (a >= p.lo && a <= p.hi) return p.address_found_at = from, true;
        }
        return false;
    };
    const auto is_accessible = [this](const Allocation &x) {
        return x.live && (x.symbol || x.usable_in == launch_number);
    };
    const Allocation *const last = memory.at(p.address_found_at);
    if (last && is_accessible(*last) && contains_address(p.address_found_at, p.address_found_at + sizeof p.lo))
        return true;
    for (const SavedVariable &s : saved_variables) {
        const uintptr_t from = reinterpret_cast<uintptr_t>(s.bytes.data());
        if (contains_address(from, from + s.bytes.size())) return true;
    }
    for (const bool symbol : {true, false})
        for (const Allocation &in : memory.allocations)
            if (in.symbol == symbol && is_accessible(in) && contains_address((in.lo + 7) / 8 * 8, in.hi)) return true;
    return has_plain_variables(reinterpret_cast<const void *>(launch->thread));
}

bool Detector::is_argument(const Allocation &p) const {
    return std::any_of(launch->args, launch->args + launch->nargs, [&p](const Arg &x) {
        return memory.at(reinterpret_cast<uintptr_t>(x.pointer)) == &p;
    });
}
bool Detector::is_possible_target(Allocation &p) {
    return p.live ? is_usable(p) : !has_all_addresses || p.of_kernel || is_argument(p) || is_address_known(p);
}

// Returns the address as an index of each array that was passed to the launch, if that fits into 32 bits: `x 5 100, `
// for x[5] of 100 elements.
std::string Detector::arguments_at(uintptr_t a) const {
    std::string found, names = parameters_of(*launch);
    for (int i = 0; i < launch->nargs && !names.empty(); i++) {
        const size_t comma = std::min(names.find(','), names.size());
        const uintptr_t begin = reinterpret_cast<uintptr_t>(launch->args[i].pointer);
        if (Allocation *p = memory.at(begin); p && p->live) {
            Allocation argument = *p;
            argument.begin = begin;
            const long long index = argument.index_of(a);
            const std::string entry = names.substr(0, comma) + ' ' + std::to_string(index) + ' ' +
                                    std::to_string(argument.index_of(argument.hi)) + ", ";
            if (std::abs(index) <= (1ll << 32) && found.size() + entry.size() < sizeof Field::string) found += entry;
        }
        names.erase(0, comma + 1);
    }
    return found;
}

void Detector::report_out_of_bounds(uintptr_t a, bool write, uint32_t location) {
    if (!checks(memcheck)) return;
    const Access at = {me, now, location};
    const Field access = {"access", access_of(write, location)};
    if (const Allocation *p = memory.at(a); p && p->host_name)
        return find(Code::host_symbol, {{"array", p->name_or_default()}}, at);
    const auto is_passed = [this](const Allocation &x) {
        return !has_all_addresses || x.symbol || x.usable_in == launch_number;
    };
    Allocation *p = memory.nearest(a);
    if (p && !is_possible_target(*p)) p = memory.nearest(a, is_passed);
    const auto prefer_argument = [this](const Allocation *indexed, const Allocation *near) {
        return !near || (indexed && is_argument(*indexed) && !is_argument(*near)) ? indexed : nullptr;
    };
    const std::string arrays = p && is_argument(*p) ? "" : arguments_at(a);
    const Allocation *const wrapped =
        prefer_argument(memory.at_wrapped_index(a, is_passed), p && p->is_near(a) ? p : nullptr);
    const Allocation *const overflowed =
        wrapped ? nullptr : prefer_argument(memory.at_overflowed_index(a, is_passed), p);
    const Allocation *const array = wrapped ? wrapped : overflowed ? overflowed : p;
    if (!array) return find(Code::no_array, {access, {"address", a}, {"arrays", arrays.c_str()}}, at);
    const bool is_nearest = !wrapped && !overflowed;
    if (is_nearest && !array->live)
        return find(Code::freed, {access, {"array", array->name_or_default()}, {"arrays", arrays.c_str()}}, at);
    if (is_nearest && a >= array->lo && a < array->hi) a = array->hi;    // treated as the first byte past the end
    const long long index = array->index_of(a), size = array->index_of(array->hi);
    const char *const inner = is_nearest ? array->inner_name : "";
    find(wrapped ? Code::wrapped : overflowed ? Code::overflowed : index < 0 ? Code::before : Code::outside,
        {access, {"array", array->name_or_default()}, {"index", &index, 1}, {"shape", &size, 1}, {"inner", inner},
            {"inner_at", inner[0] ? array->index_of(array->inner_begin) : 0}, {"arrays", arrays.c_str()}},
        at);
}
void Detector::report_out_of_bounds_shared(uintptr_t off, bool write, uint32_t location) {
    if (!checks(memcheck)) return;
    const Access at = {me, now, location};
    const Field access = {"access", access_of(write, location)};
    const SharedArray *nearest = nullptr;
    for (auto &candidate : w->arrays)
        if (const size_t begin = candidate.offset; begin <= off + shared_gap)
            if (!nearest || (begin >= nearest->offset && begin <= off)) nearest = &candidate;
    // a dynamic array without bytes begins at 0, before all others
    const bool has_none = !launch->shared && !w->root->file_scopes[image.base].dynamic.empty();
    if (has_none && nearest && off < nearest->offset) nearest = nullptr;
    if (!nearest) return find(has_none ? Code::no_dynamic : Code::outside_arrays, {access}, at);
    const auto &dims = nearest->shape.dims;
    const long long shape[] = {(long long)dims[0], (long long)dims[1], (long long)dims[2], (long long)dims[3]};
    long long index[4];
    nearest->index_of(off, index);
    find(launch->shared && !nearest->offset ? Code::outside_dynamic : Code::outside_shared,
        {access, {"array", nearest->name}, {"index", index, std::max(nearest->shape.rank, 1)},
            {"shape", shape, nearest->shape.rank}},
        at);
}
// Is the address mapped, and not shadow memory?
static bool is_mapped(uintptr_t a) {
    for (const Cells *c : {&detector.cells, &detector.shared_cells})
        if (a - reinterpret_cast<uintptr_t>(c->word_cells) < c->count * sizeof(Cell) ||
            a - reinterpret_cast<uintptr_t>(c->byte_cells) < 4 * c->count * sizeof(Cell))
            return false;
    const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    return !msync(reinterpret_cast<void *>(a / page * page), 1, MS_ASYNC) || errno != ENOMEM;
}
// Checks an access of neither device memory nor the thread's stack. Constants of the module and the
// arguments are allowed; all other memory belongs to the host, or to another thread.
void Detector::check_other_memory(uintptr_t a, bool write, uint32_t location) {
    const auto between = [a](uintptr_t from, uintptr_t to) { return a >= from && a < to; };
    if (!checks(memcheck) || between(image.base, image.end) || between(image.tls, image.tls_end) ||
        between(launch->host_args, launch->host_args_end))
        return;
    const Field access = {"access", access_of(write, location)};
    if (const auto *f = memory.failed_at(a); f && !is_mapped(a))
        return find(Code::failed_alloc, {access, {"bytes", f->first}, {"allocated", f->second}}, {me, now, location});
    if (a < 4096) return report_null(write, location);
    if (memory.surrounds(a)) return report_out_of_bounds(a, write, location);
    Dl_info info;
    if (dladdr(reinterpret_cast<void *>(a), &info) && reinterpret_cast<uintptr_t>(info.dli_fbase) == image.base) return;
    if (w->is_past_stack(a))
        return find(Code::local_array, {access}, {me, now, location});
    for (int i = 0; i < w->fiber_count; i++)
        if (a - reinterpret_cast<uintptr_t>(w->fibers[i].stack) < stack_bytes)
            return find(Code::local_of_other, {access}, {me, now, location});
    const DeviceAddress given = classify_address(a);
    if (given.kind == DeviceAddress::table) return find(Code::host_virtual, {}, {me, now, location});
    if (!is_mapped(a)) return find(Code::no_array, {access, {"address", a}}, {me, now, location});
    find(write ? Code::kernel_writes_host : Code::kernel_reads_host, {}, {me, now, location});
}
void Detector::report_null(bool write, uint32_t location) {
    if (checks(memcheck)) find(write ? Code::null_written : Code::null_read, {}, {me, now, location});
}
void Detector::report_constant_write(const Allocation &p, uintptr_t a, uint32_t location) {
    const ElementName element = element_name(a, 0, &p);
    if (checks(memcheck)) find(Code::constant, {element.array(), element.index()}, {me, now, location});
}
void Detector::report_misaligned(uintptr_t a, unsigned n, const char *access, uint32_t location) {
    if (!checks(memcheck)) return;
    const Access at = {me, now, location};
    const ElementName element = element_name(a, 0, memory.at(a));
    if (element.name[0])
        find(Code::misaligned, {{"access", access}, element.array(), element.index(), {"bytes", n}}, at);
    find(Code::misaligned, {{"access", access}, {"space", "shared memory"}, {"bytes", n}}, at);
}

// Reports an address that an instruction does not allow, whatever the pointer's type: a GPU traps there.
[[noreturn]] void Detector::report_misplaced(const void *p, unsigned n, const char *instruction, int line) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(p), off = a - shared_base;
    const Allocation *allocation = memory.at(a);
    const int owner = on && off < shared_cap ? shared_cell(a).owner : 0;
    const ElementName element = on ? element_name(a, owner, allocation) : ElementName{};
    if (element.name[0])
        find(Code::misplaced, {element.array(), element.index(), {"operation", instruction}, {"bytes", n}},
            {me, now, line_bit | uint32_t(line)});
    fail(Code::misplaced,
        {{"space", allocation ? "global memory" : "shared memory"}, {"operation", instruction}, {"bytes", n}}, line);
}

void Detector::host_access(uintptr_t a, unsigned n, bool write, bool strong, void *pc) {
    DeviceLock device_lock;
    Allocation *p = memory.at(a);
    if (p && p->live && (p->host || host_accesses_device)) {
        if (host_accesses_device || p->accessed_by_thrust) operations.host_waits();  // a library function, which waits
        else operations.host_access(a, n, write, strong, pc);
        if (write) p->uninitialized = false;
        return;
    }
    if (p && p->symbol)
        fail_at(write ? Code::host_writes_symbol : Code::host_reads_symbol, {{"array", p->name_or_default()}},
            static_cast<char *>(pc) - 1, 0);
    fail_at(write ? Code::host_writes : Code::host_reads, {{"array", p ? p->name_or_default() : "memory"}},
        static_cast<char *>(pc) - 1, 0);
}
}
