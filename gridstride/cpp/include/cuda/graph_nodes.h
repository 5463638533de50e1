// Graphs whose nodes a source adds one by one.
#pragma once
#include <vector>
#include "textures.h"

namespace gridstride {
// A kernel with the types of its parameters, by which the rewriter replaces the value of `func = (void *)k`.
class Kernel {
    const void *at = nullptr;
    const char *name = "";
    GraphWork (*make)(const Kernel &, const Config &, void **args) = nullptr;

    template <class... P> static GraphWork bound(const Config &c, const char *name, void (*kernel)(P...),
        std::remove_reference_t<P>... args) {
        return work_of([=] { return launch(c, name, 0, kernel, args...), int(cudaPeekAtLastError()); });
    }
    template <class... P, size_t... i> static GraphWork packed(const Config &c, const char *name, void (*kernel)(P...),
        [[maybe_unused]] void **args, std::index_sequence<i...>) {
        return bound<P...>(c, name, kernel, *static_cast<std::remove_reference_t<P> *>(args[i])...);
    }

public:
    Kernel(std::nullptr_t = nullptr) {}
    template <class... P> Kernel(const char *name, void (*kernel)(P...))
        : at(reinterpret_cast<const void *>(kernel)), name(name),
          make([](const Kernel &k, const Config &c, void **args) {
              const auto typed = reinterpret_cast<void (*)(P...)>(const_cast<void *>(k.at));
              return packed(c, k.name, typed, args, std::index_sequence_for<P...>());
          }) {}
    explicit operator bool() const { return at; }
    GraphWork work(const Config &c, void **args) const { return make(*this, c, args); }
};

struct Condition { unsigned value, initial; };

inline cudaError_t add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t n,
    NodeKind kind, const GraphWork &work) {
    *node = add_node(graph, kind, work);
    for (size_t i = 0; i < n; i++) set_edge(before[i], *node, true);
    return cudaSuccess;
}
inline int run_copy(Graph *graph) {
    Graph *const copy = copy_graph(graph);
    const int e = copy ? run_graph(copy) : int(cudaErrorInvalidValue);
    return release_graph(copy), e;
}
}

// The parameters of each kind of node

struct cudaKernelNodeParams {
    gridstride::Kernel func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
};
struct cudaMemsetParams {
    void *dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};
struct cudaHostNodeParams { cudaHostFn_t fn; void *userData; };
struct cudaMemAccessDesc;
struct cudaMemAllocNodeParams {
    cudaMemPoolProps poolProps;
    const cudaMemAccessDesc *accessDescs;
    size_t accessDescCount, bytesize;
    void *dptr;
};
struct cudaMemFreeNodeParams { void *dptr; };
struct cudaMemcpyNodeParams { int flags, reserved[3]; cudaMemcpy3DParms copyParams; };
struct cudaChildGraphNodeParams { cudaGraph_t graph; };
struct cudaEventRecordNodeParams { cudaEvent_t event; };
struct cudaEventWaitNodeParams { cudaEvent_t event; };
enum cudaGraphConditionalNodeType { cudaGraphCondTypeIf = 0, cudaGraphCondTypeWhile = 1, cudaGraphCondTypeSwitch = 2 };
enum { cudaGraphCondAssignDefault = 1 };
typedef unsigned long long cudaGraphConditionalHandle;
struct cudaConditionalNodeParams {
    cudaGraphConditionalHandle handle;
    cudaGraphConditionalNodeType type;
    unsigned size;
    cudaGraph_t *phGraph_out;
};
struct cudaGraphEdgeData { unsigned char from_port, to_port, type, reserved[5]; };
struct cudaGraphNodeParams {
    cudaGraphNodeType type;
    int reserved0[3];
    cudaKernelNodeParams kernel;
    cudaMemcpyNodeParams memcpy;
    cudaMemsetParams memset;
    cudaHostNodeParams host;
    cudaChildGraphNodeParams graph;
    cudaEventWaitNodeParams eventWait;
    cudaEventRecordNodeParams eventRecord;
    cudaMemAllocNodeParams alloc;
    cudaMemFreeNodeParams free;
    cudaConditionalNodeParams conditional;
};

// The work of each kind of node, with copies of its parameters

