// Launches: validates the configuration, prepares Workers and blocks, runs the grid, and cleans up.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>
#include "addresses.h"
#include "capture.h"
#include "detector.h"
#include "engines.h"
#include "findings.h"
#include "launch.h"
#include "loader.h"
#include "operations.h"
#include "output.h"
#include "platform.h"
#include "queue.h"
#include "residents.h"
#include "signals.h"
#include "threads.h"
#include "unload.h"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace gridstride {

ParameterNames::ParameterNames(const char *kernel, const char *parameters) : kernel(kernel), parameters(parameters) {
    all_names.push_back(this);
    register_module(this);
}

PlainVariables::PlainVariables() { register_module(this, true); }

int reject_launch(const Launch &launch, Code code, Fields fields, int error) {
    begin_finding(code, fields);
    Field::copy(current_finding.kernel, base_name(launch.kernel).c_str());
    current_finding.location.line = launch.line;
    return set_error(error);
}

// The attributes that cudaFuncSetAttribute sets, by module and kernel
struct KernelAttributes {
    size_t max_dynamic = size_t(48) << 10;
    bool allows_large_clusters = false;
};
static std::unordered_map<std::string, KernelAttributes> &attributes_by_kernel() {
    static std::unordered_map<std::string, KernelAttributes> attributes;
    return attributes;
}
void discard_kernel_attributes(const std::string &library) {
    auto &attributes = attributes_by_kernel();
    for (auto entry = attributes.begin(); entry != attributes.end();)
        entry = entry->first.compare(0, library.size() + 1, library + ':') ? std::next(entry) : attributes.erase(entry);
}
static KernelAttributes &attributes_of(const char *kernel, const void *code) {
    Dl_info info;
    const std::string library = find_symbol(code, info) ? info.dli_fname : "";
    return attributes_by_kernel()[library + ':' + base_name(kernel)];
}

size_t &max_dynamic_shared_of(const char *kernel) {
    DeviceLock device_lock;
    return attributes_of(kernel, __builtin_return_address(0)).max_dynamic;
}
bool &allows_large_clusters(const char *kernel) {
    DeviceLock device_lock;
    return attributes_of(kernel, __builtin_return_address(0)).allows_large_clusters;
}
size_t max_dynamic_shared_of(const Launch &l) {
    return attributes_of(l.kernel, reinterpret_cast<const void *>(l.thread)).max_dynamic;
}
static unsigned max_cluster_blocks(const Launch &l) {
    return attributes_of(l.kernel, reinterpret_cast<const void *>(l.thread)).allows_large_clusters ? 16 : 8;
}

std::string parameters_of(const Launch &l) {
    const std::string kernel = base_name(l.kernel);
    const auto names = std::find_if(
        all_names.rbegin(), all_names.rend(),
        [&](const ParameterNames *candidate) { return kernel == candidate->kernel; });
    return names == all_names.rend() ? "" : (*names)->parameters;
}
// Names each array argument of a launch after its kernel parameter.
static void name_arguments(const Launch &l) {
    std::string names = parameters_of(l);
    if (names.empty()) return;
    for (int i = 0; i < l.num_args; i++)
        if (Allocation *p = memory.at(reinterpret_cast<uintptr_t>(l.args[i].pointer)); p && !p->is_symbol) p->begin = 0;
    for (int i = 0; i < l.num_args && !names.empty(); i++) {
        const size_t comma = names.find(',');
        const uintptr_t address = reinterpret_cast<uintptr_t>(l.args[i].pointer);
        if (Allocation *p = memory.at(address); p && !p->is_symbol) {
            p->add_name(names.substr(0, comma).c_str(), address);
            if (l.args[i].itemsize > 1) p->itemsize = l.args[i].itemsize;
        }
        names = comma == std::string::npos ? "" : names.substr(comma + 1);
    }
}

