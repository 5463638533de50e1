"""Schedules: the orders in which blocks and threads run.

A schedule is `forward`, `reverse` or `shuffle:SEED`. Schedules run in this order, from simple to complex, so the first
one with a finding is the simplest that reproduces it. `shuffle:SEED:SWAPS` swaps at most SWAPS random pairs; all other
threads run in order."""

import re
from typing import NamedTuple

__all__ = ['Schedule', 'parse_schedule', 'schedules_of', 'shrink_sizes', 'minimize_swaps']


class Schedule(NamedTuple):
    "An order of blocks and threads, and the seed of a shuffle; `str` formats it as `--replay` takes it"

    order: str = 'forward'
    seed: int = 0
    swaps: int | None = None  # maximum number of swaps; None: a full shuffle

    def __str__(self):
        if self.order != 'shuffle':
            return self.order
        return f'shuffle:{self.seed}' + (f':{self.swaps}' if self.swaps is not None else '')

    @property
    def settings(self):
        "The schedule as `diagnostics.settings`"
        return dict(order=self.order, seed=self.seed, swaps=self.swaps)


def parse_schedule(text):
    """Parse a schedule; raises `ValueError` for an invalid one.

    >>> parse_schedule('shuffle:3')
    Schedule(order='shuffle', seed=3, swaps=None)"""
    if text in ('forward', 'reverse'):
        return Schedule(text)
    if m := re.fullmatch(r'shuffle(?::(\d+)(?::(\d+))?)?', text):
        return Schedule('shuffle', int(m[1] or 0), int(m[2]) if m[2] else None)
    expected = 'forward, reverse, shuffle:SEED or shuffle:SEED:SWAPS, as in shuffle:3'
    raise ValueError(f'a schedule must be {expected}; got {text!r}')


def schedules_of(
    order=None,  # 'forward', 'reverse' or 'shuffle'; None: forward, reverse, then shuffled ones
    seeds=1,  # number of schedules
) -> list:
    """Return the schedules to run, from simple to complex; raises `ValueError` if there are too few.

    >>> [str(s) for s in schedules_of(seeds=4)]
    ['forward', 'reverse', 'shuffle:0', 'shuffle:1']
    >>> [str(s) for s in schedules_of('shuffle', 2)]
    ['shuffle:0', 'shuffle:1']"""
    if seeds < 1 or order in ('forward', 'reverse') and seeds > 1:
        raise ValueError(
            f'seeds must be {"at least 1" if seeds < 1 else f"1 with order {order!r}, a single schedule"}; got {seeds}'
        )
    shuffled_schedules = [Schedule('shuffle', seed) for seed in range(seeds)]
    if order == 'shuffle':
        return shuffled_schedules
    if order:
        return [Schedule(order)]
    return [Schedule('forward'), Schedule('reverse'), *shuffled_schedules][:seeds]


def shrink_sizes(
    sizes: dict,  # name -> integer, of a launch that has a finding
    reproduces,  # a function of sizes that returns whether a launch with them has the finding
    min_size=1,
) -> dict:
    """Return the smallest sizes found that still reproduce a finding: decreasing any of them by one does not.

    >>> shrink_sizes(dict(n=1000, block=256), lambda sizes: sizes['n'] > 10 and sizes['block'] > 1)
    {'n': 11, 'block': 2}"""
    sizes = dict(sizes)
    for name in sizes:
        step = sizes[name] // 2
        while step:
            smaller = sizes[name] - step
            if smaller >= min_size and reproduces({**sizes, name: smaller}):
                sizes[name] = smaller
                step = min(step, smaller // 2) or 1
            else:
                step //= 2
    return sizes


def minimize_swaps(
    schedule: Schedule,  # a shuffle that reproduces a finding
    reproduces,  # a function of a schedule that returns whether it reproduces the finding
    max_swaps=4096,  # a shuffle that needs more swaps is returned unchanged
) -> Schedule:
    """Return a schedule with few swaps that still reproduces a finding; with one swap fewer, it does not.

    >>> str(minimize_swaps(Schedule('shuffle', 3), lambda schedule: schedule.swaps >= 5))
    'shuffle:3:5'"""
    max_failed_swaps, swaps = 0, 1  # without swaps it is `forward`, which was run before
    while not reproduces(schedule._replace(swaps=swaps)):
        max_failed_swaps, swaps = swaps, 2 * swaps
        if swaps > max_swaps:
            return schedule
    while swaps - max_failed_swaps > 1:
        middle = (max_failed_swaps + swaps) // 2
        max_failed_swaps, swaps = (
            (max_failed_swaps, middle) if reproduces(schedule._replace(swaps=middle)) else (middle, swaps)
        )
    return schedule._replace(swaps=swaps)
