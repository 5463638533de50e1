"""Numba's types: element types such as `float32`, which can replace `np.float32`, and the types of signatures.

`float32[:]` is the type of an array, and `void(float32[:], int32)` is the signature of a kernel.
"""

from typing import NamedTuple

import numpy as np

_INTEGERS = 'int8 int16 int32 int64 uint8 uint16 uint32 uint64 i1 i2 i4 i8 u1 u2 u4 u8'.split()
_FLOATS = 'float16 float32 float64 complex64 complex128 f2 f4 f8 c8 c16 double'.split()
_C_NAMES = 'byte char uchar short ushort intc uintc int_ uint long_ ulong longlong ulonglong'.split()
_SIZES = 'intp uintp ssize_t size_t'.split()
__all__ = [
    'ArrayType',
    'Signature',
    'b1',
    'bool',
    'bool_',
    'boolean',
    'none',
    'void',
    *_INTEGERS,
    *_FLOATS,
    *_C_NAMES,
    *_SIZES,
]


class ArrayType(NamedTuple):
    "The type of an array in a signature: `float32[:, ::1]`"

    dtype: np.dtype
    ndim: int
    layout: str = 'A'  # 'C': the last axis is contiguous, `::1`; 'F': the first axis is; 'A': any strides


class Signature(NamedTuple):
    "The argument and result types of a function"

    result: object
    args: tuple

    @property
    def return_type(self):
        "The result type, under the name that Numba uses"
        return self.result


def void(*args):
    "Make the signature of a kernel with parameters of these types"
    return Signature(None, args)


def _is_dense(axis):
    "Return whether an index is `::1`, which declares a contiguous axis"
    return isinstance(axis, slice) and axis.step == 1


def _indexable_type(base):
    "Make a subclass of a NumPy type: an index of colons makes an array type, a call with types makes a signature"

    def make_array_type(cls, axes):
        axes = axes if isinstance(axes, tuple) else (axes,)
        layout = 'C' if _is_dense(axes[-1]) else 'F' if _is_dense(axes[0]) else 'A'
        return ArrayType(np.dtype(cls), len(axes), layout)

    def make_value(cls, *args):
        if len(args) == 1 and isinstance(args[0], tuple) and not isinstance(args[0], ArrayType):
            args = args[0]  # Numba takes the types of a signature as one tuple, too
        is_signature = args and all(isinstance(arg, (type, ArrayType)) for arg in args)
        return Signature(cls, args) if is_signature else base(*args)

    attributes = dict(__class_getitem__=classmethod(make_array_type), __new__=make_value, __module__=__name__)
    if base is np.bool_:  # it cannot be subclassed; NumPy accepts a class with a `dtype` instead
        return type('boolean', (), dict(attributes, dtype=np.dtype(base)))
    return type(base.__name__, (base,), attributes)


none = void
boolean = bool_ = b1 = bool = _indexable_type(np.bool_)
int8, int16, int32, int64 = i1, i2, i4, i8 = tuple(map(_indexable_type, (np.int8, np.int16, np.int32, np.int64)))
uint8, uint16, uint32, uint64 = u1, u2, u4, u8 = tuple(
    map(_indexable_type, (np.uint8, np.uint16, np.uint32, np.uint64))
)
float16, float32, float64, complex64, complex128 = f2, f4, f8, c8, c16 = tuple(
    map(_indexable_type, (np.float16, np.float32, np.float64, np.complex64, np.complex128))
)
double = float64
byte = uchar = uint8
char = int8
short = int16
ushort = uint16
intc = int32
uintc = uint32
# `int_` and `long_` have 64 bits, as C's long on Linux, the host of most GPUs.
int_ = long_ = longlong = intp = ssize_t = int64
uint = ulong = ulonglong = uintp = size_t = uint64


def is_number_type(value):
    "Return whether `value` is a numeric type of NumPy or of this module"
    return isinstance(value, type) and (issubclass(value, np.generic) or value is boolean)
