"What public programs of Numba use beside CUDA's own names: loops with an else"
import numpy as np
import pytest

from gridstride import sim, to_cuda
from gridstride.sim import cuda


@pytest.fixture(params=['lanes', 'c'])
def engine(request):
    with sim.options(engine=request.param):
        yield request.param


# loops with an else


@cuda.jit
def first_zero(x, out):
    r = cuda.grid(1)
    if r < x.shape[0]:
        for j in range(x.shape[1]):
            if x[r, j] == 0:
                out[r] = j
                break
        else:
            out[r] = -1


@cuda.jit
def smallest_missing(x, out):
    r = cuda.grid(1)
    if r < x.shape[0]:
        n = 0
        while n < 5:
            for j in range(r % 2, x.shape[1]):
                if x[r, j] == 9:
                    continue
                if x[r, j] == n:
                    break
                if x[r, j] == 8:
                    return
            else:
                out[r] = n
                break
            n += 1
        else:
            out[r] = 77


@cuda.jit
def nobody_leaves(out):
    broke = cuda.grid(1)
    for i in range(broke):
        out[broke] += i
    else:
        out[broke] += 1000
    for i in (1, 2, 3):
        if i == broke:
            break
    else:
        out[broke] += 5000


def test_the_else_of_a_loop_is_for_those_who_did_not_break(engine):
    x = np.random.default_rng(0).choice([0, 1, 2, 3, 4, 8, 9], p=[0.1] + [0.2] * 4 + [0.02, 0.08], size=(200, 9))
    for k in (first_zero, smallest_missing):
        out = np.full(200, -99)
        k[7, 32](x, out)
        assert out.tolist() == [plain(k.py_func, r, x) for r in range(200)]
        assert len(set(out)) > 4
    out = np.zeros(20, np.int64)
    nobody_leaves[1, 20](out)
    assert out.tolist() == [1000 + r * (r - 1) // 2 + 5000 * (r not in (1, 2, 3)) for r in range(20)]


def plain(f, r, x):
    "What Python itself computes for thread `r`"
    out = np.full(len(x), -99)
    space = {'cuda': type('', (), dict(grid=lambda n: r, jit=lambda f: f))}
    exec(compile(__import__('inspect').getsource(f), f.__name__, 'exec'), space)
    space[f.__name__](x, out)
    return out[r]


def test_the_else_of_a_loop_in_c_is_an_if_behind_it():
    text = to_cuda(first_zero, np.zeros((2, 2), int), np.zeros(2, int)).split('#ifndef')[0]
    assert 'bool broke = false;' in text and 'if (!broke) out[r] = -1;' in text
    assert 'broke' in to_cuda(nobody_leaves, np.zeros(2, int)) and 'broke2' in to_cuda(nobody_leaves, np.zeros(2, int))
