"Kernels of Triton on the CPU: types, findings and their fields, refusals, the front door, traces."
import importlib.util, os, re, sys, warnings
from pathlib import Path

import ml_dtypes, numpy as np, pytest, torch

triton = pytest.importorskip('triton', reason='the kernels here are under its @triton.jit')
tl = triton.language

from gridstride import draw, tile
from gridstride.diagnostics.errors import *
from found import finding, names, saying, warning
from warm import run_python
from gridstride.tile.types import DTYPES, computation_type

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT/'tests/tile'))
import types_probe

nan = float('nan')


def run(kernel, grid, *args, **meta): tile.checked(kernel)[grid](*args, **meta)


def line_of(kernel, text):
    "The number of the line of a kernel that holds the text"
    source, start = kernel.raw_src, kernel.starting_line_number
    return start + next(i for i, o in enumerate(source) if text in o)


def unwritten(*shape, dtype=torch.float32): return torch.full(shape, nan, dtype=dtype)


@triton.jit
def atomics_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i, mask=i < n, other=0)
    total = tl.sum(v, 0)
    tl.atomic_add(y_ptr + i % 2, v, mask=i < n)
    tl.atomic_max(y_ptr + 2, tl.max(v, 0))
    tl.atomic_or(y_ptr + 3, total)
    tl.atomic_xchg(y_ptr + 4, total)
    tl.atomic_cas(y_ptr + 5, total * 0, total)


@pytest.mark.parametrize('dtype', [torch.int64, torch.uint64])
def test_atomics_of_64_bits(dtype):
    "Sums, of every second element and of all, that 32 bits do not hold"
    x, y = 2**40 * torch.arange(1, 61), torch.zeros(6, dtype=torch.int64)
    run(atomics_kernel, (1,), x.view(dtype), y.view(dtype), 60, BLOCK=64)
    assert y.tolist() == [2**40 * o for o in (900, 930, 60, 1830, 1830, 1830)]


# Types

@pytest.mark.parametrize('division', [False, True])
def test_types_are_promoted_as_triton_does(division):
    from triton.language.semantic import TritonSemantic
    theirs = TritonSemantic(None)
    for a in DTYPES:
        for b in DTYPES:
            for numbers in (False, False), (True, False), (False, True):
                args = getattr(tl, a), numbers[0], getattr(tl, b), numbers[1], division
                try: want = str(theirs.computation_type_impl(*args))
                except TypeError: want = None
                try: got = str(computation_type(DTYPES[a], DTYPES[b], *numbers, division))
                except TypeError: got = None
                assert got == want, (a, b, numbers)


@pytest.mark.slow
def test_types_are_what_a_gpu_computes():
    "Conversions, arithmetic, reductions, products, random values and atomics, bit for bit but for approximations"
    want = types_probe.recorded()
    with tile.options(checks=False): got, failed = types_probe.probed('checked')
    assert len(want) > 600 and not failed
    assert types_probe.differences(got, want) == {}


def test_the_probe_sees_differences():
    want = types_probe.recorded()
    wrong = {k: v.copy() for k, v in want.items()}
    wrong['cast_fp32_bf16'][11] ^= 1
    wrong['math_exp'][3] += 64
    wrong['randint_42_narrow'][0] += 1
    assert set(types_probe.differences(wrong, want)) == {'cast_fp32_bf16', 'math_exp', 'randint_42_narrow'}


@triton.jit
def axpy_kernel(x_ptr, y_ptr, out_ptr, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x*y + x, mask=i < n)

@pytest.mark.parametrize('dtype', 'float16 bfloat16 float32 float64 int32 int8'.split())
@pytest.mark.parametrize('n', [1, 31, 32, 33, 103])
def test_arithmetic_is_torchs(dtype, n):
    "Each operation is rounded once, as torch does it (a GPU may keep the product of x*y + x unrounded)"
    dtype = getattr(torch, dtype)
    x, y = (torch.randn(n)*9).to(dtype), (torch.randn(n)*9).to(dtype)
    out = torch.zeros(n, dtype=dtype)
    run(axpy_kernel, (triton.cdiv(n, 32),), x, y, out, 2., n, BLOCK=32)
    assert torch.equal(out, x*y + x)


@triton.jit
def kinds_kernel(i_ptr, f_ptr, b_ptr, out_ptr, n, p, BLOCK: tl.constexpr):
    i, f, b = tl.load(i_ptr), tl.load(f_ptr), tl.load(b_ptr)
    half = 0.5
    known: tl.constexpr = BLOCK // 3
    tl.static_assert(tl.program_id(0).dtype == tl.int32)
    tl.static_assert((b * 0.5).dtype == tl.bfloat16)
    tl.static_assert((b * half).dtype == tl.float32)
    tl.static_assert((b * p).dtype == tl.float32)
    tl.static_assert((b + f).dtype == tl.float16)
    tl.static_assert((b / b).dtype == tl.float32)
    tl.static_assert((i + b).dtype == tl.float32)
    tl.static_assert((i / 2).dtype == tl.float32)
    tl.static_assert((i < 3).dtype == tl.int1)
    tl.static_assert(known == 2 and known.value == 2)
    tl.static_assert(i_ptr.dtype.element_ty == tl.int8)
    tl.static_assert((tl.arange(0, BLOCK)[:, None] + tl.arange(0, 4)[None, :]).shape[1] == 4)
    tl.store(out_ptr, n // -2 * 1000 + n % -2)

def test_kinds_of_values():
    args = torch.tensor([5], dtype=torch.int8), torch.randn(1).half(), torch.randn(1).bfloat16()
    out = torch.zeros(1, dtype=torch.int32)
    run(kinds_kernel, (1,), *args, out, -7, 0.1, BLOCK=8)
    assert out.item() == 3*1000 - 1  # towards 0, as in C


@pytest.mark.slow
def test_shapes_and_tuples():
    @triton.jit
    def pair(x, y=2): return x + y, x - y

    @triton.jit
    def kernel(x_ptr, out_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        a, b = pair(x)
        s, d = tl.split(tl.reshape(tl.join(a, b), (N, 2)))
        s, d = d, s
        total = tl.reduce(x, 0, tl.standard._sum_combine) if N == 7 else tl.sum(x)
        last = tl.associative_scan(x, 0, pair_max)
        tl.store(out_ptr + i, tl.where((i > 2) and not (i == 5), s, d) + total + last)

    @triton.jit
    def pair_max(x, y): return tl.maximum(x, y)

    x, out = torch.randn(16), unwritten(16)
    run(kernel, (1,), x, out, N=16)
    i = torch.arange(16)
    want = torch.where((i > 2) & (i != 5), x - 2, x + 2) + x.sum() + x.cummax(0).values
    torch.testing.assert_close(out, want, rtol=1e-6, atol=2e-6)  # a sum of 16 in another order


# Findings

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x, mask=i < n)

def test_memcheck_names_program_lane_and_element():
    with pytest.raises(MemcheckError) as e: run(copy_kernel, (4,), torch.randn(100), unwritten(128), 128, BLOCK=32)
    e = e.value
    assert (e.kind, e.kernel, e.array, e.index) == ('memcheck', 'copy_kernel', 'x_ptr', (100,))
    assert (e.block, e.thread) == ((3, 0, 0), (4,))
    assert e.line == line_of(copy_kernel, 'tl.load') and e.file == __file__ and e.other is None
    assert 'program (3), lane [4]' in str(e) and 'mask=' in str(e) and '27 more lanes' in str(e)
    run(copy_kernel, (4,), torch.randn(128), unwritten(100), 100, BLOCK=32)  # masked: nothing to be said


@triton.jit
def rows_kernel(x_ptr, out_ptr, h, w, BH: tl.constexpr, BW: tl.constexpr):
    r, c = tl.program_id(1)*BH + tl.arange(0, BH), tl.program_id(0)*BW + tl.arange(0, BW)
    at = r[:, None]*w + c[None, :]
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=c[None, :] < w), mask=c[None, :] < w)

def test_memcheck_of_two_axes():
    x = torch.randn(10, 12)
    with pytest.raises(MemcheckError) as e: run(rows_kernel, (2, 2), x, unwritten(10, 12), 10, 12, BH=8, BW=8)
    assert (e.value.index, e.value.block, e.value.thread) == ((10, 0), (0, 1, 0), (2, 0))
    assert e.value.fields['shape'] == (10, 12)


@triton.jit
def last_kernel(x_ptr, out_ptr, n): tl.store(out_ptr, tl.load(x_ptr + n))

def test_memcheck_of_a_single_element():
    with finding('memcheck outside_single', array='x_ptr', index=(10,)) as e:
        run(last_kernel, (1,), torch.randn(10), unwritten(1), 10)
    assert 'more lanes' not in str(e.value)


def test_memcheck_of_a_part_of_a_larger_array():
    x, y = torch.randn(2, 100)
    for a in x, y, x.numpy(), y.numpy():
        run(copy_kernel, (3,), a, unwritten(96), 96, BLOCK=32)
        with pytest.raises(MemcheckError) as e: run(copy_kernel, (4,), a, unwritten(128), 128, BLOCK=32)
        assert (e.value.array, e.value.index) == ('x_ptr', (100,))


