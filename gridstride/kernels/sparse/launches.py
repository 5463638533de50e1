"""Launch kernels whose first arguments are TMA tensor maps. Launches are prepared once per size and device."""

from functools import lru_cache

import torch

from ..ladder import launches, rung
from ..common import make_context_current_once
from ..ladder.launches import record_launch
from ...cpp.driver import current_stream
from ...utils import backend


@lru_cache(1024)
def _launcher(kernel_launch, boxes, device, backend):  # `device` is only part of the cache key
    "Return the launcher of a `KernelLaunch`; each source is compiled once"
    kernel = rung.compile_kernel(kernel_launch.src, kernel_launch.name, backend)
    mapped_args = [(i, box, swizzle) for i, (box, swizzle) in enumerate(boxes)]
    # kernel_launch[3:]: scalars, grid, block, shared and the options of the launch
    return launches.MappedLauncher(kernel, mapped_args, len(kernel_launch.arrays), *kernel_launch[3:])


def prepare_launch(
    kernel_launch,  # a `KernelLaunch`
    boxes,  # (box, swizzle) of each of the first arrays, which the kernel takes as tensor maps
    device,  # index of the GPU; None: the emulator
):
    "Return a launcher: a function of a list of tensors and, on a GPU, of a stream handle"
    return _launcher(kernel_launch, boxes, device, 'sim' if device is None else 'gpu')


def launch_prepared(
    prepare,  # a cached function of (*key, device, backend) that returns a launcher
    key,  # the first arguments of `prepare`
    x,  # a tensor on the device of the launch
    arrays,  # array arguments of the kernel
):
    "Launch a kernel on the device of `x` and its current stream; the launcher is prepared once per key and device"
    if not x.is_cuda:
        return prepare(*key, None, backend())(arrays)
    device = x.get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch_prepared(prepare, key, x, arrays)
    make_context_current_once()
    launcher = prepare(*key, device, 'gpu')
    launcher(arrays, current_stream(device))
    record_launch(launcher, arrays)
