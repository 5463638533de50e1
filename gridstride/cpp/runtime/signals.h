// Signals: crashes, the time limit, Ctrl-C
#pragma once
#include <atomic>
#include "detector.h"

namespace gridstride {

extern std::atomic<int> ending_signal;      // the signal that ends all launches, or 0

double seconds_now();
void start_time_limit(const Launch &);       // starts the time limit of `options.seconds`
void clear_time_limit();
void set_interruptible(bool on);             // whether this OS thread, in a launch or host code, receives SIGUSR2
void end_if_interrupted(const void *caller);   // ends host code after Ctrl-C
// A finding has ended a thread that host code had created: ends host code that still runs, or waits, a second later.
void end_host_code_later();
// The host code that Python has called in this OS thread, and where Ctrl-C has interrupted it
struct HostCode {
    LoadedImage image;
    int lock_depth, deferred_signals;
    const void *volatile interrupted_at;
};
extern thread_local HostCode *volatile host_code;
extern const char *module_in_child;           // in a child process: the module that it loads, see load_in_child.cpp
void catch_signals(bool on);
void report_signal(Worker &);            // converts the signal that has ended a kernel to a finding
}
