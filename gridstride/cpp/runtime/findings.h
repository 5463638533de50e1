// What went wrong, where and by whom; how a launch ends when it does; what kernels print.
#pragma once

namespace gridstride {

static void begin_finding(Kind kind, const char *what, const char *mend) {
    memset(&found, 0, sizeof found);
    found.kind = kind;
    snprintf(found.what, sizeof found.what, "%s", what);
    snprintf(found.mend, sizeof found.mend, "%s", mend);
}

// Where a piece of code stands in the source: the innermost line that is the learner's own, not one of these headers.
static void locate(const void *pc, Place &at, char *file, size_t size) {
    Dl_info info;
    if (!pc || !dladdr(pc, &info)) return;
    char command[1200], text[1024];
#ifdef __APPLE__
    snprintf(command, sizeof command, "atos -i -fullPath -o '%s' -l %p %p 2>/dev/null", info.dli_fname, info.dli_fbase, pc);
#else
    // An access that clang has moved has no line: what follows it tells.
    const size_t offset = size_t(static_cast<const char *>(pc) - static_cast<char *>(info.dli_fbase));
    snprintf(command, sizeof command, "addr2line -i -e '%s' %#zx %#zx %#zx %#zx 2>/dev/null", info.dli_fname, offset, offset + 8, offset + 16, offset + 24);
#endif
    FILE *pipe = popen(command, "r");
    if (!pipe) return;
    while (fgets(text, sizeof text, pipe)) {
        char *colon = strrchr(text, ':');
#ifdef __APPLE__
        if (char *open = strrchr(text, '(')) memmove(text, open + 1, strlen(open)), colon = strrchr(text, ':');
#endif
        if (!colon || strstr(text, "cpp/include/") || !atoi(colon + 1)) continue;
        at.line = atoi(colon + 1);
        *colon = 0;
        if (file) snprintf(file, size, "%s", text);
        break;
    }
    pclose(pipe);
}

static bool on_stack_of(const Fiber &f) {
    char here;
    return size_t(&here - f.stack) < stack_bytes;
}

// The line of the kernel itself from which the code at work was called, through however many functions; 0 if that cannot be told,
// or if another thread is spoken of than the one that runs.
static int line_in_kernel(const Worker &w) {
#ifdef __APPLE__
    return (void)w, 0;
#else
    void *frames[64];
    Dl_info kernel, info;
    if (!on_stack_of(*w.fiber[w.current]) || !dladdr(reinterpret_cast<const void *>(w.launch->thread), &kernel)) return 0;
    char command[3000], text[1024];
    int n = snprintf(command, sizeof command, "addr2line -f -C -i -e '%s'", kernel.dli_fname), line = 0;
    for (int i = 0, all = backtrace(frames, 64); i < all && n < 2900; i++)
        if (dladdr(frames[i], &info) && info.dli_fbase == kernel.dli_fbase)
            n += snprintf(command + n, sizeof command - size_t(n), " %#zx", size_t(static_cast<char *>(frames[i]) - static_cast<char *>(info.dli_fbase)) - 1);
    snprintf(command + n, sizeof command - size_t(n), " 2>/dev/null");
    FILE *pipe = popen(command, "r");
    if (!pipe) return 0;
    const std::string name = base_name(w.launch->kernel);
    while (!line && fgets(text, sizeof text, pipe)) {      // a function, then file:line
        text[strcspn(text, "(<\n")] = 0;
        const bool is_kernel = base_name(text) == name;
        if (!fgets(text, sizeof text, pipe)) break;
        if (const char *colon = strrchr(text, ':'); is_kernel && colon) line = atoi(colon + 1);
    }
    pclose(pipe);
    return line;
#endif
}

static void who(Worker &w, int rank, uint64_t block, Place &p) {
    const uint64_t gx = w.launch->grid.x, gy = w.launch->grid.y;
    const unsigned bx = w.launch->block.x, by = w.launch->block.y, r = unsigned(rank);
    const int b[3] = {int(block % gx), int(block / gx % gy), int(block / (gx * gy))}, t[3] = {int(r % bx), int(r / bx % by), int(r / (bx * by))};
    memcpy(p.block, b, sizeof b);
    memcpy(p.thread, t, sizeof t);
}

static void say_who(Worker &w) {
    snprintf(found.kernel, sizeof found.kernel, "%s", base_name(w.launch->kernel).c_str());
    found.has_who = 1;
    who(w, w.rank[w.current], w.block, found.at);
}

// Ends the launch: back to `work`, whatever fiber this is.
[[noreturn]] static void end_launch() { siglongjmp(worker->leader->escape, 1); }

static bool take_finding(Kind kind, const char *what, const char *mend) {
    static std::atomic_flag taken = {};
    while (taken.test_and_set()) {}
    const bool first = !stop.exchange(true);
    if (first) begin_finding(kind, what, mend);
    taken.clear();
    return first;
}

static void tell(Kind kind, const char *what, const char *mend, const void *pc, int line) {
    if (!take_finding(kind, what, mend)) return;
    say_who(*worker);
    locate(pc, found.at, found.file, sizeof found.file);
    if (line) found.at.line = line;
    found.called = line_in_kernel(*worker);
}

// A finding in the thread at work, on the device or on the host.
[[noreturn]] static void fail_at(Kind kind, const char *what, const char *mend, const void *pc, int line) {
    if (on_device()) {
        tell(kind, what, mend, pc, line);
        end_launch();
    }
    begin_finding(kind, what, mend);
    locate(pc, found.at, found.file, sizeof found.file);
    if (line) found.at.line = line;
    if (guard) siglongjmp(*guard, 1);
    fprintf(stderr, "%s\n", what);
    abort();
}
[[noreturn]] __attribute__((noinline)) static void fail(Kind kind, const char *what, const char *mend, int line = 0) { fail_at(kind, what, mend, nullptr, line); }

void assert_failed(const char *expression, const char *file, int line) {
    char what[400];
    snprintf(what, sizeof what, "the assertion `%s` does not hold", expression);
    (void)file;
    fail(assertion, what, "", line);
}
// The address before the one to return to still belongs to the call.
#define CALLER (static_cast<char *>(__builtin_return_address(0)) - 1)
void trap(const char *what) { fail_at(crash, what, "", CALLER, 0); }
void leave(int code) {
    char what[80];
    snprintf(what, sizeof what, "exit(%d) was called", code);
    fail_at(exited, what, on_device() ? "A kernel cannot end the program; `return` ends one thread." : "", CALLER, 0);
}

// Signals: a crash in a kernel, the end of its time, Ctrl-C

static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGINT, SIGUSR2};
static struct sigaction before[sizeof caught / sizeof *caught];
static int catching = 0;
static std::atomic<int> ended_by{0};

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

