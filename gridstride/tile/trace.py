"""Records the accesses of checked kernels, with program and lanes, and counts accesses, bytes and sectors per line."""

import linecache
from collections import defaultdict
from contextlib import contextmanager

import numpy as np

from ..support import counters

__all__ = ['Counters', 'Trace', 'trace', 'pause_recording', 'recorder']

_SECTOR = 32  # bytes: the granularity of memory transactions


class Counters(counters.Counters):
    "Counters, read as attributes; `load_bytes/load_sectors/32` is the fraction of the transferred bytes that loads use"

    WIDTH = 16
    NAMES = (
        'programs',
        'loads',
        'load_bytes',
        'load_sectors',
        'stores',
        'store_bytes',
        'store_sectors',
        'atomics',
        'lanes',
        'masked_lanes',
    )


class Trace:
    "The counters of the recorded launches, in total and per source line, and their accesses one by one"

    def __init__(self, keep=1_000_000):  # keep: how many accesses of single lanes to record
        self.num_to_record = keep  # how many more accesses
        self.stats = Counters()
        self.lines = defaultdict(Counters)  # line number -> counters
        self.accesses = []  # from `_access_record`
        self.source = {}  # line number -> source line
        self.grid = None  # of the launch that was recorded last

    def begin_launch(self, ctx):
        "Begin a launch"
        self.grid = ctx.grid

    def begin_program(self):
        "Begin a program"
        self.stats.add(programs=1)

    def record_access(self, ctx, region, element_offsets, verb, frame, pointers, mask):
        "Record that the running program accesses elements of a region; `verb` is 'read', 'written' or 'atomic'"
        line = frame.f_lineno
        file = frame.f_code.co_filename
        self.source.setdefault(line, linecache.getline(file, line).strip())
        sectors = np.unique((element_offsets * region.itemsize + region.address) // _SECTOR).size
        counts = dict(lanes=element_offsets.size, masked_lanes=pointers.data.size - element_offsets.size)
        if verb == 'atomic':
            counts.update(atomics=1)
        else:
            direction = 'load' if verb == 'read' else 'store'
            counts |= {
                f'{direction}s': 1,
                f'{direction}_bytes': element_offsets.size * region.itemsize,
                f'{direction}_sectors': sectors,
            }
        self.stats.add(**counts)
        self.lines[line].add(**counts)
        if self.num_to_record > 0:
            self.num_to_record -= element_offsets.size
            self.accesses.append(self._access_record(ctx, region, element_offsets, verb, line, pointers, mask))

    def walk(
        self,
        array,  # the name in the kernel of an array with two axes
        verb='written',  # 'read', 'written' or 'atomic'
    ) -> np.ndarray:  # one value per tile; -1 where no program accessed it
        "Return the order in which programs access tiles of an array, for `draw.cells`; a tile is the largest access"
        tile_accesses = [
            access
            for access in self.accesses
            if access['array'] == array and access['verb'] == verb and len(access['shape']) == 2
        ]
        if not tile_accesses:
            raise ValueError(f'the trace has no {verb!r} access to an array {array!r} with two axes')
        columns = tile_accesses[0]['shape'][1]
        boxes = [(access['at'] // columns, access['at'] % columns) for access in tile_accesses if len(access['at'])]
        tile_size = [max(int(np.ptp(box[axis])) + 1 for box in boxes) for axis in (0, 1)]
        order = np.full(
            [-(-extent // tile_extent) for extent, tile_extent in zip(tile_accesses[0]['shape'], tile_size)], -1
        )
        for box_rows, box_columns in boxes:
            tile = box_rows.min() // tile_size[0], box_columns.min() // tile_size[1]
            if order[tile] < 0:
                order[tile] = order.max() + 1
        return order

    def _access_record(self, ctx, region, element_offsets, verb, line, pointers, mask):
        "Return an access for `draw`: `block` is the linear index of the program in the grid, `thread` the lane"
        x, y, z = ctx.program_id
        program_index = x + ctx.grid[0] * (y + ctx.grid[1] * z)
        lanes = np.flatnonzero(mask) if mask is not None and pointers.data.ndim else np.arange(element_offsets.size)
        return dict(
            time=len(self.accesses),
            line=line,
            array=region.name,
            space='global',
            verb=verb,
            block=np.full(element_offsets.size, program_index),
            program=ctx.program_id,
            thread=lanes,
            at=region.flat_index(element_offsets),
            size=region.itemsize,
            shape=tuple(map(int, region.shape)),
        )


_recorder = [None]


def recorder():
    "Return the trace that is recording, or None"
    return _recorder[0]


@contextmanager
def pause_recording():
    "Pause recording in the `with` block"
    outer_trace = _recorder[0]
    _recorder[0] = None
    try:
        yield
    finally:
        _recorder[0] = outer_trace


@contextmanager
def trace(
    keep=1_000_000,  # how many accesses of single lanes to record
):
    "Record a `Trace` of all kernels that run checked in the `with` block"
    outer_trace = _recorder[0]
    _recorder[0] = Trace(keep)
    try:
        yield _recorder[0]
    finally:
        _recorder[0] = outer_trace
