// Resident blocks: those that are on the device at the same time, so that one may wait for another.
#pragma once
#include <atomic>
#include "detector.h"
#include "worker.h"

namespace gridstride {

uint64_t blocks_of(const Launch &);
uint64_t max_resident_blocks(const Launch &, size_t static_bytes);    // the number of blocks that can be resident
// A launch that is running, alone or together with launches of other devices and streams
struct RunningLaunch {
    const Launch *launch = nullptr;
    int device = 0;
    uint32_t first_block = 0;              // index of its block 0 among the blocks of all launches that run together
    uint64_t num_clusters = 0;             // clusters in the grid, or blocks without clusters
    std::atomic<uint64_t> num_begun{0};    // clusters that have begun
    uint64_t num_ended = 0;                // clusters that have ended; counted only if launches run together
    std::atomic<uint64_t> num_arrived{0};  // threads that have arrived at the grid barrier
    std::atomic<uint32_t> phase{0};        // the phase of the grid barrier
    size_t static_shared = 0, file_scope_bytes = 0;
    void *operation = nullptr;             // its operation in the queue; null if it runs alone
    LaunchChecks checks;
    SyncState released_before;             // the state that its blocks acquire when they begin
    SyncState released;                    // the state that its ended blocks have released
    explicit RunningLaunch(const Launch &l) : launch(&l) {}
    bool contains(uint32_t block_id) const {
        return block_id - 1 - first_block < blocks_of(*launch);
    }
};
// While launches run together: yields to threads that poll this address, if its value has changed since they last
// loaded it. A reader that misses this value and loads the next one would acquire too much, which would hide a race.
void await_observers(const void *address);
void discard_locks();                                       // releases the locks of atomic operations
// Runs blocks of these launches on this OS thread until none is left. With `from_queue`, adds launches of the queue.
void run_blocks(std::vector<RunningLaunch *> &, int os_threads, bool from_queue);
// clusterlaunchcontrol.try_cancel: takes a block, or cluster, that has not begun
Canceled cancel_block();
}
