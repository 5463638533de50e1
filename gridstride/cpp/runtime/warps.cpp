// Warp operations: shuffles, votes, __syncwarp, and collectives such as mma, which all lanes execute together.
#include <string.h>
#include "detector.h"
#include "synccheck.h"
#include "threads.h"
#include "undefined.h"

namespace gridstride {

// Returns the lanes that the operation of lane `lane` waits for.
inline uint32_t Worker::expected_lanes(const Warp &warp, int lane) const {
    const bool is_collective = warp.operation[lane] == collective_operation;
    return is_collective ? ~0u : warp.mask[lane] & warp.launched & ~warp.finished;
}
// Completes the operation of lane `lane` if all its lanes have arrived; returns whether they have.
bool Worker::try_complete_warp(Warp &warp, int lane) {
    const uint32_t expected = expected_lanes(warp, lane);
    if (expected & ~warp.arrived) return false;
    const int first = int(&warp - warps) * 32;
    if (warp.operation[lane] == collective_operation) return try_complete_collective(warp, lane);
    for (uint32_t remaining = expected; remaining; remaining &= remaining - 1) {
        const int other = __builtin_ctz(remaining);
        if (warp.mask[other] != warp.mask[lane] || warp.operation[other] != warp.operation[lane]) return false;
    }
    WarpExchange *exchange = warp.exchange;
    while (exchange->readers) exchange++;
    const bool carries_value = warp.operation[lane] != barrier_operation;
    exchange->readers = carries_value ? __builtin_popcount(expected) : 0;
    exchange->undefined = undefined_in(first / 32);
    for (uint32_t remaining = expected; remaining; remaining &= remaining - 1) {
        const int other = __builtin_ctz(remaining);
        if (carries_value) memcpy(exchange->slot[other], warp.operand[other], 16), warp.exchange_of[other] = exchange;
        warp.group[other] = expected;
        state[slot[first + other]] = ready;
    }
    warp.arrived &= ~expected;
    if (!carries_value) detector.warp_barrier(*this, int(&warp - warps), expected);
    return true;
}

// All lanes have arrived.
bool Worker::try_complete_collective(Warp &warp, int lane) {
    const int first = int(&warp - warps) * 32;
    bool differs = false;
    for (int other = 0; other < 32; other++)               // without branches
        differs |= (warp.operation[other] != collective_operation) | (warp.mask[other] != warp.mask[lane]) |
            (warp.collective[other] != warp.collective[lane]) | (line[first + other] != line[first + lane]);
    if (differs) return false;
    void *operands[32];
    for (int other = 0; other < 32; other++) memcpy(&operands[other], warp.operand[other], sizeof *operands);
    warp.collective[lane](operands);
    for (int other = 0; other < 32; other++) state[slot[first + other]] = ready;
    warp.arrived = 0;
    return true;
}

static __attribute__((noinline)) void begin_first_warp_operation(Worker &w) {
    w.uses_warps = true;
    if (detector.is_enabled) detector.record_ranges(), detector.discard_read_tags();
    for (int n = 0; n < (w.num_threads + 31) / 32; n++) {
        Warp &warp = w.warps[n];
        warp.launched = w.num_threads - 32 * n >= 32 ? ~0u : (1u << (w.num_threads - 32 * n)) - 1;
        warp.finished = warp.arrived = 0;
        for (int lane = 0; lane < 32; lane++) {
            warp.exchange_of[lane] = nullptr;
            const int rank = 32 * n + lane;
            if (rank < w.num_threads && w.slot[rank] < w.num_started && w.state[w.slot[rank]] == done)
                warp.finished |= 1u << lane;
        }
        for (auto &exchange : warp.exchange) exchange.readers = 0;
    }
}

static inline void begin_warps(Worker &w) {
    if (__builtin_expect(!w.uses_warps, 0)) begin_first_warp_operation(w);
}

// Arrives at a warp operation with the current lane, and waits for the others; returns the mask of the lanes that take
// part. `all` receives the address of their values.
static inline __attribute__((always_inline)) unsigned run_warp_operation(
    unsigned mask, WarpOperation operation, const void *value, int bytes, int line, const void **all = nullptr) {
    Worker &w = *worker;
    begin_warps(w);
    const int rank = current_rank(), lane = rank & 31;
    Warp &warp = w.warps[unsigned(rank) / 32];
    if (warp.exchange_of[lane]) warp.exchange_of[lane]->readers--, warp.exchange_of[lane] = nullptr;
    if (!(mask >> lane & 1)) report_wrong_mask(w, mask, line);
    if (__builtin_expect(w.is_undefined(rank), 0) && bytes > 1 && !shows_undefined(value, bytes))
        w.undefined[rank / 32] &= ~(1u << lane);
    if (bytes) memcpy(warp.operand[lane], value, size_t(bytes));
    warp.mask[lane] = mask, warp.operation[lane] = operation, warp.arrived |= 1u << lane;
    w.line[rank] = line;
    w.state[w.current_slot] = in_warp;
    detector.finish_pending_writes();
    if (w.expected_lanes(warp, lane) & ~warp.arrived || !w.try_complete_warp(warp, lane)) w.switch_to_lane(rank);
    if (all) *all = warp.exchange_of[lane]->slot;
    return warp.group[lane];
}

void sync_warp(unsigned mask, int line) { run_warp_operation(mask, barrier_operation, nullptr, 0, line); }
unsigned warp_exchange(unsigned mask, const void *value, int bytes, const void *&all, int line) {
    return run_warp_operation(mask, exchange_operation, value, bytes, line, &all);
}
static inline __attribute__((always_inline)) void run_collective(
    const char *instruction, void *operand, void (*collective)(void *const *), int line) {
    Worker &w = *worker;
    begin_warps(w);
    const unsigned rank = unsigned(current_rank());
    Warp &warp = w.warps[rank / 32];
    warp.instruction[rank % 32] = instruction, warp.collective[rank % 32] = collective;
    run_warp_operation(~0u, collective_operation, &operand, sizeof operand, line);
}
void run_for_warp(const char *instruction, void *operand, void (*collective)(void *const *), int line) {
    run_collective(instruction, operand, collective, line);
}
static void do_nothing(void *const *) {}
static inline void copy_elements(char *to, const char *from, size_t bytes) {
    if (bytes == 8) memcpy(to, from, 8);
    else if (bytes == 16) memcpy(to, from, 16);
    else if (bytes == 32) memcpy(to, from, 32);
    else memcpy(to, from, bytes);
}
void move_fragment(const char *function, const FragmentLayout &layout, void *x, void *matrix, unsigned ldm,
    bool transposed, bool stores, int line) {
    // PTX requires alignment to the number of bytes that a lane holds: 8 for 16x16 signed chars. The CUDA guide
    // requires 32, but CUDA's own samples violate that.
    // All sizes of a layout are powers of two, so that no division is needed.
    const unsigned bytes_of_lane = layout.elements * layout.element_bytes;
    if (reinterpret_cast<uintptr_t>(matrix) & (bytes_of_lane - 1))
        must_be_aligned(matrix, bytes_of_lane, function, line);
    const unsigned step = transposed ? 1 : std::min(layout.elements, layout.inner),
        bytes = step * layout.element_bytes, log_inner = unsigned(__builtin_ctz(layout.inner)),
        first = unsigned(current_rank()) % 32 * layout.elements;
    for (unsigned i = 0; i < layout.elements; i += step) {                   // contiguous elements are one access
        const size_t index = (first + i) & (layout.size - 1), major = index >> log_inner,
                     minor = index & (layout.inner - 1);
        char *const element = static_cast<char *>(matrix) +
            (transposed ? minor * ldm + major : major * ldm + minor) * layout.element_bytes;
        char *const own = static_cast<char *>(x) + i * layout.element_bytes;
        if (detector.is_enabled) {
            const uintptr_t a = reinterpret_cast<uintptr_t>(element);
            const uint32_t location = line_bit | uint32_t(line);
            if (!detector.fast_shared_accesses(a - detector.shared_base, bytes, stores, location))
                detector.access(a, bytes, stores, location);
        }
        if (stores) copy_elements(element, own, bytes);
        else copy_elements(own, element, bytes);
    }
    run_collective(function, nullptr, do_nothing, line);
}
unsigned active_mask(int line) {
    Worker &w = *worker;
    begin_warps(w);
    const int rank = current_rank();
    w.line[rank] = line;
    w.wait(at_active_mask);
    return w.warps[rank / 32].group[rank % 32];
}
}
