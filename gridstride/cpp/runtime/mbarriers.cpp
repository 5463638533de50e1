// mbarrier instructions. A phase ends when all expected arrivals and bytes have arrived. `mbarrier_test_wait` waits for
// the end of a phase, completes its asynchronous copies, and acquires the state that its arrivals have released.
#include <string.h>
#include <utility>
#include "clusters.h"
#include "engines.h"
#include "findings.h"

namespace gridstride {

void require_own_block(uint32_t at, const char *what, int line) {
    if (&block_at(at, line) == worker) return;
    fail(Code::not_its_own, {{"operation", what}}, line);
}

Barrier &barrier_at(uint32_t at, const char *what, int line) {
    Worker &there = block_at(at, line);
    char *p = shared_pointer(at, 8, what, line);
    if (detector.on) detector.access(reinterpret_cast<uintptr_t>(p), 8, true, atomic_bit | line_bit | uint32_t(line));
    auto &all = engines_of(there).barriers;
    auto entry = all.find(offset_of(at));
    if (entry != all.end() && !entry->second.is_invalidated) return entry->second;
    fail(Code::no_mbarrier, {{"operation", what}}, line);
}
void complete_phase_if_done(Barrier &b) {
    if (b.num_pending || b.bytes) return;
    b.num_pending = b.count, b.phase++;
    b.completed.insert(b.completed.end(), b.in_flight.begin(), b.in_flight.end());
    b.in_flight.clear();
    b.released.join(std::exchange(b.releasing, {}));
}

// Adds the phrase for a wait to a finding: the mbarrier, the phase, and the missing arrivals or bytes.
static void describe_missing(const Barrier &b, Finding &f, const char *name) {
    const long long bytes = static_cast<long long>(b.bytes);
    const uintptr_t a = reinterpret_cast<uintptr_t>(b.address);
    const Code code = bytes < 0         ? Code::gets_more
                      : b.num_pending && bytes ? Code::lacks_both
                      : bytes           ? Code::lacks_bytes
                                        : Code::lacks_arrivals;
    const bool counts_arrivals = code == Code::lacks_both || code == Code::lacks_arrivals;
    f.add({{name, code, 1 + (detector.on ? 3 : 2) + 1 + (counts_arrivals ? 2 : 0)}});
    if (detector.on) {
        const auto x = detector.element_name(a, detector.shared_cell(a).owner, nullptr);
        f.add({{"mbarrier", Code::element, 2}, x.array(), x.index()});
    } else f.add({{"mbarrier", Code::of_line, 1}, {"line", b.line}});
    f.add({{"phase", b.phase}, {"bytes", bytes < 0 ? -bytes : bytes}});
    if (counts_arrivals) f.add({{"left", b.num_pending}, {"count", b.count}});
}
void mbarrier_init(uint32_t at, uint32_t count, int line) {
    require_own_block(at, "mbarrier.init", line);
    char *p = shared_pointer(at, 8, "mbarrier.init", line);
    // This is a plain write, so that a use that is not ordered after it is a data race.
    report_access(p, 4, true, line);
    memcpy(p, &count, 4);
    if (!count || count >= 1u << 20) fail(Code::mbarrier_count, {}, line);
    engines_of(*worker).barriers[offset_of(at)] = {count, count, 0, 0, p, line, false, {}, {}, {}, {}};
}
void mbarrier_invalidate(uint32_t at, int line) {
    require_own_block(at, "mbarrier.inval", line);
    char *p = shared_pointer(at, 8, "mbarrier.inval", line);
    report_access(p, 4, true, line);
    memset(p, 0xff, 4);
    barrier_at(at, "mbarrier.inval", line).is_invalidated = true;
}
void fence_mbarrier_init() {
    for (auto &b : engines_of(*worker).barriers) b.second.is_fenced = true;
}
void fence_proxy_async() {
    fence_mbarrier_init();
    if (detector.on) detector.fence_proxy();
}
void mbarrier_expect(uint32_t at, uint32_t bytes, int line) {
    barrier_at(at, "mbarrier.expect_tx", line).bytes += bytes;
}
uint64_t mbarrier_arrive(uint32_t at, uint32_t count, int line) {
    Barrier &b = barrier_at(at, "mbarrier.arrive", line);
    const uint64_t phase = b.phase;
    if (count > b.num_pending) fail(Code::too_many_arrive, {{"count", b.count}, {"made_on", b.line}}, line);
    b.num_pending -= count;
    if (detector.on) b.releasing.join(detector.release());
    complete_phase_if_done(b);
    return phase;
}
void mbarrier_drop(uint32_t at, int line) {
    Barrier &b = barrier_at(at, "mbarrier.arrive_drop", line);
    if (b.count) b.count--;
    mbarrier_arrive(at, 1, line);
}
bool mbarrier_test_wait(uint32_t at, uint32_t parity, bool waits, int line) {
    require_own_block(at, "a wait", line);
    Barrier &b = barrier_at(at, "a wait", line);
    struct Wait {
        const Barrier *b;
        uint32_t parity;
    } wait{&b, parity & 1};
    const auto over = [](void *p) {
        const auto &x = *static_cast<Wait *>(p);
        return (x.b->phase & 1) != x.parity;
    };
    if (!waits && !over(&wait)) {
        yield_thread();
        // after many polls without success, waits, so that a deadlock is found
        if (!over(&wait) && ++b.failed_polls < 100000) return false;
    }
    wait_until(over, &wait, line,
        [](void *p, Finding &f, const char *name) { describe_missing(*static_cast<Wait *>(p)->b, f, name); });
    b.failed_polls = 0;
    if (!detector.on) {
        b.completed.clear();
        return true;
    }
    if (!b.completed.empty()) {
        for (const Copy &c : b.completed) detector.complete_copy(c);
        const uint32_t completed_at = ++detector.now;
        uint32_t thread = 0;
        for (const Copy &c : b.completed)
            if (c.thread != std::exchange(thread, c.thread)) b.released.waited.add(thread, {completed_at, 0, 0});
        b.completed.clear();
    }
    detector.acquire(b.released);
    return true;
}
// mbarrier.try_wait may fail at any time. Here the first try fails, so that a polling thread continues with other code,
// and the second try waits.
bool mbarrier_try_wait(uint32_t at, uint32_t parity, int line) {
    if (mbarrier_test_wait(at, parity, false, line)) return true;
    const Barrier &b = barrier_at(at, "a wait", line);
    Requests &mine = current_requests();
    if (mine.tried_barrier == &b && mine.tried_phase == b.phase) return mbarrier_test_wait(at, parity, true, line);
    mine.tried_barrier = &b, mine.tried_phase = b.phase;
    return false;
}
}
