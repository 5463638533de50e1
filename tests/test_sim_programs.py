"What public programs of Numba use: loops with an else, kernels that Numba writes itself, records, complex numbers"
import linecache, re
import math

import numpy as np
import pytest

from gridstride import sim, to_cuda
from gridstride.sim import cuda
from gridstride.sim.types import float64
from found import finding, saying


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
def no_thread_leaves(out):
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


@pytest.mark.slow
def test_the_else_of_a_loop_is_for_those_who_did_not_break(engine):
    x = np.random.default_rng(0).choice([0, 1, 2, 3, 4, 8, 9], p=[0.1] + [0.2] * 4 + [0.02, 0.08], size=(200, 9))
    for k in (first_zero, smallest_missing):
        out = np.full(200, -99)
        k[7, 32](x, out)
        assert out.tolist() == [plain(k.py_func, r, x) for r in range(200)]
        assert len(set(out)) > 4
    out = np.zeros(20, np.int64)
    no_thread_leaves[1, 20](out)
    assert out.tolist() == [1000 + r * (r - 1) // 2 + 5000 * (r not in (1, 2, 3)) for r in range(20)]


def plain(f, r, x):
    "What Python itself computes for thread `r`"
    out = np.full(len(x), -99)
    space = {'cuda': type('', (), dict(grid=lambda n: r, jit=lambda f: f))}
    exec(compile(__import__('inspect').getsource(f), f.__name__, 'exec'), space)
    space[f.__name__](x, out)
    return out[r]


def test_the_else_of_a_loop_in_c_is_an_if_after_it():
    text = to_cuda(first_zero, np.zeros((2, 2), int), np.zeros(2, int)).split('#ifndef')[0]
    assert 'bool broke = false;' in text and 'if (!broke) out[r] = -1;' in text
    text = to_cuda(no_thread_leaves, np.zeros(2, int))
    assert 'broke' in text and 'broke2' in text


# kernels that Numba writes itself


@pytest.mark.slow
@pytest.mark.parametrize('n', [0, 1, 2, 3, 255, 256, 257, 5000])
def test_reduce_folds_an_array(engine, n):
    x = np.random.default_rng(n).integers(-99, 99, n)

    @cuda.reduce
    def total(a, b):
        return a + b

    largest = cuda.Reduce(lambda a, b: max(a, b))
    assert total(x) == x.sum() and total(cuda.to_device(x), init=5) == x.sum() + 5
    assert total(x, size=n // 2) == x[: n // 2].sum()
    assert largest(x, init=-1000) == max([-1000, *x]) and largest(x.astype('f4'), init=-1000).dtype == np.float32
    res = cuda.device_array(3, x.dtype)
    assert total(x, res=res) is None and res.copy_to_host()[0] == x.sum()


def test_reduce_says_what_it_does_not_take():
    total = cuda.Reduce(lambda a, b: a + b)
    with pytest.raises(TypeError, match='2 dimensions'):
        total(np.zeros((2, 2)))
    with pytest.raises(TypeError, match='cuda.device_array'):
        total(np.zeros(2), res=np.zeros(1))
    with pytest.raises(TypeError, match=r'list: .*np\.asarray'):
        total([1, 2])
    with pytest.raises(TypeError, match=saying('function', 'two', 'int')):
        cuda.reduce(3)


def slope(x, y):
    return math.sqrt(x * x + y * y) / (x + 3)


def test_vectorize_takes_arrays_that_broadcast(engine):
    f = sim.vectorize(['float32(float32, float32)', float64(float64, float64)], target='cuda')(slope)
    rng = np.random.default_rng(1)
    for t in (np.float32, np.float64):
        x, y = rng.random((30, 1)).astype(t), rng.random(20).astype(t)
        want = np.sqrt(x * x + y * y) / (x + t(3))
        got = f(x, y)
        assert got.dtype == t and got.shape == (30, 20)
        np.testing.assert_allclose(got, want, rtol=3e-7 if t is np.float32 else 1e-15)
    out = np.full((30, 20), np.nan)
    assert f(x, y, out=out) is out and (out == got).all()
    on_device = f(cuda.to_device(x), cuda.to_device(y))
    assert cuda.is_cuda_array(on_device) and (on_device.copy_to_host() == got).all()
    assert (sim.vectorize(float64(float64, float64))(slope)(x, y) == got).all()
    assert (f(x, 2.0) == f(x, np.float64(2))).all() and f(2.0, 1.5).shape == (1,)


def test_vectorize_reduces_and_refuses_as_numba_does():
    add = sim.vectorize(['int64(int64, int64)'], target='cuda')(lambda a, b: a + b)
    assert add.reduce(np.arange(77)) == 77 * 38
    with pytest.raises(TypeError, match=r'\(int32, int32\) matches.*int64, int64'):
        add(np.zeros(2, 'i4'), np.zeros(2, 'i4'))
    with pytest.raises(TypeError, match='needs signatures'):
        sim.vectorize(slope)
    with pytest.raises(TypeError, match=r'float32\(float32, float32\)'):
        sim.vectorize(['(float32,)'])(slope)
    for wrong in ('float33(float32)', 'float32(float32'):
        with pytest.raises(TypeError, match='a signature'):
            sim.vectorize([wrong])(slope)


def picked(i, row, out):
    out[0] = row[i] * 2


def product(a, b, out):
    for r in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[r, c] = 0
            for k in range(a.shape[1]):
                out[r, c] += a[r, k] * b[k, c]


def both_ends(row, first, last):
    first[0] = row[0]
    last[0] = row[row.shape[0] - 1]


def test_guvectorize_loops_over_parts():
    pick = sim.guvectorize(['void(int64, float64[:], float64[:])'], '(),(n)->()', target='cuda')(picked)
    x = np.arange(12.0).reshape(3, 4)
    assert pick(np.array([0, 1, 2]), x).tolist() == [0, 10, 20]
    assert pick(1, x).tolist() == [2, 10, 18] and pick(2, x[0]).shape == () and pick(2, x[0]) == 4
    out = np.full(3, np.nan)
    assert pick(1, x, out) is out and out.tolist() == [2, 10, 18]
    on_device = pick(1, cuda.to_device(x))
    assert cuda.is_cuda_array(on_device) and on_device.copy_to_host().tolist() == [2, 10, 18]
    with pytest.raises(ValueError, match='loop dimensions'):
        pick(np.arange(2), x)

    multiply = sim.guvectorize(
        ['void(float32[:,:], float32[:,:], float32[:,:])', 'void(int64[:,:], int64[:,:], int64[:,:])'],
        '(m,k),(k,n)->(m,n)',
        target='cuda',
    )(product)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (5, 3, 2)), rng.integers(0, 9, (5, 2, 4))
    assert (multiply(a, b) == a @ b).all() and (multiply(a, b[1]) == a @ b[1]).all()
    assert multiply(a.astype(np.float32), b.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match=r'\bk\b.*\b3\b.*\b2\b'):
        multiply(a, np.zeros((3, 4), int))


def test_guvectorize_gives_several_results_and_refuses_as_numba_does():
    ends = sim.guvectorize(['void(int32[:], int32[:], int32[:])'], '(n)->(),()', target='cuda')(both_ends)
    first, last = ends(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert first.tolist() == [0, 3] and last.tolist() == [2, 5]
    with pytest.raises(TypeError, match='no signature .*float32'):
        ends(np.zeros(3, np.float32))
    with pytest.raises(NameError, match='axis m'):
        sim.guvectorize(['void(int32[:], int32[:])'], '(n)->(m)', target='cuda')(both_ends)
    for layout in ('(n->(n)', 'n', '(n),->(n'):
        with pytest.raises(TypeError, match='a layout'):
            sim.guvectorize(['void(int32[:], int32[:])'], layout, target='cuda')(both_ends)
    with pytest.raises(TypeError, match='needs signatures'):
        sim.guvectorize('(n)->(n)', target='cuda')
    with pytest.raises(ValueError, match="'cpu'"):
        sim.guvectorize(['void(int32[:], int32[:])'], '(n)->(n)', target='cpu')


def test_a_part_that_a_function_leaves_is_out_of_bounds():
    @sim.guvectorize(['void(float64[:], float64[:])'], '(n)->(n)', target='cuda')
    def shifted(x, out):
        for i in range(x.shape[0]):
            out[i] = x[i + 1]

    with pytest.raises(sim.MemcheckError) as e:
        shifted(np.zeros((2, 3)))
    assert e.value.index[-1] == 3 and 'x[i + 1]' in str(e.value)


# records

PAIR = np.dtype([('a', 'f4'), ('b', 'i4')])


def particles(n, align, seed=0):
    fields = [('x', 'f4'), ('mass', 'f8'), ('n', 'i4'), ('cell', [('a', 'i2'), ('b', 'f8')])]
    if align:
        fields.append(('v', 'f4', (3,)))
    rng = np.random.default_rng(seed)
    p = np.zeros(n, np.dtype(fields, align=align))
    p['x'], p['mass'], p['n'] = rng.random(n), rng.random(n), rng.integers(-9, 9, n)
    p['cell']['a'], p['cell']['b'] = rng.integers(0, 99, n), rng.random(n)
    return p


@cuda.jit
def move(p, q, out):
    i = cuda.grid(1)
    if i < p.size:
        r = p[i]
        r.x = r.x * 2 + p['n'][i]
        p[i]['mass'] += 1
        r.n -= i
        c = r.cell
        c.b = c.a + r['cell']['b'] * p.mass[i]
        if i % 3 == 1:
            other = q[i]
            q[i] = r
            other.n += 100
        out[i] = p[i].x


@pytest.mark.parametrize('align', [False, True])
def test_records_have_fields_that_are_read_and_written(align):
    p, q = particles(70, align), particles(70, align, 1)
    before, other, out, i = p.copy(), q.copy(), np.full(70, np.nan), np.arange(70)
    move[3, 32](p, q, out)
    assert (p['x'] == (before['x'] * 2 + before['n']).astype('f4')).all() and (out == p['x']).all()
    assert (p['mass'] == before['mass'] + 1).all() and (p['n'] == before['n'] - i).all()
    assert (p['cell']['b'] == before['cell']['a'] + before['cell']['b'] * p['mass']).all()
    moved = i % 3 == 1
    assert (q[~moved] == other[~moved]).all() and (q['n'][moved] == p['n'][moved] + 100).all()
    assert (q['x'][moved] == p['x'][moved]).all()


def test_records_of_a_block_a_thread_and_the_device():
    T = np.dtype([('key', 'i8'), ('v', 'f4', (2,)), ('hits', 'i4')], align=True)

    @cuda.jit
    def k(p, counts, out):
        s, own = cuda.shared.array(32, T), cuda.local.array(1, T)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        own[0].key = p[i].key
        for j in range(2):
            own[0].v[j] = p[i].v[j]
        s[t] = p[i]
        cuda.syncthreads()
        other = s[(t + 1) % 32]
        out[i] = other.key + other.v[1] + own[0].v[0]
        cuda.atomic.add(counts.hits, 0, 1)

    p = np.zeros(64, T)
    p['key'], p['v'] = np.arange(64), np.arange(128).reshape(64, 2) * 0.5
    out, on_device = np.zeros(64), cuda.to_device(p)
    k[2, 32](p, on_device, out)
    j = np.arange(64) // 32 * 32 + (np.arange(64) + 1) % 32
    assert (out == p['key'][j] + p['v'][j, 1] + p['v'][:, 0]).all()
    assert on_device.copy_to_host()['hits'][0] == 64


def test_what_is_wrong_with_records_is_found_in_their_fields():
    @cuda.jit
    def outside(p):
        p[cuda.grid(1)].x = 1

    @cuda.jit
    def race(p):
        p[0].n += cuda.grid(1)

    @cuda.jit
    def unwritten(out):
        s = cuda.shared.array(8, PAIR)
        s[cuda.threadIdx.x].a = 1
        out[0] = s[3].b

    with pytest.raises(sim.MemcheckError, match=r'p\.x') as e:
        outside[1, 32](particles(31, True))
    assert e.value.index == (31,)
    with pytest.raises(sim.RacecheckError, match=r'p\.n'):
        race[1, 32](particles(3, False))
    with pytest.raises(sim.InitcheckError, match=r's\.b'):
        unwritten[1, 8](np.zeros(1))


@cuda.jit
def no_such_field(p):
    p[0].y = 1


@pytest.mark.parametrize(
    'engine,error,match',
    [('lanes', AttributeError, saying('p has', "'y'", 'x, mass')), ('c', sim.NotSimulated, "engine='lanes'")],
)
def test_records_are_refused_where_they_are_not_known(engine, error, match):
    with sim.options(engine=engine), pytest.raises(error, match=match):
        no_such_field[1, 1](particles(2, True))


def test_records_are_not_arguments_of_cuda_c():
    with pytest.raises(sim.KernelError, match=r"array of records(.|\n)*np.ascontiguousarray\(a\['x'\]\)"):
        to_cuda(no_such_field, particles(2, True))


# the device's records, and initcheck

PACKED = np.dtype([('a', 'f4'), ('b', 'f8'), ('c', 'i1')])


@cuda.jit
def write_a(p):
    p[cuda.grid(1)].a = 1


@cuda.jit
def write_b(p):
    p[cuda.grid(1)].b = 1


@cuda.jit
def copy_a(p, out):
    out[cuda.grid(1)] = p[cuda.grid(1)].a


@cuda.jit
def copy_b(p, out):
    out[cuda.grid(1)] = p[cuda.grid(1)].b


@cuda.jit
def copy(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)]


@pytest.mark.parametrize('records', [PAIR, PACKED])
def test_initcheck_knows_the_fields_of_records_on_the_device(records):
    d, out = cuda.device_array(8, records), np.zeros(8)
    with pytest.raises(sim.InitcheckError, match=r'p\.a\[0\]'):
        copy_a[1, 8](d, out)
    write_a[1, 4](d)
    copy_a[1, 4](d, out)
    copy[1, 4](d['a'], out)
    with pytest.raises(sim.InitcheckError, match=r'p\.a\[4\]'):
        copy_a[1, 8](d, out)
    with pytest.raises(sim.InitcheckError, match=r'p\.b\[0\]'):
        copy_b[1, 4](d, out)
    with pytest.raises(sim.InitcheckError, match=r'x\[0\]'):
        copy[1, 4](d['b'], out)
    d[2:4] = np.zeros(2, records)  # the host may have written it all
    copy_b[1, 8](d, out)
    copy_b[1, 8](cuda.to_device(np.zeros(8, records)), out)


def test_initcheck_is_silent_where_it_did_not_look():
    d, out = cuda.device_array(8, PAIR), np.zeros(8)
    write_a[1, 8](d)
    with sim.options(checks='no initcheck'):
        write_b[1, 8](d)
    copy_b[1, 8](d, out)
    other_type = cuda.device_array(8, 'f4')
    write_first[1, 8](other_type.view('i4'))
    copy[1, 8](other_type, out)
    overlapping = np.dtype(dict(names=['a', 'b'], formats=['i4', 'i4'], offsets=[0, 2], itemsize=16))
    for records in (overlapping, np.dtype([('inner', overlapping)])):
        d = cuda.device_array(8, records)
        fields = d if records is overlapping else d['inner']
        write_a[1, 8](fields)
        copy_b[1, 8](fields, out)


@cuda.jit
def write_first(x):
    x[cuda.grid(1)] = 1


# one memory by two names


@cuda.jit
def shift(a, b):
    i = cuda.grid(1)
    b[i] = a[i] + 1


@cuda.jit
def shift_records(p, q):
    i = cuda.grid(1)
    value = p[i].a
    q[i].a = value + 1


@cuda.jit
def halve(a, b):
    i = cuda.grid(1)
    a[i // 2] = b[i]


X, Q, LINES = np.arange(40.0), np.arange(40.0).reshape(5, 8), np.zeros(40, PACKED)


@pytest.mark.parametrize('kernel,args,names', [
    (shift, (X[:32], X[1:33]), 'ba'), (shift, (X[:32], X[4:36][::-1]), 'ba'),
    (shift, (X.view('i4')[:32], X.view('i4')[1:33]), 'ba'),
    (shift_records, (LINES[:32], LINES[1:33]), ('q.a', 'p.a')), (halve, (X[:32], X[:32].copy()), None)])  # fmt: skip
@pytest.mark.parametrize('order', ['forward', 'reverse'])
def test_a_race_through_two_names_says_both(kernel, args, names, order):
    with sim.options(order=order), finding('racecheck', advice='two_names' if names else 'one_element') as e:
        kernel[1, 32](*args)
    if names: assert re.search(rf'{names[0]}\[\d+\] and {names[1]}\[\d+\]', e.value.hint)
    if second := e.value.fields.get('second'):
        at = dict(zip('abpq', (*args, *args)))  # its parameters
        array, index = second
        there, here = at[array[0]][index[0] :], at[e.value.array[0]][e.value.index[0] :]
        assert there.__array_interface__['data'] == here.__array_interface__['data']


@pytest.mark.parametrize('args', [(X[:20], X[20:]), (X[::2], X[1::2]), (X, X)])
def test_disjoint_views_are_not_a_race(args):
    shift[1, len(args[0])](*args)


def test_arrays_without_elements_are_arguments():
    torch = pytest.importorskip('torch')
    for empty in (np.zeros(0), np.zeros((0, 3)).T, np.zeros(0, PACKED)['b'], torch.zeros(0), torch.zeros(0, 3).T):
        count_rows[1, 1](empty, out := np.ones(1))
        assert out[0] == len(empty)


@cuda.jit
def count_rows(x, out):
    out[0] = x.shape[0]


@cuda.jit
def one_element(x):
    x[1, 2] = cuda.threadIdx.x


@cuda.jit
def one_of_a_row(x):
    row = x[1]
    row[2] = cuda.threadIdx.x


@cuda.jit
def one_of_shared_rows(x):
    s = cuda.shared.array((3, 4), np.float32)
    row = s[1]
    row[2] = cuda.threadIdx.x


@cuda.jit
def one_of_dynamic(x):
    s = cuda.shared.array(0, np.float32)
    if cuda.blockIdx.x == 2:
        s[4] = cuda.threadIdx.x


@pytest.mark.parametrize('x', [Q, Q.T, Q[::-1], Q[:, ::-1].T, Q[1:, 2:], np.asfortranarray(Q)])
@pytest.mark.parametrize('kernel', [one_element, one_of_a_row])
def test_a_race_names_its_element_in_any_memory_layout(kernel, x):
    with pytest.raises(sim.RacecheckError) as e:
        kernel[1, 8](x)
    assert e.value.array == 'x' and e.value.index == (1, 2)


@pytest.mark.parametrize('kernel,index', [(one_of_shared_rows, (1, 2)), (one_of_dynamic, (4,))])
def test_a_race_in_shared_memory_names_its_element_in_every_block(kernel, index):
    with pytest.raises(sim.RacecheckError) as e:
        kernel[3, 8, 0, 20](Q)
    assert e.value.array == 's' and e.value.index == index


# what is not a number


@cuda.jit(device=True)
def forgets_to_return(v):
    v * 2


@cuda.jit(device=True)
def returns_nothing(v):
    return None


@cuda.jit
def store_of_nothing(x, out):
    out[cuda.grid(1)] = forgets_to_return(x[0])


@cuda.jit
def store_of_none(x, out):
    out[cuda.grid(1)] = returns_nothing(x[0])


@cuda.jit
def store_of_a_pair(x, out):
    out[cuda.grid(1)] = (1, 2)


@cuda.jit
def store_of_an_array(x, out):
    out[cuda.grid(1)] = x


@cuda.jit
def sum_of_none(x, out):
    cuda.atomic.add(out, cuda.grid(1), None)


@cuda.jit
def sum_in_a_tuple(x, out):
    cuda.atomic.add((1, 2), 0, 1)


@pytest.mark.parametrize('kernel,says', [
    (store_of_nothing, saying('undefined', 'out,', 'float32')),
    (store_of_none, 'None .*out,.*float32'),
    (store_of_a_pair, 'tuple .*stored'), (store_of_an_array, 'array .*stored'),
    (sum_of_none, 'None .*stored'), (sum_in_a_tuple, 'tuple .*indexed')])  # fmt: skip
def test_what_is_not_a_number_is_not_written(kernel, says):
    out = np.zeros(4, 'f4')
    with pytest.raises(TypeError, match=f'{kernel.__name__}, line .*{says}'):
        kernel[1, 4](np.zeros(4, 'f4'), out)
    assert not out.any()


def test_a_record_is_not_a_number_and_an_atomic_takes_a_field():
    @cuda.jit
    def whole(a, out):
        out[0] = a[0]

    @cuda.jit
    def changed(a, out):
        cuda.atomic.add(a, 0, 1)

    given = np.zeros(2, PAIR), np.zeros(2, 'f4')
    with pytest.raises(TypeError, match=r'record .*out(.|\n)*fields'):
        whole[1, 1](*given)
    with pytest.raises(sim.NotSimulated, match=saying('atomic', 'a,', 'records', 'field')):
        changed[1, 1](*given)


def test_an_atomic_needs_one_index_per_axis():
    @cuda.jit
    def half_indexed(out):
        cuda.atomic.add(out, 0, 1)

    with pytest.raises(sim.NotSimulated, match=r'slice of out(.|\n)*index'):
        half_indexed[1, 1](np.zeros((2, 2)))


# what Python accepts and a kernel must not: it went on with a meaningless value


@cuda.jit
def index_of_a_number(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)][0]


@cuda.jit
def length_of_a_number(x, out):
    out[0] = len(cuda.grid(1))


@cuda.jit
def truth_of_an_array(x, out):
    if x:
        out[0] = 1


@cuda.jit
def equal_arrays(x, out):
    if x == out:
        out[0] = 1


@cuda.jit
def root_of_an_array(x, out):
    out[0] = math.sqrt(x)


@cuda.jit
def barrier_that_is_not_called(x, out):
    out[0] = x[0]
    cuda.syncthreads  # noqa: B018


@cuda.jit
def fourth_axis(x, out):
    out[0] = cuda.grid(4)[0]


@cuda.jit
def sum_without_an_index(x, out):
    cuda.atomic.add(out, 1)


@cuda.jit
def swap_of_one_value(x, out):
    cuda.atomic.cas(out, 0, 1)


@cuda.jit
def no_axis(x, out):
    out[0] = cuda.grid()


@cuda.jit
def array_of_lists(x, out):
    s = cuda.shared.array(4, list)
    out[0] = s[0]


@cuda.jit
def comprehension(x, out):
    out[0] = sum([o for o in (1, 2)])


@pytest.mark.parametrize('kernel,error,says', [
    (index_of_a_number, TypeError, 'number .*indexed'), (length_of_a_number, TypeError, r'len\(\)'),
    (truth_of_an_array, TypeError, r'number: if x:(.|\n)*x\[i\]'),
    (equal_arrays, TypeError, 'x, is an'), (root_of_an_array, TypeError, 'x, is an'),
    (barrier_that_is_not_called, sim.NotSimulated, r'without parentheses(.|\n)*cuda.syncthreads\(\)'),
    (fourth_axis, ValueError, saying('ndim', '1, 2 or 3', 4)),
    (no_axis, TypeError, r"cuda\.grid\(ndim\).*'ndim'"),
    (array_of_lists, TypeError, 'numeric type'),
    (sum_without_an_index, TypeError, saying('atomic.add', '(ary, idx, val)', '2 ')),
    (swap_of_one_value, TypeError, saying('atomic.cas', '(ary, idx, old, val)', '3 ')),
    (comprehension, sim.NotSimulated, r'list comprehension(.|\n)*loop')])  # fmt: skip
def test_what_python_takes_and_a_kernel_must_not(kernel, error, says):
    with pytest.raises(error, match=says):
        kernel[1, 4](np.ones(4, 'f4'), np.zeros(4, 'f4'))


# complex numbers


@cuda.jit
def phase(z, out):
    i = cuda.grid(1)
    out[i] = z[i] * 2


@cuda.jit
def phase_sum(z, out):
    cuda.atomic.add(out, 0, z[cuda.grid(1)])


@pytest.mark.parametrize('kernel', [phase, phase_sum])
def test_a_complex_number_in_an_array_of_floats_is_refused_as_by_numba(kernel):
    z = np.arange(4) * (1 + 2j)
    with pytest.raises(sim.NotSimulated, match=r'complex .*out,.*float32(.|\n)*z\.real'):
        kernel[1, 4](z, np.zeros(4, 'f4'))
    out = np.zeros(4, 'c16')
    phase[1, 4](z, out)
    assert (out == 2 * z).all()


# what is captured from outside a kernel


TABLE = np.zeros(3, [('weight', np.float32), ('at', np.int32)])
TABLE['weight'] = 2, 3, 5


def test_a_global_named_like_an_attribute_is_none_of_the_kernel(engine):
    space = dict(cuda=cuda)
    names = ('x', 'y', 'shape', 'size', 'grid', 'threadIdx')
    source = 'cuda.threadIdx.x + cuda.blockIdx.y + o.shape[0] + o.size + cuda.grid(1)'
    for value in (TABLE, [1, 2], {1: 2}, 2**70, np.array(['a'], object)):
        space.update(dict.fromkeys(names, value))
        k = made(f'def k(o):\n    o[cuda.threadIdx.x] = {source}\n', space)
        o = np.zeros(4, np.int64)
        k[1, 4](o)
        assert o.tolist() == [8, 10, 12, 14]


def made(source, space):
    "The kernel `k` of a source text"
    name = f'<outside {len(linecache.cache)}>'
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, 'exec'), space)
    return cuda.jit(space['k'])


