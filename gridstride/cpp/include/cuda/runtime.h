// What the emulator's runtime (../../runtime, a shared library compiled once) offers to the headers and to Python.
// A block's threads are fibers of one OS thread; blocks may be spread over several OS threads.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "finding.h"
#include "vector_types.h"

typedef struct GridstrideStream *cudaStream_t;

#define GRIDSTRIDE_NOINLINE __attribute__((noinline))
#define GRIDSTRIDE_UNSEEN __attribute__((no_sanitize("thread")))   // touches memory, and the detectors need not see it
#define GRIDSTRIDE_API __attribute__((visibility("default")))
#ifdef __clang__
#define GRIDSTRIDE_NOT_READ(n)
#else
#define GRIDSTRIDE_NOT_READ(n) __attribute__((access(none, n)))     // uses the address alone, not what is stored there
#endif

// The built-in variables; the scheduler sets them whenever it switches to a thread. Their addresses are known when a
// module is loaded: otherwise each read of one is a call.
#define GRIDSTRIDE_BUILTIN extern GRIDSTRIDE_API __attribute__((tls_model("initial-exec"))) __thread
GRIDSTRIDE_BUILTIN uint3 threadIdx, blockIdx;
GRIDSTRIDE_BUILTIN dim3 blockDim, gridDim;
#undef GRIDSTRIDE_BUILTIN
static constexpr int warpSize = 32;

// in device code it returns how many arguments were printed
GRIDSTRIDE_API int gridstride_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

