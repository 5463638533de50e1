// `new` and `delete` in device functions: from the device's heap in a kernel, from the host's otherwise. The rewriter
// replaces them with `new (gridstride::heap)` and `gridstride::DeviceDelete{...}->*`.
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include "runtime.h"

namespace gridstride {
struct Heap {};
inline constexpr Heap heap{};
struct DeviceDelete {
    int line;
    bool is_array;
};
// Destroys the elements of an array. The element count of an array with destructors is stored before the first element.
template<class T> void destroy_elements(T *p, char *&start) {
    if constexpr (!std::is_trivially_destructible_v<T>) {
        for (size_t n = reinterpret_cast<const size_t *>(p)[-1]; n;) p[--n].~T();
        start -= std::max(sizeof(size_t), alignof(T));
    }
}
template<class T> void operator->*(DeviceDelete operation, T *p) {
    if (!p) return;
    if (!on_device()) {
        if (operation.is_array) delete[] p;
        else delete p;
        return;
    }
    char *start = reinterpret_cast<char *>(const_cast<std::remove_cv_t<T> *>(p));
    if (operation.is_array) destroy_elements(p, start);
    else p->~T();
    heap_free(start, operation.line);
}
}
inline void *operator new(size_t bytes, gridstride::Heap) noexcept { return gridstride::heap_alloc(bytes); }
inline void *operator new[](size_t bytes, gridstride::Heap) noexcept { return gridstride::heap_alloc(bytes); }
