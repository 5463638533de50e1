// The state of one resident block: its threads as fibers, its shared memory, its clock. An OS thread works on one block
// at a time.
#pragma once
#include <setjmp.h>
#include <stddef.h>
#include <string.h>
#include <memory>
#include <unordered_map>
#include <vector>
#include "fiber.h"
#include "memory.h"
#include "runtime.h"
#include "shadow.h"

namespace gridstride {

constexpr size_t signal_stack_bytes = 64 << 10;
constexpr int max_threads = 1024, max_warps = 32;
// bytes for shared arrays and the gap after each of them; must fit into the 18 address bits of a wgmma descriptor
constexpr size_t shared_cap = 255 << 10;
constexpr size_t shared_limit = 227 << 10, shared_gap = 256;   // bytes per block, and per gap

enum State : uint8_t { ready, at_barrier, in_warp, at_active_mask, on_condition, done };

// The operands of all lanes for a shuffle or vote; `undefined`: a mask of the lanes whose value is undefined;
// `readers`: the number of lanes that have not read yet
struct WarpExchange {
    alignas(16) char slot[32][16];
    uint32_t undefined;
    int readers;
};
static_assert(offsetof(WarpExchange, undefined) == undefined_lanes);

// Why a value is undefined: a shuffle has read an inactive lane, or the thread does not receive a collective's result
struct UndefinedValue {
    int line, rank, lane;                          // lane: the inactive lane, or -1 for a collective's result
    Code cause;
};

enum WarpOperation : uint8_t { barrier_operation, exchange_operation, collective_operation };

struct Warp {
    uint32_t launched, finished, arrived;          // masks of lanes
    uint32_t mask[32], group[32];
    WarpOperation operation[32];                   // a collective operation is an instruction with `.aligned`
    const char *instruction[32];                   // the instruction that all lanes must execute together
    void (*collective[32])(void *const *);
    WarpExchange *exchange_of[32], exchange[65];
    alignas(16) char operand[32][16];
};

struct SharedArray {
    char name[48] = "";
    size_t offset;
    Shape shape;
    SharedArray(const char *new_name, size_t offset, const Shape &shape) : offset(offset), shape(shape) {
        strncpy(name, new_name, sizeof name - 1);
    }
    // Computes the index of the element that contains a byte of shared memory; past the end, the first axis exceeds the
    // shape.
    void index_of(size_t byte, long long *index) const {
        index[0] = static_cast<long long>(byte) - static_cast<long long>(offset);
        index[0] /= static_cast<long long>(shape.itemsize);
        for (int axis = shape.rank - 1; axis > 0; axis--) {
            index[axis] = index[0] % static_cast<long long>(shape.dims[axis]);
            index[0] /= static_cast<long long>(shape.dims[axis]);
        }
    }
};
// Shared memory that a module declares at file scope. An OS thread executes each declaration only once, in its first
// launch.
struct FileScope {
    size_t used = 0;
    std::vector<SharedArray> arrays;
    std::vector<SharedArray> dynamic;              // at most one
};

// The address that a thread polled last, the value that it read, and the number of consecutive polls that read it
struct Poll {
    const void *address;
    uint64_t value;
    uint32_t bytes, repeats, location;             // location: as in Access
};

struct BlockDetectorState;
struct Engines;
struct RunningLaunch;

struct Worker {
    // The launch and the block
    const Launch *launch = nullptr;
    int num_threads = 0;                           // per block
    RunningLaunch *running_launch = nullptr;
    uint32_t first_block = 0;                      // index of the launch's block 0 among the blocks that run together
    uint64_t block = 0;                            // linear index in the grid
    uint3 block_index;
    struct {
        unsigned threads, blocks;                  // per block, and blocks per SM; 0: none
    } bounds = {};                                 // __launch_bounds__
    // Threads. A slot is a position in the order in which they run; `rank` maps slots to ranks, `slot` ranks to slots.
    uint8_t state[max_threads];
    int rank[max_threads], slot[max_threads], line[max_threads];
    int return_line[max_threads];                  // by rank: the line of the executed `return`, 0 for none
    uint3 index[max_threads];
    Fiber *fiber[max_threads];
    int current_slot = 0, num_started = 0, num_live = 0;
    bool is_running = false, is_shuffled = false;
    bool runs_loops = false;                       // whether the kernel runs all threads itself (block_loops.h)
    bool is_thread_unknown = false;                // whether the kernel's loops do not record the current thread
    bool reruns_after_fault = false;               // whether the block runs again, to find the thread of a fault
    std::vector<std::unique_ptr<char[]>> loop_memory;      // for variables with an element per thread
    std::vector<size_t> loop_memory_bytes;
    size_t num_loop_arrays = 0;
    bool has_undefined_values = false;             // whether any thread has an undefined value
    Fiber fibers[max_threads];                     // adjacent, so that the next fiber can be prefetched
    int fiber_count = 0;
    std::vector<Fiber *> idle_fibers;
    Fiber main;
    // Barriers and warp operations
    int predicate[max_threads], num_true = 0;
    Warp warps[max_warps];
    bool uses_warps = false;
    // by warp: a mask of the lanes with an undefined value, valid if `has_undefined_values`
    uint32_t undefined[max_warps], undefined_reads = 0;
    UndefinedValue origin[max_threads];            // by rank: why its value is undefined
    struct {
        bool (*ready)(void *);
        void *arg;
        DescribeWait *describe;
    } condition[max_threads];
    // Shared memory
    char *shared = nullptr;
    size_t shared_used = 0, shared_static = 0;
    std::vector<size_t> offset;                    // per declaration: 1 + offset; 0: not executed in this launch
    std::vector<SharedArray> arrays;
    std::unordered_map<uintptr_t, FileScope> file_scopes;      // key: the base address of the module
    size_t unloaded = 0;               // the `num_unloaded_modules` of the last check of `file_scopes`
    size_t dynamic_array = 0;                      // 1 + its index in `arrays`
    bool has_declared_dynamic = false;             // whether a declaration was executed in this launch
    // The jump target after a finding or a signal has ended the launch, and the state at the signal
    sigjmp_buf escape;
    volatile int signal = 0;
    int deferred_signals = 0;                      // signals that arrived while the kernel could not be ended
    void *fault = nullptr, *pc = nullptr, *link = nullptr, **sp = nullptr;
    void *frames[64];                              // the call stack at the signal
    int depth = 0;                                 // the number of valid entries of `frames`
    bool has_corrupt_return = false;                   // whether a function has returned to an address that is not code
    const char *access = "access";                 // of a memory fault: a read, a write, or unknown
    bool is_division_overflow = false;
    void *signal_stack = nullptr;
    uint32_t num_spins = 0, num_yields = 0;
    uint32_t num_lane_switches = 0;                // consecutive ones within a warp
    Poll polls[max_threads];                       // by rank
    // Resident blocks: each has a Worker; the first one uses the Worker of the OS thread.
    Worker *root = this;                           // the Worker of the OS thread; all blocks return to its main fiber
    Worker *running_block = this;                  // in the leader: the block of the cluster that runs next
    bool has_polled = false;                       // whether any thread has polled
    bool reads_clock = false;                      // in the leader: whether any thread has read the clock
    // 1 + the phase of the grid barrier for which exited threads were counted
    uint32_t exited_counted_in_phase = 0;
    int num_at_grid = 0;                           // threads that wait at the grid barrier for `grid_phase` to complete
    uint32_t grid_phase = 0;
    uint32_t idle_switches = 0;                    // in the leader: consecutive switches without progress
    char *saved_shared = nullptr;                  // a copy of the shared memory while another block runs
    // The cluster: one Worker per block, all on one OS thread
    Worker *leader = this;
    std::vector<Worker *> cluster;                 // in the leader: all blocks; empty for a single block
    dim3 cluster_dims = dim3(1, 1, 1);
    std::vector<Worker *> peers;                   // in the leader: the Workers of the other blocks
    BlockDetectorState *detector_state = nullptr;  // the detectors' state of the block while another block runs
    // asynchronous operations of the block's threads (TMA, wgmma), and mbarriers; null: none
    Engines *engines = nullptr;

