// Graphs, as streams record them: what a captured stream is given happens at each launch of the graph, in that order.
#pragma once
#include "capture.h"

typedef gridstride::Graph *cudaGraph_t;
typedef struct GridstrideGraphExec { gridstride::Graph *graph; } *cudaGraphExec_t;
typedef gridstride::Node *cudaGraphNode_t;

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeThreadLocal = 1, cudaStreamCaptureModeRelaxed = 2
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1, cudaStreamCaptureStatusInvalidated = 2
};
enum cudaGraphNodeType {
    cudaGraphNodeTypeKernel = 0, cudaGraphNodeTypeMemcpy = 1, cudaGraphNodeTypeMemset = 2, cudaGraphNodeTypeHost = 3,
    cudaGraphNodeTypeEmpty = 5
};

inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
    if (!s) return gridstride::told(cudaErrorStreamCaptureUnsupported);      // as the runtime: not the default stream
    if (gridstride::captured(s)) return gridstride::told(cudaErrorIllegalState);
    gridstride::captures.push_back({s, new gridstride::Graph, true});
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
    gridstride::Graph *g = gridstride::captured(s);
    if (!g) return gridstride::told(cudaErrorIllegalState);
    std::vector<gridstride::Capture> rest;
    bool origin = false;
    for (auto &o : gridstride::captures)
        if (o.graph != g) rest.push_back(o);
        else origin |= o.stream == s && o.origin;
    if (!origin) return gridstride::told(cudaErrorStreamCaptureUnmatched);
    gridstride::captures = rest;
    *graph = g;
    return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
    *status = gridstride::captured(s) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return cudaSuccess; }

inline cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned) {
    *graph = new gridstride::Graph;
    return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { graph->release(); return cudaSuccess; }
inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    const size_t all = graph->nodes.size();
    for (size_t i = 0; nodes && i < *count && i < all; i++) nodes[i] = &graph->nodes[i];
    *count = all;
    return cudaSuccess;
}
inline cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type) {
    *type = node->kind == gridstride::NodeKind::empty ? cudaGraphNodeTypeEmpty : cudaGraphNodeType(node->kind);
    return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long = 0) {
    graph->users++;
    *exec = new GridstrideGraphExec{graph};
    return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags = 0) {
    return cudaGraphInstantiate(exec, graph, flags);
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *, char *, size_t) {
    return cudaGraphInstantiate(exec, graph);
}
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    if (gridstride::kept(s, gridstride::NodeKind::kernel, [=] { return int(cudaGraphLaunch(exec, nullptr)); }))
        return cudaSuccess;
    for (auto &o : exec->graph->nodes)
        if (int e = o.run(o.work)) return cudaError_t(e);
    return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    exec->graph->release();
    delete exec;
    return cudaSuccess;
}
