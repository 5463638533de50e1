"""Reads of elements that no thread has written yet: a race where another thread writes them later and nothing orders
the two, else uninitialized memory. All kernels are one unit; each begins with fresh memory."""
import re

import pytest
import torch

from gridstride import cpp, cuda_kernel, load_cuda
from gridstride.diagnostics.errors import InitcheckError, MemcheckError, RacecheckError

SRC = r'''
#include <assert.h>
#include <cooperative_groups.h>
#define IDS const int t = threadIdx.x, b = blockIdx.x; (void)t, (void)b
__device__ int first(const int *d) { return d[0]; }                 // reads unwritten_in_a_function
// races: `reads`, `writes` and the kernel's name are where each happens
__global__ void race_of_neighbours(HEAD) {
    IDS; d[t] = 1;                                                  // writes race_of_neighbours
    if (t < 16) out[t] = d[t + 16];                                 // reads race_of_neighbours
}
__global__ void race_read_first(HEAD) {
    IDS;
    if (t < 16) out[t] = d[t + 16];                                 // reads race_read_first
    else d[t] = 1;                                                  // writes race_read_first
}
__global__ void race_shared(HEAD) {
    IDS; __shared__ int s[32];
    s[t] = 1;                                                       // writes race_shared
    if (t < 16) out[t] = s[t + 16];                                 // reads race_shared
}
__global__ void race_of_two_blocks(HEAD) {
    IDS;
    if (t == 0) d[b] = 1;                                           // writes race_of_two_blocks
    if (t == 0) out[b] = d[1 - b];                                  // reads race_of_two_blocks
}
__global__ void race_after_barriers(HEAD) {
    IDS;
    __syncthreads();
    if (b == 0) out[t] = d[t];                                      // reads race_after_barriers
    __syncthreads();
    if (b == 1) d[t] = 1;                                           // writes race_after_barriers
    __syncthreads();
}
__global__ void race_with_an_atomic(HEAD) {
    IDS;
    if (t == 5) out[0] = d[0];                                      // reads race_with_an_atomic
    if (t == 9) atomicExch(d, 1);                                   // writes race_with_an_atomic
}
__global__ void race_cleared_too_late(HEAD) {
    IDS;
    if (t == 20) atomicAdd(d, 1);                                   // reads race_cleared_too_late
    if (t == 0) d[0] = 0;                                           // writes race_cleared_too_late
}
__global__ void race_in_a_loop(HEAD) {
    IDS;
    for (int i = 0; i < 96; i += 32) {
        d[i + t] = t;                                               // writes race_in_a_loop
        out[t] += d[i + (t + 1) % 32];                              // reads race_in_a_loop
    }
}
__global__ void race_of_bytes(HEAD) {
    IDS; char *c = (char *)d;
    c[t] = 1;                                                       // writes race_of_bytes
    out[t] = c[t ^ 1];                                              // reads race_of_bytes
}
__global__ void race_of_structs(HEAD) {
    IDS; float3 *v = (float3 *)d;
    if (t < 8) v[t] = make_float3(t, t, t);                         // writes race_of_structs
    if (t < 8) ((float3 *)out)[t] = v[7 - t];                       // reads race_of_structs
}
// uninitialized
__global__ void unwritten_gap(HEAD) {
    IDS; if (t != 7) d[t] = 1;
    __syncthreads();
    out[t] = d[31 - t];                                             // reads unwritten_gap
}
__global__ void unwritten_gap_of_blocks(HEAD) {
    IDS; if (t == 0 && b != 1) d[b] = 1;
    if (t == 0 && b == 1) out[0] = d[1];                            // reads unwritten_gap_of_blocks
}
__global__ void unwritten_shared(HEAD) {
    IDS; __shared__ int s[32];
    if (t != 7) s[t] = 1;
    __syncthreads();
    out[t] = s[31 - t];                                             // reads unwritten_shared
    __syncthreads();
    s[t] = 2;
}
__global__ void unwritten_and_written_by_itself(HEAD) {
    d[threadIdx.x] += 1;                                            // reads unwritten_and_written_by_itself
}
__global__ void unwritten_and_written_later(HEAD) {
    IDS;
    out[t] = d[31 - t];                                             // reads unwritten_and_written_later
    __syncthreads();
    d[t] = 1;
}
__global__ void unwritten_before_the_grid(HEAD) {
    IDS;
    if (b == 0) out[t] = d[t];                                      // reads unwritten_before_the_grid
    cooperative_groups::this_grid().sync();
    if (b == 1) d[t] = 1;
}
__global__ void unwritten_counter(HEAD) { atomicAdd(d, 1); }        // reads unwritten_counter
__global__ void unwritten_flag(HEAD) { while (*(volatile int *)d == 0) { } }    // reads unwritten_flag
__global__ void unwritten_divisor(HEAD) { IDS; out[t] = 5 / d[0]; } // reads unwritten_divisor
__global__ void unwritten_asserted(HEAD) { assert(d[0] == 1); }     // reads unwritten_asserted
__global__ void unwritten_pointer(HEAD) {
    int **rows = (int **)d;
    out[threadIdx.x] = *rows[0];                                    // reads unwritten_pointer
}
__global__ void unwritten_in_a_function(HEAD) {
    out[threadIdx.x] = first(d);                                    // calls unwritten_in_a_function
}
// of two mistakes the one that is sure
__global__ void outside_by_another(HEAD) {
    IDS; if (t == 0 && b == 0) out[0] = d[5];
    if (t == 9) out[4096] = 1;                                      // reads outside_by_another
}
__global__ void right_after_a_barrier(HEAD) {
    IDS; d[32*b + t] = 1;
    __syncthreads();
    out[32*b + t] = d[32*b + 31 - t];
}
'''.replace('HEAD', 'int *d, int *out')
NAMES = re.findall(r'__global__ void (\w+)\(', SRC)
BLOCKS = dict.fromkeys(('race_of_two_blocks', 'race_after_barriers', 'unwritten_gap_of_blocks'), 2)
HOST = r'''
void launched(int64_t which) {
    int *d, *out;
    cudaMalloc(&d, 4096), cudaMalloc(&out, 4096), cudaMemset(out, 0, 4096);
    void *args[] = {&d, &out};
''' + '\n'.join(f'    if (which == {n}) {name}<<<{BLOCKS.get(name, 1)}, 32>>>(d, out);' if 'grid' not in name else
               f'    if (which == {n}) cudaLaunchCooperativeKernel((const void *){name}, 2, 32, args);'
               for n, name in enumerate(NAMES)) + '''
    cudaFree(d), cudaFree(out);
}
'''


