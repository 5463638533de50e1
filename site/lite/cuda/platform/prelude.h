// The address of the user's code that has called the current function of the runtime: see platform.cpp.
#pragma once
extern "C" void *gridstride_return_address();
[[noreturn]] inline void pthread_exit(void *) { __builtin_trap(); }   // there is one thread
