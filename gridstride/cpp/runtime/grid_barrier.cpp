// The grid barrier of cooperative launches. A thread waits until the barrier has begun its next phase.
#include <algorithm>
#include <string.h>
#include "detector.h"
#include "findings.h"
#include "launch.h"
#include "residents.h"
#include "synccheck.h"
#include "threads.h"

namespace gridstride {

namespace {
struct GridWait {
    RunningLaunch *launch;
    uint32_t phase;
};
}
static bool is_grid_phase_complete(void *arg) {
    const GridWait &wait = *static_cast<GridWait *>(arg);
    return wait.launch->phase != wait.phase;
}
static void describe_grid_wait(void *, Finding &f, const char *name) {
    const Launch &l = *worker->launch;
    f.add({{name, Code::at_grid, 2}, {"arrived", worker->running_launch->num_arrived.load()},
        {"threads", blocks_of(l) * uint64_t(worker->num_threads)}});
}
bool Worker::waits_for_grid() const {
    for (int i = 0; i < num_threads; i++)
        if (state[i] == on_condition && condition[rank[i]].describe == describe_grid_wait) return true;
    return false;
}
// Returns whether all threads of the block wait at the grid barrier, so that their conditions need not be evaluated one
// by one.
bool Worker::waits_only_for_grid() const {
    return num_live && num_at_grid == num_live && running_launch->phase == grid_phase;
}

static VectorClock all_threads_of(const RunningLaunch &running) {
    const uint32_t first = running.first_block + 1;
    return VectorClock::of_blocks(first, first + uint32_t(blocks_of(*running.launch)), ++detector.now);
}
// The grid barrier orders all accesses before it before all accesses after it.
static void order_all_accesses(Worker &current) {
    std::vector<Worker *> blocks;
    for (Worker *leader : cluster_leaders())
        for (size_t i = 0; i < leader->blocks(); i++)
            if (Worker &block = *leader->block_at(i);
                block.is_running && block.running_launch == current.running_launch) {
                detector.enter(block);
                detector.block_barrier(block);
                blocks.push_back(&block);
            }
    if (detector.has_several_devices) detector.join_blocks(blocks, all_threads_of(*current.running_launch));
    detector.enter(current);
    if (detector.has_several_devices) return;
    detector.report_uninitialized(detector.uninitialized_in_launch);
    detector.launch_start = ++detector.now;
    detector.peers_before.join(detector.peers_next);
    detector.begin_tag_epoch();
}
static void complete_grid_barrier(Worker &last_block) {
    last_block.running_launch->num_arrived = 0;
    if (detector.is_enabled) order_all_accesses(last_block);
    last_block.running_launch->phase++;
}
// Counts exited threads as arrived at the grid barrier if all other threads of the block have arrived, including thread
// 0, which on a GPU arrives on behalf of the block.
bool Worker::count_exited_at_grid_barrier() {
    const bool is_counted = exited_counted_in_phase == running_launch->phase + 1;
    if (!num_live || num_live == num_threads || state[slot[0]] == done || is_counted) return false;
    int returned_rank = -1;
    for (int i = 0; i < num_threads; i++) {
        const uint8_t thread_state = state[slot[i]];
        if (thread_state == done) returned_rank = returned_rank < 0 ? i : returned_rank;
        else if (thread_state != on_condition || condition[i].describe != describe_grid_wait) return false;
    }
    exited_counted_in_phase = running_launch->phase + 1;
    warn_about_returned_thread(*this, line[0], num_live, returned_rank);
    if ((running_launch->num_arrived += uint64_t(num_threads - num_live)) < blocks_of(*launch) * uint64_t(num_threads))
        return false;
    complete_grid_barrier(*this);
    return true;
}
void grid_sync(int line) {
    const Worker &w = *worker;
    const Launch &l = *w.launch;
    if (!l.cooperative) fail(Code::not_cooperative, {}, line);
    if (blocks_of(l) > max_resident_blocks(l, w.shared_static)) {
        reject_cooperative_launch(l, w.shared_static);
        stops_launch = true;
        end_launch();
    }
    RunningLaunch &running = *w.running_launch;
    GridWait wait{&running, running.phase};
    detector.finish_pending_writes();
    if (++running.num_arrived == blocks_of(l) * uint64_t(w.num_threads)) return complete_grid_barrier(*worker);
    Worker &block = *worker;
    if (block.grid_phase != wait.phase) block.grid_phase = wait.phase, block.num_at_grid = 0;
    block.num_at_grid++;
    wait_until(is_grid_phase_complete, &wait, line, describe_grid_wait);
}
bool is_cooperative() {
    const Launch &l = *worker->launch;
    return l.cooperative && blocks_of(l) <= max_resident_blocks(l, 0);
}

}
