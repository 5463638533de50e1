// Fences and atomic operations. One of 64 locks, selected by the address, makes an operation atomic
// among OS threads, and a lock in shared memory among processes.
#include <atomic>
#include <sched.h>
#include "detector.h"
#include "ranks.h"
#include "residents.h"
#include "threads.h"

namespace gridstride {

static std::atomic_flag locks[64] = {};
static std::atomic_flag &lock_of(const void *p) { return locks[(reinterpret_cast<uintptr_t>(p) >> 3) % 64]; }

static void clear_locks() {
    for (auto &lock : locks) lock.clear();
}
void fork_atomics(Fork phase) {
    if (phase == Fork::child) clear_locks();
}
// Releases the locks that a stopped launch may have held.
void discard_locks() {
    clear_locks();
    if (has_shared_memory) unlock_all_shared();
}
void atomic_begin(const void *address, int bytes, Use use, Scope scope, Order order, int line) {
    Worker *w = worker;
    if (!w || !w->is_running) return;
    if (use == Use::swap && detector.is_enabled && scope != Scope::thread)
        detector.on_compare_and_swap(address, unsigned(bytes));
    if (use == Use::swap) use = Use::modify;
    // A thread that spins must yield; threads that run in a block loop (block_loops.h) never wait for each other.
    if (!w->runs_loops) {
        const bool spins = use != Use::store && w->is_spinning(address, unsigned(bytes), line_bit | uint32_t(line));
        if (spins || ++w->num_spins % 64 == 0) yield();
    }
    if (detector.has_several_devices && use != Use::load && !w->runs_loops) await_observers(address);
    if (detector.has_peers && use != Use::load) detector.await_peers(address);
    if (has_shared_memory) lock_shared(address);           // before the detector's access to the flag's record
    if (detector.is_enabled) detector.atomic(address, unsigned(bytes), use, scope, order, line_bit | uint32_t(line));
    if (has_several_os_threads)
        for (int tries = 0; lock_of(address).test_and_set(std::memory_order_acquire);)
            if (++tries % 1000 == 0) sched_yield();        // its holder may wait for a processor
}
void atomic_end(const void *address) {
    if (has_shared_memory && on_device()) unlock_shared(address);
    if (has_several_os_threads && on_device()) lock_of(address).clear(std::memory_order_release);
}
void fence(Scope scope, Order order) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (detector.is_enabled && on_device()) detector.fence(scope, order);
    if (on_device() && ++worker->num_spins % 64 == 0) yield();
}
}
