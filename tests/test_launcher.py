"The compiled part of a launch, without a GPU: functions of Python stand for those of the driver."
import copy, ctypes, gc, inspect, operator, re, struct, sys, threading, weakref
from ctypes import CFUNCTYPE, POINTER, c_int, c_void_p
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gridstride.cpp import driver as nvidia, kernel as kernels, launcher
from gridstride.cpp.frontend.reader import Param
from gridstride.diagnostics.errors import LaunchError
from gridstride.kernels import launch_replay, common
from gridstride.kernels.launch_replay import ARGUMENTS, torch_call
from gridstride.kernels.gemm import dispatch, plan
from gridstride.kernels.ladder import ladder, launches, rung
from gridstride.kernels.gemm.plan import using
from gridstride.utils import check, gpu_count
from torch.utils._python_dispatch import TorchDispatchMode

CPU = 1                          # DLPack's number
allocate = torch._C._dynamo.guards._empty_strided_cpu if hasattr(torch._C, '_dynamo') else None
LAUNCH = CFUNCTYPE(c_int, POINTER(nvidia.LaunchConfig), c_void_p, POINTER(c_void_p), c_void_p)
DEVICE, MOVE = CFUNCTYPE(c_int, POINTER(c_int)), CFUNCTYPE(c_int, c_void_p, c_void_p)
STREAM = CFUNCTYPE(c_int, c_int, c_int, POINTER(c_void_p))
FILL = CFUNCTYPE(c_int, c_void_p, ctypes.c_ubyte, ctypes.c_size_t, c_void_p)
CAPTURING = CFUNCTYPE(c_int, c_void_p, POINTER(c_int))
_MISSING = launcher._missing_requirement(torch)
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=str(_MISSING))


class Driver:
    "Records what is requested; `sizes` are the bytes of each parameter of the next launches"
    def __init__(self):
        self.launches, self.moved, self.code, self.now, self.sizes, self.filled = [], [], 0, 7, [], []
        self.answer = lambda: 0
        self.is_capturing = False
        self.functions = (LAUNCH(self.launch), DEVICE(self.device), MOVE(self.move), FILL(self.fill),
                          CAPTURING(self.capturing), STREAM(self.stream))

    def launch(self, config, handle, places, extra):
        c = config.contents
        self.launches.append(SimpleNamespace(grid=(c.gx, c.gy, c.gz), block=(c.bx, c.by, c.bz), shared=c.shared,
            stream=c.stream, handle=handle, attributes=[(a.id, *a.values[:3]) for a in c.attributes[:c.num_attributes]],
            given=[ctypes.string_at(places[i], n) for i, n in enumerate(self.sizes)],
            places=[places[i] for i in range(len(self.sizes))]))
        return self.code

    def move(self, at, address):
        self.moved.append(address)
        ctypes.memmove(at, struct.pack('Q', address), 8)
        return self.answer() or address % 16

    def fill(self, address, value, size, stream):
        self.filled.append((address, value, size, stream))
        ctypes.memset(address, value, size)
        return 0

    def capturing(self, stream, at):
        at[0] = self.is_capturing
        return 0

    def device(self, at):
        at[0] = 0
        return 0

    def stream(self, kind, device, at):
        at[0] = self.now
        return 0

    def pointers(self, i=-1): return [struct.unpack('Q', o)[0] for o in self.launches[i].given]


@pytest.fixture
def driver():
    "With `module`, the compiled launcher, whose arrays are on the CPU"
    d = Driver()
    d.module = launcher.load(CPU, [ctypes.cast(o, c_void_p).value for o in d.functions])
    yield d
    if gpu_count(): launcher.load()


def refuse(*args, **kw): raise LookupError(args, kw)


def launch(driver, parameters, sizes, otherwise=refuse, grid=(3, 2, 1), block=(32, 1, 1), shared=0, attributes=()):
    driver.sizes = sizes
    return driver.module.Launch(77, grid, block, shared, attributes, parameters, otherwise)


def test_a_launch_passes_each_argument_correctly(driver):
    x, n = torch.randn(5), torch.arange(4, dtype=torch.int64)
    k = launch(driver, [('*', 2, 32), ('i',), ('*', 0, 64), ('d',), ('f',), ('?',), ('B',), ('q',), b'constant',
                        ('*', 0, 0)], [8, 4, 8, 8, 4, 1, 1, 8, 8, 8], shared=100, attributes=[(4, (2, 1, 1))])
    assert k(x, -3, n, 2, .5, True, 200, 2**40, None) is None
    o, = driver.launches
    assert (o.grid, o.block, o.shared, o.stream, o.handle) == ((3, 2, 1), (32, 1, 1), 100, 7, 77)
    assert o.attributes == [(4, 2, 1, 1)]
    values = x.data_ptr(), -3, n.data_ptr(), 2., .5, True, 200, 2**40, int.from_bytes(b'constant', 'little'), 0
    assert o.given == [struct.pack(c, v) for c, v in zip('QiQdf?BqQQ', values)]


class Two:
    def __bytes__(self): return b'two of it'


def test_a_struct_is_given_by_value(driver):
    k = launch(driver, [('V', 0, 0, bytes(9)), ('i',), ('V', 0, 0, bytes(100))], [9, 4, 100])
    k(Two(), 5, bytes(range(100)))
    assert driver.launches[0].given == [b'two of it', struct.pack('i', 5), bytes(range(100))]
    for other in (b'two', 9, [1]*9, torch.ones(9), ctypes.c_uint64(1), None):
        with pytest.raises(LookupError): k(other, 5, bytes(100))


@pytest.mark.parametrize('kind,given', [('*', torch.ones(3).double()), ('*', torch.ones(3, 3).t()), ('*', [1.]),
    ('*', torch.ones(6)[::2]), ('*', torch.ones(3, device='meta')), ('*', 5), ('i', 1.), ('i', 2**31), ('B', -1),
    ('B', 256), ('f', 'x'), ('?', 1), ('i', torch.ones(1).int()), ('i', None), ('Q', -1), ('f', 10**400)])
def test_what_it_does_not_know_is_left_to_python(driver, kind, given):
    asked = []
    k = launch(driver, [('*', 2, 32) if kind == '*' else (kind,)], [8], lambda *a: asked.append(a) or 'done')
    assert k(given) == 'done' and asked[0][0] is given and not driver.launches


