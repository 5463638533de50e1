// An OS thread at work on one block: the block's threads as fibers, its shared memory, its clock.
#pragma once
#include <setjmp.h>
#include <stddef.h>
#include <string.h>
#include <unordered_map>
#include <vector>
#include "fiber.h"
#include "memory.h"
#include "runtime.h"
#include "shadow.h"

namespace gridstride {

constexpr size_t alternate_bytes = 64 << 10;           // for signal handlers
constexpr int max_threads = 1024, max_warps = 32;
// arrays with a gap after each, within the 18 bits of an address in wgmma's descriptors; `shared_limit` is what a
// block may use
constexpr size_t shared_cap = 255 << 10;
constexpr size_t shared_limit = 227 << 10, shared_gap = 256;

enum State : uint8_t { ready, at_barrier, in_warp, at_active_mask, on_condition, done };

// What the lanes of a warp give each other; whose value comes from a shuffle that read an absent lane
struct WarpExchange {
    alignas(16) char slot[32][16];
    uint32_t undefined;
    int readers;
};
static_assert(offsetof(WarpExchange, undefined) == undefined_lanes);

// Where a value is undefined: a shuffle that reads an absent lane and why, or a result that only some threads get
struct UndefinedValue {
    int line, rank, lane;                          // lane: -1 for a result
    Code why;
};

struct Warp {
    uint32_t exists, finished, arrived;            // by lane
    uint32_t mask[32], group[32];
    uint8_t op[32];                                // 0: a barrier, 1: an exchange, 2: all lanes together
    const char *what[32];                          // the instruction, where all lanes must come together
    void (*f[32])(void *const *);
    WarpExchange *got[32], exchange[65];
    alignas(16) char given[32][16];
};

struct SharedArray {
    char name[48] = "";
    size_t offset;
    Shape shape;
    SharedArray(const char *called, size_t offset, const Shape &shape) : offset(offset), shape(shape) {
        strncpy(name, called, sizeof name - 1);
    }
    // The index of the element at an offset in shared memory; what is past the end is so along the first axis
    void index_of(size_t at, long long *index) const {
        index[0] = static_cast<long long>(at) - static_cast<long long>(offset);
        index[0] /= static_cast<long long>(shape.itemsize);
        for (int axis = shape.rank - 1; axis > 0; axis--) {
            index[axis] = index[0] % static_cast<long long>(shape.dims[axis]);
            index[0] /= static_cast<long long>(shape.dims[axis]);
        }
    }
};
// What a library declares at file scope: a thread meets it only once, in whatever launch comes first.
struct FileScope {
    size_t used = 0;
    std::vector<SharedArray> arrays;
    std::vector<SharedArray> dynamic;              // one at most
};

// The address that a thread polled last, the value that it found, and how often in a row.
struct Poll {
    const void *at;
    uint64_t value;
    uint32_t bytes, repeats, where;                       // where: in the code, as an Access has it
};

struct BlockClock;
struct Engines;

struct Worker {
    // the launch and the block
    const Launch *launch = nullptr;
    int n = 0;                                     // threads in a block
    uint64_t block = 0;                            // its number in the grid
    uint3 block_index;
    // threads; a slot is a position in the order in which they run
    uint8_t state[max_threads];
    int rank[max_threads], slot[max_threads], line[max_threads];
    int returned[max_threads];                     // the first line whose barriers its `return` has not passed by
    uint3 index[max_threads];
    Fiber *fiber[max_threads];
    int current = 0, next = 0, live = 0;
    bool running = false, shuffled = false;
    bool values_undefined = false;                 // of some thread of the block
    Fiber fibers[max_threads];                     // close together: the next one's stack is fetched ahead
    int made = 0;
    std::vector<Fiber *> idle;
    Fiber main;
    // barriers
    int predicate[max_threads], count = 0;
    Warp warps[max_warps];
    bool warps_used = false;
    // threads with an undefined value, by warp, if there are any in the block; whence they have it
    uint32_t undefined[max_warps], undefined_reads = 0;
    UndefinedValue origin[max_threads];
    struct {
        bool (*ready)(void *);
        void *arg;
        DescribeWait *describe;
    } condition[max_threads];
    // shared memory
    char *shared = nullptr;
    size_t shared_used = 0, shared_static = 0;
    std::vector<size_t> offset;                    // by declaration; 0: not met in this launch
    std::vector<SharedArray> arrays;
    std::unordered_map<uintptr_t, FileScope> file_scopes;      // by the library's address
    size_t unloaded = 0;               // libraries that were unloaded until these were looked through last
    size_t dynamic_array = 0;                      // 1 + its index in `arrays`
    bool dynamic_met = false;                      // in this launch
    // what went wrong
    sigjmp_buf escape;
    volatile int signal = 0;
    int missed = 0;                                // signals that came at a bad time
    void *fault = nullptr, *pc = nullptr, *link = nullptr, **sp = nullptr;
    void *frames[64];                              // where the signal came, and who had called that
    int depth = 0;                                 // how many of them there are
    bool astray = false;                           // a function has returned to an address that is not code
    const char *access = "access";                 // of a memory fault: a read, a write, or unknown
    bool overflows = false;                        // a division's quotient is too large
    void *alternate = nullptr;
    uint32_t spins = 0, yields = 0;
    Poll polls[max_threads];                       // by rank
    // blocks that are at work on this OS thread; each but the first, or each cluster's, has a worker of its own
    Worker *root = this;                           // the OS thread's own: all return to it
    Worker *at_work = this;                        // of the leader: the block that goes on next
    bool has_polled = false;                       // has any?
    uint32_t excused = 0;                          // the grid's barrier, from 1, that some are not awaited at
    uint32_t idle_switches = 0;                    // of the leader: switches in a row without anything new
    char *kept = nullptr;                          // its shared memory, while another block is at work
    // the blocks of its cluster, itself among them; each has a worker of its own, all on one OS thread
    Worker *leader = this;
    std::vector<Worker *> cluster;                 // of the leader; empty if a block is alone
    dim3 cluster_dims = dim3(1, 1, 1);
    std::vector<Worker *> peers;                   // workers that the leader made for other blocks
    BlockClock *clock = nullptr;                   // while another block of the cluster is at work
    // what its threads have requested from the copy engine and the tensor cores, if anything
    Engines *engines = nullptr;

