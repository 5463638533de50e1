// memcheck, racecheck, initcheck and synccheck. The compiler calls `__tsan_read4` and its sisters at every access of the learner's code
// (-fsanitize=thread, without its library).
#pragma once

namespace gridstride {

static void finding_array(const char *name, int rank, const long long *index) {
    snprintf(found.array, sizeof found.array, "%s", name);
    found.rank = rank;
    memcpy(found.index, index, sizeof(long long) * size_t(rank));
}

// What of the learner's code is the program's own: its image, and its variables of this OS thread.
struct Image { uintptr_t base, end, own, own_end; };
static Image image_of(void *code) {
    Dl_info info;
    Image image = {};
    if (!dladdr(code, &info)) return image;
    image.base = image.end = reinterpret_cast<uintptr_t>(info.dli_fbase);
#ifndef __APPLE__                          // there dladdr() answers for each address
    dl_iterate_phdr([](dl_phdr_info *o, size_t, void *p) {
        auto &r = *static_cast<Image *>(p);
        for (int i = 0; i < o->dlpi_phnum && o->dlpi_addr == r.base; i++) {
            const auto &part = o->dlpi_phdr[i];
            if (part.p_type == PT_LOAD) r.end = std::max(r.end, uintptr_t(o->dlpi_addr + part.p_vaddr + part.p_memsz));
            if (part.p_type == PT_TLS) r.own = reinterpret_cast<uintptr_t>(o->dlpi_tls_data), r.own_end = r.own + part.p_memsz;
        }
        return 0;
    }, &image);
#endif
    return image;
}

struct Copy { uintptr_t to; uint32_t bytes, who, where, group; };

// What the detectors know of one block.
struct BlockClock {
    static constexpr uintptr_t nowhere = ~uintptr_t(0) >> 1;
    uint32_t warp_floor[max_warps], fenced[max_threads], acquired[max_threads], waited[max_threads];   // waited: up to when it knows what engines did
    // up to when the engines see what a thread, a warp, the block has written: fence.proxy.async
    uint32_t engines_see[max_threads], engines_see_warp[max_warps], engines_see_block = 0;
    Access used_by_others = {};            // the last use of the shared memory by another block of the cluster
    std::vector<uint32_t> partial;         // [thread][lane]: up to when a lane's accesses are ordered before the thread's, by barriers of some lanes
    bool any_acquired = false;
    struct { const Cell *cell; uintptr_t a; Access at; } suspicion = {};
    struct { std::vector<Copy> open; uint32_t group; } copies[max_threads] = {};   // by thread: its asynchronous copies, and how many groups of them it has committed
    // what every access needs lies close together, here and where a Detector begins
    alignas(64) Worker *w = nullptr;
    uint32_t block_start = 1, block_floor = 1;
    uintptr_t shared_base = nowhere;
    Cells shared_cells;
};

struct Detector : BlockClock {
    uint32_t now = 1, launch_start = 1, me = 0;
    bool on = false;
    struct { bool active; unsigned n; uintptr_t a; char old[16]; Access other, mine; } pending = {};
    Image image = {};
    Cells cells;
    uintptr_t launch_frame = 0, own_stack = 0, builtins = 0, builtin_bytes = 0;
    const Launch *launch = nullptr;
    struct Release { uint32_t device, block_scope, waited; uint64_t block; };
    std::unordered_map<const void *, Release> released;
    std::vector<uint32_t> warned_at;

    struct Scope {                         // the detectors are on from the start of a launch to its end
        explicit Scope(const Launch &);
        ~Scope();
    };

    // The clock

    void begin_block(Worker &worker) {
        if (!on) return;
        w = &worker;
        memset(fenced, 0, sizeof fenced);
        memset(acquired, 0, sizeof acquired);
        memset(engines_see, 0, sizeof engines_see);
        memset(engines_see_warp, 0, sizeof engines_see_warp);
        engines_see_block = 0, used_by_others = {}, suspicion.cell = nullptr;
        memset(waited, 0, sizeof waited);
        any_acquired = false;
        partial.clear();
        for (auto &c : copies) {                // of the block before, or of a launch that was ended
            for (auto &o : c.open) landed(o);
            c.open.clear(), c.group = 0;
        }
        block_start = block_floor = ++now;
        for (auto &f : warp_floor) f = now;
    }
    void enter(Worker &);                  // another block of the cluster goes on
    void begin_thread(Worker &worker) {
        if (!on) return;
        me = (uint32_t(worker.block) + 1) * max_threads + uint32_t(worker.rank[worker.current]);
        own_stack = reinterpret_cast<uintptr_t>(worker.fiber[worker.current]->stack);
    }
    void block_barrier(Worker &worker) {
        if (!on) return;
        judge();
        block_floor = ++now;
        if (!any_acquired) return;
        uint32_t most = 0, known = 0;
        for (int i = 0; i < worker.n; i++) most = std::max(most, acquired[i]), known = std::max(known, waited[i]);
        for (int i = 0; i < worker.n; i++) acquired[i] = most, waited[i] = known;
    }
    void warp_barrier(Worker &worker, int warp, uint32_t lanes) {
        if (!on) return;
        ++now;
        const Warp &p = worker.warps[warp];
        if (lanes == (p.exists & ~p.finished)) warp_floor[warp] = now;
        else {
            partial.resize(size_t(max_threads) * 32, 0);
            uint32_t most[32] = {};
            for (int l = 0; l < 32; l++)
                if (lanes >> l & 1)
                    for (int k = 0; k < 32; k++) most[k] = std::max(lanes >> k & 1 ? now : 0u, std::max(most[k], partial[size_t(warp * 32 + l) * 32 + size_t(k)]));
            for (int l = 0; l < 32; l++)
                if (lanes >> l & 1) memcpy(&partial[size_t(warp * 32 + l) * 32], most, sizeof most);
        }
        if (!any_acquired) return;
        uint32_t most = 0, known = 0;
        for (int i = warp * 32, l = 0; l < 32; l++, i++) if (lanes >> l & 1) most = std::max(most, acquired[i]), known = std::max(known, waited[i]);
        for (int i = warp * 32, l = 0; l < 32; l++, i++) if (lanes >> l & 1) acquired[i] = most, waited[i] = known;
    }
    void fence(Worker &worker, gridstride::Scope s) {
        if (s != gridstride::Scope::thread) fenced[worker.rank[worker.current]] = ++now | (s == gridstride::Scope::block ? line_bit : 0);
    }
    // What engines did is in order for who has waited for them, and for who has met such a thread since.
    void knows(int rank, uint32_t time) {
        waited[rank] = std::max(waited[rank], time);
        any_acquired = true;
    }
    void acquire(int rank, uint32_t time) {
        acquired[rank] = std::max(acquired[rank], time);
        any_acquired = true;
    }

