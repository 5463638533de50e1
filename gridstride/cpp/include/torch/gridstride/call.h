// Calls from Python, and the list of functions that a library exports
#pragma once
#include <stdint.h>

// Functions that do not depend on the source are declared with this macro, and defined if GRIDSTRIDE_DEFINITIONS is. On
// the emulator, the runtime has the definitions (runtime/unit_python.cpp); for a GPU, each library has its own.
#ifdef GRIDSTRIDE_EMULATOR
#define GRIDSTRIDE_BINDING __attribute__((visibility("default")))
// an exception class that propagates out of its library
#define GRIDSTRIDE_EXCEPTION __attribute__((visibility("default")))
#else
#define GRIDSTRIDE_BINDING __attribute__((cold)) inline
#define GRIDSTRIDE_EXCEPTION
#define GRIDSTRIDE_DEFINITIONS
#endif

extern "C" {
struct gs_python {   // Python functions, which Python passes to a library after loading it
    // returns nonzero if Python has raised an exception
    int64_t (*call)(const char *operation, const int64_t *args, int64_t n, const int64_t **result);
    int (*initialized)();
    int (*lock)();
    void (*unlock)(int);
    void (*retain)(void *object);
    void (*release)(void *object);
};
struct gs_call {     // one call from Python; args: n values
    const int64_t *args;
    int64_t n;
    void *stream;
    int64_t device;
    int64_t grid[3], block[3], shared, cluster[3];   // the launch configuration of a kernel
    // The result. After an error: its message, and the number of the argument at fault, from 1; 0: none.
    const int64_t *result;
    const char *message;
    int64_t argument;
    int64_t large_clusters;          // whether clusters of the kernel may have 16 blocks, not just 8
};
}

namespace gridstride {
namespace bindings {
GRIDSTRIDE_BINDING void connect(const gs_python *p);
GRIDSTRIDE_BINDING gs_call *&current();            // this thread's call; null outside a call

struct Exported {
    const char *name;
    int64_t (*call)(gs_call *);
    const char *(*types)();           // the type as the compiler prints it
    int64_t kernel;
    const Exported *next;
};
static const Exported *exports;
template <class F> const char *types() { return __PRETTY_FUNCTION__; }
}
}

extern "C" {
__attribute__((visibility("default"))) inline __attribute__((used)) const gridstride::bindings::Exported *gs_exports() {
    return gridstride::bindings::exports;
}
__attribute__((visibility("default"))) inline __attribute__((used)) void gs_connect(const gs_python *p) {
    gridstride::bindings::connect(p);
}
}

#ifdef GRIDSTRIDE_DEFINITIONS
namespace gridstride {
namespace bindings {
static gs_python python;
void connect(const gs_python *p) { python = *p; }
gs_call *&current() {
    static thread_local gs_call *call;
    return call;
}
}
}
#endif
