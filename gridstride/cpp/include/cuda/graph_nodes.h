// Graphs that a program builds node by node.
#pragma once
#include <vector>
#include "textures.h"

namespace gridstride {
// A kernel with its parameter types; the rewriter replaces `(void *)k` in `func = (void *)k` with a `Kernel`.
class Kernel {
    const void *address = nullptr;
    const char *name = "";
    DeferredWork (*work_maker)(const Kernel &, const Config &, void **args) = nullptr;

    template <class... P> static DeferredWork bind_arguments(const Config &c, const char *name, void (*kernel)(P...),
        std::remove_reference_t<P>... args) {
        DeferredWork work = make_work([=] {
            return launch(c, name, 0, kernel, args...), int(cudaPeekAtLastError());
        });
        return work.queues_itself = true, work;
    }
    template <class... P, size_t... i>
    static DeferredWork unpack_arguments(const Config &c, const char *name, void (*kernel)(P...),
        [[maybe_unused]] void **args, std::index_sequence<i...>) {
        return bind_arguments<P...>(c, name, kernel, *static_cast<std::remove_reference_t<P> *>(args[i])...);
    }

public:
    Kernel(std::nullptr_t = nullptr) {}
    template <class... P> Kernel(const char *name, void (*kernel)(P...))
        : address(reinterpret_cast<const void *>(kernel)), name(name),
          work_maker([](const Kernel &k, const Config &c, void **args) {
              const auto typed_kernel = reinterpret_cast<void (*)(P...)>(const_cast<void *>(k.address));
              return unpack_arguments(c, k.name, typed_kernel, args, std::index_sequence_for<P...>());
          }) {}
    explicit operator bool() const { return address; }
    DeferredWork work(const Config &c, void **args) const { return work_maker(*this, c, args); }
};

struct Condition { unsigned value, initial; };

inline cudaError_t add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t n,
    NodeKind kind, const DeferredWork &work) {
    *node = add_node(graph, kind, work);
    for (size_t i = 0; i < n; i++) set_edge(dependencies[i], *node, true);
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
inline bool is_launchable(const cudaKernelNodeParams *p) { return p->func && !p->extra; }
inline DeferredWork work_for(const cudaKernelNodeParams *p) {
    return p->func.work(Config(p->gridDim, p->blockDim, p->sharedMemBytes), p->kernelParams);
}
inline DeferredWork work_for(const cudaMemcpy3DParms *p) {
    return make_work([copy = *p] { return int(cudaMemcpy3D(&copy, 0)); });
}
inline DeferredWork work_for(const cudaMemsetParams *p) {
    return make_work([m = *p] {
        const StreamOperation operation("cudaMemset2D", nullptr, 0);
        std::vector<char> row(m.width * m.elementSize);
        for (size_t i = 0; i < row.size(); i++) row[i] = char(m.value >> i % m.elementSize * 8);
        for (size_t j = 0; j < m.height; j++) {
            char *const to = static_cast<char *>(m.dst) + j * m.pitch;
            if (const int e = cudaMemcpy(to, row.data(), row.size(), cudaMemcpyHostToDevice, 0)) return e;
        }
        return 0;
    });
}
inline DeferredWork work_for(const cudaHostNodeParams *p) {
    return make_work([h = *p] { return h.fn(h.userData), 0; });
}
inline DeferredWork copy_work(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return make_work([=] { return int(cudaMemcpy(to, from, bytes, kind, 0)); });
}
inline DeferredWork empty_work() { return make_work([] { return 0; }); }
// The graphs in `phGraph_out` live as long as the program.
inline DeferredWork work_for(const cudaConditionalNodeParams *p) {
    return make_work([c = *p] {
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

inline cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies,
    size_t n, const cudaKernelNodeParams *p) {
    using namespace gridstride;
    if (!is_launchable(p)) return record_error(cudaErrorInvalidDeviceFunction);
    return add_node(node, g, dependencies, n, NodeKind::kernel, work_for(p));
}
inline cudaError_t cudaGraphAddMemcpyNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n, const cudaMemcpy3DParms *p) {
    return gridstride::add_node(node, g, dependencies, n, gridstride::NodeKind::memcpy, gridstride::work_for(p));
}
inline cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies,
    size_t n, void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    using namespace gridstride;
    return add_node(node, g, dependencies, n, NodeKind::memcpy, copy_work(to, from, bytes, kind));
}
inline cudaError_t cudaGraphAddMemsetNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n, const cudaMemsetParams *p) {
    using namespace gridstride;
    if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) return record_error(cudaErrorInvalidValue);
    return add_node(node, g, dependencies, n, NodeKind::memset, work_for(p));
}
inline cudaError_t cudaGraphAddHostNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n, const cudaHostNodeParams *p) {
    return gridstride::add_node(node, g, dependencies, n, gridstride::NodeKind::host, gridstride::work_for(p));
}
inline cudaError_t cudaGraphAddEmptyNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n) {
    return gridstride::add_node(node, g, dependencies, n, gridstride::NodeKind::empty, gridstride::empty_work());
}
inline cudaError_t cudaGraphAddChildGraphNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n, cudaGraph_t child) {
    using namespace gridstride;
    Graph *const copy = copy_graph(child);          // lives as long as the program
    if (!copy) return record_error(cudaErrorInvalidValue);
    DeferredWork work = make_work([=] { return run_graph(copy); });
    work.queues_itself = true;
    return add_node(node, g, dependencies, n, NodeKind::graph, work);
}
inline cudaError_t cudaGraphAddEventRecordNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n, cudaEvent_t event) {
    using namespace gridstride;
    return add_node(node, g, dependencies, n, NodeKind::record, make_work([=] { return int(cudaEventRecord(event)); }));
}
inline cudaError_t cudaGraphAddEventWaitNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n, cudaEvent_t event) {
    using namespace gridstride;
    const auto wait = [=] { return stream_waits_for_event(nullptr, event), 0; };
    return add_node(node, g, dependencies, n, NodeKind::wait, make_work(wait));
}
inline cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies,
    size_t n, cudaMemAllocNodeParams *p, int line = __builtin_LINE()) {
    using namespace gridstride;
    p->dptr = graph_alloc(p->bytesize, line);
    if (!p->dptr) return record_error(cudaErrorMemoryAllocation);
    return add_node(node, g, dependencies, n, NodeKind::alloc, empty_work());
}
inline cudaError_t cudaGraphAddMemFreeNode(
    cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n, void *p) {
    using namespace gridstride;
    return add_node(node, g, dependencies, n, NodeKind::free, make_work([=] { return int(cudaFree(p)); }));
}
inline cudaError_t cudaGraphConditionalHandleCreate(
    cudaGraphConditionalHandle *handle, cudaGraph_t, unsigned value = 0, unsigned flags = 0) {
    const unsigned initial = flags & cudaGraphCondAssignDefault ? value : 0;
    *handle = reinterpret_cast<uintptr_t>(new gridstride::Condition{initial, initial});
    return cudaSuccess;
}
GRIDSTRIDE_NO_TSAN inline void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) {
    reinterpret_cast<gridstride::Condition *>(handle)->value = value;
}
inline cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies,
    const cudaGraphEdgeData *, size_t n, cudaGraphNodeParams *p, int line = __builtin_LINE()) {
    switch (p->type) {
        case cudaGraphNodeTypeKernel: return cudaGraphAddKernelNode(node, g, dependencies, n, &p->kernel);
        case cudaGraphNodeTypeMemcpy: return cudaGraphAddMemcpyNode(node, g, dependencies, n, &p->memcpy.copyParams);
        case cudaGraphNodeTypeMemset: return cudaGraphAddMemsetNode(node, g, dependencies, n, &p->memset);
        case cudaGraphNodeTypeHost: return cudaGraphAddHostNode(node, g, dependencies, n, &p->host);
        case cudaGraphNodeTypeGraph: return cudaGraphAddChildGraphNode(node, g, dependencies, n, p->graph.graph);
        case cudaGraphNodeTypeEmpty: return cudaGraphAddEmptyNode(node, g, dependencies, n);
        case cudaGraphNodeTypeWaitEvent: return cudaGraphAddEventWaitNode(node, g, dependencies, n, p->eventWait.event);
        case cudaGraphNodeTypeEventRecord:
            return cudaGraphAddEventRecordNode(node, g, dependencies, n, p->eventRecord.event);
        case cudaGraphNodeTypeMemAlloc: return cudaGraphAddMemAllocNode(node, g, dependencies, n, &p->alloc, line);
        case cudaGraphNodeTypeMemFree: return cudaGraphAddMemFreeNode(node, g, dependencies, n, p->free.dptr);
        case cudaGraphNodeTypeConditional: break;
    }
    using namespace gridstride;
    p->conditional.phGraph_out = new cudaGraph_t[p->conditional.size];
    for (unsigned i = 0; i < p->conditional.size; i++) p->conditional.phGraph_out[i] = new_graph();
    return add_node(node, g, dependencies, n, NodeKind::conditional, work_for(&p->conditional));
}
inline cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *dependencies, size_t n,
    cudaGraphNodeParams *p, int line = __builtin_LINE()) {
    return cudaGraphAddNode(node, g, dependencies, nullptr, n, p, line);
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

// Updates of nodes and of instantiated graphs

namespace gridstride {
inline cudaError_t replace_work(GraphNode *node, NodeKind kind, const DeferredWork &work) {
    if (!node || node_kind(node) != kind) {
        work.destroy(work.callable);
        return record_error(cudaErrorInvalidValue);
    }
    return set_work(node, work), cudaSuccess;
}
inline GraphNode *node_of(cudaGraphExec_t exec, cudaGraphNode_t node) { return node_of_copy(exec->graph, node); }
}
inline cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *p) {
    using namespace gridstride;
    return is_launchable(p) ? replace_work(node, NodeKind::kernel, work_for(p))
                      : record_error(cudaErrorInvalidDeviceFunction);
}
inline cudaError_t cudaGraphExecKernelNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams *p) {
    return cudaGraphKernelNodeSetParams(gridstride::node_of(exec, node), p);
}
inline cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms *p) {
    return gridstride::replace_work(node, gridstride::NodeKind::memcpy, gridstride::work_for(p));
}
inline cudaError_t cudaGraphExecMemcpyNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms *p) {
    return cudaGraphMemcpyNodeSetParams(gridstride::node_of(exec, node), p);
}
inline cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
    const void *from, size_t bytes, cudaMemcpyKind kind) {
    using namespace gridstride;
    return replace_work(node_of(exec, node), NodeKind::memcpy, copy_work(to, from, bytes, kind));
}
inline cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams *p) {
    return gridstride::replace_work(node, gridstride::NodeKind::memset, gridstride::work_for(p));
}
inline cudaError_t cudaGraphExecMemsetNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams *p) {
    return cudaGraphMemsetNodeSetParams(gridstride::node_of(exec, node), p);
}
inline cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams *p) {
    return gridstride::replace_work(node, gridstride::NodeKind::host, gridstride::work_for(p));
}
inline cudaError_t cudaGraphExecHostNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams *p) {
    return cudaGraphHostNodeSetParams(gridstride::node_of(exec, node), p);
}
inline cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph) {
    *clone = gridstride::copy_graph(graph);
    return gridstride::success_if(*clone, cudaErrorInvalidValue);
}
inline cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t original, cudaGraph_t clone) {
    *node = gridstride::node_of_copy(clone, original);
    return gridstride::success_if(*node, cudaErrorInvalidValue);
}
enum cudaGraphExecUpdateResult { cudaGraphExecUpdateSuccess = 0, cudaGraphExecUpdateErrorTopologyChanged = 2 };
struct cudaGraphExecUpdateResultInfo { cudaGraphExecUpdateResult result; cudaGraphNode_t errorNode, errorFromNode; };
inline cudaError_t cudaGraphExecUpdate(
    cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error, cudaGraphExecUpdateResult *result) {
    const bool is_same_topology = gridstride::update_graph(exec->graph, graph);
    if (error) *error = nullptr;
    if (result) *result = is_same_topology ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    return gridstride::success_if(is_same_topology, cudaErrorGraphExecUpdateFailure);
}
inline cudaError_t cudaGraphExecUpdate(
    cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info = nullptr) {
    if (info) info->errorFromNode = nullptr;
    return cudaGraphExecUpdate(exec, graph, info ? &info->errorNode : nullptr, info ? &info->result : nullptr);
}