    static bool is_engine(const Access &a) { return a.where & engine_bit; }       // no library is so long that an offset has it
    // `since`: what was before is in order: the launch, or for shared memory the block
    bool ordered(const Access &a, uint32_t since) const {
        if (a.when < since) return true;
        const uint32_t mine = me % max_threads;
        if (is_engine(a)) return a.when < waited[mine];
        if (a.who == me) return true;
        if (a.who / max_threads == me / max_threads) {
            if (a.when < block_floor) return true;
            const uint32_t rank = a.who % max_threads;
            if (rank / 32 == mine / 32 && a.when < std::max(warp_floor[rank / 32], partial.empty() ? 0u : partial[size_t(mine) * 32 + rank % 32])) return true;
        }
        return a.when < acquired[mine];
    }
    bool conflicts(const Access &earlier, const Access &later, uint32_t since) const {
        if (earlier.when < since || (earlier.who == me && !is_engine(earlier))) return false;
        const bool narrow = (earlier.where | later.where) & narrow_bit && earlier.who / max_threads != me / max_threads;
        return (!(earlier.where & later.where & atomic_bit) || narrow) && !ordered(earlier, since);
    }

    // Asynchronous copies

    void copy(uintptr_t to, uintptr_t from, unsigned bytes, unsigned read, uint32_t where) {
        if (read) access(from, read, false, where);
        access(to, bytes, true, where | async_bit);
        auto &mine = copies[me % max_threads];
        mine.open.push_back({to, bytes, me, where | async_bit, mine.group});
    }
    void commit() { copies[me % max_threads].group++; }
    // All but the newest `groups` are over now.
    void wait_for_copies(unsigned groups) {
        auto &mine = copies[me % max_threads];
        size_t n = 0;
        while (n < mine.open.size() && mine.open[n].group + groups < mine.group) landed(mine.open[n++]);
        mine.open.erase(mine.open.begin(), mine.open.begin() + std::ptrdiff_t(n));
    }
    void landed(const Copy &c) {
        each_cell(c, [&](Cell &cell) { settled(cell.write, c); });
    }
    void has_read(const Copy &c) {
        each_cell(c, [&](Cell &cell) { settled(cell.read, c), settled(cell.read2, c); });
    }
    void settled(Access &a, const Copy &c) const { if (in_flight(a) && a.who == c.who && a.where == c.where) a.when = now; }
    template <class F> void each_cell(const Copy &c, F f) {
        for (uintptr_t i = c.to - shared_base; i < c.to - shared_base + c.bytes; i += 4)
            if (Cell &word = shared_cells.words[i / 4]; !word.split) f(word);
            else for (uintptr_t b = i; b < i + 4; b++) f(shared_cells.bytes[b]);
    }
    // A thread's fence.proxy.async: for what it wrote, and for what others wrote that is in order before it.
    void fence_engines() {
        const uint32_t rank = me % max_threads, warp = rank / 32;
        engines_see[rank] = ++now;
        engines_see_warp[warp] = std::max(engines_see_warp[warp], warp_floor[warp]);
        engines_see_block = std::max(engines_see_block, std::max(block_floor, acquired[rank]));
    }
    __attribute__((noinline)) bool engines_saw(const Access &a) const {
        if (a.when < block_start || is_engine(a)) return true;
        const BlockClock *home = this;
        for (const Worker *b : w->leader->cluster) if (b != w && b->block + 1 == a.who / max_threads) home = b->clock;
        const uint32_t rank = a.who % max_threads;
        return a.when < std::max({home->engines_see[rank], home->engines_see_warp[rank / 32], home->engines_see_block, engines_see[me % max_threads]});
    }
    static bool in_flight(const Access &a) { return a.when == under_way; }
    __attribute__((noinline)) void too_early(const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Piece *p) {
        if (!checks(racecheck)) return;
        if (is_engine(copy)) return too_early_for_engine(copy, mine, then, a, owner, p);
        const auto &theirs = copies[copy.who % max_threads];
        const uint32_t now_open = theirs.group;
        const bool committed = std::any_of(theirs.open.begin(), theirs.open.end(), [&](const Copy &c) { return a - c.to < c.bytes && c.where == copy.where && c.group < now_open; });
        const Named x = named(a, owner, p);
        char what[400];
        snprintf(what, sizeof what, "%s is %s while %s asynchronous copy to it may be under way", x.text, then, copy.who == me ? "the thread's own" : "another thread's");
        find(racecheck, what, committed ? "Whoever copies waits for it (cp.async.wait_group, __pipeline_wait_prior), then a __syncthreads() orders it for the others."
                                        : "Whoever copies commits it (cp.async.commit_group, __pipeline_commit) and waits for the group, then a __syncthreads() orders it for the others.",
             mine, &copy, x.name, x.rank, x.index);
    }

    __attribute__((noinline)) void too_early_for_engine(const Access &copy, const Access &mine, const char *then, uintptr_t a, unsigned owner, const Piece *p) {
        const Named x = named(a, owner, p);
        char what[400];
        snprintf(what, sizeof what, "%s is %s while a bulk copy to it may be under way", x.text, then);
        find(racecheck, what, "Wait at the mbarrier that the copy is told to (mbarrier.try_wait), for the phase in which it comes; announce all its bytes there (expect_tx).", mine, &copy, x.name, x.rank, x.index);
    }
    // The engines see what threads have written to shared memory only behind a fence of either the writer or whoever starts them.
    __attribute__((noinline)) void not_yet_seen(const Cell &c, const Access &mine, uintptr_t a, unsigned owner) {
        if (!checks(racecheck)) return;
        const Named x = named(a, owner, nullptr);
        char what[400];
        snprintf(what, sizeof what, "%s is written by a thread, and read by the copy engine or the tensor cores with no fence.proxy.async between", x.text);
        find(racecheck, what, "Whoever wrote it: fence.proxy.async, then the barrier.", mine, &c.write, x.name, x.rank, x.index);
    }

    // An access

