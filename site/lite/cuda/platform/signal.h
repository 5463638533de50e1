// The numbers of the signals that signals.cpp makes of traps; nothing is raised.
#pragma once
#define SIGINT 2
#define SIGILL 4
#define SIGTRAP 5
#define SIGABRT 6
#define SIGBUS 7
#define SIGFPE 8
#define SIGUSR2 12
#define SIGSEGV 11
#include <stddef.h>
#define SS_DISABLE 2
struct stack_t {
    void *ss_sp;
    int ss_flags;
    size_t ss_size;
};
inline int sigaltstack(const stack_t *, stack_t *) { return 0; }
