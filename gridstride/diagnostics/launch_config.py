"""The launch syntax of all engines, `kernel[grid, block, stream, shared_bytes](*args)`, and errors in it."""

import operator
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

from .errors import Location, WrongArgument, exception_of
from ..utils import dim3

__all__ = [
    'LIMITS',
    'LaunchConfig',
    'launch_error',
    'read_brackets',
    'configure',
    'check_argument_count',
    'argument_error',
    'require_positional',
    'ConfiguredKernel',
    'max_resident_blocks',
]

# The limits of a GPU: threads per block, and along z; bytes of shared memory, by default and with an opt-in; blocks
# along x, along y and z, and per cluster, by default and with an opt-in
LIMITS = SimpleNamespace(
    threads=1024,
    z=64,
    shared=48 * 1024,
    shared_opt_in=227 * 1024,
    grid_x=2**31 - 1,
    grid_yz=65535,
    cluster=8,
    cluster_opt_in=16,
)


def max_resident_blocks(
    threads,  # per block
    shared,  # bytes of shared memory per block
):  # blocks
    """Return how many blocks are resident on an H100's 132 SMs at once; the limit by registers is ignored.

    >>> max_resident_blocks(1024, 0)
    264"""
    limit_by_threads = 2048 // (-(-threads // 32) * 32)
    limit_by_memory = (228 << 10) // (-(-shared // 128) * 128 + 1024)
    return 132 * max(1, min(32, limit_by_threads, limit_by_memory))


class LaunchConfig(NamedTuple):
    "The sizes of a launch, validated"

    grid: dim3  # blocks
    block: dim3  # threads per block
    stream: object  # None, an integer handle, or an object that has one
    shared: int  # bytes of dynamic shared memory
    cluster: dim3  # blocks per cluster


def launch_error(
    kernel,  # its name
    code,  # of the finding, in `messages.MESSAGES`
    **fields,  # of its message
):
    "Make the `LaunchError` with this code for a kernel"
    return exception_of('launch', code, 'python', dict(kernel=kernel, **fields), Location(kernel))


def read_brackets(
    kernel,  # its name
    brackets,  # grid and block, optionally followed by stream and bytes of shared memory
):  # (grid, block, stream or None, bytes of shared memory)
    """Parse a launch's brackets; raises `LaunchError` for too few or too many values, or an invalid stream or size.

    >>> read_brackets('square', (4, 256))
    (4, 256, None, 0)"""
    values = brackets if isinstance(brackets, tuple) else (brackets,)
    if not 2 <= len(values) <= 4:
        raise launch_error(kernel, 'brackets', given=len(values))
    grid, block, stream, shared = (*values, None, None)[:4]
    return grid, block, _check_stream(kernel, stream), _check_shared_bytes(kernel, shared)


def _integer(x):
    "Return `x` as an integer; -1 if it is not one"
    try:
        return operator.index(x)
    except TypeError:
        return -1


def _check_shared_bytes(kernel, shared):
    "Return a size of shared memory, 0 for None; raises `LaunchError` if it is not a non-negative integer"
    size = 0 if shared is None else _integer(shared)
    if size < 0:
        raise launch_error(kernel, 'shared_number', given=shared)
    return size


def _check_stream(kernel, stream):
    "Return the stream; raises `LaunchError` if it is not a stream"
    is_stream = stream is None or any(hasattr(stream, k) for k in ('cuda_stream', '__cuda_stream__', 'handle'))
    if not is_stream and _integer(stream) < 0:
        raise launch_error(kernel, 'stream', given=stream)
    return stream


_NO_CLUSTER = dim3(1)


def _to_dim3(kernel, *sizes):
    "Convert each size to a `dim3`; raises `LaunchError` for an invalid size"
    try:
        return [size if isinstance(size, dim3) else dim3(size) for size in sizes]
    except (TypeError, ValueError) as e:
        raise launch_error(kernel, 'sizes', why=e) from None