def test_captured_records_are_a_constant():
    @cuda.jit
    def scaled(o):
        i = cuda.grid(1)
        o[i] = TABLE[i].weight + TABLE['at'][i]

    o = np.zeros(3)
    scaled[1, 3](o)
    assert o.tolist() == [2, 3, 5]
    TABLE['weight'][0] = 7
    scaled[1, 3](o)
    TABLE['weight'][0] = 2
    assert o.tolist() == [2, 3, 5]

    @cuda.jit
    def write(o):
        TABLE[0].weight = o[0]

    with pytest.raises(sim.MemcheckError) as e:
        write[1, 1](o)
    assert e.value.code == 'constant' and e.value.array == 'TABLE.weight'


@pytest.mark.parametrize('value', [[1, 2], {1: 2}, {1, 2}, range(2), bytearray(b'ab'), ([1, 2], 3)])
def test_captured_containers_are_refused_as_numba_does(value, engine):
    k = made('def k(o):\n    o[0] = len(given)\n', dict(cuda=cuda, given=value))
    with pytest.raises(NotImplementedError) as e:
        k[1, 1](np.zeros(1))
    assert e.value.line == 2 and 'given' in str(e.value)
    k = made('def k(o):\n    given = 3\n    o[0] = given\n', dict(cuda=cuda, given=value))
    o = np.zeros(1)
    k[1, 1](o)
    assert o[0] == 3


