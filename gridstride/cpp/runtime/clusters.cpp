// Distributed shared memory and the barrier of clusters; named barriers of a block
#include <algorithm>
#include "clusters.h"
#include "detector.h"
#include "engines.h"
#include "findings.h"

namespace gridstride {

Worker *Worker::block_of(const char *p) const {
    for (Worker *b : leader->cluster)
        if (size_t(p - b->shared) < shared_cap) return b;
    return nullptr;
}
uint32_t cluster_rank() {
    const auto &c = worker->leader->cluster;
    return c.size() < 2 ? 0 : uint32_t(std::find(c.begin(), c.end(), worker) - c.begin());
}
uint32_t cluster_blocks() { return uint32_t(std::max(size_t(1), worker->leader->cluster.size())); }
dim3 cluster_shape() { return worker->leader->cluster_dims; }
uint3 cluster_index() {
    const dim3 n = cluster_shape();
    return {blockIdx.x / n.x, blockIdx.y / n.y, blockIdx.z / n.z};
}
uint32_t map_shared(uint32_t address, uint32_t rank, int line) {
    if (rank >= cluster_blocks()) fail(Code::no_block, {{"block_rank", rank}, {"blocks", cluster_blocks()}}, line);
    return (rank + 1) * block_window + address % block_window;
}

Worker &block_at(uint32_t address, int line) {
    const uint32_t rank = address / block_window;
    if (!rank || worker->leader->cluster.empty()) return *worker;
    Worker &there = *worker->leader->cluster[std::min(size_t(rank - 1), worker->leader->cluster.size() - 1)];
    if (!there.next) fail(Code::block_not_begun, {}, line);
    if (!there.live && there.next == there.num_threads) fail(Code::block_ended, {}, line);
    return there;
}

static bool cluster_complete(Worker &leader) {
    uint32_t live = 0;
    if (leader.cluster.empty()) live = uint32_t(leader.live);
    else
        for (Worker *b : leader.cluster) live += uint32_t(b->live);
    Engines &e = engines_of(leader);
    if (e.cluster_arrived < live) return false;
    e.cluster_arrived = 0, e.cluster_phase++;
    e.cluster_released.join(std::exchange(e.cluster_releasing, {}));
    return true;
}
uint32_t &arrived_in() {
    auto &phases = engines_of(*worker->leader).cluster_arrived_in;
    if (phases.empty()) phases.resize(cluster_blocks() * max_threads);
    return phases[cluster_rank() * max_threads + uint32_t(current_rank())];
}
void cluster_arrive(int line) {
    Engines &e = engines_of(*worker->leader);
    uint32_t &phase = arrived_in();
    if (phase) fail(Code::arrives_twice, {}, line);
    phase = e.cluster_phase + 1;
    if (detector.on) e.cluster_releasing.join(detector.release());
    e.cluster_arrived++;
    cluster_complete(*worker->leader);
}
void describe_cluster_wait(void *, Finding &f, const char *name) { f.add({{name, Code::at_cluster}}); }
void cluster_wait(int line) {
    struct Wait {
        Worker *leader;
        uint32_t phase;
    } wait{worker->leader, arrived_in()};
    if (!wait.phase) fail(Code::waits_unarrived, {}, line);
    wait_until(
        [](void *p) {
            const auto &x = *static_cast<Wait *>(p);
            return engines_of(*x.leader).cluster_phase >= x.phase ||
                   (cluster_complete(*x.leader) && engines_of(*x.leader).cluster_phase >= x.phase);
        },
        &wait, line, describe_cluster_wait);
    arrived_in() = 0;
    if (detector.on) detector.acquire(engines_of(*worker->leader).cluster_released);
}

void named_barrier(uint32_t number, uint32_t threads, bool waits, int line) {
    if (!number && threads == uint32_t(worker->num_threads) && waits) return sync_block(line);
    if (number > 15 || threads % 32 || !threads)
        fail(Code::no_such_barrier, {{"barrier", number}, {"threads", threads}}, line);
    auto &b = engines_of(*worker).named[number];
    if (b.arrived && b.threads != threads)
        fail(Code::barrier_threads, {{"barrier", number}, {"threads", threads}, {"others", b.threads}}, line);
    b.threads = threads;
    const uint32_t phase = b.phase;
    if (detector.on) b.releasing.join(detector.release());
    if (++b.arrived == threads) {
        b.arrived = 0, b.phase++;
        b.released.join(std::exchange(b.releasing, {}));
    }
    if (!waits) return;
    struct Wait {
        decltype(&b) barrier;
        uint32_t phase, number;
    } wait{&b, phase, number};
    wait_until(
        [](void *p) {
            const auto &x = *static_cast<Wait *>(p);
            return x.barrier->phase != x.phase;
        },
        &wait, line,
        [](void *p, Finding &f, const char *name) {
            const auto &x = *static_cast<Wait *>(p);
            f.add({{name, Code::at_barrier, 3}, {"barrier", x.number}, {"arrived", x.barrier->arrived},
                {"threads", x.barrier->threads}});
        });
    if (detector.on) detector.acquire(b.released);
}
}
