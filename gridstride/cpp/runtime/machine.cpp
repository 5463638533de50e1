// The size of the emulated device: what the machine has free, so that a program that allocates too much gets an error
// from cudaMalloc and is not killed.
#include "machine.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <algorithm>
#include "memory.h"
#include "shadow.h"
#include "state.h"

namespace gridstride {

constexpr size_t always = size_t(256) << 20;     // assumed of any machine
constexpr size_t large = size_t(64) << 20;       // above this, the free memory is read again

static size_t number_in(const char *file, size_t other) {
    FILE *f = fopen(file, "r");
    unsigned long long n = 0;
    const bool read = f && fscanf(f, "%llu", &n) == 1;
    if (f) fclose(f);
    return read ? size_t(n) : other;
}
// Linux reports what can be had; elsewhere half of all memory is assumed to be free.
static size_t available() {
    const size_t all = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f) return all / 2;
    char line[128];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(f);
    return kib ? size_t(kib) << 10 : all / 2;
}
size_t free_memory() {
    const size_t most = number_in("/sys/fs/cgroup/memory.max", ~size_t(0)),      // of a container
                 taken = number_in("/sys/fs/cgroup/memory.current", 0);
    return std::min(available(), most > taken ? most - taken : 0);
}

// The detectors keep a cell per word that is used.
static size_t cost(size_t bytes) { return options.checks ? bytes + bytes / 4 * sizeof(Cell) : bytes; }

static size_t free_at_first() {
    static size_t found = 0;
    if (!found || !memory.bytes) found = free_memory();
    return found;
}
size_t device_limit() {
    if (options.memory) return size_t(options.memory);
    const size_t each = cost(1024) / 1024;
    return std::max(always, std::min(size_t(16) << 30, free_at_first() / each));
}
bool fits_in_memory(size_t bytes) {
    const size_t limit = device_limit();
    if (bytes > limit || memory.bytes + bytes > limit) return false;
    return options.memory || bytes < large || memory.bytes + bytes <= always || cost(bytes) <= free_memory();
}
}
