// The arena of device memory: one reserved range of addresses. Each allocation has its own pages between unmapped
// guard pages, so that an access out of bounds faults even in unchecked code, and cannot corrupt the host's memory.
//
// `alloc` takes addresses from the start of the current hole, and maps its pages; `free` unmaps them, but the
// addresses are not reused before the hole is used up, so that a use after free is detected. When no hole fits,
// `find_holes` forgets freed allocations. `allocation_of_page` finds the allocation of an address by one shift
// and one load.
#pragma once
#include <algorithm>
#include <atomic>
#include <string.h>
#include <utility>
#include <vector>
#include <sys/mman.h>
#include <unistd.h>
#include "runtime.h"

namespace gridstride {

int current_device();                  // of the launch of this OS thread, or set by cudaSetDevice

struct Allocation {
    uintptr_t lo, hi; // the requested bytes
    size_t itemsize;
    // is_uninitialized: whether any element may be; is_host: host code may access it, too; checks_writes: a write by a
    // kernel is an error (constant memory), or must first save the variable
    bool is_live, is_uninitialized, is_host, is_constant, is_symbol, checks_writes;
    char name[64];
    // addresses that kernel parameters point to: the lowest, and another one; 0: unknown
    uintptr_t begin = 0, inner_begin = 0;
    char inner_name[64] = "";
    int line = 0; // the line of the call that allocated it; 0: unknown
    bool belongs_to_graph = false; // whether it belongs to a graph, so that `free` keeps it
    // whether host code accesses it through Thrust's pointers, which synchronize with the default stream
    bool is_accessed_by_thrust = false;
    bool is_from_kernel = false; // whether a kernel has allocated it
    uint32_t usable_in = 0; // the ID of the last launch that may access it, through an argument or a stored address
    uintptr_t address_found_at = 0; // the location at which the last search found its address
    bool has_huge_shadow = false; // whether huge pages were requested for its shadow memory
    bool is_host_alias = false; // whether it is an unmapped range that stands for a device variable in host code
    int device = 0; // the device that owns it
    bool is_symmetric = false; // whether all devices may access it
    uint64_t pool = 0; // the ID of a pool that other processes may import; 0: none
    struct SharedMemory *shared = nullptr; // if other processes may have mapped it (ranks.h)
    bool is_near(uintptr_t a) const { return a - lo + (1 << 20) < hi - lo + (2 << 20); }
    const char *name_or_default() const { return name[0] ? name : "memory"; }
    long long index_of(uintptr_t a) const {
        const long long item = static_cast<long long>(itemsize),
                        distance = static_cast<long long>(a) - static_cast<long long>(begin ? begin : lo);
        return distance < 0 ? -((-distance + item - 1) / item) : distance / item;
    }
    void add_name(const char *parameter, uintptr_t at) {
        if (!begin) inner_name[0] = 0;
        if (begin && at > begin) {
            strncpy(inner_name, parameter, sizeof inner_name - 1);
            inner_begin = at;
            return;
        }
        if (begin && at < begin) {
            memcpy(inner_name, name, sizeof inner_name);
            inner_begin = begin;
        }
        memset(name, 0, sizeof name);
        strncpy(name, parameter, sizeof name - 1);
        begin = at;
    }
};

void release_shared(Allocation &);             // unmaps memory that other processes may have mapped
void end_write_guard(uintptr_t begin);         // of the pages from this address, if there is one

struct CopiedHostArray {
    char *host;
    char *device;
    size_t bytes;
    struct WriteGuard *guard; // null: no guard
};

#ifndef GRIDSTRIDE_ADDRESSES
#define GRIDSTRIDE_ADDRESSES (size_t(16) << 30)   // bytes; less under qemu, which has a table entry per page
#endif
#ifdef __wasm__
constexpr size_t min_addresses = size_t(16) << 20, max_gap = size_t(64) << 10;     // the address space has 4 GB
#else
constexpr size_t min_addresses = size_t(1) << 28, max_gap = size_t(64) << 20;
#endif
struct Memory {
    char *base = nullptr;
    size_t size = 0, page = 0, bytes = 0;
    int page_bits = 0; // a page has 2^page_bits bytes, so that an access is looked up by a shift instead of a division
    // The current hole, as offsets: `used` to `end`. Allocations are placed from its start; device variables, which are
    // never freed, from its end. After `middle` another hole is chosen, so that addresses are rarely reused.
    size_t used = 0, middle = 0, end = 0;
    std::vector<std::pair<size_t, size_t>> holes; // the other holes that `find_holes` has found last: (width, start)
    std::vector<std::pair<size_t, int>> failed_allocations; // those whose error the host has not read: (bytes, line)
    size_t max_allocations = 0; // the number of allocations at which `find_holes` runs
    std::vector<Allocation> allocations;
    uint32_t *allocation_of_page = nullptr; // per page: 1 + the index of its allocation, or 0
    std::vector<CopiedHostArray> copied_host_arrays;
    // Pages of freed copies of host arrays: (offset, bytes). They are moved to the next copy of that size, because new
    // pages, which the system clears, take as long as the copy.
    std::vector<std::pair<size_t, size_t>> idle_pages;
    static constexpr size_t min_large_bytes = size_t(4) << 20;
#ifdef MREMAP_DONTUNMAP
    // Huge pages are moved as a whole if both addresses are aligned.
    static constexpr size_t max_idle_bytes = size_t(256) << 20, large_alignment = size_t(2) << 20;
#else
    static constexpr size_t max_idle_bytes = 0, large_alignment = 1;
#endif

