// The asynchronous engines of a Hopper GPU, for bulk copies (TMA) and wgmma, their mbarriers, and cluster barriers.
//
// The emulator computes copies and products immediately, but the detectors treat them as asynchronous: the writes of a
// copy and the reads of an engine are in flight until a thread waits for them, and the accumulators of a wgmma are
// placeholders (NaNs with the accumulator's index) until the thread has waited.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>
#include "detector.h"
#include "threads.h"

namespace gridstride {

// The tcgen05 instructions that one thread has issued to the tensor cores, by the commit that follows them
struct TensorPipe {
    uint32_t thread = 0;                   // its ID in clocks: the ID of the thread, with the highest bit set
    std::vector<uint32_t> lines = {0};     // per commit: the line of the last instruction before it; 0: none
    std::vector<uint32_t> completed = {};  // per commit: the time at which a thread first waited for it
    std::vector<size_t> unfenced = {};     // indices of accesses since the last tcgen05.fence::before_thread_sync
    uint32_t commits() const { return uint32_t(lines.size()) - 1; }
};
struct Commit { // a tcgen05.commit that signals an mbarrier
    TensorPipe *pipe;
    uint32_t commit;                       // its index in the pipe
};
struct Barrier { // an mbarrier
    uint32_t count, num_pending, phase;
    int64_t bytes; // expected bytes that have not arrived
    const char *address;
    int line;
    bool is_fenced; // whether a fence has made its initialization visible to the async proxy
    // copies of this phase; copies of earlier phases that no thread has waited for
    std::vector<Copy> in_flight, completed;
    SyncState releasing, released; // by arrivals of the current phase, and of earlier phases
    uint32_t failed_polls = 0;
    bool is_invalidated = false; // by mbarrier.inval
    std::vector<Commit> commits = {}, completed_commits = {};  // of this phase; of earlier phases
};
struct PendingResult { // the accumulators that a wgmma writes in one thread
    std::vector<float *> targets;
    std::vector<float> values;
    uint32_t group;
    int line;
    bool is_awaited; // whether the thread has waited
};
// The accesses that happen before the last tcgen05.fence::after_thread_sync of a thread
struct FenceView {
    uint32_t block_synced = 0, warp_synced = 0;
    VectorClock acquired, waited;
};
struct TensorMemory;
struct Requests { // the requests of one thread to the engines
    FenceView fence_view;
    std::vector<PendingResult> pending_results;
    std::vector<Copy> stores; // bulk stores in flight, which read shared memory
    std::vector<uint32_t> mmas_of_groups; // per committed group: the number of wgmma in it and earlier groups
    uint32_t num_mmas = 0, num_store_groups = 0;
    bool is_fenced = false;
    const Barrier *tried_barrier = nullptr; // the mbarrier of its last unsuccessful try_wait
    uint32_t tried_phase = 0;
};
struct RegisterChange { // a setmaxnreg
    bool increases;
    unsigned registers;
    int line;
};
struct RegisterPool { // the registers per thread of each warp
    unsigned per_thread = 0; // at the launch; 0: unknown
    unsigned owned[max_warps] = {}, requested[max_warps] = {};
    std::vector<RegisterChange> changes[max_warps]; // also without launch bounds
};
struct Engines {
    std::unordered_map<uint32_t, Barrier> barriers; // by offset in shared memory
    std::vector<Requests> requests = std::vector<Requests>(max_threads);
    struct {
        uint32_t threads, arrived, phase;
        SyncState releasing, released; // as in Barrier
    } named[16] = {};
    // the cluster barrier, used in the leader
    uint32_t cluster_arrived = 0, cluster_phase = 0;
    SyncState cluster_releasing, cluster_released;
    // per thread of the cluster: 1 + the phase in which it arrived; 0 after it has waited
    std::vector<uint32_t> cluster_arrived_in;
    RegisterPool registers;
    uint64_t num_canceled = 0;             // in a leader: the number of clusters that it has taken by try_cancel
    // Blackwell: see tensor_memory.h
    std::shared_ptr<TensorMemory> tensor;
    std::unordered_map<int, TensorPipe> pipes;             // key: the thread's rank
    std::vector<size_t> unfenced[max_warps];               // accesses since tcgen05.fence::before_thread_sync, per warp
};

Engines &engines_of(Worker &);
inline Requests &current_requests() { return engines_of(*worker).requests[size_t(current_rank())]; }
inline uint32_t async_proxy_location(int line) { return line_bit | async_bit | async_proxy_bit | uint32_t(line); }
inline uint32_t offset_of(uint32_t address) { return address % block_window; }
inline uint32_t swizzle_offset(uint32_t offset, int swizzle) {
    return offset ^ (offset >> 7 & uint32_t(std::max(swizzle / 16 - 1, 0))) * 16;
}

// Returns the mbarrier at a shared address, or reports that there is none; `operation` names the access
Barrier &barrier_at(uint32_t at, const char *operation, int line);
// Begins the next phase if all arrivals and bytes of the current phase have arrived
void complete_phase_if_done(Barrier &);
// Reports an address in the shared memory of another block of the cluster
void require_own_block(uint32_t at, const char *operation, int line);
// Records that a thread has waited for a tcgen05.commit
void complete_commit(TensorPipe &, uint32_t commit);
// Reports warps of a warpgroup that have not executed the same setmaxnreg instructions
void check_setmaxnreg_at_end(Worker &);
void end_thread(Worker &);
void begin_engines(Worker &);
}
