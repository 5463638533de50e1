// The emulator's runtime: threads of a block as fibers, blocks over OS threads, findings, and what is printed.
#include <algorithm>
#include <dlfcn.h>
#ifndef __APPLE__
#include <execinfo.h>
#endif
#include <math.h>
#ifndef __APPLE__
#include <link.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string>
#include <time.h>
#include <unordered_map>
#ifdef _OPENMP
#include <omp.h>
#endif
#include "worker.h"

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;

namespace gridstride {

Memory memory;
thread_local Worker *worker = nullptr;
static gridstride_options options = {0, 0, 0, 0, 60};
static Finding found, warned;
static std::atomic<bool> stop{false};
static thread_local sigjmp_buf *guard = nullptr;
static const Names *all_names = nullptr;
static int error_code = 0;
static bool launching = false;

static size_t max_dynamic_of(const Launch &);
static bool checks(Kind k) { return options.checks >> k & 1; }
static Worker &this_worker();

static std::string base_name(const char *text) {   // of `(const void *)ns::k<16>`: k
    std::string s(text);
    while (!s.empty() && (s[0] == '(' || s[0] == '&' || s[0] == ' ')) {
        const size_t close = s.find(')');
        const bool cast = s[0] == '(' && close != std::string::npos && close + 1 < s.size() && s.find('*') < close;
        s = s.substr(cast ? close + 1 : 1);
    }
    s = s.substr(0, s.find_first_of("<,) "));
    const size_t colon = s.rfind("::");
    return colon == std::string::npos ? s : s.substr(colon + 2);
}
}

namespace gridstride { static Says waits_for_cluster; }
#include "findings.h"
#include "detectors.h"

