"""Ranks: host threads and processes that call NCCL, share device memory or run NVSHMEM's functions. Right and wrong
variants of each program, in one compilation; a rank that fails, dies or hangs must give an error on all others, and
nothing may be left of it."""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from exhaustive import mark_exhaustive
from found import finding

from gridstride import cpp, load_cuda

pytestmark = pytest.mark.skipif(not sys.platform.startswith('linux'), reason='a process opens files of another: Linux')

SOURCE = r'''
#include <nccl.h>
#include <nvshmem.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
__global__ void fill(float *x, float value) { x[threadIdx.x] = value; }
__global__ void ramp(float *x, int rank) { x[threadIdx.x] = 100 * rank + threadIdx.x; }
__global__ void copy(float *to, const float *from) { to[threadIdx.x] = from[threadIdx.x]; }

// Starting ranks: as threads, which return a result, or as processes, whose exit statuses are combined (99: a signal)
template <class F> long long run_threads(int ranks, F f) {
    std::vector<std::thread> threads;
    std::vector<int> results(ranks);
    for (int r = 0; r < ranks; r++) threads.emplace_back([&, r] { results[r] = f(r); });
    for (auto &thread : threads) thread.join();
    long long all = 0;
    for (int result : results) all = all * 100 + result;
    return all;
}
template <class F> std::vector<int> start_processes(int ranks, F f) {
    std::vector<int> processes;
    for (int r = 0; r < ranks; r++) {
        const int process = fork();
        if (!process) _exit(f(r));
        processes.push_back(process);
    }
    return processes;
}
long long wait_for(const std::vector<int> &processes) {
    long long all = 0;
    int status;
    for (int process : processes) {
        waitpid(process, &status, 0);
        all = all * 100 + (WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
    return all;
}
int device_count() { int n; cudaGetDeviceCount(&n); return n; }

const int n = 8;
struct Rank {
    ncclComm_t comm = nullptr; cudaStream_t s; float *x, *y; int rank, ranks, error;
    Rank(ncclUniqueId id, int rank, int ranks) : rank(rank), ranks(ranks) {
        cudaSetDevice(rank);
        error = ncclCommInitRank(&comm, ranks, id, rank);
        cudaStreamCreate(&s);
        cudaMalloc(&x, 4 * n * ranks), cudaMalloc(&y, 4 * n * ranks);
        ramp<<<1, n * ranks, 0, s>>>(x, rank);
    }
    float at(const float *p, int i) {
        float v;
        cudaStreamSynchronize(s), cudaMemcpy(&v, p + i, 4, cudaMemcpyDeviceToHost);
        return v;
    }
    ~Rank() { cudaFree(x), cudaFree(y), cudaStreamDestroy(s); if (comm) ncclCommDestroy(comm); }
};
#define RUN(call) if (int e = call) return 90 + e
// Each collective, and its form in place. Returns the number of right results.
int collectives(ncclUniqueId id, int rank, int ranks) {
    Rank t(id, rank, ranks);
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, sum = 100 * ranks * (ranks - 1) / 2;
    int right = t.error == ncclSuccess;
    RUN(ncclAllReduce(t.x, t.y, n, ncclFloat, ncclSum, t.comm, t.s)); right += t.at(t.y, 2) == sum + 2 * ranks;
    RUN(ncclAllReduce(t.y, t.y, n, ncclFloat, ncclMin, t.comm, t.s)); right += t.at(t.y, 1) == sum + ranks;
    RUN(ncclBroadcast(t.x, t.y, n, ncclFloat, 1, t.comm, t.s)); right += t.at(t.y, 3) == 103;
    RUN(ncclReduce(t.x, t.y, n, ncclFloat, ncclAvg, 1, t.comm, t.s));
    right += t.at(t.y, 0) == (rank == 1 ? 50 * (ranks - 1) : 100);
    RUN(ncclAllGather(t.x, t.y, n, ncclFloat, t.comm, t.s));
    right += t.at(t.y, n + 3) == 103 && t.at(t.y, (ranks - 1) * n) == 100 * (ranks - 1);
    RUN(ncclReduceScatter(t.x, t.y, n, ncclFloat, ncclMax, t.comm, t.s));
    right += t.at(t.y, 1) == 100 * (ranks - 1) + rank * n + 1;
    ncclGroupStart();
    RUN(ncclSend(t.x, n, ncclFloat, next, t.comm, t.s));
    RUN(ncclRecv(t.y, n, ncclFloat, previous, t.comm, t.s));
    RUN(ncclGroupEnd()); right += t.at(t.y, 5) == 100 * previous + 5;
    copy<<<1, n, 0, t.s>>>(t.y + rank * n, t.x);
    RUN(ncclAllGather(t.y + rank * n, t.y, n, ncclFloat, t.comm, t.s)); right += t.at(t.y, n + 4) == 104;
    RUN(ncclReduceScatter(t.y, t.y + rank * n, n, ncclFloat, ncclSum, t.comm, t.s));
    right += t.at(t.y, rank * n + 1) == ranks * (100 * rank + 1);
    return right;
}
enum { no_call = 1, other_count, other_type, other_op, other_root, other_function, other_order, no_receive,
    other_message, no_group, destroyed, dies, hangs, other_buffer, wrong_offset, short_array, host_array,
    other_stream, all_messages, starved };
int ready[2];                                               // a pipe from the rank that hangs
// Works for some seconds on a processor that another process keeps busy, so that it uses less than 1% of this time
void work_on_busy_processor(double seconds) {
    timespec begin, now;
    cpu_set_t one;
    CPU_ZERO(&one); CPU_SET(sched_getcpu(), &one); sched_setaffinity(0, sizeof one, &one);
    const int busy = fork();
    if (!busy) for (prctl(PR_SET_PDEATHSIG, SIGKILL);;) {}
    sched_param none = {};
    sched_setscheduler(0, SCHED_IDLE, &none);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now); while (now.tv_sec - begin.tv_sec < seconds);
    kill(busy, SIGKILL), waitpid(busy, nullptr, 0);
    sched_setscheduler(0, SCHED_OTHER, &none);
}
// Two ranks, the second of which is wrong. 0: right
int variant(ncclUniqueId id, int rank, int ranks, int wrong) {
    Rank t(id, rank, ranks);
    const bool is_wrong = rank == 1;
    const auto is = [=](int which) { return is_wrong && wrong == which; };
    if (is(no_call)) { usleep(1500000); return 0; }
    if (is(destroyed)) { ncclCommDestroy(t.comm), t.comm = nullptr; usleep(300000); return 0; }
    if (is(dies)) raise(SIGKILL);
    if (is(starved)) work_on_busy_processor(7);
    if (is(hangs)) for (char go = 1; write(ready[1], &go, 1) >= 0;) usleep(10000);
    if (wrong == no_receive || wrong == other_message || wrong == all_messages) {
        if (rank == 0) { RUN(ncclSend(t.x, n, ncclFloat, 1, t.comm, t.s)); }
        else if (wrong != no_receive) { RUN(ncclRecv(t.y, is(other_message) ? n / 2 : n, ncclFloat, 0, t.comm, t.s)); }
        cudaStreamSynchronize(t.s);
        if (wrong == no_receive && rank == 1) usleep(1500000);
        return rank ? int(t.at(t.y, 3)) : 0;
    }
    if (wrong == no_group) {                                // both send first, and wait for the other to receive
        RUN(ncclSend(t.x, n, ncclFloat, 1 - rank, t.comm, t.s));
        RUN(ncclRecv(t.y, n, ncclFloat, 1 - rank, t.comm, t.s));
        return t.at(t.y, 0);
    }
    if (wrong == other_root || is(other_function)) {
        RUN(ncclBroadcast(t.x, t.y, n, ncclFloat, is_wrong, t.comm, t.s));
    } else if (wrong == other_order) {
        for (int i = 0; i < 2; i++)
            if (i == is_wrong) { RUN(ncclAllReduce(t.x, t.y, n, ncclFloat, ncclSum, t.comm, t.s)); }
            else { RUN(ncclAllGather(t.x, t.y, n, ncclFloat, t.comm, t.s)); }
    }
    float host[64]; cudaStream_t other; cudaSetDevice(1 - rank), cudaStreamCreate(&other), cudaSetDevice(rank);
    float *remote; cudaSetDevice(1 - rank), cudaMalloc(&remote, 4 * n), cudaSetDevice(rank);
    const void *from = wrong == other_buffer ? remote : wrong == host_array ? host : t.x;
    if (wrong == wrong_offset) return ncclAllGather(t.y + n * (1 - rank), t.y, n, ncclFloat, t.comm, t.s);
    RUN(ncclAllReduce(from, t.y, wrong == short_array ? 100 * n : is(other_count) ? n / 2 : n,
        is(other_type) ? ncclInt : ncclFloat, is(other_op) ? ncclMax : ncclSum, t.comm,
        wrong == other_stream ? other : t.s));
    return t.at(t.y, 1);
}
// Graphs with NCCL calls, each launched three times. Two ranks, the second of which is wrong. 0: right
enum { fewer_launches = 1, other_captured_count, mixed_group };
int captured(ncclUniqueId id, int rank, int ranks, int wrong) {
    Rank t(id, rank, ranks);
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, sum = 100 * ranks * (ranks - 1) / 2;
    const size_t count = rank == 1 && wrong == other_captured_count ? n / 2 : n;
    cudaStream_t other; cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaStreamBeginCapture(t.s, cudaStreamCaptureModeThreadLocal);
    RUN(ncclAllReduce(t.x, t.y, count, ncclFloat, ncclSum, t.comm, t.s));
    ncclGroupStart();
    RUN(ncclSend(t.y, n, ncclFloat, next, t.comm, t.s));
    RUN(ncclRecv(t.x, n, ncclFloat, previous, t.comm, wrong == mixed_group ? other : t.s));
    const int error = ncclGroupEnd();
    cudaGraph_t graph; cudaStreamEndCapture(t.s, &graph);
    if (error) return error;
    cudaGraphExec_t exec; cudaGraphInstantiate(&exec, graph);
    for (int i = 0; i < 3 - (rank == 1 && wrong == fewer_launches); i++) cudaGraphLaunch(exec, t.s);
    // x becomes the sum of the x of all ranks, three times
    const int right = t.at(t.x, 1) == (sum + ranks) * ranks * ranks;
    cudaGraphExecDestroy(exec), cudaGraphDestroy(graph);
    return right;
}
// A graph per rank, with more calls than may be outstanding, and kernels that wait for each other
__global__ void meet(int *own, int *other, int round) {
    atomicExch_system(other, round), __threadfence_system();
    while (atomicAdd_system(own, 0) < round) {}
    __threadfence_system();
}
long long captured_by_one_thread(int wrong) {               // 1: the reader of `box` does not wait for the graph
    ncclComm_t comms[2]; ncclCommInitAll(comms, 2, nullptr);
    float *x[2], *box, v; int *flags[2]; cudaStream_t s[2]; cudaGraph_t graphs[2]; cudaGraphExec_t execs[2];
    for (int r = 0; r < 2; r++) {
        cudaSetDevice(r), cudaDeviceEnablePeerAccess(1 - r, 0), cudaStreamCreate(&s[r]);
        cudaMalloc(&x[r], 4 * n), fill<<<1, n, 0, s[r]>>>(x[r], 1);
        cudaMalloc(&flags[r], 4), cudaMemset(flags[r], 0, 4);
    }
    cudaStream_t other; cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMalloc(&box, 4 * n), fill<<<1, n>>>(box, 0), cudaDeviceSynchronize();
    for (int r = 0; r < 2; r++) {
        cudaSetDevice(r), cudaStreamBeginCapture(s[r], cudaStreamCaptureModeGlobal);
        for (int i = 0; i < 40; i++) RUN(ncclAllReduce(x[r], x[r], n, ncclFloat, ncclMax, comms[r], s[r]));
        RUN(ncclAllReduce(x[r], x[r], n, ncclFloat, ncclSum, comms[r], s[r]));
        if (r == 0) fill<<<1, n, 0, s[r]>>>(box, 7);
        RUN(ncclAllReduce(x[r], x[r], n, ncclFloat, ncclMax, comms[r], s[r]));
        if (r == 1 && !wrong) copy<<<1, n, 0, s[r]>>>(x[r], box);
        meet<<<1, 1, 0, s[r]>>>(flags[r], flags[1 - r], 1);
        RUN(ncclAllReduce(x[r], x[r], n, ncclFloat, ncclMax, comms[r], s[r]));
        cudaStreamEndCapture(s[r], &graphs[r]), cudaGraphInstantiate(&execs[r], graphs[r]);
    }
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < 2; r++) cudaSetDevice(r), cudaGraphLaunch(execs[r], s[r]);
    if (wrong) copy<<<1, n, 0, other>>>(x[1], box);
    for (int r = 0; r < 2; r++) cudaGraphExecDestroy(execs[r]), cudaGraphDestroy(graphs[r]);
    cudaStreamSynchronize(s[1]), cudaMemcpy(&v, x[1], 4, cudaMemcpyDeviceToHost);
    for (int r = 0; r < 2; r++)
        cudaSetDevice(r), cudaFree(x[r]), cudaFree(flags[r]), cudaStreamDestroy(s[r]), ncclCommDestroy(comms[r]);
    cudaFree(box), cudaStreamDestroy(other);
    return v;
}
// Even and odd ranks, in reverse order. Two ranks of four are wrong, or none. 0: right
enum { no_split = 1, invalid_color, no_color, other_comm_first };
int split(ncclUniqueId id, int rank, int ranks, int wrong) {
    Rank t(id, rank, ranks);
    const bool is_wrong = rank >= 2;
    if (is_wrong && wrong == no_split) return usleep(1500000), 0;
    const int wrong_color = wrong == invalid_color ? -5 : wrong == no_color ? NCCL_SPLIT_NOCOLOR : rank % 2;
    const int color = is_wrong ? wrong_color : rank % 2;
    ncclComm_t half; int size = 0, own_rank = -1;
    if (int e = ncclCommSplit(t.comm, color, -rank, &half, nullptr)) return e;
    if (!half) return 10;
    ncclCommCount(half, &size), ncclCommUserRank(half, &own_rank);
    if (wrong == no_color) return size;
    float *z; cudaMalloc(&z, 4 * n * ranks);
    const bool in_order = !(is_wrong && wrong == other_comm_first);
    const bool is_group = wrong != other_comm_first;
    if (is_group) ncclGroupStart();
    for (int i = 0; i < 2; i++)
        if ((i == 0) == in_order) { RUN(ncclAllReduce(t.x, t.y, n, ncclFloat, ncclSum, t.comm, t.s)); }
        else { RUN(ncclAllGather(t.x, z, n, ncclFloat, half, t.s)); }
    if (is_group) RUN(ncclGroupEnd());
    int right = size == ranks / 2 && own_rank == (ranks - 1 - rank) / 2;
    if (!wrong) right += t.at(t.y, 1) == 50 * ranks * (ranks - 1) + ranks;
    if (!wrong) right += t.at(z, 2) == 100 * (ranks - 2 + rank % 2) + 2;     // the last rank of this color is the first
    ncclCommDestroy(half), cudaFree(z);
    return right;
}
long long split_by_one_thread() {
    ncclComm_t comms[2], pairs[2]; float *x[2], v[2]; int first = -1; ncclCommInitAll(comms, 2, nullptr);
    ncclGroupStart();
    for (int r = 0; r < 2; r++) ncclCommSplit(comms[r], 0, -r, &pairs[r], nullptr);
    RUN(ncclGroupEnd());
    ncclCommUserRank(pairs[1], &first);
    ncclGroupStart();                                       // four communicators, each rank's in another order
    for (int r = 0; r < 2; r++) {
        cudaSetDevice(r), cudaMalloc(&x[r], 12 * n), fill<<<1, n>>>(x[r], r + 1);
        for (int i = 0; i < 2; i++)
            if (i == r) { RUN(ncclAllReduce(x[r], x[r] + n, n, ncclFloat, ncclSum, comms[r], nullptr)); }
            else { RUN(ncclBroadcast(x[r], x[r] + 2 * n, n, ncclFloat, 0, pairs[r], nullptr)); }
    }
    const int error = ncclGroupEnd();
    if (!error) cudaSetDevice(0), cudaMemcpy2D(v, 4, x[0] + n, 4 * n, 4, 2, cudaMemcpyDeviceToHost);
    for (int r = 0; r < 2; r++) cudaFree(x[r]), ncclCommDestroy(comms[r]), ncclCommDestroy(pairs[r]);
    return error ? error : 100 * first + 10 * int(v[0]) + int(v[1]);
}
int run_rank(ncclUniqueId id, int rank, int ranks, int wrong) {
    if (wrong >= 200) return split(id, rank, ranks, wrong - 200);
    if (wrong >= 100) return captured(id, rank, ranks, wrong - 100);
    return wrong < 0 ? collectives(id, rank, ranks) : variant(id, rank, ranks, wrong);
}
long long as_threads(int wrong) {
    const int ranks = device_count();
    ncclUniqueId id; ncclGetUniqueId(&id);
    return run_threads(ranks, [&](int r) { return run_rank(id, r, ranks, wrong); });
}
long long as_processes(int wrong) {
    const int ranks = device_count();
    ncclUniqueId id; ncclGetUniqueId(&id);
    return wait_for(start_processes(ranks, [&](int r) { return run_rank(id, r, ranks, wrong); }));
}
long long killed(bool first_ends) {                         // rank 1, from outside; first_ends: after rank 0 has ended
    const int ranks = device_count();
    ncclUniqueId id; ncclGetUniqueId(&id);
    if (pipe(ready)) return -1;
    const std::vector<int> processes = start_processes(ranks, [&](int r) { return variant(id, r, ranks, hangs); });
    int status = 0; char go;
    if (read(ready[0], &go, 1) != 1) return -1;
    if (first_ends) waitpid(processes[0], &status, 0);
    kill(processes[1], SIGKILL), close(ready[0]), close(ready[1]);
    return first_ends ? WEXITSTATUS(status) * 100 + wait_for({processes[1]}) : wait_for(processes);
}
long long joining(bool all) {                               // false: rank 1 does not come
    ncclUniqueId id; ncclGetUniqueId(&id);
    return run_threads(all ? 2 : 1, [&](int r) -> int {
        ncclComm_t comm; cudaSetDevice(r);
        const int result = ncclCommInitRank(&comm, 2, id, r);
        if (!result) ncclCommDestroy(comm);
        return result;
    });
}
int errors_of_joining() {
    ncclUniqueId id, ended = {}; ncclGetUniqueId(&id);
    ncclComm_t comm, comms[2]; const int same_device[] = {0, 0};
    int error = ncclCommInitRank(&comm, 1, id, 0);
    error = 10 * error + ncclCommInitRank(&comms[0], 1, id, 0);             // the rank is taken
    error = 10 * error + ncclCommInitRank(&comms[0], 2, id, 1);             // another number of ranks
    error = 10 * error + ncclCommInitRank(&comms[0], 2, id, 2);
    error = 10 * error + ncclCommInitRank(&comms[0], 1, ended, 0);          // no ID
    error = 10 * error + ncclCommInitAll(comms, 2, same_device);
    ncclCommDestroy(comm);
    return error;
}
int one_thread(int wrong) {                                 // 1: no group
    ncclComm_t comms[2]; float *x[2]; int error = ncclCommInitAll(comms, 2, nullptr);
    if (!wrong) ncclGroupStart();
    for (int r = 0; r < 2; r++) {
        cudaSetDevice(r), cudaMalloc(&x[r], 4 * n), fill<<<1, n>>>(x[r], r + 1);
        error += ncclAllReduce(x[r], x[r], n, ncclFloat, ncclSum, comms[r], nullptr);
    }
    if (!wrong) error += ncclGroupEnd();
    if (error) return error;
    float v; cudaSetDevice(0), cudaMemcpy(&v, x[0], 4, cudaMemcpyDeviceToHost);
    for (int r = 0; r < 2; r++) cudaFree(x[r]), ncclCommDestroy(comms[r]);
    return v;
}
int join_in_group() {
    ncclUniqueId id; ncclGetUniqueId(&id);
    ncclComm_t comms[2];
    ncclGroupStart();
    for (int r = 0; r < 2; r++) cudaSetDevice(r), ncclCommInitRank(&comms[r], 2, id, r);
    const int error = ncclGroupEnd();
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
    return error;
}
// A collective orders a peer's accesses, too; 1: the reader's stream does not wait for it.
long long as_barrier(int wrong) {
    ncclUniqueId id; ncclGetUniqueId(&id);
    float *box; cudaSetDevice(1), cudaMalloc(&box, 4 * n), fill<<<1, n>>>(box, 0), cudaDeviceSynchronize();
    return run_threads(2, [&](int r) -> int {
        Rank t(id, r, 2);
        cudaDeviceEnablePeerAccess(1 - r, 0);
        cudaStream_t other; cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        if (r == 0) fill<<<1, n, 0, t.s>>>(box, 7);
        RUN(ncclAllReduce(t.x, t.y, n, ncclFloat, ncclSum, t.comm, t.s));
        if (r == 1) copy<<<1, n, 0, wrong ? other : t.s>>>(t.x, box);
        cudaStreamSynchronize(wrong ? other : t.s);
        return r ? int(t.at(t.x, 0)) : 0;
    });
}

// Memory of a parent, which a child opens
__device__ void send(int *flag, int value) { __threadfence_system(); atomicExch_system(flag, value); }
__device__ void await(int *flag, int value) { while (atomicAdd_system(flag, 0) < value) {} __threadfence_system(); }
__global__ void put(int *x, int value) { x[0] = value; send(x + 1, 1); }
__global__ void get(int *x, int *out) { await(x + 1, 1); out[0] = x[0]; }
__global__ void count(int *x) { for (int i = 0; i < 300; i++) atomicAdd_system(x, 1); }
__global__ void write_at(int *x, int i) { x[i] = 1; }
int shared_memory(int wrong) {             // 1: the child ends too early; 2: it writes out of bounds; 3: after closing
    int *x, *out, v[2] = {}; cudaMalloc(&x, 8), cudaMalloc(&out, 4), cudaMemset(x, 0, 8);
    cudaIpcMemHandle_t handle; cudaIpcGetMemHandle(&handle, x);
    const std::vector<int> child = start_processes(1, [&](int) -> int {
        void *p;
        if (cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) return 3;
        if (wrong == 1) return usleep(100000), 0;
        if (wrong == 3) cudaIpcCloseMemHandle(p);
        if (wrong >= 2) write_at<<<1, 1>>>((int *)p, wrong == 2 ? 2 : 0);
        else put<<<1, 1>>>((int *)p, 7);
        return cudaDeviceSynchronize();
    });
    if (wrong < 2) usleep(50000), get<<<1, 1>>>(x, out), cudaDeviceSynchronize();
    const int status = wait_for(child);
    cudaMemcpy(v, wrong < 2 ? out : x, 4, cudaMemcpyDeviceToHost);
    cudaFree(x), cudaFree(out);
    return 100 * status + v[0];
}
int counters() {
    int *x, v; cudaMalloc(&x, 4), cudaMemset(x, 0, 4);
    cudaIpcMemHandle_t handle; cudaIpcGetMemHandle(&handle, x);
    const int status = wait_for(start_processes(3, [&](int) -> int {
        void *p; cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess);
        count<<<1, 32>>>((int *)p);
        return cudaDeviceSynchronize();
    }));
    cudaMemcpy(&v, x, 4, cudaMemcpyDeviceToHost), cudaFree(x);
    return status ? -status : v;
}
int stale_handle() {                                        // of memory that has been freed
    int *x; cudaMalloc(&x, 8);
    cudaIpcMemHandle_t handle; cudaIpcGetMemHandle(&handle, x);
    cudaFree(x);
    return wait_for(start_processes(1, [&](int) {
        void *p; return int(cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess)); }));
}
// A pipeline of two processes: an event orders the child's kernel after the parent's.
int shared_event() {
    int ready[2], *x, v, go = 1; if (pipe(ready)) return -1;
    cudaStream_t s; cudaStreamCreate(&s), cudaMalloc(&x, 8), cudaMemset(x, 0, 8);
    cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventInterprocess);
    cudaIpcMemHandle_t memory; cudaIpcEventHandle_t event;
    cudaIpcGetMemHandle(&memory, x), cudaIpcGetEventHandle(&event, e);
    const std::vector<int> child = start_processes(1, [&](int) -> int {
        void *p; cudaEvent_t opened; int got;
        cudaIpcOpenMemHandle(&p, memory, 1), cudaIpcOpenEventHandle(&opened, event);
        if (read(ready[0], &got, 4) != 4) return 5;
        cudaStreamWaitEvent(nullptr, opened, 0);
        cudaMemcpyAsync((int *)p + 1, p, 4, cudaMemcpyDeviceToDevice, nullptr);
        return cudaDeviceSynchronize();
    });
    put<<<1, 1, 0, s>>>(x, 9), cudaEventRecord(e, s);
    if (write(ready[1], &go, 4) != 4) return -1;
    const int status = wait_for(child);
    cudaMemcpy(&v, x + 1, 4, cudaMemcpyDeviceToHost), cudaFree(x), close(ready[0]), close(ready[1]);
    return 100 * status + v;
}
int shared_pool(int wrong) {                                // 1: the pointer of another pool
    cudaMemPoolProps props = {}; cudaMemPool_t pools[2]; int *x[2], fd, v; cudaSetDevice(0);
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor, props.location.type = cudaMemLocationTypeDevice;
    for (int i = 0; i < 2; i++) cudaMemPoolCreate(&pools[i], &props), cudaMallocAsync(&x[i], 8, pools[i], nullptr);
    cudaMemPoolPtrExportData data;
    cudaMemPoolExportToShareableHandle(&fd, pools[0], cudaMemHandleTypePosixFileDescriptor, 0);
    cudaMemset(x[wrong], 0, 8);
    cudaMemPoolExportPointer(&data, x[wrong]);
    const int status = wait_for(start_processes(1, [&](int) -> int {
        cudaMemPool_t pool; void *p;
        cudaMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, cudaMemHandleTypePosixFileDescriptor, 0);
        if (int e = cudaMemPoolImportPointer(&p, pool, &data)) return e;
        put<<<1, 1>>>((int *)p, 6);
        return cudaFreeAsync(p, nullptr) + cudaDeviceSynchronize();
    }));
    close(fd), cudaMemcpy(&v, x[0], 4, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 2; i++) cudaFreeAsync(x[i], nullptr), cudaMemPoolDestroy(pools[i]);
    return status ? status : v;
}

__global__ void pass_on(float *x, uint64_t *signal, float *out, bool signals) {
    const int pe = nvshmem_my_pe(), right = (pe + 1) % nvshmem_n_pes();
    float value = 10 + pe;
    if (signals) nvshmem_putmem_signal(x, &value, sizeof value, signal, 1, NVSHMEM_SIGNAL_SET, right);
    nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 1);
    out[0] = x[0];
}
// 1: a rank ends without its signal; 2: another size; 3: a rank ends before the barrier
long long shmem(int wrong) {
    const int ranks = device_count();
    nvshmemx_uniqueid_t id; nvshmemx_get_uniqueid(&id);
    return wait_for(start_processes(ranks, [&](int rank) -> int {
        nvshmemx_init_attr_t a; nvshmemx_set_attr_uniqueid_args(rank, ranks, &id, &a);
        cudaSetDevice(rank);
        if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &a)) return 90;
        float *x = (float *)nvshmem_malloc(wrong == 2 && rank == 1 ? 32 : 64), *out, v;
        uint64_t *signal = (uint64_t *)nvshmem_malloc(8);
        cudaMalloc(&out, 4);
        if (wrong == 1 && rank == 1) return 0;
        pass_on<<<1, 1>>>(x, signal, out, true);
        cudaDeviceSynchronize();
        if (wrong == 3 && rank == 1) return 0;
        nvshmem_barrier_all();
        cudaMemcpy(&v, out, 4, cudaMemcpyDeviceToHost);
        cudaFree(out), nvshmem_free(x), nvshmem_free(signal), nvshmem_finalize();
        return int(v);
    }));
}
'''


