// The scheduler of the blocks of a grid. A block runs until it ends; then the next one begins. A block that waits for
// others, at the grid barrier or by polling, is suspended and stays resident, and the next one begins, as long as the
// device can hold more. A suspended block is resumed when the values that it polls have changed. `sim/residents.py`
// does the same for kernels in Python.
//
// Progress: a thread that polls an address and finds the same value every time makes none (`is_spinning`); its
// switches are idle. When each thread of a block has had only idle switches (`idle_limit`), the block is suspended.
// `progress` counts the blocks that began or ended. If all resident blocks wait and `progress` does not change, no
// schedule helps: either blocks that have not begun would have to be resident (`report_not_resident`), or it is a
// deadlock (`release_waiting`). A kernel that makes progress for too long is ended by the time limit (signals.cpp).
// With several devices, launches of a queue (queue.cpp) run together, each with its own blocks.
#include <algorithm>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "detector.h"
#include "engines.h"
#include "findings.h"
#include "launch.h"
#include "loader.h"
#include "platform.h"
#include "queue.h"
#include "ranks.h"
#include "residents.h"
#include "signals.h"
#include "synccheck.h"
#include "threads.h"

namespace gridstride {

constexpr uint64_t num_sms = 132;              // of an H100
static std::atomic<uint64_t> progress{0};       // counts blocks that began or ended

bool Detector::is_same_device(uint32_t thread) const {
    return !has_several_devices || device_of_block(thread / max_threads) == int(device);
}
uint64_t blocks_of(const Launch &l) { return uint64_t(l.grid.x) * l.grid.y * l.grid.z; }
int resident_blocks_per_sm(int threads, size_t shared) {
    const int by_threads = 2048 / ((threads + 31) / 32 * 32),
              by_memory = int((size_t(228) << 10) / ((shared + 127) / 128 * 128 + 1024));
    return std::min({by_threads, by_memory, 32});
}
uint64_t max_resident_blocks(const Launch &l, size_t static_bytes) {
    const int threads = int(l.block.x * l.block.y * l.block.z);
    return num_sms * uint64_t(std::max(1, resident_blocks_per_sm(threads, l.shared + static_bytes)));
}

// Cluster launch control: takes the next block, or cluster, that has not begun. The emulator acts like a device on
// which eight clusters are resident: each of them processes at most an eighth of the grid, and the remaining blocks
// begin as usual.
Canceled cancel_block() {
    RunningLaunch &running = *worker->leader->running_launch;
    const Launch &l = *running.launch;
    uint64_t &num_taken = engines_of(*worker->leader).num_canceled;
    if ((num_taken + 1) * std::min<uint64_t>(running.num_clusters, 8) >= running.num_clusters) return {};
    const uint64_t num_begun = running.num_begun++;
    if (num_begun >= running.num_clusters) return running.num_begun--, Canceled{};
    num_taken++, running.num_ended++, progress++;
    const uint64_t cluster_id = options.order == 1 ? running.num_clusters - 1 - num_begun : num_begun,
                   columns = l.grid.x / l.cluster.x, rows = l.grid.y / l.cluster.y;
    return {uint32_t(cluster_id % columns) * l.cluster.x, uint32_t(cluster_id / columns % rows) * l.cluster.y,
        uint32_t(cluster_id / columns / rows) * l.cluster.z, 1};
}

// Records that the current thread polls an address. Returns whether it has found the same value several times in a row,
// so that others should run.
bool Worker::is_spinning(const void *address, unsigned bytes, uint32_t location) {
    if (!has_polled) memset(static_cast<void *>(polls), 0, sizeof *polls * size_t(num_threads)), has_polled = true;
    Poll &poll = polls[rank[current_slot]];
    if (poll.address != address) {
        poll = {address, 0, 0, 0, location};
        record_progress();
        return false;
    }
    const uintptr_t a = reinterpret_cast<uintptr_t>(address);
    const Allocation *allocation = memory.at(a);
    const size_t shared_offset = a - reinterpret_cast<uintptr_t>(shared);
    if (allocation ? !allocation->is_live || a < allocation->lo || a + bytes > allocation->hi
        : shared_offset > shared_cap - bytes)
        return false;
    uint64_t value = 0;
    memcpy(&value, address, bytes = std::min(bytes, 8u));
    if (poll.bytes != bytes || poll.value != value) {
        poll = {address, value, bytes, 0, location};
        record_progress();
        return false;
    }
    if (++poll.repeats % 4) return false;
    leader->idle_switches++;
    return true;
}
// Returns the number of consecutive idle switches in which every thread of the block has run without progress.
uint32_t Worker::idle_limit() const {
    return uint32_t(size_t(num_threads) * leader->blocks() + 16);
}
// Suspends the block; `BlockScheduler` decides which one runs next.
void Worker::suspend_block(Fiber &self) {
    leader->running_block = this, leader->idle_switches = 0;
    switch_fiber(self, root->main);
}

// Returns whether the suspended block can make progress: a condition holds, or a polled value has changed.
bool Worker::can_progress() const {
    if (waits_only_for_grid()) return false;
    for (int i = 0; i < num_started; i++) {
        const Poll &poll = polls[rank[i]];
        if (state[i] == on_condition && condition[rank[i]].ready(condition[rank[i]].arg)) return true;
        if (has_polled && state[i] == ready && poll.bytes && memcmp(poll.address, &poll.value, poll.bytes)) return true;
    }
    return false;
}


namespace {
// The scheduler of the blocks, or clusters, on one OS thread. A cluster is represented by its leader, its first block;
// a block without a cluster counts as a cluster of one.
class BlockScheduler {
    std::vector<RunningLaunch *> &launches;    // those that have not ended
    Worker &root;
    std::vector<Worker *> &free_leaders, &suspended_leaders; // the newest suspended one is last
    size_t num_prepared = 0, next_launch = 0;
    int os_threads;
    bool from_queue;
    Stall stall;
    RankWatch rank_watch;
    int num_misses = 0;                // consecutive times that `rank_watch` has given up
    uint32_t seed = uint32_t(options.seed) * 2654435761u + 1;

public:
    BlockScheduler(std::vector<RunningLaunch *> &launches, Worker &root, int os_threads, bool from_queue,
        std::vector<Worker *> (&lists)[2])
        : launches(launches), root(root), free_leaders(lists[0]), suspended_leaders(lists[1]), os_threads(os_threads),
            from_queue(from_queue) {
        free_leaders.clear(), suspended_leaders.clear();
        for (RunningLaunch *l : launches) begin_launch(*l);
        if (!from_queue) free_leaders.push_back(prepare_cluster(*launches[0]));
    }

