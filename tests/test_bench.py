"Timing on mock clocks: what is measured, for how long, what is reported, and what is refused."
import json, re, subprocess, sys, time
from base64 import b64decode
from functools import partial
from io import BytesIO
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gridstride import bench as room
from gridstride.course import lessons
from gridstride.support import plots
from gridstride.bench import H100, Timing, bench, ceilings, clocks, compare, limits, reads, roofline, timing
from gridstride.bench.stats import time_warnings, interval, is_steady, summary
from gridstride.utils import backend, check, gpu_count
from hypothesis import given, strategies as st
from found import names

ROOT = Path(__file__).resolve().parents[1]


class Fake(clocks.Clock):
    "A clock on which run `i` takes `draw(i, t)` seconds at the time `t`"
    gpu, device, states = True, 'a fake GPU', ()

    def __init__(self, draw): self.draw, self.i, self.t, self.batches = draw, 0, 0., []

    def now(self): return self.t

    def times(self, fn, n):
        res = []
        for _ in range(n):
            fn()
            res.append(self.draw(self.i, self.t))
            self.i, self.t = self.i+1, self.t+res[-1]
        self.batches.append(n)
        return res



def test_a_coarse_clock_times_several_calls(monkeypatch):
    "As in a browser, whose clock advances by a millisecond"
    exact = time.perf_counter
    monkeypatch.setattr(clocks.time, 'perf_counter', lambda: exact() // 1e-3 * 1e-3)
    clocks._tick.cache_clear()
    calls = []
    seconds = clocks.Clock().times(lambda: calls.append(1), 3)
    clocks._tick.cache_clear()
    assert len(calls) > 300 and all(0 < s < 1e-4 for s in seconds)
    monkeypatch.undo()
    assert clocks._tick() < clocks._COARSE_TICK and len(clocks.Clock().times(lambda: calls.clear(), 3)) == 3


def timed(draw, **kw): return bench(lambda: None, check=lambda: None, clock=Fake(draw), **kw)


def kinds(t): return [d.split(':')[0].split(' ')[0] for d in t.warnings]


@pytest.fixture
def rng(): return np.random.default_rng(0)


# How long, and when it stops

def test_a_steady_function_takes_a_tenth_of_a_second():
    t = timed(lambda i, _: .001)
    assert t.warnings == [] and .1 <= sum(t.times) < .2 and t.median == .001


@pytest.mark.parametrize('call,says', [
    (lambda: bench(None), 'bench: .*NoneType.*lambda'),
    (lambda: compare({'mine': None}), 'compare: .*mine .*NoneType'),
    (lambda: compare([np.sum]), 'candidates'),
    (lambda: compare({}), 'candidates')])
def test_what_is_timed_is_a_function(call, says):
    with pytest.raises(TypeError, match=says): call()


def test_a_slow_steady_function_runs_twenty_times():
    t = timed(lambda i, _: .05)
    assert len(t.times) == 20 and t.warnings == []


def test_a_noisy_function_uses_all_its_time(rng):
    t = timed(lambda i, _: .001*rng.choice([1, 2]), seconds=.5)
    assert .5 <= sum(t.times) < .6 and 'noisy' in kinds(t)
    assert 'warning: noisy' in str(t) and 'noisy' in t._repr_html_(), 'it is never shown without saying so'


def test_too_few(rng):
    t = timed(lambda i, _: 1.)
    assert len(t.times) == 2 and kinds(t) == ['too'] and names(t.warnings[0], '2', '20')


def test_drifting():
    t = timed(lambda i, now: .01*(1+now/2), seconds=1)
    assert 'drifting' in kinds(t) and 'slower' in str(t)
    assert 'faster' in str(timed(lambda i, now: .01/(1+now/2), seconds=1))


def test_warm_up_is_not_counted():
    "The first runs are ten times slower, as with a compiler and a cold clock"
    t = timed(lambda i, _: .01 if i < 3 else .001)
    assert max(t.times) == .001 and t.warnings == []


def test_batches_are_some_fifty_milliseconds():
    clock = Fake(lambda i, _: .001)
    bench(lambda: None, check=lambda: None, clock=clock)
    assert clock.batches[-1] in (49, 50) and set(clock.batches) <= {1, 49, 50}
    clock = Fake(lambda i, _: .2)
    bench(lambda: None, check=lambda: None, clock=clock)
    assert set(clock.batches) == {1}


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=200))
def test_summary_is_in_order(times):
    s = summary(times)
    assert min(times) <= s.low <= s.median*(1+1e-12) and s.median*(1-1e-12) <= s.high <= max(times)
    assert s.q1 <= s.median*(1+1e-12) and s.median <= s.q3*(1+1e-12) and interval(times) == interval(times[::-1])
    assert is_steady(times) <= (len(times) >= 20) and all(isinstance(d, str) for d in time_warnings(times))


