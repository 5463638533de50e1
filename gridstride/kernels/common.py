"""Functions that all operators share: argument checks, vector widths, and kernel launches."""

import math
import threading
from functools import lru_cache
from typing import NamedTuple

from .ladder.launches import record_launch
from .ladder.rung import make_launcher
from ..cpp.driver import current_stream, make_context_current
from ..utils import backend

MAX_LOAD_BYTES = 16  # the largest load of one thread in one instruction


class Explanation(NamedTuple):
    "The kernels that compute a result, or () if torch does, and the reason"

    kernels: tuple
    reason: str


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
    dtypes,  # names of the dtypes that the operator supports
    name='x',  # name of `x` in messages
    any_strides=False,  # accept a tensor that is not contiguous
):
    "Raise `TypeError` or `ValueError` unless `x` is a contiguous tensor of one of `dtypes` on the kernels' device"
    if not hasattr(x, 'data_ptr'):
        raise TypeError(
            f'{op_name}: {name} is a {type(x).__name__}; expected a torch tensor: create one with torch.tensor(...)'
        )
    if dtype_name(x) not in dtypes:
        raise TypeError(
            f'{op_name}: {name} is {dtype_name(x)}; expected one of {", ".join(dtypes)}: convert it with .to(...)'
        )
    if import_torch().compiler.is_compiling():
        return  # `backend` cannot be traced; the operator checks its operands when it runs
    device_type = 'cuda' if backend() == 'gpu' else 'cpu'
    if x.device.type != device_type:
        raise ValueError(
            f'{op_name}: {name} is on {x.device}, but kernels run on {device_type} here: move it with '
            f'.to({device_type!r})'
        )
    if not any_strides and not x.is_contiguous():
        raise ValueError(f'{op_name}: {name} must be contiguous; its strides are {x.stride()}: use .contiguous()')


def to_contiguous(x):
    "Return `x`, or a contiguous copy of a tensor with other strides; return anything else unchanged"
    return x.contiguous() if hasattr(x, 'data_ptr') and not x.is_contiguous() else x


def check_matches(
    op_name,  # name of the operator in messages
    name,  # name of `tensor` in messages
    tensor,
    x,  # a tensor that `check_tensor` has accepted
    shape,  # the shape that `tensor` must have
):
    "Raise `TypeError` or `ValueError` unless `tensor` has the shape `shape`, and the dtype and device of `x`"
    check_tensor(op_name, tensor, [dtype_name(x)], name)
    if tensor.shape != shape:
        raise ValueError(f'{op_name}: {name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}')
    if tensor.device != x.device:
        raise ValueError(
            f'{op_name}: {name} is on {tensor.device} and x on {x.device}: move it with .to({str(x.device)!r})'
        )


# With gradients, a call with operands up to this size takes as long as its Python code, and torch's overhead is lower;
# measured by benchmarks/every_shape.py, where Python took 80 to 280 microseconds per call
_MAX_HOST_BOUND_BYTES = 2**26


def is_host_bound(x, dtypes, max_bytes=_MAX_HOST_BOUND_BYTES) -> bool:
    "Return whether Python overhead limits an operator and its gradient, for `x` of one of `dtypes` on a GPU"
    return getattr(x, 'is_cuda', False) and 0 < x.nbytes <= max_bytes and dtype_name(x) in dtypes


def reject_gradient(op_name, x):
    "Raise `ValueError` if `x` requires a gradient, which an operator without a backward pass cannot compute"
    if getattr(x, 'requires_grad', False) and import_torch().is_grad_enabled():
        raise ValueError(f'{op_name}: x requires a gradient, but this operator has no backward pass: use x.detach()')


def vector_width(address, element_bytes, rows, width) -> int:
    """Compute how many elements a thread may load in one instruction, given the alignment of the array and its rows.

    >>> [vector_width(0, 4, rows=2, width=100), vector_width(0, 4, rows=2, width=102)]
    [4, 2]
    >>> vector_width(4, 4, rows=1, width=100)
    1"""
    elements = MAX_LOAD_BYTES // element_bytes
    while elements > 1 and (address % (elements * element_bytes) or rows > 1 and width % elements):
        elements //= 2
    return elements


def tensor_vector_width(x, rows, width) -> int:
    "Compute how many elements of a tensor a thread may load in one instruction"
    return vector_width(x.data_ptr(), x.element_size(), rows, width)


def pow2_clamp(value, low, high) -> int:
    """Return the largest power of two up to `value`, clamped to [low, high].

    >>> [pow2_clamp(n, 32, 1024) for n in (3, 100, 5000)]
    [32, 64, 1024]"""
    return min(high, max(low, 2 ** int(math.log2(max(1, value)))))


_thread_state = threading.local()


def make_context_current_once():
    """Make the GPU's context current, once per thread. Otherwise a launch fails in a thread that has not used the GPU
    yet, such as autograd's threads"""
    if not hasattr(_thread_state, 'has_context'):
        make_context_current()
        _thread_state.has_context = True


@lru_cache(4096)
def _launcher(kernel_launch, device, backend):
    "Return the `Launcher` of a `KernelLaunch` on a device"
    return make_launcher(kernel_launch, backend)


def launch(kernel_launches, x, **arrays):
    """Launch kernels on the device of `x`, on its current stream.

    `arrays`: name of an array in the launches -> tensor, or None for an array that these launches do not have"""
    torch, tensors = import_torch(), dict(arrays, x=x)
    if not x.is_cuda:
        for kernel_launch in kernel_launches:
            _launch_one(kernel_launch, tensors, None, 'sim', None)
        return
    device = x.get_device()
    with torch.cuda.device(device):
        make_context_current_once()
        stream = current_stream(device)
        for kernel_launch in kernel_launches:
            _launch_one(kernel_launch, tensors, device, 'gpu', stream)


def _launch_one(kernel_launch, tensors, device, backend, stream):
    "Launch a kernel on the tensors that its launch names"
    launcher, operands = _launcher(kernel_launch, device, backend), [tensors[name] for name in kernel_launch.arrays]
    launcher(operands if stream is None else [operand.data_ptr() for operand in operands], stream)
    record_launch(launcher, operands)
