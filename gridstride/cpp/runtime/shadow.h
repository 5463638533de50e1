// Shadow memory: per 4-byte word, a cell with the last write and two reads, each with its thread, time and location.
//
// Times count the events that can order two accesses: barriers, warp barriers, fences, launches (clock.cpp). Of two
// accesses of the same address, one happens before the other if the same thread makes both, or if an event in between
// makes the second thread wait for the first. This does not depend on the order in which the emulator runs threads, so
// a data race is found with any schedule. One write per cell is enough: an earlier write either happens before it, or
// has been reported as a race with it. Reads do not race with each other, so a write may race with any of several
// reads; a cell keeps two of them (`is_of_other_warp` in detector.h chooses).
#pragma once
#include <algorithm>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gridstride {

struct Access {
    uint32_t thread, time, location;   // 1024 * (1 + block) + rank; of the clock; a code offset or a line, and bits
};
// The bits of `location`, in the order of the constants: an atomic or volatile access; the other bits are a line, not a
// code offset; atomic in block scope only; with line_bit, an asynchronous access; an access by TMA or the tensor cores,
// through the async proxy of PTX; with atomic_bit, a volatile access; the read of an atomic
// read-modify-write; with atomic_bit and line_bit, an atomic access in device scope. No library is so large that an
// offset reaches these bits.
constexpr uint32_t atomic_bit = 1u << 31, line_bit = 1u << 30, narrow_bit = 1u << 29, async_bit = 1u << 28,
                   engine_bit = 1u << 27, volatile_bit = 1u << 26, modify_bit = 1u << 25, device_bit = 1u << 24;
constexpr uint32_t location_mask = modify_bit - 1;
constexpr uint32_t not_completed = ~0u;   // the time of an asynchronous access that no thread has waited for

struct Cell {
    Access write, read, second_read; // two reads, by different warps if possible
    uint16_t owner;                // shared memory: 1 + the index of the array
    uint8_t has_byte_cells;        // do its bytes have cells of their own?
    union {
        // `written`: the host has written this global memory; `read_by_mma`: the tensor cores have read this shared
        // memory since the last write: 1 by wgmma, 2 by tcgen05
        uint8_t written, read_by_mma;
    };
};
// A read of 16 bytes of shared memory by wgmma: the time of the request, its line, and its wgmma-group
struct MmaRead {
    uint32_t time, location, group;
};

// A read of 16 bytes of shared memory by tcgen05.mma or tcgen05.cp: its time and line, and the commit that follows it
struct TensorPipe;
struct OperandRead {
    TensorPipe *pipe;
    uint32_t commit, time, location;
};

// The cells of a range of addresses; the system allocates their pages at the first access.
struct Cells {
    Cell *word_cells = nullptr, *byte_cells = nullptr;
    uint32_t *tags = nullptr;      // per word: whether further reads change nothing in its cell (detector.h)
    size_t count = 0;
    bool reserve(size_t range) {
        if (word_cells) return true;
        count = range / 4;
        tags = static_cast<uint32_t *>(map(range));
        word_cells = static_cast<Cell *>(map(count * sizeof(Cell)));
        byte_cells = static_cast<Cell *>(map(4 * count * sizeof(Cell)));
        return word_cells && byte_cells && tags;
    }
    // Asks for huge pages for the cells of `n` bytes from offset `from`: the cells of a tile of a matrix are on more
    // pages than the CPU keeps translations of.
    void use_huge_pages(size_t from, size_t n) {
#ifdef MADV_HUGEPAGE
        const uintptr_t first = reinterpret_cast<uintptr_t>(word_cells + from / 4), page = uintptr_t(2) << 20;
        const uintptr_t begin = (first + page - 1) / page * page, end = (first + n / 4 * sizeof(Cell)) / page * page;
        if (begin < end) madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
#endif
    }
    void release() {
        if (word_cells)
            munmap(word_cells, count * sizeof(Cell)), munmap(byte_cells, 4 * count * sizeof(Cell)),
                munmap(tags, count * 4);
        word_cells = byte_cells = nullptr;
    }
    void forget_tags() { clear(reinterpret_cast<char *>(tags), count * 4, size_t(sysconf(_SC_PAGESIZE))); }
    void forget_tags(size_t from, size_t n) {          // of the words of a few bytes
        const size_t first = from / 4, end = std::min((from + n + 3) / 4, count);
        memset(tags + first, 0, (end - first) * 4);
    }
    static void *map(size_t n) {
        void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return p == MAP_FAILED ? nullptr : p;
    }
    void forget(size_t from, size_t n) {   // clears the cells of `n` bytes from offset `from`
        const size_t page = size_t(sysconf(_SC_PAGESIZE));
        clear(reinterpret_cast<char *>(word_cells + from / 4), (n + 3) / 4 * sizeof(Cell), page);
        clear(reinterpret_cast<char *>(byte_cells + from / 4 * 4), (n + 3) / 4 * 4 * sizeof(Cell), page);
        clear(reinterpret_cast<char *>(tags + from / 4), (n + 3) / 4 * 4, page);
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
