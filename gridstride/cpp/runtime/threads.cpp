// The cooperative scheduler of a block. Each thread is a fiber (fiber.h), which runs until it waits or exits.
//
// `wait` stores in `state` what the thread waits for (a barrier, lanes of its warp, a condition), and `choose` switches
// to the next thread that is `ready`, or starts one that has not begun. If there is none, `resolve` releases waiting
// threads: a warp operation at which all lanes have arrived, a condition that holds now, and last the barrier of the
// block, if all threads that have not exited are at it. If it can release none, that is a deadlock (`report_deadlock`,
// synccheck.cpp). Slots number the threads in the order in which they run: forward, reverse or shuffled
// (options.order).
#include <algorithm>
#include <string.h>
#include "clusters.h"
#include "detector.h"
#include "engines.h"
#include "findings.h"
#include "synccheck.h"
#include "threads.h"

namespace gridstride {

void Worker::prepare_threads(const Launch &l, uint32_t seed, int order) {
    launch = &l;
    num_threads = int(l.block.x * l.block.y * l.block.z);
    for (int i = 0; i < num_threads; i++) {
        rank[i] = order == 1 ? num_threads - 1 - i : i;
        index[i] = {
            unsigned(i) % l.block.x, unsigned(i) / l.block.x % l.block.y, unsigned(i) / (l.block.x * l.block.y)};
    }
    for (int i = num_threads - 1; order == 2 && i > 0; i--) {          // Fisher and Yates
        seed = seed * 1664525u + 1013904223u;
        std::swap(rank[i], rank[seed % unsigned(i + 1)]);
    }
    for (int i = 0; i < num_threads; i++) slot[rank[i]] = i;
    offset.assign(offset.size(), 0);
    arrays.clear();
    dynamic_array = 0, has_met_dynamic = false;
    if (detector.on) {
        FileScope &f = root->file_scopes[detector.image.base];
        for (auto &a : f.arrays) detector.new_array(*this, a.name, a.offset, a.shape);
        for (auto &a : f.dynamic) dynamic(a.name, a.shape);
    }
    shared_static = 0;
    // The gap keeps accesses past the dynamic memory of the launch from hitting a static array.
    shared_used = (l.shared + (l.shared || checks(memcheck) ? shared_gap : 0) + 127) / 128 * 128;
    blockDim = l.block, gridDim = l.grid;
}

Fiber *Worker::take_fiber() {
    if (idle_fibers.empty()) {
        if (!allocate_stack(fibers[fiber_count])) fail(Code::no_stack, {});
        idle_fibers.push_back(&fibers[fiber_count++]);
    }
    Fiber *f = idle_fibers.back();
    idle_fibers.pop_back();
    return f;
}

// A fiber runs threads one after the other until none is left. Threads that never wait all run on the first fiber, in
// this loop.
void fiber_main() {
    Worker &w = *worker;
    while (w.next < w.num_threads) {
        w.start(w.next++);
        w.launch->thread(w.launch->call);
        w.finish();
    }
    w.idle_fibers.push_back(w.fiber[w.current]);
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
    if (detector.has_open_step()) detector.finish_step(true);
    if (leader->engines) end_thread(*this);
    state[current] = done;
    live--;
    note_progress();
    if (uses_warps) warps[current_rank() / 32].finished |= 1u << current_rank() % 32;
}

inline bool Worker::find_ready(int &s) const {
    if (current + 1 < num_threads && state[current + 1] == ready) return s = current + 1, true;
    const void *p =
        current + 1 < num_threads ? memchr(state + current + 1, ready, size_t(num_threads - current - 1)) : nullptr;
    if (!p) p = memchr(state, ready, size_t(current + 1));
    if (p) s = int(static_cast<const uint8_t *>(p) - state);
    return p;
}

// Switches to a thread that can run; returns when the current one is resumed.
inline void Worker::choose() {
    Fiber &self = *fiber[current];
    int s = current;
    if (next < num_threads) {
        Fiber *fresh = take_fiber();
        prepare(*fresh, fiber_main);
        fiber[current = next] = fresh;
        switch_fiber(self, *fresh);
        return;
    }
    if (!find_ready(s)) {
        if (!leader->cluster.empty()) return choose_in_cluster(self);
        if (!live) {
            switch_fiber(self, root->main);
            return;
        }
        if (!resolve(!waits_for_grid())) return suspend_block(self);
        find_ready(s);
    }
    if (s != current || fiber[s] != &self) {
        current = s;
        threadIdx = index[rank[s]];
        detector.begin_thread(*this);
        if (s + 2 < num_threads && s + 2 < next) { // two cache lines of the stack of the thread after it
            const char *sp = static_cast<const char *>(fiber[s + 2]->sp_hint());
            __builtin_prefetch(sp), __builtin_prefetch(sp + 64);
        }
        switch_fiber(self, *fiber[s]);
    }
}

inline void Worker::switch_threads() {
    choose();
    if (__builtin_expect(reports_itself, false)) report_where_it_waits();
}

inline void Worker::wait(State s) {
    if (detector.has_open_step()) detector.finish_step(s != at_active_mask);
    state[current] = s;
    switch_threads();
}

// No thread of this block can run: switches to a thread of another block of the cluster.
void Worker::choose_in_cluster(Fiber &self) {
    const auto &all = leader->cluster;
    const size_t n = all.size(), mine = size_t(std::find(all.begin(), all.end(), this) - all.begin());
    for (size_t i = 1; i <= n; i++) {
        Worker &b = *all[(mine + i) % n];
        detector.enter(b);
        int s = b.current;
        if (b.next == b.num_threads && !b.find_ready(s) && !(b.live && b.resolve(false) && b.find_ready(s))) continue;
        worker = &b;
        blockIdx = b.block_index;
        if (b.next < b.num_threads) {
            Fiber *fresh = b.take_fiber();
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
    for (size_t i = 0; i < n; i++)
        if (all[i]->live && all[i]->waits_for_grid()) return suspend_block(self);
    for (bool any : {false, true})                          // first a block that waits not only for other blocks
        for (Worker *b : all)
            if (b->live && (any || b->is_root_cause())) {
                detector.enter(*b);
                worker = b;
                b->resolve();
            }
    detector.enter(*leader);
    worker = leader;
    switch_fiber(self, root->main);
}

// Does one of its threads wait for something other than the barrier of the cluster?
bool Worker::is_root_cause() const {
    for (int i = 0; i < num_threads; i++)
        if (state[i] != done && (state[i] != on_condition || condition[rank[i]].describe != describe_cluster_wait))
            return true;
    return false;
}

// Makes threads ready whose condition holds; returns whether there is any.
bool Worker::wake() {
    bool freed = false;
    for (uint8_t *p = state; (p = static_cast<uint8_t *>(memchr(p, on_condition, size_t(state + num_threads - p))));
        p++)
        if (const auto &c = condition[rank[p - state]]; c.ready(c.arg)) *p = ready, freed = true;
    return freed;
}

// No thread is ready: releases threads that can run, and returns whether there is any. If there is none, and there
// `must` be one, reports a deadlock.
bool Worker::resolve(bool must) {
    bool freed = false;
    if (uses_warps)
        for (int i = 0; i < (num_threads + 31) / 32; i++) { // lanes that waited for a lane that has exited since
            Warp &p = warps[i];
            for (uint32_t left = p.arrived; left; left &= left - 1)
                freed |= (p.arrived >> __builtin_ctz(left) & 1) && try_warp(p, __builtin_ctz(left));
        }
    if (freed) return true;
    // __activemask(): all lanes of a warp that wait at the same line are active
    for (int i = 0; i < num_threads; i++)
        if (state[slot[i]] == at_active_mask) {
            uint32_t mask = 0;
            for (int j = i; j < num_threads && j / 32 == i / 32; j++)
                if (state[slot[j]] == at_active_mask && line[j] == line[i]) mask |= 1u << j % 32;
            for (uint32_t left = mask; left; left &= left - 1) {
                const int j = i / 32 * 32 + __builtin_ctz(left);
                warps[i / 32].group[j % 32] = mask;
                state[slot[j]] = ready;
            }
            freed = true;
        }
    if (freed) return true;
    if (wake() || (excuse_from_grid() && wake())) return true;
    int waiting = 0;
    for (int i = 0; i < num_threads; i++) waiting += state[i] == at_barrier;
    if (waiting < live && !must) return false;
    if (waiting < live) report_deadlock();
    check_barrier(*this);
    num_true = 0;
    for (int i = 0; i < num_threads; i++)
        if (state[i] == at_barrier)
            num_true += predicate[i] != 0, state[i] = ready, detector.barrier_line = line[rank[i]];
    detector.block_barrier(*this);
    note_progress();
    return true;
}

static inline int barrier(int predicate, int line) {
    Worker &w = *worker;
    w.line[current_rank()] = line;
    w.predicate[w.current] = predicate;
    w.wait(at_barrier);
    return w.num_true;
}
void sync_block(int line) { barrier(0, line); }
int sync_block_count(int predicate, int line) { return barrier(predicate, line); }

void wait_until(bool (*is_ready)(void *), void *arg, int line, DescribeWait *describe) {
    Worker &w = *worker;
    if (is_ready(arg)) return;
    const int r = current_rank();
    w.line[r] = line;
    w.condition[r].ready = is_ready, w.condition[r].arg = arg, w.condition[r].describe = describe;
    w.wait(on_condition);
}
void yield() {
    Worker &w = *worker;
    detector.finish_pending_writes();
    w.wake();
    if (w.leader->idle_switches > w.idle_limit() && w.next == w.num_threads)
        return w.suspend_block(*w.fiber[w.current]);
    w.leader->cluster.empty() || ++w.num_yields % 16 ? w.choose() : w.choose_in_cluster(*w.fiber[w.current]);
}
void returns(int line) {
    if (detector.on && on_device()) worker->return_line[current_rank()] = line;
}
void yield_thread() {
    if (!on_device()) return;
    worker->leader->idle_switches++;                        // a sleep counts as a poll without progress
    yield();
}
int lane() { return current_rank() % 32; }
int thread_rank() { return current_rank(); }
bool on_device() { return worker && worker->running; }
void enter_kernel(const char *name) {
    if (__builtin_expect(!on_device(), 0)) not_launched(name);
}
}
