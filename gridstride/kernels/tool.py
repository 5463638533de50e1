"""Shared by all operators: check their operands, compute vector widths, and launch kernels."""

import math
import threading
from functools import lru_cache

from .ladder.rung import make_launcher
from ..cpp.driver import current_stream, make_context_current
from ..utils import backend

LOAD = 16  # the most bytes that a thread loads by one instruction


@lru_cache
def the_torch():
    "Return torch, which is imported at the first call"
    import torch

    return torch


# Checks of operands
def type_of(x) -> str:
    "Return the name of a tensor's dtype, such as 'float32'"
    return str(x.dtype).removeprefix('torch.')


def check_tensor(
    tool,  # name of the operator in messages
    x,
    types,  # the dtypes that the operator supports
    name='x',  # of `x` in messages
):
    "Raise `TypeError` or `ValueError` unless `x` is a contiguous tensor of one of these types on the right device"
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
    tool,  # name of the operator in messages
    name,  # of `y` in messages
    y,
    x,  # a tensor that was already checked
    shape,  # the shape that `y` must have
):
    "Raise `TypeError` or `ValueError` unless `y` is a tensor of that shape, of the type and on the device of `x`"
    check_tensor(tool, y, [type_of(x)], name)
    if y.shape != shape:
        raise ValueError(f'{tool}: {name} has the shape {tuple(y.shape)}, and {tuple(shape)} is needed')
    if y.device != x.device:
        raise ValueError(f'{tool}: {name} is on {y.device} and x on {x.device}; move it with .to({str(x.device)!r})')


def refuse_gradient(tool, x):
    "Raise `ValueError` if `x` needs a gradient, for an operator without a backward pass"
    if x.requires_grad and the_torch().is_grad_enabled():
        raise ValueError(f'{tool}: x needs a gradient, and there is none for this kernel; use x.detach()')


def vector(address, size, rows, width) -> int:
    """Compute how many elements of `size` bytes a thread may load at once, from the alignment of address and rows.

    >>> vector(0, 4, rows=2, width=100), vector(0, 4, rows=2, width=102), vector(4, 4, rows=1, width=100)
    (4, 2, 1)"""
    elements = LOAD // size
    while elements > 1 and (address % (elements * size) or rows > 1 and width % elements):
        elements //= 2
    return elements


def vector_of(x, rows, width) -> int:
    "Compute how many elements of a tensor a thread may load at once"
    return vector(x.data_ptr(), x.element_size(), rows, width)


def pow2_clamp(n, low, high) -> int:
    """Return the largest power of two up to `n`, clamped to [low, high].

    >>> [pow2_clamp(n, 32, 1024) for n in (3, 100, 5000)]
    [32, 64, 1024]"""
    return min(high, max(low, 2 ** int(math.log2(max(1, n)))))


_thread = threading.local()


def enter_thread():
    """Make the GPU's context current in a thread that may not have used the GPU yet, such as autograd's: there a launch
    would fail otherwise"""
    if not hasattr(_thread, 'entered'):
        make_context_current()
        _thread.entered = True


@lru_cache(4096)
def _launcher(call, device, backend):
    "Return the `Launcher` of a kernel launch on a device"
    return make_launcher(call, backend)


def launch(calls, x, **arrays):
    "Launch kernels on the device and current stream of `x`; `arrays`: name in the launches -> tensor or None"
    torch = the_torch()
    if not x.is_cuda:
        for c in calls:
            _launcher(c, None, 'sim')([dict(arrays, x=x)[array] for array in c.arrays])
        return
    addresses = {name: t.data_ptr() for name, t in dict(arrays, x=x).items() if t is not None}
    device = x.get_device()
    with torch.cuda.device(device):
        enter_thread()
        stream = current_stream(device)
        for c in calls:
            _launcher(c, device, 'gpu')([addresses[array] for array in c.arrays], stream)
