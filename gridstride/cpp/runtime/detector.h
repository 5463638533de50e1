// The state of memcheck, racecheck and initcheck, and their checks at an access. The compiler instruments every access
// of the user's code with a call such as `__tsan_read4` (hooks.cpp), which calls Detector::access.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string.h>
#include <unordered_map>
#include <vector>
#include "block_detector_state.h"
#include "loop_reads.h"
#include "memory.h"
#include "shadow.h"
#include "state.h"
#include "worker.h"

namespace gridstride {

// The address ranges of the user's module: the whole module, its thread-local storage in this OS thread, its code
struct LoadedImage {
    uintptr_t base, end, tls, tls_end, code, code_bytes;
};
LoadedImage image_of(void *code);

struct RunningLaunch;
struct PeerAccess;
struct PeerState;

// Reads of words of shared memory with a constant stride, by a loop (LoopReads). The threads of a block read the same
// tiles, and a barrier of the block orders these reads before all later accesses. So the cells need them only if
// another access conflicts with them before that barrier: `record_ranges` then writes them to the cells.
struct RangeReads {
    uint32_t offset;
    int32_t stride;
    uint32_t count, generation;
    uint32_t tag;                          // as the tag of a word
    uint8_t num_unrecorded;                // how many of the two reads the cells do not contain yet
    bool is_listed;                        // in RangeTable::unrecorded
    Access read, second_read;
    bool is_of(uint32_t o, intptr_t s, size_t c, uint32_t g) const {
        return offset == o && stride == s && count == c && generation == g;
    }
    void begin(uint32_t o, intptr_t s, size_t c, uint32_t g) {
        offset = o, stride = int32_t(s), count = uint32_t(c), generation = g, tag = 0;
    }
};
struct RangeTable {
    static constexpr uint32_t log_sets = 7, size = 2 << log_sets, max_recorded = 1024;
    RangeReads entries[size] = {};
    // An entry of the current generation was checked: its words are written, and a write since was a fast one.
    uint32_t generation = 1;
    bool has_writes = false;               // whether the block has written shared memory since its last barrier
    uint8_t unrecorded[size];              // indices of entries
    uint32_t num_unrecorded = 0;
    uint32_t num_recorded = 0;             // in this launch; its kernel gains nothing if there are many
    RangeReads &find(uint32_t offset, intptr_t stride, size_t count) {
        RangeReads *const set = entries + (offset / 4 * 0x9E3779B1u >> (32 - log_sets)) * 2;
        const bool is_second = set[1].is_of(offset, stride, count, generation);
        return set[is_second || (!set[0].is_of(offset, stride, count, generation) && set[0].num_unrecorded)];
    }
};

// The state of the detectors for one of the running launches
struct LaunchChecks {
    const Launch *launch = nullptr;
    LoadedImage image = {};
    bool has_all_addresses = false;        // whether the arguments contain all addresses that the launch can access
    bool has_unordered_operations = false;
    uint32_t launch_id = 0, unordered_since = 1;
};

struct Detector : BlockDetectorState {
    uint32_t now = 1, launch_start = 1, self = 0, launch_id = 0;
    uint32_t tag_epoch = 0;              // for global memory: tags of an earlier epoch are stale
    bool is_enabled = false;
    bool after_fence = false; // whether a fence directly precedes the current atomic access
    bool has_deferred_races = false;                    // whether `deferred_races` is not empty
    bool has_several_devices = false;    // whether launches of several devices run together
    uint32_t device = 0;                 // of the current launch
    bool has_peers = false;              // whether it shares memory with other processes (peers.cpp)
    // Accesses of other processes that happen before the launch, and before the next one, by flags of earlier launches
    VectorClock peers_before, peers_next;
    unsigned num_timed_out_waits = 0;      // of this launch, for other processes to load a flag
    // Whether any operation of another stream is not ordered before this launch, and the time of the first such
    // operation that is a launch
    bool has_unordered_operations = false;
    uint32_t unordered_since = 1;
    uintptr_t clear_begin = 0, clear_end = 0;              // an address range that no such operation accesses
    LoadedImage image = {};
    Cells cells;
    uintptr_t own_stack = 0, builtins = 0, builtin_bytes = 0;
    struct PendingWrite {
        uintptr_t address;
        unsigned bytes;
        char old[4];
        Access other;
    };
    // The words that the current access and an unordered access by another thread write. The hook runs before the
    // store, so whether both write the same value is checked at the next step of the thread.
    struct {
        bool active;
        Access current;
        std::vector<PendingWrite> words;
        struct {
            uintptr_t address;
            unsigned bytes;
            uint32_t location;
        } store;                           // the last store by a thread with an undefined value
        struct {
            uintptr_t address;
            size_t bytes;
        } range;                           // of a struct write, which its hook has checked
    } pending = {};
    std::vector<DeferredRace> deferred_races;
    RangeTable ranges;
    const Launch *launch = nullptr;
    bool has_all_addresses = false;        // whether the arguments contain all addresses that the launch can access
    std::unordered_map<uintptr_t, Flag> flags;             // key: address / 4
    std::vector<uint32_t> warned_at;                       // locations that already have a warning
    std::unique_ptr<UninitializedRead> uninitialized_in_launch;    // the first in memory that other blocks may write
    struct SavedVariable {
        uintptr_t lo;
        std::vector<char> bytes;
    };
    std::vector<SavedVariable> skipped_writes;             // the old bytes of allowed writes that are out of bounds
    // The contents of device variables before the launch wrote to them
    std::vector<SavedVariable> saved_variables;

