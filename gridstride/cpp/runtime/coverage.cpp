// Which basic blocks of the loaded modules were executed: -fsanitize-coverage=trace-pc makes each of them begin with a
// call, which a set remembers by its return address.
#include <dlfcn.h>

#include "state.h"

namespace gridstride {
struct ExecutedBlock { // in ../emulator.py, too
    const char *library;
    uintptr_t offset; // of the return address in the library
};

struct BlockSet {
    static constexpr size_t size = 1 << 18, max_probes = 64;
    std::atomic<uintptr_t> addresses[size];
    std::atomic<size_t> num_dropped;

    void add(uintptr_t address) {
        size_t slot = address * 0x9e3779b97f4a7c15u >> 46;
        for (size_t probe = 0; probe < max_probes; ++probe, slot = (slot + 1) % size) {
            uintptr_t found = addresses[slot].load(std::memory_order_relaxed);
            if (found == address) return;
            if (!found && addresses[slot].compare_exchange_strong(found, address)) return;
            if (found == address) return;
        }
        ++num_dropped;
    }
};
static BlockSet executed_blocks;
}

extern "C" {
GRIDSTRIDE_API void __sanitizer_cov_trace_pc() {
    gridstride::executed_blocks.add(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

// Removes at most `n` blocks from the set, and returns their number; -1 if the set was too small
GRIDSTRIDE_API long gridstride_take_executed_blocks(gridstride::ExecutedBlock *out, long n) {
    auto &blocks = gridstride::executed_blocks;
    if (blocks.num_dropped.exchange(0)) return -1;
    long taken = 0;
    for (size_t slot = 0; slot < blocks.size && taken < n; ++slot) {
        const uintptr_t address = blocks.addresses[slot].load(std::memory_order_relaxed);
        if (!address) continue;
        blocks.addresses[slot] = 0;
        Dl_info info;
        if (!dladdr(reinterpret_cast<void *>(address), &info)) continue;
        out[taken++] = {info.dli_fname, address - reinterpret_cast<uintptr_t>(info.dli_fbase)};
    }
    return taken;
}
}
