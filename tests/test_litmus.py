"The litmus programs of `litmus.py` on the simulator, both engines, on the emulator and on `tile`."
import linecache
from functools import lru_cache

import engine_unit
import litmus
import numpy as np
import pytest
import torch
from gridstride import cpp, sim, tile
from gridstride.cpp import cuda_kernel
from gridstride.diagnostics.errors import RacecheckError
from gridstride.sim import cuda


def arrays(n): return [np.zeros(n, np.int32) for _ in range(5)]


def cell(source, **names):
    "The functions of a text, whose lines the engines can read"
    file = f'<litmus {abs(hash(source))}>'
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    exec(compile(source, file, 'exec'), names)
    return names


def outcome(o, launch, grid, wrap=np.asarray):
    "The code of the race that a launch finds, None if it finds nothing and the result is right"
    x, y, flag, part, out = arrays(64)
    try: launch(*map(wrap, (x, y, flag, part, out)), grid)
    except RacecheckError as e: return e.code
    assert litmus.is_right(o, x, out), (x, out)


def on_simulator(o, **options):
    kernel = cell(litmus.numba(o), cuda=cuda)[litmus.kernel_name(o)]
    grid, block = litmus.launch(o)
    with sim.options(seed=3, **options): return outcome(o, kernel[grid, block], max(grid, block))


@lru_cache
def compiled():
    programs = litmus.programs('cuda')
    text = '#include <cuda/atomic>\n' + ''.join(map(litmus.cuda_c, programs))
    return cuda_kernel(text, list(map(litmus.kernel_name, programs)))


def names(o): return o.name


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
@pytest.mark.parametrize('o', litmus.programs('python'), ids=names)
def test_on_the_simulator(o, order): assert on_simulator(o, order=order, engine='lanes') == o.finds


@pytest.fixture(scope='module')
def one_unit():
    with engine_unit.compiled([test_on_the_compiled_simulator]): yield


@pytest.mark.slow
@pytest.mark.usefixtures('one_unit')
@pytest.mark.parametrize('o', litmus.programs('python'), ids=names)
def test_on_the_compiled_simulator(o): assert on_simulator(o, engine='c') == o.finds


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
@pytest.mark.parametrize('o', litmus.programs('cuda'), ids=names)
def test_on_the_emulator(o, order):
    grid, block = litmus.launch(o)
    with cpp.options(order=order, seed=3):
        assert outcome(o, compiled()[litmus.kernel_name(o)][grid, block], max(grid, block)) == o.finds


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
@pytest.mark.parametrize('o', [o for o in litmus.programs('triton') if not litmus.is_within_block(o)], ids=names)
def test_on_tile(o, order):
    triton = pytest.importorskip('triton', reason="the kernels are under Triton's jit")
    kernel = cell(litmus.triton(o), triton=triton, tl=triton.language)[litmus.kernel_name(o)]
    grid, _ = litmus.launch(o)
    with tile.options(order=order, seed=3):
        assert outcome(o, tile.checked(kernel)[grid,], grid, torch.from_numpy) == o.finds_in_triton


def test_each_shape_is_right_and_wrong_in_each_language():
    for language in 'python', 'cuda', 'triton':
        found = {(o.name.split()[0], o.finds is None) for o in litmus.programs(language)}
        assert {(shape, right) for shape in ('message', 'store', 'load', 'counter', 'lock', 'ticket')
                for right in (True, False)} <= found
