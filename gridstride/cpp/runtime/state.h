// What the whole runtime shares: how kernels shall run, what was found, whether a launch has ended. Defined in
// state.cpp.
#pragma once
#include <atomic>
#include <setjmp.h>
#include <string>
#include "runtime.h"

namespace gridstride {

constexpr int abi_version = 1;        // of what Python shares: finding.h, and the functions at the end of runtime.h
extern gridstride_options options;
extern Finding found, warned;
extern std::atomic<bool> stop;         // the launch ends: something was found
extern thread_local sigjmp_buf *guard; // where a crash of host code leads
extern const Names *all_names;         // of the kernels' parameters
extern int error_code;                 // cudaGetLastError's
extern bool launching;                 // several OS threads are at work

inline bool checks(Kind k) { return options.checks >> k & 1; }
std::string base_name(const char *text); // of `(const void *)ns::k<16>`: k
}
