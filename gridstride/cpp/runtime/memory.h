// Device memory: one reserved range of addresses, apart from the host's. Every piece has pages of its own with unmapped
// ones around it, so that even unchecked code cannot harm the process that called it.
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

struct Piece {
    uintptr_t lo, hi; // the bytes that were asked for
    size_t itemsize;
    // fresh: what was never written must not be read; host: the CPU may touch it, too
    // held: before it is written there is something to do, because it is constant, or a variable that is saved first
    bool live, fresh, host, constant, symbol, held;
    char name[64];
    // of the parameter that begins first, and of another that begins inside it; 0: not known
    uintptr_t begin = 0, inner_begin = 0;
    char inner[64] = "";
    int line = 0; // of the call that allocated it; 0: not known
    bool of_graph = false; // stays when it is freed
    bool fetched = false;  // the host uses it by Thrust's pointers, which copy in the order of the default stream
    bool of_kernel = false; // a kernel has allocated it
    uint32_t usable_in = 0; // the number of the launch that may use it: it was given it, or has its address
    uintptr_t known_from = 0;  // where its address was found last
    bool host_name = false; // no memory: what the name of a variable of the device means in host code
    bool is_near(uintptr_t a) const { return a - lo + (1 << 20) < hi - lo + (2 << 20); }
    const char *shown_name() const { return name[0] ? name : "memory"; }
    long long index_of(uintptr_t a) const {
        const long long item = static_cast<long long>(itemsize),
                        d = static_cast<long long>(a) - static_cast<long long>(begin ? begin : lo);
        return d < 0 ? -((-d + item - 1) / item) : d / item;
    }
    void called(const char *parameter, uintptr_t at) {
        if (!begin) inner[0] = 0;
        if (begin && at > begin) {
            strncpy(inner, parameter, sizeof inner - 1);
            inner_begin = at;
            return;
        }
        if (begin && at < begin) {
            memcpy(inner, name, sizeof inner);
            inner_begin = begin;
        }
        memset(name, 0, sizeof name);
        strncpy(name, parameter, sizeof name - 1);
        begin = at;
    }
};

struct Adopted {
    char *host;
    char *device;
    size_t bytes;
};

#ifndef GRIDSTRIDE_ADDRESSES
#define GRIDSTRIDE_ADDRESSES (size_t(16) << 30)   // bytes; fewer under qemu, which has an entry per page
#endif
struct Memory {
    char *base = nullptr;
    size_t size = 0, page = 0, bytes = 0;
    int page_bits = 0; // a page has 2^page_bits bytes: each access is looked up by a shift instead of a division
    // The hole that pieces are made in, as offsets: from `used` on, and symbols, which stay, before `end`. Another one
    // is taken where `used` comes to `middle`, so that addresses return seldom, and are not all touched.
    size_t used = 0, middle = 0, end = 0;
    std::vector<std::pair<size_t, size_t>> holes; // the other ones as they were last found: how wide, from where on
    std::vector<std::pair<size_t, int>> failed; // allocations whose error the host has not read: bytes, line
    size_t most = 0; // pieces, until those that were freed are forgotten
    std::vector<Piece> pieces;
    uint32_t *piece_of = nullptr; // per page: 1 + the index of the piece there
    std::vector<Adopted> adopted;

