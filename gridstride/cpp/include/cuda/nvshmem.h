// A subset of NVSHMEM, for the devices of one process: a PE is an emulated device; in host code, the current device.
// The n-th nvshmem_malloc of each device returns its replica of the same symmetric array.
#pragma once
#include <vector>
#include "cuda_runtime.h"

enum { NVSHMEM_SIGNAL_SET = 0, NVSHMEM_SIGNAL_ADD = 1 };
enum {
    NVSHMEM_CMP_EQ = 0, NVSHMEM_CMP_NE = 1, NVSHMEM_CMP_GT = 2, NVSHMEM_CMP_LE = 3, NVSHMEM_CMP_LT = 4,
    NVSHMEM_CMP_GE = 5
};
typedef int nvshmem_team_t;
constexpr nvshmem_team_t NVSHMEM_TEAM_WORLD = 0;

namespace gridstride {
namespace shmem {
inline std::vector<void *> arrays;         // the addresses on device 0
inline size_t num_allocated[8] = {};       // by device: the number of arrays that it has allocated
inline bool is_satisfied(uint64_t value, int comparison, uint64_t operand) {
    switch (comparison) {
        case NVSHMEM_CMP_EQ: return value == operand;
        case NVSHMEM_CMP_NE: return value != operand;
        case NVSHMEM_CMP_GT: return value > operand;
        case NVSHMEM_CMP_LE: return value <= operand;
        case NVSHMEM_CMP_LT: return value < operand;
        default: return value >= operand;
    }
}
template <class T> T *remote_address(const T *p, int pe) { return static_cast<T *>(symmetric_peer(p, pe)); }
}
}

inline void nvshmem_init() {}
inline void nvshmem_finalize() {}
inline int nvshmem_my_pe() { return gridstride::current_device(); }
inline int nvshmem_n_pes() { return gridstride::device_count(); }
inline int nvshmem_team_my_pe(nvshmem_team_t) { return nvshmem_my_pe(); }
inline int nvshmem_team_n_pes(nvshmem_team_t) { return nvshmem_n_pes(); }
inline void *nvshmem_malloc(size_t bytes, int line = __builtin_LINE()) {
    using namespace gridstride;
    const int device = current_device();
    const size_t index = shmem::num_allocated[device]++;
    if (index == shmem::arrays.size())
        shmem::arrays.push_back(symmetric_peer(symmetric_alloc(bytes, 1, "symmetric", line), 0));
    return symmetric_peer(shmem::arrays[index], device);
}
inline void nvshmem_free(void *p) { gridstride::symmetric_free(p); }
inline void *nvshmem_ptr(const void *p, int pe) { return gridstride::symmetric_peer(p, pe); }
inline void *nvshmemx_mc_ptr(nvshmem_team_t, const void *p) { return gridstride::multicast_address(p); }

// Memory ordering: in a kernel, both are a fence with system scope.
inline void nvshmem_fence() { gridstride::fence(gridstride::Scope::system); }
inline void nvshmem_quiet() { gridstride::fence(gridstride::Scope::system); }

// Puts and gets: the destination of a put, and the source of a get, is an address in the caller's replica.
inline void nvshmem_putmem(void *to, const void *from, size_t bytes, int pe) {
    gridstride_memcpy(gridstride::shmem::remote_address(static_cast<char *>(to), pe), from, bytes);
}
inline void nvshmem_getmem(void *to, const void *from, size_t bytes, int pe) {
    gridstride_memcpy(to, gridstride::shmem::remote_address(static_cast<const char *>(from), pe), bytes);
}
inline void nvshmem_putmem_nbi(void *to, const void *from, size_t bytes, int pe) {
    nvshmem_putmem(to, from, bytes, pe);
}
inline void nvshmem_getmem_nbi(void *to, const void *from, size_t bytes, int pe) {
    nvshmem_getmem(to, from, bytes, pe);
}
#define GRIDSTRIDE_SHMEM(name, T) \
    inline void nvshmem_##name##_p(T *to, T value, int pe) { *gridstride::shmem::remote_address(to, pe) = value; } \
    inline T nvshmem_##name##_g(const T *from, int pe) { return *gridstride::shmem::remote_address(from, pe); } \
    inline void nvshmem_##name##_put(T *to, const T *from, size_t n, int pe) { \
        for (size_t i = 0; i < n; i++) gridstride::shmem::remote_address(to, pe)[i] = from[i]; \
    } \
    inline void nvshmem_##name##_get(T *to, const T *from, size_t n, int pe) { \
        for (size_t i = 0; i < n; i++) to[i] = gridstride::shmem::remote_address(from, pe)[i]; \
    } \
    inline T nvshmem_##name##_atomic_fetch_add(T *p, T value, int pe, int line = __builtin_LINE()) { \
        return gridstride::atomic_update<gridstride::Add, T>( \
            gridstride::shmem::remote_address(p, pe), value, gridstride::Scope::system, line); \
    }
GRIDSTRIDE_SHMEM(float, float)
GRIDSTRIDE_SHMEM(double, double)
GRIDSTRIDE_SHMEM(int, int)
GRIDSTRIDE_SHMEM(uint64, uint64_t)
#undef GRIDSTRIDE_SHMEM

// Signals: words of 64 bits in symmetric memory
inline void nvshmemx_signal_op(uint64_t *signal, uint64_t value, int op, int pe, int line = __builtin_LINE()) {
    using namespace gridstride;
    uint64_t *const remote = shmem::remote_address(signal, pe);
    if (op == NVSHMEM_SIGNAL_ADD) atomic_update<Add, uint64_t>(remote, value, Scope::system, line);
    else atomic_update<Store, uint64_t>(remote, value, Scope::system, line);
}
inline void nvshmem_putmem_signal(void *to, const void *from, size_t bytes, uint64_t *signal, uint64_t value, int op,
    int pe, int line = __builtin_LINE()) {
    nvshmem_putmem(to, from, bytes, pe);
    nvshmem_fence();
    nvshmemx_signal_op(signal, value, op, pe, line);
}
inline void nvshmem_putmem_signal_nbi(void *to, const void *from, size_t bytes, uint64_t *signal, uint64_t value,
    int op, int pe, int line = __builtin_LINE()) {
    nvshmem_putmem_signal(to, from, bytes, signal, value, op, pe, line);
}
GRIDSTRIDE_NO_TSAN inline uint64_t nvshmem_signal_wait_until(
    uint64_t *signal, int comparison, uint64_t operand, int line = __builtin_LINE()) {
    using namespace gridstride;
    for (;;) {
        atomic_begin(signal, 8, Use::load, Scope::system, Order::acquire, line);
        const uint64_t value = load_unchecked(signal);
        atomic_end(signal);
        if (shmem::is_satisfied(value, comparison, operand)) return value;
    }
}
// Waits for all devices; only host code may call it.
inline void nvshmem_barrier_all() {
    if (!gridstride::on_device()) gridstride::host_waits();
    else gridstride::not_emulated("nvshmem_barrier_all in a kernel");
}
inline void nvshmem_sync_all() { nvshmem_barrier_all(); }
