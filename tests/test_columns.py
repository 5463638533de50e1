"""Tables' columns on made-up clocks: ratios, runs, what cannot be timed, the clock from counted cycles; and what
cublasLt gets as a product, by a mock that multiplies as requested."""
import ctypes
from itertools import repeat
from types import SimpleNamespace

import numpy as np
import pytest
from found import saying
import torch
from gridstride.bench import clocks, columns, timing
from gridstride.bench.columns import BackToBack, InGraph, SmClocks, FlushedByWrites, by_column, clock_rate_between
from gridstride.cpp import cuda_kernel
from gridstride.kernels.gemm import cublaslt
from gridstride.bench.recording import Unavailable


# The clock, counted

def test_the_clock_is_cycles_over_nanoseconds():
    before, after = np.zeros((4, 2), np.int64), np.zeros((4, 2), np.int64)
    before[:3], after[:3] = [[100, 50], [7, 50], [0, 60]], [[100+1755*9, 50+9000], [7+1755*9, 50+9000], [0, 0]]
    after[3] = 5, 5                                                     # noted once only, as SM 2
    assert clock_rate_between(before, after) == pytest.approx(1755)
    assert clock_rate_between(before, before) is None


def test_each_sm_stores_both_of_its_counters():
    at = torch.zeros(columns.MAX_SMS, 2, dtype=torch.int64)
    cuda_kernel(columns._COUNTERS_SRC)[8, 32](at)
    noted = at[at[:, 1] > 0]
    assert len(noted) == len(at[at[:, 0] > 0]) >= 1 and len(at[at.sum(1) > 0]) == len(noted)


def test_clock_readings_enclose_a_batch(monkeypatch):
    "In the queue, after the pause and before the first run, and after the last; not in the time of a call"
    said = []
    event = SimpleNamespace(record=lambda: said.append('event'), elapsed_time=lambda _: 3., query=lambda: False)
    stream = SimpleNamespace(Event=lambda **_: event, _sleep=lambda _: said.append('pause'),
                             synchronize=lambda: said.append('all'))
    def clock(kind):
        c = kind.__new__(kind)
        c.torch, c.queue_seconds, c.buffer, c.states, c.mhz = stream, 1e-5, None, [], []
        c.sensors = SimpleNamespace(read=lambda: None)
        c.sm_clocks = SimpleNamespace(queue_read=lambda i: said.append(f'note {i}'), mhz=lambda: 1700.)
        return c
    c = clock(FlushedByWrites)
    assert c.times(lambda: said.append('run'), 2) == [.003, .003] and c.mhz == [1700.]
    assert said == ['pause', 'note 0', *['event', 'run', 'event']*2, 'note 1', 'all']
    said.clear()
    c, now = clock(BackToBack), iter([10., 10.5])
    c.now = lambda: next(now)
    assert c.times(lambda: said.append('run'), 5) == [.1]
    assert said == ['note 0', 'all', *['run']*5, 'all', 'note 1']
    said.clear()
    c = clock(InGraph)
    c.graphs = {}
    monkeypatch.setattr(clocks, 'capture', lambda fn, n: lambda: said.append(f'graph of {n}'))
    def fn(): pass
    assert c.times(fn, 1) == [.003/columns.CALLS_PER_GRAPH] and c.times(fn, 1) and len(c.graphs) == 1
    assert said.count(f'graph of {columns.CALLS_PER_GRAPH}') == 2


class Queue:
    "A GPU that is `free` at a time: an event takes place then, or when it is queued, if that is later"
    def __init__(self): self.now, self.free = 0., 0.
    def Event(self, **_): return QueuedEvent(self)
    def _sleep(self, cycles): self.free = max(self.now, self.free) + cycles/2e9
    def synchronize(self): self.now = max(self.now, self.free)


class QueuedEvent:
    def __init__(self, queue): self.queue = queue
    def record(self): self.at = self.queue.free = max(self.queue.now, self.queue.free)
    def query(self): return self.at <= self.queue.now
    def elapsed_time(self, other): return (other.at - self.at)*1000


def queued(kind, launches):
    "A clock of this kind on a made-up GPU, and a kernel of 5 µs; each launch takes the CPU what `launches` gives"
    q, c = Queue(), kind.__new__(kind)
    c.torch, c.queue_seconds, c.buffer, c.states, c.mhz, c.now = q, 1e-5, None, [], [], lambda: q.now
    c.sensors = SimpleNamespace(read=lambda: None)
    c.sm_clocks = SimpleNamespace(queue_read=lambda i: None, mhz=lambda: 1700.)
    def kernel():
        q.now += next(launches)
        q.free = max(q.now, q.free) + 5e-6
    return c, kernel


def test_a_run_that_waited_for_the_cpu_does_not_count():
    "As when a compiler takes the CPU in the fifth run: it and the later ones have no pause"
    c, kernel = queued(clocks.Events, iter([1e-5]*4 + [.01] + [1e-5]*5))
    assert c.times(kernel, 10) == pytest.approx([5e-6]*4) and not c.num_late_batches


