// Signals: crashes of kernels and host code, the time limit and Ctrl-C are reported as findings. The handler runs on an
// alternate stack, stores the signal and the program counter, and jumps back to the start of the launch (`run_blocks`,
// residents.cpp), which stores the finding. A background thread sends SIGUSR2 when the time limit has passed.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <algorithm>
#include <mutex>
#include <vector>
#include "addresses.h"
#include "detector.h"
#include "findings.h"
#include "launch.h"
#include "loader.h"
#include "memory.h"
#include "ranks.h"
#include "signals.h"
#include <ucontext.h>
#ifndef __APPLE__
#include <execinfo.h>
#endif

namespace gridstride {

static const int handled_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGINT, SIGUSR2};
static struct sigaction previous_actions[sizeof handled_signals / sizeof *handled_signals];
static int num_handler_users = 0;
static std::mutex handlers_lock;
std::atomic<int> ending_signal{0};

static void *program_counter(void *context) {
    ucontext_t *u = static_cast<ucontext_t *>(context);
#if defined(__APPLE__) && defined(__x86_64__)
    return reinterpret_cast<void *>(u->uc_mcontext->__ss.__rip);
#elif defined(__APPLE__)
    return reinterpret_cast<void *>(u->uc_mcontext->__ss.__pc);
#elif defined(__x86_64__)
    return reinterpret_cast<void *>(u->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return reinterpret_cast<void *>(u->uc_mcontext.pc);
#else
    return (void)u, nullptr;
#endif
}

static void **stack_pointer(void *context) {
    [[maybe_unused]] ucontext_t *u = static_cast<ucontext_t *>(context);
#if defined(__x86_64__) && !defined(__APPLE__)
    return reinterpret_cast<void **>(u->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__) && !defined(__APPLE__)
    return reinterpret_cast<void **>(u->uc_mcontext.sp);
#else
    return nullptr;
#endif
}

// Returns 'read' or 'write' for a memory fault, 'access' if the processor does not report it.
static const char *access_of_fault([[maybe_unused]] void *context) {
#if defined(__x86_64__) && !defined(__APPLE__)
    constexpr int page_fault = 14, write_bit = 2;          // for a non-canonical address, the kind is unknown
    const greg_t *regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    return regs[REG_TRAPNO] != page_fault ? "access" : regs[REG_ERR] & write_bit ? "write" : "read";
#elif defined(__aarch64__) && defined(__APPLE__)
    return static_cast<ucontext_t *>(context)->uc_mcontext->__es.__esr >> 6 & 1 ? "write" : "read";
#else
    return "access";
#endif
}

// Returns the link register on Arm, in which a leaf function keeps its return address.
static void *link_register(void *context) {
    [[maybe_unused]] ucontext_t *u = static_cast<ucontext_t *>(context);
#if defined(__aarch64__) && !defined(__APPLE__)
    return reinterpret_cast<void *>(u->uc_mcontext.regs[30]);
#else
    return nullptr;
#endif
}
// Removes the pointer authentication code that Arm may store in the upper bits of a code address.
static char *strip_pointer_authentication(void *address) {
#if defined(__aarch64__)
    return reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(address) << 16 >> 16);
#else
    return static_cast<char *>(address);
#endif
}

