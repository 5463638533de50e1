"""`tl.dot` as tensor cores compute it: operands are rounded to an input type, products are accumulated in fp32."""

import numpy as np

from .block import block_of, tensor
from .run import compile_error
from .types import DTYPES, to_dtype

__all__ = ['dot']

_PRECISIONS = ('tf32', 'tf32x3', 'ieee', 'bf16x3', 'bf16x6')
_F32, _F64, _I32 = DTYPES['float32'], DTYPES['float64'], DTYPES['int32']


def dot(a, b, acc, precision, allow_tf32, out_dtype):
    "Compute a @ b + acc of blocks (M, K) and (K, N), or batches of them with three axes"
    a, b, out_dtype = block_of(a), block_of(b), to_dtype(out_dtype)
    if precision is not None and allow_tf32 is not None:
        raise compile_error('tl.dot takes input_precision or allow_tf32, not both', 'Pass input_precision only.')
    if precision is None:
        precision = 'tf32' if allow_tf32 in (None, True) else 'ieee'
    if precision.lower() not in _PRECISIONS:
        raise compile_error(f"input_precision must be one of {', '.join(_PRECISIONS)}; got {precision!r}")
    result_type = _result_type(a.dtype, b.dtype, out_dtype)
    _check_shapes(a, b)
    product = _multiply(a, b, precision.lower(), result_type)
    if acc is not None:
        acc = block_of(acc)
        if acc.data.shape != product.shape or acc.dtype is not result_type:
            raise compile_error(
                f'acc is {acc.type}, but the product is {tensor(product, result_type).type}',
                'Both must have the same type and shape.',
            )
        if acc.dtype is not out_dtype:
            raise compile_error(
                f'acc is {acc.type}, but out_dtype is {out_dtype}', f'Pass out_dtype=tl.{acc.dtype.name}.'
            )
        product = product + acc.data
    out = tensor(product.astype(result_type.np, copy=False), result_type)
    return _mark_undefined(out, a, b, acc)


def _mark_undefined(out, a, b, acc):
    "Mark elements of the product whose row of `a`, column of `b` or element of `acc` contains an undefined element"
    if a.undef_mask is None and b.undef_mask is None and (acc is None or acc.undef_mask is None):
        return out
    undef_mask = np.zeros(out.data.shape, bool) if acc is None or acc.undef_mask is None else acc.undef_mask
    if a.undef_mask is not None:
        undef_mask = undef_mask | a.undef_mask.any(-1, keepdims=True)
    out.undef_mask = undef_mask if b.undef_mask is None else undef_mask | b.undef_mask.any(-2, keepdims=True)
    return out


def _result_type(type_a, type_b, out_dtype):
    "Return the type of the product, by Triton's rules"
    if not (type_a.is_fp8() and type_b.is_fp8()):
        if type_a is not type_b:
            raise compile_error(
                f'the operands of tl.dot must have the same type; got {type_a} and {type_b}',
                'Convert one with .to(...).',
            )
        if type_a.name not in 'int8 float16 bfloat16 float32 float64'.split():
            raise compile_error(f'tl.dot does not support {type_a}', 'Convert to int8, fp8, fp16, bf16, fp32 or fp64.')
    if type_a.is_int():
        return _I32
    if out_dtype.name == 'bfloat16':
        raise compile_error(
            'tl.dot does not support out_dtype=tl.bfloat16', 'Use fp32, and convert the result with .to(tl.bfloat16).'
        )
    if type_a.name in ('float32', 'bfloat16'):
        return _F32
    return _F64 if type_a is _F64 else out_dtype


def _check_shapes(a, b):
    shape_a, shape_b = a.data.shape, b.data.shape
    if len(shape_a) != len(shape_b) or len(shape_a) not in (2, 3):
        raise compile_error(
            'the operands of tl.dot must both have two axes, or both three; got shapes '
            f'{list(shape_a)} and {list(shape_b)}'
        )
    if shape_a[-1] != shape_b[-2]:
        raise compile_error(
            f'the shapes {list(shape_a)} and {list(shape_b)} do not match in tl.dot: {shape_a[-1]} columns, but '
            f'{shape_b[-2]} rows'
        )
    min_k = 32 if a.dtype.size == 1 else 16
    if shape_a[-1] < min_k:
        raise compile_error(f'K must be at least {min_k} in tl.dot; got {shape_a[-1]}', 'Use larger blocks, or tl.sum.')


def _truncate_to_tf32(a):
    "Truncate fp32 to tf32, as tensor cores do: the last 13 bits become 0"
    return (np.ascontiguousarray(a).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _multiply(a, b, precision, result_type):
    "Return the product as an array"
    x, y = a.data, b.data
    if a.dtype.is_int():
        return np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(np.int64).astype(np.int32)
    if result_type is _F64:
        return np.matmul(x, y)
    if a.dtype is _F32 and precision == 'tf32':
        x, y = _truncate_to_tf32(x), _truncate_to_tf32(y)
    product = np.matmul(x.astype(np.float32, copy=False), y.astype(np.float32, copy=False))
    return product.astype(result_type.np, copy=False)
