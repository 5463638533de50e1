// Signals: a crash in a kernel, the end of its time, Ctrl-C.
#pragma once
#include <atomic>
#include "detector.h"

namespace gridstride {

extern std::atomic<int> ended_by;      // the signal that ends all launches, or 0

double seconds_now();
void begin_time(const Launch &);       // of which it has `options.seconds`
void end_time();
void watch(bool on);                   // this OS thread works on a launch, or for Python
void end_if_interrupted(const void *caller);   // host code that Python has called, after Ctrl-C
// The host code that Python has called on this OS thread: where Ctrl-C may end it, and where it was then.
struct HostCode {
    Image image;
    int lock_depth, missed;
    const void *volatile interrupted_at;
};
extern thread_local HostCode *volatile host_code;
extern const char *tried;           // in a child process: the module that it loads for a trial, see trial.cpp
void catch_signals(bool on);
void report_signal(Worker &);            // after a signal ended a kernel: what it means
}
