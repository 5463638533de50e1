"""The types of a kernel's values: the promotion rules of NumPy and Numba, the types of arguments, and their C names."""

import re
from collections import namedtuple

import numpy as np

from ..cpp.values import split_at_commas
from .source import Untranslatable

# A loaded value has the type of its array. As in Numba, integer arithmetic has 64 bits, and is unsigned if both
# operands are. `WEAK` is the type of a Python float: it takes the precision of the other operand, so the sum of a WEAK
# and a float32 is a float32.
BOOL, INT64, UINT64, HALF, FLOAT, DOUBLE, WEAK = 'bool', 'int64', 'uint64', 'float16', 'float32', 'float64', 'weak'
INTEGERS = {BOOL, INT64, UINT64, 'int8', 'int16', 'int32', 'uint8', 'uint16', 'uint32'}
FLOATS = {HALF, FLOAT, DOUBLE, WEAK}

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


def value_type(dtype: str) -> str:
    "Return the type of a loaded element of an array of `dtype`: a bfloat16 is converted to float32"
    return FLOAT if dtype == 'bfloat16' else dtype


def is_unsigned(t):
    "Return whether `t` is an unsigned integer type"
    return t[:4] == 'uint'


def is_int(t):
    "Return whether `t` is an integer type other than bool"
    return t in INTEGERS and t != BOOL


def wide_type(t):
    "Return the type in which integers of type `t` are computed"
    return UINT64 if is_unsigned(t) else INT64


class Array(namedtuple('Array', 'dtype ndim')):
    "The type of an array"

    def __str__(self):
        return f'{self.dtype} array of {self.ndim} dimension{"s" * (self.ndim != 1)}'


def is_number(t):
    "Return whether `t` is the type of a number, not of an array or a tuple"
    return isinstance(t, str)


def describe_type(t):
    "Describe a type, for a message: 'a float32'"
    if t == WEAK:
        return 'a Python float'
    if isinstance(t, tuple) and not isinstance(t, Array):
        return f'a tuple of {len(t)}'
    return f'{"an" if str(t)[0] in "aiu" else "a"} {t}'


# `join_types` returns the type of a variable that holds values of two types, `arithmetic_type` that of the result of an
# operation on them. With `numba_types`, both follow the promotion rules of NumPy and Numba; without it, a float32 and
# an integer or a Python float give a float32.
_RANK = {WEAK: 2, HALF: 3, FLOAT: 4, DOUBLE: 5}  # integers have rank 0


def join_types(a, b, numba_types):
    "Return the common type of a variable that has values of both types; None if there is none"
    if a is None or b is None or a == b:
        return b if a is None else a
    if not (is_number(a) and is_number(b)):
        if isinstance(a, Array) or isinstance(b, Array) or is_number(a) or is_number(b) or len(a) != len(b):
            return None
        item_types = tuple(join_types(x, y, numba_types) for x, y in zip(a, b))
        return None if None in item_types else item_types
    if numba_types or a in INTEGERS and b in INTEGERS:
        return str(np.promote_types(a, b))
    low, high = sorted((a, b), key=lambda t: _RANK.get(t, 0))
    return FLOAT if high == HALF and low != BOOL else high


def arithmetic_type(a, b, numba_types):
    "Return the result type of an arithmetic operation such as `a + b`"
    if a in INTEGERS and b in INTEGERS:
        return UINT64 if is_unsigned(a) and is_unsigned(b) else INT64
    return join_types(a, b, numba_types)


# The type of an argument: that of a number, of an array with its layout, or a tuple of such types.
# type: of the value; dtype: of the parameter, 'int' for a Python int, 'weak' for a Python float; minimum: 1 if the
# example is positive, 0 if it is 0, else None
ScalarArgument = namedtuple('ScalarArgument', 'type dtype minimum', defaults=(None,))
# takes_stride: per dimension, whether the C kernel has a parameter for the stride, all False for a contiguous array;
# has_negative_stride: whether a stride is negative, so that the first element is not at the lowest address
ArrayArgument = namedtuple('ArrayArgument', 'dtype ndim takes_stride has_negative_stride')

_PYTHON_SCALARS = {bool: ScalarArgument(BOOL, 'bool'), float: ScalarArgument(WEAK, 'weak')}
INT_LIMIT = 2**31 - 2**16  # the maximum of an `int`, less a margin for the size of a block or a tile


