// What the whole runtime shares: how kernels shall run, what was found, whether a launch has ended. Defined in
// state.cpp.
#pragma once
#include <atomic>
#include <new>
#include <setjmp.h>
#include <string.h>
#include <string>
#include <vector>
#include "runtime.h"

namespace gridstride {

constexpr int abi_version = 4;        // of what Python shares: finding.h, and the functions at the end of runtime.h
extern gridstride_options options;
extern Finding found;
extern std::vector<Finding> warned;    // reported at the end of the call
extern std::atomic<bool> stop;         // the launch ends: something was found
extern thread_local sigjmp_buf *guard; // where a crash of host code leads
extern std::atomic<int> calls;         // from Python that are at work
extern std::vector<const Names *> all_names; // of the kernels' parameters
extern thread_local int error_code;    // cudaGetLastError's
extern thread_local bool host_accesses_device; // it works for the device: it may use all of its memory
extern bool several_os_threads;        // are at work on a launch
extern bool forked;                    // this process is another's child, which has none of its other threads
extern thread_local volatile int not_now; // the host is in Python, or holds a lock of ours: no signal ends it here

class NotNow {
public:
    NotNow() { not_now = not_now + 1; }
    ~NotNow() { not_now = not_now - 1; }
    NotNow(const NotNow &) = delete;
};

// What happens to a lock where the process is forked: no other thread has it meanwhile, and in the child it is new.
enum class Fork { before, parent, child };
template <class Lock> void pass_fork(Fork now, Lock &lock) {
    if (now == Fork::before) lock.lock();
    else if (now == Fork::parent) lock.unlock();
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

// What the names of the device's variables mean: in host code, and from here to there in device code
void begin_call();                     // from Python: counted in `calls`
void begin_device_code();
void end_device_code();

// One OS thread of the host at a time uses the emulated device: for a launch, or for a call about its memory. Device
// code passes: its launch has the device. A thread that has it must not call Python.
class DeviceLock {
    bool mine;

public:
    DeviceLock();
    ~DeviceLock();
    DeviceLock(const DeviceLock &) = delete;
    static int depth();                // how many this OS thread has, nested
    static void unlock_to(int to);     // after a jump out of their scopes: until so many are left
};
// Was the last launch refused? The host may look at that, and go on.
inline bool was_refused() { return found.kind == launch_failed && strcmp(found.code, "waits_in_kernel"); }
// Was a kernel stopped in this call from Python? Then the others of its OS threads launch no more.
inline bool is_over() { return found.kind != nothing && !was_refused(); }

// Host code that forks has two of itself, and Python below each. The child ends where it would come back to Python.
bool is_child();                       // of such a fork, which this OS thread has made in this call from Python
[[noreturn]] void end_child(int status);
inline bool checks(Kind k) { return options.checks >> k & 1; }
std::string base_name(const char *text); // of `(const void *)ns::k<16>`: k
}
