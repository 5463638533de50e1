"""Record the activities of each rank, and draw them as a timeline."""

import time
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.distributed as dist

from ..draw import PALETTE, Picture
from ..prof.strip import OTHER_COLOR, Box, Row, strip

_COLORS = {
    'attend': PALETTE[0],
    'gradients': PALETTE[0],
    'multiply': PALETTE[0],
    'merge': PALETTE[2],
    'wait': OTHER_COLOR,
}
_SEND_COLOR = PALETTE[1]


class Activity(NamedTuple):
    "An activity of a rank, from `start` to `end`, in seconds since all ranks created their `Timestamps`"

    activity: str  # 'attend', 'gradients', 'multiply', 'merge', 'wait', 'send'
    step: int
    start: float
    end: float


class Timestamps:
    """Records when activities begin and end: on the CPU with its clock, on a GPU with events in the current stream.

    All ranks must create their instance at the same point of the program: a barrier starts their clocks together."""

    def __init__(self):
        self.is_on_gpu = dist.get_backend() == 'nccl'
        self.activities = []  # (activity, step, start, end)
        dist.barrier()
        if self.is_on_gpu:
            torch.cuda.synchronize()
        self.start = self._now()

    def _now(self):
        "Return the time on the CPU, or on a GPU an event that is recorded now"
        if not self.is_on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @contextmanager
    def __call__(self, activity, step):
        "Record the activity of a `with` block"
        start = self._now()
        yield
        self.activities.append((activity, step, start, self._now()))

    def _seconds(self, time_or_event):
        "Return the seconds from the start to a time that `_now` has returned"
        return self.start.elapsed_time(time_or_event) / 1e3 if self.is_on_gpu else time_or_event - self.start

    def read(self) -> list:  # of `Activity`
        "Wait for all work on the GPU, and return the recorded activities"
        if self.is_on_gpu:
            torch.cuda.synchronize()
        return [
            Activity(activity, step, self._seconds(start), self._seconds(end))
            for activity, step, start, end in self.activities
        ]


def _boxes(stamps, is_send):
    "Return a `Box` per message (`is_send`), or per other activity"
    return [
        Box(
            stamp.start,
            stamp.end,
            str(stamp.step) if stamp.activity != 'wait' else '',
            _COLORS.get(stamp.activity, _SEND_COLOR),
            f'{stamp.activity} {stamp.step}',
        )
        for stamp in stamps
        if (stamp.activity == 'send') == is_send
    ]


def draw_timeline(
    stamps: list,  # rank by rank: a list of `Activity`
    title='',
    end=None,  # of the time axis; None: the end of the last stamp
):  # an SVG picture
    "Draw one row per rank: computation is coloured, with its step, and waiting is grey; a second row shows messages"
    rows = []
    for rank, rank_stamps in enumerate(map(list, stamps)):
        rows.append(Row(f'rank {rank}', _boxes(rank_stamps, False)))
        if sends := _boxes(rank_stamps, True):
            rows.append(Row('sends', sends))
    return strip(rows, title=title, start=0, end=end)


def timeline(
    stamps,  # rank by rank, a list of `Activity`; or {title: such lists}, drawn one below the other with the same scale
    caption='',
) -> Picture:
    "Draw the timeline of one run, or of several runs to compare"
    runs = stamps if isinstance(stamps, dict) else {'': stamps}
    end = max(
        stamp.end for stamps_of_ranks in runs.values() for rank_stamps in stamps_of_ranks for stamp in rank_stamps
    )
    return Picture(
        *[draw_timeline(stamps_of_ranks, title, end) for title, stamps_of_ranks in runs.items()], caption=caption
    )


def busy(
    stamps,  # rank by rank
) -> list:  # of fractions, rank by rank
    "Return the fraction of the time during which each rank computes"
    end = max(stamp.end for rank_stamps in stamps for stamp in rank_stamps)
    compute_activities = 'attend', 'gradients', 'multiply', 'merge'
    return [
        sum(stamp.end - stamp.start for stamp in rank_stamps if stamp.activity in compute_activities) / end
        for rank_stamps in stamps
    ]
