"""The memory of a kernel's arrays, and its loads, stores and atomics through pointers, with their checks."""

import gc
import sys
from itertools import chain

import ml_dtypes
import numpy as np

from ..diagnostics.errors import WrongArgument
from ..support.array_memory import address, owner, strided_view, span_length, span, flat_storage
from .block import addresses, block_of, broadcast, convert, with_undef, tensor
from .run import current, finding, learner_frame, compile_error, warn_of_undefined
from .shadow import Shadow
from .types import DTYPES, dtype_of_numpy, pointer_type
from .unmasked_axis import BlockAccess, missing_mask_advice

__all__ = ['Region', 'make_pointer', 'load', 'store', 'atomic']

_I1 = DTYPES['int1']
# Types that torch cannot convert to NumPy: (a torch type of the same size, the NumPy type).
_TYPES_BY_BITS = dict(
    bfloat16=('int16', ml_dtypes.bfloat16), float8_e4m3fn=('uint8', ml_dtypes.float8_e4m3fn),
    float8_e5m2=('uint8', ml_dtypes.float8_e5m2), float8_e4m3fnuz=('uint8', ml_dtypes.float8_e4m3fnuz),
    float8_e5m2fnuz=('uint8', ml_dtypes.float8_e5m2fnuz),
    uint16=('int16', np.uint16), uint32=('int32', np.uint32), uint64=('int64', np.uint64),
)  # fmt: skip


class Region:
    """The memory of an array argument, as a flat array, with its shadow.

    Offsets count elements from the beginning of the memory. Element 0 of the array is at `origin`; the array extends
    over `num_elements` elements from `first_offset` on, including the elements between its rows."""

    def __init__(self, flat, name, shape, strides, origin=0):
        self.flat = flat
        self.name = name
        self.shape = shape
        self.strides = strides
        self.origin = origin
        self.size, self.itemsize = flat.size, flat.itemsize
        self.address = address(flat)
        self.shadow = None
        self.is_writable = flat.flags.writeable
        self.first_offset = origin + sum((n - 1) * stride for n, stride in zip(shape, strides) if stride < 0)
        self.num_elements = span_length(shape, strides)
        self.dtype = dtype_of_numpy(flat.dtype)

    def flat_index(self, offsets):
        "Convert offsets to row-major linear indices of the array"
        offsets, flat_index = offsets - self.origin, np.zeros(offsets.shape, np.int64)
        for axis in sorted(range(len(self.shape)), key=lambda a: -abs(self.strides[a])):
            stride = self.strides[axis]
            if stride and self.shape[axis] > 1:
                axis_index, offsets = np.divmod(offsets, stride)
                flat_index += axis_index * int(np.prod(self.shape[axis + 1 :]))
        return flat_index

    def view(self, flat):
        "Return the elements of `flat` that belong to the array; `flat` has one element per element of the memory"
        return strided_view(flat, self.origin, self.shape, self.strides)

    def index_of(self, offset):
        "Convert an offset to an index of the array; out of bounds, the index of the axis with the longest stride grows"
        offset = int(offset) - self.origin
        index = [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda a: -abs(self.strides[a])):
            stride = self.strides[axis]
            if stride and self.shape[axis] > 1:
                index[axis], offset = divmod(offset, stride)
        if offset and index:
            index[-1] += offset
        return tuple(index)


def _flat_memory(array, name):
    "Return (the flat memory of an array, the offset of its first element, its strides in elements)"
    if not isinstance(array, np.ndarray):
        return _flat_tensor_memory(array, name)
    if any(stride % array.itemsize for stride in array.strides):
        raise WrongArgument(f'{name}: its strides are not multiples of the element size; pass a copy')
    base = owner(array)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    if base.dtype == array.dtype and (base.flags.c_contiguous or base.flags.f_contiguous):
        flat = base.reshape(-1, order='A')
    else:
        flat = span(array)
    flat = np.asarray(flat)  # a subclass may have other operators
    return flat, (address(array) - address(flat)) // array.itemsize, strides


