"The loop of a compare-and-swap in the simulator: its first, plain read may be stale, and the swap checks the value."
import numpy as np, pytest

from gridstride import sim
from gridstride.diagnostics.errors import RacecheckError
from gridstride.diagnostics.settings import settings
from gridstride.sim import cuda

ORDERS = pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])


@cuda.jit(device=True)
def add(a, k, x):
    old = a[k]
    while True:
        seen = old
        old = cuda.atomic.cas(a, k, seen, seen + x)
        if old == seen: return old


@cuda.jit
def sums(a, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): add(a, x[i] % a.size, x[i])


@cuda.jit
def after_a_fence(a, x):
    cuda.threadfence()
    add(a, 0, x[cuda.grid(1)])


@cuda.jit
def in_shared(a, x):
    s = cuda.shared.array(1, np.int64)
    t = cuda.threadIdx.x
    if t == 0: s[0] = 0
    cuda.syncthreads()
    for i in range(t, x.size, cuda.blockDim.x):
        old = s[0]
        while True:
            seen = old
            old = cuda.atomic.compare_and_swap(s, seen, max(seen, x[i]))
            if old == seen: break
    cuda.syncthreads()
    if t == 0: cuda.atomic.max(a, 0, s[0])


@cuda.jit
def in_branches(a, x):
    i = cuda.grid(1)
    old = a[0]
    if i % 2: cuda.atomic.cas(a, 0, old, old + 1)
    else: cuda.atomic.cas(a, 0, old, old + 2)


@ORDERS
def test_a_stale_value_that_a_swap_checks_is_not_a_race(order):
    x = np.arange(1, 301)
    with sim.options(order=order, seed=5):
        for n in 1, 3:
            sums[3, 32](a := np.zeros(n, np.int64), x)
            assert a.tolist() == [x[x % n == k].sum() for k in range(n)]
        after_a_fence[3, 32](a := np.zeros(1, np.int64), x)
        assert a[0] == x[:96].sum()
        in_shared[2, 32](a := np.zeros(1, np.int64), x)
        assert a[0] == 300
        in_branches[3, 32](np.zeros(1, np.int64), x)


@pytest.fixture
def one_by_one():
    "One block after the other, as they run where a grid is large"
    before, settings.max_lanes = settings.max_lanes, 32
    yield
    settings.max_lanes = before


@ORDERS
def test_so_it_is_where_blocks_run_one_by_one(order, one_by_one):
    x = np.arange(1, 301)
    with sim.options(order=order, seed=5):
        sums[3, 32](a := np.zeros(1, np.int64), x)
        assert a[0] == x.sum()
        after_a_fence[3, 32](a := np.zeros(1, np.int64), x)
        assert a[0] == x[:96].sum()


@cuda.jit
def peeks(a, x):
    i = cuda.grid(1)
    if i % 2: cuda.atomic.add(a, 0, 1)
    else: x[i] = a[0]


@cuda.jit
def adds(a, x):
    x[cuda.grid(1)] = a[0]
    cuda.atomic.add(a, 0, 1)


@cuda.jit
def some_swap(a, x):
    i = cuda.grid(1)
    old = a[0]
    x[i] = old
    if i % 2: cuda.atomic.cas(a, 0, old, old + 1)


@cuda.jit
def another_element(a, x):
    old = a[0]
    cuda.atomic.add(a, 0, 1)
    cuda.atomic.cas(a, 1, old, old + 1)


@cuda.jit
def swaps_late(a, x):
    i = cuda.grid(1)
    old = a[0]
    x[i] = old
    if i % 2: cuda.atomic.add(a, 0, 1)
    cuda.syncthreads()
    cuda.atomic.cas(a, 0, old, old + 1)


@cuda.jit
def reads_on(a, x):
    i = cuda.grid(1)
    add(a, 0, 1)
    x[i] = a[0]


@cuda.jit
def grows(a, x):
    i = cuda.grid(1)
    old = a[0]
    while old < i:
        seen = old
        old = cuda.atomic.cas(a, 0, seen, i)
        if old == seen: break


@ORDERS
def test_a_read_without_its_swap_is_not_fixed_by_a_barrier(order):
    with sim.options(order=order, seed=5), pytest.raises(RacecheckError) as e:
        grows[1, 64](np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert e.value.advice == 'before_swap' and 'cuda.atomic.add(array, i, 0)' in e.value.hint


@ORDERS
@pytest.mark.parametrize('blocks', [1, 3])
@pytest.mark.parametrize('kernel', [peeks, adds, some_swap, another_element, swaps_late, reads_on])
def test_a_stale_value_that_no_swap_checks_is_a_race(kernel, blocks, order):
    with sim.options(order=order, seed=5), pytest.raises(RacecheckError) as e:
        kernel[blocks, 32](np.zeros(2, np.int64), np.zeros(96, np.int64))
    e = e.value
    assert (e.array, e.index) == ('a', (0,)) and e.code in ('race', 'race_of_blocks')
    assert any('a[0]' in o for o in str(e).splitlines() if 'line' in o)
