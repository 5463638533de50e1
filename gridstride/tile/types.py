"""Triton's types, the NumPy types that represent them, and the promotion rules of operations."""

from functools import lru_cache

import numpy as np

from ..support.lazy_exports import missing_package

try:
    import ml_dtypes
except ModuleNotFoundError:
    raise missing_package('ml_dtypes', 'gridstride.tile') from None

__all__ = [
    'dtype',
    'pointer_type',
    'block_type',
    'const',
    'DTYPES',
    'to_dtype',
    'dtype_of_numpy',
    'dtype_of_number',
    'computation_type',
    'promote',
]


class dtype:
    "A scalar type of Triton, such as `tl.float32`"

    def __init__(self, name, np_type, rank, mantissa=0):
        self.name, self.np, self.mantissa = name, np.dtype(np_type), mantissa
        self.rank = rank  # 0 bool, 1 integer, 2 floating: a number adopts the type of a block of its rank or higher
        self.size = self.np.itemsize
        self.primitive_bitwidth = self.int_bitwidth = 1 if name == 'int1' else 8 * self.size
        self.fp_mantissa_width = mantissa
        self.is_special = name == 'int1' or name.startswith('float8')  # NumPy's arithmetic differs from Triton's
        self.number = self.np.type

    scalar = property(lambda self: self)
    shape = ()
    nbytes = property(lambda self: self.size)

    def __repr__(self):
        return _SHORT_NAMES.get(self.name, self.name)

    __str__ = __repr__

    def __eq__(self, other):
        return self is other or getattr(other, 'name', None) == self.name and not hasattr(other, 'element_ty')

    def __hash__(self):
        return hash(self.name)

    def is_fp8(self):
        "Return whether it is an 8-bit floating type"
        return self.name.startswith('float8')

    def is_floating(self):
        "Return whether it is a floating type"
        return self.rank == 2

    def is_standard_floating(self):
        "Return whether it is a floating type of 16 bits or more"
        return self.rank == 2 and not self.is_fp8()

    def is_int(self):
        "Return whether it is an integer type; `int1` is one"
        return self.rank < 2

    def is_int_signed(self):
        "Return whether it is a signed integer type; `int1` is not one"
        return self.rank == 1 and self.np.kind != 'u'

    def is_int_unsigned(self):
        "Return whether it is an unsigned integer type"
        return self.rank == 0 or self.np.kind == 'u'

    def get_int_max_value(self):
        "Return the largest integer of the type"
        return 1 if self.rank == 0 else int(np.iinfo(self.np).max)

    def get_int_min_value(self):
        "Return the smallest integer of the type"
        return 0 if self.rank == 0 else int(np.iinfo(self.np).min)

    def is_bool(self):
        "Return whether it is `int1`"
        return self.name == 'int1'

    def is_ptr(self):
        "Return whether it is a pointer"
        return False

    is_block = is_const = is_void = is_ptr

    def __getattr__(self, k):  # is_fp16, is_bf16, is_int32, ...
        if k.startswith('is_') and k[3:] in _FULL_NAMES:
            return lambda: self.name == _FULL_NAMES[k[3:]]
        if k == 'element_ty':
            raise AttributeError(f'{self} is not a pointer: it has no element_ty')
        raise AttributeError(f'the type {self} has no {k!r}')


_SHORT_NAMES = dict(
    float16='fp16', bfloat16='bf16', float32='fp32', float64='fp64', float8e4nv='fp8e4nv', float8e5='fp8e5',
    float8e4b8='fp8e4b8', float8e5b16='fp8e5b16',
)  # fmt: skip
_FULL_NAMES = {v: k for k, v in _SHORT_NAMES.items()} | {
    f'{u}int{n}': f'{u}int{n}' for u in ('', 'u') for n in (1, 8, 16, 32, 64)
}

DTYPES = {
    t.name: t
    for t in (
        dtype('int1', bool, 0),
        *(dtype(f'{u}int{n}', f'{u}int{n}', 1) for n in (8, 16, 32, 64) for u in ('', 'u')),
        dtype('float16', np.float16, 2, 10),
        dtype('bfloat16', ml_dtypes.bfloat16, 2, 7),
        dtype('float32', np.float32, 2, 23),
        dtype('float64', np.float64, 2, 52),
        dtype('float8e4nv', ml_dtypes.float8_e4m3fn, 2, 3),
        dtype('float8e5', ml_dtypes.float8_e5m2, 2, 2),
        dtype('float8e4b8', ml_dtypes.float8_e4m3fnuz, 2, 3),
        dtype('float8e5b16', ml_dtypes.float8_e5m2fnuz, 2, 2),
    )
}
_DTYPE_OF_NUMPY_TYPE = {t.np: t for t in DTYPES.values()}
_I1, _I32, _U32, _I64, _U64 = (DTYPES[name] for name in ('int1', 'int32', 'uint32', 'int64', 'uint64'))
_F16, _BF16, _F32, _F64 = (DTYPES[name] for name in ('float16', 'bfloat16', 'float32', 'float64'))