// The OS threads that work on the launch, for the watch and for Ctrl-C.
static pthread_mutex_t watched_lock = PTHREAD_MUTEX_INITIALIZER;
static std::vector<pthread_t> watched;
static std::atomic<double> deadline{0};
static bool watch_runs = false;

static double seconds_now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + t.tv_nsec * 1e-9;
}
static void flush_printed();
static void end_all(int why) {
    ended_by = why;
    pthread_mutex_lock(&watched_lock);
    for (pthread_t t : watched) pthread_kill(t, SIGUSR2);
    pthread_mutex_unlock(&watched_lock);
}
static void *watch_loop(void *) {
    for (;;) {
        const double d = deadline;
        if (ended_by == SIGINT) end_all(SIGINT);
        else if (d && seconds_now() > d) end_all(SIGUSR2);
        usleep(ended_by ? 1000 : 50000);                    // until the signal meets it where it may be ended
    }
    return nullptr;
}
static void watch(bool on) {
    pthread_mutex_lock(&watched_lock);
    if (on) watched.push_back(pthread_self());
    else
        for (size_t i = 0; i < watched.size(); i++)
            if (pthread_equal(watched[i], pthread_self())) { watched.erase(watched.begin() + long(i)); break; }
    pthread_mutex_unlock(&watched_lock);
}

// A launch is ended from outside only in the learner's own code: elsewhere a lock may be held. Who never comes back from elsewhere is ended there.
static bool may_end(Worker &w, const void *pc) {
    Dl_info kernel, here;
    const bool own = dladdr(reinterpret_cast<const void *>(w.launch->thread), &kernel) && dladdr(pc, &here) && kernel.dli_fbase == here.dli_fbase;
    return own || ++w.missed > 5000;
}
static void on_signal(int sig, siginfo_t *info, void *context) {
    if (sig == SIGINT) { ended_by = SIGINT; return; }       // the watch sees it
    Worker *w = worker;
    if (w && w->running) {
        if (sig == SIGUSR2 && !may_end(*w, program_counter(context))) return;
        w->signal = sig;
        w->fault = info->si_addr;
        w->pc = program_counter(context);
        siglongjmp(w->leader->escape, 1);
    }
    if (sig == SIGUSR2) return;
    if (guard) {
        begin_finding(crash, sig == SIGSEGV || sig == SIGBUS ? "the host code reads or writes memory that is not its own" : sig == SIGFPE ? "the host code divides an integer by zero" : "the host code crashed", "");
        found.at.line = 0;
        locate(program_counter(context), found.at, found.file, sizeof found.file);
        siglongjmp(*guard, 1);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}
static void catch_signals(bool on) {
    if (on ? catching++ : --catching) return;
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        if (!on) { sigaction(caught[i], &before[i], nullptr); continue; }
        struct sigaction a {};
        a.sa_sigaction = on_signal;
        a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
        sigaction(caught[i], &a, &before[i]);
    }
    if (on) ended_by = 0;
    if (on && !watch_runs) {
        watch_runs = true;
        pthread_t t;
        pthread_create(&t, nullptr, watch_loop, nullptr);
        pthread_detach(t);
    }
    if (!on && ended_by.exchange(0) == SIGINT) found.kind = interrupted;
}

