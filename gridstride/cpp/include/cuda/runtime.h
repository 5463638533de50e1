// The interface of the emulator's runtime (../../runtime, a shared library) for the headers and for Python. The threads
// of a block are fibers of one OS thread; blocks may run on several OS threads.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "finding.h"
#include "vector_types.h"

typedef struct GridstrideStream *cudaStream_t;

#define GRIDSTRIDE_NOINLINE __attribute__((noinline))
#define GRIDSTRIDE_NO_TSAN __attribute__((no_sanitize("thread")))   // a function whose accesses are not instrumented
#define GRIDSTRIDE_API __attribute__((visibility("default")))
#ifdef __clang__
#define GRIDSTRIDE_NOT_READ(n)
#else
#define GRIDSTRIDE_NOT_READ(n) __attribute__((access(none, n)))     // uses an address, without reading it
#endif

// The built-in variables, which the scheduler sets at each switch to a thread. The TLS model initial-exec makes each
// read a load; otherwise it would be a call.
#define GRIDSTRIDE_BUILTIN extern GRIDSTRIDE_API __attribute__((tls_model("initial-exec"))) __thread
// In a kernel, the indices are constants of its thread. In a checked build with g++ they are declared as constants,
// because g++ instruments no reads of these; ThreadIndexScope (thrust/iterators.h) sets them by another name.
#if defined GRIDSTRIDE_CHECKED && !defined __clang__ && !defined __APPLE__
GRIDSTRIDE_BUILTIN const uint3 threadIdx, blockIdx;
GRIDSTRIDE_BUILTIN uint3 gs_thread_idx __asm__("threadIdx"), gs_block_idx __asm__("blockIdx");
#else
GRIDSTRIDE_BUILTIN uint3 threadIdx, blockIdx;
#define gs_thread_idx threadIdx
#define gs_block_idx blockIdx
#endif
GRIDSTRIDE_BUILTIN dim3 blockDim, gridDim;
#undef GRIDSTRIDE_BUILTIN
static constexpr int warpSize = 32;

// returns the number of arguments in device code, as on a GPU
GRIDSTRIDE_API int gridstride_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

