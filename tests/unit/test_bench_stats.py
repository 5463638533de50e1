"What is reported on times: the interval of their median, and warnings."
from math import comb

import numpy as np
import pytest
from gridstride.bench.stats import time_warnings, interval, is_steady, summary


def chance(n):
    "The exact chance that `interval` of `n` times holds the median"
    r = interval(range(1, n+1))[0]
    return 1-2*sum(comb(n, k) for k in range(r))/2**n


def test_the_interval_holds_the_median_95_times_in_100_and_not_much_more():
    assert all(.95 <= chance(n) < .999 for n in range(8, 400))


@pytest.fixture
def calm(): return 1+np.random.default_rng(0).gamma(2, .002, 100)


def first_words(times): return [d.split(':')[0] for d in time_warnings(times)]


def test_a_summary_is_of_ranks_in_the_order_taken():
    assert summary([3, 1, 2])[:4] == (3, 2, 1, 3)
    assert summary(np.linspace(1, 1.2, 99)).drift == pytest.approx(.13, abs=.01)


def test_calm_times_are_not_warned_of(calm): assert time_warnings(calm) == [] and first_words([1.]*99+[9.]) == []


def test_few_runs_are_warned_of(calm):
    reason, = first_words(calm[:10])
    assert 'few runs' in reason


def test_a_drift_is_one_of_order_not_of_values(calm):
    drifting = calm*np.linspace(1, 1.04, 100)
    assert first_words(drifting) == ['drifting']
    assert first_words(np.random.default_rng(1).permutation(drifting)) == []


def test_times_of_two_kinds_are_noisy():
    assert first_words(np.where(np.arange(100) % 2, 1, 1.5)) == ['not steady', 'noisy']


def test_steady_is_enough_runs_with_a_known_median(calm):
    assert is_steady(calm) and not is_steady(calm[:19]) and not is_steady(np.random.default_rng(0).uniform(1, 2, 50))