def run(name, order='forward'):
    seconds = 1 if name == 'unwritten_flag' else 5  # it spins until its time is up
    with cpp.options(order=order, seconds=seconds):
        load_cuda(SRC + HOST, funcs=['launched']).launched(NAMES.index(name))


def line(what, name): return next(n for n, o in enumerate(SRC.splitlines(), 1) if o.endswith(f'// {what} {name}'))


@pytest.mark.slow
@pytest.mark.parametrize('name', [o for o in NAMES if o.startswith('race')])
def test_what_another_thread_writes_later_is_a_race(name):
    for order in ('forward', 'reverse', 'shuffle'):
        with pytest.raises(RacecheckError) as e: run(name, order)
        assert {e.value.line, e.value.other.line} == {line('reads', name), line('writes', name)}, (order, e.value)
        assert e.value.thread != e.value.other.thread or e.value.block != e.value.other.block


@pytest.mark.slow
@pytest.mark.parametrize('name', [o for o in NAMES if o.startswith('unwritten')])
def test_what_no_other_thread_writes_is_uninitialized(name):
    for order in ('forward', 'reverse', 'shuffle'):
        with pytest.raises(InitcheckError) as e: run(name, order)
        assert e.value.line == line('reads', name), (order, e.value)
        assert e.value.code == ('unwritten_shared' if name == 'unwritten_shared' else 'unwritten')
        assert e.value.index == ((7,) if name in ('unwritten_gap', 'unwritten_shared') else e.value.index)
        assert e.value.call_line == (line('calls', name) if 'function' in name else e.value.call_line)


def test_an_address_out_of_bounds_is_reported_unless_its_thread_read_uninitialized_memory():
    with pytest.raises(MemcheckError) as e: run('outside_by_another')
    assert e.value.line == line('reads', 'outside_by_another')


def test_without_racecheck_a_read_before_the_write_is_uninitialized():
    with cpp.options(checks='initcheck'), pytest.raises(InitcheckError) as e:
        load_cuda(SRC + HOST, funcs=['launched']).launched(NAMES.index('race_read_first'))
    assert e.value.line == line('reads', 'race_read_first')


def test_what_is_written_before_is_right(): run('right_after_a_barrier')


STOPPED = r'''
__device__ void exchange(float *t) { t[threadIdx.x] = 1; t[threadIdx.x] += t[63 - threadIdx.x]; }
__global__ void in_shared() { __shared__ float t[64]; exchange(t); }
__global__ void in_global(float *t) { exchange(t); }
void stopped(bool shared) {
    float *t;
    cudaMalloc(&t, 64*sizeof(float));
    if (shared) in_shared<<<1, 64>>>(); else in_global<<<1, 64>>>(t);
    cudaDeviceSynchronize();
}
'''


def test_an_unchecked_launch_reports_nothing_that_a_stopped_one_left():
    "Thread 0 reads what is not written yet; a later thread races, and that is reported"
    stopped = load_cuda(STOPPED).stopped
    fill, out = cuda_kernel('__global__ void fill(float *out) { out[threadIdx.x] = 1; }', checks=False), torch.zeros(4)
    for shared in (True, False):
        with pytest.raises(RacecheckError): stopped(shared)
        fill[1, 4](out.zero_())
        assert out.tolist() == [1]*4
