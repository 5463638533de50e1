// Stream capture: operations are added to a graph instead of being run.
#pragma once
#include <new>
#include <type_traits>
#include "runtime.h"

// streams for launches by kernels
#define cudaStreamTailLaunch ((cudaStream_t)3)
#define cudaStreamFireAndForget ((cudaStream_t)4)

namespace gridstride {
inline const void *const after_children = reinterpret_cast<const void *>(3);
template <class F> GRIDSTRIDE_UNSEEN auto work_of(F f) {
    void *const own = ::operator new(sizeof(F));
    if constexpr (std::is_trivially_copyable_v<F>) copy_unseen(own, &f, sizeof f);
    else new (own) F(f);
    return GraphWork{own, [](void *work) -> int { return (*static_cast<F *>(work))(); },
        [](void *work) { delete static_cast<F *>(work); }};
}
// Defers `f` if the stream is captured, or if a kernel calls this: then it runs after the grid. Returns false if `f` is
// to be run now.
template <class F> GRIDSTRIDE_UNSEEN auto defer(const void *stream, NodeKind kind, F f) {
    if (on_device()) {
        const bool enabled = enable_checks(false);   // because the host's copy is not an access of the kernel
        launch_after(work_of(f), stream == after_children);
        return enable_checks(enabled), true;
    }
    Graph *const g = capturing() ? captured(stream) : nullptr;
    if (g) add_captured(stream, kind, work_of(f));
    return g != nullptr;
}
}
