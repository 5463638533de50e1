"""The reductions, scans, sorts and histograms of `triton.language`."""

import numpy as np

from .block import block_of, convert, propagate_undef, with_undef, map_elements, combine_elements, tensor
from .elements import exp
from .run import compile_error
from .shapes import axis_of, flip, ravel
from .types import DTYPES, to_dtype

__all__ = [
    'sum',
    'xor_sum',
    'reduce_or',
    'max',
    'min',
    'argmax',
    'argmin',
    'reduce',
    'associative_scan',
    'cumsum',
    'cumprod',
    'sort',
    'topk',
    'histogram',
    'softmax',
]

_I32, _U32, _F32 = (DTYPES[name] for name in ('int32', 'uint32', 'float32'))


def _any_along(undef_mask, axis, keep_dims):
    return np.any(undef_mask, axis=axis, keepdims=keep_dims)


def _reduce(x, reduce, axis, keep_dims, name):
    "Reduce a block with `reduce`, a NumPy function; messages call the operation `name`"
    x = block_of(x)
    if not x.data.ndim:
        raise compile_error(f'{name} requires a block; got a scalar')
    axis = axis_of(x, axis, name)
    result = reduce(x.data, axis=axis)
    if keep_dims:
        result = np.reshape(
            result, [1 if axis in (None, axis_number) else size for axis_number, size in enumerate(x.data.shape)]
        )
    return propagate_undef(
        tensor(np.asarray(result, x.dtype.np)[()], x.dtype), x, lambda a: _any_along(a, axis, keep_dims)
    )


def sum(input, axis=None, keep_dims=False, dtype=None):
    "Sum along an axis, or all elements; integers of less than 32 bits are summed in 32 bits"
    x = block_of(input)
    result_type = to_dtype(dtype) if dtype is not None else x.dtype
    if dtype is None and result_type.is_int() and result_type.int_bitwidth < 32:
        result_type = _U32 if result_type.is_int_unsigned() else _I32
    x = convert(x, result_type)
    f = _sum_pairwise if result_type.name == 'bfloat16' else np.add.reduce
    return _reduce(x, f, axis, keep_dims, 'tl.sum')