def test_other_arguments_than_it_takes_are_left_to_python(driver):
    k = launch(driver, [('i',)], [4])
    for args, kw in (((), {}), ((1, 2), {}), ((), dict(n=1)), ((1,), dict(n=1))):
        with pytest.raises(LookupError) as e: k(*args, **kw)
        assert e.value.args == (args, kw)
    assert not driver.launches


def test_what_the_driver_refuses_is_left_to_python(driver):
    driver.code = 701
    with pytest.raises(LookupError): launch(driver, [], [])()
    assert launch(driver, [('&',)], [8]).run(5, 16) == 701


@pytest.mark.parametrize('x,moved', [(torch.ones(0), 0), (torch.ones(3, 1).t(), 0), (torch.randn(10)[3:], 12),
                                     (torch.nn.Parameter(torch.ones(2)), 0), (torch.ones(3, 1, 5)[:, :, :], 0)])
def test_arrays_without_gaps_are_taken(driver, x, moved):
    launch(driver, [('*', 2, 32)], [8])(x)
    assert driver.pointers() == [x.data_ptr()]
    assert x.data_ptr() % 64 == moved if moved else True


def test_the_stream_is_the_current_one_or_the_one_that_was_asked_for(driver):
    k = launch(driver, [], [])
    k()
    driver.now = 9
    k()
    k.on(5, refuse)()
    k.on(0, refuse)()
    assert [o.stream for o in driver.launches] == [7, 9, 5, None]


def test_a_map_is_passed_with_the_address_of_its_array(driver):
    image = bytes(range(128))
    k = launch(driver, [('T', 0, 0, image), ('&',), ('T', 0, 0, image)], [128, 8, 128])
    for at in (0x1000, 0x2000): assert k.run(3, at, at+16, at+32) == 0
    for o, at in zip(driver.launches, (0x1000, 0x2000)):
        assert o.given == [struct.pack('Q', at)+image[8:], struct.pack('Q', at+16), struct.pack('Q', at+32)+image[8:]]
        assert not o.places[0] % 64 and not o.places[2] % 64 and o.stream == 3
    assert k.run(3, 0x1004, 0, 0) == 4 and len(driver.launches) == 2, 'the driver does not take this address'
    assert k.run(3, 'x', 0, 0) == k.run(3, 0x1000, 0, 2**70) == -1
    with pytest.raises(TypeError, match='2 arguments, expected 3'): k.run(3, 0, 0)


def step(driver, *addresses, parameters=None):
    return launch(driver, parameters or [('&',)]*len(addresses), [8]*len(addresses)), addresses


def table_of(driver, a, b, out=(6, 5), room=None, **kw):
    t = driver.module.Table(allocate)
    steps = step(driver, (0, 0), (1, 0), (2, 0), *([(3, 256)] if room else []), **kw),
    t.store_recipe((a, b), steps, (out, torch.empty(out).stride(), a.dtype),
                   ((room,), (1,), torch.uint8) if room else None)
    return t


def test_a_table_allocates_and_launches(driver):
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    t = table_of(driver, a, b, room=1024)
    out = t(a, b)
    assert (out.shape, out.dtype, len(t)) == ((6, 5), torch.float32, 1)
    *three, room = driver.pointers()
    assert three == [a.data_ptr(), b.data_ptr(), out.data_ptr()] and room
    other = t(a.clone(), b.clone())
    assert driver.pointers()[2] == other.data_ptr() != out.data_ptr()
    assert t.has_recipe(a, b) and not t.has_recipe(b, a)
    t.clear()
    assert t(a, b) is None and len(t) == 0 and not t.has_recipe(a, b)


def test_tuples_of_integers_are_part_of_a_key(driver):
    x, t = torch.randn(6), driver.module.Table(allocate)
    t.use_function(lambda x, *args: args, (x, (1, 2), 3))
    assert t(x, (1, 2), 3) == ((1, 2), 3) and launch_replay._is_key((1, 2))
    for other in (((1, 2, 3),), ((1,), 2, 3), ((1, 3), 3), ([1, 2], 3), ((1, 2.), 3), ((1, (2,)), 3)):
        assert t(x, *other) is None
    assert not any(map(launch_replay._is_key, ([1, 2], (1, 2.), (1, (2,)), (True, 1))))


def test_a_table_knows_what_is_alike_and_nothing_else(driver):
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    t = table_of(driver, a, b)
    assert t(torch.randn(6, 4), torch.nn.Parameter(torch.randn(4, 5))) is not None
    for x, y in ((a.double(), b), (a.int(), b), (torch.randn(4, 6).t(), b), (torch.randn(25)[1:].view(6, 4), b),
                 (a[:5], b), (a[None], b), (a, b[:, :4]), (a, b.to('meta')), (a, [1]), (b, a), (a, torch.ones((1,)*9))):
        assert t(x, y) is None, (x, y)
    assert len(driver.launches) == 1
    driver.code = 1
    assert t(a, b) is None
    for other in ((), (a,), (a, b, None, None)): assert t(*other) is None
    with pytest.raises(TypeError): t(a, b, out=a)


def test_a_table_leaves_marked_operands_to_a_function(driver):
    a, b, t = torch.randn(6, 4), torch.randn(4, 5), driver.module.Table(allocate)
    t.use_function(torch.mm, (a, b))
    for call in (t, t.fast): assert torch.equal(call(a.clone(), b), a@b)
    assert t.into(torch.empty(6, 5), a, b) is NotImplemented
    assert len(t) == 1 and not t.has_recipe(a, b)
    assert t(a[:5], b) is None is t.fast(a[:5], b) and not driver.launches
    t.clear()
    assert t(a, b) is None
    with pytest.raises(TypeError, match='table'): t.use_function(torch.mm, (a, [1]))


def test_a_torch_call_reorders_the_arguments_of_a_table(driver):
    a, b, t = torch.randn(6, 4), torch.randn(6, 4), driver.module.Table(allocate)
    call = torch_call(torch.sub, ARGUMENTS[2], ARGUMENTS[0], alpha=3)
    t.use_function(call, (a, None, b))
    other = torch.randn(6, 4)
    for result in (t(a, None, other), t.fast(a, None, other), call(a, None, other)):
        assert torch.equal(result, torch.sub(other, a, alpha=3))
    with pytest.raises(IndexError): t.use_function(call, (a, b))
    with pytest.raises(ValueError): t.use_function(torch_call(max, *range(17)), (a,))
    with pytest.raises(TypeError): t.use_function((torch.sub, 0), (a,))
    t.use_function(torch_call(torch.sub, ARGUMENTS[0], 'text'), (a,))
    with pytest.raises(TypeError): t.fast(a)