def test_interval_covers_the_median_as_often_as_it_says(rng):
    hits = [low <= 1 <= high for low, high in (interval(rng.exponential(1/np.log(2), 25)) for _ in range(2000))]
    assert .94 < np.mean(hits) < .99


# Units

def test_rates_are_per_median_second():
    t = Timing('k', [2e-3]*20, gpu=True, flops=H100['fp32']*2e9, bytes=4e9, roof=H100)
    assert t.tflops == pytest.approx(H100['fp32']) and t.gbs == pytest.approx(2000)
    assert t.fractions == pytest.approx({'fp32': 1, 'copy': 2000/3001})
    assert f'2,000 GB/s, {H100["fp32"]} TFLOP/s, 100% of the recorded fp32 ceiling' in t.line()


@pytest.mark.parametrize('dtype,peak',
    [('float32', 'fp32'), ('float16', 'fp16'), ('bfloat16', 'bf16'), ('float64', 'fp64'), ('int32', 'fp32')])
def test_the_ceiling_is_that_of_the_type(dtype, peak):
    import torch
    x = torch.arange(6, dtype=getattr(torch, dtype))
    assert bench(lambda x: x+1, x, check=lambda got: None, flops=6, clock=Fake(lambda i, _: .001)).peak == peak
    assert (bench(lambda: x+1, check=lambda got: None, flops=6, clock=Fake(lambda i, _: .001)).peak
            == peak), 'the result shows it, too'
    assert bench(lambda x: x+1, x, flops=6, peak='tf32', clock=Fake(lambda i, _: .001)).peak == 'tf32'


def test_the_nearer_ceiling_is_named():
    assert 'recorded copy' in Timing('k', [1e-3]*20, flops=1e9, bytes=3e9, roof=H100).line()
    assert 'recorded fp32 ceiling' in Timing('k', [1e-3]*20, flops=5e10, bytes=1e6, roof=H100).line()
    assert 'the measured' in Timing('k', [1e-3]*20, bytes=3e9, roof={'copy': 3000.}).line()


@pytest.mark.parametrize('kw', [dict(bytes=4e9), dict(flops=6e10)])
def test_more_than_the_ceiling_is_warned_of(kw):
    assert 'recount flops= and bytes=' in str(Timing('k', [1e-3]*20, roof=H100, **kw))


def test_no_ceiling_no_share():
    assert (Timing('k', [1e-3]*20, flops=1e9, peak='int8', roof=H100).fractions == {}
            == Timing('k', [1e-3]*20, flops=1e9).fractions)


def test_one_line_without_warnings():
    t = timed(lambda i, _: .001, bytes=1e6)
    assert '\n' not in str(t)
    assert re.fullmatch(r'<lambda>: 1 ms \(1 ms to 1 ms\), 1 GB/s; runs: \d+, a fake GPU', str(t))
    assert t._repr_html_().startswith('<p style="margin:.4em 0 .2em"><b>&lt;lambda&gt;</b></p><table>')
    assert t._repr_html_().count('<tr>') == 4


# Without a GPU

def test_cpu_time_is_labelled(rng):
    t = bench(np.sort, rng.standard_normal(1000), check=np.sort, seconds=.2, bytes=16_000)
    assert not t.gpu and 'CPU: no GPU time' in str(t) and t.fractions == {} and min(t.times) > 0


