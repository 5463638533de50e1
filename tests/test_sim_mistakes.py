"What a newcomer to the simulator writes by mistake, and what it says: which line, and what to write instead"
import inspect
import linecache
import math
import re
import sys
import warnings

import numpy as np
import pytest

from gridstride import sim
from gridstride.diagnostics.errors import KernelError
from gridstride.sim import cuda
from found import saying


@cuda.jit
def write_one(x):
    x[cuda.grid(1)] = 1


@cuda.jit(device=True)
def twice(v):
    return v * 2


@cuda.jit
def part_called(x):
    x[cuda.threadIdx.x()] = 1


@cuda.jit
def array_called(x):
    x[0] = x(1)


@cuda.jit
def buffer_from_call(x):
    s = cuda.shared(4, np.float32)
    x[0] = s[0]


@cuda.jit
def one_grid_for_two(x):
    i, j = cuda.grid(1)
    x[i] = j


@cuda.jit
def two_of_three(x):
    i, j = cuda.grid(3)
    x[i] = j


@cuda.jit
def below_zero(x):
    s = cuda.shared.array((4, -4), np.float32)
    x[0] = s[0, 0]


@cuda.jit
def no_such_type(x):
    s = cuda.local.array(4, 'floot32')
    x[0] = s[0]


@cuda.jit
def no_such_atomic(x):
    cuda.atomic.addd(x, 0, 1)


@cuda.jit
def no_such_root(x):
    x[0] = math.sqroot(x[1])


@cuda.jit
def no_mask(x):
    x[0] = cuda.shfl_down(0xFFFFFFFF, x[0], 1)


@cuda.jit
def no_such_axis(x):
    x[cuda.threadIdx.w] = 1


@cuda.jit
def sum_of_all(x):
    x[0] = np.sum(x)


@cuda.jit
def launches(x):
    write_one[1, 1](x)


@cuda.jit
def yields(x):
    yield x[0]


@cuda.jit
def any_number(*xs):
    xs[0][0] = 1


@cuda.jit
def remainder_of_it(x):
    i, *_rest = (1, 2, 3)
    x[0] = i


@pytest.mark.parametrize('kernel,says', [
    (part_called, saying('a number', 'function')), (array_called, saying('an array', 'called')),
    (buffer_from_call, r'cuda\.shared .*cuda\.shared\.array'),
    (one_grid_for_two, saying('one value', '2 names:', 'cuda.grid(2)')), (two_of_three, '3 values .*2 names'),
    (below_zero, '4 x -4'),
    (no_such_type, r"'floot32' .*np\.float32"),
    (no_such_atomic, r"cuda\.atomic .*'addd'(.|\n)*'add'"), (no_such_root, "'sqrt'"),
    (no_mask, r'cuda\.shfl_down_sync'), (no_such_axis, 'cuda.threadIdx has .x, .y and .z'),
    (sum_of_all, 'a loop'), (launches, 'cannot launch write_one'),
    (yields, 'an array'), (any_number, 'parameters'),
    (remainder_of_it, 'a name')])  # fmt: skip
@pytest.mark.parametrize('threads', [1, 32])
def test_a_mistake_in_a_kernel_says_what_to_write(kernel, says, threads):
    with pytest.raises((TypeError, ValueError, AttributeError, sim.NotSimulated)) as e:
        kernel[1, threads](np.zeros(64, 'f4'))
    assert re.search(says, '\n'.join([str(e.value), *getattr(e.value, '__notes__', ())]))


@pytest.mark.parametrize('given,says', [
    (np.zeros(4, '>f4' if sys.byteorder == 'little' else '<f4'), r'x has elements of .*[<>]f4(.|\n)*astype'),
    (np.zeros(4, np.longdouble), r'x has elements of .*(float|long)(.|\n)*astype'),
    (np.ma.zeros(4), r'masked array.*x\.filled')])  # fmt: skip
def test_an_array_that_no_gpu_has_is_refused_as_by_numba(given, says):
    if given.dtype == np.float64 and not np.ma.isMaskedArray(given):
        pytest.skip('a long double is a double here')
    with pytest.raises((TypeError, sim.NotSimulated), match=says):
        write_one[1, 4](given)


def test_a_tensor_that_numpy_does_not_have_is_refused():
    torch = pytest.importorskip('torch')
    for given, says in (
        (torch.zeros(4).to_sparse(), r'x\.to_dense'),
        (torch.zeros(4, dtype=torch.bfloat16), r'x\.float\(\)'),
        (torch.zeros(4, device='meta'), r'x\.cpu\(\)'),
    ):
        with pytest.raises(sim.NotSimulated, match=says):
            write_one[1, 4](given)


