// The state of memcheck, racecheck and initcheck, and what they do at an access. The compiler instruments every access
// of the learner's code with a call of `__tsan_read4` or the like (hooks.cpp), which calls Detector::access.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string.h>
#include <unordered_map>
#include <vector>
#include "vector_clock.h"
#include "memory.h"
#include "shadow.h"
#include "state.h"
#include "worker.h"

namespace gridstride {

// The address ranges of the learner's module: all of it, its thread-local variables in this OS thread, its code
struct Image {
    uintptr_t base, end, own, own_end, code, code_bytes;
};
Image image_of(void *code);

struct Copy {                              // an asynchronous copy, not completed
    uintptr_t to;
    uint32_t bytes, who, where, group;
};

// The name of an array and the index of one of its elements; the name is empty if there is no array.
struct ElementName {
    char name[64];
    int rank;
    long long at[4];
    Field array() const { return {"array", name}; }
    Field index() const { return {"index", at, rank}; }
};

// A possible data race between a plain read and another thread's atomic read-modify-write. If the reader's next access
// of the word is a compare-and-swap, which validates the value, it is not reported. Otherwise it is.
struct DeferredRace {
    Code code;
    ElementName element;
    const char *before, *then;
    int barrier;
    Access earlier, later;
    uint32_t reader;
    uintptr_t a;
    void *frames[24];                      // the call stack of the later access
    int depth;
};
constexpr size_t max_deferred_races = 16;  // per thread

// A read of an element that no thread has written before, and its finding
struct UnwrittenRead {
    uint32_t who;
    Finding finding;
};

// The state of the detectors for one block
struct BlockClock {
    static constexpr uintptr_t nowhere = ~uintptr_t(0) >> 1;
    uint32_t warp_synced[max_warps];
    // Times of the last fence.proxy.async: the engines see earlier writes of a thread, of a warp, of the block, of
    // others.
    uint32_t proxy_fenced[max_threads], proxy_fenced_warp[max_warps], proxy_fenced_block = 0;
    VectorClock proxy_fenced_others;
    Access used_by_others = {};            // the last access of the shared memory by another block of the cluster
    // The reads of shared memory by wgmma, by warpgroup and offset (empty before the first wgmma). Per warpgroup, the
    // times at which a thread first waited for the groups of products.
    std::vector<ProductRead> product_reads;
    std::vector<uint32_t> products_completed[max_threads / 128];
    // [thread][lane]: the accesses of a lane before this time happen before those of the thread, by barriers of some
    // lanes
    std::vector<uint32_t> lanes_synced;
    // The state that threads have acquired: `views` each thread by itself, by a flag, an mbarrier or the like;
    // `block_view` all threads, by a barrier of the block
    std::vector<ThreadView> views;
    SyncState block_view;
    bool any_acquired = false;             // has any thread, in this block?
    bool acquired_since_barrier = false;   // the last barrier of the block
    int barrier_line = 0;                  // of the last barrier of the block
    std::unique_ptr<UnwrittenRead> unwritten;              // the first one in shared memory since the last barrier
    // by thread: its asynchronous copies in flight, and the number of groups that it has committed
    struct {
        std::vector<Copy> open;
        uint32_t group;
    } copies[max_threads] = {};
    // The fields that every access needs are adjacent, here and at the begin of Detector, to share cache lines.
    alignas(64) Worker *w = nullptr;
    uint32_t block_start = 1, block_synced = 1;
    uintptr_t shared_base = nowhere;
    Cells shared_cells;
    size_t low_cells = 0, high_cells = shared_cap / 4;     // the cells of arrays are those below and above
    void forget_arrays();
};

struct Detector : BlockClock {
    uint32_t now = 1, launch_start = 1, me = 0, launch_number = 0;
    bool on = false, after_fence = false; // is there a fence right before the current atomic access?
    bool has_deferred_races = false;                    // is `deferred_races` not empty?
    // Is an earlier operation of another stream not ordered before this launch? The time of the first such launch
    bool has_unordered = false;
    uint32_t unordered_since = 1;
    Image image = {};
    Cells cells;
    uintptr_t own_stack = 0, builtins = 0, builtin_bytes = 0;
    struct PendingWrite {
        uintptr_t a;
        unsigned n;
        char old[4];
        Access other;
    };
    // The words that the current access writes and that another thread has written, unordered. The hook runs before the
    // store, so whether both write the same value is known at the next step of the thread.
    struct {
        bool active;
        Access mine;
        std::vector<PendingWrite> words;
        struct {
            uintptr_t a;
            unsigned n;
            uint32_t where;
        } stored;                          // a store by a thread with an undefined value
        struct {
            uintptr_t a;
            size_t n;
        } range;                           // of a struct, as the hook of its write announced it
    } pending = {};
    std::vector<DeferredRace> deferred_races;
    const Launch *launch = nullptr;
    bool has_all_addresses = false;        // are its arguments the only memory that the launch can have addresses of?
    std::unordered_map<uintptr_t, Flag> flags;             // by index of the word
    std::vector<uint32_t> warned_at;
    std::unique_ptr<UnwrittenRead> unwritten_in_launch;    // the first one in memory that other blocks may write
    struct SavedVariable {
        uintptr_t lo;
        std::vector<char> bytes;
    };
    // device variables, before the launch wrote them
    std::vector<SavedVariable> saved_variables;