namespace gridstride {

enum class Scope { thread, block, device, system };
enum class Order { relaxed, acquire, release, acq_rel, seq_cst };
enum class Use { load, store, modify, swap };     // swap: compare-and-swap

// Collectives: the calling thread waits for the others.
GRIDSTRIDE_API void sync_block(int line = __builtin_LINE());
// Returns the number of threads with a nonzero predicate.
GRIDSTRIDE_API int sync_block_count(int predicate, int line = __builtin_LINE());
GRIDSTRIDE_API void sync_warp(unsigned mask = ~0u, int line = __builtin_LINE());
// Exchanges `bytes` (at most 16) at `value` among the lanes in `mask`; `slots` receives the address of 32 slots of 16
// bytes, valid until the next collective of this lane. Returns the lanes that took part.
GRIDSTRIDE_API unsigned warp_exchange(
    unsigned mask, const void *value, int bytes, const void *&slots, int line = __builtin_LINE());
// the offset, after the slots, of the mask of lanes with an undefined value
constexpr size_t undefined_lanes = 32 * 16;
// Returns the byte that fills the result of a shuffle from `lane`, if that lane is inactive or has an undefined value;
// otherwise -1.
GRIDSTRIDE_API int undefined_byte(int lane, int line);
// Records that the result of a collective on this line is undefined in the current thread; `owner_phrase` names the
// thread that receives the result.
GRIDSTRIDE_API void undefined_result(Code owner_phrase, int line);
constexpr uint32_t undefined_nan = 0x7fd1c0de;
constexpr uint64_t undefined_nan_of_double = 0x7ffa381bc0000000;
// Executes an operation of a warp: each lane passes a pointer, and the lane that arrives last calls `f` with all 32
// pointers before any lane continues.
GRIDSTRIDE_API void run_for_warp(const char *operation, void *arg, void (*f)(void *const *), int line);
GRIDSTRIDE_API unsigned active_mask(int line = __builtin_LINE());   // returns the lanes that wait at this line
GRIDSTRIDE_API void wait_until(
    bool (*ready)(void *), void *arg, int line = __builtin_LINE(), DescribeWait *describe = nullptr);
GRIDSTRIDE_API void enter_kernel(const char *name);                // reports a call outside a launch
[[noreturn]] GRIDSTRIDE_API void not_launched(const char *kernel);
GRIDSTRIDE_API void record_return(int line);                            // a kernel's `return`
GRIDSTRIDE_API void record_branch(const char *file, int line, int column, bool is_taken);
// Returns `is_taken`, the value of a condition; `column` distinguishes the conditions of a line.
constexpr bool took_branch(const char *file, int line, int column, bool is_taken) {
    if (!__builtin_is_constant_evaluated()) record_branch(file, line, column, is_taken);
    return is_taken;
}
GRIDSTRIDE_API void yield_thread();                                // lets other threads run
// Records that a thread reads a clock: its waits may have a time limit.
GRIDSTRIDE_API void record_clock_read();
GRIDSTRIDE_API int lane();
GRIDSTRIDE_API int thread_rank();

// Load and store without checks; the assignment operator of a struct would be instrumented.
template <class T> GRIDSTRIDE_NO_TSAN auto load_unchecked(const T *p) {
    alignas(T) char bytes[sizeof(T)];
    __builtin_memcpy(bytes, static_cast<const void *>(p), sizeof bytes);
    return *reinterpret_cast<T *>(bytes);
}
template <class T> GRIDSTRIDE_NO_TSAN auto store_unchecked(T *p, const T &value) {
    __builtin_memcpy(static_cast<void *>(p), static_cast<const void *>(&value), sizeof value);
}

GRIDSTRIDE_API void copy_unchecked(void *to, const void *from, size_t bytes);

// An atomic operation is executed between these two calls, which are cheap if one OS thread runs all blocks.
GRIDSTRIDE_API void atomic_begin(const void *address, int bytes, Use, Scope, Order, int line = __builtin_LINE());
GRIDSTRIDE_API void atomic_end(const void *address);
GRIDSTRIDE_API void fence(Scope, Order = Order::seq_cst);

// allocates an exception; reports a `throw` in a kernel
GRIDSTRIDE_API void *exception_alloc(size_t bytes, void *pc);

// Device memory, with unmapped pages around every allocation; `host`: the CPU may access it, too
GRIDSTRIDE_API void *device_alloc(size_t bytes, size_t itemsize, bool is_cleared, bool is_host = false, int line = 0);
GRIDSTRIDE_API bool device_free(void *p);                          // returns false if `p` is not an allocation
GRIDSTRIDE_API bool free_in_order(void *p);                        // device_free as an operation of a stream
// malloc and free; in a kernel, they allocate device memory
GRIDSTRIDE_API void *heap_alloc(size_t bytes);
GRIDSTRIDE_API void heap_free(void *p, int line = __builtin_LINE());
GRIDSTRIDE_API bool is_device(const void *p) GRIDSTRIDE_NOT_READ(1);
// records that the host initialized these bytes (cudaMemcpy, cudaMemset)
GRIDSTRIDE_API void mark_initialized(void *p, size_t bytes);
GRIDSTRIDE_API bool is_in_allocation(const void *p, size_t bytes);     // whether one allocation contains the range
GRIDSTRIDE_API void device_copy(void *to, const void *from, size_t bytes);
GRIDSTRIDE_API void device_fill(void *p, int value, size_t bytes);
// records that the current operation accesses these bytes; `access`: "reads" or "writes"
GRIDSTRIDE_API void record_device_use(const void *p, size_t bytes, const char *access);
// whether `p` is device memory that the host may not access
GRIDSTRIDE_API bool is_device_only(const void *p);
GRIDSTRIDE_API bool is_pageable(const void *p);                    // whether `p` is host memory that is not page-locked
// Translates the host addresses in an argument of a kernel to invalid ones. A word that may be an integer is translated
// only if it is the address of a function or a vtable.
GRIDSTRIDE_API void hide_host_addresses(void *p, size_t bytes, bool is_pointer);
GRIDSTRIDE_API size_t device_total();                             // bytes in use
GRIDSTRIDE_API size_t device_size();
// Page-locks host memory, or unlocks it; returns false if nothing changes
GRIDSTRIDE_API bool register_host(void *p, size_t bytes);
GRIDSTRIDE_API bool unregister_host(void *p);
GRIDSTRIDE_API void *device_address_of(const void *host); // null if the host memory is not page-locked
// An operation of a stream (../../runtime/operations.cpp) that lasts as long as this object. Inside another operation
// it has no effect. `waits`: whether the host waits for the operation
class StreamOperation {
    bool is_outermost, waits;

public:
    GRIDSTRIDE_API StreamOperation(const char *name, const void *stream, int line, bool waits = false);
    GRIDSTRIDE_API ~StreamOperation();
    StreamOperation(const StreamOperation &) = delete;
};
// The current operation calls a function of the host, by which other threads learn that the operations before it have
// finished
GRIDSTRIDE_API void signal_host_threads();
// Modules of the driver API, whose images `gridstride nvcc -fatbin` writes
struct Config;
struct ParameterLayout { size_t bytes, alignment; };   // bytes: 0 after the last parameter
struct ModuleKernel {
    const char *name;                  // null after the last kernel
    void (*launch)(const Config &, const char *name, int line, void **args);
    const ParameterLayout *parameters;
};
struct LoadedModule;
GRIDSTRIDE_API LoadedModule *load_module(const void *image);      // null if it is not such an image
GRIDSTRIDE_API size_t size_of_module(const void *image);           // in bytes; 0 if it is not such an image
GRIDSTRIDE_API const ModuleKernel *find_kernel(const LoadedModule *, const char *name);   // null if there is none
GRIDSTRIDE_API void *find_variable(const LoadedModule *, const char *name, size_t *bytes);
// While this object exists, all operations belong to one stream, as those of a graph do, and the host waits for none.
class StreamScope {
    bool is_outermost;

public:
    GRIDSTRIDE_API explicit StreamScope(const void *stream);
    GRIDSTRIDE_API ~StreamScope();
    StreamScope(const StreamScope &) = delete;
};
// blocking: ordered with the legacy default stream
GRIDSTRIDE_API void register_stream(const void *stream, bool blocking, int line);
GRIDSTRIDE_API void unregister_stream(const void *stream);
GRIDSTRIDE_API int process_id();
GRIDSTRIDE_API void record_event(const void *event, const void *stream);
GRIDSTRIDE_API void discard_event(const void *event);
GRIDSTRIDE_API void stream_waits_for_event(const void *stream, const void *event);
GRIDSTRIDE_API void host_waits_for_event(const void *event);
GRIDSTRIDE_API void host_waits_for(const void *stream);
GRIDSTRIDE_API void host_waits();                                  // waits for all devices
GRIDSTRIDE_API void host_waits_for_device(int device);
// The devices, with indices from 0. With several of them, launches and copies are queued until the host waits.
GRIDSTRIDE_API int device_count();
GRIDSTRIDE_API int current_device();
GRIDSTRIDE_API bool choose_device(int device);                     // returns false if there is no such device
GRIDSTRIDE_API bool is_device_index(int device);
// for the current device; returns false if nothing changes
GRIDSTRIDE_API bool set_peer_access(int peer, bool enabled);
GRIDSTRIDE_API int device_of(const void *p) GRIDSTRIDE_NOT_READ(1);    // -1: it is not device memory
GRIDSTRIDE_API int device_of_stream(const void *stream);
// Allocates cleared memory on each device, which all devices may access; returns the address on the current device.
GRIDSTRIDE_API void *symmetric_alloc(size_t bytes, size_t itemsize, const char *name, int line);
GRIDSTRIDE_API bool symmetric_free(void *p);                       // frees the memory of one device
GRIDSTRIDE_API void *symmetric_peer(const void *p, int device);    // the corresponding address on a device; null: none
// Returns the multicast address for `multimem`, of the same element on all devices; null if `p` is not symmetric.
GRIDSTRIDE_API void *multicast_address(const void *p);
GRIDSTRIDE_API int multicast_replicas(const void *address, void *(&replicas)[8]);   // returns their number
// Graphs: work with dependencies; a captured stream adds a chain of nodes
enum class NodeKind { kernel, memcpy, memset, host, graph, empty, wait, record, alloc = 10, free, conditional = 13 };
struct DeferredWork {
    void *callable;                 // with copies of its arguments
    int (*run)(void *callable);     // an error of the runtime, or 0
    void (*destroy)(void *callable);
    bool queues_itself = false;     // if there is a queue, it adds operations to it: a launch, or a call that launches
};
// Ranks: host threads or processes that exchange data through a bootstrap (../../runtime/ranks.cpp)
constexpr int max_ranks = 8;
struct FileHandle { uint64_t nonce; int process, fd; };    // an anonymous file that a process has open
struct MemoryHandle {                  // device memory that other processes may open
    FileHandle file;
    uintptr_t address;                 // in the process that has allocated it
    size_t bytes;
    uint32_t itemsize;
    int device;
};
struct Bootstrap;
struct ExchangeCall { int kind, type, op, root; size_t count; int line; char text[64]; };     // text: for messages
struct RankExchange {
    Bootstrap *bootstrap = nullptr;
    int channel = 0, slot = 0;         // channel 0: collectives; slot: the rank, or 0 for a sender and 1 for a receiver
    uint32_t sequence_number = 0;      // counted from 1 in its channel
    bool is_awaited = false;           // whether the work needs the data of all ranks, or publishes that of one
};
constexpr int channel_of_messages(int sender, int receiver) { return 1 + sender * max_ranks + receiver; }
GRIDSTRIDE_API bool create_bootstrap(FileHandle &);
// Returns null if the bootstrap's process has ended, the rank or the device is taken, or the number of ranks differs.
GRIDSTRIDE_API Bootstrap *join_bootstrap(const FileHandle &, int rank, int ranks, int device);
GRIDSTRIDE_API void wait_for_ranks(Bootstrap *, const char *call, int rank, int line);     // until all have joined
GRIDSTRIDE_API void leave_bootstrap(Bootstrap *, int rank);
GRIDSTRIDE_API void close_bootstrap(Bootstrap *);                          // each rank that has joined calls it once
// Sets the number of an exchange. Returns false if the call of another rank differs; then it has stored a finding.
GRIDSTRIDE_API bool announce(RankExchange &, const ExchangeCall &);
GRIDSTRIDE_API uint32_t count_outstanding(const RankExchange &);      // announced by this rank, but not finished
GRIDSTRIDE_API bool is_announced_by_all(const RankExchange &);
GRIDSTRIDE_API void publish(const RankExchange &, const void *data, size_t bytes);
GRIDSTRIDE_API void wait_for_exchange(const RankExchange &);          // until all ranks have published
GRIDSTRIDE_API void read_published(const RankExchange &, int slot, size_t offset, void *to, size_t bytes);
GRIDSTRIDE_API void finish(const RankExchange &);
// Orders the current operation, which receives the data of an exchange, and the later ones of its stream after the
// operations of this process that have published it.
GRIDSTRIDE_API void order_after_published(const RankExchange &);
// Reports that a host thread has called for one rank, and then calls for another one.
[[noreturn]] GRIDSTRIDE_API void report_missing_group(const RankExchange &, int other_rank);
GRIDSTRIDE_API void end_if_stopped();   // ends the host code after a finding
GRIDSTRIDE_API bool share_memory(const void *p, MemoryHandle &);  // of the allocation that contains `p`
GRIDSTRIDE_API void *open_shared(const MemoryHandle &);           // null: its process has ended, or freed it
GRIDSTRIDE_API bool close_shared(void *p);
// Pools of memory that processes share: a file descriptor contains the ID of the pool.
GRIDSTRIDE_API uint64_t new_pool_id();
GRIDSTRIDE_API int export_pool(uint64_t id);           // the descriptor; < 0: error
GRIDSTRIDE_API uint64_t import_pool(int descriptor);   // 0: error
GRIDSTRIDE_API void set_pool(const void *p, uint64_t id);
GRIDSTRIDE_API uint64_t pool_of(const void *p);        // 0: none
// The world of NVSHMEM: the processes that share symmetric memory. Without it, each device is a processing element.
GRIDSTRIDE_API bool join_world(const FileHandle &, int rank, int ranks, int line);
GRIDSTRIDE_API bool is_in_world();
GRIDSTRIDE_API void leave_world();
GRIDSTRIDE_API int my_element();
GRIDSTRIDE_API int num_elements();
GRIDSTRIDE_API void synchronize_world(const char *call, int line);
// Queues work of a stream, which the caller must then not run; returns false if operations are not queued. The work
// runs when the exchange that it awaits, if any, has been published by all ranks.
GRIDSTRIDE_API bool queue_work(const void *stream, const DeferredWork &, const RankExchange & = {});
GRIDSTRIDE_API bool is_queueing();
GRIDSTRIDE_API void run_queued_operations();           // even while a graph is launched
GRIDSTRIDE_API bool defers_queue();  // whether the end of a call from Python leaves its operations in the queue
// enables or disables the detectors; returns whether they were enabled
GRIDSTRIDE_API bool enable_checks(bool on);
// Launches from a kernel, which run after its grid; `is_tail`: after all other launches of the grid
GRIDSTRIDE_API void launch_after_grid(const DeferredWork &, bool is_tail);
struct Graph;
struct GraphNode;
GRIDSTRIDE_API bool is_any_stream_captured();
GRIDSTRIDE_API Graph *capture_graph(const void *stream);           // null: the stream is not captured
GRIDSTRIDE_API void begin_capture(const void *stream, Graph *joined_graph = nullptr, bool is_origin = true);
GRIDSTRIDE_API Graph *end_capture(const void *stream);             // null: the capture began in another stream
GRIDSTRIDE_API void abandon_capture(const void *stream);
GRIDSTRIDE_API bool is_graph_captured(const Graph *);              // whether a capture adds nodes to it
GRIDSTRIDE_API void add_captured_node(const void *stream, NodeKind, const DeferredWork &);
// The dependencies of the next node of a captured stream; events pass them from one stream to another.
GRIDSTRIDE_API GraphNode **capture_dependencies(const void *stream, size_t &n);
GRIDSTRIDE_API void set_capture_dependencies(const void *stream, GraphNode *const *nodes, size_t n, bool keep_existing);
GRIDSTRIDE_API void record_capture_event(const void *event, const void *stream);
GRIDSTRIDE_API void capture_waits_for_event(const void *stream, const void *event);
GRIDSTRIDE_API Graph *new_graph();
GRIDSTRIDE_API GraphNode *add_node(Graph *, NodeKind, const DeferredWork &);
GRIDSTRIDE_API void set_work(GraphNode *, const DeferredWork &);
// adds or removes an edge; returns false if nothing changes
GRIDSTRIDE_API bool set_edge(GraphNode *from, GraphNode *to, bool add);
GRIDSTRIDE_API GraphNode *graph_node(Graph *, size_t n);           // null: out of range
GRIDSTRIDE_API NodeKind node_kind(const GraphNode *);
GRIDSTRIDE_API Graph *copy_graph(Graph *);                         // in topological order; null: there is a cycle
GRIDSTRIDE_API GraphNode *node_of_copy(Graph *copy, const GraphNode *);     // null: the copy does not have the node
GRIDSTRIDE_API bool update_graph(Graph *copy, Graph *);            // returns false if their nodes differ
// Both return an error of the runtime, or 0. With several devices, `launch_graph` adds the nodes to the queue, so that
// those of several devices run together.
GRIDSTRIDE_API int launch_graph(Graph *, const void *stream);
GRIDSTRIDE_API int run_graph(Graph *);
GRIDSTRIDE_API void release_graph(Graph *);
// An allocation node of a graph has the same address at each launch.
GRIDSTRIDE_API void *graph_alloc(size_t bytes, int line);
// For Thrust: allows the host to access an allocation from now on.
GRIDSTRIDE_API void share_with_host(const void *p);
// Sets whether host code of this OS thread may access all device memory; returns the previous state.
GRIDSTRIDE_API bool allow_device_access(bool on);
GRIDSTRIDE_API void device_reset();                                // cudaDeviceReset: frees all allocations
// Copies a host array to device memory; `copy_out_host_arrays` copies all such arrays back.
GRIDSTRIDE_API void *copy_in_host_array(void *host, size_t bytes, size_t itemsize, bool is_uninitialized = false);
GRIDSTRIDE_API void copy_out_host_arrays();
// Device variables. kind: 'd', 'c' or 'm' for __device__, __constant__, __managed__; slot: the pointer that implements
// the variable's reference
GRIDSTRIDE_API void *symbol_alloc(
    const void *init, size_t bytes, size_t itemsize, const char *name, char kind, void **slot);
// Returns the device address of a variable, given its address in host code or in a kernel; null if it is not a device
// variable.
GRIDSTRIDE_API char *symbol_at(const void *symbol, size_t &bytes) GRIDSTRIDE_NOT_READ(1);
GRIDSTRIDE_API char *symbol_address(const void *symbol) GRIDSTRIDE_NOT_READ(1);     // for cudaGetSymbolAddress

// The shape of an array in shared memory; `has_alignment`: whether its declaration specifies an alignment
struct Shape { size_t bytes, itemsize; int rank; size_t dims[4], alignment = 16; bool has_alignment = true; };
GRIDSTRIDE_API int shared_site();                                  // returns an index for a declaration
// `site`: the address of the index, so that the instrumented caller does not read it
GRIDSTRIDE_API void *shared_alloc(const int *site, const char *name, const Shape &) GRIDSTRIDE_NOT_READ(1);
GRIDSTRIDE_API void *shared_at_file_scope(const char *name, const Shape &);
GRIDSTRIDE_API void *shared_dynamic(const char *name, const Shape &);

// A line of inline PTX carries a hash of its file's name: an access by PTX is recorded without a code address.
constexpr int line_bits = 17;
constexpr int plain_line(int line) { return line & ((1 << line_bits) - 1); }
constexpr int name_hash(const char *path) {   // hashes the name after the last slash to 1 to 127
    unsigned hash = 0;
    for (; *path; path++) hash = *path == '/' ? 0 : (hash * 31 + static_cast<unsigned char>(*path)) % 127;
    return int(hash) + 1;
}
constexpr int source_line(int line, const char *path) {
    return line >> line_bits ? 0 : line | name_hash(path) << line_bits;
}
#define GS_LINE (::std::integral_constant<int, ::gridstride::source_line(__LINE__, __FILE__)>::value)

// PTX addresses shared memory with 32 bits, from `shared_window` on.
constexpr uint32_t shared_window = 1024;
GRIDSTRIDE_API uint32_t shared_address(const void *p);             // 0 if the address is not in shared memory
// Converts a 32-bit address; reports an invalid address, and one that is not aligned to `bytes`.
GRIDSTRIDE_API char *shared_pointer(uint32_t address, unsigned bytes, const char *operation, int line);
GRIDSTRIDE_API void must_be_aligned(const void *p, unsigned bytes, const char *operation, int line);
// Passes an access that the compiler does not instrument to the detectors.
GRIDSTRIDE_API void report_access(const void *p, unsigned bytes, bool write, int line);
// memmove and memset, called from `pc`
GRIDSTRIDE_API void *copy_memory(void *to, const void *from, size_t bytes, void *pc);
GRIDSTRIDE_API void *fill_memory(void *to, int value, size_t bytes, void *pc);

// cp.async: copies the first `num_read` of `bytes` bytes, and clears the others. No thread may access the destination
// before the copying thread has waited.
GRIDSTRIDE_API void copy_async(
    void *to, const void *from, unsigned bytes, unsigned num_read, const char *operation, int line);
GRIDSTRIDE_API void copy_async_commit();
// waits until at most `groups` groups of the thread are in flight
GRIDSTRIDE_API void copy_async_wait(unsigned groups);
GRIDSTRIDE_API void copy_async_wait_all();

// Clusters: blocks that run concurrently and can access each other's shared memory. The shared memory of block r of
// the cluster has addresses from r * block_window on.
constexpr uint32_t block_window = 1u << 24;
// __cluster_dims__: repeats the launch if its clusters have another shape
GRIDSTRIDE_API void require_cluster_shape(dim3 blocks);
// __launch_bounds__: reports a launch with more threads per block; `blocks`: the minimum per SM
GRIDSTRIDE_API void check_launch_bounds(unsigned threads, unsigned blocks = 1);
// setmaxnreg.inc and setmaxnreg.dec
GRIDSTRIDE_API void set_registers(bool increases, unsigned registers, int line);
GRIDSTRIDE_API void grid_sync(int line);
GRIDSTRIDE_API bool is_cooperative();
GRIDSTRIDE_API uint32_t cluster_rank();
GRIDSTRIDE_API uint3 cluster_index();
GRIDSTRIDE_API uint32_t cluster_blocks();
GRIDSTRIDE_API dim3 cluster_shape();
// mapa: returns the address of the same variable in another block
GRIDSTRIDE_API uint32_t map_shared(uint32_t address, uint32_t rank, int line);
GRIDSTRIDE_API void cluster_arrive(int line);
GRIDSTRIDE_API void cluster_wait(int line);
// bar.sync and bar.arrive with a thread count; barrier 0 with all threads of the block is sync_block().
GRIDSTRIDE_API void named_barrier(uint32_t barrier_id, uint32_t threads, bool waits, int line);

// mbarriers. A phase completes when all expected threads and bytes have arrived.
GRIDSTRIDE_API void mbarrier_init(uint32_t address, uint32_t count, int line);
GRIDSTRIDE_API void mbarrier_invalidate(uint32_t address, int line);
GRIDSTRIDE_API void mbarrier_expect(uint32_t address, uint32_t bytes, int line);
// Returns the token, which is the phase.
GRIDSTRIDE_API uint64_t mbarrier_arrive(uint32_t address, uint32_t count, int line);
// arrive_drop: arrives, and lowers the expected count of later phases by one
GRIDSTRIDE_API void mbarrier_drop(uint32_t address, int line);
// returns whether the phase of that parity is complete
GRIDSTRIDE_API bool mbarrier_test_wait(uint32_t address, uint32_t parity, bool waits, int line);
// try_wait: waits at the second call
GRIDSTRIDE_API bool mbarrier_try_wait(uint32_t address, uint32_t parity, int line);
GRIDSTRIDE_API void fence_mbarrier_init();
GRIDSTRIDE_API void fence_proxy_async();

// A tensor map that cuTensorMapEncodeTiled encodes, in the emulator's format: innermost axis first, strides in bytes.
// CuTe clears a bit in the second word of a small array's map, to work around a driver bug, so that word is unused.
struct alignas(64) TensorMap {
    char magic[8];
    uint64_t patched_by_cute;
    char *base;
    // `im2col`: 0 in tiled mode; otherwise 1 and, from bit 4 * axis on, the traversal stride of that axis. In im2col
    // mode `box` contains the channels per pixel, the pixels per column and, per spatial axis, both corners of the
    // bounding box, 16 bits each.
    int32_t rank, itemsize, swizzle, im2col, sizes[5], box[5];
    int64_t strides[5];
    int traversal_stride(int axis) const { return im2col >> 4 * axis & 15; }
    int lower_corner(int axis) const { return int16_t(box[axis + 1] & 0xffff); }
    int upper_corner(int axis) const { return box[axis + 1] >> 16; }
};
inline bool is_tensor_map(const TensorMap &map) { return !__builtin_memcmp(map.magic, "gs tmap", sizeof map.magic); }
// Bulk copies; `blocks`: the multicast mask of blocks of the cluster; 0: the block of the calling thread
GRIDSTRIDE_API void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar, uint32_t blocks, int line);
// st.async: stores to shared memory of a block of the cluster; its mbarrier at `bar` counts the bytes
GRIDSTRIDE_API void store_async(uint32_t to, const void *from, uint32_t bytes, uint32_t bar, int line);
GRIDSTRIDE_API void bulk_store(void *to, uint32_t from, uint32_t bytes, int line);
// cp.async.bulk.prefetch has no effect, but the same requirements
GRIDSTRIDE_API void bulk_prefetch(const void *from, uint32_t bytes, int line);
// The source of a tensor copy. tiled: a box; rows: four rows of a matrix, with the column and four row indices as
// coordinates; im2col: the pixels under a filter, with an offset per spatial axis after the coordinates
enum class TensorMode { tiled, rows, im2col };
// `of_pair`: with cta_group::2, the mbarrier is in the block of the CTA pair that has the parity of the rank in `bar`
GRIDSTRIDE_API void tensor_load(uint32_t to, const void *map, const int32_t *coordinates, int rank, uint32_t bar,
    uint32_t blocks, int line, bool of_pair = false, TensorMode mode = TensorMode::tiled);
