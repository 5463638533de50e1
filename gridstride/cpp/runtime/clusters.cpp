// Distributed shared memory, cluster barriers, and the named barriers of a block
#include <algorithm>
#include "clusters.h"
#include "detector.h"
#include "engines.h"
#include "findings.h"

namespace gridstride {

Worker *Worker::block_of(const char *address) const {
    for (Worker *b : leader->cluster)
        if (size_t(address - b->shared) < shared_cap) return b;
    return nullptr;
}
uint32_t cluster_rank() {
    const auto &blocks = worker->leader->cluster;
    return blocks.size() < 2 ? 0 : uint32_t(std::find(blocks.begin(), blocks.end(), worker) - blocks.begin());
}
uint32_t cluster_blocks() { return uint32_t(std::max(size_t(1), worker->leader->cluster.size())); }
dim3 cluster_shape() { return worker->leader->cluster_dims; }
uint3 cluster_index() {
    const dim3 shape = cluster_shape();
    return {blockIdx.x / shape.x, blockIdx.y / shape.y, blockIdx.z / shape.z};
}
uint32_t map_shared(uint32_t address, uint32_t rank, int line) {
    if (rank >= cluster_blocks()) fail(Code::no_block, {{"block_rank", rank}, {"blocks", cluster_blocks()}}, line);
    return rank * block_window + address % block_window;
}

Worker &block_at(uint32_t address, int line) {
    const uint32_t rank = address / block_window;
    if (worker->leader->cluster.empty()) return *worker;
    Worker &block = *worker->leader->cluster[std::min(size_t(rank), worker->leader->cluster.size() - 1)];
    if (&block == worker) return block;
    if (!block.num_started) fail(Code::block_not_begun, {}, line);
    if (!block.num_live && block.num_started == block.num_threads) fail(Code::block_ended, {}, line);
    return block;
}

static bool try_complete_cluster_barrier(Worker &leader) {
    uint32_t num_live = 0;
    if (leader.cluster.empty()) num_live = uint32_t(leader.num_live);
    else
        for (Worker *b : leader.cluster) num_live += uint32_t(b->num_live);
    Engines &e = engines_of(leader);
    if (e.cluster_arrived < num_live) return false;
    e.cluster_arrived = 0, e.cluster_phase++;
    e.cluster_released.join(std::exchange(e.cluster_releasing, {}));
    return true;
}
uint32_t &arrival_phase() {
    auto &phases = engines_of(*worker->leader).cluster_arrived_in;
    if (phases.empty()) phases.resize(cluster_blocks() * max_threads);
    return phases[cluster_rank() * max_threads + uint32_t(current_rank())];
}
void cluster_arrive(int line) {
    Engines &e = engines_of(*worker->leader);
    uint32_t &phase = arrival_phase();
    if (phase) fail(Code::arrives_twice, {}, line);
    phase = e.cluster_phase + 1;
    if (detector.is_enabled) e.cluster_releasing.join(detector.release());
    e.cluster_arrived++;
    try_complete_cluster_barrier(*worker->leader);
}
void describe_cluster_wait(void *, Finding &f, const char *name) { f.add({{name, Code::at_cluster}}); }
void cluster_wait(int line) {
    struct Wait {
        Worker *leader;
        uint32_t phase;
    } wait{worker->leader, arrival_phase()};
    if (!wait.phase) fail(Code::waits_unarrived, {}, line);
    wait_until(
        [](void *arg) {
            const auto &state = *static_cast<Wait *>(arg);
            return engines_of(*state.leader).cluster_phase >= state.phase ||
                   (try_complete_cluster_barrier(*state.leader) &&
                       engines_of(*state.leader).cluster_phase >= state.phase);
        },
        &wait, line, describe_cluster_wait);
    arrival_phase() = 0;
    if (detector.is_enabled) detector.acquire(engines_of(*worker->leader).cluster_released);
}

void named_barrier(uint32_t barrier_id, uint32_t threads, bool waits, int line) {
    if (!barrier_id && threads == uint32_t(worker->num_threads) && waits) return sync_block(line);
    if (barrier_id > 15 || threads % 32 || !threads)
        fail(Code::no_such_barrier, {{"barrier", barrier_id}, {"threads", threads}}, line);
    auto &target = engines_of(*worker).named[barrier_id];
    if (target.arrived && target.threads != threads)
        fail(Code::barrier_threads, {{"barrier", barrier_id}, {"threads", threads}, {"others", target.threads}}, line);
    target.threads = threads;
    const uint32_t phase = target.phase;
    if (detector.is_enabled) target.releasing.join(detector.release());
    if (++target.arrived == threads) {
        target.arrived = 0, target.phase++;
        target.released.join(std::exchange(target.releasing, {}));
    }
    if (!waits) return;
    struct Wait {
        decltype(&target) barrier;
        uint32_t phase, barrier_id;
    } wait{&target, phase, barrier_id};
    wait_until(
        [](void *arg) {
            const auto &state = *static_cast<Wait *>(arg);
            return state.barrier->phase != state.phase;
        },
        &wait, line,
        [](void *arg, Finding &f, const char *name) {
            const auto &state = *static_cast<Wait *>(arg);
            f.add({{name, Code::at_barrier, 3}, {"barrier", state.barrier_id}, {"arrived", state.barrier->arrived},
                {"threads", state.barrier->threads}});
        });
    if (detector.is_enabled) detector.acquire(target.released);
}
}