    // What most accesses of a correct kernel are: a word of shared memory, written before the last barrier, read after it, or the other way round.
    inline __attribute__((always_inline)) bool plain_shared(uintptr_t off, bool write, uint32_t where) {
        Cell &c = shared_cells.words[off / 4];
        if (c.split | !c.owner | (c.write.when >= block_floor)) return false;
        const bool read = c.read.when >= block_floor, read2 = c.read2.when >= block_floor;
        if (write) {
            if (read | read2) return false;
            c.write = {me, now, where};
            return true;
        }
        if (c.write.when < block_start) return false;
        if (!read) c.read = {me, now, where};
        else if (c.read.who == me) c.read.when = now, c.read.where = where;
        else if (!read2 && !w->warps_used) c.read2 = {me, now, where};
        else return read2 && !w->warps_used && (c.read.who / 32 != c.read2.who / 32 || c.read.who / 32 == me / 32);
        return true;
    }
    inline void access(uintptr_t a, unsigned n, bool write, uint32_t where) {
        if (__builtin_expect(pending.active, 0)) settle();
        const uintptr_t off = a - shared_base;
        if (off < shared_cap) return words(shared_cells, off, n, write, where, a, nullptr);
        if (memory.holds(a)) {
            Piece *p = memory.at(a);
            if (!p || !p->live || a < p->lo || a + n > p->hi) return outside(a, n, write, where);
            if (write && p->constant) return constant(*p, a, where);
            return words(cells, a - reinterpret_cast<uintptr_t>(memory.base), n, write, where, a, p);
        }
        if (a - own_stack < stack_bytes || a - builtins < builtin_bytes) return;
        if (Worker *there = w->block_of(reinterpret_cast<const char *>(a))) return in_another_block(*there, a, n, write, where);
        elsewhere(a, write, where);
    }
    // Shared memory of another block of the cluster.
    __attribute__((noinline)) void in_another_block(Worker &there, uintptr_t a, unsigned n, bool write, uint32_t where) {
        // What is declared at file scope is bound once, to the first block's memory.
        const FileScope &scope = there.file_scopes[image.base];
        const uintptr_t off = a - reinterpret_cast<uintptr_t>(there.shared);
        if (&there == w->leader && (off >= shared_cap - scope.used || (!w->dynamic_met && !scope.dynamic.empty() && off < launch->shared)))
            find(crash, "in clusters the emulator has no __shared__ variables of file scope", "Declare it in the kernel, or in the function that uses it.", {me, now, where}, nullptr, "", 0, nullptr);
        there.clock->used_by_others = {me, now, where};
        words(there.clock->shared_cells, a - reinterpret_cast<uintptr_t>(there.shared), n, write, where, a, nullptr);
    }
    const Worker &home_of(uintptr_t a) const {
        const Worker *there = a - shared_base < shared_cap ? w : w->block_of(reinterpret_cast<const char *>(a));
        return there ? *there : *w;
    }
    const Cell &shared_cell(uintptr_t a) const {
        const Worker &home = home_of(a);
        return (&home == w ? shared_cells : home.clock->shared_cells).words[(a - reinterpret_cast<uintptr_t>(home.shared)) / 4];
    }
    inline void words(Cells &c, uintptr_t off, unsigned n, bool write, uint32_t where, uintptr_t a, Piece *p) {
        while (n) {
            const unsigned part = std::min(n, 4 - unsigned(off % 4));
            Cell &cell = c.words[off / 4];
            if (!p && !cell.owner) return outside_shared(off, write, where);
            if (part == 4 && !cell.split) touch(cell, cell.owner, cell.written, a, 4, write, where, p);
            else {
                Cell *b = c.bytes + off / 4 * 4;
                if (!cell.split) { for (int i = 0; i < 4; i++) b[i] = cell; cell.split = 1; }
                for (unsigned i = 0; i < part; i++) touch(b[off % 4 + i], cell.owner, cell.written, a + i, 1, write, where, p);
            }
            off += part, a += part, n -= part;
        }
    }
    inline void touch(Cell &c, unsigned owner, bool host_wrote, uintptr_t a, unsigned n, bool write, uint32_t where, Piece *p) {
        const Access mine = {me, (where & (line_bit | async_bit)) == (line_bit | async_bit) ? under_way : now, where};
        const uint32_t since = p ? launch_start : block_start;
        if (__builtin_expect(in_flight(c.write), 0)) too_early(c.write, mine, write ? "written" : "read", a, owner, p);
        if (!write) {
            if (conflicts(c.write, mine, since)) race(c.write, mine, "written", "read", a, owner, p);
            if (p ? p->fresh && !c.write.when && !host_wrote && !c.written : c.write.when < block_start) p || is_engine(mine) ? unwritten(a, owner, mine, p) : suspect(c, a, mine);
            if (__builtin_expect(is_engine(mine), 0) && !p && !engines_saw(c.write)) not_yet_seen(c, mine, a, owner);
            note_read(c, mine, since);
            return;
        }
        if (conflicts(c.write, mine, since)) two_writes(c.write, mine, a, n, owner, p);
        for (const Access *r : {&c.read, &c.read2})
            if (conflicts(*r, mine, since)) race(*r, mine, "read", where & atomic_bit ? "changed atomically" : "written", a, owner, p);
        // An atomic change after one's own plain write: for the others the plain one still has nothing between it and them.
        if (!(where & atomic_bit && c.write.who == me && c.write.when >= since && !(c.write.where & atomic_bit))) c.write = mine;
    }
    void note_read(Cell &c, const Access &mine, uint32_t since) {
        if (c.read.who == me) c.read = mine;
        else if (c.read2.who == me) c.read2 = mine;
        else if (ordered(c.read, since)) c.read = mine;
        else if (ordered(c.read2, since) || (c.read.who / 32 == c.read2.who / 32 && me / 32 != c.read.who / 32)) c.read2 = mine;
    }
    void atomic(Worker &worker, const void *address, int bytes, Use use, gridstride::Scope scope, Order order, uint32_t at) {
        const int rank = worker.rank[worker.current];
        const bool writes = use != Use::load;
        const bool released_here = order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
        if (writes && (fenced[rank] || released_here)) {
            Release &r = released[address];
            const bool narrow = released_here && !fenced[rank] ? scope == gridstride::Scope::block : fenced[rank] & line_bit && !released_here;
            ++now;
            if (narrow) r.block_scope = now, r.block = worker.block;
            else r.device = now;
            r.waited = std::max(r.waited, waited[rank]);
        }
        if (auto r = released.find(address); r != released.end()) {
            acquire(rank, r->second.device), knows(rank, r->second.waited);
            if (r->second.block == worker.block) acquire(rank, r->second.block_scope);
        }
        const uint32_t where = atomic_bit | (scope == gridstride::Scope::block || scope == gridstride::Scope::thread ? narrow_bit : 0) | at;
        if (use != Use::store) access(reinterpret_cast<uintptr_t>(address), unsigned(bytes), false, where);
        if (writes) access(reinterpret_cast<uintptr_t>(address), unsigned(bytes), true, where);
        ++now;
    }

    // Findings

