// The copies from global to shared memory of cp.async: done at once, so there is nothing to wait for.
#pragma once
#include "emulator.h"

// `bytes` (4, 8 or 16), of which the last `zeros` are not read but set to 0
GRIDSTRIDE_INLINE void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
    typedef int __attribute__((may_alias)) Word;
    if (bytes != 4 && bytes != 8 && bytes != 16) gridstride::trap("__pipeline_memcpy_async copies 4, 8 or 16 bytes");
    if ((size_t(to) | size_t(from)) % bytes) gridstride::trap("__pipeline_memcpy_async: both addresses must be multiples of the number of bytes");
    for (size_t i = 0; i < bytes / 4; i++) static_cast<Word *>(to)[i] = 4 * i < bytes - zeros ? static_cast<const Word *>(from)[i] : 0;
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {}
inline void __pipeline_arrive_on(void *) = delete;   // the emulator has no mbarriers of this kind: see <cuda/barrier>