    void run() {
        uint64_t last_progress = progress, num_idle = 0;
        while (!stops_launch) {
            if (begin_next_cluster()) {
                while (!stops_launch && resume_clusters(false)) {}
                continue;
            }
            if (from_queue && add_launches(false)) continue;
            if (suspended_leaders.empty()) break;
            const bool has_changes = from_queue && std::any_of(suspended_leaders.begin(), suspended_leaders.end(),
                [](Worker *leader) { return can_resume(*leader, false); });
            resume_clusters(true);
            if (os_threads > 1 && num_idle > max_yields) end_if_signalled();
            if (progress != last_progress || has_changes) last_progress = progress, num_idle = 0, end_stall();
            else if (++num_idle > idle_limit() || !can_any_resume()) handle_no_progress(num_idle);
        }
    }

private:
    static constexpr uint64_t max_yields = 1000;         // an OS thread that has waited more often sleeps
    // Signals seldom meet the code of blocks whose OS thread yields or sleeps between polls, least of all on a busy
    // machine, where it receives one signal each time that it runs. So these blocks are ended here; the finding then
    // lacks the line of the call.
    void end_if_signalled() {
        if (!ending_signal || suspended_leaders.empty()) return;
        Worker &block = *suspended_leaders.back()->running_block;
        if (from_queue) enter_launch(*suspended_leaders.back()->running_launch);
        worker = &block;
        detector.enter(block);
        select_poll(block);
        block.signal = SIGUSR2;
        block.pc = block.link = nullptr, block.sp = nullptr, block.depth = 0;
        siglongjmp(root.escape, 1);
    }
    void end_stall() { stall.end(), rank_watch.restart(), num_misses = 0; }
    // Increments a counter, and returns its previous value; on one OS thread without a locked instruction, because
    // three of them take a fifth of the time of a small block.
    uint64_t increment(std::atomic<uint64_t> &counter) const {
        if (os_threads > 1) return counter++;
        const uint64_t value = counter.load(std::memory_order_relaxed);
        counter.store(value + 1, std::memory_order_relaxed);
        return value;
    }
    void begin_launch(RunningLaunch &running) {
        const Launch &l = *running.launch;
        running.file_scope_bytes = bytes_at_file_scope(l);
        running.num_clusters = blocks_of(l) / (uint64_t(l.cluster.x) * l.cluster.y * l.cluster.z);
    }
    // Adds the launches of the queue whose preceding operations have ended. Returns whether there are any.
    bool add_launches(bool is_stalled) {
        const size_t num_launches = launches.size();
        const bool has_changed = admit_operations(launches, is_stalled);
        for (size_t i = num_launches; i < launches.size(); i++) begin_launch(*launches[i]);
        return has_changed;
    }
    // Returns the bytes of shared memory at file scope. Avoids dladdr if possible, because it is slow.
    size_t bytes_at_file_scope(const Launch &l) const {
        Dl_info info;
        if (root.file_scopes.empty()) return 0;
        if (detector.is_enabled && !from_queue) return root.file_scopes[detector.image.base].used;
        return find_symbol(reinterpret_cast<const void *>(l.thread), info)
                   ? root.file_scopes[reinterpret_cast<uintptr_t>(info.dli_fbase)].used
                   : 0;
    }
    size_t resident_limit(const RunningLaunch &running) const {
        const dim3 &c = running.launch->cluster;
        const size_t blocks_per_cluster = size_t(c.x) * c.y * c.z;
        return std::max(size_t(1),
            size_t(max_resident_blocks(*running.launch,
            running.static_shared)) / blocks_per_cluster / size_t(os_threads));
    }
    // Returns the number of idle iterations over all threads after which the blocks count as stuck. With many threads
    // the limit is lower, because one iteration takes seconds.
    uint64_t idle_limit() const {
        uint64_t threads = 0;
        for (const Worker *leader : suspended_leaders)
            threads += uint64_t(leader->num_threads) * std::max(size_t(1), leader->cluster.size());
        return threads > 1 << 16 ? 3 : 16;
    }
    bool may_begin_another(const RunningLaunch &running) const {
        if (suspended_leaders.empty()) return true;
        const size_t num_suspended = !from_queue ? suspended_leaders.size()
            : size_t(std::count_if(suspended_leaders.begin(),
            suspended_leaders.end(), [&](const Worker *leader) { return leader->running_launch == &running; }));
        return num_suspended < resident_limit(running);
    }

