"""Matrix products: launches as the driver gets them, models of layouts, ladders, and
the choice between a kernel and torch."""
import ctypes, importlib, math, re, struct, sys, threading, warnings, weakref
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from gridstride.asm import CompilerMissing, ptx, resources, tools
from gridstride.cpp import CompileError, cuda_kernel
from gridstride.kernels import Ladder, Rung, explain, matmul, plan, check_matmul, tune, using
from gridstride.cpp import driver as nvidia
from gridstride.kernels.ladder import (
    instruction_throughput as alone,
    stream_k,
    fp32,
    hopper,
    ladder,
    launches,
    rung,
    tensor_cores,
    tma,
)
from gridstride.kernels.gemm import plan as choice, cost_model, tuning_cache as kept, bf16x6, skinny
from gridstride.kernels import tensor_maps, ptx as ptx_header
from gridstride.kernels.ladder.lesson_ladder import LessonLadder
from gridstride.kernels.ladder.ladder import Reference, Step, inputs, shapes_for
from gridstride.kernels.ladder.rung import H100
from gridstride.bench.recording import Unavailable, claim
from gridstride.sim import LaunchError
from gridstride.utils import check
from exhaustive import some
from hypothesis import given, strategies as st
from found import names, saying

ROOT = Path(__file__).resolve().parents[1]

SRC = r'''
__global__ void tiled(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float ms[BM][BK], ns[BK][BN];
    int tc = threadIdx.x, tr = threadIdx.y, r = blockIdx.y*BM + tr, c = blockIdx.x*BN + tc;
    float o = 0;
    for (int ph = 0; ph < k; ph += BK) {
        if (tc < BK) ms[tr][tc] = r < h && ph+tc < k ? m[r*k+ph+tc] : 0;
        if (tr < BK) ns[tr][tc] = ph+tr < k && c < w ? n[(ph+tr)*w+c] : 0;
        __syncthreads();
        for (int i = 0; i < BK; i++) o += ms[tr][i] * ns[i][tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r*w+c] = o;
}'''
MAP = ('struct alignas(64) TensorMap { char bytes[128]; };\n__global__ void k(const __grid_constant__ TensorMap m, '
       'const __grid_constant__ TensorMap n, float *out, int h, int w, int k) {}')


def tiled(src=SRC, name='tiled', **more): return Rung(name, src, **{**dict(threads=(8, 8), BM=8, BN=8, BK=8), **more})


# A rung

def test_a_rung_is_right_around_its_tile():
    r = tiled()
    assert check_matmul(r) == len(shapes_for(r)) >= 6
    assert {(1, 1, 1), (9, 7, 9), (7, 11, 19)} <= set(shapes_for(r))


@pytest.mark.parametrize('a,b', some(
    [('r < h && ph+tc < k', 'r < h'), ('ph+tr < k && c < w', 'c < w'), ('o = 0', 'o = .01f'), ('i < BK', 'i < BK-1'),
     ('if (r < h && c < w) out[r*w+c]', 'if (r < h && c < w-1) out[r*w+c]'), ('ph += BK', 'ph += 2*BK'),
     ('ns[i][tc]', 'ns[tc][i]'), ('out[r*w+c] = o', 'out[r*w+c] = o + (r == 8)')], 2))
def test_a_wrong_rung_is_not(a, b):
    "By the float64 check or, where it reads what is not there, by the emulator's detectors"
    assert a in SRC
    with pytest.raises(Exception, match='values (is|are) wrong|outside|out of bounds|past|element'):
        check_matmul(tiled(SRC.replace(a, b)))


def test_a_missing_barrier_is_found():
    first = SRC.index('__syncthreads();')
    with pytest.raises(Exception, match='race|written|barrier'): check_matmul(tiled(SRC[:first]+SRC[first+16:]))


def test_the_repr_of_a_launch_is_fixed():
    "A recording of lesson 16 is keyed on it: another field would have it refused"
    call = str(tiled().launch_plan(8, 8, 8, H100).calls[0])
    assert call.endswith('shared=0, pdl=False, cluster=(1, 1, 1), cooperative=False)')


def test_constants_make_other_kernels():
    r = tiled()
    t = r.variant('small', BM=4, threads=(8, 4))
    assert (t.name, t.threads, t.constants, t.src.count('BM = 4')) == ('small', (8, 4), dict(BM=4, BN=8, BK=8), 1)
    assert r.constants['BM'] == 8
    assert t.grid_for(9, 17, 1) == (3, 3)
    assert r.variant(grid=lambda k, sms, BM: (k, sms*BM)).grid_for(9, 17, 5) == (5, 64)
    with pytest.raises(ValueError, match='STAGE.*BM, BN, BK'): r.variant(STAGE=3)


def test_derived_constants_may_be_a_function():
    r = Rung('f', SRC, threads=lambda BM, BN: (BN, BM), shared=lambda BM, BK: 4*BM*BK,
             tma_boxes=lambda BM, BK: dict(m=(BM, BK, 64)), BM=8, BN=4, BK=16)
    assert (r.threads, r.shared, r.tma_boxes) == ((4, 8), 512, dict(m=((8, 16), 64)))
    assert r.variant(BM=2).shared == 128


def test_line_numbers_stay():
    "A compiler's message names the line that the reader wrote"
    line = 1 + SRC[:SRC.index('ph+tc < k')].count('\n')
    with pytest.raises(CompileError) as e: tiled(SRC.replace('ph+tc < k ? m', 'ph+tc < k ? mz')).kernel
    assert 'mz' in str(e.value) and e.value.errors[0][0] == line


def test_errors_come_before_anything_is_written():
    out = torch.full((3, 5), float('nan'))
    with pytest.raises(ValueError, match='columns'): tiled()(torch.ones(3, 4), torch.ones(3, 5), out)
    assert out.isnan().all()


@pytest.mark.parametrize('make,words', [
    (lambda m, n: (m.numpy(), n), 'convert|tensor'),
    (lambda m, n: (m.half(), n), saying('m', 'float32', 'float16', '.to(torch.float32)')),
    (lambda m, n: (m, n.t()), 'columns'),
    (lambda m, n: (n.t(), m.t()), saying('m', '(1, 5)', '.contiguous()')),
    (lambda m, n: (m[None], n), saying('m', '(1, 3, 4)')),
    (lambda m, n: (m, n, torch.empty(5, 3)), saying('out', '3x5', '5x3')),
    (lambda m, n: (m, n, torch.empty(3, 5, dtype=torch.float64)), saying('out', 'float32', 'float64')),
    (lambda m, n: (m, n, torch.empty(5, 3).t()), saying('out', 'contiguous')), (lambda m, n: (m[:0], n), 'size is 0'),
    (lambda m, n: (torch.ones(4, 4), torch.ones(4, 4).to('meta')), saying('n', 'meta'))])
def test_errors_in_words(make, words):
    with pytest.raises((TypeError, ValueError), match=words): tiled()(*make(torch.randn(3, 4), torch.randn(4, 5)))


def test_an_output_over_an_input():
    m = torch.randn(4, 4)
    with pytest.raises(ValueError, match='share memory'): tiled()(m, torch.randn(4, 4), m)


def test_a_slice_that_begins_between():
    with pytest.raises(ValueError,
                       match=saying('n', '16 bytes', 4, '.clone()')):
        tiled()(torch.randn(3, 4), torch.randn(21)[1:].view(4, 5))


def test_sizes_past_what_int_counts():
    assert '2^31' in tiled().unsupported_reason(2**16, 2**15, 8) and tiled().supports(2**16, 2**15-1, 8)