@pytest.fixture
def entry(driver):
    "An entry point of `entry.table`, which is called as compiled code calls it; it counts the calls that reach Python"
    ran = []
    def function(x, approximate='none', n=2, out=None):
        "Its docstring"
        ran.append(n)
        return 'by Python'
    t = driver.module.Table(allocate)
    point = launch_replay.entry_point(function, 'x', ('approximate', dict(tanh=True)), 'n', None)
    launch_replay.install_entry_points(t, [point])
    yield SimpleNamespace(call=partial(function), function=function, table=t, ran=ran)


def test_an_entry_point_finds_the_table_before_python_runs(entry):
    x, y = torch.randn(3), torch.randn(3)
    assert entry.call(x, 'tanh') == 'by Python'
    for n in (2, 3): entry.table.use_function(lambda *args: args, (x, True, n, None))
    tanh = ''.join(['ta', 'nh'])
    for args, options, n in (((y, 'tanh'), {}, 2), ((y, tanh, 3), {}, 3), ((y, 'tanh', 3, None), {}, 3),
                             ((y,), dict(n=3, approximate=tanh), 3), ((), dict(approximate='tanh', x=y), 2)):
        found = entry.call(*args, **options)
        assert found[0] is y and found[1:] == (True, n, None)
    assert len(entry.ran) == 1


def test_what_a_table_does_not_know_an_entry_point_leaves_to_python(entry):
    x = torch.randn(3)
    entry.table.use_function(lambda *args: args, (x, True, 2, None))
    for args, options in (((x,), {}), ((x, 'tanh', 5), {}), ((x, 'tanh', 2, x), {}), ((x, 'tanh'), dict(out=0)),
                          ((x, []), {}), ((x, 'tan'), {}), (([1], 'tanh'), {}), ((x[:2], 'tanh'), {}),
                          ((x, 'tanh', [2]), {})):
        assert entry.call(*args, **options) == 'by Python'
    assert len(entry.ran) == 9
    for args, options in (((), {}), ((x,)*5, {}), ((x, 'tanh'), dict(m=2)), ((x, 'tanh'), dict(x=x)), ((), dict(n=2))):
        with pytest.raises(TypeError, match='function'): entry.call(*args, **options)
    def fail(*args): raise LookupError
    entry.table.use_function(fail, (x, True, 7, None))
    with pytest.raises(LookupError): entry.call(x, 'tanh', 7)
    assert len(entry.ran) == 9


def test_an_entry_point_remains_a_python_function(entry, freeze_gc):
    function, x = entry.function, torch.randn(3)
    assert function.__doc__ == 'Its docstring' and inspect.isfunction(function)
    assert list(inspect.signature(function).parameters) == ['x', 'approximate', 'n', 'out']
    assert copy.deepcopy(function) is function and wraps(function)(lambda: 5)() == 5
    del function._entry_point
    entry.table.use_function(lambda *args: args, (x, True, 2, None))
    assert entry.call(x, 'tanh') == 'by Python'
    for wrong in ((len, (), (), ()), (function, ('x',), (), ()), (function, ('x',), (), ((1, None, None),)),
                  (function, ('x',)*17, (), ())):
        with pytest.raises((TypeError, ValueError, IndexError)): entry.table.add_entry_point(*wrong)


def test_an_entry_point_keeps_nothing_alive(driver, freeze_gc):
    t, constant = driver.module.Table(allocate), type('Constant', (), {})()
    def function(x): pass
    before = [sys.getrefcount(o) for o in (t, constant)]
    for _ in range(3): t.add_entry_point(function, ('x',), (), ((0, None, None), (-1, None, constant)))
    del function
    gc.collect()
    assert [sys.getrefcount(o) for o in (t, constant)] == before


@pytest.mark.exhaustive
def test_torch_compile_sees_the_code_of_an_entry_point(entry):
    def traced(graph, inputs):
        entry.ran.append(graph)
        return graph.forward
    def function(x): return x.sin()
    launch_replay.install_entry_points(entry.table, [launch_replay.entry_point(function, 'x')])
    x = torch.randn(3)
    entry.table.use_function(torch.cos, (x,))
    assert torch.equal(partial(function)(x), x.cos())
    assert torch.equal(torch.compile(function, backend=traced)(x), x.sin()) and len(entry.ran) == 1
    assert torch.equal(partial(function)(x), x.cos())


def test_a_function_computes_the_result_only_in_graphs_or_only_outside(driver):
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    weight, t, product = b.clone().requires_grad_(), driver.module.Table(allocate), torch.zeros(6, 5)
    steps = step(driver, (0, 0), (1, 0), (2, 0)),
    t.store_recipe((a, b), steps, ((6, 5), (5, 1), a.dtype), None, lambda a, b: product)
    t.use_function(torch.mm, (a, b), True, True)
    for driver.is_capturing in (False, True):
        for call in (t, t.fast): assert (call(a, b) is product) is driver.is_capturing
    assert len(driver.launches) == 2
    assert t.fast(a, weight) is None, 'ours, which the caller must differentiate'
    driver.is_capturing = False
    assert t.fast(a, weight).requires_grad
    with torch.no_grad(): assert not t.fast(a, weight).requires_grad and len(driver.launches) == 3


def test_the_fast_way_is_not_taken_where_a_mode_changes_the_result(driver):
    a, b, flags = torch.randn(6, 4), torch.randn(4, 5), [False, False]
    t = driver.module.Table(allocate, (lambda: flags[0],), (lambda: flags[1],))
    for x, y in ((a, b), (a.double(), b.double())):
        t.store_recipe((x, y), (step(driver, (0, 0), (1, 0), (2, 0)),), ((6, 5), (5, 1), x.dtype), None)
    def is_fast(x=a, y=b): return t.fast(x, y) is not None
    assert is_fast() and is_fast(a.double(), b.double())
    assert not is_fast(a.clone().requires_grad_()) and not is_fast(a, [1])
    with Mode(): assert not is_fast()
    with torch.autograd.forward_ad.dual_level(): assert not is_fast()
    assert not torch.func.vmap(lambda x: torch.tensor(float(is_fast())))(a).any()
    flags[1] = True
    assert not is_fast() and is_fast(a.double(), b.double())
    flags[0] = True
    assert not is_fast(a.double(), b.double())
    def fail(): raise LookupError
    t = driver.module.Table(allocate, (fail,))
    t.store_recipe((a, b), (step(driver, (0, 0), (1, 0), (2, 0)),), ((6, 5), (5, 1), a.dtype), None)
    assert t.fast(a, b) is None and t(a, b) is not None


