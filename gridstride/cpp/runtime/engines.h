// What a Hopper GPU does beside its threads: mbarriers, bulk copies (TMA), the tensor cores' wgmma; and clusters of blocks.
//
// Copies and products are computed at once. The detectors know that they might not be: what a copy writes and what an engine reads stays
// "under way" until somebody waits for it, and a thread's part of a product is a NaN with a number until the thread has waited.
#pragma once

namespace gridstride {

struct Barrier {                       // an mbarrier
    uint32_t count, left, phase, clock;
    int64_t bytes;                     // still to come
    const char *at;
    int line;
    bool seen;                         // have the engines been told of it, by a fence?
    std::vector<Copy> coming, there;   // copies of this phase; of those before, that nobody has waited for yet
    uint32_t collects = 0, knows = 0;  // what those who arrive know of engines; what those did who arrived in phases before
    uint32_t polls = 0;                // how often somebody has asked in vain
    bool gone = false;                 // made invalid
};
struct Held {                          // a thread's part of d
    std::vector<float *> places;
    std::vector<float> values;
    uint32_t group;
    int line;
    bool given;                        // has the thread waited for it?
};
struct Asked {                         // what one thread has asked for
    std::vector<Held> held;
    std::vector<Copy> reads, stores;   // shared memory that wgmma, or a bulk store, may still read
    std::vector<uint32_t> groups;      // of products: how many there were when each was committed
    uint32_t products = 0, store_groups = 0;
    bool fenced = false;
    const Barrier *tried = nullptr;    // where it tried last, and in vain
    uint32_t tried_phase = 0;
};
struct Engines {
    std::unordered_map<uint32_t, Barrier> barriers;      // by offset in shared memory
    std::vector<Asked> asked = std::vector<Asked>(max_threads);
    struct { uint32_t threads, arrived, phase, clock, knows; } named[16] = {};
    // of the cluster, in its leader
    uint32_t cluster_arrived = 0, cluster_phase = 0, cluster_clock = 0, cluster_knows = 0;
    std::vector<uint32_t> cluster_turn;                  // by block and thread: 1 + the phase that it arrived in, until it has waited
};

static Engines &engines_of(Worker &w) {
    if (!w.engines) w.engines = new Engines(), engines_of(*w.leader);
    return *w.engines;
}
static Asked &asked() { return engines_of(*worker).asked[size_t(current_rank())]; }
static uint32_t engine_line(int line) { return line_bit | async_bit | engine_bit | uint32_t(line); }

// Shared memory of a cluster

Worker *Worker::block_of(const char *p) const {
    for (Worker *b : leader->cluster) if (size_t(p - b->shared) < shared_cap) return b;
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
    if (rank >= cluster_blocks()) {
        char text[160];
        snprintf(text, sizeof text, "mapa: there is no block %u in a cluster of %u", rank, cluster_blocks());
        fail(memcheck, text, "Ranks count from 0 to %cluster_nctarank - 1; __cluster_dims__ says how many blocks are in a cluster.", line);
    }
    return (rank + 1) * block_window + address % block_window;
}
static const char *const ends_late = "A block stays until the others need it no more: barrier.cluster.arrive and .wait at the end.";
// The block whose shared memory has the address, which must still be there.
static Worker &block_at(uint32_t address, int line) {
    const uint32_t rank = address / block_window;
    if (!rank || worker->leader->cluster.empty()) return *worker;
    Worker &there = *worker->leader->cluster[std::min(size_t(rank - 1), worker->leader->cluster.size() - 1)];
    if (!there.next)
        fail(racecheck, "shared memory of a block of the cluster is used that may not have begun", "barrier.cluster.arrive and .wait come before the first use of another block's shared memory.", line);
    if (!there.live && there.next == there.n)
        fail(memcheck, "shared memory of a block of the cluster that has ended is used", ends_late, line);
    return there;
}

static bool cluster_complete(Worker &leader) {
    uint32_t live = 0;
    if (leader.cluster.empty()) live = uint32_t(leader.live);
    else for (Worker *b : leader.cluster) live += uint32_t(b->live);
    Engines &e = engines_of(leader);
    if (e.cluster_arrived < live) return false;
    e.cluster_arrived = 0, e.cluster_phase++;
    if (detector.on) e.cluster_clock = ++detector.now;
    return true;
}
static uint32_t &turn_of_thread() {
    auto &turns = engines_of(*worker->leader).cluster_turn;
    if (turns.empty()) turns.resize(cluster_blocks() * max_threads);
    return turns[cluster_rank() * max_threads + uint32_t(current_rank())];
}
void cluster_arrive(int line) {
    Engines &e = engines_of(*worker->leader);
    uint32_t &turn = turn_of_thread();
    if (turn) fail(synccheck, "a thread arrives twice at the cluster's barrier without waiting between", "barrier.cluster.arrive and barrier.cluster.wait come in pairs.", line);
    turn = e.cluster_phase + 1;
    if (detector.on) e.cluster_knows = std::max(e.cluster_knows, detector.waited[current_rank()]);
    e.cluster_arrived++;
    cluster_complete(*worker->leader);
}
static void waits_for_cluster(void *, char *text, size_t n) { snprintf(text, n, "at the cluster's barrier for threads that do not come"); }
void cluster_wait(int line) {
    struct Wait { Worker *leader; uint32_t turn; } wait{worker->leader, turn_of_thread()};
    if (!wait.turn) fail(synccheck, "a thread waits at the cluster's barrier and has not arrived", "barrier.cluster.arrive and barrier.cluster.wait come in pairs.", line);
    wait_until([](void *p) {
        const auto &x = *static_cast<Wait *>(p);
        return engines_of(*x.leader).cluster_phase >= x.turn || (cluster_complete(*x.leader) && engines_of(*x.leader).cluster_phase >= x.turn);
    }, &wait, line, waits_for_cluster);
    turn_of_thread() = 0;
    const Engines &e = engines_of(*worker->leader);
    if (detector.on) detector.acquire(current_rank(), e.cluster_clock), detector.knows(current_rank(), e.cluster_knows);
}

// Barriers with a number

void named_barrier(uint32_t number, uint32_t threads, bool waits, int line) {
    char text[200];
    if (!number && threads == uint32_t(worker->n) && waits) return sync_block(line);
    if (number > 15 || threads % 32 || !threads) {
        snprintf(text, sizeof text, "barrier %u for %u threads: there are barriers 0 to 15, and whole warps meet at them", number, threads);
        fail(synccheck, text, "", line);
    }
    auto &b = engines_of(*worker).named[number];
    if (b.arrived && b.threads != threads) {
        snprintf(text, sizeof text, "barrier %u is used for %u threads here and for %u by those who wait there", number, threads, b.threads);
        fail(synccheck, text, "All who meet at a barrier give the same number of threads.", line);
    }
    b.threads = threads;
    const uint32_t turn = b.phase;
    if (detector.on) b.knows = std::max(b.knows, detector.waited[current_rank()]);
    if (++b.arrived == threads) {
        b.arrived = 0, b.phase++;
        b.clock = detector.on ? ++detector.now : 0;
    }
    if (!waits) return;
    struct Wait { decltype(&b) barrier; uint32_t turn, number; } wait{&b, turn, number};
    wait_until([](void *p) { const auto &x = *static_cast<Wait *>(p); return x.barrier->phase != x.turn; }, &wait, line, [](void *p, char *text, size_t n) {
        const auto &x = *static_cast<Wait *>(p);
        snprintf(text, n, "at barrier %u, where %u of %u threads are", x.number, x.barrier->arrived, x.barrier->threads);
    });
    if (detector.on) detector.acquire(current_rank(), b.clock), detector.knows(current_rank(), b.knows);
}

// mbarriers

static uint32_t offset_of(uint32_t address) { return address % block_window; }
static void must_be_own(uint32_t at, const char *what, int line) {
    if (&block_at(at, line) == worker) return;
    char text[160];
    snprintf(text, sizeof text, "%s takes the block's own shared memory, and this address is in another block's", what);
    fail(memcheck, text, "Of other blocks' shared memory there are loads, stores, mbarrier.arrive and .expect_tx.", line);
}

static Barrier &barrier_at(uint32_t at, const char *what, int line) {
    Worker &there = block_at(at, line);
    char *p = shared_at(at, 8, what, line);
    if (detector.on) detector.access(reinterpret_cast<uintptr_t>(p), 8, true, atomic_bit | line_bit | uint32_t(line));
    auto &all = engines_of(there).barriers;
    auto found_one = all.find(offset_of(at));
    if (found_one != all.end() && !found_one->second.gone) return found_one->second;
    char text[160];
    snprintf(text, sizeof text, "%s at a place where no mbarrier is", what);
    fail(synccheck, text, "One thread makes it: mbarrier.init, then fence.mbarrier_init, then a barrier of the block (of the cluster, if other blocks use it).", line);
}
static void maybe_over(Barrier &b) {
    if (b.left || b.bytes) return;
    b.left = b.count, b.phase++;
    b.there.insert(b.there.end(), b.coming.begin(), b.coming.end());
    b.coming.clear();
    b.clock = detector.on ? ++detector.now : 0;
    b.knows = b.collects;
}
static void says_what_lacks(const Barrier &b, char *text, size_t size) {
    const long long bytes = static_cast<long long>(b.bytes);
    const uintptr_t a = reinterpret_cast<uintptr_t>(b.at);
    const size_t n = size_t(detector.on ? snprintf(text, size, "at the mbarrier %s, whose phase %u ", detector.named(a, detector.shared_cell(a).owner, nullptr).text, b.phase)
                                        : snprintf(text, size, "at the mbarrier of line %d, whose phase %u ", b.line, b.phase));
    if (bytes < 0) snprintf(text + n, size - n, "got %lld bytes more than it expects", -bytes);
    else if (b.left && bytes) snprintf(text + n, size - n, "lacks %u of %u arrivals and %lld bytes", b.left, b.count, bytes);
    else if (bytes) snprintf(text + n, size - n, "lacks %lld bytes", bytes);
    else snprintf(text + n, size - n, "lacks %u of %u arrivals", b.left, b.count);
}
void mbarrier_init(uint32_t at, uint32_t count, int line) {
    must_be_own(at, "mbarrier.init", line);
    char *p = shared_at(at, 8, "mbarrier.init", line);
    accessed(p, 4, true, line);                          // a plain write: whoever uses the mbarrier must have waited for it
    memcpy(p, &count, 4);
    if (!count || count >= 1u << 20) fail(synccheck, "an mbarrier for no arrival, or for more than 2^20 - 1", "", line);
    engines_of(*worker).barriers[offset_of(at)] = {count, count, 0, 0, 0, p, line, false, {}, {}};
}
void mbarrier_invalidate(uint32_t at, int line) {
    must_be_own(at, "mbarrier.inval", line);
    char *p = shared_at(at, 8, "mbarrier.inval", line);
    accessed(p, 4, true, line);
    memset(p, 0xff, 4);
    barrier_at(at, "mbarrier.inval", line).gone = true;
}
void fence_mbarrier_init() { for (auto &b : engines_of(*worker).barriers) b.second.seen = true; }
void fence_proxy_async() {
    fence_mbarrier_init();
    if (detector.on) detector.fence_engines();
}
void mbarrier_expect(uint32_t at, uint32_t bytes, int line) { barrier_at(at, "mbarrier.expect_tx", line).bytes += bytes; }
uint64_t mbarrier_arrive(uint32_t at, uint32_t count, int line) {
    Barrier &b = barrier_at(at, "mbarrier.arrive", line);
    const uint64_t phase = b.phase;
    if (count > b.left) {
        char text[200];
        snprintf(text, sizeof text, "more threads arrive at an mbarrier than the %u of a phase, which it was made for on line %d", b.count, b.line);
        fail(synccheck, text, "mbarrier.init gets the number of arrivals of one phase.", line);
    }
    b.left -= count;
    if (detector.on) b.collects = std::max(b.collects, detector.waited[current_rank()]);
    maybe_over(b);
    return phase;
}
void mbarrier_drop(uint32_t at, int line) {
    Barrier &b = barrier_at(at, "mbarrier.arrive_drop", line);
    if (b.count) b.count--;
    mbarrier_arrive(at, 1, line);
}
bool mbarrier_over(uint32_t at, uint32_t parity, bool waits, int line) {
    must_be_own(at, "a wait", line);
    Barrier &b = barrier_at(at, "a wait", line);
    struct Wait { const Barrier *b; uint32_t parity; } wait{&b, parity & 1};
    const auto over = [](void *p) { const auto &x = *static_cast<Wait *>(p); return (x.b->phase & 1) != x.parity; };
    if (!waits && !over(&wait)) {
        yield_thread();
        if (!over(&wait) && ++b.polls < 100000) return false;    // else nobody does anything but ask: as if it waited
    }
    wait_until(over, &wait, line, [](void *p, char *text, size_t n) { says_what_lacks(*static_cast<Wait *>(p)->b, text, n); });
    b.polls = 0;
    if (!detector.on) { b.there.clear(); return true; }
    if (!b.there.empty()) {
        for (const Copy &c : b.there) detector.landed(c);
        b.there.clear();
        b.clock = b.knows = ++detector.now;
    }
    detector.acquire(current_rank(), b.clock), detector.knows(current_rank(), b.knows);
    return true;
}
// mbarrier.try_wait may come back in vain. Here it does the first time, so that a thread may look and then do something else; the second time it waits.
bool mbarrier_try(uint32_t at, uint32_t parity, int line) {
    if (mbarrier_over(at, parity, false, line)) return true;
    const Barrier &b = barrier_at(at, "a wait", line);
    Asked &mine = asked();
    if (mine.tried == &b && mine.tried_phase == b.phase) return mbarrier_over(at, parity, true, line);
    mine.tried = &b, mine.tried_phase = b.phase;
    return false;
}

// Bulk copies

static char *shared_in(Worker &there, uint32_t at, uint32_t bytes, const char *what, int line) {
    const uint32_t offset = offset_of(at) - shared_window;
    if (offset > shared_cap - bytes) shared_at(at, 1, what, line);
    return there.shared + offset;
}
static void check_bulk(const void *p, uint32_t bytes, const char *what, int line) {
    must_be_aligned(p, 16, what, line);
    if (bytes % 16 == 0 && bytes) return;
    char text[160];
    snprintf(text, sizeof text, "%s copies %u bytes; a bulk copy takes multiples of 16", what, bytes);
    fail(memcheck, text, "Pad the rows, or copy the rest by threads.", line);
}
// The blocks of the cluster that get a copy.
template <class F> static void to_each(uint32_t blocks, int line, F f) {
    if (!blocks) return f(*worker);
    const auto &c = worker->leader->cluster;
    for (uint32_t i = 0; i < 16; i++) {
        if (!(blocks >> i & 1)) continue;
        if (i >= c.size() && (i || !c.empty())) fail(memcheck, "a copy for a block that the cluster does not have", "The mask has a bit for each block of the cluster.", line);
        f(c.empty() ? *worker : *c[i]);
    }
}
// `bytes` of a bulk copy to shared memory come at `to`, in the block `there`, which has an mbarrier at the same place as this one.
static void comes(Worker &there, uint32_t to, uint32_t bytes, uint32_t bar, int line) {
    auto &all = engines_of(there).barriers;
    auto b = all.find(offset_of(bar));
    if (b == all.end()) barrier_at(bar, "a bulk copy ends", line);
    if (detector.on && checks(racecheck) && !b->second.seen)
        fail(racecheck, "a bulk copy is told to an mbarrier that the copy engine may not see yet", "Behind mbarrier.init: fence.mbarrier_init.release.cluster (or fence.proxy.async), then a barrier of the block.", line);
    if (detector.on) {
        const uintptr_t a = reinterpret_cast<uintptr_t>(there.shared) + offset_of(to) - shared_window;
        detector.access(reinterpret_cast<uintptr_t>(b->second.at), 8, true, atomic_bit | line_bit | uint32_t(line));
        detector.access(a, bytes, true, engine_line(line));
        b->second.coming.push_back({a, bytes, detector.me, engine_line(line), 0});
    }
    b->second.bytes -= bytes;
    maybe_over(b->second);
}
void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar, uint32_t blocks, int line) {
    check_bulk(from, bytes, "cp.async.bulk", line);
    accessed(from, bytes, false, line);
    to_each(blocks, line, [&](Worker &w) {
        Worker &b = blocks ? w : block_at(to, line);
        char *p = shared_in(b, to, bytes, "cp.async.bulk", line);
        must_be_aligned(p, 16, "cp.async.bulk", line);
        comes(b, to, bytes, bar, line);
        memcpy(p, from, bytes);
    });
}
// The block's own shared memory from which a copy to global memory reads, until it has been waited for.
static char *stored_from(uint32_t from, uint32_t bytes, unsigned alignment, const char *what, int line) {
    must_be_own(from, what, line);
    char *p = shared_in(*worker, from, bytes, what, line);
    must_be_aligned(p, alignment, what, line);
    if (detector.on) {
        detector.access(reinterpret_cast<uintptr_t>(p), bytes, false, engine_line(line));
        asked().stores.push_back({reinterpret_cast<uintptr_t>(p), bytes, detector.me, engine_line(line), asked().store_groups});
    }
    return p;
}
void bulk_store(void *to, uint32_t from, uint32_t bytes, int line) {
    check_bulk(to, bytes, "cp.async.bulk", line);
    const char *p = stored_from(from, bytes, 16, "cp.async.bulk", line);
    accessed(to, bytes, true, line);
    memcpy(to, p, bytes);
}

