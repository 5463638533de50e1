// Streams that are captured: what they are given is kept in a graph instead of done.
#pragma once
#include <vector>

typedef struct GridstrideStream *cudaStream_t;

namespace gridstride {

enum class NodeKind { kernel, memcpy, memset, host, empty };

struct Node {
    NodeKind kind;
    void *work;                     // with its arguments, copied
    int (*run)(void *work);         // an error of the runtime, or 0
    void (*drop)(void *work);
};

struct Graph {
    std::vector<Node> nodes;        // in the order in which they came, which no dependency contradicts
    int users = 1;                  // the graph itself, and what was instantiated of it
    template <class F> void add(NodeKind kind, F f) {
        nodes.push_back({kind, new F(f), [](void *work) -> int { return (*static_cast<F *>(work))(); },
                         [](void *work) { delete static_cast<F *>(work); }});
    }
    void release() {
        if (--users) return;
        for (auto &o : nodes) o.drop(o.work);
        delete this;
    }
};

struct Capture {
    const void *stream;
    Graph *graph;
    bool origin;                    // the others joined it by an event
};
inline std::vector<Capture> captures;

inline Graph *captured(const void *stream) {
    for (auto &o : captures)
        if (o.stream == stream) return o.graph;
    return nullptr;
}
// true: `f` was kept for later
template <class F> bool kept(const void *stream, NodeKind kind, F f) {
    Graph *g = captures.empty() ? nullptr : captured(stream);
    if (g) g->add(kind, f);
    return g;
}
}