def test_an_array_that_becomes_a_number_in_some_threads_is_reported_briefly():
    @cuda.jit
    def k(x, out):
        if cuda.grid(1) == 0:
            out = x[0]
        out[cuda.grid(1)] = 1

    says = r'a variable cannot be a number in some threads and an array in others\n(.|\n)*`out\[i\] = \.\.\.`'
    with pytest.raises(sim.NotSimulated, match=says):
        k[1, 4](np.ones(4), np.ones(4))


@pytest.mark.parametrize('given', [print, 3, int])
def test_only_a_function_becomes_a_kernel(given):
    with pytest.raises(TypeError, match=r'cuda\.jit .*function'):
        cuda.jit(given)
    with pytest.raises(TypeError, match=r'cuda\.jit .*function'):
        cuda.jit('void(float32[:])')(given)


def test_a_device_function_has_no_brackets():
    with pytest.raises(RuntimeError, match='device function'):
        twice[1, 1](2)


class Unfit(ValueError):
    "An exception of a program's own"


class Pair(KeyError):
    "An exception that takes two arguments, and so cannot be made of a text"
    def __init__(self, a, b): super().__init__(a, b)


@cuda.jit(device=True)
def need_positive(v):
    if v < 0:
        raise Unfit('negative', v)              # here
    return v


@cuda.jit
def raises_in_a_function(x): x[cuda.grid(1)] = need_positive(x[cuda.grid(1)])


@cuda.jit
def raises_a_class(x):
    for i in range(4):
        if i == 3 - cuda.threadIdx.x and x[i] < 0: raise RuntimeError


@cuda.jit
def raises_a_pair(x):
    if x[cuda.grid(1)] < 0: raise Pair(1, 2)


@cuda.jit
def raises_a_key(x):
    if x[cuda.grid(1)] < 0: raise KeyError("no 'k'")


@cuda.jit
def asserts(x): assert x[cuda.grid(1)] > 0, 'must be positive'


@cuda.jit
def divides(x): x[cuda.grid(1)] = 1 // int(x[cuda.grid(1)] + 2)


@cuda.jit
def leaves(x): x[cuda.grid(1) + 3] = 1


@pytest.mark.parametrize('kernel,also,kind,text,thread', [
    (raises_in_a_function, Unfit, 'raise', "Unfit: ('negative', -2.0)", 1),
    (raises_a_class, RuntimeError, 'raise', 'RuntimeError', 2),
    (raises_a_pair, KeyError, 'raise', 'Pair: (1, 2)', 1), (raises_a_key, KeyError, 'raise', "KeyError: no 'k'", 1),
    (asserts, AssertionError, 'assert', 'must be positive', 1),
    (divides, ZeroDivisionError, 'crash', 'integer division', 1),
    (leaves, IndexError, 'memcheck', ' x[4]: ', 1)])
def test_what_a_kernel_raises_is_that_of_python(kernel, also, kind, text, thread):
    x = np.array([1., -2., -3., 4.])
    with pytest.raises(also) as e: kernel[1, 4](x)
    first = str(e.value).splitlines()[0]
    assert isinstance(e.value, KernelError) and e.value.kind == kind and first.startswith(f'{kind}: ') and text in first
    assert e.value.thread == (thread, 0, 0) and e.value.line and e.value.kernel
    kernel[1, 1](np.abs(x))                    # no thread has a reason


def test_a_raise_that_is_none_of_python_is_refused():
    for text, error in (("raise ValueError('a') from None", NotImplementedError), ('raise', NotImplementedError),
                        ("raise ValueError(a=1)", NotImplementedError), ('raise x', TypeError)):
        k = kernel_of_text(f'def k(x):\n    {text}\n')
        with pytest.raises(error): k[1, 1](np.zeros(1))


def kernel_of_text(source):
    name = f'<raise {len(linecache.cache)}>'
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    space = dict(cuda=cuda)
    exec(compile(source, name, 'exec'), space)
    return cuda.jit(space['k'])


@cuda.jit
def stored(o, n):
    i = cuda.threadIdx.x
    if i > 0:
        v = 7.
    o[i] = v                                    # here


@cuda.jit
def compared(o, n):
    i = cuda.threadIdx.x
    if i != 1:
        v = i + 1
    if v > 0:                                   # here
        o[i] = v


@cuda.jit
def last_of_a_loop(o, n):
    i = cuda.threadIdx.x
    for k in range(i):
        last = k + 10
    o[i] = last                                 # here


@cuda.jit
def summed(o, n):
    i = cuda.threadIdx.x
    if i == 0: s = 5
    for k in range(n): s += k                   # here
    o[i] = s


@cuda.jit(device=True)
def picked(i):
    while i > 0:
        v = 2*i
        if v > 2: break
        i -= 1
    return v                                    # here


@cuda.jit
def in_a_function(o, n): o[cuda.threadIdx.x] = picked(cuda.threadIdx.x)


