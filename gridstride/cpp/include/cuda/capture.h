// Streams that are captured: what they are given is kept in a graph instead of done.
#pragma once
#include <new>
#include <type_traits>
#include "runtime.h"

// Streams that only kernels have
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
// true: `f` was kept for later. What a kernel gives to a stream runs when its grid has ended.
template <class F> GRIDSTRIDE_UNSEEN auto kept(const void *stream, NodeKind kind, F f) {
    if (on_device()) {
        const bool enabled = enable_checks(false);   // a copy that the host keeps is not an access of the kernel
        launch_after(work_of(f), stream == after_children);
        return enable_checks(enabled), true;
    }
    Graph *const g = capturing() ? captured(stream) : nullptr;
    if (g) add_captured(stream, kind, work_of(f));
    return g != nullptr;
}
}