namespace gridstride {

enum class Scope { thread, block, device, system };
enum class Order { relaxed, acquire, release, acq_rel, seq_cst };
enum class Use { load, store, modify, swap };     // swap: compare-and-swap

// Collectives: the calling thread waits until the others are there.
GRIDSTRIDE_API void sync_block(int line = __builtin_LINE());
GRIDSTRIDE_API int sync_block_count(int predicate, int line = __builtin_LINE());   // in how many threads it was not 0
GRIDSTRIDE_API void sync_warp(unsigned mask = ~0u, int line = __builtin_LINE());
// Each lane in `mask` gives `bytes` (at most 16) at `mine`; `all` points to 32 slots of 16 bytes until this lane's next
// collective. Returns the lanes that took part.
GRIDSTRIDE_API unsigned warp_exchange(
    unsigned mask, const void *mine, int bytes, const void *&all, int line = __builtin_LINE());
// Of the slots, from this byte on: the lanes whose value comes from a shuffle that read an absent lane
constexpr size_t undefined_lanes = 32 * 16;
// A shuffle reads lane `from`, which is absent or whose own value is undefined. What each byte of the result shall be
// where it is absent; -1: the caller's own value
GRIDSTRIDE_API int undefined_byte(int from, int line);
// The thread at work gets no result of a collective that was called on this line
GRIDSTRIDE_API void undefined_result(Code who_gets_it, int line);
constexpr uint32_t undefined_nan = 0x7fd1c0de;
constexpr uint64_t undefined_nan_of_double = 0x7ffa381bc0000000;
// What a whole warp does as one: each lane gives a pointer, and the last of the 32 calls `f` with all of them before
// any goes on.
GRIDSTRIDE_API void warp_together(const char *what, void *mine, void (*f)(void *const *), int line);
GRIDSTRIDE_API unsigned active_mask(int line = __builtin_LINE());   // the lanes that wait at this line, too
GRIDSTRIDE_API void wait_until(
    bool (*ready)(void *), void *arg, int line = __builtin_LINE(), DescribeWait *describe = nullptr);
GRIDSTRIDE_API void enter_kernel(const char *name);                // a finding unless a launch is at work
[[noreturn]] GRIDSTRIDE_API void not_launched(const char *kernel);
GRIDSTRIDE_API void returns(int line);                             // a kernel's `return`
GRIDSTRIDE_API void yield_thread();                                // let the others run
GRIDSTRIDE_API int lane();
GRIDSTRIDE_API int thread_rank();

// Load and store without a check: a struct's `=` is a function, whose accesses the detectors would check.
template <class T> GRIDSTRIDE_UNSEEN auto peek(const T *p) {
    alignas(T) char bytes[sizeof(T)];
    __builtin_memcpy(bytes, static_cast<const void *>(p), sizeof bytes);
    return *reinterpret_cast<T *>(bytes);
}
template <class T> GRIDSTRIDE_UNSEEN auto poke(T *p, const T &value) {
    __builtin_memcpy(static_cast<void *>(p), static_cast<const void *>(&value), sizeof value);
}

GRIDSTRIDE_API void copy_unseen(void *to, const void *from, size_t bytes);

// An atomic operation happens between these two; both are cheap where one OS thread runs all blocks.
GRIDSTRIDE_API void atomic_begin(const void *address, int bytes, Use, Scope, Order, int line = __builtin_LINE());
GRIDSTRIDE_API void atomic_end(const void *address);
GRIDSTRIDE_API void fence(Scope, Order = Order::seq_cst);

// Memory for what is thrown; a kernel that throws ends by it.
GRIDSTRIDE_API void *exception_alloc(size_t bytes, void *pc);

// Device memory: apart from the host's, with unmapped pages around every piece.
// host: the CPU may touch it, too
GRIDSTRIDE_API void *device_alloc(size_t bytes, size_t itemsize, bool cleared, bool host = false, int line = 0);
GRIDSTRIDE_API bool device_free(void *p);                          // false: nothing was allocated there
GRIDSTRIDE_API bool free_in_order(void *p);                        // the same, by an operation of a stream
// `malloc` and `free`; in a kernel, of the device's memory, until this kernel or a later one frees it
GRIDSTRIDE_API void *heap_alloc(size_t bytes);
GRIDSTRIDE_API void heap_free(void *p, int line = __builtin_LINE());
GRIDSTRIDE_API bool is_device(const void *p) GRIDSTRIDE_NOT_READ(1);
GRIDSTRIDE_API void device_written(void *p, size_t bytes);         // the host filled it (cudaMemcpy, cudaMemset)
GRIDSTRIDE_API bool device_range(const void *p, size_t bytes);     // is it within one piece?
GRIDSTRIDE_API void device_copy(void *to, const void *from, size_t bytes);
GRIDSTRIDE_API void device_fill(void *p, int value, size_t bytes);
GRIDSTRIDE_API void device_used(const void *p, size_t bytes, const char *now);     // "writes", by the operation at work
GRIDSTRIDE_API bool of_device_alone(const void *p);                // device memory that the host may not touch
GRIDSTRIDE_API bool is_pageable(const void *p);                    // the host's, and not page-locked
// Host code gives this to a kernel: an address in the program is not an address on the device. An integer is only
// taken for that of a function or of a table of virtual functions.
GRIDSTRIDE_API void to_device(void *p, size_t bytes, bool is_pointer);
GRIDSTRIDE_API size_t device_total();                             // bytes in use
GRIDSTRIDE_API size_t device_size();
// The host's own memory, page-locked; false: it was so already, or not
GRIDSTRIDE_API bool register_host(void *p, size_t bytes);
GRIDSTRIDE_API bool unregister_host(void *p);
GRIDSTRIDE_API void *mapped(const void *host);                     // as kernels see it; null: it is not registered
// The order of a program's operations (../../runtime/operations.cpp): what a stream is given is such an operation, as
// long as an object of this class lives, unless it is a part of another one. `waits`: the host waits for its end.
class Enqueued {
    bool mine, waits;

public:
    GRIDSTRIDE_API Enqueued(const char *name, const void *stream, int line, bool waits = false);
    GRIDSTRIDE_API ~Enqueued();
    Enqueued(const Enqueued &) = delete;
};
// All operations meanwhile belong to one stream, and the host waits for none: those of a graph, for example.
class OnStream {
    bool mine;

public:
    GRIDSTRIDE_API explicit OnStream(const void *stream);
    GRIDSTRIDE_API ~OnStream();
    OnStream(const OnStream &) = delete;
};
// blocking: ordered with the legacy default stream
GRIDSTRIDE_API void stream_created(const void *stream, bool blocking, int line);
GRIDSTRIDE_API void stream_destroyed(const void *stream);
GRIDSTRIDE_API void event_recorded(const void *event, const void *stream);
GRIDSTRIDE_API void event_destroyed(const void *event);
GRIDSTRIDE_API void stream_waits(const void *stream, const void *event);
GRIDSTRIDE_API void host_waits_for_event(const void *event);
GRIDSTRIDE_API void host_waits_for(const void *stream);
GRIDSTRIDE_API void host_waits();                                  // for all of the device
// Graphs: work by its dependencies; what a captured stream was given, in that order
enum class NodeKind { kernel, memcpy, memset, host, graph, empty, wait, record, alloc = 10, free, conditional = 13 };
struct GraphWork {
    void *work;                     // with its arguments, copied
    int (*run)(void *work);         // an error of the runtime, or 0
    void (*drop)(void *work);
};
// do the detectors look? Returns whether they did
GRIDSTRIDE_API bool enable_checks(bool on);
// What a kernel launches, which runs when its grid has ended; `last`: after all else that the grid has launched
GRIDSTRIDE_API void launch_after(const GraphWork &, bool last);
struct Graph;
struct GraphNode;
GRIDSTRIDE_API bool capturing();                                   // is any stream captured?
GRIDSTRIDE_API Graph *captured(const void *stream);                // null: this one is not
GRIDSTRIDE_API void begin_capture(const void *stream, Graph *joined = nullptr, bool origin = true);
GRIDSTRIDE_API Graph *end_capture(const void *stream);             // null: it began in another stream
GRIDSTRIDE_API void add_captured(const void *stream, NodeKind, const GraphWork &);
// What the next node of a captured stream comes after; events carry that from one stream to another.
GRIDSTRIDE_API GraphNode **last_captured(const void *stream, size_t &n);
GRIDSTRIDE_API void set_last_captured(const void *stream, GraphNode *const *nodes, size_t n, bool added);
GRIDSTRIDE_API void record_captured(const void *event, const void *stream);
GRIDSTRIDE_API void captured_waits(const void *stream, const void *event);
GRIDSTRIDE_API Graph *new_graph();
GRIDSTRIDE_API GraphNode *add_node(Graph *, NodeKind, const GraphWork &);
GRIDSTRIDE_API void set_work(GraphNode *, const GraphWork &);
GRIDSTRIDE_API bool set_edge(GraphNode *from, GraphNode *to, bool there);   // false: it is so already
GRIDSTRIDE_API GraphNode *graph_node(Graph *, size_t n);           // null: there are fewer
GRIDSTRIDE_API NodeKind node_kind(const GraphNode *);
GRIDSTRIDE_API Graph *copy_graph(Graph *);                         // in the order of its edges; null: they go round
GRIDSTRIDE_API GraphNode *node_of_copy(Graph *copy, const GraphNode *);     // null: it has none
GRIDSTRIDE_API bool update_graph(Graph *copy, Graph *);            // false: the nodes are others
GRIDSTRIDE_API int run_graph(Graph *);                             // an error of the runtime, or 0
GRIDSTRIDE_API void release_graph(Graph *);
// Memory that nodes of graphs ask for stays where it is, for the next launch.
GRIDSTRIDE_API void *graph_alloc(size_t bytes, int line);
// Thrust's: the host may use the piece from now on; may this thread of the host touch any? Returns whether it could
GRIDSTRIDE_API void share_with_host(const void *p);
GRIDSTRIDE_API bool touch_device(bool on);
GRIDSTRIDE_API void device_reset();                                // cudaDeviceReset: forgets every piece
// The caller's memory becomes device memory until `give_back`, which copies it out again; `fresh`: it is
// uninitialized.
GRIDSTRIDE_API void *adopt(void *host, size_t bytes, size_t itemsize, bool fresh = false);
GRIDSTRIDE_API void give_back();
// Variables of the device. kind: 'd', 'c' or 'm'; slot: the pointer that its name in the source leads by
GRIDSTRIDE_API void *symbol_alloc(
    const void *init, size_t bytes, size_t itemsize, const char *name, char kind, void **slot);
// its device address, given what its name stands for in host code or in a kernel; null: that is not a variable
// of the device
GRIDSTRIDE_API char *symbol_at(const void *named, size_t &bytes) GRIDSTRIDE_NOT_READ(1);
GRIDSTRIDE_API char *symbol_address(const void *named) GRIDSTRIDE_NOT_READ(1);     // which the host keeps

// Shared memory of the block at work.
// said: the declaration asks for that alignment
struct Shape { size_t bytes, itemsize; int rank; size_t dims[4], alignment = 16; bool said = true; };
GRIDSTRIDE_API int shared_site();                                  // a number for a declaration
GRIDSTRIDE_API void *shared_alloc(int site, const char *name, const Shape &);
GRIDSTRIDE_API void *shared_at_file_scope(const char *name, const Shape &);
GRIDSTRIDE_API void *shared_dynamic(const char *name, const Shape &);

// Shared memory as PTX addresses it: by 32 bits, from `shared_window` on.
constexpr uint32_t shared_window = 1024;
GRIDSTRIDE_API uint32_t shared_address(const void *p);             // 0, where nothing is stored, for what is not shared
// a finding if it is not there or not aligned to `bytes`
GRIDSTRIDE_API char *shared_at(uint32_t address, unsigned bytes, const char *what, int line);
GRIDSTRIDE_API void must_be_aligned(const void *p, unsigned bytes, const char *what, int line);
// an access that the compiler does not instrument
GRIDSTRIDE_API void accessed(const void *p, unsigned bytes, bool write, int line);
// memmove and memset, called from `pc`
GRIDSTRIDE_API void *copy_memory(void *to, const void *from, size_t bytes, void *pc);
GRIDSTRIDE_API void *fill_memory(void *to, int value, size_t bytes, void *pc);

// cp.async: copies `read` of the `bytes`, clears the rest. Until the thread has waited for it no thread may access
// what it writes.
GRIDSTRIDE_API void copy_async(void *to, const void *from, unsigned bytes, unsigned read, const char *what, int line);
GRIDSTRIDE_API void copy_async_commit();
// until at most so many of the thread's groups are in flight
GRIDSTRIDE_API void copy_async_wait(unsigned groups);
GRIDSTRIDE_API void copy_async_wait_all();

// Clusters: blocks that run at the same time and reach each other's shared memory. Block r of the cluster has its own
// at (r + 1) * block_window, too.
constexpr uint32_t block_window = 1u << 20;
// the kernel's __cluster_dims__: the launch begins again if it is another one
GRIDSTRIDE_API void in_clusters_of(dim3 blocks);
// the kernel's __launch_bounds__: no launch has more threads in a block
GRIDSTRIDE_API void bounded_to(unsigned threads);
GRIDSTRIDE_API void grid_sync(int line);
GRIDSTRIDE_API bool is_cooperative();
GRIDSTRIDE_API uint32_t cluster_rank();
GRIDSTRIDE_API uint3 cluster_index();
GRIDSTRIDE_API uint32_t cluster_blocks();
GRIDSTRIDE_API dim3 cluster_shape();
// mapa: the address of the same variable in another block
GRIDSTRIDE_API uint32_t map_shared(uint32_t address, uint32_t rank, int line);
GRIDSTRIDE_API void cluster_arrive(int line);
GRIDSTRIDE_API void cluster_wait(int line);
// bar.sync and bar.arrive with a number of threads. Number 0 with all of them is sync_block().
GRIDSTRIDE_API void named_barrier(uint32_t number, uint32_t threads, bool waits, int line);

// mbarriers, in shared memory. A phase ends when all its arrivals and all its bytes have come.
GRIDSTRIDE_API void mbarrier_init(uint32_t at, uint32_t count, int line);
GRIDSTRIDE_API void mbarrier_invalidate(uint32_t at, int line);
GRIDSTRIDE_API void mbarrier_expect(uint32_t at, uint32_t bytes, int line);
GRIDSTRIDE_API uint64_t mbarrier_arrive(uint32_t at, uint32_t count, int line);                 // the phase, as a token
// arrives, and is not expected again
GRIDSTRIDE_API void mbarrier_drop(uint32_t at, int line);
// is the phase of that parity over?
GRIDSTRIDE_API bool mbarrier_over(uint32_t at, uint32_t parity, bool waits, int line);
// waits, but not the first time
GRIDSTRIDE_API bool mbarrier_try(uint32_t at, uint32_t parity, int line);
GRIDSTRIDE_API void fence_mbarrier_init();
GRIDSTRIDE_API void fence_proxy_async();

// What cuTensorMapEncodeTiled makes on a GPU, in another form; innermost axis first, steps in bytes.
struct alignas(64) TensorMap {
    char mark[8];
    char *base;
    int32_t rank, itemsize, swizzle, unused, sizes[5], box[5];
    int64_t steps[5];
};
inline bool is_tensor_map(const TensorMap &map) { return !__builtin_memcmp(map.mark, "gs tmap", sizeof map.mark); }
// Bulk copies: `blocks` has a bit per block of the cluster that gets the box; 0: the block of the calling thread.
GRIDSTRIDE_API void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar, uint32_t blocks, int line);
// st.async: to shared memory of a block of the cluster, whose mbarrier at `bar` counts the bytes
GRIDSTRIDE_API void store_async(uint32_t to, const void *from, uint32_t bytes, uint32_t bar, int line);
GRIDSTRIDE_API void bulk_store(void *to, uint32_t from, uint32_t bytes, int line);
GRIDSTRIDE_API void tensor_load(
    uint32_t to, const void *map, const int32_t *at, int rank, uint32_t bar, uint32_t blocks, int line);
