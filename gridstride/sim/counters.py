"""Counters of a GPU, per line of a kernel: requests, sectors, wavefronts, bank conflicts, branches."""

from collections import defaultdict
from contextlib import contextmanager

import numpy as np

from ..support import counters
from ..support.memory_transactions import sectors, wavefronts
from .kernel import active_traces


class Counters(counters.Counters):
    "Hardware counters, read as attributes; `lanes/requests` is the average number of lanes per memory request"

    NAMES = (
        *(
            f'global_{direction}_{counter}'
            for direction in ('load', 'store')
            for counter in ('requests', 'sectors', 'ideal', 'bytes')
        ),
        *(
            f'shared_{direction}_{counter}'
            for direction in ('load', 'store')
            for counter in ('requests', 'wavefronts', 'conflicts')
        ),
        *('atomics', 'branches', 'divergent_branches', 'barriers', 'requests', 'lanes'),
    )


class Trace:
    "The counters of the recorded launches, in total and per source line, and their accesses one by one"

    def __init__(self, keep=200_000):  # keep: how many accesses to record, one per thread
        self.num_to_record = keep  # how many more
        self.stats = Counters()
        self.lines = defaultdict(Counters)  # line number -> counters
        self.accesses = []  # dicts: time, line, block, thread, array, ...
        self.source = {}  # line number -> source line

    def _count(self, ctx, site, **counts):
        location = ctx.program.sites[site]
        self.source[location.line] = location.source
        self.stats.add(**counts)
        self.lines[location.line].add(**counts)

    def record_access(self, ctx, lanes, view, offsets, site, access):
        "Record that `lanes` access the elements of `view` at `offsets`; `access` is 'read', 'written' or 'atomic'"
        if view.mem.space not in ('shared', 'global'):
            return
        count = self._count_shared if view.mem.space == 'shared' else self._count_global
        requests, counts = count(ctx.group, lanes, view, offsets, 'load' if access == 'read' else 'store')
        if access == 'atomic':
            counts = dict(atomics=requests)
        self._count(ctx, site, requests=requests, lanes=len(offsets), **counts)
        shape = tuple(int(size) if np.ndim(size) == 0 else -1 for size in view.shape)
        record = dict(
            array=view.name,
            space=view.mem.space,
            verb=access,
            at=np.asarray(offsets),
            size=view.dtype.itemsize,
            shape=shape,
        )
        self._append_record(ctx, lanes, site, len(offsets), record)

    def _count_shared(self, group, lanes, view, offsets, direction):
        "Count an access of shared memory, a 'load' or a 'store'; returns (number of requests, {counter: increment})"
        size = view.dtype.itemsize
        byte_offsets = offsets * size - (
            group.block_in_group[lanes] * (len(view.mem.data) // group.num_blocks) * size if group.num_blocks > 1 else 0
        )
        requests, num_wavefronts, num_conflicts = wavefronts(
            group.warp_in_group[lanes], group.laneid[lanes], byte_offsets, size, group.warp_size
        )
        names = (f'shared_{direction}_{counter}' for counter in ('requests', 'wavefronts', 'conflicts'))
        return requests, dict(zip(names, (requests, num_wavefronts, num_conflicts)))

    def _count_global(self, group, lanes, view, offsets, direction):
        "Count an access of global memory, a 'load' or a 'store'; returns (number of requests, {counter: increment})"
        size = view.dtype.itemsize
        requests, num_sectors, num_ideal_sectors = sectors(group.warp_in_group[lanes], offsets * size, size)
        names = (f'global_{direction}_{counter}' for counter in ('requests', 'sectors', 'ideal', 'bytes'))
        return requests, dict(zip(names, (requests, num_sectors, num_ideal_sectors, len(offsets) * size)))

    def _append_record(self, ctx, lanes, site, num_threads, record):
        "Record an access or a barrier of `num_threads` threads, unless the limit is reached"
        if self.num_to_record > 0:
            self.num_to_record -= num_threads
            line = ctx.program.sites[site].line
            self.accesses.append(
                dict(
                    time=ctx.now,
                    line=line,
                    block=ctx.group.block_index[lanes],
                    thread=ctx.group.thread_index[lanes],
                    **record,
                )
            )

    def record_branch(self, ctx, active, taken_lanes, other_lanes, site):
        "Record a branch, which the lanes of `taken_lanes` take and those of `other_lanes` do not take"
        num_warps = ctx.group.warps_per_block * ctx.group.num_blocks

        def warps_with_lanes(mask):
            return (
                np.zeros(num_warps, bool)
                if mask is None
                else np.bincount(ctx.group.warp_in_group[mask], minlength=num_warps) > 0
            )

        takes_branch, skips_branch = warps_with_lanes(taken_lanes), warps_with_lanes(other_lanes)
        self._count(
            ctx,
            site,
            branches=(takes_branch | skips_branch).sum(),
            divergent_branches=(takes_branch & skips_branch).sum(),
        )

    def record_barrier(self, ctx, active, site):
        "Record that the lanes of `active` reach a barrier"
        self._count(ctx, site, barriers=len(np.unique(ctx.group.warp_in_group[active])))
        self._append_record(
            ctx, active, site, 0, dict(array='', space='', verb='barrier', at=np.zeros(0, int), size=0, shape=())
        )

    def __repr__(self):
        titles = ('requests', 'sectors', 'ideal', 'wavefr.', 'confl.')
        head = f"{'line':>5} {' '.join(f'{title:>9}' for title in titles)} {'diverg.':>8}  source"
        return '\n'.join(
            [head, *(self._row(line, line_counters) for line, line_counters in sorted(self.lines.items()))]
        )

    def _row(self, line, line_counters):
        "Format the counters of a line of the kernel as a row of the table"
        counts = (
            line_counters.requests,
            line_counters.global_load_sectors + line_counters.global_store_sectors,
            line_counters.global_load_ideal + line_counters.global_store_ideal,
            line_counters.shared_load_wavefronts + line_counters.shared_store_wavefronts,
            line_counters.shared_load_conflicts + line_counters.shared_store_conflicts,
        )
        row = ' '.join(f'{count:>9,}' for count in counts)
        return f'{line:>5} {row} {line_counters.divergent_branches:>8,}  {self.source[line]}'


@contextmanager
def trace(keep=200_000):  # how many accesses to record for pictures, one per thread
    "Record counters and accesses of the kernels that the `with` block launches"
    recorder = Trace(keep)
    active_traces.append(recorder)
    try:
        yield recorder
    finally:
        active_traces.remove(recorder)
