"""Converts the arguments of a launch: arrays and tensors become views of their memory, numbers become Numba's types."""

from functools import partial

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..diagnostics.launch_config import argument_error
from ..support.array_memory import whole_storage
from .arithmetic import as_numba
from .constants import fits
from .memory import wrap
from .records import wrap_array

__all__ = ['arguments']


def _tensor(v, name, known):
    "Make a `View` of a torch tensor; all of its storage is known, whatever part of it the tensor is"
    if str(v.device) != 'cpu':
        raise NotSimulated(f'{name} is on {v.device}; the simulator takes CPU tensors', f'Give it {name}.cpu().')
    if str(v.layout) != 'torch.strided':
        raise NotSimulated(f'{name} is sparse, not strided', f'Give the kernel {name}.to_dense().')
    v = v.detach()
    try:
        return wrap(v.numpy(), name, known, whole_storage(v).numpy())
    except TypeError:
        hint = f'Give the kernel a copy, {name}.float(), or write it in CUDA C.'
        raise NotSimulated(f'{name}: NumPy has no {v.dtype}', hint) from None


def _argument(
    v,
    name,  # what messages call it
    known,  # memory that was wrapped already -> its `Mem`
    wrong,  # makes the `TypeError` for a value that no kernel can take
):
    "Convert one argument to what the kernel accesses"
    if hasattr(v, 'device_view'):
        return v.device_view(name, known)
    if hasattr(v, 'detach'):
        return _tensor(v, name, known)
    if isinstance(v, np.ma.MaskedArray):
        raise wrong(f'is a masked array, which kernels do not support; pass {name}.filled(...), and the mask')
    if isinstance(v, np.ndarray):
        return wrap_array(v, name, known)
    if isinstance(v, np.void):
        raise wrong('is a single record; pass an array of one, such as a[i:i+1]')
    if isinstance(v, tuple):
        found = [_argument(item, f'{name}[{i}]', known, wrong) for i, item in enumerate(v)]
        return v._make(found) if hasattr(v, '_make') else tuple(found)
    if isinstance(v, int) and not fits(v):
        raise wrong(f'is {v}, which needs more than 64 bits; give a float')
    if isinstance(v, (bool, int, float, complex, np.generic)):
        return as_numba(v)
    hint = '; create one with torch.tensor(...) or np.array(...)' if isinstance(v, list) else ''
    raise wrong(f'must be a tensor, an array, a number or a tuple of these, but a {type(v).__name__} was given{hint}')


def arguments(
    kernel,  # its name
    params,  # names of its parameters
    values,  # what it is called with
):
    "Convert the arguments of a launch; raises `TypeError` that names the one that no kernel can take"
    known = {}
    return [
        _argument(v, k, known, partial(argument_error, kernel, i, k)) for i, (k, v) in enumerate(zip(params, values))
    ]