namespace gridstride {
inline bool may_run(const cudaKernelNodeParams *p) { return p->func && !p->extra; }
inline GraphWork work_for(const cudaKernelNodeParams *p) {
    return p->func.work(Config(p->gridDim, p->blockDim, p->sharedMemBytes), p->kernelParams);
}
inline GraphWork work_for(const cudaMemcpy3DParms *p) {
    return work_of([copy = *p] { return int(cudaMemcpy3D(&copy, 0)); });
}
inline GraphWork work_for(const cudaMemsetParams *p) {
    return work_of([m = *p] {
        const Enqueued operation("cudaMemset2D", nullptr, 0);
        std::vector<char> row(m.width * m.elementSize);
        for (size_t i = 0; i < row.size(); i++) row[i] = char(m.value >> i % m.elementSize * 8);
        for (size_t j = 0; j < m.height; j++) {
            char *const to = static_cast<char *>(m.dst) + j * m.pitch;
            if (const int e = cudaMemcpy(to, row.data(), row.size(), cudaMemcpyHostToDevice, 0)) return e;
        }
        return 0;
    });
}
inline GraphWork work_for(const cudaHostNodeParams *p) { return work_of([h = *p] { return h.fn(h.userData), 0; }); }
inline GraphWork copying(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return work_of([=] { return int(cudaMemcpy(to, from, bytes, kind, 0)); });
}
inline GraphWork nothing_to_do() { return work_of([] { return 0; }); }
// The bodies live as long as the program.
inline GraphWork work_for(const cudaConditionalNodeParams *p) {
    return work_of([c = *p] {
        auto &condition = *reinterpret_cast<Condition *>(c.handle);
        const unsigned value = condition.value;
        int e = 0;
        if (c.type == cudaGraphCondTypeWhile)
            while (!e && condition.value) e = run_copy(c.phGraph_out[0]);
        else if (const unsigned n = c.type == cudaGraphCondTypeSwitch ? value : !value; n < c.size)
            e = run_copy(c.phGraph_out[n]);
        condition.value = condition.initial;
        return e;
    });
}
}