GRIDSTRIDE_API void tensor_store(const void *map, const int32_t *coordinates, int rank, uint32_t from, int line,
    TensorMode mode = TensorMode::tiled);
GRIDSTRIDE_API void bulk_commit();
GRIDSTRIDE_API void bulk_wait(uint32_t groups);

// The metadata of a 2:4 sparse operand: the word of a lane has four groups of 4 bits per row, for two rows. A group
// contains the indices of the two stored elements of four. Indices that PTX does not allow are reported; without
// checks, an element is multiplied at its index, as on an H100. `has_two_halves`: odd lanes have the columns from 16
// on.
inline int sparse_index(uint32_t word, int row, int group, int item) {
    return int(word >> (row * 16 + group * 4 + item * 2) & 3);
}
GRIDSTRIDE_API void check_metadata(const char *operation, uint32_t word, bool has_two_halves, bool is_ordered,
    int line);

// MMA of a warp (fragments.cpp): c[m][n] += a[m][k] @ b[k][n]; n: 8, 16 or 32
GRIDSTRIDE_API void multiply_matrices(const float *a, const float *b, double *c, int m, int n, int k);
enum class Element { f16, bf16, tf32, f32, f64, s8, u8, s32 };
// d = a @ b + c, for fragments of nvcuda::wmma
struct FragmentMma {
    int m, n, k;
    Element operands, addend, result;
    bool a_is_column_major, b_is_column_major;
};
struct FragmentOperands {
    const void *x[3];                      // the lane's elements of a, b and c
    void *d;
};
GRIDSTRIDE_API void multiply_fragments(const FragmentMma &, void *const *operands_of_lanes);
// Element i of a lane is element `lane * elements + i`, modulo `size`, of the matrix, which has `inner` contiguous
// elements per row (or per column).
struct FragmentLayout { unsigned element_bytes, elements, size, inner; };
// Loads, or stores, the elements `x` of the current lane, and waits for the other lanes of its warp.
GRIDSTRIDE_API void move_fragment(const char *function, const FragmentLayout &, void *x, void *matrix, unsigned ldm,
    bool transposed, bool stores, int line);