// Streams that are captured into a graph
inline cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
    const cudaGraphEdgeData *, size_t n, cudaStreamCaptureMode) {
    if (!s) return gridstride::record_error(cudaErrorStreamCaptureUnsupported);
    if (gridstride::capture_graph(s)) return gridstride::record_error(cudaErrorIllegalState);
    gridstride::begin_capture(s, graph);
    gridstride::set_capture_dependencies(s, dependencies, n, false);
    return cudaSuccess;
}
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id,
    cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *n) {
    if (id) *id = reinterpret_cast<uintptr_t>(gridstride::capture_graph(s));
    if (graph) *graph = gridstride::capture_graph(s);
    size_t count = 0;
    const cudaGraphNode_t *const nodes =
        gridstride::capture_graph(s) ? gridstride::capture_dependencies(s, count) : nullptr;
    if (dependencies) *dependencies = nodes;
    if (n) *n = count;
    return cudaStreamIsCapturing(s, status);
}
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id,
    cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *n) {
    if (edges) *edges = nullptr;
    return cudaStreamGetCaptureInfo(s, status, id, graph, dependencies, n);
}
enum { cudaStreamAddCaptureDependencies = 0, cudaStreamSetCaptureDependencies = 1 };
inline cudaError_t cudaStreamUpdateCaptureDependencies(
    cudaStream_t s, cudaGraphNode_t *nodes, const cudaGraphEdgeData *, size_t n, unsigned flags = 0) {
    if (!gridstride::capture_graph(s)) return gridstride::record_error(cudaErrorIllegalState);
    gridstride::set_capture_dependencies(s, nodes, n, flags == cudaStreamAddCaptureDependencies);
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
    return gridstride::success_if(device == 0, cudaErrorInvalidDevice);
}
inline cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void *) { return cudaSuccess; }
inline cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }
