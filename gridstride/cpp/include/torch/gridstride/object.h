// The properties of a Python tensor in C++, with a reference count
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <vector>
#include "types.h"

namespace gridstride {
namespace bindings {

struct Object {                       // the properties of a Python tensor
    int references = 1;
    void *python = nullptr;           // the Python object; C++ owns a reference to it if `owned`
    bool owned = false;
    bool is_uninitialized = false;    // whether its memory has not been written
    char *data = nullptr;
    torch::ScalarType type = torch::ScalarType::Undefined;
    torch::Device device;
    int64_t numel = 1;
    std::vector<int64_t> sizes, strides;

    GRIDSTRIDE_BINDING ~Object();
    size_t itemsize() const { return torch::elementSize(type); }
    GRIDSTRIDE_BINDING char *end() const;           // one past the last byte of its elements
    GRIDSTRIDE_BINDING bool is_contiguous() const;
    GRIDSTRIDE_BINDING void retain();
};

#ifdef GRIDSTRIDE_EMULATOR
#define GRIDSTRIDE_UNCHECKED __attribute__((no_sanitize("thread")))
#else
#define GRIDSTRIDE_UNCHECKED
#endif
class Handle {                        // a counted reference to an Object
    Object *object = nullptr;
    GRIDSTRIDE_BINDING static void drop(Object *o);

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
}
}

#ifdef GRIDSTRIDE_DEFINITIONS
namespace gridstride {
namespace bindings {
char *Object::end() const {
    int64_t last = 0;
    for (size_t i = 0; i < sizes.size(); i++) last += (sizes[i] - 1) * strides[i];
    return data + (last + 1) * int64_t(itemsize());
}
bool Object::is_contiguous() const {
    int64_t expected = 1;
    for (size_t i = sizes.size(); i--; expected *= sizes[i])
        if (sizes[i] != 1 && strides[i] != expected) return numel == 0;
    return true;
}
// Changes the reference count of a Python object, under the GIL; does nothing after Python has shut down.
inline void count(void *object, void (*change)(void *)) {
    if (!python.initialized()) return;
#ifdef GRIDSTRIDE_EMULATOR
    set_in_python(true);
#endif
    const int state = python.lock();
    change(object);
    python.unlock(state);
#ifdef GRIDSTRIDE_EMULATOR
    set_in_python(false);
#endif
}
void Object::retain() { count(python, bindings::python.retain); }
Object::~Object() { if (owned) count(python, bindings::python.release); }
void Handle::drop(Object *o) { if (!__atomic_sub_fetch(&o->references, 1, __ATOMIC_ACQ_REL)) delete o; }

static thread_local std::vector<Handle> argument_handles;   // the tensors among the arguments of the current call
}
}
#endif
