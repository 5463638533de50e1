// Device memory: the functions that the headers and Python call. Also the last error (cudaGetLastError).
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>
#include "addresses.h"
#include "detector.h"
#include "devices.h"
#include "findings.h"
#include "machine.h"
#include "memory.h"
#include "operations.h"
#include "output.h"
#include "state.h"
#include "unload.h"

namespace gridstride {

static char *alloc_within_limit(size_t bytes, size_t itemsize, bool is_uninitialized, bool is_host, int line,
    bool belongs_to_graph = false) {
    DeviceLock device_lock;
    char *const p =
        fits_in_memory(bytes) ? memory.alloc(bytes, itemsize, is_uninitialized, is_host, false, "") : nullptr;
    if (p) memory.allocations.back().line = line, memory.allocations.back().belongs_to_graph = belongs_to_graph;
    return p;
}
// Warns immediately, not at the end of the call: a program that ignores the error soon causes another finding.
static void report_out_of_memory(size_t bytes, int line) {
    {
        DeviceLock device_lock;
        memory.failed_allocations.emplace_back(bytes, line);
    }
    Finding f;
    fill(f, Code::out_of_memory, {{"bytes", bytes}, {"limit", device_limit()}, {"used", memory.bytes}});
    f.kind = warning, f.location.line = line;
    const SignalDeferral deferral;
    if (warn) warn(&f);
}
void *device_alloc(size_t bytes, size_t itemsize, bool is_cleared, bool is_host, int line) {
    char *const p = alloc_within_limit(bytes, itemsize, !is_cleared, is_host, line);
    if (!p) report_out_of_memory(bytes, line);
    return p;
}
static bool free_allocation(void *p, bool keeps_pages = false) {
    Allocation *m = memory.at(reinterpret_cast<uintptr_t>(p));
    if (!m || !m->is_live || m->lo != reinterpret_cast<uintptr_t>(p)) return false;
    if (m->belongs_to_graph) return true;
    detector.discard(*m);
    memory.free(*m, keeps_pages);
    return true;
}
void *graph_alloc(size_t bytes, int line) {
    char *const p = alloc_within_limit(bytes, 1, true, false, line, true);
    if (!p) report_out_of_memory(bytes, line);
    return p;
}
bool device_free(void *p) {
    DeviceLock device_lock;
    return free_allocation(p);
}
bool free_in_order(void *p) {
    DeviceLock device_lock;
    const Allocation *m = memory.at(reinterpret_cast<uintptr_t>(p));
    if (m && m->is_live) operations.access(p, m->hi - m->lo, "frees");
    return free_allocation(p);
}
// For malloc and free in kernels: the launch holds the device lock, but its blocks may run on several OS threads.
static std::mutex heap_lock;
static std::mutex symbols_lock;
void fork_device(Fork phase) {
    handle_fork(phase, heap_lock);
    handle_fork(phase, symbols_lock);
}
void *heap_alloc(size_t bytes) {
    if (!on_device()) return malloc(bytes);
    std::lock_guard<std::mutex> guard(heap_lock);
    char *const p = bytes && fits_in_memory(bytes) ? memory.alloc(bytes, 1, true, false, false, "", true) : nullptr;
    if (p) memory.allocations.back().is_from_kernel = true;
    return p;
}
void heap_free(void *p, int line) {
    if (!on_device()) return free(p);
    detector.finish_pending_writes();                     // because they read the memory that is freed here
    std::unique_lock<std::mutex> guard(heap_lock);
    const bool freed = !p || free_allocation(p);
    guard.unlock();
    if (!freed) fail(Code::not_allocated, {{"address", reinterpret_cast<uintptr_t>(p)}}, line);
}
void share_with_host(const void *p) {
    if (on_device() || !memory.holds(reinterpret_cast<uintptr_t>(p))) return;
    DeviceLock device_lock;
    if (Allocation *m = memory.at(reinterpret_cast<uintptr_t>(p))) m->is_host = m->is_accessed_by_thrust = true;
}
bool allow_device_access(bool on) {
    const bool was_allowed = host_accesses_device;
    host_accesses_device = on;
    if (was_allowed != on && !on_device()) on ? begin_device_code() : end_device_code();
    return was_allowed;
}
bool is_shared_with_host(const void *p) {
    DeviceLock device_lock;
    const Allocation *m = memory.at(reinterpret_cast<uintptr_t>(p));
    return m && m->is_host;
}
bool is_device(const void *p) { return memory.holds(reinterpret_cast<uintptr_t>(p)); }
bool is_device_only(const void *p) {
    DeviceLock device_lock;
    const Allocation *m = memory.at(reinterpret_cast<uintptr_t>(p));
    return m && !m->is_host;
}
bool is_in_allocation(const void *p, size_t bytes) {
    DeviceLock device_lock;
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    const Allocation *m = memory.at(a);
    return m && m->is_live && a >= m->lo && a + bytes <= m->hi;
}
void mark_initialized(void *p, size_t bytes) {
    DeviceLock device_lock;
    detector.record_host_write(reinterpret_cast<uintptr_t>(p), bytes);
}
// Page-locked host memory and its copy in device memory, which are synchronized before and after each launch
struct Registered {
    char *host;
    size_t bytes;
    char *device;                   // null until it is needed
};
static std::vector<Registered> registered;
void sync_registered_memory(bool to_device) {
    for (auto &r : registered)
        if (r.device) memcpy(to_device ? r.device : r.host, to_device ? r.host : r.device, r.bytes);
}
static bool is_mapped(const void *p) {
    return std::any_of(registered.begin(), registered.end(), [p](const Registered &r) {
        return r.device && p >= r.device && p < r.device + r.bytes;
    });
}
void record_device_use(const void *p, size_t bytes, const char *verb) {
    DeviceLock device_lock;
    operations.access(p, bytes, verb);
}
static std::vector<Registered>::iterator registered_at(const void *p) {
    return std::find_if(registered.begin(), registered.end(), [p](const Registered &r) {
        return p >= r.host && p < r.host + r.bytes;
    });
}
bool is_registered(uintptr_t address) {
    return registered_at(reinterpret_cast<void *>(address)) != registered.end();
}
static bool is_host_memory(const void *p) { return !is_device(p) || is_shared_with_host(p); }
void device_copy(void *to, const void *from, size_t bytes) {
    record_device_use(from, bytes, "reads");
    record_device_use(to, bytes, "writes");
    const bool needs_sync = is_mapped(to) || is_mapped(from);
    if (needs_sync) sync_registered_memory(true);
    memmove(to, from, bytes);
    const bool to_host = is_host_memory(to);
    if (is_host_memory(from) && !to_host) gridstride::hide_host_addresses(to, bytes, false);
    if (!is_host_memory(from) && to_host) restore_host_addresses(to, bytes);
    if (needs_sync) sync_registered_memory(false);
}
void device_fill(void *p, int value, size_t bytes) {
    record_device_use(p, bytes, "writes");
    const bool needs_sync = is_mapped(p);
    if (needs_sync) sync_registered_memory(true);
    memset(p, value, bytes);
    if (needs_sync) sync_registered_memory(false);
}
size_t device_total() { return memory.bytes; }
size_t device_size() {
    DeviceLock device_lock;
    return device_limit();
}
void device_reset() {
    DeviceLock device_lock;
    sticky_error = error_code = 0;
    for (auto &p : memory.allocations)
        if (p.is_live && !p.is_symbol && !p.is_symmetric) {
            detector.discard(p);
            memory.free(p);
        }
}
bool is_pageable(const void *p) {
    DeviceLock device_lock;
    return !is_device(p) && registered_at(p) == registered.end();
}
bool has_registered_memory = false;
void check_registered_access(uintptr_t a, size_t bytes, bool write, bool is_atomic, void *pc) {
    if (on_device()) return;
    DeviceLock device_lock;
    const auto r = registered_at(reinterpret_cast<const void *>(a));
    if (r == registered.end()) return;
    operations.host_access(a, bytes, write, is_atomic, pc);
    const uintptr_t device_address =
        reinterpret_cast<uintptr_t>(r->device) + (a - reinterpret_cast<uintptr_t>(r->host));
    if (r->device) operations.host_access(device_address, bytes, write, is_atomic, pc);
}
bool register_host(void *p, size_t bytes) {
    DeviceLock device_lock;
    if (registered_at(p) != registered.end()) return false;
    pin_module(p);
    registered.push_back({static_cast<char *>(p), bytes, nullptr});
    has_registered_memory = true;
    return true;
}
bool unregister_host(void *p) {
    DeviceLock device_lock;
    const auto r = registered_at(p);
    if (r == registered.end() || r->host != p) return false;
    if (r->device) free_allocation(r->device);
    registered.erase(r);
    has_registered_memory = !registered.empty();
    return true;
}
void *device_address_of(const void *host) {
    DeviceLock device_lock;
    const auto r = registered_at(host);
    if (r == registered.end()) return nullptr;
    if (!r->device) r->device = memory.alloc(r->bytes, 1, false, false, false, "");
    return r->device ? r->device + (static_cast<const char *>(host) - r->host) : nullptr;
}
// Device variables. In host code, the address of a device variable is unmapped, unless the variable is managed.
static std::vector<Symbol> symbols;
static int num_device_code_scopes = 0;             // running launches, and host algorithms that access device memory
// Returns the device's instance of a variable; all devices share a managed variable.
static char *variable_of(Symbol &s, int device) {
    if (!device || s.device == s.host) return s.device;
    char *&variable = s.peers[device - 1];
    if (variable) return variable;
    const Allocation first = *memory.at(reinterpret_cast<uintptr_t>(s.device));
    variable = memory.alloc(s.bytes, first.itemsize, false, false, first.is_constant, first.name, true, 0, true);
    if (!variable) fail(Code::no_addresses, {});
    memory.allocations.back().device = device;
    memcpy(variable, s.init, s.bytes);
    return variable;
}
static bool is_variable(const Symbol &s, const void *p) {
    return p == s.device || p == s.host || (p && std::find(s.peers, std::end(s.peers), p) != std::end(s.peers));
}
static int symbols_device = 0;          // the device whose variables the symbols refer to in device code
static void point_symbols(bool to_device) {
    symbols_device = current_device();
    for (auto &s : symbols) *s.slot = to_device ? variable_of(s, symbols_device) : s.host;
}
void point_symbols_to(int device) {
    if (symbols_device == device) return;
    std::lock_guard<std::mutex> guard(symbols_lock);
    point_symbols(true);
}
void begin_device_code() {
    std::lock_guard<std::mutex> guard(symbols_lock);
    if (!num_device_code_scopes++) point_symbols(true);
}
void end_device_code() {
    std::lock_guard<std::mutex> guard(symbols_lock);
    if (num_device_code_scopes && !--num_device_code_scopes) point_symbols(false);
}
// The outermost call from Python resets the state that a longjmp may have left, and points the variables of new modules
// to their addresses in host code.
void begin_call() {
    std::lock_guard<std::mutex> guard(symbols_lock);
    if (running_calls++) return;
    num_device_code_scopes = 0;
    point_symbols(false);
}
void *symbol_alloc(const void *init, size_t bytes, size_t itemsize, const char *name, char kind, void **slot) {
    DeviceLock device_lock;
    const auto make = [&](bool small_gap) {
        return memory.alloc(bytes, itemsize, false, kind == 'm', kind == 'c', name, small_gap, 0, true);
    };
    char *p = make(false), *host = p;
    const bool has_small_gap = !p;
    if (!p) p = make(true);
    if (!p) return p;
    memory.at(reinterpret_cast<uintptr_t>(p))->device = 0;
    memcpy(p, init, bytes);
    if (kind != 'm') host = memory.reserve_named_range(bytes, itemsize, name, has_small_gap);
    std::lock_guard<std::mutex> guard(symbols_lock);
    symbols.push_back({p, host ? host : p, bytes, slot, init});
    return p;
}
char *symbol_at(const void *address, size_t &bytes) {
    std::lock_guard<std::mutex> guard(symbols_lock);
    for (auto &s : symbols)
        if (is_variable(s, address)) return bytes = s.bytes, variable_of(s, current_device());
    if (!is_plain_variable(address)) return nullptr;
    bytes = size_t(1) << 40;                               // its size is unknown
    return const_cast<char *>(static_cast<const char *>(address));
}
char *symbol_address(const void *address) {
    size_t bytes = 0;
    char *const found = symbol_at(address, bytes);
    std::lock_guard<std::mutex> guard(symbols_lock);
    for (auto &s : symbols)
        if (is_variable(s, found)) pin_module(s.slot);
    if (found && !is_device(found)) pin_module(found);
    return found;
}
static bool is_slot_in(const LoadedImage &module, const Symbol &s) {
    return reinterpret_cast<uintptr_t>(s.slot) - module.base < module.end - module.base;
}
char *device_variable(const LoadedImage &module, const char *name, size_t &bytes) {
    DeviceLock device_lock;
    std::lock_guard<std::mutex> guard(symbols_lock);
    for (Symbol &s : symbols)
        if (is_slot_in(module, s) && !strcmp(memory.at(reinterpret_cast<uintptr_t>(s.device))->name, name))
            return bytes = s.bytes, variable_of(s, current_device());
    return nullptr;
}
std::vector<Symbol> take_device_variables(const LoadedImage &module) {
    std::lock_guard<std::mutex> guard(symbols_lock);
    const auto removed = std::stable_partition(
        symbols.begin(), symbols.end(), [&](const Symbol &s) { return !is_slot_in(module, s); });
    std::vector<Symbol> taken(removed, symbols.end());
    symbols.erase(removed, symbols.end());
    return taken;
}
void restore_device_variables(const std::vector<Symbol> &taken) {
    std::lock_guard<std::mutex> guard(symbols_lock);
    symbols.insert(symbols.end(), taken.begin(), taken.end());
}
void discard_device_variables(const std::vector<Symbol> &discarded) {
    for (auto &s : discarded) {
        if (Allocation *p = memory.at(reinterpret_cast<uintptr_t>(s.host))) p->is_host_alias = false;
        free_allocation(s.device);
        for (char *variable : s.peers)
            if (variable) free_allocation(variable);
    }
}

// Large copies of host arrays are read-only until the first write to them, so that an array to which nothing is written
// is not copied back. A signal handler reads the guards while host code may set others.
struct WriteGuard {
    std::atomic<uintptr_t> begin{0}, end{0};
    std::atomic<int> num_faults{0};                        // of several OS threads at once, perhaps
};
static WriteGuard write_guards[16];
bool begin_writes(uintptr_t address) {
    constexpr int max_faults = 4096;                       // then the fault has another cause
    for (WriteGuard &guard : write_guards) {
        const uintptr_t begin = guard.begin, end = guard.end;
        if (address < begin || address >= end || guard.num_faults++ >= max_faults) continue;
        return !mprotect(reinterpret_cast<void *>(begin), end - begin, PROT_READ | PROT_WRITE);
    }
    return false;
}
void end_write_guard(uintptr_t begin) {
    for (WriteGuard &guard : write_guards)
        if (guard.begin == begin) guard.begin = 0, guard.end = 0;
}
static WriteGuard *guard_writes([[maybe_unused]] const Allocation &allocation) {
#ifndef __wasm__                                           // it has no page protection
    const auto [from, to] = memory.span(allocation);
    for (WriteGuard &guard : write_guards)
        if (to - from >= Memory::min_large_bytes && !guard.end) {
            guard.num_faults = 0;
            guard.begin = reinterpret_cast<uintptr_t>(memory.base) + from, guard.end = guard.begin + (to - from);
            if (!mprotect(memory.base + from, to - from, PROT_READ)) return &guard;
            guard.begin = 0, guard.end = 0;
            return nullptr;
        }
#endif
    return nullptr;
}

// Copies a host array to the device. Overlapping ranges share one allocation, so that a write through one argument is
// visible through another; returns null if the range overlaps an earlier one that does not contain it.
void *copy_in_host_array(void *host, size_t bytes, size_t itemsize, bool is_uninitialized) {
    DeviceLock device_lock;
    if (!bytes) return host;
    char *h = static_cast<char *>(host);
    for (auto &a : memory.copied_host_arrays)
        if (h >= a.host && h + bytes <= a.host + a.bytes) return a.device + (h - a.host);
    for (auto &a : memory.copied_host_arrays)              // partial overlap
        if (a.host < h + bytes && h < a.host + a.bytes) return nullptr;
    // Keeps the misalignment of a view that begins inside an array.
    const size_t skew = reinterpret_cast<uintptr_t>(h) % 16;
    char *d = memory.alloc(bytes, itemsize, is_uninitialized, false, false, "", false, skew, false, true);
    if (!d) fail(Code::no_addresses, {});                  // a null pointer would be reported as a fault of the kernel
    memcpy(d, h, bytes);
    memory.copied_host_arrays.push_back({h, d, bytes, guard_writes(memory.allocations.back())});
    return d;
}
void copy_out_host_arrays() {
    DeviceLock device_lock;
    for (auto &a : memory.copied_host_arrays) {
        const Allocation *const m = memory.at(reinterpret_cast<uintptr_t>(a.device));
        const bool is_written = !a.guard || a.guard->num_faults || m->shared;
        if (m->is_live && is_written) memcpy(a.host, a.device, a.bytes);       // host code may have freed it
        free_allocation(a.device, true);
    }
    memory.copied_host_arrays.clear();
}

bool enable_checks(bool on) {
    const bool were_enabled = checks_enabled;
    checks_enabled = on;
    return were_enabled;
}
int set_error(int code) {
    if (code) error_code = code;
    return code;
}
bool is_launch_rejected() { return was_launch_rejected(); }
int last_error(bool clear) {
    if (sticky_error) return sticky_error;
    const int e = error_code;
    if (clear && e) {
        error_code = 0;
        memory.failed_allocations.clear();
        if (was_launch_rejected()) current_finding.kind = nothing;   // because the host has read the error
    }
    return e;
}
}

