// The switch from one fiber to another: pushes the callee-saved registers, exchanges the stack pointer, and pops those
// of the other fiber.
#include "fiber.h"

#if defined(__APPLE__)
#define SYMBOL "_gridstride_switch"
#define BEGIN "_gridstride_begin"
#else
#define SYMBOL "gridstride_switch"
#define BEGIN "gridstride_begin"
#endif

#if defined(GRIDSTRIDE_UCONTEXT) || defined(__wasm__)
// switch_fiber is swapcontext, or in site/lite/cuda/platform
#elif defined(__x86_64__)
asm(".text\n.globl " SYMBOL "\n" SYMBOL ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n");
#elif defined(__aarch64__)
asm(".text\n.globl " SYMBOL "\n" SYMBOL ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n  ret\n"
    // The first function of a fiber has no caller, so the link register is cleared. Otherwise it would hold the target
    // of the last `ret`, which an unwinder would take for a caller, and read past the end of the stack.
    ".globl " BEGIN "\n" BEGIN ":\n"
    "  mov x16, x19\n  mov x30, xzr\n  br x16\n");
#endif