def test_a_batch_that_was_queued_too_late_is_measured_again():
    c, kernel = queued(clocks.Events, iter([.002]*3 + [1e-5]*3))
    assert c.times(kernel, 3) == pytest.approx([5e-6]*3) and not c.num_late_batches


def test_times_of_the_cpu_are_refused_in_tables_and_warned_of_elsewhere():
    "As of a function that waits for the GPU: no pause is long enough"
    c, kernel = queued(FlushedByWrites, repeat(.05))
    with pytest.raises(RuntimeError, match=saying(3, 2)): c.times(kernel, 2)
    c, kernel = queued(clocks.Events, repeat(.05))
    assert min(c.times(kernel, 2)) > .02 and c.num_late_batches == 1
    assert any('CPU time' in o for o in timing.warnings_about_omissions(c, True))
    assert not timing.warnings_about_omissions(clocks.Clock(), True)


# Columns

class Fake(clocks.Clock):
    "A clock on which a call takes what it returns, in each run one hundredth more"
    most = 100

    def __init__(self, extra=0.): self.t, self.extra, self.mhz = 0., extra, []
    def now(self): return self.t

    def times(self, fn, n):
        res = [fn() + self.extra for _ in range(n)]
        self.t += sum(res)
        self.mhz.append(1500. + len(self.mhz)%2 if n > 1 else 9.)   # a single run means little
        return res


def times(**us): return {k: lambda v=v: v*1e-6 for k, v in us.items()}


def test_columns_compare_all_with_the_first():
    found = by_column(times(torch=20, ours=10), .02, columns=dict(none=Fake, read=lambda: Fake(1e-5)))
    a, b = found['none']['sides'], found['read']['sides']
    assert a['ours']['ratio'] == pytest.approx(2) and a['torch']['ratio'] == 1
    assert b['ours']['ratio'] == pytest.approx(1.5) and b['ours']['seconds'] == pytest.approx(20e-6)
    assert a['ours']['low'] <= a['ours']['ratio'] <= a['ours']['high']
    assert 1500 <= found['none']['mhz'][0] == found['none']['mhz'][1] <= 1501


def test_runs_are_reported_one_by_one():
    "A clock that slows the second side in the second run"
    class Slowing(Fake):
        runs = 0
        def times(self, fn, n): return [t*(1 + (Slowing.runs == 2)*(t < 15e-6)) for t in super().times(fn, n)]
    def counted(*args):
        Slowing.runs += 1
        return time_run(*args)
    time_run = columns.time_run
    with pytest.MonkeyPatch.context() as m:
        m.setattr(columns, 'time_run', counted)
        side = by_column(times(torch=20, ours=10), .02, 3, dict(none=Slowing))['none']['sides']['ours']
    assert side['runs'] == pytest.approx([2, 1, 2]) and side['ratio'] == pytest.approx(2)
    assert side['low'] == pytest.approx(1) and (side['fast'], side['slow']) == pytest.approx((1e-5, 2e-5))


def test_all_of_the_time_is_used_in_some_rounds():
    "As the power limit takes a while; and a short time is cut into rounds, too"
    for seconds in .02, 1.:
        clock, seen = Fake(), []
        columns.time_run(clock, {k: lambda k=k, f=f: seen.append(k) or f()
                                for k, f in times(a=100, b=300).items()}, seconds)
        assert 2*seconds <= clock.t <= 2.8*seconds
        assert sum(a != b for a, b in zip(seen, seen[1:])) >= 10


def test_what_cannot_be_timed_is_reported():
    def refuses(): raise RuntimeError('operation not permitted\nwhen stream is capturing')
    found = by_column(times(torch=20, ours=10, slow=9), .02, columns=dict(graph=refuses, row=Fake),
                      skipped={('row', 'slow')})
    assert found['graph'] == dict(failed='RuntimeError: operation not permitted')
    assert list(found['row']['sides']) == ['torch', 'ours']


def test_a_column_needs_its_baseline():
    with pytest.raises(ValueError, match="column 'row' skips 'torch'"):
        by_column(times(torch=20, ours=10), .02, columns=dict(none=Fake, row=Fake), skipped={('row', 'torch')})


@pytest.mark.gpu
def test_columns_of_a_gpu():
    "All five, with a clock that is one; what the cache holds is faster than what it does not"
    x = torch.randn(2**22, device='cuda')
    found = by_column(dict(double=lambda: torch.mul(x, 2, out=x)), .1)
    assert all(100 < o['mhz'][0] <= o['mhz'][1] < 4000 for o in found.values())
    assert found['none']['sides']['double']['seconds'] < found['read']['sides']['double']['seconds']
    assert SmClocks().mhz() is None