void reject_cooperative_launch(const Launch &l, size_t static_bytes) {
    reject_launch(l, Code::cooperative_size, {{"blocks", blocks_of(l)}, {"resident", max_resident_blocks(l,
        static_bytes)}}, 720);
}
static bool is_valid_launch(const Launch &l) {
    const uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
    const dim3 cluster = l.cluster;
    const unsigned cluster_blocks = cluster.x * cluster.y * cluster.z;
    constexpr unsigned max_threads = 1024, max_z = 64, max_grid_x = 2147483647, max_grid_yz = 65535;
    if (!threads || !l.grid.x || !l.grid.y || !l.grid.z)
        reject_launch(l, Code::empty, {{"grid", l.grid}, {"block", l.block}});
    else if (threads > max_threads || l.block.x > max_threads || l.block.y > max_threads || l.block.z > max_z)
        reject_launch(l, Code::block_size,
            {{"block", l.block}, {"threads", threads}, {"limit", max_threads}, {"limit_z", max_z}});
    else if (l.grid.x > max_grid_x || l.grid.y > max_grid_yz || l.grid.z > max_grid_yz)
        reject_launch(l, Code::grid_size, {{"grid", l.grid}, {"limit_x", max_grid_x}, {"limit_yz", max_grid_yz}});
    else if (!cluster_blocks || (cluster_blocks > 8 && cluster_blocks > max_cluster_blocks(l)) ||
        l.grid.x % cluster.x || l.grid.y % cluster.y || l.grid.z % cluster.z)
        reject_launch(l, Code::cluster_size,
            {{"grid", l.grid}, {"cluster", cluster}, {"limit", max_cluster_blocks(l)}});
    else if (l.shared > size_t(48) << 10 && l.shared > max_dynamic_shared_of(l))
        reject_launch(l, Code::dynamic_size, {{"bytes", l.shared}, {"limit", max_dynamic_shared_of(l)}});
    else if (l.cooperative == 1 && blocks_of(l) > max_resident_blocks(l, 0)) reject_cooperative_launch(l, 0);
    else return true;
    return false;
}

void Worker::begin_block(uint64_t linear_index) {
    block = linear_index;
    const uint64_t gx = launch->grid.x, gy = launch->grid.y, row = linear_index < gx ? 0 : linear_index / gx;
    block_index = {unsigned(linear_index - row * gx), unsigned(row), 0};
    if (row >= gy) block_index.y = unsigned(row % gy), block_index.z = unsigned(row / gy);
    memset(state, ready, size_t(num_threads));
    num_started = 0, num_live = num_threads, exited_counted_in_phase = 0, num_at_grid = 0;
    runs_loops = is_thread_unknown = false,
    uses_warps = has_undefined_values = reports_wait = has_polled = reads_clock = false;
    if (detector.is_enabled)
        memset(line, 0, sizeof(int) * size_t(num_threads)), memset(return_line, 0, sizeof(int) * size_t(num_threads));
    begin_engines(*this);
    detector.begin_block(*this);
    if (detector.has_several_devices) detector.begin_after(running_launch->released_before);
}
void Worker::begin_single_block(uint64_t linear_index) {
    begin_block(linear_index);
    blockIdx = block_index;
    Fiber *first_fiber = take_fiber();
    prepare(*first_fiber, fiber_main);
    fiber[current_slot = 0] = first_fiber;
    is_running = true;
}

// Begins the cluster with this linear index (x varies fastest); block r of the cluster has rank r.
void Worker::begin_cluster(uint64_t cluster_id) {
    const dim3 &g = launch->grid, clusters(g.x / cluster_dims.x, g.y / cluster_dims.y, g.z / cluster_dims.z);
    const uint64_t x = cluster_id % clusters.x, y = cluster_id / clusters.x % clusters.y,
        z = cluster_id / clusters.x / clusters.y;
    for (size_t r = 0; r < cluster.size(); r++) {
        const uint64_t bx = x * cluster_dims.x + r % cluster_dims.x,
                       by = y * cluster_dims.y + r / cluster_dims.x % cluster_dims.y,
                       bz = z * cluster_dims.z + r / (cluster_dims.x * cluster_dims.y);
        detector.enter(*cluster[r]);
        cluster[r]->begin_block((bz * g.y + by) * g.x + bx);
        cluster[r]->is_running = true;
    }
    running_block = cluster[options.order == 1 ? cluster.size() - 1 : 0];
    detector.enter(*running_block);
    worker = running_block;
    blockIdx = running_block->block_index;
    Fiber *first_fiber = running_block->take_fiber();
    prepare(*first_fiber, fiber_main);
    running_block->fiber[running_block->current_slot = 0] = first_fiber;
}

