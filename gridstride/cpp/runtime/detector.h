// memcheck, racecheck and initcheck: what they remember, and what happens at an access. The compiler calls
// `__tsan_read4` and the like at every access of the learner's code (hooks.cpp); those calls end in
// Detector::access.
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

// The part of the program that is the learner's: its image, and its thread-local variables of this OS thread.
struct Image {
    uintptr_t base, end, own, own_end, code, code_bytes;
};
Image image_of(void *code);

struct Copy {
    uintptr_t to;
    uint32_t bytes, who, where, group;
};

// The name and the index of an element; without an array no name.
struct Named {
    char name[64];
    int rank;
    long long at[4];
    Field array() const { return {"array", name}; }
    Field index() const { return {"index", at, rank}; }
};

// A plain read and another thread's atomic change of the same word, not ordered. If the next that the reader does with
// the word is a compare-and-swap, that finds out whether the value was stale: no race. Else this is one.
struct HeldRace {
    Code code;
    Named element;
    const char *before, *then;
    int barrier;
    Access earlier, later;
    uint32_t reader;
    uintptr_t a;
    void *frames[24];                      // of the later access
    int depth;
};
constexpr size_t most_held = 16;           // of a thread

// A read of an element that no thread has written so far, and its finding.
struct UnwrittenRead {
    uint32_t who;
    Finding finding;
};

// What the detectors know of one block.
struct BlockClock {
    static constexpr uintptr_t nowhere = ~uintptr_t(0) >> 1;
    uint32_t warp_synced[max_warps];
    // up to when the engines see what a thread, a warp, the block has written, and others: fence.proxy.async
    uint32_t engines_see[max_threads], engines_see_warp[max_warps], engines_see_block = 0;
    VectorClock engines_see_others;
    Access used_by_others = {};            // the last use of the shared memory by another block of the cluster
    // what products of the tensor cores read, by warpgroup and offset, empty before the first; and by warpgroup, when
    // each group was known to be complete, by the first thread that waited
    std::vector<ProductRead> product_reads;
    std::vector<uint32_t> products_over[max_threads / 128];
    // [thread][lane]: up to when a lane's accesses are ordered before the thread's, by barriers of some lanes
    std::vector<uint32_t> partial;
    // what its threads have acquired: each on its own, by a flag, an mbarrier or the like; all by a barrier of the
    // block
    std::vector<ThreadView> views;
    SyncState all;
    bool any_acquired = false;             // has any of them?
    bool acquired_since_barrier = false;   // the block's last barrier
    int barrier_line = 0;                  // of the block's last barrier
    std::unique_ptr<UnwrittenRead> unwritten;              // the first one of shared memory since its last barrier
    // by thread: its asynchronous copies, and how many groups of them it has committed
    struct {
        std::vector<Copy> open;
        uint32_t group;
    } copies[max_threads] = {};
    // what every access needs is close together, here and where a Detector begins
    alignas(64) Worker *w = nullptr;
    uint32_t block_start = 1, block_synced = 1;
    uintptr_t shared_base = nowhere;
    Cells shared_cells;
    size_t low_cells = 0, high_cells = shared_cap / 4;     // which of them belong to arrays: from both ends
    void forget_arrays();
};

struct Detector : BlockClock {
    uint32_t now = 1, launch_start = 1, me = 0, launch_number = 0;
    bool on = false, after_fence = false; // is there a fence right before the atomic access at work?
    bool holds = false;                    // a race in `held`
    // Is an earlier operation of another stream not ordered before this launch? Since when there are such launches
    bool crosses = false;
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
    // Words that the access at work writes, and that others have written without an order: whether it is the same value
    // shows at the next step of the thread, when the store is done.
    struct {
        bool active;
        Access mine;
        std::vector<PendingWrite> words;
        struct {
            uintptr_t a;
            unsigned n;
            uint32_t where;
        } stored;                          // by a thread with an undefined value
        struct {
            uintptr_t a;
            size_t n;
        } range;                           // that the write's hook announced, of a struct
    } pending = {};
    std::vector<HeldRace> held;            // by the thread that has read
    const Launch *launch = nullptr;
    bool has_all_addresses = false;        // are its arguments the only memory that the launch can have addresses of?
    std::unordered_map<uintptr_t, Flag> flags;             // by the word's index
    std::vector<uint32_t> warned_at;
    std::unique_ptr<UnwrittenRead> unwritten_in_launch;    // the first one of memory that other blocks write, too
    struct Saved {
        uintptr_t lo;
        std::vector<char> bytes;
    };
    std::vector<Saved> saved;                              // variables, as they were before the launch wrote them

