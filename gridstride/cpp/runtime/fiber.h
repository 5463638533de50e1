// Fibers: the emulated threads of a block. Each has its own stack; a switch pushes the registers that a called
// function must preserve (callee-saved), exchanges the stack pointers, and pops those of the other fiber: 10 to 20
// instructions, whereas a switch of OS threads takes a microsecond. Fibers switch only where a thread waits, so two
// threads of a block never run simultaneously, and the runtime needs no lock for them.
#pragma once
#include <atomic>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__wasm__)
// site/lite/cuda/platform/platform.cpp
#elif defined(__x86_64__) && !defined(GRIDSTRIDE_UCONTEXT)
#define SAVED_WORDS 8          // six registers, the return address, and one word that keeps the stack aligned
#define RETURN_WORD 6
#define ENTRY_WORD RETURN_WORD // the return address of `entry` is the next word, which is null
#elif defined(__aarch64__) && !defined(GRIDSTRIDE_UCONTEXT)
#define SAVED_WORDS 20
#define RETURN_WORD 11
#define ENTRY_WORD 0           // x19
#else
#define GRIDSTRIDE_UCONTEXT 1
#include <ucontext.h>
#endif

namespace gridstride {

#ifdef __wasm__
constexpr size_t stack_bytes = 64 << 10;  // WebAssembly has 4 GB of addresses; its calls are on another stack
#else
// A thread on a GPU has at most 512 KB of local memory. An odd number of pages, so that the pages at the top of the
// stacks of a block use all sets of the TLB.
constexpr size_t stack_bytes = 644 << 10;
#endif
constexpr size_t max_guarded_stacks = 16384;   // stacks with a guard page; the system limits the mappings of a process
// Stack pointers start at different offsets in a page (cache coloring): otherwise stacks would compete for cache sets.
constexpr size_t stack_colors = 61, color_bytes = 320;

#ifdef __wasm__
struct Fiber {
    void (*entry)() = nullptr;
    char *stack = nullptr;
    size_t color = 0;
    const void *sp_hint() const { return stack; }
};
void switch_fiber(Fiber &from, Fiber &to);
void prepare(Fiber &, void (*entry)());
// Does nothing here: `prepare` starts `entry` again for the next thread of the fiber.
inline void end_fiber() {}
#else
[[noreturn]] inline void end_fiber() { __builtin_unreachable(); }
#endif

#if defined(__wasm__)
#elif defined(GRIDSTRIDE_UCONTEXT)
struct Fiber {
    ucontext_t context;
    char *stack = nullptr;
    size_t color = 0;
    const void *sp_hint() const { return stack; }
};
inline void switch_fiber(Fiber &from, Fiber &to) { swapcontext(&from.context, &to.context); }
inline void prepare(Fiber &f, void (*entry)()) {
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = stack_bytes;
    f.context.uc_link = nullptr;
    makecontext(&f.context, entry, 0);
}
#else
// fiber.cpp
extern "C" void gridstride_switch(void **saved_sp, void *new_sp);
extern "C" void gridstride_begin();
struct Fiber {
    void *sp = nullptr;
    char *stack = nullptr;
    size_t color = 0;
    const void *sp_hint() const { return sp; }
};
inline void switch_fiber(Fiber &from, Fiber &to) { gridstride_switch(&from.sp, to.sp); }
inline void prepare(Fiber &f, void (*entry)()) {
    void **sp = reinterpret_cast<void **>(f.stack + stack_bytes - f.color * color_bytes) - SAVED_WORDS;
    for (int i = 0; i < SAVED_WORDS; i++) sp[i] = nullptr;
    if constexpr (RETURN_WORD != ENTRY_WORD) sp[RETURN_WORD] = reinterpret_cast<void *>(gridstride_begin);
    sp[ENTRY_WORD] = reinterpret_cast<void *>(entry);
    f.sp = sp;
}
#endif

inline void free_stack(Fiber &f) {
    if (f.stack) munmap(f.stack, stack_bytes);
    f.stack = nullptr;
}
// Most stacks have a guard page below them, so that a stack overflow is a fault, which is reported.
inline bool allocate_stack(Fiber &f) {
    if (f.stack) return true;
    void *p = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    static std::atomic<size_t> num_stacks{0};
    f.stack = static_cast<char *>(p);
    f.color = num_stacks++ % stack_colors;
    if (num_stacks < max_guarded_stacks) mprotect(p, size_t(sysconf(_SC_PAGESIZE)), PROT_NONE);
    return true;
}
}