    struct Scope {                         // enables the detectors for launches that run together
        explicit Scope(bool has_several_devices);
        ~Scope();
    };

    // The clock (clock.cpp)

    void begin_block(Worker &);
    void enter(Worker &);                  // switches to the state of another block
    static uint32_t thread_id(const Worker &worker, int rank) {
        return (worker.first_block + uint32_t(worker.block) + 1) * max_threads + uint32_t(rank);
    }
    int level_of(gridstride::Scope scope) const {
        return std::min(int(scope) - int(gridstride::Scope::block),
            has_several_devices || has_peers ? system_level : device_level);
    }
    static bool is_of_device_scope(const Access &a) {
        constexpr uint32_t bits = atomic_bit | line_bit | device_bit;
        return (a.location & bits) == bits;
    }
    bool is_same_device(uint32_t thread) const;            // whether this thread runs on the device of the current one
    LaunchChecks launch_checks() const { return {launch, image, has_all_addresses, has_unordered_operations, launch_id,
        unordered_since}; }
    void enter_launch(const LaunchChecks &, uint32_t device_index);
    void begin_launch(const Launch &);
    void begin_after(const SyncState &);   // the block acquires this state before its first access
    void join_blocks(const std::vector<Worker *> &, const VectorClock &all_threads);
    void begin_thread(Worker &worker) {
        if (!is_enabled) return;
        const int rank = worker.rank[worker.current_slot];
        self = thread_id(worker, rank);
        read_key = (read_key & ~uint32_t(max_threads - 1)) | uint32_t(rank);
        own_stack = reinterpret_cast<uintptr_t>(worker.fiber[worker.current_slot]->stack);
        if (__builtin_expect(worker.has_undefined_values, 0)) pending.active = has_undefined(worker);
    }
    void block_barrier(Worker &);
    void warp_barrier(Worker &, int warp, uint32_t lanes);
    void fence(gridstride::Scope, Order);
    // `release` returns the state that the current thread releases; `acquire` joins a released state to its own.
    VectorClock current_clock();
    SyncState release();
    void acquire(const SyncState &);
    SyncState join_views(int from, int to, uint32_t lanes = ~0u);
    // Records that the current thread has waited for requests of `thread`: accesses through the async proxy for these
    // requests before `time` happen before its next accesses, and before those of threads that synchronize with it
    // later.
    void wait_for_async_proxy(uint32_t thread, uint32_t time) {
        view().waited.add(thread, {time, 0, 0});
    }
    ThreadView &view() {
        if (views.empty()) record_ranges(), views.resize(size_t(w->num_threads));
        any_acquired = acquired_since_barrier = true;
        return views[self % max_threads];
    }
    ThreadView &current_view() {
        ThreadView &s = views[self % max_threads];
        s.apply_fence(self);
        return s;
    }
    bool is_acquired(const Access &a) const { return any_acquired && clocks_include(a); }
    __attribute__((noinline)) bool clocks_include(const Access &a) const {
        return block_view.acquired.includes(a.thread, a.time) ||
               views[self % max_threads].acquired.includes(a.thread, a.time);
    }

