// Resident blocks: those that are on the device at the same time, so that one may wait for another.
#pragma once
#include "worker.h"

namespace gridstride {

uint64_t blocks_of(const Launch &);
uint64_t capacity(const Launch &, size_t static_bytes);    // blocks that can be resident on the device at once
void begin_grid();
void forget_locks();                                       // of the emulated atomic operations
void work(const Launch &, int os_threads);                 // runs blocks on this OS thread until none is left
}