@triton.jit
def paged_kernel(x_ptr, table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    page = tl.load(table_ptr)
    tl.store(out_ptr + i, tl.load(x_ptr + page*BLOCK + i, mask=i < n))

def test_memcheck_advises_no_mask_where_there_is_one():
    args = torch.randn(3, 8), torch.tensor([7]), unwritten(8)
    for n in 5, 8:  # some lanes, and all
        with finding('memcheck outside_masked', array='x_ptr', index=(7, 0)):
            run(paged_kernel, (1,), *args, n, BLOCK=8)


@triton.jit
def pointer_kernel(table_ptr, out_ptr, shift):
    p = (tl.load(table_ptr) + shift).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr, tl.load(p))

@pytest.mark.parametrize('shift, want', [
    (4*50, 'memcheck foreign_pointer|memcheck outside_single'), (2, 'memcheck misaligned_pointer')])
def test_pointers_from_memory(shift, want):
    x, out = torch.randn(50), unwritten(1)
    table = torch.tensor([x.data_ptr()])
    run(pointer_kernel, (1,), table, out, 0)
    assert out.item() == x[0].item()
    with finding(want): run(pointer_kernel, (1,), table, out, shift)
    with finding('memcheck null_pointer', address=0, access='read'): run(pointer_kernel, (1,), table*0, out, 0)


@triton.jit
def writing_kernel(x_ptr, shift, BLOCK: tl.constexpr): tl.store(x_ptr + shift + tl.arange(0, BLOCK), 1.)

@triton.jit
def reading_kernel(x_ptr, shift, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.sum(tl.load(x_ptr + shift + tl.arange(0, BLOCK))))

@triton.jit
def adding_kernel(x_ptr, shift, BLOCK: tl.constexpr): tl.atomic_add(x_ptr + shift + tl.arange(0, BLOCK), 1.)

@pytest.mark.parametrize('kernel, access', [
    (writing_kernel, 'write'), (reading_kernel, 'read'), (adding_kernel, 'atomic')])
def test_what_is_out_of_bounds_is_a_read_a_write_or_an_atomic(kernel, access):
    facts = dict(access=access, array='x_ptr', shape=(8,))
    run(kernel, (1,), torch.ones(8), 0, BLOCK=8)
    with finding('memcheck outside_program', index=(8,), **facts): run(kernel, (1,), torch.ones(8), 1, BLOCK=8)
    with finding('memcheck outside_before', index=(-1,), **facts): run(kernel, (1,), torch.ones(8), -1, BLOCK=8)

@triton.jit
def scaling_kernel(x_ptr, g_ptr, stride, n, BLOCK: tl.constexpr):
    "Each program multiplies a row by its factor"
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row*n + i, mask=i < n)
    tl.store(x_ptr + row*n + i, x*tl.load(g_ptr + row*stride), mask=i < n)

def test_an_expanded_tensor_that_is_read_as_if_it_were_not_is_named():
    "A gradient that is one element, expanded, read with the strides of its shape"
    x, g = torch.ones(4, 3), torch.full((), 2.).expand(4)
    run(scaling_kernel, (4,), x, g, g.stride(0), 3, BLOCK=4)
    run(scaling_kernel, (4,), x, g.contiguous(), 1, 3, BLOCK=4)
    assert torch.equal(x, torch.full((4, 3), 4.))
    facts = dict(access='read', array='g_ptr')
    with finding('memcheck outside_expanded', shape=(4,), count=1, **facts) as e:
        run(scaling_kernel, (4,), x, g, 1, 3, BLOCK=4)
    assert e.value.line == line_of(scaling_kernel, 'g_ptr + row*stride')
    part = torch.ones(2, 1).expand(2, 4)  # each row is one element
    run(scaling_kernel, (2,), x, part, 1, 3, BLOCK=4)
    with finding('memcheck outside_expanded', shape=(2, 4), count=2, **facts):
        run(scaling_kernel, (2,), x, part, 4, 3, BLOCK=4)
    with finding('memcheck outside_before', **facts): run(scaling_kernel, (2,), x, g, -1, 3, BLOCK=4)
    with finding('memcheck outside_single', shape=(1,), **facts):  # one element in all: nothing is expanded
        run(scaling_kernel, (2,), x, torch.ones(1).expand(1), 1, 3, BLOCK=4)


@triton.jit
def add_kernel(x_ptr, out_ptr, n, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    s = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.))
    if ATOMIC: tl.atomic_add(out_ptr, s)
    else: tl.store(out_ptr, tl.load(out_ptr) + s)

@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
def test_racecheck_names_both_programs(order):
    x, out = torch.randn(100), torch.zeros(1)
    with tile.options(order=order, seed=3):
        with pytest.raises(RacecheckError) as e: run(add_kernel, (4,), x, out, 100, ATOMIC=False, BLOCK=32)
        e, line = e.value, line_of(add_kernel, 'else:')
        assert (e.array, e.index, e.line, e.other.line) == ('out_ptr', (0,), line, line) and e.block != e.other.block
        assert f'against line {line}, program ({e.other.block[0]})' in str(e)
        out.zero_()
        run(add_kernel, (4,), x, out, 100, ATOMIC=True, BLOCK=32)
    torch.testing.assert_close(out, x.sum()[None], rtol=1e-5, atol=1e-5)  # 100 sums in another order


@triton.jit
def turn_kernel(out_ptr, flag_ptr):
    "Each program waits for the one after it, if `flag_ptr` has one more element; they run in any order"
    p = tl.program_id(0)
    while tl.atomic_add(flag_ptr + p + 1, 0) == 0: pass
    tl.store(out_ptr, tl.load(out_ptr)*2 + p)
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + p, 1)

@pytest.mark.parametrize('order', ['forward', 'reverse'])
def test_programs_that_wait_for_others(order):
    flags, out = torch.tensor([0, 0, 0, 0, 1], dtype=torch.int32), torch.zeros(1)
    with tile.options(order=order): run(turn_kernel, (4,), out, flags)
    assert out.item() == 3*8 + 2*4 + 1*2
    with finding('synccheck programs_wait') as e: run(turn_kernel, (3,), out, flags*0)
    assert e.value.line == line_of(turn_kernel, 'while') and e.value.call_line is None


@triton.jit
def double_rows_kernel(x_ptr, out_ptr, n, LOAD: tl.constexpr, STORE: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row*n + i, (i < n) | (not LOAD) & (row < 3), other=0.)
    tl.store(out_ptr + row*n + i, 2*x, (i < n) | (not STORE) & (row < 3))