static uint32_t swizzled(uint32_t offset, int swizzle) { return offset ^ (offset >> 7 & uint32_t(std::max(swizzle / 16 - 1, 0))) * 16; }

static const char *const ILLEGAL = "A GPU stops with an illegal instruction.";
static const TensorMap &map_at(const void *map, const int32_t *at, int rank, const char *what, int line) {
    const auto &m = *static_cast<const TensorMap *>(map);
    if (!is_tensor_map(m)) fail(memcheck, "this is no tensor map", "On the host, tensor_map(x, box) makes one; the kernel takes it as `const __grid_constant__ TensorMap`, and gives its address.", line);
    char text[200];
    if (m.rank != rank) {
        snprintf(text, sizeof text, "%s has %d coordinates, and the tensor map %d axes", what, rank, m.rank);
        fail(memcheck, text, "", line);
    }
    if (at[0] * m.itemsize % 16) {
        snprintf(text, sizeof text, "%s: the box begins at element %d of its rows, and that must be a multiple of 16 bytes, %d elements", what, at[0], 16 / m.itemsize);
        fail(memcheck, text, ILLEGAL, line);
    }
    return m;
}
// Calls f(offset in the box, address in global memory or null, bytes) for each row of the box that begins at `at`, innermost axis first; for its
// parts inside of the array and outside.
template <class F> static void rows_of(const TensorMap &m, const int32_t *at, F f) {
    int32_t i[5] = {};
    const int inner = m.box[0] * m.itemsize;
    for (uint32_t offset = 0;; offset += uint32_t(inner)) {
        const char *row = m.base;
        bool inside = true;
        for (int d = 1; d < m.rank; d++) {
            const int64_t x = int64_t(at[d]) + i[d];
            inside &= x >= 0 && x < m.sizes[d];
            row += x * m.steps[d];
        }
        const int from = int(std::clamp<int64_t>(-int64_t(at[0]), 0, m.box[0])), to = inside ? int(std::clamp<int64_t>(int64_t(m.sizes[0]) - at[0], from, m.box[0])) : from;
        const uint32_t a = uint32_t(from * m.itemsize), b = uint32_t(to * m.itemsize);
        if (a) f(offset, nullptr, a);
        if (b > a) f(offset + a, row + int64_t(at[0] + from) * m.itemsize, b - a);
        if (uint32_t(inner) > b) f(offset + b, nullptr, uint32_t(inner) - b);
        int d = 1;
        while (d < m.rank && ++i[d] == m.box[d]) i[d++] = 0;
        if (d >= m.rank) return;
    }
}
static uint32_t box_bytes(const TensorMap &m) {
    uint32_t n = uint32_t(m.itemsize);
    for (int d = 0; d < m.rank; d++) n *= uint32_t(m.box[d]);
    return n;
}
// Sixteen bytes at a time, as the swizzle moves them.
template <class F> static void pieces(uint32_t at, uint32_t bytes, int swizzle, F f) {
    for (uint32_t i = 0, n; i < bytes; i += n) {
        n = std::min(16 - (at + i) % 16, bytes - i);
        f(swizzled(at + i, swizzle), i, n);
    }
}
void tensor_load(uint32_t to, const void *map, const int32_t *at, int rank, uint32_t bar, uint32_t blocks, int line) {
    const TensorMap &m = map_at(map, at, rank, "cp.async.bulk.tensor", line);
    if (detector.on) rows_of(m, at, [&](uint32_t, const char *from, uint32_t n) { if (from) accessed(from, n, false, line); });
    to_each(blocks, line, [&](Worker &w) {
        Worker &b = blocks ? w : block_at(to, line);
        const uint32_t first = offset_of(to);
        must_be_aligned(shared_in(b, to, box_bytes(m), "cp.async.bulk.tensor", line), 128, "cp.async.bulk.tensor", line);
        comes(b, to, box_bytes(m), bar, line);
        rows_of(m, at, [&](uint32_t offset, const char *from, uint32_t bytes) {
            pieces(first + offset, bytes, m.swizzle, [&](uint32_t place, uint32_t i, uint32_t n) {
                char *p = b.shared + place - shared_window;
                from ? memcpy(p, from + i, n) : memset(p, 0, n);
            });
        });
    });
}
void tensor_store(const void *map, const int32_t *at, int rank, uint32_t from, int line) {
    const TensorMap &m = map_at(map, at, rank, "cp.async.bulk.tensor", line);
    for (int d = 0; d < rank; d++) if (at[d] < 0) {
        char text[160];
        snprintf(text, sizeof text, "cp.async.bulk.tensor: the box begins at %d along axis %d, and a store may not begin before the array", at[d], d);
        fail(memcheck, text, ILLEGAL, line);
    }
    stored_from(from, box_bytes(m), 128, "cp.async.bulk.tensor", line);
    rows_of(m, at, [&](uint32_t offset, const char *to, uint32_t n) {
        if (!to) return;
        accessed(to, n, true, line);
        pieces(offset_of(from) + offset, n, m.swizzle, [&](uint32_t place, uint32_t i, uint32_t k) { memcpy(const_cast<char *>(to) + i, worker->shared + place - shared_window, k); });
    });
}
void bulk_commit() { asked().store_groups++; }
// What an engine read in groups that are over, it has read now.
static void finish_reads(std::vector<Copy> &reads, uint32_t committed, uint32_t groups) {
    const auto over = [&](const Copy &c) { return c.group + groups < committed; };
    ++detector.now;                                          // later than all that threads have told each other
    for (const Copy &c : reads) if (over(c)) detector.has_read(c);
    reads.erase(std::remove_if(reads.begin(), reads.end(), over), reads.end());
    detector.knows(current_rank(), ++detector.now);
}
void bulk_wait(uint32_t groups) { if (detector.on) finish_reads(asked().stores, asked().store_groups, groups); }

