"""Blocks of the simulator that wait for other blocks: those that fit on the device together make
progress together, in every order."""
import importlib.util, inspect, warnings
from pathlib import Path

import numpy as np
import pytest

from gridstride import sim
from gridstride.diagnostics.errors import EarlyReturn
from gridstride.sim import cuda, spin_wait
from gridstride.sim.program import Program
from found import warning

_spec = importlib.util.spec_from_file_location('numba_judge', Path(__file__).parent/'numba_gpu/judge.py')
judge = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(judge)
RECORD, MLIR_RECORD = judge.recorded(), judge.recorded('mlir_h200.json')
ORDERS = 'forward', 'reverse', 'shuffle'


def ints(n): return np.zeros(n, np.int32)
def line_of(kernel, text):
    return next(i for i, o in enumerate(open(kernel.py_func.__code__.co_filename), 1)
                if text in o and i > kernel.py_func.__code__.co_firstlineno)


@cuda.jit
def never(flag):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(flag, 0, 0) == 0: pass        # never


@cuda.jit
def look_ahead(flags, out):                                 # each block waits for the one after it
    s = cuda.shared.array(4096, np.float64)
    b = cuda.blockIdx.x
    s[0] = 0.
    if b + 1 < cuda.gridDim.x:
        while cuda.atomic.add(flags, b + 1, 0) == 0: pass   # ahead
        cuda.threadfence()
        out[b] = out[b + 1] + b
    else: out[b] = b
    cuda.threadfence()
    cuda.atomic.exch(flags, b, 1)


@cuda.jit(device=True)
def is_set(flags, i): return cuda.atomic.max(flags, i, 0) == 1


@cuda.jit(device=True)
def wait_for(flags, i):
    tries = 0
    while not is_set(flags, i): tries += 1
    cuda.threadfence()
    return tries


@cuda.jit
def by_functions(flags, data, out):
    b, last = cuda.blockIdx.x, cuda.gridDim.x - 1
    if b == last: data[0] = 7
    elif wait_for(flags, b + 1) >= 0: out[b] = data[0]
    cuda.threadfence()
    cuda.atomic.add(flags, b, 1)


@cuda.jit
def gives_up(flags, out):
    b, tries = cuda.blockIdx.x, 0
    while True:
        set_ = cuda.atomic.add(flags, 0, 0)
        if set_ or tries == 100: break
        tries += 1
    out[b] = tries


@cuda.jit
def meets_between(flags, a, out):                           # the grid's barrier, and a flag
    b, n = cuda.blockIdx.x, cuda.gridDim.x
    grid = cuda.cg.this_grid()
    a[b] = b
    grid.sync()
    if b > 0:
        while cuda.atomic.add(flags, b - 1, 0) == 0: pass
    out[b] = a[n - 1 - b]
    cuda.atomic.add(flags, b, 1)
    grid.sync()
    a[b] = out[(b + 1) % n]


@cuda.jit
def never_meets(flags):
    grid = cuda.cg.this_grid()
    if cuda.blockIdx.x == 1: return
    while cuda.atomic.add(flags, 0, 0) == 1: pass
    grid.sync()                                             # without block 1


@cuda.jit
def meets(a, wrong):
    i = cuda.grid(1)
    if i >= a.size or wrong and cuda.threadIdx.x == 0 and cuda.blockIdx.x == 1: return
    a[i] = i
    cuda.cg.this_grid().sync()                              # for all
    a[a.size - 1 - i] += 1


@cuda.jit
def queue(jobs, x, out):                                    # no block waits here
    i = cuda.grid(1)
    while i < x.size:
        at = cuda.atomic.add(jobs, 0, 1)
        out[at] = x[i]
        i += cuda.gridsize(1)


@pytest.fixture(params=ORDERS, autouse=True)
def order(request):
    with sim.options(order=request.param, seed=3, engine='lanes'): yield request.param


def found(error, kernel, *args):
    with pytest.raises(error) as e: kernel(*args)
    return e.value


