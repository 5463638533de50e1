"""What programs import from below `numba.cuda`, what they ask a kernel for, and which copies they ask a launch for."""
import importlib
import math
import sys

import numpy as np
import pytest
from exhaustive import mark_exhaustive
from warm import run_python

from gridstride import as_gpu, sim
from gridstride.asm import CompilerMissing
from gridstride.support.numba_cuda import import_numba_cuda, real_numba_cuda, is_simulated
from gridstride.sim import cuda, libdevice, random, submodules


@pytest.fixture
def emulated():
    pytest.importorskip('numba')
    with as_gpu.as_gpu():
        yield


# random values: Numba's own stream


@pytest.fixture(scope='module')
def numbas():
    pytest.importorskip('numba_cuda', reason='numba-cuda is for Linux')
    import_numba_cuda()
    import numba.cuda.random
    return numba.cuda.random


@pytest.mark.slow
@pytest.mark.parametrize('seed,start', [(0, 0), (1, 1), (2**63 + 5, 6), (2**64 - 1, 0)])
def test_states_are_those_of_numba(numbas, seed, start):
    ours, theirs = (np.empty(37, numbas.xoroshiro128p_dtype) for _ in range(2))
    numbas.init_xoroshiro128p_states_cpu(theirs, np.uint64(seed), start)
    random.init_xoroshiro128p_states_cpu(ours, seed, start)
    assert (ours == theirs).all()
    assert (random.create_xoroshiro128p_states(37, seed, start).copy_to_host() == theirs).all()


FUNCTIONS = 'next uniform_float32 uniform_float64 normal_float32 normal_float64'.split()


