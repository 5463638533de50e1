"""A launch, whoever runs it: `kernel[grid, block, stream, shared_bytes](*args)`, and what can be wrong with it."""

import operator
from types import SimpleNamespace

from .findings import Place, exception_of
from .utils import dim3

__all__ = ['LIMITS', 'launch_error', 'read_brackets', 'sizes', 'count_arguments', 'argument_error']

# What a GPU takes: threads of a block and along its z, bytes of shared memory, blocks along x, and along y and z
LIMITS = SimpleNamespace(threads=1024, z=64, shared=48 * 1024, grid_x=2**31 - 1, grid_yz=65535)


def launch_error(kernel, code, **fields):
    "The `LaunchError` with this code about the kernel of this name"
    return exception_of('launch', code, 'python', dict(kernel=kernel, **fields), Place(kernel))


def read_brackets(
    kernel,  # its name
    brackets,  # what stands in them: grid and block, then stream and bytes of shared memory if need be
):  # (grid, block, stream, bytes of shared memory); the stream is None unless there is one
    "What stands in a launch's brackets; `LaunchError` for too few or too many, or bytes that are no whole number"
    parts = brackets if isinstance(brackets, tuple) else (brackets,)
    if not 2 <= len(parts) <= 4:
        raise launch_error(kernel, 'brackets', given=len(parts))
    grid, block, stream, shared = (*parts, None, None)[:4]
    return grid, block, stream, _shared_bytes(kernel, shared)


def _shared_bytes(kernel, shared):
    try:
        n = operator.index(0 if shared is None else shared)
    except TypeError:
        n = -1
    if n < 0:
        raise launch_error(kernel, 'shared_number', given=shared)
    return n


def sizes(
    kernel,  # its name
    grid,  # blocks, and
    block,  # threads of each: an int, a tuple of one to three, or a `dim3`
    shared=0,  # bytes of dynamic shared memory
):  # (grid, block)
    "Grid and block as `dim3`; `LaunchError` for what no GPU takes"
    try:
        grid, block = dim3(grid), dim3(block)
    except (TypeError, ValueError) as e:
        raise launch_error(kernel, 'sizes', why=e) from None
    shown = dict(grid=tuple(grid), block=tuple(block))
    if min(grid) < 1 or min(block) < 1:
        raise launch_error(kernel, 'empty', **shown)
    if block.size > LIMITS.threads or block.z > LIMITS.z:
        raise launch_error(kernel, 'block_size', threads=block.size, most=LIMITS.threads, most_z=LIMITS.z, **shown)
    if grid.x > LIMITS.grid_x or max(grid.y, grid.z) > LIMITS.grid_yz:
        raise launch_error(kernel, 'grid_size', most_x=LIMITS.grid_x, most_yz=LIMITS.grid_yz, **shown)
    if shared > LIMITS.shared:
        raise launch_error(kernel, 'shared_size', bytes=shared, most=LIMITS.shared)
    return grid, block


def count_arguments(
    kernel,  # its name
    parameters,  # each as a message shows it: 'x', or 'float *x'
    given,  # how many arguments
    optional=0,  # how many of the last parameters may be left out
):
    "`LaunchError` unless there are as many arguments as the kernel takes"
    if not len(parameters) - optional <= given <= len(parameters):
        shown = dict(count=len(parameters), parameters=', '.join(parameters))
        raise launch_error(kernel, 'arguments', given=given, **shown)


def argument_error(
    kernel,  # its name
    i,  # which argument, from 0
    parameter,  # as `count_arguments` has it
    what,  # what it takes, what was given, and what to give
):
    "The `TypeError` that says what is wrong with an argument"
    return TypeError(f'{kernel}: argument {i + 1}, {parameter}, {what}')