def _flat_tensor_memory(array, name):
    "Implement `_flat_memory` for a torch tensor; raises `WrongArgument` if kernels do not support it"
    if array.device.type != 'cpu':
        raise WrongArgument(f'{name} is on {array.device}: checked kernels run on the CPU; pass {name}.cpu()')
    array = array.detach()
    if array.layout is not sys.modules['torch'].strided:
        raise WrongArgument(f'{name} is sparse, not strided; pass {name}.to_dense()')
    if array.is_conj() or array.is_neg():
        raise WrongArgument(f'{name} is a lazily conjugated or negated view; pass {name}.resolve_conj().resolve_neg()')
    torch_type, numpy_type = _TYPES_BY_BITS.get(str(array.dtype).split('.')[-1], (None, None))
    flat = flat_storage(array)
    try:
        flat = (
            flat.view(getattr(sys.modules['torch'], torch_type)).numpy().view(numpy_type)
            if torch_type
            else flat.numpy()
        )
    except TypeError:
        raise WrongArgument(f'{name} has elements of {array.dtype}, for which Triton has no type') from None
    return flat, array.storage_offset(), tuple(array.stride())


def is_array(value):
    "Return whether `value` is a NumPy array or a torch tensor"
    return (
        isinstance(value, np.ndarray)
        or type(value).__module__.split('.')[0] == 'torch'
        and hasattr(value, 'as_strided')
    )


def make_pointer(array, name, regions):
    "Make a pointer to the first element of an array; arrays that overlap in memory share one shadow"
    flat, origin, strides = _flat_memory(array, name)
    try:
        element_type = dtype_of_numpy(flat.dtype)
    except KeyError:
        raise WrongArgument(f'{name} has elements of {flat.dtype}, for which Triton has no type') from None
    region = Region(flat, name, tuple(array.shape), strides, origin)
    region.is_writable = flat.flags.writeable and (not isinstance(array, np.ndarray) or array.flags.writeable)
    region.shadow = next((other.shadow for other in regions if other.address == region.address), None) or Shadow(region)
    region.shadow.mark_uninitialized(region)
    regions.append(region)
    return tensor(np.int64(origin), pointer_type(element_type), region)


def _resolve_region(pointers, mask, access):
    """Find the array that contains the addresses of pointers whose region is unknown, for example loaded pointers.

    Returns (region, byte offsets of all lanes, bytes per element), or None if no lane is active. If no array contains
    the first address, raises a finding, or returns None if the user allows it."""
    ctx = current()
    itemsize = pointers.dtype.element_ty.size
    active_addresses = pointers.data[mask] if mask is not None and pointers.data.ndim else pointers.data
    active_addresses = np.atleast_1d(active_addresses).reshape(-1)
    if not active_addresses.size:
        return None
    for region in chain(ctx.regions, _find_unpassed_tensors(ctx, int(active_addresses[0]))):
        first_address = region.address + region.first_offset * region.itemsize
        if first_address <= active_addresses[0] < first_address + region.num_elements * region.itemsize:
            return _reinterpret(region, pointers.dtype.element_ty), pointers.data - region.address, itemsize
    code = 'null_pointer' if active_addresses[0] < 4096 else 'foreign_pointer'
    if ctx.is_allowed(code):
        return None
    raise finding(
        'memcheck', code, dict(access=access, address=int(active_addresses[0])), _lane_index(pointers.data, mask, 0)
    )


def _find_unpassed_tensors(ctx, address):
    "Yield the regions of torch tensors that contain an address, but are not arguments of the launch"
    for generation in _GENERATIONS:
        if generation not in ctx.unpassed_tensors:
            ctx.unpassed_tensors[generation] = list(_live_tensors(generation))
        for first_byte, end_byte, candidate in ctx.unpassed_tensors[generation]:
            if first_byte <= address < end_byte:
                make_pointer(candidate, 'a tensor known by its address', ctx.regions)
                yield ctx.regions[-1]


# Generations of Python's garbage collector to search, None for all objects: searching the young objects is fast,
# searching all objects takes 0.1 s.
_GENERATIONS = 0, 1, None


def _live_tensors(generation):
    "Yield (first byte, end byte, tensor) of each live CPU tensor in a generation of the garbage collector"
    torch = sys.modules.get('torch')
    tensor_types = (torch.Tensor, torch.nn.Parameter) if torch else ()
    for candidate in gc.get_objects(generation) if torch else ():
        if (
            type(candidate) in tensor_types
            and candidate.device.type == 'cpu'
            and candidate.layout is torch.strided
            and candidate.numel()
        ):
            storage = candidate.untyped_storage()
            yield storage.data_ptr(), storage.data_ptr() + storage.nbytes(), candidate


def _reinterpret(region, element_type):
    "Reinterpret the elements of a region as another type"
    if region.dtype is element_type:
        return region
    raw_bytes = region.flat.view(np.uint8)
    num_bytes = raw_bytes.size // element_type.size * element_type.size
    result = Region(raw_bytes[:num_bytes].view(element_type.np), region.name, (num_bytes // element_type.size,), (1,))
    result.shadow, result.is_writable = region.shadow, region.is_writable
    result.first_offset, result.num_elements = (
        num_bytes * region.itemsize // element_type.size for num_bytes in (region.first_offset, region.num_elements)
    )
    return result


def _lane_index(offsets, mask, active_position):
    "Return the index in the block of an active lane; `active_position` counts the active lanes"
    if not offsets.ndim:
        return ()
    lanes = np.flatnonzero(mask) if mask is not None else np.arange(offsets.size)
    return tuple(map(int, np.unravel_index(lanes[active_position], offsets.shape)))


def _warn_if_undefined(undef_mask, mask, code):
    "Warn with the code `code` if an active lane is undefined"
    if undef_mask is not None and (undef_mask if mask is None else undef_mask & mask).any():
        warn_of_undefined(code)


def _locate(pointers, mask, user_mask, access):
    """Return (region, offsets of the active lanes, their mask); raises a finding if one of them is out of bounds.

    If the user allows the finding, the returned mask lacks the lanes that are out of bounds; the region is None if no
    lane remains. `user_mask` is the mask that the kernel passed, and `access` is 'read', 'write' or 'atomic'."""
    region, offsets, all_active = pointers.region, pointers.data, mask
    _warn_if_undefined(pointers.undef_mask, mask, 'undefined_address')
    if region is not None and region.dtype is not pointers.dtype.element_ty:
        pointers = tensor(addresses(pointers), pointers.dtype)
        region = None
    if region is None:
        resolved_pointers = _resolve_region(pointers, mask, access)
        if resolved_pointers is None:
            return None, np.empty(0, np.int64), np.zeros(pointers.data.shape, bool)
        region, offsets, itemsize = resolved_pointers
        if np.any(misaligned := _of_active_lanes(offsets, mask) % itemsize != 0):
            if not current().is_allowed('misaligned_pointer'):
                fields = dict(access=access, array=region.name, size=itemsize)
                raise finding('memcheck', 'misaligned_pointer', fields, _lane_index(pointers.data, mask, 0))
            mask = _without_lanes(offsets.shape, mask, misaligned)
        offsets = offsets // itemsize
    active_offsets = _of_active_lanes(offsets, mask)
    relative_offsets = active_offsets - region.first_offset if region.first_offset else active_offsets
    if active_offsets.size and relative_offsets.view(np.uint64).max() >= region.num_elements:
        skipped = _report_out_of_bounds(region, active_offsets, offsets, mask, user_mask is not None, access)
        if skipped is not None:
            mask = _without_lanes(offsets.shape, mask, skipped)
            active_offsets = active_offsets[~skipped]
    return region if active_offsets.size or mask is all_active else None, active_offsets, mask


def _of_active_lanes(values, mask):
    "Return the values of the active lanes, as an array of one axis"
    if not values.ndim:
        return values.reshape(1) if mask is None or mask else values.reshape(1)[:0]
    return values.reshape(-1) if mask is None else values[mask]


def _without_lanes(shape, mask, removed):
    "Return a mask without some of its lanes; `removed` has one element per active lane"
    result = np.ones(shape, bool) if mask is None else np.array(np.broadcast_to(mask, shape))
    result[result] = ~removed
    return result


def _report_out_of_bounds(region, active_offsets, offsets, mask, has_mask, access):
    """Report the first lane out of bounds, unless memcheck is disabled and the memory contains the elements.

    If the user allows the finding, return, per active lane, whether it is out of bounds; else None."""
    if not current().memcheck and active_offsets.min() >= 0 and active_offsets.max() < region.size:
        return None  # an element of another array in the same memory
    if not current().memcheck:
        problem = f'out-of-bounds {access} of {region.name}, outside the memory that contains it'
        raise compile_error(problem, 'Enable memcheck to see the element and the mask.')
    is_before = active_offsets < region.first_offset
    is_bad = reported = is_before | (active_offsets >= region.first_offset + region.num_elements)
    past_end_code = 'outside_masked' if has_mask else 'outside_program' if offsets.ndim else 'outside_single'
    expanded_code = any(not stride and n > 1 for stride, n in zip(region.strides, region.shape)) and 'outside_expanded'
    for code, has_code in (('outside_before', is_before), (expanded_code or past_end_code, ~is_before)):
        if current().is_allowed(code):
            reported = reported & ~has_code
    bad_lanes = np.flatnonzero(reported)
    if not bad_lanes.size:
        return is_bad
    lane = _lane_index(offsets, mask, bad_lanes[0])
    num_others = bad_lanes.size - 1
    others_text = (
        f'; {num_others} more lane{"s are" if num_others > 1 else " is"} out of bounds, too' if num_others else ''
    )
    offset = int(active_offsets[bad_lanes[0]])
    code = 'outside_before' if offset < region.first_offset else expanded_code or past_end_code
    fields = dict(access=access, array=region.name, index=region.index_of(offset), shape=region.shape, more=others_text)
    if expanded_code and code == expanded_code:
        fields.update(count=region.num_elements)
    elif code == past_end_code:
        fields.update(_advice(region, offsets, lane))
    raise finding('memcheck', code, fields, lane)


def _advice(region, offsets, *lanes):
    "Return the field `advice` if one of the lanes is past the end of a row of the array, else no field"
    for lane in lanes:
        if advice := missing_mask_advice(region, offsets, lane, learner_frame().f_lineno):
            return dict(advice=advice)
    return {}


def _require_pointer(value, function):
    "Return the first argument of a function as a value; raises `NotCompiled` unless it is a pointer"
    value = value if type(value) is tensor else block_of(value)
    if not value.dtype.is_ptr():
        raise compile_error(
            f'the first argument of {function} must be a pointer; got {value.type}',
            'Pass an array argument plus offsets.',
        )
    return value


def _broadcast_mask(pointers, mask):
    "Broadcast a pointer and its mask; the mask is None if all lanes are active"
    if mask is None:
        return pointers, None
    mask_block = mask if type(mask) is tensor else block_of(mask)
    if mask_block.dtype is not _I1:
        mask_block = convert(mask_block, _I1)
    if pointers.data.ndim == 0:
        if mask_block.data.ndim:
            shape = list(mask_block.data.shape)
            raise compile_error(
                f'the mask has shape {shape}, but the pointer is a single address', 'Add offsets: x + tl.arange(...).'
            )
        _warn_if_undefined(mask_block.undef_mask, None, 'undefined_decision')
        return pointers, None if mask_block.data else np.False_
    if mask_block.data.shape != pointers.data.shape:
        _warn_if_undefined(mask_block.undef_mask, None, 'undefined_decision')
        data, mask_block = broadcast(pointers, mask_block)
        pointers = with_undef(data, pointers.dtype, pointers, region=pointers.region)
    else:
        _warn_if_undefined(mask_block.undef_mask, None, 'undefined_decision')
        mask_block = mask_block.data
    return pointers, None if mask_block.all() else mask_block


def load(pointers, mask=None, other=None, volatile=False):
    "Load elements through pointers; lanes whose mask is false get `other`, or an undefined value without it"
    pointers = _require_pointer(pointers, 'tl.load')
    element_type = pointers.dtype.element_ty
    if other is not None and mask is None:
        raise compile_error('tl.load with `other` requires `mask`', 'Pass a mask: its false lanes get `other`.')
    pointers, unmasked = _broadcast_mask(pointers, mask)
    active = unmasked
    ctx, region, active_offsets = current(), None, None
    if unmasked is None or unmasked.ndim:
        region, active_offsets, active = _locate(pointers, unmasked, mask, 'read')
    if region is not None:
        _report_access(ctx, region, active_offsets, 'read', pointers, active)
    if active is None:
        values = region.flat[active_offsets]
        if volatile:
            ctx.on_poll(values)
        return tensor(values.reshape(pointers.data.shape) if pointers.data.ndim else values[0], element_type)
    result = _masked_out_values(other, element_type, pointers.data.shape)
    if region is not None:
        result[active] = region.flat[active_offsets]
    if active is not unmasked:
        result[~active if unmasked is None else unmasked & ~active] = 0
    values = tensor(result[()], element_type)
    if unmasked is None:
        return values
    if other is None and ctx.initcheck:
        values.undef_mask = np.broadcast_to(~unmasked, pointers.data.shape)
        ctx.masked_load_line = ctx.masked_load_line or learner_frame().f_lineno
    elif type(other) is tensor and other.undef_mask is not None:
        values.undef_mask = np.broadcast_to(other.undef_mask, pointers.data.shape) & ~unmasked
    return values


def _masked_out_values(other, element_type, shape):
    "Return the values of masked-out lanes; without `other` they are undefined, and 0 as on NVIDIA's GPUs"
    if other is None:
        return np.zeros(shape, element_type.np)
    other = block_of(other)
    if element_type.is_fp8() and other.dtype.is_int():
        raise compile_error(
            f'`other` must be a float for pointers to {element_type}; got {other.dtype}', 'Pass a float: other=0.0.'
        )
    other = convert(other, element_type).data
    try:
        return np.array(np.broadcast_to(other, shape))
    except ValueError:
        raise compile_error(
            f'`other` of shape {list(other.shape)} cannot be broadcast to pointers of shape {list(shape)}'
        ) from None


def store(pointers, value, mask=None):
    "Store elements through pointers, in the lanes whose mask is true"
    pointers = _require_pointer(pointers, 'tl.store')
    value = convert(block_of(value), pointers.dtype.element_ty)
    value, undef_mask = value.data, value.undef_mask
    if value.ndim and not pointers.data.ndim:
        raise compile_error(
            'a block cannot be stored through a single pointer', 'Add offsets to the pointer: out + tl.arange(...).'
        )
    shape = pointers.data.shape
    pointers, active = _broadcast_mask(pointers, mask)
    if value.ndim and value.shape != shape:
        _check_value_shape(value, shape)
    if pointers.data.shape != shape:
        raise compile_error(
            f'the mask, of shape {list(pointers.data.shape)}, must not have more elements than the pointers, '
            f'of shape {list(shape)}'
        )
    if active is not None and not active.ndim:
        return
    # First check the bounds, because lanes out of bounds may be the cause of the undefined values
    region, active_offsets, active = _locate(pointers, active, mask, 'write')
    _warn_if_undefined(
        undef_mask if undef_mask is None else np.broadcast_to(undef_mask, shape), active, 'undefined_stored'
    )
    if region is None:
        return
    if not region.is_writable:
        raise compile_error(
            f'{region.name} cannot be written, because it is read-only on the host',
            'Pass a writable array, such as a copy.',
        )
    if value.ndim:
        value = value if value.shape == shape else np.broadcast_to(value, shape)
        value = value.reshape(-1) if active is None else value[active]
    ctx = current()
    _report_access(ctx, region, active_offsets, 'written', pointers, active, value)
    region.flat[active_offsets] = value
    if ctx.racecheck and active_offsets.size > 1 and value.ndim and not ctx.is_allowed('lanes'):
        _check_lanes_agree(region, active_offsets, value, pointers, active)


def _check_value_shape(value, shape):
    "Raise `NotCompiled` unless a value can be broadcast to the shape of the pointers"
    try:
        np.broadcast_to(value, shape)
    except ValueError:
        raise compile_error(
            f'a block of shape {list(value.shape)} cannot be stored through pointers of shape {list(shape)}',
            'Both must have the same shape.',
        ) from None


def _check_lanes_agree(region, active_offsets, value, pointers, active):
    "Raise a finding if two lanes of a store have written different values to one element"
    size = f'u{region.itemsize}'
    overwritten = np.flatnonzero(region.flat[active_offsets].view(size) != np.ascontiguousarray(value).view(size))
    if overwritten.size:
        offset = active_offsets[overwritten[0]]
        last_position = np.flatnonzero(active_offsets == offset)[-1]
        first_lane, last_lane = (
            _lane_index(pointers.data, active, position) for position in (overwritten[0], last_position)
        )
        fields = dict(array=region.name, index=region.index_of(offset), shape=region.shape, lane=last_lane)
        if pointers.region is region:
            fields.update(_advice(region, pointers.data, first_lane, last_lane))
        raise finding('racecheck', 'lanes', fields, first_lane)


def _report_access(ctx, region, active_offsets, access, pointers, active, value=None, sem=None):
    "Report an access to the detectors and to the trace"
    if not (ctx.racecheck or ctx.initcheck or ctx.trace):
        return
    frame = learner_frame()
    shadow = region.shadow
    shadow_offsets = (
        active_offsets if shadow.region.dtype is region.dtype else shadow.offsets_of(region, active_offsets)
    )
    if ctx.initcheck and shadow.is_uninitialized is not None:
        shadow.initcheck(
            ctx,
            region,
            active_offsets,
            shadow_offsets,
            access,
            lambda position: _lane_index(pointers.data, active, position),
        )
    if ctx.racecheck:
        ctx.accesses.append(
            (
                ctx.execution_index,
                frame.f_lineno,
                frame.f_code.co_filename,
                access,
                shadow_offsets.size if pointers.data.ndim else 1,
                pointers.data.item(0) if pointers.region is region and pointers.data.size else None,
            )
        )
        shadow.racecheck(
            ctx,
            region,
            active_offsets,
            shadow_offsets,
            access,
            lambda position: _lane_index(pointers.data, active, position),
            value,
            BlockAccess(pointers.data, active) if pointers.region is region else None,
        )
        lanes = np.arange(shadow_offsets.size) if active is None or not active.ndim else np.flatnonzero(active)
        ctx.check_lanes_of_program(shadow, region, active_offsets, shadow_offsets, access, lanes, value)
        if access == 'atomic':  # after the checks: the clock that this atomic releases does not order its own access
            ctx.on_atomic(shadow, shadow_offsets, sem, not pointers.data.ndim)
    if ctx.trace:
        ctx.trace.record_access(ctx, region, active_offsets, access, frame, pointers, active)


_UPDATES = dict(
    add=np.add, max=np.maximum, min=np.minimum, xor=np.bitwise_xor, xchg=lambda old, new: new,
    **{'and': np.bitwise_and, 'or': np.bitwise_or},
)  # fmt: skip


def atomic(name, pointers, value, mask=None, expected=None, sem=None):
    "Update elements atomically through pointers; returns the old values"
    ctx = current()
    ctx.state_before_atomic = ctx.unsynced_stores, ctx.barrier_stamp
    old_values = _atomic(name, pointers, value, mask, expected, sem)
    if not old_values.data.ndim:  # all threads wait for the result of a scalar atomic
        ctx.fence()
    return old_values


def _atomic(name, pointers, value, mask, expected, sem):
    pointers = _require_pointer(pointers, f'tl.atomic_{name}')
    element_type = pointers.dtype.element_ty
    _check_atomic_type(name, element_type)
    value = convert(block_of(value), element_type)
    value, undef_mask = value.data, value.undef_mask
    pointers, active = _broadcast_mask(pointers, mask)
    if value.ndim and value.shape != pointers.data.shape:
        _check_value_shape(value, pointers.data.shape)
    result = np.zeros(pointers.data.shape, element_type.np)
    if active is not None and not active.ndim:
        return tensor(result[()], element_type)
    region, active_offsets, active = _locate(pointers, active, mask, 'atomic')
    _warn_if_undefined(
        undef_mask if undef_mask is None else np.broadcast_to(undef_mask, pointers.data.shape),
        active,
        'undefined_stored',
    )
    if region is None:
        return tensor(result[()], element_type)
    ctx = current()
    _report_access(ctx, region, active_offsets, 'atomic', pointers, active, sem=sem)

    def of_active_lanes(block_value):
        block_value = np.broadcast_to(block_value, pointers.data.shape)
        return block_value.reshape(-1) if active is None else block_value[active]

    if expected is not None:
        expected = convert(block_of(expected), element_type)
        _warn_if_undefined(expected.undef_mask, None, 'undefined_decision')
        expected = of_active_lanes(expected.data)
    old_values = _update(region.flat, active_offsets, of_active_lanes(value), name, expected)
    ctx.on_poll(old_values)
    if active is None:
        return tensor(old_values.reshape(pointers.data.shape)[()], element_type)
    result[active] = old_values
    return tensor(result, element_type)


def _check_atomic_type(name, element_type):
    "Raise `NotCompiled` if Triton has no atomic operation `name` for elements of this type"
    is_narrow = element_type.name in ('float16', 'bfloat16') and name not in ('add', 'cas', 'xchg')
    if is_narrow or element_type.size < 2 or element_type.name in ('int16', 'uint16') and name != 'cas':
        raise compile_error(
            f'tl.atomic_{name} does not support {element_type}',
            'Use elements of 32 or 64 bits; atomic_add also takes fp16 and bf16.',
        )
    if element_type.rank == 2 and name in ('and', 'or', 'xor'):
        raise compile_error(f'tl.atomic_{name} does not support {element_type}', 'Use elements of an integer type.')


def _update(flat, offsets, value, name, expected):
    "Update elements atomically, in lane order if lanes share an element; returns the old values"
    old_values = np.empty(offsets.size, flat.dtype)
    for lanes in _lanes_without_conflicts(offsets):
        current_values = old_values[lanes] = flat[offsets[lanes]]
        if name == 'cas':
            new_values = np.where(current_values == expected[lanes], value[lanes], current_values)
        else:
            new_values = _UPDATES[name](current_values, value[lanes])
        flat[offsets[lanes]] = new_values.astype(flat.dtype)
    return old_values


def _lanes_without_conflicts(offsets):
    """Split the lanes of an atomic into groups, in which no two lanes access the same element.

    A lane is in group k if k lanes before it access the same element. This k is its rank among the lanes of one offset,
    which a stable sort by the offset brings together."""
    if offsets.size == 1 or np.unique(offsets).size == offsets.size:
        return [slice(None)]
    order = np.argsort(offsets, kind='stable')
    starts = np.flatnonzero(np.append(True, np.diff(offsets[order]) != 0))
    rank = np.empty(offsets.size, np.int64)
    rank[order] = np.arange(offsets.size) - np.repeat(starts, np.diff(np.append(starts, offsets.size)))
    lanes = np.argsort(rank, kind='stable')
    return np.split(lanes, np.cumsum(np.bincount(rank))[:-1])
