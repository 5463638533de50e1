// The queue of operations, used if there are several devices. On GPUs, kernels of several devices run at the same time
// and may wait for each other. So a launch, or a copy in a stream, is first added to the queue, with the vector clock
// of the operations before it (operations.cpp). When the host waits for an operation, `run_queue` runs the operations
// that it depends on: launches whose earlier operations have ended run together (`run_together`), and their blocks are
// scheduled like those of one grid (residents.cpp). If all of these blocks wait, the other launches of the queue start,
// too.
//
// racecheck: blocks of launches that run together have consecutive IDs, and share no barrier. A launch begins with the
// state that its earlier operations have released (`released_before`), like a thread that has acquired a flag.
#include "queue.h"
#include <deque>
#include <unistd.h>
#include "detector.h"
#include "devices.h"
#include "findings.h"
#include "launch.h"
#include "output.h"
#include "platform.h"
#include "ranks.h"
#include "signals.h"

namespace gridstride {

namespace {
struct QueuedOperation {
    enum State { waiting, running, ended } state;
    uint32_t stream, sequence_number;
    StreamClock clock;
    int device;
    Launch launch;                         // without a kernel: `work` is called
    bool (*begin)();
    std::shared_ptr<void> arguments_owner;
    DeferredWork work;
    RankExchange exchange;                     // what the work publishes or awaits; without a bootstrap: nothing
    bool is_needed;
    Operation *operation;                  // while it runs
    std::unique_ptr<RunningLaunch> running_launch;
    uint32_t first_block = 0, last_block = 0;          // its block IDs in the joint run: first_block + 1 to last_block
    SyncState released;                    // the state that its end has released in the joint run
    bool is_after(const QueuedOperation &other) const {
        return clock.of(other.stream) >= other.sequence_number;
    }
};
}
// a deque, because entries refer to each other; entries that have ended are removed between joint runs
static std::deque<QueuedOperation> queued;
static thread_local bool runs_together = false;     // whether this OS thread runs launches together
static bool is_any_running = false;                // whether any OS thread does
bool is_queue_deferred = false;
bool defers_queue() { return is_queue_deferred; }
static uint32_t num_blocks = 0;                    // blocks and copies that the joint run has begun
static pthread_t first_host_thread;
static bool has_other_host_threads = false;

bool is_queue_empty() { return queued.empty(); }
bool is_queueing() {
    return device_count() > 1 && !on_device() && (is_graph_queued() || !has_enclosing_operation());
}
static void record_host_thread() {
    if (queued.empty()) first_host_thread = pthread_self(), has_other_host_threads = false;
    else if (!pthread_equal(first_host_thread, pthread_self())) has_other_host_threads = true;
}
static QueuedOperation &add(const void *stream) {
    record_host_thread();
    const auto [index, sequence_number, clock] = operations.reserve(stream);
    queued.push_back({QueuedOperation::waiting, index, sequence_number, clock, current_device(), {}, nullptr, nullptr,
        {}, {}, false,
        nullptr, nullptr, 0, 0, {}});
    return queued.back();
}
void queue_launch(const Launch &launch, bool (*begin)(), std::shared_ptr<void> arguments_owner) {
    DeviceLock device_lock;
    if (is_launch_stopped()) return;
    const int owner = operations.device_of_stream(launch.stream);
    if (owner != current_device())
        return void(reject_launch(
            launch, Code::stream_of_other_device, {{"device", current_device()}, {"owner", owner}}, 400));
    QueuedOperation &operation = add(launch.stream);
    operation.launch = launch, operation.begin = begin, operation.arguments_owner = std::move(arguments_owner);
}
bool queue_work(const void *stream, const DeferredWork &work, const RankExchange &exchange) {
    DeviceLock device_lock;
    if (!is_queueing() || is_launch_stopped()) return false;
    QueuedOperation &operation = add(stream);
    operation.work = work, operation.exchange = exchange;
    return true;
}

static bool lacks_data(const QueuedOperation &operation) {
    return operation.exchange.is_awaited && !is_published(operation.exchange);
}
static bool follows_all(const QueuedOperation &operation) {
    return operation.state == QueuedOperation::waiting &&
           std::none_of(queued.begin(), queued.end(), [&](const QueuedOperation &other) {
               return &other != &operation && other.state != QueuedOperation::ended && operation.is_after(other);
           });
}
static bool is_ready(const QueuedOperation &operation) { return follows_all(operation) && !lacks_data(operation); }
// Marks the operations that the host waits for; returns whether there are any.
static bool mark_needed(const StreamClock *needed) {
    bool is_any_needed = false;
    for (QueuedOperation &operation : queued) {
        operation.is_needed = operation.state != QueuedOperation::ended &&
            (!needed || needed->of(operation.stream) >= operation.sequence_number);
        is_any_needed |= operation.is_needed;
    }
    return is_any_needed;
}
static void begin_operation(QueuedOperation &operation, uint32_t blocks) {
    operation.state = QueuedOperation::running;
    operation.first_block = num_blocks, operation.last_block = num_blocks += blocks;
    const Launch &l = operation.launch;
    operation.operation = &operations.start(l.thread ? l.kernel : nullptr, operation.stream,
        operation.sequence_number, l.line,
        operation.clock);
    operation.operation->device = operation.device;
    operation.operation->first_block = operation.first_block, operation.operation->last_block = operation.last_block;
    operation.operation->runs_jointly = runs_together;
}
static void end(QueuedOperation &operation) {
    operation.state = QueuedOperation::ended;
    operations.end(*operation.operation, false);
    const bool was_enabled = enable_checks(false);         // because destructors are not code of a kernel
    if (operation.work.callable) operation.work.destroy(operation.work.callable);
    operation.work = {}, operation.arguments_owner = nullptr;
    enable_checks(was_enabled);
}
// Returns the state that the operations before this one have released in this joint run; the end of a kernel is also a
// fence.
static SyncState released_before(const QueuedOperation &operation) {
    SyncState state;
    for (const QueuedOperation &other : queued)
        if (other.state == QueuedOperation::ended && operation.is_after(other)) state.join(other.released);
    for (VectorClock &fenced : state.fenced) fenced = state.acquired;
    return state;
}

// Runs the host code of a copy, outside any kernel. Returns false if a finding has ended it.
static bool call_work(QueuedOperation &operation) {
    Worker *const suspended = worker;
    sigjmp_buf end_of_work, *const outer = crash_guard;
    const int depth = DeviceLock::depth();
    const bool was_enabled = enable_checks(false);
    worker = nullptr;
    set_launch_device(operation.device);
    set_current_operation(operation.operation);
    const bool succeeded = completes(end_of_work, true, [&] {
        crash_guard = &end_of_work;
        operation.work.run(operation.work.callable);
    });
    crash_guard = outer;
    set_current_operation(nullptr);
    set_launch_device(-1);
    DeviceLock::unlock_to(depth);
    enable_checks(was_enabled);
    worker = suspended;
    return succeeded;
}
// The clocks of the newest operations that have published data for ranks of this process
static std::deque<std::pair<RankExchange, StreamClock>> published;
void record_published(const RankExchange &e) {
    DeviceLock device_lock;
    const Operation *const operation = current_operation();
    if (!operation) return;
    published.emplace_back(e, operation->clock);
    if (published.size() > 1024) published.pop_front();
}
void order_after_published(const RankExchange &e) {
    DeviceLock device_lock;
    Operation *const operation = current_operation();
    if (!operation) return;
    StreamClock before;
    for (const auto &[other, clock] : published)
        if (other.bootstrap == e.bootstrap && other.channel == e.channel && other.sequence_number == e.sequence_number)
            before.join(clock);
    for (QueuedOperation &later : queued)
        if (later.clock.of(operation->stream) >= operation->sequence_number) later.clock.join(before);
    operations.order_after(*operation, before);
}
// Runs a copy. It has a block ID, so that threads of a kernel that begins after it can acquire its accesses.
static bool run_work(QueuedOperation &operation) {
    begin_operation(operation, 1);
    const bool succeeded = call_work(operation);
    end(operation);
    if (!runs_together) return succeeded;
    SyncState before = released_before(operation);
    if (!succeeded) stops_launch = true;
    before.acquired.join(VectorClock::of_blocks(operation.last_block, operation.last_block + 1, ++detector.now));
    operation.released = before;
    return succeeded;
}
static void begin_queued_launch(QueuedOperation &operation, std::vector<RunningLaunch *> &launches) {
    operation.running_launch.reset(new RunningLaunch(operation.launch));
    RunningLaunch &running = *operation.running_launch;
    running.operation = &operation, running.device = operation.device, running.first_block = num_blocks;
    running.released_before = released_before(operation);
    begin_operation(operation, uint32_t(blocks_of(operation.launch)));
    enter_operation(running);
    const bool was_enabled = enable_checks(false);        // because `begin` is not code of the kernel
    const bool is_valid = (!operation.begin || operation.begin()) && prepare_launch(operation.launch);
    enable_checks(was_enabled);
    if (!is_valid) return end(operation);
    if (detector.is_enabled) detector.begin_launch(operation.launch);
    running.checks = detector.launch_checks();
    launches.push_back(&running);
}
static const QueuedOperation *operation_of_block(uint32_t block_id) {
    for (const QueuedOperation &operation : queued)
        if (block_id - 1 - operation.first_block < operation.last_block - operation.first_block) return &operation;
    return nullptr;
}
int device_of_block(uint32_t block_id) {
    const QueuedOperation *operation = operation_of_block(block_id);
    return operation ? operation->device : -1;
}
const RunningLaunch *launch_of_block(uint32_t block_id) {
    const QueuedOperation *operation = operation_of_block(block_id);
    return operation ? operation->running_launch.get() : nullptr;
}
bool admit_operations(std::vector<RunningLaunch *> &launches, bool is_stalled) {
    bool has_changed = false;
    for (size_t i = 0; i < queued.size() && !stops_launch; i++) {
        QueuedOperation &operation = queued[i];
        if (!(operation.is_needed || is_stalled) || !is_ready(operation)) continue;
        if (operation.launch.thread) begin_queued_launch(operation, launches);
        else run_work(operation);
        has_changed = true;
    }
    // the host's other threads may add operations
    if (is_stalled && !has_changed) DeviceLock::pause(50);
    return has_changed;
}
void enter_operation(RunningLaunch &running) {
    set_current_operation(static_cast<QueuedOperation *>(running.operation)->operation);
    set_launch_device(running.device);
    point_symbols_to(running.device);
}
void end_operation(RunningLaunch &running) {
    QueuedOperation &operation = *static_cast<QueuedOperation *>(running.operation);
    operation.released = running.released;
    end(operation);
}
// Returns whether the stall has lasted longer than the limit. A kernel that reads a clock may time out by itself, so
// it is not stalled. If other host threads launch, or may launch soon, the limit is longer, and on a busy machine
// they must have had many opportunities to run.
bool Stall::exceeds_limit(const std::vector<Worker *> &suspended_leaders) {
    constexpr double stall_limit = 0.5, stall_limit_with_threads = 5;       // seconds
    constexpr int min_checks = 1000;                       // between two of which other threads may run
    const double now = seconds_now();
    if (!since) since = now, num_checks = 0;
    num_checks++;
    const bool may_others_launch = has_other_host_threads || !crash_guard;
    return now - since > (may_others_launch ? stall_limit_with_threads : stall_limit) &&
           (!may_others_launch || num_checks > min_checks) &&
           std::none_of(suspended_leaders.begin(), suspended_leaders.end(),
               [](const Worker *leader) { return leader->reads_clock; });
}

static QueuedOperation *first_ready(bool is_launch) {
    for (QueuedOperation &operation : queued)
        if (operation.is_needed && is_ready(operation) && bool(operation.launch.thread) == is_launch) return &operation;
    return nullptr;
}
// Returns an operation that the host does not wait for, but perhaps another rank of this process
static QueuedOperation *first_ready_of_others() {
    for (QueuedOperation &operation : queued)
        if (is_ready(operation)) return operation.is_needed = true, &operation;
    return nullptr;
}
static const QueuedOperation *first_without_data() {
    for (const QueuedOperation &operation : queued)
        if (operation.is_needed && follows_all(operation) && lacks_data(operation)) return &operation;
    return nullptr;
}
static void remove_ended_operations() {
    for (QueuedOperation &operation : queued)
        operation.released = {}, operation.first_block = operation.last_block = 0;
    while (!queued.empty() && queued.front().state == QueuedOperation::ended) queued.pop_front();
}
void discard_queue() {
    for (QueuedOperation &operation : queued)
        if (operation.state == QueuedOperation::running) end(operation);
        else if (operation.work.callable) operation.work.destroy(operation.work.callable);
    queued.clear();
}
// The parent runs its operations, not the child.
void fork_queue(Fork phase) {
    if (phase == Fork::child) queued.clear();
}
// Runs the launches that are needed, and those that must run with them. Returns false if a finding or a signal has
// ended them.
static bool run_together(const QueuedOperation &first) {
    static std::vector<RunningLaunch *> launches;
    launches.clear();
    sync_registered_memory(true);
    {
        Detector::Scope scope(true);
        runs_together = is_any_running = true, num_blocks = 0;
        begin_launches(first.launch);
        run_blocks(launches, 1, true);
        end_launches();
        runs_together = is_any_running = false;
    }
    set_current_operation(nullptr);
    set_launch_device(-1);
    sync_registered_memory(false);
    flush_printed();
    return !stops_launch || was_launch_rejected();
}
static bool run_ready(QueuedOperation &operation) {
    return operation.launch.thread ? run_together(operation) : run_work(operation);
}
void run_queue(const StreamClock *needed) {
    DeviceLock device_lock;
    RankWatch watch;
    while (!runs_together && mark_needed(needed)) {
        if (is_launch_stopped()) break;
        if (is_any_running) {
            DeviceLock::pause(100);
            continue;
        }
        bool succeeded = true;
        QueuedOperation *next = first_ready(false);
        if (!next) next = first_ready(true);
        if (!next) next = first_ready_of_others();
        if (next) succeeded = run_ready(*next), watch.restart();
        else if (const QueuedOperation *waiting = first_without_data()) succeeded = may_wait(waiting->exchange, watch);
        remove_ended_operations();
        if (!succeeded) break;
    }
    if (runs_together || !is_launch_stopped()) return;
    discard_queue();
    // not by an exception, because the caller may be a destructor; in a thread of the host code, there is no guard
    if (crash_guard) siglongjmp(*crash_guard, 1);
}
}
