"""Launches a kernel: its arguments become views, and its blocks run in groups of a few thousand threads in lockstep."""

import importlib
import os
import sys
import threading
import time

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..diagnostics.launch_config import configure, count_arguments
from ..diagnostics.settings import ENGINES, settings
from .arguments import arguments
from .errors import add_kernel_line
from .happens_before import launching
from .lanes import Group
from .residents import Residents
from .run import LaunchContext

__all__ = ['launch', 'other_engine']

_one_at_a_time = threading.RLock()  # there is one simulated device
os.register_at_fork(after_in_child=_one_at_a_time._at_fork_reinit)  # another thread may have held it

# glibc's malloc returns free memory to the system once it is twice as large as the largest array that it has seen
# freed: two arrays of some thousand lanes, and every access would fault their pages in again. So it sees a large one.
np.empty(2**22, np.uint8)


def other_engine():
    "Return the module that runs kernels instead of this one, or None"
    return ENGINES[settings.engine] and importlib.import_module(ENGINES[settings.engine])


def launch(prog, grid, block, dynamic, args, trace=None, stream=None, waits=False):
    "Run the kernel's program on every thread of the grid; `waits`: does the host wait for it?"
    grid, block, _, dynamic, _ = configure(prog.name, grid, block, shared=dynamic)
    count_arguments(prog.name, prog.params, len(args), len(prog.defaults))
    with _one_at_a_time:
        _launch(prog, grid, block, dynamic, args, trace, stream, waits)


def _launch(prog, grid, block, dynamic, args, trace, stream, waits):
    run = LaunchContext(prog.name, grid, block, dynamic, trace)
    values = arguments(prog.name, prog.params, args)
    if trace is not None:
        trace.begin(run)
    outer = LaunchContext.current
    LaunchContext.current = run
    try:
        with np.errstate(all='ignore'), launching(run, stream, waits):
            _groups(run, prog, values)
    except RecursionError:
        raise NotSimulated('recursion this deep', kernel=prog.name) from None
    except Exception as e:
        raise add_kernel_line(prog, values, run.detectors.initcheck.cause_of(e) or e) from None
    finally:
        LaunchContext.current = outer
        LaunchContext.now = run.now


def _groups(run, prog, values):
    "Yield groups of blocks, so many at a time that a few thousand threads run in lockstep"
    run.cooperative = prog.meets_grid
    run.require_resident(run.dynamic)
    per = max(1, settings.lanes // run.block.size)
    if prog.may_spin:
        per = 1
    elif prog.meets_grid:
        per = run.grid.size
    firsts = list(range(0, run.grid.size, per))
    if settings.order == 'reverse':
        firsts.reverse()
    if settings.order == 'shuffle':
        run.random.shuffle(firsts)
    show = _Progress(run.kernel, len(firsts))
    residents = Residents(run)
    for i, first in enumerate(firsts):
        group = Group(run.grid, run.block, first, min(per, run.grid.size - first), run.warp)
        run.begin(group, alone=not prog.may_spin)
        steps = prog(run, run.g.all, *values)
        if prog.may_spin:
            residents.begin(steps)
        else:
            run.detectors.racecheck.report_held(run, run.g.all)
            run.detectors.initcheck.at_end(run, 'shared')
        show(i + 1)
    residents.end()
    for space in ('global', 'shared'):
        run.detectors.initcheck.at_end(run, space)


class _Progress:
    "A progress line of a long launch, updated twice a second after the first second"

    def __init__(self, kernel, total):
        self.kernel, self.total, self.start, self.last = kernel, total, time.monotonic(), None

    def __call__(self, done):
        now = time.monotonic()
        if now - self.start < 2 or self.last and now - self.last < 0.5 and done < self.total:
            return
        if self.last is None and done == self.total:
            return
        self.last = now
        print(
            f'\r{self.kernel}: {done / self.total:.0%} of the blocks, {now - self.start:.0f} s',
            end='\n' if done == self.total else '',
            file=sys.stderr,
            flush=True,
        )