extern "C" {
gridstride::Finding *gridstride_finding() { return &gridstride::current_finding; }
bool gridstride_get_leak(int n, gridstride_leak *leak) {
    gridstride::DeviceLock device_lock;
    for (auto &p : gridstride::memory.allocations)
        if (p.is_live && !p.is_symbol && !p.belongs_to_graph && !p.is_symmetric && n-- == 0) {
            *leak = {p.hi - p.lo, p.line};
            return true;
        }
    return false;
}
void gridstride_set_options(const gridstride_options *new_options) {
    if (new_options->devices != gridstride::options.devices) gridstride::discard_devices();
    gridstride::options = *new_options;
}
void gridstride_get_written(const void *p, size_t n, unsigned char *out) {
    const size_t at = size_t(static_cast<const char *>(p) - gridstride::memory.base);
    const gridstride::Cells &c = gridstride::detector.cells;
    for (size_t i = at; i < at + n; i++) {
        const gridstride::Line &line = c.line_at(i);
        const bool is_in_run = (line.writes[0].mask | line.writes[1].mask) >> i / 4 % 16 & 1;
        const gridstride::Cell &word = c.word_cells[i / 4], &cell = word.has_byte_cells ? c.byte_cells[i] : word;
        *out++ = is_in_run || cell.write.time || cell.written || word.written;
    }
}
}
