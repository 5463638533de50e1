// A subset of NVSHMEM. In one process, a PE is an emulated device; in host code, the current device. The n-th
// nvshmem_malloc of each device returns its replica of the same symmetric array. A PE is a process if processes have
// been started as ranks (`python -m gridstride.cpp --ranks N`), or have exchanged a unique ID.
#pragma once
#include <stdio.h>
#include <stdlib.h>
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

// The variables that --ranks sets: GRIDSTRIDE_JOB is the ID of the bootstrap.
inline void nvshmem_init(int line = __builtin_LINE()) {
    gridstride::FileHandle handle;
    unsigned long long nonce;
    const char *const job = getenv("GRIDSTRIDE_JOB"), *const rank = getenv("RANK"), *const ranks = getenv("WORLD_SIZE");
    if (!job || !rank || !ranks || sscanf(job, "%llx:%d:%d", &nonce, &handle.process, &handle.fd) != 3) return;
    handle.nonce = nonce;
    if (gridstride::join_world(handle, atoi(rank), atoi(ranks), line)) return;
    fprintf(stderr, "nvshmem_init: rank %s cannot join the job: its launcher has ended, or the rank is taken\n", rank);
    exit(1);
}
inline void nvshmem_finalize() { gridstride::leave_world(); }
inline int nvshmem_my_pe() { return gridstride::my_element(); }
inline int nvshmem_n_pes() { return gridstride::num_elements(); }
struct nvshmemx_uniqueid_t { int version; gridstride::FileHandle handle; };
struct nvshmemx_init_attr_t { nvshmemx_uniqueid_t id; int rank, ranks; };
enum { NVSHMEMX_INIT_WITH_UNIQUEID = 8 };
#define NVSHMEMX_UNIQUEID_INITIALIZER {}
#define NVSHMEMX_INIT_ATTR_INITIALIZER {}
inline int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t *id) { return !gridstride::create_bootstrap(id->handle); }
inline int nvshmemx_set_attr_uniqueid_args(
    int rank, int ranks, const nvshmemx_uniqueid_t *id, nvshmemx_init_attr_t *attributes) {
    *attributes = {*id, rank, ranks};
    return 0;
}
inline int nvshmemx_init_attr(unsigned, nvshmemx_init_attr_t *attributes, int line = __builtin_LINE()) {
    return !gridstride::join_world(attributes->id.handle, attributes->rank, attributes->ranks, line);
}
inline int nvshmemx_hostlib_init_attr(unsigned flags, nvshmemx_init_attr_t *attributes, int line = __builtin_LINE()) {
    return nvshmemx_init_attr(flags, attributes, line);
}
inline int nvshmem_team_my_pe(nvshmem_team_t) { return nvshmem_my_pe(); }
inline int nvshmem_team_n_pes(nvshmem_team_t) { return nvshmem_n_pes(); }
inline void *nvshmem_malloc(size_t bytes, int line = __builtin_LINE()) {
    using namespace gridstride;
    if (is_in_world()) return symmetric_alloc(bytes, 1, "symmetric", line);
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
// Waits for all devices, or all processes; only host code may call it.
inline void nvshmem_barrier_all(int line = __builtin_LINE()) {
    if (!gridstride::on_device()) gridstride::synchronize_world("nvshmem_barrier_all", line);
    else gridstride::not_emulated("nvshmem_barrier_all in a kernel");
}
inline void nvshmem_sync_all(int line = __builtin_LINE()) { nvshmem_barrier_all(line); }
