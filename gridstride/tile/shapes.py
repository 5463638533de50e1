"""The functions of `triton.language` that create and reshape blocks."""

import functools
import math

import numpy as np

from .block import block_of, broadcast as _broadcast, convert, with_undef, map_elements, combine_elements, tensor
from .run import compile_error
from .types import DTYPES, to_dtype

__all__ = [
    'arange',
    'full',
    'zeros',
    'zeros_like',
    'broadcast_to',
    'broadcast',
    'expand_dims',
    'unsqueeze',
    'squeeze',
    'reshape',
    'view',
    'ravel',
    'trans',
    'permute',
    'cat',
    'join',
    'split',
    'interleave',
    'flip',
    'gather',
]

_I32 = DTYPES['int32']
_MAX_NUMEL = 1 << 20  # TRITON_MAX_TENSOR_NUMEL


def _is_power_of_2(n):
    return n > 0 and n & (n - 1) == 0


_EMPTY_BLOCK_HINT = (
    'A quotient such as BLOCK//G is 0 if G is greater than BLOCK. Compute an index per element instead, such as c//G.'
)


@functools.lru_cache(256)
def _arange(start, end):
    values = np.arange(start, end, dtype=np.int32)
    values.flags.writeable = False
    return values


def arange(start, end):
    "Return the block start, start+1, ..., end-1; its size must be a power of 2"
    if isinstance(start, float) or isinstance(end, float):
        raise compile_error(f'the bounds of tl.arange must be integers; got {start} and {end}', 'Divide with //.')
    if not (isinstance(start, int) and isinstance(end, int)):
        raise compile_error('the bounds of tl.arange must be compile-time constants',
                     'Pass numbers or tl.constexpr arguments.')  # fmt: skip
    if end < start:
        raise compile_error(f'the end of tl.arange({start}, {end}) is less than its start')
    if end == start:
        raise compile_error(f'tl.arange({start}, {end}) has no element', _EMPTY_BLOCK_HINT)
    if not _is_power_of_2(end - start):
        raise compile_error(f'tl.arange({start}, {end}) has {end - start} elements, which is not a power of 2',
                     'Round up to triton.next_power_of_2(n), and mask the surplus lanes.')  # fmt: skip
    return tensor(_arange(int(start), int(end)), _I32)


def _check_shape(shape):
    "Return the shape of a block as a tuple; raises `NotCompiled` unless its sizes are constant powers of 2"
    if len(shape) == 1 and not isinstance(shape[0], (int, tensor)):
        shape = shape[0]
    shape = (shape,) if isinstance(shape, (int, tensor)) else tuple(shape)
    for size in shape:
        if not isinstance(size, int):
            raise compile_error(
                'the shape of a block must be a compile-time constant', 'Pass sizes as tl.constexpr arguments.'
            )
        if size < 1:
            raise compile_error(f'a block of shape {list(map(int, shape))} has no element', _EMPTY_BLOCK_HINT)
        if not _is_power_of_2(size):
            raise compile_error(f'the sizes of a block must be powers of 2; got shape {list(map(int, shape))}',
                         'Round up to the next power of 2, and mask the surplus lanes.')  # fmt: skip
    if math.prod(shape) > _MAX_NUMEL:
        raise compile_error(f'a block must have at most {_MAX_NUMEL} elements; got {math.prod(shape)}')
    return shape


def full(shape, value, dtype):
    "Return a block filled with one value"
    dtype = to_dtype(dtype)
    value = convert(block_of(value), dtype)
    return with_undef(np.full(_check_shape((shape,)), value.data, dtype.np), dtype, value)


def zeros(shape, dtype):
    "Return a block of zeros"
    return full(shape, 0, dtype)


def zeros_like(input):
    "Return a block of zeros with the shape and type of another block"
    return tensor(np.zeros(input.data.shape, input.dtype.np)[()], input.dtype)


# Shapes


def broadcast_to(input, *shape):
    "Broadcast a block to a shape"
    shape, x = _check_shape(shape), block_of(input)
    try:
        return map_elements(x, lambda a: np.broadcast_to(a, shape))
    except ValueError:
        raise compile_error(
            f'a block of shape {list(x.data.shape)} cannot be broadcast to {list(map(int, shape))}'
        ) from None