# Where Numba on a GPU does something else, and why that is not followed
GAPS = 'numba-cuda refuses a host array with gaps, which it should copy'
LAUNCHES = {'a fraction of shared memory': 'Numba cuts it off', 'one too many': 'Numba drops it'}
# Where numba-cuda-mlir 0.6.0 on a GPU does something else than the simulator, and why. checker/README lists the same
FENCES = 'numba-cuda-mlir does not lower cuda.threadfence, and its compiler stops with an error of its own'
MLIR = {
    **{p.__name__: FENCES for p in judge.PROGRAMS if 'cuda.threadfence' in inspect.getsource(p)},
    'host_arrays_are_copied_back': GAPS, 'launches': 'as Numba, it drops one argument too many',
}
# Launches that Numba and numba-cuda-mlir refuse with different exceptions: (of Numba, of numba-cuda-mlir)
MLIR_ERRORS = {
    'negative shared memory': ('CUDAError', 'ValueError'), 'too much shared memory': ('CUDAError', 'ValueError'),
    'a fraction of shared memory': ('runs', 'TypeError'), 'no blocks': ('ValueError', 'CUDAError'),
    'no threads': ('ValueError', 'CUDAError'), 'one argument too few': ('TypeError', 'IndexError'),
    'a list': ('NumbaRuntimeError', 'KeyError'), 'a read-only array': ('TypingError', 'ValueError'),
}


@pytest.mark.one_order
@pytest.mark.parametrize('program', judge.PROGRAMS[:-1])
def test_programs_give_what_numba_gives_on_a_gpu(program):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', EarlyReturn)
        got = judge.plain(program(cuda))
    want = RECORD[program.__name__]['gives']
    if program is judge.host_arrays_are_copied_back:
        assert want.startswith('ValueError: Buffer size'), GAPS
        want = [1, 2, 3, 4, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0]
    assert got == want


def test_launches_are_refused_as_by_numba(order):
    if order == 'forward':
        got, want = judge.launches(cuda), RECORD['launches']['gives']
        assert 'runs' not in got.values() and {k for k, v in want.items() if v == 'runs'} == set(LAUNCHES)


def outcome(gives):
    "What programs and launches give, whatever exception refuses a launch"
    return {k: v == 'runs' for k, v in gives.items()} if isinstance(gives, dict) else gives


@pytest.mark.parametrize('order', ['forward'], indirect=True)
def test_each_difference_from_numba_cuda_mlir_has_a_reason(order):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', EarlyReturn)
        ours = {p.__name__: outcome(judge.plain(p(cuda))) for p in judge.PROGRAMS}
    theirs = {name: outcome(program['gives']) for name, program in MLIR_RECORD.items()}
    assert {name for name in ours if ours[name] != theirs[name]} == set(MLIR)
    errors = {theirs[name].split(':')[0] for name, why in MLIR.items() if why is FENCES}
    assert errors == {'UserFacingInternalCompilerError'}


def test_each_other_exception_of_numba_cuda_mlir_is_listed():
    numba, mlir = RECORD['launches']['gives'], MLIR_RECORD['launches']['gives']
    assert {k: (numba[k], mlir[k]) for k in numba if numba[k] != mlir[k]} == MLIR_ERRORS


@pytest.mark.parametrize('record', [RECORD, MLIR_RECORD], ids=['numba', 'mlir'])
def test_the_record_is_of_these_programs(record):
    assert {k: v['source'] for k, v in record.items()} == {p.__name__: judge.digest(p) for p in judge.PROGRAMS}, (
        'programs have changed since they ran on a GPU: run tests/numba_gpu/judge.py')


def test_the_same_compiled():
    out = ints(40)
    with sim.options(engine='c'): look_ahead[40, 1](ints(40), out)
    assert (out == np.cumsum(np.arange(40)[::-1])[::-1]).all()


def test_a_poll_in_a_function():
    out = ints(20)
    by_functions[20, 1](ints(20), ints(1), out)
    assert (out[:-1] == 7).all()


def test_who_looks_a_number_of_times_gives_up():
    out = ints(5)
    gives_up[5, 1](ints(1), out)
    assert (out == 100).all()


def test_a_flag_and_the_barrier_of_the_grid():
    a, out = ints(20), ints(20)
    meets_between[20, 1](ints(20), a, out)
    assert (out == np.arange(20)[::-1]).all() and (a == np.roll(out, -1)).all()


def test_what_never_comes_ends_with_its_line():
    e = found(sim.SynccheckError, never[7, 64], ints(1))
    assert e.code == 'endless_wait' and e.line == line_of(never, '# never') and 'engine' not in str(e)
    e = found(sim.SynccheckError, never[300, 1024], ints(1))
    assert (e.code, e.fields['resident'], e.fields['blocks']) == ('not_resident', 264, 300)
    assert e.line == line_of(never, '# never')
    with sim.options(checks='none'): assert found(sim.SynccheckError, never[3, 1], ints(1)).code == 'endless_wait'


@cuda.jit
def count_up(a):
    while a[0] < 3000: a[0] += 1


