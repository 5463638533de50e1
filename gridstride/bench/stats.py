"""Statistics of repeated measurements: a median, its confidence interval, and warnings.

The times of a kernel are not normally distributed: many things make a run slower than usual, but nothing makes it much
faster. So this module uses ranks, that is, medians and quartiles, and no mean squares.
"""

from collections import namedtuple
from math import sqrt

import numpy as np


# Sort n times. The true median is between the r-th smallest and the r-th largest, unless fewer than r times are on one
# side of it. Each time is on either side with probability 1/2, so the number on one side is that of heads in n tosses
# of a coin, and r follows from 1.96 standard deviations of that: the interval of the sign test (Conover, *Practical
# Nonparametric Statistics*, "confidence interval for a quantile"). It requires no distribution, only independent times.
def interval(times) -> tuple:  # (low, high), in the unit of `times`
    "Return a 95% confidence interval of the median; for fewer than eight times, their range"
    sorted_times = sorted(times)
    r = max(1, int((len(sorted_times) - 1.96 * sqrt(len(sorted_times))) / 2))
    return sorted_times[r - 1], sorted_times[-r]


# From eight times on, the interval contains the median with a probability of 95% or a little more.
#
# `drift` is the difference of the medians of the last and the first third of the runs, as a fraction of the latter.
Stats = namedtuple('Stats', 'n median low high q1 q3 drift')


def summary(times) -> Stats:  # in the unit of `times`; drift: a fraction
    """Return the statistics of times, which must be in the order of measurement.

    >>> summary([3, 1, 2]).median
    2.0"""
    sorted_times = np.asarray(times, float)
    q1, median, q3 = np.percentile(sorted_times, [25, 50, 75])
    third = max(1, len(sorted_times) // 3)
    first = np.median(sorted_times[:third])
    last = np.median(sorted_times[-third:])
    drift = last / first - 1 if first else 0.0
    return Stats(len(sorted_times), *map(float, (median, *interval(sorted_times), q1, q3, drift)))


def relative_half_width(s: Stats) -> float:  # a fraction: .01 is 1%
    "Return half of the confidence interval of the median, as a fraction of the median"
    return (s.high - s.low) / 2 / s.median if s.median else 0.0


def relative_quartile_distance(s: Stats) -> float:  # a fraction
    "Return the distance between the quartiles, as a fraction of the median"
    return (s.q3 - s.q1) / s.median if s.median else 0.0


# The thresholds are conventions of this course: at least 20 runs; a median is steady if it is known to 1%; runs are
# noisy if the distance of their quartiles is more than 5% of the median; runs drift if the last third differs from the
# first by more than 2% and their intervals do not overlap.
MIN_RUNS = 20
STEADY_WIDTH = 0.01
MAX_SPREAD = 0.05
MAX_DRIFT = 0.02


def steady(times) -> bool:
    "Return whether there are enough runs and their median is steady"
    return len(times) >= MIN_RUNS and relative_half_width(summary(times)) <= STEADY_WIDTH


def _drifts(times):
    "Return whether the last third of the runs is significantly slower or faster than the first"
    third = len(times) // 3
    if third < 6:
        return False
    (a, b), (c, d) = interval(times[:third]), interval(times[-third:])
    return abs(summary(times).drift) > MAX_DRIFT and (b < c or d < a)


def time_warnings(times) -> list:  # of sentences; empty for good measurements
    "Return warnings about the median of `times`"
    times = list(times)
    s = summary(times)
    res = []
    if s.n < MIN_RUNS:
        res.append(f'too few runs: {s.n}, but {MIN_RUNS} are needed: increase `seconds`')
    if relative_half_width(s) > STEADY_WIDTH:
        res.append(f'not steady: the median is only known to ±{relative_half_width(s):.1%}')
    if relative_quartile_distance(s) > MAX_SPREAD:
        middle = f'the middle half of the runs spreads over {relative_quartile_distance(s):.0%} of the median'
        res.append(f'noisy: {middle}; something else may use the machine')
    if _drifts(times):
        how = f"{abs(s.drift):.1%} {'slower' if s.drift > 0 else 'faster'}"
        res.append(f'drifting: the last third of the runs is {how} than the first')
    return res
