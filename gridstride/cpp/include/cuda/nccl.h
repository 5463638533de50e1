// NCCL's host API. The ranks belong to one host thread, to several host threads, or to several processes, and each rank
// has a device. They exchange data through a `Bootstrap`, memory that all of them map (../../runtime/ranks.cpp).
// Reductions combine the values in rank order. In a captured stream, a call becomes two nodes of the graph, and each
// launch of the graph makes the call again.
#pragma once
#include <algorithm>
#include <memory>
#include <stdio.h>
#include "cuda_runtime.h"
#include "library_elements.h"

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 0
#define NCCL_VERSION_CODE 22700
#define NCCL_UNIQUE_ID_BYTES 128

enum ncclResult_t {
    ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclSystemError = 2, ncclInternalError = 3, ncclInvalidArgument = 4,
    ncclInvalidUsage = 5, ncclRemoteError = 6, ncclInProgress = 7
};
enum ncclDataType_t {
    ncclInt8 = 0, ncclChar = 0, ncclUint8 = 1, ncclInt32 = 2, ncclInt = 2, ncclUint32 = 3, ncclInt64 = 4,
    ncclUint64 = 5, ncclFloat16 = 6, ncclHalf = 6, ncclFloat32 = 7, ncclFloat = 7, ncclFloat64 = 8, ncclDouble = 8,
    ncclBfloat16 = 9, ncclNumTypes = 10
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 };
struct ncclUniqueId { char internal[NCCL_UNIQUE_ID_BYTES]; };
struct ncclConfig_t { int blocking; };                     // ignored: every communicator is blocking
#define NCCL_CONFIG_INITIALIZER {1}
#define NCCL_SPLIT_NOCOLOR -1
typedef struct GridstrideComm *ncclComm_t;
struct GridstrideComm {
    std::shared_ptr<gridstride::Bootstrap> bootstrap;
    int rank, ranks, device;
};