# parts of arrays


OFFSETS = 1, -1, 4, -4
PAIRS = (1, 2), (3, 4), (5, 6)


def test_a_part_of_an_array_is_assigned():
    @cuda.jit
    def columns(a):
        a[:, 1] = a[:, 0]
        a[:, 2] = 7
        a[..., 3] = (1, 2, 3)
        a[1:, 0] = a[:-1, 0]  # all is read first

    @cuda.jit
    def rows(a):
        i = cuda.grid(1)
        row = a[i]
        row[:] = 5
        a[i, i:] = i
        own = cuda.local.array(2, np.int64)
        own[:] = 0
        own[i % 2] = 9
        a[i, :2] = own

    a = np.arange(12.0).reshape(3, 4)
    columns[1, 1](a)
    assert a.tolist() == [[0, 0, 7, 1], [0, 4, 7, 2], [4, 8, 7, 3]]
    a = np.full((3, 4), np.nan)
    rows[1, 3](a)
    assert a.tolist() == [[9, 0, 0, 0], [0, 9, 1, 1], [9, 0, 2, 2]]


def test_what_is_wrong_with_a_part_is_found():
    @cuda.jit
    def too_short(a):
        a[:2] = a[:3]

    @cuda.jit
    def in_place(a):
        a[:2] += 1

    @cuda.jit
    def all_of_it(a, out):
        a[:] = cuda.threadIdx.x

    @cuda.jit
    def unwritten(a, out):
        out[:] = a

    a = np.zeros(4)
    with pytest.raises(ValueError, match=r'\(3,\) .*\(2,\)'):
        too_short[1, 1](a)
    with pytest.raises(sim.NotSimulated) as e:
        in_place[1, 1](a)
    assert 'slice' in str(e.value)
    with pytest.raises(sim.RacecheckError) as e:
        all_of_it[1, 2](a, a)
    assert e.value.array == 'a' and e.value.index == (0,)
    with pytest.raises(sim.InitcheckError) as e:
        unwritten[1, 1](cuda.device_array(4), a)
    assert e.value.array == 'a'
    a.flags.writeable = False
    with pytest.raises(TypeError, match='read-only'):
        all_of_it[1, 1](a, a)