GRIDSTRIDE_API void tensor_store(const void *map, const int32_t *at, int rank, uint32_t from, int line);
GRIDSTRIDE_API void bulk_commit();
GRIDSTRIDE_API void bulk_wait(uint32_t groups);

// Metadata of a 2:4 sparse operand: a lane's word has four groups of 4 bits per row, for two rows, and each has the
// indices of the two elements, of four, that are kept. Indices that PTX does not allow are a finding; without checks
// each element is multiplied at its index, as an H100 does. `halves`: odd lanes have the columns from 16 on.
inline int kept_by(uint32_t word, int row, int group, int which) {
    return int(word >> (row * 16 + group * 4 + which * 2) & 3);
}
GRIDSTRIDE_API void check_metadata(const char *operation, uint32_t word, bool halves, bool ordered, int line);

// wgmma: d (64 x n) = a (64 x k) @ b (k x n), plus d if `more`. What a thread holds of d is nothing until it has
// waited.
enum class Number { bf16, f16, tf32, e4m3, s8 };
struct Wgmma {
    Number type;
    int n;
    uint64_t a, b;                     // descriptors
    const uint32_t *a_registers;       // instead of `a`, or null
    bool more;
    int a_sign, b_sign;
    bool a_transposed, b_transposed;           // along h or w, not along k
    float *const *to, *const *now;     // n/2 elements of d, and the copies that are written to them after this call
    const uint32_t *meta;              // of a 2:4 sparse `a`, k is then twice as much; or null
    int selector;
};
GRIDSTRIDE_API void wgmma_fence();
GRIDSTRIDE_API void wgmma(const Wgmma &, int line);
GRIDSTRIDE_API void wgmma_commit();
GRIDSTRIDE_API void wgmma_wait(uint32_t groups, int line);

