// A finding: its code, fields, location and thread, without the message. diagnostics/messages.py has the message of
// each code and the valid values of its fields; tests/test_cpp_findings.py compares its codes with the list below.
#pragma once
#include <initializer_list>
#include <stdint.h>
#include "vector_types.h"

namespace gridstride {

// clang-format off
enum Kind {
    nothing, memcheck, racecheck, initcheck, synccheck, fencecheck, launch_failed, assertion, crash, timeout,
    interrupted, warning,
    phrase                             // a phrase in the message of a finding
};

#define GRIDSTRIDE_CODES(X) \
    X(memcheck, outside) X(memcheck, before) X(memcheck, wrapped) X(memcheck, overflowed) X(memcheck, outside_type) \
    X(memcheck, outside_shared) X(memcheck, outside_dynamic) X(memcheck, outside_arrays) \
    X(memcheck, no_dynamic) X(memcheck, no_shared_address) X(memcheck, copy_target) X(memcheck, no_array) \
    X(memcheck, freed) \
    X(memcheck, not_allocated) X(memcheck, null_read) X(memcheck, null_written) X(memcheck, failed_alloc) \
    X(memcheck, constant) \
    X(memcheck, kernel_reads_host) X(memcheck, kernel_writes_host) X(memcheck, local_of_other) \
    X(memcheck, host_reads) \
    X(memcheck, host_writes) X(memcheck, host_reads_symbol) X(memcheck, host_writes_symbol) \
    X(memcheck, host_symbol) X(memcheck, host_function) X(memcheck, host_virtual) X(memcheck, host_memory_given) \
    X(memcheck, device_memory_given) X(memcheck, library_memory) X(memcheck, fault_outside) \
    X(memcheck, fault_no_array) X(memcheck, fault_freed) X(memcheck, fault_null) X(memcheck, fault_address) \
    X(memcheck, misaligned) X(memcheck, misaligned_operand) X(memcheck, block_ended) X(memcheck, block_may_end) \
    X(memcheck, no_block) X(memcheck, copy_to_no_block) X(memcheck, memory_of_other_block) X(memcheck, bulk_bytes) \
    X(memcheck, no_tensor_map) X(memcheck, coordinates) X(memcheck, box_misaligned) X(memcheck, box_before) \
    X(memcheck, descriptor) X(memcheck, metadata) X(memcheck, peer_not_enabled) \
    X(memcheck, tensor_columns) X(memcheck, tensor_outside) X(memcheck, tensor_freed) \
    X(memcheck, tensor_freed_twice) X(memcheck, tensor_leak) X(memcheck, tensor_relinquished) \
    X(memcheck, tensor_lanes) X(memcheck, tensor_groups) X(memcheck, tensor_pair) \
    X(memcheck, instruction_descriptor) X(memcheck, matrix_descriptor) X(memcheck, tensor_map_mode) \
    X(racecheck, race) X(racecheck, race_of_blocks) X(racecheck, race_of_cluster) X(racecheck, same_value) \
    X(racecheck, race_of_devices) X(racecheck, scope_of_device) X(racecheck, atomic_of_device) \
    X(racecheck, race_of_processes) \
    X(racecheck, race_of_volatiles) X(racecheck, atomic_of_block) X(racecheck, flag_not_acquired) \
    X(racecheck, fence_of_block) X(racecheck, unordered_operations) X(racecheck, host_race) \
    X(racecheck, copy_not_waited_for) \
    X(racecheck, copy_not_committed) X(racecheck, bulk_in_flight) \
    X(racecheck, engine_reads) X(racecheck, engine_has_read) X(racecheck, after_engine) X(racecheck, before_engine) \
    X(racecheck, registers_written) X(racecheck, result_not_awaited) X(racecheck, store_not_awaited) \
    X(racecheck, tensor_in_flight) X(racecheck, tensor_race) \
    X(racecheck, mma_not_awaited) \
    X(racecheck, load_not_awaited) X(racecheck, block_not_begun) \
    X(initcheck, unwritten) X(initcheck, unwritten_shared) X(initcheck, unwritten_for_engine) \
    X(initcheck, tensor_unwritten) \
    X(synccheck, returned) X(synccheck, skipped) X(synccheck, diverged) X(synccheck, deadlock) \
    X(synccheck, mutual_deadlock) X(synccheck, warp_diverged) \
    X(synccheck, lane_elsewhere) X(synccheck, undefined_lane) \
    X(synccheck, undefined_result) \
    X(synccheck, different_calls) X(synccheck, caller_not_in_mask) X(synccheck, arrives_twice) \
    X(synccheck, waits_unarrived) \
    X(synccheck, no_such_barrier) X(synccheck, barrier_threads) X(synccheck, no_mbarrier) \
    X(synccheck, mbarrier_count) X(synccheck, mbarrier_bytes) X(synccheck, too_many_arrive) \
    X(synccheck, different_descriptors) \
    X(synccheck, deadlock_on_flag) X(synccheck, ranks_missing) X(synccheck, ranks_disagree) \
    X(synccheck, process_missing) X(synccheck, not_resident) X(synccheck, not_cooperative) \
    X(synccheck, tensor_addresses) X(synccheck, too_few_registers) X(synccheck, setmaxnreg_skipped) \
    X(synccheck, setmaxnreg_direction) \
    X(fencecheck, barrier_not_visible) X(fencecheck, no_proxy_fence) X(fencecheck, tensor_no_fence) \
    X(fencecheck, tensor_load_not_awaited) \
    X(launch_failed, empty) X(launch_failed, block_size) X(launch_failed, grid_size) X(launch_failed, cluster_size) \
    X(launch_failed, launch_bounds) X(launch_failed, dynamic_size) X(launch_failed, cooperative_size) \
    X(launch_failed, shared_sum) X(launch_failed, static_size) X(launch_failed, waits_in_kernel) \
    X(launch_failed, not_launched) X(launch_failed, stream_of_other_device) \
    X(launch_failed, out_of_memory) \
    X(assertion, fails) \
    X(crash, division) X(crash, division_overflows) X(crash, stack) X(crash, aborts) X(crash, instruction) \
    X(crash, trap) X(crash, no_return) \
    X(crash, local_array) X(crash, exits) X(crash, exits_in_kernel) X(crash, host_called) X(crash, host_memory) \
    X(crash, host_division) X(crash, host_division_overflows) \
    X(crash, host) X(crash, cluster_variable) X(crash, no_addresses) X(crash, no_stack) X(crash, not_emulated) \
    X(crash, shifted_too_far) X(crash, does_not_fit) \
    X(timeout, time_limit) \
    X(interrupted, stopped) \
    X(phrase, own_copy) X(phrase, other_copy) X(phrase, a_thread) X(phrase, a_bulk_copy) X(phrase, an_engine) \
    X(phrase, kernel_on) X(phrase, call_on) X(phrase, kernel_in) X(phrase, call_in) \
    X(phrase, default_stream) X(phrase, created_stream) X(phrase, given_stream) \
    X(phrase, element) X(phrase, of_line) X(phrase, at_cluster) X(phrase, at_grid) X(phrase, at_barrier) \
    X(phrase, surplus_bytes) X(phrase, missing_arrivals_and_bytes) \
    X(phrase, missing_bytes) X(phrase, missing_arrivals) \
    X(phrase, for_wgmma) X(phrase, for_tensor_memory) X(phrase, for_tensor_pair) \
    X(phrase, for_registers) \
    X(phrase, not_committed) X(phrase, commit_not_awaited) X(phrase, load_without_wait) X(phrase, store_without_wait) \
    X(phrase, fence_before) X(phrase, fence_after) \
    X(phrase, lane_waits) X(phrase, lane_nonexistent) X(phrase, lane_returned) X(phrase, lane_at_other_call) \
    X(phrase, not_in_mask) X(phrase, first_of_block) X(phrase, first_of_warp) \
    X(phrase, trap_called) X(phrase, breakpoint) X(phrase, abort_called) X(phrase, exception_thrown) \
    X(phrase, tile_threads) \
    X(phrase, other_kernel_waits) X(phrase, no_other_kernel) \
    X(phrase, rank_not_called) X(phrase, rank_not_arrived) X(phrase, rank_ended) X(phrase, rank_left) \
    X(phrase, rank_without_group) \
    X(phrase, process_ended) X(phrase, processes_idle) \
    X(phrase, copy_bytes) X(phrase, matrix_stride)

enum class Code {
#define X(kind, code) code,
    GRIDSTRIDE_CODES(X)
#undef X
};
// clang-format on

struct Field {
    enum Type { number, text, list, phrase };
    static constexpr int max_values = 8;
    char name[16];
    int type, count;                   // count: of integers, or, for a phrase, of its fields, which follow
    long long values[max_values];
    char string[384];                  // the string, or the code of the phrase