def test_the_simulator_is_timed_as_no_gpu_time(rng):
    from gridstride.sim import cuda

    @cuda.jit
    def square(x, out):
        i = cuda.grid(1)
        if i < len(x): out[i] = x[i]*x[i]
    x, out = rng.standard_normal(100), np.empty(100)
    t = bench(lambda x, out: square[4, 32](x, out), x, out, out=out, check=lambda x, out: x*x, seconds=.2)
    assert 'no GPU time' in str(t) and 'not checked' not in str(t)


@pytest.mark.skipif(gpu_count() > 0, reason='a GPU is here, and its own ceilings with it')
def test_ceilings_without_a_gpu_are_recorded(capsys):
    assert ceilings() is H100 and names(capsys.readouterr().out, 'recorded', 'NVIDIA H100')
    assert roofline({'k': (1, 8)}).roof['recorded']


# Checked first

@pytest.mark.parametrize('wrong',
    [lambda x: x*x+1, lambda x: x[:-1]**2, lambda x: (x*x).astype(np.float32), lambda x: None])
def test_a_wrong_result_is_never_timed(wrong, rng):
    def never(i, t): raise RuntimeError('this was timed')
    with pytest.raises((AssertionError, TypeError)):
        bench(wrong, rng.standard_normal(9), check=np.square, clock=Fake(never))
    with pytest.raises((AssertionError, TypeError)):
        compare({'right': np.square, 'wrong': wrong}, rng.standard_normal(9), check=np.square, clock=Fake(never))


def test_what_is_not_written_is_seen(rng):
    "The values of the run before are still there, and right"
    x, out = rng.standard_normal(9), np.empty(9)
    def half(x, out): out[:5] = x[:5]**2
    np.square(x, out=out)
    with pytest.raises(AssertionError, match='4 .* NaN'):
        bench(half, x, out, out=out, check=lambda x, out: x*x, clock=Fake(lambda i, _: .001))


def test_a_returned_block_that_is_not_written_is_seen():
    "A result is put where the one before was: that block was filled with NaN meanwhile"
    blocks = []
    def fill(x): x[:] = np.nan
    def lazy():
        out = np.empty(10) if not blocks else blocks[0]     # an allocator that hands out the same block
        if not blocks: blocks.append(out); out[:] = 1
        return out
    def poison(x): fill(blocks[0])
    with pytest.MonkeyPatch.context() as m:
        m.setattr(timing, '_poison', poison)
        with pytest.raises(AssertionError, match='10 .* NaN'): timing.call_checked(lazy, (), np.ones(10))


@pytest.mark.parametrize('dtype', ['float32', 'float16', 'bfloat16', 'int32', 'int64', 'uint8', 'complex64', 'bool'])
def test_poison_fits_every_type(dtype):
    import torch
    x = torch.ones(3, dtype=getattr(torch, dtype))
    timing._poison(x)
    assert (x.isnan().all() if dtype.startswith(('float', 'bfloat', 'complex'))
            else dtype == 'bool' or (x == torch.iinfo(x.dtype).max).all())


def test_a_check_that_says_that_all_agrees_has_judged(rng):
    x = rng.standard_normal(8)
    f = lambda a, b: a + b
    assert bench(f, x, x, check=lambda got: check(got, 2*x), clock=Fake(lambda i, _: .001)).median == .001
    with pytest.raises(AssertionError): bench(f, x, x, check=lambda got: check(got, 3*x), clock=Fake(lambda i, _: .001))


def test_unchecked_is_said():
    assert 'not checked' in str(bench(lambda: None, clock=Fake(lambda i, _: .001)))


@pytest.mark.parametrize('make', [np.zeros, np.ones, lambda n: np.full(n, 2.5)])
def test_constant_inputs_are_warned_of(make, rng):
    def ask(*args, **kw):
        return str(bench(lambda *a: None, *args, check=lambda *a: None, clock=Fake(lambda i, _: .001), **kw))
    assert 'argument 2 is' in ask(rng.standard_normal(9), make(9)) and 'warning' not in ask(rng.standard_normal(9), 3)
    out = make(9)
    t = bench(lambda x, out: out.fill(2.5), rng.standard_normal(9), out, out=out, check=lambda x, out: np.full(9, 2.5),
              clock=Fake(lambda i, _: .001))
    assert t.warnings == [], 'an output may be constant'