struct Names {                       // of a kernel's parameters, separated by commas
    const char *kernel, *parameters;
    GRIDSTRIDE_API Names(const char *kernel, const char *parameters);
};

struct PlainVariables {              // of the device, in this library, are variables of C++, too
    GRIDSTRIDE_API PlainVariables();
};

struct Arg {                         // an argument of a launch
    const void *pointer;             // null if it is not one
    size_t itemsize;
    bool without_address = false;    // can neither it nor an element that it points to contain an address?
};

struct Config {                      // what is between <<< and >>>, and other attributes of a launch
    dim3 grid, block;
    size_t shared;
    void *stream;
    dim3 cluster;
    int cooperative;
    Config(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr, dim3 cluster = dim3(1, 1, 1),
        int cooperative = 0)
        : grid(grid), block(block), shared(shared), stream(stream), cluster(cluster), cooperative(cooperative) {}
};
// A kernel and its arguments as one object, whose type a source alone knows
struct CallType {
    size_t bytes, alignment;
    void (*thread)(void *call);                    // runs one thread of the kernel
    void (*copy)(void *to, const void *call);      // null: its bytes are copied
    void (*drop)(void *call);
    bool (*begin)();                               // before all that, in the OS thread that launches
};
struct Call {
    const CallType *type;
    void *object;
    const char *kernel;
    int line;
    const Arg *args;
    int nargs;
};
// Now, or, from a captured stream or from a kernel, later: with copies of what it is given
GRIDSTRIDE_API void launch(const Config &, const Call &);