// Returns whether a division has trapped because of an overflow (INT_MIN / -1, INT_MIN % -1), not a division by zero.
// x86 raises SIGFPE for both, so the instruction is decoded to read its divisor.
#if defined(__x86_64__) && !defined(__APPLE__)
static uintptr_t operand_address(const unsigned char *code, int rex, const greg_t *regs, const int *register_ids) {
    const int mode = code[0] >> 6, rm = code[0] & 7;
    const auto register_value = [&](int n) { return uintptr_t(regs[register_ids[n]]); };
    const auto displacement = [&](const unsigned char *bytes) -> uintptr_t {
        int32_t value = 0;
        if (mode == 1) return uintptr_t(intptr_t(static_cast<signed char>(*bytes)));
        if (mode == 2 || rm == 5 || rm == 4) memcpy(&value, bytes, sizeof value);
        return uintptr_t(intptr_t(value));
    };
    if (rm != 4) {
        // relative to rip
        if (!mode && rm == 5) return reinterpret_cast<uintptr_t>(code + 5) + displacement(code + 1);
        return register_value(rm | (rex & 1) << 3) + (mode ? displacement(code + 1) : 0);
    }
    const int base = code[1] & 7, index = (code[1] >> 3 & 7) | (rex & 2) << 2;
    const bool has_no_base = !mode && base == 5;
    return (has_no_base ? 0 : register_value(base | (rex & 1) << 3)) + (index == 4 ? 0
        : register_value(index) << (code[1] >> 6)) +
           (mode || has_no_base ? displacement(code + 2) : 0);
}
static bool quotient_overflows(void *context) {
    static const int register_ids[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8,
        REG_R9,
        REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    const greg_t *regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    const unsigned char *code = reinterpret_cast<const unsigned char *>(regs[REG_RIP]);
    const int rex = *code >> 4 == 4 ? *code++ : 0;
    if (*code++ != 0xf7 || (*code >> 3 & 7) != 7) return false;        // idiv
    const size_t bytes = rex & 8 ? 8 : 4;
    uint64_t divisor = 0;
    if (*code >> 6 == 3) divisor = uint64_t(regs[register_ids[(*code & 7) | (rex & 1) << 3]]);
    else memcpy(&divisor, reinterpret_cast<void *>(operand_address(code, rex, regs, register_ids)), bytes);
    return bytes == 8 ? divisor : uint32_t(divisor);
}
#else
static bool quotient_overflows(void *) { return false; }
#endif

// The OS threads that receive SIGUSR2 after the time limit or Ctrl-C
static std::mutex watched_lock;
static std::vector<pthread_t> watched_threads;
static LoadedImage kernel_image;                 // the image of the kernel's module
static double deadline = 0;                 // of the current launch, in seconds_now(); 0: none
static double time_limit = 0;               // of the current launch, in seconds
static int limited_thread = 0;              // its OS thread
static bool is_watch_running = false;
static std::atomic<double> thread_end_time = 0;  // when a finding ended a thread of host code; 0: never
constexpr int thread_end_signal = SIGABRT;       // the `ending_signal` of that finding

static int thread_id() {
#ifdef GRIDSTRIDE_ELF
    return int(syscall(SYS_gettid));
#else
    return 0;
#endif
}
double seconds_now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + now.tv_nsec * 1e-9;
}
void end_host_code_later() { thread_end_time = seconds_now(); }
// Returns whether the launch is over its time limit. On a busy machine, the time in which its thread waits for a
// processor does not count, up to four times the limit. The watch thread counts from when it first sees the launch,
// usually within 50 ms.
static bool is_over_time_limit() {
    static double watched_deadline = 0, begin = 0;
    static ProcessorTime time_at_begin, last;
    const double now = seconds_now();
    if (!deadline || (deadline == watched_deadline && now <= deadline)) return false;
    const ProcessorTime time = processor_time_of_thread(getpid(), limited_thread);
    if (deadline != watched_deadline) {
        watched_deadline = deadline, begin = now, time_at_begin = last = time;
        return false;
    }
    const bool is_waiting = time.is_ready && time.used == last.used;
    last = time;
    if (now > deadline + 4 * time_limit) return true;
    return !is_waiting && now - begin - double(time.waited - time_at_begin.waited) * 1e-9 > time_limit;
}
static void raise_ending_signal() {
    int no_signal = 0;                                    // Ctrl-C may come first
    if (is_over_time_limit()) ending_signal.compare_exchange_strong(no_signal, SIGUSR2);
    no_signal = 0;
    if (thread_end_time && seconds_now() > thread_end_time + 1 && running_calls == 1)
        ending_signal.compare_exchange_strong(no_signal, thread_end_signal);
}
static void *watch_loop(void *) {
    for (;;) {
        watched_lock.lock();
        raise_ending_signal();
        if (ending_signal)
            for (pthread_t thread : watched_threads) pthread_kill(thread, SIGUSR2);
        watched_lock.unlock();
        // the signal is repeated until the handler runs at a point where the launch can be ended
        usleep(ending_signal ? 1000 : 50000);
    }
    return nullptr;
}
void start_time_limit(const Launch &l) {
    const LoadedImage image = image_of(reinterpret_cast<void *>(l.thread));
    watched_lock.lock();
    kernel_image = image;
    time_limit = options.seconds, deadline = seconds_now() + time_limit;
    limited_thread = thread_id();
    watched_lock.unlock();
}
void clear_time_limit() {
    watched_lock.lock();
    deadline = 0;
    if (ending_signal == SIGUSR2) ending_signal = 0;
    watched_lock.unlock();
}
void set_interruptible(bool is_interruptible) {
    watched_lock.lock();
    if (is_interruptible) watched_threads.push_back(pthread_self());
    else
        for (size_t i = 0; i < watched_threads.size(); i++)
            if (pthread_equal(watched_threads[i], pthread_self())) {
                watched_threads.erase(watched_threads.begin() + long(i));
                break;
            }
    watched_lock.unlock();
    sigset_t pending;
    // pending signals are delivered at a system call, while the handler is installed
    if (!is_interruptible) sigpending(&pending);
}

