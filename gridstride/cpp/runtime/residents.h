// Resident blocks: those that are on the device at the same time, so that one may wait for another.
#pragma once
#include <atomic>
#include "detector.h"
#include "worker.h"

namespace gridstride {

uint64_t blocks_of(const Launch &);
uint64_t capacity(const Launch &, size_t static_bytes);    // the number of blocks that can be resident
// A launch whose blocks run: alone, or together with launches of other devices and streams
struct RunningLaunch {
    const Launch *launch = nullptr;
    int device = 0;
    uint32_t first_block = 0;              // the number of its first block among those of all launches that run
    uint64_t num_clusters = 0;                // blocks, or clusters, of the grid
    std::atomic<uint64_t> num_begun{0};    // of them
    uint64_t num_ended = 0;                // counted if launches run together
    std::atomic<uint64_t> arrived{0};      // threads at the barrier of the grid
    std::atomic<uint32_t> phase{0};        // of the barrier of the grid
    size_t static_shared = 0, file_scope_bytes = 0;
    void *operation = nullptr;             // of the queue; null if it runs alone
    LaunchChecks checks;
    SyncState released_before, released;   // the states that its blocks acquire at their begin, and have released
    explicit RunningLaunch(const Launch &l) : launch(&l) {}
    bool contains(uint32_t block_number) const {
        return block_number - 1 - first_block < blocks_of(*launch);
    }
};
// While launches run together: lets threads run that poll this address, if it has changed since they last loaded it. A
// reader that sees only the next change would acquire too much, which would hide that its read is too late.
void await_observers(const void *address);
void forget_locks();                                       // of the emulated atomic operations
// Runs blocks of these launches on this OS thread until none is left. If they are of a queue, it adds others.
void run_blocks(std::vector<RunningLaunch *> &, int os_threads, bool of_queue);
// clusterlaunchcontrol.try_cancel: takes a block, or cluster, that has not begun
Canceled cancel_block();
}