// wgmma: d (64 x n) = a (64 x k) @ b (k x n), plus d if `accumulates`. A thread must not read its accumulators before
// it has waited.
enum class WgmmaType { bf16, f16, tf32, e4m3, s8 };
struct Wgmma {
    WgmmaType type;
    int n;
    uint64_t a, b;                     // descriptors
    const uint32_t *a_registers;       // instead of `a`, or null
    bool accumulates;
    int a_sign, b_sign;
    bool a_transposed, b_transposed;           // whether M or N is contiguous, not K
    float *const *results, *const *accumulators;   // n/2 each: the destinations, and the registers
    const uint32_t *metadata;              // for a 2:4 sparse `a`, with twice the K; or null
    int selector;
    bool has_half_accumulators;            // whether a register holds two 16-bit accumulators (n/4 registers)
};
GRIDSTRIDE_API void wgmma_fence();
GRIDSTRIDE_API void wgmma(const Wgmma &, int line);
GRIDSTRIDE_API void wgmma_commit();
GRIDSTRIDE_API void wgmma_wait(uint32_t groups, int line);

// Blackwell: tensor memory has 128 lanes of 512 columns of 32 bits per block; an address has the lane in its upper 16
// bits and the column in its lower 16 bits. `cta_group`: 2 for instructions of a CTA pair
GRIDSTRIDE_API void tmem_alloc(int cta_group, uint32_t to, uint32_t columns, int line);
GRIDSTRIDE_API void tmem_dealloc(int cta_group, uint32_t address, uint32_t columns, int line);
GRIDSTRIDE_API void tmem_relinquish(int cta_group, int line);
// tcgen05.ld and tcgen05.st of a warp; `packs`: whether a register has the lower halves of two columns; `split`: for
// s16x32bx2, the offset of the columns of lanes 16 to 31
enum class TensorShape { s32x32b, s16x64b, s16x128b, s16x256b, s16x32bx2 };
struct TensorMove {
    TensorShape shape;
    uint32_t repeats;
    bool packs;
    uint32_t address, split;
};
GRIDSTRIDE_API void tmem_load(const TensorMove &, uint32_t *const *registers, int line);
GRIDSTRIDE_API void tmem_store(const TensorMove &, uint32_t *const *registers, int line);
GRIDSTRIDE_API void tmem_wait(bool loads, int line);
GRIDSTRIDE_API void tmem_fence(bool is_before);
enum class TensorKind { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };
struct TensorMma {
    TensorKind kind;
    int cta_group, block;              // block: elements along k per scale; 0: no scales
    uint32_t d;
    uint64_t a, b;                     // descriptors
    bool a_in_tensor_memory;
    uint32_t a_address, descriptor, a_scales, b_scales;
    const uint32_t *masks;             // lanes that are not written: 4 words, or 8 for a CTA pair; or null
    bool accumulates;
    int d_scale;                       // D is first divided by 2 to the power of d_scale
    bool is_weight_stationary;         // tcgen05.mma.ws
    bool is_sparse;                    // tcgen05.mma.sp: A stores two of every four elements
    uint32_t metadata;                 // the address of their indices in tensor memory
};
GRIDSTRIDE_API void tmem_multiply(const TensorMma &, int line);
enum class TensorCopyShape { c128x256b, c4x256b, c128x128b, c64x128b_02_13, c64x128b_01_23, c32x128b };
GRIDSTRIDE_API void tmem_copy(int cta_group, TensorCopyShape, uint32_t address, uint64_t descriptor, int line);
GRIDSTRIDE_API void tmem_shift(int cta_group, uint32_t address, int line);
// Cluster launch control: takes a block, or cluster, that has not begun, and stores its index in the 16 bytes at `to`
struct Canceled { uint32_t x, y, z, is_canceled; };
GRIDSTRIDE_API void try_cancel(uint32_t to, uint32_t bar, bool for_cluster, int line);
GRIDSTRIDE_API void tmem_commit(int cta_group, uint32_t address, uint32_t blocks, int line);

