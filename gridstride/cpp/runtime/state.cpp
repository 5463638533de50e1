#include "state.h"
#include <pthread.h>
#include <chrono>
#include <mutex>
#include <unistd.h>
#include "detector.h"
#include "loader.h"
#include "memory.h"
#include "platform.h"
#include "signals.h"
#include "worker.h"

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim = dim3(0, 1, 1);           // empty unless a launch runs

namespace gridstride {

Memory memory;
__attribute__((tls_model("initial-exec"))) thread_local Worker *worker = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local bool checks_enabled = false;
Detector detector;

gridstride_options options = {0, 0, 0, 0, 60, 0, 1};
Finding current_finding;
std::vector<Finding> pending_warnings;
std::atomic<bool> stops_launch{false};
thread_local sigjmp_buf *crash_guard = nullptr;
std::atomic<int> running_calls{0};
std::vector<const ParameterNames *> all_names;
thread_local int error_code = 0;
bool handles_assertions = false;
int sticky_error = 0;
void handle_assertions(bool on) { handles_assertions = on; }
int error_after_waiting() { return sticky_error; }
thread_local bool host_accesses_device = false;
bool has_several_os_threads = false;

bool is_forked = false;
thread_local volatile int signals_deferred = 0;
void set_in_python(bool on) {
    signals_deferred = signals_deferred + (on ? 1 : -1);
    if (!on) end_if_interrupted(__builtin_return_address(0));
}

static std::timed_mutex device_mutex;
static thread_local int lock_depth = 0;
DeviceLock::DeviceLock() : holds_lock(!on_device()) {
    if (holds_lock && !lock_depth++) device_mutex.lock();
}
DeviceLock::~DeviceLock() {
    if (holds_lock && !--lock_depth) device_mutex.unlock();
}
int DeviceLock::depth() { return lock_depth; }
void DeviceLock::pause(unsigned microseconds) {
    device_mutex.unlock();
    usleep(microseconds);
    device_mutex.lock();
}
void DeviceLock::unlock_to(int depth) {
    if (lock_depth > depth && !depth) device_mutex.unlock();
    lock_depth = depth;
}

// Another thread's launch may take long, so this waits for the lock only briefly; the child discards that launch's
// state.
void fork_state(Fork phase) {
    static bool was_locked;
    if (phase == Fork::before) was_locked = !lock_depth && device_mutex.try_lock_for(std::chrono::milliseconds(200));
    else if (phase == Fork::parent && was_locked) device_mutex.unlock();
    if (phase != Fork::child) return;
    new (&device_mutex) std::timed_mutex;
    if (lock_depth) device_mutex.lock();
    else if (!was_locked && detector.is_enabled) detector.abandon();
    is_forked = true, has_several_os_threads = false;
    if (!lock_depth) stops_launch = false;
}
#ifdef GRIDSTRIDE_ELF
static void fork_loader(Fork phase) { handle_fork(phase, loader_mutex); }
template <Fork phase> static void handle_forks() {
    for (auto f : {fork_state, fork_launches, fork_device, fork_addresses, fork_unload, fork_ranks, fork_queue,
             fork_output, fork_findings, fork_signals, fork_branches, fork_atomics, fork_loader})
        f(phase);
}
static const int fork_handlers = pthread_atfork(handle_forks<Fork::before>, handle_forks<Fork::parent>,
    handle_forks<Fork::child>);
#endif

std::string base_name(const char *qualified_name) {
    std::string name(qualified_name);
    while (!name.empty() && (name[0] == '(' || name[0] == '&' || name[0] == ' ')) {
        const size_t parenthesis = name.find(')');
        const bool is_cast = name[0] == '(' && parenthesis != std::string::npos && parenthesis + 1 < name.size() &&
            name.find('*') < parenthesis;
        name = name.substr(is_cast ? parenthesis + 1 : 1);
    }
    name = name.substr(0, name.find_first_of("<,) "));
    const size_t colon = name.rfind("::");
    return colon == std::string::npos ? name : name.substr(colon + 2);
}
}