// SIGUSR2 ends a launch only in the user's own code, because other code may hold a lock. After many signals it ends
// the launch anywhere. The range of the user's code is looked up before the launch: in the handler, dladdr() could
// deadlock on the loader's lock.
static bool is_user_code(const void *pc) {
#ifdef __APPLE__
    Dl_info info;
    return find_symbol(pc, info) && reinterpret_cast<uintptr_t>(info.dli_fbase) == kernel_image.base;
#else
    return reinterpret_cast<uintptr_t>(pc) - kernel_image.base < kernel_image.end - kernel_image.base;
#endif
}
static bool may_end_launch(Worker &w, const void *pc) { return is_user_code(pc) || ++w.deferred_signals > 5000; }
// Returns the user's call of the library function, such as abort() or strlen(), that the signal has interrupted.
static void *caller_in_kernel(const Worker &w) {
    for (int i = 0; i < w.depth; i++)
        if (is_user_code(w.frames[i])) return static_cast<char *>(w.frames[i]) - 1;
    return nullptr;
}
// Returns whether a function has returned to an address without code, because a write past a local array has
// overwritten the return address.
static bool has_corrupt_return([[maybe_unused]] const Worker &w, [[maybe_unused]] void *fault) {
#if defined(__x86_64__) && !defined(__APPLE__)
    const unsigned char *pc = static_cast<const unsigned char *>(w.pc);
    const size_t stack_offset = size_t(reinterpret_cast<char *>(w.sp) - w.fiber[w.current_slot]->stack);
    if (stack_offset > stack_bytes - sizeof *w.sp) return false;
    if (pc && pc == fault) return !is_user_code(*w.sp);          // after a call, the return address would be there
    return !fault && is_user_code(pc) && (*pc == 0xc3 || (*pc == 0xf3 && pc[1] == 0xc3));     // ret
#else
    return false;
#endif
}
// Returns the caller of an address without code; backtrace() would read at that address.
static void *caller_of_invalid_address([[maybe_unused]] const Worker &w, [[maybe_unused]] void *fault) {
#if defined(__APPLE__)
    return nullptr;
#else
    if (w.pc != fault || !fault) return nullptr;
    if (void *caller = strip_pointer_authentication(w.link); caller &&
        is_user_code(caller)) return static_cast<char *>(caller) - 1;
    const size_t stack_offset = size_t(reinterpret_cast<char *>(w.sp) - w.fiber[w.current_slot]->stack);
    const bool has_return_address = w.sp && stack_offset < stack_bytes - 8;
    return has_return_address && is_user_code(*w.sp) ? static_cast<char *>(*w.sp) - 1 : nullptr;
#endif
}
static void store_signal(Worker &w, int signal_number, void *fault, void *context) {
    w.signal = signal_number;
    w.fault = fault;
    w.pc = program_counter(context), w.sp = stack_pointer(context);
    w.link = link_register(context);
    w.access = access_of_fault(context);
    w.is_division_overflow = signal_number == SIGFPE && quotient_overflows(context);
    w.has_corrupt_return = (signal_number == SIGSEGV || signal_number == SIGBUS) && has_corrupt_return(w, fault);
    w.depth = 0;
    if (void *caller = caller_of_invalid_address(w, fault)) {
        w.pc = caller;
        return;
    }
#ifndef __APPLE__
    w.depth = backtrace(w.frames, 64);
#endif
    if (signal_number != SIGUSR2 && !is_user_code(w.pc)) w.pc = caller_in_kernel(w);
}
// Ctrl-C ends host code in the user's own code. A thread that stays in a system call or another library for a second
// is ended there, except in Python, or while it holds a lock of the emulator.
thread_local HostCode *volatile host_code = nullptr;
// Returns `pc` if it is in the user's code, otherwise the return address of the innermost call from there.
template<class IsUserCode> static const void *innermost_user_code(const void *pc, const IsUserCode &is_user_code) {
#ifndef __APPLE__
    void *frames[64];
    const int depth = is_user_code(pc) ? 0 : backtrace(frames, 64);
    for (int i = 0; i < depth; i++)
        if (is_user_code(frames[i])) return static_cast<char *>(frames[i]) - 1;
#endif
    return pc;
}
static const void *innermost_user_code(const HostCode &call, const void *pc) {
    return innermost_user_code(pc, [&](const void *p) {
        return reinterpret_cast<uintptr_t>(p) - call.image.base < call.image.end - call.image.base;
    });
}
const char *module_in_child = nullptr;
// While a module is being loaded, only its file name is known.
static const void *code_in_child_module(const void *pc) {
    Dl_info info;
    return innermost_user_code(pc, [&](const void *p) { return find_symbol(p, info) &&
        !strcmp(info.dli_fname, module_in_child); });
}
static void interrupt_host(const void *pc, bool immediately) {
    HostCode *call = host_code;
    const int signal = ending_signal;
    if ((signal != SIGINT && signal != thread_end_signal) || !crash_guard || !call || signals_deferred ||
        DeviceLock::depth() > call->lock_depth)
        return;
    const uintptr_t a = reinterpret_cast<uintptr_t>(pc);
    if (!immediately && a - call->image.base >= call->image.end - call->image.base && ++call->deferred_signals < 1000)
        return;
    if (signal == SIGINT) call->interrupted_at = innermost_user_code(*call, pc);
    siglongjmp(*crash_guard, 1);
}
void end_if_interrupted(const void *caller) {
    if (ending_signal == SIGINT && !on_device()) interrupt_host(static_cast<const char *>(caller) - 1, true);
}
static void report_host_crash(int sig, siginfo_t *info, void *context, const void *crash_pc) {
    // If the host aborts after a kernel's finding, that finding is the cause.
    if (current_finding.kind != nothing && !was_launch_rejected()) return;
    const bool memory_fault = sig == SIGSEGV || sig == SIGBUS;
    const Allocation *allocation = memory_fault ? memory.at(reinterpret_cast<uintptr_t>(info->si_addr)) : nullptr;
    if (allocation && allocation->is_host_alias) begin_finding(Code::host_reads_symbol,
        {{"array", allocation->name_or_default()}});
    else
        begin_finding(memory_fault                  ? Code::host_memory
                      : sig != SIGFPE               ? Code::host
                      : quotient_overflows(context) ? Code::host_division_overflows
                                                    : Code::host_division,
            {});
    locate(crash_pc, current_finding.location);
}
// Returns the address at which a thread that host code has created crashed in a module, or in a function that a module
// called; null for any other thread.
static const void *address_in_module(const void *pc) {
    const auto is_user_code = [](const void *at) { return is_newest_host_code(at) || is_in_module(at); };
    if (is_user_code(pc)) return pc;
#ifndef __APPLE__
    void *frames[64];
    const int depth = backtrace(frames, 64);
    for (int i = 0; i < depth; i++)
        if (is_user_code(frames[i])) return static_cast<char *>(frames[i]) - 1;
#endif
    return nullptr;
}
// Ends only the crashed thread, so that a thread that joins it continues, and the call from Python reports the crash.
// The stack is not unwound, because any frame may be corrupt.
static void end_thread(int sig, siginfo_t *info, void *context) {
#ifdef __linux__
    const void *const at = running_calls ? address_in_module(program_counter(context)) : nullptr;
    if (!at) return;
    report_host_crash(sig, info, context, at);
    end_host_code_later();
    DeviceLock::unlock_to(0);
    syscall(SYS_exit, 0);
#else
    (void)sig, (void)info, (void)context;
#endif
}
static void on_signal(int sig, siginfo_t *info, void *context) {
    if (sig == SIGINT) {
        ending_signal = SIGINT;            // the background thread handles it
        return;
    }
    const int saved_errno = errno;
    if ((sig == SIGSEGV || sig == SIGBUS) && begin_writes(reinterpret_cast<uintptr_t>(info->si_addr))) {
        errno = saved_errno;
        return;
    }
    Worker *w = worker;
    if (w && w->is_running) {
        if (sig == SIGUSR2 && !may_end_launch(*w, program_counter(context))) return;
        // reading a corrupt stack may raise another signal here; the first one is kept
        if (!w->signal) store_signal(*w, sig, info->si_addr, context);
        siglongjmp(w->root->escape, 1);
    }
    if (sig == SIGUSR2) return interrupt_host(program_counter(context), false);
    if (crash_guard) {
        const void *const pc = program_counter(context);
        const void *const at = host_code ? innermost_user_code(*host_code, pc) : module_in_child
            ? code_in_child_module(pc) : pc;
        report_host_crash(sig, info, context, at);
        siglongjmp(*crash_guard, 1);
    }
    end_thread(sig, info, context);
    signal(sig, SIG_DFL);
    raise(sig);
}
static thread_local int num_handler_users_of_thread = 0;
static void restore_handlers() {
    for (size_t i = 0; i < sizeof handled_signals / sizeof *handled_signals; i++)
        sigaction(handled_signals[i], &previous_actions[i], nullptr);
}
static void count_handler_user(bool installs) {
    num_handler_users_of_thread += installs ? 1 : -1;
    if (installs ? num_handler_users++ : --num_handler_users) return;
    if (!installs) restore_handlers();
    for (size_t i = 0; installs && i < sizeof handled_signals / sizeof *handled_signals; i++) {
        struct sigaction action{};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
        sigaction(handled_signals[i], &action, &previous_actions[i]);
    }
    if (installs) ending_signal = 0, thread_end_time = 0;
    if (installs && !is_watch_running) {
        is_watch_running = true;
        pthread_t thread;
        pthread_create(&thread, nullptr, watch_loop, nullptr);
        pthread_detach(thread);
    }
    if (!installs && ending_signal.exchange(0) == SIGINT) current_finding.kind = interrupted;
}
void catch_signals(bool on) {
    std::lock_guard<std::mutex> lock(handlers_lock);
    count_handler_user(on);
}
// A forked child has this OS thread only, and no background thread.
void fork_signals(Fork phase) {
    handle_fork(phase, handlers_lock);
    handle_fork(phase, watched_lock);
    if (phase != Fork::child) return;
    if (num_handler_users && !num_handler_users_of_thread) restore_handlers();
    num_handler_users = num_handler_users_of_thread;
    ending_signal = 0, deadline = 0, is_watch_running = false;
    const auto is_other = [](pthread_t t) { return !pthread_equal(t, pthread_self()); };
    watched_threads.erase(std::remove_if(watched_threads.begin(), watched_threads.end(), is_other),
        watched_threads.end());
}

