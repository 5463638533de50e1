"""The order of a program's operations on the emulator: launches and copies of several streams, and what the host does
itself while they run. Wrong programs and right ones of the same shape, all in one compilation."""
import re

import pytest

from gridstride import cpp, load_cuda
from gridstride.cpp.toolchain.cache import lock_entry
from gridstride.diagnostics.errors import RacecheckError
from gridstride.utils import cache_dir

SOURCE = r'''
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <cuda_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/sort.h>
__global__ void fill(int *a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = i; }
__global__ void twice(const int *a, int *b, int n) { int i = threadIdx.x; if (i < n) b[i] = 2 * a[i]; }
__global__ void bump(int *a) { atomicAdd(a, 1); }
__global__ void set_flag(int *data, int *flag) { data[0] = 7; __threadfence(); atomicExch(flag, 1); }
__global__ void await_flag(int *data, int *flag, int *out) {
    while (atomicAdd(flag, 0) == 0) {}
    __threadfence(); out[0] = data[0];
}
__global__ void signal(int *data, volatile int *flag) { data[0] = 7; __threadfence_system(); *flag = 1; }
__managed__ int counter;
__global__ void count() { counter = 5; }

static int *device(int n) { int *p; cudaMalloc(&p, n * sizeof(int)); cudaMemset(p, 0, n * sizeof(int)); return p; }
static int *managed(int n) {
    int *p; cudaMallocManaged(&p, n * sizeof(int));
    for (int i = 0; i < n; i++) p[i] = 0;
    return p;
}
static int *pinned(int n) { int *p; cudaMallocHost(&p, n * sizeof(int)); return p; }
static cudaStream_t stream(unsigned flags = cudaStreamDefault) {
    cudaStream_t s; cudaStreamCreateWithFlags(&s, flags); return s;
}
static cudaEvent_t event() { cudaEvent_t e; cudaEventCreate(&e); return e; }
static const size_t bytes = 64 * sizeof(int);
struct Case {
    int *d = device(64), *o = device(64), *h = pinned(64);
    cudaStream_t s = stream(), t = stream(), u = stream(cudaStreamNonBlocking);
    cudaEvent_t e = event();
    Case() { cudaDeviceSynchronize(); }
};

// wrong: the host
void wrong_managed_read() {
    int *x = managed(64);
    fill<<<2, 32>>>(x, 64);
    printf("%d\n", x[5]);                                               // host read fill
}
void wrong_managed_write() {
    int *x = managed(64); Case c;
    twice<<<1, 64, 0, c.s>>>(x, c.o, 64);
    x[63] = 1;                                                          // host write twice
}
void wrong_managed_variable() {
    count<<<1, 1>>>();
    int y = counter; printf("%d\n", y);                                 // host read count
}
void wrong_pinned_result() {
    Case c; int out = 0;
    cudaMemcpyAsync(c.h, c.d, bytes, cudaMemcpyDeviceToHost, c.s);
    out += c.h[7]; printf("%d\n", out);                                 // host read cudaMemcpyAsync
}
void wrong_pinned_source() {
    Case c;
    cudaMemcpyAsync(c.d, c.h, bytes, cudaMemcpyHostToDevice, c.s);
    c.h[7] = 1;                                                         // host write cudaMemcpyAsync
}
void wrong_copied_by_memcpy() {
    Case c; int here[64];
    cudaMemcpyAsync(c.h, c.d, bytes, cudaMemcpyDeviceToHost, c.s);
    memcpy(here, c.h, sizeof here); printf("%d\n", here[3]);            // host read cudaMemcpyAsync
}
void wrong_zero_copy() {
    Case c; int *p; cudaHostGetDevicePointer(&p, c.h, 0);
    fill<<<1, 64, 0, c.s>>>(p, 64);
    cudaStreamSynchronize(c.t);
    printf("%d\n", c.h[1]);                                             // host read fill
}
void wrong_early_event() {
    Case c;
    cudaEventRecord(c.e, c.s);
    cudaMemcpyAsync(c.h, c.d, bytes, cudaMemcpyDeviceToHost, c.s);
    cudaEventSynchronize(c.e);
    printf("%d\n", c.h[0]);                                             // host read cudaMemcpyAsync
}
void wrong_set_managed() {
    int *x = managed(64); Case c;
    cudaMemsetAsync(x, 0, bytes, c.s);
    printf("%d\n", x[0]);                                               // host read cudaMemsetAsync
}
void wrong_half_waited() {
    int *x = managed(64); Case c;
    fill<<<1, 32, 0, c.s>>>(x, 32);
    fill<<<1, 32, 0, c.t>>>(x + 32, 32);
    cudaStreamSynchronize(c.s);
    printf("%d\n", x[40]);                                              // host read fill
}
void wrong_registered() {
    Case c; static int here[64]; cudaHostRegister(here, bytes, cudaHostRegisterDefault);
    cudaMemcpyAsync(here, c.d, bytes, cudaMemcpyDeviceToHost, c.s);
    printf("%d\n", here[5]);                                            // host read cudaMemcpyAsync
}
void wrong_registered_and_mapped() {
    static int there[64]; int *p;
    cudaHostRegister(there, bytes, cudaHostRegisterMapped); cudaHostGetDevicePointer(&p, there, 0);
    fill<<<1, 64>>>(p, 64);
    there[5]++;                                                         // host read fill
}
// wrong: streams
void wrong_two_kernels() {
    Case c;
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);                             // kernel read fill
}
void wrong_write_after_read() {
    Case c;
    twice<<<1, 64, 0, c.s>>>(c.d, c.o, 64);
    fill<<<1, 64, 0, c.t>>>(c.d, 64);                                   // kernel write twice
}
void wrong_two_writes() {
    Case c;
    twice<<<1, 64, 0, c.s>>>(c.d, c.o, 64);
    fill<<<1, 64, 0, c.t>>>(c.o, 64);                                   // kernel write twice
}
void wrong_copy_of_another_stream() {
    Case c;
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaMemcpyAsync(c.h, c.d, bytes, cudaMemcpyDeviceToHost, c.t);      // call read fill
}
void wrong_kernel_before_its_copy() {
    Case c;
    cudaMemcpyAsync(c.d, c.h, bytes, cudaMemcpyHostToDevice, c.s);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);                             // kernel read cudaMemcpyAsync
}
void wrong_pageable_source() {
    Case c; int here[64] = {};
    cudaMemcpyAsync(c.d, here, bytes, cudaMemcpyHostToDevice, c.s);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);                             // kernel read cudaMemcpyAsync
}
void wrong_two_copies() {
    Case c;
    cudaMemcpyAsync(c.d, c.h, bytes, cudaMemcpyHostToDevice, c.s);
    cudaMemcpyAsync(c.o, c.d, bytes, cudaMemcpyDeviceToDevice, c.t);    // call read cudaMemcpyAsync
}
void wrong_non_blocking() {
    Case c;
    fill<<<1, 64>>>(c.d, 64);
    twice<<<1, 64, 0, c.u>>>(c.d, c.o, 64);                             // kernel read fill
}
void wrong_set_and_non_blocking() {
    Case c;
    cudaMemset(c.d, 1, bytes);
    twice<<<1, 64, 0, c.u>>>(c.d, c.o, 64);                             // kernel read cudaMemset
}
void wrong_blocking_copy_of_non_blocking() {
    Case c; int here[64];
    fill<<<1, 64, 0, c.u>>>(c.d, 64);
    cudaMemcpy(here, c.d, bytes, cudaMemcpyDeviceToHost);               // call read fill
}
void wrong_event_of_the_wrong_stream() {
    Case c;
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaEventRecord(c.e, c.t); cudaStreamWaitEvent(c.t, c.e, 0);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);                             // kernel read fill
}
void wrong_event_recorded_too_early() {
    Case c;
    cudaEventRecord(c.e, c.s);
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaStreamWaitEvent(c.t, c.e, 0);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);                             // kernel read fill
}
void wrong_buffer_used_again() {
    Case c;
    for (int i = 0; i < 2; i++) {
        cudaMemcpyAsync(c.d, c.h, bytes, cudaMemcpyHostToDevice, c.s);  // call write twice
        cudaEventRecord(c.e, c.s); cudaStreamWaitEvent(c.t, c.e, 0);
        twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);
    }
}
void wrong_chunks_that_overlap() {
    Case c; cudaStream_t both[] = {c.s, c.t};
    for (int k = 0; k < 2; k++)
        fill<<<1, 33, 0, both[k]>>>(c.d + 31 * k, 33);                  // kernel write fill
}
void wrong_columns_that_overlap() {
    Case c;
    cudaMemcpy2DAsync(c.d, 32, c.h, 32, 20, 8, cudaMemcpyHostToDevice, c.s);
    cudaMemcpy2DAsync(c.d + 4, 32, c.h, 32, 16, 8, cudaMemcpyHostToDevice, c.t);    // call write cudaMemcpy2DAsync
}
void wrong_freed_while_used() {
    Case c;
    twice<<<1, 64, 0, c.s>>>(c.d, c.o, 64);
    cudaFreeAsync(c.d, c.t);                                            // call free twice
}
void wrong_allocated_for_another_stream() {
    Case c; int *p;
    cudaMallocAsync(&p, bytes, c.s);
    fill<<<1, 64, 0, c.t>>>(p, 64);                                     // kernel write cudaMallocAsync
}
void wrong_atomic_and_plain() {
    Case c; int *p = c.d;
    bump<<<1, 64, 0, c.s>>>(p);
    fill<<<1, 64, 0, c.t>>>(p, 64);                                     // kernel write bump
}
void wrong_host_function() {
    int *x = managed(64); Case c;
    fill<<<1, 64, 0, c.s>>>(x, 64);
    auto f = [](void *p) {
        static_cast<int *>(p)[3] += 1;                                  // host read fill
    };
    cudaLaunchHostFunc(c.t, f, x);
}
void wrong_read_after_host_function() {
    int *x = managed(64); Case c; x[0] = 0;
    fill<<<1, 64, 0, c.s>>>(x, 64);
    cudaLaunchHostFunc(c.s, [](void *) {}, nullptr);
    printf("%d\n", x[3]);                                               // host read fill
}
// The finding ends the thread that reads; the one that waits for it must end, too.
void wrong_read_in_a_thread() {
    int *x = managed(64); Case c;
    fill<<<1, 64, 0, c.s>>>(x, 64);
    std::atomic<bool> has_read{false};
    std::thread([&] {
        printf("%d\n", x[3]);                                           // host read fill
        has_read = true;
    }).detach();
    while (!has_read) std::this_thread::yield();
}
void wrong_graph() {
    Case c; cudaGraph_t g; cudaGraphExec_t run;
    cudaStreamBeginCapture(c.s, cudaStreamCaptureModeGlobal);
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaStreamEndCapture(c.s, &g); cudaGraphInstantiate(&run, g, 0);
    cudaGraphLaunch(run, c.s);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);                             // kernel read fill
}

void wrong_fork_without_event() {
    Case c; cudaGraph_t g; cudaGraphExec_t run;
    cudaStreamBeginCapture(c.s, cudaStreamCaptureModeGlobal);
    cudaEventRecord(c.e, c.s); cudaStreamWaitEvent(c.t, c.e, 0);
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);                             // kernel read fill
    cudaEventRecord(c.e, c.t); cudaStreamWaitEvent(c.s, c.e, 0);
    cudaStreamEndCapture(c.s, &g); cudaGraphInstantiate(&run, g, 0);
    cudaGraphLaunch(run, c.s);
}
void wrong_graphs_of_two_streams() {
    Case c; cudaGraph_t g; cudaGraphExec_t run;
    cudaStreamBeginCapture(c.s, cudaStreamCaptureModeGlobal);
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    twice<<<1, 64, 0, c.s>>>(c.d, c.o, 64);
    cudaStreamEndCapture(c.s, &g); cudaGraphInstantiate(&run, g, 0);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o + 32, 1);
    cudaGraphLaunch(run, c.s);                                          // graph write twice
}
void wrong_nodes_without_edge() {
    Case c; cudaGraph_t g; cudaGraphExec_t run; cudaGraphNode_t a, b;
    cudaGraphCreate(&g, 0);
    cudaGraphAddMemcpyNode1D(&a, g, nullptr, 0, c.d, c.h, bytes, cudaMemcpyHostToDevice);
    cudaGraphAddMemcpyNode1D(&b, g, nullptr, 0, c.o, c.d, bytes, cudaMemcpyDeviceToDevice);
    cudaGraphInstantiate(&run, g, 0);
    cudaGraphLaunch(run, c.s);                                          // graph read cudaMemcpy
}

// right: the same shapes, in order
static void start_reader(void *x) {
    std::thread([=] { static_cast<int *>(x)[3] += 1; }).join();
}
void right_thread_of_host_function() {
    int *x = managed(64); Case c;
    fill<<<1, 64, 0, c.s>>>(x, 64);
    cudaLaunchHostFunc(c.s, start_reader, x);
}
void right_thread_of_callback() {
    int *x = managed(64); Case c;
    fill<<<1, 64, 0, c.s>>>(x, 64);
    cudaStreamAddCallback(c.s, [](cudaStream_t, cudaError_t, void *data) { start_reader(data); }, x, 0);
}
void right_managed() {
    int *x = managed(64); Case c; x[3] = 2;
    fill<<<2, 32>>>(x, 64);
    cudaDeviceSynchronize(); x[5] += 1;
    fill<<<2, 32, 0, c.s>>>(x, 64); cudaStreamSynchronize(c.s); x[5] += x[4];
    fill<<<2, 32, 0, c.s>>>(x, 64); cudaEventRecord(c.e, c.s); cudaEventSynchronize(c.e); x[5] += x[4];
    fill<<<2, 32, 0, c.s>>>(x, 64); while (cudaStreamQuery(c.s) == cudaErrorNotReady) {} x[5] += x[4];
    fill<<<2, 32, 0, c.s>>>(x, 64); cudaEventRecord(c.e, c.s);
    while (cudaEventQuery(c.e) != cudaSuccess) {}
    x[5] += x[4];
    cudaMemLocation gpu{cudaMemLocationTypeDevice, 0};
    cudaMemPrefetchAsync(x, bytes, gpu, 0, c.s); x[6] = 1;
    fill<<<2, 32>>>(x, 64); cudaMemcpy(c.h, c.d, bytes, cudaMemcpyDeviceToHost); x[5] += c.h[0];
    fill<<<2, 32>>>(x, 64); cudaFree(c.d); x[5] += 1;
    count<<<1, 1>>>(); cudaDeviceSynchronize(); counter++;
}
void right_halves_of_managed() {
    int *x = managed(64); Case c;
    fill<<<1, 32, 0, c.s>>>(x, 32);
    for (int i = 32; i < 64; i++) x[i] += i;
    twice<<<1, 32, 0, c.s>>>(x, c.o, 32);
    int y = x[40]; x[41] = y;
}
void right_pinned() {
    Case c; int here[64] = {};
    cudaMemcpyAsync(c.d, c.h, bytes, cudaMemcpyHostToDevice, c.s);
    here[0] = c.h[0];                                                   // both read
    cudaMemcpyAsync(c.h, c.d, bytes, cudaMemcpyDeviceToHost, c.s); cudaStreamSynchronize(c.s); c.h[0]++;
    cudaMemcpyAsync(c.o, here, bytes, cudaMemcpyHostToDevice, c.s); here[3] = 1;    // pageable: staged
    cudaMemcpyAsync(here, c.o, bytes, cudaMemcpyDeviceToHost, c.s); here[3] += here[4];
    c.h[0]++;                                                           // the stream was waited for
    int *p; cudaHostGetDevicePointer(&p, c.h, 0);
    fill<<<1, 64, 0, c.s>>>(p, 64); cudaStreamSynchronize(c.s); c.h[3]++;
}
void right_registered() {
    Case c; static int own[64], mine[64]; int *p;
    cudaHostRegister(own, bytes, cudaHostRegisterMapped); cudaHostGetDevicePointer(&p, own, 0);
    cudaMemcpyAsync(own, c.d, bytes / 2, cudaMemcpyDeviceToHost, c.s);
    own[40] = 1; mine[3] = own[41];
    cudaStreamSynchronize(c.s); own[5]++;
    fill<<<1, 64>>>(p, 64); cudaDeviceSynchronize(); own[5]++;
    cudaHostUnregister(own);
    cudaMemcpyAsync(own, c.d, bytes, cudaMemcpyDeviceToHost, c.s); own[5]++;    // pageable: it has ended
}
void right_thrust() {
    int *x = managed(64), *y = managed(64);
    fill<<<2, 32>>>(x, 64);
    thrust::sort(thrust::device, y, y + 64);
    x[0] = y[0];
    thrust::device_vector<int> v(4);
    fill<<<1, 4>>>(thrust::raw_pointer_cast(v.data()), 4);
    x[0] = v[2];
}
void right_event() {
    Case c;
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaEventRecord(c.e, c.s); cudaStreamWaitEvent(c.t, c.e, 0);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);
    cudaEventRecord(c.e, c.t); cudaStreamWaitEvent(c.u, c.e, 0);
    cudaMemcpyAsync(c.h, c.o, bytes, cudaMemcpyDeviceToHost, c.u);
    fill<<<1, 64, 0, c.u>>>(c.d, 64);                                   // ordered after s by way of t
    cudaStreamSynchronize(c.u); c.h[0]++;
}
void right_reads_only() {
    int *o = device(64); Case c;
    twice<<<1, 64, 0, c.s>>>(c.d, c.o, 64);
    cudaMemcpyAsync(c.h, c.d, bytes, cudaMemcpyDeviceToHost, c.t);
    twice<<<1, 64, 0, c.u>>>(c.d, o, 64);
}
void right_default_stream() {
    Case c;
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    twice<<<1, 64>>>(c.d, c.o, 64);                                     // after all blocking streams
    cudaMemcpyAsync(c.h, c.o, bytes, cudaMemcpyDeviceToHost, c.t);      // after the default stream
    cudaMemset(c.d, 0, bytes);
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaMemcpy(c.h, c.d, bytes, cudaMemcpyDeviceToHost); c.h[0]++;
}
void right_host_waits() {
    Case c;
    fill<<<1, 64, 0, c.u>>>(c.d, 64); cudaStreamSynchronize(c.u);
    twice<<<1, 64, 0, c.s>>>(c.d, c.o, 64); cudaDeviceSynchronize();
    twice<<<1, 64, 0, c.u>>>(c.o, c.d, 64);
}
void right_double_buffer() {
    Case c; int *b[] = {c.d, c.o}, *out = device(64 * 4);
    cudaEvent_t filled[] = {event(), event()}, used[] = {event(), event()};
    cudaDeviceSynchronize();
    for (int i = 0; i < 4; i++) {
        const int k = i % 2;
        if (i > 1) cudaStreamWaitEvent(c.s, used[k], 0);
        cudaMemcpyAsync(b[k], c.h, bytes, cudaMemcpyHostToDevice, c.s);
        cudaEventRecord(filled[k], c.s); cudaStreamWaitEvent(c.t, filled[k], 0);
        twice<<<1, 64, 0, c.t>>>(b[k], out + 64 * i, 64);
        cudaEventRecord(used[k], c.t);
    }
}
void right_chunks() {
    Case c; cudaStream_t all[] = {c.s, c.t, c.u};
    int *x = device(100), *h = pinned(100); cudaDeviceSynchronize();
    for (int k = 0; k < 3; k++) {
        const int at = 33 * k, n = k < 2 ? 33 : 34;
        cudaMemcpyAsync(x + at, h + at, n * sizeof(int), cudaMemcpyHostToDevice, all[k]);
        fill<<<1, 64, 0, all[k]>>>(x + at, n);
        cudaMemcpyAsync(h + at, x + at, n * sizeof(int), cudaMemcpyDeviceToHost, all[k]);
    }
    cudaDeviceSynchronize(); h[0]++;
}
void right_bytes_of_a_word() {
    Case c; auto *x = reinterpret_cast<unsigned char *>(c.d);
    cudaMemsetAsync(x, 1, 3, c.s);
    cudaMemsetAsync(x + 3, 1, 3, c.t);
}
void right_columns() {
    Case c;
    cudaMemcpy2DAsync(c.d, 32, c.h, 32, 16, 8, cudaMemcpyHostToDevice, c.s);
    cudaMemcpy2DAsync(c.d + 4, 32, c.h, 32, 16, 8, cudaMemcpyHostToDevice, c.t);
    fill<<<1, 4, 0, c.s>>>(c.d, 4);
    fill<<<1, 4, 0, c.t>>>(c.d + 4, 4);
}
void right_atomics() {
    Case c;
    bump<<<1, 64, 0, c.s>>>(c.d);
    bump<<<1, 64, 0, c.t>>>(c.d);
}
void right_flags() {
    Case c; int *flag = c.o; volatile int *seen = pinned(1); *seen = 0;
    cudaDeviceSynchronize();
    set_flag<<<1, 1, 0, c.s>>>(c.d, flag);
    await_flag<<<1, 1, 0, c.t>>>(c.d, flag, c.o + 1);
    int *data = managed(1);
    signal<<<1, 1, 0, c.s>>>(data, seen);
    while (!*seen) {}
    printf("%d\n", *data);
}
void right_freed_in_order() {
    Case c; int *p;
    for (int i = 0; i < 3; i++) {
        cudaMallocAsync(&p, bytes, c.s);
        fill<<<1, 64, 0, c.s>>>(p, 64);
        cudaEventRecord(c.e, c.s); cudaStreamWaitEvent(c.t, c.e, 0);
        twice<<<1, 64, 0, c.t>>>(p, c.o, 64);
        cudaEventRecord(c.e, c.t); cudaStreamWaitEvent(c.s, c.e, 0);
        cudaFreeAsync(p, c.s);
    }
}
void right_host_function() {
    int *x = managed(64); Case c;
    fill<<<1, 64, 0, c.s>>>(x, 64);
    cudaLaunchHostFunc(c.s, [](void *p) { static_cast<int *>(p)[3] += 1; }, x);
    fill<<<1, 64, 0, c.s>>>(x, 64);
    cudaStreamSynchronize(c.s); x[3]++;
}
void right_graph() {
    Case c; cudaGraph_t g; cudaGraphExec_t run;
    cudaStreamBeginCapture(c.s, cudaStreamCaptureModeGlobal);
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaEventRecord(c.e, c.s); cudaStreamWaitEvent(c.t, c.e, 0);
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);
    cudaEventRecord(c.e, c.t); cudaStreamWaitEvent(c.s, c.e, 0);
    cudaMemcpyAsync(c.h, c.o, bytes, cudaMemcpyDeviceToHost, c.s);
    cudaStreamEndCapture(c.s, &g); cudaGraphInstantiate(&run, g, 0);
    for (int i = 0; i < 3; i++) cudaGraphLaunch(run, c.u);
    cudaStreamSynchronize(c.u); c.h[0]++;
    fill<<<1, 64, 0, c.t>>>(c.d, 64);
}
void right_fork_and_join() {
    Case c; cudaGraph_t g; cudaGraphExec_t run; int *x = device(64);
    cudaDeviceSynchronize();
    cudaStreamBeginCapture(c.s, cudaStreamCaptureModeGlobal);
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaEventRecord(c.e, c.s); cudaStreamWaitEvent(c.t, c.e, 0); cudaStreamWaitEvent(c.u, c.e, 0);
    twice<<<1, 64, 0, c.s>>>(c.d, x, 64);
    twice<<<1, 32, 0, c.t>>>(c.d, c.o, 32);
    twice<<<1, 32, 0, c.u>>>(c.d + 32, c.o + 32, 32);
    cudaEventRecord(c.e, c.t); cudaStreamWaitEvent(c.s, c.e, 0);
    cudaEventRecord(c.e, c.u); cudaStreamWaitEvent(c.s, c.e, 0);
    fill<<<1, 64, 0, c.s>>>(c.d, 64);
    cudaMemcpyAsync(c.h, c.o, bytes, cudaMemcpyDeviceToHost, c.s);
    cudaStreamEndCapture(c.s, &g); cudaGraphInstantiate(&run, g, 0);
    for (int i = 0; i < 3; i++) cudaGraphLaunch(run, c.s);
    fill<<<1, 64, 0, c.s>>>(c.o, 64);
    cudaStreamSynchronize(c.s); c.h[0]++;
}
void right_nodes_with_edges() {
    Case c; cudaGraph_t g; cudaGraphExec_t run; cudaGraphNode_t a, b, d;
    cudaGraphCreate(&g, 0);
    cudaGraphAddMemcpyNode1D(&a, g, nullptr, 0, c.d, c.h, bytes, cudaMemcpyHostToDevice);
    cudaGraphAddMemcpyNode1D(&b, g, &a, 1, c.o, c.d, bytes, cudaMemcpyDeviceToDevice);
    cudaGraphAddMemcpyNode1D(&d, g, nullptr, 0, device(64), c.h, bytes, cudaMemcpyHostToDevice);
    cudaGraphInstantiate(&run, g, 0);
    cudaDeviceSynchronize();
    cudaGraphLaunch(run, c.s); cudaGraphLaunch(run, c.s);
    fill<<<1, 64, 0, c.s>>>(c.o, 64);
}
void right_many_streams() {
    Case c;
    for (int i = 0; i < 100; i++) {
        cudaStream_t s = stream();
        fill<<<1, 64, 0, s>>>(c.d, 64);
        cudaStreamSynchronize(s); cudaStreamDestroy(s);
    }
}
void right_destroyed_after_use() {
    Case c; cudaStream_t s = stream();
    fill<<<1, 64, 0, s>>>(c.d, 64); cudaStreamDestroy(s);
    cudaDeviceSynchronize();
    twice<<<1, 64, 0, c.t>>>(c.d, c.o, 64);
}
void right_after_a_finding() { right_event(); right_managed(); }
'''
NAMES = re.findall(r'^void (\w+)', SOURCE, re.M)
SAID = re.compile(r'^(.*?)\s*// (host|kernel|call|graph) (read|write|free) (\w+)$', re.M)