    void prepare_threads(const Launch &, uint32_t seed, int order);
    Worker *block_of(const char *shared) const;
    void switch_in_cluster(Fiber &self);
    void suspend_block(Fiber &self);
    bool is_spinning(const void *address, unsigned bytes, uint32_t location);
    bool can_progress() const;
    bool waits_for_grid() const;
    bool waits_only_for_grid() const;
    // Returns whether the address is just past the stack of the current thread, where an index past the end of a local
    // array leads.
    bool is_just_past_stack(uintptr_t a) const {
        return a - reinterpret_cast<uintptr_t>(fiber[current_slot]->stack) - stack_bytes < 65536;
    }
    bool count_exited_at_grid_barrier();
    void record_progress() { leader->idle_switches = 0; }
    size_t blocks() const { return cluster.empty() ? 1 : cluster.size(); }
    Worker *block_at(size_t i) { return cluster.empty() ? this : cluster[i]; }
    uint32_t idle_limit() const;
    void begin_block(uint64_t linear_index);
    void begin_single_block(uint64_t linear_index);
    void begin_cluster(uint64_t cluster_id);
    bool end_block();
    void start(int new_slot);
    void finish();
    void wait(State new_state);
    void switch_to_ready();
    void switch_threads();
    void switch_to_lane(int thread_rank);
    void resume(Fiber &self, int next_slot);
    bool find_ready(int &ready_slot) const;
    void release_active_lanes();
    bool release_waiting(bool reports_deadlock = true);
    bool wake();
    bool is_root_cause() const;
    uint32_t expected_lanes(const Warp &, int lane) const;
    bool try_complete_warp(Warp &, int lane);
    bool try_complete_collective(Warp &, int lane);
    uint32_t undefined_in(int warp) const { return has_undefined_values ? undefined[warp] : 0; }
    bool is_undefined(int thread_rank) const { return undefined_in(thread_rank / 32) >> thread_rank % 32 & 1; }
    void set_undefined(int thread_rank, const UndefinedValue &);
    [[noreturn]] void report_deadlock();
    [[noreturn]] void report_warp_deadlock(int slot);
    [[noreturn]] void report_collective_deadlock(int rank);
    [[noreturn]] void report_mask_deadlock(int rank);
    bool reports_wait = false;                   // whether the current thread was resumed to report where it waits
    [[noreturn]] void report_from_thread(int rank);
    [[noreturn]] void report_wait_location();
    [[noreturn]] void report_condition_deadlock(int rank);
    [[noreturn]] void report_missing_registers(int rank);
    Fiber *take_fiber();
    void dynamic(const char *name, const Shape &);
    ~Worker();
};
extern __attribute__((tls_model("initial-exec"))) thread_local Worker *worker;
// Whether this OS thread runs a checked launch. Accesses by other host threads are not checked.
extern __attribute__((tls_model("initial-exec"))) thread_local bool checks_enabled;
}