def _array_argument(a):
    "Return the `ArrayArgument` of an array or tensor"
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
    strides, sizes = list(element_strides(a)), list(a.shape)
    if _is_contiguous(sizes, strides):
        return ArrayArgument(dtype, len(sizes), (False,) * len(sizes), False)
    return ArrayArgument(
        dtype,
        len(sizes),
        tuple(not (d == len(sizes) - 1 and stride == 1) for d, stride in enumerate(strides)),
        any(stride < 0 for stride in strides),
    )


def element_strides(a):
    "Return the strides of an array or tensor, in elements"
    if callable(getattr(a, 'stride', None)):
        return tuple(a.stride())
    return tuple(stride // a.dtype.itemsize for stride in a.strides)


def _is_contiguous(sizes, strides):
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if size != 1 and stride != expected:
            return 0 in sizes
        expected *= size
    return True


def argument_type(x):
    "Return the type of an example argument: an `ArrayArgument`, a `ScalarArgument`, or a tuple of these"
    if isinstance(x, (tuple, list)):
        return tuple(map(argument_type, x))
    if isinstance(x, np.generic):
        return _scalar_argument(str(x.dtype))
    if hasattr(x, 'dtype') and hasattr(x, 'shape'):
        return _array_argument(x)
    if type(x) in _PYTHON_SCALARS:
        return _PYTHON_SCALARS[type(x)]
    if isinstance(x, int):
        return (
            ScalarArgument(INT64, 'int', min(x, 1) if x >= 0 else None)
            if abs(x) <= INT_LIMIT
            else ScalarArgument(INT64, 'int64')
            if x < 2**63
            else ScalarArgument(UINT64, 'uint64')
        )
    raise Untranslatable(f'of type {type(x).__name__}: a kernel takes arrays, tensors, scalars and tuples of these')


def _scalar_argument(dtype):
    if dtype not in C_NAMES or dtype == 'bfloat16':
        raise Untranslatable(f'a number of type {dtype}: to_cuda does not support this type')
    return ScalarArgument(value_type(dtype), dtype)


# Types of arguments can also be parsed from a Numba signature: `void(float32[:,::1], int64, float32)`. An array
# `[:,:]` may have any strides; `::1` in the last position means that the array is contiguous.
_DTYPE_OF_ALIAS = {
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


def parse_signature(text: str) -> list:  # one type per argument, as `argument_type` returns it
    "Return the types of the arguments in a Numba signature: `parse_signature('void(float32[:], int64)')`"
    m = re.fullmatch(r'\s*(?:(?:void|none)\s*)?\((.*)\)\s*', text, re.S)
    if not m:
        raise Untranslatable(f'{text!r} is not a signature', "Write it as in 'void(float32[:,::1], int64)'.")
    return [_parse_type(argument) for argument in split_at_commas(m[1])]


def _parse_type(text):
    if m := re.fullmatch(r'UniTuple\((.*),\s*(\d+)\)', text, re.S):
        return (_parse_type(m[1].strip()),) * int(m[2])
    if m := re.fullmatch(r'(?:Tuple\()?\((.*)\)\)?', text, re.S):
        return tuple(map(_parse_type, split_at_commas(m[1])))
    m = re.fullmatch(r'(\w+)\s*(?:\[(.*)\])?', text)
    dtype = _DTYPE_OF_ALIAS.get(m[1], m[1]) if m else None
    if dtype not in C_NAMES:
        raise Untranslatable(
            f'{text!r} is not a type that a signature may have',
            'Types are bool, int8 to uint64, float16, float32, float64, and arrays of these such as float32[:,::1].',
        )
    return _scalar_argument(dtype) if m[2] is None else _parse_layout(dtype, [dim.strip() for dim in m[2].split(',')])


def _parse_layout(dtype, dims):
    if any(dim not in (':', '::1') for dim in dims):
        raise Untranslatable(
            f'[{",".join(dims)}] is not a valid array layout',
            "Write a colon per dimension, as in 'float32[:,:]', or 'float32[:,::1]' if it is contiguous.",
        )
    return ArrayArgument(dtype, len(dims), (dims[-1] != '::1',) * len(dims), False)


def format_type(argument):
    "Return the type of an argument in the notation of a signature: 'float32[:,::1]'"
    if isinstance(argument, ArrayArgument):
        if not argument.ndim:
            return f'{argument.dtype}[()]'
        last_dim = ':' if any(argument.takes_stride) else '::1'
        return f"{argument.dtype}[{','.join([':'] * (argument.ndim - 1) + [last_dim])}]"
    if isinstance(argument, ScalarArgument):
        return {'int': 'int', 'weak': 'float'}.get(argument.dtype, argument.dtype)
    return f"({', '.join(map(format_type, argument))})"
