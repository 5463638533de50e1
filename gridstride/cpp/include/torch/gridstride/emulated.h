// Tensors on the emulated GPU. Tensors from Python count as being on the GPU: the first data_ptr() of a call copies
// them to device memory. Overlapping arguments are copied as one range, so that views share their memory. Only the
// runtime includes this.
#pragma once
#include <emulator.h>
#include "object.h"

namespace gridstride {
namespace bindings {

struct MemoryRange {
    char *begin, *end;
    char *copy;                       // in device memory; null until it is needed
    Handle handle;
};
static std::vector<MemoryRange> memory_ranges;

inline MemoryRange *overlapping_range(const char *begin, const char *end) {
    for (auto &s : memory_ranges) if (begin < s.end && s.begin < end) return &s;
    return nullptr;
}
inline MemoryRange &add_range(const Handle &h) {
    MemoryRange s{h->data, h->end(), nullptr, h};
    while (MemoryRange *old = overlapping_range(s.begin, s.end)) {
        if (old->begin <= s.begin && s.end <= old->end) return *old;
        TORCH_CHECK(!old->copy,
            "a view reaches beyond the memory of the tensor that it was made from; pass the whole tensor");
        if (old->begin < s.begin) s.begin = old->begin;
        if (old->end > s.end) s.end = old->end;
        *old = memory_ranges.back();
        memory_ranges.pop_back();
    }
    memory_ranges.push_back(s);
    return memory_ranges.back();
}
inline void *device_address(const Handle &h, const Object &o) {
    if (!o.device.is_cuda() || !o.numel || is_device(o.data)) return o.data;
    MemoryRange &s = add_range(h);
    if (!s.copy)
        s.copy =
            static_cast<char *>(copy_in_host_array(s.begin, size_t(s.end - s.begin), o.itemsize(), o.is_uninitialized));
    return s.copy + (o.data - s.begin);
}
inline MemoryRange *copied_range(const Handle &h) {
    MemoryRange *s = h->device.is_cuda() && h->numel ? overlapping_range(h->data, h->end()) : nullptr;
    return s && s->copy ? s : nullptr;
}
static thread_local struct PythonComputation *current_computation;
struct PythonComputation {            // exists while Python executes an operation
    std::vector<Handle> handles;
    bool in_place;
    explicit PythonComputation(const char *operation) : in_place(operation[__builtin_strlen(operation) - 1] == '_') {
        current_computation = this;
    }
    PythonComputation(const PythonComputation &) = delete;
    static void copy_to_host(const Handle &h) {
        h->is_uninitialized = false;  // because Python may write it
        MemoryRange *s = copied_range(h);
        if (!s || !current_computation) return;
        __builtin_memcpy(s->begin, s->copy, size_t(s->end - s->begin));
        current_computation->handles.push_back(h);
    }
    ~PythonComputation() {
        current_computation = nullptr;
        if (in_place && !handles.empty()) copy_to_device(handles[0]);
    }
    static void copy_to_device(const Handle &h) {
        MemoryRange *s = copied_range(h);
        __builtin_memcpy(s->copy, s->begin, size_t(s->end - s->begin));
        mark_initialized(s->copy + (h->data - s->begin), size_t(h->end() - h->data));
    }
};
}
}
