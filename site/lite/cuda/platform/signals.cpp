// Traps of WebAssembly, which JavaScript reports, and the time limit, which it checks where a loop begins again.
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include "detector.h"
#include "findings.h"
#include "launch.h"
#include "memory.h"
#include "signals.h"

namespace gridstride {

std::atomic<int> ending_signal{0};
thread_local HostCode *volatile host_code = nullptr;
const char *module_in_child = nullptr;
static double deadline = 0;
constexpr size_t local_bytes = stack_bytes - (16 << 10);

double seconds_now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
void start_time_limit(const Launch &) { deadline = seconds_now() + options.seconds; }
void clear_time_limit() { deadline = 0; }
void set_interruptible(bool) {}
void end_if_interrupted(const void *) {}
void end_host_code_later() {}
void catch_signals(bool) {}
void fork_signals(Fork) {}

static void report_memory_fault(Worker &w) {
    report(Code::fault_address, {{"access", "access"}, {"address", 0}}, w.pc, 0);
}
void report_signal(Worker &w) {
    switch (w.signal) {
        case 0: return;
        case SIGFPE: return report(w.is_division_overflow ? Code::division_overflows : Code::division, {}, w.pc, 0);
        case SIGSEGV: return report_memory_fault(w);
        case SIGBUS: return report(Code::stack, {{"kilobytes", local_bytes >> 10}}, w.pc, 0);
        default: return report(Code::instruction, {}, w.pc, 0);
    }
}
}

using namespace gridstride;
extern "C" void *gridstride_return_address();

extern "C" __attribute__((import_module("gridstride"), import_name("refuel"))) void gridstride_js_refuel();
// Loops of the user's code have run many iterations: has the launch reached its time limit?
extern "C" __attribute__((export_name("gridstride_tick"), used)) void gridstride_tick() {
    gridstride_js_refuel();
    if (!on_device() || !deadline || seconds_now() < deadline) return;
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%g", options.seconds);
    report(Code::time_limit, {{"seconds", static_cast<const char *>(seconds)}}, gridstride_return_address(), 0);
    end_launch();
}
// Where the stack of a thread ends for user code; the rest is for the runtime.
extern "C" __attribute__((export_name("gridstride_stack_end"), used)) void *gridstride_stack_end(Fiber *f) {
    return f->stack + stack_bytes - local_bytes;
}
// The local variables of user code need more than that.
extern "C" __attribute__((export_name("gridstride_stack_overflow"), used)) void gridstride_stack_overflow() {
    report(Code::stack, {{"kilobytes", local_bytes >> 10}}, gridstride_return_address(), 0);
    end_launch();
}
// Stores a trap at these calls, the innermost first; returns the buffer of the jump that ends what ran, or null.
extern "C" __attribute__((export_name("gridstride_trapped"), used)) void *gridstride_trapped(int signal_number,
    int is_overflow, uintptr_t *frames, int depth) {
    const auto address = [](uintptr_t offset) {
        Dl_info info;
        dladdr(&ending_signal, &info);
        return static_cast<char *>(info.dli_fbase) + offset;
    };
    if (!on_device()) {
        if (!crash_guard) return nullptr;
        if (current_finding.kind == nothing) {
            begin_finding(signal_number == SIGFPE ? is_overflow ? Code::host_division_overflows : Code::host_division
                : signal_number == SIGSEGV ? Code::host_memory : Code::host, {});
            if (depth) locate(address(frames[0]), current_finding.location);
        }
        return *crash_guard;
    }
    Worker &w = *worker;
    w.signal = signal_number, w.is_division_overflow = is_overflow;
    w.depth = std::min(depth, 64);
    for (int i = 0; i < w.depth; i++) w.frames[i] = address(frames[i]);
    w.pc = depth ? w.frames[0] : nullptr;
    return w.root->escape;
}