struct ParameterNames {              // the comma-separated names of a kernel's parameters
    const char *kernel, *parameters;
    GRIDSTRIDE_API ParameterNames(const char *kernel, const char *parameters);
};

struct PlainVariables {              // this module has device variables that are ordinary C++ variables
    GRIDSTRIDE_API PlainVariables();
};

struct Arg {                         // an argument of a launch
    const void *pointer;             // null if the argument is not a pointer
    size_t itemsize;
    bool has_no_address = false;     // whether neither the argument nor its elements can contain an address
};

struct Config {                      // the configuration between <<< and >>>, and other launch attributes
    dim3 grid, block;
    size_t shared;
    void *stream;
    dim3 cluster;
    int cooperative;
    Config(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr, dim3 cluster = dim3(1, 1, 1),
        int cooperative = 0)
        : grid(grid), block(block), shared(shared), stream(stream), cluster(cluster), cooperative(cooperative) {}
};
// The type-erased operations of an object that contains a kernel and its arguments
struct CallType {
    size_t bytes, alignment;
    void (*thread)(void *call);                    // runs one thread of the kernel
    void (*copy)(void *to, const void *call);      // null: it is trivially copyable
    void (*destroy)(void *call);
    bool (*begin)();                               // called before the launch, in the launching OS thread
};
struct Call {
    const CallType *type;
    void *object;
    const char *kernel;
    int line;
    const Arg *args;
    int num_args;
};
// Launches a kernel. In a captured stream or from a kernel, it is launched later, with copies of the arguments.
GRIDSTRIDE_API void launch(const Config &, const Call &);

