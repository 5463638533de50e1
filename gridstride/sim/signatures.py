"""Reads the declared types of a kernel, `@cuda.jit('void(float32[:], int32)')`, and converts arguments to them.

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

_NUMBER_TYPES = {str(np.dtype(k)) for k in vars(types).values() if is_number_type(k)}
_TYPE_OF_PYTHON_NUMBER = {int: 'int64'}  # NumPy's default integer has 32 bits on 32-bit machines
_KIND_ORDER = 'biufc'  # kinds of numbers: each converts to later kinds; signed and unsigned integers to each other


class _Type(NamedTuple):
    "The type of a parameter or an argument; `ndim` is None for a number"

    dtype: str
    ndim: int | None
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


def declared_types(
    signatures,  # the argument of `jit`: one signature, or a list
) -> list:  # of tuples of types; empty without signatures, or if a type is unknown
    "Return the parameter types that a kernel declares, one tuple per signature"
    types_per_signature = [
        _parse_signature(signature) for signature in (signatures if isinstance(signatures, list) else [signatures])
    ]
    return [] if None in types_per_signature else types_per_signature


def _parse_signature(signature):
    "Return the `_Type`s of the parameters; None if the signature cannot be read"
    if isinstance(signature, str):
        try:
            signature = eval(signature, dict(vars(types)))  # as Numba reads it
        except (NameError, TypeError, AttributeError, SyntaxError):
            return None
    args = getattr(signature, 'args', signature)
    return tuple(map(_read_type, args)) if isinstance(args, tuple) else None


def _read_type(declared_type):
    "Convert a type of this package, NumPy or Numba to a `_Type`; None if it is not a type of numbers or arrays"
    if is_number_type(declared_type) or str(declared_type) in _NUMBER_TYPES:
        return _Type(str(np.dtype(declared_type if isinstance(declared_type, type) else str(declared_type))), None)
    dtype = str(getattr(declared_type, 'dtype', None))
    return (
        _Type(dtype, declared_type.ndim, getattr(declared_type, 'layout', 'A'))
        if dtype in _NUMBER_TYPES and hasattr(declared_type, 'ndim')
        else None
    )


def _type_of(value):
    "Return the `_Type` of an argument; None if it is neither an array nor a number"
    if isinstance(value, (int, float, complex, np.generic)):
        return _Type(_TYPE_OF_PYTHON_NUMBER.get(type(value)) or str(np.asarray(value).dtype), None)
    if hasattr(value, 'dtype') and len(getattr(value, 'shape', ())):
        layout = next((order for order in 'CF' if _has_layout(value, order)), 'A')
        return _Type(str(value.dtype).removeprefix('torch.'), len(value.shape), layout)


def _type_key(value):
    "Return a key for the type of an argument; it is quick to compute, and equal types have equal keys"
    flags = getattr(value, 'flags', None)
    if flags is None:
        return (
            (type(value), *map(_type_key, value))
            if isinstance(value, tuple)
            else (type(value), getattr(value, 'dtype', None))
        )
    return type(value), value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous


def record_types(
    types_of_key,  # key of the arguments of a launch -> their types
    args,  # of a launch
):
    "Add the argument types of a launch to `types_of_key`"
    key = tuple(map(_type_key, args))
    if key not in types_of_key:
        types_of_key[key] = tuple(map(_nested_types, args))


def _nested_types(value):
    return tuple(map(_nested_types, value)) if isinstance(value, tuple) else _type_of(value)


def _has_layout(array, layout):
    "Return whether an array is contiguous in the order 'C' or 'F'; True if its strides are unknown"
    if isinstance(strides := getattr(array, 'stride', None) or getattr(array, 'strides', None), tuple):
        strides = [stride // array.dtype.itemsize for stride in strides]
    elif callable(strides):  # of a torch tensor
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
    "Return whether a value may be passed to a parameter of the declared type"
    value_type = _type_of(value)
    if declared_type is None or value_type is None:
        return True
    if declared_type.ndim is not None or value_type.ndim is not None:
        return declared_type[:2] == value_type[:2] and (
            declared_type.layout == 'A' or _has_layout(value, declared_type.layout)
        )
    kind, declared_kind = np.dtype(value_type.dtype).kind, np.dtype(declared_type.dtype).kind
    if kind == declared_kind or kind not in _KIND_ORDER:
        return True
    return _KIND_ORDER.index(kind) <= max(_KIND_ORDER.index(declared_kind), _KIND_ORDER.index('u'))


def convert_to_declared(
    kernel,  # its name
    params,  # names of its parameters
    signatures,  # from `declared_types`
    args,  # of a launch
) -> list:
    "Convert numbers to the declared types if one signature fits the arguments; raises `WrongArgument` if none does"
    fitting_signatures = [signature for signature in signatures if all(map(_fits, signature, args))]
    if signatures and not fitting_signatures:
        raise _signature_error(kernel, params, signatures, args)
    if len(fitting_signatures) != 1:
        return list(args)  # if several fit, Numba chooses one by the types of the numbers
    return [_convert(declared_type, value) for declared_type, value in zip(fitting_signatures[0], args)] + list(
        args[len(fitting_signatures[0]) :]
    )


def _convert(declared_type, value):
    value_type = _type_of(value)
    is_number = (
        declared_type is not None and declared_type.ndim is None and value_type is not None and value_type.ndim is None
    )
    return cast(declared_type.dtype, value) if is_number and value_type.dtype in _NUMBER_TYPES else value


def _signature_error(kernel, params, signatures, args):
    "Make the `WrongArgument` for the first argument that does not fit the closest signature"
    mismatch_positions = [
        next(
            position
            for position, (declared_type, value) in enumerate(zip(signature, args))
            if not _fits(declared_type, value)
        )
        for signature in signatures
    ]
    position = max(mismatch_positions)
    expected = ' or '.join(
        dict.fromkeys(
            str(signature[position]) for signature, index in zip(signatures, mismatch_positions) if index == position
        )
    )
    value_type = _type_of(args[position])
    if not any('::1' in str(signature[position]) for signature in signatures):
        value_type = value_type._replace(layout='A')
    layout = next(
        (
            signature[position].layout
            for signature in signatures
            if signature[position] and signature[position][:2] == value_type[:2]
        ),
        'A',
    )
    replacement = dict(A='a value of that type', C='a copy, np.ascontiguousarray', F='a copy, np.asfortranarray')[
        layout
    ]
    problem = f'is declared as {expected}, but {value_type} was given\n  Pass {replacement}, or declare {value_type}.'
    return argument_error(kernel, position, params[position], problem)
