"""Statistics of repeated measurements: a median, its confidence interval, and warnings.

Times of a kernel are not spread like a bell: nothing makes a run much faster than usual, many things make
it slower. So everything on this page counts ranks and never squares: medians and quartiles.
"""

from collections import namedtuple
from math import sqrt

import numpy as np


# Sort n times. The true median is between the r-th from below and the r-th from above, unless fewer than r
# of the n fell on one side of it. Each time falls on either side like a coin, so that is a question about n
# tosses of a coin, and about 1.96 standard deviations of them: the sign test's interval (Conover, *Practical
# Nonparametric Statistics*, "confidence interval for a quantile"). It asks nothing of how the times are
# spread, only that one does not depend on the one before.
def interval(times) -> tuple:  # (low, high), in the unit of `times`
    "Return a 95% confidence interval of the median; of fewer than eight times, all that was seen"
    t = sorted(times)
    r = max(1, int((len(t) - 1.96 * sqrt(len(t))) / 2))
    return t[r - 1], t[-r]


# For any number of times from eight up, the coin says that this holds 95 times in 100, or a little more.
#
# `spread` is the distance between the quartiles, and `drift` compares the last third of the runs with the
# first, both as fractions of the median.
Stats = namedtuple('Stats', 'n median low high q1 q3 drift')


def summary(times) -> Stats:  # in the unit of `times`; drift: a fraction
    "Median, its interval, quartiles and drift of times in the order in which they were taken"
    t = np.asarray(times, float)
    q1, median, q3 = np.percentile(t, [25, 50, 75])
    third = max(1, len(t) // 3)
    first = np.median(t[:third])
    last = np.median(t[-third:])
    drift = last / first - 1 if first else 0.0
    return Stats(len(t), *map(float, (median, *interval(t), q1, q3, drift)))


def width(s: Stats) -> float:  # a fraction: .01 is 1%
    "Half the interval of the median, as a fraction of the median"
    return (s.high - s.low) / 2 / s.median if s.median else 0.0


def spread(s: Stats) -> float:  # a fraction
    "Return the distance between the quartiles, as a fraction of the median"
    return (s.q3 - s.q1) / s.median if s.median else 0.0


# The bounds are conventions of this course: enough runs are 20, a median is steady when it is known to 1%,
# runs are noisy when their middle half spreads over more than 5%, and a drift is one above 2% that the
# intervals of the two thirds confirm.
RUNS = 20
STEADY = 0.01
NOISE = 0.05
DRIFT = 0.02


def steady(times) -> bool:
    "Return whether there are enough runs, and their median is known well enough"
    return len(times) >= RUNS and width(summary(times)) <= STEADY


def _drifts(times):
    "Return whether the last third of the runs is slower or faster than the first, beyond chance"
    third = len(times) // 3
    if third < 6:
        return False
    (a, b), (c, d) = interval(times[:third]), interval(times[-third:])
    return abs(summary(times).drift) > DRIFT and (b < c or d < a)


def time_warnings(times) -> list:  # of sentences; empty for good measurements
    "Return the reasons why the median of `times` should not be trusted"
    times = list(times)
    s = summary(times)
    res = []
    if s.n < RUNS:
        res.append(f'too few runs: {s.n}, and {RUNS} are needed; give it more seconds')
    if width(s) > STEADY:
        res.append(f'not steady: the median is only known to ±{width(s):.1%}')
    if spread(s) > NOISE:
        middle = f'the middle half of the runs spreads over {spread(s):.0%} of the median'
        res.append(f'noisy: {middle}; something else may use the machine')
    if _drifts(times):
        how = f"{abs(s.drift):.1%} {'slower' if s.drift > 0 else 'faster'}"
        res.append(f'drifting: the last third of the runs is {how} than the first')
    return res
