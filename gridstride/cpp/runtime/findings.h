// Stores findings (error, location, thread), and ends launches.
#pragma once
#include "state.h"
#include "worker.h"

namespace gridstride {

void fill(Finding &, Code, Fields);
void begin_finding(Code, Fields);
bool claim_finding(Code, Fields); // returns false if an earlier finding, or the cause of this one, is reported instead
void claim_finding(const Finding &);
// Adds a warning. Returns its location, for a caller that sets the line later (`line` is 0); null if the line already
// has a warning with this code, or if there are too many.
Location *begin_warning(Code, int line, Fields);
constexpr size_t max_warnings = 8;    // per call from Python
void locate(const void *pc, Location &);
bool is_user_source(const char *file);   // whether the file belongs to the user, not to the emulator or the compiler
bool is_on_stack(const Fiber &);
// Searches `frames`, or the call stack of the current thread, for the kernel; returns the line of the call in it.
int find_call_in_kernel(const Worker &, Location &, void *const *frames = nullptr, int depth = 0);
int collect_frames(void *(&frames)[24]);
void set_thread(Worker &, int rank, uint64_t block, Location &);
void set_thread(dim3 grid, dim3 threads, int rank, uint64_t block, Location &);
void set_thread_of_finding(Worker &);
[[noreturn]] void end_launch();        // jumps back to `run_blocks`, from any fiber

void print_finding(FILE *);               // for a process that Python does not observe
[[noreturn]] void end_host_code();       // after a finding
// Stores a line; if the file is unknown, stores the byte 1 and a hash as its name, which `../finding.py` resolves.
void set_source_line(Location &, int line);
// Returns whether the user allows a finding on a line of the kernel, so that the kernel continues.
bool is_allowed(Code, const Launch &, int line);
void locate_finding(const void *pc, int line);   // stores location and thread of the current finding
// `report` stores a finding of the current thread; `fail` also ends the launch, or the host code.
void report(Code, Fields, const void *pc, int line);
[[noreturn]] void fail_at(Code, Fields, const void *pc, int line);
[[noreturn]] void fail(Code, Fields, int line = 0);
[[noreturn]] void fail_index(long long index, const char *type, const void *pc, int column);
}
