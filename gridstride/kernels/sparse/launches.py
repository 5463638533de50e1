"""Launch kernels whose first arguments are TMA tensor maps. Launches are prepared once per size and device."""

from functools import lru_cache

import torch

from ..ladder import launches, rung
from ..common import make_context_current_once
from ...cpp.driver import current_stream
from ...utils import backend


@lru_cache(1024)
def _launcher(call, boxes, device, backend):  # `device` is only a part of the cache key
    "Return the launcher of a call, compiled once per source"
    mapped = [(i, box, swizzle) for i, (box, swizzle) in enumerate(boxes)]
    return launches.MappedLauncher(
        rung.compile_kernel(call.src, call.name, backend), mapped, len(call.arrays), *call[3:]
    )


def prepare_launch(
    call,  # a `KernelLaunch`
    boxes,  # (box, swizzle) of each of the first arrays, which the kernel takes as tensor maps
    device,  # index of the GPU; None: the emulator
):
    "Return the launcher of a call: a function of a list of tensors and, on a GPU, of a stream handle"
    return _launcher(call, boxes, device, 'sim' if device is None else 'gpu')


def launch_prepared(
    prepare,  # a cached function of (*key, device, backend) that returns a launcher
    key,  # the first arguments of `prepare`
    x,  # a tensor on the device of the launch
    arrays,  # array arguments of the kernel
):
    "Launch on the device of `x`, on its current stream; the launcher is prepared once per key and device"
    if not x.is_cuda:
        return prepare(*key, None, backend())(arrays)
    device = x.get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch_prepared(prepare, key, x, arrays)
    make_context_current_once()
    prepare(*key, device, 'gpu')(arrays, current_stream(device))