def test_supports():
    r = tiled(supports=lambda h, w, k: w%8 == 0)
    assert not r.supports(1, 9, 1) and r.supports(1, 8, 1) and all(w%8 == 0 for _, w, _ in shapes_for(r))
    with pytest.raises(ValueError, match=saying('tiled', '1x1 @ 1x9', 'shape')):
        r(torch.ones(1, 1), torch.ones(1, 9))


def test_a_kernel_for_hopper_is_refused_elsewhere(monkeypatch):
    r = Rung('far', MAP, threads=1, tma_boxes=dict(m=(8, 8), n=(8, 8)), BM=8, BN=8)
    with monkeypatch.context() as patch:
        patch.setattr(rung, 'backend', lambda: 'gpu')
        patch.setattr(rung, 'on_hopper', lambda: False)
        with pytest.raises(Unavailable, match=saying('far needs', 'Hopper', 'emulator')): r.kernel
    with pytest.raises(Unavailable, match=saying('timing needs', 'Hopper')): rung.require_hopper('timing')
    # the emulator takes the maps; this kernel does nothing
    assert torch.equal(r(torch.ones(8, 8), torch.ones(8, 8), torch.full((8, 8), 3.)), torch.full((8, 8), 3.))
    assert r.unsupported_reason(8, 6, 8).endswith('6 columns of n')


@pytest.fixture
def other_gpu(monkeypatch):
    """A function that fakes a GPU that is not there: its name, capability, and bytes of shared
    memory that a block may have"""
    def fake(name, major, minor, shared):
        p = SimpleNamespace(name=name, major=major, minor=minor, shared_memory_per_block_optin=shared,
                            multi_processor_count=60)
        monkeypatch.setattr(rung, 'backend', lambda: 'gpu')
        monkeypatch.setattr(rung, '_import_torch', lambda: SimpleNamespace(
            cuda=SimpleNamespace(get_device_properties=lambda: p, get_device_capability=lambda: (major, minor))))
    return fake


ADA = 'an RTX 4090', 8, 9, 101_376


def test_what_another_gpu_cannot_run_is_skipped_in_words(other_gpu, capsys):
    other_gpu(*ADA)
    assert [check_matmul(r) for r in (tiled(shared=150_000), hopper.ring)] == [0, 0]
    assert capsys.readouterr().out.splitlines() == [
        'tiled needs 150,000 bytes of shared memory per block; an RTX 4090 allows at most 101,376; '
        'it was not checked',
        'ring needs a Hopper GPU (compute capability 9.0), for TMA, bulk copies, mbarriers and wgmma, or the emulator: '
        'GRIDSTRIDE_BACKEND=sim; it was not checked']
    with pytest.raises(Unavailable, match='150,000 bytes'): tiled(shared=150_000).kernel
    with pytest.raises(Unavailable, match='150,000 bytes'): tiled(shared=150_000).prepare(8, 8, 8, None)
    tiled(shared=101_376).require_gpu()


def test_thin_products_need_asynchronous_copies(other_gpu, capsys):
    other_gpu(*ADA)
    skinny.SKINNY.require_gpu()
    other_gpu('a T4', 7, 5, 65_536)
    assert check_matmul(skinny.SKINNY, [(3, 3, 8)]) == 0
    assert names(capsys.readouterr().out, 'skinny', '8.0', 'cp.async', 'a T4', '7.5')


@pytest.mark.parametrize('gpu,runs', [
    (('an H100', 9, 0, 232_448), {fp32: 14, tensor_cores: 11, hopper: 7}),
    (ADA, {fp32: 14, tensor_cores: 6, hopper: 0}),                # the larger tiles need 196,608 bytes
    (('a T4', 7, 5, 65_536), {fp32: 11, tensor_cores: 0, hopper: 0})],
    ids=lambda o: o[0] if isinstance(o, tuple) else '')
def test_every_rung_of_the_lessons_knows_whether_another_gpu_runs_it(other_gpu, gpu, runs):
    other_gpu(*gpu)
    def fits(r):
        try: r.require_gpu()
        except Unavailable as e:
            assert re.search(' needs .*(bytes of shared|compute capability )', str(e))
            return False
        return True
    assert {m: sum(isinstance(o, Rung) and fits(o) for o in vars(m).values()) for m in runs} == runs


def test_the_instruction_alone(other_gpu, monkeypatch, tmp_path, capsys):
    "Cycles, speed and clock of a GPU that has it; another one says what it lacks, and shows what was recorded"
    got = alone._derive_figures(2e9, 60, 1e-3, 6.*8*32*60/4, 500.)
    assert got == dict(cycles=6., tflops=2., ghz=pytest.approx(6*8*32*60/4*1e-6), watts=500.)
    monkeypatch.setattr('gridstride.bench.recording._printed', set())
    monkeypatch.setattr('gridstride.utils.backend', lambda: 'gpu')
    monkeypatch.setattr(alone, '_measure', lambda *o: dict(random=dict(cycles=6.)))
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    other_gpu('an H100', 9, 0, 232_448)
    alone.time_alone('mma', 8192, 2048, '99_alone', folder=tmp_path)
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    other_gpu('a T4', 7, 5, 65_536)
    assert alone.time_alone('mma', 8192, 2048, '99_alone', folder=tmp_path) == dict(random=dict(cycles=6.))
    assert re.search('compute capability 8.0 .*T4 has 7.5.*recorded', capsys.readouterr().out)


def test_parameters_are_looked_at():
    with pytest.raises(TypeError, match=r'\(m, n, out, int h'):
        tiled('\n__global__ void f(float *m) {}')(torch.ones(1, 1), torch.ones(1, 1))


def test_a_struct_by_value():
    k = cuda_kernel('struct Two { int a; float b; };\n'
                    '__global__ void f(float *m, const Two t) { m[threadIdx.x] = threadIdx.x == 0 ? t.a : t.b; }')
    m = torch.zeros(2)
    k[1, 2](m, struct.pack('if', 3, .5))
    assert m.tolist() == [3, .5]
    with pytest.raises(TypeError, match='8 bytes.* 7'): k[1, 2](m, b'1234567')
    with pytest.raises(TypeError, match='a struct'):
        cuda_kernel('__global__ void g(int n) {}')[1, 1](b'1234')


# A launch, as the driver gets it

class Driver:
    "Notes what a launch or a tensor map is made of"
    def __init__(self): self.launches, self.maps, self.codes, self.attributes = [], [], [], []

    def cuLaunchKernelEx(self, config, handle, places, extra):
        c = config._obj
        n = len(places)-3 if len(places) > 3 else 2
        values = ([ctypes.c_uint64.from_address(p).value for p in places[:n]]
                  + [ctypes.c_int.from_address(p).value for p in places[n:]])
        self.attributes.append([(a.id, *a.values[:3]) for a in c.attributes[:c.num_attributes]])
        self.launches.append(
            ((c.gx, c.gy, c.gz), (c.bx, c.by, c.bz), c.shared, c.stream, handle.value, values, list(places)))
        return self.codes.pop() if self.codes else 0

    def cuTensorMapEncodeTiled(self, at, kind, n, address, dims, steps, sides, one, interleave, swizzle,
                               promotion, fill):
        assert at.value % 64 == 0 and list(one) == [1]*n and (interleave, fill) == (0, 0)
        self.maps.append((kind, address.value, list(dims), list(steps)[:n-1], list(sides), swizzle))
        return 0