def test_a_table_distinguishes_constants(driver):
    x, t = torch.randn(8), driver.module.Table(allocate)
    constants = None, True, 1, 1., 0, False, 0., -0., 2**40, 'tanh', 'none', '', 'n', float('inf')
    steps = step(driver, (0, 0), (1, 0)),
    for constant in constants: t.store_recipe((x, constant), steps, ((8,), (1,), x.dtype), None)
    assert len(t) == len(constants) and all(t(x, constant) is not None for constant in constants)
    for unknown in (2, 'tan', 2**64, 1.5, 'x'*5000, [1], (1,), b'tanh'): assert t(x, unknown) is None
    with pytest.raises(TypeError, match='table'): t.store_recipe((x, [1]), steps, ((8,), (1,), x.dtype), None)
    with pytest.raises(TypeError, match='table'): t.store_recipe((1.,), (), ((8,), (1,), x.dtype), None)


def test_a_table_finds_each_of_many_keys(driver):
    x, t = torch.randn(3), driver.module.Table(allocate)
    for n in range(300): t.use_function(lambda x, n: n, (x, n))
    for _ in range(2): assert [t(x, n) for n in range(302)] == [*range(300), None, None]
    t.use_function(lambda x, n: -n, (x, 7))
    assert t(x, 7) == -7 and len(t) == 300
    t.clear()
    assert {t(x, n) for n in range(300)} == {None}


def test_a_table_returns_several_results_and_fills_memory_with_zeros(driver):
    "Some results may be empty; the workspace and the second result begin as zeros"
    x, weight, t = torch.randn(6, 4), torch.randn(4), driver.module.Table(allocate)
    fills = (None, (3, 0), 24), (None, (5, 256), 40)
    steps = *fills, step(driver, (0, 0), (1, 0), (2, 4), (3, 0), (4, 0), (5, 256), (6, 0))
    results = [((6, 4), (4, 1), x.dtype), ((3,), (1,), torch.int64), ((0,), (1,), x.dtype)]
    t.store_recipe((x, None, weight, .5), steps, results, ((512,), (1,), torch.uint8))
    y, counts, empty = t(x, None, weight, .5)
    assert (y.shape, y.dtype, counts.dtype, empty.shape) == ((6, 4), torch.float32, torch.int64, (0,))
    *addresses, workspace, null = driver.pointers()
    assert addresses == [x.data_ptr(), weight.data_ptr(), y.data_ptr()+4, counts.data_ptr(), empty.data_ptr()]
    assert null == 0 and counts.tolist() == [0]*3
    assert driver.filled == [(counts.data_ptr(), 0, 24, 7), (workspace, 0, 40, 7)]
    for wrong in (7, 99):
        with pytest.raises(IndexError): t.store_recipe((x,), (step(driver, (wrong, 0)),), results, None)


def test_a_table_writes_to_a_given_output(driver):
    a, b, out = torch.randn(6, 4), torch.randn(4, 5), torch.empty(6, 5)
    t = table_of(driver, a, b)
    assert t.into(out, a, b) is out and driver.pointers()[2] == out.data_ptr()
    for other in (torch.empty(5, 6), torch.empty(5, 6).t(), torch.empty(6, 5).double(), torch.empty(31)[1:].view(6, 5)):
        assert t.into(other, a, b) is None
    x = torch.randn(4, 4)
    assert table_of(driver, x, x, out=(4, 4)).into(x, x, x.clone()) is None, 'x would be overwritten while it is read'


def test_nothing_is_kept_of_what_was_given(driver, freeze_gc):
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    def counts():
        gc.collect()
        return [sys.getrefcount(o) for o in (a, b, allocate, refuse, torch.float32)]
    t, k = table_of(driver, a, b, room=64), launch(driver, [('*', 2, 32)], [8])
    t(a, b)
    before = counts()
    for _ in range(50): t(a, b), t.into(torch.empty(6, 5), a, b), k(a), t(b, a)
    assert counts() == before
    del t, k
    assert counts()[2] < before[2]


class Owner:
    "What holds a kernel"
    def __call__(self): pass


def test_a_kernel_lives_as_long_as_a_table_launches_it(driver, freeze_gc):
    owner, a, b = Owner(), torch.randn(6, 4), torch.randn(4, 5)
    gone, t = weakref.ref(owner), driver.module.Table(allocate)
    t.store_recipe((a, b), ((launch(driver, [('&',)], [8], owner), ((2, 0),)),), ((6, 5), (5, 1), a.dtype), None)
    del owner
    gc.collect()
    assert t(a, b) is not None and gone()
    t.clear()
    gc.collect()
    assert gone() is None


def test_threads_do_not_mix_their_arguments(driver):
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    t, got = table_of(driver, a, b), []
    def many():
        x, y = torch.randn(6, 4), torch.randn(4, 5)
        for _ in range(100): got.append((x, y, t(x, y)))
    threads = [threading.Thread(target=many) for _ in range(4)]
    for o in threads: o.start()
    for o in threads: o.join()
    assert sorted(driver.pointers(i) for i in range(400)) == sorted([o.data_ptr() for o in xs] for xs in got)


def test_a_table_may_be_cleared_while_it_is_used(driver, freeze_gc):
    "By another thread, while the driver has the launch"
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    t = table_of(driver, a, b, room=64)
    noted = driver.launches
    driver.launches = SimpleNamespace(append=lambda o: (noted.append(o), t.clear(), gc.collect()))
    assert t(a, b) is not None and t(a, b) is None and len(noted) == 1


# `cuda_kernel` on a GPU that is not there

@pytest.fixture
def kernel(driver, monkeypatch):
    "A kernel (float *x, int n), never compiled; `checked` records what took the slow path"
    monkeypatch.setattr(kernels, 'launcher', lambda: driver.module)
    driver.sizes = [8, 4]
    params = [Param('float *', 'x', ''), Param('int', 'n', '')]
    class Run:
        checked = []
        def __call__(self, *how): self.checked.append(how)
    run = Run()
    run.handle, run.parameters, run.launch_attributes, run.checked = 77, [('*', 2, 32), ('i',)], [], []
    k = kernels.Kernel('k', params, run, 'cpu', 0.)
    k.long = run.checked
    return k