    struct Scope {                         // enables the detectors for a launch
        explicit Scope(const Launch &);
        ~Scope();
    };

    // The clock (clock.cpp)

    void begin_block(Worker &);
    void enter(Worker &);                  // switches to the state of another block
    static uint32_t thread_number(const Worker &worker, int rank) {
        return (uint32_t(worker.block) + 1) * max_threads + uint32_t(rank);
    }
    void begin_thread(Worker &worker) {
        if (!on) return;
        me = thread_number(worker, worker.rank[worker.current]);
        own_stack = reinterpret_cast<uintptr_t>(worker.fiber[worker.current]->stack);
        if (__builtin_expect(worker.values_undefined, 0)) pending.active = has_undefined(worker);
    }
    void block_barrier(Worker &);
    void warp_barrier(Worker &, int warp, uint32_t lanes);
    void fence(gridstride::Scope, Order);
    // `release` returns the state that the current thread releases; `acquire` joins a released state to its own.
    VectorClock current_clock();
    SyncState release();
    void acquire(const SyncState &);
    SyncState join_views(int from, int to, uint32_t lanes = ~0u);
    // The current thread has waited for requests of thread `who`: what the engines did for these before `time` happens
    // before its next accesses, and before those of threads that synchronize with it later.
    void wait_for_engine(uint32_t who, uint32_t time) {
        view().waited.add(who, {time, 0, 0});
    }
    ThreadView &view() {
        if (views.empty()) views.resize(size_t(w->n));
        any_acquired = acquired_since_barrier = true;
        return views[me % max_threads];
    }
    ThreadView &current_view() {
        ThreadView &s = views[me % max_threads];
        s.apply_fence(me);
        return s;
    }
    bool is_acquired(const Access &a) const { return any_acquired && clocks_include(a); }
    __attribute__((noinline)) bool clocks_include(const Access &a) const {
        return block_view.acquired.includes(a.who, a.when) || views[me % max_threads].acquired.includes(a.who, a.when);
    }

    static bool is_engine(const Access &a) { return a.where & engine_bit; }
    // Does an earlier access happen before the next access of the current thread? It does if a barrier of the block or
    // the warp came in between, or if the thread has acquired it. All accesses before time `since` do: it is the start
    // of the launch, or for shared memory of the block.
    bool happens_before(const Access &a, uint32_t since) const {
        if (a.when < since) return true;
        if (a.when < launch_start) return !from_unordered_launch(a);
        const uint32_t mine = me % max_threads;
        if (is_engine(a))
            return any_acquired &&
                   (block_view.waited.includes(a.who, a.when) || views[mine].waited.includes(a.who, a.when));
        if (a.who == me) return true;
        if (a.who / max_threads == me / max_threads) {
            if (a.when < block_synced) return true;
            const uint32_t rank = a.who % max_threads;
            if (rank / 32 == mine / 32 &&
                (a.when < warp_synced[rank / 32] ||
                    (!lanes_synced.empty() && a.when < lanes_synced[size_t(mine) * 32 + rank % 32])))
                return true;
        }
        return is_acquired(a);
    }
    // Are two accesses of one address, at least one of them a write, a data race, so that neither happens before the
    // other? The caller has compared the addresses. Two atomics race only if their scopes do not include each other.
    bool conflicts(
        const Cell &c, const Access &earlier, const Access &later, uint32_t since, uintptr_t a, bool writes) {
        if (earlier.when < since) return false;
        if (earlier.when < launch_start)
            return !(earlier.where & later.where & atomic_bit) && from_unordered_launch(earlier);
        if (earlier.who == me && !is_engine(earlier)) return false;
        if (earlier.where & later.where & atomic_bit)
            return (earlier.where | later.where) & (narrow_bit | volatile_bit) && !happens_before(earlier, since) &&
                   strong_conflict(earlier, later, a, &earlier == &c.write, writes);
        return !happens_before(earlier, since) && !(earlier.where & atomic_bit && observed(c, earlier, since));
    }
    // Races of launches and copies (operations.cpp)

