// The memory size of the emulated device: the free memory of the machine, so that cudaMalloc returns an error before
// the system kills the process.
#include "machine.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <algorithm>
#include "memory.h"
#include "shadow.h"
#include "state.h"

namespace gridstride {

constexpr size_t min_free = size_t(256) << 20;     // always assumed to be free
constexpr size_t large_allocation = size_t(64) << 20;       // for larger allocations, the free memory is read again

static size_t read_number(const char *file, size_t fallback) {
    FILE *file_stream = fopen(file, "r");
    unsigned long long number = 0;
    const bool is_read = file_stream && fscanf(file_stream, "%llu", &number) == 1;
    if (file_stream) fclose(file_stream);
    return is_read ? size_t(number) : fallback;
}
// Returns the available memory that Linux reports; half of all memory on other systems.
static size_t available_memory() {
    const size_t total = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
    FILE *stream = fopen("/proc/meminfo", "r");
    if (!stream) return total / 2;
    char line[128];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, stream))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(stream);
    return kib ? size_t(kib) << 10 : total / 2;
}
size_t free_memory() {
    const size_t limit = read_number("/sys/fs/cgroup/memory.max", ~size_t(0)),      // the limit of a container
                 used = read_number("/sys/fs/cgroup/memory.current", 0);
    return std::min(available_memory(), limit > used ? limit - used : 0);
}

// With checks, shadow memory has a cell per word.
static size_t bytes_with_shadow(size_t bytes) { return options.checks ? bytes + bytes / 4 * sizeof(Cell) : bytes; }

static size_t initial_free_memory() {
    static size_t free_bytes = 0;
    if (!free_bytes || !memory.bytes) free_bytes = free_memory();
    return free_bytes;
}
size_t device_limit() {
    if (options.memory) return size_t(options.memory);
    const size_t bytes_per_device_byte = bytes_with_shadow(1024) / 1024;
    return std::max(min_free, std::min(size_t(16) << 30, initial_free_memory() / bytes_per_device_byte));
}
bool fits_in_memory(size_t bytes) {
    const size_t limit = device_limit();
    if (bytes > limit || memory.bytes + bytes > limit) return false;
    if (options.memory || bytes < large_allocation || memory.bytes + bytes <= min_free) return true;
    return bytes_with_shadow(bytes) <= free_memory();
}
}
