"""The arrays of a kernel: their memory, and the loads and stores of their elements.

A kernel indexes a `View`: a flat memory (`Mem`), an offset, a shape and strides. The offset of a shared array differs
between blocks, and the offset of a local array differs between threads, so the same code serves global, shared and
local memory.
"""

from functools import cached_property

import numpy as np

from ..diagnostics.errors import NotCompiled, NotSimulated, WrongArgument
from ..diagnostics.settings import settings
from ..support.array_memory import address, owner, span
from .arithmetic import as_numba
from .detectors import Shadow, element_at

__all__ = [
    'Mem',
    'as_dtype',
    'View',
    'strides_of',
    'allocate_view',
    'make_view',
    'freeze_array',
    'locate',
    'load',
    'not_an_array_error',
    'is_writable',
    'as_element',
    'store',
]


class Mem:
    "A flat array in memory, with the shadow of its elements, which the first access that needs it creates"

    def __init__(self, data, name, space, tracks_init=False):
        self.data, self.name = data, name
        self.space = space  # 'global', 'shared' or 'local'
        self.tracks_init = tracks_init  # whether it is uninitialized at first, so that initcheck tracks its writes
        self.is_dynamic = False  # whether it is dynamic shared memory, whose size the launch sets
        self.is_constant = False  # whether it is an array from outside the kernel, which Numba compiles into it
        self.read_only_names = set()  # names of read-only arrays in this memory
        self.views = {}  # name of an array in this launch -> its `View`
        self.mem_of_dtype = {}  # dtype -> `Mem` of the same bytes as elements of that type
        self.fields = {}  # for records on the device: memory key -> `Mem` of a field

    def as_type(self, dtype):
        """Return this memory as elements of another type.

        Elements of the same size share the shadow. For other sizes, races between accesses through different types are
        not found, and initcheck does not track the elements."""
        if dtype not in self.mem_of_dtype:
            if self.data.strides[0] != self.data.itemsize:
                raise NotSimulated(f'{self.name} cannot be viewed as {dtype}, because its memory is not contiguous')
            num_bytes = len(self.data) * self.data.itemsize // dtype.itemsize * dtype.itemsize
            data = self.data.view(np.uint8)[:num_bytes].view(dtype)
            mem = self.mem_of_dtype[dtype] = Mem(data, self.name, self.space)
            mem.views, mem.read_only_names, mem.is_constant = self.views, self.read_only_names, self.is_constant
            mem.is_dynamic = self.is_dynamic
            if dtype.itemsize == self.data.itemsize:
                mem.shadow, mem.tracks_init = self.shadow, self.tracks_init
        return self.mem_of_dtype[dtype]

    @cached_property
    def shadow(self):
        "The detectors' shadow of each element"
        size = len(self.data)
        is_sparse = self.space == 'global' and 4 * sum(int(np.max(view.size)) for view in self.views.values()) < size
        return Shadow(size, is_sparse)


class ViewMethod:
    "The method `view` of an array in a kernel, which takes a type"

    __name__ = 'view'

    def __init__(self, array):
        self.array = array

    def lane_function(self, ctx, active, site, dtype):
        "Return the array as elements of a type"
        return self.array.as_type(as_dtype(dtype))


