"""Record when each rank does what, and draw it as a timeline."""

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
    "One activity of a rank, from start to end, in seconds since all ranks began"

    what: str  # 'attend', 'gradients', 'merge', 'wait', 'send'
    step: int
    start: float
    end: float


class Stamps:
    """Records when activities begin and end: on the CPU by its clock, on a GPU by events of the current stream.

    All ranks must create theirs together, because a barrier makes their clocks start at the same time."""

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
        "Record the activity of a `with` block"
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


def _boxes(stamps, is_send):
    return [
        Box(
            stamp.start,
            stamp.end,
            str(stamp.step) if stamp.what != 'wait' else '',
            _COLORS.get(stamp.what, _SENDS),
            f'{stamp.what} {stamp.step}',
        )
        for stamp in stamps
        if (stamp.what == 'send') == is_send
    ]


def draw_timeline(
    stamps: list,  # rank by rank: a list of `Stamp`
    title='',
    end=None,  # of the time axis; None: the end of the last stamp
):  # an SVG picture
    """Draw one row per rank: computation is coloured and has the number of its step, waiting is grey. A second row
    shows what the rank sends, if anything"""
    rows = []
    for r, noted in enumerate(map(list, stamps)):
        rows.append(Row(f'rank {r}', _boxes(noted, False)))
        if sends := _boxes(noted, True):
            rows.append(Row('sends', sends))
    return strip(rows, title=title, start=0, end=end)


def timeline(
    stamps,  # rank by rank, a list of `Stamp`; or {title: these}, drawn one below the other with the same scale
    caption='',
) -> Picture:
    "Draw the timeline of one run, or of several runs to compare"
    runs = stamps if isinstance(stamps, dict) else {'': stamps}
    end = max(o.end for ranks in runs.values() for noted in ranks for o in noted)
    return Picture(*[draw_timeline(ranks, title, end) for title, ranks in runs.items()], caption=caption)


def busy(
    stamps,  # rank by rank
) -> list:  # of fractions, rank by rank
    "Return the fraction of the time in which each rank computes"
    end = max(o.end for noted in stamps for o in noted)
    return [sum(o.end - o.start for o in noted if o.what in ('attend', 'gradients', 'merge')) / end for noted in stamps]
