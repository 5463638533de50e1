"""Launches of kernels some of whose arrays are described by tensor maps: what launches is looked up once for sizes."""

from functools import lru_cache

import torch

from ..ladder import launches, rung
from ..tool import enter_thread
from ...cpp.driver import current_stream
from ...utils import backend


@lru_cache(1024)
def _launcher(call, boxes, device, backend):
    mapped = [(i, box, swizzle) for i, (box, swizzle) in enumerate(boxes)]
    return launches.Mapped(rung.compiled(call.src, call.name, backend), mapped, len(call.arrays), *call[3:])


def ready(
    call,  # a `KernelLaunch`
    boxes,  # ((box, swizzle), ...) of its first arrays, which the kernel takes as tensor maps
    device,  # its number; None: the emulator
):
    "What launches a call: a function of its arrays, as tensors, and of the number of a stream"
    return _launcher(call, boxes, device, 'sim' if device is None else 'gpu')


def launch_on(
    look_up,  # what finds, or makes, what launches: a function of `sizes`, a device and a backend
    sizes,
    x,  # a tensor where it is launched, on the current stream
    arrays,
):
    "Launch what `look_up` has for these sizes"
    if not x.is_cuda:
        return look_up(*sizes, None, backend())(arrays)
    device = x.get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch_on(look_up, sizes, x, arrays)
    enter_thread()
    look_up(*sizes, device, 'gpu')(arrays, current_stream(device))
