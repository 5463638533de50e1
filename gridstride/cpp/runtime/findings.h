// Findings: what went wrong, where, in which thread; and how a finding ends the launch.
#pragma once
#include "state.h"
#include "worker.h"

namespace gridstride {

void fill(Finding &, Code, Fields);
void begin_finding(Code, Fields);
bool take_finding(Code, Fields);       // false: there is one already, which came first or is the cause of this one
void take_finding(const Finding &);
// where its line goes, if that is 0; null: there is one about that line, or there are enough
Location *begin_warning(Code, int line, Fields);
constexpr size_t most_warnings = 8;    // of a call
void locate(const void *pc, Location &);
bool is_own(const char *file);         // the learner's, and none of these headers or the compiler's?
bool on_stack_of(const Fiber &);
// of the frames that are given, or of those of the thread at work
int find_call_in_kernel(const Worker &, Location &, void *const *frames = nullptr, int depth = 0);
int frames_here(void *(&frames)[24]);
void who(Worker &, int rank, uint64_t block, Location &);
void who(dim3 grid, dim3 threads, int rank, uint64_t block, Location &);
void say_who(Worker &);
[[noreturn]] void end_launch();        // back to `work`, whatever fiber this is

// A finding of the thread at work: noted; and the end of what runs, on the device or on the host.
void note(const void *pc, int line);   // fills in where, and in which thread, of the finding that was taken
void report(Code, Fields, const void *pc, int line);
[[noreturn]] void fail_at(Code, Fields, const void *pc, int line);
[[noreturn]] void fail(Code, Fields, int line = 0);
[[noreturn]] void fail_index(long long index, const char *type, const void *pc, int column);
}
