// The cooperative scheduler of a block. Each thread is a fiber (fiber.h), which runs until it waits or exits.
//
// `wait` stores in `state` why the thread waits (a barrier, lanes of its warp, a condition). `switch_to_ready` switches
// to the next thread that is `ready`, or starts one that has not begun. If there is none, `release_waiting` releases
// waiting threads: first warp operations at which all lanes have arrived, then conditions that hold, and finally the
// block-wide barrier, if all threads that have not exited wait at it. If it cannot release any thread, it reports a
// deadlock (`report_deadlock`, synccheck.cpp). A slot is a thread's index in the order in which threads run: forward,
// reverse or shuffled (options.order).
#include <algorithm>
#include <string.h>
#include "block_loops.h"
#include "clusters.h"
#include "detector.h"
#include "engines.h"
#include "findings.h"
#include "synccheck.h"
#include "threads.h"

namespace gridstride {

static int max_swaps = 1 << 30; // of the shuffled order; with few swaps, most threads run in order

void Worker::prepare_threads(const Launch &l, uint32_t seed, int order) {
    launch = &l;
    bounds = {};
    num_threads = int(l.block.x * l.block.y * l.block.z);
    for (int i = 0; i < num_threads; i++) {
        rank[i] = order == 1 ? num_threads - 1 - i : i;
        index[i] = {
            unsigned(i) % l.block.x, unsigned(i) / l.block.x % l.block.y, unsigned(i) / (l.block.x * l.block.y)};
    }
    // Fisher-Yates shuffle
    for (int i = num_threads - 1; order == 2 && i > std::max(num_threads - 1 - max_swaps, 0); i--) {
        seed = seed * 1664525u + 1013904223u;
        std::swap(rank[i], rank[seed % unsigned(i + 1)]);
    }
    for (int i = 0; i < num_threads; i++) slot[rank[i]] = i;
    offset.assign(offset.size(), 0);
    arrays.clear();
    dynamic_array = 0, has_declared_dynamic = false;
    if (detector.is_enabled) {
        FileScope &scope = root->file_scopes[detector.image.base];
        for (auto &array : scope.arrays) detector.add_array(*this, array.name, array.offset, array.shape);
        for (auto &array : scope.dynamic) dynamic(array.name, array.shape);
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
    Fiber *idle_fiber = idle_fibers.back();
    idle_fibers.pop_back();
    return idle_fiber;
}

// A fiber runs threads one after the other until none is left. Threads that never wait all run on the first fiber, in
// this loop.
void fiber_main() {
    Worker &w = *worker;
    while (w.num_started < w.num_threads) {
        w.start(w.num_started++);
        w.launch->thread(w.launch->call);
        w.finish();
    }
    w.idle_fibers.push_back(w.fiber[w.current_slot]);
    w.switch_to_ready();
    end_fiber();
}

inline void Worker::start(int new_slot) {
    Fiber *self = fiber[current_slot];
    current_slot = new_slot;
    fiber[new_slot] = self;
    threadIdx = index[rank[new_slot]];
    detector.begin_thread(*this);
}

inline void Worker::finish() {
    if (detector.has_open_step()) detector.finish_step(true);
    if (leader->engines) end_thread(*this);
    state[current_slot] = done;
    num_live--;
    record_progress();
    if (uses_warps) warps[current_rank() / 32].finished |= 1u << current_rank() % 32;
}

inline bool Worker::find_ready(int &ready_slot) const {
    if (current_slot + 1 < num_threads && state[current_slot + 1] == ready) return ready_slot = current_slot + 1, true;
    const void *state_byte =
        current_slot + 1 < num_threads
            ? memchr(state + current_slot + 1, ready, size_t(num_threads - current_slot - 1)) : nullptr;
    if (!state_byte) state_byte = memchr(state, ready, size_t(current_slot + 1));
    if (state_byte) ready_slot = int(static_cast<const uint8_t *>(state_byte) - state);
    return state_byte;
}

// Switches to a thread that can run; returns when the current one is resumed.
inline void Worker::switch_to_ready() {
    Fiber &self = *fiber[current_slot];
    int next_slot = current_slot;
    if (num_started < num_threads) {
        Fiber *new_fiber = take_fiber();
        prepare(*new_fiber, fiber_main);
        fiber[current_slot = num_started] = new_fiber;
        switch_fiber(self, *new_fiber);
        return;
    }
    if (!find_ready(next_slot)) {
        if (!leader->cluster.empty()) return switch_in_cluster(self);
        if (!num_live) {
            switch_fiber(self, root->main);
            return;
        }
        if (!release_waiting(!waits_for_grid())) return suspend_block(self);
        find_ready(next_slot);
    }
    if (next_slot != current_slot || fiber[next_slot] != &self) resume(self, next_slot);
}

inline void Worker::resume(Fiber &self, int next_slot) {
    current_slot = next_slot;
    threadIdx = index[rank[next_slot]];
    detector.begin_thread(*this);
    // prefetches two cache lines of the stack of the thread after it
    if (next_slot + 2 < num_threads && next_slot + 2 < num_started) {
        const char *sp = static_cast<const char *>(fiber[next_slot + 2]->sp_hint());
        __builtin_prefetch(sp), __builtin_prefetch(sp + 64);
    }
    switch_fiber(self, *fiber[next_slot]);
}

inline void Worker::switch_threads() {
    switch_to_ready();
    if (__builtin_expect(reports_wait, false)) report_wait_location();
}

// Switches to a thread that can run, if possible of the warp that waits: the stacks of one warp fit into the L1 cache.
// The number of such switches is limited, because the warp may wait for another one in a loop. With mbarriers, whose
// phases count arrivals of all warps, no warp is preferred.
inline void Worker::switch_to_lane(int thread_rank) {
    const int first = thread_rank & ~31, end = std::min(first + 32, num_threads);
    const bool prefers_lanes = num_started == num_threads && !options.order && !leader->engines;
    if (prefers_lanes && num_lane_switches++ % 8192 != 8191) {
        const void *state_byte = current_slot + 1 < end && state[current_slot + 1] == ready
            ? state + current_slot + 1 : memchr(state + first, ready, size_t(end - first));
        if (state_byte) {
            resume(*fiber[current_slot], int(static_cast<const uint8_t *>(state_byte) - state));
            if (__builtin_expect(reports_wait, false)) report_wait_location();
            return;
        }
    }
    switch_threads();
}

inline void Worker::wait(State new_state) {
    if (detector.has_open_step()) detector.finish_step(new_state != at_active_mask);
    state[current_slot] = new_state;
    switch_threads();
}

// Switches to a thread of another block of the cluster, because no thread of this block can run.
void Worker::switch_in_cluster(Fiber &self) {
    const auto &blocks = leader->cluster;
    const size_t num_blocks = blocks.size(),
        own_rank = size_t(std::find(blocks.begin(), blocks.end(), this) - blocks.begin());
    for (size_t i = 1; i <= num_blocks; i++) {
        Worker &block = *blocks[(own_rank + i) % num_blocks];
        detector.enter(block);
        int next_slot = block.current_slot;
        if (block.num_started == block.num_threads && !block.find_ready(next_slot) &&
            !(block.num_live && block.release_waiting(false) && block.find_ready(next_slot))) continue;
        worker = &block;
        blockIdx = block.block_index;
        if (block.num_started < block.num_threads) {
            Fiber *new_fiber = block.take_fiber();
            prepare(*new_fiber, fiber_main);
            block.fiber[block.current_slot = block.num_started] = new_fiber;
            return switch_fiber(self, *new_fiber);
        }
        block.current_slot = next_slot;
        threadIdx = block.index[block.rank[next_slot]];
        detector.begin_thread(block);
        if (block.fiber[next_slot] != &self) switch_fiber(self, *block.fiber[next_slot]);
        return;
    }
    for (size_t i = 0; i < num_blocks; i++)
        if (blocks[i]->num_live && blocks[i]->waits_for_grid()) return suspend_block(self);
    // reports a block with threads that wait for something other than the cluster barrier, if there is one
    for (bool includes_waiting : {false, true})
        for (Worker *block : blocks)
            if (block->num_live && (includes_waiting || block->is_root_cause())) {
                detector.enter(*block);
                worker = block;
                block->release_waiting();
            }
    detector.enter(*leader);
    worker = leader;
    switch_fiber(self, root->main);
}

// Returns whether a thread of this block waits for something other than the cluster barrier.
bool Worker::is_root_cause() const {
    for (int i = 0; i < num_threads; i++)
        if (state[i] != done && (state[i] != on_condition || condition[rank[i]].describe != describe_cluster_wait))
            return true;
    return false;
}

// Makes threads ready whose conditions hold; returns whether there are any.
bool Worker::wake() {
    if (waits_only_for_grid()) return false;
    bool is_any_ready = false;
    for (uint8_t *state_byte = state; (state_byte = static_cast<uint8_t *>(memchr(state_byte, on_condition,
        size_t(state + num_threads - state_byte))));
        state_byte++)
        if (const auto &waited = condition[rank[state_byte - state]]; waited.ready(waited.arg)) *state_byte = ready,
            is_any_ready = true;
    return is_any_ready;
}

// __activemask(): all lanes of a warp that wait at the same line are active.
void Worker::release_active_lanes() {
    for (int i = 0; i < num_threads; i++)
        if (state[slot[i]] == at_active_mask) {
            uint32_t mask = 0;
            for (int j = i; j < num_threads && j / 32 == i / 32; j++)
                if (state[slot[j]] == at_active_mask && line[j] == line[i]) mask |= 1u << j % 32;
            for (uint32_t lanes = mask; lanes; lanes &= lanes - 1) {
                const int j = i / 32 * 32 + __builtin_ctz(lanes);
                warps[i / 32].group[j % 32] = mask;
                state[slot[j]] = ready;
            }
        }
}

// Called when no thread is ready: releases waiting threads that can continue, and returns whether there are any. If
// there are none, reports a deadlock, or, without `reports_deadlock`, returns false.
bool Worker::release_waiting(bool reports_deadlock) {
    bool is_any_ready = false;
    if (uses_warps)
        for (int i = 0; i < (num_threads + 31) / 32; i++) { // a lane may have exited since others began to wait for it
            Warp &warp = warps[i];
            for (uint32_t lanes = warp.arrived; lanes; lanes &= lanes - 1)
                is_any_ready |= (warp.arrived >> __builtin_ctz(lanes) & 1) &&
                    try_complete_warp(warp, __builtin_ctz(lanes));
        }
    if (is_any_ready) return true;
    if (memchr(state, at_active_mask, size_t(num_threads))) return release_active_lanes(), true;
    if (wake() || (count_exited_at_grid_barrier() && wake())) return true;
    int num_waiting = 0;
    for (int i = 0; i < num_threads; i++) num_waiting += state[i] == at_barrier;
    if (num_waiting < num_live && !reports_deadlock) return false;
    if (num_waiting < num_live) report_deadlock();
    check_barrier(*this);
    num_true = 0;
    int last = 0;
    for (int warp = 0; warp < num_threads; warp += 32)
        for (int i = warp; i < warp + 32; i++) {               // vectorized, as in `wait_at_one_line`
            const bool is_waiting = (i < num_threads) & (state[i] == at_barrier);
            num_true += is_waiting & (predicate[i] != 0);
            last = is_waiting ? i : last;
            state[i] = is_waiting ? uint8_t(ready) : state[i];
        }
    detector.barrier_line = line[rank[last]];
    detector.block_barrier(*this);
    record_progress();
    return true;
}

static inline int barrier(int predicate, int line) {
    Worker &w = *worker;
    w.line[current_rank()] = line;
    w.predicate[w.current_slot] = predicate;
    w.wait(at_barrier);
    return w.num_true;
}
void sync_block(int line) { barrier(0, line); }
int sync_block_count(int predicate, int line) { return barrier(predicate, line); }

void wait_until(bool (*is_ready)(void *), void *arg, int line, DescribeWait *describe) {
    Worker &w = *worker;
    if (is_ready(arg)) return;
    const int rank = current_rank();
    w.line[rank] = line;
    w.condition[rank].ready = is_ready, w.condition[rank].arg = arg, w.condition[rank].describe = describe;
    w.wait(on_condition);
}
void yield() {
    Worker &w = *worker;
    detector.finish_pending_writes();
    w.wake();
    if (w.leader->idle_switches > w.idle_limit() && w.num_started == w.num_threads)
        return w.suspend_block(*w.fiber[w.current_slot]);
    if (w.leader->cluster.empty() || ++w.num_yields % 16) w.switch_to_ready();
    else w.switch_in_cluster(*w.fiber[w.current_slot]);
}
void record_return(int line) {
    if (detector.is_enabled && on_device()) worker->return_line[current_rank()] = line;
}
void record_clock_read() {
    if (on_device()) worker->leader->reads_clock = true;
}
void yield_thread() {
    if (!on_device()) return;
    worker->leader->idle_switches++;                        // a sleep counts as a poll without progress
    yield();
}
// The first thread of the block runs all of them.
ThreadLoops::ThreadLoops()
    : order(options.order || worker->reruns_after_fault ? worker->rank : nullptr), block(worker->launch->block) {
    worker->runs_loops = true, worker->is_thread_unknown = !order, worker->num_loop_arrays = 0;
}
void ThreadLoops::record_step(int step) {
    Worker &w = *worker;
    w.fiber[step] = w.fiber[w.current_slot];
    w.current_slot = step;
}
ThreadLoops::~ThreadLoops() {
    Worker &w = *worker;
    memset(w.state, done, size_t(w.num_threads));
    w.fiber[0] = w.fiber[w.current_slot], w.current_slot = 0;            // fiber_main ends the first thread
    w.num_started = w.num_threads, w.num_live = 1, w.runs_loops = w.is_thread_unknown = false;
}
void *ThreadLoops::thread_memory(size_t bytes) {
    Worker &w = *worker;
    const size_t i = w.num_loop_arrays++;
    if (i == w.loop_memory.size()) w.loop_memory.emplace_back(), w.loop_memory_bytes.push_back(0);
    if (w.loop_memory_bytes[i] < bytes)
        w.loop_memory[i].reset(new char[bytes + 64]), w.loop_memory_bytes[i] = bytes;
    return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(w.loop_memory[i].get()) + 63) / 64 * 64);
}
int lane() { return current_rank() % 32; }
int thread_rank() { return current_rank(); }
bool on_device() { return worker && worker->is_running; }
void enter_kernel(const char *name) {
    if (__builtin_expect(!on_device(), 0)) not_launched(name);
}
}

extern "C" GRIDSTRIDE_API void gridstride_limit_swaps(int swaps) { gridstride::max_swaps = swaps; }