inline cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n,
    const cudaKernelNodeParams *p) {
    using namespace gridstride;
    if (!may_run(p)) return record_error(cudaErrorInvalidDeviceFunction);
    return add_node(node, g, before, n, NodeKind::kernel, work_for(p));
}
inline cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n,
    const cudaMemcpy3DParms *p) {
    return gridstride::add_node(node, g, before, n, gridstride::NodeKind::memcpy, gridstride::work_for(p));
}
inline cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before,
    size_t n, void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    using namespace gridstride;
    return add_node(node, g, before, n, NodeKind::memcpy, copying(to, from, bytes, kind));
}
inline cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n,
    const cudaMemsetParams *p) {
    using namespace gridstride;
    if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) return record_error(cudaErrorInvalidValue);
    return add_node(node, g, before, n, NodeKind::memset, work_for(p));
}
inline cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n,
    const cudaHostNodeParams *p) {
    return gridstride::add_node(node, g, before, n, gridstride::NodeKind::host, gridstride::work_for(p));
}
inline cudaError_t cudaGraphAddEmptyNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n) {
    return gridstride::add_node(node, g, before, n, gridstride::NodeKind::empty, gridstride::nothing_to_do());
}
inline cudaError_t cudaGraphAddChildGraphNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n, cudaGraph_t child) {
    using namespace gridstride;
    Graph *const copy = copy_graph(child);          // lives as long as the program
    if (!copy) return record_error(cudaErrorInvalidValue);
    return add_node(node, g, before, n, NodeKind::graph, work_of([=] { return run_graph(copy); }));
}
inline cudaError_t cudaGraphAddEventRecordNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n, cudaEvent_t event) {
    using namespace gridstride;
    return add_node(node, g, before, n, NodeKind::record, work_of([=] { return int(cudaEventRecord(event)); }));
}
inline cudaError_t cudaGraphAddEventWaitNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n, cudaEvent_t event) {
    using namespace gridstride;
    const auto wait = [=] { return stream_waits(nullptr, event), 0; };
    return add_node(node, g, before, n, NodeKind::wait, work_of(wait));
}
inline cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before,
    size_t n, cudaMemAllocNodeParams *p, int line = __builtin_LINE()) {
    using namespace gridstride;
    p->dptr = graph_alloc(p->bytesize, line);
    if (!p->dptr) return record_error(cudaErrorMemoryAllocation);
    return add_node(node, g, before, n, NodeKind::alloc, nothing_to_do());
}
inline cudaError_t cudaGraphAddMemFreeNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n, void *p) {
    using namespace gridstride;
    return add_node(node, g, before, n, NodeKind::free, work_of([=] { return int(cudaFree(p)); }));
}
inline cudaError_t cudaGraphConditionalHandleCreate(
    cudaGraphConditionalHandle *handle, cudaGraph_t, unsigned value = 0, unsigned flags = 0) {
    const unsigned initial = flags & cudaGraphCondAssignDefault ? value : 0;
    *handle = reinterpret_cast<uintptr_t>(new gridstride::Condition{initial, initial});
    return cudaSuccess;
}
GRIDSTRIDE_UNSEEN inline void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) {
    reinterpret_cast<gridstride::Condition *>(handle)->value = value;
}
inline cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before,
    const cudaGraphEdgeData *, size_t n, cudaGraphNodeParams *p, int line = __builtin_LINE()) {
    switch (p->type) {
        case cudaGraphNodeTypeKernel: return cudaGraphAddKernelNode(node, g, before, n, &p->kernel);
        case cudaGraphNodeTypeMemcpy: return cudaGraphAddMemcpyNode(node, g, before, n, &p->memcpy.copyParams);
        case cudaGraphNodeTypeMemset: return cudaGraphAddMemsetNode(node, g, before, n, &p->memset);
        case cudaGraphNodeTypeHost: return cudaGraphAddHostNode(node, g, before, n, &p->host);
        case cudaGraphNodeTypeGraph: return cudaGraphAddChildGraphNode(node, g, before, n, p->graph.graph);
        case cudaGraphNodeTypeEmpty: return cudaGraphAddEmptyNode(node, g, before, n);
        case cudaGraphNodeTypeWaitEvent: return cudaGraphAddEventWaitNode(node, g, before, n, p->eventWait.event);
        case cudaGraphNodeTypeEventRecord: return cudaGraphAddEventRecordNode(node, g, before, n, p->eventRecord.event);
        case cudaGraphNodeTypeMemAlloc: return cudaGraphAddMemAllocNode(node, g, before, n, &p->alloc, line);
        case cudaGraphNodeTypeMemFree: return cudaGraphAddMemFreeNode(node, g, before, n, p->free.dptr);
        case cudaGraphNodeTypeConditional: break;
    }
    using namespace gridstride;
    p->conditional.phGraph_out = new cudaGraph_t[p->conditional.size];
    for (unsigned i = 0; i < p->conditional.size; i++) p->conditional.phGraph_out[i] = new_graph();
    return add_node(node, g, before, n, NodeKind::conditional, work_for(&p->conditional));
}
inline cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *before, size_t n,
    cudaGraphNodeParams *p, int line = __builtin_LINE()) {
    return cudaGraphAddNode(node, g, before, nullptr, n, p, line);
}
inline cudaError_t cudaGraphAddDependencies(
    cudaGraph_t, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!gridstride::set_edge(from[i], to[i], true)) return gridstride::record_error(cudaErrorInvalidValue);
    return cudaSuccess;
}
inline cudaError_t cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
    const cudaGraphEdgeData *, size_t n) {
    return cudaGraphAddDependencies(g, from, to, n);
}
inline cudaError_t cudaGraphRemoveDependencies(
    cudaGraph_t, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!gridstride::set_edge(from[i], to[i], false)) return gridstride::record_error(cudaErrorInvalidValue);
    return cudaSuccess;
}

// Changes of a node, and of an instantiated graph