    uint32_t ordered_until() const { return has_unordered ? unordered_since : launch_start; }
    bool from_unordered_launch(const Access &earlier) const { return has_unordered && is_unordered(earlier); }
    bool is_unordered(const Access &earlier) const;
    void acquire_operation(uintptr_t a);
    void check_operations(uintptr_t a, unsigned n, bool write, uint32_t where);
    void note_read_across_launches(Cell &c, const Access &mine);

    bool strong_conflict(const Access &earlier, const Access &later, uintptr_t a, bool wrote, bool writes);
    bool observed(const Cell &, const Access &earlier, uint32_t since);

    // Flags (order.cpp)

    bool is_shared(const void *p) const {
        return reinterpret_cast<uintptr_t>(p) - shared_base < shared_cap || w->block_of(static_cast<const char *>(p));
    }
    Flag *flag_at(uintptr_t a);
    void on_atomic_load(uintptr_t a, gridstride::Scope, bool acquires);
    void on_atomic_store(uintptr_t a, Use, gridstride::Scope, bool releases);

    // Asynchronous copies (copies.cpp)

    void copy(uintptr_t to, uintptr_t from, unsigned bytes, unsigned read, uint32_t where);
    void commit() { copies[me % max_threads].group++; }
    void wait_for_copies(unsigned groups);
    void complete_copy(const Copy &);
    void complete_reads(const Copy &);
    void read_by_product(uintptr_t a, uint32_t where, uint32_t group, Access &fine);
    void complete_products(uint32_t groups);
    void check_product_reads(const Access &before, const Access &mine, uintptr_t a, unsigned owner);
    void fence_proxy();
    bool is_proxy_fenced(const Access &) const;
    static bool changes(uint32_t where) { return (where & (atomic_bit | volatile_bit)) == atomic_bit; }
    static bool in_flight(const Access &a) { return a.when == not_completed; }

    // An access

