"""What all operators share: argument checks, vector widths, and kernel launches."""

import math
import threading
from functools import lru_cache

from .ladder.rung import make_launcher
from ..cpp.driver import current_stream, make_context_current
from ..utils import backend

MAX_LOAD_BYTES = 16  # by one instruction of a thread


@lru_cache
def import_torch():
    "Return the module torch, imported at the first call"
    import torch

    return torch


# Checks of operands
def dtype_name(x) -> str:
    "Return the name of a tensor's dtype, such as 'float32'"
    return str(x.dtype).removeprefix('torch.')


def check_tensor(
    op_name,  # name of the operator in messages
    x,
    types,  # the dtypes that the operator supports
    name='x',  # of `x` in messages
):
    "Raise `TypeError` or `ValueError` unless `x` is a contiguous tensor of one of these types on the right device"
    if not hasattr(x, 'data_ptr'):
        raise TypeError(
            f'{op_name}: {name} is a {type(x).__name__}; expected a torch tensor: torch.tensor(...) makes one'
        )
    if dtype_name(x) not in types:
        raise TypeError(
            f'{op_name}: {name} is {dtype_name(x)}, and it may be {", ".join(types)}; convert it with .to(...)'
        )
    where = 'cuda' if backend() == 'gpu' else 'cpu'
    if x.device.type != where:
        raise ValueError(
            f'{op_name}: {name} is on {x.device}, and kernels run on {where} here; move it with .to({where!r})'
        )
    if not x.is_contiguous():
        raise ValueError(
            f'{op_name}: {name} is not contiguous (its strides are {x.stride()}), and the kernel needs row-major '
            'memory; use .contiguous()'
        )


def check_matches(
    op_name,  # name of the operator in messages
    name,  # of `y` in messages
    y,
    x,  # a tensor that was already checked
    shape,  # the shape that `y` must have
):
    "Raise `TypeError` or `ValueError` unless `y` has that shape, and the dtype and the device of `x`"
    check_tensor(op_name, y, [dtype_name(x)], name)
    if y.shape != shape:
        raise ValueError(f'{op_name}: {name} has shape {tuple(y.shape)}; expected {tuple(shape)}')
    if y.device != x.device:
        raise ValueError(f'{op_name}: {name} is on {y.device} and x on {x.device}; move it with .to({str(x.device)!r})')


def reject_gradient(op_name, x):
    "Raise `ValueError` if `x` requires a gradient; for operators without a backward pass"
    if x.requires_grad and import_torch().is_grad_enabled():
        raise ValueError(f'{op_name}: x needs a gradient, and there is none for this kernel; use x.detach()')


def vector_width(address, element_bytes, rows, width) -> int:
    """Compute how many elements a thread may load by one instruction, from the alignment of the array and its rows.

    >>> [vector_width(0, 4, rows=2, width=100), vector_width(0, 4, rows=2, width=102)]
    [4, 2]
    >>> vector_width(4, 4, rows=1, width=100)
    1"""
    elements = MAX_LOAD_BYTES // element_bytes
    while elements > 1 and (address % (elements * element_bytes) or rows > 1 and width % elements):
        elements //= 2
    return elements


def tensor_vector_width(x, rows, width) -> int:
    "Compute how many elements of a tensor a thread may load by one instruction"
    return vector_width(x.data_ptr(), x.element_size(), rows, width)


def pow2_clamp(n, low, high) -> int:
    """Return the largest power of two up to `n`, clamped to [low, high].

    >>> [pow2_clamp(n, 32, 1024) for n in (3, 100, 5000)]
    [32, 64, 1024]"""
    return min(high, max(low, 2 ** int(math.log2(max(1, n)))))


_thread = threading.local()


def make_context_current_once():
    """Make the GPU's context current in this thread, once: without it a launch would fail in a thread that has not used
    the GPU yet, such as autograd's"""
    if not hasattr(_thread, 'entered'):
        make_context_current()
        _thread.entered = True


@lru_cache(4096)
def _launcher(call, device, backend):
    "Return the `Launcher` of a `KernelLaunch` on a device"
    return make_launcher(call, backend)


def launch(kernel_launches, x, **arrays):
    "Launch kernels on the current stream of the device of `x`; `arrays`: name in the launches -> tensor or None"
    torch = import_torch()
    if not x.is_cuda:
        for c in kernel_launches:
            _launcher(c, None, 'sim')([dict(arrays, x=x)[array] for array in c.arrays])
        return
    addresses = {name: t.data_ptr() for name, t in dict(arrays, x=x).items() if t is not None}
    device = x.get_device()
    with torch.cuda.device(device):
        make_context_current_once()
        stream = current_stream(device)
        for c in kernel_launches:
            _launcher(c, device, 'gpu')([addresses[array] for array in c.arrays], stream)
