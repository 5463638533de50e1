// Streams and events. Each operation is complete when its call returns, and events measure CPU time. The runtime
// records the order of operations, and checks that the host waits for them.
#pragma once
#include <string.h>
#include <time.h>
#include "capture.h"
#include "runtime_errors.h"

struct GridstrideStream { int priority; };
struct GridstrideEvent { double seconds; gridstride::Graph *graph; bool is_shared; };
typedef GridstrideEvent *cudaEvent_t;
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void *);
typedef void (*cudaHostFn_t)(void *);
enum {
    cudaStreamDefault = 0,
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2,
    cudaEventInterprocess = 4
};
#define cudaStreamLegacy ((cudaStream_t)0)
#define cudaStreamPerThread ((cudaStream_t)0)

GRIDSTRIDE_NO_TSAN inline cudaError_t cudaStreamCreateWithFlags(
    cudaStream_t *s, unsigned flags, int line = __builtin_LINE()) {
    *s = new GridstrideStream();
    gridstride::register_stream(*s, !(flags & cudaStreamNonBlocking), line);
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t *s, int line = __builtin_LINE()) {
    return cudaStreamCreateWithFlags(s, cudaStreamDefault, line);
}
// The lowest and the highest priority; priorities have no effect here
constexpr int gridstride_priorities[] = {0, -5};
inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = gridstride_priorities[0];
    if (greatest) *greatest = gridstride_priorities[1];
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithPriority(
    cudaStream_t *s, unsigned flags, int priority, int line = __builtin_LINE()) {
    const auto [least, greatest] = gridstride_priorities;
    const cudaError_t e = cudaStreamCreateWithFlags(s, flags, line);
    (*s)->priority = priority > least ? least : priority < greatest ? greatest : priority;
    return e;
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
    *priority = s ? s->priority : 0;
    return cudaSuccess;
}
GRIDSTRIDE_NO_TSAN inline cudaError_t cudaStreamDestroy(cudaStream_t s) {
    if (gridstride::is_any_stream_captured()) gridstride::abandon_capture(s);
    gridstride::unregister_stream(s);
    delete s;
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    gridstride::host_waits_for(s);
    if (gridstride::capture_graph(s)) return gridstride::record_error(cudaErrorStreamCaptureUnsupported);
    return cudaError_t(gridstride::error_after_waiting());
}
inline cudaError_t cudaStreamQuery(cudaStream_t s) { return cudaStreamSynchronize(s); }
// A stream that waits for an event of a captured stream is captured, too.
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned = 0) {
    if (e->graph && !gridstride::is_graph_captured(e->graph)) return gridstride::record_error(cudaErrorCapturedEvent);
    if (e->graph && !gridstride::capture_graph(s)) gridstride::begin_capture(s, e->graph, false);
    if (e->graph) gridstride::capture_waits_for_event(s, e);
    else gridstride::stream_waits_for_event(s, e);
    return cudaSuccess;
}
inline cudaError_t cudaStreamAddCallback(
    cudaStream_t s, cudaStreamCallback_t f, void *data, unsigned, int line = __builtin_LINE()) {
    const gridstride::StreamOperation operation("cudaStreamAddCallback", s, line);
    gridstride::signal_host_threads();
    f(s, cudaSuccess, data);
    return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data, int line = __builtin_LINE()) {
    const auto call = [=] {
        const gridstride::StreamOperation operation("cudaLaunchHostFunc", s, line);
        gridstride::signal_host_threads();
        f(data);
        return 0;
    };
    if (!gridstride::defer(s, gridstride::NodeKind::host, call)) call();
    return cudaSuccess;
}
GRIDSTRIDE_NO_TSAN inline cudaError_t cudaEventCreate(cudaEvent_t *e, unsigned = cudaEventDefault) {
    *e = new GridstrideEvent{-1, nullptr, false};
    return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) { return cudaEventCreate(e); }
GRIDSTRIDE_NO_TSAN inline cudaError_t cudaEventDestroy(cudaEvent_t e) {
    gridstride::discard_event(e);
    delete e;
    return cudaSuccess;
}
GRIDSTRIDE_NO_TSAN inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = nullptr) {
    e->graph = gridstride::capture_graph(s);
    if (e->graph) gridstride::record_capture_event(e, s);
    else gridstride::record_event(e, s);
    if (e->is_shared) gridstride::host_waits_for(s);
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->seconds = double(t.tv_sec) + t.tv_nsec * 1e-9;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s = nullptr, unsigned = 0) {
    return cudaEventRecord(e, s);
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    gridstride::host_waits_for_event(e);
    return cudaError_t(gridstride::error_after_waiting());
}
inline cudaError_t cudaEventQuery(cudaEvent_t e) { return cudaEventSynchronize(e); }
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
    if (a->seconds < 0 || b->seconds < 0) return gridstride::record_error(cudaErrorInvalidResourceHandle);
    *ms = float((b->seconds - a->seconds) * 1e3);
    return cudaSuccess;
}

// Handles of memory and events for other processes. Recording an event that has a handle waits for the operations
// before it, so another process need not wait for it.
struct cudaIpcMemHandle_t { char reserved[64]; };
struct cudaIpcEventHandle_t { char reserved[64]; };
enum { cudaIpcMemLazyEnablePeerAccess = 1 };
static_assert(sizeof(gridstride::MemoryHandle) <= sizeof(cudaIpcMemHandle_t), "a handle contains the memory's data");
inline cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p) {
    gridstride::MemoryHandle memory;
    gridstride::host_waits();                      // because another process may use the memory from now on
    if (!gridstride::share_memory(p, memory)) return gridstride::record_error(cudaErrorInvalidValue);
    *handle = {};
    gridstride::copy_unchecked(handle->reserved, &memory, sizeof memory);
    return cudaSuccess;
}
inline cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned) {
    gridstride::MemoryHandle memory;
    gridstride::copy_unchecked(&memory, handle.reserved, sizeof memory);
    if (!(*p = gridstride::open_shared(memory))) return gridstride::record_error(cudaErrorMapBufferObjectFailed);
    const int owner = gridstride::device_of(*p);         // enables access to the memory of its device
    if (owner >= 0 && owner != gridstride::current_device()) gridstride::set_peer_access(owner, true);
    return cudaSuccess;
}
inline cudaError_t cudaIpcCloseMemHandle(void *p) {
    gridstride::host_waits();
    return gridstride::success_if(gridstride::close_shared(p), cudaErrorInvalidValue);
}
namespace gridstride {
struct EventHandle { cudaEvent_t event; int process; };
}
inline cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t e) {
    const gridstride::EventHandle shared = {e, gridstride::process_id()};
    e->is_shared = true;
    *handle = {};
    gridstride::copy_unchecked(handle->reserved, &shared, sizeof shared);
    return cudaSuccess;
}
inline cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *e, cudaIpcEventHandle_t handle) {
    gridstride::EventHandle shared;
    gridstride::copy_unchecked(&shared, handle.reserved, sizeof shared);
    if (shared.process == gridstride::process_id()) return *e = shared.event, cudaSuccess;
    *e = new GridstrideEvent{-1, nullptr, true};
    return cudaSuccess;
}
