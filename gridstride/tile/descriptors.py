"""Block pointers and tensor descriptors, which access a block of an array by its offsets."""

from math import prod

import numpy as np

from . import memory
from .block import block_of, convert, map_elements, tensor
from .run import compile_error, current, finding, warn_of_undefined
from .types import DTYPES, block_type, const

__all__ = ['BlockPointer', 'Descriptor', 'from_host']

_I1, _I64 = DTYPES['int1'], DTYPES['int64']


def _to_ints(values, name):
    "Convert offsets or sizes, which are constants or scalars of the kernel, to Python integers"
    values = values if isinstance(values, (list, tuple)) else [values]
    blocks = [block_of(value) for value in values]
    if any(block.data.ndim or not block.dtype.is_int() for block in blocks):
        raise compile_error(f'{name} must be integers, one per axis')
    if any(block.undef_mask is not None for block in blocks):
        warn_of_undefined('undefined_address')
    return [int(block.data) for block in blocks]


class _StridedBlock:
    "A block of a strided array: computes pointers to its elements, and masks of the elements in bounds"

    def __init__(self, base, shape, strides, block_shape):
        base = block_of(base)
        if not base.dtype.is_ptr() or base.data.ndim:
            raise compile_error(f'base must be a pointer argument; got {base.type}')
        self.base = base
        self.element_type = base.dtype.element_ty
        self.shape, self.strides = _to_ints(shape, 'shape'), _to_ints(strides, 'strides')
        block_shape = block_shape if isinstance(block_shape, (list, tuple)) else [block_shape]
        if not all(isinstance(size, int) for size in block_shape):
            raise compile_error(
                'block_shape must be known at compile time', 'Pass its sizes as tl.constexpr arguments.'
            )
        self.block_shape = [const(int(size)) for size in block_shape]
        if invalid_sizes := [size for size in self.block_shape if size <= 0 or size & (size - 1)]:
            raise compile_error(f'the sizes in block_shape must be powers of 2; got {invalid_sizes[0]}')
        if not len(self.shape) == len(self.strides) == len(self.block_shape):
            raise compile_error('shape, strides and block_shape must have the same length')

    dtype = property(lambda self: self.element_type)

    def offsets_and_masks(self, offsets):
        "Return (offsets of all elements of the block, one in-bounds mask per axis)"
        offset = np.int64(0)
        in_bounds = []
        for axis, (start, extent, stride, size) in enumerate(zip(offsets, self.shape, self.strides, self.block_shape)):
            indices = start + np.arange(size, dtype=np.int64)
            shape = [1] * len(offsets)
            shape[axis] = size
            offset = offset + (indices * stride).reshape(shape)
            in_bounds.append(((indices >= 0) & (indices < extent)).reshape(shape))
        return offset, in_bounds

    def pointers(self, offsets, checked_axes):
        "Return (pointers, mask) of the block at `offsets`; out of bounds along `checked_axes`, the mask is false"
        offset, in_bounds = self.offsets_and_masks(offsets)
        mask = np.ones([int(size) for size in self.block_shape], bool)
        for axis in checked_axes:
            mask &= in_bounds[axis]
        return self.base + tensor(offset, _I64), None if mask.all() else tensor(mask, _I1)

    def load_at(self, offsets, checked_axes, padding):
        "Load the block at `offsets`; masked-out elements are `padding`"
        pointers, mask = self.pointers(offsets, checked_axes)
        return memory.load(pointers, mask, None if mask is None else padding)

    def store_at(self, offsets, value, checked_axes):
        "Store `value` to the block at `offsets`"
        pointers, mask = self.pointers(offsets, checked_axes)
        memory.store(pointers, value, mask)