@pytest.fixture
def fake(monkeypatch):
    d = Driver()
    monkeypatch.setattr(launches, 'launcher', lambda: None)
    monkeypatch.setattr(launches, 'driver', lambda: d)
    monkeypatch.setattr(tensor_maps, 'driver', lambda: d)
    monkeypatch.setattr(tensor_maps, '_on_gpu', lambda x: True)
    return d


def prepared(r, h, w, k):
    r._compiled_kernels['sim'] = SimpleNamespace(handle=77, __name__=r.name)
    return rung._PreparedLaunch(r, h, w, k)


def test_a_launch_passes_each_argument_correctly(fake):
    m, n, out = torch.randn(9, 5), torch.randn(5, 20), torch.empty(9, 20)
    launch = prepared(tiled(shared=100), 9, 20, 5)
    launch(m, n, out, 1234)
    grid, block, shared, stream, handle, values, _ = fake.launches[0]
    assert (grid, block, shared, stream, handle) == ((3, 2, 1), (8, 8, 1), 100, 1234, 77)
    assert values == [m.data_ptr(), n.data_ptr(), out.data_ptr(), 9, 20, 5]


def test_a_launch_that_fails_says_why(fake, monkeypatch):
    fake.codes.append(701)
    fake.codes.append(701)
    monkeypatch.setattr(nvidia, 'error_string', lambda code: f'the driver says {code}')
    with pytest.raises(LaunchError, match=r'701(.|\n)*tiled'):
        prepared(tiled(), 8, 8, 8)(*[torch.ones(8, 8)]*3, 0)


def test_shared_memory_is_only_ever_raised(fake, monkeypatch):
    "What is allowed last counts for all launches of a kernel, those of other shapes too"
    given = []
    monkeypatch.setattr(nvidia, 'set_max_dynamic_smem', lambda handle, name, shared: given.append((handle, shared)))
    monkeypatch.setattr(torch.cuda, 'current_device', lambda: 0)
    known = {handle: SimpleNamespace(handle=handle, __name__='k') for handle in (5, 6)}
    for handle, shared in ((5, 40000), (5, 90000), (5, 60000), (6, 60000), (5, 100000), (5, 90000)):
        launches.Launcher(known[handle], 1, (), 1, 32, shared)
    assert given == [(5, 90000), (6, 60000), (5, 100000)]


def test_a_launch_may_use_pdl(fake):
    k = SimpleNamespace(handle=5, __name__='k')
    for more in ({}, dict(pdl=True), dict(pdl=True, cluster=(1, 2, 1))):
        launches.Launcher(k, 2, (3,), 4, 32, **more)((10, 20), 7)
    assert [l[:5] for l in fake.launches] == [((4, 1, 1), (32, 1, 1), 0, 7, 5)]*3
    assert [c[5][:2] for c in fake.launches] == [[10, 20]]*3
    assert fake.attributes == [[], [(6, 1, 0, 0)], [(6, 1, 0, 0), (4, 1, 2, 1)]]


def test_a_rung_may_use_pdl(fake):
    r = tiled()
    for o in (r, r.variant(pdl=True), r.variant(pdl=True).variant('other')):
        prepared(o, 8, 8, 8)(*[torch.ones(8, 8)]*3, 0)
        assert o.launch_plan(8, 8, 8, H100).calls[0].pdl is o.pdl
    assert fake.attributes == [[], [(6, 1, 0, 0)], [(6, 1, 0, 0)]]


class Stream:
    "Notes which streams it waits for"
    def __init__(self, raw, waits): self.raw, self.waits = raw, waits
    def wait_stream(self, other): self.waits.append((self.raw, other.raw))


def test_a_kernel_that_must_be_alone_waits_for_the_stream_before(monkeypatch):
    "But not while a graph is captured, which may not depend on what runs outside it"
    waits, now = [], SimpleNamespace(raw=0, capturing=False)
    monkeypatch.setattr(rung, 'current_stream', lambda device: now.raw)
    monkeypatch.setattr(rung, '_import_torch', lambda: SimpleNamespace(cuda=SimpleNamespace(
        current_stream=lambda: Stream(now.raw, waits), is_current_stream_capturing=lambda: now.capturing)))
    m, alone, other = SimpleNamespace(get_device=lambda: 0), tiled(has_static_buffer=True), tiled()
    for raw, capturing in ((0, False), (0, False), (5, False), (5, False), (9, True), (7, True),
                           (5, False), (0, False)):
        now.raw, now.capturing = raw, capturing
        assert alone._stream_handle(m) == other._stream_handle(m) == raw
    assert waits == [(5, 0), (0, 5)]


def test_the_current_stream_comes_from_torch_in_either_way(monkeypatch):
    "By a short name of torch's own, and by the public one where a version has dropped that"
    nvidia._stream_getter.cache_clear()
    monkeypatch.setattr(torch._C, '_cuda_getCurrentRawStream', lambda device: 70 + device, raising=False)
    assert nvidia.current_stream(1) == 71
    nvidia._stream_getter.cache_clear()
    monkeypatch.delattr(torch._C, '_cuda_getCurrentRawStream')
    monkeypatch.setattr(torch.cuda, 'current_stream', lambda device: SimpleNamespace(cuda_stream=80 + device))
    assert nvidia.current_stream(1) == 81
    nvidia._stream_getter.cache_clear()


def test_tensor_maps_are_made_once_for_an_address(fake):
    launch = prepared(Rung('far', MAP, threads=128, tma_boxes=dict(m=(64, 32), n=(16, 8, 32)), BM=8, BN=8), 100, 40, 32)
    m, n, out = torch.empty(100, 32), torch.empty(32, 40), torch.empty(100, 40)
    for _ in range(3): launch(m, n, out, 0)
    assert fake.maps == [(7, m.data_ptr(), [32, 100], [128], [32, 64], 3),
                         (7, n.data_ptr(), [40, 32], [160], [8, 16], 1)]
    places = fake.launches[0][-1]
    assert places[0] == launch.maps[0, m.data_ptr()].address
    assert fake.launches[0][5][2:] == [out.data_ptr(), 100, 40, 32]
    other = torch.empty(100, 32)
    launch(other, n, out, 0)
    assert len(fake.maps) == 3 and fake.launches[-1][-1][0] != places[0]


def test_tensor_maps_do_not_pile_up(fake, monkeypatch):
    monkeypatch.setattr(launches, 'MAX_CACHED', 4)
    launch = prepared(Rung('far', MAP, threads=128, tma_boxes=dict(m=(8, 8)), BM=8, BN=8), 8, 8, 8)
    kept = [torch.empty(8, 8) for _ in range(20)]
    for m in kept: launch(m, m, m, 0)
    assert len(fake.maps) == 20 and len(launch.maps) <= 4


def test_no_map_of_a_launch_is_dropped_before_the_launch(fake, monkeypatch):
    "The second map may be allocated when the first is already stored"
    monkeypatch.setattr(launches, 'MAX_CACHED', 5)
    made, dead = weakref.WeakSet(), []
    monkeypatch.setattr(launches, 'tensor_map', lambda *what: made.add(o := tensor_maps.tensor_map(*what)) or o)
    def launched(config, handle, places, extra):
        dead.extend({*list(places)[:2]} - {o.address for o in made})
        return 0
    fake.cuLaunchKernelEx = launched
    launch = prepared(Rung('far', MAP, threads=128, tma_boxes=dict(m=(8, 8), n=(8, 8)), BM=8, BN=8), 8, 8, 8)
    n = torch.empty(8, 8)
    for m in [torch.empty(8, 8) for _ in range(20)]: launch(m, n, m, 0)
    for m in [torch.empty(8, 8) for _ in range(20)]: launch(n, m, m, 0)
    assert not dead and len(launch.maps) <= 5