    // Returns the leader of a cluster that is prepared for this launch.
    Worker *prepare_cluster(RunningLaunch &running) {
        std::vector<Worker *> &leaders = cluster_leaders();
        if (num_prepared == leaders.size()) {
            leaders.push_back(new_worker());
            leaders.back()->root = &root, leaders.back()->signal_stack = root.signal_stack;
            leaders.back()->saved_shared = map_shared_memory();
            leaders.back()->shared = root.shared;
        }
        Worker &leader = *leaders[num_prepared++];
        prepare(leader, running);
        return &leader;
    }
    void prepare(Worker &leader, RunningLaunch &running) {
        const Launch &l = *running.launch;
        const size_t cluster_size = size_t(l.cluster.x) * l.cluster.y * l.cluster.z;
        leader.cluster.clear();
        leader.cluster_dims = l.cluster, leader.running_block = &leader, leader.idle_switches = 0;
        while (cluster_size > 1 && leader.peers.size() + 1 < cluster_size) {
            leader.peers.push_back(new_worker());
            leader.peers.back()->shared = map_shared_memory();
            leader.peers.back()->root = &root, leader.peers.back()->leader = &leader;
            leader.peers.back()->signal_stack = root.signal_stack;
        }
        if (cluster_size > 1) {
            leader.cluster.push_back(&leader);
            leader.cluster.insert(leader.cluster.end(), leader.peers.begin(),
                leader.peers.begin() + std::ptrdiff_t(cluster_size - 1));
        }
        if (from_queue) enter_launch(running);
        for (size_t i = 0; i < leader.blocks(); i++) {
            Worker &block = *(worker = leader.block_at(i));
            detector.enter(block);
            if ((from_queue || &block != &root) && detector.is_enabled) detector.discard_arrays();
            block.running_launch = &running, block.first_block = running.first_block;
            block.prepare_threads(l, seed, options.order);
        }
    }
    // Switches the variables of the emulated device to those of a launch. Only launches of a queue alternate.
    void enter_launch(RunningLaunch &running) const {
        blockDim = running.launch->block, gridDim = running.launch->grid;
        enter_operation(running);
        if (detector.is_enabled) detector.enter_launch(running.checks, uint32_t(running.device));
    }

