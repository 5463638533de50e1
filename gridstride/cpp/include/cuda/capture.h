// Stream capture: adds operations to a graph instead of running them.
#pragma once
#include <new>
#include <type_traits>
#include "runtime.h"

// streams for launches by kernels
#define cudaStreamTailLaunch ((cudaStream_t)3)
#define cudaStreamFireAndForget ((cudaStream_t)4)

namespace gridstride {
inline const void *const tail_launch_stream = reinterpret_cast<const void *>(3);
template <class F> GRIDSTRIDE_NO_TSAN auto make_work(F f) {
    void *const copy = ::operator new(sizeof(F));
    if constexpr (std::is_trivially_copyable_v<F>) copy_unchecked(copy, &f, sizeof f);
    else new (copy) F(f);
    return DeferredWork{copy, [](void *callable) -> int { return (*static_cast<F *>(callable))(); },
        [](void *callable) { delete static_cast<F *>(callable); }, false};
}
// Defers `f` on a captured stream, where it becomes a node of the graph, and in a kernel, where it runs after the grid.
// Otherwise returns false, and the caller must run `f`.
template <class F> GRIDSTRIDE_NO_TSAN auto defer(
    const void *stream, NodeKind kind, F f, const RankExchange &exchange = {}, bool queues_itself = false) {
    if (on_device()) {
        const bool enabled = enable_checks(false);   // because the host's copy is not an access of the kernel
        launch_after_grid(make_work(f), stream == tail_launch_stream);
        return enable_checks(enabled), true;
    }
    Graph *const g = is_any_stream_captured() ? capture_graph(stream) : nullptr;
    if (!g && is_queueing() && kind != NodeKind::alloc) return queue_work(stream, make_work(f), exchange);
    if (!g) return false;
    DeferredWork work = make_work(f);
    work.queues_itself = queues_itself;
    return add_captured_node(stream, kind, work), true;
}
}