    static bool is_by_async_proxy(const Access &a) { return a.location & async_proxy_bit; }
    // Returns whether an earlier access happens before the next access of the current thread: if the block or the warp
    // has synchronized in between, or if the thread has acquired it. All accesses before `since` happen before it;
    // `since` is the start of the launch, or, for shared memory, of the block.
    bool happens_before(const Access &a, uint32_t since) const {
        if (a.time < since) return true;
        if (a.time < launch_start) return !from_unordered_launch(a);
        const uint32_t my_rank = self % max_threads;
        if (is_by_async_proxy(a))
            return any_acquired &&
                   (block_view.waited.includes(a.thread, a.time) || views[my_rank].waited.includes(a.thread, a.time));
        if (a.thread == self) return true;
        if (a.thread / max_threads == self / max_threads) {
            if (a.time < block_synced) return true;
            const uint32_t rank = a.thread % max_threads;
            if (rank / 32 == my_rank / 32 &&
                (a.time < warp_synced[rank / 32] ||
                    (!lanes_synced.empty() && a.time < lanes_synced[size_t(my_rank) * 32 + rank % 32])))
                return true;
        }
        return is_acquired(a);
    }
    // Returns whether two accesses of the same address, at least one of them a write, are a data race: neither happens
    // before the other. Two atomics race only if the scope of one does not include the thread of the other.
    bool conflicts(
        const Cell &c, const Access &earlier, const Access &later, uint32_t since, uintptr_t a, bool writes) {
        if (earlier.time < since) return false;
        if (earlier.time < launch_start)
            return !(earlier.location & later.location & atomic_bit) && from_unordered_launch(earlier);
        if (earlier.thread == self && !is_by_async_proxy(earlier)) return false;
        if (earlier.location & later.location & atomic_bit)
            return (earlier.location | later.location) & (block_scope_bit | volatile_bit | device_bit) &&
                   !happens_before(earlier, since) &&
                   strong_conflict(earlier, later, a, &earlier == &c.write, writes);
        return !happens_before(earlier, since) && !(earlier.location & atomic_bit && was_observed(c, earlier, since));
    }
    // Races of launches and copies (operations.cpp)

    uint32_t ordered_until() const { return has_unordered_operations ? unordered_since : launch_start; }
    bool from_unordered_launch(const Access &earlier) const { return has_unordered_operations &&
        is_unordered(earlier); }
    bool is_unordered(const Access &earlier) const;
    // Whether all operations that access these bytes are ordered before this launch; false if unknown
    bool is_clear_of_operations(uintptr_t a, unsigned n) {
        return (a >= clear_begin && a + n <= clear_end) || find_clear_range(a, n);
    }
    bool find_clear_range(uintptr_t a, unsigned n);
    void acquire_operation(uintptr_t a);
    void check_operations(uintptr_t a, unsigned n, bool write, uint32_t location);
    void record_read_across_launches(Cell &c, const Access &current);

    bool strong_conflict(const Access &earlier, const Access &later, uintptr_t a, bool wrote, bool writes);
    bool was_observed(const Cell &, const Access &earlier, uint32_t since);

    // Flags (order.cpp)