namespace gridstride {

// Threads of a block

static inline int current_rank() { return worker->rank[worker->current]; }
static void thread_ends(Worker &);

void Worker::prepare_threads(const Launch &l, uint32_t seed, int order) {
    launch = &l;
    n = int(l.block.x * l.block.y * l.block.z);
    for (int i = 0; i < n; i++) {
        rank[i] = order == 1 ? n - 1 - i : i;
        index[i] = {unsigned(i) % l.block.x, unsigned(i) / l.block.x % l.block.y, unsigned(i) / (l.block.x * l.block.y)};
    }
    for (int i = n - 1; order == 2 && i > 0; i--) {          // Fisher and Yates
        seed = seed * 1664525u + 1013904223u;
        std::swap(rank[i], rank[seed % unsigned(i + 1)]);
    }
    for (int i = 0; i < n; i++) slot[rank[i]] = i;
    offset.assign(offset.size(), 0);
    arrays.clear();
    dynamic_array = 0, dynamic_met = false;
    if (detector.on) {
        FileScope &f = file_scopes[detector.image.base];
        for (auto &a : f.arrays) detector.new_array(*this, a.name, a.offset, a.shape);
        for (auto &a : f.dynamic) dynamic(a.name, a.shape);
    }
    shared_static = 0;
    shared_used = (l.shared + (l.shared || checks(memcheck) ? shared_gap : 0) + 127) / 128 * 128;      // dynamic memory that the launch forgot is no other array
    blockDim = l.block, gridDim = l.grid;
}

Fiber *Worker::a_fiber() {
    if (idle.empty()) {
        if (!give_stack(fibers[made])) fail(crash, "no memory for another thread's stack", "");
        idle.push_back(&fibers[made++]);
    }
    Fiber *f = idle.back();
    idle.pop_back();
    return f;
}

// A fiber starts threads until none is left: threads that never wait all run on the first one, as a plain loop.
static void fiber_main() {
    Worker &w = *worker;
    while (w.next < w.n) {
        w.start(w.next++);
        w.launch->thread(w.launch->call);
        w.finish();
    }
    w.idle.push_back(w.fiber[w.current]);
    w.choose();
    __builtin_unreachable();
}

inline void Worker::start(int s) {
    Fiber *self = fiber[current];
    current = s;
    fiber[s] = self;
    threadIdx = index[rank[s]];
    detector.begin_thread(*this);
}

inline void Worker::finish() {
    detector.settle();
    if (leader->engines) thread_ends(*this);
    state[current] = done;
    live--;
    if (warps_used) warps[current_rank() / 32].finished |= 1u << current_rank() % 32;
}

inline bool Worker::find_ready(int &s) const {
    if (current + 1 < n && state[current + 1] == ready) return s = current + 1, true;
    const void *p = current + 1 < n ? memchr(state + current + 1, ready, size_t(n - current - 1)) : nullptr;
    if (!p) p = memchr(state, ready, size_t(current + 1));
    if (p) s = int(static_cast<const uint8_t *>(p) - state);
    return p;
}

// Switches to a thread that can go on; returns when it is this one's turn again.
inline void Worker::choose() {
    Fiber &self = *fiber[current];
    int s = current;
    if (next < n) {
        Fiber *fresh = a_fiber();
        prepare(*fresh, fiber_main);
        fiber[current = next] = fresh;
        switch_fiber(self, *fresh);
        return;
    }
    if (!find_ready(s)) {
        if (!leader->cluster.empty()) return choose_in_cluster(self);
        if (!live) { switch_fiber(self, main); return; }
        resolve();
        find_ready(s);
    }
    if (s != current || fiber[s] != &self) {
        current = s;
        threadIdx = index[rank[s]];
        detector.begin_thread(*this);
        if (s + 2 < n && s + 2 < next) {                    // two lines of its stack, while there is other work
            const char *sp = static_cast<const char *>(fiber[s + 2]->sp_hint());
            __builtin_prefetch(sp), __builtin_prefetch(sp + 64);
        }
        switch_fiber(self, *fiber[s]);
    }
}

inline void Worker::wait(State s) {
    detector.settle();
    state[current] = s;
    choose();
}

// No thread of this block can go on: one of another block of the cluster, or one that may now.
void Worker::choose_in_cluster(Fiber &self) {
    const auto &all = leader->cluster;
    const size_t n = all.size(), mine = size_t(std::find(all.begin(), all.end(), this) - all.begin());
    for (size_t i = 1; i <= n; i++) {
        Worker &b = *all[(mine + i) % n];
        detector.enter(b);
        int s = b.current;
        if (b.next == b.n && !b.find_ready(s) && !(b.live && b.resolve(false) && b.find_ready(s))) continue;
        worker = &b;
        blockIdx = b.block_index;
        if (b.next < b.n) {
            Fiber *fresh = b.a_fiber();
            prepare(*fresh, fiber_main);
            b.fiber[b.current = b.next] = fresh;
            return switch_fiber(self, *fresh);
        }
        b.current = s;
        threadIdx = b.index[b.rank[s]];
        detector.begin_thread(b);
        if (b.fiber[s] != &self) switch_fiber(self, *b.fiber[s]);
        return;
    }
    for (bool any : {false, true})                          // who waits for more than the other blocks tells first
        for (Worker *b : all)
            if (b->live && (any || b->is_to_blame())) {
                detector.enter(*b);
                worker = b;
                b->resolve();
            }
    detector.enter(*leader);
    worker = leader;
    switch_fiber(self, leader->main);
}

// Does one of its threads wait for something else than the other blocks?
bool Worker::is_to_blame() const {
    for (int i = 0; i < n; i++)
        if (state[i] != done && (state[i] != on_condition || condition[rank[i]].says != waits_for_cluster)) return true;
    return false;
}

// Those go on whose condition holds.
bool Worker::wake() {
    bool freed = false;
    for (uint8_t *p = state; (p = static_cast<uint8_t *>(memchr(p, on_condition, size_t(state + n - p)))); p++)
        if (const auto &c = condition[rank[p - state]]; c.ready(c.arg)) *p = ready, freed = true;
    return freed;
}

// Nobody can go on: let those go on who may; if there is none, and there `must` be, that is a finding.
bool Worker::resolve(bool must) {
    bool freed = false;
    if (warps_used)
        for (int i = 0; i < (n + 31) / 32; i++) {            // lanes that waited for one that has returned since
            Warp &p = warps[i];
            for (uint32_t left = p.arrived; left; left &= left - 1) freed |= (p.arrived >> __builtin_ctz(left) & 1) && try_warp(p, __builtin_ctz(left));
        }
    if (freed) return true;
    for (int i = 0; i < n; i++)                              // all lanes of a warp that wait at one line are active together
        if (state[slot[i]] == at_active_mask) {
            uint32_t mask = 0;
            for (int j = i; j < n && j / 32 == i / 32; j++)
                if (state[slot[j]] == at_active_mask && line[j] == line[i]) mask |= 1u << j % 32;
            for (uint32_t left = mask; left; left &= left - 1) {
                const int j = i / 32 * 32 + __builtin_ctz(left);
                warps[i / 32].group[j % 32] = mask;
                state[slot[j]] = ready;
            }
            freed = true;
        }
    if (freed) return true;
    if (wake()) return true;
    int waiting = 0;
    for (int i = 0; i < n; i++) waiting += state[i] == at_barrier;
    if (waiting < live && !must) return false;
    if (waiting < live) stuck();
    check_barrier(*this);
    count = 0;
    for (int i = 0; i < n; i++)
        if (state[i] == at_barrier) count += predicate[i] != 0, state[i] = ready;
    detector.block_barrier(*this);
    return true;
}

// Are all the lanes there that `lane` waits for? Then they go on.
bool Worker::try_warp(Warp &p, int l) {
    const bool together = p.op[l] == 2;
    const uint32_t wanted = together ? ~0u : p.mask[l] & p.exists & ~p.finished;
    if (wanted & ~p.arrived) return false;
    const int first = int(&p - warps) * 32;
    for (uint32_t left = wanted; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        if (p.mask[i] != p.mask[l] || p.op[i] != p.op[l] || (together && (p.f[i] != p.f[l] || line[first + i] != line[first + l]))) return false;
    }
    if (together) {
        void *all[32];
        for (int i = 0; i < 32; i++) memcpy(&all[i], p.given[i], sizeof *all);
        p.f[l](all);
        for (int i = 0; i < 32; i++) state[slot[first + i]] = ready;
        p.arrived = 0;
        return true;
    }
    Exchange *x = p.exchange;
    while (x->readers) x++;
    x->readers = p.op[l] ? __builtin_popcount(wanted) : 0;
    for (uint32_t left = wanted; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        if (p.op[l]) memcpy(x->slot[i], p.given[i], 16), p.got[i] = x;
        p.group[i] = wanted;
        state[slot[first + i]] = ready;
    }
    p.arrived &= ~wanted;
    if (!p.op[l]) detector.warp_barrier(*this, int(&p - warps), wanted);
    return true;
}

static void begin_warps(Worker &w) {
    if (w.warps_used) return;
    w.warps_used = true;
    for (int i = 0; i < (w.n + 31) / 32; i++) {
        Warp &p = w.warps[i];
        p.exists = w.n - 32 * i >= 32 ? ~0u : (1u << (w.n - 32 * i)) - 1;
        p.finished = p.arrived = 0;
        for (int l = 0; l < 32; l++) {
            p.got[l] = nullptr;
            const int r = 32 * i + l;
            if (r < w.n && w.slot[r] < w.next && w.state[w.slot[r]] == done) p.finished |= 1u << l;
        }
        for (auto &x : p.exchange) x.readers = 0;
    }
}

static unsigned meet(unsigned mask, int op, const void *mine, int bytes, int line) {
    Worker &w = *worker;
    begin_warps(w);
    const int r = current_rank(), l = r % 32;
    Warp &p = w.warps[r / 32];
    if (p.got[l]) p.got[l]->readers--, p.got[l] = nullptr;
    if (!(mask >> l & 1)) wrong_mask(w, mask, line);
    if (bytes) memcpy(p.given[l], mine, size_t(bytes));
    p.mask[l] = mask, p.op[l] = uint8_t(op), p.arrived |= 1u << l;
    w.line[r] = line;
    w.state[w.current] = in_warp;
    detector.settle();
    if (!w.try_warp(p, l)) w.choose();
    return p.group[l];
}

static inline int barrier(int predicate, int line) {
    Worker &w = *worker;
    w.line[current_rank()] = line;
    w.predicate[w.current] = predicate;
    w.wait(at_barrier);
    return w.count;
}
void sync_block(int line) { barrier(0, line); }
int sync_block_count(int predicate, int line) { return barrier(predicate, line); }
void sync_warp(unsigned mask, int line) { meet(mask, 0, nullptr, 0, line); }
unsigned warp_exchange(unsigned mask, const void *mine, int bytes, const void *&all, int line) {
    const unsigned group = meet(mask, 1, mine, bytes, line);
    const int r = current_rank();
    all = worker->warps[r / 32].got[r % 32]->slot;
    return group;
}
void warp_together(const char *what, void *mine, void (*f)(void *const *), int line) {
    Worker &w = *worker;
    begin_warps(w);
    Warp &p = w.warps[current_rank() / 32];
    p.what[lane()] = what, p.f[lane()] = f;
    meet(~0u, 2, &mine, sizeof mine, line);
}
unsigned active_mask(int line) {
    Worker &w = *worker;
    begin_warps(w);
    const int r = current_rank();
    w.line[r] = line;
    w.wait(at_active_mask);
    return w.warps[r / 32].group[r % 32];
}
void wait_until(bool (*is_ready)(void *), void *arg, int line, Says *says) {
    Worker &w = *worker;
    if (is_ready(arg)) return;
    const int r = current_rank();
    w.line[r] = line;
    w.condition[r].ready = is_ready, w.condition[r].arg = arg, w.condition[r].says = says;
    w.wait(on_condition);
    if (w.blamed) w.tell_of_waiting();
}
void yield_thread() {
    if (!worker || !worker->running) return;
    Worker &w = *worker;
    detector.settle();
    w.wake();
    w.leader->cluster.empty() || ++w.yields % 16 ? w.choose() : w.choose_in_cluster(*w.fiber[w.current]);
}
int lane() { return current_rank() % 32; }
int thread_rank() { return current_rank(); }
bool on_device() { return worker && worker->running; }

}
#include "engines.h"
namespace gridstride {

// Shared memory

static int refuse(const Launch &l, int code, const char *what, const char *mend) {
    begin_finding(launch_failed, what, mend);
    snprintf(found.kernel, sizeof found.kernel, "%s", base_name(l.kernel).c_str());
    found.at.line = l.line;
    return set_error(code);
}

static std::atomic<int> sites{0};
int shared_site() { return sites++; }

static size_t place(Worker &w, const char *name, const Shape &s) {
    // An array lies as its declaration says, and no better: what needs more must ask for it.
    const size_t by = std::max(s.alignment, size_t(128)), at = (w.shared_used + by - 1) / by * by + (s.said ? 0 : std::max(s.alignment, size_t(16)));
    const size_t static_bytes = at + s.bytes;
    if (static_bytes + shared_gap > shared_cap) fail(launch_failed, "the block's shared arrays need more than a block has", "A block has 48 KB of static shared memory; use smaller arrays, or dynamic shared memory for up to 227 KB.");
    w.shared_static += s.bytes;
    size_t allowed = size_t(48) << 10;
    const size_t wanted = w.shared_static + w.launch->shared;
    if (wanted > allowed && max_dynamic_of(*w.launch) > allowed) allowed = shared_limit;
    if (wanted > allowed) {
        char what[200];
        snprintf(what, sizeof what, "%zu bytes of static and %zu of dynamic shared memory; this kernel may use %zu", w.shared_static, w.launch->shared, allowed);
        refuse(*w.launch, 1, what, "");
        stop = true;
        end_launch();
    }
    w.shared_used = (at + s.bytes + (checks(memcheck) ? shared_gap : 0) + 127) / 128 * 128;
    detector.new_array(w, name, at, s);
    return at;
}
// An array lies at the same place in all blocks of a cluster, whichever of them comes to it first.
static void place_in_cluster(Worker &w, size_t site, const char *name, const Shape &s) {
    for (Worker *b : w.leader->cluster) {
        if (b == &w) continue;
        detector.enter(*b);
        b->offset.resize(w.offset.size(), 0);
        b->offset[site] = 1 + place(*b, name, s);
    }
    detector.enter(w);
    w.offset[site] = 1 + place(w, name, s);
}
void *shared_alloc(int site, const char *name, const Shape &s) {
    Worker &w = *worker;
    if (size_t(site) >= w.offset.size()) w.offset.resize(size_t(site) + 16, 0);
    if (!w.offset[size_t(site)]) place_in_cluster(w, size_t(site), name, s);
    return w.shared + w.offset[size_t(site)] - 1;
}
// A thread's variables of file scope begin to live all together, which may be before its first launch.
static FileScope &file_scope(Worker &w, const void *caller) {
    Dl_info info;
    return w.file_scopes[dladdr(caller, &info) ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0];
}
void *shared_at_file_scope(const char *name, const Shape &s) {
    Worker &w = this_worker();
    FileScope &f = file_scope(w, __builtin_return_address(0));
    const size_t by = s.bytes < 1024 ? 128 : 1024;
    f.used = (f.used + s.bytes + shared_gap + by - 1) / by * by;
    f.arrays.emplace_back(name, shared_cap - f.used, s);
    detector.new_array(w, name, shared_cap - f.used, s);
    return w.shared + shared_cap - f.used;
}
void *shared_dynamic(const char *name, const Shape &s) {
    Worker &w = this_worker();
    if (!w.running || !w.dynamic_met) {
        FileScope &f = file_scope(w, __builtin_return_address(0));
        if (!w.running) f.dynamic.clear();
        if (f.dynamic.empty()) f.dynamic.emplace_back(name, 0, s);
        if (w.running) w.dynamic_met = true, w.dynamic(name, s);
    }
    return w.shared;
}
uint32_t shared_address(const void *p) {
    const size_t at = worker ? size_t(static_cast<const char *>(p) - worker->shared) : shared_cap;
    return at < shared_cap ? uint32_t(at) + shared_window : 0;
}
char *shared_at(uint32_t address, unsigned bytes, const char *what, int line) {
    char text[300];
    const uint32_t at = address % block_window - shared_window;
    if (at > shared_cap - bytes || address / block_window > cluster_blocks()) {
        snprintf(text, sizeof text, "%s: %#x is no address in shared memory", what, address);
        fail(memcheck, text, "PTX addresses shared memory by 32 bits: __cvta_generic_to_shared(pointer).", line);
    }
    Worker &there = block_at(address, line);
    must_be_aligned(there.shared + at, bytes, what, line);
    return there.shared + at;
}
void must_be_aligned(const void *p, unsigned bytes, const char *what, int line) {
    if (reinterpret_cast<uintptr_t>(p) % bytes) detector.misplaced(p, bytes, what, line);
}
void accessed(const void *p, unsigned bytes, bool write, int line) {
    if (detector.on) detector.access(reinterpret_cast<uintptr_t>(p), bytes, write, line_bit | uint32_t(line));
}
void Worker::dynamic(const char *name, const Shape &s) {
    const size_t items = s.itemsize ? launch->shared / s.itemsize : 0;
    const Shape whole = {launch->shared, s.itemsize, 1, {items, 0, 0, 0}};
    if (!whole.bytes || !detector.on) return;
    if (dynamic_array) { arrays[dynamic_array - 1] = SharedArray(name, 0, whole); return; }
    detector.new_array(*this, name, 0, whole);
    dynamic_array = arrays.size();
}

// What Python calls runs guarded: a crash of the host code is a finding, too.
bool guarded(void (*f)(void *), void *arg) {
    sigjmp_buf here, *outer = guard;
    found.kind = warned.kind = nothing;
    this_worker();
    catch_signals(true);
    bool ok = true;
    if (sigsetjmp(here, 1) == 0) {
        guard = &here;
        try { f(arg); } catch (const Stop &) {}
    } else ok = false;
    guard = outer;
    catch_signals(false);
    detector.end_host();
    flush_printed();
    if (found.kind == launch_failed) error_code = 0;        // it is told now
    if (warned.kind == warning && warn) warn(&warned);
    return ok && found.kind == nothing;
}

// Launches

Names::Names(const char *kernel, const char *parameters) : kernel(kernel), parameters(parameters), next(all_names) { all_names = this; }

static size_t &max_dynamic(const char *kernel, const void *code) {
    static std::unordered_map<std::string, size_t> known;   // by library and name
    Dl_info info;
    return known.emplace((dladdr(code, &info) ? info.dli_fname : "") + (':' + base_name(kernel)), size_t(48) << 10).first->second;
}
size_t &max_dynamic_of(const char *kernel) { return max_dynamic(kernel, __builtin_return_address(0)); }
static size_t max_dynamic_of(const Launch &l) { return max_dynamic(l.kernel, reinterpret_cast<const void *>(l.thread)); }

// The names of a launch's arrays: those of the kernel's parameters.
static void name_arguments(const Launch &l, const std::string &kernel) {
    const Names *names = all_names;
    while (names && kernel != names->kernel) names = names->next;
    if (!names) return;
    std::string rest = names->parameters;
    for (int i = 0; i < l.nargs && !rest.empty(); i++) {
        const size_t comma = rest.find(',');
        if (Piece *p = l.args[i].pointer ? memory.at(reinterpret_cast<uintptr_t>(l.args[i].pointer)) : nullptr; p && !p->symbol) {
            memset(p->name, 0, sizeof p->name);
            strncpy(p->name, rest.substr(0, comma).c_str(), sizeof p->name - 1);
            if (l.args[i].itemsize > 1) p->itemsize = l.args[i].itemsize;
        }
        rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
}

static bool possible(const Launch &l) {
    const uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
    char what[300];
    if (!threads || !l.grid.x || !l.grid.y || !l.grid.z) {
        snprintf(what, sizeof what, "a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads: every size is at least 1", l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z);
        return refuse(l, 1, what, "An empty input needs no launch."), false;
    }
    if (threads > 1024 || l.block.x > 1024 || l.block.y > 1024 || l.block.z > 64) {
        snprintf(what, sizeof what, "a block of (%u, %u, %u) is %llu threads; a GPU takes 1024 at most, and 64 along z", l.block.x, l.block.y, l.block.z, (unsigned long long)threads);
        return refuse(l, 1, what, "Use smaller blocks and more of them."), false;
    }
    if (l.grid.x > 2147483647u || l.grid.y > 65535 || l.grid.z > 65535) {
        snprintf(what, sizeof what, "a grid of (%u, %u, %u) blocks; a GPU takes 2147483647 along x, 65535 along y and z", l.grid.x, l.grid.y, l.grid.z);
        return refuse(l, 1, what, ""), false;
    }
    const dim3 c = l.cluster;
    const unsigned together = c.x * c.y * c.z;
    if (!together || together > 8 || l.grid.x % c.x || l.grid.y % c.y || l.grid.z % c.z) {
        snprintf(what, sizeof what, "a grid of (%u, %u, %u) blocks in clusters of (%u, %u, %u): a cluster has 8 blocks at most, and the grid whole clusters", l.grid.x, l.grid.y, l.grid.z, c.x, c.y, c.z);
        return refuse(l, 1, what, "Round the grid up, and let the blocks that are too many do nothing."), false;
    }
    if (l.shared > size_t(48) << 10 && l.shared > max_dynamic_of(l)) {
        snprintf(what, sizeof what, "%zu bytes of dynamic shared memory; this kernel may use %zu", l.shared, max_dynamic_of(l));
        return refuse(l, 1, what, "Above 48 KB: cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), up to 227 KB."), false;
    }
    return true;
}

void Worker::begin_block(uint64_t b) {
    block = b;
    const uint64_t gx = launch->grid.x, gy = launch->grid.y;
    block_index = {unsigned(b % gx), unsigned(b / gx % gy), unsigned(b / (gx * gy))};
    memset(state, ready, size_t(n));
    next = 0, live = n, warps_used = blamed = false;
    begin_engines(*this);
    detector.begin_block(*this);
}
void Worker::run_block(uint64_t b) {
    begin_block(b);
    blockIdx = block_index;
    Fiber *first = a_fiber();
    prepare(*first, fiber_main);
    fiber[current = 0] = first;
    running = true;
    switch_fiber(main, *first);
    detector.judge();
    running = false;
}

// The cluster with this number, of so many along each axis; block r of it is the r-th, along x first.
void Worker::run_cluster(uint64_t number, dim3 clusters) {
    const uint64_t x = number % clusters.x, y = number / clusters.x % clusters.y, z = number / clusters.x / clusters.y;
    for (size_t r = 0; r < cluster.size(); r++) {
        const uint64_t bx = x * cluster_dims.x + r % cluster_dims.x, by = y * cluster_dims.y + r / cluster_dims.x % cluster_dims.y, bz = z * cluster_dims.z + r / (cluster_dims.x * cluster_dims.y);
        detector.enter(*cluster[r]);
        cluster[r]->begin_block((bz * launch->grid.y + by) * launch->grid.x + bx);
        cluster[r]->running = true;
    }
    const size_t first = options.order == 1 ? cluster.size() - 1 : 0;
    Worker &b = *cluster[first];
    detector.enter(b);
    worker = &b;
    blockIdx = b.block_index;
    Fiber *fiber = b.a_fiber();
    prepare(*fiber, fiber_main);
    b.fiber[b.current = 0] = fiber;
    switch_fiber(main, *fiber);
    for (Worker *o : cluster) {
        detector.enter(*o);
        worker = o;
        detector.judge();
        o->running = false;
    }
    worker = this;
    detector.enter(*this);
}

static void on_signal(int, siginfo_t *, void *);

static Worker &this_worker() {
    if (!worker) worker = new Worker();                     // OpenMP keeps its threads, so they keep their workers
    Worker &mine = *worker;
    if (!mine.alternate) {
        mine.shared = static_cast<char *>(Cells::map(shared_cap));
        mine.alternate = Cells::map(64 << 10);
        stack_t s{};
        s.ss_sp = mine.alternate, s.ss_size = 64 << 10;
        sigaltstack(&s, nullptr);
    }
    return mine;
}

// Workers for the blocks of a cluster.
static void prepare_cluster(Worker &w, const Launch &l, uint32_t seed) {
    const size_t n = size_t(l.cluster.x) * l.cluster.y * l.cluster.z;
    w.cluster.clear();
    w.cluster_dims = l.cluster;
    if (n < 2) return w.prepare_threads(l, seed, options.order);
    w.cluster.push_back(&w);
    while (w.peers.size() + 1 < n) {
        w.peers.push_back(new Worker());
        w.peers.back()->shared = static_cast<char *>(Cells::map(shared_cap));
        w.peers.back()->leader = &w, w.peers.back()->alternate = w.alternate;
    }
    w.cluster.insert(w.cluster.end(), w.peers.begin(), w.peers.begin() + std::ptrdiff_t(n - 1));
    for (Worker *b : w.cluster) {
        detector.enter(*b);
        worker = b;
        for (size_t i = 0; b != &w && detector.on && i < (b->shared_used + shared_gap) / 4; i++) detector.shared_cells.words[i] = {};
        b->prepare_threads(l, seed, options.order);
    }
    detector.enter(w);
    worker = &w;
}
// Blocks (or clusters of them) are handed out in order, so that one may wait for those before it.
static void work(const Launch &l, std::atomic<uint64_t> &taken, uint64_t blocks) {
    Worker &w = this_worker();
    const uint32_t seed = uint32_t(options.seed) * 2654435761u + 1;
    if (sigsetjmp(w.escape, 1) == 0) {
        prepare_cluster(w, l, seed);
        watch(true);
        const dim3 clusters(l.grid.x / l.cluster.x, l.grid.y / l.cluster.y, l.grid.z / l.cluster.z);
        const uint64_t n = w.cluster.empty() ? blocks : blocks / w.cluster.size();
        for (uint64_t b; !stop && (b = taken++) < n;) {
            const uint64_t number = options.order == 1 ? n - 1 - b : b;
            w.cluster.empty() ? w.run_block(number) : w.run_cluster(number, clusters);
        }
    } else {
        tell_signal(*worker);
        for (Worker *b : w.cluster.empty() ? std::vector<Worker *>{&w} : w.cluster) {
            b->running = false;
            b->signal = b->missed = 0;
            b->idle.clear();
            for (int i = 0; i < b->made; i++) b->idle.push_back(&b->fibers[i]);
        }
        detector.enter(w);
        worker = &w;
        stop = true;
    }
    watch(false);
    w.signal = w.missed = 0;
}

// A kernel says in its first line of which clusters its launch is to be. If it is not, it begins again.
static dim3 wanted_clusters;
static std::atomic<bool> wants_clusters{false};
void in_clusters_of(dim3 blocks) {
    const dim3 now = worker->leader->cluster_dims;
    if (now.x == blocks.x && now.y == blocks.y && now.z == blocks.z) return;
    if (!wants_clusters.exchange(true)) wanted_clusters = blocks;
    stop = true;
    end_launch();
}

void run(const Launch &l) {
    if (on_device()) fail(launch_failed, "a kernel launches a kernel, which is not emulated", "Launch from the host.");
    if (!possible(l)) return;
    Detector::Scope scope(l);
    name_arguments(l, base_name(l.kernel));
    if (found.kind == launch_failed) found.kind = nothing;
    stop = false;
    const uint64_t blocks = uint64_t(l.grid.x) * l.grid.y * l.grid.z;
    std::atomic<uint64_t> taken{0};
    catch_signals(true);
    deadline = seconds_now() + options.seconds;
#ifdef _OPENMP
    int threads = detector.on ? 1 : options.threads ? options.threads : omp_get_max_threads();
    if (uint64_t(threads) > blocks) threads = int(blocks);
    launching = threads > 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
    work(l, taken, blocks);
    launching = false;
#else
    work(l, taken, blocks);
#endif
    deadline = 0;
    if (ended_by == SIGUSR2) ended_by = 0;
    catch_signals(false);
    flush_printed();
    if (wants_clusters.exchange(false)) {
        Launch in_clusters = l;
        in_clusters.cluster = wanted_clusters;
        return run(in_clusters);
    }
    if (stop && found.kind != launch_failed) throw Stop();
}

// Atomic operations: OS threads take turns, by address.

static std::atomic_flag locks[64] = {};
static std::atomic_flag &lock_of(const void *p) { return locks[(reinterpret_cast<uintptr_t>(p) >> 3) % 64]; }

void atomic_begin(const void *address, int bytes, Use use, Scope scope, Order order, int line) {
    Worker *w = worker;
    if (!w || !w->running) return;
    if (++w->spins % 64 == 0) yield_thread();               // a thread that spins must let the others go on
    if (detector.on) detector.atomic(*w, address, bytes, use, scope, order, line_bit | uint32_t(line));
    if (launching) while (lock_of(address).test_and_set(std::memory_order_acquire)) {}
}
void atomic_end(const void *address) {
    if (launching && on_device()) lock_of(address).clear(std::memory_order_release);
}
void fence(Scope s) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (detector.on && on_device()) detector.fence(*worker, s);
    if (on_device() && ++worker->spins % 64 == 0) yield_thread();
}

// Asynchronous copies are done at once. Only the detectors know that they might not be.

void copy_async(void *to, const void *from, unsigned bytes, unsigned read, const char *what, int line) {
    typedef uint32_t __attribute__((may_alias)) Word;
    if (!shared_address(to)) {
        char text[200];
        snprintf(text, sizeof text, "%s copies to shared memory, and %p is no address there", what, to);
        fail(memcheck, text, "From shared memory, or to registers, an ordinary assignment copies.", line);
    }
    must_be_aligned(to, bytes, what, line), must_be_aligned(from, bytes, what, line);
    if (detector.on) detector.copy(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, read, line_bit | uint32_t(line));
    for (unsigned i = 0; i < bytes; i += 4) {
        Word word = 0;
        if (i < read) memcpy(&word, static_cast<const char *>(from) + i, std::min(read - i, 4u));
        static_cast<Word *>(to)[i / 4] = word;
    }
}
void copy_async_commit() { if (detector.on) detector.commit(); }
void copy_async_wait(unsigned groups) { if (detector.on) detector.wait_for_copies(groups); }
void copy_async_wait_all() { copy_async_commit(), copy_async_wait(0); }

// Device memory

void *device_alloc(size_t bytes, size_t itemsize, bool cleared, bool host) {
    return memory.alloc(bytes, itemsize, !cleared, host, false, "");
}
bool device_free(void *p) {
    Piece *m = memory.at(reinterpret_cast<uintptr_t>(p));
    if (!m || !m->live || m->lo != reinterpret_cast<uintptr_t>(p)) return false;
    detector.forget(*m);
    memory.free(*m);
    return true;
}
bool is_device(const void *p) { return memory.holds(reinterpret_cast<uintptr_t>(p)); }
bool device_range(const void *p, size_t bytes) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    const Piece *m = memory.at(a);
    return m && m->live && a >= m->lo && a + bytes <= m->hi;
}
void device_written(void *p, size_t bytes) { detector.host_wrote(reinterpret_cast<uintptr_t>(p), bytes); }
void device_copy(void *to, const void *from, size_t bytes) { memmove(to, from, bytes); }
void device_fill(void *p, int value, size_t bytes) { memset(p, value, bytes); }
size_t device_total() { return memory.bytes; }
void device_reset() {
    for (auto &p : memory.pieces)
        if (p.live && !p.symbol) { detector.forget(p); memory.free(p); }
}
void *symbol_alloc(const void *init, size_t bytes, size_t itemsize, const char *name, char kind) {
    char *p = memory.alloc(bytes, itemsize, false, kind == 'm', kind == 'c', name);
    if (!p) return nullptr;
    memory.pieces.back().symbol = true;
    memcpy(p, init, bytes);
    return p;
}

