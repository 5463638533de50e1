// setmaxnreg, with synccheck only. A block has as many registers as its launch bounds permit: `setmaxnreg.dec` returns
// some of a warp to the pool of the block, and `setmaxnreg.inc` waits until the pool has enough. Without launch bounds,
// ptxas ignores both. A warp whose threads have returned gives back its registers.
#include <algorithm>
#include <string>
#include "engines.h"
#include "findings.h"
#include "synccheck.h"

namespace gridstride {

constexpr unsigned registers_of_sm = 65536, max_registers = 256, register_step = 8;

// Returns the registers per thread at the launch; 0: unknown. An SM allocates registers for four warps at a time.
static unsigned registers_at_launch(const Worker &w) {
    const unsigned warps = (w.bounds.threads + 31) / 32 * std::max(w.bounds.blocks, 1u);
    const unsigned threads = (warps + 3) / 4 * 128;
    return threads ? std::min(registers_of_sm / threads / register_step * register_step, max_registers) : 0;
}
static int num_warps(const Worker &w) { return (w.num_threads + 31) / 32; }
static RegisterPool &pool_of(Worker &w) {
    RegisterPool &pool = engines_of(w).registers;
    if (!pool.per_thread && (pool.per_thread = registers_at_launch(w)))
        for (int i = 0; i < max_warps; i++) pool.owned[i] = pool.requested[i] = pool.per_thread;
    return pool;
}
// Returns the sum over the warps of the block whose threads have not all returned
static unsigned sum_of_warps(const Worker &w, const unsigned *registers) {
    unsigned sum = 0;
    for (int warp = 0; warp < num_warps(w); warp++)
        for (int i = 32 * warp; i < std::min(32 * warp + 32, w.num_threads); i++)
            if (w.state[w.slot[i]] != done) {
                sum += registers[warp] * 32;
                break;
            }
    return sum;
}
static unsigned size_of(const Worker &w, const RegisterPool &pool) {
    return pool.per_thread * 32 * unsigned(num_warps(w));
}

struct RegisterWait {
    Worker *block;
    int warp;
};
static bool try_take_registers(void *arg) {
    const RegisterWait &wait = *static_cast<RegisterWait *>(arg);
    RegisterPool &pool = engines_of(*wait.block).registers;
    unsigned &owned = pool.owned[wait.warp];
    const unsigned missing = (pool.requested[wait.warp] - owned) * 32;
    if (missing && sum_of_warps(*wait.block, pool.owned) + missing > size_of(*wait.block, pool)) return false;
    owned = pool.requested[wait.warp];
    return true;
}
void describe_register_wait(void *, Finding &f, const char *name) { f.add({{name, Code::for_registers}}); }

// The registers that the warpgroups own or request exceed those of the block.
void Worker::report_missing_registers(int thread_rank) {
    const RegisterPool &pool = pool_of(*this);
    std::string counts;
    for (int warp = 0; warp < num_warps(*this); warp += 4)
        counts += (warp ? " + " : "") + std::to_string(pool.requested[warp]);
    if (!claim_finding(Code::too_few_registers,
            {{"counts", counts.c_str()}, {"needed", sum_of_warps(*this, pool.requested)},
                {"available", size_of(*this, pool)}, {"per_thread", pool.per_thread}}))
        end_launch();
    report_from_thread(thread_rank);
}

static void report_skipped(Worker &w, int warp, int other_warp, int line) {
    detector.report_finding(Code::setmaxnreg_skipped, {{"warp", other_warp}},
        {Detector::thread_id(w, 32 * warp), 0, line_bit | uint32_t(line)});
}
// Reports a warp whose n-th setmaxnreg is not the n-th one of another warp of its warpgroup
static void check_warpgroup(Worker &w, int warp, size_t n) {
    auto &changes = engines_of(w).registers.changes;
    const RegisterChange &own = changes[warp][n];
    for (int other = warp / 4 * 4; other < std::min(warp / 4 * 4 + 4, num_warps(w)); other++)
        if (n < changes[other].size() &&
            (changes[other][n].registers != own.registers || changes[other][n].increases != own.increases))
            report_skipped(w, warp, other, own.line);
}
void check_setmaxnreg_at_end(Worker &w) {
    if (!checks(synccheck)) return;
    auto &changes = engines_of(w).registers.changes;
    for (int warp = 0; warp < num_warps(w); warp++)
        for (int other = warp / 4 * 4; other < std::min(warp / 4 * 4 + 4, num_warps(w)); other++)
            if (const size_t n = changes[other].size(); n < changes[warp].size())
                report_skipped(w, warp, other, changes[warp][n].line);
}

static void begin_change(void *const *lanes) {
    const RegisterChange &change = *static_cast<RegisterChange *>(lanes[0]);
    RegisterPool &pool = pool_of(*worker);
    const int warp = current_rank() / 32;
    pool.changes[warp].push_back(change);
    check_warpgroup(*worker, warp, pool.changes[warp].size() - 1);
    if (!pool.per_thread) return;
    const unsigned before = pool.owned[warp];
    // PTX leaves a request for fewer undefined, too, but an H100 executes it, as kernels of 256 threads show.
    if (!change.increases && change.registers > before)
        fail(Code::setmaxnreg_direction, {{"registers", change.registers}, {"before", before}}, change.line);
    if (!change.increases) pool.owned[warp] = pool.requested[warp] = change.registers;
    else pool.requested[warp] = std::max(before, change.registers);
}
void set_registers(bool increases, unsigned registers, int line) {
    if (!detector.is_enabled || !checks(synccheck)) return;
    RegisterChange change = {increases, registers, line};
    run_for_warp("setmaxnreg", &change, begin_change, line);
    if (!pool_of(*worker).per_thread) return;
    RegisterWait wait = {worker, current_rank() / 32};
    wait_until(try_take_registers, &wait, line, describe_register_wait);
}
}