def test_a_tuple_is_indexed_by_the_thread(engine):
    @cuda.jit
    def k(out, given):
        i = cuda.threadIdx.x
        out[0, i] = OFFSETS[i]
        own = (0.25, 0.5, 1.0)
        out[1, i] = own[i % 3] + PAIRS[2][0]
        out[2, i] = given[i % 2]
        out[3, i] = (i * 1, i * 2, i * 3)[i % 3]

    out = np.zeros((4, 4))
    k[1, 4](out, (3, 5))
    assert out.tolist() == [[1, -1, 4, -4], [5.25, 5.5, 6, 5.25], [3, 5, 3, 5], [0, 2, 6, 3]]


def test_tuples_of_tuples_and_arrays_are_indexed_by_the_thread():
    @cuda.jit
    def k(out, a, b):
        i = cuda.threadIdx.x
        x, y = PAIRS[i % 3]
        out[i] = 100 * x + 10 * y + OFFSETS[i - 4] + (a, b)[i % 2][i]

    out, a = np.zeros(4), np.arange(8.0) / 10
    k[1, 4](out, a[:4], a[4:])
    assert out.tolist() == [121.0, 339.5, 564.2, 116.7]


@pytest.mark.parametrize(
    'expression,error',
    [
        ('OFFSETS[i + 2]', sim.MemcheckError),
        ('OFFSETS[-5 - i]', sim.MemcheckError),
        ('(1, 2.5)[i % 2]', sim.NotCompiled),
        ('OFFSETS[i / 2]', sim.NotCompiled),
        ('(True, 1)[i % 2]', sim.NotCompiled),
    ],
)
def test_a_tuple_is_not_indexed_by_the_thread_where_numba_does_not(expression, error):
    k = made(f'def k(out):\n    i = cuda.threadIdx.x\n    out[i] = {expression}\n', dict(cuda=cuda, OFFSETS=OFFSETS))
    with pytest.raises(error) as e:
        k[1, 4](np.zeros(4))
    assert e.value.line == 3
