"""What the simulator takes, and how it types it, against numba-cuda's own front end, which needs no GPU."""
import linecache

import numpy as np
import pytest

from gridstride import sim
from gridstride.support.numba_cuda import import_numba_cuda
from gridstride.sim import cuda
from gridstride.sim.arithmetic import compare
from gridstride.sim.atomics import atomic_types

pytest.importorskip('numba_cuda', reason='numba-cuda is for Linux')

INTEGERS = [f'{sign}int{n}' for sign in ('', 'u') for n in (8, 16, 32, 64)] + ['bool']


def typed(f, *args):
    "The types that numba-cuda finds in `f`: the signature of each operation or call"
    import_numba_cuda()
    from numba.cuda import compiler, types
    made = compiler.compile_cuda(f, types.void, args, cc=(9, 0))
    return [str(o) for o in made.type_annotation.calltypes.values()]


def numba_type(dtype):
    from numba.cuda import types
    return getattr(types, dtype.replace('bool', 'boolean'))


def less(x, y): x < y  # noqa: B015


@pytest.mark.slow
def test_integers_are_compared_in_the_type_that_numba_takes():
    "As float64, and only as such, 2**53 and 2**53 + 1 are equal"
    as_float = set()
    for a in INTEGERS:
        for b in INTEGERS:
            found, = typed(less, numba_type(a), numba_type(b))
            if found.startswith('(float64'): as_float.add(frozenset((a, b)))
            x, y = np.array([2**53 + 1]).astype(a), np.array([2**53]).astype(b)
            kind = float if found.startswith('(float64') else int
            assert compare('Lt', y, x)[0] == (kind(y[0]) < kind(x[0])), (a, b)
    assert as_float == {frozenset(('uint64', f'int{n}')) for n in (8, 16, 32, 64)}


ATOMICS = 'add sub max min nanmax nanmin and_ or_ xor inc dec exch cas compare_and_swap'.split()
ELEMENTS = [*INTEGERS, 'float16', 'float32', 'float64', 'complex64', 'complex128']


def atomic_kernel(name):
    "The code of a kernel with one atomic operation, whose source can be read"
    given = dict(cas='x, 0, v, v', compare_and_swap='x, v, v').get(name, 'x, 0, v')
    source, file = f'def k(x, v):\n    cuda.atomic.{name}({given})\n', f'<atomic {name}>'
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    return compile(source, file, 'exec')


def kernel_of(code, cuda):
    space = dict(cuda=cuda)
    exec(code, space)
    return space['k']


@pytest.mark.parametrize('name', ATOMICS)
def test_atomics_take_what_numba_takes(name):
    real, code = import_numba_cuda(), atomic_kernel(name)
    from numba.core.errors import TypingError
    for dtype in ELEMENTS:
        t = numba_type(dtype)
        try:
            typed(kernel_of(code, real), t[:], t)
            taken = True
        except TypingError:
            taken = False
        assert (dtype in atomic_types(name)) == taken, dtype
        k = cuda.jit(kernel_of(code, cuda))
        x = np.ones(1, dtype)
        if taken:
            k[1, 1](x, x[0])
            continue
        for engine, kind in dict(lanes=sim.NotCompiled, c=NotImplementedError).items():
            with sim.options(engine=engine), pytest.raises(kind) as e: k[1, 1](x, x[0])
            assert e.value.line == (None if engine == 'c' and x.dtype.kind == 'c' else 2)
