"""Arrays as a kernel accesses them: by pointers, through load, store and atomics."""

import gc
import sys
from itertools import chain

import ml_dtypes
import numpy as np

from ..diagnostics.errors import WrongArgument
from ..support.array_memory import address, owner, part, reach, span, whole_storage
from .block import addresses, block_of, broadcast, convert, with_undef, tensor
from .run import current, finding, frame_of, refuse, warn_of_undefined
from .shadow import Shadow
from .types import DTYPES, dtype_of_numpy, pointer_type

__all__ = ['Region', 'wrap', 'load', 'store', 'atomic']

_I1 = DTYPES['int1']
_TORCH_BITS = dict(
    bfloat16=('int16', ml_dtypes.bfloat16), float8_e4m3fn=('uint8', ml_dtypes.float8_e4m3fn),
    float8_e5m2=('uint8', ml_dtypes.float8_e5m2), float8_e4m3fnuz=('uint8', ml_dtypes.float8_e4m3fnuz),
    float8_e5m2fnuz=('uint8', ml_dtypes.float8_e5m2fnuz),
    uint16=('int16', np.uint16), uint32=('int32', np.uint32), uint64=('int64', np.uint64),
)  # fmt: skip


class Region:
    """The memory of an argument's array, flat, with the detectors' shadow of it.

    Offsets count from the beginning of that memory; the array's own part is `count` elements from `low` on, those
    between its rows among them."""

    def __init__(self, flat, name, shape, strides, begin=0):
        self.flat = flat
        self.name = name
        self.shape = shape
        self.strides = strides
        self.begin = begin
        self.size, self.item = flat.size, flat.itemsize
        self.address = address(flat)
        self.shadow = None
        self.writable = flat.flags.writeable
        self.low = begin + sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
        self.count = reach(shape, strides)
        self.dtype = dtype_of_numpy(flat.dtype)

    def flat_index(self, offsets):
        "Convert offsets to row-major indices of the array, whatever its strides"
        offsets, flat = offsets - self.begin, np.zeros(offsets.shape, np.int64)
        for axis in sorted(range(len(self.shape)), key=lambda a: -abs(self.strides[a])):
            stride = self.strides[axis]
            if stride and self.shape[axis] > 1:
                i, offsets = np.divmod(offsets, stride)
                flat += i * int(np.prod(self.shape[axis + 1 :]))
        return flat

    def view(self, flat):
        "Return the array's part of `flat`, which has one element per element of the memory"
        return part(flat, self.begin, self.shape, self.strides)

    def index_of(self, offset):
        "Convert an offset to an index of the array; out of bounds it extends along the longest stride"
        offset = int(offset) - self.begin
        index = [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda a: -abs(self.strides[a])):
            stride = self.strides[axis]
            if stride and self.shape[axis] > 1:
                index[axis], offset = divmod(offset, stride)
        if offset and index:
            index[-1] += offset
        return tuple(index)


