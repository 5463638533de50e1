"""Blackwell's tensor memory and tensor cores on the emulator: what tcgen05 instructions compute, and what the detectors
report of mistakes with them. The specification of PTX is the judge: none of this has run on a GPU."""
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from exhaustive import mark_exhaustive
from found import finding
from gridstride import cpp
from gridstride.asm.tools import disassemble
from gridstride.bench.recording import Unavailable
from gridstride.cpp import cuda_kernel, program
from gridstride.cpp.frontend.edits import NotEmulated
from gridstride.kernels import export, nvfp4_program, standalone
from gridstride.kernels.ladder import blackwell
from gridstride.kernels.ptx import PTX, TCGEN05
from gridstride.kernels.tensor_maps import tensor_map

LADDER = [blackwell.single, blackwell.roles, blackwell.pair, blackwell.persistent]
EXPORTED = [*(version.name for version in LADDER), 'nvfp4']
SHAPES = [(256, 256, 256), (200, 136, 72), (1, 8, 8), (129, 264, 64), (512, 640, 136)]


def relative_error(got, m, n):
    "The largest error, relative to the bound of a result that is rounded to bfloat16"
    want, terms = m.double() @ n.double(), m.double().abs() @ n.double().abs()
    return float(((got.double() - want).abs() / (2**-8 * want.abs() + 2**-20 * terms)).max())


@pytest.mark.parametrize('version', LADDER, ids=lambda o: o.name)
def test_the_ladder_multiplies(version):
    for h, w, k in SHAPES:
        m, n = torch.randn(h, k).bfloat16(), torch.randn(k, w).bfloat16()
        out = torch.full((h, w), torch.nan).bfloat16()
        assert relative_error(version(m, n, out), m, n) < 1, (h, w, k)


def test_tensors_on_the_cpu_are_multiplied_on_the_emulator_even_with_a_gpu(monkeypatch):
    monkeypatch.delenv('GRIDSTRIDE_BACKEND', raising=False)
    monkeypatch.setattr('gridstride.utils.gpu_count', lambda: 1)
    gpu = SimpleNamespace(name='an H200', major=9, minor=0)
    monkeypatch.setattr(torch.cuda, 'get_device_properties', lambda: gpu)
    version = blackwell.single.variant('edited')                  # no launch of it has been prepared
    m, n = torch.randn(40, 72).bfloat16(), torch.randn(72, 24).bfloat16()
    assert relative_error(version(m, n), m, n) < 1
    with pytest.raises(Unavailable, match='tensor memory'): version.require_gpu()
    gpu.major = 10
    version.require_gpu()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which('nvcc'), reason='needs nvcc')
@pytest.mark.parametrize('name', [o if o in ('pair', 'nvfp4') else mark_exhaustive(o) for o in EXPORTED])
def test_nvcc_compiles_the_exported_programs(name, tmp_path):
    "To machine code with products of one SM, of two, or with block scales"
    file, = export.export(tmp_path, f'tensor_memory_{name}')
    command = next(line for line in file.read_text().splitlines() if ' nvcc ' in line).split('nvcc')[1].split()
    subprocess.run(['nvcc', '-cubin', *command[:command.index('&&')]], cwd=tmp_path, check=True)
    instruction = {'pair': 'UTCHMMA.2CTA ', 'nvfp4': 'UTCOMMA.4X '}.get(name, 'UTCHMMA ')
    assert instruction in disassemble((tmp_path/file.stem).read_bytes())


def exported_program(name):
    if name == 'nvfp4': return standalone.program_source(*nvfp4_program.programs())
    spec, = (spec for spec in export.list_exports() if spec.name == f'tensor_memory_{name}')
    return export.program_text(spec)


def run_exported(text, checks=None):
    return program.run(text, 'exported', ('small',), checks, defines=('GRIDSTRIDE_ARCH=sm_100a',))


@pytest.mark.parametrize('name', [pytest.param(name, marks=[pytest.mark.exhaustive]*(name != 'nvfp4'))
                                  for name in EXPORTED])
def test_the_exported_programs_are_right_on_the_emulator(name): assert run_exported(exported_program(name)) == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize('name,old,new', [('single', 'i < BK; i += 16', 'i < BK - 16; i += 16'),
                                          ('nvfp4', 'i < 4; i++', 'i < 3; i++')])
def test_an_exported_program_finds_a_wrong_product(name, old, new):
    assert old in (text := exported_program(name)) and run_exported(text.replace(old, new), False) == 1


@pytest.mark.exhaustive
def test_an_exported_program_is_not_run_on_another_gpu():
    text = exported_program('single').replace('MINOR = 0', 'MINOR = 3')
    assert run_exported(text) == 77


# Right and wrong programs: `wrong` selects a mistake, 0 none

