// Shadow memory: per 4-byte word, a cell with the last write and two reads, each with its thread, time and location.
//
// Times count the events that can order two accesses: barriers, warp barriers, fences, launches (clock.cpp). Of two
// accesses to the same address, one happens before the other if the same thread makes both, or if an event in between
// makes the second thread wait for the first. This does not depend on the order in which the emulator runs threads, so
// a data race is found under any schedule. One write per cell is enough: an earlier write either happens before the
// last one, or has been reported as a race with it. Reads do not race with each other, so a write may race with any of
// several reads; a cell keeps two of them (`is_of_other_warp` in detector.h chooses).
#pragma once
#include <algorithm>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gridstride {

struct Access {
    uint32_t thread;                   // 1024 * (1 + block) + rank
    uint32_t time;                     // of the logical clock
    uint32_t location;                 // a code offset or a line, and the bits below
};
// The bits of `location`. No library is so large that a code offset reaches them.
constexpr uint32_t line_bit = 1u << 31;        // the other bits are a line, not a code offset
constexpr uint32_t atomic_bit = 1u << 30;      // an atomic or volatile access
constexpr uint32_t block_scope_bit = 1u << 29; // an atomic access with block scope
constexpr uint32_t async_bit = 1u << 28;       // with line_bit: an asynchronous access
constexpr uint32_t async_proxy_bit = 1u << 27; // an access by TMA or the tensor cores, through the async proxy
constexpr uint32_t volatile_bit = 1u << 26;    // with atomic_bit: a volatile access
constexpr uint32_t modify_bit = 1u << 25;      // the read of an atomic read-modify-write
constexpr uint32_t device_bit = 1u << 24;      // with atomic_bit and line_bit: an atomic access with device scope
constexpr uint32_t location_mask = modify_bit - 1;
constexpr uint32_t not_completed = ~0u;   // the time of an asynchronous access that no thread has waited for

struct Cell {
    Access write, read, second_read; // two reads, by different warps if possible
    uint16_t owner;                // shared memory: 1 + the index of the array
    uint8_t has_byte_cells;        // whether each byte has a separate cell
    union {
        uint8_t written;           // global memory: whether the host has written it
        // shared memory: tensor cores that have read it since the last write (1 wgmma, 2 tcgen05)
        uint8_t read_by_mma;
    };
};
// A read of 16 bytes of shared memory by wgmma: the time of the request, its line, and its wgmma-group
struct MmaRead {
    uint32_t time, location, group;
};

// A read of 16 bytes of shared memory by tcgen05.mma or tcgen05.cp: the time and line of the instruction, and the
// commit that follows it
struct TensorPipe;
struct OperandRead {
    TensorPipe *pipe;
    uint32_t commit, time, location;
};

