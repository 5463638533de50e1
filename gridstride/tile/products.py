"""`tl.dot` as tensor cores compute it: operands rounded to what they take, sums in fp32."""

import numpy as np

from .block import block_of, tensor
from .run import compile_error
from .types import DTYPES, to_dtype

__all__ = ['dot']

_PRECISIONS = ('tf32', 'tf32x3', 'ieee', 'bf16x3', 'bf16x6')
_F32, _F64, _I32 = DTYPES['float32'], DTYPES['float64'], DTYPES['int32']


def dot(a, b, acc, precision, allow_tf32, out_dtype):
    "Compute a @ b + acc of blocks (M, K) and (K, N), or batches of them with three axes"
    a, b, out = block_of(a), block_of(b), to_dtype(out_dtype)
    if precision is not None and allow_tf32 is not None:
        raise compile_error('tl.dot with both input_precision and allow_tf32', 'Pass input_precision only.')
    if precision is None:
        precision = 'tf32' if allow_tf32 in (None, True) else 'ieee'
    if precision.lower() not in _PRECISIONS:
        raise compile_error(f"input_precision is {precision!r}; it must be {', '.join(_PRECISIONS)}")
    result = _result_type(a.dtype, b.dtype, out)
    _check_shapes(a, b)
    product = _multiply(a, b, precision.lower(), result)
    if acc is not None:
        acc = block_of(acc)
        if acc.data.shape != product.shape or acc.dtype is not result:
            raise compile_error(
                f'acc is {acc.type}, but the product is {tensor(product, result).type}',
                'Both must have the same type and shape.',
            )
        if acc.dtype is not out:
            raise compile_error(f'acc is {acc.type}, but out_dtype is {out}', f'Pass out_dtype=tl.{acc.dtype.name}.')
        product = product + acc.data
    out = tensor(product.astype(result.np, copy=False), result)
    return _propagate_undef(out, a, b, acc)


def _propagate_undef(out, a, b, acc):
    "Propagate undefined elements: a product is defined if its row of `a`, its column of `b` and `acc` are"
    if a.undef_mask is None and b.undef_mask is None and (acc is None or acc.undef_mask is None):
        return out
    undef_mask = np.zeros(out.data.shape, bool) if acc is None or acc.undef_mask is None else acc.undef_mask
    if a.undef_mask is not None:
        undef_mask = undef_mask | a.undef_mask.any(-1, keepdims=True)
    out.undef_mask = undef_mask if b.undef_mask is None else undef_mask | b.undef_mask.any(-2, keepdims=True)
    return out


def _result_type(s, t, out):
    "Return the type of the product, by Triton's rules"
    if not (s.is_fp8() and t.is_fp8()):
        if s is not t:
            raise compile_error(f'tl.dot of {s} and {t}', 'Both must have the same type: convert with .to(...).')
        if s.name not in 'int8 float16 bfloat16 float32 float64'.split():
            raise compile_error(f'tl.dot of {s}', 'It takes int8, fp8, fp16, bf16, fp32 and fp64.')
    if s.is_int():
        return _I32
    if out.name == 'bfloat16':
        raise compile_error(
            'tl.dot with out_dtype=tl.bfloat16', 'Use fp32, and convert the result with .to(tl.bfloat16).'
        )
    if s.name in ('float32', 'bfloat16'):
        return _F32
    return _F64 if s is _F64 else out


def _check_shapes(a, b):
    x, y = a.data.shape, b.data.shape
    if len(x) != len(y) or len(x) not in (2, 3):
        raise compile_error(
            f'tl.dot of blocks of shapes {list(x)} and {list(y)}', 'Both must have two axes, or both three.'
        )
    if x[-1] != y[-2]:
        raise compile_error(
            f'tl.dot of blocks of shapes {list(x)} and {list(y)}: {x[-1]} columns do not match {y[-2]} rows'
        )
    least = 32 if a.dtype.size == 1 else 16
    if x[-1] < least:
        raise compile_error(
            f'tl.dot over K = {x[-1]}; tensor cores need at least {least}', 'Use larger blocks, or tl.sum.'
        )


def _tf32(a):
    "Truncate fp32 to tf32 as tensor cores read it: the last 13 bits are dropped"
    return (np.ascontiguousarray(a).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _multiply(a, b, precision, result):
    x, y = a.data, b.data
    if a.dtype.is_int():
        return np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(np.int64).astype(np.int32)
    if result is _F64:
        return np.matmul(x, y)
    if a.dtype is _F32 and precision == 'tf32':
        x, y = _tf32(x), _tf32(y)
    product = np.matmul(x.astype(np.float32, copy=False), y.astype(np.float32, copy=False))
    return product.astype(result.np, copy=False)