    Field() = default;
    template <class I> Field(const char *name, I x) : Field(name, number, 1) {
        values[0] = static_cast<long long>(x);
    }
    Field(const char *name, const char *x) : Field(name, text, 0) { copy(string, x); }
    Field(const char *name, const long long *x, int n) : Field(name, list, n < max_values ? n : max_values) {
        for (int i = 0; i < count; i++) values[i] = x[i];
    }
    Field(const char *name, uint3 x) : Field(name, list, 3) {
        values[0] = x.x, values[1] = x.y, values[2] = x.z;
    }
    Field(const char *name, dim3 x) : Field(name, uint3(x)) {}
    Field(const char *name, Code, int num_fields = 0);

    template <int n> static void copy(char (&to)[n], const char *from) {
        int i = 0;
        for (; i < n - 1 && from[i]; i++) to[i] = from[i];
        to[i] = 0;
    }

private:
    Field(const char *field_name, Type type, int count) : name(), type(type), count(count), values(), string() {
        copy(name, field_name);
    }
};
using Fields = std::initializer_list<Field>;

// A frame of a call stack: a line of the user's source, and its function
struct Frame {
    int line;
    char function[64], file[192];
};

struct Location {
    int line, block[3], thread[3];
    int device;                        // -1 if there is only one device
    char file[256];
    int num_calls;                     // the first of the `calls` is the innermost
    Frame calls[8];

    void add_call(const char *function, const char *file, int line);
};

// gridstride/cpp/finding.py defines the same structure for Python; gridstride_abi() returns the sizes to compare.
struct Finding {
    int kind, has_thread, has_other;   // has_thread: 1, or 2 if only its block is known
    int column;                        // the source column at which Python reads the array's name; 0: none
    int call_line;                     // the line in the kernel that called the function with the error; 0: none
    int num_fields;
    char code[32], kernel[128];
    Location location, other;
    Field fields[24];

    void add(Fields);
};
// The checksum of the ABI (GRIDSTRIDE_ABI_CHECKSUM of toolchain/runtime_library.py), and the sizes of its structures;
// C++ and Python must agree
struct Abi { int version, options, location, field, finding; };

// Adds the field `name` to a finding: a phrase that describes what a thread in a deadlock waits for.
typedef void DescribeWait(void *arg, Finding &, const char *name);
}
