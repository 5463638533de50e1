"""The elementwise functions of `triton.language`."""

import builtins
import functools
import math

import numpy as np

from ..support.fused_arithmetic import fused_multiply_add
from .block import (
    addresses,
    block_of,
    broadcast,
    compute,
    convert,
    is_number,
    map_elements,
    tensor,
    to_common_type,
    with_undef,
)
from .run import unsupported_name, compile_error
from .types import DTYPES, const

__all__ = [
    'PropagateNan',
    'cdiv',
    'swizzle2d',
    'item',
    'condition',
    'map_elementwise',
    'where',
    'next_power_of_2',
    'cast',
    'to_tensor',
    'add',
    'sub',
    'mul',
    'minimum',
    'maximum',
    'clamp',
    'builtin_min',
    'builtin_max',
    'abs',
    'fma',
    'fdiv',
    'umulhi',
    'sigmoid',
    'exp',
    'exp2',
    'log',
    'log2',
    'sin',
    'cos',
    'sqrt',
    'sqrt_rn',
    'rsqrt',
    'floor',
    'ceil',
    'erf',
    'div_rn',
]

_I1 = DTYPES['int1']


class PropagateNan:
    "The options for how `tl.maximum` and `tl.minimum` treat NaN"

    NONE, ALL = 0, 0xFFFF


def where(condition, x, y):
    "Select elements of `x` where the condition is true, else of `y`"
    condition = convert(block_of(condition), _I1)
    if any(type(value) is tensor and value.dtype.is_ptr() for value in (x, y)):
        a, b, dtype, region = _common_pointers(block_of(x), block_of(y))
    else:
        a, b, dtype, region = *to_common_type(x, y), None
    is_true, a, b = broadcast(condition, tensor(a, dtype), tensor(b, dtype))
    out = tensor(np.where(is_true, a, b)[()], dtype, region)
    undef_masks = [getattr(value, 'undef_mask', None) for value in (condition, x, y)]
    if any(mask is not None for mask in undef_masks):
        condition_mask, x_mask, y_mask = (np.False_ if mask is None else mask for mask in undef_masks)
        undef_mask = np.broadcast_to(np.where(condition.data, x_mask, y_mask) | condition_mask, out.data.shape)
        out.undef_mask = undef_mask if undef_mask.any() else None
    return out


def _common_pointers(x, y):
    "Return (data, data, type, region) of two pointers: addresses in bytes if their regions differ"
    if x.dtype is not y.dtype:
        raise compile_error(f'the values of tl.where must have the same type; got {x.dtype} and {y.dtype}')
    if x.region is y.region:
        return x.data, y.data, x.dtype, x.region
    return addresses(x), addresses(y), x.dtype, None


def cdiv(x, div):
    "Compute x/div, rounded up"
    return (x + div - 1) // div


def swizzle2d(i, j, size_i, size_j, size_g):
    "Map the index (i, j) of a row-major traversal of a grid to a traversal in groups of `size_g` rows"
    linear_index = i * size_j + j
    group = linear_index // (size_g * size_j) * size_g
    rows = minimum(size_i - group, size_g)
    linear_index = linear_index % (size_g * size_j)
    return group + linear_index % rows, linear_index // rows


def item(input):
    "Return the element of a block of size 1 as a scalar"
    if input.data.size != 1:
        raise compile_error(f'.item() requires a block with one element; got shape {list(input.data.shape)}')
    return map_elements(input, lambda a: np.reshape(a, ())[()])


def condition(arg1, disable_licm=False):
    "Return the condition of a `while` loop; compiler options are ignored"
    return arg1


def map_elementwise(scalar_fn, *args, pack=1):
    "Apply a function of scalars to each element"
    if pack != 1:
        raise unsupported_name(f'tl.map_elementwise with pack={pack}')
    blocks = [block_of(arg) for arg in args]
    columns = [np.ravel(column) for column in broadcast(*blocks)]
    rows = [
        scalar_fn(*(tensor(column[i], block.dtype) for column, block in zip(columns, blocks)))
        for i in range(columns[0].size)
    ]
    shape = broadcast(*blocks)[0].shape
    has_several_results = type(rows[0]) is tuple
    result_rows = [row if has_several_results else (row,) for row in rows]
    results = tuple(
        with_undef(np.array([element.data for element in column]).reshape(shape), column[0].dtype, *blocks)
        for column in zip(*result_rows)
    )
    return results if has_several_results else results[0]


def next_power_of_2(n):
    "Return the smallest power of 2 that is at least `n`, which must be known at compile time"
    return const(1 << (n - 1).bit_length())


def cast(input, dtype, fp_downcast_rounding=None, bitcast=False):
    "Convert to another type"
    return block_of(input).to(dtype, fp_downcast_rounding, bitcast)


def to_tensor(x):
    "Convert a number to a value of the kernel"
    return block_of(x)


def add(x, y, sanitize_overflow=True):
    "Compute x + y"
    return block_of(x) + y