    bool is_shared(const void *p) const {
        return reinterpret_cast<uintptr_t>(p) - shared_base < shared_cap || w->block_of(static_cast<const char *>(p));
    }
    Flag *flag_at(uintptr_t a);
    void on_atomic_load(uintptr_t a, gridstride::Scope, bool acquires);
    void on_atomic_store(uintptr_t a, Use, gridstride::Scope, bool releases);

    // Other processes (peers.cpp)

    bool begin_peers();
    void access_peers(const Allocation &, uintptr_t a, unsigned n, bool write, uint32_t location);
    void check_peer(const Allocation &, uint32_t peer, const PeerAccess &, const char *kind, uintptr_t word,
        uint32_t bytes, bool write, uint32_t location);
    void report_peer_race(Code, Fields, const PeerState &, const PeerAccess &earlier, uint32_t location);
    void import_flag(uintptr_t a);       // what other processes have released at this address
    void export_flag(uintptr_t a);
    void load_polled(ThreadView &);
    void await_peers(const void *address);

    // Asynchronous copies (copies.cpp)

    void copy(uintptr_t to, uintptr_t from, unsigned bytes, unsigned num_read, uint32_t location);
    void commit() { copies[self % max_threads].group++; }
    void wait_for_copies(unsigned groups);
    void complete_copy(const Copy &);
    void complete_reads(const Copy &);
    void record_mma_read(uintptr_t a, uint32_t location, uint32_t group, Access &checked_write);
    void issue_with_registers(int warp, uint32_t group);
    void complete_mma_groups(uint32_t groups);
    void read_by_tensor_cores(Worker &holder, uintptr_t a, const OperandRead &, Access &checked_write);
    void check_operand_reads(const Access &previous_write, const Access &write, uintptr_t a, unsigned owner);
    void check_mma_reads(const Access &previous_write, const Access &write, uintptr_t a, unsigned owner);
    void fence_proxy();
    bool is_proxy_fenced(const Access &) const;
    static bool is_atomic_update(uint32_t location) { return (location & (atomic_bit | volatile_bit)) == atomic_bit; }
    static bool in_flight(const Access &a) { return a.time == not_completed; }

    // The fast paths of an access (fast_access.h)

    bool is_settled(const Access &a) const;
    bool fast_shared_access(uintptr_t off, bool write, uint32_t location);
    template <unsigned n, bool write> bool fast_shared_bytes(uintptr_t off, uint32_t location);
    bool fast_shared_accesses(uintptr_t off, unsigned bytes, bool write, uint32_t location);
    void tag_reads(uintptr_t word, const Cell &c);
    uint32_t tag_of(const Access &read, const Access &second_read) const;
    // Returns whether a further read by the current thread would not change the cell of this word.
    inline __attribute__((always_inline)) bool is_tagged(uintptr_t off) const {
        return is_covered(shared_cells.tags[off / 4]);
    }
    inline __attribute__((always_inline)) bool is_covered(uint32_t tag) const {
        const uint32_t distance = tag ^ read_key;
        return (distance - 1 < 31) | ((distance ^ block_tag) - 1 < max_threads - 1);
    }
    // Returns whether both reads of a cell are by the same warp and the current thread is in another warp. Its read
    // then replaces one of them: a barrier of one warp may order a later write after the reads of that warp, but the
    // race with the read of the other warp is found.
    bool is_of_other_warp(const Cell &c) const {
        return c.read.thread / 32 == c.second_read.thread / 32 && c.read.thread / 32 != self / 32;
    }
    bool cannot_conflict(const Access &a, uint32_t since) const;
    bool is_read_by_others(uint32_t tag) const;
    void tag_global_reads(Cell &c);
    void begin_tag_epoch();
    static constexpr uint32_t log_words_of(unsigned n) { return n == 16 ? 2 : n == 8; }
    template <unsigned n> static constexpr uint32_t words_of(unsigned word) { return ((1u << n / 4) - 1) << word; }
    static unsigned word_of(uintptr_t offset) { return offset / 4 % (line_bytes / 4); }
    template <unsigned n, bool write> bool continues_run(Line &line, uintptr_t offset, uint32_t location) const;
    bool may_conflict(const Run &run, unsigned item, uint32_t log_words, uint32_t words, uint32_t since) const;
    template <unsigned n, bool write> bool access_line(Line &line, uintptr_t offset, uint32_t location);
    bool begin_run(Line &, bool write, const Access &, uintptr_t offset, uint32_t words, uint32_t log_words);
    template <unsigned n, bool write> bool is_usable_word(uintptr_t offset, uint32_t written) const;
    template <unsigned n, bool write> bool fast_global_access(uintptr_t offset, uint32_t location);
    template <unsigned n, bool write> bool access_cells(uintptr_t offset, uint32_t location);
    template <unsigned n> bool record_strided_reads(const LoopReads::Read &r, size_t count, uint32_t location);
    template <unsigned n> bool record_global_read(uintptr_t offset, uint32_t location);
    template <unsigned n> bool record_shared_reads(const LoopReads::Read &r, size_t count, uint32_t location);
    template <unsigned n> bool record_shared_words(
        const LoopReads::Read &r, size_t count, RangeReads &range, uint32_t location);
    bool begin_range(RangeReads &, uint32_t offset, intptr_t stride, size_t count, uint32_t location);
    void add_read(RangeReads &, uint32_t location);
    bool can_read_words(uint32_t offset, intptr_t stride, size_t count) const;
    void record_range(RangeReads &);
    void record_shared_read(Cell &, const Access &read) const;
    void record_ranges() {
        if (__builtin_expect(ranges.num_unrecorded, 0)) record_unrecorded_ranges();
    }
    void record_unrecorded_ranges();
    void forget_ranges();