// wgmma

// A NaN that nobody computes: number `i` of d, until it has been waited for.
static float promise(size_t i) { const uint32_t bits = 0x7fbad000u | uint32_t(i); float x; memcpy(&x, &bits, 4); return x; }
static bool is_promise(const float *p, size_t i) { const float x = promise(i); return !memcmp(p, &x, 4); }

static float half_value(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float x = exponent == 31 ? (mantissa ? NAN : INFINITY) : ldexpf(float(exponent ? mantissa + 1024 : mantissa), std::max(exponent, 1) - 25);
    return h >> 15 ? -x : x;
}
static float as_number(Number type, const char *p) {
    uint16_t half;
    uint32_t word = 0;
    float x;
    if (type == Number::tf32) memcpy(&word, p, 4), word &= ~0x1fffu;
    else memcpy(&half, p, 2), word = uint32_t(half) << 16;
    if (type == Number::f16) return half_value(half);
    memcpy(&x, &word, 4);
    return x;
}

// Where an operand of wgmma lies: PTX's matrix descriptor. `row` counts along h or w, `i` along k.
struct Operand {
    uint32_t start, lead, stride;
    int swizzle, size;
    bool turned;
    Operand(uint64_t d, int size, bool turned) : start(uint32_t(d & 0x3fff) << 4), lead(uint32_t(d >> 16 & 0x3fff) << 4), stride(uint32_t(d >> 32 & 0x3fff) << 4),
        swizzle(d >> 62 == 0 ? 0 : 256 >> (d >> 62)), size(size), turned(turned) {}
    uint32_t at(int row, int i) const {
        const int wide = std::max(swizzle, 16), along = (turned ? row : i) * size;     // as many bytes lie together
        if (turned) {
            const uint32_t right = swizzle ? lead : stride, down = swizzle ? stride : lead;
            return swizzled(start + uint32_t(along / wide) * right + uint32_t(i / 8) * down + uint32_t(i % 8 * wide + along % wide), swizzle);
        }
        return swizzled(start + uint32_t(row / 8) * stride + uint32_t(along / wide) * (swizzle ? 0 : lead) + uint32_t(row % 8 * wide + along % wide), swizzle);
    }
};

