// `new` and `delete` of device code: in a kernel memory of the device, elsewhere the host's. The rewriter spells them
// `new (gridstride::heap)` and `gridstride::Discard{...}->*`.
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include "runtime.h"

namespace gridstride {
struct Heap {};
inline constexpr Heap heap{};
struct Discard {
    int line;
    bool array;
};
// An array whose elements have something to do at their end keeps their number before the first of them.
template<class T> void end_elements(T *p, char *&first) {
    if constexpr (!std::is_trivially_destructible_v<T>) {
        for (size_t n = reinterpret_cast<const size_t *>(p)[-1]; n;) p[--n].~T();
        first -= std::max(sizeof(size_t), alignof(T));
    }
}
template<class T> void operator->*(Discard how, T *p) {
    if (!p) return;
    if (!on_device()) {
        if (how.array) delete[] p;
        else delete p;
        return;
    }
    char *first = reinterpret_cast<char *>(const_cast<std::remove_cv_t<T> *>(p));
    if (how.array) end_elements(p, first);
    else p->~T();
    heap_free(first, how.line);
}
}
inline void *operator new(size_t bytes, gridstride::Heap) noexcept { return gridstride::heap_alloc(bytes); }
inline void *operator new[](size_t bytes, gridstride::Heap) noexcept { return gridstride::heap_alloc(bytes); }
