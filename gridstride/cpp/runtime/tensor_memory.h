// The tensor memory of a block on a Blackwell GPU (128 lanes of 512 columns of 32 bits), and its state for racecheck.
//
// Each tcgen05 instruction that reads or writes tensor memory is one `TensorAccess`; a cell refers to the accesses of
// 16 lanes of a column. An instruction is executed immediately, but counts as in flight: one by a warp (ld, st) until
// the warp has waited (tcgen05.wait), one by the tensor cores (mma, cp, shift) until a thread has waited at the
// mbarrier that a tcgen05.commit signals. For an access by another thread, the synchronization must also be surrounded
// by the two tcgen05 fences. `awaited` and `fenced` are the times of these events.
#pragma once
#include <deque>
#include <vector>
#include "engines.h"

namespace gridstride {

constexpr uint32_t tensor_lanes = 128, tensor_columns = 512, lanes_of_cell = 16;

struct TensorAccess {
    enum Operation : uint8_t { load, store, mma, copy, shift } operation;
    uint8_t cta_group;
    uint32_t thread, time, location;
    uint32_t awaited, fenced;              // times; 0: not yet
    TensorPipe *pipe;                      // for tcgen05.mma, copies and shifts
    uint32_t commit, shape;                // the commit that follows; for tcgen05.mma: its kind, M and N
    bool uses_pipe() const { return operation >= mma; }
    Access as_access() const { return {thread, time, location}; }
};
struct TensorCell {
    uint32_t write, reads[2];              // 1 + the index of an access
};
struct TensorAllocation {
    uint32_t first, columns;
    int line, cta_group;
    Access allocating_access;
};
struct TensorMemory {
    uint32_t words[tensor_columns][tensor_lanes];
    TensorCell cells[tensor_columns][tensor_lanes / lanes_of_cell];
    uint64_t written[tensor_columns][2];   // per column: a mask of the lanes that were written since the allocation
    std::vector<TensorAllocation> allocations, freed;
    int relinquish_line = 0, group_line = 0, cta_group = 0;
    uint32_t num_allocations = 0;
    std::deque<TensorAccess> accesses;
    std::vector<size_t> pending_loads[max_warps], pending_stores[max_warps];
    bool is_written(uint32_t column, uint32_t lane) const { return written[column][lane / 64] >> lane % 64 & 1; }
    const TensorAllocation *at(uint32_t column) const {
        for (const auto &a : allocations)
            if (column - a.first < a.columns) return &a;
        return nullptr;
    }
};
TensorMemory &tensor_memory_of(Worker &);
TensorPipe &current_pipe();
// Reports columns that are not allocated, and lanes and columns that do not exist
void check_tensor_range(Worker &, uint32_t lane, uint32_t lanes, uint32_t column, uint32_t columns,
    const char *operation, int line);
// Adds an access by the current thread to the tensor memory of a block, and returns its index
size_t add_tensor_access(TensorMemory &, TensorAccess::Operation, int cta_group, uint32_t shape, int line);
// The columns and lanes of an access. `lanes`: a mask of groups of 16 lanes
struct TensorRange {
    uint32_t column, columns, lanes;
    bool reads, writes;
};
// Checks an access against earlier ones to the same cells; `record_tensor_access` then records it.
void check_tensor_order(Worker &, const TensorAccess &, const TensorRange &);
void record_tensor_access(TensorMemory &, size_t index, const TensorRange &);
void check_tensor_written(Worker &, uint32_t lane, uint32_t column, int line, bool by_mma);
void set_tensor_group(Worker &, int cta_group, const char *operation, int line);
// Returns the other block of the CTA pair, for cta_group::2; reports a block that has none.
Worker &pair_of(Worker &, const char *operation, int line);
void check_tensor_memory_at_end(Worker &);
}
