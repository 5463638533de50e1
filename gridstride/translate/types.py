"""The types of a kernel's values: the promotion rules of NumPy and Numba, the types of arguments, and their C names."""

import re
from collections import namedtuple

import numpy as np

from ..cpp.values import between_commas
from .source import Untranslatable

# A value keeps the type of the array that it comes from until something is computed with it: integers
# are computed with in 64 bits, unsigned if both operands are, as in Numba. `WEAK` is a Python float that
# takes the precision of the other operand: with a float32 it is a float32.
BOOL, INT, UINT, HALF, FLOAT, DOUBLE, WEAK = 'bool', 'int64', 'uint64', 'float16', 'float32', 'float64', 'weak'
INTEGERS, REAL = {BOOL, INT, UINT, 'int8', 'int16', 'int32', 'uint8', 'uint16', 'uint32'}, {HALF, FLOAT, DOUBLE, WEAK}

C_NAMES = {
    'bool': 'bool',
    'int8': 'signed char',
    'uint8': 'unsigned char',
    'int16': 'short',
    'uint16': 'unsigned short',
    'int32': 'int',
    'uint32': 'unsigned int',
    'int64': 'long long',
    'uint64': 'unsigned long long',
    'float16': '__half',
    'bfloat16': '__nv_bfloat16',
    'float32': 'float',
    'float64': 'double',
}


def value_type(dtype: str) -> str:  # of an element of `dtype` once it is loaded
    "Return the type of an element once it is loaded"
    return FLOAT if dtype == 'bfloat16' else dtype


def is_unsigned(t):
    "Return whether `t` is an unsigned integer type"
    return t[:4] == 'uint'


def is_int(t):
    "Return whether `t` is an integer type other than bool"
    return t in INTEGERS and t != BOOL


def wide_type(t):
    "Return the type in which integers of type `t` are computed"
    return UINT if is_unsigned(t) else INT


class Array(namedtuple('Array', 'dtype ndim')):
    "The type of an array"

    def __str__(self):
        return f'{self.dtype} array of {self.ndim} dimension{"s" * (self.ndim != 1)}'


def is_number(t):
    "Return whether `t` is the type of a number, not of an array or a tuple"
    return isinstance(t, str)


def describe(t):
    "Describe a type, for a message: 'a float32'"
    if t == WEAK:
        return 'a Python float'
    if isinstance(t, tuple) and not isinstance(t, Array):
        return f'a tuple of {len(t)}'
    return f'{"an" if str(t)[0] in "aiu" else "a"} {t}'


# `join_types` returns the type of a variable that holds values of both types, `arithmetic_type` that of arithmetic with
# both. With `doubles` both are NumPy's and Numba's promotion; without it, integers and
# Python floats with a float32 are float32.
_RANK = {WEAK: 2, HALF: 3, FLOAT: 4, DOUBLE: 5}  # integers come before


def join_types(a, b, doubles):
    "Return the common type of a variable that has values of both types; None if there is none"
    if a is None or b is None or a == b:
        return b if a is None else a
    if not (is_number(a) and is_number(b)):
        if isinstance(a, Array) or isinstance(b, Array) or is_number(a) or is_number(b) or len(a) != len(b):
            return None
        parts = tuple(join_types(x, y, doubles) for x, y in zip(a, b))
        return None if None in parts else parts
    if doubles or a in INTEGERS and b in INTEGERS:
        return str(np.promote_types(a, b))
    low, high = sorted((a, b), key=lambda t: _RANK.get(t, 0))
    return FLOAT if high == HALF and low != BOOL else high


def arithmetic_type(a, b, doubles):
    "Return the type of `a+b` and the like"
    if a in INTEGERS and b in INTEGERS:
        return UINT if is_unsigned(a) and is_unsigned(b) else INT
    return join_types(a, b, doubles)


# The description of an argument: a number with its C type, an array with its layout, or a tuple of
# these. `strides` says per dimension whether the kernel gets its stride; `backwards` says that one of them is
# negative, so that the first element is not at the lowest address.
# type: of the value; dtype: of the parameter, 'int' for a Python int, 'weak' for a Python float; least: 0 or 1 if the
# example is at least that
Number = namedtuple('Number', 'type dtype least', defaults=(None,))
# strides: one bool per dimension, all False where contiguous
ArrayOf = namedtuple('ArrayOf', 'dtype ndim strides backwards')

_PYTHON_SCALARS = {bool: Number(BOOL, 'bool'), float: Number(WEAK, 'weak')}
INT_LIMIT = 2**31 - 2**16  # what an `int` holds, less a margin for the sizes of blocks and tiles