struct Launch {
    dim3 grid, block;
    size_t shared;
    void *stream;
    dim3 cluster;                    // ignored if the kernel has __cluster_dims__
    const char *kernel;
    int line;
    void (*thread)(void *);          // runs one thread of the kernel
    void *call;
    const Arg *args;
    int num_args;
    int cooperative = 0;             // 2: cooperative if all blocks are resident
    uintptr_t host_args = 0, host_args_end = 0;   // the addresses of the arguments in host memory
};
GRIDSTRIDE_API bool make_worker();                                 // prepares this OS thread for launches
GRIDSTRIDE_API void run(const Launch &);
// Returns the number of resident blocks per SM, for blocks with these threads and bytes of shared memory.
GRIDSTRIDE_API int resident_blocks_per_sm(int threads, size_t shared);
GRIDSTRIDE_API size_t &max_dynamic_shared_of(const char *kernel); // set by cudaFuncSetAttribute; default: 48 KB
GRIDSTRIDE_API bool &allows_large_clusters(const char *kernel);    // whether clusters may have 16 blocks, not just 8

GRIDSTRIDE_API bool on_device();
GRIDSTRIDE_API void wait_for_device();                             // reports a call from a kernel
GRIDSTRIDE_API int set_error(int code); // stores the code for cudaGetLastError, and returns it
GRIDSTRIDE_API int last_error(bool clear);
// A program that handles cudaErrorAssert continues after a failed assertion.
GRIDSTRIDE_API void handle_assertions(bool);
GRIDSTRIDE_API int error_after_waiting();   // the error code of an assertion that failed in an earlier launch; 0: none
// whether the last launch was rejected; the finding contains the reason
GRIDSTRIDE_API bool is_launch_rejected();
[[noreturn]] GRIDSTRIDE_API void assert_failed(const char *expression, const char *file, int line);
// reports a trap in a kernel; `operation` is a phrase
[[noreturn]] GRIDSTRIDE_API void trap(Code);
[[noreturn]] GRIDSTRIDE_API void report_local_overrun(void *pc);   // reports a write past the end of a local array
// Reports an index that is out of bounds for an array with `rank` axes of these sizes; `access`: "read" or "write"
[[noreturn]] GRIDSTRIDE_API void report_index_outside(
    const char *access, const char *array, const long long *index, const long long *sizes, int rank, int line);
