// Streams that are captured, and the graphs that come of it.
#include <vector>
#include "runtime.h"

namespace gridstride {

struct Graph {
    std::vector<GraphNode> nodes;   // in the order in which they came, which no dependency contradicts
    int users = 1;                  // the graph itself, and what was instantiated of it
};

struct Capture {
    const void *stream;
    Graph *graph;
    bool origin;                    // the others joined it by an event
};
static std::vector<Capture> captures;

bool capturing() { return !captures.empty(); }
Graph *captured(const void *stream) {
    for (auto &o : captures)
        if (o.stream == stream) return o.graph;
    return nullptr;
}
void begin_capture(const void *stream, Graph *graph) {
    captures.push_back({stream, graph ? graph : new Graph, !graph});
}
Graph *end_capture(const void *stream) {
    Graph *const g = captured(stream);
    std::vector<Capture> rest;
    bool origin = false;
    for (auto &o : captures)
        if (o.graph != g) rest.push_back(o);
        else origin |= o.stream == stream && o.origin;
    if (!origin) return nullptr;
    captures.swap(rest);
    return g;
}
void add_node(Graph *graph, const GraphNode &node) { graph->nodes.push_back(node); }
GraphNode *graph_node(Graph *graph, size_t n) { return n < graph->nodes.size() ? &graph->nodes[n] : nullptr; }
void use_graph(Graph *graph) { graph->users++; }
void release_graph(Graph *graph) {
    if (--graph->users) return;
    for (auto &o : graph->nodes) o.drop(o.work);
    delete graph;
}
Graph *new_graph() { return new Graph; }
}
