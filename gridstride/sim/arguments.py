"""Converts the arguments of a launch: arrays and tensors become views of their memory, numbers become Numba's types."""

from functools import partial

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..diagnostics.launch_config import argument_error
from ..support.array_memory import array_from_interface, flat_storage
from .arithmetic import as_numba
from .constants import fits_64_bits
from .memory import make_view
from .records import wrap_array, wrap_record

__all__ = ['convert_arguments']


def _wrap_tensor(tensor, name, memories):
    "Make a `View` of a torch tensor; its memory is the whole storage, which several tensors may share"
    if str(tensor.device) != 'cpu':
        raise NotSimulated(f'{name} is on {tensor.device}; the simulator takes CPU tensors', f'Pass {name}.cpu().')
    if str(tensor.layout) != 'torch.strided':
        raise NotSimulated(f'{name} is sparse, not strided', f'Pass {name}.to_dense().')
    tensor = tensor.detach()
    try:
        return make_view(tensor.numpy(), name, memories, flat_storage(tensor).numpy())
    except TypeError:
        hint = f'Pass a copy, {name}.float(), or write the kernel in CUDA C.'
        raise NotSimulated(f'{name} has the type {tensor.dtype}, which NumPy does not have', hint) from None


def _convert_argument(
    value,
    name,  # of the parameter, for messages
    memories,  # memory key -> `Mem`: the memories of earlier arguments
    make_type_error,  # makes the `TypeError` for an invalid argument from a message
):
    "Convert one argument to a `View`, `Records`, a number of Numba's type, or a tuple of these"
    if hasattr(value, 'device_view'):
        return value.device_view(name, memories)
    if hasattr(value, 'detach'):
        return _wrap_tensor(value, name, memories)
    if isinstance(value, np.ma.MaskedArray):
        raise make_type_error(
            f'is a masked array, which kernels do not support; pass {name}.filled(...), and the mask as another array'
        )
    if isinstance(value, np.ndarray):
        return wrap_array(value, name, memories)
    if hasattr(value, '__cuda_array_interface__'):
        return wrap_array(array_from_interface(value), name, memories)
    if isinstance(value, np.void) and value.dtype.names:
        return wrap_record(value, name, memories)
    if isinstance(value, tuple):
        items = [_convert_argument(item, f'{name}[{i}]', memories, make_type_error) for i, item in enumerate(value)]
        return value._make(items) if hasattr(value, '_make') else tuple(items)
    if isinstance(value, int) and not fits_64_bits(value):
        raise make_type_error(f'is {value}, which needs more than 64 bits; pass a float')
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return as_numba(value)
    hint = '; create one with torch.tensor(...) or np.array(...)' if isinstance(value, list) else ''
    raise make_type_error(
        f'must be a tensor, an array, a number or a tuple of these; got a {type(value).__name__}{hint}'
    )


def convert_arguments(
    kernel,  # its name
    params,  # names of its parameters
    values,  # its arguments
):
    "Convert the arguments of a launch; raises `TypeError`, with the name of the parameter, for an invalid one"
    memories = {}
    return [
        _convert_argument(value, name, memories, partial(argument_error, kernel, position, name))
        for position, (name, value) in enumerate(zip(params, values))
    ]