[[noreturn]] GRIDSTRIDE_API void exit_program(int code);                  // exit()
[[noreturn]] GRIDSTRIDE_API void not_emulated(const char *function);
// reports a host function that is called in device code, from a __host__ __device__ function
GRIDSTRIDE_API void report_host_only_call(const char *function, int line = __builtin_LINE());
// reports a Thrust algorithm with the wrong execution policy
[[noreturn]] GRIDSTRIDE_API void report_wrong_policy(const char *algorithm, bool device);
// reports a library call with an address that is not in device memory; returns if memcheck is disabled
GRIDSTRIDE_API void report_library_memory();
// returns whether host code may access the device memory at `p`
GRIDSTRIDE_API bool is_shared_with_host(const void *p) GRIDSTRIDE_NOT_READ(1);
GRIDSTRIDE_API int print(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Thrown in host code if a finding has ended a launch; `finding()` returns the finding.
struct GRIDSTRIDE_API LaunchStopped {};
// Fourier transforms, which Python computes (../../runtime/transforms.cpp)
struct ArrayLayout { int embed[3], stride, distance; };              // element (x, y): (x * embed[1] + y) * stride
struct Transform {
    int rank = 0, batch = 0, sizes[3] = {};
    bool is_double = false, is_complex_in = false, is_complex_out = false;
    ArrayLayout in = {}, out = {};
    GRIDSTRIDE_API size_t bytes_in() const;                            // from the first element to the last one
    GRIDSTRIDE_API size_t bytes_out() const;
};
namespace fft {
// direction: -1 forward, 1 inverse; not normalized
GRIDSTRIDE_API void run(const Transform &, const void *in, void *out, int direction);
}
// Runs `f(arg)`, and converts a crash to a finding; returns false if there is a finding. `code`: a function of the host
// code that runs, which Ctrl-C may interrupt
GRIDSTRIDE_API bool run_guarded(void (*f)(void *), void *arg, const void *code = nullptr);
// Called by host code before and after it calls Python, which then handles Ctrl-C.
GRIDSTRIDE_API void set_in_python(bool on);
}