// The accesses to a line (16 words of global memory) in compact form: coalesced accesses of a warp are one run. While a
// line is compact, its cells contain only what has been flushed to them. An access that fits no run expands the
// line: from then on its cells record the accesses of each word.
struct Run {
    static constexpr uint32_t location_bits = 25;
    // Bits of `key`, above the location and the item size: whether all words of the line are accessible, and whether
    // all are initialized; two flags of the line. The highest bit is the location's `line_bit`.
    static constexpr uint32_t inside_bit = 1u << 27, initialized_bit = 1u << 28, expanded_bit = 1u << 29,
                              flushed_bit = 1u << 30, line_flags = expanded_bit | flushed_bit;
    uint32_t thread, time;                 // thread: of item 0, whether or not the run contains it
    uint32_t key;
    int16_t stride;                        // between the threads of neighbouring items
    uint16_t mask;                         // the words that it contains; 0: the run is unused
    static constexpr uint32_t key_of(uint32_t location, uint32_t log_words) {
        return location | log_words << location_bits;
    }
    uint32_t log_words() const { return key >> location_bits & 3; }
    uint32_t thread_of(unsigned item) const { return thread + uint32_t(stride * int(item)); }
    Access access_of(unsigned word) const {
        return {thread_of(word >> log_words()), time, key & (line_bit | ((1u << location_bits) - 1))};
    }
    void begin(const Access &a, unsigned item, uint32_t words, uint32_t new_key) {
        thread = a.thread - item, time = a.time, key = (key & line_flags) | new_key, stride = 1, mask = uint16_t(words);
    }
    void assign(const Run &run) {
        thread = run.thread, time = run.time, key = (key & line_flags) | (run.key & ~line_flags);
        stride = run.stride, mask = run.mask;
    }
    void drop(uint32_t words) { mask = uint16_t(mask & ~words); }
    // Returns whether an access continues the run. The second item determines the stride.
    bool is_continued(const Access &a, unsigned item, uint32_t log) {
        constexpr uint32_t compared = line_bit | (inside_bit - 1);
        return mask && time == a.time && (key & compared) == key_of(a.location, log) &&
               (thread_of(item) == a.thread || find_stride(a.thread, item));
    }
    bool find_stride(uint32_t item_thread, unsigned item) {
        const unsigned first = unsigned(__builtin_ctz(mask)) >> log_words(), words = (1u << (1u << log_words())) - 1;
        const int items = int(item) - int(first), threads = int(item_thread - thread_of(first));
        if (mask != words << (first << log_words()) || !items || threads % items || abs(threads / items) > INT16_MAX)
            return false;
        thread = thread_of(first), stride = int16_t(threads / items), thread -= uint32_t(stride * int(first));
        return true;
    }
};
constexpr unsigned line_bytes = 64;
// Each word is in at most one of the two runs of writes, and of reads. The first run is the newer one.
struct Line {
    Run writes[2], reads[2];
    uint32_t &flags() { return reads[1].key; }
    bool has(uint32_t flag) const { return reads[1].key & flag; }
    bool is_before(uint32_t time) const {  // whether it records only accesses before `time`
        const auto is_old = [time](const Run &run) { return !run.mask || run.time < time; };
        return !has(Run::line_flags) && is_old(writes[0]) && is_old(writes[1]) && is_old(reads[0]) && is_old(reads[1]);
    }
};