def test_constant_tensors_are_warned_of():
    import torch
    assert len(timing.input_warnings(
        (torch.zeros(9), torch.randn(9), torch.ones(2, 3, dtype=torch.bfloat16), torch.zeros(1), torch.zeros(0)))) == 2


# The GPU's clock

def state(mhz=1980, reasons=()): return clocks.State(mhz, 1980, 500., 50, reasons)


def with_states(*states):
    clock = Fake(lambda i, _: .001)
    clock.states = states
    return str(bench(lambda: None, check=lambda: None, clock=clock))


def test_a_throttled_gpu_is_reported():
    assert 'warning' not in with_states(state(), None, state(1960, ('the power limit',)))
    assert (names(with_states(state(), state(1410, ('the power limit',))), 'power limit', '1410 of 1980 MHz'))
    assert '1980 to 1700 MHz' in with_states(state(), state(1700))


def test_a_missing_sensor_is_reported():
    def gone(): raise OSError('libnvidia-ml.so.1: not found')
    clock = Fake(lambda i, _: .001)
    clock.sensors = clocks.Sensors('a-b', gone)
    assert ('could not be read: libnvidia-ml.so.1'
            in str(bench(lambda: None, check=lambda: None, clock=clock)))


@pytest.mark.parametrize('bits,reported',
    [(0, ()), (1, ()), (4, (4,)), (0x48, (8, 64))])
def test_reasons_by_bit(bits, reported):
    def gives(v): return lambda *a: setattr(a[-1]._obj, 'value', v) or 0
    lib = SimpleNamespace(nvmlDeviceGetHandleByUUID=lambda *_: 0, nvmlDeviceGetCurrentClocksThrottleReasons=gives(bits),
                          nvmlDeviceGetClockInfo=lambda *_: 3)
    s = clocks.Sensors('a-b', lambda: lib).read()
    assert s.reasons == tuple(clocks.REASONS[bit] for bit in reported)
    assert s.mhz is None and s.watt is None, 'what a driver does not know is None'


# Short kernels

class FakeEvents(Fake, clocks.Events):
    "A fake that takes the way of a GPU"


@pytest.fixture
def short(monkeypatch):
    """`bench` of a kernel of 5 µs, with what a GPU would give put in place: seconds a call in a
    row, and what making a graph does"""
    def run(row=8e-6, graphed=lambda fn, n: (lambda: None)):
        monkeypatch.setattr(clocks, 'back_to_back', lambda fn: row)
        monkeypatch.setattr(clocks, 'capture', graphed)
        clock = FakeEvents(lambda i, _: 5e-6)
        t = bench(lambda: None, check=lambda: None, clock=clock)
        return t
    return run


def test_short_kernels_are_timed_in_two_more_ways(short):
    t = short()
    assert t.back_to_back == 8e-6 and t.graph == pytest.approx(5e-6/1000, rel=.01)
    assert '8 µs a call' in str(t) and 'in a CUDA graph' in str(t)
    assert len(t._repr_html_().split('<tr>')) == len(t.parts())+len(t.warnings)+1


def test_a_graph_that_cannot_be_captured_is_reported(short):
    def graphed(fn, n): raise RuntimeError('operation not permitted when stream is capturing')
    t = short(graphed=graphed)
    assert t.graph is None and names(str(t), 'no CUDA graph', 'operation not permitted')


@pytest.mark.parametrize('us,graph_us,reported', [(30, 5, True), (30, 20, False), (5, 1, False)],
    ids=['a part', 'all', 'very short'])
def test_a_graph_of_a_part_is_reported(monkeypatch, us, graph_us, reported):
    monkeypatch.setattr(clocks, 'back_to_back', lambda fn: us*1e-6)
    monkeypatch.setattr(clocks, 'capture', lambda fn, n: n)
    class Clock(FakeEvents):   # what is replayed is the number of calls in the graph
        def times(self, fn, n): return [fn*graph_us*1e-6]*n if isinstance(fn, int) else super().times(fn, n)
    assert any('the work' in d
               for d in bench(lambda: None, check=lambda: None, clock=Clock(lambda i, _: us*1e-6)).warnings)==reported


def test_work_on_the_cpu_is_reported(short):
    assert 'launch overhead' in str(short(row=1e-3)) and 'launch overhead' not in str(short())


