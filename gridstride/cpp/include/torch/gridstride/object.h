// A tensor of Python's as C++ holds it: what is known of it, and who uses it.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <vector>
#include "types.h"

namespace gridstride {
namespace border {

struct Object {                       // a tensor of Python's, as C++ sees it
    int references = 1;
    void *python = nullptr;           // the Python object; a reference to it is ours if `owned`
    bool owned = false, fresh = false;// fresh: nobody has written the memory yet
    char *data = nullptr;
    torch::ScalarType type = torch::ScalarType::Undefined;
    torch::Device device;
    int64_t numel = 1;
    std::vector<int64_t> sizes, strides;

    size_t itemsize() const { return torch::elementSize(type); }
    char *end() const {               // one past the last byte that an index reaches
        int64_t last = 0;
        for (size_t i = 0; i < sizes.size(); i++) last += (sizes[i] - 1) * strides[i];
        return data + (last + 1) * int64_t(itemsize());
    }
    bool is_contiguous() const {
        int64_t expected = 1;
        for (size_t i = sizes.size(); i--; expected *= sizes[i])
            if (sizes[i] != 1 && strides[i] != expected) return numel == 0;
        return true;
    }
    // Python objects are counted by Python, under its lock; when it has shut down there is nothing to give back.
    void retain() { count(border::python.retain); }
    ~Object() { if (owned) count(border::python.release); }
    void count(void (*change)(void *)) {
        if (!border::python.initialized()) return;
        const int state = border::python.lock();
        change(python);
        border::python.unlock(state);
    }
};

#ifdef GRIDSTRIDE_EMULATOR
#define GRIDSTRIDE_UNCHECKED __attribute__((no_sanitize("thread")))
#else
#define GRIDSTRIDE_UNCHECKED
#endif
class Handle {                        // counts what uses an Object
    Object *object = nullptr;
    GRIDSTRIDE_RARE GRIDSTRIDE_UNCHECKED static void drop(Object *o) {
        if (!__atomic_sub_fetch(&o->references, 1, __ATOMIC_ACQ_REL)) delete o;
    }

public:
    Handle() = default;
    explicit Handle(Object *o) : object(o) {}
    GRIDSTRIDE_UNCHECKED Handle(const Handle &h) : object(h.object) {
        if (object) __atomic_add_fetch(&object->references, 1, __ATOMIC_RELAXED);
    }
    Handle(Handle &&h) noexcept : object(h.object) { h.object = nullptr; }
    Handle &operator=(Handle h) noexcept { Object *o = object; object = h.object; h.object = o; return *this; }
    ~Handle() { if (object) drop(object); }
    Object *operator->() const { return object; }
    Object *get() const { return object; }
    explicit operator bool() const { return object; }
};

static thread_local std::vector<Handle> borrowed;   // the tensors among the arguments of the call
}
}