@pytest.fixture(scope='module')
def module(): return load_cuda(SOURCE, name='ranks')


@pytest.fixture
def leaves_nothing():
    "No process and no file in shared memory is left"
    def left():
        files = [name for name in os.listdir('/dev/shm') if 'gridstride' in name]
        children = Path('/proc/thread-self/children')          # not all kernels have it
        return files, children.read_text().split() if children.exists() else []
    before = left()
    yield
    assert left() == before


def run(module, name, *args, devices=2, seconds=20):
    with cpp.options(devices=devices, seconds=seconds): return getattr(module, name)(*args)


@pytest.mark.parametrize('how', ['as_threads', 'as_processes'])
@pytest.mark.parametrize('ranks', [2, *map(mark_exhaustive, [3, 8])])
def test_collectives(how, ranks, module, leaves_nothing):
    assert run(module, how, -1, devices=ranks) == int('10'*ranks)      # 10 right results per rank


@pytest.mark.parametrize('name,args,want', [
    ('joining', (True,), 0), ('errors_of_joining', (), 55455), ('one_thread', (0,), 3), ('join_in_group', (), 0),
    ('as_barrier', (0,), 7), ('shared_memory', (0,), 7), ('counters', (), 3*32*300), ('shared_event', (), 9),
    ('shared_pool', (0,), 6), ('shmem', (0,), 1110)], ids=str)