def test_brackets_are_read_once(driver, kernel):
    x = torch.randn(4)
    assert kernel[2, 32] is kernel[2, 32] and kernel[2, 32] is not kernel[2, 64]
    kernel[2, 32](x, 4)
    kernel[(2, 3), (8, 4), None, 64](x, 4)
    kernel[1, 1, SimpleNamespace(cuda_stream=11)](x, 4)
    kernel[1, 1, 12](x, 4)
    assert [(o.grid, o.block, o.shared, o.stream) for o in driver.launches] == [
        ((2, 1, 1), (32, 1, 1), 0, 7), ((2, 3, 1), (8, 4, 1), 64, 7), ((1,)*3, (1,)*3, 0, 11), ((1,)*3, (1,)*3, 0, 12)]
    assert not kernel.long


def test_what_is_wrong_with_a_launch_is_said_as_before(driver, kernel):
    x = torch.randn(4)
    kernel[2, 32](x, 4)
    for brackets in ((2., 32), (2,), 2, (2, 2000), (1, 32, 'a'), (1, 32, None, -1), (1, 2, None, 10**9)):
        with pytest.raises(LaunchError): kernel[brackets](x, 4)
    for args, what in (((x.double(), 4), 'must be float32'), ((x, 4.), 'must be an integer'),
                       ((x[::2], 4), 'not contiguous'), ((x, 2**31), 'cannot hold'), (([1.], 4), 'must be a tensor')):
        with pytest.raises(TypeError, match=what): kernel[2, 32](*args)
    with pytest.raises(LaunchError, match='expected 2'): kernel[2, 32](x)
    assert len(driver.launches) == 1 and not kernel.long


def test_what_only_python_knows_is_launched_by_it(driver, kernel):
    import numpy as np
    kernel[2, 32](np.ones(4, np.float32), np.int32(4))
    assert len(kernel.long) == 1 and not driver.launches


def test_more_bytes_than_it_lays_out_are_left_to_python(driver, kernel):
    kernel._launches.parameters = [('V', 0, 0, bytes(5000)), ('i',)]
    kernel[1, 32](torch.ones(4), 4)
    assert len(kernel.long) == 1 and not driver.launches


def test_compiled_launches_do_not_pile_up(driver, kernel, monkeypatch):
    monkeypatch.setattr(kernels, 'MAX_CACHED_LAUNCHES', 3)
    for i in range(1, 20): kernel[i, 32](torch.ones(1), 1)
    assert len(kernel._launches) <= 3 and len(driver.launches) == 19


# Products

SRC = """
__global__ void tiled(float *m, float *n, float *out, int h, int w, int k) {}"""


def test_a_launch_plan_goes_into_a_table(driver, monkeypatch):
    "Two launches; the second reads what the first has left in the workspace"
    monkeypatch.setattr(launches, 'launcher', lambda: driver.module)
    monkeypatch.setattr(rung, 'compile_kernel',
                        lambda src, name, backend: SimpleNamespace(handle=len(name), __name__=name))
    calls = [rung.KernelLaunch('', 'one', ('m', 'n', 'ms', 'ns'), (1, 2), (4,), (32,)),
             rung.KernelLaunch('', 'second', ('ms', 'ns', 'out'), (launches.Int64(3),), (1, 2), (64,), 0, True,
                               (1, 2, 1))]
    sequence = rung.PreparedLaunches(rung.LaunchPlan(calls, dict(ms=(100, 'bfloat16'), ns=(7, 'float32'))))
    m, n, out = torch.randn(6, 4), torch.randn(4, 5), torch.empty(6, 5)
    steps, size = sequence.launch_table(m, n, out)
    assert size == 512 and [s[1] for s in steps] == [((0, 0), (1, 0), (3, 0), (3, 256)), ((3, 0), (3, 256), (2, 0))]
    t, driver.sizes = driver.module.Table(allocate), [8]*3
    t.store_recipe((m, n), steps, ((6, 5), (5, 1), m.dtype), ((size,), (1,), torch.uint8))
    got = t(m, n)
    first, second = driver.pointers(0), driver.pointers(1)
    assert first[:2] == [m.data_ptr(), n.data_ptr()] and second == [first[2], first[2]+256, got.data_ptr()]
    assert driver.launches[1].attributes == [(6, 1, 0, 0), (4, 1, 2, 1)]
    for launch, _ in sequence.launchers: launch([16]*len(_), 5)
    assert [o.stream for o in driver.launches] == [7, 7, 5, 5]


def test_a_rung_takes_tensor_maps_that_are_moved(driver, monkeypatch):
    monkeypatch.setattr(launches, 'launcher', lambda: driver.module)
    made = []
    monkeypatch.setattr(launches, 'tensor_map', lambda x, box, swizzle: made.append(x.data_ptr()) or bytes(128))
    r = rung.Rung('far', SRC, threads=128, tma_boxes=dict(m=(64, 32), n=(16, 8, 32)), BM=8, BN=8)
    r._compiled_kernels['sim'] = SimpleNamespace(handle=77, __name__='far')
    l, driver.sizes = rung._PreparedLaunch(r, 100, 40, 32), [8]*3
    for _ in range(3):
        m, n, out = torch.empty(100, 32), torch.empty(32, 40), torch.empty(100, 40)
        l(m, n, out, 4)
        assert driver.pointers() == [m.data_ptr(), n.data_ptr(), out.data_ptr()]
    assert len(made) == 2 and len(driver.moved) == 6


def test_a_thread_without_a_context_gets_one(driver, monkeypatch):
    "Where the driver has refused to move a map, too"
    monkeypatch.setattr(launches, 'launcher', lambda: driver.module)
    monkeypatch.setattr(launches, 'tensor_map', lambda x, box, swizzle: bytes(128))
    entered = []
    monkeypatch.setattr(nvidia, 'make_context_current', lambda: entered.append(1))
    driver.answer = lambda: 0 if entered else 201
    r = rung.Rung('far', SRC, threads=128, tma_boxes=dict(m=(64, 32)), BM=8, BN=8)
    r._compiled_kernels['sim'] = SimpleNamespace(handle=77, __name__='far')
    rung._PreparedLaunch(r, 8, 8, 8)(*(torch.ones(8, 8) for _ in range(3)), 4)
    assert entered and len(driver.launches) == 1


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None): return f(*args, **kwargs or {})


