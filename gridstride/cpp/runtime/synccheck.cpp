// synccheck: barriers that not all threads reach, and deadlocks
#include "detector.h"
#include "findings.h"
#include "threads.h"
#include "clusters.h"

namespace gridstride {

Field thread_field(Worker &w, int rank) {
    Location p = {};
    set_thread(w, rank, w.block, p);
    const long long xyz[] = {p.thread[0], p.thread[1], p.thread[2]};
    return {"thread", xyz, 3};
}

// Did the thread exit by a `return` before the barrier in the source, or at the barrier's line? The barrier does not
// wait for it. A thread that has passed the barrier without executing it is an error, even if it has exited later.
static bool has_returned(const Worker &w, int rank, int barrier) {
    const int line = w.return_line[rank];
    return w.state[w.slot[rank]] == done && line && (line <= barrier || w.line[rank] == barrier);
}

void warn_of_returned_thread(Worker &w, int line, int here, int gone) {
    if (detector.on && checks(synccheck))
        begin_warning(Code::returned, line, {{"here", here}, {"threads", w.num_threads}, thread_field(w, gone)});
}
void check_barrier(Worker &w) {
    if (!detector.on || !checks(synccheck)) return;
    int here = 0, first = -1, other = -1, gone = -1;
    for (int i = 0; i < w.num_threads; i++)
        if (w.state[w.slot[i]] == at_barrier) {
            if (first < 0) first = i;
        }
    for (int i = 0; i < w.num_threads; i++) {
        const bool same = w.state[w.slot[i]] == at_barrier && w.line[i] == w.line[first];
        here += same;
        if (int &one = has_returned(w, i, w.line[first]) ? gone : other; !same && one < 0) one = i;
    }
    if (gone >= 0 && other < 0) return warn_of_returned_thread(w, w.line[first], here, gone);
    if (other < 0) return;
    if (take_finding(w.state[w.slot[other]] == done ? Code::skipped : Code::diverged,
            {{"here", here}, {"threads", w.num_threads}, thread_field(w, other)}))
        w.report_from(first);
    end_launch();
}

// Returns a lane that waits for all lanes of its warp, at the line where most of them wait; -1 if none does.
static int most_lanes_at_one_line(const Worker &w, int warp) {
    int best = -1, most = 0;
    for (int i = 32 * warp; i < 32 * warp + 32; i++) {
        int here = 0;
        for (int l = 0; l < 32; l++) here += (w.warps[warp].arrived >> l & 1) && w.line[32 * warp + l] == w.line[i];
        if ((w.warps[warp].arrived >> (i % 32) & 1) && w.warps[warp].op[i % 32] == 2 && here > most)
            best = i, most = here;
    }
    return best;
}
// Switches to a waiting thread, which reports the finding, so that its call stack has the line in the kernel.
[[noreturn]] void Worker::report_from(int r) {
    worker = this;
    current = slot[r], reports_itself = true;
    if (!is_on_stack(*fiber[current])) switch_fiber(root->main, *fiber[current]);
    report_where_it_waits();
}
void Worker::report_where_it_waits() {
    locate_finding(nullptr, line[rank[current]]);
    end_launch();
}
void Worker::deadlock_on_condition(int r) {
    if (!take_finding(Code::stuck, {})) end_launch();
    static Finding mine, other;                             // too large for a fiber's stack; no other thread is here
    mine.num_fields = 0;
    condition[r].describe(condition[r].arg, mine, "why");
    for (int i = 0; i < num_threads && !current_finding.num_fields; i++) {           // another one that waits elsewhere
        const int s = slot[i];
        if (state[s] != on_condition || !condition[i].describe) continue;
        other.num_fields = 0;
        condition[i].describe(condition[i].arg, other, "why");
        if (other.num_fields == mine.num_fields &&
            !memcmp(other.fields, mine.fields, sizeof(Field) * size_t(mine.num_fields)))
            continue;
        begin_finding(Code::stuck_together, {thread_field(*this, i)});
        condition[i].describe(condition[i].arg, current_finding, "other_why");
    }
    condition[r].describe(condition[r].arg, current_finding, "why");
    report_from(r);
}
// A deadlock: no thread can go on, and not all of them wait for the same. One that waits for other blocks is reported
// last.
void Worker::report_deadlock() {
    for (int i = 0; i < num_threads; i++)
        if (state[slot[i]] == in_warp) deadlock_in_warp(slot[i]);
    int r = -1;
    for (int i = 0; i < num_threads; i++)
        if (state[slot[i]] == on_condition &&
            (r < 0 || (condition[r].describe == describe_cluster_wait &&
                          condition[i].describe != describe_cluster_wait)))
            r = i;
    deadlock_on_condition(r);
}
void Worker::deadlock_in_warp(int s) {
    current = s;
    if (warps[rank[s] / 32].op[rank[s] % 32] != 2) deadlock_at_active_mask(rank[s]);
    current = slot[most_lanes_at_one_line(*this, rank[s] / 32)];
    deadlock_in_collective(rank[current]);
}
// An operation of all lanes of a warp, which not all of them reach.
void Worker::deadlock_in_collective(int r) {
    const Warp &p = warps[r / 32];
    int other = 0;
    while (
        p.arrived >> other & 1 && p.op[other] == 2 && line[r / 32 * 32 + other] == line[r] &&
            p.collective[other] == p.collective[r % 32])
        other++;
    const int other_rank = r / 32 * 32 + other;
    const bool exists = p.exists >> other & 1;
    const bool waits = exists && state[slot[other_rank]] == on_condition && condition[other_rank].describe;
    const Code state_of_other = waits                     ? Code::apart_waits
                                : !exists                 ? Code::apart_absent
                                : p.finished >> other & 1 ? Code::apart_returned
                                                          : Code::apart_elsewhere;
    if (take_finding(Code::warp_apart,
            {{"operation", p.instruction[r % 32]}, {"lane", r % 32}, {"other_lane", other}})) {
        Finding why = {};
        if (waits) condition[other_rank].describe(condition[other_rank].arg, why, "why");
        current_finding.add({{"state", state_of_other, why.num_fields}});
        for (int i = 0; i < why.num_fields; i++) current_finding.add({why.fields[i]});
        report_from(r);
    }
    end_launch();
}
// An operation with a mask, which not all lanes of the mask reach.
void Worker::deadlock_at_active_mask(int r) {
    const Warp &p = warps[r / 32];
    const uint32_t missing = p.mask[r % 32] & p.exists & ~p.finished & ~p.arrived;
    for (uint32_t left = missing; left; left &= left - 1)   // it waits for a lane that waits for something else
        if (const int i = r / 32 * 32 + __builtin_ctz(left); state[slot[i]] == on_condition && condition[i].describe)
            deadlock_on_condition(i);
    const uint32_t mask = p.mask[r % 32];
    if (missing ? take_finding(Code::lane_elsewhere,
                      {{"lane", r % 32}, {"mask", mask}, {"other_lane", __builtin_ctz(missing)}})
                : take_finding(Code::different_calls, {{"mask", mask}}))
        report_from(r);
    end_launch();
}

void report_wrong_mask(Worker &w, unsigned mask, int line) {
    fail(Code::own_mask, {{"lane", w.rank[w.current] % 32}, {"mask", mask}}, line);
}
}