    void prepare_threads(const Launch &, uint32_t seed, int order);
    Worker *block_of(const char *shared) const;
    void choose_in_cluster(Fiber &self);
    void leave(Fiber &self);
    bool is_spinning(const void *at, unsigned bytes, uint32_t where);
    bool may_go_on() const;
    bool waits_for_grid() const;
    // Is this just past the stack of the thread at work? What runs past the end of its local array comes there.
    bool is_past_stack(uintptr_t a) const {
        return a - reinterpret_cast<uintptr_t>(fiber[current]->stack) - stack_bytes < 65536;
    }
    bool excuse_from_grid();
    void note_progress() { leader->idle_switches = 0; }
    size_t blocks() const { return cluster.empty() ? 1 : cluster.size(); }
    Worker *block_at(size_t i) { return cluster.empty() ? this : cluster[i]; }
    uint32_t patience() const;
    void begin_block(uint64_t block);
    void begin_single(uint64_t block);
    void begin_cluster(uint64_t number);
    bool end_block();
    void start(int s);
    void finish();
    void wait(State s);
    void choose();
    void switch_threads();
    bool find_ready(int &s) const;
    bool resolve(bool must = true);
    bool wake();
    bool is_root_cause() const;
    bool try_warp(Warp &, int lane);
    uint32_t undefined_in(int warp) const { return values_undefined ? undefined[warp] : 0; }
    bool is_undefined(int r) const { return undefined_in(r / 32) >> r % 32 & 1; }
    void set_undefined(int r, const UndefinedValue &);
    [[noreturn]] void stuck();
    [[noreturn]] void stuck_in_warp(int slot);
    [[noreturn]] void stuck_together(int rank);
    [[noreturn]] void stuck_at_mask(int rank);
    bool reports_itself = false;                   // the thread at work reports where it waits
    [[noreturn]] void report_from(int rank);
    [[noreturn]] void report_where_it_waits();
    [[noreturn]] void stuck_on_condition(int rank);
    Fiber *a_fiber();
    void dynamic(const char *name, const Shape &);
    ~Worker();
};
extern __attribute__((tls_model("initial-exec"))) thread_local Worker *worker;
// A launch of this OS thread is at work, with checks: what other threads of the host do is not the kernel's.
extern __attribute__((tls_model("initial-exec"))) thread_local bool checks_enabled;
}