struct Launch {
    dim3 grid, block;
    size_t shared;
    void *stream;
    dim3 cluster;                    // unless the kernel says it
    const char *kernel;
    int line;
    void (*thread)(void *);          // runs one thread of the kernel
    void *call;
    const Arg *args;
    int nargs;
    int cooperative = 0;             // 2: if it fits
    uintptr_t given = 0, given_end = 0;        // where the host keeps the arguments
};
GRIDSTRIDE_API bool make_worker();                                 // what runs the launches of this OS thread
GRIDSTRIDE_API void run(const Launch &);
// blocks that fit on one multiprocessor, as far as threads and bytes of shared memory say
GRIDSTRIDE_API int blocks_of_sm(int threads, size_t shared);
GRIDSTRIDE_API size_t &max_dynamic_of(const char *kernel);         // cudaFuncSetAttribute's value; 48 KB before it

GRIDSTRIDE_API bool on_device();
GRIDSTRIDE_API void wait_for_device();                             // a finding in a kernel
GRIDSTRIDE_API int set_error(int code);                            // remembers it for cudaGetLastError, returns it
GRIDSTRIDE_API int last_error(bool clear);
// was the last launch impossible? The finding has the reason
GRIDSTRIDE_API bool refused();
[[noreturn]] GRIDSTRIDE_API void assert_failed(const char *expression, const char *file, int line);
// A crash that the kernel calls for; a phrase says by what.
[[noreturn]] GRIDSTRIDE_API void trap(Code);
[[noreturn]] GRIDSTRIDE_API void local_overrun(void *pc);   // arrays of a function have been written past their end
// An index of `rank` dimensions is out of bounds for an array with these sizes; `access`: "read" or "write".
[[noreturn]] GRIDSTRIDE_API void index_outside(
    const char *access, const char *array, const long long *index, const long long *sizes, int rank, int line);
