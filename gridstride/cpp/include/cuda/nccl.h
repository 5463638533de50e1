// NCCL's host API for several devices of one process: communicators of ncclCommInitAll, with grouped calls. A
// collective waits for the streams of all ranks, then the host computes it, reducing in rank order.
#pragma once
#include <deque>
#include <memory>
#include "cuda_runtime.h"
#include "library_elements.h"

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 0
#define NCCL_VERSION_CODE 22700

enum ncclResult_t {
    ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclSystemError = 2, ncclInternalError = 3, ncclInvalidArgument = 4,
    ncclInvalidUsage = 5
};
enum ncclDataType_t {
    ncclInt8 = 0, ncclChar = 0, ncclUint8 = 1, ncclInt32 = 2, ncclInt = 2, ncclUint32 = 3, ncclInt64 = 4,
    ncclUint64 = 5, ncclFloat16 = 6, ncclHalf = 6, ncclFloat32 = 7, ncclFloat = 7, ncclFloat64 = 8, ncclDouble = 8,
    ncclBfloat16 = 9
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
typedef struct GridstrideComm *ncclComm_t;

namespace gridstride {
namespace nccl {
enum class Kind { all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, receive };
struct Call {
    Kind kind;
    const char *name;
    const void *from;
    void *to;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;                          // for send and receive: the peer
    ncclComm_t comm;
    cudaStream_t stream;
    int line;
};
struct CommunicatorGroup {                        // the communicators of one ncclCommInitAll
    std::vector<std::deque<Call>> calls;               // by rank: calls that have not run
    bool is_empty() const {
        for (const auto &queue : calls)
            if (!queue.empty()) return false;
        return true;
    }
};
inline int group_depth = 0;
inline std::vector<std::shared_ptr<CommunicatorGroup>> open_groups;      // with calls of the current group
}
}
struct GridstrideComm {
    std::shared_ptr<gridstride::nccl::CommunicatorGroup> group;
    int rank, device;
    int ranks() const { return int(group->calls.size()); }
};

namespace gridstride {
namespace nccl {
inline size_t bytes_of(ncclDataType_t type) {
    constexpr size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return bytes[type];
}
template <class T> T combine(ncclRedOp_t op, T a, T b) {
    return op == ncclProd ? T(a * b) : op == ncclMax ? (a < b ? b : a) : op == ncclMin ? (b < a ? b : a) : T(a + b);
}
// Reduces the arrays element by element; `A` is the accumulator type.
template <class T, class A> GRIDSTRIDE_NO_TSAN void reduce_as(
    ncclRedOp_t op, const std::vector<const void *> &arrays, size_t first, size_t count, void *to) {
    for (size_t i = 0; i < count; i++) {
        A value = A(static_cast<const T *>(arrays[0])[first + i]);
        for (size_t rank = 1; rank < arrays.size(); rank++)
            value = combine(op, value, A(static_cast<const T *>(arrays[rank])[first + i]));
        static_cast<T *>(to)[i] = T(op == ncclAvg ? A(value / A(arrays.size())) : value);
    }
}
inline void reduce(ncclDataType_t type, ncclRedOp_t op, const std::vector<const void *> &arrays, size_t first,
    size_t count, void *to) {
    switch (type) {
        case ncclInt8: return reduce_as<int8_t, int32_t>(op, arrays, first, count, to);
        case ncclUint8: return reduce_as<uint8_t, uint32_t>(op, arrays, first, count, to);
        case ncclInt32: return reduce_as<int32_t, int64_t>(op, arrays, first, count, to);
        case ncclUint32: return reduce_as<uint32_t, uint64_t>(op, arrays, first, count, to);
        case ncclInt64: return reduce_as<int64_t, int64_t>(op, arrays, first, count, to);
        case ncclUint64: return reduce_as<uint64_t, uint64_t>(op, arrays, first, count, to);
        case ncclFloat16: return reduce_as<__half, float>(op, arrays, first, count, to);
        case ncclFloat64: return reduce_as<double, double>(op, arrays, first, count, to);
        case ncclBfloat16: return reduce_as<__nv_bfloat16, float>(op, arrays, first, count, to);
        default: return reduce_as<float, float>(op, arrays, first, count, to);
    }
}
// The results, which may overwrite inputs of other ranks (in place), are computed before any is stored.
inline void compute(const std::vector<Call> &calls) {
    const Call &first = calls[0];
    const size_t ranks = calls.size(), bytes = first.count * bytes_of(first.type);
    std::vector<const void *> inputs;
    for (const Call &call : calls) inputs.push_back(call.from);
    const auto store = [](void *to, const std::vector<char> &result) {
        copy_unchecked(to, result.data(), result.size());
    };
    std::vector<char> result(bytes);
    if (first.kind == Kind::all_gather) {
        result.resize(bytes * ranks);
        for (size_t r = 0; r < ranks; r++) copy_unchecked(result.data() + r * bytes, inputs[r], bytes);
    } else if (first.kind == Kind::broadcast) copy_unchecked(result.data(), inputs[size_t(first.root)], bytes);
    else if (first.kind == Kind::reduce_scatter) {
        std::vector<std::vector<char>> chunks(ranks, result);
        for (size_t r = 0; r < ranks; r++)
            reduce(first.type, first.op, inputs, r * first.count, first.count, chunks[r].data());
        for (size_t r = 0; r < ranks; r++) store(calls[r].to, chunks[r]);
        return;
    } else reduce(first.type, first.op, inputs, 0, first.count, result.data());
    for (size_t r = 0; r < ranks; r++)
        if (first.kind != Kind::reduce || int(r) == first.root) store(calls[r].to, result);
}
inline std::vector<library::Array> arrays_of(const std::vector<Call> &calls) {
    std::vector<library::Array> arrays;
    for (size_t r = 0; r < calls.size(); r++) {
        const Call &c = calls[r];
        const size_t bytes = c.count * bytes_of(c.type), total_bytes = bytes * calls.size();
        const bool reads = c.kind != Kind::broadcast || int(r) == c.root,
                   writes = c.kind != Kind::reduce || int(r) == c.root;
        if (reads) arrays.push_back({c.from, c.kind == Kind::reduce_scatter ? total_bytes : bytes, false});
        if (writes) arrays.push_back({c.to, c.kind == Kind::all_gather ? total_bytes : bytes, true});
    }
    return arrays;
}
// Runs `f` as one operation of all streams: after their earlier operations, and before their later ones.
template <class F>
void run_in_all_streams(const std::vector<Call> &calls, const std::vector<library::Array> &arrays, F f) {
    int previous_device;
    cudaGetDevice(&previous_device);
    cudaEvent_t event;
    const auto on_device_of = [](const Call &call) { cudaSetDevice(call.comm->device); };
    for (size_t r = 1; r < calls.size(); r++) {
        cudaEventCreate(&event);
        on_device_of(calls[r]), cudaEventRecord(event, calls[r].stream);
        on_device_of(calls[0]), cudaStreamWaitEvent(calls[0].stream, event, 0);
        cudaEventDestroy(event);
    }
    on_device_of(calls[0]);
    library::run(calls[0].name, calls[0].stream, arrays, f, calls[0].line);
    cudaEventCreate(&event);
    cudaEventRecord(event, calls[0].stream);
    for (size_t r = 1; r < calls.size(); r++) on_device_of(calls[r]), cudaStreamWaitEvent(calls[r].stream, event, 0);
    cudaEventDestroy(event);
    cudaSetDevice(previous_device);
}
inline bool is_point_to_point(const Call &call) { return call.kind == Kind::send || call.kind == Kind::receive; }
// Runs the next collective if every rank has called it; all arguments but the arrays must agree.
inline bool run_collective(CommunicatorGroup &group) {
    std::vector<Call> calls;
    for (const auto &queue : group.calls) {
        if (queue.empty() || is_point_to_point(queue.front())) return false;
        calls.push_back(queue.front());
        const Call &a = calls[0], &b = queue.front();
        if (a.kind != b.kind || a.count != b.count || a.type != b.type || a.op != b.op || a.root != b.root)
            return false;
    }
    for (auto &queue : group.calls) queue.pop_front();
    run_in_all_streams(calls, arrays_of(calls), [calls] { compute(calls); });
    return true;
}
// Runs a pair of ncclSend and ncclRecv.
inline bool run_pair(CommunicatorGroup &group) {
    for (auto &senders : group.calls)
        for (auto send = senders.begin(); send != senders.end() && is_point_to_point(*send); ++send) {
            if (send->kind != Kind::send) continue;
            auto &receivers = group.calls[size_t(send->root)];
            for (auto receive = receivers.begin(); receive != receivers.end(); ++receive) {
                if (receive->kind != Kind::receive || receive->root != send->comm->rank) continue;
                if (receive->count != send->count || receive->type != send->type) return false;
                const std::vector<Call> calls = {*send, *receive};
                const size_t bytes = send->count * bytes_of(send->type);
                run_in_all_streams(calls, {{send->from, bytes, false}, {receive->to, bytes, true}},
                    [calls, bytes] { copy_unchecked(calls[1].to, calls[0].from, bytes); });
                receivers.erase(receive);                  // of another queue, unless a rank sends to itself
                if (&receivers == &senders) {
                    for (auto call = senders.begin(); call != senders.end(); ++call)
                        if (call->kind == Kind::send && call->root == calls[0].comm->rank) {
                            senders.erase(call);
                            break;
                        }
                } else senders.erase(send);
                return true;
            }
        }
    return false;
}
inline ncclResult_t end_group() {
    ncclResult_t result = ncclSuccess;
    for (auto &group : open_groups) {
        while (run_collective(*group) || run_pair(*group)) {}
        if (!group->is_empty()) result = ncclInvalidUsage;        // on GPUs, the ranks that have called would deadlock
        for (auto &queue : group->calls) queue.clear();
    }
    open_groups.clear();
    return result;
}
inline ncclResult_t add(const Call &call) {
    if (!call.comm || (call.count && !call.from && !call.to)) return ncclInvalidArgument;
    if (call.root < 0 || call.root >= call.comm->ranks()) return ncclInvalidArgument;
    call.comm->group->calls[size_t(call.comm->rank)].push_back(call);
    open_groups.push_back(call.comm->group);
    return group_depth ? ncclSuccess : end_group();
}
}
}

inline const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
        case ncclSuccess: return "no error";
        case ncclInvalidArgument: return "invalid argument";
        case ncclInvalidUsage: return "invalid usage: ranks of the group have not called the collective, or disagree";
        default: return "unhandled error";
    }
}
inline ncclResult_t ncclGetVersion(int *version) { *version = NCCL_VERSION_CODE; return ncclSuccess; }
inline ncclResult_t ncclCommInitAll(ncclComm_t *comms, int ranks, const int *devices) {
    if (ranks < 1) return ncclInvalidArgument;
    const auto group = std::make_shared<gridstride::nccl::CommunicatorGroup>();
    group->calls.resize(size_t(ranks));
    for (int rank = 0; rank < ranks; rank++) {
        const int device = devices ? devices[rank] : rank;
        if (!gridstride::is_device_index(device)) return ncclInvalidArgument;
        comms[rank] = new GridstrideComm{group, rank, device};
    }
    return ncclSuccess;
}
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) { delete comm; return ncclSuccess; }
inline ncclResult_t ncclCommCount(ncclComm_t comm, int *ranks) { *ranks = comm->ranks(); return ncclSuccess; }
inline ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) { *rank = comm->rank; return ncclSuccess; }
inline ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device) { *device = comm->device; return ncclSuccess; }
inline ncclResult_t ncclGroupStart() { gridstride::nccl::group_depth++; return ncclSuccess; }
inline ncclResult_t ncclGroupEnd() {
    using namespace gridstride::nccl;
    if (!group_depth) return ncclInvalidUsage;
    return --group_depth ? ncclSuccess : end_group();
}
#define GRIDSTRIDE_NCCL(kind, name, from, to, count, op, root) \
    ::gridstride::nccl::add( \
        {::gridstride::nccl::Kind::kind, name, from, to, count, type, op, root, comm, stream, line})
inline ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
    ncclComm_t comm, cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(all_reduce, "ncclAllReduce", from, to, count, op, 0);
}
inline ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
    ncclComm_t comm, cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(broadcast, "ncclBroadcast", from, to, count, ncclSum, root);
}
inline ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
    ncclComm_t comm, cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(reduce, "ncclReduce", from, to, count, op, root);
}
inline ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
    cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(all_gather, "ncclAllGather", from, to, count, ncclSum, 0);
}
inline ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
    ncclComm_t comm, cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(reduce_scatter, "ncclReduceScatter", from, to, count, op, 0);
}
inline ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
    cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(send, "ncclSend", from, nullptr, count, ncclSum, peer);
}
inline ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
    cudaStream_t stream, int line = __builtin_LINE()) {
    return GRIDSTRIDE_NCCL(receive, "ncclRecv", nullptr, to, count, ncclSum, peer);
}
#undef GRIDSTRIDE_NCCL