PROGRAMS = PTX + TCGEN05 + r'''
constexpr u32 GOOD = 1 << 4 | 1 << 7 | 1 << 10 | 16/8 << 17 | 128/16 << 24;         // 128 x 16, bf16, float sums
constexpr int WORDS = (128 + 16)*32;                                                // a: 128 rows of 128 bytes, b: 16
__device__ void product(u32 d, u64 a, u64 b, u32 instruction, bool more, bool a_in_tensor_memory) {
    if (!a_in_tensor_memory) return tensor_multiply(d, a, b, instruction, more);
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, more; }" // from tensor memory
                 :: "r"(d), "r"((u32)a), "l"(b), "r"(instruction), "r"((int)more) : "memory");
}
__device__ u32 instruction(int wrong) {
    return wrong == 31 ? GOOD & ~(63u << 17) : wrong == 32 ? (GOOD & ~(31u << 24)) | 96/16 << 24
         : wrong == 33 ? GOOD & ~16u : wrong == 34 ? GOOD | 2 << 7 : wrong == 35 ? GOOD | 1 << 23
         : wrong == 36 ? GOOD | 4 : wrong == 37 ? GOOD | 1u << 30 : wrong == 30 ? GOOD | 2 << 10 : GOOD;
}
__device__ u64 operand(int wrong, u32 at) {
    u64 right = tensor_descriptor(at, 16);
    return wrong == 38 ? right & ~(7ull << 46) : wrong == 39 ? right | 3ull << 61 : wrong == 40 ? descriptor(at, 16)
         : wrong == 41 ? right | 1ull << 52 : wrong == 42 ? tensor_descriptor(at + 4*WORDS, 16)
         : wrong == 43 ? right | 1ull << 61 : right;
}
// One product of tiles that threads write, then a second one of other tiles, which adds to the same accumulators
__global__ void one_block(const u32 *tiles, float *out, int wrong) {
    __shared__ alignas(1024) u32 s[WORDS];
    __shared__ u64 bars[2];
    __shared__ u32 at, more_columns;
    int i = threadIdx.x, warp = i/32, lane = i%32;
    u32 done = address(bars);
    for (int j = i; j < WORDS; j += 160) s[j] = tiles[j]; // fill
    if (wrong != 2) fence_for_tma();
    if (i == 0 && wrong != 27) barrier_init(done, wrong == 29 ? 2 : 1); // init
    if (i == 0) fence_mbarrier_init();
    if (wrong == 25 ? i == 0 : warp == 0)
        tensor_alloc(address(&at), wrong == 16 ? 48 : wrong == 17 ? 16 : wrong == 18 ? 1024 : 64);
    if (wrong == 45 && warp == 0) tensor_relinquish(); // gone
    if (wrong == 45 && warp == 0) tensor_alloc(address(&more_columns), 32);
    if (wrong == 46 && warp == 0) tensor_alloc(address(&more_columns), 512);
    if (wrong == 1 && warp == 4) out[0] = (float)at; // early
    __syncthreads();
    u32 d = at;
    if (i == 0 || (wrong == 26 && i == 32)) {
        u64 a = operand(wrong, address(s)), b = tensor_descriptor(address(s + 128*32), 16);
        u32 to = wrong == 19 ? d + 56 : wrong == 20 ? d + (16 << 16) : d;
        product(to, a, b, instruction(wrong), wrong == 10, false);
        if (wrong == 54) product(d + 32, d, b, GOOD, false, true);
        if (wrong == 55) product(d, a, b, (GOOD & ~(63u << 17)) | 8/8 << 17, true, false);
        if (wrong != 4 && wrong != 44 && wrong != 60) tensor_commit(done);
    }
    if (wrong == 9) s[i] = 0; // overwrites
    if (wrong == 44) return;
    bool waits = wrong != 4 && wrong != 5 && (wrong != 8 || warp != 1);
    if (waits) barrier_wait(done, wrong == 6 ? 1 : 0);
    else if (wrong != 8) __syncthreads();
    if (wrong != 7) tensor_fence_after();
    float x = 0;
    if (wrong == 12 && warp == 0) tensor_free(at, 64); // frees
    u32 lanes = wrong == 21 ? 0 : (warp%4)*32 + (wrong == 22 ? 8 : 0);
    for (int c = 0; c < 16 && warp < 4; c++) {
        if (wrong != 24 || lane < 16) tensor_load(x, d + c + (lanes << 16) + (wrong == 23 ? lane : 0));
        if (wrong != 11) tensor_wait_loads();
        out[i*16 + c] = x;
    }
    if (wrong != 53 && wrong != 50) tensor_fence_before();
    if (wrong != 53) __syncthreads();
    if (i == 0) { // the second product, of the same tiles
        if (wrong != 51) tensor_fence_after();
        u64 a = tensor_descriptor(address(s), 16), b = tensor_descriptor(address(s + 128*32), 16);
        product(d, a, b, GOOD, true, false);
        tensor_commit(done);
    }
    barrier_wait(done, 1);
    tensor_fence_after();
    for (int c = 0; c < 16 && warp < 4; c++) {
        tensor_load(x, d + c + ((warp%4)*32 << 16));
        if (wrong != 57) tensor_wait_loads(); // the sums are there, but may still be read when they are freed
        out[2048 + i*16 + c] = x;
    }
    __syncthreads();
    if (warp == 0 && wrong != 13) tensor_free(at, wrong == 14 ? 32 : 64); // free
    if (warp == 0 && wrong == 15) tensor_free(at, 64); // twice
}
// A of the product is stored to tensor memory by warps; warp 4 only reads and writes lanes 0 to 31
__global__ void from_tensor_memory(const u32 *tiles, float *out, int wrong) {
    __shared__ alignas(1024) u32 s[16*32];
    __shared__ u64 bar;
    __shared__ u32 at;
    int i = threadIdx.x, warp = i/32;
    u32 done = address(&bar);
    for (int j = i; j < 16*32; j += 160) s[j] = tiles[128*32 + j];
    fence_for_tma();
    if (i == 0) { barrier_init(done, 1); fence_mbarrier_init(); }
    if (warp == 0) tensor_alloc(address(&at), 64);
    __syncthreads();
    u32 d = at, a = d + 32, lanes = (warp%4)*32 << 16;
    for (int c = 0; c < (wrong == 1 ? 7 : 8) && warp < 4; c++)
        tensor_store(a + c + lanes, __uint_as_float(tiles[i*32 + c]));
    if (wrong != 2) tensor_wait_stores();
    if (wrong == 3) {
        float x;
        if (warp < 4) tensor_store(a + 9 + lanes, 1);
        if (warp < 4) tensor_load(x, a + 9 + lanes); // before the wait
        tensor_wait_loads();
    }
    if (wrong != 4) tensor_fence_before();
    if (wrong != 5) __syncthreads();
    if (wrong != 6) tensor_fence_after();
    if (i == 0) {
        product(d, a, tensor_descriptor(address(s), 16), GOOD, false, true);
        if (wrong == 7) product(d, a, tensor_descriptor(address(s), 16), GOOD | 1 << 15, false, true);
        tensor_commit(done);
    }
    if (wrong == 8 && warp == 4) { tensor_store(a, 2); tensor_wait_stores(); } // a is in use
    barrier_wait(done, 0);
    tensor_fence_after();
    float x;
    for (int c = 0; c < 16 && warp < 4; c++) {
        tensor_load(x, d + c + lanes);
        tensor_wait_loads();
        out[i*16 + c] = x;
    }
    __syncthreads();
    if (warp == 0) tensor_free(at, 64);
}
// Copies of shared memory to tensor memory by the tensor cores, and shifts there
__global__ void copies(const u32 *tiles, u32 *out, int wrong) {
    __shared__ alignas(1024) u32 s[128*4];
    __shared__ u64 bar;
    __shared__ u32 at;
    int i = threadIdx.x, warp = i/32;
    u32 done = address(&bar);
    for (int j = i; j < 128*4; j += 128) s[j] = tiles[j];
    if (wrong != 1) fence_for_tma();
    if (i == 0) { barrier_init(done, 1); fence_mbarrier_init(); }
    if (warp == 0) tensor_alloc(address(&at), 32);
    __syncthreads();
    u32 d = at;
    float x;
    if (i == 0) {
        u64 rows = address(s) >> 4 | (u64)(128 >> 4) << 32 | 1ull << 46 | (wrong == 2 ? 7ull << 61 : 0);
        if (wrong == 3)
            asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(d + 30), "l"(rows) : "memory");
        asm volatile("tcgen05.cp.cta_group::1.128x128b [%0], %1;" :: "r"(d), "l"(rows) : "memory");
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(d + 8), "l"(rows) : "memory");
        if (wrong != 4) tensor_commit(done);
    }
    if (wrong == 5) s[i] = 1; // overwrites
    if (wrong == 4 || wrong == 6) __syncthreads();
    else barrier_wait(done, 0);
    if (wrong != 7) tensor_fence_after();
    for (int c = 0; c < 12; c++) {
        if (c >= 4 && c < 8 && wrong != 8) continue;
        tensor_load(x, d + c + (warp*32 << 16)); // loads
        tensor_wait_loads();
        out[i*12 + c] = __float_as_uint(x);
    }
    __syncthreads();
    if (warp == 0) tensor_free(at, 32);
}
// One product of any kind: tensor memory begins as `start`, with D in its first columns, then A, then scales
__global__ void any_kind(const u32 *tiles, const u32 *start, u32 *out, long long of_a, long long of_b, u32 instruction,
                         u32 a_columns, u32 scales, int kind, int more, u32 mask) {
    __shared__ alignas(1024) u32 s[8192];
    __shared__ u64 bar;
    __shared__ u32 at;
    int i = threadIdx.x;
    u32 done = address(&bar), lanes = i/32*32 << 16;
    for (int j = i; j < 8192; j += 128) s[j] = tiles[j];
    fence_for_tma();
    if (i == 0) { barrier_init(done, 1); fence_mbarrier_init(); }
    if (i < 32) tensor_alloc(address(&at), 128);
    __syncthreads();
    for (int c = 0; c < 128; c++) tensor_store(at + c + lanes, __uint_as_float(start[c*128 + i]));
    tensor_wait_stores();
    tensor_fence_before();
    __syncthreads();
    if (i == 0) {
        tensor_fence_after();
        u64 a = of_a + (address(s) >> 4), b = of_b + (address(s + 4096) >> 4);
        u32 d = at, in = at + a_columns, sa = at + scales, sb = sa + 4;
        switch (kind) {
CASES_OF_KINDS            case 12: asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
                                  "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p, 3; }"
                                  :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(more) : "memory");
        }
        tensor_commit(done);
    }
    barrier_wait(done, 0);
    tensor_fence_after();
    float x;
    for (int c = 0; c < 64; c++) {
        tensor_load(x, at + c + lanes);
        tensor_wait_loads();
        out[c*128 + i] = __float_as_uint(x);
    }
    __syncthreads();
    if (i < 32) tensor_free(at, 128);
}
// One sparse product of a pair of blocks: each has half of the rows of a, of its indices, and of the columns of b
__global__ void __cluster_dims__(2, 1, 1) sparse_pair(const u32 *tiles, const u32 *indices, float *out, long long of_a,
                                                      long long of_b, u32 instruction) {
    __shared__ alignas(1024) u32 s[8192];
    __shared__ u64 bar;
    __shared__ u32 at;
    int i = threadIdx.x, own = blockIdx.x;
    u32 done = address(&bar), lanes = i/32*32 << 16;
    for (int j = i; j < 8192; j += 128) s[j] = tiles[own*8192 + j];
    fence_for_tma();
    if (i == 0) { barrier_init(done, 1); fence_mbarrier_init(); }
    if (i < 32)
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;"
                     :: "r"(address(&at)) : "memory");
    __syncthreads();
    tensor_store(at + 32 + lanes, __uint_as_float(indices[own*128 + i]));
    tensor_wait_stores();
    tensor_fence_before();
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    if (i == 0 && own == 0) {
        tensor_fence_after();
        asm volatile("{ .reg .pred more; setp.ne.b32 more, 0, 0;\n"
                     "tcgen05.mma.sp.cta_group::2.kind::f16 [%0], %1, %2, [%3], %4, more; }"
                     :: "r"(at), "l"(of_a + (address(s) >> 4)), "l"(of_b + (address(s + 4096) >> 4)), "r"(at + 32),
                        "r"(instruction) : "memory");
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
                     "[%0], %1;" :: "r"(done), "h"((short)3) : "memory");
    }
    barrier_wait(done, 0);
    tensor_fence_after();
    for (int c = 0; c < 32; c++) {
        float x;
        tensor_load(x, at + c + lanes);
        out[(own*128 + i)*32 + c] = x;
    }
    tensor_wait_loads();
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    if (i < 32) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" :: "r"(at));
}
'''


