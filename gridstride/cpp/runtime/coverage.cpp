// Records which basic blocks of the loaded modules were executed: -fsanitize-coverage=trace-pc inserts a call at the
// start of each, whose return address is added to a set. Also counts how many warps took each branch:
// `../rewriters/branches.py` inserts a call into each condition. Evaluation i of a condition by a warp consists of
// evaluation i by each of its threads.
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "loader.h"
#include "state.h"
#include "worker.h"

namespace gridstride {
struct ExecutedBlock { // mirrored in ../emulator.py
    const char *library;
    uintptr_t offset; // of the return address in the library
};

struct BlockSet {
    static constexpr size_t size = 1 << 18, max_probes = 64;
    std::atomic<uintptr_t> addresses[size];
    std::atomic<size_t> num_dropped;

    void add(uintptr_t address) {
        size_t slot = address * 0x9e3779b97f4a7c15u >> 46;
        for (size_t probe = 0; probe < max_probes; ++probe, slot = (slot + 1) % size) {
            uintptr_t found = addresses[slot].load(std::memory_order_relaxed);
            if (found == address) return;
            if (!found && addresses[slot].compare_exchange_strong(found, address)) return;
            if (found == address) return;       // another thread has stored it in between
        }
        ++num_dropped;
    }
};
static BlockSet executed_blocks;

struct BranchCounts { // mirrored in ../emulator.py
    const char *file;
    long line, taken, not_taken, divergent; // evaluations by warps; a divergent one counts as both
};

struct WarpBranch {
    const char *file;
    int line, column;
    uint64_t warp; // its index in the grid
    bool operator==(const WarpBranch &other) const {
        return file == other.file && line == other.line && column == other.column && warp == other.warp;
    }
    struct Hash {
        size_t operator()(const WarpBranch &b) const {
            const size_t site = reinterpret_cast<uintptr_t>(b.file) ^ size_t(b.line) << 40 ^ size_t(b.column) << 20;
            return (site ^ b.warp) * 0x9e3779b97f4a7c15u >> 7;
        }
    };
};
struct WarpOutcomes {
    uint32_t num_evaluations[32] = {}; // by lane
    std::vector<uint8_t> evaluations;  // 1: some lane takes the branch, 2: some lane does not
};
static struct {
    std::mutex lock;
    std::unordered_map<WarpBranch, WarpOutcomes, WarpBranch::Hash> outcomes; // of the launch
    std::map<std::pair<std::string, int>, BranchCounts> counts; // by file and line
} branches;
void fork_branches(Fork phase) { handle_fork(phase, branches.lock); }

void record_branch(const char *file, int line, int column, bool is_taken) {
    if (!on_device()) return;
    const int rank = worker->rank[worker->current_slot];
    const uint64_t warp = worker->block * max_warps + uint64_t(rank / 32);
    std::lock_guard<std::mutex> guard(branches.lock);
    WarpOutcomes &outcomes = branches.outcomes[{file, line, column, warp}];
    const uint32_t evaluation = outcomes.num_evaluations[rank % 32]++;
    if (evaluation >= outcomes.evaluations.size()) outcomes.evaluations.resize(evaluation + 1);
    outcomes.evaluations[evaluation] |= uint8_t(is_taken ? 1 : 2);
}
// Adds the branches of a launch to the counts.
void count_branches() {
    std::lock_guard<std::mutex> guard(branches.lock);
    for (const auto &[branch, outcomes] : branches.outcomes) {
        BranchCounts &counts = branches.counts[{branch.file, branch.line}];
        for (const uint8_t outcome : outcomes.evaluations)
            counts.taken += outcome & 1, counts.not_taken += outcome >> 1, counts.divergent += outcome == 3;
    }
    branches.outcomes.clear();
}
}

extern "C" {
GRIDSTRIDE_API void __sanitizer_cov_trace_pc() {
    gridstride::executed_blocks.add(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

// Removes at most `n` blocks from the set, and returns their number; -1 if the set was too small
GRIDSTRIDE_API long gridstride_take_executed_blocks(gridstride::ExecutedBlock *out, long n) {
    auto &blocks = gridstride::executed_blocks;
    if (blocks.num_dropped.exchange(0)) return -1;
    long taken = 0;
    for (size_t slot = 0; slot < blocks.size && taken < n; ++slot) {
        const uintptr_t address = blocks.addresses[slot].load(std::memory_order_relaxed);
        if (!address) continue;
        blocks.addresses[slot] = 0;
        Dl_info info;
        if (!gridstride::find_symbol(reinterpret_cast<void *>(address), info)) continue;
        out[taken++] = {info.dli_fname, address - reinterpret_cast<uintptr_t>(info.dli_fbase)};
    }
    return taken;
}

// Sets `rows` to the counts since the last call, which are valid until the next one, and returns their number.
GRIDSTRIDE_API long gridstride_take_branches(const gridstride::BranchCounts **rows) {
    static std::map<std::pair<std::string, int>, gridstride::BranchCounts> counts;
    static std::vector<gridstride::BranchCounts> taken_rows;
    std::lock_guard<std::mutex> guard(gridstride::branches.lock);
    counts = std::move(gridstride::branches.counts);
    gridstride::branches.counts.clear();
    taken_rows.clear();
    for (auto &[site, row] : counts) row.file = site.first.c_str(), row.line = site.second, taken_rows.push_back(row);
    *rows = taken_rows.data();
    return long(taken_rows.size());
}
}