def test_long_kernels_are_not(monkeypatch):
    monkeypatch.setattr(clocks, 'back_to_back', lambda fn: 1/0)
    assert bench(lambda: None, check=lambda: None, clock=FakeEvents(lambda i, _: 60e-6)).graph is None


# Comparisons

def test_ratios_survive_what_times_do_not():
    "A machine that gets slower, with bursts"
    rng = np.random.default_rng(1)
    def slow(t): return (1+3*t)*(1+(rng.random() < .05))
    clock = Fake(lambda i, t: clock.cost*slow(t))
    def costs(c):
        def fn(): clock.cost = c
        return fn
    c = compare({'base': costs(.002), 'twice': costs(.001), 'same': costs(.002)}, check=lambda: None,
                clock=clock, seconds=.5)
    r, low, high = c.ratios['twice']
    assert r == pytest.approx(2, rel=.03) and low <= r <= high and c.ratios['base'] == (1, 1, 1)
    assert c.ratios['same'][1] < 1.01 and 'over base' in repr(c) and 'expected' not in repr(c)
    assert c.speedup('twice') == r and c.speedup('base', 'twice') == pytest.approx(1/r, rel=.05)
    assert '1.5 to 2.5x' in repr(c.expect('twice', 1.5, 2.5)) and 'H100' in c._repr_html_()
    assert any('drifting' in d for _, d in c.warnings), 'the times alone are doubted'


def test_candidates_take_turns():
    order = []
    clock = Fake(lambda i, t: .01)
    compare({k: (lambda k=k: order.append(k)) for k in 'abc'}, check=lambda: None, clock=clock, seconds=.2)
    tail = ''.join(order).rstrip()
    rounds = [tail[-9:][i:i+3] for i in (0, 3, 6)]
    assert (all(sorted(r) == list('abc') for r in rounds)
            and len(set(rounds)) == 3), 'and each round begins with another one'


def test_baseline_is_named_or_the_first():
    fns = dict(a=lambda: None, b=lambda: None)
    def ask(**kw): return compare(fns, check=lambda: None, clock=Fake(lambda i, _: .001), **kw).baseline
    assert ask() == 'a' and ask(baseline='b') == 'b'
    with pytest.raises(ValueError, match="'c'.*: a, b"): ask(baseline='c')


@pytest.mark.slow
def test_sizes(rng):
    made = []
    def make(n):
        made.append(n)
        return (rng.standard_normal(n),)
    s = compare({'a': np.square, 'b': lambda x: x*x}, make, sizes=[10, 20], bytes=lambda n: 16*n, check=np.square,
                clock=Fake(lambda i, _: .001))
    assert made == [10, 20] == [c.size for c in s] and [c.timings['a'].bytes for c in s] == [160, 320]
    assert s._repr_mimebundle_()['image/png'].startswith(b'\x89PNG') and len(re.findall(r'over a\b', repr(s))) == 2


def test_a_flush_is_one_of_three():
    with pytest.raises(ValueError, match="'reads'"): clocks.Events('reads')


# Ceilings

@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path))
    return tmp_path


def measures(*rates):
    "A mock measurement that returns these one after the other"
    left = list(rates)
    return lambda: limits.Ceilings(copy=left.pop(0), read=1., gpu='G', date='d', driver='1', torch='2')


def test_ceilings_are_measured_once_per_gpu(cache):
    m = measures(1., 2., 3.)
    assert [ceilings(key=w, measure=m)['copy'] for w in 'aab'] == [1., 1., 2.]
    assert ceilings(measure_again=True, key='a', measure=m)['copy'] == 3. == ceilings(key='a', measure=m)['copy']
    assert set(json.loads((cache/'ceilings.json').read_text())) == {'a', 'b'} and len(list(cache.iterdir())) == 1


@pytest.mark.parametrize('text', ['', '[]', '{"a": 3}', '{"a": {}}', '{"a": {"copy": 1', '{"a": {"copy": 1.0}}'])
def test_a_broken_file_is_measured_again(cache, text):
    (cache/'ceilings.json').write_text(text)
    assert ceilings(key='a', measure=measures(5.))['copy'] == 5. == ceilings(key='a', measure=measures())['copy']