def test_right_programs(name, args, want, module, leaves_nothing):
    assert run(module, name, *args) == want


VARIANTS = ('right no_call other_count other_type other_op other_root other_function other_order no_receive '
            'other_message no_group destroyed dies hangs other_buffer wrong_offset short_array host_array '
            'other_stream all_messages starved').split()
MISSING, DISAGREE = 'ranks_missing', 'ranks_disagree'


def variant(name): return VARIANTS.index(name)


@pytest.mark.parametrize('how', ['as_threads', 'as_processes'])
def test_right_variants(how, module, leaves_nothing):
    assert run(module, how, variant('right')) == 10302          # 102 per rank
    assert run(module, how, variant('all_messages')) == 3


@pytest.mark.parametrize('name,code', [
    ('no_call', MISSING), ('other_count', DISAGREE), ('other_type', DISAGREE), ('other_op', DISAGREE),
    ('other_root', DISAGREE), ('other_function', DISAGREE), ('other_order', DISAGREE), ('no_receive', MISSING),
    ('other_message', DISAGREE), ('no_group', MISSING), ('destroyed', MISSING)])
def test_wrong_threads(name, code, module, leaves_nothing):
    with finding(f'synccheck {code}') as e:
        run(module, 'as_threads', variant(name), seconds=1 if code == MISSING else 20)
    assert e.value.line and e.value.source