@cuda.jit
def drawn(states, out, whole):
    i = cuda.grid(1)
    for j in range(out.shape[1] // 4):
        whole[i, j] = random.xoroshiro128p_next(states, i)
        out[i, 4*j] = random.xoroshiro128p_uniform_float32(states, i)
        out[i, 4*j + 1] = random.xoroshiro128p_uniform_float64(states, np.uint32(i))
        out[i, 4*j + 2] = random.xoroshiro128p_normal_float32(states, i)
        out[i, 4*j + 3] = random.xoroshiro128p_normal_float64(states, i)
    random.xoroshiro128p_jump(states, i)


@pytest.mark.slow
def test_values_are_those_of_numba(numbas):
    n, m = 40, 25
    states, out, whole = random.create_xoroshiro128p_states(n, 7), np.zeros((n, 4*m)), np.zeros((n, m), np.uint64)
    drawn[2, n//2](states, out, whole)
    theirs = np.empty(n, numbas.xoroshiro128p_dtype)
    numbas.init_xoroshiro128p_states_cpu(theirs, np.uint64(7), 0)
    rows = np.array([[[getattr(numbas, f'xoroshiro128p_{f}')(theirs, i) for f in FUNCTIONS] for _ in range(m)]
                     for i in range(n)], object)
    assert (whole == rows[..., 0].astype(np.uint64)).all()
    got, want = out.reshape(n, m, 4), rows[..., 1:].astype(float)
    assert (got[..., :2] == want[..., :2]).all()
    # a math library's float32 logarithm and cosine are off by an ulp in one of a hundred
    assert np.abs(got[..., 2:] - want[..., 2:]).max() < 4*np.spacing(np.float32(np.abs(want).max()))
    for i in range(n): numbas.xoroshiro128p_jump(theirs, i)
    assert (states.copy_to_host() == theirs).all()


def test_threads_that_share_a_state_race():
    @cuda.jit
    def shared(states, out):
        i = cuda.grid(1)
        out[i] = random.xoroshiro128p_uniform_float32(states, i // 2)
    with pytest.raises(sim.RacecheckError) as e: shared[1, 8](random.create_xoroshiro128p_states(8, 1), np.zeros(8))
    assert e.value.array in ('states.s0', 'states.s1') and 'out[i] =' in str(e.value)


# libdevice


def test_libdevice_has_names_of_numbas_alone():
    pytest.importorskip('numba_cuda', reason='numba-cuda is for Linux')
    import_numba_cuda()
    theirs = importlib.import_module('numba.cuda.libdevice')
    assert len(libdevice.__all__) > 150 and all(hasattr(theirs, o) for o in libdevice.__all__)
    with pytest.raises(AttributeError, match='erfinvf'): libdevice.erfinvf


def test_libdevice_computes():
    @cuda.jit
    def k(x, n, out):
        i = cuda.grid(1)
        out[i, 0] = libdevice.sinf(x[i])
        out[i, 1] = libdevice.exp10(x[i])
        out[i, 2] = libdevice.fast_powf(x[i], 2)
        out[i, 3] = libdevice.popc(n[i]) + libdevice.clzll(n[i])
        out[i, 4] = libdevice.float_as_int(x[i])
        out[i, 5] = libdevice.float2int_rn(x[i] * 1e10) + libdevice.float2int_ru(x[i])
        s, c = libdevice.sincosf(x[i])
        out[i, 6] = s*s + c*c
        out[i, 7] = libdevice.erf(x[i]) + libdevice.round(-2.5) + libdevice.mulhi(n[i] << 20, 1 << 20)
        out[i, 8] = libdevice.saturatef(x[i]) + libdevice.isnanf(x[i]) + libdevice.umax(n[i], 3)
    x, n, out = np.array([.5, 1.25, 3], np.float32), np.array([1, 255, 7]), np.zeros((3, 9))
    k[1, 3](x, n, out)
    v = x.astype(float)
    assert out[:, 0].tolist() == np.sin(x).tolist() and np.allclose(out[:, 1], 10**v, rtol=1e-15)
    assert out[:, 2].tolist() == (x*x).tolist() and out[:, 3].tolist() == [1 + 63, 8 + 56, 3 + 61]
    assert out[:, 4].tolist() == x.view(np.int32).tolist()
    assert out[:, 5].tolist() == [2**31 - 1 + o for o in np.ceil(v)]
    assert np.allclose(out[:, 6], 1, rtol=1e-6)                 # float32: a few ulps
    assert np.allclose(out[:, 7], [math.erf(o) - 3 + (m << 8) for o, m in zip(v, n.tolist())], rtol=1e-15)
    assert out[:, 8].tolist() == [.5 + 3, 1 + 255, 1 + 7]


# the modules


def test_modules_below_numba_cuda_are_the_simulators(emulated):
    from numba import cuda as shown
    for name in submodules.MODULE_NAMESPACES:
        module = importlib.import_module(f'numba.cuda.{name}')
        assert module.__spec__.name == f'numba.cuda.{name}' and sys.modules[module.__name__] is module
    from numba.cuda import libdevice as other, random as shown_random
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.random import create_xoroshiro128p_states
    assert shown.random is shown_random and other.sinf is libdevice.sinf
    assert isinstance(create_xoroshiro128p_states(2, 1), DeviceNDArray)
    assert shown.int8 is cuda.int8 and shown.intp is cuda.types.intp and shown.warpsize == 32


@pytest.mark.parametrize('name', ['cudaimpl', 'cudadrv.nvvm', 'vectorizers'])
def test_modules_of_the_compiler_say_that_they_are_lacking(emulated, name):
    with pytest.raises(ImportError) as e: importlib.import_module(f'numba.cuda.{name}')
    assert e.value.name == f'numba.cuda.{name}' and 'numba.cuda.random' not in sys.modules
    assert not isinstance(e.value, ModuleNotFoundError)


def test_other_names_are_lacking_as_ever(emulated):
    with pytest.raises(ModuleNotFoundError): importlib.import_module('numba.cuda.nonsense')
    with pytest.raises(ImportError, match='cannot import'): from numba.cuda import nonsense  # noqa: F401


def test_modules_are_real_numba_cuda_afterwards():
    pytest.importorskip('numba_cuda', reason='numba-cuda is for Linux')
    own = import_numba_cuda()
    with as_gpu.as_gpu():
        from numba.cuda.random import xoroshiro128p_next
        assert xoroshiro128p_next is random.xoroshiro128p_next and is_simulated()
        with real_numba_cuda():
            import numba
            assert not is_simulated() and numba.cuda is own and sys.modules['numba.cuda'] is own
        assert is_simulated()
    import numba
    assert sys.modules['numba.cuda'] is own and numba.cuda is own


@pytest.mark.parametrize('before', [mark_exhaustive(''), 'import numba.cuda'])
def test_numbas_modules_are_imported_once(before):
    "Also those that are needed for the first time while the simulator's stand for them"
    code = f"""
{before}
import sys
from gridstride import as_gpu
from gridstride.support.numba_cuda import real_numba_cuda
with as_gpu.as_gpu():
    with real_numba_cuda():
        import numba.cuda.cudadecl
        first = numba.cuda, numba.cuda.cudadecl
import numba.cuda.cudadecl
assert (numba.cuda, sys.modules['numba.cuda.cudadecl']) == first
"""
    pytest.importorskip('numba_cuda', reason='numba-cuda is for Linux')
    ran = run_python('-c', code)
    assert ran.returncode == 0, ran.stderr


# copies


@cuda.jit
def doubled(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * 2
    x[i] = -1


@pytest.mark.parametrize('engine', ['lanes', 'c'])
def test_arguments_say_which_copies_are_made(engine):
    with sim.options(engine=engine):
        x, y = np.arange(4.), np.zeros(4)
        doubled[1, 4](cuda.In(x), cuda.Out(y))
        assert x.tolist() == [0, 1, 2, 3] and y.tolist() == [0, 2, 4, 6]
        doubled[1, 4](cuda.InOut(x), cuda.InOut(y))
        assert x.tolist() == [-1]*4 and y.tolist() == [0, 2, 4, 6]
        d = cuda.to_device(np.arange(4.))
        doubled[1, 4](cuda.In(d), cuda.Out(y))                   # an array on the device is there already
        assert d.copy_to_host().tolist() == [-1]*4


def test_what_is_only_copied_back_is_uninitialized():
    with pytest.raises(sim.InitcheckError) as e: doubled[1, 4](cuda.Out(np.arange(4.)), np.zeros(4))
    assert e.value.array == 'x'


# what Numba's compiler makes of a kernel


@cuda.jit(device=True)
def twice(v): return 2*v


@cuda.jit
def inspected(x, y):
    s = cuda.shared.array(1000, np.float64)
    i = cuda.grid(1)
    s[i] = twice(x[i]) + libdevice.sinf(x[i])
    cuda.syncthreads()
    y[i] = s[i]


def test_signatures_are_those_of_launches_or_declared():
    k = cuda.jit(inspected.py_func)
    assert k.signatures == [] and k.inspect_asm() == {}
    x = np.zeros(4, np.float32)
    k[1, 4](x, np.zeros(8)[::2])
    k[1, 4](x, np.zeros(8)[::2])
    k[1, 4](cuda.to_device(x), cuda.device_array(4))
    assert list(map(str, k.signatures)) == ['(float32[::1], float64[:])', '(float32[::1], float64[::1])']
    declared = cuda.jit('void(float32[:], float64[::1])')(inspected.py_func)
    assert list(map(str, declared.signatures)) == ['(float32[:], float64[::1])']
    o = declared.overloads[declared.signatures[0]]
    assert o.max_cooperative_grid_blocks(256) == 132*8 and o.max_cooperative_grid_blocks((32, 4)) == 132*16
    assert o.max_cooperative_grid_blocks(32, 40_000) == 132*4


@pytest.mark.slow
def test_what_numbas_compiler_makes_of_a_kernel(emulated, capsys):
    from numba import cuda as shown
    k = shown.jit('void(float32[::1], float64[::1])')(inspected.py_func)
    sig, = k.signatures
    try:
        ptx = k.inspect_asm(sig)
    except CompilerMissing:
        pytest.skip('Numba has no libNVVM here')
    assert '.entry' in ptx and ptx.count('.target sm_90') == 1 and list(k.inspect_asm()) == [sig]
    assert 'target triple = "nvptx64' in k.inspect_llvm(sig)
    k.inspect_types()
    assert ':: array(float32, 1d, C)' in capsys.readouterr().out
    text, result = shown.compile_ptx(twice.py_func, 'float32(float32)', device=True)
    assert '.func' in text and str(result) in ('float32', 'float64')