struct Lane { const Wgmma *call; int warp, line; float mine[128]; };

static const char *operand_at(const Operand &o, int row, int i, int line) {
    const uint32_t offset = o.at(row, i) - shared_window;
    if (offset >= shared_cap) fail(memcheck, "wgmma.mma_async: a descriptor leads outside of shared memory", "Its lowest 14 bits are the address divided by 16, then come the two distances, each divided by 16.", line);
    return worker->shared + offset;
}
static void note_operand(const Operand &o, int first, int rows, int k, std::vector<Copy> &reads, uint32_t group, int line) {
    const int step = 16 / o.size;                        // of 16 bytes that lie together
    for (int r = 0; r < rows; r += o.turned ? step : 1)
        for (int i = 0; i < k; i += o.turned ? 1 : step) {
            const uintptr_t a = reinterpret_cast<uintptr_t>(operand_at(o, first + r, i, line));
            detector.access(a, 16, false, engine_line(line));
            reads.push_back({a, 16, detector.me, engine_line(line), group});
        }
}

// One warp's 16 rows of the 64.
static void multiply_rows(void *const *all) {
    const Wgmma &w = *static_cast<Lane *>(all[0])->call;
    const int line = static_cast<Lane *>(all[0])->line, size = w.type == Number::tf32 ? 4 : 2, k = 32 / size, warp = static_cast<Lane *>(all[0])->warp, first = warp % 4 * 16;
    for (int l = 1; l < 32; l++) {
        const Wgmma &other = *static_cast<Lane *>(all[l])->call;
        if (other.a != w.a || other.b != w.b || other.more != w.more) fail(synccheck, "wgmma.mma_async: the lanes of a warp give different descriptors", "All threads of a warpgroup give the same.", line);
    }
    const Operand a(w.a, size, w.a_turned), b(w.b, size, w.b_turned);
    if (detector.on) {
        // A warpgroup's first thread stands for it, with what this thread has waited for.
        const uint32_t me = detector.me, first_thread = uint32_t(warp / 4 * 128), acquired = detector.acquired[first_thread], sees = detector.engines_see[first_thread], waited = detector.waited[first_thread];
        detector.me = (uint32_t(worker->block) + 1) * max_threads + first_thread;
        detector.acquired[first_thread] = std::max(acquired, detector.acquired[me % max_threads]);
        detector.engines_see[first_thread] = std::max(sees, detector.engines_see[me % max_threads]);
        detector.waited[first_thread] = std::max(waited, detector.waited[me % max_threads]);
        Engines &e = engines_of(*worker);
        auto &reads = e.asked[first_thread].reads;
        const uint32_t group = uint32_t(e.asked[size_t(warp * 32)].groups.size());
        if (!w.a_registers) note_operand(a, first, 16, k, reads, group, line);
        if (warp % 4 == 0) note_operand(b, 0, w.n, k, reads, group, line);
        detector.me = me, detector.acquired[first_thread] = acquired, detector.engines_see[first_thread] = sees, detector.waited[first_thread] = waited;
    }
    float as[16][16], bs[16][256];
    for (int i = 0; i < k; i++) {
        for (int r = 0; r < 16; r++) {
            if (!w.a_registers) { as[r][i] = float(w.a_sign) * as_number(w.type, operand_at(a, first + r, i, line)); continue; }
            const int in_word = 4 / size, t = i / in_word % 4, word = i / in_word / 4 * 2 + r / 8;
            as[r][i] = float(w.a_sign) * as_number(w.type, reinterpret_cast<const char *>(&static_cast<Lane *>(all[r % 8 * 4 + t])->call->a_registers[word]) + i % in_word * size);
        }
        for (int c = 0; c < w.n; c++) bs[i][c] = float(w.b_sign) * as_number(w.type, operand_at(b, c, i, line));
    }
    for (int r = 0; r < 16; r++) {
        double sum[256];
        for (int c = 0; c < w.n; c++) sum[c] = w.more ? static_cast<Lane *>(all[r % 8 * 4 + c % 8 / 2])->mine[c / 8 * 4 + r / 8 * 2 + c % 2] : 0;
        for (int i = 0; i < k; i++)
            for (int c = 0; c < w.n; c++) sum[c] += double(as[r][i]) * double(bs[i][c]);
        for (int c = 0; c < w.n; c++) static_cast<Lane *>(all[r % 8 * 4 + c % 8 / 2])->mine[c / 8 * 4 + r / 8 * 2 + c % 2] = float(sum[c]);
    }
}
static Held *held_at(Asked &mine, const float *place) {
    for (auto &h : mine.held) if (h.places[0] == place) return &h;
    return nullptr;
}
void wgmma_fence() { asked().fenced = true; }
void wgmma(const Wgmma &w, int line) {
    Asked &mine = asked();
    const size_t n = size_t(w.n / 2);
    Held *h = held_at(mine, w.to[0]);
    Lane lane{&w, current_rank() / 32, line, {}};
    bool changed = !h;                                   // has the thread written it since?
    for (size_t i = 0; i < n; i++) {
        const bool promised = h && !h->given;
        lane.mine[i] = promised ? h->values[i] : *w.now[i];
        changed |= h && (promised ? !is_promise(w.now[i], i) : memcmp(w.now[i], &h->values[i], 4) != 0);
    }
    if (changed && !mine.fenced && detector.on && checks(racecheck))
        fail(racecheck, "wgmma.mma_async uses registers that the thread has written, with no wgmma.fence between", "wgmma.fence.sync.aligned comes before the first wgmma, and whenever its registers were written.", line);
    warp_together("wgmma.mma_async", &lane, multiply_rows, line);
    if (!h) mine.held.emplace_back(), h = &mine.held.back();
    h->places.assign(w.to, w.to + n), h->values.assign(lane.mine, lane.mine + n);
    h->group = uint32_t(mine.groups.size()), h->line = line, h->given = false;
    mine.products++;
    for (size_t i = 0; i < n; i++) *w.now[i] = promise(i);
}
void wgmma_commit() { asked().groups.push_back(asked().products); }
// The four warps of a warpgroup multiply together: it is over when all of them have asked for it.
void wgmma_wait(uint32_t groups, int line) {
    Asked &mine = asked();
    const uint32_t all = uint32_t(mine.groups.size()), due = all > groups ? all - groups : 0;
    struct Wait { Asked *first; uint32_t due, products; } wait{&engines_of(*worker).asked[size_t(current_rank() / 128 * 128)], due, due ? mine.groups[due - 1] : 0};
    wait_until([](void *p) {
        const auto &x = *static_cast<Wait *>(p);
        for (int i = 0; i < 128; i += 32) if (x.first[i].groups.size() < x.due || x.first[i].products < x.products) return false;
        return true;
    }, &wait, line, [](void *, char *text, size_t n) { snprintf(text, n, "for a wgmma that not all four warps of its warpgroup have asked for"); });
    for (auto &h : mine.held) {
        if (h.given || h.group >= due) continue;
        h.given = true, mine.fenced = false;
        for (size_t i = 0; i < h.places.size(); i++)
            if (is_promise(h.places[i], i)) *h.places[i] = h.values[i];
    }
    if (detector.on) finish_reads(wait.first->reads, all, groups);
}