namespace gridstride {
inline cudaError_t change(GraphNode *node, NodeKind kind, const GraphWork &work) {
    if (!node || node_kind(node) != kind) {
        work.drop(work.work);
        return record_error(cudaErrorInvalidValue);
    }
    return set_work(node, work), cudaSuccess;
}
inline GraphNode *node_of(cudaGraphExec_t exec, cudaGraphNode_t node) { return node_of_copy(exec->graph, node); }
}
inline cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *p) {
    using namespace gridstride;
    return may_run(p) ? change(node, NodeKind::kernel, work_for(p)) : record_error(cudaErrorInvalidDeviceFunction);
}
inline cudaError_t cudaGraphExecKernelNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams *p) {
    return cudaGraphKernelNodeSetParams(gridstride::node_of(exec, node), p);
}
inline cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms *p) {
    return gridstride::change(node, gridstride::NodeKind::memcpy, gridstride::work_for(p));
}
inline cudaError_t cudaGraphExecMemcpyNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms *p) {
    return cudaGraphMemcpyNodeSetParams(gridstride::node_of(exec, node), p);
}
inline cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
    const void *from, size_t bytes, cudaMemcpyKind kind) {
    using namespace gridstride;
    return change(node_of(exec, node), NodeKind::memcpy, copying(to, from, bytes, kind));
}
inline cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams *p) {
    return gridstride::change(node, gridstride::NodeKind::memset, gridstride::work_for(p));
}
inline cudaError_t cudaGraphExecMemsetNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams *p) {
    return cudaGraphMemsetNodeSetParams(gridstride::node_of(exec, node), p);
}
inline cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams *p) {
    return gridstride::change(node, gridstride::NodeKind::host, gridstride::work_for(p));
}
inline cudaError_t cudaGraphExecHostNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams *p) {
    return cudaGraphHostNodeSetParams(gridstride::node_of(exec, node), p);
}
inline cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph) {
    *clone = gridstride::copy_graph(graph);
    return gridstride::failed_unless(*clone, cudaErrorInvalidValue);
}
inline cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t original, cudaGraph_t clone) {
    *node = gridstride::node_of_copy(clone, original);
    return gridstride::failed_unless(*node, cudaErrorInvalidValue);
}
enum cudaGraphExecUpdateResult { cudaGraphExecUpdateSuccess = 0, cudaGraphExecUpdateErrorTopologyChanged = 2 };
struct cudaGraphExecUpdateResultInfo { cudaGraphExecUpdateResult result; cudaGraphNode_t errorNode, errorFromNode; };
inline cudaError_t cudaGraphExecUpdate(
    cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error, cudaGraphExecUpdateResult *result) {
    const bool same = gridstride::update_graph(exec->graph, graph);
    if (error) *error = nullptr;
    if (result) *result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    return gridstride::failed_unless(same, cudaErrorGraphExecUpdateFailure);
}
inline cudaError_t cudaGraphExecUpdate(
    cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info = nullptr) {
    if (info) info->errorFromNode = nullptr;
    return cudaGraphExecUpdate(exec, graph, info ? &info->errorNode : nullptr, info ? &info->result : nullptr);
}

// Streams that are captured into a graph
inline cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, cudaGraph_t graph, const cudaGraphNode_t *before,
    const cudaGraphEdgeData *, size_t n, cudaStreamCaptureMode) {
    if (!s) return gridstride::record_error(cudaErrorStreamCaptureUnsupported);
    if (gridstride::captured(s)) return gridstride::record_error(cudaErrorIllegalState);
    gridstride::begin_capture(s, graph);
    gridstride::set_last_captured(s, before, n, false);
    return cudaSuccess;
}
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id,
    cudaGraph_t *graph, const cudaGraphNode_t **before, size_t *n) {
    if (id) *id = reinterpret_cast<uintptr_t>(gridstride::captured(s));
    if (graph) *graph = gridstride::captured(s);
    size_t count = 0;
    const cudaGraphNode_t *const last = gridstride::captured(s) ? gridstride::last_captured(s, count) : nullptr;
    if (before) *before = last;
    if (n) *n = count;
    return cudaStreamIsCapturing(s, status);
}
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id,
    cudaGraph_t *graph, const cudaGraphNode_t **before, const cudaGraphEdgeData **edges, size_t *n) {
    if (edges) *edges = nullptr;
    return cudaStreamGetCaptureInfo(s, status, id, graph, before, n);
}
enum { cudaStreamAddCaptureDependencies = 0, cudaStreamSetCaptureDependencies = 1 };
inline cudaError_t cudaStreamUpdateCaptureDependencies(
    cudaStream_t s, cudaGraphNode_t *nodes, const cudaGraphEdgeData *, size_t n, unsigned flags = 0) {
    if (!gridstride::captured(s)) return gridstride::record_error(cudaErrorIllegalState);
    gridstride::set_last_captured(s, nodes, n, flags == cudaStreamAddCaptureDependencies);
    return cudaSuccess;
}

// The memory of a graph stays allocated, so no other memory is reserved.
enum cudaGraphMemAttributeType {
    cudaGraphMemAttrUsedMemCurrent = 0,
    cudaGraphMemAttrUsedMemHigh = 1,
    cudaGraphMemAttrReservedMemCurrent = 2,
    cudaGraphMemAttrReservedMemHigh = 3
};
inline cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType, void *value) {
    *static_cast<unsigned long long *>(value) = gridstride::device_total();
    return gridstride::failed_unless(device == 0, cudaErrorInvalidDevice);
}
inline cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void *) { return cudaSuccess; }
inline cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }
