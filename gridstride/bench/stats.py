"""Statistics of repeated measurements: a median, its confidence interval, and warnings.

The times of a kernel are not normally distributed: many things make a run slower than usual, but nothing makes it much
faster. So this module uses ranks, that is, medians and quartiles, and no mean squares.
"""

from collections import namedtuple
from math import sqrt

import numpy as np


# Of n times, the true median is between the r-th smallest and the r-th largest, unless fewer than r times are on one
# side of it. A time is on either side with probability 1/2, so the number of times on one side has a binomial
# distribution, and r follows from 1.96 of its standard deviations: the interval of the sign test (Conover, *Practical
# Nonparametric Statistics*, "confidence interval for a quantile"). It assumes no distribution of the times, only that
# they are independent.
def interval(times) -> tuple:  # (low, high), in the unit of `times`
    "Return a 95% confidence interval of the median; for fewer than eight times, their minimum and maximum"
    sorted_times = sorted(times)
    r = max(1, int((len(sorted_times) - 1.96 * sqrt(len(sorted_times))) / 2))
    return sorted_times[r - 1], sorted_times[-r]


# n: number of times; low, high: the 95% confidence interval of the median; q1, q3: the quartiles; drift: the relative
# difference of the median of the last third of the runs from that of the first third
Stats = namedtuple('Stats', 'n median low high q1 q3 drift')


def summary(times) -> Stats:  # in the unit of `times`; drift: a fraction
    """Return the statistics of times, which must be in the order of measurement.

    >>> summary([3, 1, 2]).median
    2.0"""
    times = np.asarray(times, float)
    q1, median, q3 = np.percentile(times, [25, 50, 75])
    third = max(1, len(times) // 3)
    first = np.median(times[:third])
    last = np.median(times[-third:])
    drift = last / first - 1 if first else 0.0
    return Stats(len(times), *map(float, (median, *interval(times), q1, q3, drift)))


def relative_half_width(s: Stats) -> float:  # a fraction: .01 is 1%
    "Return half of the confidence interval of the median, as a fraction of the median"
    return (s.high - s.low) / 2 / s.median if s.median else 0.0


def relative_interquartile_range(s: Stats) -> float:  # a fraction
    "Return the interquartile range, as a fraction of the median"
    return (s.q3 - s.q1) / s.median if s.median else 0.0


# The thresholds are conventions of this course: at least 20 runs; a median is steady if it is known to 1%; runs are
# noisy if their interquartile range exceeds 5% of the median; runs drift if the last third differs from the first by
# more than 2% and their confidence intervals do not overlap.
MIN_RUNS = 20
MAX_HALF_WIDTH = 0.01
MAX_SPREAD = 0.05
MAX_DRIFT = 0.02


def is_steady(times) -> bool:
    "Return whether there are enough runs and their median is steady"
    return len(times) >= MIN_RUNS and relative_half_width(summary(times)) <= MAX_HALF_WIDTH


def _has_drift(times):
    "Return whether the last third of the runs is significantly slower or faster than the first"
    third = len(times) // 3
    if third < 6:
        return False
    (first_low, first_high), (last_low, last_high) = interval(times[:third]), interval(times[-third:])
    return abs(summary(times).drift) > MAX_DRIFT and (first_high < last_low or last_high < first_low)


def time_warnings(times) -> list:  # of sentences; empty for good measurements
    "Return warnings about the reliability of the median of `times`"
    times = list(times)
    s = summary(times)
    warnings = []
    if s.n < MIN_RUNS:
        warnings.append(f'too few runs: {s.n}; at least {MIN_RUNS} are needed: increase `seconds`')
    if relative_half_width(s) > MAX_HALF_WIDTH:
        warnings.append(f'not steady: the median is only known to ±{relative_half_width(s):.1%}')
    if relative_interquartile_range(s) > MAX_SPREAD:
        spread = f'the interquartile range is {relative_interquartile_range(s):.0%} of the median'
        warnings.append(f'noisy: {spread}; something else may use the machine')
    if _has_drift(times):
        change = f"{abs(s.drift):.1%} {'slower' if s.drift > 0 else 'faster'}"
        warnings.append(f'drifting: the last third of the runs is {change} than the first')
    return warnings