    // The full check of an access

    inline void access(uintptr_t a, unsigned n, bool write, uint32_t location) {
        // The copy of a struct calls the hook of its write, then the hook of its read, then stores.
        if (__builtin_expect(write && pending.active, 0)) record_store(a, n, location);
        const uintptr_t off = a - shared_base;
        if (off < shared_cap) {
            record_ranges(), ranges.generation++, shared_cells.discard_tags(off, n);
            return access_words(shared_cells, off, n, write, location, a, nullptr);
        }
        if (memory.holds(a)) {
            Allocation *p = memory.at(a);
            if (!p || (p->usable_in != launch_id && !is_usable(*p)) || a < p->lo || a + n > p->hi)
                return report_out_of_bounds(a, write, location), skip_allowed_access(a, n, write);
            if (write && p->is_constant)
                return report_constant_write(*p, a, location), skip_allowed_access(a, n, write);
            if (write && p->checks_writes) save_variable(*p);
            if (__builtin_expect(has_unordered_operations, 0)) check_operations(a, n, write, location);
            const uintptr_t offset = a - reinterpret_cast<uintptr_t>(memory.base);
            cells.expand(offset, n);
            cells.discard_tags(offset, n);
            access_words(cells, offset, n, write, location, a, p);
            if (__builtin_expect(p->shared != nullptr, 0) && has_peers) access_peers(*p, a, n, write, location);
            return;
        }
        if (a - own_stack < stack_bytes || a - builtins < builtin_bytes) return;
        if (Worker *block = w->block_of(reinterpret_cast<const char *>(a)))
            return access_other_block(*block, a, n, write, location);
        check_other_memory(a, write, location);
        if (__builtin_expect(memory.surrounds(a), 0)) skip_allowed_access(a, n, write);
    }
    void skip_allowed_access(uintptr_t a, unsigned n, bool write);
    void access_other_block(Worker &block, uintptr_t a, unsigned n, bool write, uint32_t location);
    bool has_acquired_start(const Worker &block) const;
    const Worker &holder_of(uintptr_t a) const {
        const Worker *block = a - shared_base < shared_cap ? w : w->block_of(reinterpret_cast<const char *>(a));
        return block ? *block : *w;
    }
    const Cell &shared_cell(uintptr_t a) const {
        const Worker &holder = holder_of(a);
        return (&holder == w ? shared_cells : holder.detector_state->shared_cells)
            .word_cells[(a - reinterpret_cast<uintptr_t>(holder.shared)) / 4];
    }
    inline void access_words(
        Cells &c, uintptr_t off, unsigned n, bool write, uint32_t location, uintptr_t a, Allocation *p) {
        while (n) {
            const unsigned chunk = std::min(n, 4 - unsigned(off % 4));
            Cell &cell = c.word_cells[off / 4];
            if (!p && !cell.owner)
                return report_out_of_bounds_shared(off, write, location), skip_allowed_access(a, n, write);
            if (chunk == 4 && !cell.has_byte_cells)
                access_cell(cell, cell.owner, cell.written, a, 4, write, location, p);
            else {
                Cell *b = c.byte_cells + off / 4 * 4;
                if (!cell.has_byte_cells) {
                    for (int i = 0; i < 4; i++) b[i] = cell;
                    cell.has_byte_cells = 1;
                }
                for (unsigned i = 0; i < chunk; i++)
                    access_cell(b[off % 4 + i], cell.owner, cell.written, a + i, 1, write, location, p);
            }
            off += chunk, a += chunk, n -= chunk;
        }
    }
    inline void access_cell(
        Cell &c, unsigned owner, bool written_by_host, uintptr_t a, unsigned n, bool write, uint32_t location,
        Allocation *p) {
        const bool by_copy = (location & (line_bit | async_bit)) == (line_bit | async_bit);
        const Access current = {self, by_copy ? not_completed : now, location};
        const uint32_t since = p ? ordered_until() : block_start;
        if (!write) {
            check_read(c, owner, written_by_host, a, current, p);
            if (__builtin_expect(has_unordered_operations && p, 0)) record_read_across_launches(c, current);
            else record_read(c, current, since);
            return;
        }
        if (__builtin_expect(in_flight(c.write), 0)) report_copy_in_flight(c.write, current, "written", a, owner, p);
        if (conflicts(c, c.write, current, since, a, true)) record_conflicting_writes(c.write, current, a, n, owner, p);
        for (const Access *r : {&c.read, &c.second_read})
            if (conflicts(c, *r, current, since, a, true))
                report_race(*r, current, "read", is_atomic_update(location) ? "changed atomically" : "written", a,
                    owner, p);
        if (__builtin_expect(c.read_by_mma, 0) && !p) check_mma_reads(c.write, current, a, owner), c.read_by_mma = 0;
        // An atomic operation does not replace the thread's own plain write, with which other threads may race.
        if (!(location & atomic_bit && c.write.thread == self && c.write.time >= (p ? launch_start : block_synced) &&
                !(c.write.location & atomic_bit)))
            c.write = current;
    }
    inline void check_read(
        Cell &c, unsigned owner, bool written_by_host, uintptr_t a, const Access &current, const Allocation *p) {
        if (__builtin_expect(in_flight(c.write), 0)) report_copy_in_flight(c.write, current, "read", a, owner, p);
        if (conflicts(c, c.write, current, p ? ordered_until() : block_start, a, false))
            report_race(c.write, current, "written", "read", a, owner, p);
        if (p ? p->is_uninitialized && !c.write.time && !written_by_host && !c.written : c.write.time < block_start)
            record_uninitialized_read(a, owner, current, p);
        if (__builtin_expect(is_by_async_proxy(current), 0) && !p && !is_proxy_fenced(c.write))
            report_no_proxy_fence(c, current, a, owner);
    }
    // Returns whether an atomic read need not be recorded, because the cell has a plain read of the same thread, or
    // because it is part of a read-modify-write, whose write is recorded.
    bool can_skip_read(const Cell &c, const Access &current) const {
        for (const Access *r : {&c.read, &c.second_read})
            if (r->thread == self && !(r->location & atomic_bit) && r->time >= block_synced) return true;
        return current.location & modify_bit;
    }
    // Returns whether no block-wide barrier orders a read before the next access. `record_plain_read` is `record_read`
    // for plain reads of global memory in blocks whose threads synchronize only by block-wide barriers; the common case
    // calls no function.
    bool is_unordered_by_barriers(const Access &a) const {
        return a.time >= block_synced || a.thread / max_threads != self / max_threads;
    }
    inline __attribute__((always_inline)) void record_plain_read(Cell &c, uint32_t location, bool is_by_bytes) {
        const Access current = {self, now, location};
        const bool second = c.second_read.time >= launch_start;
        if (c.read.thread == self) c.read = current;
        else if (c.second_read.thread == self) c.second_read = current;
        else if (c.read.time < launch_start) c.read = current;
        else if (any_acquired || w->uses_warps || !is_unordered_by_barriers(c.read) ||
                 (second && !is_unordered_by_barriers(c.second_read)))
            record_read(c, current, launch_start);
        else if (!second || is_of_other_warp(c)) c.second_read = current;
        else if (!is_by_bytes) tag_global_reads(c);
    }
    void record_read(Cell &c, const Access &current, uint32_t since) {
        if (__builtin_expect(current.location & (atomic_bit | modify_bit), 0) && can_skip_read(c, current)) return;
        if (c.read.thread == self) c.read = current;
        else if (c.second_read.thread == self) c.second_read = current;
        else if (happens_before(c.read, since)) c.read = current;
        else if (happens_before(c.second_read, since) || is_of_other_warp(c)) c.second_read = current;
    }
    void atomic(const void *address, unsigned bytes, Use, gridstride::Scope, Order, uint32_t at);
    void volatile_access(const void *, unsigned bytes, bool write, uint32_t at);

