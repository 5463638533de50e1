// Asynchronous copies are done at once. Only the detectors know that they might not be.
#include <algorithm>
#include <string.h>
#include "detector.h"
#include "findings.h"

namespace gridstride {

void copy_async(void *to, const void *from, unsigned bytes, unsigned read, const char *what, int line) {
    typedef uint32_t __attribute__((may_alias)) Word;
    if (!shared_address(to))
        fail(Code::copy_target, {{"operation", what}, {"address", reinterpret_cast<uintptr_t>(to)}}, line);
    must_be_aligned(to, bytes, what, line), must_be_aligned(from, bytes, what, line);
    if (detector.on)
        detector.copy(
            reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, read, line_bit | uint32_t(line));
    for (unsigned i = 0; i < bytes; i += 4) {
        Word word = 0;
        if (i < read) memcpy(&word, static_cast<const char *>(from) + i, std::min(read - i, 4u));
        static_cast<Word *>(to)[i / 4] = word;
    }
}
void copy_async_commit() {
    if (detector.on) detector.commit();
}
void copy_async_wait(unsigned groups) {
    if (detector.on) detector.wait_for_copies(groups);
}
void copy_async_wait_all() { copy_async_commit(), copy_async_wait(0); }

void Detector::copy(uintptr_t to, uintptr_t from, unsigned bytes, unsigned read, uint32_t where) {
    if (read) access(from, read, false, where);
    access(to, bytes, true, where | async_bit);
    auto &mine = copies[me % max_threads];
    mine.open.push_back({to, bytes, me, where | async_bit, mine.group});
}

// All but the newest `groups` are over now.
void Detector::wait_for_copies(unsigned groups) {
    auto &mine = copies[me % max_threads];
    size_t n = 0;
    while (n < mine.open.size() && mine.open[n].group + groups < mine.group) landed(mine.open[n++]);
    mine.open.erase(mine.open.begin(), mine.open.begin() + std::ptrdiff_t(n));
}
void Detector::landed(const Copy &c) {
    each_cell(c, [&](Cell &cell) { settled(cell.write, c); });
}
void Detector::has_read(const Copy &c) {
    each_cell(c, [&](Cell &cell) { settled(cell.read, c), settled(cell.read2, c); });
}
}
