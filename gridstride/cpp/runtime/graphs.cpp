// CUDA graphs and stream capture
#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>
#include "operations.h"
#include "runtime.h"
#include "unload.h"

namespace gridstride {

struct GraphNode {
    NodeKind kind;
    std::shared_ptr<void> callable; // shared with copies of the graph
    int (*run)(void *callable);
    std::vector<GraphNode *> dependencies;
    const GraphNode *original;      // in a copied graph: the node that this one was copied from
    bool is_copied, queues_itself;
    int device;                     // of the captured stream; -1: the current one
};
struct Graph {
    std::deque<GraphNode> nodes;    // in the order in which they were added
};

struct Capture {
    const void *stream;
    Graph *graph;
    bool is_origin;                    // whether the capture began in this stream; other streams join through an event
    bool owns_graph;                   // until the capture ends; otherwise the graph is the program's
    std::vector<GraphNode *> next_dependencies;  // the dependencies of the next node of the stream
};
static std::list<Capture> captures;     // DeviceLock protects it, because several host threads may capture
static std::atomic<size_t> num_captures = 0;
static std::unordered_map<const void *, std::vector<GraphNode *>> nodes_of_event;
static Capture *capture_of(const void *stream) {
    for (auto &capture : captures)
        if (capture.stream == stream) return &capture;
    return nullptr;
}

bool is_any_stream_captured() { return num_captures; }
Graph *capture_graph(const void *stream) {
    if (!num_captures) return nullptr;
    DeviceLock device_lock;
    const Capture *const c = capture_of(stream);
    return c ? c->graph : nullptr;
}
void begin_capture(const void *stream, Graph *graph, bool is_origin) {
    DeviceLock device_lock;
    captures.push_back({stream, graph ? graph : new Graph, is_origin, !graph, {}});
    num_captures = captures.size();
}
bool is_graph_captured(const Graph *graph) {
    DeviceLock device_lock;
    return std::any_of(captures.begin(), captures.end(), [=](const Capture &c) { return c.graph == graph; });
}
void add_captured_node(const void *stream, NodeKind kind, const DeferredWork &w) {
    DeviceLock device_lock;
    Capture &c = *capture_of(stream);
    GraphNode *const node = add_node(c.graph, kind, w);
    node->device = operations.device_of_stream(stream);
    node->dependencies.swap(c.next_dependencies);
    c.next_dependencies = {node};
}
GraphNode **capture_dependencies(const void *stream, size_t &n) {
    DeviceLock device_lock;
    Capture &c = *capture_of(stream);
    n = c.next_dependencies.size();
    return c.next_dependencies.data();
}
void set_capture_dependencies(const void *stream, GraphNode *const *nodes, size_t n, bool keep_existing) {
    DeviceLock device_lock;
    auto &dependencies = capture_of(stream)->next_dependencies;
    if (!keep_existing) dependencies.clear();
    for (size_t i = 0; i < n; i++)
        if (std::find(dependencies.begin(), dependencies.end(), nodes[i]) == dependencies.end())
            dependencies.push_back(nodes[i]);
}
void record_capture_event(const void *event, const void *stream) {
    DeviceLock device_lock;
    nodes_of_event[event] = capture_of(stream)->next_dependencies;
}
void capture_waits_for_event(const void *stream, const void *event) {
    DeviceLock device_lock;
    const auto &nodes = nodes_of_event[event];
    set_capture_dependencies(stream, nodes.data(), nodes.size(), true);
}
template <class F> static void remove_captures_if(F f) {
    captures.remove_if(f);
    num_captures = captures.size();
    if (captures.empty()) nodes_of_event.clear();
}
Graph *end_capture(const void *stream) {
    DeviceLock device_lock;
    const Capture *const capture = capture_of(stream);
    if (!capture->is_origin) return nullptr;
    Graph *const graph = capture->graph;
    remove_captures_if([=](const Capture &c) { return c.graph == graph; });
    return graph;
}
// The program destroys the stream: another stream may have its address later. The origin's graph can no longer be
// completed, so the streams that have joined leave the capture, too.
void abandon_capture(const void *stream) {
    DeviceLock device_lock;
    const Capture *const capture = capture_of(stream);
    if (!capture) return;
    if (!capture->is_origin) return remove_captures_if([=](const Capture &c) { return c.stream == stream; });
    Graph *const graph = capture->graph;
    const bool owns_graph = capture->owns_graph;
    remove_captures_if([=](const Capture &c) { return c.graph == graph; });
    if (owns_graph) release_graph(graph);
}

Graph *new_graph() { return new Graph; }
void release_graph(Graph *graph) { delete graph; }
GraphNode *add_node(Graph *graph, NodeKind kind, const DeferredWork &w) {
    pin_module(reinterpret_cast<const void *>(w.run));
    graph->nodes.push_back({kind, std::shared_ptr<void>(w.callable, w.destroy), w.run, {}, nullptr, false,
        w.queues_itself, -1});
    return &graph->nodes.back();
}
void set_work(GraphNode *node, const DeferredWork &w) {
    pin_module(reinterpret_cast<const void *>(w.run));
    node->callable = std::shared_ptr<void>(w.callable, w.destroy);
    node->run = w.run, node->queues_itself = w.queues_itself;
}
bool set_edge(GraphNode *from, GraphNode *to, bool add) {
    auto &dependencies = to->dependencies;
    const auto edge = std::find(dependencies.begin(), dependencies.end(), from);
    if ((edge != dependencies.end()) == add) return false;
    if (add) dependencies.push_back(from);
    else dependencies.erase(edge);
    return true;
}
GraphNode *graph_node(Graph *graph, size_t n) { return n < graph->nodes.size() ? &graph->nodes[n] : nullptr; }
NodeKind node_kind(const GraphNode *node) { return node->kind; }

// Returns the first node that has not been copied, but whose dependencies have; null if there is none.
static GraphNode *next_node(Graph *graph) {
    for (auto &node : graph->nodes)
        if (!node.is_copied && std::all_of(node.dependencies.begin(), node.dependencies.end(),
            [](GraphNode *dependency) { return dependency->is_copied; }))
            return &node;
    return nullptr;
}
Graph *copy_graph(Graph *graph) {
    Graph *const copy = new Graph;
    for (auto &node : graph->nodes) node.is_copied = false;
    while (GraphNode *next = next_node(graph)) {
        next->is_copied = true;
        copy->nodes.push_back({next->kind, next->callable, next->run, {}, next, false, next->queues_itself,
            next->device});
        for (GraphNode *dependency : next->dependencies)
            copy->nodes.back().dependencies.push_back(node_of_copy(copy, dependency));
    }
    if (copy->nodes.size() == graph->nodes.size()) return copy;
    delete copy;
    return nullptr;
}
GraphNode *node_of_copy(Graph *copy, const GraphNode *node) {
    for (auto &candidate : copy->nodes)
        if (candidate.original == node) return &candidate;
    return nullptr;
}
bool update_graph(Graph *copy, Graph *graph) {
    const std::unique_ptr<Graph> updated(copy_graph(graph));
    const auto is_same_node = [](const GraphNode &a, const GraphNode &b) {
        return a.kind == b.kind && a.dependencies.size() == b.dependencies.size();
    };
    if (!updated || !std::equal(copy->nodes.begin(), copy->nodes.end(), updated->nodes.begin(), updated->nodes.end(),
        is_same_node))
        return false;
    for (size_t n = 0; n < updated->nodes.size(); n++)
        copy->nodes[n].callable = updated->nodes[n].callable, copy->nodes[n].run = updated->nodes[n].run,
        copy->nodes[n].queues_itself = updated->nodes[n].queues_itself;
    return true;
}
int launch_graph(Graph *graph, const void *stream) {
    const GraphQueueing queueing;
    const StreamScope stream_scope(stream);
    return run_graph(graph);
}
// Queued work keeps the node's callable, because the host may destroy the graph before the queue runs.
static int run_node(GraphNode &node) {
    using Callable = std::pair<std::shared_ptr<void>, int (*)(void *)>;
    if (!is_queueing()) return node.run(node.callable.get());
    const int previous = current_device();
    if (node.device >= 0) choose_device(node.device);
    if (node.queues_itself) {
        const int e = node.run(node.callable.get());
        return choose_device(previous), e;
    }
    const auto run = [](void *p) {
        const auto &[callable, function] = *static_cast<Callable *>(p);
        return function(callable.get());
    };
    queue_work(nullptr, {new Callable(node.callable, node.run), run,
        [](void *p) { delete static_cast<Callable *>(p); }});
    return choose_device(previous), 0;
}
int run_graph(Graph *graph) {
    GraphOrder order;
    for (auto &node : graph->nodes) {
        order.begin(&node, {node.dependencies.begin(), node.dependencies.end()});
        if (const int e = run_node(node)) return e;
        order.end(&node);
    }
    return 0;
}
}