extern "C" {
// the finding of the last call; its kind is `nothing` if there is none
GRIDSTRIDE_API gridstride::Finding *gridstride_finding();
GRIDSTRIDE_API const gridstride::Abi *gridstride_abi();
// one line per code: kind, space, name
GRIDSTRIDE_API const char *gridstride_codes();
// receives warnings
GRIDSTRIDE_API void gridstride_send_warnings_to(void (*)(const gridstride::Finding *));
// checks: a mask of 1 << Kind; order: 0 forward, 1 reverse, 2 shuffled; memory: the size of device memory in bytes, 0
// for the free memory of this machine; devices: the number of devices, 0 for one
struct gridstride_options { int checks, order, seed, threads; double seconds; long long memory; int devices; };
GRIDSTRIDE_API void gridstride_set_options(const gridstride_options *);
GRIDSTRIDE_API const char *gridstride_create_job();
// the n-th allocation that was not freed; false: there are fewer
struct gridstride_leak {
    size_t bytes;
    int line; // the line of the allocation; 0: unknown
};
GRIDSTRIDE_API bool gridstride_get_leak(int n, gridstride_leak *);
// after a checked launch: which bytes of an uninitialized array the kernel has written
GRIDSTRIDE_API void gridstride_get_written(const void *p, size_t n, unsigned char *out);
// receives the output of printf; null: stdout
GRIDSTRIDE_API void gridstride_send_output_to(void (*sink)(const char *, size_t));
// `batch` transforms of contiguous arrays. The complex array of a real transform contains only half of
// the last axis.
struct gridstride_transform {
    const void *in;
    void *out;
    int rank, batch, sizes[3], is_double, is_complex_in, is_complex_out, direction;
};
GRIDSTRIDE_API void gridstride_transform_with(void (*f)(const gridstride_transform *));
// Unloads a module, given by its handle from dlopen(). Returns 0 if it is unloaded, 1 if a pointer into it may exist, 2
// if it is busy and the caller should try again.
GRIDSTRIDE_API int gridstride_unload(void *handle);
// Loads a module in a child process, whose process ID is stored in *child (-1: none). Returns a pipe to which the child
// writes its `Finding`, or -1.
GRIDSTRIDE_API int gridstride_load_in_child(const char *path, int *child);
}