CAPTURED = 'right fewer_launches other_captured_count mixed_group'.split()
SPLIT = 'right no_split invalid_color no_color other_comm_first'.split()
def captured(name): return 100 + CAPTURED.index(name)


def split(name): return 200 + SPLIT.index(name)


@pytest.mark.parametrize('how', ['as_threads', 'as_processes'])
def test_graphs(how, module, leaves_nothing):
    assert run(module, how, captured('right')) == 101


def test_a_graph_orders_accesses_of_several_ranks(module):
    with finding('racecheck unordered_operations|racecheck race_of_devices'): run(module, 'captured_by_one_thread', 1)


@pytest.mark.parametrize('name,code', [('fewer_launches', MISSING), ('other_captured_count', DISAGREE)])
def test_wrong_graphs(name, code, module, leaves_nothing):
    with finding(f'synccheck {code}') as e:
        run(module, 'as_threads', captured(name), seconds=1 if code == MISSING else 20)
    assert e.value.line and e.value.source


def test_a_group_is_captured_entirely_or_not_at_all(module):
    assert run(module, 'as_threads', captured('mixed_group')) == 505


def test_one_thread_captures_for_several_ranks(module):
    assert run(module, 'captured_by_one_thread', 0) == 14


@pytest.mark.parametrize('how', ['as_threads', 'as_processes'])
def test_split_communicators(how, module, leaves_nothing):
    assert run(module, how, split('right'), devices=4) == 3030303
    assert run(module, how, split('no_color'), devices=4) == 1011010