    const void *pc_of(uint32_t where) const { return where & line_bit ? nullptr : reinterpret_cast<const void *>(image.base + (where & ~atomic_bit) - 1); }
    static int line_of(uint32_t where) { return where & line_bit ? int(where & ~(atomic_bit | line_bit | narrow_bit | async_bit | engine_bit)) : 0; }
    void find(Kind k, const char *what, const char *mend, const Access &at, const Access *other, const char *array, int rank, const long long *index) {
        if (take_finding(k, what, mend)) {
            snprintf(found.kernel, sizeof found.kernel, "%s", base_name(w->launch->kernel).c_str());
            found.has_who = 1;
            who(*w, int(at.who % max_threads), at.who / max_threads - 1, found.at);
            put_line(at, found.at, found.file, sizeof found.file);
            if (at.when >= now || at.when == under_way) found.called = line_in_kernel(*w);
            finding_array(array, rank, index);
            if (other) {
                found.has_other = 1;
                who(*w, int(other->who % max_threads), other->who / max_threads - 1, found.other);
                put_line(*other, found.other, nullptr, 0);
            }
        }
        end_launch();
    }
    void put_line(const Access &a, Place &p, char *file, size_t size) const {
        if (const int line = line_of(a.where)) p.line = line;
        else locate(pc_of(a.where), p, file, size);
    }
    // The name and the index of the element at `a`, as C writes it.
    struct Named { char text[160]; char name[64]; int rank; long long index[8]; };
    Named named(uintptr_t a, unsigned owner, const Piece *p) const {
        Named r = {};
        if (p) {
            snprintf(r.name, sizeof r.name, "%s", p->name[0] ? p->name : "memory");
            r.rank = 1;
            r.index[0] = (static_cast<long long>(a) - static_cast<long long>(p->lo)) / static_cast<long long>(p->itemsize);
        } else if (owner) {
            const Worker &home = home_of(a);
            const SharedArray &s = home.arrays[owner - 1];
            snprintf(r.name, sizeof r.name, "%s", s.name);
            long long rest = (static_cast<long long>(a - reinterpret_cast<uintptr_t>(home.shared)) - static_cast<long long>(s.offset)) / static_cast<long long>(s.shape.itemsize);
            r.rank = s.shape.rank;
            for (int i = r.rank - 1; i > 0; i--) r.index[i] = rest % static_cast<long long>(s.shape.dims[i]), rest /= static_cast<long long>(s.shape.dims[i]);
            if (r.rank) r.index[0] = rest;
        }
        int n = snprintf(r.text, sizeof r.text, "%s", r.name);
        for (int i = 0; i < r.rank; i++) n += snprintf(r.text + n, sizeof r.text - size_t(n), "[%lld]", r.index[i]);
        return r;
    }
    __attribute__((noinline)) void race(const Access &earlier, const Access &later, const char *before, const char *then, uintptr_t a, unsigned owner, const Piece *p) {
        if (!checks(racecheck)) return;
        const Named x = named(a, owner, p);
        char what[400];
        snprintf(what, sizeof what, "%s is %s by one thread and %s by another, with nothing between", x.text, before, then);
        if (is_engine(earlier) || is_engine(later)) return engine_race(earlier, later, x, before, then);
        const bool within = earlier.who / max_threads == later.who / max_threads;
        find(racecheck, what, within ? "In one block, a __syncthreads() between the two orders them." : "Blocks run in any order: let each write its own place, or use atomicAdd and its kin.", later, &earlier, x.name, x.rank, x.index);
    }
    __attribute__((noinline)) void engine_race(const Access &earlier, const Access &later, const Named &x, const char *before, const char *then) {
        char what[400];
        const bool reads = before[0] == 'r';
        if (is_engine(earlier) && reads)
            snprintf(what, sizeof what, in_flight(earlier) ? "%s is %s while %s may still read it" : "%s is %s, and nothing orders it after what read it: %s", x.text, then, "the tensor cores or the copy engine");
        else snprintf(what, sizeof what, "%s is %s by %s and %s by %s, with nothing between", x.text, before, is_engine(earlier) ? "a bulk copy" : "a thread", then, !is_engine(later) ? "a thread" : then[0] == 'r' ? "the tensor cores or the copy engine" : "a bulk copy");
        find(racecheck, what, is_engine(earlier) && reads ? "Wait for it (wgmma.wait_group, cp.async.bulk.wait_group.read), then tell whoever writes: an mbarrier, or a barrier of the block."
                              : is_engine(earlier) ? "Every thread that uses what a bulk copy brings waits at its mbarrier (mbarrier.try_wait)." : "An mbarrier or a barrier of the block between the two orders them.",
             later, &earlier, x.name, x.rank, x.index);
    }
    // A word of shared memory is read that nobody has written: a race if somebody still does before the next barrier, else it holds no value.
    __attribute__((noinline)) void suspect(const Cell &c, uintptr_t a, const Access &at) {
        if (!suspicion.cell) suspicion = {&c, a, at};
    }
    void judge() {
        if (!suspicion.cell) return;
        const auto s = suspicion;
        suspicion.cell = nullptr;
        unwritten(s.a, shared_cell(s.a).owner, s.at, nullptr);
    }
    // Two threads write one place. Whether they write the same value shows as soon as the second has written it.
    __attribute__((noinline)) void two_writes(const Access &earlier, const Access &later, uintptr_t a, unsigned n, unsigned owner, const Piece *p) {
        if (is_engine(later)) return race(earlier, later, "written", "written", a, owner, p);
        if (later.where & atomic_bit) return race(earlier, later, "written", "changed atomically", a, owner, p);
        if (pending.active) settle();
        pending.a = a, pending.n = n, pending.other = earlier, pending.mine = later, pending.active = true;
        memcpy(pending.old, reinterpret_cast<const void *>(a), n);
    }
    void settle() {
        if (!pending.active) return;
        pending.active = false;
        const Piece *p = memory.at(pending.a);
        const unsigned owner = p ? 0 : shared_cell(pending.a).owner;
        if (memcmp(pending.old, reinterpret_cast<const void *>(pending.a), pending.n)) return race(pending.other, pending.mine, "written", "written", pending.a, owner, p);
        if (!checks(racecheck)) return;
        for (uint32_t where : warned_at) if (where == pending.mine.where) return;
        warned_at.push_back(pending.mine.where);
        if (warned.kind == warning) return;
        const Named x = named(pending.a, owner, p);
        memset(&warned, 0, sizeof warned);
        warned.kind = warning;
        snprintf(warned.kernel, sizeof warned.kernel, "%s", base_name(w->launch->kernel).c_str());
        snprintf(warned.array, sizeof warned.array, "%.63s", x.text);
        put_line(pending.mine, warned.at, warned.file, sizeof warned.file);
    }
    __attribute__((noinline)) void unwritten(uintptr_t a, unsigned owner, const Access &at, const Piece *p) {
        if (!checks(initcheck)) return;
        const Named x = named(a, owner, p);
        char what[300];
        snprintf(what, sizeof what, is_engine(at) ? "%s is read by the tensor cores or the copy engine, and nothing has written it" : "%s is read, and nobody has written it", x.text);
        find(initcheck, what, is_engine(at) ? "If a bulk copy is to bring it: wait at its mbarrier first, and announce all its bytes." : p ? "cudaMalloc and torch::empty do not clear memory: write it, or cudaMemset it first." : "Shared memory starts with what the last block left there: write it, then __syncthreads(), then read.",
             at, nullptr, x.name, x.rank, x.index);
    }
    __attribute__((noinline)) void outside(uintptr_t a, unsigned n, bool write, uint32_t where) {
        if (!checks(memcheck)) return;
        char what[300];
        Piece *p = memory.nearest(a);
        long long index = 0;
        (void)n, (void)write;
        if (!p) snprintf(what, sizeof what, "address %p is in no array", reinterpret_cast<void *>(a));
        else if (!p->live) snprintf(what, sizeof what, "%s is used after cudaFree", p->name[0] ? p->name : "memory");
        else {
            if (a >= p->lo && a < p->hi) a = p->hi;           // it begins inside, and this is the first byte that is not
            const long long item = static_cast<long long>(p->itemsize), d = static_cast<long long>(a) - static_cast<long long>(p->lo);
            index = d < 0 ? -((-d + item - 1) / item) : d / item;
            const char *name = p->name[0] ? p->name : "memory";
            snprintf(what, sizeof what, "%s[%lld] is outside: %s has shape (%zu,)", name, index, name, (p->hi - p->lo) / p->itemsize);
        }
        find(memcheck, what, index < 0 ? "A negative index is the memory before the array." : p && p->live ? "A thread past the end must do nothing: guard it, as in `if (i < n)`." : "", {me, now, where}, nullptr,
             p ? p->name : "", p && p->live, &index);
    }
    __attribute__((noinline)) void outside_shared(uintptr_t off, bool write, uint32_t where) {
        if (!checks(memcheck)) return;
        (void)write;
        const SharedArray *s = nullptr;
        for (auto &o : w->arrays)
            if (o.offset <= off + shared_gap && (!s || o.offset >= s->offset) && (o.offset <= off || !s)) s = &o;
        const bool none = !launch->shared && !w->file_scopes[image.base].dynamic.empty();      // it begins at 0, before all others, and has no bytes
        if (none && s && off < s->offset) s = nullptr;
        char what[300];
        long long index = 0;
        if (s) {
            index = (static_cast<long long>(off) - static_cast<long long>(s->offset)) / static_cast<long long>(s->shape.itemsize);
            char shape[100] = "";
            for (int i = 0, n = 0; i < s->shape.rank; i++) n += snprintf(shape + n, sizeof shape - size_t(n), i ? ", %zu" : "%zu", s->shape.dims[i]);
            snprintf(what, sizeof what, "%s[%lld] is outside: %s has shape (%s%s)", s->name, index, s->name, shape, s->shape.rank == 1 ? "," : "");
        } else snprintf(what, sizeof what, "shared memory is used %s", w->launch->shared ? "outside of its arrays" : "that the launch did not ask for");
        find(memcheck, what, (launch->shared ? s && !s->offset : !s && none) ? "The third number of the launch is the size of dynamic shared memory, in bytes." : "", {me, now, where}, nullptr, s ? s->name : "", s ? 1 : 0, &index);
    }
    // Neither device memory nor the thread's own: constants of the program and what the launch itself keeps are fine, other memory is the host's.
    __attribute__((noinline)) void elsewhere(uintptr_t a, bool write, uint32_t where) {
        if (!checks(memcheck) || (a >= image.base && a < image.end) || (a >= image.own && a < image.own_end)) return;
        if (a < 4096) return null(write, where);
        bool given = false;
        for (int i = 0; i < launch->nargs; i++) {
            const uintptr_t p = reinterpret_cast<uintptr_t>(launch->args[i].pointer);
            given |= p && !memory.holds(p) && a >= p && a - p < size_t(64) << 20;
        }
        Dl_info info;
        if (!given && (a - launch_frame + (size_t(1) << 20) < size_t(2) << 20 || dladdr(reinterpret_cast<void *>(a), &info))) return;
        find(memcheck, write ? "a kernel writes the host's memory" : "a kernel reads the host's memory", "Copy it to the GPU first: cudaMalloc and cudaMemcpy, or a tensor on the GPU.", {me, now, where}, nullptr, "", 0, nullptr);
    }
    __attribute__((noinline)) void null(bool write, uint32_t where) {
        if (checks(memcheck)) find(memcheck, write ? "a null pointer is written" : "a null pointer is read", "An array that was never allocated, or a failed cudaMalloc.", {me, now, where}, nullptr, "", 0, nullptr);
    }
    __attribute__((noinline)) void constant(const Piece &p, uintptr_t a, uint32_t where) {
        const Named x = named(a, 0, &p);
        char what[300];
        snprintf(what, sizeof what, "%s is written, and it is __constant__", x.text);
        if (checks(memcheck)) find(memcheck, what, "The host fills it with cudaMemcpyToSymbol.", {me, now, where}, nullptr, x.name, x.rank, x.index);
    }
    __attribute__((noinline)) void misaligned(uintptr_t a, unsigned n, uint32_t where) {
        if (!checks(memcheck)) return;
        const Named x = named(a, 0, memory.at(a));
        char what[300];
        snprintf(what, sizeof what, "an access of %u bytes at %s is misaligned: the address must be a multiple of %u", n, x.name[0] ? x.text : "shared memory", n);
        find(memcheck, what, "A float4 can be read and written only where the index of its first float is a multiple of 4.", {me, now, where}, nullptr, x.name, x.rank, x.index);
    }

