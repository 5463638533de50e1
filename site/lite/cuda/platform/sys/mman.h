// Memory in pages, for WebAssembly, whose memory only grows and has no protection: see platform.cpp.
#pragma once
#include <errno.h>
#include <stddef.h>
#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 32
#define MAP_NORESERVE 0
#define MAP_FAILED (reinterpret_cast<void *>(-1))
#define MADV_DONTNEED 4
void *mmap(void *, size_t bytes, int, int, int, long long);
#define MS_ASYNC 1
inline int msync(void *p, size_t, int) {
    return reinterpret_cast<size_t>(p) >> 16 < __builtin_wasm_memory_size(0) ? 0 : (errno = ENOMEM, -1);
}
int munmap(void *, size_t bytes);
inline int mprotect(void *, size_t, int) { return 0; }
int madvise(void *, size_t bytes, int);