def _padding_value(dtype, option):
    "Return the value for elements out of bounds; None if it is undefined"
    if option not in ('', None, 'zero', 'nan'):
        raise compile_error(f"padding_option must be '', 'zero' or 'nan'; got {option!r}")
    if option == 'nan' and not dtype.is_floating():
        raise compile_error(f"padding_option must be 'zero' for {dtype}, which has no NaN; got 'nan'")
    return None if not option else 0 if option == 'zero' else float('nan')


class BlockPointer(_StridedBlock):
    "A block pointer, as made by `tl.make_block_ptr`"

    def __init__(self, base, shape, strides, offsets, block_shape, order):
        super().__init__(base, shape, strides, block_shape)
        self.offsets, self.order = _to_ints(offsets, 'offsets'), order if isinstance(order, (list, tuple)) else [order]
        if len(self.offsets) != len(self.shape) or sorted(self.order) != list(range(len(self.shape))):
            raise compile_error('offsets and order must have one value per axis; order is (1, 0) for row-major')

    type = property(lambda self: f'a pointer to {block_type(self.element_type, self.block_shape)}')

    def advance(self, offsets):
        "Return the block pointer, advanced by `offsets` elements along each axis"
        new_offsets = [a + b for a, b in zip(self.offsets, _to_ints(offsets, 'offsets'), strict=True)]
        return BlockPointer(self.base, self.shape, self.strides, new_offsets, self.block_shape, self.order)

    def _checked_axes(self, boundary_check):
        "Return the axes of `boundary_check`, an argument of `tl.load` and `tl.store`, as a tuple"
        axes = (boundary_check,) if isinstance(boundary_check, int) else tuple(boundary_check or ())
        if any(not 0 <= axis < len(self.shape) for axis in axes):
            raise compile_error(f'boundary_check must name axes from 0 to {len(self.shape) - 1}; got {axes}')
        return axes

    def load_block(self, mask, other, boundary_check, padding_option):
        "Implement `tl.load` of a block pointer"
        if mask is not None or other is not None:
            raise compile_error(
                'tl.load of a block pointer does not take mask or other',
                'Pass boundary_check with the axes to check, and padding_option, instead.',
            )
        padding = _padding_value(self.element_type, padding_option)
        return self.load_at(self.offsets, self._checked_axes(boundary_check), padding)

    def store_block(self, value, mask, boundary_check):
        "Implement `tl.store` to a block pointer"
        if mask is not None:
            raise compile_error(
                'tl.store to a block pointer does not take a mask',
                'Pass boundary_check with the axes to check instead.',
            )
        value = block_of(value)
        if value.data.ndim and (list(value.shape) != self.block_shape or value.dtype is not self.element_type):
            block = block_type(self.element_type, self.block_shape)
            raise compile_error(
                f'the value stored to the block pointer must be {block}; got {value.type}', 'Convert it with .to(...).'
            )
        self.store_at(self.offsets, value, self._checked_axes(boundary_check))