def configure(
    kernel,  # its name
    grid,  # blocks, and
    block,  # threads per block: an int, a tuple of one to three, or a `dim3`
    stream=None,  # an integer handle, or an object that has one, such as a stream of torch
    shared=None,  # bytes of dynamic shared memory; None: 0
    cluster=None,  # blocks per cluster, as `grid`; None: 1
    opts_in=False,  # whether the kernel opts in to more than 48 KB of shared memory
    large_clusters=False,  # whether it opts in to clusters of more than 8 blocks
) -> LaunchConfig:
    """Validate the sizes of a launch; raises `LaunchError` for sizes that no GPU accepts.

    >>> configure('square', 4, 256).block
    dim3(x=256, y=1, z=1)"""
    grid, block, cluster = _to_dim3(kernel, grid, block, _NO_CLUSTER if cluster is None else cluster)
    stream = _check_stream(kernel, stream)
    shared = _check_shared_bytes(kernel, shared)
    sizes = dict(grid=tuple(grid), block=tuple(block))
    if min(grid) < 1 or min(block) < 1:
        raise launch_error(kernel, 'empty', **sizes)
    if block.size > LIMITS.threads or block.z > LIMITS.z:
        raise launch_error(kernel, 'block_size', threads=block.size, limit=LIMITS.threads, limit_z=LIMITS.z, **sizes)
    if grid.x > LIMITS.grid_x or max(grid.y, grid.z) > LIMITS.grid_yz:
        raise launch_error(kernel, 'grid_size', limit_x=LIMITS.grid_x, limit_yz=LIMITS.grid_yz, **sizes)
    max_cluster = LIMITS.cluster_opt_in if large_clusters else LIMITS.cluster
    if cluster is not _NO_CLUSTER and (
        min(cluster) < 1 or cluster.size > max_cluster or any(g % c for g, c in zip(grid, cluster))
    ):
        raise launch_error(kernel, 'cluster_size', cluster=tuple(cluster), limit=max_cluster, **sizes)
    if shared > (LIMITS.shared_opt_in if opts_in else LIMITS.shared):
        code = 'dynamic_size' if opts_in else 'shared_size'
        raise launch_error(kernel, code, bytes=shared, limit=LIMITS.shared_opt_in if opts_in else LIMITS.shared)
    return LaunchConfig(grid, block, stream, shared, cluster)


def check_argument_count(
    kernel,  # its name
    parameters,  # each as a message shows it: 'x', or 'float *x'
    num_given,  # number of arguments in the launch
    optional=0,  # number of trailing parameters that may be omitted
):
    "Raise `LaunchError` unless the kernel takes this number of arguments"
    if not len(parameters) - optional <= num_given <= len(parameters):
        message_fields = dict(count=len(parameters), parameters=', '.join(parameters))
        raise launch_error(kernel, 'arguments', given=num_given, **message_fields)


def require_positional(
    kernel,  # its name
    names,  # of the arguments that were passed by name
):
    "Raise `WrongArgument` if arguments were passed by name"
    if names:
        message = f'a launch takes positional arguments only, not {", ".join(names)} by name'
        raise WrongArgument(f'{kernel}: {message}')


class ConfiguredKernel(partial):
    "A kernel with its grid and block: a call with the arguments launches it"

    def __repr__(self):
        grid, block = self.args[:2]
        name = self.func.__self__.__name__
        return f'{name}[{grid!r}, {block!r}], not launched: call it with the arguments, {name}[grid, block](...)'


def argument_error(
    kernel,  # its name
    i,  # index of the argument
    parameter,  # as in `check_argument_count`
    message,  # the expected value, the passed one, and how to fix it: continues 'argument 1, float *x, '
):
    "Make the `WrongArgument` for an argument of a launch"
    return WrongArgument(f'{kernel}: argument {i + 1}, {parameter}, {message}')