// The cells of a range of addresses; the system allocates their pages at the first access.
struct Cells {
    Cell *word_cells = nullptr, *byte_cells = nullptr;
    uint32_t *tags = nullptr;      // per word: whether further reads change nothing in its cell (fast_access.h)
    uint32_t *line_tags = nullptr; // per line: the tag of its words if all have the same tag
    Line *lines = nullptr;
    size_t count = 0;
    bool reserve(size_t range) {
        if (word_cells) return true;
        count = range / 4;
        lines = static_cast<Line *>(map(range / line_bytes * sizeof(Line)));
        tags = static_cast<uint32_t *>(map(range));
        line_tags = static_cast<uint32_t *>(map(range / line_bytes * 4));
        word_cells = static_cast<Cell *>(map(count * sizeof(Cell)));
        byte_cells = static_cast<Cell *>(map(4 * count * sizeof(Cell)));
        return word_cells && byte_cells && tags && line_tags && lines;
    }
    // Requests huge pages for the cells of `n` bytes from offset `from`: the cells of a matrix tile are on more pages
    // than the TLB has entries.
    void use_huge_cells(size_t from, size_t n) { use_huge_pages(word_cells + from / 4, n / 4 * sizeof(Cell)); }
    // Requests huge pages for lines, which take one page fault per 4 KB otherwise.
    void use_huge_lines(size_t from, size_t n) { use_huge_pages(lines + from / line_bytes, n); }
    static void use_huge_pages([[maybe_unused]] void *first, [[maybe_unused]] size_t n) {
#ifdef MADV_HUGEPAGE
        const uintptr_t a = reinterpret_cast<uintptr_t>(first), page = uintptr_t(2) << 20;
        const uintptr_t begin = (a + page - 1) / page * page, end = (a + n) / page * page;
        if (begin < end) madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
#endif
    }
    void release() {
        if (word_cells)
            munmap(word_cells, count * sizeof(Cell)), munmap(byte_cells, 4 * count * sizeof(Cell)),
                munmap(tags, count * 4), munmap(line_tags, count * 4 / line_bytes * 4),
                munmap(lines, count * 4 / line_bytes * sizeof(Line));
        word_cells = byte_cells = nullptr;
    }
    void discard_tags() {
        const size_t page = size_t(sysconf(_SC_PAGESIZE));
        clear(reinterpret_cast<char *>(tags), count * 4, page);
        clear(reinterpret_cast<char *>(line_tags), count * 4 / line_bytes * 4, page);
    }
    void discard_tags(size_t from, size_t n) {          // clears the tags of a few bytes
        const size_t first = from / 4, end = std::min((from + n + 3) / 4, count);
        if (end - first == 1) tags[first] = 0;          // without a call of memset
        else memset(tags + first, 0, (end - first) * 4);
        for (size_t line = first * 4 / line_bytes; line * line_bytes < end * 4; line++) line_tags[line] = 0;
    }
    void set_tag(size_t word, uint32_t tag) {
        constexpr size_t words = line_bytes / 4;
        tags[word] = tag;
        const uint32_t *const line = tags + word / words * words;
        if (std::count(line, line + words, tag) == words) line_tags[word / words] = tag;
    }
    static void *map(size_t n) {
        void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return p == MAP_FAILED ? nullptr : p;
    }
    void discard(size_t from, size_t n) {   // clears the cells of `n` bytes from offset `from`
        const size_t page = size_t(sysconf(_SC_PAGESIZE));
        clear(reinterpret_cast<char *>(word_cells + from / 4), (n + 3) / 4 * sizeof(Cell), page);
        clear(reinterpret_cast<char *>(byte_cells + from / 4 * 4), (n + 3) / 4 * 4 * sizeof(Cell), page);
        clear(reinterpret_cast<char *>(tags + from / 4), (n + 3) / 4 * 4, page);
        clear(reinterpret_cast<char *>(line_tags + from / line_bytes), (n + line_bytes - 1) / line_bytes * 4, page);
        clear(reinterpret_cast<char *>(lines + from / line_bytes), n / line_bytes * sizeof(Line), page);
    }
    // Lines are permuted within a page, because accesses with a power-of-two stride would otherwise use few cache sets.
    inline __attribute__((always_inline)) Line &line_at(size_t offset) const {
        const size_t i = offset / line_bytes;
        return lines[i ^ (i >> 7 & 63) ^ (i >> 13 & 63)];
    }
    // Expands the lines of `n` bytes, whose cells are then complete.
    void expand(size_t from, size_t n) {
        for (size_t i = from / line_bytes; i <= (from + n - 1) / line_bytes; i++)
            if (!line_at(i * line_bytes).has(Run::expanded_bit)) expand_line(i);
    }
    __attribute__((noinline)) void expand_line(size_t line) {
        Line &l = line_at(line * line_bytes);
        for (Run &run : l.writes) flush(line, run, &Cell::write);
        for (Run &run : l.reads) flush(line, run, &Cell::read);
        l.flags() |= Run::expanded_bit;
    }
    void flush(size_t line, Run &run, Access Cell::*access) {
        for (unsigned words = run.mask; words; words &= words - 1) {
            const unsigned word = unsigned(__builtin_ctz(words));
            word_cells[line * (line_bytes / 4) + word].*access = run.access_of(word);
        }
        run.mask = 0, run.time = 0;
    }
    static void clear(char *p, size_t n, size_t page) {
        char *begin = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(p) + page - 1) / page * page),
             *end = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(p + n) / page * page);
        if (end <= begin) {
            memset(p, 0, n);
            return;
        }
        memset(p, 0, size_t(begin - p));
        madvise(begin, size_t(end - begin), MADV_DONTNEED);
        memset(end, 0, size_t(p + n - end));
    }
};
}
