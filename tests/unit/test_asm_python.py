"Types of examples, the key of a kernel in Python, and what the compilers are told."
import subprocess, sys

import numpy as np
import pytest
from gridstride.asm.python import Numba, numba_type, signature, triton_type

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
    with pytest.raises(TypeError, match='not str'): numba_type('a')
    with pytest.raises(TypeError, match='not list'): triton_type([1])


def test_a_signature_stands_for_examples():
    assert signature(('void(int32)',), abs) == 'void(int32)'
    assert signature((X, 3), lambda x, n: None) == 'void(float32[:, ::1], int64)'
    with pytest.raises(TypeError, match=r'takes 2 arguments \(x, n\)'): signature((1,), lambda x, n: None)


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


def test_numbers_from_outside_reach_the_compiler(turned, monkeypatch):
    a = np.zeros(100, np.float32)
    assert Numba(turned, (a, a, 100)).make('sm_90', True, ()).takes['shared'] == 4*TPB
    monkeypatch.setitem(globals(), 'TPB', 32)
    assert Numba(turned, (a, a, 100)).make('sm_80', True, ()).takes['shared'] == 4*32


def test_fast_mathematics_is_asked_for():
    from numba import cuda

    @cuda.jit(fastmath=True)
    def scale_k(x, a):
        i = cuda.grid(1)
        if i < x.size: x[i] = x[i]/a
    assert 'div.approx' in Numba(scale_k, ('void(float32[::1], float32)',)).make('sm_90', True, ()).ptx


def test_numba_is_imported_whole_where_numpy_has_no_row_stack():
    "As NumPy 2.5 has none, which numba-cuda names when it compiles its first kernel"
    pytest.importorskip('numba_cuda')
    code = """
import numpy as np
if hasattr(np, 'row_stack'): del np.row_stack
from gridstride.numba_cuda import import_numba_cuda
cuda = import_numba_cuda()
import numba.cuda.np.arrayobj
assert cuda.jit and not hasattr(np, 'row_stack')
"""
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