// Finishes the block, or its cluster, if all its threads have exited; returns whether they have.
bool Worker::end_block() {
    for (size_t i = 0; i < blocks(); i++)
        if (block_at(i)->num_live) return false;
    for (size_t i = 0; i < blocks(); i++) {
        worker = block_at(i);
        detector.enter(*worker);
        detector.report_uninitialized(detector.uninitialized_read);
        if (detector.has_several_devices && detector.is_enabled) {
            detector.block_barrier(*worker);
            worker->running_launch->released.join(detector.block_view);
        }
        worker->is_running = false;
    }
    return true;
}

// A descriptor of `wgmma` contains the lowest 18 bits of an address in shared memory. Libraries also take these bits
// from a generic pointer, because on a GPU the shared memory window begins at a multiple of 16 MB. So a block's window
// is aligned here, too, and generic pointers have the same 18 bits as shared addresses.
constexpr size_t descriptor_window = 1 << 18;
static_assert(shared_window + shared_cap == descriptor_window);
char *map_shared_memory() {
    char *mapping = static_cast<char *>(Cells::map(2 * descriptor_window));
    if (!mapping) return nullptr;
    const uintptr_t end = reinterpret_cast<uintptr_t>(mapping) + descriptor_window - 1;
    char *window = reinterpret_cast<char *>(end / descriptor_window * descriptor_window);
    memcpy(window, &mapping, sizeof mapping);  // below the block's first address
    return window + shared_window;
}
void unmap_shared_memory(char *shared) {
    if (!shared) return;
    void *mapping;
    memcpy(&mapping, shared - shared_window, sizeof mapping);
    munmap(mapping, 2 * descriptor_window);
}

// A Worker is large, but the system allocates its pages only at the first access.
Worker *new_worker() { return new (Cells::map(sizeof(Worker))) Worker; }
static void discard(Worker *w) {
    if (!w) return;
    w->~Worker();
    munmap(static_cast<void *>(w), sizeof *w);
}
Worker::~Worker() {
    for (int i = 0; i < fiber_count; i++) free_stack(fibers[i]);
    for (Worker *p : peers) discard(p);
    unmap_shared_memory(saved_shared);
    if (root == this || shared != root->shared) unmap_shared_memory(shared);
    if (signal_stack && root == this) {
        stack_t none{};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
        munmap(signal_stack, signal_stack_bytes);
    }
    if (detector_state) detector_state->shared_cells.release();
    delete detector_state;
    delete engines;
}
// The Workers of an OS thread, which are destroyed with it
struct ThreadWorkers {
    Worker *own_worker = nullptr;
    std::vector<Worker *> leaders;
    ~ThreadWorkers() {
        worker = nullptr;
        for (Worker *t : leaders)
            if (t != own_worker) discard(t);
        discard(own_worker);
    }
};
static thread_local ThreadWorkers thread_workers;
std::vector<Worker *> &cluster_leaders() { return thread_workers.leaders; }
void release_leaders() {
    auto &leaders = thread_workers.leaders;
    for (; leaders.size() > 32; leaders.pop_back()) discard(leaders.back());
}
Worker &this_worker() {
    if (!worker) {
        thread_workers.own_worker = worker = new_worker();
        thread_workers.leaders.push_back(worker);
    }
    Worker &w = *worker;
    discard_unloaded(w.root->file_scopes, w.root->unloaded);
    if (!w.signal_stack) {
        w.shared = map_shared_memory();
        w.signal_stack = Cells::map(signal_stack_bytes);
        stack_t s{};
        s.ss_sp = w.signal_stack, s.ss_size = signal_stack_bytes;
        sigaltstack(&s, nullptr);
    }
    return w;
}
bool make_worker() { return this_worker().signal_stack; }

