// Stream capture, and graphs
#include <deque>
#include <memory>
#include <algorithm>
#include <unordered_map>
#include <vector>
#include "operations.h"
#include "runtime.h"
#include "unload.h"

namespace gridstride {

struct GraphNode {
    NodeKind kind;
    std::shared_ptr<void> work;     // shared with copies of the graph
    int (*run)(void *work);
    std::vector<GraphNode *> before;
    const GraphNode *original;      // in a copied graph: the node it was copied from
    bool placed;
};
struct Graph {
    std::deque<GraphNode> nodes;    // in the order in which they were added
};

struct Capture {
    const void *stream;
    Graph *graph;
    bool origin;                    // did the capture begin here? Other streams join by an event
    std::vector<GraphNode *> last;  // the dependencies of the next node of the stream
};
static std::vector<Capture> captures;
static std::unordered_map<const void *, std::vector<GraphNode *>> recorded;       // by event
static Capture *capture_of(const void *stream) {
    for (auto &capture : captures)
        if (capture.stream == stream) return &capture;
    return nullptr;
}

bool is_any_stream_captured() { return !captures.empty(); }
Graph *capture_graph(const void *stream) {
    const Capture *const c = capture_of(stream);
    return c ? c->graph : nullptr;
}
void begin_capture(const void *stream, Graph *graph, bool origin) {
    captures.push_back({stream, graph ? graph : new Graph, origin, {}});
}
void add_captured_node(const void *stream, NodeKind kind, const GraphWork &w) {
    Capture &c = *capture_of(stream);
    GraphNode *const node = add_node(c.graph, kind, w);
    node->before.swap(c.last);
    c.last = {node};
}
GraphNode **capture_dependencies(const void *stream, size_t &n) {
    Capture &c = *capture_of(stream);
    n = c.last.size();
    return c.last.data();
}
void set_capture_dependencies(const void *stream, GraphNode *const *nodes, size_t n, bool added) {
    auto &last = capture_of(stream)->last;
    if (!added) last.clear();
    for (size_t i = 0; i < n; i++)
        if (std::find(last.begin(), last.end(), nodes[i]) == last.end()) last.push_back(nodes[i]);
}
void record_capture_event(const void *event, const void *stream) { recorded[event] = capture_of(stream)->last; }
void capture_waits(const void *stream, const void *event) {
    const auto &nodes = recorded[event];
    set_capture_dependencies(stream, nodes.data(), nodes.size(), true);
}
Graph *end_capture(const void *stream) {
    Graph *const g = capture_graph(stream);
    std::vector<Capture> others;
    bool origin = false;
    for (auto &capture : captures)
        if (capture.graph != g) others.push_back(capture);
        else origin |= capture.stream == stream && capture.origin;
    if (!origin) return nullptr;
    captures.swap(others);
    if (captures.empty()) recorded.clear();
    return g;
}

Graph *new_graph() { return new Graph; }
void release_graph(Graph *graph) { delete graph; }
GraphNode *add_node(Graph *graph, NodeKind kind, const GraphWork &w) {
    pin_module(reinterpret_cast<const void *>(w.run));
    graph->nodes.push_back({kind, std::shared_ptr<void>(w.work, w.drop), w.run, {}, nullptr, false});
    return &graph->nodes.back();
}
void set_work(GraphNode *node, const GraphWork &w) {
    pin_module(reinterpret_cast<const void *>(w.run));
    node->work = std::shared_ptr<void>(w.work, w.drop);
    node->run = w.run;
}
bool set_edge(GraphNode *from, GraphNode *to, bool add) {
    auto &before = to->before;
    const auto at = std::find(before.begin(), before.end(), from);
    if ((at != before.end()) == add) return false;
    if (add) before.push_back(from);
    else before.erase(at);
    return true;
}
GraphNode *graph_node(Graph *graph, size_t n) { return n < graph->nodes.size() ? &graph->nodes[n] : nullptr; }
NodeKind node_kind(const GraphNode *node) { return node->kind; }

// Returns the first node whose dependencies are placed; null if there is none.
static GraphNode *next_node(Graph *graph) {
    for (auto &node : graph->nodes)
        if (!node.placed && std::all_of(node.before.begin(), node.before.end(), [](GraphNode *b) { return b->placed; }))
            return &node;
    return nullptr;
}
Graph *copy_graph(Graph *graph) {
    Graph *const copy = new Graph;
    for (auto &node : graph->nodes) node.placed = false;
    while (GraphNode *next = next_node(graph)) {
        next->placed = true;
        copy->nodes.push_back({next->kind, next->work, next->run, {}, next, false});
        for (GraphNode *b : next->before) copy->nodes.back().before.push_back(node_of_copy(copy, b));
    }
    if (copy->nodes.size() == graph->nodes.size()) return copy;
    delete copy;
    return nullptr;
}
GraphNode *node_of_copy(Graph *copy, const GraphNode *node) {
    for (auto &copied : copy->nodes)
        if (copied.original == node) return &copied;
    return nullptr;
}
bool update_graph(Graph *copy, Graph *graph) {
    const std::unique_ptr<Graph> now(copy_graph(graph));
    const auto same = [](const GraphNode &a, const GraphNode &b) {
        return a.kind == b.kind && a.before.size() == b.before.size();
    };
    if (!now || !std::equal(copy->nodes.begin(), copy->nodes.end(), now->nodes.begin(), now->nodes.end(), same))
        return false;
    for (size_t n = 0; n < now->nodes.size(); n++)
        copy->nodes[n].work = now->nodes[n].work, copy->nodes[n].run = now->nodes[n].run;
    return true;
}
int run_graph(Graph *graph) {
    GraphOrder order;
    for (auto &node : graph->nodes) {
        order.begin(&node, {node.before.begin(), node.before.end()});
        if (const int e = node.run(node.work.get())) return e;
        order.end(&node);
    }
    return 0;
}
}