namespace gridstride {
namespace nccl {
enum class Kind { all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, recv, split };
struct Call {
    Kind kind;
    const void *from;
    void *to;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;                          // for send and recv: the peer
    ncclComm_t comm;
    cudaStream_t stream;
    int line;
    bool is_message() const { return kind == Kind::send || kind == Kind::recv; }
    bool reads() const { return kind != Kind::recv && (kind != Kind::broadcast || comm->rank == root); }
    bool writes() const { return kind != Kind::send && (kind != Kind::reduce || comm->rank == root); }
};
// The group that this host thread has open: the nesting depth of ncclGroupStart, the queued calls, the communicators
// whose initialization waits for the other ranks, and those to split
inline thread_local int group_depth = 0;
inline thread_local std::vector<Call> group_calls;
struct PendingInit { ncclComm_t comm; const char *call; int line; };
struct Split { ncclComm_t comm; int color, key; ncclComm_t *new_comm; int line; };
inline thread_local std::vector<PendingInit> group_inits;
inline thread_local std::vector<Split> group_splits;
// The last exchange that this host thread started outside a group, and the rank for which it did
inline thread_local RankExchange last_ungrouped;
inline thread_local int rank_of_last_ungrouped;

inline const char *name_of(Kind kind) {
    constexpr const char *names[] = {"ncclAllReduce", "ncclBroadcast", "ncclReduce", "ncclAllGather",
        "ncclReduceScatter", "ncclSend", "ncclRecv"};
    return names[int(kind)];
}
inline const char *name_of(ncclDataType_t type) {
    constexpr const char *names[] = {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
        "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
    return names[type];
}
inline size_t bytes_of(ncclDataType_t type) {
    constexpr size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return bytes[type];
}
inline size_t bytes_read(const Call &c) {
    const size_t bytes = c.count * bytes_of(c.type);
    return !c.reads() ? 0 : c.kind == Kind::reduce_scatter ? bytes * size_t(c.comm->ranks) : bytes;
}
inline size_t bytes_written(const Call &c) {
    const size_t bytes = c.count * bytes_of(c.type);
    return !c.writes() ? 0 : c.kind == Kind::all_gather ? bytes * size_t(c.comm->ranks) : bytes;
}
template <class T> T combine(ncclRedOp_t op, T a, T b) {
    return op == ncclProd ? T(a * b) : op == ncclMax ? (a < b ? b : a) : op == ncclMin ? (b < a ? b : a) : T(a + b);
}
// Reduces the arrays of all ranks, which are contiguous in memory, element by element; `A` is the accumulator type.
template <class T, class A> GRIDSTRIDE_NO_TSAN void reduce_as(
    ncclRedOp_t op, const char *arrays, size_t ranks, size_t count, void *to) {
    const auto element = [=](size_t rank, size_t i) {
        return A(reinterpret_cast<const T *>(arrays)[rank * count + i]);
    };
    for (size_t i = 0; i < count; i++) {
        A value = element(0, i);
        for (size_t rank = 1; rank < ranks; rank++) value = combine(op, value, element(rank, i));
        static_cast<T *>(to)[i] = T(op == ncclAvg ? A(value / A(ranks)) : value);
    }
}
inline void reduce(ncclDataType_t type, ncclRedOp_t op, const char *arrays, size_t ranks, size_t count, void *to) {
    switch (type) {
        case ncclInt8: return reduce_as<int8_t, int32_t>(op, arrays, ranks, count, to);
        case ncclUint8: return reduce_as<uint8_t, uint32_t>(op, arrays, ranks, count, to);
        case ncclInt32: return reduce_as<int32_t, int64_t>(op, arrays, ranks, count, to);
        case ncclUint32: return reduce_as<uint32_t, uint64_t>(op, arrays, ranks, count, to);
        case ncclInt64: return reduce_as<int64_t, int64_t>(op, arrays, ranks, count, to);
        case ncclUint64: return reduce_as<uint64_t, uint64_t>(op, arrays, ranks, count, to);
        case ncclFloat16: return reduce_as<__half, float>(op, arrays, ranks, count, to);
        case ncclFloat64: return reduce_as<double, double>(op, arrays, ranks, count, to);
        case ncclBfloat16: return reduce_as<__nv_bfloat16, float>(op, arrays, ranks, count, to);
        default: return reduce_as<float, float>(op, arrays, ranks, count, to);
    }
}
// Reduces in chunks, to bound the staging buffer to 1 MB per rank.
inline void reduce_published(const Call &c, const RankExchange &e) {
    const size_t item = bytes_of(c.type), ranks = size_t(c.comm->ranks), max_count = (size_t(1) << 20) / item;
    const size_t first = c.kind == Kind::reduce_scatter ? size_t(c.comm->rank) * c.count : 0;
    std::vector<char> arrays(std::min(c.count, max_count) * item * ranks);
    for (size_t done = 0, count; done < c.count; done += count) {
        count = std::min(c.count - done, max_count);
        for (size_t r = 0; r < ranks; r++)
            read_published(e, int(r), (first + done) * item, arrays.data() + r * count * item, count * item);
        reduce(c.type, c.op, arrays.data(), ranks, count, static_cast<char *>(c.to) + done * item);
    }
}
// Computes the result of one rank from the data that all have published.
inline void compute_result(const Call &c, const RankExchange &e) {
    const size_t bytes = c.count * bytes_of(c.type), ranks = size_t(c.comm->ranks);
    if (c.kind == Kind::recv) return read_published(e, 0, 0, c.to, bytes);
    if (c.kind == Kind::broadcast) return read_published(e, c.root, 0, c.to, bytes);
    if (c.kind != Kind::all_gather) return c.writes() ? reduce_published(c, e) : void();
    for (size_t r = 0; r < ranks; r++) read_published(e, int(r), 0, static_cast<char *>(c.to) + r * bytes, bytes);
}
inline RankExchange exchange_of(const Call &c) {
    const int rank = c.comm->rank;
    if (c.kind == Kind::send) return {c.comm->bootstrap.get(), channel_of_messages(rank, c.root), 0};
    if (c.kind == Kind::recv) return {c.comm->bootstrap.get(), channel_of_messages(c.root, rank), 1};
    return {c.comm->bootstrap.get(), 0, rank};
}
inline ExchangeCall describe(const Call &c) {
    ExchangeCall call = {int(c.kind), c.type, c.op, c.root, c.count, c.line, ""};
    const bool reduces = c.kind == Kind::all_reduce || c.kind == Kind::reduce || c.kind == Kind::reduce_scatter,
               has_root = c.is_message() || c.kind == Kind::broadcast || c.kind == Kind::reduce;
    constexpr const char *ops[] = {", ncclSum", ", ncclProd", ", ncclMax", ", ncclMin", ", ncclAvg"};
    char root[24] = "";
    if (has_root) snprintf(root, sizeof root, ", %s %d", c.is_message() ? "rank" : "root", c.root);
    snprintf(call.text, sizeof call.text, "%s(%zu, %s%s%s)", name_of(c.kind), c.count, name_of(c.type),
        reduces ? ops[c.op] : "", root);
    return call;
}
struct Started { Call call; RankExchange exchange; };
inline void announce_call(Started &started) {
    started.exchange = exchange_of(started.call);
    if (count_outstanding(started.exchange) > 128) run_queued_operations();
    if (!announce(started.exchange, describe(started.call))) end_if_stopped();
}
inline int run_publishing(const Started &started) {
    const Call c = started.call;
    const RankExchange e = started.exchange;
    const size_t bytes = bytes_read(c);
    const DeviceScope on_device(c.comm->device);
    library::run(name_of(c.kind), c.stream, {{c.from, bytes, false}},
        [=, bootstrap = c.comm->bootstrap] { publish(e, c.from, bytes); }, c.line, e);
    return 0;
}
inline int run_receiving(const Started &started) {
    const Call c = started.call;
    RankExchange e = started.exchange;
    e.is_awaited = true;
    const DeviceScope on_device(c.comm->device);
    library::run(name_of(c.kind), c.stream, {{c.to, bytes_written(c), true}},
        [=, bootstrap = c.comm->bootstrap] { compute_result(c, e), finish(e); }, c.line, e);
    return 0;
}
// Adds calls to the graphs of their streams. A launch of the graph announces each call, so that it has a new exchange.
inline void capture_calls(const std::vector<Started> &calls) {
    std::vector<std::shared_ptr<Started>> captured;
    for (const Started &call : calls) {
        captured.push_back(std::make_shared<Started>(call));
        defer(call.call.stream, NodeKind::kernel,
            [s = captured.back()] { return announce_call(*s), run_publishing(*s); }, {}, true);
    }
    for (const std::shared_ptr<Started> &s : captured)
        defer(s->call.stream, NodeKind::kernel, [s] { return run_receiving(*s); }, {}, true);
}
// Removes all point-to-point calls of the group from `calls`, and the next collective of each communicator: they run
// together.
inline std::vector<Started> take_next_calls(std::vector<Call> &calls) {
    std::vector<Started> started;
    std::vector<Call> later;
    for (const Call &call : calls) {
        bool is_next = true;
        for (const Started &other : started)
            is_next = is_next && (call.is_message() || other.call.is_message() || other.call.comm != call.comm);
        if (is_next) started.push_back({call, {}});
        else later.push_back(call);
    }
    calls = later;
    return started;
}
inline ncclComm_t new_communicator(const FileHandle &handle, int rank, int ranks, int device) {
    Bootstrap *const bootstrap = join_bootstrap(handle, rank, ranks, device);
    if (!bootstrap) return nullptr;
    return new GridstrideComm{std::shared_ptr<Bootstrap>(bootstrap, close_bootstrap), rank, ranks, device};
}
// How one rank takes part in ncclCommSplit: the ranks exchange their colors and keys, and then the lowest rank of each
// new communicator publishes the handle of its bootstrap.
class SplitState {
    Split split;
    struct Entry { int color, key; } entries[max_ranks] = {};
    RankExchange exchange;
    FileHandle handle = {};
    int rank = 0, ranks = 0, lowest = 0;       // in the new communicator; `lowest`: its first rank in the old one

    void publish(const void *data, size_t bytes) {
        ExchangeCall call = {int(Kind::split), 0, 0, 0, 0, split.line, "ncclCommSplit()"};
        exchange = {split.comm->bootstrap.get(), 0, split.comm->rank};
        if (!announce(exchange, call)) end_if_stopped();
        gridstride::publish(exchange, data, bytes);
    }

public:
    explicit SplitState(const Split &split) : split(split) {}
    void publish_color() {
        const Entry own = {split.color, split.key};
        publish(&own, sizeof own);
    }
    void read_colors() {
        wait_for_exchange(exchange);
        for (int r = 0; r < split.comm->ranks; r++) read_published(exchange, r, 0, &entries[r], sizeof entries[r]);
        finish(exchange);
        const int own = split.comm->rank;
        const auto order = [&](int r) { return std::make_pair(entries[r].key, r); };
        lowest = own;
        for (int r = 0; r < split.comm->ranks; r++) {
            if (entries[r].color != split.color) continue;
            ranks++, rank += order(r) < order(own);
            if (order(r) < order(lowest)) lowest = r;
        }
    }
    void publish_handle() {
        if (lowest == split.comm->rank && split.color >= 0) create_bootstrap(handle);
        publish(&handle, sizeof handle);
    }
    void join() {
        wait_for_exchange(exchange);
        read_published(exchange, lowest, 0, &handle, sizeof handle);
        finish(exchange);
        if (split.color < 0) return;
        *split.new_comm = new_communicator(handle, rank, ranks, split.comm->device);
        if (*split.new_comm) group_inits.push_back({*split.new_comm, "ncclCommSplit", split.line});
    }
};
// Splits the communicators together, because one host thread may have those of several ranks.
inline void split_communicators(const std::vector<Split> &splits) {
    std::vector<SplitState> states;
    for (const Split &split : splits) states.emplace_back(split);
    for (SplitState &state : states) state.publish_color();
    for (SplitState &state : states) state.read_colors();
    for (SplitState &state : states) state.publish_handle();
    for (SplitState &state : states) state.join();
}
inline ncclResult_t end_group(bool is_ungrouped) {
    std::vector<Split> splits;
    splits.swap(group_splits);
    split_communicators(splits);
    std::vector<PendingInit> inits;
    inits.swap(group_inits);
    for (const PendingInit &init : inits)
        wait_for_ranks(init.comm->bootstrap.get(), init.call, init.comm->rank, init.line);
    std::vector<Call> calls;
    calls.swap(group_calls);
    const auto is_captured = [](const Call &call) { return capture_graph(call.stream) != nullptr; };
    const auto num_captured = std::count_if(calls.begin(), calls.end(), is_captured);
    if (num_captured && size_t(num_captured) != calls.size()) return ncclInvalidUsage;
    while (!calls.empty()) {
        std::vector<Started> started = take_next_calls(calls);
        if (num_captured) {
            capture_calls(started);
            continue;
        }
        for (Started &s : started) announce_call(s);
        for (const Started &s : started) run_publishing(s);
        for (const Started &s : started) run_receiving(s);
        if (is_ungrouped)
            last_ungrouped = started[0].exchange, rank_of_last_ungrouped = started[0].call.comm->rank;
    }
    return ncclSuccess;
}
// Returns whether the host thread issues this call outside a group while its previous call outside a group, for another
// rank, still lacks the calls of some ranks. On GPUs this may deadlock: the previous call may block until all ranks
// have issued theirs.
inline bool lacks_group(const Call &c) {
    return !group_depth && last_ungrouped.bootstrap && last_ungrouped.bootstrap == c.comm->bootstrap.get() &&
           rank_of_last_ungrouped != c.comm->rank && !is_announced_by_all(last_ungrouped);
}
// Returns whether the buffers overlap, except as in an in-place operation of NCCL
inline bool overlaps_wrongly(const Call &c) {
    const char *const from = static_cast<const char *>(c.from), *const to = static_cast<const char *>(c.to);
    const size_t bytes = c.count * bytes_of(c.type), own = bytes * size_t(c.comm->rank);
    const bool overlaps = c.reads() && c.writes() && from < to + bytes_written(c) && to < from + bytes_read(c);
    return overlaps && from + (c.kind == Kind::reduce_scatter ? own : 0) != to + (c.kind == Kind::all_gather ? own : 0);
}
inline bool is_valid_array(const void *p, size_t bytes, const Call &c) {
    if (!bytes) return true;
    return is_in_allocation(p, bytes) && (!is_device_only(p) || device_of(p) == c.comm->device);
}
inline bool is_valid(const Call &c) {
    return c.comm && c.type >= 0 && c.type < ncclNumTypes && c.op >= 0 && c.op < ncclNumOps && c.root >= 0 &&
           c.root < c.comm->ranks && is_valid_array(c.from, bytes_read(c), c) &&
           is_valid_array(c.to, bytes_written(c), c) && !overlaps_wrongly(c) &&
           (!c.stream || device_of_stream(c.stream) == c.comm->device);
}
inline ncclResult_t add(const Call &call) {
    if (!is_valid(call)) return ncclInvalidArgument;
    if (!capture_graph(call.stream) && lacks_group(call)) report_missing_group(last_ungrouped, call.comm->rank);
    group_calls.push_back(call);
    return group_depth ? ncclSuccess : end_group(true);
}
inline void release(ncclComm_t comm) {
    leave_bootstrap(comm->bootstrap.get(), comm->rank);
    last_ungrouped = {};
    delete comm;
}
}
}

inline const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
        case ncclSuccess: return "no error";
        case ncclSystemError: return "unhandled system error";
        case ncclInvalidArgument: return "invalid argument";
        case ncclInvalidUsage: return "invalid usage";
        case ncclRemoteError: return "remote process exited or there was a network error";
        default: return "unhandled error";
    }
}
inline const char *ncclGetLastError(ncclComm_t) { return ""; }
inline ncclResult_t ncclGetVersion(int *version) { *version = NCCL_VERSION_CODE; return ncclSuccess; }
inline ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    gridstride::FileHandle handle;
    if (!gridstride::create_bootstrap(handle)) return ncclSystemError;
    *id = {};
    gridstride::copy_unchecked(id->internal, &handle, sizeof handle);
    return ncclSuccess;
}
inline ncclResult_t ncclCommInitRank(
    ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, int line = __builtin_LINE()) {
    using namespace gridstride;
    FileHandle handle;
    copy_unchecked(&handle, id.internal, sizeof handle);
    if (ranks < 1 || ranks > max_ranks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
    *comm = nccl::new_communicator(handle, rank, ranks, current_device());
    if (!*comm) return ncclInvalidUsage;
    nccl::group_inits.push_back({*comm, "ncclCommInitRank", line});
    return nccl::group_depth ? ncclSuccess : nccl::end_group(true);
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *,
    int line = __builtin_LINE()) {
    return ncclCommInitRank(comm, ranks, id, rank, line);
}
// Makes a communicator of the ranks with the same color, in the order of their keys; the color NCCL_SPLIT_NOCOLOR
// belongs to none.
inline ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *new_comm, ncclConfig_t *,
    int line = __builtin_LINE()) {
    using namespace gridstride;
    if (!comm || !new_comm || color < NCCL_SPLIT_NOCOLOR) return ncclInvalidArgument;
    host_waits();                                  // because the ranks exchange their colors immediately
    *new_comm = nullptr;
    nccl::group_splits.push_back({comm, color, key, new_comm, line});
    return nccl::group_depth ? ncclSuccess : nccl::end_group(true);
}
inline ncclResult_t ncclMemAlloc(void **p, size_t bytes, int line = __builtin_LINE()) {
    return cudaMalloc(p, bytes, line) ? ncclUnhandledCudaError : ncclSuccess;
}
inline ncclResult_t ncclMemFree(void *p) { return cudaFree(p) ? ncclUnhandledCudaError : ncclSuccess; }
inline ncclResult_t ncclCommInitAll(ncclComm_t *comms, int ranks, const int *devices) {
    if (ranks < 1 || ranks > gridstride::max_ranks) return ncclInvalidArgument;
    for (int rank = 0; rank < ranks; rank++)
        if (!gridstride::is_device_index(devices ? devices[rank] : rank)) return ncclInvalidArgument;
    gridstride::FileHandle handle;
    if (!gridstride::create_bootstrap(handle)) return ncclSystemError;
    for (int rank = 0; rank < ranks; rank++)
        if (!(comms[rank] = gridstride::nccl::new_communicator(handle, rank, ranks, devices ? devices[rank] : rank)))
            return ncclInvalidUsage;
    return ncclSuccess;
}
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!comm) return ncclSuccess;
    gridstride::host_waits();
    gridstride::nccl::release(comm);
    return ncclSuccess;
}
inline ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
    gridstride::nccl::release(comm);
    return ncclSuccess;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *error) { *error = ncclSuccess; return ncclSuccess; }
