// Graphs captured from streams: each launch of a graph executes the captured operations in order.
#pragma once
#include "cuda_runtime.h"

typedef gridstride::Graph *cudaGraph_t;
typedef struct GridstrideGraphExec { gridstride::Graph *graph; } *cudaGraphExec_t;
typedef gridstride::GraphNode *cudaGraphNode_t;

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeThreadLocal = 1, cudaStreamCaptureModeRelaxed = 2
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1, cudaStreamCaptureStatusInvalidated = 2
};
enum cudaGraphNodeType {
    cudaGraphNodeTypeKernel = 0,
    cudaGraphNodeTypeMemcpy = 1,
    cudaGraphNodeTypeMemset = 2,
    cudaGraphNodeTypeHost = 3,
    cudaGraphNodeTypeGraph = 4,
    cudaGraphNodeTypeEmpty = 5,
    cudaGraphNodeTypeWaitEvent = 6,
    cudaGraphNodeTypeEventRecord = 7,
    cudaGraphNodeTypeMemAlloc = 10,
    cudaGraphNodeTypeMemFree = 11,
    cudaGraphNodeTypeConditional = 13
};
enum { cudaGraphInstantiateFlagAutoFreeOnLaunch = 1, cudaGraphInstantiateFlagUpload = 2 };

inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
    // as in CUDA, the default stream cannot be captured
    if (!s) return gridstride::record_error(cudaErrorStreamCaptureUnsupported);
    if (gridstride::capture_graph(s)) return gridstride::record_error(cudaErrorIllegalState);
    gridstride::begin_capture(s);
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
    if (!gridstride::capture_graph(s)) return gridstride::record_error(cudaErrorIllegalState);
    gridstride::Graph *const g = gridstride::end_capture(s);
    if (!g) return gridstride::record_error(cudaErrorStreamCaptureUnmatched);
    if (graph) *graph = g;
    return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
    *status = gridstride::capture_graph(s) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return cudaSuccess; }

inline cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned) {
    *graph = gridstride::new_graph();
    return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { gridstride::release_graph(graph); return cudaSuccess; }
inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    size_t n = 0;
    for (; auto *node = gridstride::graph_node(graph, n); n++)
        if (nodes && n < *count) nodes[n] = node;
    *count = n;
    return cudaSuccess;
}
inline cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type) {
    *type = cudaGraphNodeType(gridstride::node_kind(node));
    return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long = 0) {
    gridstride::Graph *const copy = gridstride::copy_graph(graph);
    *exec = copy ? new GridstrideGraphExec{copy} : nullptr;
    return gridstride::success_if(copy, cudaErrorInvalidValue);
}
inline cudaError_t cudaGraphInstantiateWithFlags(
    cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags = 0) {
    return cudaGraphInstantiate(exec, graph, flags);
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *, char *, size_t) {
    return cudaGraphInstantiate(exec, graph);
}
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    using namespace gridstride;
    const auto run = [=] { return launch_graph(exec->graph, s); };
    if (is_queueing() && !capture_graph(s)) return cudaError_t(run());
    return defer(s, NodeKind::graph, run, {}, true) ? cudaSuccess : cudaError_t(run());
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    gridstride::release_graph(exec->graph);
    delete exec;
    return cudaSuccess;
}