def case_of_kind(number, kind):
    "CUDA C of one tcgen05.mma: A in shared memory, or, from 8 on, in tensor memory"
    a, value = ('[%1]', '"r"(in)') if number >= 8 else ('%1', '"l"(a)')
    more, inputs = ('[%5], [%6]', '"r"(sa), "r"(sb)') if 'block_scale' in kind else ('{%5, %5, %5, %5}', '"r"(mask)')
    return f"""            case {number}: asm volatile("{{ .reg .pred p; setp.ne.b32 p, %4, 0;\\n"
                "tcgen05.mma.cta_group::1.kind::{kind} [%0], {a}, %2, %3, {more}, p; }}"
                :: "r"(d), {value}, "l"(b), "r"(instruction), "r"(more), {inputs} : "memory"); break;
"""


PLAIN = 'f16', 'tf32', 'f8f6f4', 'i8'
SPECIAL = ('.sp f16', '.sp f8f6f4', '.sp i8', '.ws f16', '.ws tf32', '.ws f8f6f4', '.ws i8', '.ws.sp f16', '.sp f16 ts')


def case_of_special(number, name):
    "CUDA C of one sparse or weight-stationary tcgen05.mma, whose metadata is where the scales of the others are"
    variant, kind, *ts = name.split()
    a, value = ('[%1]', '"r"(in)') if ts else ('%1', '"l"(a)')
    metadata = '[%5], ' if 'sp' in variant else ''
    masks, collector = ('', '.collector::b1::fill') if 'ws' in variant else ('{%6, %6, %6, %6}, ', '')
    return f"""            case {number}: asm volatile("{{ .reg .pred p; setp.ne.b32 p, %4, 0;\\n"
                "tcgen05.mma{variant}.cta_group::1.kind::{kind}{collector} [%0], {a}, %2, {metadata}%3, {masks}p; }}"
                :: "r"(d), {value}, "l"(b), "r"(instruction), "r"(more), "r"(sa), "r"(mask) : "memory"); break;
"""


SCALED = ('mxf8f6f4.block_scale', 'mxf4.block_scale.scale_vec::2X', 'mxf4nvf4.block_scale.scale_vec::2X',
          'mxf4nvf4.block_scale.scale_vec::4X')
PROGRAMS = PROGRAMS.replace('CASES_OF_KINDS', ''.join([*map(case_of_kind, range(12), PLAIN+SCALED+PLAIN),
                                                       *map(case_of_special, range(13, 22), SPECIAL)]))