@pytest.mark.gpu
@pytest.mark.parametrize('dtype', ['float32', 'float16', 'bfloat16'])
def test_picks_of_a_gpu(dtype):
    "Each proposal per layout is right, and has a configuration"
    from gridstride.kernels.ladder.ladder import Reference, tf32_disabled, inputs
    a, b = inputs(72, 200, 136, dtype, 'cuda')
    for layout in 'nn', 'tn', 'nt':
        m, n = (x.t().contiguous() if o == 't' else x for x, o in zip((a, b), layout))
        with tf32_disabled(): found = cublaslt.heuristic_kernels(m, n, layout)
        assert found and all(p.config['tile'] for p in found)
        # sums of parts of k may be rounded to 16 bits: a few roundings of the result
        for p in found: assert Reference(a, b).relative_error(p(m, n, a.new_full((72, 200), float('nan')))) < 2**-7


# cublasLt

class Library:
    "Records its arguments, and multiplies accordingly, in column-major order"

    def __init__(self): self.made, self.gone = {}, []

    def _make(self, to, **what):
        to._obj.value = len(self.made) + 1
        self.made[to._obj.value] = what
        return 0

    def cublasLtMatmulDescCreate(self, to, compute, scale): return self._make(to, compute=compute, scale=scale)

    def cublasLtMatrixLayoutCreate(self, to, kind, rows, columns, lead):
        return self._make(to, kind=kind, rows=rows, columns=columns, lead=lead)

    def cublasLtMatmulPreferenceCreate(self, to): return self._make(to)

    def _set(self, of, what, value, size):
        self.made[of.value][what] = value._obj.value
        return 0

    cublasLtMatmulDescSetAttribute = cublasLtMatmulPreferenceSetAttribute = _set

    def _end(self, of): self.gone.append(of.value)

    cublasLtMatmulDescDestroy = cublasLtMatrixLayoutDestroy = cublasLtMatmulPreferenceDestroy = _end

    def cublasLtMatmulAlgoGetHeuristic(self, handle, product, a, b, c, d, wish, asked, found, n):
        n.value = min(asked, 3)
        for i in range(n.value): found[i].state, found[i].workspace, found[i].algorithm.data[0] = i == 1, 100 + i, i
        return 0

    def cublasLtMatmul(self, handle, product, one, x, a, y, b, zero, c, cd, z, d, how, room, size, stream):
        def view(at, what):
            o = self.made[what.value]
            numbers = (ctypes.c_float*(o['lead']*o['columns'])).from_address(at)
            return np.frombuffer(numbers, np.float32).reshape(o['columns'], o['lead']).T[:o['rows']]
        p = self.made[product.value]
        left, right = (v.T if p.get(o) else v for o, v in ((3, view(x, a)), (4, view(y, b))))
        view(z, d)[:] = one._obj.value*(left @ right) + (view(c, cd)*zero._obj.value if zero._obj.value else 0)
        self.last = how._obj.data[0], size, stream
        return 0


@pytest.fixture
def standin(monkeypatch):
    lib = Library()
    monkeypatch.setattr(cublaslt, 'load_library', lambda: lib)
    monkeypatch.setattr(cublaslt, '_handle', lambda device: 1)
    monkeypatch.setattr(cublaslt, '_workspace', lambda device: torch.empty(8))
    monkeypatch.setattr(cublaslt, 'current_stream', lambda device: 77)
    return lib


@pytest.mark.parametrize('layout', ['nn', 'tn', 'nt', 'tt'])
def test_picks_multiply_in_each_layout(standin, layout):
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    m, n = (x.t().contiguous() if o == 't' else x for x, o in zip((a, b), layout))
    every = cublaslt.heuristic_kernels(m, n, layout, 3)
    assert [p.name for p in every] == ['cublasLt 0', 'cublasLt 1'], 'one of three was refused'
    out = torch.full((5, 3), float('nan'))
    assert every[1](m, n, out) is out and standin.last == (2, 102, 77)
    torch.testing.assert_close(out, a @ b)
    assert (standin.made[1]["compute"], standin.made[1]["scale"]) == (68, 0)
    problem = every[0].problem
    handles = {problem.preference.value, problem.matmul_desc.value, *(o.value for o in problem.layouts)}
    del problem, every
    assert set(standin.gone) == handles, 'all that was made is given back'


def test_a_refusal_is_reported(standin):
    standin.cublasLtMatmulAlgoGetHeuristic = lambda *args: 15
    with pytest.raises(RuntimeError, match='cublasLtMatmulAlgoGetHeuristic returned cublasStatus_t 15'):
        cublaslt.heuristic_kernels(torch.randn(8, 8), torch.randn(8, 8))


def test_the_library_is_the_one_that_is_loaded():
    line = '7f00-7f10 r-xp 0000 08:01 5   /a b/lib/libcublas.so.13\n7f10 r-xp 0 08:01 6  /opt/lib/libcublasLt.so.13\n'
    assert cublaslt.loaded_library_path(line) == '/opt/lib/libcublasLt.so.13'
    with pytest.raises(Unavailable, match='cublasLt'): cublaslt.loaded_library_path(line.splitlines()[0])


def test_structures_are_as_large_as_in_nvidias_header():
    "sizeof and offsetof, as a compiler gave them of cublasLt.h 13"
    p = cublaslt.HeuristicResult
    assert (ctypes.sizeof(p), p.workspace.offset, p.state.offset, p.waves.offset) == (96, 64, 72, 76)
