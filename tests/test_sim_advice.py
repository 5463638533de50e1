"""What the advice on a finding in Python is made of, with either engine: the calls of both accesses of a race, the
index that is wrong. What is held is the code of the advice and its fields, not its wording."""
import numpy as np, pytest

from gridstride import sim
from gridstride.diagnostics.errors import KernelCrash, MemcheckError, RacecheckError
from gridstride.sim import cuda

ENGINES = pytest.mark.parametrize('engine', ['lanes', 'c'])


@cuda.jit(device=True)
def all_of(v, buf):
    t = cuda.threadIdx.x
    buf[t] = v                                                               # put
    cuda.syncthreads()
    s = 0.
    for i in range(cuda.blockDim.x): s += buf[i]                             # get
    return s


@cuda.jit(device=True)
def closed(v, buf):
    s = all_of(v, buf)
    cuda.syncthreads()
    return s


@cuda.jit
def twice(x, out):
    buf = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    a = all_of(x[t], buf)                                                    # first
    b = all_of(x[t]*x[t], buf)                                               # second
    out[t] = a + b


@cuda.jit
def looped(x, out):
    buf = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    for k in range(3):
        out[t] += all_of(x[t], buf)                                          # looped


@cuda.jit
def closed_twice(x, out):
    buf = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    out[t] = closed(x[t], buf) + closed(x[t], buf)


LINES = open(__file__).read().split('\n')


def at(name): return next(n for n, line in enumerate(LINES, 1) if line.endswith(f' # {name}'))


def calls(o): return [(c.function, c.line) for c in o.calls]


@ENGINES
@pytest.mark.parametrize('kernel,first,second,advice,fields', [
    (twice, 'first', 'second', 'called_twice', lambda: dict(function='all_of', earlier=at('first'), now=at('second'))),
    (looped, 'looped', 'looped', 'called_in_loop', lambda: dict(function='all_of', line=at('looped')))])
def test_both_accesses_of_a_race_name_the_calls_that_led_there(kernel, first, second, advice, fields, engine):
    with sim.options(engine=engine), pytest.raises(RacecheckError) as e:
        kernel[1, 64](np.ones(64, 'f'), np.zeros(64, 'f'))
    assert calls(e.value) == [('all_of', at('put')), (kernel.__name__, at(second))]
    assert calls(e.value.other) == [('all_of', at('get')), (kernel.__name__, at(first))]
    assert e.value.call_line == at(second)
    assert (e.value.advice, e.value.advice_fields) == (advice, fields())


@ENGINES
def test_a_function_that_ends_with_a_barrier_may_be_called_twice(engine):
    out = np.zeros(64, 'f')
    with sim.options(engine=engine): closed_twice[1, 64](np.ones(64, 'f'), out)
    assert (out == 128).all()


@cuda.jit
def swapped(x, out):
    c, r = cuda.grid(2)
    if r < out.shape[0] and c < out.shape[1]: out[r, c] = x[c, r]


@cuda.jit
def and_for_or(x, out):
    r, c = cuda.grid(2)
    if r >= out.shape[0] and c >= out.shape[1]: return
    out[r, c] = x[r, c]


@cuda.jit
def or_for_and(x, out):
    r, c = cuda.grid(2)
    if r < out.shape[0] or c < out.shape[1]:
        out[r, c] = x[r, c]


@ENGINES
@pytest.mark.parametrize('kernel,advice,fields', [
    (swapped, 'swapped_axes', dict(expr='c, r', corrected='r, c', axis=0)),
    (and_for_or, 'wrong_connective', dict(connective='and', corrected='or')),
    (or_for_and, 'wrong_connective', dict(connective='or', corrected='and'))])
def test_the_advice_on_an_index_names_what_is_wrong(kernel, advice, fields, engine):
    with sim.options(engine=engine), pytest.raises(MemcheckError) as e:
        kernel[(2, 4), (16, 8)](np.ones((4, 25)), np.ones((4, 25)))
    assert e.value.advice == advice and fields.items() <= e.value.advice_fields.items()


@cuda.jit
def count(x):
    i = cuda.grid(1)
    if i < x.size: x[i] = i


def test_a_race_in_an_expanded_array_is_reported_as_such():
    x = np.lib.stride_tricks.as_strided(np.zeros(1), (64,), (0,))
    with pytest.raises(RacecheckError) as e: count[1, 64](x)
    assert e.value.advice == 'expanded'
    with pytest.raises(RacecheckError) as e: same[1, 64](np.zeros(1))
    assert e.value.advice == 'one_element'


@cuda.jit
def same(x): x[0] = cuda.threadIdx.x


@cuda.jit
def divide(x, by, out):
    i = cuda.grid(1)
    if i < x.size: out[i] = x[i]//by + x[i] % by


def test_the_smallest_integer_divided_by_minus_1_is_not_a_division_by_0():
    smallest = np.iinfo(np.int64).min
    with pytest.raises(KernelCrash) as e: divide[1, 4](np.array([5, smallest]), -1, np.zeros(2, np.int64))
    assert (e.value.code, e.value.thread) == ('division_overflows', (1, 0, 0))
    with pytest.raises(KernelCrash) as e: divide[1, 4](np.array([5, smallest]), 0, np.zeros(2, np.int64))
    assert e.value.code == 'division'
    out = np.zeros(2, np.int64)
    divide[1, 4](np.array([5, np.iinfo(np.int32).min], np.int32), -1, out)    # computed with 64 bits
    assert list(out) == [-5, 2**31]
    divide[1, 4](np.array([5, smallest + 1]), -1, out)
    assert list(out) == [-5, 2**63 - 1]