static void tell_memory_fault(Worker &w);

// After a signal ended a kernel: what it means.
static void tell_signal(Worker &w) {
    char what[300];
    switch (w.signal) {
        case 0: return;
        case SIGUSR2:
            if (ended_by == SIGINT) { take_finding(interrupted, "interrupted", ""); return; }
            snprintf(what, sizeof what, "the kernel still runs after %g s: an endless loop, or threads that wait for what never comes", options.seconds);
            return tell(timeout, what, "If it is only slow: cpp.options(seconds=...). If a block waits for a later one: here blocks run one after the other, and cpp.options(order='reverse') begins with the last.", w.pc, 0);
        case SIGFPE: return tell(crash, "an integer is divided by zero", "A GPU goes on with a meaningless number; test the divisor first.", w.pc, 0);
        case SIGSEGV: case SIGBUS: return tell_memory_fault(w);
        case SIGABRT: return tell(crash, "the kernel called abort(), or threw an exception", "", w.pc, 0);
        default: return tell(crash, "the kernel executed an instruction that traps", "", w.pc, 0);
    }
}

static void tell_memory_fault(Worker &w) {
    char what[300];
    const uintptr_t a = reinterpret_cast<uintptr_t>(w.fault);
    for (int i = 0; i < w.made; i++)
        if (char *s = w.fibers[i].stack; s && static_cast<char *>(w.fault) >= s && static_cast<char *>(w.fault) < s + 65536)
            return tell(crash, "a thread's stack is full", "Recursion that does not end, or a large local array.", w.pc, 0);
    if (memory.holds(a)) {
        Piece *p = memory.nearest(a);
        if (!p) snprintf(what, sizeof what, "address %p is in no array", w.fault);
        else if (!p->live) snprintf(what, sizeof what, "%s is used after cudaFree", p->name[0] ? p->name : "memory");
        else {
            const long long i = (static_cast<long long>(a) - static_cast<long long>(p->lo)) / static_cast<long long>(p->itemsize);
            snprintf(what, sizeof what, "%s[%lld] is outside: %s has shape (%zu,)", p->name[0] ? p->name : "memory", i, p->name[0] ? p->name : "it", (p->hi - p->lo) / p->itemsize);
        }
        return tell(memcheck, what, "Compile with checks=True to see the first access that is outside.", w.pc, 0);
    }
    snprintf(what, sizeof what, a < 4096 ? "a null pointer is read or written" : "address %p is not device memory", w.fault);
    tell(memcheck, what, a < 4096 ? "An array that was never allocated, or a failed cudaMalloc." : "", w.pc, 0);
}

// Printing: kept until the launch is over, so that Python can put it where the notebook's output is.

static std::string printed;
static std::atomic_flag printing = {};
static void (*sink)(const char *, size_t) = nullptr;
static void (*warn)(const Finding *) = nullptr;

int print(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char text[1024];
    const int n = vsnprintf(text, sizeof text, format, args);
    while (printing.test_and_set()) {}
    if (n >= int(sizeof text)) {
        const size_t before = printed.size();
        printed.resize(before + size_t(n) + 1);
        vsnprintf(&printed[before], size_t(n) + 1, format, again);
        printed.pop_back();
    } else if (n > 0) printed.append(text, size_t(n));
    printing.clear();
    va_end(again);
    va_end(args);
    if (!on_device()) flush_printed();
    return n;
}
static void flush_printed() {
    fflush(stdout);                                         // what host code wrote there by other means came first
    if (printed.empty()) return;
    if (sink) sink(printed.data(), printed.size());
    else fwrite(printed.data(), 1, printed.size(), stdout), fflush(stdout);
    printed.clear();
}
}
extern "C" {
void gridstride_print_to(void (*f)(const char *, size_t)) { gridstride::sink = f; }
void gridstride_warn_to(void (*f)(const gridstride::Finding *)) { gridstride::warn = f; }
}