class Descriptor(_StridedBlock):
    "A tensor descriptor, made by `tl.make_tensor_descriptor` in a kernel or by `TensorDescriptor` on the host"

    def __init__(self, base, shape, strides, block_shape, padding='zero'):
        super().__init__(base, shape, strides, block_shape)
        self.padding = _padding_value(self.element_type, padding or 'zero')
        if not 1 <= len(self.shape) <= 5:
            raise compile_error(f'a descriptor must have 1 to 5 axes; got {len(self.shape)}')
        if self.strides[-1] != 1:
            raise compile_error(f'the last stride of a descriptor must be 1; got {self.strides[-1]}')
        if (row_bytes := self.block_shape[-1] * self.element_type.size) < 16:
            raise compile_error(f'the last axis of block_shape must span at least 16 bytes; got {row_bytes}')
        if invalid_strides := [stride for stride in self.strides[:-1] if stride * self.element_type.size % 16]:
            raise compile_error(
                'the strides of a descriptor must be multiples of 16 bytes; got '
                f'{invalid_strides[0] * self.element_type.size} bytes, {invalid_strides[0]} elements'
            )

    def _check_offsets(self, offsets, writes=True):
        "Return (offsets, axes to check); raise a finding if TMA cannot start at these offsets"
        offsets = _to_ints(offsets, 'offsets')
        if len(offsets) != len(self.shape):
            raise compile_error(f'a descriptor with {len(self.shape)} axes takes as many offsets; got {len(offsets)}')
        step = 16 // self.element_type.size
        if offsets[-1] % step and not current().is_allowed('box_misaligned'):
            operation = f'a {"store to" if writes else "load from"} a descriptor'
            raise finding('memcheck', 'box_misaligned', dict(operation=operation, at=offsets[-1], elements=step))
        for axis, offset in enumerate(offsets):
            if writes and offset < 0 and not current().is_allowed('box_before'):
                raise finding('memcheck', 'box_before', dict(at=offset, axis=axis))
        return offsets, range(len(offsets))

    def load(self, offsets):
        "Load the block at `offsets`; elements out of bounds are `self.padding`, 0 or NaN"
        return self.load_at(*self._check_offsets(offsets, writes=False), self.padding)

    def store(self, offsets, value):
        "Store `value` to the block at `offsets`, where it is in bounds"
        value = self._check_value(value)
        offsets, checked_axes = self._check_offsets(offsets)
        self.store_at(offsets, value, checked_axes)

    def _check_value(self, value):
        value = block_of(value)
        if list(value.shape) != self.block_shape and prod(value.shape) != prod(self.block_shape):
            raise compile_error(
                f'the stored block must have the shape {self.block_shape}; got {list(map(int, value.shape))}'
            )
        return convert(map_elements(value, lambda a: np.reshape(a, self.block_shape)), self.element_type)

    def _update(self, name, offsets, value):
        "Update the elements of the block at `offsets` by the atomic operation `name`"
        value = self._check_value(value)
        pointers, mask = self.pointers(*self._check_offsets(offsets))
        memory.atomic(name, pointers, value, mask, sem='relaxed')

    def gather(self, x_offsets, y_offset):
        "Load rows `x_offsets`, from column `y_offset` on"
        pointers, mask = self._row_pointers(x_offsets, y_offset)
        return memory.load(pointers, mask, self.padding)

    def scatter(self, value, x_offsets, y_offset):
        "Store to rows `x_offsets`, from column `y_offset` on"
        pointers, mask = self._row_pointers(x_offsets, y_offset)
        memory.store(pointers, value, mask)

    def _row_pointers(self, x_offsets, y_offset):
        "Return (pointers, mask of the elements in bounds) of the rows `x_offsets`, from column `y_offset` on"
        rows = block_of(x_offsets)
        if rows.undef_mask is not None:
            warn_of_undefined('undefined_address')
        rows = rows.data.astype(np.int64)[:, None]
        columns = _to_ints(y_offset, 'y_offset')[0] + np.arange(self.block_shape[-1], dtype=np.int64)[None, :]
        mask = (rows >= 0) & (rows < self.shape[0]) & (columns >= 0) & (columns < self.shape[1])
        return self.base + tensor(rows * self.strides[0] + columns, _I64), tensor(mask, _I1)


for _name in 'add min max and or xor'.split():

    def _atomic(self, offsets, value, _name=_name):
        self._update(_name, offsets, value)

    _atomic.__name__ = f'atomic_{_name}'
    _atomic.__doc__ = f'Update each element of the block at `offsets` by an atomic {_name}'
    setattr(Descriptor, _atomic.__name__, _atomic)


def from_host(descriptor, name, regions):
    "Convert a `TensorDescriptor` of the host to a kernel argument"
    base = memory.make_pointer(descriptor.base, name, regions)
    sizes = list(descriptor.shape), list(descriptor.strides), list(descriptor.block_shape)
    return Descriptor(base, *sizes, getattr(descriptor, 'padding', 'zero'))