# (kernel, wrong): finding. What each number changes is in the kernel.
MISTAKES = {
    'one_block': {
        1: 'racecheck race', 2: 'fencecheck no_proxy_fence', 4: 'racecheck tensor_in_flight not_committed',
        5: 'racecheck tensor_in_flight commit_not_awaited',
        6: 'racecheck tensor_in_flight commit_not_awaited|racecheck tensor_race',
        7: 'fencecheck tensor_no_fence fence_after',
        8: 'racecheck tensor_in_flight commit_not_awaited|racecheck tensor_race',
        9: 'racecheck engine_reads|racecheck before_engine', 10: 'initcheck tensor_unwritten',
        11: 'racecheck tensor_in_flight load_without_wait', 57: 'fencecheck tensor_load_not_awaited',
        12: 'memcheck tensor_freed', 13: 'memcheck tensor_leak',
        14: 'memcheck tensor_freed_twice', 15: 'memcheck tensor_freed_twice', 16: 'memcheck tensor_columns',
        17: 'memcheck tensor_columns', 18: 'memcheck tensor_columns', 19: 'memcheck tensor_outside',
        20: 'memcheck tensor_outside', 21: 'memcheck tensor_lanes', 22: 'memcheck tensor_lanes',
        23: 'synccheck tensor_addresses', 24: 'synccheck warp_diverged', 25: 'synccheck warp_diverged',
        26: 'racecheck tensor_in_flight', 27: 'synccheck no_mbarrier',
        29: 'synccheck deadlock missing_arrivals', 30: 'memcheck instruction_descriptor',
        31: 'memcheck instruction_descriptor', 32: 'memcheck instruction_descriptor',
        33: 'memcheck instruction_descriptor', 34: 'memcheck instruction_descriptor',
        35: 'memcheck instruction_descriptor', 36: 'memcheck instruction_descriptor',
        37: 'memcheck instruction_descriptor', 38: 'memcheck matrix_descriptor', 39: 'memcheck matrix_descriptor',
        40: 'memcheck matrix_descriptor', 41: 'memcheck matrix_descriptor',
        42: 'memcheck outside_shared|memcheck outside_arrays',
        43: 'memcheck matrix_descriptor', 44: 'racecheck mma_not_awaited', 45: 'memcheck tensor_relinquished',
        46: 'synccheck deadlock for_tensor_memory', 50: 'fencecheck tensor_no_fence fence_before',
        51: 'fencecheck tensor_no_fence fence_after', 53: 'racecheck tensor_race',
        54: 'racecheck tensor_in_flight not_committed', 55: 'racecheck tensor_in_flight not_committed'},
    'from_tensor_memory': {
        1: 'initcheck tensor_unwritten', 2: 'racecheck tensor_in_flight store_without_wait',
        3: 'racecheck tensor_in_flight store_without_wait', 4: 'fencecheck tensor_no_fence fence_before',
        5: 'racecheck tensor_race', 6: 'fencecheck tensor_no_fence fence_after', 7: 'memcheck instruction_descriptor',
        8: 'racecheck tensor_in_flight|racecheck tensor_race'},
    'copies': {
        1: 'fencecheck no_proxy_fence', 2: 'memcheck matrix_descriptor', 3: 'memcheck tensor_outside',
        4: 'racecheck tensor_in_flight not_committed', 5: 'racecheck engine_reads|racecheck before_engine',
        6: 'racecheck tensor_in_flight commit_not_awaited', 7: 'fencecheck tensor_no_fence fence_after',
        8: 'initcheck tensor_unwritten'}}
THREADS = {'one_block': 160, 'from_tensor_memory': 160, 'copies': 128}


@pytest.fixture(scope='module')
def programs(): return cuda_kernel(PROGRAMS, [*MISTAKES, 'any_kind', 'sparse_pair'])


def swizzled(rows):
    "The words of bf16 `rows` of 16 elements as the 128-byte swizzle stores them, 128 bytes per row"
    raw = np.zeros((len(rows), 8, 16), np.uint8)
    raw[:, :2] = rows.contiguous().view(torch.uint8).numpy().reshape(len(rows), 2, 16)
    units = np.arange(8)[None] ^ (np.arange(len(rows))%8)[:, None]
    placed = np.empty_like(raw)
    np.put_along_axis(placed, units[:, :, None], raw, 1)
    return placed.reshape(-1).view(np.int32)


def tiles_of(a, b): return torch.from_numpy(np.concatenate([swizzled(a), swizzled(b)]).copy())


@pytest.mark.parametrize('order', ['forward', 'reverse'])
def test_right_programs_multiply(programs, order):
    a, b = torch.randn(128, 16).bfloat16(), torch.randn(16, 16).bfloat16()
    want = (a.double() @ b.double().T).float()
    with cpp.options(order=order):
        out = torch.full((2, 128, 16), torch.nan)
        programs['one_block'][1, 160](tiles_of(a, b), out, 0)
        torch.testing.assert_close(out[0], want, rtol=2**-23, atol=2**-22)
        torch.testing.assert_close(out[1], 2*want, rtol=2**-22, atol=2**-21)
        plain = torch.cat([a.contiguous().view(torch.int32).view(128, 8), torch.zeros(128, 24, dtype=torch.int32)], 1)
        out = torch.full((128, 16), torch.nan)
        programs['from_tensor_memory'][1, 160](torch.cat([plain.reshape(-1), tiles_of(a, b)[128*32:]]), out, 0)
        torch.testing.assert_close(out, want, rtol=2**-23, atol=2**-22)
        rows, out = torch.arange(512, dtype=torch.int32), torch.zeros(128, 12, dtype=torch.int32)
        programs['copies'][1, 128](rows, out, 0)
        assert out[:, :4].equal(rows.view(128, 4)) and out[:, 8:].equal(rows.view(128, 4)[:32].repeat(4, 1))


@pytest.mark.parametrize('kernel,wrong', [(k, n) for k, rows in MISTAKES.items() for n in rows])
def test_wrong_programs_are_found(programs, kernel, wrong):
    tiles = tiles_of(torch.randn(128, 16).bfloat16(), torch.randn(16, 16).bfloat16())
    out = torch.zeros(2, 128, 16, dtype=torch.int32 if kernel == 'copies' else torch.float32)
    with finding(MISTAKES[kernel][wrong]): programs[kernel][1, THREADS[kernel]](tiles, out, wrong)


