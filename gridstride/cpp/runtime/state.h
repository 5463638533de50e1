// Global state of the runtime: options, the finding, the end of a launch, locks. Defined in state.cpp.
#pragma once
#include <atomic>
#include <new>
#include <setjmp.h>
#include <string.h>
#include <string>
#include <vector>
#include "runtime.h"

namespace gridstride {

extern gridstride_options options;
extern Finding current_finding;
extern std::vector<Finding> pending_warnings;    // reported at the end of the call
extern std::atomic<bool> stops_launch;           // whether a finding or a signal ends the launch
extern thread_local sigjmp_buf *crash_guard;     // the jump target for a crash of host code
extern std::atomic<int> running_calls;           // the number of calls from Python that are running
extern std::vector<const ParameterNames *> all_names;     // the parameter names of each kernel
extern thread_local int error_code;    // the error that cudaGetLastError returns
extern bool handles_assertions;        // whether the program handles cudaErrorAssert
extern int sticky_error;              // the error that all later calls return; 0: none
extern thread_local bool host_accesses_device; // whether a host library function that may access device memory runs
extern bool has_several_os_threads;    // whether several OS threads run a launch
extern bool is_forked;                 // whether this process is a forked child
// if > 0, Python code runs or a lock of the emulator is held, so no signal may end host code
extern thread_local volatile int signals_deferred;

class SignalDeferral {
public:
    SignalDeferral() { signals_deferred = signals_deferred + 1; }
    ~SignalDeferral() { signals_deferred = signals_deferred - 1; }
    SignalDeferral(const SignalDeferral &) = delete;
};

// Locks are acquired before a fork, so that no other thread holds them, and initialized again in the child.
enum class Fork { before, parent, child };
template <class Lock> void handle_fork(Fork phase, Lock &lock) {
    if (phase == Fork::before) lock.lock();
    else if (phase == Fork::parent) lock.unlock();
    else new (&lock) Lock;
}
void fork_state(Fork);
void fork_output(Fork);
void fork_findings(Fork);
void fork_signals(Fork);
void fork_device(Fork);
void fork_addresses(Fork);
void fork_launches(Fork);
void fork_unload(Fork);
void fork_ranks(Fork);
void fork_queue(Fork);
void fork_branches(Fork);
void fork_atomics(Fork);

void begin_call();                     // counts a call from Python in `running_calls`
// Switch device variables between their addresses in host code and those in device code.
void begin_device_code();
void end_device_code();

void count_branches();                 // adds the branches of a launch to the counts (coverage.cpp)

// Locks the emulated devices, for launches and for functions that access device memory. In device code it does nothing,
// because the launch holds the lock. A thread that holds it must not call Python, which could deadlock.
class DeviceLock {
    bool holds_lock;

public:
    DeviceLock();
    ~DeviceLock();
    DeviceLock(const DeviceLock &) = delete;
    static int depth();                // how many times this OS thread holds the lock
    static void unlock_to(int depth);  // restores the depth after a jump out of scopes
    static void pause(unsigned microseconds);      // lets other threads use the devices
};
// Returns whether the last launch was rejected. The host may read the error and continue.
inline bool was_launch_rejected() {
    return current_finding.kind == launch_failed && strcmp(current_finding.code, "waits_in_kernel");
}
// Returns whether a finding has ended a kernel in this call from Python; if so, no OS thread launches another one.
inline bool is_launch_stopped() { return current_finding.kind != nothing && !was_launch_rejected(); }

// If host code forks, the child must not return to Python, whose state is a copy: it ends instead.
bool is_child();                       // whether this process is a child that this call from Python has forked
[[noreturn]] void end_child(int status);
inline bool checks(Kind k) { return options.checks >> k & 1; }
std::string base_name(const char *qualified_name); // of `(const void *)ns::k<16>`: k
}