void check_launch_bounds(unsigned threads, unsigned blocks) {
    worker->bounds = {threads, blocks};
    if (unsigned(worker->num_threads) <= threads) return;
    // only one OS thread reports it
    if (!stops_launch.exchange(true))
        reject_launch(*worker->launch, Code::launch_bounds, {{"threads", worker->num_threads}, {"limit", threads}});
    end_launch();
}

// A kernel with __cluster_dims__ begins with `require_cluster_shape`. If the launch has clusters of another shape, it
// is stopped and repeated with the required shape.
static dim3 required_cluster_shape;
static std::atomic<bool> needs_clusters{false};
void require_cluster_shape(dim3 blocks) {
    const dim3 actual = worker->leader->cluster_dims;
    if (actual.x == blocks.x && actual.y == blocks.y && actual.z == blocks.z) return;
    if (worker->running_launch->operation) not_emulated("__cluster_dims__ on several devices");
    if (!needs_clusters.exchange(true)) required_cluster_shape = blocks;
    stops_launch = true;
    end_launch();
}

bool prepare_launch(const Launch &l) {
    if (!is_valid_launch(l)) return false;
    name_arguments(l);
    if (was_launch_rejected()) current_finding.kind = nothing;
    return true;
}
void begin_launches(const Launch &first) {
    stops_launch = false;
    begin_device_code();
    catch_signals(true);
    start_time_limit(first);
}
void end_launches() {
    detector.report_uninitialized_of_launch();
    count_branches();
    clear_time_limit();
    catch_signals(false);
    end_device_code();
    gridDim.x = 0;
    if (was_launch_rejected() && !error_code) set_error(1);          // another OS thread may have rejected it
}
// Runs a launch; returns false if a finding or a signal ended it.
static bool run_launch(const Launch &l) {
    DeviceLock device_lock;
    if (is_launch_stopped()) return false;
    if (!prepare_launch(l)) return true;
    Detector::Scope scope(false);
    if (detector.is_enabled) detector.begin_launch(l);
    const uint64_t blocks = blocks_of(l);
    RunningLaunch running(l);
    running.device = current_device();
    std::vector<RunningLaunch *> launches = {&running};
    begin_launches(l);
#ifdef _OPENMP
    // A forked child has none of its parent's OpenMP threads, and would deadlock waiting for them.
    int threads = detector.is_enabled || is_forked ? 1 : options.threads ? options.threads : omp_get_max_threads();
    if (uint64_t(threads) > blocks) threads = int(blocks);
    if ((has_several_os_threads = threads > 1)) discard_locks();
    if (has_several_os_threads) {
#pragma omp parallel num_threads(threads)
        run_blocks(launches, threads, false);
    // without OpenMP, because even a parallel region of one thread makes system calls
    } else run_blocks(launches, 1, false);
    has_several_os_threads = false;
#else
    run_blocks(launches, 1, false);
#endif
    end_launches();
    if (!needs_clusters.exchange(false)) return !stops_launch || was_launch_rejected();
    Launch launch_in_clusters = l;
    launch_in_clusters.cluster = required_cluster_shape;
    return run_launch(launch_in_clusters);
}
// Launches by the running kernel (dynamic parallelism), whose blocks may run on several OS threads
static std::mutex children_lock;
static thread_local int calls_on_thread = 0;
void fork_launches(Fork phase) {
    handle_fork(phase, children_lock);
    if (phase == Fork::child) running_calls = calls_on_thread;
}
static std::vector<DeferredWork> children, tail_children;
void launch_after_grid(const DeferredWork &work, bool is_tail) {
    std::lock_guard<std::mutex> lock(children_lock);
    (is_tail ? tail_children : children).push_back(work);
}
static void drop(std::vector<DeferredWork> &launches) {
    for (auto &child : launches) child.destroy(child.callable);
    launches.clear();
}
// Runs the launches by a kernel in order, after its grid; tail launches run last.
static void run_children() {
    std::vector<DeferredWork> ordinary, tail;
    ordinary.swap(children), tail.swap(tail_children);
    for (auto *works : {&ordinary, &tail}) {
        for (auto &child : *works) child.run(child.callable);
        drop(*works);
    }
}

