// Tensors on the emulated GPU. Tensors from Python count as being on the GPU: the first data_ptr() of a call copies
// them to device memory. Overlapping arguments are copied as one range, so that views stay views. Only the runtime
// includes this.
#pragma once
#include <emulator.h>
#include "object.h"

namespace gridstride {
namespace border {

struct Stretch { char *begin, *end; char *copy; Handle of; };   // copy: its device memory; null before it is needed
static std::vector<Stretch> stretches;

inline Stretch *stretch_of(const char *begin, const char *end) {
    for (auto &s : stretches) if (begin < s.end && s.begin < end) return &s;
    return nullptr;
}
inline Stretch &cover(const Handle &h) {
    Stretch s{h->data, h->end(), nullptr, h};
    while (Stretch *old = stretch_of(s.begin, s.end)) {
        if (old->begin <= s.begin && s.end <= old->end) return *old;
        TORCH_CHECK(!old->copy,
            "a view reaches beyond the memory of the tensor that it was made from; give the function the whole tensor");
        if (old->begin < s.begin) s.begin = old->begin;
        if (old->end > s.end) s.end = old->end;
        *old = stretches.back();
        stretches.pop_back();
    }
    stretches.push_back(s);
    return stretches.back();
}
inline void *device_address(const Handle &h, const Object &o) {
    if (!o.device.is_cuda() || !o.numel) return o.data;
    Stretch &s = cover(h);
    if (!s.copy)
        s.copy = static_cast<char *>(copy_in_host_array(s.begin, size_t(s.end - s.begin), o.itemsize(), o.fresh));
    return s.copy + (o.data - s.begin);
}
inline Stretch *adopted(const Handle &h) {
    Stretch *s = h->device.is_cuda() && h->numel ? stretch_of(h->data, h->end()) : nullptr;
    return s && s->copy ? s : nullptr;
}
static thread_local struct Question *asked;
struct Question {                     // as long as Python computes
    std::vector<Handle> handles;
    bool in_place;
    explicit Question(const char *operation) : in_place(operation[__builtin_strlen(operation) - 1] == '_') {
        asked = this;
    }
    Question(const Question &) = delete;
    static void about(const Handle &h) {
        h->fresh = false;             // because Python may write it
        Stretch *s = adopted(h);
        if (!s || !asked) return;
        __builtin_memcpy(s->begin, s->copy, size_t(s->end - s->begin));
        asked->handles.push_back(h);
    }
    ~Question() {
        asked = nullptr;
        if (in_place && !handles.empty()) written(handles[0]);
    }
    static void written(const Handle &h) {
        Stretch *s = adopted(h);
        __builtin_memcpy(s->copy, s->begin, size_t(s->end - s->begin));
        mark_initialized(s->copy + (h->data - s->begin), size_t(h->end() - h->data));
    }
};
}
}
