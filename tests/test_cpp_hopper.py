"""Hopper's engines and clusters on the emulator: what mbarriers, bulk copies, wgmma and blocks of a cluster compute,
and what the detectors say of mistakes with them."""
import ctypes, re
from functools import lru_cache

import numpy as np
import pytest
import torch

from gridstride import cpp
from gridstride.cpp import NotEmulated, cuda_kernel
from gridstride.kernels.ladder import stream_k, hopper
from gridstride.kernels.gemm import hopper_f16
from gridstride.kernels.gemm.cost_model import TileConfig as Tile
from gridstride.kernels.gemm.bf16x6 import Bf16x6
from gridstride.diagnostics.errors import *
from gridstride.kernels.tensor_maps import tensor_map
from gridstride.kernels.ladder.tma import swizzle_offsets, wgmma_d
from gridstride.bench.variants import changed
from found import finding
from exhaustive import mark_exhaustive

PTX = r'''
typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) TensorMap { char bytes[128]; };
__device__ u32 address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(const u64 *bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address(bar)), "r"(count) : "memory");
}
__device__ void ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void arrive(const u64 *bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(address(bar)) : "memory");
}
__device__ void expect(const u64 *bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address(bar)), "r"(bytes) : "memory");
}
__device__ void wait(const u64 *bar, int parity) {
    asm volatile("{ .reg .pred p;\nwaits:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra done;\nbra waits;\ndone:\n}" :: "r"(address(bar)), "r"(parity & 1) : "memory");
}
__device__ void bulk_load(void *to, const void *from, int bytes, const u64 *bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(address(to)), "l"(from), "r"(bytes), "r"(address(bar)) : "memory");
}
__device__ void bulk_store(void *to, const void *from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(address(from)), "r"(bytes) : "memory");
}
__device__ void tensor_load(void *to, const TensorMap *x, int r, int c, const u64 *bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(address(to)), "l"(x), "r"(c), "r"(r), "r"(address(bar)) : "memory");
}
__device__ void tensor_store(const TensorMap *x, int r, int c, const void *from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(x), "r"(c), "r"(r), "r"(address(from)) : "memory");
}
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void have_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ u32 rank() { u32 r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ u32 blocks() { u32 n; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n)); return n; }
__device__ u32 map(const void *p, int rank) {
    u32 r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address(p)), "r"(rank)); return r;
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ void cluster_sync() { cluster_arrive(); cluster_wait(); }
'''

def line(src, mark):
    "The number of the line that ends with the comment `mark`, or of the one instruction of the function with that name"
    ends = rf'.*// {re.escape(mark)}$|__device__ \w+ {re.escape(mark)}\(.*(asm|{{\n.*asm)'
    at = [src.count('\n', 0, found.end())+1 for found in re.finditer(ends, src, re.M)]
    assert len(at)==1, mark
    return at[0]

@lru_cache
def compiled(src, checks=True): return cuda_kernel(src, checks=checks)

def raises(want, src, mark, call, **facts):
    "`call` ends in this finding, on the marked line"
    with finding(want, **facts) as e: call()
    assert not mark or e.value.line==line(src, mark), (e.value.line, str(e.value))
    return e.value

# Copies

COPIES = PTX + r'''
template <int n> struct Bytes { alignas(1024) char at[n]; };
__device__ void box_load(void *to, const TensorMap *x, int rank, const int *c, const u64 *bar) {
    if (rank == 1)
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2}], [%3];" :: "r"(address(to)), "l"(x), "r"(c[0]), "r"(address(bar)) : "memory");
    if (rank == 2) tensor_load(to, x, c[1], c[0], bar);
    if (rank == 3)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4}], [%5];"
                     :: "r"(address(to)), "l"(x), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(address(bar)) : "memory");
    if (rank == 4)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4, %5}], [%6];"
                     :: "r"(address(to)), "l"(x), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(address(bar))
                     : "memory");
    if (rank == 5)
        asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
                     :: "r"(address(to)), "l"(x), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]),
                     "r"(address(bar)) : "memory");
}
__device__ void box_store(const TensorMap *x, int rank, const int *c, const void *from) {
    if (rank == 1)
        asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%1}], [%2];"
                     :: "l"(x), "r"(c[0]), "r"(address(from)) : "memory");
    if (rank == 2) tensor_store(x, c[1], c[0], from);
    if (rank == 3)
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
                     :: "l"(x), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(address(from)) : "memory");
    if (rank == 4)
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
                     :: "l"(x), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(address(from)) : "memory");
    if (rank == 5)
        asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];"
                     :: "l"(x), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "r"(address(from)) : "memory");
}
__global__ void load(const __grid_constant__ TensorMap x, char *out, int rank, const int *c, int bytes) {
    __shared__ alignas(1024) char s[8192];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); fence_async(); expect(&bar, bytes); box_load(s, &x, rank, c, &bar); }
    __syncthreads();
    wait(&bar, 0);
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = s[i];
}
__global__ void save(const __grid_constant__ TensorMap x, const char *in, int rank, const int *c, int bytes) {
    __shared__ alignas(1024) char s[8192];
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) s[i] = in[i];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) { box_store(&x, rank, c, s); commit(); have_read(); }
}
// each turn: numbers in by a bulk copy, changed, out by another one
__global__ void there_and_back(const short *x, short *out, int n, int turns) {
    __shared__ alignas(16) short s[64], t[64];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) { init(&bar, 1); ready(); }
    __syncthreads();
    for (int turn = 0; turn < turns; turn++) {
        if (i == 0) { expect(&bar, 2*n); bulk_load(s, x + turn*n, 2*n, &bar); }
        wait(&bar, turn);
        if (i == 0) have_read();
        __syncthreads();
        t[i] = s[i] + 1;
        fence_async();
        __syncthreads();
        if (i == 0) { bulk_store(out + turn*n, t, 2*n); commit(); }
    }
    if (i == 0) have_read();
}
'''
BOXES = [((40,),(24,),(0,)), ((40,),(24,),(32,)), ((40,),(16,),(-8,)), ((9,24),(4,16),(0,0)), ((9,24),(4,16),(7,16)),
         ((9,24),(4,16),(-3,-8)), ((9,24),(4,16),(20,0)), ((3,5,16),(2,4,16),(2,3,8)), ((3,5,16),(2,4,16),(-1,-2,-8)),
         ((2,3,4,16),(2,2,3,8),(1,2,2,8)), ((2,2,3,3,16),(2,1,2,3,8),(1,1,-1,1,8)),
         ((2,2,3,3,16),(2,2,2,2,8),(0,0,0,0,0))]

def window(shape, box, at):
    "Where a box is: the indices of its elements, and which of them are inside the array"
    index = np.indices(box).reshape(len(box), -1) + np.array(at)[:,None]
    return index,((index >= 0) & (index < np.array(shape)[:,None])).all(0)

@pytest.mark.parametrize('shape,box,at', BOXES)
def test_boxes_of_one_to_five_axes(shape, box, at):
    kernels = compiled(COPIES)
    c = torch.tensor(at[::-1], dtype=torch.int32)
    for dtype in torch.int32,torch.float16:
        x = torch.arange(1, 1+np.prod(shape), dtype=dtype).view(shape)
        index,inside = window(shape, box, at)
        want = np.where(inside, x.numpy()[tuple(np.where(inside, index, 0))], 0)
        got = torch.full((np.prod(box),), -1, dtype=dtype)
        kernels.load[1,32](tensor_map(x, box, 0), got.view(torch.int8), len(box), c, got.nbytes)
        assert got.numpy().tolist()==want.tolist()
        if min(at) < 0: continue                     # a store begins inside
        new = torch.arange(-1, -1-len(want), -1, dtype=dtype)
        want = x.clone().numpy()
        want[tuple(index[:,inside])] = new.numpy()[inside]
        kernels.save[1,32](tensor_map(x, box, 0), new.view(torch.int8), len(box), c, new.nbytes)
        assert x.numpy().tolist()==want.tolist()

# Rows of 72 elements, of which the kernel writes 64
PADDED = PTX + r'''
__global__ void padded_k(const __grid_constant__ TensorMap x) {
    __shared__ alignas(128) __half s[4][72];
    for (int i = threadIdx.x; i < 4*64; i += 32) s[i/64][i%64] = __half(float(i));
    fence_async();
    __syncwarp();
    if (threadIdx.x == 0) { tensor_store(&x, 0, 0, s); commit(); have_read(); }
}'''

def test_a_store_does_not_read_what_is_out_of_bounds():
    x,padded = torch.zeros(4, 64, dtype=torch.float16),torch.zeros(4, 72, dtype=torch.float16)
    kernel = cuda_kernel('#include <cuda_fp16.h>\n' + PADDED)
    kernel[1,32](tensor_map(x, (4, 72), 0))
    assert x.flatten().tolist()==list(range(256))
    with finding('initcheck', array='s', index=(0, 64)): kernel[1,32](tensor_map(padded, (4, 72), 0))


