"Types of examples, the key of a kernel in Python, and the compilers' options."
import importlib, subprocess, sys
from pathlib import Path

import numpy as np
import pytest
from gridstride.asm.kernels import CompilerOutput
from gridstride.asm.python import Numba, Triton, numba_type, signature, triton_type

X = np.zeros((4, 5), np.float32)
TPB = 64


@pytest.mark.parametrize(
    'x,want',
    [
        (X, 'float32[:, ::1]'),
        (X.T, 'float32[::1, :]'),
        (X[:, ::2], 'float32[:, :]'),
        (3, 'int64'),
        (2.5, 'float64'),
        (True, 'boolean'),
        (1j, 'complex128'),
        (np.int32(4), 'int32'),
        ((1, 2), 'UniTuple(int64, 2)'),
        ((1, 2.5), 'Tuple((int64, float64,))'),
    ],
)
def test_types_for_numba(x, want): assert numba_type(x) == want


def test_tensors_have_types_for_both():
    import torch
    assert numba_type(torch.zeros(2, 3, dtype=torch.bool)) == 'boolean[:, ::1]'
    assert triton_type(torch.zeros(4, dtype=torch.bfloat16))[0] == '*bf16'


@pytest.mark.parametrize(
    'x,want',
    [
        (4096, ('i32', True)),
        (5, ('i32', False)),
        (2**40, ('i64', True)),
        (1.5, ('fp32', False)),
        (True, ('i1', False)),
        ('*fp32', ('*fp32', False)),
    ],
)
def test_types_for_triton(x, want): assert triton_type(x) == want


def test_what_a_kernel_does_not_take_is_refused():
    with pytest.raises(TypeError, match='got str'): numba_type('a')
    with pytest.raises(TypeError, match='got list'): triton_type([1])


def test_a_signature_stands_for_examples():
    assert signature(('void(int32)',), abs) == 'void(int32)'
    assert signature((X, 3), lambda x, n: None) == 'void(float32[:, ::1], int64)'
    with pytest.raises(TypeError, match=r'\(x, n\)'): signature((1,), lambda x, n: None)


@pytest.fixture
def turned():
    "A kernel that reads a number and calls a function from outside"
    from gridstride.sim import cuda

    @cuda.jit(device=True)
    def twice(x): return 2*x

    @cuda.jit
    def turned_k(x, out, n):
        s = cuda.shared.array(TPB, np.float32)
        i = cuda.grid(1)
        if i < n: s[cuda.threadIdx.x] = twice(x[i])
        cuda.syncthreads()
        if i < n: out[i] = s[TPB-1-cuda.threadIdx.x]
    return turned_k


def test_the_key_is_of_types_and_of_what_is_used_not_of_values(turned, monkeypatch):
    a = np.zeros(100, np.float32)
    key = Numba(turned, (a, a, 100)).key
    assert Numba(turned, (a, a, 5)).key == key != Numba(turned, (a, a[::2], 100)).key
    monkeypatch.setitem(globals(), 'TPB', 32)
    assert Numba(turned, (a, a, 100)).key != key


def test_captured_numbers_reach_the_compiler(turned, monkeypatch):
    a = np.zeros(100, np.float32)
    assert Numba(turned, (a, a, 100)).compile('sm_90', True, ()).resources['shared'] == 4*TPB
    monkeypatch.setitem(globals(), 'TPB', 32)
    assert Numba(turned, (a, a, 100)).compile('sm_80', True, ()).resources['shared'] == 4*32


def test_fast_math_is_requested():
    from numba import cuda

    @cuda.jit(fastmath=True)
    def scale_k(x, a):
        i = cuda.grid(1)
        if i < x.size: x[i] = x[i]/a
    assert 'div.approx' in Numba(scale_k, ('void(float32[::1], float32)',)).compile('sm_90', True, ()).ptx


@pytest.mark.slow
def test_numba_is_imported_whole_where_numpy_has_no_row_stack():
    "As NumPy 2.5 has none, which numba-cuda names when it compiles its first kernel"
    pytest.importorskip('numba_cuda')
    code = """
import numpy as np
if hasattr(np, 'row_stack'): del np.row_stack
from gridstride.support.numba_cuda import import_numba_cuda
cuda = import_numba_cuda()
import numba.cuda.np.arrayobj
assert cuda.jit and not hasattr(np, 'row_stack')
"""
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_lecture_s_own_import_of_numba_works_after_utils_where_numpy_has_no_row_stack():
    pytest.importorskip('numba_cuda')
    code = """
import numpy as np
if hasattr(np, 'row_stack'): del np.row_stack
from utils import show_img, load_cuda
from numba import cuda
import numba.cuda.np.arrayobj
assert cuda.jit and show_img and load_cuda and not hasattr(np, 'row_stack')
"""
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], capture_output=True, text=True,
                          cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


SCALED = """
import triton, triton.language as tl
SCALE = tl.constexpr(3)
@triton.jit
def scaled(v): return v*SCALE
@triton.jit
def scale_k(x, BLOCK: tl.constexpr): tl.store(x + tl.arange(0, BLOCK), scaled(tl.load(x + tl.arange(0, BLOCK))))
"""


def test_what_triton_made_is_kept(tmp_path, monkeypatch):
    "Until anything is another that decides it: a function that it calls, a constant, an option, a variable of Triton's"
    if sys.platform != 'linux': pytest.skip('Triton is for Linux')
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'cache'))
    monkeypatch.syspath_prepend(tmp_path)
    compiled = []
    def compile_counted(self, triton, source, arch):
        compiled.append(arch)
        return CompilerOutput('ptx', 'scale_k', b'cubin', dict(turn=len(compiled)), 'Triton')
    monkeypatch.setattr(Triton, '_compile', compile_counted)
    def turn(name, *changes, arch='sm_90', opt=True, x=np.zeros(64, np.float32), **options):
        "At which call its argument was compiled"
        text = SCALED
        for old, new in changes: text = text.replace(old, new)
        (tmp_path/f'{name}.py').write_text(text)
        unit = Triton(importlib.import_module(name).scale_k, (x,), dict(BLOCK=64, **options))
        unit.file = 'scale.py'
        return unit.compile(arch, opt, ()).resources['turn']
    assert [turn('one'), turn('same'), turn('same', opt=False), turn('same', arch='sm_80')] == [1, 1, 2, 3]
    assert [turn('called', ('v*SCALE', 'v+SCALE')), turn('constant', ('(3)', '(4)'))] == [4, 5]
    assert [turn('same', num_warps=8), turn('same', x=np.zeros(64, np.int32)), turn('same')] == [6, 7, 1]
    monkeypatch.setenv('TRITON_CACHE_DIR', str(tmp_path/'elsewhere'))
    assert [turn('same'), turn('same')] == [8, 8]