    // Begins a cluster of the next launch that has clusters left and resources for another resident one; returns
    // whether there is such a launch.
    bool begin_next_cluster() {
        for (size_t i = 0; i < launches.size(); i++) {
            RunningLaunch &running = *launches[(next_launch + i) % launches.size()];
            if (!may_begin_another(running) || !begin_next_cluster_of(running)) continue;
            next_launch = from_queue ? next_launch + i + 1 : 0;
            return true;
        }
        return false;
    }
    bool begin_next_cluster_of(RunningLaunch &running) {
        const uint64_t num_begun = increment(running.num_begun);
        if (num_begun >= running.num_clusters) return running.num_begun--, false;
        const uint64_t cluster_id = options.order == 1 ? running.num_clusters - 1 - num_begun : num_begun;
        if (free_leaders.empty()) free_leaders.push_back(prepare_cluster(running));
        Worker *leader = free_leaders.back();
        free_leaders.pop_back();
        if (from_queue) leader->running_launch == &running ? enter_launch(running) : prepare(*leader, running);
        leader->idle_switches = 0;
        increment(progress);
        worker = leader;
        detector.enter(*leader);
        leader->cluster.empty() ? leader->begin_single_block(cluster_id) : leader->begin_cluster(cluster_id);
        if (!run_cluster(*leader)) suspended_leaders.push_back(leader);
        return true;
    }
    // Runs a cluster until it ends or is suspended; returns whether it has ended.
    bool run_cluster(Worker &leader) {
        switch_fiber(root.main, *leader.running_block->fiber[leader.running_block->current_slot]);
        const bool ended = leader.end_block();
        leader.running_launch->static_shared = leader.shared_static;
        if (ended) free_leaders.push_back(&leader), increment(progress);
        else exchange_shared(leader, false);
        if (ended && from_queue) record_cluster_end(*leader.running_launch);
        return ended;
    }
    void record_cluster_end(RunningLaunch &running) {
        if (++running.num_ended < running.num_clusters) return;
        if (detector.is_enabled) running.released.acquired.join(all_threads_of(running));
        launches.erase(std::find(launches.begin(), launches.end(), &running));
        for (Worker *leader : cluster_leaders())
            if (leader->running_launch == &running) leader->running_launch = nullptr;
        end_operation(running);
    }
    // The shared memory of all blocks has the same address, so it is copied in when a block is resumed, and out when
    // the block is suspended.
    void exchange_shared(Worker &leader, bool copies_in) const {
        if (!leader.saved_shared) leader.saved_shared = map_shared_memory();
        char *to = leader.saved_shared, *from = leader.shared;
        if (copies_in) std::swap(to, from);
        const size_t file_scope_bytes = leader.running_launch->file_scope_bytes;
        memcpy(to, from, leader.shared_used);
        memcpy(to + shared_cap - file_scope_bytes, from + shared_cap - file_scope_bytes, file_scope_bytes);
    }
    bool can_any_resume() const {
        return std::any_of(
            suspended_leaders.begin(), suspended_leaders.end(), [](Worker *w) { return can_resume(*w, true); });
    }
    static bool can_resume(Worker &w, bool allow_polling) {
        for (size_t i = 0; i < w.blocks(); i++) {
            const Worker &block = *w.block_at(i);
            if (block.can_progress() || (allow_polling && memchr(block.state, ready, size_t(block.num_threads))))
                return true;
        }
        return false;
    }
    // Resumes suspended clusters that can make progress, the newest first. With `allow_polling`, also resumes clusters
    // whose threads poll unchanged values. Returns whether a cluster has ended.
    bool resume_clusters(bool allow_polling) {
        bool has_ended = false;
        for (size_t i = suspended_leaders.size(); i-- > 0 && !stops_launch;) {
            if (can_resume(*suspended_leaders[i], allow_polling) && resume(*suspended_leaders[i]))
                suspended_leaders.erase(suspended_leaders.begin() + std::ptrdiff_t(i)), has_ended = true;
        }
        return has_ended;
    }
    bool resume(Worker &leader) {
        if (from_queue) enter_launch(*leader.running_launch);
        for (size_t i = 0; i < leader.blocks(); i++) {
            Worker *block = leader.block_at(i);
            block->wake();
            const void *first_ready = memchr(block->state, ready, size_t(block->num_threads));
            if (!first_ready) continue;
            if (block->state[block->current_slot] != ready)
                block->current_slot = int(static_cast<const uint8_t *>(first_ready) - block->state);
            leader.running_block = block;
            break;
        }
        Worker &block = *leader.running_block;
        exchange_shared(leader, true);
        detector.enter(block);
        worker = &block;
        blockIdx = block.block_index;
        threadIdx = block.index[block.rank[block.current_slot]];
        detector.begin_thread(block);
        return run_cluster(leader);
    }
    // Reports a deadlock, or that the resident blocks wait for blocks that cannot become resident.
    void handle_no_progress(uint64_t num_idle) {
        if (os_threads > 1) return void(num_idle <= max_yields ? sched_yield() : usleep(50));
        if (from_queue && add_launches(true)) return;
        if (has_shared_memory && may_wait_for_processes()) return;
        Worker &leader = *suspended_leaders.back();
        if (can_any_resume()) {
            const auto has_more = [](const RunningLaunch *l) { return l->num_begun < l->num_clusters; };
            if (num_idle > idle_limit() && std::any_of(launches.begin(), launches.end(), has_more))
                report_not_resident(newest_suspended(**std::find_if(launches.begin(), launches.end(), has_more)));
            else if (from_queue && num_idle > idle_limit() && stall.exceeds_limit(suspended_leaders))
                report_deadlock_on_flag();
            return;
        }
        if (from_queue) enter_launch(*leader.running_launch);
        worker = leader.running_block;
        detector.enter(*worker);
        worker->release_waiting();
    }
    std::vector<int> processes_of_polled_memory() const {
        std::vector<int> processes;
        for (Worker *leader : suspended_leaders)
            for (size_t i = 0; i < leader->blocks(); i++) {
                const Worker &block = *leader->block_at(i);
                for (int slot = 0; slot < block.num_threads && block.has_polled; slot++)
                    if (const Poll &poll = block.polls[block.rank[slot]]; block.state[slot] == ready && poll.repeats)
                        for (const int process : sharers_of(poll.address)) processes.push_back(process);
            }
        std::sort(processes.begin(), processes.end());
        processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
        return processes;
    }
    // Returns whether other processes may change a value that the blocks wait for. Ends the launch if they have ended,
    // or are idle.
    bool may_wait_for_processes() {
        int process = 0;
        const std::vector<int> processes = processes_of_polled_memory();
        if (processes.empty()) return false;
        const RankWatch::Verdict verdict = rank_watch.check(processes.data(), int(processes.size()), false, process);
        // The blocks poll once more, because a process may have set a flag just before it ended.
        if (verdict != RankWatch::wait && num_misses++)
            report_process_missing(verdict == RankWatch::ended ? process : 0);
        return true;
    }
    void report_process_missing(int ended_process) {
        Worker &block = polling_block(nullptr);
        if (from_queue) enter_launch(*block.leader->running_launch);
        worker = &block;
        detector.enter(block);
        const PollDescription wait = describe_poll(block);
        if (claim_finding(Code::process_missing, {wait.element.array(), wait.element.index(),
                {"why", ended_process ? Code::process_ended : Code::processes_idle, 1}, {"process", ended_process}})) {
            set_thread_of_finding(block);
            current_finding.location.line = wait.location.line;
            Field::copy(current_finding.location.file, wait.location.file);
        }
        end_launch();
    }
    // Returns the leader of the newest suspended cluster of the launch.
    Worker &newest_suspended(const RunningLaunch &running) const {
        for (size_t i = suspended_leaders.size(); i-- > 0;)
            if (suspended_leaders[i]->running_launch == &running) return *suspended_leaders[i];
        return *suspended_leaders.back();
    }
    void report_not_resident(Worker &leader) {
        Worker &block = *leader.running_block;
        if (from_queue) enter_launch(*leader.running_launch);
        worker = &block;
        detector.enter(block);
        const size_t num_resident = size_t(std::count_if(suspended_leaders.begin(), suspended_leaders.end(),
            [&](const Worker *other) { return other->running_launch == leader.running_launch; }));
        if (claim_finding(Code::not_resident, {{"resident", num_resident * leader.blocks()},
                                                 {"blocks", blocks_of(*leader.launch)}})) {
            set_thread_of_finding(block);
            detector.set_line({0, 0, block.polls[block.rank[block.current_slot]].location}, current_finding.location);
        }
        end_launch();
    }
    // Reports that all threads of all launches poll values in memory that no thread will change.
    void report_deadlock_on_flag() {
        Worker &block = polling_block(nullptr);
        Worker *const other = polling_block_of_other_launch(block);
        PollDescription other_wait = {};
        if (other) enter_block(*other), other_wait = describe_poll(*other);
        enter_block(block);
        const PollDescription wait = describe_poll(block);
        if (claim_finding(Code::deadlock_on_flag,
            {wait.element.array(), wait.element.index(), {"device", block.running_launch->device},
                {"others", other ? Code::other_kernel_waits : Code::no_other_kernel, other ? 3 : 0}})) {
            if (other) current_finding.add({{"kernel", base_name(other->launch->kernel).c_str()},
                {"device", other->running_launch->device}, {"line", other_wait.location.line}});
            set_thread_of_finding(block);
            current_finding.location.line = wait.location.line;
            Field::copy(current_finding.location.file, wait.location.file);
            if (other) current_finding.has_other = 1, current_finding.other = other_wait.location;
        }
        end_launch();
    }
    struct PollDescription {
        ElementName element;
        Location location;
    };
    void enter_block(Worker &block) const {
        enter_launch(*block.leader->running_launch);
        worker = &block;
        detector.enter(block);
    }
    PollDescription describe_poll(Worker &block) const {
        PollDescription wait = {};
        const Poll &poll = block.polls[block.rank[block.current_slot]];
        const uintptr_t address = reinterpret_cast<uintptr_t>(poll.address);
        if (detector.is_enabled) {
            const Allocation *allocation = memory.at(address);
            wait.element = detector.element_name(address, allocation ? 0 : detector.shared_cell(address).owner,
                allocation);
        }
        detector.set_line({0, 0, poll.location}, wait.location);
        set_thread(block, block.rank[block.current_slot], block.block, wait.location);
        return wait;
    }
    Worker &polling_block(const RunningLaunch *excluded) const {
        RunningLaunch *first = nullptr;
        for (const Worker *leader : suspended_leaders)
            if (leader->running_launch != excluded && (!first || leader->running_launch->device < first->device))
                first = leader->running_launch;
        Worker &block = *newest_suspended(*first).running_block;
        select_poll(block);
        return block;
    }
    Worker *polling_block_of_other_launch(const Worker &block) const {
        const RunningLaunch *own_launch = block.leader->running_launch;
        const bool exists = std::any_of(suspended_leaders.begin(), suspended_leaders.end(),
            [own_launch](const Worker *leader) { return leader->running_launch != own_launch; });
        return exists ? &polling_block(own_launch) : nullptr;
    }
    // Makes a polling thread the current thread of a suspended block.
    static void select_poll(Worker &block) {
        for (int slot = 0; slot < block.num_threads && block.has_polled; slot++)
            if (block.state[slot] == ready && block.polls[block.rank[slot]].repeats) {
                block.current_slot = slot;
                return;
            }
    }
};
}

// the leaders of the suspended clusters, while launches run together
static std::vector<Worker *> *suspended_queue_leaders = nullptr;
// Returns whether a thread of a suspended block polls this address, whose value has changed since its last load.
static bool is_change_unobserved(const void *address) {
    const auto awaits_change = [address](const Worker &block) {
        for (int slot = 0; slot < block.num_started && block.has_polled; slot++) {
            const Poll &poll = block.polls[block.rank[slot]];
            if (poll.address == address && block.state[slot] == ready && poll.bytes &&
                memcmp(address, &poll.value, poll.bytes))
                return true;
        }
        return false;
    };
    for (Worker *leader : *suspended_queue_leaders)
        for (size_t i = 0; leader != worker->leader && i < leader->blocks(); i++)
            if (awaits_change(*leader->block_at(i))) return true;
    return false;
}
void await_observers(const void *address) {
    if (!suspended_queue_leaders) return;
    for (int i = 0; i < 100 && is_change_unobserved(address); i++) {
        Worker &w = *worker;
        if (w.num_started == w.num_threads) w.suspend_block(*w.fiber[w.current_slot]);
        else yield();
    }
}

// Discards the blocks of a launch that a finding or a signal has ended.
static void discard_blocks() {
    for (Worker *leader : cluster_leaders()) {
        std::vector<Worker *> blocks = leader->peers;
        blocks.push_back(leader);
        for (Worker *block : blocks) {
            block->is_running = false;
            block->signal = block->deferred_signals = 0;
            block->idle_fibers.clear();
            for (int i = 0; i < block->fiber_count; i++) block->idle_fibers.push_back(&block->fibers[i]);
        }
    }
}
// The block loops (block_loops.h) do not record the current thread. So after a fault the block runs again and records
// it, and the finding names the thread that faults. If no thread faults the second time, because the block has changed
// memory, the thread remains unknown.
static void find_thread_of_fault(Worker &root, Worker &block) {
    const int signal_number = block.signal;
    block.signal = 0, block.reruns_after_fault = true;
    completes(root.escape, false, [&] {
        block.begin_single_block(block.block);
        switch_fiber(root.main, *block.fiber[block.current_slot]);
    });
    block.reruns_after_fault = false;
    if (!block.signal) block.signal = signal_number, block.is_thread_unknown = true;
}
static bool is_fault(int signal_number) {
    return signal_number == SIGSEGV || signal_number == SIGBUS || signal_number == SIGFPE || signal_number == SIGILL;
}
void run_blocks(std::vector<RunningLaunch *> &launches, int os_threads, bool from_queue) {
    // static, because siglongjmp out of the launch skips destructors
    static thread_local std::vector<Worker *> lists[2];
    Worker &root = this_worker();
    set_interruptible(true);
    // No signal mask is saved, which would take a system call: the handler blocks no signal (SA_NODEFER).
    suspended_queue_leaders = from_queue ? &lists[1] : nullptr;
    const auto run = [&] { BlockScheduler(launches, root, os_threads, from_queue, lists).run(); };
    if (!completes(root.escape, false, run)) {
        if (worker->is_thread_unknown && is_fault(worker->signal)) find_thread_of_fault(root, *worker);
        report_signal(*worker);
        stops_launch = true;
    }
    suspended_queue_leaders = nullptr;
    if (stops_launch) discard_blocks();
    detector.enter(root);
    worker = &root;
    set_interruptible(false);
    root.signal = root.deferred_signals = 0;
    release_leaders();
}
}
