// synccheck: reports barriers that not all threads reach, and deadlocks.
#include "detector.h"
#include "findings.h"
#include "threads.h"
#include "clusters.h"

namespace gridstride {

Field thread_field(Worker &w, int rank) {
    Location location = {};
    set_thread(w, rank, w.block, location);
    const long long xyz[] = {location.thread[0], location.thread[1], location.thread[2]};
    return {"thread", xyz, 3};
}

// Returns whether the thread has exited by a `return` at or before the barrier's line: the barrier does not wait for
// such a thread. A thread that skipped the barrier and exited after it is an error.
static bool has_returned(const Worker &w, int rank, int barrier) {
    const int line = w.return_line[rank];
    return w.state[w.slot[rank]] == done && line && (line <= barrier || w.line[rank] == barrier);
}

void warn_about_returned_thread(Worker &w, int line, int num_arrived, int returned_rank) {
    if (detector.is_enabled && checks(synccheck))
        begin_warning(Code::returned, line, {{"here", num_arrived}, {"threads", w.num_threads},
            thread_field(w, returned_rank)});
}
// Returns whether all threads wait at the barrier at one line, as those of most kernels do.
static bool wait_at_one_line(const Worker &w) {
    bool is_different = false;
    for (int warp = 0; warp < w.num_threads; warp += 32)
        for (int i = warp; i < warp + 32; i++)             // the compiler vectorizes a constant number of iterations
            is_different |= (i < w.num_threads) & ((w.state[i] != at_barrier) | (w.line[i] != w.line[0]));
    return !is_different;
}
void check_barrier(Worker &w) {
    if (!detector.is_enabled || !checks(synccheck) || wait_at_one_line(w)) return;
    int num_arrived = 0, first_rank = -1, other_rank = -1, returned_rank = -1;
    for (int i = 0; i < w.num_threads; i++)
        if (w.state[w.slot[i]] == at_barrier) {
            if (first_rank < 0) first_rank = i;
        }
    for (int i = 0; i < w.num_threads; i++) {
        const bool is_at_first = w.state[w.slot[i]] == at_barrier && w.line[i] == w.line[first_rank];
        num_arrived += is_at_first;
        int &found_rank = has_returned(w, i, w.line[first_rank]) ? returned_rank : other_rank;
        if (!is_at_first && found_rank < 0) found_rank = i;
    }
    if (returned_rank >= 0 && other_rank < 0)
        return warn_about_returned_thread(w, w.line[first_rank], num_arrived, returned_rank);
    if (other_rank < 0) return;
    const Code code = w.state[w.slot[other_rank]] == done ? Code::skipped : Code::diverged;
    if (is_allowed(code, *w.launch, w.line[first_rank])) return;
    if (claim_finding(code,
            {{"here", num_arrived}, {"threads", w.num_threads}, thread_field(w, other_rank)}))
        w.report_from_thread(first_rank);
    end_launch();
}

// Returns the rank of a thread that waits for all lanes of its warp, at the line where most of them wait; -1 if there
// is none.
static int rank_at_most_common_line(const Worker &w, int warp) {
    int best_rank = -1, max_lanes = 0;
    for (int i = 32 * warp; i < 32 * warp + 32; i++) {
        int num_lanes = 0;
        for (int lane = 0; lane < 32; lane++)
            num_lanes += (w.warps[warp].arrived >> lane & 1) && w.line[32 * warp + lane] == w.line[i];
        if ((w.warps[warp].arrived >> (i % 32) & 1) &&
            w.warps[warp].operation[i % 32] == collective_operation && num_lanes > max_lanes)
            best_rank = i, max_lanes = num_lanes;
    }
    return best_rank;
}
// Lets a waiting thread report the finding, because its call stack has the line in the kernel.
[[noreturn]] void Worker::report_from_thread(int thread_rank) {
    worker = this;
    current_slot = slot[thread_rank], reports_wait = true;
    if (!is_on_stack(*fiber[current_slot])) switch_fiber(root->main, *fiber[current_slot]);
    report_wait_location();
}
void Worker::report_wait_location() {
    locate_finding(nullptr, line[rank[current_slot]]);
    end_launch();
}
void Worker::report_condition_deadlock(int thread_rank) {
    if (condition[thread_rank].describe == describe_register_wait) report_missing_registers(thread_rank);
    if (!claim_finding(Code::deadlock, {})) end_launch();
    // static, because they are too large for a fiber's stack
    static Finding reason, other_reason;
    reason.num_fields = 0;
    condition[thread_rank].describe(condition[thread_rank].arg, reason, "why");
    // finds another thread that waits for something else
    for (int i = 0; i < num_threads && !current_finding.num_fields; i++) {
        const int other_slot = slot[i];
        if (state[other_slot] != on_condition || !condition[i].describe) continue;
        other_reason.num_fields = 0;
        condition[i].describe(condition[i].arg, other_reason, "why");
        if (other_reason.num_fields == reason.num_fields &&
            !memcmp(other_reason.fields, reason.fields, sizeof(Field) * size_t(reason.num_fields)))
            continue;
        begin_finding(Code::mutual_deadlock, {thread_field(*this, i)});
        condition[i].describe(condition[i].arg, current_finding, "other_why");
    }
    condition[thread_rank].describe(condition[thread_rank].arg, current_finding, "why");
    report_from_thread(thread_rank);
}
// Reports a deadlock: no thread can continue, and not all of them wait at the block-wide barrier. A thread that waits
// for other blocks is reported only if no other thread waits.
void Worker::report_deadlock() {
    for (int i = 0; i < num_threads; i++)
        if (state[slot[i]] == in_warp) report_warp_deadlock(slot[i]);
    int waiting_rank = -1;
    for (int i = 0; i < num_threads; i++)
        if (state[slot[i]] == on_condition && condition[i].describe == describe_register_wait)
            report_missing_registers(i);
    for (int i = 0; i < num_threads; i++)
        if (state[slot[i]] == on_condition &&
            (waiting_rank < 0 || (condition[waiting_rank].describe == describe_cluster_wait &&
                          condition[i].describe != describe_cluster_wait)))
            waiting_rank = i;
    report_condition_deadlock(waiting_rank);
}
void Worker::report_warp_deadlock(int new_slot) {
    current_slot = new_slot;
    if (warps[rank[new_slot] / 32].operation[rank[new_slot] % 32] != collective_operation)
        report_mask_deadlock(rank[new_slot]);
    current_slot = slot[rank_at_most_common_line(*this, rank[new_slot] / 32)];
    report_collective_deadlock(rank[current_slot]);
}
// Reports an operation that all lanes of a warp must execute, but that not all of them reach.
void Worker::report_collective_deadlock(int thread_rank) {
    const Warp &warp = warps[thread_rank / 32];
    int other_lane = 0;
    while (
        warp.arrived >> other_lane & 1 && warp.operation[other_lane] == collective_operation &&
            line[thread_rank / 32 * 32 + other_lane] == line[thread_rank] &&
            warp.collective[other_lane] == warp.collective[thread_rank % 32])
        other_lane++;
    const int other_rank = thread_rank / 32 * 32 + other_lane;
    const bool other_exists = warp.launched >> other_lane & 1;
    const bool waits = other_exists && state[slot[other_rank]] == on_condition && condition[other_rank].describe;
    const Code state_of_other = waits                     ? Code::lane_waits
                                : !other_exists                 ? Code::lane_nonexistent
                                : warp.finished >> other_lane & 1 ? Code::lane_returned
                                                          : Code::lane_at_other_call;
    if (claim_finding(Code::warp_diverged,
            {{"operation", warp.instruction[thread_rank % 32]}, {"lane", thread_rank % 32},
                {"other_lane", other_lane}})) {
        Finding reason = {};
        if (waits) condition[other_rank].describe(condition[other_rank].arg, reason, "why");
        current_finding.add({{"state", state_of_other, reason.num_fields}});
        for (int i = 0; i < reason.num_fields; i++) current_finding.add({reason.fields[i]});
        report_from_thread(thread_rank);
    }
    end_launch();
}
// Reports an operation with a mask that not all lanes of the mask reach.
void Worker::report_mask_deadlock(int thread_rank) {
    const Warp &warp = warps[thread_rank / 32];
    const int lane = thread_rank % 32;
    const uint32_t missing = warp.mask[lane] & warp.launched & ~warp.finished & ~warp.arrived;
    // a missing lane may wait for a condition
    for (uint32_t remaining = missing; remaining; remaining &= remaining - 1)
        if (const int i = thread_rank - lane + __builtin_ctz(remaining);
            state[slot[i]] == on_condition && condition[i].describe)
            report_condition_deadlock(i);
    const uint32_t mask = warp.mask[lane];
    if (missing ? claim_finding(Code::lane_elsewhere,
                      {{"lane", lane}, {"mask", mask}, {"other_lane", __builtin_ctz(missing)}})
                : claim_finding(Code::different_calls, {{"mask", mask}}))
        report_from_thread(thread_rank);
    end_launch();
}

void report_wrong_mask(Worker &w, unsigned mask, int line) {
    fail(Code::caller_not_in_mask, {{"lane", w.rank[w.current_slot] % 32}, {"mask", mask}}, line);
}
}