def _array(a):
    "Return the `ArrayOf` of an array or tensor"
    a = getattr(a, 'data', a) if type(a).__name__ == 'DeviceArray' and hasattr(a, 'mem') else a
    dtype = str(a.dtype).removeprefix('torch.')
    if getattr(a.dtype, 'names', None):
        hint = f"Pass the kernel an array of each field: np.ascontiguousarray(a['{a.dtype.names[0]}'])."
        raise Untranslatable('an array of records, which to_cuda does not support', hint)
    if dtype not in C_NAMES:
        raise Untranslatable(
            f'an array of {dtype}: to_cuda does not support such elements',
            'Use bool, int8 to uint64, float16, float32 or float64.',
        )
    steps, size = list(steps_of(a)), list(a.shape)
    if _contiguous(size, steps):
        return ArrayOf(dtype, len(size), (False,) * len(size), False)
    return ArrayOf(
        dtype,
        len(size),
        tuple(not (d == len(size) - 1 and s == 1) for d, s in enumerate(steps)),
        any(s < 0 for s in steps),
    )


def steps_of(a):
    "Return the strides of an array or tensor, in elements"
    if callable(getattr(a, 'stride', None)):
        return tuple(a.stride())
    return tuple(stride // a.dtype.itemsize for stride in a.strides)


def _contiguous(size, steps):
    expected = 1
    for n, s in zip(reversed(size), reversed(steps)):
        if n != 1 and s != expected:
            return 0 in size
        expected *= n
    return True


def example(x):
    "Return the type of an example argument: an `ArrayOf`, a `Number`, or a tuple of these"
    if isinstance(x, (tuple, list)):
        return tuple(map(example, x))
    if isinstance(x, np.generic):
        return _scalar(str(x.dtype))
    if hasattr(x, 'dtype') and hasattr(x, 'shape'):
        return _array(x)
    if type(x) in _PYTHON_SCALARS:
        return _PYTHON_SCALARS[type(x)]
    if isinstance(x, int):
        return (
            Number(INT, 'int', min(x, 1) if x >= 0 else None)
            if abs(x) <= INT_LIMIT
            else Number(INT, 'int64')
            if x < 2**63
            else Number(UINT, 'uint64')
        )
    raise Untranslatable(f'of type {type(x).__name__}: a kernel takes arrays, tensors, scalars and tuples of these')


def _scalar(dtype):
    if dtype not in C_NAMES or dtype == 'bfloat16':
        raise Untranslatable(f'a number of type {dtype}: to_cuda does not support this type')
    return Number(value_type(dtype), dtype)


# The same, parsed from Numba's notation for types: `void(float32[:,::1], int64, float32)`. `[:,:]` may have any
# strides, `::1` in the last position means that the array is contiguous.
_SHORT = {
    'b1': 'bool',
    'boolean': 'bool',
    'int_': 'int64',
    'intp': 'int64',
    'uintp': 'uint64',
    'intc': 'int32',
    'uintc': 'uint32',
    'float_': 'float64',
    'double': 'float64',
    'float': 'float32',
    'char': 'int8',
    'uchar': 'uint8',
    **{
        f'{k}{b}': f'{n}{8 * b}'
        for k, n in (('i', 'int'), ('u', 'uint'), ('f', 'float'))
        for b in (1, 2, 4, 8)
        if (k, b) != ('f', 1)
    },
}


def signature(text: str) -> list:  # as `example` gives it, per argument
    "Return the types of the arguments in a Numba signature: `signature('void(float32[:], int64)')`"
    m = re.fullmatch(r'\s*(?:(?:void|none)\s*)?\((.*)\)\s*', text, re.S)
    if not m:
        raise Untranslatable(f'{text!r} is not a signature', "Write it as in 'void(float32[:,::1], int64)'.")
    return [_read_type(part) for part in between_commas(m[1])]


def _read_type(text):
    if m := re.fullmatch(r'UniTuple\((.*),\s*(\d+)\)', text, re.S):
        return (_read_type(m[1].strip()),) * int(m[2])
    if m := re.fullmatch(r'(?:Tuple\()?\((.*)\)\)?', text, re.S):
        return tuple(map(_read_type, between_commas(m[1])))
    m = re.fullmatch(r'(\w+)\s*(?:\[(.*)\])?', text)
    dtype = _SHORT.get(m[1], m[1]) if m else None
    if dtype not in C_NAMES:
        raise Untranslatable(
            f'{text!r} is not a type that a signature may have',
            'Types are bool, int8 to uint64, float16, float32, float64, and arrays of these such as float32[:,::1].',
        )
    return _scalar(dtype) if m[2] is None else _layout(dtype, [part.strip() for part in m[2].split(',')])


def _layout(dtype, dims):
    if any(part not in (':', '::1') for part in dims):
        raise Untranslatable(
            f'[{",".join(dims)}] is not a layout of an array',
            "Write a colon per dimension, as in 'float32[:,:]', or 'float32[:,::1]' if it is contiguous.",
        )
    return ArrayOf(dtype, len(dims), (dims[-1] != '::1',) * len(dims), False)


def write_type(a):
    "Write the type of an argument as in a signature: 'float32[:,::1]'"
    if isinstance(a, ArrayOf):
        return (
            f"{a.dtype}[{','.join([':'] * (a.ndim - 1) + ['::1' if not any(a.strides) else ':'])}]"
            if a.ndim
            else f'{a.dtype}[()]'
        )
    if isinstance(a, Number):
        return {'int': 'int', 'weak': 'float'}.get(a.dtype, a.dtype)
    return f"({', '.join(map(write_type, a))})"