@pytest.mark.parametrize('name', ['no_split', 'other_comm_first'])
def test_wrong_splits(name, module, leaves_nothing):
    with finding(f'synccheck {MISSING}') as e: run(module, 'as_threads', split(name), devices=4, seconds=1)
    assert e.value.line


def test_an_invalid_color(module, leaves_nothing):
    with finding(f'synccheck {MISSING}'): run(module, 'as_threads', split('invalid_color'), devices=4, seconds=1)


def test_one_thread_splits_in_a_group(module, leaves_nothing):
    assert run(module, 'split_by_one_thread') == 32            # the sum; the value of rank 1, the root of the pair


@pytest.mark.parametrize('name,error', [
    ('other_buffer', 4), ('wrong_offset', 4), ('short_array', 4), ('host_array', 4), ('other_stream', 4)])
def test_wrong_arguments(name, error, module, leaves_nothing):
    assert run(module, 'as_threads', variant(name)) % 10 == error


def test_no_bootstrap_stays_open(module):
    def count_files(): return len(os.listdir('/proc/self/fd'))
    run(module, 'as_processes', variant('right'))
    before = count_files()
    for how in ['as_processes', 'as_threads']*2: run(module, how, variant('right'))
    assert count_files() <= before


def test_one_thread_needs_a_group(module):
    with finding('synccheck ranks_missing') as e: run(module, 'one_thread', 1)
    assert e.value.line


