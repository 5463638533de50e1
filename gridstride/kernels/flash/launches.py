"""Launch kernels whose first arguments are TMA tensor maps, and whose persistent blocks take tiles from a counter."""

from functools import lru_cache

import torch

from ..ladder import launches, rung
from ..common import make_context_current_once
from ...cpp.driver import current_stream


@lru_cache(1024)
def _launcher(call, boxes, device, backend):  # `device` is only a part of the cache key
    "Return the launcher of a call, compiled once per source"
    mapped = [(i, box, 128) for i, box in enumerate(boxes)]
    return launches.MappedLauncher(
        rung.compile_kernel(call.src, call.name, backend), mapped, len(call.arrays), *call[3:]
    )


@lru_cache(256)
def _cached_tile_counter(device, stream):
    "Return the tile counter of a stream, which launches on that stream share"
    return torch.zeros(1, dtype=torch.uint32, device=device)


def _tile_counter(x, stream):
    "Return a counter that is 0 between launches on a stream; a CUDA graph, which may run on any stream, gets its own"
    if not x.is_cuda or torch.cuda.is_current_stream_capturing():
        return torch.zeros(1, dtype=torch.int32, device=x.device).view(torch.uint32)
    return _cached_tile_counter(x.device, stream)


def launch_mapped(call, boxes, x, **arrays):
    "Launch on the device of `x`, on its current stream; `arrays`: name of an array in `call` -> tensor"
    if not x.is_cuda:
        if 'taken' in call.arrays:
            arrays |= dict(taken=_tile_counter(x, None))
        return _launcher(call, boxes, None, 'sim')([arrays[name] for name in call.arrays])
    device = x.get_device()
    with torch.cuda.device(device):
        make_context_current_once()
        stream = current_stream(device)
        if 'taken' in call.arrays:
            arrays |= dict(taken=_tile_counter(x, stream))
        _launcher(call, boxes, device, 'gpu')([arrays[name] for name in call.arrays], stream)