    // The fast path of most accesses of correct kernels: a word of shared memory is written before the last barrier and
    // read after it, or read before and written after. Returns false if the full check of `access` is needed.
    inline __attribute__((always_inline)) bool fast_shared_access(uintptr_t off, bool write, uint32_t where) {
        Cell &c = shared_cells.words[off / 4];
        if (c.split | !c.owner | (c.write.when >= block_synced)) return false;
        const bool read = c.read.when >= block_synced, read2 = c.read2.when >= block_synced;
        if (write) {
            if (read | read2 | (c.in_product != 0)) return false;
            c.write = {me, now, where};
            return true;
        }
        if (c.write.when < block_start) return false;
        if (!read) c.read = {me, now, where};
        else if (c.read.who == me) c.read.when = now, c.read.where = where;
        else if (w->warps_used) return false;
        else if (!read2) c.read2 = {me, now, where};
        else if (is_of_other_warp(c)) {
            if (any_acquired) return false; // one of the two reads may happen before this one
            c.read2 = {me, now, where};
        }
        return true;
    }
    // Are both reads of a cell by one warp, and is the current thread of another? Then its read replaces one of them: a
    // barrier of one warp may order a later write after the reads of that warp, but the race with the other warp is
    // found.
    bool is_of_other_warp(const Cell &c) const {
        return c.read.who / 32 == c.read2.who / 32 && c.read.who / 32 != me / 32;
    }
    // The fast path of global memory: no other thread has accessed it in this launch, or others have only read it.
    bool is_own(const Access &a) const {
        return a.when < launch_start || (a.who == me && !(a.where & (engine_bit | async_bit)));
    }
    inline __attribute__((always_inline)) bool fast_global_access(uintptr_t a, unsigned n, bool write, uint32_t where) {
        const Allocation *p = memory.at(a);
        if (!p || p->usable_in != launch_number || a < p->lo || a + n > p->hi || (write && p->check_writes))
            return false;
        Cell *c = cells.words + (a - reinterpret_cast<uintptr_t>(memory.base)) / 4;
        for (const Cell *end = c + n / 4; c < end; c++) {
            if (c->split | !is_own(c->write)) return false;
            if (!write) {
                if (p->uninitialized && !c->write.when) return false;
                note_plain_read(*c, where);
            } else {
                if (int(!is_own(c->read)) | int(!is_own(c->read2))) return false;
                c->write = {me, now, where};
            }
        }
        return true;
    }
    inline void access(uintptr_t a, unsigned n, bool write, uint32_t where) {
        // For the copy of a struct, the order is: the hook of its write, the hook of its read, the store.
        if (__builtin_expect(write && pending.active, 0)) note_store(a, n, where);
        const uintptr_t off = a - shared_base;
        if (off < shared_cap) return words(shared_cells, off, n, write, where, a, nullptr);
        if (memory.holds(a)) {
            Allocation *p = memory.at(a);
            if (!p || (p->usable_in != launch_number && !is_usable(*p)) || a < p->lo || a + n > p->hi)
                return report_out_of_bounds(a, write, where);
            if (write && p->constant) return report_constant_write(*p, a, where);
            if (write && p->check_writes) save_variable(*p);
            if (__builtin_expect(has_unordered, 0)) check_operations(a, n, write, where);
            return words(cells, a - reinterpret_cast<uintptr_t>(memory.base), n, write, where, a, p);
        }
        if (a - own_stack < stack_bytes || a - builtins < builtin_bytes) return;
        if (Worker *there = w->block_of(reinterpret_cast<const char *>(a)))
            return in_another_block(*there, a, n, write, where);
        check_other_memory(a, write, where);
    }
    void in_another_block(Worker &there, uintptr_t a, unsigned n, bool write, uint32_t where);
    bool is_begin_acquired(const Worker &there) const;
    const Worker &home_of(uintptr_t a) const {
        const Worker *there = a - shared_base < shared_cap ? w : w->block_of(reinterpret_cast<const char *>(a));
        return there ? *there : *w;
    }
    const Cell &shared_cell(uintptr_t a) const {
        const Worker &home = home_of(a);
        return (&home == w ? shared_cells : home.clock->shared_cells)
            .words[(a - reinterpret_cast<uintptr_t>(home.shared)) / 4];
    }
    inline void words(Cells &c, uintptr_t off, unsigned n, bool write, uint32_t where, uintptr_t a, Allocation *p) {
        while (n) {
            const unsigned part = std::min(n, 4 - unsigned(off % 4));
            Cell &cell = c.words[off / 4];
            if (!p && !cell.owner) return report_out_of_bounds_shared(off, write, where);
            if (part == 4 && !cell.split) touch(cell, cell.owner, cell.written, a, 4, write, where, p);
            else {
                Cell *b = c.bytes + off / 4 * 4;
                if (!cell.split) {
                    for (int i = 0; i < 4; i++) b[i] = cell;
                    cell.split = 1;
                }
                for (unsigned i = 0; i < part; i++)
                    touch(b[off % 4 + i], cell.owner, cell.written, a + i, 1, write, where, p);
            }
            off += part, a += part, n -= part;
        }
    }
    inline void touch(
        Cell &c, unsigned owner, bool host_wrote, uintptr_t a, unsigned n, bool write, uint32_t where, Allocation *p) {
        const bool by_copy = (where & (line_bit | async_bit)) == (line_bit | async_bit);
        const Access mine = {me, by_copy ? not_completed : now, where};
        const uint32_t since = p ? ordered_until() : block_start;
        if (!write) {
            check_read(c, owner, host_wrote, a, mine, p);
            if (__builtin_expect(has_unordered && p, 0)) note_read_across_launches(c, mine);
            else note_read(c, mine, since);
            return;
        }
        if (__builtin_expect(in_flight(c.write), 0)) report_copy_in_flight(c.write, mine, "written", a, owner, p);
        if (conflicts(c, c.write, mine, since, a, true)) note_conflicting_writes(c.write, mine, a, n, owner, p);
        for (const Access *r : {&c.read, &c.read2})
            if (conflicts(c, *r, mine, since, a, true))
                race(*r, mine, "read", changes(where) ? "changed atomically" : "written", a, owner, p);
        if (__builtin_expect(c.in_product, 0) && !p) check_product_reads(c.write, mine, a, owner), c.in_product = 0;
        // An atomic operation after the thread's own plain write is not stored: other threads race with the plain
        // write.
        if (!(where & atomic_bit && c.write.who == me && c.write.when >= (p ? launch_start : block_synced) &&
                !(c.write.where & atomic_bit)))
            c.write = mine;
    }
    inline void check_read(
        Cell &c, unsigned owner, bool host_wrote, uintptr_t a, const Access &mine, const Allocation *p) {
        if (__builtin_expect(in_flight(c.write), 0)) report_copy_in_flight(c.write, mine, "read", a, owner, p);
        if (conflicts(c, c.write, mine, p ? ordered_until() : block_start, a, false))
            race(c.write, mine, "written", "read", a, owner, p);
        if (p ? p->uninitialized && !c.write.when && !host_wrote && !c.written : c.write.when < block_start)
            read_unwritten(a, owner, mine, p);
        if (__builtin_expect(is_engine(mine), 0) && !p && !is_proxy_fenced(c.write))
            report_no_proxy_fence(c, mine, a, owner);
    }
    // Need an atomic read not be stored, as the cell has a plain read of the same thread, or as it is part of a
    // read-modify-write, whose write is stored?
    bool is_noted(const Cell &c, const Access &mine) const {
        for (const Access *r : {&c.read, &c.read2})
            if (r->who == me && !(r->where & atomic_bit) && r->when >= block_synced) return true;
        return mine.where & modify_bit;
    }
    // Is a read not ordered by a barrier of the block before the next access? `note_plain_read` is `note_read` for
    // plain reads of global memory in blocks whose threads synchronize by barriers of the block only; it makes no call.
    bool is_apart(const Access &a) const { return a.when >= block_synced || a.who / max_threads != me / max_threads; }
    inline __attribute__((always_inline)) void note_plain_read(Cell &c, uint32_t where) {
        const Access mine = {me, now, where};
        const bool second = c.read2.when >= launch_start;
        if (c.read.who == me) c.read = mine;
        else if (c.read2.who == me) c.read2 = mine;
        else if (c.read.when < launch_start) c.read = mine;
        else if (any_acquired || w->warps_used || !is_apart(c.read) || (second && !is_apart(c.read2)))
            note_read(c, mine, launch_start);
        else if (!second || is_of_other_warp(c)) c.read2 = mine;
    }
    void note_read(Cell &c, const Access &mine, uint32_t since) {
        if (__builtin_expect(mine.where & (atomic_bit | modify_bit), 0) && is_noted(c, mine)) return;
        if (c.read.who == me) c.read = mine;
        else if (c.read2.who == me) c.read2 = mine;
        else if (happens_before(c.read, since)) c.read = mine;
        else if (happens_before(c.read2, since) || is_of_other_warp(c)) c.read2 = mine;
    }
    void atomic(const void *address, unsigned bytes, Use, gridstride::Scope, Order, uint32_t at);
    void volatile_access(const void *, unsigned bytes, bool write, uint32_t at);