    // An address that an instruction forbids, whatever the type of the pointer: a GPU stops there, too.
    [[noreturn]] __attribute__((noinline)) void misplaced(const void *p, unsigned n, const char *instruction, int line) {
        const uintptr_t a = reinterpret_cast<uintptr_t>(p), off = a - shared_base;
        const Piece *piece = memory.at(a);
        const Named x = on ? named(a, off < shared_cap ? shared_cell(a).owner : 0, piece) : Named{};
        char what[300];
        snprintf(what, sizeof what, "%s: the address of %s is misaligned: it must be a multiple of %u", instruction, x.name[0] ? x.text : piece ? "global memory" : "shared memory", n);
        if (on) find(memcheck, what, "Rows, paddings and offsets must all be multiples of it, in bytes.", {me, now, line_bit | uint32_t(line)}, nullptr, x.name, x.rank, x.index);
        fail(memcheck, what, "Rows, paddings and offsets must all be multiples of it, in bytes.", line);
    }

    // What the host does

    void new_array(Worker &worker, const char *name, size_t at, const Shape &s) {
        if (!on) return;
        worker.arrays.emplace_back(name, at, s);
        for (size_t i = at / 4; i < (at + s.bytes + 3) / 4; i++) shared_cells.words[i].owner = uint16_t(worker.arrays.size());
    }
    void forget(const Piece &p) {
        if (cells.words) cells.forget(p.lo - reinterpret_cast<uintptr_t>(memory.base), p.hi - p.lo);
    }
    void host_wrote(uintptr_t a, size_t n) {
        Piece *p = memory.at(a);
        if (!p || !p->fresh) return;
        if (a == p->lo && a + n == p->hi) { p->fresh = false; return; }
        if (!cells.reserve(memory.size)) return;
        const uintptr_t base = reinterpret_cast<uintptr_t>(memory.base);
        for (uintptr_t i = a; i < a + n;) {
            if (i % 4 == 0 && i + 4 <= a + n) cells.words[(i - base) / 4].written = 1, i += 4;
            else {
                Cell &c = cells.words[(i - base) / 4], *b = cells.bytes + (i - base) / 4 * 4;
                if (!c.split) { for (int k = 0; k < 4; k++) b[k] = c; c.split = 1; }
                b[(i - base) % 4].written = 1, i++;
            }
        }
    }
    void host_access(uintptr_t a, bool write, void *pc) {
        Piece *p = memory.at(a);
        if (p && p->live && p->host) { if (write) p->fresh = false; return; }
        char what[300];
        snprintf(what, sizeof what, "the host %s %s, which is on the GPU", write ? "writes" : "reads", p && p->name[0] ? p->name : "memory");
        fail_at(memcheck, what, "Copy it with cudaMemcpy; only kernels can use a device pointer.", static_cast<char *>(pc) - 1, 0);
    }
    void end_host() { released.clear(); warned_at.clear(); }
};
static Detector detector;

void Detector::enter(Worker &to) {
    if (!on || w == &to) return;
    if (!w->clock) w->clock = new BlockClock();
    if (!to.clock) {
        to.clock = new BlockClock();
        to.clock->w = &to, to.clock->shared_base = reinterpret_cast<uintptr_t>(to.shared);
        if (!to.clock->shared_cells.reserve(shared_cap)) fail(crash, "no addresses are left for the detectors", "A limit on virtual memory (ulimit -v) is in their way; checks=False runs without them.");
    }
    std::swap(*w->clock, static_cast<BlockClock &>(*this));
    std::swap(*to.clock, static_cast<BlockClock &>(*this));
}


Detector::Scope::Scope(const Launch &l) {
    if (!options.checks) return;
    if (!memory.reserve() || !detector.cells.reserve(memory.size) || !detector.shared_cells.reserve(shared_cap)) fail(crash, "no addresses are left for the detectors", "A limit on virtual memory (ulimit -v) is in their way; checks=False runs without them.");
    detector.on = true;
    Worker &w = this_worker();
    detector.w = &w;
    detector.shared_base = reinterpret_cast<uintptr_t>(w.shared);
    detector.launch_start = ++detector.now;
    detector.pending.active = false;
    detector.suspicion.cell = nullptr;
    detector.released.clear();
    for (size_t i = 0; i < (w.shared_used + shared_gap) / 4; i++) detector.shared_cells.words[i] = {};
    detector.image = image_of(reinterpret_cast<void *>(l.thread));
    detector.launch = &l;
    detector.launch_frame = reinterpret_cast<uintptr_t>(&l);
    const uintptr_t builtins[] = {reinterpret_cast<uintptr_t>(&threadIdx), reinterpret_cast<uintptr_t>(&blockIdx), reinterpret_cast<uintptr_t>(&blockDim), reinterpret_cast<uintptr_t>(&gridDim)};
    detector.builtins = *std::min_element(builtins, builtins + 4);
    detector.builtin_bytes = *std::max_element(builtins, builtins + 4) + sizeof(dim3) - detector.builtins;
}
Detector::Scope::~Scope() { detector.on = false, detector.shared_base = nowhere; }

// An index that its array's type forbids. Which array that is stands in the source, at the column.
[[noreturn]] static void fail_index(const char *what, const void *pc, int column, long long index) {
    if (take_finding(memcheck, what, "A thread past the end must do nothing: guard it, as in `if (i < n)`.")) {
        say_who(*worker);
        locate(pc, found.at, found.file, sizeof found.file);
        found.rank = 1, found.index[0] = index, found.column = column;
    }
    end_launch();
}

// synccheck

static void check_barrier(Worker &w) {
    if (!detector.on || !checks(synccheck)) return;
    int here = 0, first = -1, other = -1;
    for (int i = 0; i < w.n; i++)
        if (w.state[w.slot[i]] == at_barrier) { if (first < 0) first = i; }
    for (int i = 0; i < w.n; i++) {
        const bool same = w.state[w.slot[i]] == at_barrier && w.line[i] == w.line[first];
        here += same;
        if (!same && other < 0) other = i;
    }
    if (other < 0) return;
    const bool gone = w.state[w.slot[other]] == done;
    char what[300], t[40];
    Place p = {};
    who(w, other, w.block, p);
    snprintf(t, sizeof t, p.thread[2] ? "(%d,%d,%d)" : p.thread[1] ? "(%d,%d)" : "(%d)", p.thread[0], p.thread[1], p.thread[2]);
    snprintf(what, sizeof what, "%d of the block's %d threads reach this barrier; thread %s %s", here, w.n, t, gone ? "has returned" : "is in another branch");
    w.current = w.slot[first];
    tell(synccheck, what, "All threads of a block must reach it: guard the data, not the barrier.", nullptr, w.line[first]);
    end_launch();
}
// Of the lanes of a warp that wait for all the others, one where most of them are.
static int most_lanes_at_one_line(const Worker &w, int warp) {
    int best = -1, most = 0;
    for (int i = 32 * warp; i < 32 * warp + 32; i++) {
        int here = 0;
        for (int l = 0; l < 32; l++) here += (w.warps[warp].arrived >> l & 1) && w.line[32 * warp + l] == w.line[i];
        if ((w.warps[warp].arrived >> (i % 32) & 1) && w.warps[warp].op[i % 32] == 2 && here > most) best = i, most = here;
    }
    return best;
}
[[noreturn]] void Worker::stuck_on_condition(int r) {
    worker = this;
    current = slot[r], blamed = true;
    if (!on_stack_of(*fiber[current])) switch_fiber(main, *fiber[current]);      // it tells itself, so that the line in the kernel is found
    tell_of_waiting();
}
void Worker::tell_of_waiting() {
    char why[200], what[400];
    const int r = rank[current];
    int n = snprintf(what, sizeof what, "this thread waits ");
    condition[r].says(condition[r].arg, why, sizeof why);
    n += snprintf(what + n, sizeof what - size_t(n), "%s, and no thread can go on", why);
    for (int i = 0; i < this->n; i++) {                     // another one that waits elsewhere
        const int s = slot[i];
        if (state[s] != on_condition || !condition[i].says) continue;
        char other[200];
        condition[i].says(condition[i].arg, other, sizeof other);
        if (!strcmp(other, why)) continue;
        Place p = {};
        who(*this, i, block, p);
        snprintf(what + n, sizeof what - size_t(n), "; thread (%d) waits %s", p.thread[0], other);
        break;
    }
    tell(synccheck, what, "Count who arrives in a phase, the bytes that come, and the parity that is waited for.", nullptr, line[r]);
    end_launch();
}
// No thread can go on, and not all of them wait for the same.
void Worker::stuck() {
    int s = 0;
    for (int i = n - 1; i >= 0; i--) if (state[slot[i]] != done && (state[slot[i]] == in_warp || state[s] != in_warp)) s = slot[i];
    if (state[s] == in_warp && warps[rank[s] / 32].op[rank[s] % 32] == 2) s = slot[most_lanes_at_one_line(*this, rank[s] / 32)];
    const int r = rank[s];
    char what[300];
    current = s;
    if (state[s] == in_warp && warps[r / 32].op[r % 32] == 2) {
        const Warp &p = warps[r / 32];
        const char *name = p.what[r % 32];
        int other = 0;
        while (p.arrived >> other & 1 && p.op[other] == 2 && line[r / 32 * 32 + other] == line[r] && p.f[other] == p.f[r % 32]) other++;
        const int o = r / 32 * 32 + other;
        const bool exists = p.exists >> other & 1, waits = exists && state[slot[o]] == on_condition && condition[o].says;
        char why[200] = "waits ";
        if (waits) condition[o].says(condition[o].arg, why + 6, sizeof why - 6);
        snprintf(what, sizeof what, "%s is for all 32 lanes of a warp together: lane %d waits here, lane %d %s", name, r % 32, other,
                 waits ? why : !exists ? "does not exist" : p.finished >> other & 1 ? "has returned" : "is elsewhere");
        tell(synccheck, what, "No branch around it may depend on the lane; blocks are multiples of 32 threads.", nullptr, line[r]);
    } else if (state[s] == in_warp) {
        const Warp &p = warps[r / 32];
        const uint32_t missing = p.mask[r % 32] & p.exists & ~p.finished & ~p.arrived;
        for (uint32_t left = missing; left; left &= left - 1)    // it waits for a lane that waits for something else
            if (const int o = r / 32 * 32 + __builtin_ctz(left); state[slot[o]] == on_condition && condition[o].says) stuck_on_condition(o);
        if (missing) snprintf(what, sizeof what, "lane %d waits here for the lanes of mask %#x; lane %d is elsewhere", r % 32, p.mask[r % 32], __builtin_ctz(missing));
        else snprintf(what, sizeof what, "the lanes of mask %#x wait at different operations or with different masks", p.mask[r % 32]);
        tell(synccheck, what, "Every lane that the mask names must reach the same call with the same mask.", nullptr, line[r]);
    } else {
        int here = 0;
        for (int i = 0; i < n; i++) here += state[i] == at_barrier;
        for (bool any : {false, true})                      // who waits for the other blocks tells last
            for (int i = 0; i < n; i++)
                if (state[slot[i]] == on_condition && condition[i].says && (any || condition[i].says != waits_for_cluster)) stuck_on_condition(i);
        snprintf(what, sizeof what, state[s] == at_barrier ? "%d of the block's %d threads reach this barrier; the others wait for something else" : "%d of %d threads wait at a barrier, and this one for what never comes", here, n);
        tell(synccheck, what, "All threads of a block must reach it: guard the data, not the barrier.", nullptr, line[r]);
    }
    end_launch();
}
static void wrong_mask(Worker &w, unsigned mask, int line) {
    char what[200];
    snprintf(what, sizeof what, "lane %d is not in the mask %#x that it calls this with", w.rank[w.current] % 32, mask);
    fail(synccheck, what, "A lane may wait only for a group that it belongs to.", line);
}
}