def sub(x, y, sanitize_overflow=True):
    "Compute x - y"
    return block_of(x) - y


def mul(x, y, sanitize_overflow=True):
    "Compute x * y"
    return block_of(x) * y


def _extreme(x, y, propagate_nan, f_ignoring_nan, f_propagating_nan):
    "Compute `minimum` or `maximum` with one of two NumPy functions"
    a, b = (block_of(value) if is_number(x) and is_number(y) else value for value in (x, y))
    return compute(a, b, f_propagating_nan if propagate_nan == PropagateNan.ALL else f_ignoring_nan)


def minimum(x, y, propagate_nan=PropagateNan.NONE):
    "Return the smaller of x and y, elementwise; by default, if one is NaN, the other one"
    return _extreme(x, y, propagate_nan, np.fmin, np.minimum)


def maximum(x, y, propagate_nan=PropagateNan.NONE):
    "Return the larger of x and y, elementwise; by default, if one is NaN, the other one"
    return _extreme(x, y, propagate_nan, np.fmax, np.maximum)


def clamp(x, min, max, propagate_nan=PropagateNan.NONE):
    "Limit a floating-point x to [min, max]"
    if not block_of(x).dtype.is_floating():
        raise compile_error(
            f'tl.clamp requires floating-point elements; got {x.dtype}',
            'For integers, write tl.minimum(tl.maximum(x, low), high).',
        )
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


def builtin_min(*args):
    "Implement Python's `min` in a kernel"
    return _reduce_arguments(args, minimum, min)


def builtin_max(*args):
    "Implement Python's `max` in a kernel"
    return _reduce_arguments(args, maximum, max)


def _reduce_arguments(args, operation, python_function):
    "Reduce the arguments by `operation` if one of them is a value of the kernel, else call Python's own function"
    return functools.reduce(operation, args) if any(type(arg) is tensor for arg in args) else python_function(*args)


def abs(x):
    "Compute |x|"
    if is_number(x):
        return builtins.abs(x)
    return with_undef(np.abs(x.data), x.dtype, x)


def _float_function(fn, name):
    "Make a function of fp32 and fp64 values from `fn`, a function of arrays"

    def elementwise(x):
        x = block_of(x)
        if x.dtype.name not in ('float32', 'float64'):
            raise compile_error(f'tl.{name} does not support {x.dtype}', 'Convert to fp32: x.to(tl.float32).')
        return with_undef(fn(x.data), x.dtype, x)

    elementwise.__name__ = name
    elementwise.__doc__ = f'Compute {name}(x) elementwise'
    return elementwise


def _erf(x):
    "Compute the error function without SciPy"
    return np.vectorize(math.erf, otypes=[x.dtype])(x)[()]


def _flush_denormals(x):
    "Flush fp32 denormals to 0, as rounding to integers does on a GPU"
    return np.where(np.abs(x) < 2.0**-126, x * 0, x)[()] if x.dtype == np.float32 else x


def _rsqrt(x):
    return (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


exp = _float_function(np.exp, 'exp')
exp2 = _float_function(np.exp2, 'exp2')
log = _float_function(np.log, 'log')
log2 = _float_function(np.log2, 'log2')
sin = _float_function(np.sin, 'sin')
cos = _float_function(np.cos, 'cos')
sqrt = sqrt_rn = _float_function(np.sqrt, 'sqrt')
rsqrt = _float_function(_rsqrt, 'rsqrt')
floor = _float_function(lambda x: np.floor(_flush_denormals(x)), 'floor')
ceil = _float_function(lambda x: np.ceil(_flush_denormals(x)), 'ceil')
erf = _float_function(_erf, 'erf')


def fma(x, y, z):
    "Compute x*y + z, rounded once"
    dtype = compute(compute(x, y, np.multiply), z, np.add).dtype
    a, b, c = (convert(block_of(value), dtype) for value in (x, y, z))
    return with_undef(fused_multiply_add(*broadcast(a, b, c)), dtype, a, b, c)


def fdiv(x, y, ieee_rounding=False):
    "Compute x / y of floats"
    return block_of(x) / y


div_rn = fdiv


def umulhi(x, y):
    "Return the upper half of the product of two integers"
    x, y = block_of(x), block_of(y)
    a, b = broadcast(x, y)
    width = x.dtype.int_bitwidth
    if width == 32:
        upper_half = (a.astype(np.uint32).astype(np.uint64) * b.astype(np.uint32)) >> np.uint64(32)
        return with_undef(upper_half.astype(x.dtype.np), x.dtype, x, y)
    product = a.astype(np.uint64).astype(object) * b.astype(np.uint64).astype(object)
    return with_undef(np.asarray(product >> 64).astype(np.uint64).astype(x.dtype.np)[()], x.dtype, x, y)


def sigmoid(x):
    "Compute 1 / (1 + exp(-x))"
    return 1 / (1 + exp(-x))