class View:
    "An array in a kernel: element (i, j) is `mem.data[offset + i*strides[0] + j*strides[1]]`"

    def __init__(self, mem, offset, shape, strides, name=None, skipped=None):
        self.mem = mem
        self.offset = offset
        self.shape = shape
        self.strides = strides
        self.name = name or mem.name
        self.skipped = skipped  # mask of the lanes whose accesses are skipped: an allowed index is out of bounds there

    dtype = property(lambda self: self.mem.data.dtype)
    ndim = property(lambda self: len(self.shape))

    def __len__(self):
        return int(self.shape[0])

    def __getattr__(self, k):
        raise AttributeError(f'an array in a kernel has no {k!r}: work on its elements')

    def _raise_not_a_number(self, *_):
        raise TypeError("a 'View' is not a number")  # `errors` explains it, with the array's name

    __eq__ = __ne__ = __bool__ = _raise_not_a_number
    __hash__ = object.__hash__

    @property
    def size(self):
        "The number of elements"
        num_elements = np.int64(1)
        for size in self.shape:
            num_elements = num_elements * size
        return num_elements

    @property
    def T(self):
        "The same elements with the axes reversed"
        return View(self.mem, self.offset, self.shape[::-1], self.strides[::-1], self.name, self.skipped)

    real = property(lambda self: self._component(0))
    imag = property(lambda self: self._component(1))

    def _component(self, component):
        "Return a view of the real (0) or the imaginary (1) parts of complex elements"
        if self.dtype.kind != 'c':
            return self.__getattr__(('real', 'imag')[component])
        components = self.mem.as_type(self.dtype.type(0).real.dtype)
        name = f'{self.name}.{("real", "imag")[component]}'
        strides = tuple(2 * s for s in self.strides)
        return View(components, 2 * self.offset + component, self.shape, strides, name, self.skipped)

    view = property(lambda self: ViewMethod(self))

    def as_type(self, dtype):
        "Return the same memory as elements of another type; raises `NotSimulated` if they do not fit the layout"
        old, new = self.dtype.itemsize, dtype.itemsize
        if old == new:
            return View(self.mem.as_type(dtype), self.offset, self.shape, self.strides, self.name, self.skipped)
        if not self.shape or self.strides[-1] != 1 or np.any([np.any(n * old % new) for n in self._layout()]):
            requirement = 'sizes and strides that are multiples of the new element size, in bytes'
            raise NotSimulated(f'{self.name}.view({dtype}) requires {requirement}')
        offset, size, *strides = (n * old // new for n in self._layout())
        return View(self.mem.as_type(dtype), offset, (*self.shape[:-1], size), (*strides, 1), self.name, self.skipped)

    def _layout(self):
        "Return the values that `as_type` scales: the offset, the size of the last axis, and the other strides"
        return [self.offset, self.shape[-1], *self.strides[:-1]]

    @property
    def nbytes(self):
        "The size of the entire underlying memory, in bytes"
        return self.mem.data.nbytes

    def element(self, ctx, active, index, site):
        "Load the element at an index that is in bounds, in the lanes of `active`"
        return _read(ctx, active, self, _offset_at(self, index), site)

    def rename(self, name):
        "Name the view and its memory"
        self.name = self.mem.name = name
        self.mem.views[name] = self

    def renamable_copy(self):
        "Return a copy of the view that can be renamed"
        return View(self.mem, self.offset, self.shape, self.strides, self.name, self.skipped)

    def skip(self, lanes):
        "Return a view whose accesses are skipped in the lanes of a mask, too"
        skipped = lanes if self.skipped is None else lanes | self.skipped
        return View(self.mem, self.offset, self.shape, self.strides, self.name, skipped)

    def in_remaining_lanes(self, active):
        "Return (the view without `skipped`, the mask of the lanes of `active` that are not skipped)"
        return View(self.mem, self.offset, self.shape, self.strides, self.name), active & ~self.skipped

    def merge(self, mask, old_view):
        "Return this view in the lanes of `mask`, `old_view` in the others, as one view; both must be in one memory"
        if not (
            isinstance(old_view, View)
            and old_view.mem is self.mem
            and old_view.strides == self.strides
            and old_view.ndim == self.ndim
        ):
            raise NotSimulated('a variable cannot refer to different arrays in different threads')
        return View(
            self.mem,
            np.where(mask, self.offset, old_view.offset),
            tuple(
                size if size is old_size else np.where(mask, size, old_size)
                for size, old_size in zip(self.shape, old_view.shape)
            ),
            self.strides,
            self.name,
            _merge_skipped(mask, self.skipped, old_view.skipped),
        )


def _merge_skipped(mask, skipped, old_skipped):
    "Return `skipped` in the lanes of `mask`, `old_skipped` in the others; None means no lanes"
    if skipped is old_skipped is None:
        return None
    return np.where(mask, *(False if lanes is None else lanes for lanes in (skipped, old_skipped)))


def _dtype_named(name):
    try:
        return np.dtype(name)
    except TypeError:
        return None


def as_dtype(d):
    """Convert an element type to a NumPy dtype; raises `TypeError` if it is not numeric.

    >>> as_dtype('float32')
    dtype('float32')"""
    try:
        dtype = np.dtype(d)
    except TypeError:
        dtype = _dtype_named(str(d))
    if dtype is None or dtype.kind == 'O':
        raise TypeError(f'{d!r} is not a numeric type; pass one, such as np.float32')
    return dtype


def strides_of(shape):
    """Return the strides, in elements, of a row-major array.

    >>> strides_of((2, 3, 4))
    (12, 4, 1)"""
    strides = []
    stride = 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= int(size)
    return tuple(strides[::-1])


def allocate_view(shape, dtype, name, space, num_copies=1, copy_index=0):
    "Allocate `num_copies` uninitialized arrays, one after the other; lane i gets copy `copy_index[i]`"
    size = int(np.prod(shape, dtype=np.int64))
    mem = Mem(np.zeros(size * num_copies, dtype), name, space, tracks_init=True)
    return View(
        mem, copy_index * size if num_copies > 1 else 0, tuple(np.int64(extent) for extent in shape), strides_of(shape)
    )


# A `View` of an argument shares its memory, so the caller sees the kernel's writes. Two arguments that overlap share
# one `Mem`, so that a race through two names is found, too. `memories` maps the key of each memory of the launch to its
# `Mem`.
def make_view(
    array,  # a NumPy array of any layout
    name,  # the name of the array in messages
    memories,  # memory key -> `Mem`: the memories of this launch so far
    flat=None,  # the whole memory of `array` as a flat array, if known
):
    "Make a `View` of a NumPy array; raises `NotSimulated` if kernels do not support its dtype"
    if array.dtype.kind not in 'biufc' or array.dtype.char in 'gG' or not array.dtype.isnative:
        hint = f'Convert it to a numeric type of the GPU, for example with {name}.astype(np.float32).'
        raise NotSimulated(f'{name} has elements of {array.dtype}, which kernels do not support', hint)
    base = owner(array) if flat is None else flat
    if flat is None and base.dtype == array.dtype and (base.flags.c_contiguous or base.flags.f_contiguous):
        flat = base.reshape(-1, order='A')
    elif flat is None and base.flags.c_contiguous and not (base.dtype.hasobject or base.nbytes % array.itemsize):
        flat = base.reshape(-1).view(np.uint8).view(array.dtype)
    if flat is None or (address(array) - address(flat)) % array.itemsize:
        flat = span(array)
    return view_of_elements(flat, array, name, memories)


def memory_key(flat):
    "Return the key of the memory `flat` in `memories`"
    return address(flat), flat.size, flat.dtype.str, flat.strides[0]


def view_of_elements(
    flat,  # the memory: a flat array of any stride
    array,  # a view of some of its elements
    name,
    memories,
):
    "Make a `View` of `array` in the memory `flat`"
    key = memory_key(flat)
    step = flat.strides[0] or array.itemsize  # the stride may be 0 for an empty array
    if key not in memories:
        memories[key] = Mem(flat, name, 'global')
    if not array.flags.writeable:
        memories[key].read_only_names.add(name)
    memories[key].views[name] = view = View(
        memories[key],
        np.int64((address(array) - address(flat)) // step),
        tuple(np.int64(size) for size in array.shape),
        tuple(s // step for s in array.strides),
        name,
    )
    return view


def freeze_array(array, name):
    "Make a `View` of a copy of `array`, an array from outside the kernel: Numba compiles it into the kernel"
    array = array.copy()
    array.flags.writeable = False
    view = make_view(array, name, {})
    view.mem.is_constant = True
    return view


def _to_int64(ctx, active, view, index, site):
    "Convert an index to int64; raises `MemcheckError` if it is not an integer"
    if getattr(index, 'dtype', None) is None or index.dtype == np.int64:
        return index
    if index.dtype.kind not in 'iub':
        ctx.detectors.memcheck.raise_index_type(ctx, active, view, index, site)
    return index.astype(np.int64)


def _slice_bounds(ctx, active, bounds, length, site):
    "Return (first index, number of elements, step) of a slice of an axis of this length"
    start, stop, step = (
        bound if bound is None else np.asarray(bound).astype(np.int64)[()]
        for bound in (bounds.start, bounds.stop, bounds.step)
    )
    step = 1 if step is None else step
    if np.ndim(step) or step == 0:
        raise ctx.unsupported_error(site, active, 'the step of a slice must be the same for all threads, and not 0')
    last, defaults = (length, (0, length)) if step > 0 else (length - 1, (length - 1, -1))
    start, stop = (
        default if bound is None else np.minimum(np.where(np.less(bound, 0), bound + length, bound), last)
        for bound, default in zip((start, stop), defaults)
    )
    return start, np.maximum(-((start - stop) // step), 0), int(step)


def _is_out_of_bounds(index, length, active):
    "Return whether an index is out of bounds for an axis of this length, in any lane of `active`"
    if np.ndim(index) == np.ndim(length) == 0:
        return not 0 <= index < length
    is_out_of_range = (index < 0) | (index >= length)
    return is_out_of_range.any() and (is_out_of_range & active).any()


def _counts_from_end(index):
    "Return whether an index below 0 counts from the end of its axis: in programs of Numba, if it is signed"
    return settings.counts_from_end and getattr(index, 'dtype', np.dtype(np.int64)).kind != 'u'


def _index_from_start(ctx, active, view, indices, axis, index, site, access):
    """Return (view, `index`), where `index`, which is `indices[axis]` as int64, is counted from the start of the axis.

    Raises `MemcheckError` if it is out of bounds, unless that is allowed: then the returned view skips the lanes in
    which it is, and their index is 0. Warns if it counts from the end and may differ between threads, which
    is often a mistake, such as `i - 1` for i = 0; with one thread, the source shows whether it may."""
    length, memcheck = view.shape[axis], ctx.detectors.memcheck
    from_start = np.where(index < 0, index + length, index)[()] if _counts_from_end(indices[axis]) else index
    if _is_out_of_bounds(from_start, length, active):
        skipped = memcheck.report_out_of_bounds(ctx, active, view, indices, axis, from_start, site, access)
        if skipped is not None:
            return view.skip(skipped), np.where(skipped, 0, from_start)
    elif np.ndim(index) or ctx.group.size == 1 and ctx.program.index_depends_on_thread(site):
        memcheck.warn_counted_from_end(ctx, active, view, indices, axis, from_start, site)
    return view, from_start


def locate(ctx, active, view, indices, site, access):
    """Return (view, offset of the element `view[indices]`); (view, `View`) for fewer indices than axes, or slices.

    The returned view is `view`, or a copy that skips the lanes in which an index is out of bounds and the user allows
    that. `access` is 'read', 'write' or 'atomic'. Raises `MemcheckError` for an index out of bounds, `NotSimulated` for
    a slice whose step differs between threads."""
    if type(indices) is np.int64 and len(view.shape) == 1 and type(view.shape[0]) is np.int64:
        if 0 <= indices < view.shape[0]:  # the most frequent case, with no further checks
            return view, view.offset + indices * view.strides[0]
    if view.skipped is not None:
        active = active & ~view.skipped
    indices = indices if isinstance(indices, tuple) else (indices,)
    if indices and (indices[0] is Ellipsis or indices[-1] is Ellipsis):
        other_indices = tuple(index for index in indices if index is not Ellipsis)
        full_slices = (slice(None),) * (view.ndim - len(other_indices))
        indices = (*full_slices, *other_indices) if indices[0] is Ellipsis else (*other_indices, *full_slices)
    if len(indices) > view.ndim:
        ctx.detectors.memcheck.raise_index_count(ctx, active, view, len(indices), site)
    offset = view.offset
    shape = []
    strides = []
    for axis, (index, length, stride) in enumerate(zip(indices, view.shape, view.strides)):
        if isinstance(index, slice):
            index, num_elements, step = _slice_bounds(ctx, active, index, length, site)
            shape.append(num_elements)
            strides.append(int(stride) * step)
        else:
            index = _to_int64(ctx, active, view, index, site)
            if _is_out_of_bounds(index, length, active):
                view, index = _index_from_start(ctx, active, view, indices, axis, index, site, access)
        offset = offset + index * stride
    if len(indices) == view.ndim and not shape:
        return view, offset
    shape += view.shape[len(indices) :]
    strides += view.strides[len(indices) :]
    return view, View(view.mem, offset, tuple(shape), tuple(strides), view.name, view.skipped)


def not_an_array_error(ctx, value, site):
    "Make the `TypeError` for an index of a value that is not an array"
    location = ctx.program.sites[site]
    kind = 'number' if isinstance(value, (np.ndarray, np.generic)) else type(value).__name__
    return TypeError(
        f'{ctx.kernel}, line {location.line}: {location.source}: a {kind} cannot be indexed; arrays and tensors can'
    )


def load(ctx, active, view, idx, site):
    "Load `view[idx]` in the lanes of `active`; `view` may also be a tuple, or an object with its own `load`"
    if not isinstance(view, View):
        if hasattr(view, 'load'):
            return view.load(ctx, active, idx, site)
        if isinstance(view, (np.ndarray, np.generic)):
            raise not_an_array_error(ctx, view, site)
        return _load_from_tuple(ctx, active, view, idx, site) if np.ndim(idx) else as_numba(view[idx])
    view, offset = locate(ctx, active, view, idx, site, 'read')
    return offset if isinstance(offset, View) else _read(ctx, active, view, offset, site)


def _read(ctx, active, view, offset, site):
    "Load the elements at `offset`, in the lanes of `active`; lanes that the view skips get 0"
    if view.skipped is not None:
        return _read_in_remaining_lanes(ctx, active, view, offset, site)
    mem = view.mem
    if ctx.records_accesses:
        ctx.access(active, view, offset, site, 'read')
    if np.ndim(offset) == 0:
        return mem.data[offset]
    return mem.data[offset if active is ctx.group.all_lanes else np.where(active, offset, 0)]


def _read_in_remaining_lanes(ctx, active, view, offset, site):
    "Load the elements at `offset`, in the lanes of `active` that the view does not skip; the others get 0"
    view, remaining = view.in_remaining_lanes(active)
    zero = view.dtype.type(0)
    return np.where(remaining, _read(ctx, remaining, view, offset, site), zero) if remaining.any() else zero


# The index into a tuple may differ between threads; Numba allows it if all elements have one type.
def _load_from_tuple(ctx, active, items, index, site):
    if index.dtype.kind not in 'iu' or not isinstance(items, tuple):
        raise ctx.unsupported_error(
            site, active, 'the index of a tuple must be an integer', 'Use //, or int(...).', NotCompiled
        )
    length = len(items)
    index = index.astype(np.int64)
    out_of_bounds = active & ((index < -length) | (index >= length))
    if out_of_bounds.any() and not ctx.is_allowed('outside', site):
        lane = int(np.argmax(out_of_bounds))
        fields = dict(access='read', array='tuple', index=(int(index[lane]),), shape=(length,))
        raise ctx.finding('memcheck', 'outside', site, active, lane, **fields)
    return _gather(ctx, active, items, np.where(active & ~out_of_bounds, index % length, 0), site)


def _gather(ctx, active, items, index, site):
    "Return, per lane, element `index` of the tuple `items`"
    kinds = {(type(x), getattr(as_numba(x), 'dtype', len(x) if isinstance(x, tuple) else None)) for x in items}
    if len({kind for _, kind in kinds}) > 1 or None in {kind for _, kind in kinds}:
        problem = 'a tuple of several types must have the same index in all threads'
        raise ctx.unsupported_error(
            site, active, problem, 'Give its elements the same type, or use an array.', NotCompiled
        )
    if isinstance(items[0], tuple):
        return tuple(_gather(ctx, active, column, index, site) for column in zip(*items))
    if isinstance(items[0], View):
        merged_view = items[0]
        for item_index, item in enumerate(items[1:], 1):
            merged_view = item.merge(index == item_index, merged_view)
        return merged_view
    if not any(np.ndim(item) for item in items):
        return np.array([as_numba(item) for item in items])[index]
    return np.stack([np.broadcast_to(item, index.shape) for item in items])[index, np.arange(len(index))]


def is_writable(ctx, active, view, offset, site):
    """Return False if the array is a constant that Numba compiles into the kernel, and the user allows a write to it.

    Raises an error if it is such a constant and that is not allowed, or if the array is read-only."""
    if view.mem.is_constant:
        if ctx.is_allowed('constant', site):
            return False
        first_offset = offset if np.ndim(offset) == 0 else offset[ctx.active_lanes(active)[0]]
        raise ctx.finding('memcheck', 'constant', site, active, **element_at(view, first_offset))
    if view.name in view.mem.read_only_names:
        location = ctx.program.sites[site]
        problem = f'{ctx.kernel}: {view.name} is read-only, but line {location.line} writes to it: {location.source}'
        raise WrongArgument(f'{problem}\n  Pass a copy: {view.name}.copy()')
    return True


_NOT_NUMBERS = {  # name of a type -> (its description, a hint)
    'NoneType': ('None', 'A function without a return value returns None: let it return a number.'),
    'Undefined': ('an undefined value', 'Assign the variable first, or let the function `return` a value.'),
    'Record': ('a record', 'Store one of its fields.'),
    'Records': ('an array of records', 'Store a field of one of them.'),
    'View': ('an array', 'Store one of its elements.'),
    'tuple': ('a tuple', 'Store its elements one by one.'),
}


def not_a_number_error(ctx, view, value, site):
    "Make the `TypeError` for a store of a value that is not a number"
    location = ctx.program.sites[site]
    type_name = type(value).__name__
    description, hint = _NOT_NUMBERS.get(type_name, (f'a {type_name}', 'Elements must be numbers.'))
    line = f'{ctx.kernel}, line {location.line}: {location.source}'
    return TypeError(
        f'{line}: {description} cannot be stored to {view.name}, whose elements are {view.dtype}\n  {hint}'
    )


def as_element(ctx, active, view, value, site):
    """Convert `value` to the type of `view`, one element per active lane.

    Raises `NotSimulated` if a complex number is stored to an array of real ones, `TypeError` for a value that is not a
    number."""
    original_value = value
    value = np.asarray(value)
    dtype = view.dtype
    if value.dtype.kind not in 'biufc' or isinstance(original_value, (tuple, list)):
        raise not_a_number_error(ctx, view, original_value, site)
    if value.dtype.kind == 'c' != dtype.kind:
        problem = f'a complex number cannot be stored to {view.name}, whose elements are {dtype}'
        raise ctx.unsupported_error(site, active, problem, 'Write z.real or abs(z), or use an array of np.complex64.')
    return ctx.broadcast_to_active(active, value.astype(dtype))


def store(ctx, active, view, idx, value, site):
    "Store `value` to `view[idx]` in the lanes of `active`; if several lanes store to one element, the last one wins"
    if not isinstance(view, View):
        if hasattr(view, 'store'):
            return view.store(ctx, active, idx, value, site)
        raise not_an_array_error(ctx, view, site)
    view, offset = locate(ctx, active, view, idx, site, 'write')
    if isinstance(offset, View):
        _store_slice(ctx, active, offset, value, site)
    else:
        _write(ctx, active, view, offset, value, site)


def _write(ctx, active, view, offset, value, site):
    "Store `value` at `offset`, in the lanes of `active` that the view does not skip"
    if view.skipped is not None:
        view, active = view.in_remaining_lanes(active)
        if not active.any():
            return
    mem = view.mem
    if not is_writable(ctx, active, view, offset, site):
        return
    if ctx.runs_one_thread and type(value) is mem.data.dtype.type and np.ndim(offset) == 0:
        ctx.access_by_one_thread(view, offset, 'written')
        mem.data[offset] = value
        return
    offset = ctx.broadcast_to_active(active, offset)
    value = as_element(ctx, active, view, value, site)
    if ctx.records_accesses:
        ctx.access(active, view, offset, site, 'written', value)
    else:
        ctx.progress_count += 1
    mem.data[offset] = value


# A slice, such as a[:, 1] or row[:], is assigned one number or the elements of another array. All elements are read
# before the first one is written. The size of the slice may differ between threads.
def _store_slice(ctx, active, slice_view, value, site):
    if isinstance(value, tuple):
        value = _NumberTuple(value)
    if not isinstance(value, (View, _NumberTuple)):
        for index, slice_active in _elements_of(active, slice_view):
            _write(ctx, slice_active, slice_view, _offset_at(slice_view, index), value, site)
        return
    _check_shape(active, slice_view, value)
    extra_axes = len(slice_view.shape) - len(value.shape)
    elements = [
        (index, slice_active, value.element(ctx, slice_active, _broadcast_index(index[extra_axes:], value.shape), site))
        for index, slice_active in _elements_of(active, slice_view)
    ]
    for index, slice_active, element in elements:
        _write(ctx, slice_active, slice_view, _offset_at(slice_view, index), element, site)


class _NumberTuple:
    "A tuple of numbers that is assigned to a slice"

    def __init__(self, values):
        self.values, self.shape = values, (len(values),)

    def element(self, ctx, active, index, site):
        return self.values[index[0]]


def _elements_of(active, slice_view):
    "Yield, per element of a slice, (index, mask of the active lanes whose slice contains it)"
    is_uniform = all(np.ndim(size) == 0 for size in slice_view.shape)
    for index in np.ndindex(*(int(np.max(np.where(active, size, 0))) for size in slice_view.shape)):
        slice_active = active
        for axis_index, size in zip(index, () if is_uniform else slice_view.shape):
            slice_active = slice_active & (axis_index < size)
        if is_uniform or slice_active.any():
            yield index, slice_active


def _offset_at(view, index):
    offset = view.offset
    for axis_index, stride in zip(index, view.strides):
        offset = offset + axis_index * stride
    return offset


def _broadcast_index(index, shape):
    "Map an index of a broadcast array to an index of the array of this shape: axes of size 1 get the index 0"
    return tuple(0 if np.ndim(size) == 0 and size == 1 else axis_index for axis_index, size in zip(index, shape))


def _check_shape(active, slice_view, value):
    "Raise `ValueError` unless `value` has the shape of the slice, or can be broadcast to it, as in NumPy"
    size_pairs = list(zip(slice_view.shape[::-1], value.shape[::-1]))
    is_broadcastable = all(
        np.all(np.equal(size, value_size) | np.equal(value_size, 1) | ~active) for size, value_size in size_pairs
    )
    if len(value.shape) > len(slice_view.shape) or not is_broadcastable:
        value_shape, slice_shape = (tuple(int(np.max(size)) for size in view.shape) for view in (value, slice_view))
        raise ValueError(
            f'a value of shape {value_shape} cannot be assigned to a slice of {slice_view.name} of shape {slice_shape}'
        )