def test_without_fencecheck_all_else_is_checked(programs):
    a, b = torch.randn(128, 16).bfloat16(), torch.randn(16, 16).bfloat16()
    want, run = (a.double() @ b.double().T).float(), programs['one_block'][1, 160]
    fences = [wrong for wrong, found in MISTAKES['one_block'].items() if found.startswith('fencecheck')]
    with cpp.options(checks='no fencecheck'):
        for wrong in fences:
            run(tiles_of(a, b), out := torch.full((2, 128, 16), torch.nan), wrong)
            torch.testing.assert_close(out, torch.stack([want, 2*want]), rtol=2**-22, atol=2**-21)
        for wrong in (5, 11, 53):
            with finding(MISTAKES['one_block'][wrong]): run(tiles_of(a, b), out, wrong)
    with cpp.options(checks='fencecheck'):
        for wrong in fences:
            with finding(MISTAKES['one_block'][wrong]): run(tiles_of(a, b), out, wrong)
    assert len(fences) == 5


# Products of all kinds against float64. Element formats: (bits, exponent bits, mantissa bits, code in the descriptor)

FORMATS = dict(f16=(16, 5, 10, 0), bf16=(16, 8, 7, 1), tf32=(32, 8, 23, 2), e4m3=(8, 4, 3, 0), e5m2=(8, 5, 2, 1),
               e2m3=(6, 2, 3, 3), e3m2=(6, 3, 2, 4), e2m1=(4, 2, 1, 5), u8=(8, 0, 0, 0), s8=(8, 0, 0, 1))
KINDS = ['f16', 'tf32', 'f8f6f4', 'i8', 'mxf8f6f4', 'mxf4', 'mxf4nvf4 32', 'mxf4nvf4 16']


class Case(SimpleNamespace):
    """A product; `swizzle` is 0 without one; `t`: which operands are transposed; `ts`: A is in tensor memory;
    `special`: '.sp', '.ws' or both"""
    def __init__(self, kind, a, b, m=128, n=64, swizzle=128, t='', ts=False, d='f32', more=True, mask=0, scale=0,
                 negate='', sf='ue8m0', first=0, special='', selector=0):
        super().__init__(**{k: v for k, v in locals().items() if k not in ('self', '__class__')})
        self.packed = 'mxf4' in kind
        self.sparse = 'sp' in special
        self.k = (16 if kind == 'f16' else 8 if kind == 'tf32' else 64 if self.packed else 32) << self.sparse
        self.block = dict(mxf8f6f4=32, mxf4=32).get(kind) or int((kind.split()+[0])[1] or 0)

    def __str__(self):
        derived = 'packed', 'k', 'block', 'sparse'
        return '-'.join(f'{v}' for k, v in vars(self).items() if k not in derived and v)


def decoded(codes, name):
    "The values of integer codes of a format, written out independently of the emulator"
    bits, e, m, _ = FORMATS[name]
    if name == 'u8': return codes.astype(float)
    if name == 's8': return codes.astype(np.uint8).view(np.int8).astype(float)
    if bits == 32: return (codes.astype(np.uint32) & ~np.uint32(0x1fff)).view(np.float32).astype(float)
    sign, exponent, mantissa = codes >> e+m & 1, codes >> m & (1 << e)-1, codes & (1 << m)-1
    bias = (1 << e-1)-1
    small = exponent == 0
    return (-1.0)**sign*(mantissa + np.where(small, 0, 1 << m))*2.0**(np.where(small, 1, exponent) - bias - m)


def codes_of(rng, shape, name):
    "Random codes of finite values of similar size"
    bits, e, m, _ = FORMATS[name]
    if not e: return rng.integers(0, 256, shape)
    if bits == 32: return rng.normal(size=shape).astype(np.float32).view(np.uint32).astype(np.int64)
    bias = (1 << e-1)-1
    exponent = rng.integers(max(0, bias-4), min((1 << e)-1, bias+4) if e > 2 else 4, shape)
    code = rng.integers(0, 2, shape) << e+m | exponent << m | rng.integers(0, 1 << m, shape)
    return np.where((code & 0x7f) == 0x7f, 0, code) if name == 'e4m3' else code