// The compiler's calls

using gridstride::detector;
// The commonest access, without a call. `shared_base` is no address while the detectors are off.
static inline __attribute__((always_inline)) bool quick(const void *p, bool write, void *pc) {
    const uintptr_t off = reinterpret_cast<uintptr_t>(p) - detector.shared_base;
    return off < gridstride::shared_cap && off % 4 == 0 && !detector.pending.active && detector.plain_shared(off, write, uint32_t(reinterpret_cast<uintptr_t>(pc) - detector.image.base));
}
static inline void seen(const volatile void *p, unsigned n, bool write, void *pc) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    if (__builtin_expect(detector.on, 1)) detector.access(a, n, write, uint32_t(reinterpret_cast<uintptr_t>(pc) - detector.image.base));
    else if (gridstride::memory.holds(a) && gridstride::options.checks) detector.host_access(a, write, pc);
}
// A struct of 16 bytes may lie at any multiple of 8; what a vector needs, -fsanitize=alignment knows.
static inline void aligned(const volatile void *p, unsigned n, void *pc) {
    n = std::min(n, 8u);
    if (reinterpret_cast<uintptr_t>(p) % n && detector.on) detector.misaligned(reinterpret_cast<uintptr_t>(p), n, uint32_t(reinterpret_cast<uintptr_t>(pc) - detector.image.base));
}
// PTX counts a volatile access of global memory as a relaxed atomic one; in shared memory it orders nothing.
static inline void seen_volatile(const volatile void *p, unsigned n, bool write, void *pc) {
    if (detector.on && gridstride::memory.at(reinterpret_cast<uintptr_t>(p))) {
        gridstride::yield_thread();
        detector.atomic(*gridstride::worker, const_cast<void *>(p), int(n), write ? gridstride::Use::store : gridstride::Use::load, gridstride::Scope::system, gridstride::Order::relaxed,
                        uint32_t(reinterpret_cast<uintptr_t>(pc) - detector.image.base));
    } else seen(p, n, write, pc);
}
// -fsanitize=bounds and -fsanitize=alignment: what the types say of an index or an address.
struct SourcePlace { const char *file; uint32_t line, column; };
struct TypeName { uint16_t kind, info; char text[1]; };
struct IndexFault { SourcePlace at; const TypeName *array, *index; };
struct PointerFault { SourcePlace at; const TypeName *type; unsigned char log_alignment, check; };
static void wrong_index(const IndexFault *f, uintptr_t index, void *pc) {
    if (!gridstride::on_device() || !gridstride::checks(gridstride::memcheck)) return;
    char what[300];
    snprintf(what, sizeof what, "index %lld is outside of %s", static_cast<long long>(static_cast<int>(index)), f->array->text);
    gridstride::fail_index(what, static_cast<char *>(pc) - 1, int(f->at.column), static_cast<int>(index));
}
static void wrong_address(const PointerFault *f, uintptr_t a, void *pc) {
    if (!gridstride::on_device() || a % (size_t(1) << f->log_alignment) == 0) return;
    detector.misaligned(a, 1u << f->log_alignment, uint32_t(reinterpret_cast<uintptr_t>(pc) - detector.image.base));
}
extern "C" {
GRIDSTRIDE_API void __ubsan_handle_out_of_bounds(IndexFault *f, uintptr_t i) { wrong_index(f, i, __builtin_return_address(0)); }
GRIDSTRIDE_API void __ubsan_handle_out_of_bounds_abort(IndexFault *f, uintptr_t i) { wrong_index(f, i, __builtin_return_address(0)); }
GRIDSTRIDE_API void __ubsan_handle_missing_return(SourcePlace *f) { gridstride::fail_at(gridstride::crash, "a function that promises a result ends without `return`", "", nullptr, int(f->line)); }
GRIDSTRIDE_API void __ubsan_handle_type_mismatch_v1(PointerFault *f, uintptr_t a) { wrong_address(f, a, __builtin_return_address(0)); }
GRIDSTRIDE_API void __ubsan_handle_type_mismatch_v1_abort(PointerFault *f, uintptr_t a) { wrong_address(f, a, __builtin_return_address(0)); }
#define PC __builtin_return_address(0)
#define GRIDSTRIDE_HOOKS(n) \
    GRIDSTRIDE_API void __tsan_read##n(void *p) { if (n == 4 && quick(p, false, PC)) return; aligned(p, n, PC); seen(p, n, false, PC); } \
    GRIDSTRIDE_API void __tsan_write##n(void *p) { if (n == 4 && quick(p, true, PC)) return; aligned(p, n, PC); seen(p, n, true, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_read##n(void *p) { seen(p, n, false, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_write##n(void *p) { seen(p, n, true, PC); } \
    GRIDSTRIDE_API void __tsan_volatile_read##n(void *p) { seen_volatile(p, n, false, PC); } \
    GRIDSTRIDE_API void __tsan_volatile_write##n(void *p) { seen_volatile(p, n, true, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_volatile_read##n(void *p) { seen_volatile(p, n, false, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_volatile_write##n(void *p) { seen_volatile(p, n, true, PC); } \
    GRIDSTRIDE_API void __tsan_read##n##_pc(void *p, void *pc) { seen(p, n, false, pc); } \
    GRIDSTRIDE_API void __tsan_write##n##_pc(void *p, void *pc) { seen(p, n, true, pc); } \
    GRIDSTRIDE_API void __tsan_read_write##n(void *p) { seen(p, n, false, PC); seen(p, n, true, PC); } \
    GRIDSTRIDE_API void __tsan_unaligned_read_write##n(void *p) { seen(p, n, false, PC); seen(p, n, true, PC); }
GRIDSTRIDE_HOOKS(1) GRIDSTRIDE_HOOKS(2) GRIDSTRIDE_HOOKS(4) GRIDSTRIDE_HOOKS(8) GRIDSTRIDE_HOOKS(16)
GRIDSTRIDE_API void __tsan_read_range(void *p, size_t n) { seen(p, unsigned(n), false, PC); }
GRIDSTRIDE_API void __tsan_write_range(void *p, size_t n) { seen(p, unsigned(n), true, PC); }
GRIDSTRIDE_API void *__tsan_memcpy(void *a, const void *b, size_t n) { seen(b, unsigned(n), false, PC); seen(a, unsigned(n), true, PC); return memcpy(a, b, n); }
GRIDSTRIDE_API void *__tsan_memmove(void *a, const void *b, size_t n) { seen(b, unsigned(n), false, PC); seen(a, unsigned(n), true, PC); return memmove(a, b, n); }
GRIDSTRIDE_API void *__tsan_memset(void *a, int v, size_t n) { seen(a, unsigned(n), true, PC); return memset(a, v, n); }
GRIDSTRIDE_API void __tsan_init() {}
GRIDSTRIDE_API void __tsan_func_entry(void *) {}
GRIDSTRIDE_API void __tsan_func_exit() {}
GRIDSTRIDE_API void __tsan_vptr_read(void **) {}
GRIDSTRIDE_API void __tsan_vptr_update(void **p, void *v) { (void)p, (void)v; }
GRIDSTRIDE_API void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
GRIDSTRIDE_API void __tsan_atomic_signal_fence(int) {}
#define GRIDSTRIDE_ATOMICS(bits, T) \
    GRIDSTRIDE_API T __tsan_atomic##bits##_load(const volatile T *p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API void __tsan_atomic##bits##_store(volatile T *p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_exchange(volatile T *p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_fetch_add(volatile T *p, T v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_fetch_sub(volatile T *p, T v, int) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_fetch_and(volatile T *p, T v, int) { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_fetch_or(volatile T *p, T v, int) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_fetch_xor(volatile T *p, T v, int) { return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API int __tsan_atomic##bits##_compare_exchange_strong(volatile T *p, T *c, T v, int, int) { return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API int __tsan_atomic##bits##_compare_exchange_weak(volatile T *p, T *c, T v, int, int) { return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); } \
    GRIDSTRIDE_API T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T c, T v, int, int) { __atomic_compare_exchange_n(p, &c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); return c; }
GRIDSTRIDE_ATOMICS(8, uint8_t) GRIDSTRIDE_ATOMICS(16, uint16_t) GRIDSTRIDE_ATOMICS(32, uint32_t) GRIDSTRIDE_ATOMICS(64, uint64_t)
}