// A thread returns: nothing that it asked for may be under way.
static void nothing_left(const Asked &mine) {
    for (auto &h : mine.held) if (!h.given) fail(racecheck, "the thread ends, and has not waited for the result of this wgmma", "wgmma.commit_group, then wgmma.wait_group before the first use of what it computes.", h.line);
    if (!mine.stores.empty())
        fail(racecheck, "the thread ends while its bulk copy may still read shared memory", "cp.async.bulk.commit_group, then cp.async.bulk.wait_group.read 0.", Detector::line_of(mine.stores[0].where));
}
// The last thread of a block returns: its shared memory goes.
static void block_ends(Worker &w) {
    for (const auto &b : engines_of(w).barriers)
        for (const auto *copies : {&b.second.there, &b.second.coming})
            if (!copies->empty() && checks(racecheck))
                detector.find(racecheck, "the block ends, and nobody has waited for this bulk copy to its shared memory", "Wait at the mbarrier that the copy is told to, for the phase in which it comes.",
                              {(*copies)[0].who, 0, (*copies)[0].where}, nullptr, "", 0, nullptr);
    const Access &use = detector.used_by_others;
    if (use.who && use.when >= *std::max_element(detector.acquired, detector.acquired + w.n) && checks(memcheck))
        detector.find(memcheck, "shared memory of a block of the cluster that has ended may be used here: nothing makes it wait", ends_late, use, nullptr, "", 0, nullptr);
}
static void thread_ends(Worker &w) {
    Engines &all = engines_of(*w.leader);
    if (!all.cluster_turn.empty() && turn_of_thread() == all.cluster_phase + 1) all.cluster_arrived--;   // who is gone is not waited for
    if (!detector.on) return;
    if (checks(racecheck)) nothing_left(asked());
    if (w.live == 1) block_ends(w);
}
static void begin_engines(Worker &w) {
    if (!w.engines) return;
    delete w.engines;
    w.engines = nullptr;
}
}
