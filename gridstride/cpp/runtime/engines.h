// What a Hopper GPU does besides its threads: mbarriers, bulk copies (TMA), the tensor cores' wgmma; and clusters of
// blocks.
//
// Copies and products are computed at once. The detectors know that they might not be: what a copy writes and what an
// engine reads stays in flight until a thread waits for it, and a thread's part of a product is a NaN with a number
// until the thread has waited.
#pragma once
#include <unordered_map>
#include <vector>
#include "detector.h"
#include "threads.h"

namespace gridstride {

struct Barrier { // an mbarrier
    uint32_t count, left, phase;
    int64_t bytes; // still to come
    const char *at;
    int line;
    bool fenced; // can the engines see it, after a fence?
    std::vector<Copy> coming, there; // copies of this phase; copies of earlier phases that no thread has waited for yet
    SyncState releasing, released; // by the arrivals of this phase; by those of the phases before
    uint32_t polls = 0; // how often a thread has polled without success
    bool gone = false; // made invalid
};
struct Held { // a thread's part of d
    std::vector<float *> targets;
    std::vector<float> values;
    uint32_t group;
    int line;
    bool given; // has the thread waited for it?
};
struct Asked { // what one thread has asked for
    std::vector<Held> held;
    std::vector<Copy> stores; // shared memory that a bulk store may still read
    std::vector<uint32_t> groups; // of products: how many there were when each was committed
    uint32_t products = 0, store_groups = 0;
    bool fenced = false;
    const Barrier *tried = nullptr; // where it tried last, without success
    uint32_t tried_phase = 0;
};
struct Engines {
    std::unordered_map<uint32_t, Barrier> barriers; // by offset in shared memory
    std::vector<Asked> asked = std::vector<Asked>(max_threads);
    struct {
        uint32_t threads, arrived, phase;
        SyncState releasing, released; // as above
    } named[16] = {};
    // of the cluster, in its leader
    uint32_t cluster_arrived = 0, cluster_phase = 0;
    SyncState cluster_releasing, cluster_released;
    // by block and thread: 1 + the phase that it arrived in, until it has waited
    std::vector<uint32_t> cluster_arrived_in;
};

Engines &engines_of(Worker &);
inline Asked &asked() { return engines_of(*worker).asked[size_t(current_rank())]; }
inline uint32_t engine_line(int line) { return line_bit | async_bit | engine_bit | uint32_t(line); }
inline uint32_t offset_of(uint32_t address) { return address % block_window; }
inline uint32_t swizzled(uint32_t offset, int swizzle) {
    return offset ^ (offset >> 7 & uint32_t(std::max(swizzle / 16 - 1, 0))) * 16;
}

Barrier &barrier_at(uint32_t at, const char *what, int line); // the mbarrier there, or a finding
// begins the next phase, if nothing of this one is to come
void maybe_over(Barrier &);
void must_be_own(uint32_t at, const char *what, int line); // shared memory of the block itself
void thread_ends(Worker &);
void begin_engines(Worker &);
}