static bool run_launch_in_order(const Launch &l) {
    const DeviceLock device_lock;                                        // no other launch begins in between
    const StreamOperation operation(l.kernel, l.stream, l.line);
    return run_launch(l);
}
// Programs that handle cudaErrorAssert continue after a failed assertion, as on a GPU: all later calls return the
// error.
static bool continues_after_assertion() {
    if (!handles_assertions || strcmp(current_finding.code, "fails")) return false;
    const Location &at = current_finding.location;
    const char *const slash = strrchr(at.file, '/');
    fprintf(stderr, "%s:%d: %s: block: [%d,%d,%d], thread: [%d,%d,%d] Assertion `%s` failed.\n",
        slash ? slash + 1 : at.file, at.line, current_finding.kernel, at.block[0], at.block[1], at.block[2],
        at.thread[0], at.thread[1], at.thread[2], current_finding.fields[0].string);
    current_finding.kind = nothing;
    return sticky_error = set_error(710);
}
void run(const Launch &l) {
    end_if_interrupted(__builtin_return_address(0));
    if (sticky_error) return;
    sync_registered_memory(true);
    const bool succeeded = run_launch_in_order(l);
    sync_registered_memory(false);
    flush_printed();
    if (succeeded && children.empty() && tail_children.empty()) return;
    const StreamScope same_stream(l.stream);
    if (succeeded) return run_children();
    drop(children), drop(tail_children);
    if (continues_after_assertion()) return;
    if (crash_guard) throw LaunchStopped(); // in a thread of the host code, no code could catch it
}

static void launch_immediately(const Config &c, const Call &call) {
    const uintptr_t object_begin = reinterpret_cast<uintptr_t>(call.object);
    if (!call.type->begin()) return;
    run({c.grid, c.block, c.shared, c.stream, c.cluster, call.kernel, call.line, call.type->thread, call.object,
        call.args, call.num_args, c.cooperative, object_begin, object_begin + call.type->bytes});
}

namespace {
struct CapturedLaunch {                       // a launch that is run later, with copies of its arguments
    Config config;
    Call call;
    std::vector<Arg> args;
    std::align_val_t alignment;
    CapturedLaunch(const Config &launch_config, const Call &original)
        : config(launch_config), call(original), args(original.args, original.args + original.num_args),
            alignment{original.type->alignment} {
        config.stream = nullptr;                           // it may be destroyed before the graph is launched
        call.args = args.data();
        call.object = ::operator new(call.type->bytes, alignment);
        const bool enabled = enable_checks(false);   // because the host's copy is not an access of the kernel
        if (call.type->copy) call.type->copy(call.object, original.object);
        else memcpy(call.object, original.object, call.type->bytes);
        enable_checks(enabled);
    }
    CapturedLaunch(const CapturedLaunch &) = delete;
    ~CapturedLaunch() {
        if (call.type->destroy) call.type->destroy(call.object);
        ::operator delete(call.object, alignment);
    }
};
}

