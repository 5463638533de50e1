"""A kernel's declared argument types, `@cuda.jit('void(float32[:], int32)')`, and how arguments are converted to them.

Numba converts numbers, and compares arrays only if a list of signatures leaves a choice: under a single one it reads
the bytes of a float64 array as float32, and under `::1` contiguous memory, whatever the strides. Here arrays are
compared under both. One that is contiguous in both C and Fortran order, such as a single row, fits both.
"""

from typing import NamedTuple

import numpy as np

from ..diagnostics.launch_config import argument_error
from . import types
from .arithmetic import cast
from .types import is_number_type

_NUMBERS = {str(np.dtype(k)) for k in vars(types).values() if is_number_type(k)}
_OF_PYTHON = {int: 'int64'}  # NumPy's own integer has 32 bits on 32-bit machines
_ORDER = 'biufc'  # kinds of numbers: one converts to later kinds, and integers to each other


class _Type(NamedTuple):
    "A declared or given type; its ndim is None for a number"

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
) -> list:  # of tuples of types; empty for none, and for what is beyond this reader
    "Return the argument types that a kernel declares"
    found = [_types(s) for s in (signatures if isinstance(signatures, list) else [signatures])]
    return [] if None in found else found


def _types(signature):
    if isinstance(signature, str):
        try:
            signature = eval(signature, dict(vars(types)))  # as Numba reads it
        except (NameError, TypeError, AttributeError, SyntaxError):
            return None
    args = getattr(signature, 'args', signature)
    return tuple(map(_read, args)) if isinstance(args, tuple) else None


def _read(t):
    "Convert one of our types, NumPy's or Numba's, to a `_Type`; returns None if it is not a type of numbers or arrays"
    if is_number_type(t) or str(t) in _NUMBERS:
        return _Type(str(np.dtype(t if isinstance(t, type) else str(t))), None)
    dtype = str(getattr(t, 'dtype', None))
    return _Type(dtype, t.ndim, getattr(t, 'layout', 'A')) if dtype in _NUMBERS and hasattr(t, 'ndim') else None


def _type_of(v):
    "Return the `_Type` of an argument; None if it is neither an array nor a number"
    if isinstance(v, (int, float, complex, np.generic)):
        return _Type(_OF_PYTHON.get(type(v)) or str(np.asarray(v).dtype), None)
    if hasattr(v, 'dtype') and len(getattr(v, 'shape', ())):
        layout = next((order for order in 'CF' if _has_layout(v, order)), 'A')
        return _Type(str(v.dtype).removeprefix('torch.'), len(v.shape), layout)


def _key(v):
    "Return a quick key for the type of an argument"
    flags = getattr(v, 'flags', None)
    if flags is None:
        return (type(v), *map(_key, v)) if isinstance(v, tuple) else (type(v), getattr(v, 'dtype', None))
    return type(v), v.dtype, v.ndim, flags.c_contiguous, flags.f_contiguous


def note_types(
    known,  # {key: types}
    args,  # of a launch
):
    "Add the argument types of a launch to `known`, unless they are there"
    key = tuple(map(_key, args))
    if key not in known:
        known[key] = tuple(map(_types_of, args))


def _types_of(v):
    return tuple(map(_types_of, v)) if isinstance(v, tuple) else _type_of(v)


def _has_layout(v, layout):
    "Return whether an array is contiguous in the order of C or of Fortran; True if that is unknown"
    if isinstance(strides := getattr(v, 'stride', None) or getattr(v, 'strides', None), tuple):
        strides = [stride // v.dtype.itemsize for stride in strides]
    elif callable(strides):  # torch's
        strides = strides()
    else:
        return True
    axes = [(n, s) for n, s in zip(v.shape, strides) if n != 1]
    step = 1
    for n, s in axes[::-1] if layout == 'C' else axes:
        if s != step:
            return 0 in v.shape
        step *= n
    return True


def _fits(t, v):
    given = _type_of(v)
    if t is None or given is None:
        return True
    if t.ndim is not None or given.ndim is not None:
        return t[:2] == given[:2] and (t.layout == 'A' or _has_layout(v, t.layout))
    kind, wanted = np.dtype(given.dtype).kind, np.dtype(t.dtype).kind
    return kind == wanted or kind not in _ORDER or _ORDER.index(kind) <= max(_ORDER.index(wanted), 2)


def convert_to_declared(
    kernel,  # its name
    params,  # names of its parameters
    signatures,  # as `declared` reads them
    args,  # what is given
) -> list:
    "Convert numbers as the one signature that fits the arguments declares; raises `WrongArgument` if none fits"
    fitting = [s for s in signatures if all(map(_fits, s, args))]
    if signatures and not fitting:
        raise _signature_error(kernel, params, signatures, args)
    if len(fitting) != 1:
        return list(args)  # Numba chooses one by the types that the numbers have
    return [_convert(t, v) for t, v in zip(fitting[0], args)] + list(args[len(fitting[0]) :])


def _convert(t, v):
    given = _type_of(v)
    is_number = t is not None and t.ndim is None and given is not None and given.ndim is None
    return cast(t.dtype, v) if is_number and given.dtype in _NUMBERS else v


def _signature_error(kernel, params, signatures, args):
    "Make the `WrongArgument` for the first argument that the closest signature does not take"
    first = [next(i for i, (t, v) in enumerate(zip(s, args)) if not _fits(t, v)) for s in signatures]
    i = max(first)
    wanted = ' or '.join(dict.fromkeys(str(s[i]) for s, k in zip(signatures, first) if k == i))
    given = _type_of(args[i])
    if not any('::1' in str(s[i]) for s in signatures):
        given = given._replace(layout='A')
    layout = next((s[i].layout for s in signatures if s[i] and s[i][:2] == given[:2]), 'A')
    copy = dict(A='what is declared', C='a copy, np.ascontiguousarray', F='a copy, np.asfortranarray')[layout]
    what = f'is declared as {wanted}, but {given} was given\n  Give {copy}, or declare {given}.'
    return argument_error(kernel, i, params[i], what)
