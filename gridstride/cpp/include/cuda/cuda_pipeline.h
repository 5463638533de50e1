// Functions for the asynchronous copies of cp.async, from global to shared memory.
#pragma once
#include "emulator.h"

// Copies `bytes` (4, 8 or 16) bytes; the last `zeros` of them are not read, but set to 0.
GRIDSTRIDE_INLINE void __pipeline_memcpy_async(
    void *to, const void *from, size_t bytes, size_t zeros = 0, int line = __builtin_LINE()) {
    if (bytes != 4 && bytes != 8 && bytes != 16) gridstride::trap(gridstride::Code::copy_bytes);
    gridstride::copy_async(
        to, from, unsigned(bytes), unsigned(zeros < bytes ? bytes - zeros : 0), "__pipeline_memcpy_async", line);
}
inline void __pipeline_commit() { gridstride::copy_async_commit(); }
inline void __pipeline_wait_prior(size_t groups) { gridstride::copy_async_wait(unsigned(groups)); }
inline void __pipeline_arrive_on(void *) = delete;   // not supported; <cuda/barrier> has mbarriers