def test_only_what_is_ordinary_goes_the_short_way():
    a = torch.randn(6, 4)
    def one(x): return torch.tensor(float(dispatch._is_ordinary(a)))
    assert dispatch._is_ordinary(a)
    with torch.autocast('cpu'): assert not dispatch._is_ordinary(a)
    with Mode(): assert not dispatch._is_ordinary(a)
    assert not torch.func.vmap(one)(torch.ones(3)).any()
    assert not torch.func.jvp(one, (a,), (a,))[0]
    with torch.autograd.forward_ad.dual_level(): assert not dispatch._is_ordinary(a)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision('high')
        assert not dispatch._is_ordinary(a) and dispatch._is_ordinary(a.bfloat16())
        with ladder.tf32_disabled(): assert dispatch._is_ordinary(a)
    finally: torch.set_float32_matmul_precision(before)


class Known:
    "A table that knows everything, and notes what it is asked"
    def __init__(self): self.asked = []
    def has_recipe(self, a, b): return True
    def fast(self, a, b):
        needs_grad = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
        return None if needs_grad or torch.is_autocast_enabled('cpu') else self(a, b)

    def __call__(self, a, b):
        self.asked.append(None)
        return (a@b).contiguous()
    def into(self, out, a, b):
        self.asked.append(out)
        return out.copy_(a@b)


def test_the_short_way_is_taken(monkeypatch):
    a, b, out, known = torch.randn(6, 4), torch.randn(4, 5), torch.empty(6, 5), Known()
    monkeypatch.setattr(dispatch, '_launch_table', known)
    check(dispatch.matmul(a, b), a@b, 0, 0)
    assert dispatch.matmul(a, b, out) is out and known.asked == [None, out]
    with torch.autocast('cpu'): assert dispatch.matmul(a, b).dtype is torch.bfloat16
    assert len(known.asked) == 2
    with pytest.raises(RuntimeError): dispatch.matmul(a, b.clone().requires_grad_(), out)


def test_what_torch_multiplies_goes_there_by_the_short_way(monkeypatch):
    class Left(Known):
        def fast(self, a, b): return torch.matmul(a, b)
        def has_recipe(self, a, b): return False
        def __call__(self, a, b, out=None): return self.asked.append(out) or NotImplemented
    a, b, out, known = torch.randn(6, 4), torch.randn(4, 5), torch.empty(6, 5), Left()
    monkeypatch.setattr(dispatch, '_launch_table', known)
    monkeypatch.setattr(dispatch, 'multiply', None)
    check(dispatch.matmul(a, b), a@b, 0, 0)
    assert dispatch.matmul(a, b, out) is out and known.asked == [out]
    check(out, a@b, 0, 0)


def test_it_is_kept_that_no_kernel_is_for_such_operands(monkeypatch):
    "But not what depends on more than their shapes, strides and type"
    a, b, kept = torch.randn(6, 4), torch.randn(4, 5), []
    plan.multiply(a, b, on_multiply=lambda *o: kept.append(o))
    assert plan.fallback_reason(a, b) and not kept
    monkeypatch.setattr(plan, 'fallback_reason', lambda a, b: None)
    monkeypatch.setattr(plan, '_plan_for', lambda a, b: (plan.Plan(None, 'torch is faster'), None, None))
    check(plan.multiply(a, b, on_multiply=lambda *o: kept.append(o)), a@b, 0, 0)
    assert kept == [(a, b, None, None, None, None)]


def test_gradients_go_the_short_way_too(monkeypatch):
    a, b, known = torch.randn(6, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True), Known()
    monkeypatch.setattr(dispatch, '_launch_table', known)
    y, g = dispatch.matmul(a, b), torch.randn(6, 5)
    for got, want in zip(torch.autograd.grad(y, (a, b), g), (g@b.t(), a.t()@g)): check(got, want, 0, 0)
    assert len(known.asked) == 3
    with torch.no_grad(): assert not dispatch.matmul(a, b).requires_grad


def test_what_using_changes_is_forgotten(monkeypatch):
    asked = []
    monkeypatch.setattr(plan, 'cache_clearers', [lambda: asked.append('forgotten')])
    with using(): assert asked == ['forgotten']
    assert len(asked) == 2


# Traced