    // Findings (report.cpp)

    static const void *pc_of(uint32_t location, uintptr_t base) {
        return location & line_bit ? nullptr : reinterpret_cast<const void *>(base + (location & location_mask) - 1);
    }
    const void *pc_of(uint32_t location) const { return pc_of(location, image.base); }
    static int line_of(uint32_t location) {
        return location & line_bit ? int(location & (device_bit - 1)) : 0;
    }
    bool is_allowed(Code, const Access &) const;         // whether the user allows this finding
    void report_finding(Code, Fields, const Access &at, const Access *other = nullptr, const DeferredRace *deferred =
        nullptr);
    void describe(Finding &, const Access &at, const Access *other, const DeferredRace *deferred) const;
    void set_line(const Access &, Location &, uintptr_t image) const;
    void set_line(const Access &a, Location &p) const { set_line(a, p, image.base); }
    ElementName element_name(uintptr_t a, unsigned owner, const Allocation *p) const;

    // racecheck (racecheck.cpp)

    void report_race(const Access &earlier, const Access &later, const char *earlier_kind, const char *later_kind,
        uintptr_t a, unsigned owner, const Allocation *p);
    bool may_be_validated(const Access &earlier, const Access &later, const char *later_kind) const;
    void defer_race(DeferredRace);
    void on_compare_and_swap(const void *, unsigned bytes);
    void discard_read(Cell &);
    void report_deferred_races() {
        if (__builtin_expect(has_deferred_races, 0)) report_deferred_races(0, ~uintptr_t(0));
    }
    // out of line, so that barriers stay fast
    __attribute__((noinline, cold)) void report_deferred_races(uintptr_t from, uintptr_t to);
    void report_race(const DeferredRace &);
    void report_operation_race(
        const Access &earlier, const Access &later, const char *earlier_kind, const char *later_kind,
        const ElementName &);
    void report_async_proxy_race(
        const Access &earlier, const Access &later, const ElementName &, const char *earlier_kind,
        const char *later_kind);
    void record_conflicting_writes(
        const Access &earlier, const Access &later, uintptr_t a, unsigned n, unsigned owner, const Allocation *p);
    void finish_pending_writes() {
        if (pending.active) compare_pending_writes();
    }
    void compare_pending_writes();
    void undo_skipped_writes();
    // Returns whether `finish_step` must be called before another thread runs.
    bool has_open_step() const { return __builtin_expect(int(pending.active) | int(has_deferred_races), 0); }
    __attribute__((noinline, cold)) void finish_step(bool reports);
    // Records a store by a thread that has an undefined value; `check_stored_value` checks it after the store.
    void record_store(uintptr_t a, unsigned n, uint32_t location) {
        compare_pending_writes();
        if (pending.active) pending.store = {a, n, location};
    }
    void check_stored_value();
    bool has_undefined(const Worker &worker) const {
        return worker.is_undefined(int(self % max_threads));
    }
    void report_copy_in_flight(
        const Access &copy, const Access &current, const char *later_kind, uintptr_t a, unsigned owner,
        const Allocation *p);
    void report_bulk_in_flight(
        const Access &copy, const Access &current, const char *later_kind, uintptr_t a, unsigned owner,
        const Allocation *p);
    void report_no_proxy_fence(const Cell &c, const Access &current, uintptr_t a, unsigned owner);