    // Findings (report.cpp)

    static const void *pc_of(uint32_t where, uintptr_t base) {
        return where & line_bit ? nullptr : reinterpret_cast<const void *>(base + (where & location_mask) - 1);
    }
    const void *pc_of(uint32_t where) const { return pc_of(where, image.base); }
    static int line_of(uint32_t where) {
        return where & line_bit ? int(where & location_mask) : 0;
    }
    void find(Code, Fields, const Access &at, const Access *other = nullptr, const DeferredRace *held = nullptr);
    void describe(Finding &, const Access &at, const Access *other, const DeferredRace *held) const;
    void put_line(const Access &, Location &, uintptr_t image) const;
    void put_line(const Access &a, Location &p) const { put_line(a, p, image.base); }
    ElementName element_name(uintptr_t a, unsigned owner, const Allocation *p) const;

    // racecheck (racecheck.cpp)

    void race(const Access &earlier, const Access &later, const char *before, const char *then, uintptr_t a,
        unsigned owner, const Allocation *p);
    bool may_be_validated(const Access &earlier, const Access &later, const char *then) const;
    void defer_race(DeferredRace);
    void on_compare_and_swap(const void *, unsigned bytes);
    void forget_read(Cell &);
    void report_deferred_races() {
        if (__builtin_expect(has_deferred_races, 0)) report_deferred_races(0, ~uintptr_t(0));
    }
    // out of line, so that barriers stay fast
    __attribute__((noinline, cold)) void report_deferred_races(uintptr_t from, uintptr_t to);
    void report_race(const DeferredRace &);
    void race_of_operations(
        const Access &earlier, const Access &later, const char *before, const char *then, const ElementName &x);
    void engine_race(
        const Access &earlier, const Access &later, const ElementName &x, const char *before, const char *then);
    void note_conflicting_writes(
        const Access &earlier, const Access &later, uintptr_t a, unsigned n, unsigned owner, const Allocation *p);
    void finish_pending_writes() {
        if (pending.active) compare_pending_writes();
    }
    void compare_pending_writes();
    // Must `finish_step` run before another thread does?
    bool has_open_step() const { return __builtin_expect(int(pending.active) | int(has_deferred_races), 0); }
    __attribute__((noinline, cold)) void finish_step(bool reports);
    // Notes a store by a thread that has an undefined value: the stored value is checked after the store.
    void note_store(uintptr_t a, unsigned n, uint32_t where) {
        compare_pending_writes();
        if (pending.active) pending.stored = {a, n, where};
    }
    void check_stored_value();
    bool has_undefined(const Worker &worker) const {
        return worker.is_undefined(int(me % max_threads));
    }
    void report_copy_in_flight(
        const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Allocation *p);
    void report_bulk_in_flight(
        const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Allocation *p);
    void report_no_proxy_fence(const Cell &c, const Access &mine, uintptr_t a, unsigned owner);

