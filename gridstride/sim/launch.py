"""Launches a kernel: converts its arguments, and runs its blocks in groups of a few thousand threads in lockstep."""

import importlib
import os
import sys
import threading
import time

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..diagnostics.launch_config import configure, check_argument_count
from ..diagnostics.settings import ENGINES, settings
from .arguments import convert_arguments
from .errors import add_kernel_line
from .happens_before import launching
from .lanes import Group
from .residents import Residents
from .run import LaunchContext

__all__ = ['launch', 'other_engine']

_device_lock = threading.RLock()  # one launch at a time: there is one simulated device
os.register_at_fork(after_in_child=_device_lock._at_fork_reinit)  # another thread may hold it when the process forks

# glibc's malloc returns free memory at the top of the heap to the system when it exceeds M_TRIM_THRESHOLD, which starts
# at 128 KB. With arrays of a few thousand lanes, each operation would then get new pages and fault them in. Freeing a
# large array, here, raises the threshold to twice its size.
np.empty(2**22, np.uint8)


def other_engine():
    "Return the module of `settings.engine`, whose `launch` runs kernels; None if this module runs them"
    return ENGINES[settings.engine] and importlib.import_module(ENGINES[settings.engine])


def launch(program, grid, block, dynamic_shared_bytes, args, trace=None, stream=None, host_waits=False):
    "Run a kernel in every thread of the grid; `host_waits`: whether the host waits until the kernel has finished"
    grid, block, _, dynamic_shared_bytes, _ = configure(program.name, grid, block, shared=dynamic_shared_bytes)
    check_argument_count(program.name, program.params, len(args), len(program.defaults))
    with _device_lock:
        _launch(program, grid, block, dynamic_shared_bytes, args, trace, stream, host_waits)


def _launch(program, grid, block, dynamic_shared_bytes, args, trace, stream, host_waits):
    ctx = LaunchContext(program.name, grid, block, dynamic_shared_bytes, trace)
    values = convert_arguments(program.name, program.params, args)
    outer_launch = LaunchContext.current
    LaunchContext.current = ctx
    try:
        with np.errstate(all='ignore'), launching(ctx, stream, host_waits):
            _run_groups(ctx, program, values)
    except RecursionError:
        raise NotSimulated("the recursion is deeper than Python's limit", kernel=program.name) from None
    except Exception as error:
        raise add_kernel_line(program, values, ctx.detectors.initcheck.cause_of(error) or error) from None
    finally:
        LaunchContext.current = outer_launch
        LaunchContext.now = ctx.now


def _run_groups(ctx, program, values):
    "Run the blocks in groups of a few thousand threads, which run in lockstep"
    ctx.is_cooperative = program.uses_this_grid
    ctx.require_resident(ctx.dynamic_shared_bytes)
    blocks_per_group = max(1, settings.max_lanes // ctx.block.size)
    if program.may_spin:
        blocks_per_group = 1
    elif program.uses_this_grid:
        blocks_per_group = ctx.grid.size
    first_blocks = list(range(0, ctx.grid.size, blocks_per_group))
    if settings.order == 'reverse':
        first_blocks.reverse()
    if settings.order == 'shuffle':
        ctx.shuffle(first_blocks)
    progress = _Progress(ctx.kernel, len(first_blocks))
    residents = Residents(ctx)
    for i, first_block in enumerate(first_blocks):
        group = Group(
            ctx.grid, ctx.block, first_block, min(blocks_per_group, ctx.grid.size - first_block), ctx.warp_size
        )
        ctx.begin_group(group)
        steps = program(ctx, ctx.group.all_lanes, *values)
        if program.may_spin:
            residents.start_block(steps)
        else:
            ctx.detectors.racecheck.raise_deferred(ctx, ctx.group.all_lanes)
            ctx.detectors.initcheck.check_at_end('shared')
        progress(i + 1)
    residents.finish()
    for space in ('global', 'shared'):
        ctx.detectors.initcheck.check_at_end(space)


class _Progress:
    "Prints the progress of a launch that takes longer than 2 seconds, twice a second"

    def __init__(self, kernel, num_groups):
        self.kernel, self.num_groups, self.start, self.last_print = kernel, num_groups, time.monotonic(), None

    def __call__(self, num_finished):
        now = time.monotonic()
        if now - self.start < 2 or self.last_print and now - self.last_print < 0.5 and num_finished < self.num_groups:
            return
        if self.last_print is None and num_finished == self.num_groups:
            return
        self.last_print = now
        print(
            f'\r{self.kernel}: {num_finished / self.num_groups:.0%} of the blocks, {now - self.start:.0f} s',
            end='\n' if num_finished == self.num_groups else '',
            file=sys.stderr,
            flush=True,
        )
