"""The keys that the kernels order: their types, and tensors of them as rows of bits."""

from typing import NamedTuple

from ..common import check_tensor, dtype_name, import_torch, reject_gradient

UNSIGNED, SIGNED, FLOATING = range(3)  # as in order.cuh


class KeyType(NamedTuple):
    "The properties of a key type on which a kernel depends"

    bytes: int
    kind: int
    mantissa: int = 0  # bits, for floats


KEY_TYPES = {
    'bool': KeyType(1, UNSIGNED),
    **{f'uint{bits}': KeyType(bits // 8, UNSIGNED) for bits in (8, 16, 32, 64)},
    **{f'int{bits}': KeyType(bits // 8, SIGNED) for bits in (8, 16, 32, 64)},
    'float16': KeyType(2, FLOATING, 10),
    'bfloat16': KeyType(2, FLOATING, 7),
    'float32': KeyType(4, FLOATING, 23),
    'float64': KeyType(8, FLOATING, 52),
}
_INTEGERS = {1: 'uint8', 2: 'int16', 4: 'int32', 8: 'int64'}  # bytes -> dtype of the bits


def key_type(x) -> KeyType:
    "Return the `KeyType` of a tensor"
    return KEY_TYPES[dtype_name(x)]


def check_keys(op_name, x, name='x', dtypes=KEY_TYPES):
    "Raise `TypeError` or `ValueError` unless `x` is a tensor whose elements can be ordered; it may be strided"
    check_tensor(op_name, x.as_strided((0,), (1,)) if hasattr(x, 'data_ptr') else x, dtypes, name)
    reject_gradient(op_name, x)


def reject_gradients(op_name, *tensors):
    "Raise `ValueError` if a tensor requires a gradient: a call that is replayed from a table checks nothing else"
    for x in tensors:
        if getattr(x, 'requires_grad', False):
            reject_gradient(op_name, x)


def check_axis(op_name, x, axis) -> int:
    "Return the axis as an index from 0; raises `ValueError` if `x` does not have it"
    dims = max(1, x.dim())
    if isinstance(axis, bool) or not isinstance(axis, int) or not -dims <= axis < dims:
        raise ValueError(f'{op_name}: axis is {axis!r}; expected an integer from {-dims} to {dims - 1}')
    return axis % dims


def as_bits(x):
    "Reinterpret the bits of a contiguous tensor as integers of the same size, without a copy"
    return x.view(getattr(import_torch(), _INTEGERS[x.element_size()]))


def move_last(x, axis):
    "Return a contiguous tensor with this axis moved to the end"
    return (x.movedim(axis, -1) if x.dim() else x.reshape(1)).contiguous()


def move_back(rows, x, axis):
    "Return the result for `move_last(x, axis)` in the shape of `x`; its size along the axis may differ"
    return rows.movedim(-1, axis) if x.dim() else rows.reshape(())