def test_a_cache_that_cannot_be_written_only_costs_time(cache, monkeypatch):
    (cache/'file').write_text('')
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(cache/'file'/'no'))
    assert [ceilings(key='a', measure=measures(v))['copy'] for v in (1., 2.)] == [1., 2.]


@pytest.mark.real_backend
@pytest.mark.parametrize('n', [4, 2044, 2048, 2052, 10_000])
def test_pure_reads_read_all(n):
    "A word that is nowhere is not found, and at each end and in the middle it is: no load is left out"
    import torch
    x = torch.arange(n, dtype=torch.int32, device='cuda' if backend() == 'gpu' else 'cpu')
    assert not reads(x)()
    for at in (0, n//2, n-1):
        y = x.clone()
        y[at//4*4:at//4*4+4] = torch.tensor([0x5eed0000, 0x1000, 0x4eed, 0], dtype=torch.int32)
        assert reads(y)()


# The roofline

def test_a_timing_finds_its_limiter():
    t = Timing('square', [1e-3]*20, flops=1e9, bytes=8e9, roof=H100)
    p, = roofline([t], roof=H100).points
    assert p.intensity == 1/8 and p.tflops == pytest.approx(1) and p.limit == pytest.approx(3001/8e3)
    assert p.bound == 'memory'


@pytest.mark.slow
def test_the_roof_is_that_of_the_timing():
    t = Timing('mm', [1e-3]*20, flops=6e11, bytes=1e8, peak='bf16', roof=H100)
    r = roofline({'mm': t}, roof=H100)
    assert r.peak == 'bf16' and r.points[0].bound == 'compute' and r.points[0].limit == H100['bf16']
    assert f'{H100["bf16"]} TFLOP/s' in r.plot().get_title() and names(r.plot().get_title(), 'recorded', 'NVIDIA H100')


@pytest.mark.slow
def test_the_data_sheet_is_shown_next_to_the_measurement():
    """A product that is itself the measured roof is at 100% of that, and not of the data sheet;
    other GPUs have no dashed line"""
    r = roofline({'mm': (2*4096**3, 12*4096**2, 2*4096**3/51.7e12), 'square': (1e8, 8e8, 8e8/2.97e12)}, roof=H100)
    assert [row[4:6] for row in r.rows()] == [['100%', '77%'], ['99%', '89%']] and names(r.head[5], 'data sheet')
    assert [o.get_linestyle() for o in r.plot().lines[:2]] == ['-', '--']
    assert '3,350 GB/s and 66.9 TFLOP/s' in r.plot().get_title()
    other = roofline({'k': (1e9, 8e9, 1e-3)}, roof=limits.Ceilings({**H100, 'gpu': 'NVIDIA T1000'}))
    assert not other.data_sheet and 'dashed' not in other.plot().get_title()
    assert len(other.rows()[0]) == len(other.head) == 6


def test_ncu_counts():
    m = {'dram__bytes_read.sum': 4e6, 'dram__bytes_write.sum': 4e6, 'gpu__time_duration.sum': 5000.}
    ops = {'fadd': 1e6, 'fmul': 2e6, 'ffma': 3e6, 'dfma': 1e6, 'hadd': 5e5}
    w = room.from_ncu({**m, **{f'smsp__sass_thread_inst_executed_op_{k}_pred_on.sum': v for k, v in ops.items()}})
    assert w == (1e6+2e6+6e6+2e6+5e5, 8e6, pytest.approx(5e-6))
    assert room.from_ncu({**m, 'sm__ops_path_tensor_src_bf16_dst_fp32.sum': 1e9}).flops == 1e9
    for gone in ({}, m, {'smsp__sass_thread_inst_executed_op_ffma_pred_on.sum': 1.}):
        with pytest.raises(ValueError, match='dram__bytes.sum'): room.from_ncu(gone)


@pytest.mark.slow
def test_a_plot_is_shown_as_png_and_svg():
    images = roofline({'k': (1e9, 8e9, 1e-3), 'l': (1, 8)}, roof=H100)._repr_mimebundle_()
    assert images['image/png'].startswith(b'\x89PNG') and images['image/svg+xml'].startswith('<svg ')


# The package

def test_import_is_light():
    code = ('import sys, gridstride.bench, gridstride.bench.recording; '
            'print(sorted({"torch","matplotlib","triton","numba","IPython","gridstride.cpp","gridstride.sim"} & '
            'set(sys.modules)))')
    assert subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True,
                          text=True, check=True).stdout.strip() == '[]'


# On a GPU

@pytest.mark.gpu
def test_gpu_time_and_its_notes():
    import torch
    x = torch.randn(2**26, device='cuda')
    t = bench(torch.square, x, check=lambda got: check(got, x*x), bytes=8*len(x))
    assert t.gpu and t.device == torch.cuda.get_device_name() and 'copy' in t.fractions and t.graph is None
    assert t.states and t.states[0].mhz > 100 and t.states[0].max_mhz >= t.states[0].mhz


@pytest.mark.gpu
def test_a_graph_of_a_short_kernel():
    import torch
    x = torch.randn(1000, device='cuda')
    t = bench(torch.square, x, check=lambda got: check(got, x*x))
    assert 0 < t.graph < t.back_to_back and not any('CUDA graph' in d for d in t.warnings)


@pytest.mark.gpu
def test_cuda_c_is_captured_in_a_graph():
    import torch
    from gridstride.cpp import cuda_kernel
    k = cuda_kernel('__global__ void twice(const float *x, float *out, int n) { '
                    'int i = blockIdx.x*blockDim.x + threadIdx.x; if (i < n) out[i] = 2*x[i]; }')
    x, out = torch.randn(1000, device='cuda'), torch.empty(1000, device='cuda')
    t = bench(lambda x, out: k[4, 256](x, out, 1000), x, out, out=out, check=lambda x, out: 2*x)
    assert t.graph and not any('CUDA graph' in d for d in t.warnings)


@pytest.mark.gpu
def test_what_waits_for_the_gpu_has_no_graph(monkeypatch):
    import torch
    monkeypatch.setattr(timing, 'SHORT', 1)  # on a slow CPU waiting takes longer than what is timed in a graph
    x = torch.randn(1000, device='cuda')
    t = bench(lambda x: x.sum().item(), x, check=lambda got: None)
    assert t.graph is None and any('no CUDA graph' in d for d in t.warnings)
    assert bench(torch.square, x, check=lambda got: check(got, x*x)).graph, 'a failed capture does no harm to the next'


@pytest.mark.gpu
def test_work_on_the_cpu_is_timed_by_the_wall_clock_even_here(rng):
    assert not bench(np.sort, rng.standard_normal(1000), check=np.sort, seconds=.2).gpu


# Plots

CROWD = {'square': (1e8, 8e8, 8e8/2.95e12), 'matrix times vector': (2*4096**2, 4*4096*4098, 3e-5),
         '5120x256 @ 256x5120': (1.34e10, 1.15e8, .33e-3), '4096x4096 squared': (1.37e11, 2e8, 2.6e-3),
         'the same, by hand': (1.37e11, 2e8, 2.7e-3)}


@pytest.mark.slow
def test_names_under_the_roof_can_be_read():
    "Inside the axes, without overlap, and each near its own point"
    import matplotlib.pyplot as plt
    ax = roofline(CROWD, roof=H100).plot()
    assert plots.illegible_labels(ax.figure) == [] and [t.get_text() for t in ax.texts] == list(CROWD)
    plt.close(ax.figure)


@pytest.mark.slow
def test_a_recorded_roofline_is_drawn_and_labelled():
    "From the values in JSON: a stored picture would have the style of its day"
    roof = {**H100, 'recorded': False}
    r = roofline(CROWD, roof=limits.Ceilings(roof))
    again = type(r).load(json.loads(json.dumps(r.plain())))
    assert again.points == r.points and again.rows() == r.rows() and 'measured on' in r.plot().get_title()
    assert names(again.plot().get_title(), 'recorded', 'NVIDIA H100')


def test_what_cannot_be_read_is_found():
    import matplotlib.pyplot as plt
    fig, ax = plt.subplots()
    ax.plot([0, 1], [0, 1])
    for x, words in ((.5, 'first'), (.52, 'second'), (.97, 'far too long for this place')): ax.text(x, .5, words)
    ax.set_title('tiny', fontsize=8)
    assert plots.illegible_labels(fig) == [
        "'tiny' has 8 points", "'far too long for this place' extends beyond its axes", "'first' and 'second' overlap"]
    plt.close(fig)


def drawn(draw):
    from matplotlib.figure import Figure
    with plots.styled():
        draw((figure := Figure(figsize=(3, 2))).subplots())
        return figure


CROWDS = {'mesh': lambda ax, n: ax.pcolormesh(RNG.random((2, n//2))),
          'scatter': lambda ax, n: ax.scatter(*RNG.random((2, n))),
          'markers': lambda ax, n: ax.plot(RNG.random(n), 'o')}
RNG = np.random.default_rng(0)


@pytest.mark.parametrize('crowd', CROWDS)
def test_many_points_are_pixels_and_few_are_shapes(crowd):
    few, many = (plots.themed_svg(drawn(lambda ax: CROWDS[crowd](ax, n))) for n in (100, plots.MAX_SHAPES + 2))
    shapes = [len(re.findall('<path|<use', svg)) for svg in (few, many)]
    assert '<image' not in few and '<image' in many and shapes[0] > 100 > shapes[1]


def test_a_large_image_of_noise_has_few_colours_and_a_small_one_all():
    from IPython.core.formatters import DisplayFormatter
    from IPython.core.pylabtools import print_figure
    from PIL import Image
    formatter = DisplayFormatter()
    formatter.formatters['image/png'].for_type_by_name('matplotlib.figure', 'Figure', lambda o: print_figure(o))
    bundle = partial(plots._images_of, formatter.formatters)
    formatter.mimebundle_formatter.for_type_by_name('matplotlib.figure', 'Figure', bundle)
    def colours(n):
        noise = drawn(lambda ax: ax.imshow(RNG.random((n, 3*n//2, 3)), interpolation='nearest', aspect='auto'))
        png = formatter.format(noise)[0]['image/png']
        return len(Image.open(BytesIO(b64decode(png))).convert('RGB').getcolors(1 << 24))
    assert colours(200) <= 256 < colours(20)


@pytest.mark.slow
def test_the_style_applies_only_where_it_is_requested():
    import matplotlib
    import matplotlib.pyplot as plt
    before = dict(matplotlib.rcParams)
    ax = roofline(CROWD, roof=H100).plot()
    face = matplotlib.colors.to_hex(ax.figure.get_facecolor())
    assert face == plots.BACKGROUND and dict(matplotlib.rcParams) == before
    plt.close(ax.figure)
    for path in lessons.lessons():
        code = '\n'.join(lessons.code(lessons.read(path)))
        assert not re.search(r'fontsize=[0-8]\b|facecolor=',
                             code), f'{path.name}: gridstride.support.plots sets sizes and backgrounds'
        assert 'subplots(' not in code or 'plots.use()' in code, path.name


@pytest.mark.parametrize('blindness', ['deuteranopia', 'protanopia'])
def test_colours_that_the_colour_blind_tell_apart(blindness):
    "By the matrices of Viénot, Brettel and Mollon (1999) in linear RGB: no two are nearer than a step that one sees"
    from matplotlib.colors import to_rgb
    see = dict(deuteranopia=[[.29275, .70725, 0], [.29275, .70725, 0], [-.02234, .02234, 1]],
               protanopia=[[.11238, .88762, 0], [.11238, .88762, 0], [.00401, -.00401, 1]])[blindness]
    def lab(rgb):
        x, y, z = (np.array([[.4124, .3576, .1805], [.2126, .7152, .0722], [.0193, .1192, .9505]]) @ rgb
                   / [.9505, 1, 1.089])
        f = [np.cbrt(o) if o > .008856 else 7.787*o + 16/116 for o in (x, y, z)]
        return np.array([116*f[1] - 16, 500*(f[0] - f[1]), 200*(f[1] - f[2])])
    linear = [np.where((c := np.array(to_rgb(o))) <= .04045, c/12.92, ((c + .055)/1.055)**2.4) for o in plots.COLORS]
    seen = [lab(np.clip(np.array(see) @ o, 0, 1)) for o in linear]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 10
