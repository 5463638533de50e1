// mbarrier instructions. A phase completes when all expected threads and bytes have arrived. `mbarrier_test_wait` waits
// for a phase to complete, completes its asynchronous copies, and acquires the state that its arrivals have released.
#include <string.h>
#include <utility>
#include "clusters.h"
#include "engines.h"
#include "findings.h"

namespace gridstride {

void require_own_block(uint32_t address, const char *operation, int line) {
    if (&block_at(address, line) == worker) return;
    fail(Code::memory_of_other_block, {{"operation", operation}}, line);
}

Barrier &barrier_at(uint32_t address, const char *operation, int line) {
    Worker &block = block_at(address, line);
    char *p = shared_pointer(address, 8, operation, line);
    if (detector.is_enabled)
        detector.access(reinterpret_cast<uintptr_t>(p), 8, true, atomic_bit | line_bit | uint32_t(line));
    auto &barriers = engines_of(block).barriers;
    auto entry = barriers.find(offset_of(address));
    if (entry != barriers.end() && !entry->second.is_invalidated) return entry->second;
    fail(Code::no_mbarrier, {{"operation", operation}}, line);
}
void complete_phase_if_done(Barrier &barrier) {
    if (barrier.num_pending || barrier.bytes) return;
    barrier.num_pending = barrier.count, barrier.phase++;
    barrier.completed.insert(barrier.completed.end(), barrier.in_flight.begin(), barrier.in_flight.end());
    barrier.in_flight.clear();
    barrier.completed_commits.insert(barrier.completed_commits.end(), barrier.commits.begin(), barrier.commits.end());
    barrier.commits.clear();
    barrier.released.join(std::exchange(barrier.releasing, {}));
}

// Adds the mbarrier that a thread waits for to a finding, with the phase and the missing arrivals or bytes.
static void describe_missing(const Barrier &b, Finding &f, const char *name) {
    const long long bytes = static_cast<long long>(b.bytes);
    const uintptr_t barrier_address = reinterpret_cast<uintptr_t>(b.address);
    const Code code = bytes < 0         ? Code::surplus_bytes
                      : b.num_pending && bytes ? Code::missing_arrivals_and_bytes
                      : bytes           ? Code::missing_bytes
                                        : Code::missing_arrivals;
    const bool counts_arrivals = code == Code::missing_arrivals_and_bytes || code == Code::missing_arrivals;
    f.add({{name, code, 1 + (detector.is_enabled ? 3 : 2) + 1 + (counts_arrivals ? 2 : 0)}});
    if (detector.is_enabled) {
        const auto element = detector.element_name(barrier_address, detector.shared_cell(barrier_address).owner,
            nullptr);
        f.add({{"mbarrier", Code::element, 2}, element.array(), element.index()});
    } else f.add({{"mbarrier", Code::of_line, 1}, {"line", plain_line(b.line)}});
    f.add({{"phase", b.phase}, {"bytes", bytes < 0 ? -bytes : bytes}});
    if (counts_arrivals) f.add({{"missing", b.num_pending}, {"count", b.count}});
}
constexpr uint32_t max_mbarrier_count = (1u << 20) - 1; // of arrivals, and of expected bytes
static void require_count(uint32_t count, int line) {
    if (!count || count > max_mbarrier_count) fail(Code::mbarrier_count, {}, line);
}
void mbarrier_init(uint32_t address, uint32_t count, int line) {
    require_own_block(address, "mbarrier.init", line);
    char *word = shared_pointer(address, 8, "mbarrier.init", line);
    // This is a plain write, so that a use that is not ordered after it is a data race.
    report_access(word, 4, true, line);
    memcpy(word, &count, 4);
    require_count(count, line);
    engines_of(*worker).barriers[offset_of(address)] = {count, count, 0, 0, word, line, false, {}, {}, {}, {}};
}
void mbarrier_invalidate(uint32_t address, int line) {
    require_own_block(address, "mbarrier.inval", line);
    char *p = shared_pointer(address, 8, "mbarrier.inval", line);
    report_access(p, 4, true, line);
    memset(p, 0xff, 4);
    barrier_at(address, "mbarrier.inval", line).is_invalidated = true;
}
void fence_mbarrier_init() {
    for (auto &b : engines_of(*worker).barriers) b.second.is_fenced = true;
}
void fence_proxy_async() {
    fence_mbarrier_init();
    if (detector.is_enabled) detector.fence_proxy();
}
void mbarrier_expect(uint32_t address, uint32_t bytes, int line) {
    Barrier &b = barrier_at(address, "mbarrier.expect_tx", line);
    b.bytes += bytes;
    if (b.bytes > max_mbarrier_count) fail(Code::mbarrier_bytes, {{"bytes", b.bytes}}, line);
}
uint64_t mbarrier_arrive(uint32_t address, uint32_t count, int line) {
    Barrier &b = barrier_at(address, "mbarrier.arrive", line);
    const uint64_t phase = b.phase;
    require_count(count, line);
    if (count > b.num_pending)
        fail(Code::too_many_arrive, {{"count", b.count}, {"init_line", plain_line(b.line)}}, line);
    b.num_pending -= count;
    if (detector.is_enabled) b.releasing.join(detector.release());
    complete_phase_if_done(b);
    return phase;
}
void mbarrier_drop(uint32_t address, int line) {
    Barrier &b = barrier_at(address, "mbarrier.arrive_drop", line);
    if (b.count) b.count--;
    mbarrier_arrive(address, 1, line);
}
bool mbarrier_test_wait(uint32_t address, uint32_t parity, bool waits, int line) {
    require_own_block(address, "a wait", line);
    Barrier &b = barrier_at(address, "a wait", line);
    struct Wait {
        const Barrier *b;
        uint32_t parity;
    } wait{&b, parity & 1};
    const auto is_phase_complete = [](void *p) {
        const auto &state = *static_cast<Wait *>(p);
        return (state.b->phase & 1) != state.parity;
    };
    if (!waits && !is_phase_complete(&wait)) {
        yield_thread();
        // after many failed polls it waits, so that a deadlock is detected
        if (!is_phase_complete(&wait) && ++b.failed_polls < 100000) return false;
    }
    wait_until(is_phase_complete, &wait, line,
        [](void *p, Finding &f, const char *name) { describe_missing(*static_cast<Wait *>(p)->b, f, name); });
    b.failed_polls = 0;
    if (!detector.is_enabled) {
        b.completed.clear(), b.completed_commits.clear();
        return true;
    }
    for (const Commit &c : std::exchange(b.completed_commits, {})) {
        complete_commit(*c.pipe, c.commit);
        b.released.waited.add(c.pipe->thread, {detector.now, 0, 0});
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
// mbarrier.try_wait may return false at any time. Here the first call for a phase does not wait, so that a polling
// thread can continue with other code, and the second call waits.
bool mbarrier_try_wait(uint32_t address, uint32_t parity, int line) {
    if (mbarrier_test_wait(address, parity, false, line)) return true;
    const Barrier &b = barrier_at(address, "a wait", line);
    Requests &requests = current_requests();
    if (requests.tried_barrier == &b && requests.tried_phase == b.phase)
        return mbarrier_test_wait(address, parity, true, line);
    requests.tried_barrier = &b, requests.tried_phase = b.phase;
    return false;
}
}