def test_a_rank_that_does_not_join(module, leaves_nothing):
    with finding('synccheck ranks_missing'): run(module, 'joining', False, seconds=1)


def test_a_collective_orders_only_its_stream(module):
    with finding('racecheck unordered_operations|racecheck race_of_devices'): run(module, 'as_barrier', 1)


# A process that is not Python's own prints its finding, and ends with status 1.
@pytest.mark.parametrize('name,args,statuses,codes', [
    ('as_processes', ('other_count',), (1, 1), [DISAGREE]), ('as_processes', ('dies',), (1, 99), [MISSING]),
    ('as_processes', ('destroyed',), (1, 0), [MISSING]), ('killed', (False,), (1, 99), [MISSING]),
    ('shared_memory', (2,), (1, 0), ['outside']), ('shared_memory', (3,), (1, 0), ['freed']),
    ('shmem', (1,), (1, 0), ['process_missing']), ('shmem', (2,), (1, 1), [DISAGREE]),
    ('shmem', (3,), (1, 0), [MISSING])], ids=str)
def test_wrong_processes(name, args, statuses, codes, module, leaves_nothing, capfd):
    args = [variant(a) if isinstance(a, str) else a for a in args]
    start = time.monotonic()
    assert run(module, name, *args, seconds=300) == statuses[0]*100 + statuses[1]
    assert re.findall(r'^(\w+): ', capfd.readouterr().err, re.M)[0] in codes
    assert time.monotonic() - start < 60                      # seconds, although the time limit is longer