// Queues a launch, while there are several devices, with copies of its arguments.
static void queue(const Config &config, const Call &call) {
    const auto captured = std::make_shared<CapturedLaunch>(config, call);
    const Config &c = config;
    const Call &copy = captured->call;
    const uintptr_t object_begin = reinterpret_cast<uintptr_t>(copy.object);
    pin_module(reinterpret_cast<const void *>(copy.type->thread));
    queue_launch({c.grid, c.block, c.shared, c.stream, c.cluster, copy.kernel, copy.line, copy.type->thread,
        copy.object, copy.args, copy.num_args, c.cooperative, object_begin, object_begin + copy.type->bytes},
        copy.type->begin, captured);
}

void launch(const Config &config, const Call &call) {
    if (is_queueing() && !capture_graph(config.stream)) return queue(config, call);
    if (!is_any_stream_captured() && !on_device()) return launch_immediately(config, call);
    const auto captured = std::make_shared<CapturedLaunch>(config, call);
    const auto work = [captured] { return launch(captured->config, captured->call), 0; };
    if (!defer(config.stream, NodeKind::kernel, work, {}, true))
        launch_immediately(config, call);
    else if (!on_device()) pin_module(reinterpret_cast<const void *>(call.type->thread));
}

static void report_interrupted(const void *pc) {
    begin_finding(Code::stopped, {});
    locate(pc, current_finding.location);
}
// Calls from Python run guarded, so that a crash of host code becomes a finding.
static std::atomic<uintptr_t> newest_host_code{0}, newest_host_bytes{0};
bool is_newest_host_code(const void *pc) {
    return reinterpret_cast<uintptr_t>(pc) - newest_host_code < newest_host_bytes;
}
int process_id() { return getpid(); }
// the process that Python called; a forked child has another ID
static thread_local pid_t guarded_process = 0;
bool is_child() { return guarded_process && guarded_process != getpid(); }
void end_child(int status) {
    flush_printed();
    fflush(nullptr);
    _exit(status);
}
bool run_guarded(void (*f)(void *), void *arg, const void *code) {
    sigjmp_buf end_of_call, *outer = crash_guard;
    const pid_t outer_process = guarded_process;
    guarded_process = getpid();
    const int depth = DeviceLock::depth();
    const int outer_deferred = signals_deferred;                     // the outer call from Python, if any
    signals_deferred = 0;
    const LoadedImage image = code ? image_of(const_cast<void *>(code)) : LoadedImage{};
    if (code) newest_host_code = image.base, newest_host_bytes = image.end - image.base;
    HostCode this_call{image, depth, 0, nullptr}, *const outer_code = host_code;
    calls_on_thread++;
    begin_call();
    host_accesses_device = false, sticky_error = 0;
    current_finding.kind = nothing;
    pending_warnings.clear();
    this_worker();
    catch_signals(true);
    if (code) host_code = &this_call, set_interruptible(true);
    bool ok = completes(end_of_call, true, [&] {
        crash_guard = &end_of_call;
        try {
            f(arg);
            if (!is_queue_deferred) run_queue(nullptr);
        } catch (const LaunchStopped &) {}
    });
    if (is_child() && !ok) print_finding(stderr);
    if (is_child()) end_child(ok ? 0 : 1);
    guarded_process = outer_process;
    crash_guard = outer;
    signals_deferred = outer_deferred;
    if (code) set_interruptible(false), host_code = outer_code;
    DeviceLock::unlock_to(depth);
    if (const void *at = this_call.interrupted_at) report_interrupted(at);
    catch_signals(false);
    running_calls--, calls_on_thread--;
    {
        DeviceLock device_lock;
        detector.end_host_call();
        if (!ok || current_finding.kind != nothing) discard_queue();
        if (!is_queue_deferred) operations.end_call();
    }
    flush_printed();
    if (was_launch_rejected()) error_code = 0;        // because the finding reports it
    ok = ok && current_finding.kind == nothing;
    if (!ok) memory.failed_allocations.clear(), error_code = 0;  // because the finding reports them
    const SignalDeferral until_end;
    const bool sends_warnings = warn && (ok || current_finding.kind == interrupted);
    for (size_t i = 0; sends_warnings && i < pending_warnings.size(); i++) warn(&pending_warnings[i]);
    return ok;
}
}