// Ranges that overlap are one piece: what is written through one argument is read through the other.
void *adopt(void *host, size_t bytes, size_t itemsize, bool fresh) {
    if (!bytes) return host;
    char *h = static_cast<char *>(host);
    for (auto &a : memory.adopted)
        if (h >= a.host && h + bytes <= a.host + a.bytes) return a.device + (h - a.host);
    char *d = memory.alloc(bytes, itemsize, fresh, false, false, "");
    if (!d) return nullptr;
    memcpy(d, h, bytes);
    for (auto &a : memory.adopted)                          // a larger range around one that is known
        if (a.host < h + bytes && h < a.host + a.bytes) return nullptr;
    memory.adopted.push_back({h, d, bytes});
    return d;
}
void give_back() {
    for (auto &a : memory.adopted) {
        memcpy(a.host, a.device, a.bytes);
        device_free(a.device);
    }
    memory.adopted.clear();
}

int set_error(int code) { if (code) error_code = code; return code; }
bool refused() { return found.kind == launch_failed; }
int last_error(bool clear) {
    const int e = error_code;
    if (clear) {
        error_code = 0;
        if (found.kind == launch_failed) found.kind = nothing;   // somebody looked
    }
    return e;
}
}

extern "C" {
gridstride::Finding *gridstride_finding() { return &gridstride::found; }
void gridstride_set(const gridstride_options *o) { gridstride::options = *o; }
void gridstride_written(const void *p, size_t n, unsigned char *out) {
    const size_t at = size_t(static_cast<const char *>(p) - gridstride::memory.base);
    const gridstride::Cells &c = gridstride::detector.cells;
    for (size_t i = at; i < at + n; i++) {
        const gridstride::Cell &word = c.words[i / 4], &cell = word.split ? c.bytes[i] : word;
        *out++ = cell.write.when || cell.written || word.written;
    }
}
}