    // initcheck (initcheck.cpp)

    void read_unwritten(uintptr_t a, unsigned owner, const Access &at, const Allocation *p);
    void report_unwritten(std::unique_ptr<UnwrittenRead> &);
    void report_unwritten_of_launch();
    const Finding *cause_of(Kind) const;

    // memcheck (memcheck.cpp)

    // The name of an access in findings: 'read', 'write' or 'atomic'
    static const char *access_of(bool write, uint32_t where) {
        const bool atomic = where & modify_bit || (write && changes(where));
        return atomic ? "atomic" : write ? "write" : "read";
    }
    void begin_arguments();
    bool is_usable(Allocation &);
    bool is_address_known(Allocation &) const;
    bool is_argument(const Allocation &) const;
    bool may_be_meant(Allocation &);              // by an access that is out of bounds near it
    std::string arguments_at(uintptr_t a) const;
    void report_out_of_bounds(uintptr_t a, bool write, uint32_t where);
    void report_out_of_bounds_shared(uintptr_t off, bool write, uint32_t where);
    void check_other_memory(uintptr_t a, bool write, uint32_t where);
    void report_null(bool write, uint32_t where);
    void report_constant_write(const Allocation &p, uintptr_t a, uint32_t where);
    void report_misaligned(uintptr_t a, unsigned n, const char *access, uint32_t where);
    [[noreturn]] void report_misplaced(const void *p, unsigned n, const char *instruction, int line);
    void host_access(uintptr_t a, unsigned n, bool write, bool strong, void *pc);

    // What the host does (detector.cpp)

    void new_array(Worker &worker, const char *name, size_t at, const Shape &s);
    void forget(const Allocation &p);
    void save_variable(Allocation &);
    void restore_variables(bool ended);
    void abandon();
    void host_wrote(uintptr_t a, size_t n);
    void end_host() {
        flags.clear();
        warned_at.clear();
    }

private:
    void complete_access(Access &a, const Copy &c) const {
        if (in_flight(a) && a.who == c.who && a.where == c.where) a.when = now;
    }
    template <class F> void each_cell(const Copy &c, F f) {
        for (uintptr_t i = c.to - shared_base; i < c.to - shared_base + c.bytes; i += 4)
            if (Cell &word = shared_cells.words[i / 4]; !word.split) f(word);
            else
                for (uintptr_t b = i; b < i + 4; b++) f(shared_cells.bytes[b]);
    }
};
extern Detector detector;
}
