// The platform of the runtime in a browser: memory, fibers, jumps and call stacks of WebAssembly.
//
// Fibers and jumps are stacks of WebAssembly that JavaScript suspends and resumes (JavaScript Promise Integration). The
// address of a call is its offset in the code of the module, which JavaScript stores in a global before each call of
// the user's code: `gridstride_pc`, which stands for __builtin_return_address(0).
#include <dlfcn.h>
#include <execinfo.h>
#include <fenv.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <map>
#include <vector>
#include "detector.h"
#include "fiber.h"
#include "findings.h"
#include "output.h"
#include "platform.h"
#include "signals.h"
#include "state.h"
#include "threads.h"
#include "worker.h"

#define IMPORT(name) __attribute__((import_module("gridstride"), import_name(#name)))
#define EXPORT(name) extern "C" __attribute__((export_name(#name), used)) 

extern "C" {
extern char __global_base;
IMPORT(switch_fiber) void gridstride_js_switch(void *from, void *to);
IMPORT(completes) int gridstride_js_completes(void *buffer, void (*f)(void *), void *arg);
IMPORT(jump) void gridstride_js_jump(void *buffer);
IMPORT(backtrace) int gridstride_js_backtrace(uintptr_t *frames, int size);
IMPORT(print) void gridstride_js_print(const char *text, size_t bytes);
IMPORT(warn) void gridstride_js_warn(const void *finding, size_t bytes);
}

static uintptr_t module_base() { return reinterpret_cast<uintptr_t>(&__global_base); }

// gridstride_fuel: see gridstride_tick. gridstride_stack_limit: see gridstride_stack_overflow.
asm(".globl gridstride_pc\n.globaltype gridstride_pc, i32\ngridstride_pc:\n"
    ".globl gridstride_fuel\n.globaltype gridstride_fuel, i32\ngridstride_fuel:\n"
    ".globl gridstride_stack_limit\n.globaltype gridstride_stack_limit, i32\ngridstride_stack_limit:\n");
extern "C" void *gridstride_return_address() {
    uintptr_t offset;
    asm volatile("global.get gridstride_pc\nlocal.set %0" : "=r"(offset));
    return reinterpret_cast<void *>(module_base() + offset);
}

// Memory: unmapped ranges are kept by size, and cleared when they are mapped again.
static std::multimap<size_t, char *> &unmapped() {
    static std::multimap<size_t, char *> ranges;
    return ranges;
}
constexpr size_t wasm_page = 64 << 10;
void *mmap(void *, size_t bytes, int, int, int, long long) {
    bytes = (bytes + wasm_page - 1) / wasm_page * wasm_page;
    if (const auto found = unmapped().find(bytes); found != unmapped().end()) {
        char *const p = found->second;
        unmapped().erase(found);
        madvise(p, bytes, MADV_DONTNEED);
        return p;
    }
    const size_t page = __builtin_wasm_memory_grow(0, bytes / wasm_page);
    return page == ~size_t(0) ? MAP_FAILED : reinterpret_cast<void *>(page * wasm_page);
}
int munmap(void *p, size_t bytes) {
    unmapped().emplace((bytes + wasm_page - 1) / wasm_page * wasm_page, static_cast<char *>(p));
    return 0;
}
// Clears pages, except those that are clear, which the system may not have allocated yet.
int madvise(void *start, size_t bytes, int) {
    constexpr size_t page = 4096;
    for (char *p = static_cast<char *>(start), *const end = p + bytes; p < end; p += page) {
        const size_t n = std::min(page, size_t(end - p));
        if (*p || memcmp(p, p + 1, n - 1)) memset(p, 0, n);
    }
    return 0;
}

namespace gridstride {

void prepare(Fiber &f, void (*entry)()) { f.entry = entry; }
void switch_fiber(Fiber &from, Fiber &to) { gridstride_js_switch(&from, &to); }

bool completes_call(sigjmp_buf &buffer, void (*f)(void *), void *arg) {
    return gridstride_js_completes(buffer, f, arg);
}
}

int fesetround(int direction) {
    if (direction) gridstride::not_emulated("rounding other than to the nearest value");
    return 0;
}

[[noreturn]] void siglongjmp(sigjmp_buf buffer, int) {
    gridstride_js_jump(buffer);
    __builtin_trap();
}

int backtrace(void **frames, int size) {
    const int depth = gridstride_js_backtrace(reinterpret_cast<uintptr_t *>(frames), size);
    for (int i = 0; i < depth; i++) frames[i] = static_cast<char *>(frames[i]) + module_base();
    return depth;
}
int dladdr(const void *address, Dl_info *info) {
    if (!address) return 0;
    *info = {"program.wasm", &__global_base, nullptr, nullptr};
    return 1;
}

// A thrown exception ends the call, because this C++ library cannot unwind a stack.
void gridstride_store_thrown(const void *object, const std::type_info &type);      // python.cpp
extern "C" {
void __cxa_throw(void *object, std::type_info *type, void *(*)(void *)) {
    if (!gridstride::on_device()) gridstride_store_thrown(object, *type);
    if (gridstride::crash_guard) siglongjmp(*gridstride::crash_guard, 1);
    __builtin_trap();
}
void *__cxa_allocate_exception(size_t bytes) noexcept { return malloc(bytes); }
void __cxa_free_exception(void *p) noexcept { free(p); }
void *__cxa_begin_catch(void *p) noexcept { return p; }
void __cxa_end_catch() {}
int __cxa_thread_atexit(void (*)(void *), void *, void *) noexcept { return 0; }   // the one thread never ends
void __ubsan_handle_alignment_assumption(void *, uintptr_t, uintptr_t, uintptr_t) {} // in the C++ library's headers
}

static const bool prints_by_javascript = [] {
    gridstride_send_output_to(gridstride_js_print);
    gridstride_send_warnings_to([](const gridstride::Finding *f) { gridstride_js_warn(f, sizeof *f); });
    return true;
}();

// What JavaScript calls
EXPORT(gridstride_run_fiber) void gridstride_run_fiber(gridstride::Fiber *f) {
    for (;;) f->entry();
}
EXPORT(gridstride_stack_top) void *gridstride_stack_top(gridstride::Fiber *f) {
    return f->stack + gridstride::stack_bytes - f->color % 8 * gridstride::color_bytes;
}
EXPORT(gridstride_run_guarded_function) void gridstride_run_guarded_function(void (*f)(void *), void *arg) { f(arg); }
