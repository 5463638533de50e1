"How long a measurement takes, on mock clocks."
import numpy as np
import pytest
from gridstride.bench.clocks import Clock
from gridstride.bench.limits import H100, sample_times
from found import names


class Fake(Clock):
    "A clock on which run number `i` takes `draw(i)` seconds"
    gpu, device, states = True, 'a fake GPU', ()
    def __init__(self, draw): self.draw, self.i, self.t = draw, 0, 0.
    def now(self): return self.t
    def times(self, fn, n):
        res = [self.draw(self.i+k) for k in range(n)]
        self.i, self.t = self.i+n, self.t+sum(res)
        return res


def test_calm_times_take_a_tenth_of_a_second(): assert .1 <= sum(sample_times(Fake(lambda i: .001), None)) < .2


def test_noisy_times_take_all_that_is_allowed():
    rng = np.random.default_rng(0)
    assert sum(sample_times(Fake(lambda i: .001*rng.choice([1, 2])), None)) >= 2


@pytest.mark.parametrize('seconds,runs', [(1., 2), (1e-6, 1e5)])
def test_long_runs_are_few_and_short_ones_many(seconds, runs):
    n = len(sample_times(Fake(lambda i: seconds), None))
    assert n == runs if seconds == 1 else n >= runs


def test_the_ceilings_of_another_machine_are_labelled(): assert names(H100.provenance, 'recorded', 'NVIDIA H100')