@pytest.mark.parametrize('order', ['forward', 'reverse'])
@pytest.mark.parametrize('kernel,name,threads,want', [
    (stored, 'v', {0}, [0, 7, 7, 7]), (compared, 'v', {1}, [1, 0, 3, 4]),
    (last_of_a_loop, 'last', {0}, [0, 10, 11, 12]),
    (summed, 's', {1, 2, 3}, [8, 3, 3, 3]), (in_a_function, 'v', {0}, [0, 2, 4, 6])])
def test_a_variable_that_only_some_threads_assign_is_zero_and_a_warning(kernel, name, threads, want, order):
    o = np.zeros(4)
    with sim.options(order=order), pytest.warns(sim.UnassignedVariable) as caught: kernel[1, 4](o, 3)
    assert o.tolist() == want
    w, = (o.message for o in caught)
    marked = next(i for i, text in enumerate(open(__file__), 1) if '# here' in text and i > first_line(kernel))
    assert (w.kind, w.code, w.fields['variable'], w.line) == ('initcheck', 'unassigned', name, marked)
    assert w.fields['thread'][0] in threads
    with sim.options(checks='no initcheck'), warnings.catch_warnings():
        warnings.simplefilter('error')
        kernel[1, 4](np.zeros(4), 3)


@cuda.jit(device=True)
def large(v):
    if v > 1: return 2*v


@cuda.jit
def stores_none(o): o[cuda.threadIdx.x] = large(cuda.threadIdx.x)


@cuda.jit
def adds_none(o):
    i = cuda.threadIdx.x
    o[i] = 1 + large(i)


@cuda.jit
def passes_none(o):
    i = cuda.threadIdx.x
    o[i] = max(large(i), 0)


@cuda.jit
def negates_none(o): o[cuda.threadIdx.x] = - -large(cuda.threadIdx.x)


@pytest.mark.parametrize('kernel', [stores_none, adds_none, passes_none, negates_none])
def test_the_value_of_a_call_that_reaches_no_return_is_a_warning(kernel):
    with pytest.warns(sim.UnassignedVariable) as caught: kernel[1, 4](o := np.zeros(4))
    w, = (o.message for o in caught)
    source = inspect.getsource(kernel.py_func)
    line = kernel.py_func.__code__.co_firstlineno + source[: source.index('large(')].count('\n')
    assert (w.kind, w.code, w.fields['function'], w.line) == ('initcheck', 'no_value', 'large', line)
    assert w.fields['thread'] == (0, 0, 0) and (o[2:] > 3).all()
    with sim.options(checks='no initcheck'), warnings.catch_warnings():
        warnings.simplefilter('error')
        kernel[1, 4](np.zeros(4))


@cuda.jit(device=True)
def writes_first(o, i):
    if i > 2: return 0
    o[i] = 1


@cuda.jit
def uses_values_that_exist(o):
    i = cuda.threadIdx.x
    v = large(i)
    writes_first(o, i)
    if i > 1 and not large(i) is None: o[i] = v + large(i)


def test_a_call_whose_value_is_used_only_where_it_exists_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        uses_values_that_exist[1, 4](o := np.zeros(4))
    assert o.tolist() == [1, 1, 8, 12]


def first_line(kernel): return (picked if kernel is in_a_function else kernel).py_func.__code__.co_firstlineno


@cuda.jit
def guarded_twice(o, x):
    i = cuda.grid(1)
    if i < x.size: v = x[i]
    cuda.syncthreads()
    if i < x.size and v > 1: o[i] = v
    o[i] = v if i < x.size else -1


@cuda.jit
def returns_first(o, x):
    i = cuda.grid(1)
    if i >= x.size: return
    for k in range(4):
        if k == i: continue
        w = x[k]
    if i % 2: a = 1
    elif i == 0: a = 2
    else: a = 3
    o[i] = a + w


@cuda.jit
def leaves_a_loop(o, x):
    i = cuda.grid(1)
    while True:
        v = i
        if v >= 0: break
    for i in range(3): pass
    o[v] = i + v


@pytest.mark.parametrize('kernel', [guarded_twice, returns_first, leaves_a_loop])
def test_a_variable_that_is_read_where_it_is_assigned_gives_no_warning(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        o = np.zeros(8)
        kernel[2, 4](o, np.arange(2., 7.))
    assert o[:5].all()


@cuda.jit(device=True)
def doubled_if_large(i):
    if i > 1: return 2*i


@cuda.jit
def without_a_return(o):
    i = cuda.threadIdx.x
    if doubled_if_large(i): o[i] = doubled_if_large(i)


def test_a_function_that_returns_nothing_in_some_threads_is_false_there():
    o = np.full(4, -1.)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        without_a_return[1, 4](o)
    assert o.tolist() == [-1, -1, 4, 6]