def _memory(a, name):
    "Return (all the memory of an array, flat; the offset at which the array begins; its strides in elements)"
    if not isinstance(a, np.ndarray):
        return _memory_of_tensor(a, name)
    if any(s % a.itemsize for s in a.strides):
        raise WrongArgument(f'{name}: its elements are not on a grid; pass a copy')
    base = owner(a)
    strides = tuple(s // a.itemsize for s in a.strides)
    if base.dtype == a.dtype and (base.flags.c_contiguous or base.flags.f_contiguous):
        flat = base.reshape(-1, order='A')
    else:
        flat = span(a)
    return flat, (address(a) - address(flat)) // a.itemsize, strides


def _memory_of_tensor(a, name):
    if a.device.type != 'cpu':
        raise WrongArgument(f'{name} is on {a.device}: kernels run checked on the CPU; pass {name}.cpu()')
    a = a.detach()
    if a.layout is not sys.modules['torch'].strided:
        raise WrongArgument(f'{name} is sparse, not strided; pass {name}.to_dense()')
    if a.is_conj() or a.is_neg():
        raise WrongArgument(f'{name} is a tensor that is not plain memory; pass a copy')
    bits, dt = _TORCH_BITS.get(str(a.dtype).split('.')[-1], (None, None))
    flat = whole_storage(a)
    try:
        flat = flat.view(getattr(sys.modules['torch'], bits)).numpy().view(dt) if bits else flat.numpy()
    except TypeError:
        raise WrongArgument(f'{name} has elements of {a.dtype}, for which Triton has no type') from None
    return flat, a.storage_offset(), tuple(a.stride())


def is_array(a):
    "Return whether `a` is an array of NumPy or torch"
    return isinstance(a, np.ndarray) or type(a).__module__.split('.')[0] == 'torch' and hasattr(a, 'as_strided')


def wrap(a, name, regions):
    "Make a pointer to the first element of an array; arrays that overlap in memory share one shadow"
    flat, begin, strides = _memory(a, name)
    try:
        t = dtype_of_numpy(flat.dtype)
    except KeyError:
        raise WrongArgument(f'{name} has elements of {flat.dtype}, for which Triton has no type') from None
    region = Region(flat, name, tuple(a.shape), strides, begin)
    region.writable = flat.flags.writeable and (not isinstance(a, np.ndarray) or a.flags.writeable)
    region.shadow = next((other.shadow for other in regions if other.address == region.address), None) or Shadow(region)
    region.shadow.begin(region)
    regions.append(region)
    return tensor(np.int64(begin), pointer_type(t), region)


def _resolve_region(p, mask, access):
    "Find the array of this launch that all active lanes of untyped pointers point into; returns pointers into it"
    run = current()
    item = p.dtype.element_ty.size
    active = p.data[mask] if mask is not None and p.data.ndim else p.data
    flat = np.atleast_1d(active).reshape(-1)
    if not flat.size:
        return None
    for region in chain(run.regions, _find_other_tensors(run, int(flat[0]))):
        first = region.address + region.low * region.item
        if first <= flat[0] < first + region.count * region.item:
            return _reinterpret(region, p.dtype.element_ty), p.data - region.address, item
    code = 'null_pointer' if flat[0] < 4096 else 'foreign_pointer'
    raise finding('memcheck', code, dict(access=access, address=int(flat[0])), _lane(p, mask, 0))


def _find_other_tensors(run, address):
    "Find torch tensors that are not arguments of this launch, but whose memory contains an address that it loaded"
    for age in _AGES:
        if age not in run.others:
            run.others[age] = list(_live_tensors(age))
        for low, high, t in run.others[age]:
            if low <= address < high:
                wrap(t, 'a tensor known by its address', run.regions)
                yield run.regions[-1]


_AGES = 0, 1, None  # of Python's objects, None: any; what is young is found in a moment, and to look at all takes .1 s


def _live_tensors(age):
    "List (first byte, end byte, tensor) of the memory of each live CPU tensor of this generation"
    torch = sys.modules.get('torch')
    plain = (torch.Tensor, torch.nn.Parameter) if torch else ()
    for t in gc.get_objects(age) if torch else ():
        if type(t) in plain and t.device.type == 'cpu' and t.layout is torch.strided and t.numel():
            storage = t.untyped_storage()
            yield storage.data_ptr(), storage.data_ptr() + storage.nbytes(), t


def _reinterpret(region, t):
    "Reinterpret the elements of a region as another type"
    if region.dtype is t:
        return region
    bytes_ = region.flat.view(np.uint8)
    n = bytes_.size // t.size * t.size
    other = Region(bytes_[:n].view(t.np), region.name, (n // t.size,), (1,))
    other.shadow, other.writable = region.shadow, region.writable
    other.low, other.count = (n * region.item // t.size for n in (region.low, region.count))
    return other


def _lane(p, mask, which):
    "Return the index in the block of the active lane number `which`"
    if not p.data.ndim:
        return ()
    lanes = np.flatnonzero(mask) if mask is not None else np.arange(p.data.size)
    return tuple(map(int, np.unravel_index(lanes[which], p.data.shape)))


def _warn_if_undefined(undef_mask, mask, code):
    "Warn if an active lane is undefined"
    if undef_mask is not None and (undef_mask if mask is None else undef_mask & mask).any():
        warn_of_undefined(code)


def _locate(p, mask, given, access):
    """Return (region, offsets of the active lanes); raises a finding if one is out of bounds, by the `given` mask.

    `access`: what is done there, a 'read', a 'write' or an 'atomic'."""
    region, offsets = p.region, p.data
    _warn_if_undefined(p.undef_mask, mask, 'undefined_address')
    if region is not None and region.dtype is not p.dtype.element_ty:
        p = tensor(addresses(p), p.dtype)
        region = None
    if region is None:
        found = _resolve_region(p, mask, access)
        if found is None:
            return None, np.empty(0, np.int64)
        region, offsets, item = found
        if np.any((offsets if mask is None else offsets[mask] if offsets.ndim else offsets) % item):
            fields = dict(access=access, array=region.name, size=item)
            raise finding('memcheck', 'misaligned_pointer', fields, _lane(p, mask, 0))
        offsets = offsets // item
    if offsets.ndim == 0:
        active = offsets.reshape(1)
    else:
        active = offsets.reshape(-1) if mask is None else offsets[mask]
    counted = active - region.low if region.low else active
    if active.size and counted.view(np.uint64).max() >= region.count:
        _report_out_of_bounds(region, active, p, mask, given is not None, access)
    return region, active


def _report_out_of_bounds(region, active, p, mask, masked, access):
    if not current().memcheck and active.min() >= 0 and active.max() < region.size:
        return  # of another array in one memory
    if not current().memcheck:
        raise refuse(
            f'an out-of-bounds {access} of {region.name}, where there is no memory', 'memcheck is switched off.'
        )
    out = np.flatnonzero((active < region.low) | (active >= region.low + region.count))
    lane = _lane(p, mask, out[0])
    others = out.size - 1
    more = f'; {others} more lane{"s are" if others > 1 else " is"} out of bounds, too' if others else ''
    at = int(active[out[0]])
    past = 'outside_masked' if masked else 'outside_program' if p.data.ndim else 'outside_single'
    expanded = any(not s and n > 1 for s, n in zip(region.strides, region.shape)) and 'outside_expanded'
    code = 'outside_before' if at < region.low else expanded or past
    fields = dict(access=access, array=region.name, index=region.index_of(at), shape=region.shape, more=more)
    if expanded and code == expanded:
        fields.update(count=region.count)
    raise finding('memcheck', code, fields, lane)


def _pointer(p, what):
    p = p if type(p) is tensor else block_of(p)
    if not p.dtype.is_ptr():
        raise refuse(f'{what} of {p.type}: its first argument is a pointer', 'An array argument, and offsets added.')
    return p


def _broadcast_mask(p, mask):
    "Broadcast a pointer and its mask; the mask is None if all lanes are active"
    if mask is None:
        return p, None
    m = mask if type(mask) is tensor else block_of(mask)
    if m.dtype is not _I1:
        m = convert(m, _I1)
    if p.data.ndim == 0:
        if m.data.ndim:
            shown = list(m.data.shape)
            raise refuse(f'a mask of shape {shown} for a single pointer', 'Add offsets: x + tl.arange(...).')
        _warn_if_undefined(m.undef_mask, None, 'undefined_decision')
        return p, None if m.data else np.False_
    if m.data.shape != p.data.shape:
        _warn_if_undefined(m.undef_mask, None, 'undefined_decision')
        data, m = broadcast(p, m)
        p = with_undef(data, p.dtype, p, region=p.region)
    else:
        _warn_if_undefined(m.undef_mask, None, 'undefined_decision')
        m = m.data
    return p, None if m.all() else m


def load(p, mask=None, other=None, volatile=False):
    "Load elements through pointers; where the mask is false, `other` or an undefined value"
    p = _pointer(p, 'tl.load')
    t = p.dtype.element_ty
    if other is not None and mask is None:
        raise refuse('tl.load with `other` and without `mask`', '`other` is what lanes get whose mask is false.')
    p, m = _broadcast_mask(p, mask)
    run = current()
    region, active = _locate(p, m, mask, 'read') if m is None or m.ndim else (None, None)
    if region is not None:
        _report_access(run, region, active, 'read', p, m)
    if m is None:
        got = region.flat[active]
        if volatile:
            run.on_poll(got)
        return tensor(got.reshape(p.data.shape) if p.data.ndim else got[0], t)
    out = _masked_out_values(other, t, p.data.shape)
    if region is not None:
        out[m] = region.flat[active]
    got = tensor(out[()], t)
    if other is None and run.initcheck:
        got.undef_mask = np.broadcast_to(~m, p.data.shape)
        run.undef_line = run.undef_line or frame_of().f_lineno
    elif type(other) is tensor and other.undef_mask is not None:
        got.undef_mask = np.broadcast_to(other.undef_mask, p.data.shape) & ~m
    return got


def _masked_out_values(other, t, shape):
    "Return the values of masked-out lanes; without `other` they are undefined, and 0 as on NVIDIA's GPUs"
    if other is None:
        return np.zeros(shape, t.np)
    other = block_of(other)
    if t.is_fp8() and other.dtype.is_int():
        raise refuse(f'`other` of {other.dtype} for pointers to {t}', 'A float: other=0.')
    other = convert(other, t).data
    try:
        return np.array(np.broadcast_to(other, shape))
    except ValueError:
        raise refuse(f'`other` of shape {list(other.shape)} for pointers of shape {list(shape)}') from None


def store(p, value, mask=None):
    "Store elements through pointers, where the mask is true"
    p = _pointer(p, 'tl.store')
    value = convert(block_of(value), p.dtype.element_ty)
    value, undef_mask = value.data, value.undef_mask
    if value.ndim and not p.data.ndim:
        raise refuse('a block is stored through one pointer', 'Add offsets to it: out + tl.arange(...).')
    shape = p.data.shape
    p, m = _broadcast_mask(p, mask)
    if value.ndim and value.shape != shape:
        _fits_pointer(value, shape)
    if p.data.shape != shape:
        raise refuse(f'pointers of shape {list(shape)}, and a mask of {list(p.data.shape)}')
    if m is not None and not m.ndim:
        return
    region, active = _locate(p, m, mask, 'write')  # first: lanes past the end may be the whole reason
    _warn_if_undefined(undef_mask if undef_mask is None else np.broadcast_to(undef_mask, shape), m, 'undefined_stored')
    if region is None:
        return
    if not region.writable:
        raise refuse(f'{region.name} is written, and the host made it read-only')
    if value.ndim:
        value = value if value.shape == shape else np.broadcast_to(value, shape)
        value = value.reshape(-1) if m is None else value[m]
    run = current()
    _report_access(run, region, active, 'written', p, m, value)
    region.flat[active] = value
    if run.racecheck and active.size > 1 and value.ndim:
        _lanes_agree(region, active, value, p, m)


def _fits_pointer(value, shape):
    try:
        np.broadcast_to(value, shape)
    except ValueError:
        raise refuse(
            f'a block of shape {list(value.shape)} is stored through pointers of shape {list(shape)}',
            'Both have the same shape.',
        ) from None


def _lanes_agree(region, active, value, p, m):
    "Raise a finding if two lanes of a store wrote different values to one element"
    size = f'u{region.item}'
    lost = np.flatnonzero(region.flat[active].view(size) != np.ascontiguousarray(value).view(size))
    if lost.size:
        at = active[lost[0]]
        last = np.flatnonzero(active == at)[-1]
        fields = dict(array=region.name, index=region.index_of(at), shape=region.shape, lane=_lane(p, m, last))
        raise finding('racecheck', 'lanes', fields, _lane(p, m, lost[0]))


def _report_access(run, region, active, verb, p, m, value=None, sem=None):
    "Report an access to the detectors and to the trace"
    if not (run.racecheck or run.initcheck or run.trace):
        return
    f = frame_of()
    shadow = region.shadow
    at = active if shadow.region.dtype is region.dtype else shadow.offsets_of(region, active)
    if run.initcheck and shadow.unwritten is not None:
        shadow.initcheck(region, active, at, verb, lambda i: _lane(p, m, i))
    if run.racecheck:
        run.stamps.append((run.number, f.f_lineno, f.f_code.co_filename, verb, at.size if p.data.ndim else 1))
        shadow.racecheck(run, region, active, at, verb, lambda i: _lane(p, m, i), value)
        lanes = np.arange(at.size) if m is None or not m.ndim else np.flatnonzero(m)
        run.read_back(shadow, region, active, at, verb, lanes, value)
        if verb == 'atomic':  # after it: what this atomic releases does not order its own access
            run.on_atomic(shadow, at, sem, not p.data.ndim)
    if run.trace:
        run.trace.access(run, region, active, verb, f, p, m)


_ATOMICS = dict(
    add=np.add, max=np.maximum, min=np.minimum, xor=np.bitwise_xor, xchg=lambda old, new: new,
    **{'and': np.bitwise_and, 'or': np.bitwise_or},
)  # fmt: skip


def atomic(name, p, value, mask=None, expected=None, sem=None):
    "Update elements atomically through pointers; returns the old values"
    run = current()
    run.kept = run.recent, run.barrier
    found = _atomic(name, p, value, mask, expected, sem)
    if not found.data.ndim:  # a scalar's result: all threads wait for it
        run.fence()
    return found


def _atomic(name, p, value, mask, expected, sem):
    p = _pointer(p, f'tl.atomic_{name}')
    t = p.dtype.element_ty
    _takes_atomic(name, t)
    value = convert(block_of(value), t)
    value, undef_mask = value.data, value.undef_mask
    p, m = _broadcast_mask(p, mask)
    if value.ndim and value.shape != p.data.shape:
        _fits_pointer(value, p.data.shape)
    old = np.zeros(p.data.shape, t.np)
    if m is not None and not m.ndim:
        return tensor(old[()], t)
    region, active = _locate(p, m, mask, 'atomic')
    _warn_if_undefined(
        undef_mask if undef_mask is None else np.broadcast_to(undef_mask, p.data.shape), m, 'undefined_stored'
    )
    if region is None:
        return tensor(old[()], t)
    run = current()
    _report_access(run, region, active, 'atomic', p, m, sem=sem)

    def lanes(v):
        v = np.broadcast_to(v, p.data.shape)
        return v.reshape(-1) if m is None else v[m]

    if expected is not None:
        expected = convert(block_of(expected), t)
        _warn_if_undefined(expected.undef_mask, None, 'undefined_decision')
        expected = lanes(expected.data)
    got = _update(region.flat, active, lanes(value), name, expected)
    run.on_poll(got)
    if m is None:
        return tensor(got.reshape(p.data.shape)[()], t)
    old[m] = got
    return tensor(old, t)


def _takes_atomic(name, t):
    narrow = t.name in ('float16', 'bfloat16') and name not in ('add', 'cas', 'xchg')
    if narrow or t.size < 2 or t.name in ('int16', 'uint16') and name != 'cas':
        raise refuse(f'tl.atomic_{name} of {t}', 'Atomics work on 32 and 64 bits; atomic_add on fp16 and bf16, too.')
    if t.rank == 2 and name in ('and', 'or', 'xor'):
        raise refuse(f'tl.atomic_{name} of {t}', 'It combines the bits of integers.')


def _update(flat, at, value, name, expected):
    "Apply the update in lane order where lanes share an element; returns the old values"
    old = np.empty(at.size, flat.dtype)
    for lanes in _lanes_without_conflicts(at):
        before = old[lanes] = flat[at[lanes]]
        if name == 'cas':
            new = np.where(before == expected[lanes], value[lanes], before)
        else:
            new = _ATOMICS[name](before, value[lanes])
        flat[at[lanes]] = new.astype(flat.dtype)
    return old


def _lanes_without_conflicts(at):
    "Split lanes into groups in which no two access the same element"
    if at.size == 1 or np.unique(at).size == at.size:
        return [slice(None)]
    order = np.argsort(at, kind='stable')
    first = np.flatnonzero(np.append(True, np.diff(at[order]) != 0))
    rank = np.empty(at.size, np.int64)
    rank[order] = np.arange(at.size) - np.repeat(first, np.diff(np.append(first, at.size)))
    lanes = np.argsort(rank, kind='stable')
    return np.split(lanes, np.cumsum(np.bincount(rank))[:-1])