    // Nothing is mapped around it: an unsigned index below zero is 2^32 - 1, and leads up to 64 GB away.
    static constexpr size_t around = 6;
    bool surrounds(uintptr_t a) const { return a - reinterpret_cast<uintptr_t>(base) + size < around * size && base; }
    bool reserve() {
        if (base) return true;
        page = size_t(sysconf(_SC_PAGESIZE)), page_bits = __builtin_ctzl(page);
        for (size = GRIDSTRIDE_ADDRESSES; size >= size_t(1) << 28; size /= 2) {
            void *p = mmap(nullptr, around * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (p == MAP_FAILED) continue;
            void *q = mmap(
                nullptr, size / page * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (q != MAP_FAILED) {
                base = static_cast<char *>(p) + size, piece_of = static_cast<uint32_t *>(q);
                return true;
            }
            munmap(p, around * size);
        }
        return false;
    }
    bool holds(uintptr_t a) const { return a - reinterpret_cast<uintptr_t>(base) < size && base; }
    size_t pages(size_t n) const { return (n + page - 1) / page * page; }

    // Right-aligned in its pages: the first byte past the end is soon an unmapped one. The gap grows with the piece.
    // `close`: one page will do, because there may be thousands of such pieces. `skew`: bytes past a multiple of 256
    char *alloc(
        size_t n, size_t itemsize, bool fresh, bool host, bool constant, const char *name, bool close = false,
        size_t skew = 0, bool symbol = false) {
        if (!reserve()) return nullptr;
        const size_t gap = pages(close                    ? page
                                 : n < (size_t(1) << 20)  ? size_t(1) << 20
                                 : n < (size_t(64) << 20) ? n
                                                          : size_t(64) << 20),
                     whole = pages(std::max(n, size_t(1)) + skew), needed = gap + whole + gap;
        if ((used >= middle || end - used < needed || pieces.size() >= most) && !next_hole(needed)) return nullptr;
        const size_t at = symbol ? end - gap - whole : used + gap;
        char *start = base + at;
        if (mprotect(start, whole, PROT_READ | PROT_WRITE)) return nullptr;
#ifdef MADV_HUGEPAGE
        if (whole >= size_t(4) << 20) madvise(start, whole, MADV_HUGEPAGE);    // else each 4 KB costs a fault
#endif
        if (symbol) end = at;
        else used = at + whole;
        char *p = start + (whole - std::max(n, size_t(1)) - skew) / 256 * 256 + skew;
        const uintptr_t lo = reinterpret_cast<uintptr_t>(p);
        pieces.push_back({lo, lo + n, itemsize, true, fresh, host, constant, symbol, constant || symbol, ""});
        strncpy(pieces.back().name, name, sizeof pieces.back().name - 1);
        number(pieces.back(), uint32_t(pieces.size()));
        bytes += n;
        return p;
    }
    // Addresses of that many bytes that no code can use, which are known by `name`
    char *alloc_name(size_t n, size_t itemsize, const char *name, bool close) {
        char *const p = alloc(n, itemsize, false, false, false, name, close, 0, true);
        if (!p) return nullptr;
        free(pieces.back());
        pieces.back().host_name = true;
        return p;
    }
    // Whose pages they are: 1 + the number of the piece, or 0
    void number(const Piece &p, uint32_t n) {
        const auto [from, to] = span(p);
        for (size_t i = from / page; i < to / page; i++) piece_of[i] = n;
    }
    std::pair<size_t, size_t> span(const Piece &p) const { // of its pages
        const size_t from = p.lo - reinterpret_cast<uintptr_t>(base), to = p.hi - reinterpret_cast<uintptr_t>(base);
        return {from / page * page, pages(std::max(to, from + 1))};
    }
    // Go on in the widest hole. All are looked for only when none of those that are known will do: where 5,000 pieces
    // live, far apart, each one more would take half a millisecond else.
    bool next_hole(size_t needed) {
        const auto fits = [&] { return !holes.empty() && holes.back().first >= needed; };
        if (pieces.size() >= most || !fits()) recycle();
        if (!fits()) return false;
        const auto [width, from] = holes.back();
        holes.pop_back();
        used = from, middle = from + width / 2, end = from + width;
        return true;
    }
    // What was freed is forgotten, and the holes are those between what lives.
    void recycle() {
        std::vector<std::pair<size_t, size_t>> taken = {{size, size}};
        size_t n = 0;
        for (const Piece &p : pieces) {
            if (!p.live && !p.host_name) {
                number(p, 0);
                continue;
            }
            taken.push_back(span(p));
            if (&p != &pieces[n++]) number(p, uint32_t(n)), pieces[n - 1] = p;
        }
        pieces.resize(n);
        most = std::max(size_t(100000), 2 * n);
        std::sort(taken.begin(), taken.end());
        holes.clear();
        size_t from = used = middle = end = 0;
        for (const auto &t : taken) {
            holes.push_back({t.first - from, from});
            from = t.second;
        }
        std::sort(holes.begin(), holes.end());
    }
    inline __attribute__((always_inline)) Piece *at(uintptr_t a) { // the piece whose pages include `a`
        if (!holds(a)) return nullptr;
        const uint32_t i = piece_of[(a - reinterpret_cast<uintptr_t>(base)) >> page_bits];
        return i ? &pieces[i - 1] : nullptr;
    }
    Piece *nearest(uintptr_t a) {
        return nearest(a, [](const Piece &) { return true; });
    }
    template <class F> Piece *nearest(uintptr_t a, F counts) {
        Piece *best = nullptr;
        uintptr_t least = ~uintptr_t(0);
        for (auto &p : pieces) {
            if (p.host_name || !counts(p)) continue;
            const uintptr_t d = a < p.lo ? p.lo - a : a >= p.hi ? a - p.hi : 0;
            if (d < least) least = d, best = &p;
        }
        return least < size_t(64) << 20 ? best : nullptr;
    }
    // The failed allocation in which `a` would be, counted from the null pointer that it gave
    const std::pair<size_t, int> *failed_at(uintptr_t a) const {
        for (auto f = failed.rbegin(); f != failed.rend(); ++f)
            if (a < std::min(std::max(f->first, size_t(4096)), size_t(1) << 40)) return &*f;
        return nullptr;
    }
    // the piece in which `a` would be if an index had not begun again at 2^32 - 1
    template <class F> Piece *wrapped(uintptr_t a, F counts) {
        for (auto &p : pieces)
            if (p.live && counts(p) && a - (uint64_t(p.itemsize) << 32) - p.lo + page < p.hi - p.lo + page) return &p;
        return nullptr;
    }
    template <class F> Piece *overflowed(uintptr_t a, F counts) {   // the same of an int, after 2^31 - 1
        for (auto &p : pieces)
            if (p.live && counts(p) && a + (uint64_t(p.itemsize) << 32) - p.lo < p.hi - p.lo) return &p;
        return nullptr;
    }
    void free(Piece &p) {
        const auto [from, to] = span(p);
        p.live = false, p.usable_in = 0;
        bytes -= p.hi - p.lo;
        madvise(base + from, to - from, MADV_DONTNEED);
        mprotect(base + from, to - from, PROT_NONE);
    }
};
extern Memory memory;
extern bool any_registered;            // is any memory of the host's own page-locked?
void registered_access(uintptr_t a, size_t bytes, bool write, bool strong, void *pc);      // by the host, perhaps of it
}