def test_shapes_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(rung, 'MAX_CACHED', 3)
    r = tiled()
    for k in range(1, 9): check(r(torch.ones(1, k), torch.ones(k, 1)), torch.full((1, 1), float(k)))
    assert len(r._prepared) <= 3


def test_threads_do_not_mix_their_arguments(fake):
    "Two threads launch the same shape; each launch has three arrays that belong together"
    launch = prepared(tiled(), 8, 8, 8)
    sets = [[torch.empty(8, 8) for _ in range(3)] for _ in range(4)]
    def many(xs):
        for _ in range(200): launch(*xs, 0)
    threads = [threading.Thread(target=many, args=(xs,)) for xs in sets]
    for t in threads: t.start()
    for t in threads: t.join()
    assert len(fake.launches) == 800
    assert {tuple(l[5][:3]) for l in fake.launches} == {tuple(x.data_ptr() for x in xs) for xs in sets}


def test_the_error_of_the_driver_is_the_readers(fake):
    with pytest.raises(ValueError, match='56 elements'):
        tensor_maps.tensor_map(torch.empty(100, 50, dtype=torch.bfloat16), (8, 8))
    with pytest.raises(ValueError, match='clone'):
        tensor_maps.tensor_map(torch.empty(1000, dtype=torch.bfloat16)[1:513].view(8, 64), (8, 64))
    assert not fake.maps


# Models of layouts

