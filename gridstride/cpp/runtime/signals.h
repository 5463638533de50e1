// Signals: a crash in a kernel, the end of its time, Ctrl-C.
#pragma once
#include <atomic>
#include "worker.h"

namespace gridstride {

extern std::atomic<int> ended_by;      // the signal that ends all launches, or 0

double seconds_now();
void begin_time(const Launch &);       // of which it has `options.seconds`
void end_time();
void watch(bool on);                   // this OS thread works on a launch
void catch_signals(bool on);
void tell_signal(Worker &);            // after a signal ended a kernel: what it means
}