[[noreturn]] GRIDSTRIDE_API void leave(int code);                  // exit()
[[noreturn]] GRIDSTRIDE_API void not_emulated(const char *function);
// before a call of a host function in code for both sides: device code that gets there is a finding
GRIDSTRIDE_API void only_on_host(const char *function, int line = __builtin_LINE());
// an algorithm of Thrust whose policy is for the other side's memory
[[noreturn]] GRIDSTRIDE_API void wrong_policy(const char *algorithm, bool device);
// may host code use the memory that `p`, an address of the device, leads to?
GRIDSTRIDE_API bool is_shared_with_host(const void *p) GRIDSTRIDE_NOT_READ(1);
GRIDSTRIDE_API int print(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A finding ends a launch by this exception in host code; `finding()` has what was found.
struct GRIDSTRIDE_API Stop {};
// Runs `f(arg)` so that a crash ends in a finding, not in the end of the process. False: see `finding()`. `code`: a
// function of the host code that it calls, which Ctrl-C ends.
GRIDSTRIDE_API bool guarded(void (*f)(void *), void *arg, const void *code = nullptr);
// Who calls Python is not ended by Ctrl-C meanwhile.
GRIDSTRIDE_API void in_python(bool on);
}

extern "C" {
// of the last call; its kind is `nothing` if all was well
GRIDSTRIDE_API gridstride::Finding *gridstride_finding();
GRIDSTRIDE_API const gridstride::Abi *gridstride_abi();
// every code, a line each: its kind, a blank, its name
GRIDSTRIDE_API const char *gridstride_codes();
// called when threads write the same value to one address
GRIDSTRIDE_API void gridstride_warn_to(void (*)(const gridstride::Finding *));
// checks: bits 1 << Kind; order: 0 forward, 1 reverse, 2 shuffle
// memory: bytes of the device; 0: as many as this machine has to give
struct gridstride_options { int checks, order, seed, threads; double seconds; long long memory; };
GRIDSTRIDE_API void gridstride_set(const gridstride_options *);
// What was allocated and is not yet freed, the n-th of it; false: there is no more
struct gridstride_leak {
    size_t bytes;
    int line; // of the call; 0: not known
};
GRIDSTRIDE_API bool gridstride_left(int n, gridstride_leak *);
// of a fresh piece, after a checked launch: which of its bytes the kernel has written
GRIDSTRIDE_API void gridstride_written(const void *p, size_t n, unsigned char *out);
GRIDSTRIDE_API void gridstride_print_to(void (*sink)(const char *, size_t));       // where printf goes; null: stdout
// Unload a module, a handle of dlopen(): 0: it is gone; 1: it stays, as something may lead into it; 2: not now
GRIDSTRIDE_API int gridstride_unload(void *handle);
// Load a module in a child process, whose id is in *child, -1 for none; returns a pipe to which that writes its
// `Finding`, or -1
GRIDSTRIDE_API int gridstride_try_load(const char *path, int *child);
}
