"""What all operators share: checks of their operands, and the launch of their `KernelLaunch`s."""

import math
import threading
from functools import lru_cache

from .ladder.rung import make_launcher
from ..cpp.driver import current_stream, make_context_current
from ..utils import backend

LOAD = 16  # bytes, the most that a thread loads at once


@lru_cache
def the_torch():
    "torch, imported when it is first needed"
    import torch

    return torch


# What is given
def type_of(x) -> str:
    "The name of a tensor's dtype: 'float32'"
    return str(x.dtype).removeprefix('torch.')


def check_tensor(
    tool,
    x,
    types,  # that it may have
    name='x',  # of `x` in messages
):
    "Raise unless `x` is a tensor that a kernel can read: of these types, on a device where kernels run, contiguous"
    if not hasattr(x, 'data_ptr'):
        raise TypeError(
            f'{tool}: {name} is a {type(x).__name__}, and a torch tensor is needed; torch.tensor(...) makes one'
        )
    if type_of(x) not in types:
        raise TypeError(f'{tool}: {name} is {type_of(x)}, and it may be {", ".join(types)}; convert it with .to(...)')
    where = 'cuda' if backend() == 'gpu' else 'cpu'
    if x.device.type != where:
        raise ValueError(
            f'{tool}: {name} is on {x.device}, and kernels run on {where} here; move it with .to({where!r})'
        )
    if not x.is_contiguous():
        raise ValueError(
            f'{tool}: {name} is not contiguous (its strides are {x.stride()}), and the kernel needs row-major memory; '
            'use .contiguous()'
        )


def check_fits(
    tool,
    name,
    y,
    x,  # a tensor that was checked
    shape,  # that `y` has to have
):
    "Raise unless `y` is a tensor of that shape, and of the type and on the device of `x`"
    check_tensor(tool, y, [type_of(x)], name)
    if y.shape != shape:
        raise ValueError(f'{tool}: {name} has the shape {tuple(y.shape)}, and {tuple(shape)} is needed')
    if y.device != x.device:
        raise ValueError(f'{tool}: {name} is on {y.device} and x on {x.device}; move it with .to({str(x.device)!r})')


def refuse_gradient(tool, x):
    "Raise if the result would need a gradient, for an operator without one"
    if x.requires_grad and the_torch().is_grad_enabled():
        raise ValueError(f'{tool}: x needs a gradient, and there is none for this kernel; use x.detach()')


def vector(address, size, rows, width) -> int:
    "Compute how many elements of `size` bytes a thread may load at once, by the alignment of the address and of rows"
    v = LOAD // size
    while v > 1 and (address % (v * size) or rows > 1 and width % v):
        v //= 2
    return v


def vector_of(x, rows, width) -> int:
    "Compute how many elements of a tensor a thread may load at once"
    return vector(x.data_ptr(), x.element_size(), rows, width)


def pow2_clamp(n, least, most) -> int:
    "The largest power of two up to `n`, clamped to [least, most]"
    return min(most, max(least, 2 ** int(math.log2(max(1, n)))))


_thread = threading.local()


def enter_thread():
    """Make the GPU's context current in a thread where nothing may have run on it yet, as in autograd's own: a launch
    would first fail there"""
    if not hasattr(_thread, 'entered'):
        make_context_current()
        _thread.entered = True


@lru_cache(4096)
def _launcher(call, device, backend):
    "The `Launcher` of a call on a device"
    return make_launcher(call, backend)


def launch(calls, x, **arrays):
    "Launch the calls on the device of `x`, on the current stream; `arrays`: name in the calls -> tensor or None"
    torch = the_torch()
    if not x.is_cuda:
        for c in calls:
            _launcher(c, None, 'sim')([dict(arrays, x=x)[array] for array in c.arrays])
        return
    at = {name: t.data_ptr() for name, t in dict(arrays, x=x).items() if t is not None}
    device = x.get_device()
    with torch.cuda.device(device):
        enter_thread()
        stream = current_stream(device)
        for c in calls:
            _launcher(c, device, 'gpu')([at[array] for array in c.arrays], stream)