def broadcast(input, other):
    "Broadcast two blocks to their common shape"
    x, y = block_of(input), block_of(other)
    shape = _broadcast(x, y)[0].shape
    return tuple(map_elements(block, lambda a: np.broadcast_to(a, shape)) for block in (x, y))


def expand_dims(input, axis):
    "Insert one or several axes of size 1"
    x = block_of(input)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return map_elements(x, lambda a: np.expand_dims(np.asarray(a), axes))


def unsqueeze(x, dim):
    "Insert an axis of size 1"
    return expand_dims(x, dim)


def squeeze(x, dim):
    "Remove an axis of size 1"
    return map_elements(x, lambda a: np.squeeze(a, dim))


def reshape(input, *shape, can_reorder=False):
    "Reshape a block"
    shape, x = _check_shape(shape), block_of(input)
    if math.prod(shape) != x.data.size:
        raise compile_error(f'a block of {x.data.size} elements cannot be reshaped to {list(map(int, shape))}')
    return map_elements(x, lambda a: np.reshape(a, shape))


def view(input, *shape):
    "Reshape a block"
    return reshape(input, *shape)


def ravel(x, can_reorder=False):
    "Flatten a block"
    return map_elements(x, lambda a: np.reshape(a, -1))


def trans(input, *dims):
    "Transpose: swap the last two axes, or permute all of them to the order `dims`"
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if not dims:
        if input.data.ndim < 2:
            raise compile_error(f'tl.trans requires two axes or more; got a block of shape {list(input.data.shape)}')
        return map_elements(input, lambda a: np.swapaxes(a, -1, -2))
    return permute(input, *dims)


def permute(input, *dims):
    "Permute the axes"
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if sorted(dims) != list(range(input.data.ndim)):
        raise compile_error(
            f'tl.permute requires each axis once; got axes {list(dims)} for a block of shape {list(input.data.shape)}'
        )
    return map_elements(input, lambda a: np.transpose(a, tuple(map(int, dims))))


def cat(input, other, can_reorder=False, dim=0):
    "Concatenate two blocks; with `can_reorder` Triton may mix their elements"
    return combine_elements(input, other, lambda a, b: np.concatenate([a, b], dim))


def join(a, b):
    "Stack two blocks along a new last axis"
    x, y = broadcast(block_of(a), block_of(b))
    if x.dtype is not y.dtype:
        raise compile_error(f'the blocks of tl.join must have the same type; got {x.dtype} and {y.dtype}')
    return combine_elements(x, y, lambda a, b: np.stack([a, b], -1))


def split(a):
    "Split a block into two along its last axis, which must have size 2"
    if not a.data.ndim or a.data.shape[-1] != 2:
        raise compile_error(f'the last axis of the block of tl.split must have size 2; got shape {list(a.data.shape)}')
    return map_elements(a, lambda pairs: pairs[..., 0][()]), map_elements(a, lambda pairs: pairs[..., 1][()])


def interleave(a, b):
    "Interleave the elements of two blocks along the last axis"
    pairs = join(a, b)
    return map_elements(pairs, lambda data: data.reshape(*data.shape[:-2], -1))


def flip(x, dim=None):
    "Reverse the elements along an axis"
    axis = axis_of(x, -1 if dim is None else dim, 'tl.flip')
    return map_elements(x, lambda a: np.flip(a, axis))


def gather(src, index, axis):
    "Gather elements of a block by their indices along an axis"
    indices = index.data.astype(np.int64)
    result = map_elements(src, lambda a: np.take_along_axis(a, indices, axis))
    return with_undef(result.data, result.dtype, result, index)


def axis_of(x, axis, name):
    "Return the axis as a non-negative integer; None means all axes. Messages call the function `name`"
    if axis is None:
        return None
    if not -x.data.ndim <= axis < x.data.ndim:
        raise compile_error(f'{name}: a block of shape {list(x.data.shape)} has no axis {axis}')
    return int(axis) % x.data.ndim
