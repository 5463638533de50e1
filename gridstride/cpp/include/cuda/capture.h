// Streams that are captured: what they are given is kept in a graph instead of done.
#pragma once
#include "runtime.h"

typedef struct GridstrideStream *cudaStream_t;

namespace gridstride {
// true: `f` was kept for later
template <class F> bool kept(const void *stream, NodeKind kind, F f) {
    Graph *const g = capturing() ? captured(stream) : nullptr;
    if (g)
        add_node(g, {kind, new F(f), [](void *work) -> int { return (*static_cast<F *>(work))(); },
                     [](void *work) { delete static_cast<F *>(work); }});
    return g;
}
}
