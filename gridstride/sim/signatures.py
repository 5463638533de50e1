"""A kernel's declared argument types, `@cuda.jit('void(float32[:], int32)')`, and how arguments are converted to them.

Numba converts numbers. It compares the types of arrays only if there is a list of signatures to choose from: with a
single signature it reinterprets the bytes of a float64 array as float32, and treats any strides as contiguous under
`::1`. Here arrays must have the declared type and layout in both cases. An array that is contiguous in both C and
Fortran order, such as a single row, fits either layout.
"""

from typing import NamedTuple

import numpy as np

from ..diagnostics.launch_config import argument_error
from . import types
from .arithmetic import cast
from .types import is_number_type

_NUMBERS = {str(np.dtype(k)) for k in vars(types).values() if is_number_type(k)}
_PYTHON_TYPES = {int: 'int64'}  # NumPy's default integer has 32 bits on 32-bit machines
_KIND_ORDER = 'biufc'  # kinds of numbers: one converts to later kinds, and integers to each other


class _Type(NamedTuple):
    "The type of a parameter or an argument; `ndim` is None for a number"

    dtype: str
    ndim: object
    layout: str = 'A'  # 'C', 'F', or 'A' for any

    def __repr__(self):
        return str(self)

    def __str__(self):
        if self.ndim is None:
            return self.dtype
        axes = [':'] * self.ndim
        if self.layout != 'A':
            axes[-1 if self.layout == 'C' else 0] = '::1'
        return f'{self.dtype}[{", ".join(axes)}]'


def declared(
    signatures,  # what `jit` is given: one, or a list of them
) -> list:  # of tuples of types; empty without signatures, and for types that are not known here
    "Return the parameter types that a kernel declares, one tuple per signature"
    types_per_signature = [
        _types(signature) for signature in (signatures if isinstance(signatures, list) else [signatures])
    ]
    return [] if None in types_per_signature else types_per_signature


def _types(signature):
    if isinstance(signature, str):
        try:
            signature = eval(signature, dict(vars(types)))  # as Numba reads it
        except (NameError, TypeError, AttributeError, SyntaxError):
            return None
    args = getattr(signature, 'args', signature)
    return tuple(map(_read_type, args)) if isinstance(args, tuple) else None


def _read_type(declared_type):
    "Convert a type of this package, NumPy or Numba to a `_Type`; None if it is not a type of numbers or arrays"
    if is_number_type(declared_type) or str(declared_type) in _NUMBERS:
        return _Type(str(np.dtype(declared_type if isinstance(declared_type, type) else str(declared_type))), None)
    dtype = str(getattr(declared_type, 'dtype', None))
    return (
        _Type(dtype, declared_type.ndim, getattr(declared_type, 'layout', 'A'))
        if dtype in _NUMBERS and hasattr(declared_type, 'ndim')
        else None
    )


def _type_of(value):
    "Return the `_Type` of an argument; None if it is neither an array nor a number"
    if isinstance(value, (int, float, complex, np.generic)):
        return _Type(_PYTHON_TYPES.get(type(value)) or str(np.asarray(value).dtype), None)
    if hasattr(value, 'dtype') and len(getattr(value, 'shape', ())):
        layout = next((order for order in 'CF' if _has_layout(value, order)), 'A')
        return _Type(str(value.dtype).removeprefix('torch.'), len(value.shape), layout)


def _key(value):
    "Return a key for the type of an argument: quick to compute, and equal for equal types"
    flags = getattr(value, 'flags', None)
    if flags is None:
        return (
            (type(value), *map(_key, value))
            if isinstance(value, tuple)
            else (type(value), getattr(value, 'dtype', None))
        )
    return type(value), value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous


def record_types(
    launched_types,  # {key: types}
    args,  # of a launch
):
    "Add the argument types of a launch to `launched_types`, unless they are there"
    key = tuple(map(_key, args))
    if key not in launched_types:
        launched_types[key] = tuple(map(_types_of, args))


def _types_of(value):
    return tuple(map(_types_of, value)) if isinstance(value, tuple) else _type_of(value)


def _has_layout(array, layout):
    "Return whether an array is contiguous in the order 'C' or 'F'; True if its strides are unknown"
    if isinstance(strides := getattr(array, 'stride', None) or getattr(array, 'strides', None), tuple):
        strides = [stride // array.dtype.itemsize for stride in strides]
    elif callable(strides):  # torch's
        strides = strides()
    else:
        return True
    axes = [(size, stride) for size, stride in zip(array.shape, strides) if size != 1]
    step = 1
    for size, stride in axes[::-1] if layout == 'C' else axes:
        if stride != step:
            return 0 in array.shape
        step *= size
    return True


def _fits(declared_type, value):
    given_type = _type_of(value)
    if declared_type is None or given_type is None:
        return True
    if declared_type.ndim is not None or given_type.ndim is not None:
        return declared_type[:2] == given_type[:2] and (
            declared_type.layout == 'A' or _has_layout(value, declared_type.layout)
        )
    kind, wanted = np.dtype(given_type.dtype).kind, np.dtype(declared_type.dtype).kind
    return kind == wanted or kind not in _KIND_ORDER or _KIND_ORDER.index(kind) <= max(_KIND_ORDER.index(wanted), 2)


def convert_to_declared(
    kernel,  # its name
    params,  # names of its parameters
    signatures,  # as `declared` reads them
    args,  # what is given
) -> list:
    "Convert numbers to the declared types if one signature fits the arguments; raises `WrongArgument` if none does"
    fitting = [signature for signature in signatures if all(map(_fits, signature, args))]
    if signatures and not fitting:
        raise _signature_error(kernel, params, signatures, args)
    if len(fitting) != 1:
        return list(args)  # Numba chooses among several by the types of the numbers
    return [_convert(declared_type, value) for declared_type, value in zip(fitting[0], args)] + list(
        args[len(fitting[0]) :]
    )


def _convert(declared_type, value):
    given_type = _type_of(value)
    is_number = (
        declared_type is not None and declared_type.ndim is None and given_type is not None and given_type.ndim is None
    )
    return cast(declared_type.dtype, value) if is_number and given_type.dtype in _NUMBERS else value


def _signature_error(kernel, params, signatures, args):
    "Make the `WrongArgument` for the first argument that the closest signature does not take"
    first_mismatch = [
        next(
            position
            for position, (declared_type, value) in enumerate(zip(signature, args))
            if not _fits(declared_type, value)
        )
        for signature in signatures
    ]
    position = max(first_mismatch)
    expected = ' or '.join(
        dict.fromkeys(
            str(signature[position]) for signature, index in zip(signatures, first_mismatch) if index == position
        )
    )
    given_type = _type_of(args[position])
    if not any('::1' in str(signature[position]) for signature in signatures):
        given_type = given_type._replace(layout='A')
    layout = next(
        (
            signature[position].layout
            for signature in signatures
            if signature[position] and signature[position][:2] == given_type[:2]
        ),
        'A',
    )
    copy = dict(A='a value of that type', C='a copy, np.ascontiguousarray', F='a copy, np.asfortranarray')[layout]
    what = f'is declared as {expected}, but {given_type} was given\n  Pass {copy}, or declare {given_type}.'
    return argument_error(kernel, position, params[position], what)