static void report_memory_fault(Worker &w);
// Returns the current address in the user's code: the program counter, or the innermost return address on a stack.
// On Arm the caller of a stub may be in the link register only.
static const void *user_pc(const Worker &w, bool include_current = true) {
    const auto is_code = [](const void *slot) {
        return reinterpret_cast<uintptr_t>(slot) - kernel_image.code < kernel_image.code_bytes;
    };
    const bool is_pc_in_code = is_code(w.pc);
    if (include_current && is_pc_in_code) return w.pc;
    if ((include_current || is_pc_in_code) &&
        is_code(strip_pointer_authentication(w.link))) return strip_pointer_authentication(w.link) - 1;
    for (int i = 0; i < w.fiber_count; i++)
        for (void **slot = w.sp, *stack = w.fibers[i].stack;
            stack && size_t(reinterpret_cast<char *>(slot) - static_cast<char *>(stack)) < stack_bytes; slot++)
            if (char *address = strip_pointer_authentication(*slot); is_code(address)) return address - 1;
    return nullptr;
}
// Stores the line where the current thread runs, waits or polls. The search on a stack may find the frame of a call
// that has returned, so the known line of a wait or poll is preferred.
static void locate_current_thread(Worker &w) {
    const int rank = w.rank[w.current_slot];
    const bool has_polled_address = w.has_polled && w.polls[rank].address,
               waits = has_polled_address && w.polls[rank].repeats >= 4 && !is_user_code(w.pc);
    locate_finding(waits ? nullptr : user_pc(w), 0);
    // a stub has no line; use its caller
    if (!waits && !current_finding.location.line) locate(user_pc(w, false), current_finding.location);
    if (current_finding.location.line) return;
    if (w.state[w.current_slot] != ready) set_source_line(current_finding.location, w.line[rank]);
    else if (has_polled_address) detector.set_line({0, 0, w.polls[rank].location}, current_finding.location);
}

