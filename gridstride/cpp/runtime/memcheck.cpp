// memcheck: reports accesses to addresses that a kernel, or host code, must not access.
#include <errno.h>
#include "addresses.h"
#include "detector.h"
#include "devices.h"
#include "findings.h"
#include "launch.h"
#include "loader.h"
#include "operations.h"

namespace gridstride {

// Arrays of these sizes, in bytes, have huge pages for their cells. Most words of larger arrays are accessed only once
// or twice, so the system takes longer to find huge pages than they save.
constexpr size_t min_huge_cells = size_t(256) << 10, max_huge_cells = size_t(16) << 20;
// Determines which allocations the launch may access. An index that has overflowed may lead into an array of another
// launch. If no argument can contain another address, only arrays to which arguments and device variables point are
// accessible.
void Detector::begin_arguments() {
    static uint32_t num_launches = 0;
    launch_id = ++num_launches, has_all_addresses = launch->num_args > 0;
    for (int i = 0; i < launch->num_args; i++) {
        const uintptr_t address = reinterpret_cast<uintptr_t>(launch->args[i].pointer);
        Allocation *const allocation = memory.at(address);
        // such as `x + n` or `x - 1`
        const bool is_live = allocation && allocation->is_live,
                   is_out_of_bounds = !is_live && memory.surrounds(address);
        has_all_addresses = has_all_addresses && launch->args[i].has_no_address && !is_out_of_bounds;
        if (!is_live || is_of_unreachable_device(*allocation)) continue;
        allocation->usable_in = allocation->shared ? 0 : launch_id;    // else no fast path may skip `access_peers`
        const size_t bytes = allocation->hi - allocation->lo;
        if (allocation->has_huge_shadow || bytes < min_huge_cells) continue;
        allocation->has_huge_shadow = true;
        const uintptr_t offset = allocation->lo - reinterpret_cast<uintptr_t>(memory.base);
        if (bytes <= max_huge_cells) cells.use_huge_cells(offset, bytes);
        if (bytes >= Memory::min_large_bytes) cells.use_huge_lines(offset, bytes);
    }
}
bool Detector::is_usable(Allocation &allocation) {
    if (!allocation.is_live || is_of_unreachable_device(allocation)) return false;
    const bool is_known =
        !has_all_addresses || allocation.is_symbol || allocation.is_from_kernel || !checks(memcheck) ||
        (has_several_devices && allocation.is_symmetric) ||
        ((has_several_devices || allocation.shared) && is_argument(allocation)) || is_address_known(allocation);
    if (is_known && !allocation.shared) allocation.usable_in = launch_id;
    return is_known;
}
// Returns whether an address of the allocation is stored in a device variable, now or before the launch, or in an array
// that the launch may access. The location of the last match is tried first, because a full search is slow.
bool Detector::is_address_known(Allocation &target) const {
    const auto contains_address = [&target](uintptr_t from, uintptr_t to) {
        for (uintptr_t a; from + sizeof a <= to; from += sizeof a) {
            memcpy(&a, reinterpret_cast<const void *>(from), sizeof a);
            if (a >= target.lo && a <= target.hi) return target.address_found_at = from, true;
        }
        return false;
    };
    const auto is_accessible = [this](const Allocation &allocation) {
        return allocation.is_live && (allocation.is_symbol || allocation.usable_in == launch_id ||
            (allocation.shared && is_argument(allocation)));
    };
    const Allocation *const last_container = memory.at(target.address_found_at);
    if (last_container && is_accessible(*last_container) &&
        contains_address(target.address_found_at, target.address_found_at + sizeof target.lo))
        return true;
    for (const SavedVariable &variable : saved_variables) {
        const uintptr_t from = reinterpret_cast<uintptr_t>(variable.bytes.data());
        if (contains_address(from, from + variable.bytes.size())) return true;
    }
    for (const bool is_symbol : {true, false})
        for (const Allocation &container : memory.allocations)
            if (container.is_symbol == is_symbol && is_accessible(container) &&
                contains_address((container.lo + 7) / 8 * 8, container.hi)) return true;
    return has_plain_variables(reinterpret_cast<const void *>(launch->thread));
}

// Returns whether the allocation belongs to another device, to which this one has no peer access.
bool Detector::is_of_unreachable_device(const Allocation &allocation) const {
    return device_count() > 1 && checks(memcheck) && !can_access(current_device(), allocation);
}
bool Detector::is_argument(const Allocation &allocation) const {
    return std::any_of(launch->args, launch->args + launch->num_args, [&allocation](const Arg &argument) {
        return memory.at(reinterpret_cast<uintptr_t>(argument.pointer)) == &allocation;
    });
}
bool Detector::is_possible_target(Allocation &allocation) {
    return allocation.is_live ? is_usable(allocation) : !has_all_addresses || allocation.is_from_kernel ||
        is_argument(allocation) || is_address_known(allocation);
}

// Returns the index of this address in every array that was passed to the launch, if it fits into 32 bits: `x 5 100, `
// for x[5] of 100 elements.
std::string Detector::arguments_at(uintptr_t a) const {
    std::string entries, names = parameters_of(*launch);
    for (int i = 0; i < launch->num_args && !names.empty(); i++) {
        const size_t comma = std::min(names.find(','), names.size());
        const uintptr_t begin = reinterpret_cast<uintptr_t>(launch->args[i].pointer);
        if (Allocation *allocation = memory.at(begin); allocation && allocation->is_live) {
            Allocation argument = *allocation;
            argument.begin = begin;
            const long long index = argument.index_of(a);
            const std::string entry = names.substr(0, comma) + ' ' + std::to_string(index) + ' ' +
                                    std::to_string(argument.index_of(argument.hi)) + ", ";
            if (std::abs(index) <= (1ll << 32) && entries.size() + entry.size() < sizeof Field::string)
                entries += entry;
        }
        names.erase(0, comma + 1);
    }
    return entries;
}

void Detector::report_out_of_bounds(uintptr_t a, bool write, uint32_t location) {
    if (!checks(memcheck)) return;
    const Access record = {self, now, location};
    const Field access_field = {"access", access_name(write, location)};
    if (const Allocation *target = memory.at(a); target && target->is_live && a >= target->lo && a < target->hi &&
        is_of_unreachable_device(*target)) {
        const ElementName element = element_name(a, 0, target);
        return report_finding(Code::peer_not_enabled,
            {element.array(), element.index(), {"access", access_name(write, location)}, {"device", current_device()},
                {"owner", target->device}},
            record);
    }
    if (const Allocation *nearest_array = memory.at(a); nearest_array && nearest_array->is_host_alias)
        return report_finding(Code::host_symbol, {{"array", nearest_array->name_or_default()}}, record);
    const auto is_passed = [this](const Allocation &allocation) {
        return !has_all_addresses || allocation.is_symbol || allocation.usable_in == launch_id || allocation.shared;
    };
    Allocation *nearest_array = memory.nearest(a);
    if (nearest_array && !is_possible_target(*nearest_array)) nearest_array = memory.nearest(a, is_passed);
    const auto prefer_argument = [this](const Allocation *indexed, const Allocation *nearest) {
        return !nearest || (indexed && is_argument(*indexed) && !is_argument(*nearest)) ? indexed : nullptr;
    };
    const std::string arrays = nearest_array && is_argument(*nearest_array) ? "" : arguments_at(a);
    const Allocation *const wrapped_array =
        prefer_argument(memory.at_wrapped_index(a, is_passed), nearest_array && nearest_array->is_near(a)
            ? nearest_array : nullptr);
    const Allocation *const overflowed_array =
        wrapped_array ? nullptr : prefer_argument(memory.at_overflowed_index(a, is_passed), nearest_array);
    const Allocation *const array = wrapped_array ? wrapped_array : overflowed_array ? overflowed_array : nearest_array;
    if (!array) return report_finding(Code::no_array, {access_field, {"address", a}, {"arrays", arrays.c_str()}},
        record);
    const bool is_nearest = !wrapped_array && !overflowed_array;
    if (is_nearest && !array->is_live)
        return report_finding(Code::freed,
            {access_field, {"array", array->name_or_default()}, {"arrays", arrays.c_str()}}, record);
    // the access begins in bounds and ends past them
    if (is_nearest && a >= array->lo && a < array->hi) a = array->hi;
    const long long index = array->index_of(a), size = array->index_of(array->hi);
    const char *const inner_name = is_nearest ? array->inner_name : "";
    report_finding(
        wrapped_array ? Code::wrapped : overflowed_array ? Code::overflowed : index < 0 ? Code::before : Code::outside,
        {access_field, {"array", array->name_or_default()}, {"index", &index, 1}, {"shape", &size, 1},
            {"inner", inner_name},
            {"inner_at", inner_name[0] ? array->index_of(array->inner_begin) : 0}, {"arrays", arrays.c_str()}},
        record);
}
void Detector::report_out_of_bounds_shared(uintptr_t offset, bool write, uint32_t location) {
    if (!checks(memcheck)) return;
    const Access record = {self, now, location};
    const Field access_field = {"access", access_name(write, location)};
    const SharedArray *nearest = nullptr;
    for (auto &candidate : w->arrays)
        if (const size_t begin = candidate.offset; begin <= offset + shared_gap)
            if (!nearest || (begin >= nearest->offset && begin <= offset)) nearest = &candidate;
    // a dynamic array without bytes begins at 0, before all others
    const bool has_no_dynamic_bytes = !launch->shared && !w->root->file_scopes[image.base].dynamic.empty();
    if (has_no_dynamic_bytes && nearest && offset < nearest->offset) nearest = nullptr;
    if (!nearest)
        return report_finding(has_no_dynamic_bytes ? Code::no_dynamic : Code::outside_arrays, {access_field}, record);
    const auto &dims = nearest->shape.dims;
    const long long shape[] = {(long long)dims[0], (long long)dims[1], (long long)dims[2], (long long)dims[3]};
    long long index[4];
    nearest->index_of(offset, index);
    report_finding(launch->shared && !nearest->offset ? Code::outside_dynamic : Code::outside_shared,
        {access_field, {"array", nearest->name}, {"index", index, std::max(nearest->shape.rank, 1)},
            {"shape", shape, nearest->shape.rank}},
        record);
}
// Skips an access that is out of bounds, after a finding that the user allows. The hook runs before the access, which
// therefore happens, but changes nothing: pages of no array are mapped and contain zeros, and a write is undone at the
// next step of the thread.
void Detector::skip_allowed_access(uintptr_t a, unsigned n, bool write) {
    if (!checks(memcheck)) return;
    for (uintptr_t page = a / memory.page * memory.page; page < a + n; page += memory.page) {
        const Allocation *const allocation = memory.at(page);
        if (memory.surrounds(page) && !(allocation && allocation->is_live))
            mprotect(reinterpret_cast<void *>(page), memory.page, PROT_READ | PROT_WRITE);
    }
    if (!write) return;
    const char *const bytes = reinterpret_cast<const char *>(a);
    skipped_writes.push_back({a, {bytes, bytes + n}});
    pending.active = true;
}
void Detector::undo_skipped_writes() {
    for (; !skipped_writes.empty(); skipped_writes.pop_back()) {
        const SavedVariable &write = skipped_writes.back();
        memcpy(reinterpret_cast<void *>(write.lo), write.bytes.data(), write.bytes.size());
    }
}
// Returns whether the address is mapped, but not part of the shadow memory.
static bool is_mapped(uintptr_t address) {
    for (const Cells *shadow_cells : {&detector.cells, &detector.shared_cells})
        if (address - reinterpret_cast<uintptr_t>(shadow_cells->word_cells) < shadow_cells->count * sizeof(Cell) ||
            address - reinterpret_cast<uintptr_t>(shadow_cells->byte_cells) < 4 * shadow_cells->count * sizeof(Cell) ||
            address - reinterpret_cast<uintptr_t>(shadow_cells->tags) < 4 * shadow_cells->count ||
            address - reinterpret_cast<uintptr_t>(shadow_cells->lines) <
                4 * shadow_cells->count / line_bytes * sizeof(Line))
            return false;
    const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    return !msync(reinterpret_cast<void *>(address / page * page), 1, MS_ASYNC) || errno != ENOMEM;
}
// Checks an access to neither device memory nor the thread's stack. Constants of the module and the
// arguments are allowed; all other memory belongs to the host, or to another thread.
void Detector::check_other_memory(uintptr_t a, bool write, uint32_t location) {
    const auto is_in_range = [a](uintptr_t from, uintptr_t to) { return a >= from && a < to; };
    if (!checks(memcheck) || is_in_range(image.base, image.end) || is_in_range(image.tls, image.tls_end) ||
        is_in_range(launch->host_args, launch->host_args_end))
        return;
    const Field access_field = {"access", access_name(write, location)};
    if (const auto *failure = memory.failed_at(a); failure && !is_mapped(a))
        return report_finding(Code::failed_alloc,
            {access_field, {"bytes", failure->first}, {"alloc_line", failure->second}}, {self, now, location});
    if (a < 4096) return report_null(write, location);
    if (memory.surrounds(a)) return report_out_of_bounds(a, write, location);
#ifndef __wasm__                           // there dladdr() accepts any address
    Dl_info info;
    if (find_symbol(reinterpret_cast<void *>(a), info) && reinterpret_cast<uintptr_t>(info.dli_fbase) == image.base)
        return;
#endif
    if (w->is_just_past_stack(a))
        return report_finding(Code::local_array, {access_field}, {self, now, location});
    for (int i = 0; i < w->fiber_count; i++)
        if (a - reinterpret_cast<uintptr_t>(w->fibers[i].stack) < stack_bytes)
            return report_finding(Code::local_of_other, {access_field}, {self, now, location});
    const DeviceAddress target = classify_address(a);
    if (target.kind == DeviceAddress::vtable) return report_finding(Code::host_virtual, {}, {self, now, location});
    if (!is_mapped(a)) return report_finding(Code::no_array, {access_field, {"address", a}}, {self, now, location});
    report_finding(write ? Code::kernel_writes_host : Code::kernel_reads_host, {}, {self, now, location});
}
void Detector::report_null(bool write, uint32_t location) {
    if (checks(memcheck)) report_finding(write ? Code::null_written : Code::null_read, {}, {self, now, location});
}
void Detector::report_constant_write(const Allocation &allocation, uintptr_t a, uint32_t location) {
    const ElementName element = element_name(a, 0, &allocation);
    if (checks(memcheck)) report_finding(Code::constant, {element.array(), element.index()}, {self, now, location});
}
void Detector::report_misaligned(uintptr_t a, unsigned alignment, const char *access, uint32_t location) {
    if (!checks(memcheck)) return;
    const Access record = {self, now, location};
    const ElementName element = element_name(a, 0, memory.at(a));
    if (element.name[0])
        report_finding(Code::misaligned, {{"access", access}, element.array(), element.index(), {"bytes", alignment}},
            record);
    const char *space = a - own_stack < stack_bytes ? "local memory" : "shared memory";
    report_finding(Code::misaligned, {{"access", access}, {"space", space}, {"bytes", alignment}}, record);
}

// Reports an operand that is misaligned for its instruction, whatever the pointer's type; a GPU would trap.
[[noreturn]] void Detector::report_misaligned_operand(const void *pointer, unsigned alignment, const char *instruction,
    int line) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer), offset = address - shared_base;
    const Allocation *allocation = memory.at(address);
    const int owner = is_enabled && offset < shared_cap ? shared_cell(address).owner : 0;
    const ElementName element = is_enabled ? element_name(address, owner, allocation) : ElementName{};
    if (element.name[0])
        report_finding(Code::misaligned_operand,
            {element.array(), element.index(), {"operation", instruction}, {"bytes", alignment}},
            {self, now, line_bit | uint32_t(line)});
    fail(Code::misaligned_operand,
        {{"space", allocation ? "global memory" : "shared memory"}, {"operation", instruction}, {"bytes", alignment}},
            line);
}

void Detector::check_host_access(uintptr_t address, unsigned bytes, bool write, bool is_atomic, void *pc) {
    DeviceLock device_lock;
    Allocation *allocation = memory.at(address);
    if (allocation && allocation->is_live && (allocation->is_host || host_accesses_device)) {
        // an access by a library function, which synchronizes first
        if (host_accesses_device || allocation->is_accessed_by_thrust) operations.host_waits();
        else operations.host_access(address, bytes, write, is_atomic, pc);
        if (write) allocation->is_uninitialized = false;
        return;
    }
    if (allocation && allocation->is_symbol)
        fail_at(write ? Code::host_writes_symbol : Code::host_reads_symbol, {{"array", allocation->name_or_default()}},
            static_cast<char *>(pc) - 1, 0);
    fail_at(write ? Code::host_writes : Code::host_reads,
        {{"array", allocation ? allocation->name_or_default() : "memory"}},
        static_cast<char *>(pc) - 1, 0);
}
}