def store_operand(memory, codes, name, case, transposed):
    "Store an operand (rows x k) in its canonical layout; return the bytes of its stride and of its leading dimension"
    rows, k = codes.shape
    bits, swizzle = FORMATS[name][0], case.swizzle
    if bits < 8:
        per = 32 if case.packed else 16                                      # elements of 16 bytes
        flat = codes.reshape(rows, k//per, per)
        big = sum(flat[..., i].astype(object) << i*bits for i in range(per))
        raw = np.array([[list(int(x).to_bytes(16, 'little')) for x in row] for row in big], np.uint8).reshape(rows, -1)
    else: raw = codes.astype(f'<u{bits//8}').view(np.uint8).reshape(rows, -1)
    if transposed: raw = codes.T.astype(f'<u{bits//8}').copy().view(np.uint8).reshape(k, -1)    # k x bytes of rows
    line = max(swizzle, 16)                                                  # contiguous bytes of a core matrix
    outer, inner = np.indices(raw.shape)
    num_outer = -(-raw.shape[0]//8)
    eight, column = 8*line, 8*line*num_outer                                 # bytes to the next 8 lines, next column
    at = outer//8*eight + inner//line*column + outer%8*line + inner%line
    if swizzle: at ^= (at >> 7 & swizzle//16-1) << 4
    memory[at] = raw
    return (column, eight) if transposed and not swizzle else (eight, column)   # (stride, leading)


def matrix_descriptor(strides, swizzle):
    stride, leading = strides
    bits = leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | {0: 0, 32: 6, 64: 4, 128: 2}[swizzle] << 61
    return bits - (bits >> 63 << 64)                                         # as a signed integer


def scale_codes(rng, shape, sf): return rng.integers(120, 134, shape) if sf == 'ue8m0' else rng.integers(16, 100, shape)


def scale_values(codes, sf): return 2.0**(codes-127) if sf == 'ue8m0' else decoded(codes, 'e4m3')


def expand(rng, stored, case, start):
    "Draw the indices of a sparse A, store them to tensor memory from column 96 on, and return A with its zeros"
    m, k = len(stored), case.k
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])[rng.integers(6, size=(m, k//4))]
    whole = np.zeros((m, k//4, 4))
    np.put_along_axis(whole, pairs, stored.reshape(m, k//4, 2), 2)
    nibbles = (pairs[..., 0] | pairs[..., 1] << 2).astype(np.uint64)
    for row in range(m):
        for i, nibble in enumerate(nibbles[row]):
            if case.kind == 'f16':           # the lane has the same half of k for two rows, 8 apart
                lane, column, bit = row//16*16 + i//4*8 + row%8, 96 + case.selector, row%16//8*16 + i%4*4
            else: lane, column, bit = row, 96 + i//8, i%8*4
            start[column, lane] = start[column, lane] & ~np.uint32(15 << bit) | np.uint32(int(nibble) << bit)
    return whole.reshape(m, k)


def run_case(kernel, case, seed=0, flips=0, column=96):
    "(D as the emulator computes it, D in double, the bound of the error), of the lanes that are written"
    rng = np.random.default_rng(seed)
    m, n, k = case.m, case.n, case.k
    a, b = codes_of(rng, (m, k >> case.sparse), case.a), codes_of(rng, (n, k), case.b)
    tiles = np.zeros((2, 16384), np.uint8)
    da = 0 if case.ts else matrix_descriptor(store_operand(tiles[0], a, case.a, case, 'a' in case.t), case.swizzle)
    db = matrix_descriptor(store_operand(tiles[1], b, case.b, case, 'b' in case.t), case.swizzle)
    start = np.zeros((128, 128), np.uint32)                                  # columns, lanes
    d_type = {'f16': 0, 'f32': 1, 's32': 2}[case.d]
    if case.d == 'f32': old = rng.normal(size=(64, 128)).astype(np.float32); start[:64] = old.view(np.uint32)
    elif case.d == 's32': old = rng.integers(-1000, 1000, (64, 128)).astype(np.int32); start[:64] = old.view(np.uint32)
    else: old = rng.normal(size=(64, 128)).astype(np.float16); start[:64] = old.view(np.uint16)
    if case.ts:
        per = 32//max(FORMATS[case.a][0], 8)
        words = sum(a[:, i::per].astype(np.uint64) << np.uint64(i*32//per) for i in range(per)).astype(np.uint32)
        start[64:64+a.shape[1]//per] = words.T
    va, vb = decoded(a, case.a), decoded(b, case.b)
    if case.sparse: va = expand(rng, va, case, start)
    if case.block:
        num = k//case.block
        sa, sb = scale_codes(rng, (m, num), case.sf), scale_codes(rng, (n, num), case.sf)
        for first, codes in ((96, sa), (100, sb)):
            for i, row in enumerate(codes):
                word = sum(int(x) << 8*(case.first+j) for j, x in enumerate(row))
                start[first + i//32, i%32::32] |= np.uint32(word)
        va, vb = (v*np.repeat(scale_values(x, case.sf), case.block, 1) for v, x in ((va, sa), (vb, sb)))
    va, vb = (v*(-1 if x in case.negate else 1) for v, x in ((va, 'a'), (vb, 'b')))
    code = lambda name: 1 if case.packed else FORMATS[name][3]
    bits = code(case.a) << 7 | code(case.b) << 10 | ('a' in case.negate) << 13 | ('b' in case.negate) << 14
    bits |= ('a' in case.t) << 15 | ('b' in case.t) << 16 | n//8 << 17 | m//16 << 24
    bits |= (case.first << 4 | (case.sf == 'ue8m0') << 23 | case.first << 29) if case.block else d_type << 4
    bits |= case.sparse << 2 | case.selector
    out = np.zeros((64, 128), np.uint32)
    special = ' '.join([case.special, case.kind] + ['ts']*case.ts)
    number = 13 + SPECIAL.index(special) if case.special else 12 if case.scale else KINDS.index(case.kind) + 8*case.ts
    kernel[1, 128](tiles.reshape(-1).view(np.int32), start.view(np.int32), out.view(np.int32), da, db, bits ^ flips, 64,
                   column, number, int(case.more), case.mask)
    rows, columns = np.indices((m, n))
    parts = 128//m if 'ws' in case.special else 1                            # of the columns, one below the other
    lanes = rows + columns//(n//parts)*m if m == 128 or 'ws' in case.special else rows//16*32 + rows%16
    at = columns % (n//parts), lanes
    got = {'f32': out.view(np.float32), 's32': out.view(np.int32),
           'f16': (out & 0xffff).astype(np.uint16).view(np.float16)}[case.d].astype(float)
    before = old.astype(float)
    want = before.copy()
    sums = va @ vb.T + (before[at]/2**case.scale if case.more else 0)
    bound = np.abs(va) @ np.abs(vb).T + np.abs(before[at])
    written = case.mask >> lanes%32 & 1 == 0
    error = np.zeros_like(want)
    for to, values in ((want, sums), (error, bound)): to[at[0][written], at[1][written]] = values[written]
    return got, want, error*{'f32': 2**-23, 'f16': 2**-10, 's32': 0}[case.d]


CASES = [
    Case('f16', 'bf16', 'bf16'), Case('f16', 'f16', 'f16', n=8, swizzle=64), Case('f16', 'f16', 'f16', d='f16'),
    Case('f16', 'bf16', 'f16', m=64, n=24, swizzle=32), Case('f16', 'bf16', 'bf16', swizzle=0, more=False),
    Case('f16', 'bf16', 'bf16', t='ab'), Case('f16', 'f16', 'bf16', t='b', swizzle=64, negate='a'),
    Case('f16', 'bf16', 'bf16', t='a', swizzle=0, n=16), Case('f16', 'bf16', 'bf16', t='ab', swizzle=32, m=64),
    Case('f16', 'bf16', 'bf16', ts=True), Case('f16', 'bf16', 'bf16', mask=0x0f0f1234, negate='ab'),
    Case('f16', 'bf16', 'bf16', scale=3), Case('tf32', 'tf32', 'tf32'), Case('tf32', 'tf32', 'tf32', m=64, swizzle=0),
    Case('tf32', 'tf32', 'tf32', ts=True, n=40), Case('f8f6f4', 'e4m3', 'e5m2'), Case('f8f6f4', 'e5m2', 'e2m1', n=8),
    Case('f8f6f4', 'e2m3', 'e3m2'), Case('f8f6f4', 'e2m1', 'e4m3', ts=False, swizzle=0), Case('f8f6f4', 'e4m3', 'e4m3',
    ts=True), Case('f8f6f4', 'e4m3', 'e4m3', t='ab'), Case('i8', 's8', 's8', d='s32'), Case('i8', 'u8', 's8', d='s32',
    m=64, n=24), Case('i8', 's8', 'u8', d='s32', ts=True), Case('mxf8f6f4', 'e4m3', 'e4m3'),
    Case('mxf8f6f4', 'e5m2', 'e2m3', first=2), Case('mxf8f6f4', 'e3m2', 'e2m1', n=40, first=3),
    Case('mxf4', 'e2m1', 'e2m1'), Case('mxf4', 'e2m1', 'e2m1', first=2, n=24, swizzle=32),
    Case('mxf4nvf4 32', 'e2m1', 'e2m1', more=False), Case('mxf4nvf4 16', 'e2m1', 'e2m1', sf='ue4m3'),
    Case('mxf4nvf4 16', 'e2m1', 'e2m1', sf='ue8m0', swizzle=0, negate='b'),
    Case('f16', 'bf16', 'bf16', special='.sp'), Case('f16', 'f16', 'bf16', n=24, special='.sp', selector=1, mask=0xf0f),
    Case('f8f6f4', 'e4m3', 'e5m2', special='.sp', negate='a'), Case('i8', 's8', 'u8', d='s32', special='.sp'),
    Case('f16', 'bf16', 'bf16', special='.sp', ts=True, t='b'), Case('f16', 'bf16', 'bf16', special='.ws'),
    Case('f16', 'f16', 'f16', m=64, n=128, special='.ws', d='f16'), Case('tf32', 'tf32', 'tf32', m=64, n=128,
    swizzle=32, special='.ws'), Case('f8f6f4', 'e4m3', 'e4m3', m=32, n=256, swizzle=32, special='.ws'),
    Case('i8', 's8', 's8', m=32, n=128, d='s32', special='.ws'), Case('f16', 'bf16', 'bf16', special='.ws.sp')]


@pytest.mark.parametrize('case', CASES, ids=str)
def test_products_of_all_kinds(programs, case):
    got, want, error = run_case(programs['any_kind'], case)
    assert (np.abs(got - want) <= error).all(), np.argwhere(np.abs(got - want) > error)[:5]


def test_a_sparse_product_of_a_pair(programs):
    case, rng = Case('f16', 'bf16', 'bf16', m=256, n=32, special='.sp'), np.random.default_rng(2)
    stored, b = codes_of(rng, (256, 16), 'bf16'), codes_of(rng, (32, 32), 'bf16')
    tiles, start, rows = np.zeros((2, 2, 16384), np.uint8), np.zeros((2, 128, 128), np.uint32), []
    for own in range(2):
        half = stored[128*own:][:128]
        rows.append(expand(rng, decoded(half, 'bf16'), case, start[own]))
        of_a = matrix_descriptor(store_operand(tiles[own, 0], half, 'bf16', case, False), 128)
        of_b = matrix_descriptor(store_operand(tiles[own, 1], b[16*own:][:16], 'bf16', case, False), 128)
    bits = 1 << 2 | 1 << 4 | 1 << 7 | 1 << 10 | 32//8 << 17 | 256//16 << 24
    out = np.full((256, 32), np.nan, np.float32)
    programs['sparse_pair'][2, 128](tiles.reshape(-1).view(np.int32), start[:, 96].copy().view(np.int32), out, of_a,
                                    of_b, bits)
    np.testing.assert_allclose(out, np.concatenate(rows) @ decoded(b, 'bf16').T, rtol=2**-22, atol=2**-20)


# (case, bits of the instruction descriptor that are flipped, first column of the metadata, finding)
SP, SP8, WS = CASES[-11], CASES[-8], CASES[-6]
WRONG = [(SP, 1 << 2, 96, 'memcheck instruction_descriptor'), (SP, 2, 96, 'memcheck instruction_descriptor'),
         (SP8, 1, 96, 'memcheck instruction_descriptor'), (WS, 1 << 2, 96, 'memcheck instruction_descriptor'),
         (WS, 12 << 17, 96, 'memcheck instruction_descriptor'), (WS, 14 << 24, 96, 'memcheck instruction_descriptor'),
         (SP, 0, 100, 'memcheck metadata'), (SP8, 0, 127, 'memcheck tensor_outside')]


@pytest.mark.parametrize('number', range(len(WRONG)))
def test_wrong_special_products(programs, number):
    case, flips, column, want = WRONG[number]
    with finding(want): run_case(programs['any_kind'], case, flips=flips, column=column)


def test_what_is_not_emulated_is_refused(programs):
    with pytest.raises(NotEmulated): run_case(programs['any_kind'], WS, flips=1 << 30)
    with pytest.raises(NotEmulated): run_case(programs['any_kind'], SP, flips=12 << 24)          # M = 64


@pytest.mark.parametrize('instruction,operands', [
    ('cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes', '[%0], [%1, {0, 0, 0}]'),
    ('tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X', '[%0], %1, %1, [%0], %0, [%0], [%0], 1'),
    ('tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X', '[%0], %1, %1, [%0], %0, [%0], [%0], 1'),
    ('tcgen05.ld.red.sync.aligned.32x32b.x2.u32.min', '{%0, %0}, %0, [%0]'),
    ('tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32', '[%0], %1')])
def test_a_refusal_names_the_instruction(instruction, operands):
    statement = f'asm volatile("{instruction} {operands};" :: "r"(0), "l"(p));'
    with pytest.raises(NotEmulated, match=re.escape(instruction)):
        cuda_kernel('__global__ void k(int *p) { %s }' % statement)


def random_special_case(rng, kind, a, b, swizzle):
    pick = lambda *x: x[rng.integers(len(x))]
    special = '.ws' if kind == 'tf32' else pick('.sp', '.ws')
    m = int(pick(32, 64, 128)) if special == '.ws' else 128
    n = int(pick(*[n for n in (64, 128, 256) if n*m <= 8192])) if special == '.ws' else 16*int(rng.integers(1, 5))
    if n == 256: swizzle = min(swizzle, 64)                                    # B has 16 KB
    d = 's32' if kind == 'i8' else 'f16' if a == b == 'f16' and pick(0, 1) else 'f32'
    mask = int(pick(0, rng.integers(1 << 32))) if special == '.sp' else 0
    selector = int(pick(0, 1)) if special == '.sp' and kind == 'f16' else 0
    return Case(kind, a, b, m, n, swizzle, d=d, more=bool(pick(0, 1)), mask=mask, special=special, selector=selector,
                negate='' if kind == 'i8' else pick('', 'a', 'b', 'ab'))


def random_case(rng):
    pick = lambda *x: x[rng.integers(len(x))]
    kind = pick(*KINDS)
    swizzle, scaled = int(pick(0, 32, 64, 128)), 'mx' in kind
    names = dict(f16=('f16', 'bf16'), tf32=('tf32',), i8=('u8', 's8')).get(kind) or (
        ('e2m1',) if 'mxf4' in kind else ('e4m3', 'e5m2', 'e2m3', 'e3m2', 'e2m1'))
    a, b = pick(*names), pick(*names)
    if not scaled and pick(0, 1, 1): return random_special_case(rng, kind, a, b, swizzle)
    m = 128 if scaled else int(pick(64, 128))
    ts = not scaled and m == 128 and FORMATS[a][0] >= 8 and bool(pick(0, 1))
    t = ''.join(x for x, name in (('a', a), ('b', b)) if FORMATS[name][0] in (8, 16) and 'mxf4' not in kind
                and pick(0, 1) and not (x == 'a' and ts))
    n = int(pick(8, 16, 32, 48, 64)) if kind == 'i8' else 8*int(rng.integers(1, 9))
    if 'b' in t: n = max(n, max(swizzle, 16)*8//FORMATS[b][0]//8*8)           # whole columns of core matrices
    if n > 64 or kind == 'i8' and n % 16 and n not in (8, 24): n = 64
    d = 's32' if kind == 'i8' else 'f16' if a == b == 'f16' and pick(0, 1) else 'f32'
    sf = pick('ue8m0', 'ue4m3') if kind == 'mxf4nvf4 16' else 'ue8m0'
    first = int(pick(0, 1, 2, 3)) if kind == 'mxf8f6f4' else 0
    if kind in ('mxf4', 'mxf4nvf4 32'): first = 2*int(pick(0, 1))
    negate = '' if kind == 'i8' else pick('', 'a', 'b', 'ab')
    mask = 0 if scaled else int(pick(0, 0, rng.integers(1 << 32)))
    return Case(kind, a, b, m, n, swizzle, t, ts, d, bool(pick(0, 1)), mask, 0, negate, sf, first)


@pytest.mark.exhaustive
def test_random_products(programs):
    rng = np.random.default_rng(1)
    for seed in range(200):
        case = random_case(rng)
        got, want, error = run_case(programs['any_kind'], case, seed)
        assert (np.abs(got - want) <= error).all(), (seed, str(case))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which('nvcc'), reason='needs nvcc')
def test_nvcc_compiles_the_programs(tmp_path):
    (tmp_path/'k.cu').write_text(PROGRAMS)
    subprocess.run(['nvcc', '-std=c++17', '-arch=sm_100a', '-cubin', '-o', 'k.cubin', 'k.cu'], cwd=tmp_path, check=True)


# The ladder with one mistake each: (version, what is replaced, by what, finding)

WAIT_EMPTY, COMMIT_EMPTY = 'barrier_wait(empty + 8*s, phase-1);', 'tensor_commit(empty + 8*s);'
BYTES = 'barrier_expect(full + 8*s, A_BYTES + B_BYTES);'
CHANGES = [
    ('roles', WAIT_EMPTY, '', 'racecheck'),
    ('roles', BYTES, 'barrier_expect(full + 8*s, A_BYTES);', 'synccheck|racecheck'),
    ('roles', COMMIT_EMPTY, '', 'synccheck deadlock missing_arrivals'),
    ('roles', 'tensor_commit(done);', '', 'synccheck deadlock missing_arrivals'),
    ('roles', 'tensor_fence_after();\n        int row', 'int row', 'fencecheck tensor_no_fence fence_after'),
    ('roles', 'int row = warp%4*32;', 'int row = (warp - 2)*32;', 'memcheck tensor_lanes'),
    ('roles', 'barrier_wait(full + 8*s, phase);', '', 'racecheck|initcheck'),
    ('roles', 'barrier_wait(done, 0);', '', 'racecheck|initcheck'),
    ('roles', 'barrier_wait(done, 0);', 'barrier_wait(done, 1);', 'racecheck|initcheck'),
    ('pair', 'barrier_expect(full + 8*s, 2*(A_BYTES', 'barrier_expect(full + 8*s, (A_BYTES',
     'synccheck|racecheck|initcheck'),
    ('pair', '(short)3', '(short)1', 'synccheck deadlock missing_arrivals'),
    ('pair', 'if (warp == 0) pair_alloc', 'if (warp == 0 && own == 0) pair_alloc',
     'synccheck deadlock for_tensor_pair'),
    ('pair', 'lane == 0 && own == 0', 'lane == 0', 'racecheck|synccheck'),
    ('pair', 'tensor_instruction(256, ', 'tensor_instruction(64, ', 'memcheck instruction_descriptor'),
    ('pair', 'if (warp == 0) pair_alloc', 'if (warp == 0) tensor_alloc', 'memcheck tensor_groups'),
    ('pair', 'tensor_fence_after();\n', '', 'fencecheck tensor_no_fence fence_after'),
    ('persistent', 'barrier_expect(bar, 16);', 'barrier_arrive(bar);', 'racecheck|synccheck'),
    ('persistent', 'barrier_wait(answered + 8*i, phase_of_tile);', '', 'racecheck|initcheck'),
    ('persistent', 'barrier_wait(stored + 8*i, phase_of_tile-1);', '', 'fencecheck tensor_no_fence fence_after'),
    ('persistent', 'tensor_fence_before();\n            barrier', 'barrier', 'fencecheck tensor_no_fence fence_before'),
    ('persistent', 'phase_of_tile-1);\n            tensor_fence_after();', 'phase_of_tile-1);',
     'fencecheck tensor_no_fence'),
    ('persistent', 'barrier_wait(read + 8*i, phase_of_tile-1);', '', 'racecheck|synccheck'),
    ('persistent', 'barrier_init(read + 8*s, 130);', 'barrier_init(read + 8*s, 131);', 'synccheck deadlock'),
    ('persistent', 'if (multiplies) tensor_commit(done + 8*i);', '', 'synccheck deadlock missing_arrivals'),
]
SIZES = dict(roles=(128, 128, 384), pair=(256, 256, 384), persistent=(3072, 128, 72))
INCLUDE = '#include <cuda_bf16.h>\n'


@pytest.fixture(scope='module')
def changed_versions():
    "The kernel of each change, all compiled as one unit"
    parts = []
    for i, (name, old, new, _) in enumerate(CHANGES):
        src = getattr(blackwell, name).src
        assert old in src, (name, old)
        parts.append(f'namespace change_{i} {{\n{src.replace(old, new, 1).replace(INCLUDE, "")}\n}}\n')
    names = [f'change_{i}::{name}_k' for i, (name, *_) in enumerate(CHANGES)]
    return list(cuda_kernel(INCLUDE + ''.join(parts), names)[name] for name in names)


@pytest.mark.exhaustive
@pytest.mark.parametrize('order', ['forward', 'reverse'])
@pytest.mark.parametrize('number', range(len(CHANGES)))
def test_changed_versions_are_found(changed_versions, number, order):
    name, *_, want = CHANGES[number]
    version, (h, w, k) = getattr(blackwell, name), SIZES[name]
    m, n = torch.randn(h, k).bfloat16(), torch.randn(k, w).bfloat16()
    maps = (tensor_map(x, *version.tma_boxes[key]) for x, key in ((m, 'm'), (n, 'n')))
    launch = changed_versions[number][version.grid_for(h, w, k), version.threads, None, version.shared]
    with cpp.options(order=order), finding(want):
        launch(*maps, torch.empty(h, w).bfloat16(), h, w, k)
