// The differences between the platforms of the runtime: Linux, macOS, and WebAssembly in a browser
// (site/lite/cuda/platform).
#pragma once
#include <setjmp.h>
#include <string>
#include <vector>

#if defined(__linux__)
#define GRIDSTRIDE_ELF 1           // the loader lists modules and their segments, and a process can fork
#endif
#if !defined(__APPLE__)
#define GRIDSTRIDE_BACKTRACE 1     // backtrace() also unwinds the stack of a fiber
#endif

namespace gridstride {

// Runs `f`. Returns true if it returns, and false if `siglongjmp(buffer, 1)` ends it, possibly on another fiber; then
// the destructors of `f` are skipped.
#ifdef __wasm__
bool completes_call(sigjmp_buf &, void (*f)(void *), void *arg);
template <class F> bool completes(sigjmp_buf &buffer, bool, F f) {
    return completes_call(buffer, [](void *p) { (*static_cast<F *>(p))(); }, &f);
}
#else
template <class F> bool completes(sigjmp_buf &buffer, bool saves_signal_mask, F f) {
    if (sigsetjmp(buffer, saves_signal_mask)) return false;
    f();
    return true;
}
#endif

// Runs a program and reads the lines that it prints
class ProgramOutput {
    struct State;
    State *state;

public:
    explicit ProgramOutput(const std::vector<std::string> &command);
    ProgramOutput(const ProgramOutput &) = delete;
    ~ProgramOutput();
    char *next();                  // the next line, without its newline; null after the last one
};
}
