"""What the simulator takes, and how it types it, against numba-cuda's own front end, which needs no GPU."""
import numpy as np
import pytest

from gridstride.numba_cuda import import_numba_cuda
from gridstride.sim.arithmetic import compare

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