@given(st.sampled_from([0, 32, 64, 128]), st.integers(1, 64))
def test_a_swizzle_moves_pieces_of_sixteen_bytes_within_their_line(swizzle, lines):
    byte = np.arange(128*lines)
    to = tma.swizzle_offsets(byte, swizzle)
    assert sorted(to) == list(byte) and (to//128 == byte//128).all() and (to%16 == byte%16).all()
    assert (tma.swizzle_offsets(to, swizzle) == byte).all(), 'done twice, all is where it was'


@pytest.mark.parametrize('places,shape', [(tma.mma_a(), (16, 16)), (tma.mma_b(), (16, 8)), (tma.mma_c(), (16, 8)),
                                          *((tma.wgmma_d(n), (64, n)) for n in (8, 64, 192, 256))])
def test_each_element_is_held_once(places, shape):
    assert sorted(zip(*(o.ravel() for o in places))) == [(r, c) for r in range(shape[0]) for c in range(shape[1])]


def test_fragments_multiply():
    "Each lane's products, summed over the lanes that share a k, are the product: a and b agree about k"
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (16, 16)), rng.integers(-9, 9, (16, 8))
    fa, fb = np.zeros((16, 16), int), np.zeros((16, 8), int)
    fa[tma.mma_a()], fb[tma.mma_b()] = a[tma.mma_a()], b[tma.mma_b()]
    assert (fa@fb == a@b).all()
    assert ((tma.mma_a()[1]//2%4 == np.arange(32)[:, None]%4).all()
            and (tma.mma_b()[0]//2%4 == np.arange(32)[:, None]%4).all()), 'a lane holds the same k of both'


# Right or not

@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_reference_takes_what_torch_makes(dtype):
    m, n = inputs(60, 70, 900, dtype)
    Reference(m, n)(m@n)


@pytest.mark.parametrize('k', [64, 900, 4096])
def test_reference_refuses_a_sum_without_its_last_term(k):
    m, n = inputs(60, 70, k)
    with pytest.raises(AssertionError, match='are wrong'): Reference(m, n)(m[:, :-1]@n[:-1])


def test_reference_refuses_one_wrong_element_in_bfloat16():
    m, n = inputs(60, 70, 900, 'bfloat16')
    got = m@n
    got[17, 3] += 4
    with pytest.raises(AssertionError, match=r'1 of 4,200 .*\[17, 3\]'):
        Reference(m, n)(got)


def test_reference_refuses_half_precision_in_float32():
    m, n = inputs(60, 70, 900)
    with pytest.raises(AssertionError, match='are wrong'):
        Reference(m, n)(m.bfloat16().float()@n.bfloat16().float())


# Ladders

def test_no_ladder_without_a_gpu():
    with pytest.raises(Unavailable, match='NVIDIA GPU'): Ladder(tiled())


def test_a_rung_is_timed_with_the_library_after_its_check():
    m, n = inputs(24, 16, 8)
    got = ladder.time_rung(tiled(), m, n, Reference(m, n), seconds=.02)
    assert got['low'] <= got['ratio'] <= got['high'] and got['seconds'] > 0 and got['library'] > 0
    assert got['error'] < 1e-6 > got['library_error'] and got['name'] == 'tiled'
    assert set(got) <= set(ladder.STEP_DEFAULTS)
    with pytest.raises(AssertionError, match='wrong is'):
        ladder.time_rung(tiled(SRC.replace('i < BK', 'i < BK-1'), 'wrong'), m, n, Reference(m, n), seconds=.02)
    with pytest.raises(AssertionError, match='NaN'):
        ladder.time_rung(tiled(SRC.replace('if (r < h && c < w) out', 'if (r < h-1 && c < w) out'), 'lazy'), m, n,
                         Reference(m, n), seconds=.02)


def test_a_gpu_is_timed_by_its_events_alone(monkeypatch):
    "No graphs, no ceilings, whatever is short; but the clock is noted"
    from gridstride.bench import clocks, versus
    state = clocks.State(1980, 1980, 500., 50, ())
    class Events(clocks.Clock):
        device, sensors = 'a GPU', SimpleNamespace(why=None)
        def __init__(self): self.states = []
        def times(self, fn, n):
            fn()
            self.states.append(state)
            return [1e-6]*n
    monkeypatch.setattr(clocks, 'Events', Events)
    monkeypatch.setattr(versus.limits, 'ceilings', lambda: 1/0)
    monkeypatch.setattr(clocks, 'capture', lambda *a: 1/0)
    m, n = inputs(8, 8, 8)
    clock = ladder.GpuClock()
    c = versus.compare(dict(a=lambda m, n: m@n), m, n, clock=clock, flops=1., seconds=.01, check=lambda got: None)
    assert c.timings['a'].gpu and c.timings['a'].device == 'a GPU' and c.timings['a'].states[0] == state
    assert c.timings['a'].graph is None


def figures(r, **more):
    return dict(name=r.name, seconds=.01, library=.005, ratio=.5, low=.49, high=.51, error=1e-7, library_error=1e-7,
                registers=64, local=8, occupancy=.5,
                counters=dict(sectors=3.5, issue=41., stalls=dict(barrier=1., wait=3.), **{'wavefronts per load':2.}),
                warnings=['drifting: slower and slower'], **more)


@pytest.fixture
def measured(monkeypatch): monkeypatch.setattr(Ladder, '_measure', lambda self, r: figures(r))


@pytest.mark.slow
def test_the_table_of_a_ladder(measured):
    l = Ladder(tiled(), tiled(name='again'), shape=(1000, 2000, 500), baseline='a library',
               metrics={'tensor pipe':'sm__pipe'})
    assert 'tensor pipe' not in repr(l)
    l[0].counters['tensor pipe'] = 77.
    text = repr(l)
    for o in ('1000x500 @ 500x2000, compared with a library', '0.2 ', '50.0%', '1.00x', '64*', '50%', '3.5', '41%',
              'the previous instruction (75%)', 'warning for tiled: drifting', 'local memory', 'tensor pipe', '77'):
        assert o in text
    assert 'again' in l._repr_html_() and l['tiled'].tflops == pytest.approx(.2) and l[1].name == 'again'
    ax = l.plot()
    assert [p.get_width() for p in ax.patches] == pytest.approx([.2, .2])
    assert [t.get_text() for t in ax.get_yticklabels()] == ['tiled', 'again']


def test_a_rung_after_a_branch_is_compared_with_the_one_before_it(measured):
    l = Ladder(tiled(), tiled(name='aside'), tiled(name='last'), shape=(1000, 2000, 500))
    for step, ratio in zip(l.steps, (.5, .1, .6)): step.ratio = ratio
    assert [r[3] for r in l.table(side_branches=['aside']).rows] == ['', '0.20x', '1.20x', '']
    assert l.table().rows[2][3] == '6.00x'


def test_a_recorded_ladder_belongs_to_its_kernels(measured, monkeypatch, tmp_path):
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    Ladder(tiled(), tiled(name='two words'), record='99_ladder', folder=tmp_path)
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    monkeypatch.setattr(Ladder, '_measure', lambda self, r: (_ for _ in ()).throw(Unavailable('no GPU')))
    l = Ladder(tiled(), record='99_ladder', folder=tmp_path)
    assert l['tiled'].fields == {**Step((1, 1, 1)).fields, **figures(tiled())} and 'recorded' in l['tiled'].provenance
    assert '[recorded' in repr(l)
    assert sorted(p.name for p in tmp_path.iterdir()) == ['99_ladder_tiled.json', '99_ladder_two_words.json']
    wider = SRC.replace('ns[BK][BN]', 'ns[BK][BN+1]')
    for other in (tiled(BK=4), tiled(wider), tiled(shared=4), tiled(threads=(8, 4))):
        with pytest.raises(Unavailable, match='other arguments'): l.add_step(other)
    assert len(l) == 1
    commented = SRC.replace('ns[BK][BN];', 'ns[BK][BN]; // both tiles\n    /* of a\n    block */')
    assert commented != SRC and 'recorded' in l.add_step(tiled(commented))['tiled'].provenance


def test_counters_that_cannot_be_read_here_are_those_recorded(measured, monkeypatch, tmp_path, capsys):
    "With a warning; what is recorded for others never has any"
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    Ladder(tiled(), record='99_ladder', folder=tmp_path)
    without = {**figures(tiled()), 'counters': {}, 'warnings': []}
    monkeypatch.setattr(Ladder, '_measure', lambda self, r: without)
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    l = Ladder(tiled(), record='99_ladder', folder=tmp_path)
    assert l[0].counters == figures(tiled())['counters'] and l[0].provenance == ''
    assert re.fullmatch('its counters: recorded .*', *l[0].warnings)
    claim('sectors', 3, l[0].counters['sectors'], 4)
    assert (capsys.readouterr().out.splitlines()[-1]
            == 'sectors: 3.5, expected 3 to 4 on an H100')
    assert Ladder(tiled(BK=4), record='99_ladder', folder=tmp_path)[0].counters == {}
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    assert Ladder(tiled(), record='99_ladder', folder=tmp_path)[0].counters == {}


# What a lesson shows where its kernels do not run

COUNTED = dict(pipe=2.**20, instructions=2.**21, tensor=80., stalls=dict(wait=3., barrier=1.))


@pytest.fixture
def recorded_climb(monkeypatch, tmp_path):
    "A function that makes a `LessonLadder` with a recording of each rung, with made-up figures"
    monkeypatch.setattr('gridstride.bench.recording._printed', set())
    def climb(*rungs, **how):
        with monkeypatch.context() as patch:
            patch.setattr(Ladder, '_measure', lambda self, r: {**figures(r), 'counters': COUNTED})
            patch.setenv('GRIDSTRIDE_RECORD', '1')
            Ladder(*rungs, shape=(1024, 1024, 2048), record='99_ladder', folder=tmp_path)
        return LessonLadder((1024, 1024, 2048), '99_ladder', lambda wavefronts, instructions: 1/wavefronts,
                     folder=tmp_path, **how)
    return climb


MMA = dict(unit='mma', multiply_adds=2048, op='HMMA', stall_reasons=dict(wait='the previous instruction'))


@pytest.mark.parametrize('gpu,rungs,words', [
    (ADA, (tensor_cores.larger, tensor_cores.order),
     '196,608 bytes of shared memory per block; an RTX 4090 allows at most 101,376'),
    (('a T4', 7, 5, 65_536), (tensor_cores.wmma, tensor_cores.order),
     'compute capability 8.0 or more, for bfloat16, mma.sync and cp.async; a T4 has 7.5'),
    (ADA, (hopper.warpgroup, hopper.stored), 'a Hopper GPU (compute capability 9.0), for TMA, bulk copies, '
                                             'mbarriers and wgmma, or the emulator: GRIDSTRIDE_BACKEND=sim')])
def test_a_climb_goes_on_with_what_was_recorded_elsewhere(recorded_climb, other_gpu, monkeypatch, capsys,
                                                          gpu, rungs, words):
    "Each rung reports what it needs; one without a recording is counted without a clock"
    climb = recorded_climb(*rungs, **MMA)
    other_gpu(*gpu)
    monkeypatch.setattr(ladder, 'backend', lambda: 'gpu')
    for r in rungs: climb(r, 1., 2., speedups={rungs[0].name: (.9, 1.1)})
    out = capsys.readouterr().out
    for r in rungs:
        assert f'{r.name} needs {words}; it was not checked' in out
        assert f'{r.name}, speedup over {rungs[0].name}: 1x, expected 0.9 to 1.1x on an H100' in out
    assert f'{rungs[0].name} needs {words}. What follows was recorded' in out and 'busy 80%' in out
    assert names(out, '1.000 wavefronts', '1.000 counted', '2.00 instructions', '1.0 TFLOP/s')
    assert re.search('previous instruction +75%', repr(climb.stall_table(rungs[0].name)))
    assert repr(climb.table()).count('80%') == len(rungs)
    monkeypatch.setattr(LessonLadder, 'static_table', lambda *o: 'counted')
    climb(rungs[1].variant('mine'), 1., 2.)
    out = capsys.readouterr().out
    assert f'mine needs {words}; it was not checked\nmine is not timed: mine needs {words}; and ' in out
    assert out.endswith('counted\n')


@pytest.mark.slow
def test_what_a_climb_counts_without_a_clock():
    "Of the instructions of a tensor core: the loop has fewer than four per instruction"
    said = repr(LessonLadder((8192, 8192, 8192), '99_ladder', lambda wavefronts, instructions: 700/instructions, **MMA)
                .static_table(tensor_cores.stages, 2.))
    assert names(said, 'wavefronts', 'mma')
    assert 2 < float(re.search(r'instructions per mma.* +([\d.]+)', said)[1]) < 4


# The choice

@pytest.mark.parametrize('make',
    [lambda a, b: (a.double(), b.double()), lambda a, b: (a, b[:, 0]), lambda a, b: (a[0], b),
     lambda a, b: (a[None], b[None]), lambda a, b: (a[:0], b), lambda a, b: (a[:, :0], b[:0]),
     lambda a, b: (a[:, ::2], b[::2]), lambda a, b: (a.bfloat16(), b.bfloat16()),
     lambda a, b: (a.expand(2, 6, 4)[:, ::2], b), lambda a, b: (torch.randn(25)[1:].view(6, 4), b)])
@pytest.mark.parametrize('used', [False, True])
def test_what_no_kernel_covers_is_torchs(make, used):
    a, b = make(torch.randn(6, 4), torch.randn(4, 5))
    with warnings.catch_warnings(), using(*([tiled()] if used else [])):
        warnings.simplefilter('error')
        assert explain(a, b).kernel is None
        check(matmul(a, b), torch.matmul(a, b), 0, 0)


def test_without_a_gpu_all_is_torchs():
    a, b = torch.randn(6, 4, requires_grad=True), torch.randn(4, 5)
    assert names(repr(explain(a, b)), 'torch.matmul', 'GPU')
    check(matmul(a, b), a@b, 0, 0)


class Counting(Rung):
    "A rung that counts its calls"
    calls = 0

    def __call__(self, *args):
        self.calls += 1
        return super().__call__(*args)


@pytest.mark.slow
@pytest.mark.parametrize('shape', [(6, 4), (2, 3, 4)])
def test_both_gradients_go_through_the_kernel(shape):
    r = Counting('counting', SRC, threads=(8, 8), BM=8, BN=8, BK=8)
    torch.manual_seed(0)
    a, b = torch.randn(shape, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    with using(r):
        y = matmul(a, b)
        g = torch.randn_like(y)
        got = torch.autograd.grad(y, (a, b), g)
    assert r.calls == 3
    for x, want in zip(got, torch.autograd.grad(a@b, (a, b), g)): check(x, want, atol=1e-6)


class Transposing:
    "A kernel that reads its first matrix column after column"
    name, layout, dtype, calls = 'transposing', 'tn', 'float32', 0

    def __call__(self, m, n, out=None):
        assert m.is_contiguous() and n.is_contiguous()
        self.calls += 1
        return m.t()@n


def test_a_transpose_goes_to_a_kernel_that_reads_its_layout():
    r, t = Counting('counting', SRC, threads=(8, 8), BM=8, BN=8, BK=8), Transposing()
    a, b = torch.randn(6, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    with using(r, t):
        y = matmul(a, b)
        g = torch.randn_like(y)
        got = torch.autograd.grad(y, (a, b), g)
    assert (r.calls, t.calls) == (2, 1)
    for x, want in zip(got, torch.autograd.grad(a@b, (a, b), g)): check(x, want, atol=1e-6)


def test_only_the_requested_gradients():
    r = Counting('counting', SRC, threads=(8, 8), BM=8, BN=8, BK=8)
    b = torch.randn(4, 5, requires_grad=True)
    with using(r): matmul(torch.randn(6, 4), b).sum().backward()
    assert r.calls == 1, 'the gradient of a sum is expanded, so torch takes that product'
    with using(r), torch.no_grad(): assert not matmul(torch.randn(6, 4), b).requires_grad


def test_vmap_and_forward_mode_are_torchs():
    a, b = torch.randn(3, 6, 4), torch.randn(4, 5)
    with using(tiled()):
        check(torch.func.vmap(lambda x: matmul(x, b))(a), a@b, atol=1e-6)
        y, t = torch.func.jvp(lambda x: matmul(x, b), (a[0],), (a[1],))
    check(t, a[1]@b, atol=1e-6)


def test_using_is_over_at_its_end():
    r = tiled()
    with using(r):
        with using(tiled(name='inner')): assert plan(8, 8, 8).kernel.name == 'inner'
        assert plan(8, 8, 8).kernel is r
    assert plan(8, 8, 8, device=None).kernel is None
    with pytest.raises(ZeroDivisionError), using(r): 1/0
    assert not choice._forced_kernels


def test_a_given_output():
    a, b, out = torch.randn(2, 3, 4), torch.randn(4, 5), torch.full((2, 3, 5), float('nan'))
    with using(tiled()): assert matmul(a, b, out) is out
    check(out, a@b, atol=1e-6)
    with using(tiled()):
        with pytest.raises(RuntimeError): matmul(a, b.clone().requires_grad_(), out)
        wide = torch.empty(5, 6).t()
        matmul(a.view(6, 4), b, wide)                      # not contiguous: torch writes it
    check(wide, a.view(6, 4)@b, atol=1e-6)


@pytest.fixture
def on_hopper(monkeypatch, tmp_path):
    "A GPU that is not there, a chooser for it, and an empty cache of what was tuned"
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'cache'))
    monkeypatch.setattr(kept, 'machine_key', lambda device: f'GPU {device}')
    def choose(h, w, k, sms): return f'{sms} SMs are too many' if h == 1 else tiled(supports=lambda h, w, k: h != 2)
    monkeypatch.setattr(choice, 'SELECTORS', {(dtype, 'nn'): choose for dtype in choice.TYPES})
    monkeypatch.setattr(choice, '_capability_and_sms', lambda device: ((9, 0), 132))
    choice._plans.clear()
    yield
    choice._plans.clear()


@pytest.mark.parametrize('args,words', [((8, 8, 8), 'by estimate'),
    ((1, 8, 8), '132 SMs'), ((2, 8, 8), 'this shape'),
    ((8, 8, 8, torch.float64), 'float64'), ((8, 0, 8), 'is 0')])
def test_plans(on_hopper, args, words): assert words in repr(plan(*args, device=0))


def test_transposes_are_detected_by_one_function(on_hopper, monkeypatch):
    def transposing(*s): return Transposing()
    monkeypatch.setattr(choice, 'SELECTORS', {('float32', 'nn'): lambda *s: 'none', ('float32', 'tn'): transposing,
                                           ('bfloat16', 'nn'): lambda *s: 'none', ('bfloat16', 'tn'): transposing})
    assert [plan(8, 8, 8, dtype, device=0, layout=layout).kernel is not None for dtype in ('float32', 'bfloat16')
            for layout in ('nn', 'tn', 'nt')] == [False, True, False, False, False, False]
    assert 'this shape' in plan(8, 8, 8, 'bfloat16', device=0, layout='tn').reason
    assert names(plan(8, 8, 8, device=0, layout='nt').reason, 'no kernel', 'nt')


def test_the_table_has_a_chooser_per_type_and_layout():
    "Each names a kernel of its type and layout that takes the shape, or says why there is none"
    types = 'float32', 'bfloat16', 'float16'
    assert set(choice.SELECTORS) == {(dtype, layout) for dtype in types for layout in ('nn', 'tn', 'nt')}
    for (dtype, layout), choose in choice.SELECTORS.items():
        kernel = choose(8192, 8192, 8192, 132)
        assert (kernel.dtype, kernel.layout) == (dtype, layout) and kernel.supports(8192, 8192, 8192)


def test_other_gpus(on_hopper, monkeypatch):
    monkeypatch.setattr(choice, '_capability_and_sms', lambda device: ((8, 0), 108))
    assert 'this GPU has 8.0' in plan(8, 8, 8, device=0).reason


@pytest.fixture
def untimed(monkeypatch):
    "No measurement: the last kernel is the fastest; a list of how many were measured"
    from gridstride.bench import columns
    seen = []
    def by_column(calls, seconds, columns):
        seen.append(len(calls))
        return {o: dict(sides={i: dict(seconds=1/(i+1)) for i in calls}) for o in columns}
    monkeypatch.setattr(columns, 'by_column', by_column)
    return seen


def test_the_fastest_that_was_measured(untimed):
    slow, fast, other = (Counting('slow', SRC, threads=(8, 8), BM=8, BN=8, BK=8),
                         Counting('fast', SRC, threads=(8, 8), BM=8, BN=8, BK=8), Transposing())
    a, b = torch.randn(2, 3, 4), torch.randn(4, 5)
    with using(slow, fast, other):
        assert repr(tune(a, b)) == 'fast: the fastest of 2 that were measured' == repr(explain(a, b))
        calls = slow.calls, fast.calls
        matmul(a, b)
        assert (slow.calls, fast.calls) == (calls[0], calls[1]+1)
        assert explain(a[0], b).kernel is slow                                  # of another shape
        assert tune(a.double(), b.double()).kernel is None and tune(a[0].t().contiguous().t(), b).kernel is other
    with using(slow): assert tune(a, b).kernel is slow                          # there is nothing to choose from
    assert untimed == [2] and not choice._tuned_plans


def test_what_was_measured_is_kept(on_hopper, monkeypatch):
    "Also when there are too many plans, or `using` has thrown them all away"
    ranked = [tiled(name=str(i), dtype='bfloat16') for i in range(6)]
    monkeypatch.setattr(choice, 'SELECTORS', {('bfloat16', 'nn'): lambda *s: ranked[0]})
    monkeypatch.setattr(choice, 'RANKINGS', {('bfloat16', 'nn'): lambda h, w, k, sms, n: ranked[:n]})
    key = (8, 8, 8, 'bfloat16', 0, 'nn')
    assert choice._cached_plan(*key).kernel is ranked[0]
    assert [r.name for r in choice._candidates(*key, 3)] == ['0', '1', '2']
    assert choice._candidates(*key[:-1], 'tn', 3) == []
    monkeypatch.setitem(choice._tuned_plans, key, choice.Plan(ranked[2], 'the fastest'))
    with using(): pass
    assert choice._cached_plan(*key).kernel is ranked[2] and choice._cached_plan(16, *key[1:]).kernel is ranked[0]
    with using(ranked[1]): assert choice._cached_plan(*key).kernel is ranked[1]


@pytest.fixture
def ranked(on_hopper, monkeypatch):
    "Six kernels for bfloat16, of which the first is taken by estimate"
    ranked = [tiled(name=str(i), dtype='bfloat16') for i in range(6)]
    monkeypatch.setattr(choice, 'SELECTORS', {('bfloat16', 'nn'): lambda *s: ranked[0]})
    monkeypatch.setattr(choice, 'RANKINGS', {('bfloat16', 'nn'): lambda h, w, k, sms, n: ranked[:n]})
    monkeypatch.setattr(choice, '_tuned_plans', {})
    return ranked


def next_process():
    "Forget what is not on the disk"
    choice._tuned_plans.clear()
    choice._plans.clear()
    kept._cached_entries.cache_clear()


KEY = (8, 16, 24, 'bfloat16', 0, 'nn')


def test_what_was_tuned_is_there_in_the_next_process(ranked):
    kept.store(ranked[3], 4, *KEY)
    next_process()
    p = choice._cached_plan(*KEY)
    assert p.kernel is ranked[3] and re.fullmatch(r'the fastest of 4 .* \d{4}-\d\d-\d\d', p.reason)
    assert choice._cached_plan(16, *KEY[1:]).kernel is ranked[0]                   # another shape
    assert choice._cached_plan(*KEY[:4], 1, 'nn').kernel is ranked[0]              # another GPU
    assert choice._cached_plan(*KEY[:3], 'bfloat16', None, 'nn').kernel is None
    with using(ranked[1]): assert choice._cached_plan(*KEY).kernel is ranked[1]


@pytest.mark.parametrize('change', [dict(BM=16), dict(name='another'), dict(supports=lambda h, w, k: False)])
def test_a_changed_kernel_must_be_tuned_again(ranked, change):
    kept.store(ranked[3], 4, *KEY)
    ranked[3] = ranked[3].variant(**change)
    next_process()
    assert choice._cached_plan(*KEY).kernel is ranked[0]


def test_what_is_kept_is_not_measured_again(ranked, monkeypatch):
    seen = []
    def fastest(kernels, m, n, key):
        seen.append(len(kernels))
        return kernels[-1]
    a, b = torch.randn(8, 24).bfloat16(), torch.randn(24, 16).bfloat16()
    monkeypatch.setattr(choice, 'fallback_reason', lambda a, b: None)
    monkeypatch.setattr(choice, '_sizes_of', lambda a, b: KEY[:5])
    monkeypatch.setattr(choice, '_measure_fastest', fastest)
    assert tune(a, b, max_kernels=3).kernel is ranked[2]
    next_process()
    assert tune(a, b).kernel is ranked[2] and seen == [3]
    assert tune(a, b, measure_again=True).kernel is ranked[5] and seen == [3, 6]
    next_process()
    assert tune(a, b).kernel is ranked[5] and len(list(kept.path().parent.iterdir())) == 1


@pytest.mark.parametrize('text', ['', '[]', '{"GPU 0": 3}', '{"GPU 0": {"8',
    '{"GPU 0": {"8x24 @ 24x16 bfloat16 nn": 3}}', '{"GPU 0": {"8x24 @ 24x16 bfloat16 nn": {"name": "3"}}}', b'\xff\xfe',
    '{"GPU 0": {"8x24 @ 24x16 bfloat16 nn": {"name": 3, "source_hash": "", "candidates": 2, "date": ""}}}'])
def test_a_broken_file_of_what_was_tuned_is_none(ranked, text):
    kept.path().parent.mkdir(parents=True)
    kept.path().write_bytes(text if isinstance(text, bytes) else text.encode())
    next_process()
    assert choice._cached_plan(*KEY).kernel is ranked[0]
    kept.store(ranked[3], 4, *KEY)
    next_process()
    assert choice._cached_plan(*KEY).kernel is ranked[3]


def test_a_folder_that_cannot_be_written_only_means_to_tune_again(ranked, monkeypatch, tmp_path):
    (tmp_path/'file').write_text('')
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'file/no'))
    kept.store(ranked[3], 4, *KEY)
    assert choice._cached_plan(*KEY).kernel is ranked[0]


def test_commands_show_and_forget_what_was_tuned(ranked, capsys):
    from gridstride.kernels.__main__ import main
    kept.store(ranked[3], 4, *KEY)
    main(['tuned'])
    assert names(capsys.readouterr().out, 'GPU 0: 8x24 @ 24x16 bfloat16 nn: 3', '4')
    for said in 'was deleted', 'does not exist':
        main(['forget'])
        assert said in capsys.readouterr().out
    next_process()
    assert choice._cached_plan(*KEY).kernel is ranked[0] and not kept.path().exists()


def test_the_best_estimates_come_first():
    from gridstride.kernels.ladder.stream_k import CORRECTION_FACTORS, choose, estimate_cycles, rank_kernels
    for shape in ((8192, 8192, 8192), (600, 2064, 4224), (64, 64, 64)):
        best = sorted(estimate_cycles(*shape, tile) for tile in CORRECTION_FACTORS)
        rungs = rank_kernels(*shape)
        assert len(rungs) == 6 and choose(*shape) is rungs[0]
        def tile(r): return tuple(r.constants[o] for o in ('BM', 'BN', 'CM', 'CN', 'SWAP_AB', 'SPLIT_N', 'STREAM_K'))
        assert [estimate_cycles(*shape, tile(r)) for r in rungs] == best[:6] and best[5] < math.inf


def test_a_copy_that_does_not_pay():
    assert choice._is_copy_cheap(torch.empty(1, 1), 4096, 'float32')
    assert not choice._is_copy_cheap(torch.empty(1, 1), 1024, 'float32')
    assert not choice._is_copy_cheap(torch.empty(1, 1, dtype=torch.bfloat16), 8192, 'bfloat16')


@pytest.mark.gpu
def test_on_the_gpu():
    "The same kernel there, with its gradients"
    assert check_matmul(tiled()) >= 6


def test_tf32_is_seen_and_switched_off():
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    try:
        for value in ('tf32', 'ieee'):
            settings.fp32_precision = value
            assert choice.allows_tf32(settings) == (value == 'tf32')
            with ladder.tf32_disabled(): assert not choice.allows_tf32(settings)
            assert settings.fp32_precision == value
    finally: settings.fp32_precision = before
    assert choice.allows_tf32(SimpleNamespace(allow_tf32=True))
    assert not choice.allows_tf32(SimpleNamespace(allow_tf32=False))


# The kernels of the lessons

def rungs_of(module):
    return {f'{module}.{k}': v for k, v in vars(importlib.import_module(f'gridstride.kernels.{module}')).items()
            if isinstance(v, Rung)}


@pytest.mark.parametrize('module,least', [('ladder.fp32', 8), ('ladder.tensor_cores', 6), ('ladder.hopper', 6)])
def test_each_lesson_exports_its_rungs(module, least):
    "The package's kernels are the cells of the lessons: the benchmark climbs them in this order"
    names = [r.name for r in rungs_of(module).values()]
    assert len(names) >= least and len(set(names)) == len(names)


LADDERS = ['ladder.fp32', 'ladder.tensor_cores', 'ladder.hopper']


@pytest.mark.slow
@pytest.mark.parametrize('module', [*LADDERS, 'gemm.bf16x6', 'gemm.skinny'])
def test_kernels_for_hopper_compile(module):
    "Kernels with TMA and wgmma: NVRTC makes code for Hopper of them that spills no register and fits an SM"
    far = {k: r for k, r in rungs_of(module).items() if r.needs_hopper}
    assert far or module != 'ladder.hopper'
    for name, r in far.items():
        took = compiled(resources, r.src, block=int(np.prod(r.threads)), shared_bytes=r.shared)
        assert (took.spill_stores, took.spill_loads) == (0, 0) and took.occupancy.blocks >= 1, f'{name}\n{took}'


def made_on_demand():
    """One of each kind of kernel that the choosers have made for Hopper: (name, the launch, blocks
    that it counts on an SM)"""
    large = 8192, 8192, 8192
    kinds = [stream_k.final_gemm(*o)                            # n transposed or not, k split or not
             for o in {o[4:]: o for o in stream_k.CORRECTION_FACTORS}.values()]
    configs = {(o.swap_ab, o.split_n, o.pingpong, o.CK, o.BLOCKS): o
               for o in reversed(cost_model.CORRECTION_FACTORS)}.values()
    kinds += [cost_model.build_kernel(o, True, dtype, layout) for o in configs for dtype, layout in (
        ('bfloat16', 'nn'), ('float16', 'tn'), ('bfloat16', 'nt')) if o in cost_model.available_configs(dtype, layout)]
    wanted = [(p, large, {}) for p in (*kinds, skinny.SMALL)]
    wanted += [(bf16x6.Bf16x6(BM, BN, 4, layout), large, dict(multiply_terms=blocks, split_operands=8))
               for (BM, BN), (blocks, *_) in bf16x6.TILES.items() for layout in ('nn', 'tn')]
    wanted += [(p, shape, {}) for p, shape in ((skinny.SKINNY, (50000, 10, 785)), (skinny.SKINNY, (50000, 10, 784)),
                                               (skinny.SKINNY_TN, (784, 10, 50000)))]
    for product, shape, blocks in wanted:
        for call in product.launch_plan(*shape, H100).calls:
            yield f'{product.name}, {call.name}', call, blocks.get(call.name, 1)


def compiled(ask, *args, **options):
    "What NVRTC says of a kernel for Hopper; on Linux the course installs it"
    try: return ask(*args, arch='sm_90a', **options)
    except CompilerMissing as e:
        if sys.platform == 'linux': raise
        pytest.skip(str(e))


@pytest.mark.slow
@pytest.mark.parametrize('call,blocks', some([pytest.param(*o, id=name) for name, *o in made_on_demand()], 6))
def test_what_is_made_on_demand_compiles(call, blocks):
    "As above, and as many blocks fit an SM as the choice of a kernel counts on"
    took = compiled(resources, call.src, block=int(np.prod(call.block)), shared_bytes=call.shared)
    assert (took.spill_stores, took.spill_loads) == (0, 0) and took.occupancy.blocks >= blocks, took


def instructions(r):
    "The machine code of a rung, without addresses"
    machine = compiled(tools.nvrtc, r.src, r.launch_plan(8192, 8192, 8192, H100).calls[0].name)[1]
    return re.findall(r'/\*[0-9a-f]{4}\*/\s+(.*?;)', tools.disassemble(machine))


def functions(src):
    "name -> text of each `__device__` function, without comments and blanks; `unsigned` is spelt u32"
    src, res = re.sub(r'\bunsigned\b(?! long)', 'u32', re.sub(r'//[^\n]*', '', src)), {}
    for m in re.finditer(r'(?:template<[^>]*> )?__device__ (?:[\w]+ )(\w+)\([^{]*\) \{', src):
        depth, i = 1, m.end()
        while depth: depth, i = depth + {'{': 1, '}': -1}.get(src[i], 0), i+1
        res[m[1]] = re.sub(r'\s+', '', re.sub(r'"\s+"', '', m[0]+src[m.end():i]))
    return res


def test_lessons_show_what_the_header_has():
    "A primitive has one spelling"
    header = functions(ptx_header.PTX)
    for module, least in ((tensor_cores, 3), (hopper, 20)):
        shown = functions('\n'.join(o for o in vars(module).values() if isinstance(o, str)))
        both = set(shown) & set(header)
        assert len(both) >= least and {o: shown[o] for o in both} == {o: header[o] for o in both}


def test_some_of_the_header():
    "Each function can be taken by its name: whole, both forms of one that has two, and with no other"
    every = re.findall(r'__device__ \w+ (\w+)\(', ptx_header.PTX)
    assert functions(ptx_header.primitives(*every)) == functions(ptx_header.PTX) and len(every) > 30
    assert (set(functions(ptx_header.primitives('mma', 'load_from_block', 'barrier_wait')))
            == {'mma', 'load_from_block', 'barrier_wait'})
    assert [ptx_header.primitives(o).count('__device__') for o in ('address', 'copy_async')] == [1, 2]
    with pytest.raises(KeyError, match='mma2.*address, copy_async, copies_commit'):
        ptx_header.primitives('mma', 'mma2')


def test_no_name_is_both_a_module_and_something_else():
    import gridstride.kernels as room
    for path in Path(room.__file__).parent.glob('[a-z]*.py'):
        assert not hasattr(room, path.stem) or isinstance(getattr(room, path.stem), ModuleType), path.stem


def test_terms_are_stored_sixteen_bytes_at_a_time():
    "In pieces of four bytes, splitting the operands takes half as long again"
    stores = re.findall(r'\bst\.\S+', compiled(ptx, bf16x6.Bf16x6(64, 128).split_src))
    assert len(stores) == 6 and set(stores) == {'st.global.v4.u32'}
