"""Launch kernels whose first arguments are TMA tensor maps, and whose persistent blocks take tiles from a counter."""

from functools import lru_cache

import torch

from ..ladder import launches, rung
from ..common import make_context_current_once
from ..ladder.launches import active_recorder, record_launch
from ...cpp.driver import current_stream


@lru_cache(1024)
def _launcher(kernel_launch, boxes, device, backend):  # `device` is only part of the cache key
    "Return the launcher of a `KernelLaunch`, compiled once per source"
    mapped_args = [(i, box, 128) for i, box in enumerate(boxes)]
    return launches.MappedLauncher(
        rung.compile_kernel(kernel_launch.src, kernel_launch.name, backend),
        mapped_args,
        len(kernel_launch.arrays),
        *kernel_launch[3:],
    )


@lru_cache(256)
def _cached_tile_counter(device, stream):
    "Return the tile counter of a stream, which launches on that stream share"
    return torch.zeros(1, dtype=torch.uint32, device=device)


def _tile_counter(x, stream):
    """Return a counter that is 0 between launches on a stream. A CUDA graph and a recorded call each get a new one,
    because they may be replayed on any stream"""
    if not x.is_cuda or torch.cuda.is_current_stream_capturing() or active_recorder():
        return torch.zeros(1, dtype=torch.int32, device=x.device).view(torch.uint32)
    return _cached_tile_counter(x.device, stream)


def launch_mapped(kernel_launch, boxes, x, **arrays):
    "Launch on the device of `x`, on its current stream; `arrays`: {name of an array in the launch: tensor}"
    if not x.is_cuda:
        if 'tile_counter' in kernel_launch.arrays:
            arrays |= dict(tile_counter=_tile_counter(x, None))
        return _launcher(kernel_launch, boxes, None, 'sim')([arrays[name] for name in kernel_launch.arrays])
    device = x.get_device()
    with torch.cuda.device(device):
        make_context_current_once()
        stream = current_stream(device)
        if 'tile_counter' in kernel_launch.arrays:
            arrays |= dict(tile_counter=_tile_counter(x, stream))
        launcher = _launcher(kernel_launch, boxes, device, 'gpu')
        operands = [arrays[name] for name in kernel_launch.arrays]
        launcher(operands, stream)
        record_launch(launcher, operands)