@pytest.mark.exhaustive
def test_a_process_that_waits_for_a_processor_is_not_idle(module, leaves_nothing):
    assert run(module, 'as_processes', variant('starved'), seconds=60) == 10302


def test_a_process_that_hangs(module, leaves_nothing, capfd):
    assert run(module, 'killed', True, seconds=1) == 199
    assert 'ranks_missing: ' in capfd.readouterr().err


def test_a_kernel_waits_for_a_process_that_ends(module):
    with finding('synccheck process_missing') as e: run(module, 'shared_memory', 1)
    assert e.value.kernel == 'get'


@pytest.mark.parametrize('name,args,want', [('stale_handle', (), 205), ('shared_pool', (1,), 1)], ids=str)
def test_handles_that_cannot_be_opened(name, args, want, module, leaves_nothing):
    assert run(module, name, *args) == want


PROGRAM = r'''
#include <nvshmem.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
__global__ void pass_on(float *x, uint64_t *signal, float *out) {
    const int pe = nvshmem_my_pe(), right = (pe + 1) % nvshmem_n_pes();
    float value = 10 + pe;
    nvshmem_putmem_signal(x, &value, sizeof value, signal, 1, NVSHMEM_SIGNAL_SET, right);
    nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 1);
    out[0] = x[0];
}
__global__ void put(int *x, int value) { x[0] = value; }
int run_rank(bool fails) {
    nvshmem_init();
    const int pe = nvshmem_my_pe();
    cudaSetDevice(pe);
    float *x = (float *)nvshmem_malloc(64), *out, v; uint64_t *signal = (uint64_t *)nvshmem_malloc(8);
    cudaMalloc(&out, 4);
    if (fails && pe == 1) return 7;
    pass_on<<<1, 1>>>(x, signal, out);
    nvshmem_barrier_all();
    cudaMemcpy(&v, out, 4, cudaMemcpyDeviceToHost);
    printf("PE %d of %d: %g\n", pe, nvshmem_n_pes(), v);
    nvshmem_finalize();
    return 0;
}
int run_parent(char *program) {                             // which executes itself again
    int *x, v, status; cudaMalloc(&x, 4), cudaMemset(x, 0, 4);
    cudaIpcMemHandle_t handle; cudaIpcGetMemHandle(&handle, x);
    char text[129]; for (int i = 0; i < 64; i++) snprintf(text + 2 * i, 3, "%02x", (unsigned char)handle.reserved[i]);
    char *arguments[] = {program, text, nullptr};
    const int child = fork();
    if (!child) execvp(program, arguments), _exit(1);
    waitpid(child, &status, 0), cudaMemcpy(&v, x, 4, cudaMemcpyDeviceToHost), cudaFree(x);
    printf("%d %d\n", WEXITSTATUS(status), v);
    return 0;
}
int run_child(const char *text) {
    cudaIpcMemHandle_t handle; void *p; unsigned byte;
    for (int i = 0; i < 64; i++) sscanf(text + 2 * i, "%2x", &byte), handle.reserved[i] = char(byte);
    if (cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess)) return 2;
    put<<<1, 1>>>((int *)p, 5);
    return cudaDeviceSynchronize() + cudaIpcCloseMemHandle(p);
}
int main(int argc, char **argv) {
    return getenv("RANK") ? run_rank(argc > 1) : argc > 1 ? run_child(argv[1]) : run_parent(argv[0]);
}
'''


def run_program(folder, *args):
    "Run the command with the program's file in place of FILE"
    (folder/'ranks.cu').write_text(PROGRAM)
    args = [str(folder/'ranks.cu') if a == 'FILE' else a for a in args]
    return subprocess.run([sys.executable, '-m', 'gridstride.cpp', *args], capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_programs_start_processes(tmp_path, leaves_nothing):
    "Programs of several processes: by the launcher, and by a program that executes itself"
    ranks = run_program(tmp_path, '--ranks', '2', 'FILE')
    assert sorted(ranks.stdout.splitlines()) == ['PE 0 of 2: 11', 'PE 1 of 2: 10'] and not ranks.returncode, ranks
    parent = run_program(tmp_path, 'FILE')
    assert parent.stdout == '0 5\n' and not parent.returncode, parent


@pytest.mark.exhaustive
def test_the_launcher_ends_all_ranks(tmp_path, leaves_nothing):
    ranks = run_program(tmp_path, '--ranks', '2', 'FILE', 'fails')
    assert ranks.returncode in (1, 7) and 'SynccheckError' in ranks.stderr
