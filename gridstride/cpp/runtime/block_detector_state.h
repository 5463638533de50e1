// The state of the detectors for one block: times of barriers, acquired clocks, asynchronous operations in flight, and
// the shadow memory of its shared memory.
#pragma once
#include <memory>
#include <stdint.h>
#include <vector>
#include "finding.h"
#include "shadow.h"
#include "vector_clock.h"
#include "worker.h"

namespace gridstride {

struct Copy {                              // an asynchronous copy that is in flight
    uintptr_t to;
    uint32_t bytes, thread, location, group;
};

// The name of an array and the index of one of its elements; the name is empty if there is no array.
struct ElementName {
    char name[64];
    int rank;
    long long at[4];
    Field array() const { return {"array", name}; }
    Field index() const { return {"index", at, rank}; }
};

// A possible data race between a plain read and another thread's atomic read-modify-write. It is not reported if the
// reader's next access to the word is a compare-and-swap, which validates the value that was read.
struct DeferredRace {
    Code code;
    ElementName element;
    const char *earlier_kind, *later_kind;
    int barrier;
    Access earlier, later;
    uint32_t reader;
    uintptr_t address;
    void *frames[24];                      // the call stack of the later access
    int depth;
};
constexpr size_t max_deferred_races = 16;  // per thread

// A read of an uninitialized element, and its finding
struct UninitializedRead {
    uint32_t thread;
    Finding finding;
};

// The state of the detectors for one block
struct BlockDetectorState {
    static constexpr uintptr_t no_address = ~uintptr_t(0) >> 1;
    uint32_t warp_synced[max_warps];
    // The times of the last fence.proxy.async per thread, per warp, of the block, and of other threads; earlier writes
    // are visible to the async proxy (TMA and the tensor cores)
    uint32_t proxy_fenced[max_threads], proxy_fenced_warp[max_warps], proxy_fenced_block = 0;
    VectorClock proxy_fenced_clock;
    Access last_cluster_access = {};            // the last access to the shared memory by another block of the cluster
    // The reads of shared memory by wgmma, by warpgroup and offset; empty before the first wgmma
    std::vector<MmaRead> mma_reads;
    std::vector<OperandRead> operand_reads; // by tcgen05, two per 16 bytes; empty before the first one
    // By warpgroup and wgmma-group: the time at which a thread first waited for the group
    std::vector<uint32_t> mma_groups_completed[max_threads / 128];
    // The same for wgmma with an operand in registers: what happened before its warps issued it and those of earlier
    // groups
    std::vector<VectorClock> issued_with_registers[max_threads / 128];
    // [thread][lane]: accesses of the lane before this time happen before the next access of the thread, because of a
    // barrier for some lanes of the warp
    std::vector<uint32_t> lanes_synced;
    // The state that threads have acquired: `views` by each thread, through flags, mbarriers, ...; `block_view` by all
    // threads, through block-wide barriers
    std::vector<ThreadView> views;
    SyncState block_view;
    bool any_acquired = false;             // whether any thread of this block has acquired anything
    bool acquired_since_barrier = false;   // whether any has since the last block-wide barrier
    int barrier_line = 0;                  // the line of the last block-wide barrier
    std::unique_ptr<UninitializedRead> uninitialized_read;     // the first read of shared memory since the last barrier
    // By thread: its asynchronous copies in flight, and the number of groups that it has committed
    struct {
        std::vector<Copy> pending;
        uint32_t group;
    } copies[max_threads] = {};
    // The fields that every access reads are adjacent, here and at the beginning of Detector, to share cache lines.
    alignas(64) Worker *w = nullptr;
    uint32_t block_start = 1, block_synced = 1;
    uintptr_t shared_base = no_address;
    Cells shared_cells;
    // The tag of a word of shared memory is the key of the first thread that has read the word since the last barrier.
    // It is set if further reads change nothing in the cell: reads by other threads of that warp, or, with `block_tag`,
    // of the block. So most reads of tiles compare two integers, and do not load the cell, which is ten times as large
    // as the word. `read_key`: the rank of the current thread in the low bits, and above them a count of barriers
    static constexpr uint32_t block_tag = 1u << 31;
    uint32_t read_key = max_threads;
    void discard_read_tags() {
        read_key += max_threads;
        if (__builtin_expect(read_key & block_tag, 0)) restart_read_tags();
    }
    size_t low_cells = 0, high_cells = shared_cap / 4;     // cells in use: below `low_cells`, from `high_cells` on
    void discard_arrays();
    void restart_read_tags();
};

}
