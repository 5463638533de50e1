// The detectors' shadow memory: for every 4-byte word which thread wrote it last, which read it, and when.
//
// Time counts what can order two accesses: barriers, warp barriers, fences, launches (clock.cpp). Of two accesses of
// one address one happens before the other if one thread made both, or if something in between made the second wait for
// the first. That does not depend on which thread happened to run first, so a data race is found whatever the schedule
// was. One writer per cell is enough: an earlier write either happens before it, or was reported as a race with it.
// Readers do not race with each other, so a cell has two of them (`is_of_other_warp`, detector.h, says which are kept).
#pragma once
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gridstride {

struct Access {
    uint32_t who, when, where;     // 1024 * (1 + block) + thread; the time; an offset in the code, or a line
};
// in `where`: an atomic access, or a volatile one; the rest is a line, not an offset in the code; atomic for one block
// only; with line_bit, an asynchronous access; one by the copy engine or the tensor cores, which see shared memory by a
// path of their own (PTX: the asynchronous proxy); with atomic_bit, a volatile one; the read of a change.
// No library is so long that an offset has one of them.
constexpr uint32_t atomic_bit = 1u << 31, line_bit = 1u << 30, narrow_bit = 1u << 29, async_bit = 1u << 28,
                   engine_bit = 1u << 27, volatile_bit = 1u << 26, modify_bit = 1u << 25;
constexpr uint32_t location_mask = modify_bit - 1;
constexpr uint32_t not_completed = ~0u;   // the time of an asynchronous access, until a thread has waited for it

struct Cell {
    Access write, read, read2;     // two readers, of different warps where there are such
    uint16_t owner;                // shared memory: 1 + the index of the array
    uint8_t split;                 // its bytes have cells of their own
    union {
        uint8_t written, in_product;       // global memory: by the host; shared: the tensor cores read it since
    };
};
// Sixteen bytes of shared memory that a product of a warpgroup reads: when it was requested, where, and in which group
struct ProductRead {
    uint32_t when, where, group;
};

// Cells for a range of addresses; pages that are not used cost nothing.
struct Cells {
    Cell *words = nullptr, *bytes = nullptr;
    size_t count = 0;
    bool reserve(size_t range) {
        if (words) return true;
        count = range / 4;
        words = static_cast<Cell *>(map(count * sizeof(Cell)));
        bytes = static_cast<Cell *>(map(4 * count * sizeof(Cell)));
        return words && bytes;
    }
    void release() {
        if (words) munmap(words, count * sizeof(Cell)), munmap(bytes, 4 * count * sizeof(Cell));
        words = bytes = nullptr;
    }
    static void *map(size_t n) {
        void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return p == MAP_FAILED ? nullptr : p;
    }
    void forget(size_t from, size_t n) {   // a range of addresses, from the start of this one's
        const size_t page = size_t(sysconf(_SC_PAGESIZE));
        clear(reinterpret_cast<char *>(words + from / 4), (n + 3) / 4 * sizeof(Cell), page);
        clear(reinterpret_cast<char *>(bytes + from / 4 * 4), (n + 3) / 4 * 4 * sizeof(Cell), page);
    }
    static void clear(char *p, size_t n, size_t page) {
        char *a = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(p) + page - 1) / page * page),
             *b = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(p + n) / page * page);
        if (b <= a) {
            memset(p, 0, n);
            return;
        }
        memset(p, 0, size_t(a - p));
        madvise(a, size_t(b - a), MADV_DONTNEED);
        memset(b, 0, size_t(p + n - b));
    }
};
}