inline ncclResult_t ncclCommCount(ncclComm_t comm, int *ranks) { *ranks = comm->ranks; return ncclSuccess; }
inline ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) { *rank = comm->rank; return ncclSuccess; }
inline ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device) { *device = comm->device; return ncclSuccess; }
inline ncclResult_t ncclGroupStart() { gridstride::nccl::group_depth++; return ncclSuccess; }
inline ncclResult_t ncclGroupEnd() {
    using namespace gridstride::nccl;
    if (!group_depth) return ncclInvalidUsage;
    return --group_depth ? ncclSuccess : end_group(false);
}
#define GRIDSTRIDE_NCCL(kind, from, to, count, op, root) \
    ::gridstride::nccl::add({::gridstride::nccl::Kind::kind, from, to, count, type, op, root, comm, stream, line})
inline ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
    ncclComm_t comm, cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(all_reduce, from, to, count, op, 0);
}
inline ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
    ncclComm_t comm, cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(broadcast, from, to, count, ncclSum, root);
}
inline ncclResult_t ncclBcast(void *p, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
    cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(broadcast, p, p, count, ncclSum, root);
}
inline ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
    ncclComm_t comm, cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(reduce, from, to, count, op, root);
}
inline ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
    cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(all_gather, from, to, count, ncclSum, 0);
}
inline ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
    ncclComm_t comm, cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(reduce_scatter, from, to, count, op, 0);
}
inline ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
    cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(send, from, nullptr, count, ncclSum, peer);
}
inline ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
    cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(recv, nullptr, to, count, ncclSum, peer);
}
#undef GRIDSTRIDE_NCCL