static void report_time_limit(Worker &w) {
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%g", options.seconds);
    if (claim_finding(Code::time_limit, {{"seconds", static_cast<const char *>(seconds)}})) locate_current_thread(w);
}

// Converts the signal that has ended a kernel to a finding.
void report_signal(Worker &w) {
    switch (w.signal) {
        case 0: return;
        case SIGUSR2:
            if (ending_signal == SIGINT) {
                if (claim_finding(Code::stopped, {})) locate_current_thread(w);
                return;
            }
            return report_time_limit(w);
        case SIGFPE: return report(w.is_division_overflow ? Code::division_overflows : Code::division, {}, w.pc, 0);
        case SIGSEGV:
        case SIGBUS: return report_memory_fault(w);
        case SIGABRT: return report(Code::aborts, {}, w.pc, 0);
        default: return report(Code::instruction, {}, w.pc, 0);
    }
}

static void report_memory_fault(Worker &w) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(w.fault);
    const Field access = {"access", w.access};
    if (w.has_corrupt_return) return report(Code::local_array, {{"access", "write"}}, w.pc, 0);
    if (w.is_just_past_stack(address)) return report(Code::local_array, {access}, w.pc, 0);
    for (int i = 0; i < w.fiber_count; i++)
        if (const uintptr_t stack = reinterpret_cast<uintptr_t>(w.fibers[i].stack); stack && address - stack < 65536)
            return report(Code::stack, {{"kilobytes", stack_bytes >> 10}}, w.pc, 0);
    const DeviceAddress target = classify_address(address);
    if (target.kind == DeviceAddress::function)
        return report(Code::host_function, {{"function", target.name.c_str()}}, w.pc, 0);
    if (target.kind == DeviceAddress::vtable) return report(Code::host_virtual, {}, w.pc, 0);
    if (target.kind == DeviceAddress::variable) return report(Code::kernel_reads_host, {}, w.pc, 0);
    if (const auto *failure = memory.failed_at(address))
        return report(
            Code::failed_alloc, {access, {"bytes", failure->first}, {"alloc_line", failure->second}}, w.pc, 0);
    if (!memory.holds(address))
        return report(address < 4096 ? Code::fault_null : Code::fault_address, {access, {"address", address}}, w.pc, 0);
    if (const Allocation *allocation = memory.at(address); allocation && allocation->is_host_alias)
        return report(Code::host_symbol, {{"array", allocation->name_or_default()}}, w.pc, 0);
    const Allocation *allocation = memory.nearest(address);
    if (!allocation) return report(Code::fault_no_array, {access, {"address", address}}, w.pc, 0);
    if (!allocation->is_live) return report(Code::fault_freed, {access, {"array", allocation->name_or_default()}}, w.pc,
        0);
    const long long index = allocation->index_of(address), size = allocation->index_of(allocation->hi);
    report(Code::fault_outside,
        {access, {"array", allocation->name_or_default()}, {"index", &index, 1}, {"shape", &size, 1}}, w.pc, 0);
}
}
