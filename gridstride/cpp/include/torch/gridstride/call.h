// A call from Python, and the list of what a library exports.
#pragma once
#include <stdint.h>

// What is the same for all sources is declared so, and its body is within GRIDSTRIDE_BODIES. The emulator has the
// bodies compiled once, in its runtime (runtime/border.cpp); elsewhere each library has its own.
#ifdef GRIDSTRIDE_EMULATOR
#define GRIDSTRIDE_BORDER __attribute__((visibility("default")))
#define GRIDSTRIDE_THROWN __attribute__((visibility("default")))   // a class that leaves its library
#else
#define GRIDSTRIDE_BORDER __attribute__((cold)) inline
#define GRIDSTRIDE_THROWN
#define GRIDSTRIDE_BODIES
#endif

extern "C" {
struct gs_python {   // what Python gives to a library when it loads it
    int64_t (*ask)(const char *operation, const int64_t *args, int64_t n, const int64_t **answer);   // not 0: it raised
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
    int64_t grid[3], block[3], shared, cluster[3];   // of a kernel
    // What comes back. After an error: its message and the argument that it is about, if any, counted from 1.
    const int64_t *result;
    const char *message;
    int64_t argument;
};
}

namespace gridstride {
namespace border {
GRIDSTRIDE_BORDER void connect(const gs_python *p);
GRIDSTRIDE_BORDER gs_call *&current();            // this thread's call; null outside a call

struct Exported {
    const char *name;
    int64_t (*call)(gs_call *);
    const char *(*types)();           // as the compiler writes them
    int64_t kernel;
    const Exported *next;
};
static const Exported *exports;
template <class F> const char *types() { return __PRETTY_FUNCTION__; }
}
}

extern "C" {
__attribute__((visibility("default"))) inline __attribute__((used)) const gridstride::border::Exported *gs_exports() {
    return gridstride::border::exports;
}
__attribute__((visibility("default"))) inline __attribute__((used)) void gs_connect(const gs_python *p) {
    gridstride::border::connect(p);
}
}

#ifdef GRIDSTRIDE_BODIES
namespace gridstride {
namespace border {
static gs_python python;
void connect(const gs_python *p) { python = *p; }
gs_call *&current() {
    static thread_local gs_call *call;
    return call;
}
}
}
#endif