def test_a_map_whose_second_word_cute_has_patched_is_the_same():
    "CuTe clears bit 21 of it in maps of small arrays"
    x,got = torch.arange(64, dtype=torch.int32).view(8, 8),torch.zeros(64, dtype=torch.int32)
    patched = tensor_map(x, (8, 8), 0)
    word = ctypes.c_uint64.from_address(patched.address + 8)
    for word.value in (0, 2**64 - 1):
        compiled(COPIES).load[1,32](patched, got.view(torch.int8), 2, torch.zeros(2, dtype=torch.int32), got.nbytes)
        assert got.tolist()==list(range(64))


@pytest.mark.parametrize('swizzle', [0,32,64,128])
@pytest.mark.parametrize('at', [(0,0),(3,8),(9,40)])
def test_swizzles_there_and_back(swizzle, at):
    kernels = compiled(COPIES)
    cols = (swizzle or 64)//2
    x,box = torch.arange(1, 1+20*64, dtype=torch.float16).view(20, 64),(16,cols)
    c,got = torch.tensor(at[::-1], dtype=torch.int32),torch.empty(16*cols, dtype=torch.float16)
    index,inside = window(x.shape, box, at)
    want = np.where(inside, x.numpy()[tuple(np.where(inside, index, 0))], 0)
    kernels.load[1,64](tensor_map(x, box, swizzle), got.view(torch.int8), 2, c, got.nbytes)
    assert got.numpy()[swizzle_offsets(np.arange(16*cols)*2, swizzle)//2].tolist()==want.tolist()
    y = torch.zeros_like(x)
    kernels.save[1,64](tensor_map(y, box, swizzle), got.view(torch.int8), 2, c, got.nbytes)
    assert y.numpy()[tuple(index[:,inside])].tolist()==want[inside].tolist() and (y==0).sum()==y.numel()-inside.sum()

def test_bulk_copies_there_and_back(order):
    x = torch.arange(64*5, dtype=torch.int16)
    for checks in True,False:
        out = torch.zeros_like(x)
        compiled(COPIES, checks).there_and_back[1,64](x, out, 64, 5)
        assert out.equal(x+1)

MISTAKES = PTX + r'''
__global__ void bring(const int *x, int *out, int wrong) {
    __shared__ alignas(16) int s[64];
    __shared__ u64 bar, other;
    int i = threadIdx.x;
    if (i == 0) { if (wrong != 10) init(&bar, wrong == 1 ? 2 : 1); if (wrong != 2) ready(); }
    if (wrong != 3) __syncthreads();
    if (i == 32) {
        expect(&bar, wrong == 4 ? 256+16 : wrong == 5 ? 256-16 : 256);
        if (wrong == 6) arrive(&bar);
        bulk_load((char *)s + (wrong == 7)*8, (const char *)x + (wrong == 8)*4, wrong == 9 ? 24 : 256, &bar);
        if (wrong == 11) out[i] = s[0]; // issuer
    }
    if (wrong == 12) out[i] = s[i]; // early
    if (wrong == 13) s[i] = 0; // rewritten
    if (wrong != 14) wait(&bar, wrong == 15 ? 1 : 0);
    if (wrong == 16) wait(&other, 0);
    if (wrong < 12 || wrong > 14) out[i] = s[i]; // use
    if (wrong == 18)
        asm volatile("{ .reg .pred p;\nagain: "  // asks
                     "mbarrier.test_wait.parity.shared::cta.b64 p, [%0], 1;\n@!p bra again; }"
                     :: "r"(address(&bar)) : "memory");
    __syncthreads();
    if (i == 1) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(address(&bar)) : "memory"); // invalid
    if (wrong == 17) wait(&bar, 0);
}
__global__ void take(int *out, int wrong) {
    __shared__ alignas(128) int s[64];
    int i = threadIdx.x;
    s[i] = i; // write
    if (wrong != 1) fence_async();
    if (wrong != 2) __syncthreads();
    if (i == 0) {
        bulk_store(out + (wrong == 3), s, wrong == 4 ? 8 : 256);
        if (wrong != 5) commit();
        if (wrong != 6) have_read();
    }
    if (wrong != 7) __syncthreads();
    s[i] = -i; // again
}
'''
def copies(wrong, checks=True):
    x,out = torch.arange(64, dtype=torch.int32),torch.zeros(64, dtype=torch.int32)
    compiled(MISTAKES, checks).bring[1,64](x, out, wrong)
    return out.equal(x)

COPY_MISTAKES = [
    (1, 'synccheck deadlock missing_arrivals', 'wait'),
    (2, 'fencecheck barrier_not_visible', 'bulk_load'),
    (4, 'synccheck deadlock missing_bytes', 'wait'),
    (5, 'synccheck deadlock surplus_bytes', 'wait'),
    (7, 'memcheck misaligned_operand', 'bulk_load'), (8, 'memcheck misaligned_operand', 'bulk_load'),
    (9, 'memcheck bulk_bytes', 'bulk_load'),
    (10, 'synccheck no_mbarrier', None),
    (11, 'racecheck bulk_in_flight', 'issuer'),
    (16, 'synccheck no_mbarrier', 'wait'),
    (18, 'synccheck deadlock missing_arrivals', 'asks')]

@pytest.mark.parametrize('wrong,want,mark', COPY_MISTAKES)
def test_mistakes_with_bulk_copies(wrong, want, mark, order):
    raises(want, MISTAKES, mark, lambda: copies(wrong))
    assert copies(0)             # and leaves nothing allocated

@pytest.mark.parametrize('wrong,kinds,marks', [
    (3, (RacecheckError,SynccheckError), ('expect','init','wait')),
    (6, (RacecheckError,SynccheckError), ('arrive','expect','bulk_load','wait','use')),
    (12, RacecheckError, ('early','bulk_load')), (13, RacecheckError, ('rewritten','bulk_load')),
    (14, RacecheckError, ('bulk_load',)), (15, (RacecheckError,SynccheckError), ('use','wait','bulk_load')),
    (17, (RacecheckError,SynccheckError), ('wait','invalid'))])
def test_mistakes_that_show_in_several_ways(wrong, kinds, marks, order):
    with pytest.raises(kinds) as e: copies(wrong)
    assert e.value.line in [line(MISTAKES, o) for o in marks], (e.value.line, str(e.value))
    assert copies(0)

def test_what_an_unchecked_kernel_still_says():
    assert copies(0, checks=False)
    for wrong,want,mark in COPY_MISTAKES:
        if not want.startswith(('racecheck', 'fencecheck')) and wrong not in (7,8):
            raises(want, MISTAKES, mark, lambda: copies(wrong, checks=False))
    for wrong in 7,8:
        with finding('memcheck misaligned_operand', bytes=16): copies(wrong, checks=False)

COUNTS = PTX + r'''
__device__ void expect_more(const u64 *bar, int bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(address(bar)), "r"(bytes));
}
__device__ void arrive_for(const u64 *bar, int count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" :: "r"(address(bar)), "r"(count) : "memory");
}
__device__ void prefetch(const void *from, int bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(from), "r"(bytes));
}
__global__ void counts(int *out, int arrivals, int more, int bytes, int count, int from, int size) {
    __shared__ u64 bar;
    init(&bar, arrivals);
    expect_more(&bar, more);
    expect(&bar, bytes);
    arrive_for(&bar, count);
    prefetch(out + from, size);
}
'''
LIMIT = 2**20-1

@pytest.mark.parametrize('args,want,mark', [
    ((LIMIT, 0, LIMIT, LIMIT-1, 4, 32), None, None), ((2, 1, LIMIT-1, 1, 0, 16), None, None),
    ((LIMIT+1, 0, 0, 1, 0, 16), 'synccheck mbarrier_count', 'init'),
    ((2, LIMIT+1, 0, 1, 0, 16), 'synccheck mbarrier_bytes', 'expect_more'),
    ((2, 0, LIMIT+1, 1, 0, 16), 'synccheck mbarrier_bytes', 'expect'),
    ((2, 1, LIMIT, 1, 0, 16), 'synccheck mbarrier_bytes', 'expect'),
    ((2, 0, 0, 0, 0, 16), 'synccheck mbarrier_count', 'arrive_for'),
    ((2, 0, 0, 1, 1, 16), 'memcheck misaligned_operand', 'prefetch'),
    ((2, 0, 0, 1, 0, 8), 'memcheck bulk_bytes', 'prefetch')])
def test_ranges_of_counts(args, want, mark):
    call = lambda: compiled(COUNTS)[1,1](torch.zeros(64, dtype=torch.int32), *args)
    if want: raises(want, COUNTS, mark, call)
    else: call()

def stores(wrong):
    out = torch.zeros(68, dtype=torch.int32)
    compiled(MISTAKES).take[1,64](out, wrong)
    return out[:64].tolist()==list(range(64))

@pytest.mark.parametrize('wrong,want,mark', [
    (1, 'fencecheck no_proxy_fence', 'bulk_store'), (2, 'racecheck|initcheck', None),
    (3, 'memcheck misaligned_operand', 'bulk_store'), (4, 'memcheck bulk_bytes', 'bulk_store'),
    (5, 'racecheck engine_reads|racecheck store_not_awaited', None),
    (6, 'racecheck engine_reads|racecheck store_not_awaited', None), (7, 'racecheck', None)])
def test_mistakes_with_bulk_stores(wrong, want, mark, order):
    with finding(want) as e: stores(wrong)
    assert e.value.line in ([line(MISTAKES, mark)] if mark
                            else [line(MISTAKES, o) for o in ('bulk_store','write','again')])
    assert stores(0)

def test_a_struct_that_is_not_a_map_and_a_map_of_other_axes():
    out,c = torch.zeros(1024, dtype=torch.int8),torch.zeros(5, dtype=torch.int32)
    with finding('memcheck no_tensor_map'):
        compiled(COPIES).load[1,32](bytes(128), out, 2, c, 1024)
    x = tensor_map(torch.zeros(16, 16), (16,16), 0)
    with finding('memcheck coordinates', given=3, axes=2):
        compiled(COPIES).load[1,32](x, out, 3, c, 1024)
    with finding('memcheck coordinates', given=1, axes=2):
        compiled(COPIES).save[1,32](x, out, 1, c, 1024)

# Phases, named barriers, votes

THREADS = PTX + r'''
__device__ void named_sync(int n) { asm volatile("bar.sync 1, %0;" :: "r"(n) : "memory"); }
__device__ void named_arrive(int n) { asm volatile("bar.arrive 2, %0;" :: "r"(n) : "memory"); }
__device__ void named_wait(int n) { asm volatile("barrier.sync 2, %0;" :: "r"(n) : "memory"); }
__global__ void tokens(int *out, int turns) {              // all arrive, then each waits for the phase of its own token
    __shared__ int s[64];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) init(&bar, 64);
    __syncthreads();
    for (int turn = 0; turn < turns; turn++) {
        u64 token;
        s[i] = i + turn;
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(address(&bar)) : "memory");
        asm volatile("{ .reg .pred p;\nagain: mbarrier.try_wait.shared::cta.b64 p, [%0], %1;\n@!p bra again; }"
                     :: "r"(address(&bar)), "l"(token) : "memory");
        out[turn*64 + i] = s[63 - i];
        __syncthreads();
    }
}
__global__ void asking(const int *x, int *out) {  // one warp asks, the other sleeps until it is signalled to copy
    __shared__ alignas(16) int s[32];
    __shared__ u64 full, go;
    int i = threadIdx.x, asked = 0;
    if (i == 0) { init(&full, 1); init(&go, 1); ready(); }
    __syncthreads();
    if (i < 32) {
        if (i == 0) arrive(&go);
        for (int done = 0; !done; asked++)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(address(&full)) : "memory");
        out[i] = s[i];
    } else if (i == 32) {
        wait(&go, 0);
        expect(&full, 128);
        bulk_load(s, x, 128, &full);
    }
}
__global__ void handed_on(const int *x, int *out, int wrong) {  // warps 0 and 1 make, 2 and 3 take
    __shared__ int s[64];
    int i = threadIdx.x;
    if (i < 64) {
        s[i] = x[i]; if (wrong != 1) named_arrive(wrong == 2 ? 64 : wrong == 3 ? 96 : wrong == 4 ? 100 : 128);
    }
    else {
        if (wrong != 5) named_wait(wrong == 3 ? 96 : 128);
        out[i-64] = s[127-i]; // take
        named_sync(wrong == 6 ? 128 : 64);
        s[i-64] = 0;
        named_sync(64);
        out[i] = s[127-i];
    }
}
// after each iteration it tries whether the next one is there, also after the last one
__global__ void looking_ahead(const int *x, int *out) {
    __shared__ alignas(16) int s[32];
    __shared__ u64 full;
    int i = threadIdx.x, early = 0;
    if (i == 0) { init(&full, 1); ready(); }
    __syncwarp();
    for (int turn = 0; turn < 3; turn++) {
        if (i == 0) { expect(&full, 128); bulk_load(s, x + turn*32, 128, &full); }
        if (!early) wait(&full, turn);
        out[turn*32 + i] = s[i];
        __syncwarp();
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(early) : "r"(address(&full)), "r"(turn + 1 & 1) : "memory");
    }
}
__global__ void one_of_us(int *out) {
    u32 leader, mine;
    asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.b32 %1, 1, 0, p; }" : "=r"(leader), "=r"(mine));
    out[threadIdx.x] = leader*10 + mine;
    asm volatile("bar.sync 0, 64;" ::: "memory");               // the barrier of __syncthreads
}
'''

@pytest.mark.slow
def test_tokens_and_phases(order):
    for checks in True,False:
        out = torch.zeros(5*64, dtype=torch.int32)
        compiled(THREADS, checks).tokens[1,64](out, 5)
        assert out.view(5, 64).equal(torch.arange(63, -1, -1, dtype=torch.int32)
                                     + torch.arange(5, dtype=torch.int32)[:,None])

def test_who_asks_lets_the_others_go_on(order):
    for checks in True,False:
        x,out = torch.arange(32, dtype=torch.int32),torch.zeros(32, dtype=torch.int32)
        compiled(THREADS, checks).asking[1,64](x, out)
        assert out.equal(x)

def test_a_try_wait_may_fail(order):
    for checks in True,False:
        x,out = torch.arange(96, dtype=torch.int32),torch.zeros(96, dtype=torch.int32)
        compiled(THREADS, checks).looking_ahead[1,32](x, out)
        assert out.equal(x)

def handed_on(wrong=0, checks=True):
    x,out = torch.arange(64, dtype=torch.int32),torch.full((128,), -1, dtype=torch.int32)
    compiled(THREADS, checks).handed_on[1,128](x, out, wrong)
    return out.tolist()==[*range(63, -1, -1), *[0]*64]

def test_barriers_with_a_number(order): assert handed_on() and handed_on(checks=False)

@pytest.mark.parametrize('wrong,want,mark', [
    (1, 'synccheck deadlock at_barrier', 'named_wait'),
    (2, 'synccheck deadlock at_barrier|synccheck barrier_threads', None),
    (3, 'racecheck', None), (4, 'synccheck no_such_barrier', 'named_arrive'), (5, 'racecheck', None),
    (6, 'synccheck', 'named_sync')])
def test_mistakes_with_named_barriers(wrong, want, mark, order):
    # the makers and half of the takers: the other half deadlocks, if no thread arrives too early
    if wrong==3 and order=='forward': want = 'racecheck|synccheck deadlock at_barrier'
    raises(want, THREADS, mark, lambda: handed_on(wrong))
    assert handed_on()

def test_one_lane_is_elected(order):
    out = torch.zeros(64, dtype=torch.int32)
    compiled(THREADS).one_of_us[1,64](out)
    assert out.tolist()==[1, *[0]*31]*2

# Clusters

CLUSTERS = PTX + r'''
__device__ int remote(const int *p, int rank) {
    int v; asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(v) : "r"(map(p, rank)) : "memory"); return v;
}
__device__ void remote_store(int *p, int rank, int v) {
    asm volatile("st.shared::cluster.b32 [%0], %1;" :: "r"(map(p, rank)), "r"(v) : "memory");
}
__device__ void remote_arrive(const u64 *bar, int rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(map(bar, rank)) : "memory");
}
__device__ void for_all(void *to, const void *from, int bytes, const u64 *bar, int mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1], %2, [%3], %4;"
                 :: "r"(address(to)), "l"(from), "r"(bytes), "r"(address(bar)), "h"((short)mask) : "memory");
}
__device__ void tensor_for_all(void *to, const TensorMap *x, int r, int c, const u64 *bar, int mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(address(to)), "l"(x), "r"(c), "r"(r), "r"(address(bar)), "h"((short)mask) : "memory");
}
__device__ int number() { return (blockIdx.z*gridDim.y + blockIdx.y)*gridDim.x + blockIdx.x; }
// each block hands its numbers to the next of its cluster, which reads those of the one after it, too
__global__ void neighbours(const int *x, int *out, int wrong) {
    __shared__ int mine[32], got[32];
    int i = threadIdx.x, n = blocks(), next = (rank() + 1)%n;
    mine[i] = x[number()*32 + i]; // own
    if (wrong == 1) __syncthreads();
    else if (wrong == 4) cluster_arrive();
    else cluster_sync();
    remote_store(&got[i], wrong == 2 ? n : next, mine[i]);
    int after = remote(&mine[i], (rank() + 2)%n);
    if (wrong == 4) cluster_wait();
    if (wrong == 5) cluster_arrive();
    if (wrong != 3 && (wrong != 6 || i)) cluster_sync();
    out[number()*32 + i] = got[31-i]*1000 + after; // out
}
// the blocks of a row of the cluster get the same numbers, each bringing a part of them
__global__ void rows(const __grid_constant__ TensorMap map, const int *x, int *out, int columns, int tensor) {
    __shared__ alignas(128) int s[64][16];
    __shared__ u64 bar, gone;
    int i = threadIdx.x, me = rank(), row = me/columns, part = 64/columns, first = me%columns*part,
        mask = ((1 << columns) - 1) << row*columns;
    int from = (number() - me)*64 + row*64, all = blocks();      // the blocks of a cluster are adjacent
    if (i == 0) { init(&bar, 1); init(&gone, all); ready(); }
    cluster_sync();
    for (int turn = 0; turn < 2; turn++) {
        if (i == 0) {
            expect(&bar, sizeof s);
            if (tensor) tensor_for_all(s[first], &map, from + first, turn*16, &bar, mask);
            else for (int r = first; r < first + part; r++) for_all(s[r], x + (from + r)*32 + turn*16, 64, &bar, mask);
        }
        wait(&bar, turn);
        for (int r = 0; r < 64; r++) if (i < 16) out[((number()*64 + r)*2 + turn)*16 + i] = s[r][i];
        __syncwarp();
        if (i < all) remote_arrive(&gone, i);
        wait(&gone, turn);
    }
    if (tensor) cluster_sync();  // not needed: all have signalled that they have what is theirs
}
__global__ void __cluster_dims__(2) spinning(int *out) {  // block 0 spins until block 1, which comes later, has written
    __shared__ volatile int flag;
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); ready(); }
    cluster_sync();
    if (rank() == 0) {
        for (int done = 0; !done; )
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(address(&bar)) : "memory");
        out[threadIdx.x] = 1;
    } else {
        if (threadIdx.x == 0) remote_arrive(&bar, 0);
        out[32 + threadIdx.x] = 2;
    }
    cluster_sync();
}
__global__ void stuck(int *out, int wrong) {
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); ready(); }
    cluster_sync();
    if (wrong == 1 && rank() == 1)
        for (int done = 0; !done; )
            asm volatile("{ .reg .pred p; "  // times out
                         "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(address(&bar)) : "memory");
    if (wrong == 2) cluster_wait();
    cluster_sync();
}
__global__ void gone(int *out) {  // who has arrived and left is not waited for, and has not arrived for others
    if (rank() == 0) { cluster_arrive(); return; }
    __shared__ int s[32];
    s[threadIdx.x] = 1;
    if (threadIdx.x < 16) cluster_sync();
    else { s[threadIdx.x] = 2; cluster_sync(); }
    out[(rank() - 1)*32 + threadIdx.x] = s[31 - threadIdx.x];
}
'''

def in_cluster(kernel, args, grid, cluster, threads=32, checks=True):
    compiled(CLUSTERS, checks)[kernel].launch(args, grid, threads, cluster=cluster)

def neighbours(wrong=0, cluster=(4,1,1), grid=(8,2,1), checks=True):
    "Whether the blocks of each cluster got the values of the one before and of the second after them"
    n = np.prod(grid)
    x,out = torch.arange(n*32, dtype=torch.int32)%997,torch.zeros(n, 32, dtype=torch.int32)
    in_cluster('neighbours', (x, out, wrong), grid, cluster, checks=checks)
    z,y,c = np.indices(grid[::-1]).reshape(3, -1)
    place = np.array([c, y, z])                                        # of each block, x first
    size = np.array(cluster)[:,None]
    home,of = place//size*size,place%size
    rank,many = of[0] + size[0,0]*(of[1] + size[1,0]*of[2]),np.prod(cluster)
    def block(r):
        a,b,d = home + np.array([r%cluster[0], r//cluster[0]%cluster[1], r//(cluster[0]*cluster[1])])
        return (d*grid[1] + b)*grid[0] + a
    x = x.view(n, 32)
    return out.equal(x[block((rank-1)%many)].flip(1)*1000 + x[block((rank+2)%many)])

@pytest.mark.one_order
@pytest.mark.slow
@pytest.mark.parametrize('cluster,grid',
    [((2,1,1),(4,1,1)), ((4,1,1),(8,2,1)), ((2,2,1),(4,4,1)), ((1,2,2),(3,2,4)), ((8,1,1),(8,1,1)), ((1,1,1),(3,1,1))])
def test_blocks_reach_each_others_shared_memory(cluster, grid, order):
    assert neighbours(0, cluster, grid) and neighbours(0, cluster, grid, checks=False)

@pytest.mark.parametrize('wrong,want,marks', [
    (1, 'racecheck', ('remote','remote_store','own','out')), (2, 'memcheck no_block', ('map',)),
    (4, 'racecheck block_not_begun', ('remote_store',)),
    (3, 'racecheck|memcheck block_may_end|memcheck block_ended', ('remote','remote_store','out')),
    (5, 'synccheck arrives_twice', ('cluster_arrive',)),
    (6, 'racecheck|memcheck block_may_end|memcheck block_ended', ('remote','remote_store','out'))])
def test_mistakes_in_a_cluster(wrong, want, marks, order):
    with finding(want) as e: neighbours(wrong)
    assert e.value.line in [line(CLUSTERS, o) for o in marks], (e.value.line, str(e.value))
    assert neighbours()

def test_leaving_early_is_found_in_either_order(order):
    "Even if the others happened to arrive in time"
    with cpp.options(checks='memcheck'), finding('memcheck block_may_end|memcheck block_ended') as e:
        neighbours(3)
    assert e.value.line in [line(CLUSTERS, o) for o in ('remote','remote_store')]
    assert neighbours()

def test_a_grid_has_whole_clusters():
    with finding('launch cluster_size', cluster=(4,1,1)): neighbours(grid=(6,1,1))
    with finding('launch cluster_size', limit=8): neighbours(cluster=(16,1,1), grid=(16,1,1))
    assert neighbours()

NEXT_RANK = '''#include <cooperative_groups.h>
__device__ void store_next_rank(int *out) {
    __shared__ int rank;
    auto cluster = cooperative_groups::this_cluster();
    if (threadIdx.x == 0) rank = cluster.block_rank();
    cluster.sync();
    const int next = (cluster.block_rank() + 1)%cluster.num_blocks();
    if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&rank, next);
    cluster.sync();
}
__global__ void by_launch(int *out) { store_next_rank(out); }
__global__ void __cluster_dims__(16) by_declaration(int *out) { store_next_rank(out); }
'''

def test_clusters_of_sixteen_blocks_must_be_allowed():
    kernels,out = cuda_kernel(NEXT_RANK),torch.zeros(32, dtype=torch.int32)
    launches = dict(by_launch=lambda k: k.launch([out], 32, 32, cluster=16), by_declaration=lambda k: k[32,32](out))
    for name,launch in launches.items():
        with finding('launch cluster_size', cluster=(16,1,1), limit=8): launch(kernels[name])
        kernels[name].allow_large_clusters()
        launch(kernels[name])
        assert out.tolist() == [*range(1, 16), 0]*2
    with finding('launch cluster_size', limit=16): kernels['by_launch'].launch([out], 32, 32, cluster=32)

@pytest.mark.parametrize('tensor', [False,True])
@pytest.mark.parametrize('cluster,columns', [((2,1,1),2), ((4,1,1),4), ((4,1,1),2), ((2,2,1),2), ((1,2,1),1)])
def test_one_copy_for_several_blocks(cluster, columns, tensor, order):
    grid = (cluster[0], cluster[1], 2)  # two clusters, whose blocks have consecutive indices
    n = np.prod(grid)
    x = torch.arange(n*64*32, dtype=torch.int32).view(n*64, 32)
    blocks = np.arange(n)
    want = x.view(n, 64, 2, 16)[blocks//np.prod(cluster)*np.prod(cluster) + blocks%np.prod(cluster)//columns]
    for checks in True,False:
        out = torch.full((n,64,2,16), -1, dtype=torch.int32)
        in_cluster('rows', (tensor_map(x, (64//columns, 16), 0), x, out, columns, int(tensor)), grid,
                   cluster, checks=checks)
        assert out.equal(want)

def test_a_block_that_spins_lets_the_others_run(order):
    for checks in True,False:
        out = torch.zeros(64, dtype=torch.int32)
        compiled(CLUSTERS, checks).spinning[2,32](out)
        assert out.tolist()==[1]*32+[2]*32

@pytest.mark.one_order
@pytest.mark.slow
def test_the_block_at_fault_is_named(order):
    for checks in True,False:
        for wrong,want,mark in ((1, 'synccheck deadlock missing_arrivals', 'times out'),
                                (2, 'synccheck waits_unarrived', 'cluster_wait')):
            e = raises(want, CLUSTERS, mark,
                       lambda: in_cluster('stuck', (torch.zeros(1, dtype=torch.int32), wrong), 4, 4, checks=checks))
            assert wrong==2 or e.block==(1,0,0)

def test_threads_that_have_left_are_not_waited_for(order):
    for checks in True,False:
        out = torch.zeros(3*32, dtype=torch.int32)
        in_cluster('gone', (out,), 4, 4, checks=checks)
        assert out.tolist()==([2]*16 + [1]*16)*3

SIGNALLED = PTX + r"""
__device__ void store_async(u32 to, int a, int b, u32 bar) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 [%0], {%1, %2}, [%3];"
                 :: "r"(to), "r"(a), "r"(b), "r"(bar) : "memory");
}
__global__ void signalled(int *out, int wrong) {  // each block waits for all, then ends
    __shared__ u64 bar;
    __shared__ int2 got[8];
    const int r = rank(), n = blocks(), t = threadIdx.x;
    if (t == 0) { init(&bar, 1); ready(); expect(&bar, n*8); }
    cluster_sync();
    if (t < n && (wrong != 1 || r)) store_async(map(&got[r], t), r, 10*t, map(&bar, wrong == 2 ? 0 : t));
    if (wrong != 3) wait(&bar, 0);
    if (t < n) out[blockIdx.x*n + t] = got[t].x + got[t].y;  // out
}
"""

def signalled(wrong=0, checks=True):
    out = torch.full((8, 4), -1, dtype=torch.int32)
    compiled(SIGNALLED, checks).launch((out, wrong), 8, 32, cluster=(4, 1, 1))
    return out.tolist() == [[r + 10*block for r in range(4)] for block in [*range(4)]*2]

def test_stores_whose_bytes_another_block_counts(order): assert signalled() and signalled(checks=False)

@pytest.mark.parametrize('wrong,want', [
    (1, 'synccheck deadlock missing_bytes'), (2, 'synccheck no_mbarrier'), (3, 'racecheck')])
def test_mistakes_with_stores_whose_bytes_are_counted(wrong, want, order):
    with finding(want): signalled(wrong)


# wgmma

K = dict(tf32=8, e4m3=32)                                   # of a product; of others 16
HALF_SUMS = 'f16 sums'                                      # f16 with accumulators of f16, two per register
DTYPES = dict(bf16=torch.bfloat16, f16=torch.float16, tf32=torch.float32, e4m3=torch.float8_e4m3fn)
DTYPES[HALF_SUMS] = torch.float16

def product(name, type, n, a_turned=0, b_turned=0, a_sign=1, b_sign=1, registers=False):
    """A kernel: out (+)= a @ b for 64 x k by k x `n`, 32 bytes of k, whose operands come as images of shared memory,
    each at a multiple of 1024"""
    d,k = n//(4 if type==HALF_SUMS else 2),K.get(type, 16)
    real,letter,types = ('u32','r','f16.f16.f16') if type==HALF_SUMS else ('float','f',f'f32.{type}.{type}')
    ds,more = ', '.join(f'%{i}' for i in range(d)),d+(5 if registers else 2)
    a = f"{{{', '.join(f'%{d+i}' for i in range(4))}}}" if registers else f'%{d}'
    turns = '' if type in K else f', {b_turned}' if registers else f', {a_turned}, {b_turned}'
    outs = ', '.join(f'"+{letter}"(d[{i}])' for i in range(d))
    ins = ', '.join(f'"r"(words[{i}])' for i in range(4)) if registers else '"l"(da)'
    return f"""
__global__ void {name}(const char *a, const char *b, const u32 *of_a, {real} *out, long long da, long long db,
                       int more) {{
    __shared__ alignas(1024) char as[8192], bs[32768];
    __shared__ u64 bar;
    u32 words[4];
    {real} d[{d}];
    for (int i = 0; i < 4; i++) words[i] = of_a[threadIdx.x*4 + i];
    for (int i = 0; i < {d}; i++) d[i] = out[threadIdx.x*{d} + i];
    if (threadIdx.x == 0) {{
        init(&bar, 1); ready(); expect(&bar, 8192+32768); bulk_load(as, a, 8192, &bar);
        bulk_load(bs, b, 32768, &bar);
    }}
    __syncthreads();
    wait(&bar, 0);
    da += address(as) >> 4; db += address(bs) >> 4;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{more}, 0; "
                 "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} "
                 "{{{ds}}}, {a}, %{d+(4 if registers else 1)}, more, {a_sign}, {b_sign}{turns}; }}"
                 : {outs} : {ins}, "l"(db), "r"(more) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {d}; i++) out[threadIdx.x*{d} + i] = d[i];
}}
"""
VARIANTS = dict(plain=('bf16',8), middle=('bf16',64), wide=('bf16',256), a_turned=('bf16',24,1,0),
                b_turned=('bf16',64,0,1), both_turned=('f16',128,1,1), negative=('f16',24,0,0,-1,1),
                twice=('f16',16,0,0,-1,-1), single=('tf32',40), from_registers=('bf16',32,0,1,1,-1,True),
                half_registers=('f16',8,0,0,1,1,True), single_registers=('tf32',8,0,0,-1,1,True), bytes=('e4m3',40),
                byte_registers=('e4m3',16,0,0,-1,1,True),
                half_sums=(HALF_SUMS,64), half_sums_registers=(HALF_SUMS,16,0,1,1,-1,True))
# A warpgroup loads an operand into registers; once its product is complete, thread 0 hands the shared memory to thread
# 128, which overwrites it. `late`: thread 64 also loads after the product has been issued
REUSED = r"""
__global__ void reused(int *out, int late) {
    __shared__ alignas(1024) u32 words[512], b[1024];
    __shared__ u64 bar;
    const int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); ready(); }
    for (int i = t; i < 1024; i += blockDim.x) { b[i] = 0; if (i < 512) words[i] = i; }
    fence_async();
    __syncthreads();
    if (t >= 128) {
        if (t == 128) {
            wait(&bar, 0);
            words[64] = 5; // overwrites
        }
        return;
    }
    float d[4] = {};
    u32 a[4];
    for (int i = 0; i < 4; i++) a[i] = words[i*128 + t]; // loads
    const u64 db = (address(b) & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 0, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(db));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    const u32 seen = late && t == 64 ? words[t] : 0; // loads late
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (t == 0) arrive(&bar);
    out[t] = (int)d[0] + seen;
}
"""
PRODUCTS = PTX + ''.join(product(k, *v) for k,v in VARIANTS.items()) + REUSED

def along_k(x, swizzle, spread):
    "A row-major operand as shared memory holds it, its bytes, and the two strides of the descriptor"
    x = x.contiguous().view(torch.uint8).numpy()
    r,i = np.indices(x.shape)
    wide = swizzle or 16
    groups,pieces = x.shape[0]//8,x.shape[1]//16
    stride,lead = (8*swizzle,16) if swizzle else (128*pieces,128) if spread else (128,128*groups)
    return x,swizzle_offsets(r//8*stride + r%8*wide + i//wide*lead + i%wide, swizzle),lead,stride

def across_k(x, swizzle, spread):
    "The same for an operand whose memory holds its transpose"
    x = x.t().contiguous().view(torch.uint8).numpy()      # k rows
    i,r = np.indices(x.shape)
    wide = swizzle or 16
    atoms = -(-x.shape[1]//wide)
    of_k,of_row = (8*wide,16*wide) if spread else (8*wide*atoms,8*wide)
    at = i//8*of_k + r//wide*of_row + i%8*wide + r%wide
    return x,swizzle_offsets(at, swizzle),*((of_row,of_k) if swizzle else (of_k,of_row))

def image(x, turned, swizzle, spread, size):
    "Shared memory with an operand, and its descriptor but for the address"
    x,at,lead,stride = (across_k if turned else along_k)(x, swizzle, spread)
    res = np.full(size, 0x7f, np.uint8)
    assert len(np.unique(at))==at.size
    res[at] = x
    return (torch.from_numpy(res.view(np.int8)),
            lead>>4 << 16 | stride>>4 << 32 | {0:0, 128:1, 64:-2, 32:-1}[swizzle] << 62)

def in_registers(a):
    "The words of `a` that each of 128 threads holds"
    per = 4//a.element_size()
    t,w,e = np.indices((128,4,per))
    rows,cols = t//32*16 + t%32//4 + w%2*8, w//2*4*per + t%4*per + e
    return a[rows,cols].contiguous().view(torch.int32).view(128, 4)

def multiplied(name, swizzle=128, spread=False, more=0, checks=True, seed=0):
    type,n,a_turned,b_turned,a_sign,b_sign,_ = (*VARIANTS[name], *(0,0,1,1,False)[len(VARIANTS[name])-2:])
    gen,dtype,k = (torch.Generator().manual_seed(seed),
                   DTYPES[type],K.get(type, 16))
    a,b,c = (torch.randn(*o, generator=gen) for o in ((64,k),(n,k),(64,n)))
    a,b = a.to(dtype),b.to(dtype)
    (ia,da),(ib,db) = image(a, a_turned, swizzle, spread, 8192),image(b, b_turned, swizzle, spread, 32768)
    where = wgmma_d(n)
    if type==HALF_SUMS: c = c.half()
    out = c[where] if more else torch.full((128,n//2), float('nan'), dtype=c.dtype)
    given = out.view(torch.int32) if type==HALF_SUMS else out
    compiled(PRODUCTS, checks)[name][1,128](ia, ib, in_registers(a), given, da, db, more)
    if type=='tf32': a,b = ((x.view(torch.int32) & ~0x1fff).view(torch.float32) for x in (a,b))
    want = a_sign*b_sign*(a.double()@b.double().t()) + (c.double() if more else 0)
    want = torch.from_numpy(want.numpy().astype(np.float16 if type==HALF_SUMS else np.float32))
    return out,want[where]

@pytest.mark.slow
@pytest.mark.parametrize('name', VARIANTS)
@pytest.mark.parametrize('swizzle', [0,32,64,128])
def test_wgmma_is_the_exact_sum_rounded_once(name, swizzle):
    for i,spread in enumerate((False,True)):
        out,want = multiplied(name, swizzle, spread, more=i, seed=swizzle+i)
        assert out.equal(want)

@pytest.mark.slow
def test_wgmma_in_any_order_and_unchecked(order):
    for checks in True,False:
        out,want = multiplied('middle', more=1, checks=checks)
        assert out.equal(want)

@pytest.mark.slow
def test_a_complete_product_has_read_its_registers(order):
    "so their loads by all threads of the warpgroup happen before; later loads do not"
    compiled(PRODUCTS)['reused'][1,160](torch.zeros(128, dtype=torch.int32), 0)
    with finding('racecheck race') as e: compiled(PRODUCTS)['reused'][1,160](torch.zeros(128, dtype=torch.int32), 1)
    assert {e.value.line, e.value.other.line} == {line(PRODUCTS, 'overwrites'), line(PRODUCTS, 'loads late')}

FAR = '#include <cuda_bf16.h>' + PTX + r"""
struct Tile { alignas(1024) char at[8192]; };
__shared__ Tile one, two;  // at file scope: beyond what a descriptor's address could say, if they lay anywhere
__shared__ alignas(8) u64 bar;
__global__ void far(const __grid_constant__ TensorMap x, char *out) {
    if (threadIdx.x == 0) {
        init(&bar, 1); ready(); expect(&bar, 16384); tensor_load(one.at, &x, 0, 0, &bar);
        tensor_load(two.at, &x, 64, 0, &bar);
    }
    __syncthreads();
    wait(&bar, 0);
    for (int i = threadIdx.x; i < 8192; i += blockDim.x) out[i] = one.at[i], out[8192 + i] = two.at[i];
    if (threadIdx.x == 0) out[0] = address(two.at)%1024 + address(one.at)%1024 + (address(one.at) + 8192 > 1 << 18);
}
"""
def test_shared_memory_of_file_scope_is_within_reach_of_a_descriptor():
    x,out = torch.arange(128*64, dtype=torch.float16).view(128, 64),torch.empty(128*64, dtype=torch.float16)
    compiled(FAR)[1,128](tensor_map(x, (64,64)), out.view(torch.int8))
    assert out.view(torch.int8)[0]==0
    assert out.view(2, 64*64)[:,swizzle_offsets(np.arange(64*64)*2)//2].flatten()[1:].equal(x.flatten()[1:])

FENCED = PTX + r"""
// who fences: the writers, one lane for its warp after a barrier of the warp, one thread for all
__global__ void fenced(const int *x, int *out, int who) {
    __shared__ alignas(16) int s[64];
    int i = threadIdx.x;
    s[i] = x[i];
    if (who == 0) fence_async();
    if (who == 1) { __syncwarp(); if (i%32 == 0) fence_async(); }
    __syncthreads();
    if (who == 2) { if (i == 40) fence_async(); __syncthreads(); }
    if (who == 3 && i == 33) fence_async();
    if (i == 33) { bulk_store(out, s, 256); commit(); have_read(); }
}
"""
def test_who_may_fence(order):
    def fenced(who):
        x,out = torch.arange(64, dtype=torch.int32),torch.zeros(64, dtype=torch.int32)
        compiled(FENCED)[1,64](x, out, who)
        return out.equal(x)
    assert all(fenced(o) for o in range(4))
    with finding('fencecheck no_proxy_fence'): fenced(4)

FINE = PTX + r'''
template <int n> __device__ void have_read_all_but() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory");
}
__global__ void two_rooms(int *out, int left) {
    __shared__ alignas(128) int s[2][64];
    int i = threadIdx.x;
    for (int t = 0; t < 5; t++) {
        s[t%2][i] = t*64 + i; // the next numbers
        fence_async();
        __syncthreads();
        if (i == 0) {
            bulk_store(out + t*64, s[t%2], 256); commit();
            if (left == 1) have_read_all_but<1>(); else have_read_all_but<2>();
        }
        __syncthreads();
    }
    if (i == 0) have_read_all_but<0>();
}
// shared memory: first a stage of a copy, then numbers of threads, then a bulk store's, then a stage again
__global__ void reuse(const int *x, int *out) {
    __shared__ alignas(128) int s[64];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) { init(&bar, 1); ready(); }
    __syncthreads();
    for (int t = 0; t < 3; t++) {
        if (i == 0) { expect(&bar, 256); bulk_load(s, x + t*64, 256, &bar); }
        wait(&bar, t);
        int v = s[63-i];
        __syncthreads();
        s[i] = v*2;
        fence_async();
        __syncthreads();
        if (i == 0) { bulk_store(out + t*64, s, 256); commit(); have_read(); s[0] = 5; fence_async(); }
        __syncthreads();
    }
}
// only lane 0 waits, then releases its warp; another warp waits at a named barrier
__global__ void one_waits(const int *x, int *out) {
    __shared__ alignas(128) int s[64];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) { init(&bar, 1); ready(); expect(&bar, 256); bulk_load(s, x, 256, &bar); wait(&bar, 0); }
    __syncwarp();
    if (i < 32) out[i] = s[i];
    asm volatile("bar.sync 3, 64;" ::: "memory");
    if (i >= 32) out[i] = s[i];
}
__global__ void halves(const int *x, int *out) {     // two barriers, two copies; each waits for its own
    __shared__ alignas(128) int s[64];
    __shared__ u64 bar[2];
    int i = threadIdx.x;
    if (i == 0) { init(bar, 1); init(bar+1, 1); fence_async(); }
    __syncthreads();
    if (i%32 == 0) { expect(bar + i/32, 128); bulk_load(s + i, x + i, 128, bar + i/32); }
    wait(bar + i/32, 0);
    out[i] = s[i];
}
// the copy before the expectation: the count of bytes is below 0 for a while
__global__ void expects_later(const int *x, int *out) {
    __shared__ alignas(128) int s[64];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) { init(&bar, 64); ready(); }
    __syncthreads();
    if (i == 5) { bulk_load(s, x, 256, &bar); expect(&bar, 256); } else arrive(&bar);
    wait(&bar, 0);
    out[i] = s[i];
    __syncthreads();
    if (i == 0) {
        asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(address(&bar)) : "memory"); init(&bar, 1); ready();
        expect(&bar, 256); bulk_load(s, x + 64, 256, &bar);
    }
    __syncthreads();
    wait(&bar, 0);
    out[i] += s[i];
}
__global__ void generic(const int *x, int *out) {  // copies elements with cp.async and bulk copies
    __shared__ alignas(128) int s[64], t[64];
    __shared__ u64 bar;
    int i = threadIdx.x;
    if (i == 0) { init(&bar, 1); ready(); }
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\ncp.async.commit_group;"
                 :: "r"(address(t + i)), "l"(x + i) : "memory");
    if (i == 0) { expect(&bar, 256); bulk_load(s, x, 256, &bar); }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    wait(&bar, 0);
    out[i] = s[i] + t[i];
}
'''
@pytest.mark.slow
@pytest.mark.parametrize('name,want',
    [('reuse', lambda x: x.view(3, 64).flip(1).flatten()*2), ('one_waits', lambda x: x[:64]),
     ('halves', lambda x: x[:64]), ('expects_later', lambda x: x[:64]+x[64:128]), ('generic', lambda x: 2*x[:64])])
def test_what_is_right_is_not_accused(name, want, order):
    for checks in True,False:
        x,out = torch.arange(192, dtype=torch.int32),torch.zeros(192, dtype=torch.int32)
        compiled(FINE, checks)[name][1,64](x, out)
        assert out[:len(want(x))].equal(want(x))

def test_groups_of_stores_end_in_their_order(order):
    out = torch.zeros(320, dtype=torch.int32)
    compiled(FINE).two_rooms[1,64](out, 1)
    assert out.equal(torch.arange(320, dtype=torch.int32))
    raises('racecheck engine_reads', FINE, 'the next numbers',
           lambda: compiled(FINE).two_rooms[1,64](out, 2))

OUTSIDE = PTX + r'''
DECLARED
__global__ void __cluster_dims__(2) outside(int *out) {
    s[threadIdx.x] = threadIdx.x; cluster_sync(); out[threadIdx.x] = s[threadIdx.x];
}
'''
@pytest.mark.parametrize('declared', ['extern __shared__ int s[];', '__shared__ int s[32];'])
def test_a_cluster_has_no_shared_memory_of_file_scope(declared, order):
    source = OUTSIDE.replace('DECLARED', declared)
    with pytest.raises(NotEmulated, match='__shared__'):
        compiled(source)
    with finding('crash cluster_variable'):
        compiled(source.replace('__cluster_dims__(2)', '')).launch([torch.zeros(32, dtype=torch.int32)], 2, 32, None,
                                                                   128, cluster=(2,1,1))

# All together: a ring, its producer, its consumers; out by way of a bulk store

RING = ('#include <cuda_bf16.h>' + PTX + (r'''
__device__ void wgmma(float (&d)[16], u64 a, u64 b, int more) {
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %18, 0; "
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {DDD}, %16, %17, more, 1, 1, 0, 0; }"
                 : OUTS : "l"(a), "l"(b), "r"(more) : "memory");
}
__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ void consumers_sync() { asm volatile("bar.sync 1, 128;" ::: "memory"); }
__device__ u64 descriptor(const void *p) { return (address(p) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }

struct Stage { __nv_bfloat16 m[64][64], n[32][64]; };
__global__ void ring(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
                     const __grid_constant__ TensorMap out, int steps, int wrong) {
    __shared__ alignas(1024) Stage s[2];
    __shared__ alignas(1024) float o[64][32];
    __shared__ u64 full[2], empty[2];
    int t = threadIdx.x, bytes = sizeof(Stage) + (wrong == 3 ? 16 : wrong == 4 ? -16 : 0);
    if (t == 0) {
        for (int i = 0; i < 2; i++) { if (wrong != 14) init(full+i, wrong == 5 ? 2 : 1); init(empty+i, 1); }
        if (wrong != 12) ready();
    }
    if (wrong != 13) __syncthreads();
    if (t >= 128) {
        if (t == 128) for (int i = 0; i < steps; i++) {
            if (wrong != 7) wait(empty + i%2, i/2 - 1);
            expect(full + i%2, bytes);
            tensor_load((char *)s[i%2].m + (wrong == 20 ? 64 : 0), &m, blockIdx.x*64, i*64, full + i%2);
            tensor_load(s[i%2].n, &n, 0, i*64, full + i%2);
        }
        return;
    }
    float d[16];
    for (int i = 0; i < 16; i++) d[i] = 0;
    for (int i = 0; i < steps; i++) {
        if (wrong != 1) wait(full + i%2, wrong == 2 ? i/2 + 1 : i/2);
        if (wrong != 11 && (wrong != 21 || !i)) wgmma_fence();
        for (int kk = 0; kk < 64; kk += 16) {
            if (wrong == 21 && i && kk == 0) for (int j = 0; j < 16; j++) d[j] *= 2;
            if (wrong == 18 ? t < 96 : wrong == 19 ? t%32 : true)
                wgmma(d, descriptor(&s[i%2].m[0][kk]), descriptor(&s[i%2].n[0][kk]), i + kk);
        }
        if (wrong == 8 && t == 0) arrive(empty + i%2);
        if (wrong != 10 && wrong != 22 || i < steps-1) {
            wgmma_commit();
            if (wrong != 9) wgmma_wait();
        }
        if (wrong == 6 || t == 0 && wrong != 8) arrive(empty + i%2);
    }
    for (int i = 0; i < 16; i++) o[t/32*16 + t%32/4 + i/2%2*8][i/4*8 + t%4*2 + i%2] = d[i];
    if (wrong == 9 || wrong == 22) { wgmma_commit(); wgmma_wait(); }
    if (wrong != 15) fence_async();
    consumers_sync();
    if (t == 0) { tensor_store(&out, blockIdx.x*64, 0, o); commit(); if (wrong != 16 && wrong != 17) have_read(); }
    consumers_sync();
    if (wrong == 16) { o[t%64][t/64] = 0; if (t == 0) have_read(); } // rewritten
}
''').replace('DDD', ', '.join(f'%{i}' for i in range(16)))
        .replace('OUTS', ', '.join(f'"+f"(d[{i}])' for i in range(16))))

def ring(wrong=0, h=64, k=200, checks=True):
    "(the product, the exact one, what its error may be)"
    gen = torch.Generator().manual_seed(h+k)
    m,n = torch.randn(h, k, generator=gen).bfloat16(),torch.randn(27, k, generator=gen).bfloat16()
    out = torch.full((h,28), float('nan'))
    compiled(RING, checks)[-(-h//64),160](tensor_map(m, (64,64)), tensor_map(n, (32,64)), tensor_map(out, (64,32), 0),
                                          -(-k//64), wrong)
    m,n = m.double(),n.double()
    return out[:,:27],m@n.t(),(m.abs()@n.abs().t())*2**-24*(k//16+2)     # each wgmma rounds once

@pytest.mark.one_order
@pytest.mark.slow
@pytest.mark.parametrize('h,k', [(64,64), (1,8), (65,200), (200,392)])
def test_a_ring_with_a_producer_and_consumers(h, k, order):
    for checks in True,False:
        out,want,may = ring(0, h, k, checks)
        assert ((out-want).abs() <= may).all()

@pytest.mark.one_order
@pytest.mark.parametrize('wrong,want,marks', [
    (1, 'racecheck|initcheck', ('wgmma','tensor_load')),
    (2, 'racecheck|synccheck|initcheck', ('wgmma','tensor_load','wait')),
    (3, 'synccheck deadlock missing_bytes', ('wait',)), (4, 'synccheck deadlock surplus_bytes', ('wait',)),
    (5, 'synccheck deadlock missing_arrivals', ('wait',)),
    (6, 'synccheck deadlock missing_arrivals|racecheck', ('wait','tensor_load')),
    (7, 'racecheck', ('tensor_load',)), (8, 'racecheck', ('tensor_load','wgmma')),
    (10, 'racecheck result_not_awaited', ('wgmma',)), (11, 'racecheck registers_written', ('wgmma',)),
    (12, 'fencecheck barrier_not_visible', ('tensor_load',)),
    (13, 'racecheck|synccheck', ('wait','expect','init')),
    (14, 'synccheck no_mbarrier', ('wait','expect')), (15, 'fencecheck no_proxy_fence', ('tensor_store',)),
    (16, 'racecheck engine_reads', ('rewritten','tensor_store')),
    (17, 'racecheck store_not_awaited', ('tensor_store',)),
    (18, 'synccheck deadlock for_wgmma', ('wgmma_wait',)), (19, 'synccheck warp_diverged lane_waits', ('wgmma',)),
    (20, 'memcheck misaligned_operand', ('tensor_load',)), (21, 'racecheck registers_written', ('wgmma',))])
def test_mistakes_in_a_ring(wrong, want, marks, order):
    with finding(want) as e: ring(wrong)
    assert e.value.line in [line(RING, o) for o in marks], (e.value.line, str(e.value))

@pytest.mark.parametrize('wrong', [9,22])
def test_a_result_without_a_wait_is_uninitialized(wrong, order):
    for checks in True,False:
        try: assert ring(wrong, checks=checks)[0].isnan().all()
        except RacecheckError: assert checks

# Several warpgroups multiply one stage. `early`: those that give it back as soon as the product before it is over

SHARED_STAGES = RING[:RING.index('__global__ void ring')] + r'''
__device__ void wait_for_the_one_before() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }
__device__ void warpgroup_sync(int wg) { asm volatile("bar.sync %0, 128;" :: "r"(1 + wg) : "memory"); }

__global__ void shared_stages(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n, float *out,
                              int steps, int early) {
    __shared__ alignas(1024) Stage s[2];
    __shared__ u64 full[2], empty[2];
    int t = threadIdx.x, wg = t/128, consumers = blockDim.x/128;
    if (t == 0) {
        for (int i = 0; i < 2; i++) { init(full+i, 1); init(empty+i, consumers); }
        ready();
    }
    __syncthreads();
    if (wg == consumers) {
        if (t%128 == 0) for (int i = 0; i < steps; i++) {
            wait(empty + i%2, i/2 - 1);
            expect(full + i%2, sizeof(Stage));
            tensor_load(s[i%2].m, &m, 0, i*64, full + i%2);
            tensor_load(s[i%2].n, &n, 0, i*64, full + i%2);
        }
        return;
    }
    float d[16];
    for (int i = 0; i < 16; i++) d[i] = 0;
    for (int i = 0; i < steps; i++) {
        wait(full + i%2, i/2);
        wgmma_fence();
        for (int kk = 0; kk < 64; kk += 16)
            wgmma(d, descriptor(&s[i%2].m[0][kk]), descriptor(&s[i%2].n[0][kk]), i + kk);
        wgmma_commit();
        warpgroup_sync(wg);
        wait_for_the_one_before();
        if (t%128 == 0 && early >> wg & 1) arrive(empty + i%2);
        wgmma_wait();
        if (t%128 == 0 && !(early >> wg & 1)) arrive(empty + i%2);
    }
    for (int i = 0; i < 16; i++) out[(t/32*16 + t%32/4 + i/2%2*8)*32 + i/4*8 + t%4*2 + i%2] = d[i];
}
'''
# A second group of products reads the same stage
READ_TWICE = SHARED_STAGES.replace('        wgmma_commit();\n', """        wgmma_commit();
        for (int kk = 0; kk < 64; kk += 16)
            wgmma(d, descriptor(&s[i%2].m[0][kk]), descriptor(&s[i%2].n[0][kk]), 1);
        wgmma_commit();
""")

def shared_stages(consumers, early, source=SHARED_STAGES, times=1):
    gen = torch.Generator().manual_seed(consumers)
    m,n = torch.randn(64, 264, generator=gen).bfloat16(),torch.randn(32, 264, generator=gen).bfloat16()
    out = torch.full((consumers,64,32), float('nan'))
    compiled(source)[1,128*consumers+32](tensor_map(m, (64,64)), tensor_map(n, (32,64)), out, 5, early)
    m,n = m.double(),n.double()*times
    assert ((out-m@n.t()).abs() <= (m.abs()@n.abs().t())*2**-24*18*times).all()     # each wgmma rounds once

@pytest.mark.parametrize('consumers', [1,2,3,5])
def test_stages_that_several_warpgroups_multiply(consumers, order): shared_stages(consumers, 0)

@pytest.mark.one_order
@pytest.mark.parametrize('consumers,early', [(1,1), (2,1), (2,2), (2,3), (3,1), (3,2), (3,4), (3,6), (3,7), (5,16)])
def test_each_warpgroup_must_have_read_a_stage(consumers, early, order):
    with finding('racecheck engine_has_read|racecheck engine_reads') as e: shared_stages(consumers, early)
    assert e.value.line==line(SHARED_STAGES, 'tensor_load'), str(e.value)

def test_the_last_of_two_products_must_have_read_a_stage(order):
    shared_stages(2, 0, READ_TWICE, 2)
    with finding('racecheck engine_has_read|racecheck engine_reads'): shared_stages(2, 2, READ_TWICE, 2)

@pytest.mark.slow
def test_nothing_stays_of_a_launch_that_failed():
    for i in range(12):
        for call in (lambda: ring(1+i), lambda: neighbours(1+i%6), lambda: copies(1+i%12)):
            try: call()
            except (RacecheckError,SynccheckError,MemcheckError,InitcheckError): pass
        out,want,may = ring(0, 70, 136)
        assert ((out-want).abs() <= may).all() and neighbours() and copies(0) and neighbours(0, (2,2,1), (4,4,1))

# The course's own kernels

def right(rung, h, w, k, dtype=torch.bfloat16):
    gen = torch.Generator().manual_seed(h+w+k)
    m,n,out = (torch.randn(h, k, generator=gen).to(dtype),torch.randn(k, w, generator=gen).to(dtype),
               torch.full((h,w), float('nan')).to(dtype))
    rung(m, n, out)
    m,n = m.double(),n.double()
    # rounded once at the end
    return ((out.double()-m@n).abs()
            <= (m.abs()@n.abs())*2**-24*(k//16+2) + (m@n).abs()*(2**-8 if dtype==torch.bfloat16 else 2**-23)).all()

@pytest.mark.parametrize('name', ['warpgroup','ring','consumers','persistent','pairs','stored'])
def test_rungs_on_ragged_shapes(name):
    rung = getattr(hopper, name)
    for order,shape in ('forward',(70,136,72)),('reverse',(8,16,200)),('shuffle',(129,72,64)):
        with cpp.options(order=order, seed=1): assert right(rung, *shape)

@pytest.mark.slow
@pytest.mark.parametrize('tile', [*map(mark_exhaustive, [((64,64,1,1,0,0,0),), ((128,160,2,1,1,0,0),)]),
                                  (256,192,1,2,0,0,0), (192,160,1,2,1,1,0), (128,256,2,1,0,0,1)])
def test_final_tiles_on_ragged_shapes(tile):
    assert tile in stream_k.CORRECTION_FACTORS
    rung = stream_k.final_gemm(*tile)
    for order,shape in ('forward',(70,136,72)),('shuffle',(8,16,200)),('reverse',(200,136,712)):
        with cpp.options(order=order, seed=1): assert right(rung, *shape)

# Ping-pong warpgroups: two and a half tiles per warpgroup, with more steps than a ring has stages
TURNS = [(Tile(64, 64, 2, pingpong=1), 'nn'),
         mark_exhaustive((Tile(64, 48, 1, 2, swap_ab=1, pingpong=1), 'tn')),
         (Tile(128, 48, swap_ab=1, pingpong=1), 'nt')]

def product_pingpong(rung, layout, h, w, k):
    "By a kernel that takes m or n as its transpose"
    gen = torch.Generator().manual_seed(h+w+k)
    m,n = torch.randn(h, k, generator=gen).bfloat16(),torch.randn(k, w, generator=gen).bfloat16()
    out = torch.full((h,w), float('nan')).bfloat16()
    rung(*(x.t().contiguous() if o=='t' else x for x,o in zip((m,n), layout)), out)
    m,n = m.double(),n.double()
    return ((out.double()-m@n).abs() <= (m.abs()@n.abs())*2**-24*(k//16+2) + (m@n).abs()*2**-8).all()

@pytest.mark.one_order
@pytest.mark.parametrize('cut,layout', TURNS, ids=str)
def test_warpgroups_that_take_turns(cut, layout, order):
    rung = hopper_f16.gemm_f16(cut, layout=layout)
    for shape in (328,328,64*rung.constants['STAGES']*2+72),(8,8,64): assert product_pingpong(rung, layout, *shape)

@pytest.mark.slow
@pytest.mark.one_order
def test_without_its_wait_a_warpgroup_takes_the_stages_of_another_tile(order):
    "A barrier only shows the parity of a phase: two iterations ahead, the last but one is taken for its own"
    rung = hopper_f16.gemm_f16(TURNS[0][0])
    with pytest.raises((RacecheckError, SynccheckError)):
        product_pingpong(changed(rung, 'if (PINGPONG && tile > cluster) wait_for_warpgroup(wg);', ''), 'nn', 328, 328,
                         64*rung.constants['STAGES']*2+72)

@pytest.mark.slow
@pytest.mark.one_order
@pytest.mark.parametrize('tile', [(64,64,4), mark_exhaustive(((64,128,1),))])
def test_float32_by_tensor_cores(tile, order): assert right(Bf16x6(*tile), 70, 131, 101, torch.float32)

@pytest.mark.slow
@pytest.mark.one_order
@pytest.mark.parametrize('early', [0,mark_exhaustive(1)])
def test_one_consumer_of_a_cluster_gives_stages_back_early(early, order):
    wait = '                wgmma_wait<0>();\n                fence_accumulators(d);\n'
    back = '                if (threadIdx.x%128 < 2) barrier_arrive_at(empty + 8*s, threadIdx.x%128);\n'
    first,then = (back.replace('if (', f'if (wg {which} {early} && ') for which in ('==','!='))
    with finding('racecheck engine_has_read|racecheck engine_reads'):
        right(changed(hopper.stored, wait+back, first+wait+then), 256, 256, 512)