@triton.jit
def add_1_kernel(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r, c = tl.program_id(0)*BM + tl.arange(0, BM), tl.program_id(1)*BN + tl.arange(0, BN)
    x = tl.load(x_ptr + r[:, None]*N + c[None, :], (r[:, None] < M) & (c[None, :] < N), other=0.)
    tl.store(out_ptr + r[:, None]*N + c[None, :], x + 1, r[:, None] < M)

@triton.jit
def batch_kernel(x_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    batch, r, c = tl.program_id(0), tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    tl.store(x_ptr + batch*M*N + r*N + c, batch + r + c*1., c < N)

@pytest.mark.parametrize('order', ['forward', 'reverse'])
def test_a_race_by_a_forgotten_mask_names_its_axis(order):
    x, columns = torch.randn(4, 10), dict(axis=0, array_axis=1, size=10, comparison='columns < 10')
    load, store = (line_of(double_rows_kernel, f'tl.{word}') for word in ('load', 'store'))
    with tile.options(order=order):
        with finding('racecheck programs', advice=('unmasked_axis', {**columns, 'masked': store})):
            run(double_rows_kernel, (4,), x, torch.empty(4, 10), 10, True, False, BLOCK=16)
        with warning('same_value_programs', advice=('unmasked_axis', {**columns, 'masked': store})):
            run(double_rows_kernel, (4,), torch.zeros(4, 10), torch.empty(4, 10), 10, True, False, BLOCK=16)
        with finding('racecheck programs', advice=('unmasked_axis', {**columns, 'masked': load})):  # in place
            run(double_rows_kernel, (4,), x, x, 10, False, True, BLOCK=16)
        with finding('racecheck programs', advice=('blocks_overlap', dict(distance=10, extent=16, masked=store))):
            run(double_rows_kernel, (4,), x, torch.empty(40), 10, True, False, BLOCK=16)
        with finding('racecheck programs', advice=('blocks_overlap', dict(distance=6, extent=8, masked=store))):
            run(double_rows_kernel, (4,), x, torch.empty(4, 10), 6, True, False, BLOCK=8)  # a wrong stride
        with finding('racecheck programs|memcheck outside_masked') as e:
            run(add_1_kernel, (2, 2), torch.randn(7, 20), torch.empty(7, 20), 7, 20, BM=4, BN=16)
        line = line_of(add_1_kernel, 'tl.store')
        columns = dict(axis=1, array_axis=1, size=20, comparison='columns[None, :] < 20', masked=line)
        assert e.value.fields['advice'] == ('unmasked_axis', columns)

def test_a_forgotten_mask_of_rows_names_its_axis():
    with finding('racecheck programs') as e: run(batch_kernel, (2,), torch.empty(3, 5, 7), 5, 7, BM=8, BN=8)
    assert (e.value.advice, e.value.fields['advice'][1]['comparison']) == ('unmasked_axis', 'rows[:, None] < 5')
    with finding('memcheck outside_masked') as e: run(batch_kernel, (1,), torch.empty(1, 5, 7), 5, 7, BM=8, BN=8)
    assert e.value.advice is None  # the outermost axis, to which each hint of memcheck refers anyway

def test_rows_that_are_read_past_their_end_within_one_program_lack_a_mask():
    @triton.jit
    def kernel(out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
        r, c = tl.arange(0, 2)[:, None], tl.arange(0, BLOCK)[None, :]
        tl.store(out_ptr + r*N + c, r + c*1.)
    with finding('racecheck lanes') as e: run(kernel, (1,), torch.empty(4, 5), N=5, BLOCK=8)
    assert (e.value.advice, e.value.fields['advice'][1]['comparison']) == ('unmasked_axis', 'columns[None, :] < 5')


def test_lanes_of_one_store_that_collide():
    @triton.jit
    def kernel(out_ptr, N: tl.constexpr, STEP: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out_ptr + i // STEP, i)
    out = torch.zeros(8, dtype=torch.int32)
    run(kernel, (1,), out, N=8, STEP=1)
    with finding('racecheck lanes') as e: run(kernel, (1,), out, N=8, STEP=2)
    assert e.value.thread == (0,) and e.value.index == (0,) and e.value.fields['lane'] == (1,)


def test_lanes_that_lose_a_change():
    @triton.jit
    def kernel(bins_ptr, out_ptr, N: tl.constexpr, STEP: tl.constexpr):
        i = tl.arange(0, N) // STEP
        tl.store(out_ptr + i, tl.load(bins_ptr + i) + 1)
    bins, out = torch.zeros(8), unwritten(8)
    run(kernel, (1,), bins, bins, N=8, STEP=1)
    run(kernel, (1,), bins, out, N=8, STEP=2)  # one value to one address
    with finding('racecheck lanes_update') as e:
        run(kernel, (1,), bins, bins, N=8, STEP=2)
    assert (e.value.index, e.value.thread) == ((0,), (0,))


@triton.jit
def update_kernel(out_ptr, x_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n, other=0)
    if HOW == 'max':
        tl.store(out_ptr, tl.maximum(tl.load(out_ptr), tl.max(x, 0)))
    elif HOW == 'min':
        least = tl.load(out_ptr)
        least = tl.minimum(tl.min(x, 0), least)
        tl.store(out_ptr, least)
    elif HOW == 'subtract':
        p = out_ptr + tl.arange(0, BLOCK)
        left = tl.load(p, i < n)
        left -= x
        tl.store(p, left, mask=i < n)
    elif HOW == 'or':
        tl.store(out_ptr + i % 2, x | tl.load(out_ptr + i % 2))
    elif HOW == 'divide':
        tl.store(out_ptr, tl.load(out_ptr) // tl.max(x, 0))

@pytest.mark.parametrize('how, code, advice', [
    ('max', 'programs', dict(operation='max', arguments='out_ptr, tl.max(x, 0)')),
    ('min', 'programs', dict(operation='min', arguments='out_ptr, tl.min(x, 0)')),
    ('subtract', 'programs', dict(operation='add', arguments='p, -x, mask=i < n')),
    ('or', 'lanes_update', dict(operation='or', arguments='out_ptr + i % 2, x')),
    ('divide', 'programs', None)])
def test_a_lost_update_names_the_atomic(how, code, advice):
    with finding(f'racecheck {code}', advice=advice and ('program_update', advice)) as e:
        run(update_kernel, (2,), torch.full((8,), 50, dtype=torch.int32), torch.arange(1, 9, dtype=torch.int32), 8,
            HOW=how, BLOCK=4)
    if advice: assert names(str(e.value), f'tl.atomic_{advice["operation"]}({advice["arguments"]})')


@triton.jit
def add_at_kernel(bins_ptr, index_ptr, values_ptr, n, HOW: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    at, v, mask = tl.load(index_ptr + i), tl.load(values_ptr + i), i < n
    if HOW == 'rows':
        p = bins_ptr + at[:, None]*2 + tl.arange(0, 2)[None, :]
        tl.store(p, tl.load(p) + v[:, None], mask=mask[:, None])
    elif HOW == 'masked':
        tl.store(bins_ptr + at, tl.load(bins_ptr + at, mask=mask, other=0) + v, mask=mask)
    elif HOW == 'barrier':
        old = tl.load(bins_ptr + at)
        tl.debug_barrier()
        tl.store(bins_ptr + at, old + v, mask=mask)
    elif HOW == 'number':
        old = tl.load(bins_ptr + at)
        tl.store(bins_ptr + at, 3, mask=mask)
    elif HOW == 'sum':
        total = tl.sum(tl.load(bins_ptr + i))
        tl.store(bins_ptr + at, total + tl.zeros((N,), total.dtype), mask=mask)
    else:
        tl.store(bins_ptr + at, tl.load(bins_ptr + at) + v, mask=mask)

ONES, RAMP = torch.ones(8), torch.arange(8.)

@pytest.mark.parametrize('dtype', [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize('values', [ONES, RAMP])
@pytest.mark.parametrize('how', ['rows', 'masked', 'barrier', 'plain'])
def test_lanes_that_add_at_an_index_from_memory(how, values, dtype):
    "Indices that are there twice lose a change, unless the mask leaves one of each, or nothing changes"
    bins, twice, once = torch.zeros(16, dtype=dtype), torch.tensor([3, 5, 1, 5, 6, 6, 6, 0]), torch.randperm(8)
    run(add_at_kernel, (1,), bins, once, values.to(dtype), 8, HOW=how, N=8)
    run(add_at_kernel, (1,), bins, twice, values.to(dtype), 3, HOW=how, N=8)
    run(add_at_kernel, (1,), bins, twice, torch.zeros(8, dtype=dtype), 8, HOW=how, N=8)
    with pytest.raises(RacecheckError) as e:
        run(add_at_kernel, (1,), bins, twice, values.to(dtype), 4, HOW=how, N=8)
    fields = (10,) if how == 'rows' else (5,)
    assert (e.value.code, e.value.array, e.value.index) == ('lanes_update', 'bins_ptr', fields)

@pytest.mark.parametrize('how', ['number', 'sum'])
def test_one_value_that_lanes_do_not_compute_from_an_element_loses_no_change(how):
    "Of lanes 1 and 2, the first has read in `sum` what both overwrite"
    bins = torch.arange(16.)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        run(add_at_kernel, (1,), bins, torch.tensor([3, 1, 1, 5, 6, 6, 6, 0]), ONES, 8, HOW=how, N=8)
    assert bins[1] == (3 if how == 'number' else 28)


def test_what_another_lane_has_stored_is_read_after_a_barrier():
    @triton.jit
    def kernel(x_ptr, out_ptr, BARRIER: tl.constexpr, TURN: tl.constexpr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x_ptr + i, i*1.)
        if BARRIER: tl.debug_barrier()
        tl.store(out_ptr + i, tl.load(x_ptr + ((N - 1 - i) if TURN else i)))
    x, out = torch.zeros(8), unwritten(8)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        for barrier, turn in (True, True), (True, False), (False, False):
            run(kernel, (1,), x, out, BARRIER=barrier, TURN=turn, N=8)
    with warning('read_back', array='x_ptr', index=(0,)) as caught:
        run(kernel, (1,), x, out, BARRIER=False, TURN=True, N=8)
    assert len(caught) == 1 and out.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_one_value_from_two_programs_is_a_warning():
    @triton.jit
    def kernel(out_ptr): tl.store(out_ptr, 7)
    with pytest.warns(SameValueRace, match='line .*kernel'): run(kernel, (2,), torch.zeros(1, dtype=torch.int32))


def test_initcheck_of_outputs_and_of_masked_lanes():
    @triton.jit
    def kernel(x_ptr, out_ptr, n, DEFINED: tl.constexpr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i, mask=i < n)
        if DEFINED: x = tl.where(i < n, x, 0.)
        tl.store(out_ptr, tl.sum(x))
    x, out = torch.randn(20), unwritten(1)
    with warnings.catch_warnings():
        warnings.simplefilter('error', UndefinedLanes)
        run(kernel, (1,), x, out, 20, DEFINED=True, N=32)
        run(kernel, (1,), torch.randn(32), out, 32, DEFINED=False, N=32)
    line = line_of(kernel, 'tl.store')
    with warning('undefined_stored', line=line, masked=line - 2):
        run(kernel, (1,), x, out, 20, DEFINED=False, N=32)
    torch.testing.assert_close(out, x.sum()[None], rtol=1e-5, atol=1e-5)  # 0 there, as on a GPU
    with finding('initcheck unwritten_program') as e:
        run(add_kernel, (1,), x, unwritten(1), 20, ATOMIC=True, BLOCK=32)
    assert e.value.array == 'out_ptr'


def test_a_store_without_its_mask_gets_a_hint_on_the_mask():
    "And not that the load of what it stores had one"
    @triton.jit
    def kernel(x_ptr, out_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n))
    with warnings.catch_warnings():
        warnings.simplefilter('error', UndefinedLanes)
        with finding('memcheck outside_program'):
            run(kernel, (1,), torch.randn(20), unwritten(20), 20, N=32)


@pytest.mark.parametrize('dtype', [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_an_array_is_unwritten_where_every_number_is_nan(dtype):
    @triton.jit
    def kernel(x_ptr, out_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out_ptr + i, tl.load(x_ptr + i))
    x = unwritten(8, dtype=dtype)
    with pytest.raises(InitcheckError): run(kernel, (1,), x, torch.zeros(8, dtype=dtype), N=8)
    x[1:] = torch.finfo(dtype).max  # as memory may hold that was used before, and too large for float32
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        run(kernel, (1,), x, unwritten(8, dtype=dtype), N=8)


def test_asserts():
    @triton.jit
    def kernel(x_ptr, N: tl.constexpr):
        tl.static_assert(N < 64, 'too many lanes')
        x = tl.load(x_ptr + tl.arange(0, N))
        tl.device_assert(x > 0, 'only above 0')
    run(kernel, (1,), torch.ones(8), N=8)
    with pytest.raises(DeviceAssert, match='too many'): run(kernel, (1,), torch.ones(64), N=64)
    with pytest.raises(DeviceAssert, match='only above 0') as e: run(kernel, (1,), torch.arange(8) - 3., N=8)
    assert e.value.thread == (0,)


def test_promises_of_multiples_are_checked():
    @triton.jit
    def kernel(x_ptr, first, n, OF: tl.constexpr, N: tl.constexpr):
        i = tl.multiple_of(tl.multiple_of(first, OF) + tl.arange(0, N), OF) % n
        tl.store(x_ptr + tl.max_contiguous(tl.multiple_of(i, OF), N), 1.)
    run(kernel, (1,), torch.zeros(16), 8, 12, OF=4, N=8)
    with finding('assert multiple', of=4, value=6):
        run(kernel, (1,), torch.zeros(16), 6, 12, OF=4, N=8)
    with finding('assert multiple', of=8, value=12) as e:
        run(kernel, (1,), torch.zeros(16), 12, 16, OF=8, N=8)
    assert e.value.line == kernel.starting_line_number + 2


def test_an_endless_loop_ends():
    @triton.jit
    def kernel(out_ptr):
        i = tl.load(out_ptr)
        while i < 5: i = i*1
    with tile.options(seconds=.2), pytest.raises(KernelTimeout, match='tile.options'): run(kernel, (1,), torch.zeros(1))


def test_a_finding_in_a_function_names_the_kernels_line():
    @triton.jit
    def helper(p): return tl.load(p + 1)

    @triton.jit
    def kernel(x_ptr, out_ptr):
        tl.store(out_ptr, helper(x_ptr))
    with pytest.raises(MemcheckError) as e: run(kernel, (1,), torch.ones(1), unwritten(1))
    assert e.value.line == helper.starting_line_number + 1 and e.value.call_line == kernel.starting_line_number + 2


def test_checks_can_be_switched_off():
    x, out = torch.randn(100), torch.zeros(1)
    with tile.options(checks='no racecheck'): run(add_kernel, (4,), x, out, 100, ATOMIC=False, BLOCK=32)
    torch.testing.assert_close(out, x.sum()[None], rtol=1e-5, atol=1e-5)  # one after the other
    with tile.options(checks='no initcheck'): run(add_kernel, (1,), x, unwritten(1), 100, ATOMIC=True, BLOCK=128)


# What Triton refuses

REFUSED = {
    'if tl.arange(0, 8) > 2: pass': 'cannot be a condition',
    'x = tl.arange(0, 12)': 'not a power of 2',
    'n = 8\n    x = tl.arange(0, n)': 'must be compile-time constants',
    'x = tl.zeros((4, 8), tl.float32) + tl.zeros((8, 4), tl.float32)': 'be broadcast',
    'for i in range(4): break': 'a kernel cannot use break',
    'for i in range(4): return': 'a loop cannot contain return',
    'x = 0\n    for i in range(4): x += 0.5': 'x is int32 before the loop and fp32',
    'x = tl.arange(0, 8)\n    x[0] = 1': 'elements of a block cannot be assigned',
    'x = tl.arange(0, 8)[0]': 'cannot be indexed',
    'x = LOOSE + 1': 'LOOSE is a global variable',
    'x = sorted([2, 1])': "Python's sorted",
    'x = cdiv(tl.program_id(0), 2)': 'cdiv is a Python function',
    'x = math.sqrt(2.)': 'math.sqrt is a Python function',
    'x = tl.mean(tl.arange(0, 8))': 'Triton has no tl.mean',
    'x = tl.arrange(0, 8)': 'Did you mean tl.arange?',
    'x = tl.arange(8)': "missing 1 required positional argument: 'end'",
    'x = tl.program_id()': "missing 1 required positional argument: 'axis'",
    "x = tl.program_id(0) + 'a'": "the string 'a' is used where a value is expected",
    'x = tl.arange(0, 4) < out_ptr': 'int32 cannot be compared with pointer<fp32>',
    'x = out_ptr[tl.arange(0, 4)]': 'x[<[4], int32>]: an address',
    'x = tl.arange(0, 8)[..., None]': 'x[..., None]',
    'x = tl.arange(0, 8)[:, :, None]': 'at 0 to 1; got 2',
    'x = tl.arange(0, 16/2)': 'be integers',
    'x = tl.arange(8, 8)': 'BLOCK//G',
    'x = tl.arange(8, 0)': 'tl.arange(8, 0)',
    'x = tl.arange(0, 6)': 'triton.next_power_of_2(n)',
    'x = 1 < 2 < 3': '(a < b < c)',
    'f = lambda x: x': 'a kernel cannot use lambda',
    'x = tl.program_id(0)\n    if x > 0: y = 1\n    x = x + y': 'y is assigned only in one branch',
    'x = tl.load(out_ptr, other=0.)': '`other` requires `mask`',
    'tl.store(out_ptr, tl.arange(0, 8))': 'a block cannot be stored through a single pointer',
    'x = tl.arange(0, 8) & 1.5': '& must be',
    'x = tl.exp(tl.arange(0, 8))': 'tl.exp does not support int32',
    'x = out_ptr + 1.5': 'fp32 cannot be added to a pointer',
    'x = tl.dot(tl.zeros((16, 8), tl.float16), tl.zeros((8, 16), tl.float16))': 'K must be at least 16',
    'x = tl.dot(tl.zeros((16, 16), tl.float16), tl.zeros((16, 16), tl.float32))': 'same type; got fp16 and fp32',
    'x = tl.dot(tl.zeros((16, 32), tl.int8), tl.zeros((32, 16), tl.int8), tl.zeros((16, 16), tl.int32))':
        'Pass out_dtype=tl.int32',
    'x = tl.zeros((8,), tl.int32).to(tl.float8e4nv)': 'int32 cannot be converted to fp8e4nv',
    'x = tl.zeros((8,), tl.float8e5).to(tl.int1)': 'fp8e5 cannot be converted to int1',
    'x = tl.load(out_ptr.to(tl.pointer_type(tl.float8e5)) + tl.arange(0, 8), tl.arange(0, 8) < 3, 0)':
        '`other` must be a float for pointers to fp8e5; got int32',
    'x = tl.full((8,), 1, tl.uint8) // tl.full((8,), 1, tl.int8)': 'one signed and one unsigned',
    'p = tl.make_block_ptr(out_ptr, (8,), (1,), (0,), (8,), (0,))\n    tl.store(p, tl.zeros((8,), tl.int32))':
        'block pointer must be',
    'while True: pass': 'is a compile-time constant',
}

@pytest.mark.parametrize('body', REFUSED)
def test_refused_in_words(body, tmp_path):
    path = tmp_path/'refused_kernels.py'
    top = 'import math, triton, triton.language as tl\nLOOSE = 3\ndef cdiv(a, b): return -(-a//b)\n'
    path.write_text(f'{top}@triton.jit\ndef kernel(out_ptr):\n    {body}\n')
    spec = importlib.util.spec_from_file_location('refused_kernels', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(NotCompiled, match=re.escape(REFUSED[body])) as e: run(module.kernel, (1,), torch.zeros(8))
    assert 6 <= e.value.line <= 8 and e.value.kernel == 'kernel'
    assert f'line {e.value.line}: ' in str(e.value)


def test_missing_names_raise_a_clear_error():
    @triton.jit
    def kernel(x_ptr): tl.inline_asm_elementwise('add', '=r', [x_ptr], tl.int32, True, 1)
    with pytest.raises(NotSimulated, match='tl.inline_asm_elementwise'): run(kernel, (1,), torch.zeros(1))


# Launches and arguments

@pytest.mark.parametrize('grid, words', [((), 'the grid'), ((1, 2, 3, 4), 'the grid'), ((1.5,), 'the grid'),
                                         ((-1,), 'the grid'), ((1, 70000), '65535 programs')])
def test_impossible_grids(grid, words):
    with pytest.raises(LaunchError, match=words): run(copy_kernel, grid, torch.zeros(8), torch.zeros(8), 8, BLOCK=8)


def test_arguments_are_counted_and_named():
    x = torch.zeros(8)
    with pytest.raises(LaunchError, match=r'missing arguments n, BLOCK[\s\S]*takes x_ptr, out_ptr, n, BLOCK'):
        run(copy_kernel, (1,), x, x)
    with pytest.raises(LaunchError, match='unexpected keyword'): run(copy_kernel, (1,), x, x, 8, BLOCK=8, BLOK=8)
    with pytest.raises(WrongArgument, match=saying('x_ptr', 'list')): run(copy_kernel, (1,), [1.], x, 8, BLOCK=8)
    with pytest.raises(LaunchError, match=saying('num_warps', 'power', '3')):
        run(copy_kernel, (1,), x, x, 8, BLOCK=8, num_warps=3)
    with pytest.raises(WrongArgument, match=r'pass x_ptr.to_dense\(\)'):
        run(copy_kernel, (1,), x.to_sparse(), x, 8, BLOCK=8)
    with pytest.raises(WrongArgument, match='complex64'): run(copy_kernel, (1,), x.to(torch.complex64), x, 8, BLOCK=8)
    with pytest.raises(LaunchError, match='a grid'): tile.checked(copy_kernel)(x, x, 8, 8)
    taken = dict(num_warps=2, num_stages=3, num_ctas=1)
    run(copy_kernel, lambda meta: (meta['n']//meta['BLOCK'],), x, x.clone(), 8, BLOCK=8, **taken)


@pytest.mark.parametrize('dtype', [np.float32, np.float16, np.int64, np.uint8, ml_dtypes.bfloat16])
def test_arrays_of_numpy_by_reference(dtype):
    x, out = (np.random.randn(3, 40)*50).astype(dtype)[:, ::-1], np.zeros((3, 20), dtype)

    @triton.jit
    def kernel(x_ptr, out_ptr, sr, sc, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out_ptr + tl.program_id(0)*N + i, tl.load(x_ptr + tl.program_id(0)*sr + (i + 4)*sc))
    run(kernel, (3,), x, out.reshape(-1)[:48], *(s//x.itemsize for s in x.strides), N=16)
    assert np.array_equal(out.reshape(-1)[:48].reshape(3, 16), x[:, 4:20])
    out.flags.writeable = False
    with pytest.raises(NotCompiled, match='read-only'): run(kernel, (1,), x, out, 1, 1, N=16)


def tuned(decorate):
    @triton.jit
    def kernel(x_ptr, out_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + BLOCK + 1000*EVEN, mask=i < n)
    return decorate(kernel)

def test_autotune_and_heuristics_take_the_first(capsys):
    from gridstride.tile import triton_shim
    configs = [triton.Config(dict(BLOCK=16), num_warps=2), triton.Config(dict(BLOCK=32))]
    even = {'EVEN': lambda args: args['n'] % args['BLOCK'] == 0}
    k = tuned(lambda k: triton_shim.autotune(configs, key=['n'])(triton_shim.heuristics(even)(k)))
    x = torch.randn(50)
    for _ in range(2):
        out = unwritten(50)
        tile.checked(k)[lambda meta: (triton.cdiv(50, meta['BLOCK']),)](x, out, 50)
        assert torch.equal(out, x + 16)
    said = capsys.readouterr().out
    assert said.count('\n') == 1 and '2 configs, BLOCK=16' in said
    with pytest.raises(LaunchError, match='autotune'): k[(4,)](x, unwritten(50), 50, BLOCK=16)
    with pytest.raises(LaunchError, match='missing arguments'): tuned(tile.checked)[(1,)](x, x, 50, BLOCK=64)
    assert not hasattr(k.fn, 'configs') and k.jitted.fn is k.py_func


def test_descriptors_and_block_pointers():
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def kernel(d, x_ptr, out_ptr, h, w, BH: tl.constexpr, BW: tl.constexpr):
        r, c = tl.program_id(0)*BH, tl.program_id(1)*BW
        a = d.load([r, c])
        p = tl.make_block_ptr(x_ptr, (h, w), (w, 1), (0, c), (BH, BW), (1, 0))
        b = tl.load(tl.advance(p, (r, 0)), boundary_check=(0, 1), padding_option='zero')
        own = tl.make_tensor_descriptor(out_ptr, [h, w], [w, 1], [BH, BW])
        own.store([r, c], a + b)
    x, out = torch.randn(10, 12), unwritten(10, 12)
    run(kernel, (2, 2), TensorDescriptor.from_tensor(x, [8, 8]), x, out, 10, 12, BH=8, BW=8)
    assert torch.equal(out, x + x)
    with tile.trace() as t: run(kernel, (2, 2), TensorDescriptor.from_tensor(x, [8, 8]), x, out, 10, 12, BH=8, BW=8)
    assert t.stats.store_bytes == 480 and {a['array'] for a in t.accesses} == {'d', 'x_ptr', 'out_ptr'}


# Traces, prints, the debugger

def test_traces_count_bytes_and_sectors_by_line():
    x, out = torch.randn(128), unwritten(128)[:100].clone()
    with tile.trace() as t: run(copy_kernel, (4,), x, out, 100, BLOCK=32)
    load, store = (t.lines[line_of(copy_kernel, o)] for o in ('tl.load', 'tl.store'))
    assert (t.stats.programs, load.loads, load.load_bytes) == (4, 4, 512)
    assert (store.store_bytes, store.masked_lanes) == (400, 28)
    first = out.data_ptr()
    sectors = {(first + 4*i)//32 for i in range(100)}
    assert store.store_sectors == len(sectors) + sum((first + 128*p)//32 == (first + 128*p - 4)//32 for p in (1, 2, 3))
    assert t.source[line_of(copy_kernel, 'tl.store')] == 'tl.store(out_ptr + i, x, mask=i < n)'
    written = [a for a in t.accesses if a['verb'] == 'written']
    assert [set(a['block']) for a in written] == [{0}, {1}, {2}, {3}] and list(written[3]['at']) == [96, 97, 98, 99]
    assert draw.accesses(t, 'out_ptr', by='block', verb='written').svg.count('>3<') == 4


def test_a_walk_over_tiles():
    @triton.jit
    def kernel(out_ptr, h, w, GROUP: tl.constexpr, B: tl.constexpr):
        p, rows, columns = tl.program_id(0), tl.cdiv(h, B), tl.cdiv(w, B)
        r, c = tl.swizzle2d(p // columns, p % columns, rows, columns, GROUP)
        r, c = r*B + tl.arange(0, B), c*B + tl.arange(0, B)
        tl.store(out_ptr + r[:, None]*w + c[None, :], 1., mask=(r[:, None] < h) & (c[None, :] < w))
    with tile.trace() as t: run(kernel, (6,), unwritten(10, 7), 10, 7, GROUP=2, B=4)
    assert t.walk('out_ptr').tolist() == [[0, 2], [1, 3], [4, 5]]
    with pytest.raises(ValueError, match='x_ptr'): t.walk('x_ptr')


def test_prints_and_static_prints(capsys):
    @triton.jit
    def kernel(x_ptr, N: tl.constexpr):
        tl.static_print('N is', N)
        print('x', tl.load(x_ptr + tl.program_id(0)))
    run(kernel, (2,), torch.tensor([1.5, 2.5]), N=4)
    assert capsys.readouterr().out == 'N is 4\npid (0, 0, 0) x: 1.5\npid (1, 0, 0) x: 2.5\n'


def test_a_debugger_stops_in_the_kernels_own_lines(monkeypatch):
    @triton.jit
    def kernel(x_ptr, out_ptr, n):
        both = n > 1 and n < 9
        v = tl.load(x_ptr + tl.program_id(0))
        breakpoint()
        tl.store(out_ptr + tl.program_id(0), tl.where(both, v, -v))
    seen = []

    def stop():
        f = sys._getframe(1)
        seen.append((f.f_code.co_name, f.f_code.co_filename, f.f_lineno, float(f.f_locals['v'].data)))
    monkeypatch.setattr(sys, 'breakpointhook', stop)
    x, out = torch.randn(2), unwritten(2)
    run(kernel, (2,), x, out, 5)
    assert torch.equal(out, x)
    assert seen == [('kernel', __file__, line_of(kernel, 'breakpoint()'), v.item()) for v in x]


# The front door

FRONT = '''
from gridstride import triton
import numpy as np
tl = triton.language
HALF = tl.constexpr(.5)

@triton.jit
def twice(x): return x/HALF

@triton.autotune(configs=[triton.Config({'BLOCK': 32}), triton.Config({'BLOCK': 64})], key=['n'])
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, twice(tl.load(x_ptr + i, mask=i < n)), mask=i < n)

x, out = np.random.randn(100).astype(np.float32), np.full(100, np.nan, np.float32)
kernel[lambda meta: (triton.cdiv(100, meta['BLOCK']),)](x, out, 100)
assert np.array_equal(out, 2*x)
print(triton.next_power_of_2(100), kernel)
'''

def front(tmp_path, first='', backend='sim'):
    path = tmp_path/'front.py'
    path.write_text(first + FRONT)
    env = os.environ | dict(PYTHONPATH=str(ROOT), GRIDSTRIDE_BACKEND=backend)
    return run_python(path, env=env)

@pytest.mark.slow
def test_the_front_door(tmp_path):
    done = front(tmp_path)
    assert done.stdout == ("gridstride: Triton's kernels run checked, on the CPU\n"
        'gridstride: kernel runs with the first of 2 configs, BLOCK=32: nothing is timed here\n'
        '128 <checked kernel kernel>\n'), done.stderr

def test_without_triton(tmp_path):
    done = front(tmp_path, "import sys; sys.modules['triton'] = None\n")
    assert done.stdout.endswith('128 <checked kernel kernel>\n'), done.stderr
    assert 'torch' not in done.stderr

@pytest.mark.skipif(torch.cuda.is_available(), reason='forcing the GPU works where one is')
def test_the_gpu_cannot_be_forced_without_one(tmp_path):
    done = front(tmp_path, backend='gpu')
    assert done.returncode and 'GRIDSTRIDE_BACKEND=gpu' in done.stderr


def test_asm_finds_the_kernel_inside():
    from gridstride.asm.report import find_kernel_source
    k = tile.checked(copy_kernel)
    unit = find_kernel_source(k, (torch.zeros(8), torch.zeros(8), 8), options=dict(BLOCK=8))
    assert unit.kernel is copy_kernel and k.fn is copy_kernel.fn and k.arg_names == copy_kernel.arg_names


def test_hasattr_is_false_for_a_missing_name():
    from gridstride.tile import language
    assert hasattr(language, 'load') and not hasattr(language, 'mean') and getattr(language, 'fn', None) is None


# Order among the threads of a program

@triton.jit
def ticket_kernel(x_ptr, parts_ptr, count_ptr, out_ptr, BARRIER: tl.constexpr, USED: tl.constexpr, SINGLE: tl.constexpr,
                  N: tl.constexpr):
    "Programs leave their parts, and the last one to come adds them"
    p, i = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + p*N + i)
    if SINGLE: tl.store(parts_ptr + p, tl.sum(x))
    else: tl.store(parts_ptr + p*N + i, x)
    if BARRIER: tl.debug_barrier()
    if USED: ticket = tl.atomic_add(count_ptr, 1)
    else:
        tl.atomic_add(count_ptr, 1)
        ticket = tl.atomic_add(count_ptr, 0) - 1
    if ticket == tl.num_programs(0) - 1:
        if SINGLE: tl.store(out_ptr, tl.sum(tl.load(parts_ptr + tl.arange(0, 4))))
        else: tl.store(out_ptr, tl.sum(tl.load(parts_ptr + tl.arange(0, 4*N))))

def missing_barriers(kernel, grid, *args, **meta):
    "The fields of the warnings of a missing barrier, and no other warnings"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        run(kernel, grid, *args, **meta)
    assert all(o.category is MissingBarrier for o in caught), [str(o.message) for o in caught]
    return [o.message for o in caught]

@pytest.mark.parametrize('used', [True, False])
@pytest.mark.parametrize('barrier, single, found', [(False, False, 1), (True, False, 0), (False, True, 0)])
def test_a_scalar_atomic_releases_the_stores_of_one_thread_alone(used, barrier, single, found):
    x, out, count = torch.rand(32), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    caught = missing_barriers(ticket_kernel, (4,), x, torch.zeros(32), count, out, BARRIER=barrier, USED=used, N=8,
                             SINGLE=single)
    assert len(caught) == found
    torch.testing.assert_close(out, x.sum()[None], rtol=1e-5, atol=1e-6)
    for o in caught:
        atomic = 'ticket = tl.atomic_add(count_ptr, 1)' if used else '    tl.atomic_add(count_ptr, 1)'
        assert (o.code, o.fields['array']) == ('released', 'parts_ptr')
        assert o.fields['released'] == line_of(ticket_kernel, atomic)
        assert o.fields['stored'] == line_of(ticket_kernel, 'else: tl.store(parts_ptr + p*N')


@triton.jit
def locked_kernel(x_ptr, sum_ptr, lock_ptr, BARRIER: tl.constexpr, CAS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0)*N + i)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1: pass
    tl.store(sum_ptr + i, tl.load(sum_ptr + i) + x)
    if BARRIER: tl.debug_barrier()
    if CAS: unused = tl.atomic_cas(lock_ptr, 1, 0)  # noqa: F841
    else: _ = tl.atomic_xchg(lock_ptr, 0)

@pytest.mark.parametrize('cas', [True, False])
@pytest.mark.parametrize('n', [1, 16])
@pytest.mark.parametrize('order', ['forward', 'reverse'])
def test_a_lock_is_released_after_a_barrier(cas, n, order):
    for barrier in True, False:
        x, total, lock = torch.rand(5, n), torch.zeros(n), torch.zeros(1, dtype=torch.int32)
        with tile.options(order=order):
            caught = missing_barriers(locked_kernel, (5,), x, total, lock, BARRIER=barrier, CAS=cas, N=n)
        torch.testing.assert_close(total, x.sum(0), rtol=1e-5, atol=1e-6)
        assert [o.code for o in caught] == ['released']*(n > 1 and not barrier)


def test_the_order_of_a_blocks_elements_is_checked_once_per_earlier_access(monkeypatch):
    from gridstride.tile.run import LaunchContext
    calls, happens_before = [], LaunchContext.happens_before
    monkeypatch.setattr(LaunchContext, 'happens_before', lambda *args: calls.append(args) or happens_before(*args))
    x, total, lock = torch.rand(5, 512), torch.zeros(512), torch.zeros(1, dtype=torch.int32)
    run(locked_kernel, (5,), x, total, lock, BARRIER=True, CAS=True, N=512)
    assert 0 < len(calls) < 100


@pytest.mark.parametrize('second, index', [([1, 2, 3, 4], None), ([1, 2, 7, 8], 2), ([7, 2, 3, 4], 0)])
@pytest.mark.parametrize('ordered', [0, 2, 4])
def test_a_race_at_any_element_of_a_block_is_found(second, index, ordered):
    "Two programs write `first` and `second`; an atomic orders the first `ordered` elements"
    @triton.jit
    def kernel(x_ptr, out_ptr, count_ptr, ORDERED: tl.constexpr):
        i, p = tl.arange(0, 4), tl.program_id(0)
        value = tl.load(x_ptr + p*4 + i)
        if p == 0:
            tl.store(out_ptr + i, value, mask=i < ORDERED)
            tl.debug_barrier()
            tl.atomic_add(count_ptr, 1)
            tl.store(out_ptr + i, value, mask=i >= ORDERED)
        else:
            while tl.atomic_add(count_ptr, 0) == 0: pass
            tl.store(out_ptr + i, value)
    x, out = torch.tensor([[1, 2, 3, 4], second]), torch.zeros(4, dtype=torch.int64)
    def launch(): run(kernel, (2,), x, out, torch.zeros(1, dtype=torch.int32), ORDERED=ordered)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        if index is None or index < ordered: launch()
        else:
            with finding('racecheck programs', array='out_ptr', index=(index,)): launch()
    is_same_first = ordered < 4 and second[ordered] == ordered + 1
    assert [o.message.code for o in caught] == ['same_value_programs']*is_same_first


@triton.jit
def counted_kernel(x_ptr, count_ptr, out_ptr, USED: tl.constexpr, BLOCK: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + i, i*1.)
    if BLOCK: old = tl.atomic_add(count_ptr + i, 1)
    elif USED: old = tl.atomic_add(count_ptr, 1)
    else:
        tl.atomic_add(count_ptr, 1)
        old = 0
    tl.store(out_ptr + i, tl.load(x_ptr + N - 1 - i) + old)

@pytest.mark.parametrize('used, block, found', [(True, False, 0), (False, False, 1), (True, True, 1)])
def test_threads_meet_at_a_scalar_atomic_whose_result_they_use(used, block, found):
    "The compiler gives one thread's result to all of them; lanes of an atomic keep their own"
    caught = missing_barriers(counted_kernel, (1,), torch.zeros(8), torch.zeros(8, dtype=torch.int32), torch.zeros(8),
                             USED=used, BLOCK=block, N=8)
    assert [o.code for o in caught] == ['read_back']*found


@triton.jit
def tail_kernel(x_ptr, BARRIER: tl.constexpr, SHIFT: tl.constexpr, SAME: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, N//2)
    tl.store(x_ptr + i, i)
    if BARRIER: tl.debug_barrier()
    tl.store(x_ptr + SHIFT + j, SHIFT + j if SAME else 7*j)

@pytest.mark.parametrize('barrier, shift, same, found',
                         [(False, 4, False, 1), (True, 4, False, 0), (False, 0, False, 0), (False, 8, False, 0),
                          (False, 4, True, 0)])
def test_two_stores_of_one_element_by_two_lanes(barrier, shift, same, found):
    out = torch.zeros(16, dtype=torch.int32)
    caught = missing_barriers(tail_kernel, (1,), out, BARRIER=barrier, SHIFT=shift, SAME=same, N=8)
    assert [o.code for o in caught] == ['stored_again']*found
    assert [(o.fields['index'], o.fields['stored']) for o in caught] == \
        [((4,), line_of(tail_kernel, 'x_ptr + i, i'))]*found


def test_windows_that_overlap_lose_what_another_lane_has_added():
    @triton.jit
    def kernel(x_ptr, v_ptr, BARRIER: tl.constexpr, N: tl.constexpr):
        i = tl.arange(0, N)
        v = tl.load(v_ptr + i)
        a, b = tl.load(x_ptr + i), tl.load(x_ptr + i + 1)
        tl.store(x_ptr + i, a + v)
        if BARRIER: tl.debug_barrier()
        tl.store(x_ptr + i + 1, b + v)
    assert [o.code for o in missing_barriers(kernel, (1,), torch.zeros(9), torch.rand(8), BARRIER=False, N=8)] \
        == ['stored_again']


# Indices

@triton.jit
def indexed_kernel(x_ptr, a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None]*N + i[None]
    x = tl.load(x_ptr + at)
    tl.static_assert(x[None, :].shape[0] == 1 and len(x[None, :].shape) == 3)
    tl.static_assert(x[:, None].shape[1] == 1 and len(x[:, None].shape) == 3)
    tl.static_assert(len(i[:, :].shape) == 1)
    tl.static_assert(tl.load(x_ptr)[:, None].shape[0] == 1)
    tl.store(a_ptr + at, tl.sum(x[None, :], 0))
    tl.store(b_ptr + at, tl.sum(x[:, None], 1))
    tl.store(c_ptr + at[None, None], x[None][:, None])

def test_fewer_indices_than_axes():
    x, outs = torch.rand(4, 4), torch.zeros(3, 4, 4)
    run(indexed_kernel, (1,), x, *outs, N=4)
    assert all(torch.equal(o, x) for o in outs)


# What a compiler sees of the branches that do not run

BRANCHED = '''
import triton, triton.language as tl
@triton.jit
def fp32_or(x_ptr, n, A: tl.constexpr):
    if n > 3: return tl.load(x_ptr)
    else: return A
@triton.jit
def fp32_or_0(x_ptr, n):
    if n > 3: return tl.load(x_ptr)
    else: return 0
@triton.jit
def fp32_then_0(x_ptr, n):
    if n > 3: return tl.load(x_ptr)
    return 0
@triton.jit
def fp32_and_0(x_ptr, A: tl.constexpr):
    if A: return tl.load(x_ptr)
    return 0
@triton.jit
def fp32_else_0(x_ptr, A: tl.constexpr):
    if A: return tl.load(x_ptr)
    else: return 0
@triton.jit
def fp32_or_half(x_ptr, n):
    if n > 3: return tl.load(x_ptr)
    return 0.5
@triton.jit
def twice_or(x_ptr, n, other):
    if n > 3: return tl.load(x_ptr)*2
    else: return other*2
@triton.jit
def pair_or(x_ptr, n, other):
    if n > 3: return tl.load(x_ptr), n
    return other, n + 1
@triton.jit
def changed_or(x_ptr, n):
    if n > 3:
        v = tl.load(x_ptr)
        return v
    v = 1.
    return v
@triton.jit
def kernel(x_ptr, out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
'''
ONE_TYPE, TWICE = 'in one branch of the if and|`a if condition else b`|a function returns', 'already defined'
BRANCHES = {
    'if n > 3: v = tl.load(x_ptr)\nelse: v = 0\ntl.store(out_ptr, v)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr)\nelse: v = -1.\ntl.store(out_ptr, v)': None,
    'if n > 3: v = tl.load(x_ptr + i)\nelse: v = tl.zeros((N,), tl.float32)\ntl.store(out_ptr + i, v)': None,
    'w = 1\nif n > 3: v = tl.load(x_ptr)\nelse: v = w\ntl.store(out_ptr, 1.)': ONE_TYPE,
    'if N > 3: v = tl.load(x_ptr)\nelse: v = 0\ntl.store(out_ptr, v)': None,
    'v = 0.\nif n > 3: v = tl.load(x_ptr)\nelse: v = 2.\ntl.store(out_ptr, v)': None,
    'tl.store(out_ptr, tl.load(x_ptr) if n > 3 else 0)': ONE_TYPE,
    'tl.store(out_ptr, tl.load(x_ptr) if n > 3 else 0.)': None,
    'tl.store(out_ptr, tl.load(x_ptr) if N > 3 else 0)': None,
    'tl.store(out_ptr, 1 if n > 3 else .5)': ONE_TYPE,
    'tl.store(out_ptr, fp32_or_0(x_ptr, n))': ONE_TYPE,
    'tl.store(out_ptr, fp32_then_0(x_ptr, n))': ONE_TYPE,
    'tl.store(out_ptr, fp32_or_half(x_ptr, n))': None,
    'tl.store(out_ptr, fp32_or(x_ptr, n, .5))': None,
    'tl.store(out_ptr, fp32_and_0(x_ptr, True))': ONE_TYPE,  # a return after an `if` is compiled
    'tl.store(out_ptr, fp32_else_0(x_ptr, True))': None,
    'a: tl.constexpr = 2\na: tl.constexpr = 3\ntl.store(out_ptr, a)': TWICE,
    'n: tl.constexpr = 2\ntl.store(out_ptr, n)': TWICE,
    'a = 3\na: tl.constexpr = 2\ntl.store(out_ptr, a)': TWICE,
    'for k in tl.static_range(2):\n    a: tl.constexpr = 2\n    tl.store(out_ptr, a)': TWICE,
    'a: tl.constexpr = 2\nfor k in range(n):\n    a: tl.constexpr = 2\n    tl.store(out_ptr, a)': TWICE,
    'for k in range(n):\n    a: tl.constexpr = 2\n    tl.store(out_ptr, a)': None,
    'for k in range(n):\n    a: tl.constexpr = 2\n    tl.store(out_ptr, a)\na: tl.constexpr = 3\n'
        'tl.store(out_ptr, a)': None,
    'if n > 3:\n    a: tl.constexpr = 2\n    tl.store(out_ptr, a)\nelse:\n    a: tl.constexpr = 3\n'
        '    tl.store(out_ptr, a)': None,
    'if n > 3: v = tl.load(x_ptr)*2\nelse: v = n*2\ntl.store(out_ptr, v)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr)*2\nelse: v = n*2.\ntl.store(out_ptr, v)': None,
    'if n > 3: v = tl.load(x_ptr) > 1\nelse: v = n < 2\ntl.store(out_ptr, 1.)': None,
    'if n > 3: v = tl.load(x_ptr)\nelse: v = n < 2\ntl.store(out_ptr, 1.)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr)\nelse:\n    a = n + 1\n    v = a*a\ntl.store(out_ptr, v)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr)\nelse:\n    a = n + 1\n    v = a*.5\n    v += a\ntl.store(out_ptr, v)': None,
    'if n > 3: v = tl.load(x_ptr + i)\nelse: v = tl.full((N,), 0, tl.int32)\ntl.store(out_ptr + i, v)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr + i)\nelse: v = tl.zeros((N, N), tl.float32)\ntl.store(out_ptr, 1.)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr + i)\nelse: v = i.to(tl.float32)\ntl.store(out_ptr + i, v)': None,
    'if n > 3: v = tl.load(x_ptr + i)\nelse: v = tl.cast(i, tl.float16)\ntl.store(out_ptr + i, v)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr + i)\nelse: v = tl.where(i < 3, i, 0)\ntl.store(out_ptr + i, v)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr + i)\nelse: v = tl.where(i < 3, i, 0.)\ntl.store(out_ptr + i, v)': None,
    'if n > 3: v = tl.load(x_ptr)\nelse: v = tl.sum(i)\ntl.store(out_ptr, v)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr)\nelse: v = tl.sum(tl.load(x_ptr + i, i < n, other=0.))\ntl.store(out_ptr, v)': None,
    'if n > 3: v = tl.load(x_ptr + i)\nelse: v = tl.sum(tl.load(x_ptr + i))\ntl.store(out_ptr, 1.)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr), n\nelse: v = 1., 2.\ntl.store(out_ptr, 1.)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr), n\nelse: v = 1., 2\ntl.store(out_ptr, 1.)': None,
    'if n > 3: v = tl.load(x_ptr), n\nelse: v = 1., 2, 3\ntl.store(out_ptr, 1.)': ONE_TYPE,
    'if n > 3: v = tl.load(x_ptr)\nelse: v = None\ntl.store(out_ptr, 1.)': ONE_TYPE,
    'if n > 3: v, w = 1., 2\nelse: v, w = 2, 1\ntl.store(out_ptr, 1.)': ONE_TYPE,
    'tl.store(out_ptr, tl.load(x_ptr)*2 if n > 3 else n + 1)': ONE_TYPE,
    'tl.store(out_ptr, tl.load(x_ptr)*2 if n > 3 else n + 1.)': None,
    'tl.store(out_ptr + i, tl.load(x_ptr + i) if n > 3 else tl.zeros((N,), tl.int32))': ONE_TYPE,
    'tl.store(out_ptr + i, tl.load(x_ptr + i) if n > 3 else tl.zeros((N,), tl.float32))': None,
    'tl.store(out_ptr, twice_or(x_ptr, n, n))': ONE_TYPE,
    'tl.store(out_ptr, twice_or(x_ptr, n, 1.))': None,
    'v = pair_or(x_ptr, n, 1.)\ntl.store(out_ptr, v[0])': None,
    'v = pair_or(x_ptr, n, 1)\ntl.store(out_ptr, v[0])': ONE_TYPE,
    'a = changed_or(x_ptr, n)\ntl.store(out_ptr, a)': None,
}

def kernel_of(body, tmp_path):
    path = tmp_path/'branched_kernels.py'
    path.write_text(BRANCHED + ''.join(f'    {o}\n' for o in body.split('\n')))
    spec = importlib.util.spec_from_file_location('branched_kernels', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel

@pytest.mark.parametrize('n', [2, 4])
@pytest.mark.parametrize('body', BRANCHES)
def test_branches_and_constants_as_triton_compiles_them(body, n, tmp_path):
    "Whichever branch runs"
    kernel, words = kernel_of(body, tmp_path), BRANCHES[body]
    if words is None: run(kernel, (1,), torch.ones(8), torch.zeros(8), n, N=8)
    else:
        with pytest.raises(NotCompiled, match=words): run(kernel, (1,), torch.ones(8), torch.zeros(8), n, N=8)

@pytest.mark.slow
@pytest.mark.parametrize('body', BRANCHES)
def test_triton_compiles_branches_and_constants_like_that(body, tmp_path):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    types = dict(x_ptr='*fp32', out_ptr='*fp32', n='i32', N='constexpr')
    source, target = ASTSource(kernel_of(body, tmp_path), types, dict(N=8)), GPUTarget('cuda', 90, 32)
    def compiled(): triton.compile(source, target=target)
    if BRANCHES[body] is None: compiled()
    else:
        with pytest.raises(triton.CompilationError): compiled()

def test_programs_that_take_both_branches_have_one_type():
    @triton.jit
    def kernel(x_ptr, i_ptr, out_ptr, HALF: tl.constexpr):
        p = tl.program_id(0)
        if p < 1: v = tl.load(x_ptr)*2
        elif HALF: v = tl.load(x_ptr)*.5
        else: v = tl.load(i_ptr)*2
        tl.store(out_ptr + p, v)
    args = torch.ones(1), torch.ones(1, dtype=torch.int32), torch.zeros(2)
    run(kernel, (2,), *args, HALF=True)
    run(kernel, (1,), *args, HALF=False)
    with pytest.raises(NotCompiled, match='v is int32 .*fp32'):
        run(kernel, (2,), *args, HALF=False)


# Autotuning runs a kernel many times

@triton.jit
def clip_kernel(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0, B)
    tl.store(x_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n, other=0.), 0.), mask=i < n)

@triton.jit
def double_kernel(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.)*2, mask=i < n)

@triton.jit
def count_kernel(x_ptr, n, B: tl.constexpr): tl.atomic_add(x_ptr, 1.)

@triton.jit
def in_turn_kernel(x_ptr, n, B: tl.constexpr):
    while tl.atomic_cas(x_ptr, 0., 1.) == 1.: pass
    tl.atomic_xchg(x_ptr, 0.)

@triton.jit
def waiting_kernel(x_ptr, n, B: tl.constexpr):
    while tl.atomic_add(x_ptr, 0.) != tl.program_id(0): pass
    tl.atomic_add(x_ptr, 1.)

@pytest.mark.parametrize('decorator', ['triton', 'stand-in'])
@pytest.mark.parametrize('kernel, argument', [
    (double_kernel, 'restore_value'), (count_kernel, 'reset_to_zero'), (waiting_kernel, 'reset_to_zero'),
    (clip_kernel, None), (in_turn_kernel, None)], ids=lambda o: getattr(o, '__name__', o))
def test_autotune_of_a_kernel_that_changes_its_arguments(kernel, argument, decorator):
    from gridstride.tile import triton_shim
    autotune = triton.autotune if decorator == 'triton' else triton_shim.autotune
    configs = [triton.Config(dict(B=b)) for b in (32, 64)]
    def caught(configs=configs, times=1, **options):
        tuned = tile.checked(autotune(configs, key=['n'], **options)(kernel))
        x = torch.ones(64) if kernel is double_kernel else torch.zeros(64)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter('always')
            for _ in range(times): tuned[(2,)](x, 64)
        return [o.message for o in found if isinstance(o.message, TunedInPlace)], x
    found, x = caught()
    assert [(o.code, o.fields['array'], o.fields['argument']) for o in found] == \
        [('tuned', 'x_ptr', argument)]*bool(argument)
    once = {double_kernel: 2, count_kernel: 2, waiting_kernel: 2}.get(kernel, 0)
    assert x[0].item() == once and x.max() == once  # of one run
    if kernel is double_kernel: assert len(caught(times=2)[0]) == 1  # tuned once for one key
    assert not caught(configs[:1])[0] and (not argument or not caught(**{argument: ['x_ptr']})[0])


@triton.jit
def two_arrays_kernel(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0, B)
    for_x = tl.load(x_ptr + i, mask=i < n, other=0.)*2
    tl.store(x_ptr + i, for_x, mask=i < n)
    tl.store(y_ptr + i, tl.load(y_ptr + i, mask=i < n, other=0.) + for_x, mask=i < n)

def test_autotune_that_restores_one_of_two_changed_arrays():
    from gridstride.tile import triton_shim
    configs = [triton.Config(dict(B=b)) for b in (32, 64)]
    tuned = tile.checked(triton_shim.autotune(configs, key=['n'], restore_value=['x_ptr'])(two_arrays_kernel))
    x, y = torch.ones(64), torch.ones(64)
    with pytest.warns(TunedInPlace) as found: tuned[(2,)](x, y, 64)
    assert [o.message.fields['array'] for o in found] == ['y_ptr']
    assert (x == 2).all() and (y == 3).all()


def test_an_argument_that_autotune_resets_is_zero_at_first():
    kernel = tile.checked(triton.autotune([triton.Config(dict(B=b)) for b in (32, 64)], ['n'], reset_to_zero=['x_ptr'])(
        count_kernel))
    x = torch.full((1,), 5.)
    for want in 2, 4:
        kernel[(2,)](x, 1)
        assert x.item() == want


@pytest.mark.parametrize('dtype, bits', [(torch.bfloat16, torch.tensor(0x7f81, dtype=torch.int16)),
                                         (torch.float32, torch.tensor(0x7f800001, dtype=torch.int32))], ids=str)
def test_autotune_reads_uninitialized_memory_without_a_warning(dtype, bits):
    "Memory of torch.empty may contain signaling NaNs"
    @triton.jit
    def kernel(x_ptr, B: tl.constexpr): tl.store(x_ptr + tl.arange(0, B), 1.)
    tuned = tile.checked(triton.autotune([triton.Config(dict(B=b)) for b in (32, 64)], [])(kernel))
    x = bits.repeat(64).view(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        tuned[(1,)](x)
    assert (x[:32] == 1).all()


def test_an_atomic_of_a_block_through_one_pointer_is_refused():
    @triton.jit
    def kernel(x_ptr): tl.atomic_max(x_ptr, tl.arange(0, 8))
    with pytest.raises(NotCompiled, match='of shape'):
        run(kernel, (1,), torch.zeros(8, dtype=torch.int32))


@pytest.mark.parametrize('axis', [None, 0, 1])
def test_a_sum_of_bf16_is_that_of_a_tree(axis):
    "Added one after the other, ones come to 256 and no further"
    @triton.jit
    def kernel(x_ptr, out_ptr, AXIS: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, H)[:, None]*W + tl.arange(0, W)[None, :])
        tl.static_assert(tl.sum(x, AXIS).dtype == tl.bfloat16)
        if AXIS is None: tl.store(out_ptr, tl.sum(x))
        else: tl.store(out_ptr + tl.arange(0, W if AXIS == 0 else H), tl.sum(x, AXIS))
    x = torch.ones(1024, 1024, dtype=torch.bfloat16)
    out = torch.zeros({None: 1}.get(axis, 1024), dtype=torch.bfloat16)
    run(kernel, (1,), x, out, AXIS=axis, H=1024, W=1024)
    assert (out == (2**20 if axis is None else 1024)).all()