def test_the_operator_is_one_of_torchs():
    a, b = torch.randn(2, 3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    torch.library.opcheck(torch.ops.gridstride.matmul.default, (a, b))


def test_compiled_code_calls_the_operator(monkeypatch):
    monkeypatch.setattr(dispatch, '_is_supported', lambda a, b: True)
    graphs = []
    def backend(graph, inputs): return graphs.append(graph.code) or graph.forward
    a, b = torch.randn(6, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    g = torch.randn(6, 5)
    y = torch.compile(lambda a, b: dispatch.matmul(a, b)+1, backend=backend, fullgraph=True)(a, b)
    check(y, a@b+1, atol=1e-6)
    assert 'gridstride.matmul' in graphs[0]
    for got, want in zip(torch.autograd.grad(y, (a, b), g), (g@b.t(), a.t()@g)): check(got, want, atol=1e-6)
    x = torch.randn(3, 6, 4)
    check(torch.func.vmap(torch.ops.gridstride.matmul.default, (0, None))(x, b), x@b, atol=1e-6)


def test_where_no_kernel_can_be_compiled_code_calls_torch():
    graphs = []
    def backend(graph, inputs): return graphs.append(graph.code) or graph.forward
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    check(torch.compile(dispatch.matmul, backend=backend, fullgraph=True)(a, b), a@b, 0, 0)
    assert 'gridstride' not in graphs[0] and 'matmul' in graphs[0]


# Where it cannot be

NOWHERE = [0]*6                  # addresses of functions that nothing here calls


def why_none():
    with pytest.raises(launcher.NoLauncher) as e: launcher.load(CPU, NOWHERE)
    assert '\n' not in str(e.value)
    return str(e.value)


def test_without_it_it_is_said_why(monkeypatch, tmp_path):
    monkeypatch.setattr(launcher.sysconfig, 'get_path', lambda name: str(tmp_path))
    assert 'headers' in why_none()
    monkeypatch.undo()
    monkeypatch.setattr(launcher.sys, 'platform', 'darwin')
    assert 'Linux' in why_none()


@pytest.mark.parametrize('log,why', [('g++ launcher.cpp\na.h:3:1: fatal error: no such header\ncompilation terminated.',
                                      'a.h:3:1: fatal error: no such header'), ('g++ launcher.cpp\nkilled', 'killed')])
def test_what_the_compiler_says_is_said(monkeypatch, log, why):
    monkeypatch.setattr(launcher, 'build', lambda *o, **kw: (_ for _ in ()).throw(RuntimeError(log)))
    assert why_none() == why


def test_what_does_not_load_is_said(monkeypatch, tmp_path):
    (tmp_path / 'launcher.so').write_bytes(b'no library')
    monkeypatch.setattr(launcher, '_build', lambda: tmp_path / 'launcher.so')
    assert 'not load' in why_none()


def test_why_not_is_what_kept_it_from_loading(monkeypatch):
    monkeypatch.setattr(launcher, 'driver', lambda: SimpleNamespace(cuLaunchKernelEx=LAUNCH(0)))
    for o in (launcher._load_once, launcher.launcher): o.cache_clear()
    try: assert launcher.launcher() is None and 'cuCtxGetDevice' in launcher.no_launcher_reason()
    finally:
        for o in (launcher._load_once, launcher.launcher): o.cache_clear()


@pytest.mark.parametrize('name', launcher._PRIVATE_NAMES)
def test_a_torch_that_dropped_a_name_of_its_own_has_no_short_way(monkeypatch, name):
    *path, last = name.split('.')
    monkeypatch.delattr(operator.attrgetter('.'.join(path))(torch), last)
    assert f'has no torch.{name}' in why_none()


def test_every_name_of_torchs_own_has_another_way():
    "Private names of the fast path are looked up before it exists, or `getattr` has a replacement for them"
    text = Path(dispatch.__file__).read_text()
    used = re.findall(r'\b(?:torch\._C\.|_functorch\.|forward_ad\._)[\w.]+', text)
    known = {o.replace('_C._functorch', '_functorch').replace('autograd.', '') for o in launcher._PRIVATE_NAMES}
    assert used and {o.removeprefix('torch.') for o in used} == known


@pytest.mark.parametrize('module,name', [(torch._C._functorch, 'is_functorch_wrapped_tensor'),
                                         (torch.autograd.forward_ad, '_current_level')])
def test_where_torch_does_not_report_transforms_it_multiplies(monkeypatch, module, name):
    monkeypatch.delattr(module, name)
    plan._missing_torch_name.cache_clear()
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    asked = []
    try:
        with using(lambda m, n, out=None: asked.append(1)):
            assert name in str(plan.explain(a, b))
            check(dispatch.matmul(a, b), a@b, 0, 0)
    finally: plan._missing_torch_name.cache_clear()
    assert not asked


# Operators whose calls are repeated

@pytest.fixture
def replayable(driver, monkeypatch):
    "Wrap a function as on a GPU; `driver.ran` counts its calls"
    monkeypatch.setattr(launch_replay, '_new_tables', lambda: lambda: driver.module.Table(allocate))
    monkeypatch.setattr(launch_replay, '_is_recordable', lambda args: launch_replay.active_recorder() is None)
    monkeypatch.setattr(launches, 'launcher', lambda: driver.module)
    enter = launch_replay.CallRecorder.__enter__
    def count(recorder):
        driver.recorded += 1
        return enter(recorder)
    monkeypatch.setattr(launch_replay.CallRecorder, '__enter__', count)
    driver.ran = driver.recorded = 0
    def wrap(run, **options):
        def counted(*args):
            driver.ran += 1
            return run(*args)
        return launch_replay.replayable(counted, **options)
    return wrap


def launch_arrays(driver, *arrays, record=True):
    "Launch a kernel that takes these arrays"
    launcher = launches.Launcher(SimpleNamespace(handle=77, __name__='k'), len(arrays), (3,), (1,), (32,))
    driver.sizes = [8]*len(arrays)
    launcher([0 if x is None else x.data_ptr() for x in arrays], 5)
    if record: common.record_launch(launcher, arrays)


def test_a_call_like_an_earlier_one_only_launches(driver, replayable):
    def run(x, weight, scale):
        y, stats = torch.empty_like(x), torch.empty(2, 3)
        partials, status = torch.empty(7), torch.zeros(5, dtype=torch.int64)
        launch_arrays(driver, x, weight, partials, status[1:], status[:1])
        launch_arrays(driver, partials, y.view(torch.int32), stats[1], x[2:])
        return y, stats
    call, x, weight = replayable(run), torch.randn(4, 6), torch.randn(6)
    call(x, weight, .5)
    other_x, other_weight = torch.randn(4, 6), torch.randn(6)
    y, stats = call(other_x, other_weight, .5)
    assert driver.ran == 1 and len(driver.launches) == 4 and stats.shape == (2, 3)
    driver.sizes = [8]*5
    (status, zero, num_bytes, _), = driver.filled
    given = [struct.unpack('Q', value)[0] for value in driver.launches[2].given]
    partials = driver.pointers(3)[0]
    assert (zero, num_bytes) == (0, 40) and given[:2] == [other_x.data_ptr(), other_weight.data_ptr()]
    assert driver.pointers(3) == [partials, y.data_ptr(), stats[1].data_ptr(), other_x[2:].data_ptr()]
    for other in ((x[:3], weight, .5), (x, weight, .25), (x, None, .5), (x.t(), weight, .5), (x.double(), weight, .5)):
        before = driver.ran
        try: call(*other)
        except AttributeError: pass
        assert driver.ran == before+1


def not_explained(driver):
    "Functions whose calls no recipe may repeat, and why"
    def launching(*arrays):
        launch_arrays(driver, *arrays)
        return arrays[-1]
    static = torch.zeros(4)
    yield 'another operation of torch', lambda x: launching(x, x*2)
    yield 'a copy', lambda x: launching(x.clone(), torch.empty(4))
    yield 'memory of another call', lambda x: launching(x, static, torch.empty(4))
    yield 'no launch', lambda x: torch.empty(4)
    yield 'the result is an argument', lambda x: launching(torch.empty(4), x)
    yield 'a result that no kernel writes', lambda x: (launching(x, torch.empty(4)), torch.empty(3))
    def unrecorded(x):
        out = torch.empty(4)
        launch_arrays(driver, x, out, record=False)
        return launching(x, out)
    yield 'a launch that was not recorded', unrecorded


def test_a_call_that_its_recording_does_not_explain_is_not_repeated(driver, replayable):
    for reason, run in not_explained(driver):
        call, driver.ran, driver.recorded = replayable(run), 0, 0
        for _ in range(3): call(torch.randn(4))
        assert (driver.ran, driver.recorded) == (3, 1), reason


def test_a_call_whose_operands_overlap_is_not_repeated(driver, replayable):
    "A later call with these shapes may pass two arrays"
    def run(a, b):
        out = torch.empty(4)
        launch_arrays(driver, a, b, out)
        return out
    call, x = replayable(run), torch.randn(6)
    for _ in range(2): call(x[:4], x[2:])
    for _ in range(2): call(x[:4], x[:4])
    assert driver.ran == 4
    for _ in range(3): call(torch.randn(4), torch.randn(4))
    assert driver.ran == 5 and len(set(driver.pointers()[:2])) == 2
    call(x[:4], x[:4])
    assert driver.ran == 5 and driver.pointers()[:2] == [x.data_ptr()]*2


def test_an_operator_that_works_in_place_is_repeated(driver, replayable):
    def run(x, factor):
        launch_arrays(driver, x, factor)
        return ()
    call, x = replayable(run), torch.randn(4)
    for _ in range(3): assert call(x, torch.ones(())) == ()
    assert driver.ran == 1 and len(driver.launches) == 3 and driver.pointers()[0] == x.data_ptr()


def test_torch_computes_what_an_operator_leaves_to_it(driver, replayable):
    call, x = replayable(lambda x: NotImplemented, torch_fallback=torch.sin), torch.randn(4)
    assert call.fast(x) is None
    assert all(torch.equal(call(x), x.sin()) for _ in range(3)) and driver.ran == 1
    assert torch.equal(call.fast(x), x.sin()) and call.fast(x.double()) is None is call.fast([x])
    shorter = replayable(lambda x, n: NotImplemented, torch_fallback=lambda x, n: x.sin(),
                       make_torch_function=lambda x, n: torch.pow)
    assert torch.equal(shorter(x, 2), x.sin()) and torch.equal(shorter(x, 2), x**2)


def test_torch_differentiates_the_calls_that_an_operator_names(driver, replayable):
    call = replayable(lambda x: NotImplemented, torch_fallback=torch.sin, is_torch_differentiated=lambda x: len(x) == 4)
    for n in (4, 5):
        x = torch.randn(n)
        call(x)
        assert call.fast(x) is not None and (call.fast(x.requires_grad_()) is not None) is (n == 4)
        with torch.no_grad(): assert not call.fast(x).requires_grad


def test_a_tensor_of_a_subclass_is_not_a_key():
    class Marked(torch.Tensor): pass
    assert not launch_replay._is_key(torch.randn(3).as_subclass(Marked)) and launch_replay._is_key(torch.randn(3))


def test_torch_computes_in_graphs_what_it_computes_faster_there(driver, replayable):
    def run(x):
        y = torch.empty_like(x)
        launch_arrays(driver, x, y)
        return y
    call, x = replayable(run, torch_fallback=torch.sin, use_torch_in_graphs=lambda x: len(x) == 4), torch.randn(4)
    for y in (x, x[:3]): call(y)
    driver.is_capturing = True
    assert torch.equal(call(x), x.sin()) and len(driver.launches) == 2
    call(x[:3])
    assert len(driver.launches) == 3 and driver.ran == 2


def test_small_gradients_are_torchs_outside_graphs(driver, replayable, monkeypatch):
    "Ours has run once with its gradient, so that it can be captured"
    ran = []
    class Ours(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return ran.append('forward') or x*2
        @staticmethod
        def backward(ctx, grad): return ran.append('backward') or grad*2
    monkeypatch.setattr(torch.cuda, 'is_current_stream_capturing', lambda: driver.is_capturing)
    call, x = replayable(lambda x: None), torch.randn(4, requires_grad=True)
    def differentiate(): return launch_replay.differentiate_eagerly(call, Ours.apply, lambda x: torch.sin, x)
    assert torch.equal(differentiate(), x.sin()) and ran == ['forward', 'backward']
    assert torch.equal(call.fast(x), x.sin()) and len(ran) == 2 and call.fast(x).requires_grad
    driver.is_capturing = True
    assert call.fast(x) is None and torch.equal(differentiate(), x*2)
    driver.is_capturing = False
    monkeypatch.setattr(launch_replay, 'is_any_autocast_enabled', lambda: True)
    assert torch.equal(differentiate(), x*2)


def test_a_call_whose_launches_are_never_stored_may_still_be_torchs(driver, replayable):
    "Its launches alone would lose the gradient"
    call = replayable(lambda x, n: NotImplemented if n else x*2, torch_fallback=lambda x, n: x.sin(),
                    is_replayable=lambda x, n: False)
    x = torch.randn(4, requires_grad=True)
    for n in (0, 1, 0, 1): assert call(x, n).requires_grad
    assert driver.ran == 3 and driver.recorded == 0


def test_an_operator_may_exclude_calls(driver, replayable):
    def run(x, seed):
        out = torch.empty(4)
        launch_arrays(driver, x, out)
        return out
    call = replayable(run, is_replayable=lambda x, seed: not seed)
    for seed in (0, 0, 3, 3): call(torch.randn(4), seed)
    assert driver.ran == 3


def test_operators_within_an_operator_are_recorded_with_it(driver, replayable):
    def inner(x):
        out = torch.empty(4)
        launch_arrays(driver, x, out)
        return out
    inner = replayable(inner)
    inner(torch.randn(4))
    def outer(x): return inner(inner(x))
    outer = replayable(outer)
    for _ in range(3): outer(torch.randn(4))
    assert driver.ran == 4 and len(driver.launches) == 7


def test_modes_and_transforms_are_not_repeated(driver, replayable):
    "They replace the operations that the function runs"
    def run(x):
        out = torch.empty(4)
        launch_arrays(driver, x, out)
        return out
    call, x = replayable(run), torch.randn(4)
    call(x)
    with Mode(): call(x)
    assert driver.ran == 2
    assert launch_replay.needs_autograd(torch.nn.Parameter(x)) and not launch_replay.needs_autograd(x, None)
    with torch.autograd.forward_ad.dual_level(): assert launch_replay.needs_autograd(x)
    def one(x): return torch.tensor(float(launch_replay.needs_autograd(x)))
    assert torch.func.vmap(one)(torch.ones(3)).all()


def test_a_function_is_applied_without_torchs_python():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x*factor

        @staticmethod
        def backward(ctx, grad): return grad*ctx.factor, None
    double, x = launch_replay.make_apply(Double), torch.randn(4, requires_grad=True)
    y = double(x, 3.)
    first, = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    check(first.detach(), 18*x.detach(), 1e-6, 1e-6)
    second, = torch.autograd.grad(first.sum(), x)
    check(second, torch.full((4,), 18.), 1e-6, 0)
    assert 'Double' in type(y.grad_fn).__name__ and not double(x.detach(), 3.).requires_grad
    with pytest.raises(RuntimeError, match='setup_context'): torch.func.grad(lambda x: double(x, 3.).sum())(x.detach())