pytestmark = pytest.mark.takes(40)


@pytest.fixture(scope='module')
def programs():
    "Compiled by one of the processes that share these tests, for two seconds, while the others wait"
    with lock_entry(cache_dir()/'streams-of-tests'):
        return load_cuda(SOURCE, funcs=NAMES, name='streams', checks=True)


def said(name):
    "(line of the finding, host | kernel | call | graph, read | write | free, who came first), as `name` says"
    start = SOURCE.index(f'void {name}(')
    m = SAID.search(SOURCE, start, SOURCE.index('\n}\n', start))
    return SOURCE[:m.start()].count('\n')+1, *m.groups()[1:]


@pytest.mark.parametrize('name', [o for o in NAMES if o.startswith('wrong')])
def test_operations_without_an_order_are_found(name, programs):
    line, who, now, first = said(name)
    with pytest.raises(RacecheckError) as e: getattr(programs, name)()
    e = e.value
    assert e.code == ('host_race' if who == 'host' else 'unordered_operations'), e
    assert e.fields['first'].fields['name'] == first and e.fields['now'] == now+'s', e
    if who != 'graph':
        assert (e.fields['second'].fields['line'] if who != 'host' else e.line) == line, e
        assert (e.block is not None) == (who == 'kernel')
    assert e.array and (e.index is not None or e.array == 'registered memory')
    programs.right_after_a_finding()


@pytest.mark.parametrize('name', [o for o in NAMES if o.startswith('right')])
def test_operations_in_order_are_left_alone(name, programs): getattr(programs, name)()


@pytest.mark.parametrize('checks', ['no racecheck', 'memcheck'])
def test_without_racecheck_no_order_is_required(checks, programs):
    with cpp.options(checks=checks): programs.wrong_two_kernels(), programs.wrong_managed_read()