    // initcheck (initcheck.cpp)

    void record_uninitialized_read(uintptr_t a, unsigned owner, const Access &at, const Allocation *p);
    void report_uninitialized(std::unique_ptr<UninitializedRead> &);
    void report_uninitialized_of_launch();
    const Finding *cause_of(Kind) const;

    // memcheck (memcheck.cpp)

    // The name of an access in findings: 'read', 'write' or 'atomic'
    static const char *access_name(bool write, uint32_t location) {
        const bool atomic = location & modify_bit || (write && is_atomic_update(location));
        return atomic ? "atomic" : write ? "write" : "read";
    }
    void begin_arguments();
    bool is_usable(Allocation &);
    bool is_of_unreachable_device(const Allocation &) const;
    bool is_address_known(Allocation &) const;
    bool is_argument(const Allocation &) const;
    bool is_possible_target(Allocation &);        // whether an out-of-bounds access near it may have been meant for it
    std::string arguments_at(uintptr_t a) const;
    void report_out_of_bounds(uintptr_t a, bool write, uint32_t location);
    void report_out_of_bounds_shared(uintptr_t off, bool write, uint32_t location);
    void check_other_memory(uintptr_t a, bool write, uint32_t location);
    void report_null(bool write, uint32_t location);
    void report_constant_write(const Allocation &p, uintptr_t a, uint32_t location);
    void report_misaligned(uintptr_t a, unsigned n, const char *access, uint32_t location);
    [[noreturn]] void report_misaligned_operand(const void *p, unsigned n, const char *instruction, int line);
    void check_host_access(uintptr_t a, unsigned n, bool write, bool is_atomic, void *pc);

    // Accesses and allocations of the host (detector.cpp)

    void add_array(Worker &worker, const char *name, size_t offset, const Shape &shape);
    void discard(const Allocation &p);
    void save_variable(Allocation &);
    void restore_variables(bool undo);
    void abandon();
    void record_host_write(uintptr_t a, size_t n);
    void end_host_call() {
        flags.clear();
        warned_at.clear();
    }

private:
    void complete_access(Access &a, const Copy &c) const {
        if (in_flight(a) && a.thread == c.thread && a.location == c.location) a.time = now;
    }
    template <class F> void visit_cells(const Copy &c, F f) {
        const Worker &holder = holder_of(c.to);
        const Cells &holder_cells = &holder == w ? shared_cells : holder.detector_state->shared_cells;
        const uintptr_t begin = c.to - reinterpret_cast<uintptr_t>(holder.shared);
        for (uintptr_t i = begin; i < begin + c.bytes; i += 4)
            if (Cell &word = holder_cells.word_cells[i / 4]; !word.has_byte_cells) f(word);
            else
                for (uintptr_t b = i; b < i + 4; b++) f(holder_cells.byte_cells[b]);
    }
};
extern Detector detector;
}
#include "fast_access.h"