    struct Scope {                         // the detectors are on from the start of a launch to its end
        explicit Scope(const Launch &);
        ~Scope();
    };

    // The clock (clock.cpp)

    void begin_block(Worker &);
    void enter(Worker &);                  // another block of the cluster goes on
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
    // What happens before the next step of the thread at work: to be released; and what it acquires of another thread
    VectorClock current_clock();
    SyncState release();
    void acquire(const SyncState &);
    SyncState join_views(int from, int to, uint32_t lanes = ~0u);
    // What engines did for `who` before `time` happens before what comes next in a thread that has waited for it, and
    // in one that has synchronized with such a thread since.
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
        return all.acquired.includes(a.who, a.when) || views[me % max_threads].acquired.includes(a.who, a.when);
    }

    static bool is_engine(const Access &a) { return a.where & engine_bit; }
    // Does an earlier access happen before what the thread at work does now? It does if a barrier of the block or the
    // warp came in between, or if the thread has acquired it. `since`: all before is ordered: the launch, or for shared
    // memory the block.
    bool happens_before(const Access &a, uint32_t since) const {
        if (a.when < since) return true;
        if (a.when < launch_start) return !crosses_launches(a);
        const uint32_t mine = me % max_threads;
        if (is_engine(a))
            return any_acquired && (all.waited.includes(a.who, a.when) || views[mine].waited.includes(a.who, a.when));
        if (a.who == me) return true;
        if (a.who / max_threads == me / max_threads) {
            if (a.when < block_synced) return true;
            const uint32_t rank = a.who % max_threads;
            if (rank / 32 == mine / 32 &&
                (a.when < warp_synced[rank / 32] ||
                    (!partial.empty() && a.when < partial[size_t(mine) * 32 + rank % 32])))
                return true;
        }
        return is_acquired(a);
    }
    // Is it a data race? Two accesses of one address, at least one of them a write, neither of which happens before the
    // other. The caller has compared the addresses; two atomics race only if their scopes do not reach each other.
    bool conflicts(
        const Cell &c, const Access &earlier, const Access &later, uint32_t since, uintptr_t a, bool writes) {
        if (earlier.when < since) return false;
        if (earlier.when < launch_start)
            return !(earlier.where & later.where & atomic_bit) && crosses_launches(earlier);
        if (earlier.who == me && !is_engine(earlier)) return false;
        if (earlier.where & later.where & atomic_bit)
            return (earlier.where | later.where) & (narrow_bit | volatile_bit) && !happens_before(earlier, since) &&
                   strong_conflict(earlier, later, a, &earlier == &c.write, writes);
        return !happens_before(earlier, since) && !(earlier.where & atomic_bit && observed(c, earlier, since));
    }
    // Two operations of a program (operations.cpp)

    uint32_t ordered_until() const { return crosses ? unordered_since : launch_start; }
    bool crosses_launches(const Access &earlier) const { return crosses && is_unordered(earlier); }
    bool is_unordered(const Access &earlier) const;
    void acquire_operation(uintptr_t a);
    void cross_operation(uintptr_t a, unsigned n, bool write, uint32_t where);
    void note_crossing_read(Cell &c, const Access &mine);

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
    void landed(const Copy &);
    void has_read(const Copy &);
    void read_by_product(uintptr_t a, uint32_t where, uint32_t group, Access &fine);
    void products_waited_for(uint32_t groups);
    void after_products(const Access &before, const Access &mine, uintptr_t a, unsigned owner);
    void fence_engines();
    bool engines_saw(const Access &) const;
    static bool changes(uint32_t where) { return (where & (atomic_bit | volatile_bit)) == atomic_bit; }
    static bool in_flight(const Access &a) { return a.when == not_completed; }

    // An access

    // The fast path of most accesses of a correct kernel: a word of shared memory, written before the last barrier,
    // read after it, or the other way round. False: `access` decides.
    inline __attribute__((always_inline)) bool plain_shared(uintptr_t off, bool write, uint32_t where) {
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
            if (any_acquired) return false; // a release may have ordered one of the two before this one
            c.read2 = {me, now, where};
        }
        return true;
    }
    // A cell has two readers, of different warps where possible: a barrier of the writer's own warp orders the write
    // after one of them, and the race with the other one is still found. So: are both readers of one warp, and this
    // one of another?
    bool is_of_other_warp(const Cell &c) const {
        return c.read.who / 32 == c.read2.who / 32 && c.read.who / 32 != me / 32;
    }
    // The fast path of global memory: no other thread has used it in this launch, or all that others did was to read.
    bool is_own(const Access &a) const {
        return a.when < launch_start || (a.who == me && !(a.where & (engine_bit | async_bit)));
    }
    inline __attribute__((always_inline)) bool plain_global(uintptr_t a, unsigned n, bool write, uint32_t where) {
        const Piece *p = memory.at(a);
        if (!p || p->usable_in != launch_number || a < p->lo || a + n > p->hi || (write && p->held)) return false;
        Cell *c = cells.words + (a - reinterpret_cast<uintptr_t>(memory.base)) / 4;
        for (const Cell *end = c + n / 4; c < end; c++) {
            if (c->split | !is_own(c->write)) return false;
            if (!write) {
                if (p->fresh && !c->write.when) return false;
                note_plain_read(*c, where);
            } else {
                if (int(!is_own(c->read)) | int(!is_own(c->read2))) return false;
                c->write = {me, now, where};
            }
        }
        return true;
    }
    inline void access(uintptr_t a, unsigned n, bool write, uint32_t where) {
        // a struct is copied in this order: the hook of its write, the hook of its read, the store
        if (__builtin_expect(write && pending.active, 0)) attend(a, n, where);
        const uintptr_t off = a - shared_base;
        if (off < shared_cap) return words(shared_cells, off, n, write, where, a, nullptr);
        if (memory.holds(a)) {
            Piece *p = memory.at(a);
            if (!p || (p->usable_in != launch_number && !is_usable(*p)) || a < p->lo || a + n > p->hi)
                return outside(a, write, where);
            if (write && p->constant) return constant(*p, a, where);
            if (write && p->held) save(*p);
            if (__builtin_expect(crosses, 0)) cross_operation(a, n, write, where);
            return words(cells, a - reinterpret_cast<uintptr_t>(memory.base), n, write, where, a, p);
        }
        if (a - own_stack < stack_bytes || a - builtins < builtin_bytes) return;
        if (Worker *there = w->block_of(reinterpret_cast<const char *>(a)))
            return in_another_block(*there, a, n, write, where);
        elsewhere(a, write, where);
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
    inline void words(Cells &c, uintptr_t off, unsigned n, bool write, uint32_t where, uintptr_t a, Piece *p) {
        while (n) {
            const unsigned part = std::min(n, 4 - unsigned(off % 4));
            Cell &cell = c.words[off / 4];
            if (!p && !cell.owner) return outside_shared(off, write, where);
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
        Cell &c, unsigned owner, bool host_wrote, uintptr_t a, unsigned n, bool write, uint32_t where, Piece *p) {
        const bool by_copy = (where & (line_bit | async_bit)) == (line_bit | async_bit);
        const Access mine = {me, by_copy ? not_completed : now, where};
        const uint32_t since = p ? ordered_until() : block_start;
        if (!write) {
            check_read(c, owner, host_wrote, a, mine, p);
            if (__builtin_expect(crosses && p, 0)) note_crossing_read(c, mine);
            else note_read(c, mine, since);
            return;
        }
        if (__builtin_expect(in_flight(c.write), 0)) too_early(c.write, mine, "written", a, owner, p);
        if (conflicts(c, c.write, mine, since, a, true)) two_writes(c.write, mine, a, n, owner, p);
        for (const Access *r : {&c.read, &c.read2})
            if (conflicts(c, *r, mine, since, a, true))
                race(*r, mine, "read", changes(where) ? "changed atomically" : "written", a, owner, p);
        if (__builtin_expect(c.in_product, 0) && !p) after_products(c.write, mine, a, owner), c.in_product = 0;
        // An atomic change after the thread's own plain write: for other threads the plain write is still a data race.
        if (!(where & atomic_bit && c.write.who == me && c.write.when >= (p ? launch_start : block_synced) &&
                !(c.write.where & atomic_bit)))
            c.write = mine;
    }
    inline void check_read(
        Cell &c, unsigned owner, bool host_wrote, uintptr_t a, const Access &mine, const Piece *p) {
        if (__builtin_expect(in_flight(c.write), 0)) too_early(c.write, mine, "read", a, owner, p);
        if (conflicts(c, c.write, mine, p ? ordered_until() : block_start, a, false))
            race(c.write, mine, "written", "read", a, owner, p);
        if (p ? p->fresh && !c.write.when && !host_wrote && !c.written : c.write.when < block_start)
            read_unwritten(a, owner, mine, p);
        if (__builtin_expect(is_engine(mine), 0) && !p && !engines_saw(c.write)) not_yet_seen(c, mine, a, owner);
    }
    // The read of a change is one with its write. An atomic read after one's own plain one: as above.
    bool is_noted(const Cell &c, const Access &mine) const {
        for (const Access *r : {&c.read, &c.read2})
            if (r->who == me && !(r->where & atomic_bit) && r->when >= block_synced) return true;
        return mine.where & modify_bit;
    }
    // The same of a plain read of global memory in an ordinary block, without a call: only the block's barriers order
    // what its threads have read.
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
    void find(Code, Fields, const Access &at, const Access *other = nullptr, const HeldRace *held = nullptr);
    void describe(Finding &, const Access &at, const Access *other, const HeldRace *held) const;
    void put_line(const Access &, Location &, uintptr_t image) const;
    void put_line(const Access &a, Location &p) const { put_line(a, p, image.base); }
    Named named(uintptr_t a, unsigned owner, const Piece *p) const;

    // racecheck (racecheck.cpp)

    void race(const Access &earlier, const Access &later, const char *before, const char *then, uintptr_t a,
        unsigned owner, const Piece *p);
    bool may_be_checked(const Access &earlier, const Access &later, const char *then) const;
    void hold(HeldRace);
    void swaps(const void *, unsigned bytes);
    void forget_read(Cell &);
    void report_held() {
        if (__builtin_expect(holds, 0)) report_held(0, ~uintptr_t(0));
    }
    __attribute__((noinline, cold)) void report_held(uintptr_t from, uintptr_t to);  // part of no barrier's fast path
    void report_race(const HeldRace &);
    void race_of_operations(
        const Access &earlier, const Access &later, const char *before, const char *then, const Named &x);
    void engine_race(const Access &earlier, const Access &later, const Named &x, const char *before, const char *then);
    void two_writes(
        const Access &earlier, const Access &later, uintptr_t a, unsigned n, unsigned owner, const Piece *p);
    void settle() {
        if (pending.active) settle_pending();
    }
    void settle_pending();
    // Has the thread at work something open, which is to be settled before another goes on?
    bool is_open() const { return __builtin_expect(int(pending.active) | int(holds), 0); }
    __attribute__((noinline, cold)) void close(bool reports);
    // A thread with an undefined value stores something: what it is shows when the store is done.
    void attend(uintptr_t a, unsigned n, uint32_t where) {
        settle_pending();
        if (pending.active) pending.stored = {a, n, where};
    }
    void judge_stored();
    bool has_undefined(const Worker &worker) const {
        return worker.is_undefined(int(me % max_threads));
    }
    void too_early(
        const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Piece *p);
    void too_early_for_engine(
        const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Piece *p);
    void not_yet_seen(const Cell &c, const Access &mine, uintptr_t a, unsigned owner);

    // initcheck (initcheck.cpp)

    void read_unwritten(uintptr_t a, unsigned owner, const Access &at, const Piece *p);
    void judge(std::unique_ptr<UnwrittenRead> &);
    void judge_launch();
    const Finding *cause_of(Kind) const;

    // memcheck (memcheck.cpp)

    // What an access does, as findings name it; what an atomic does first is to read
    static const char *access_of(bool write, uint32_t where) {
        const bool atomic = where & modify_bit || (write && changes(where));
        return atomic ? "atomic" : write ? "write" : "read";
    }
    void begin_arguments();
    bool is_usable(Piece &);
    bool is_address_known(Piece &) const;
    bool is_argument(const Piece &) const;
    bool may_be_meant(Piece &);              // by an access that is out of bounds near it
    std::string arguments_at(uintptr_t a) const;
    void outside(uintptr_t a, bool write, uint32_t where);
    void outside_shared(uintptr_t off, bool write, uint32_t where);
    void elsewhere(uintptr_t a, bool write, uint32_t where);
    void null(bool write, uint32_t where);
    void constant(const Piece &p, uintptr_t a, uint32_t where);
    void misaligned(uintptr_t a, unsigned n, const char *access, uint32_t where);
    [[noreturn]] void misplaced(const void *p, unsigned n, const char *instruction, int line);
    void host_access(uintptr_t a, unsigned n, bool write, bool strong, void *pc);

    // What the host does (detector.cpp)

    void new_array(Worker &worker, const char *name, size_t at, const Shape &s);
    void forget(const Piece &p);
    void save(Piece &);
    void put_back(bool ended);
    void abandon();
    void host_wrote(uintptr_t a, size_t n);
    void end_host() {
        flags.clear();
        warned_at.clear();
    }

private:
    void settled(Access &a, const Copy &c) const {
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