    // The range is surrounded by reserved addresses, because an unsigned index below zero wraps around to 2^32 - 1, up
    // to 64 GB away.
    static constexpr size_t reserved_factor = 6;
    bool surrounds(uintptr_t a) const {
        return a - reinterpret_cast<uintptr_t>(base) + size < reserved_factor * size && base;
    }
    bool reserve() {
        if (base) return true;
        page = size_t(sysconf(_SC_PAGESIZE)), page_bits = __builtin_ctzl(page);
        for (size = GRIDSTRIDE_ADDRESSES; size >= min_addresses; size /= 2) {
            void *p = mmap(
                nullptr, reserved_factor * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (p == MAP_FAILED) continue;
            void *q = mmap(
                nullptr, size / page * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (q != MAP_FAILED) {
                base = static_cast<char *>(p) + size, allocation_of_page = static_cast<uint32_t *>(q);
                return true;
            }
            munmap(p, reserved_factor * size);
        }
        return false;
    }
    bool holds(uintptr_t a) const { return a - reinterpret_cast<uintptr_t>(base) < size && base; }
    size_t pages(size_t n) const { return (n + page - 1) / page * page; }

    // Allocates n bytes at the end of their pages, so that an access just past the end faults. The unmapped gap grows
    // with the size; with `has_small_gap` it is one page, for thousands of small allocations. `skew`: the address
    // modulo 256. `is_overwritten`: whether the caller writes all bytes, so that their pages need not be clear.
    char *alloc(size_t n, size_t itemsize, bool is_uninitialized, bool is_host, bool is_constant, const char *name,
        bool has_small_gap = false, size_t skew = 0, bool is_symbol = false, bool is_overwritten = false) {
        if (!reserve()) return nullptr;
        const size_t gap = pages(has_small_gap ? page : std::min(std::max(n, size_t(1) << 20), max_gap)),
                     mapped_bytes = pages(std::max(n, size_t(1)) + skew),
                     alignment = mapped_bytes < min_large_bytes || is_symbol ? page : std::max(page, large_alignment),
                     needed = gap + mapped_bytes + gap + alignment - page;
        const bool full = used >= middle || end - used < needed || allocations.size() >= max_allocations;
        if (full && !next_hole(needed)) return nullptr;
        const uintptr_t first = reinterpret_cast<uintptr_t>(base) + used + gap;
        const size_t at =
            is_symbol ? end - gap - mapped_bytes : used + gap + (alignment - first % alignment) % alignment;
        char *start = base + at;
        if (is_overwritten) move_idle_pages(start, mapped_bytes);
        if (mprotect(start, mapped_bytes, PROT_READ | PROT_WRITE)) return nullptr;
#ifdef MADV_HUGEPAGE
        // avoids a page fault per 4 KB
        if (mapped_bytes >= min_large_bytes) madvise(start, mapped_bytes, MADV_HUGEPAGE);
#endif
        if (is_symbol) end = at;
        else used = at + mapped_bytes;
        char *p = start + (mapped_bytes - std::max(n, size_t(1)) - skew) / 256 * 256 + skew;
        const uintptr_t lo = reinterpret_cast<uintptr_t>(p);
        allocations.push_back(
            {lo, lo + n, itemsize, true, is_uninitialized, is_host, is_constant, is_symbol, is_constant || is_symbol,
             ""});
        strncpy(allocations.back().name, name, sizeof allocations.back().name - 1);
        allocations.back().device = current_device();
        set_pages(allocations.back(), uint32_t(allocations.size()));
        bytes += n;
        return p;
    }
    // Reserves `n` unmapped bytes that findings call `name`.
    char *reserve_named_range(size_t n, size_t itemsize, const char *name, bool has_small_gap) {
        char *const p = alloc(n, itemsize, false, false, false, name, has_small_gap, 0, true);
        if (!p) return nullptr;
        free(allocations.back());
        allocations.back().is_host_alias = true;
        return p;
    }
    // Maps the pages of `p` to an allocation: 1 + its index, or 0 for none.
    void set_pages(const Allocation &p, uint32_t entry) {
        const auto [from, to] = span(p);
        for (size_t i = from / page; i < to / page; i++) allocation_of_page[i] = entry;
    }
    std::pair<size_t, size_t> span(const Allocation &p) const { // the offsets of its pages
        const size_t from = p.lo - reinterpret_cast<uintptr_t>(base), to = p.hi - reinterpret_cast<uintptr_t>(base);
        return {from / page * page, pages(std::max(to, from + 1))};
    }
    // Chooses the widest known hole. Searches for holes only if it is too small, because that takes half a millisecond
    // with 5,000 allocations.
    bool next_hole(size_t needed) {
        const auto fits = [&] { return !holes.empty() && holes.back().first >= needed; };
        if (allocations.size() >= max_allocations || !fits()) find_holes();
        if (!fits()) return false;
        const auto [width, from] = holes.back();
        holes.pop_back();
        used = from, middle = from + width / 2, end = from + width;
        return true;
    }
    // Removes freed allocations, and finds the holes between the others.
    void find_holes() {
        discard_idle_pages(0);
        std::vector<std::pair<size_t, size_t>> occupied = {{size, size}};
        size_t n = 0;
        for (const Allocation &p : allocations) {
            if (!p.is_live && !p.is_host_alias) {
                set_pages(p, 0);
                continue;
            }
            occupied.push_back(span(p));
            if (&p != &allocations[n++]) set_pages(p, uint32_t(n)), allocations[n - 1] = p;
        }
        allocations.resize(n);
        max_allocations = std::max(size_t(100000), 2 * n);
        std::sort(occupied.begin(), occupied.end());
        holes.clear();
        size_t from = used = middle = end = 0;
        for (const auto &[begin, end_of_range] : occupied) {
            holes.push_back({begin - from, from});
            from = end_of_range;
        }
        std::sort(holes.begin(), holes.end());
    }
    inline __attribute__((always_inline)) Allocation *at(uintptr_t a) { // the allocation with this page
        if (!holds(a)) return nullptr;
        const uint32_t i = allocation_of_page[(a - reinterpret_cast<uintptr_t>(base)) >> page_bits];
        return i ? &allocations[i - 1] : nullptr;
    }
    Allocation *nearest(uintptr_t a) {
        return nearest(a, [](const Allocation &) { return true; });
    }
    template <class F> Allocation *nearest(uintptr_t a, F is_candidate) {
        Allocation *best = nullptr;
        uintptr_t min_distance = ~uintptr_t(0);
        for (auto &p : allocations) {
            if (p.is_host_alias || !is_candidate(p)) continue;
            const uintptr_t distance = a < p.lo ? p.lo - a : a >= p.hi ? a - p.hi : 0;
            if (distance < min_distance) min_distance = distance, best = &p;
        }
        return min_distance < size_t(64) << 20 ? best : nullptr;
    }
    // Returns the failed allocation that would contain `a` as an offset from its null pointer.
    const std::pair<size_t, int> *failed_at(uintptr_t a) const {
        for (auto f = failed_allocations.rbegin(); f != failed_allocations.rend(); ++f)
            if (a < std::min(std::max(f->first, size_t(4096)), size_t(1) << 40)) return &*f;
        return nullptr;
    }
    // Returns the allocation that would contain `a` if an unsigned index had not wrapped around at 2^32.
    template <class F> Allocation *at_wrapped_index(uintptr_t a, F is_candidate) {
        for (auto &p : allocations)
            if (p.is_live && is_candidate(p) && a - (uint64_t(p.itemsize) << 32) - p.lo + page < p.hi - p.lo + page)
                return &p;
        return nullptr;
    }
    // Returns the allocation that would contain `a` if a 32-bit signed index had not overflowed.
    template <class F> Allocation *at_overflowed_index(uintptr_t a, F is_candidate) {
        for (auto &p : allocations)
            if (p.is_live && is_candidate(p) && a + (uint64_t(p.itemsize) << 32) - p.lo < p.hi - p.lo) return &p;
        return nullptr;
    }
    void free(Allocation &p, bool keeps_pages = false) {
        const auto [from, to] = span(p);
        p.is_live = false, p.usable_in = 0;
        bytes -= p.hi - p.lo;
        if (p.shared) return release_shared(p);
        keeps_pages = keeps_pages && to - from >= min_large_bytes && to - from <= max_idle_bytes;
        end_write_guard(reinterpret_cast<uintptr_t>(base) + from);
#ifdef MADV_FREE
        // the system may take idle pages when memory is short
        madvise(base + from, to - from, keeps_pages ? MADV_FREE : MADV_DONTNEED);
#else
        madvise(base + from, to - from, MADV_DONTNEED);
#endif
        mprotect(base + from, to - from, PROT_NONE);
        if (keeps_pages) idle_pages.emplace_back(from, to - from), discard_idle_pages(max_idle_bytes);
    }
    // Discards the oldest idle pages until at most `limit` bytes are left.
    void discard_idle_pages(size_t limit) {
        size_t total = 0;
        for (const auto &[from, n] : idle_pages) total += n;
        auto kept = idle_pages.begin();
        for (; total > limit; total -= kept->second, ++kept) madvise(base + kept->first, kept->second, MADV_DONTNEED);
        idle_pages.erase(idle_pages.begin(), kept);
    }
    // Moves idle pages to `start`, if there are as many; their contents remain.
    void move_idle_pages([[maybe_unused]] char *start, [[maybe_unused]] size_t n) {
#ifdef MREMAP_DONTUNMAP
        const auto found = std::find_if(
            idle_pages.begin(), idle_pages.end(), [n](const auto &pages) { return pages.second == n; });
        if (found == idle_pages.end()) return;
        char *const from = base + found->first;
        idle_pages.erase(found);
        if (mremap(from, n, n, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, start) != MAP_FAILED) return;
        madvise(from, n, MADV_DONTNEED);
        mmap(start, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
#endif
    }
};
extern Memory memory;
// Called at a fault: makes the copy of a host array at this address writable, if the fault is its first write; returns
// whether the access can be repeated.
bool begin_writes(uintptr_t address);
extern bool has_registered_memory;     // whether any host memory is page-locked
// Checks a host access, which may be to page-locked memory.
void check_registered_access(uintptr_t a, size_t bytes, bool write, bool is_atomic, void *pc);
}