def _sum_pairwise(elements, axis):
    "Sum in a tree, as a GPU does, with each step rounded: a sequential sum in bf16 soon stops growing"
    elements = elements.reshape(-1) if axis is None else np.moveaxis(elements, axis, 0)
    while len(elements) > 1:
        elements = elements[: len(elements) // 2] + elements[len(elements) // 2 :]
    return elements[0]


def xor_sum(input, axis=None, keep_dims=False):
    "Compute the exclusive or along an axis"
    return _reduce(input, np.bitwise_xor.reduce, axis, keep_dims, 'tl.xor_sum')


def reduce_or(input, axis, keep_dims=False):
    "Compute the bitwise or along an axis"
    return _reduce(input, np.bitwise_or.reduce, axis, keep_dims, 'tl.reduce_or')


def _widen_to_32_bits(x):
    "Widen narrow elements to 32 bits, as Triton's max and min do"
    if x.dtype.primitive_bitwidth >= 32:
        return x
    return convert(x, _F32 if x.dtype.is_floating() else _I32)


def _extreme(input, axis, return_indices, tie_break_left, keep_dims, reduce, arg_function, name):
    "Compute `max` or `min`, with its index if `return_indices`"
    x = _widen_to_32_bits(block_of(input))
    extreme = _reduce(x, reduce, axis, keep_dims, name)
    if not return_indices:
        return extreme
    return extreme, _extreme_index(x, axis, tie_break_left, keep_dims, arg_function, name)


def _extreme_index(x, axis, tie_break_left, keep_dims, arg_function, name):
    "Return the index of the largest or smallest element, which is never a NaN"
    axis = axis_of(x, axis, name)
    values_without_nan = (
        np.where(np.isnan(x.data), -np.inf if arg_function is np.argmax else np.inf, x.data)
        if x.dtype.rank == 2
        else x.data
    )
    if tie_break_left or axis is None:
        indices = arg_function(values_without_nan, axis=axis)
    else:
        indices = values_without_nan.shape[axis] - 1 - arg_function(np.flip(values_without_nan, axis), axis=axis)
    if keep_dims:
        indices = np.reshape(
            indices, [1 if axis in (None, axis_number) else size for axis_number, size in enumerate(x.data.shape)]
        )
    return propagate_undef(tensor(np.asarray(indices, np.int32)[()], _I32), x, lambda a: _any_along(a, axis, keep_dims))


def max(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    "Return the largest element along an axis, or of all; with `return_indices` also its index"
    return _extreme(input, axis, return_indices, return_indices_tie_break_left, keep_dims, np.fmax.reduce, np.argmax,
                     'tl.max')  # fmt: skip


def min(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    "Return the smallest element along an axis, or of all; with `return_indices` also its index"
    return _extreme(input, axis, return_indices, return_indices_tie_break_left, keep_dims, np.fmin.reduce, np.argmin,
                     'tl.min')  # fmt: skip


def argmax(input, axis, tie_break_left=True, keep_dims=False):
    "Return the index of the largest element along an axis"
    return max(input, axis, True, tie_break_left, keep_dims)[1]


def argmin(input, axis, tie_break_left=True, keep_dims=False):
    "Return the index of the smallest element along an axis"
    return min(input, axis, True, tie_break_left, keep_dims)[1]


def _as_tuple(input):
    return (input,) if type(input) is tensor else tuple(input)


def _combine(combine, a, b):
    "Apply `combine` to two tuples of values; returns a tuple"
    return _as_tuple(combine(*a, *b))


def _slice(values, axis, bounds):
    "Return a slice of each value along an axis"
    index = (slice(None),) * axis + (bounds,)
    return tuple(map_elements(value, lambda a: a[index]) for value in values)


def reduce(input, axis, combine_fn, keep_dims=False):
    "Reduce along an axis by a function of two elements (or of two tuples)"
    values = _as_tuple(input)
    if axis is None:
        values = tuple(ravel(value) for value in values)
        axis = 0
    axis = axis_of(values[0], axis, 'tl.reduce')
    size = values[0].data.shape[axis]
    while size > 1:
        size //= 2
        values = _combine(combine_fn, _slice(values, axis, slice(0, size)), _slice(values, axis, slice(size, 2 * size)))
    if not keep_dims:
        values = tuple(map_elements(value, lambda a: a[(slice(None),) * axis + (0,)][()]) for value in values)
    return values[0] if type(input) is tensor else values


def associative_scan(input, axis, combine_fn, reverse=False):
    "Compute an inclusive scan along an axis by an associative function"
    values = _as_tuple(input)
    axis = axis_of(values[0], axis, 'tl.associative_scan')
    if reverse:
        values = tuple(flip(value, axis) for value in values)
    size = values[0].data.shape[axis]
    step = 1
    while step < size:
        combined_values = _combine(
            combine_fn, _slice(values, axis, slice(0, size - step)), _slice(values, axis, slice(step, size))
        )
        unchanged_values = _slice(values, axis, slice(0, step))
        values = tuple(
            combine_elements(unchanged_value, combined_value, lambda x, y: np.concatenate([x, y], axis))
            for unchanged_value, combined_value in zip(unchanged_values, combined_values)
        )
        step *= 2
    if reverse:
        values = tuple(flip(value, axis) for value in values)
    return values[0] if type(input) is tensor else values


def _scan(input, axis, reverse, dtype, accumulate, name):
    "Scan a block with `accumulate`, a NumPy function; messages call the operation `name`"
    x = block_of(input)
    result_type = to_dtype(dtype) if dtype is not None else x.dtype
    if dtype is None and result_type.is_int() and result_type.int_bitwidth < 32:
        result_type = _U32 if result_type.is_int_unsigned() else _I32
    if dtype is None and result_type.name == 'bfloat16':
        result_type = _F32
    x, axis = convert(x, result_type), axis_of(x, axis, name)
    a = np.flip(x.data, axis) if reverse else x.data
    a = accumulate(a, axis=axis, dtype=result_type.np)
    return propagate_undef(
        tensor(np.flip(a, axis) if reverse else a, result_type),
        x,
        lambda undef_mask: _any_along(undef_mask, axis, True) & np.ones_like(undef_mask),
    )


def cumsum(input, axis=0, reverse=False, dtype=None):
    "Compute the inclusive prefix sum along an axis"
    return _scan(input, axis, reverse, dtype, np.add.accumulate, 'tl.cumsum')


def cumprod(input, axis=0, reverse=False):
    "Compute the inclusive prefix product along an axis"
    return _scan(input, axis, reverse, None, np.multiply.accumulate, 'tl.cumprod')


def sort(x, dim=None, descending=False):
    "Sort along the last axis"
    if dim not in (None, -1, x.data.ndim - 1):
        raise compile_error(f'tl.sort can only sort along the last axis; got axis {dim}')
    a = np.sort(x.data, -1)
    out = tensor(np.flip(a, -1) if descending else a, x.dtype)
    return propagate_undef(out, x, lambda mask: _any_along(mask, x.data.ndim - 1, True) & np.ones_like(mask))


def topk(x, k, dim=None):
    "Return the k largest elements along the last axis, in descending order"
    return map_elements(sort(x, dim, True), lambda a: a[..., : int(k)])


def histogram(input, num_bins, mask=None):
    "Count how often each of 0, 1, ..., num_bins-1 occurs in a block"
    if input.data.ndim != 1 or not input.dtype.is_int():
        raise compile_error(f'tl.histogram requires a block of integers with one axis; got {input.type}')
    is_counted = np.ones(input.data.shape, bool) if mask is None else np.broadcast_to(mask.data, input.data.shape)
    elements = input.data[is_counted].astype(np.int64)
    bins = np.bincount(elements[(elements >= 0) & (elements < num_bins)], minlength=num_bins).astype(np.int32)
    out = propagate_undef(
        tensor(bins, _I32), input, lambda undef_mask: np.full(bins.shape, (undef_mask & is_counted).any())
    )
    return out if mask is None or mask.undef_mask is None else with_undef(bins, _I32, out, _undefined_scalar(mask))


def _undefined_scalar(x):
    "Reduce a block to a scalar that is undefined if any lane of the block is"
    return propagate_undef(tensor(x.data.any(), x.dtype), x, np.any)


def softmax(x, dim=None, keep_dims=False, ieee_rounding=False):
    "Compute the softmax along an axis, by default the first"
    axis = 0 if dim is None else dim
    numerator = exp(x - max(x, axis, keep_dims=True))
    return numerator / sum(numerator, axis, keep_dims=True)
