"""What each rank did when: stamps, and their picture."""

import time
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.distributed as dist

from ..draw import PALETTE, Picture
from ..prof.strip import OTHER, Box, Row, strip

_COLORS = {'attend': PALETTE[0], 'gradients': PALETTE[0], 'merge': PALETTE[2], 'wait': OTHER}
_SENDS = PALETTE[1]


class Stamp(NamedTuple):
    "From when to when a rank did what, in seconds since all of them began"

    what: str  # 'attend', 'gradients', 'merge', 'wait', 'send'
    step: int
    start: float
    end: float


class Stamps:
    """Notes when something begins and ends, on the CPU by its clock, on a GPU by events of the current stream. All
    ranks make one at the same time: their clocks begin together"""

    def __init__(self):
        self.on_gpu, self.noted = dist.get_backend() == 'nccl', []
        dist.barrier()
        if self.on_gpu:
            torch.cuda.synchronize()
        self.begin = self._now()

    def _now(self):
        if not self.on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @contextmanager
    def __call__(self, what, step):
        "Note what is done below this"
        start = self._now()
        yield
        self.noted.append((what, step, start, self._now()))

    def _seconds(self, t):
        return self.begin.elapsed_time(t) / 1e3 if self.on_gpu else t - self.begin

    def read(self) -> list:  # of `Stamp`
        "Return the recorded timestamps, once all work has finished"
        if self.on_gpu:
            torch.cuda.synchronize()
        return [Stamp(what, step, *map(self._seconds, ends)) for what, step, *ends in self.noted]


def _boxes(stamps, what):
    return [
        Box(
            stamp.start,
            stamp.end,
            str(stamp.step) if stamp.what != 'wait' else '',
            _COLORS.get(stamp.what, _SENDS),
            f'{stamp.what} {stamp.step}',
        )
        for stamp in stamps
        if (stamp.what == 'send') == what
    ]


def draw_timeline(
    stamps: list,  # rank by rank: a list of `Stamp`
    title='',
    end=None,  # of the time; None: the last stamp
):  # an SVG picture
    """One row per rank: what it computes is coloured, with the number of the step; grey is where it waits. Below it,
    where there are any, what it sends"""
    rows = []
    for r, noted in enumerate(map(list, stamps)):
        rows.append(Row(f'rank {r}', _boxes(noted, False)))
        if sends := _boxes(noted, True):
            rows.append(Row('sends', sends))
    return strip(rows, title=title, start=0, end=end)


def timeline(
    stamps,  # rank by rank, or {title: that}, each a strip below the other, to one scale
    caption='',  # below it
) -> Picture:
    "A picture of one run, or of some to be compared"
    runs = stamps if isinstance(stamps, dict) else {'': stamps}
    end = max(o.end for ranks in runs.values() for noted in ranks for o in noted)
    return Picture(*[draw_timeline(ranks, title, end) for title, ranks in runs.items()], caption=caption)


def busy(
    stamps,  # rank by rank
) -> list:  # of fractions, rank by rank
    "Compute the fraction of the time that each rank computes"
    end = max(o.end for noted in stamps for o in noted)
    return [sum(o.end - o.start for o in noted if o.what in ('attend', 'gradients', 'merge')) / end for noted in stamps]
