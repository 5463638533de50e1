"Interleaving, ratios, and the table and the picture of a comparison."
import json

import numpy as np
import pytest
from gridstride.bench import clocks, limits
from gridstride.bench.stats import summary
from gridstride.bench.timing import Timing
from gridstride.bench.versus import MIN_ROUNDS, Comparison, Sweep, compare, median_speedup, time_interleaved


class Slowing(clocks.Clock):
    "A mock clock: `fn()` returns how long it takes, and everything takes longer and longer"
    gpu, device, states = True, 'a fake GPU', ()
    def __init__(self, by): self.t, self.by = 0., by
    def now(self): return self.t
    def times(self, fn, n):
        res = [fn()*(1+self.by*self.t) for _ in range(n)]
        self.t += sum(res)
        return res


def test_the_times_drift_and_the_ratio_stays():
    got = time_interleaved(Slowing(.5), {'a': lambda: .002, 'b': lambda: .001})
    median, low, high = median_speedup(got['a'], got['b'])
    assert summary(sum(got['a'], [])).drift > .1
    assert median == pytest.approx(2, abs=.02) and low <= 2.02 and 1.98 <= high and high-low < .1


def test_there_are_enough_rounds_for_an_interval():
    assert len(time_interleaved(Slowing(0), {'a': lambda: .002})['a']) >= MIN_ROUNDS


def test_a_wrong_candidate_is_named():
    def wrong(x): return x*x+1
    with pytest.raises(AssertionError, match='wrong is'):
        compare({'square': np.square, 'wrong': wrong}, np.arange(9.), check=np.square)


@pytest.fixture
def three():
    fns = {'slow': lambda: .002, 'same': lambda: .002, 'fast': lambda: .001}
    return compare(fns, check=lambda: None, clock=Slowing(0))


def test_ratios_are_to_the_first(three):
    assert {k: v[0] for k, v in three.ratios.items()} == pytest.approx(dict(slow=1, same=1, fast=2))
    assert max(three.ratios['same'][1:]) >= 1 and three.warnings == []


def test_the_table_is_fastest_first_and_says_where_no_difference_was_shown(three):
    rows = {r[0]: r for r in three.rows()}
    assert list(rows)[0] == 'fast' and rows['fast'][-2].startswith('2x') and rows['slow'][-2] == 'the baseline'
    assert 'no difference' in rows['same'][-2]


def test_a_recorded_comparison_shows_the_same_table_and_takes_expectations(three):
    again = Comparison.load(json.loads(json.dumps(three.plain())), 'recorded on a GPU, 2026-11-22 (driver 1)')
    assert again.rows() == three.rows() and again.speedup('fast') == three.speedup('fast')
    assert again.speedup('fast', over='same') == pytest.approx(2) and again.in_unit('slow', 'ms') == pytest.approx(2)
    again.expect('fast', 1.9, 2.1)
    assert {r[0]: r[-1] for r in again.rows()} == dict(fast='1.9 to 2.1x', slow='', same='')
    assert again.provenance.partition(' (')[0] in repr(again) and three.timings['slow'].device not in repr(again)


def test_over_sizes_flops_and_bytes_may_be_functions():
    def loops(x): return np.array([sum(o) for o in x])
    def want(x): return x.sum(1)
    def make(n): return np.random.default_rng(n).standard_normal((n, n)),
    s = compare({'NumPy': want, 'loops': loops}, make, sizes=[16, 64], bytes=lambda n: 8*n*n, check=want, seconds=.2)
    assert [c.size for c in s] == [16, 64] and [c.timings['NumPy'].bytes for c in s] == [8*16*16, 8*64*64]
    with pytest.raises(TypeError, match='one function'):
        compare({'a': np.sum}, np.ones(3), sizes=[1])


def test_the_picture_of_a_sweep_has_rates_and_the_ceiling():
    import matplotlib.pyplot as plt
    def at(n): return Timing('k', [n*1e-9]*20, 'a fake GPU', True, bytes=3000.*n, roof=limits.H100)
    ax = Sweep([Comparison({'k': at(n)}, {}, 'k', n) for n in (1024, 4096)]).plot()
    assert list(ax.lines[0].get_ydata()) == pytest.approx([3000, 3000])
    assert any(list(l.get_ydata()) == [limits.H100['copy']]*2 for l in ax.lines)
    plt.close(ax.figure)