@pytest.mark.one_order
@pytest.mark.parametrize('checks', ['all', 'memcheck', 'none'])
def test_a_loop_whose_own_stores_end_it_is_not_a_deadlock(checks):
    a = ints(1)
    with sim.options(checks=checks): count_up[1, 1](a)
    assert a[0] == 3000


@pytest.mark.slow
def test_shared_memory_limits_resident_blocks_too(order):
    n, flags, out = 900, ints(900), ints(900)
    if order == 'reverse': return look_ahead[n, 1](flags, out)
    e = found(sim.SynccheckError, look_ahead[n, 1], flags, out)
    assert (e.code, e.fields['resident'], e.fields['blocks']) == ('not_resident', 792, 900)
    assert e.line == line_of(look_ahead, '# ahead')


def test_the_barrier_of_the_grid_excuses_who_has_returned_but_not_the_first_of_a_block():
    a = ints(230)
    with warning('returned', here=38, threads=64): meets[4, 64](a, False)
    assert (a == np.arange(230) + 1).all()
    e = found(sim.SynccheckError, meets[4, 64], a, True)
    assert e.code == 'grid_diverged' and (e.fields['thread'], e.fields['in_block']) == ((0, 0, 0), (1, 0, 0))
    assert e.line == line_of(meets, '# for all')
    e = found(sim.SynccheckError, never_meets[3, 32], ints(1))
    assert e.code == 'grid_diverged' and (e.fields['thread'], e.fields['in_block']) == ((0, 0, 0), (1, 0, 0))
    assert e.line == line_of(never_meets, '# without')
    e = found(sim.LaunchError, meets[265, 1024], ints(265 * 1024), False)
    assert (e.code, e.fields['blocks'], e.fields['resident']) == ('cooperative_size', 265, 264)


def test_blocks_that_do_not_wait_run_in_step():
    assert not any(Program(k.py_func).may_spin for k in (queue, meets))
    assert all(Program(k.py_func).may_spin for k in (never, look_ahead, by_functions, gives_up))


@cuda.jit(device=True)
def meet_all(): cuda.cg.this_grid().sync()
@cuda.jit
def met(x):
    x[cuda.grid(1)] = 1
    cuda.cg.this_grid().sync()
@cuda.jit
def met_in_a_function(x, y):
    i = cuda.grid(1)
    x[i] = i
    meet_all()
    y[i] = x[x.size - 1 - i]
@cuda.jit
def met_with_arrays(x):
    s = cuda.shared.array(5000, np.float64)
    s[cuda.threadIdx.x] = x[0]
    cuda.cg.this_grid().sync()

def test_a_cooperative_launch_of_too_many_blocks_takes_no_memory(monkeypatch):
    def no_memory(*args): raise MemoryError
    x = ints(1)
    with monkeypatch.context() as m:
        m.setattr('gridstride.sim.launch.Group', no_memory)
        for kernel, args in (met, (x,)), (met_in_a_function, (x, x)):
            with pytest.raises(sim.LaunchError) as e: kernel[100_000, 1024](*args)
            assert e.value.code == 'cooperative_size'
            assert (e.value.fields['blocks'], e.value.fields['resident']) == (100_000, 264)
    monkeypatch.setattr('gridstride.sim.intrinsics.allocate_array', no_memory)
    with pytest.raises(sim.LaunchError) as e: met_with_arrays[4000, 32](x)
    assert (e.value.code, e.value.fields['blocks'], e.value.fields['resident']) == ('cooperative_size', 4000, 660)

@pytest.mark.parametrize('order', ORDERS)
def test_the_barrier_of_the_grid_may_be_in_a_function(order):
    x, y = ints(20_000), ints(20_000)
    with sim.options(order=order): met_in_a_function[200, 100](x, y)
    assert (y == np.arange(20_000)[::-1]).all()


def test_each_device_function_is_analysed_once_however_many_calls_lead_to_it(monkeypatch):
    def calling(previous):
        @cuda.jit(device=True)
        def called_twice(x): return previous(x) + previous(x) if x < 0 else x
        return called_twice

    called, analysed = abs, []
    for _ in range(12): called = calling(called)

    @cuda.jit
    def kernel(out): out[0] = called(out[0])

    tree_of = spin_wait.tree_of
    monkeypatch.setattr(spin_wait, 'tree_of', lambda fn: analysed.append(fn) or tree_of(fn))
    kernel[1, 1](np.ones(1))
    assert len(analysed) == 2 * 12 + 11  # for two questions about the kernel, and one about `called`
