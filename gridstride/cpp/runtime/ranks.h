// Ranks, which are threads of the host or processes: the bootstraps through which they exchange data, and device memory
// that several processes share.
#pragma once
#include <atomic>
#include <string>
#include "memory.h"
#include "runtime.h"

namespace gridstride {

// What the threads of a process have made of their time, in nanoseconds
struct ProcessorTime {
    int process;
    long long used, waited;            // on a processor; ready to run, while other threads used it
    bool is_ready;                     // whether a thread runs, or waits for a processor
};
// Decides how long to wait for other processes or threads. They count as stuck if they sleep for `idle_limit` seconds,
// or if they have not come within the time limit. A process that is ready to run, but gets no processor, is not idle.
class RankWatch {
    static constexpr int max_processes = 32;       // that it measures; it never counts others as idle
    double begin = 0, next_check = 0, idle_since = 0;
    ProcessorTime times[max_processes];            // at `idle_since`
    int num_times = 0;
    unsigned pause = 50;               // microseconds
    void sleep();
    bool is_active(const ProcessorTime &, double seconds) const;
    // Since `idle_since`:
    const ProcessorTime *time_before(int process) const;   // null: not measured
    double seconds_waited(const ProcessorTime &) const;

public:
    enum Verdict { wait, ended, stuck };
    // Sleeps, and returns whether to wait any longer for these processes; 0: its ID is unknown. `needs_all`: whether it
    // needs all of them, or any. `ended_process` receives the ID of one that has ended.
    Verdict check(const int *processes, int count, bool needs_all, int &ended_process);
    void restart() { begin = 0, num_times = 0, next_check = 0, pause = 50; }
};

bool is_ended(int process);
ProcessorTime processor_time(int process);
ProcessorTime processor_time_of_thread(int process, int thread);
bool is_published(const RankExchange &);           // whether all ranks have published the exchange
void record_published(const RankExchange &);       // by the current operation (queue.cpp)
// Returns false if the exchange must not be waited for any longer; then it has stored a finding.
bool may_wait(const RankExchange &, RankWatch &);

// Exchanges one entry of `entries` per rank of the world.
void exchange_in_world(const char *call, size_t count, int line, void *entries, size_t bytes);

// Memory that other processes have mapped, or may map: a file without a name, whose first page is this header
struct SharedHeader {
    static constexpr int max_sharers = 15;
    uint64_t nonce;
    std::atomic<int> lock;             // the ID of the process that executes an atomic operation; 0: none
    std::atomic<int> sharers[max_sharers + 1];         // IDs of processes: the owner, and those that have opened it
};
struct SharedShadow;
struct SharedMemory {
    SharedHeader *header;
    int fd;
    // For racecheck (peers.cpp): the accesses of all processes; null: not mapped yet
    SharedShadow *shadow = nullptr;
    size_t words = 0, mapped_bytes = 0;
    uint32_t own_peer = 0;             // which of the cells are those of this process
    // The accesses of each process before this time happen before the current launch.
    uint32_t ordered_until[SharedHeader::max_sharers + 1] = {};
};
void record_host_wait(uint32_t until); // the host has waited for the accesses before this time
extern bool has_shared_memory;
void lock_shared(const void *address); // for an atomic operation; does nothing for other memory
void unlock_shared(const void *address);
void unlock_all_shared();              // after a launch has been stopped
// The IDs of the other processes that share this memory, or 0 if none has opened it; empty for other memory
std::vector<int> sharers_of(const void *address);
}