class pointer_type(dtype):
    "A pointer to elements of a type; one object per element type"

    _instances = {}  # name of the element type -> pointer type

    def __new__(cls, element_ty, address_space=1, const=False):
        element_ty = to_dtype(element_ty)
        return cls._instances.setdefault(element_ty.name, super().__new__(cls))

    def __init__(self, element_ty, address_space=1, const=False):
        element_ty = to_dtype(element_ty)
        super().__init__(f'pointer<{element_ty}>', np.int64, 1)
        self.element_ty = element_ty
        self.primitive_bitwidth = 64

    def __repr__(self):
        return self.name

    __str__ = __repr__

    def __eq__(self, other):
        return self is other or str(other) == self.name

    def __hash__(self):
        return hash(self.name)

    def is_ptr(self):
        "Return whether it is a pointer"
        return True

    def is_int(self):
        "Return whether it is an integer type"
        return False


class block_type:
    "The type of a block: element type and shape"

    def __init__(self, element_ty, shape):
        self.element_ty = self.scalar = element_ty
        self.shape = tuple(shape)
        self.numel = int(np.prod(self.shape))

    def __repr__(self):
        return f'<{list(map(int, self.shape))}, {self.element_ty}>'

    def __eq__(self, other):
        return isinstance(other, block_type) and (self.scalar, self.shape) == (other.scalar, other.shape)

    def __hash__(self):
        return hash((self.scalar, self.shape))

    def is_block(self):
        "Return whether it is a block"
        return True

    def is_ptr(self):
        "Return False: a block is not a pointer, although its elements may be pointers"
        return False

    def __getattr__(self, k):
        return getattr(self.scalar, k)


class _Int(int):
    value = property(int)


class _Float(float):
    value = property(float)


class _Str(str):
    value = property(str)


def const(x):
    "Return a compile-time constant with a `.value`, which kernels may read"
    for base_type, constant_type in ((int, _Int), (float, _Float), (str, _Str)):
        if type(x) is base_type:
            return constant_type(x)
    return x


def to_dtype(x):
    "Convert a type of this package or of Triton, or a name, to a type of this package; raises `TypeError` otherwise"
    if isinstance(x, (dtype, block_type)):
        return x
    if hasattr(x, 'element_ty') and not hasattr(x, 'numel'):
        return pointer_type(to_dtype(x.element_ty))
    name = getattr(x, 'name', x)
    name = _FULL_NAMES.get(name, name) if isinstance(name, str) else None  # Triton calls float32 fp32
    if name in DTYPES:
        return DTYPES[name]
    raise TypeError(f'{x!r} is not a Triton type; use tl.float32 or tl.int32')


def dtype_of_numpy(np_type):
    "Return Triton's type for a type of NumPy or `ml_dtypes`; raises `KeyError` if there is none"
    return _DTYPE_OF_NUMPY_TYPE[np.dtype(np_type)]


def dtype_of_number(x):
    "Return the type of a number in a kernel"
    if isinstance(x, (bool, np.bool_)):
        return _I1
    if isinstance(x, int):
        for integer_type, low, high in (
            (_I32, -(2**31), 2**31),
            (_U32, 0, 2**32),
            (_I64, -(2**63), 2**63),
            (_U64, 0, 2**64),
        ):
            if low <= x < high:
                return integer_type
        raise ValueError(f'{x} does not fit into 64 bits')
    if isinstance(x, float):
        magnitude = abs(x)
        fits = x != x or magnitude in (0.0, float('inf')) or 2.0**-126 <= magnitude <= (2 - 2.0**-23) * 2.0**127
        return _F32 if fits else _F64
    raise TypeError(f'expected a number or a block, got {type(x).__name__}')


@lru_cache(4096)
def computation_type(
    a,
    b,  # types
    a_is_number=False,
    b_is_number=False,  # whether it is a number literal, not a value of the kernel
    is_division=False,  # / // %
):  # a type
    "Return the type to which Triton converts two operands before an operation"
    if a_is_number != b_is_number:
        number, block = (a, b) if a_is_number else (b, a)
        if number.rank <= block.rank:
            return _F32 if is_division and block in (_F16, _BF16) else block
    for float_type in (_F64, _F32):
        if float_type in (a, b):
            return float_type
    if _F16 in (a, b):
        return _F32 if is_division else _F16
    if _BF16 in (a, b):
        return _F32 if is_division or a is not b else _BF16
    if a.is_fp8() and b.is_fp8():
        return a if a is b else _F16
    if not (a.is_int() and b.is_int()):
        raise TypeError(f'{a} and {b} have no common type: convert one with .to(...)')
    if is_division and a.is_int_signed() != b.is_int_signed():
        raise TypeError(f'/, // and % of {a} and {b}, one signed and one unsigned: convert one with .to(...)')
    return promote(a, b)


def promote(a, b):
    "Return the common type of two integer types: the wider one; of two with the same width, the unsigned one"
    wider = a if a.int_bitwidth > b.int_bitwidth else b
    if a.is_int_signed() == b.is_int_signed():
        return wider
    unsigned, signed = (b, a) if a.is_int_signed() else (a, b)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed
