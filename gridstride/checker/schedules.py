"""Schedules: the orders in which blocks and threads run.

A schedule is `forward`, `reverse` or `shuffle:SEED`, in this order from simple to complex: the first one of a list that
shows a finding is the simplest that shows it."""

from typing import NamedTuple

__all__ = ['Schedule', 'parse_schedule', 'schedules_of', 'shrunk']


class Schedule(NamedTuple):
    "An order of blocks and threads, and the seed of a shuffle; `str` formats it as `--replay` takes it"

    order: str = 'forward'
    seed: int = 0

    def __str__(self):
        return f'shuffle:{self.seed}' if self.order == 'shuffle' else self.order


def parse_schedule(text):
    """Parse a schedule; raises `ValueError`, which lists the valid ones.

    >>> parse_schedule('shuffle:3')
    Schedule(order='shuffle', seed=3)"""
    order, _, seed = text.partition(':')
    if order in ('forward', 'reverse') and not seed:
        return Schedule(order)
    if order == 'shuffle' and (seed or '0').isdigit():
        return Schedule(order, int(seed or 0))
    raise ValueError(f'a schedule must be forward, reverse or shuffle:SEED, as in shuffle:3; got {text!r}')


def schedules_of(
    order=None,  # 'forward', 'reverse' or 'shuffle'; None: forward, reverse, then shuffled ones
    seeds=1,  # how many schedules
) -> list:
    """Return the schedules to run, from simple to complex; raises `ValueError` if there are not so many.

    >>> [str(s) for s in schedules_of(seeds=4)]
    ['forward', 'reverse', 'shuffle:0', 'shuffle:1']
    >>> [str(s) for s in schedules_of('shuffle', 2)]
    ['shuffle:0', 'shuffle:1']"""
    if seeds < 1 or order in ('forward', 'reverse') and seeds > 1:
        raise ValueError(
            f'seeds is {seeds}; expected {"at least 1" if seeds < 1 else f"1, because {order} is a single schedule"}'
        )
    shuffled = [Schedule('shuffle', seed) for seed in range(seeds)]
    if order == 'shuffle':
        return shuffled
    if order:
        return [Schedule(order)]
    return [Schedule('forward'), Schedule('reverse'), *shuffled][:seeds]


def shrunk(
    sizes: dict,  # name -> integer, of a launch that has a finding
    shows_it,  # a function of such sizes: does the launch have the finding?
    smallest=1,
) -> dict:
    """Return smaller sizes that still show a finding: none of them can be decreased by one.

    >>> shrunk(dict(n=1000, block=256), lambda sizes: sizes['n'] > 10 and sizes['block'] > 1)
    {'n': 11, 'block': 2}"""
    sizes = dict(sizes)
    for name in sizes:
        step = sizes[name] // 2
        while step:
            smaller = sizes[name] - step
            if smaller >= smallest and shows_it({**sizes, name: smaller}):
                sizes[name] = smaller
                step = min(step, smaller // 2) or 1
            else:
                step //= 2
    return sizes
