// Support for kernels that rewriters/block_loops.py has rewritten: one call runs all threads of a block in loops.
#pragma once
#include "runtime.h"

namespace gridstride {
// Exists while a kernel runs the threads of its block. If options.order is not `forward`, and to find the thread of a
// fault, each loop visits the threads in the order `order`.
class ThreadLoops {
    const int *order;                          // by step: the rank of a thread; null: all threads in one nest of loops
    dim3 block;

public:
    GRIDSTRIDE_API ThreadLoops();
    GRIDSTRIDE_API ~ThreadLoops();
    ThreadLoops(const ThreadLoops &) = delete;
    // Returns memory for a variable that is live across a barrier: an element per thread.
    template <class T> __attribute__((always_inline)) T *array() const {
        return static_cast<T *>(thread_memory(block.x * block.y * block.z * sizeof(T)));
    }
    template <class F> __attribute__((always_inline)) void run(F run_thread) const {
        const unsigned num_steps = order ? block.x * block.y * block.z : 1;
        for (unsigned step = 0; step < num_steps; step++) {
            if (order) record_step(int(step));
            const unsigned rank = order ? unsigned(order[step]) : 0;
            const uint3 from = order ? uint3{rank % block.x, rank / block.x % block.y, rank / (block.x * block.y)}
                                     : uint3{0, 0, 0};
            const uint3 end = order ? uint3{from.x + 1, from.y + 1, from.z + 1} : uint3{block.x, block.y, block.z};
            for (unsigned z = from.z; z < end.z; z++)
                for (unsigned y = from.y; y < end.y; y++)
                    for (unsigned x = from.x; x < end.x; x++)
                        run_thread(uint3{x, y, z}, x + block.x * (y + block.y * z));
        }
    }

private:
    GRIDSTRIDE_API static void record_step(int step);
    GRIDSTRIDE_API static __attribute__((malloc)) void *thread_memory(size_t bytes);
};
}

// Copies the built-in variables at the beginning of the kernel, so that the compiler can keep them in registers
#define GRIDSTRIDE_BLOCK \
    const ::gridstride::ThreadLoops gs_loops; \
    [[maybe_unused]] const uint3 blockIdx = ::blockIdx; \
    [[maybe_unused]] const dim3 blockDim = ::blockDim, gridDim = ::gridDim;
#define GRIDSTRIDE_THREADS \
    gs_loops.run([&]([[maybe_unused]] const uint3 threadIdx, [[maybe_unused]] const unsigned gs_thread) \
        __attribute__((always_inline)) {
#define GRIDSTRIDE_THREADS_END });
