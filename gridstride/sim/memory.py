"""Arrays as a kernel sees them, and the shadow memory that records who accessed each element.

Everything a kernel indexes is a `View`: a flat memory, an offset, a shape and strides. The offset
of a shared array differs between blocks, that of a local array between threads, so the same
code serves global, shared and local memory.
"""

from functools import cached_property

import numpy as np

from ..diagnostics.errors import NotCompiled, NotSimulated, WrongArgument
from ..support.array_memory import address, owner, span
from .arithmetic import as_numba
from .detectors import Shadow, element_at

__all__ = [
    'Mem',
    'as_dtype',
    'View',
    'strides_of',
    'fresh_view',
    'wrap',
    'freeze',
    'locate',
    'load',
    'not_an_array',
    'refuse_to_write',
    'as_element',
    'store',
]


class Mem:
    "A flat memory with the shadow of its elements, which is created by the first access that needs it"

    def __init__(self, data, name, space, fresh=False):
        self.data, self.name = data, name
        self.space, self.fresh = space, fresh  # 'global', 'shared' or 'local'; fresh: uninitialized
        self.dynamic = False  # its size was given by the launch
        self.frozen = False  # a constant of the kernel: as it was at compile time
        self.sealed = set()  # names under which it is read-only
        self.views = {}  # name -> `View`: the arrays in this memory, by their names in this launch
        self.fields = {}  # of records on the device: as `known` has them in `wrap`

    @cached_property
    def shadow(self):
        "The detectors' shadow of each element"
        size = len(self.data)
        few = self.space == 'global' and 4 * sum(int(np.max(v.size)) for v in self.views.values()) < size
        return Shadow(size, few)


class View:
    "An array in a kernel: element (i, j) is at `off + i*strides[0] + j*strides[1]` of `mem`"

    def __init__(self, mem, off, shape, strides, name=None):
        self.mem = mem
        self.off = off
        self.shape = shape
        self.strides = strides
        self.name = name or mem.name

    dtype = property(lambda self: self.mem.data.dtype)
    ndim = property(lambda self: len(self.shape))

    def __len__(self):
        return int(self.shape[0])

    def __getattr__(self, k):
        raise AttributeError(f'an array in a kernel has no {k!r}: work on its elements')

    def _refuse_as_number(self, *_):
        raise TypeError("a 'View' is not a number")  # `errors` explains it, with the array's name

    __eq__ = __ne__ = __bool__ = _refuse_as_number
    __hash__ = object.__hash__

    @property
    def size(self):
        "The number of elements"
        n = np.int64(1)
        for size in self.shape:
            n = n * size
        return n

    @property
    def T(self):
        "The same elements with the axes reversed"
        return View(self.mem, self.off, self.shape[::-1], self.strides[::-1], self.name)

    @property
    def nbytes(self):
        "The bytes of all of its memory"
        return self.mem.data.nbytes

    def element(self, run, m, at, site):
        "Return the element at an index within bounds, for the lanes of `m`"
        return _read(run, m, self, _off(self, at), site)

    def rename(self, name):
        "Name the view"
        self.name = self.mem.name = name
        self.mem.views[name] = self

    def again(self):
        "Return a copy of the view that can be renamed"
        return View(self.mem, self.off, self.shape, self.strides, self.name)

    def merge(self, m, old):
        "Return this view for the lanes of `m` and `old` for the others; possible for two views of one memory"
        if not (
            isinstance(old, View) and old.mem is self.mem and old.strides == self.strides and old.ndim == self.ndim
        ):
            raise NotSimulated('a variable that holds different arrays in different threads')
        return View(
            self.mem,
            np.where(m, self.off, old.off),
            tuple(s if s is size else np.where(m, s, size) for s, size in zip(self.shape, old.shape)),
            self.strides,
            self.name,
        )


def _dtype_named(name):
    try:
        return np.dtype(name)
    except TypeError:
        return None


def as_dtype(d):
    "Convert an element type to NumPy's dtype: np.float32, numba.float32, 'float32'; raises `TypeError` for other types"
    try:
        dtype = np.dtype(d)
    except TypeError:
        dtype = _dtype_named(str(d))
    if dtype is None or dtype.kind == 'O':
        raise TypeError(f'{d!r} is not a type of numbers; np.float32 is one')
    return dtype


def strides_of(shape):
    "Return the strides, in elements, of a contiguous array"
    res = []
    n = 1
    for size in reversed(shape):
        res.append(n)
        n *= int(size)
    return tuple(res[::-1])


def fresh_view(shape, dtype, name, space, copies=1, which=0):
    "Allocate `copies` uninitialized arrays, one after the other; lane i has copy `which[i]`"
    size = int(np.prod(shape, dtype=np.int64))
    mem = Mem(np.zeros(size * copies, dtype), name, space, fresh=True)
    return View(mem, which * size if copies > 1 else 0, tuple(np.int64(extent) for extent in shape), strides_of(shape))


# An argument is wrapped in place: the caller sees what the kernel writes. Two arguments that overlap
# share one `Mem`, so a race through two names is found, too; so do all fields of records that are of one type.
def wrap(
    a,  # a NumPy array of any layout
    name,  # what messages call it
    known,  # memory that was wrapped already -> its `Mem`
    flat=None,  # flat array of all the memory that `a` is a part of, if known
):
    "Make a `View` of the array `a`"
    if a.dtype.kind not in 'biufc' or a.dtype.char in 'gG' or not a.dtype.isnative:
        hint = f'Convert it to a numeric type of the GPU, for example with {name}.astype(np.float32).'
        raise NotSimulated(f'{name} is an array of {a.dtype}', hint)
    base = owner(a) if flat is None else flat
    if flat is None and base.dtype == a.dtype and (base.flags.c_contiguous or base.flags.f_contiguous):
        flat = base.reshape(-1, order='A')
    elif flat is None and base.flags.c_contiguous and not (base.dtype.hasobject or base.nbytes % a.itemsize):
        flat = base.reshape(-1).view(np.uint8).view(a.dtype)
    if flat is None or (address(a) - address(flat)) % a.itemsize:
        flat = span(a)
    return part_of(flat, a, name, known)


def key_of(flat):
    "Return the key of a memory in `known`, given as a flat array"
    return address(flat), flat.size, flat.dtype.str, flat.strides[0]


def part_of(
    flat,  # the memory: a flat array whose elements may be any distance apart
    a,  # an array of some of these elements
    name,
    known,
):
    "Make a `View` of `a`"
    key = key_of(flat)
    step = flat.strides[0] or a.itemsize  # the stride may be 0 for an empty array
    if key not in known:
        known[key] = Mem(flat, name, 'global')
    if not a.flags.writeable:
        known[key].sealed.add(name)
    known[key].views[name] = view = View(
        known[key],
        np.int64((address(a) - address(flat)) // step),
        tuple(np.int64(size) for size in a.shape),
        tuple(s // step for s in a.strides),
        name,
    )
    return view


def freeze(a, name):
    "Make a `View` of a copy of `a`, an array outside the kernel: Numba makes it a constant when it compiles"
    a = a.copy()
    a.flags.writeable = False
    view = wrap(a, name, {})
    view.mem.frozen = True
    return view


def _to_int64(run, m, v, i, site):
    "Convert the index `i` to a 64-bit integer"
    if getattr(i, 'dtype', None) is None or i.dtype == np.int64:
        return i
    if i.dtype.kind not in 'iub':
        run.detectors.memcheck.type(run, m, v, i, site)
    return i.astype(np.int64)


def _slice(run, m, i, n, site):
    "Return (first index, count, step) of a slice of an axis of length `n`"
    start, stop, step = (
        bound if bound is None else np.asarray(bound).astype(np.int64)[()] for bound in (i.start, i.stop, i.step)
    )
    start, stop = (
        default if bound is None else np.minimum(np.where(np.less(bound, 0), bound + n, bound), n)
        for bound, default in ((start, 0), (stop, n))
    )
    step = 1 if step is None else step
    if np.ndim(step) or step < 1:
        raise run.refusal(site, m, 'a slice whose step is not a positive number, the same for all threads')
    return start, np.maximum(-((start - stop) // step), 0), int(step)


def _is_out_of_bounds(i, n, m):
    "Return whether the index `i` is out of bounds for an axis of length `n`, in any lane of `m`"
    if np.ndim(i) == np.ndim(n) == 0:
        return not 0 <= i < n
    bad = (i < 0) | (i >= n)
    return bad.any() and (bad & m).any()


def locate(run, m, v, idx, site, access):
    """Resolve `v[idx]`: to a `View` if indices are missing or are slices, else to the offset of the element.

    `access`: what is done there, a 'read', a 'write' or an 'atomic'.
    Raises `MemcheckError` for an index out of bounds, `NotSimulated` for slices that differ between threads."""
    idx = idx if isinstance(idx, tuple) else (idx,)
    if idx and (idx[0] is Ellipsis or idx[-1] is Ellipsis):
        given = tuple(i for i in idx if i is not Ellipsis)
        omitted = (slice(None),) * (v.ndim - len(given))
        idx = (*omitted, *given) if idx[0] is Ellipsis else (*given, *omitted)
    if len(idx) > v.ndim:
        run.detectors.memcheck.count(run, m, v, len(idx), site)
    off = v.off
    shape = []
    strides = []
    for ax, (i, n, s) in enumerate(zip(idx, v.shape, v.strides)):
        if isinstance(i, slice):
            i, length, step = _slice(run, m, i, n, site)
            shape.append(length)
            strides.append(int(s) * step)
        else:
            i = _to_int64(run, m, v, i, site)
            if _is_out_of_bounds(i, n, m):
                run.detectors.memcheck.outside(run, m, v, idx, ax, site, access)
        off = off + i * s
    if len(idx) == v.ndim and not shape:
        return off
    return View(v.mem, off, (*shape, *v.shape[len(idx) :]), (*strides, *v.strides[len(idx) :]), v.name)


def not_an_array(run, v, site):
    "Make the `TypeError` for a value that is not an array but is indexed"
    s = run.program.sites[site]
    what = 'number' if isinstance(v, (np.ndarray, np.generic)) else type(v).__name__
    return TypeError(f'{run.kernel}, line {s.line}: {s.source}: a {what} is indexed; an array or a tensor can be')


def load(run, m, v, idx, site):
    "Load `v[idx]` in the lanes of `m`; `v` may also be a tuple, or an object with a `load` of its own"
    if not isinstance(v, View):
        if hasattr(v, 'load'):
            return v.load(run, m, idx, site)
        if isinstance(v, (np.ndarray, np.generic)):
            raise not_an_array(run, v, site)
        return _load_from_tuple(run, m, v, idx, site) if np.ndim(idx) else as_numba(v[idx])
    off = locate(run, m, v, idx, site, 'read')
    return off if isinstance(off, View) else _read(run, m, v, off, site)


def _read(run, m, v, off, site):
    "Load the elements at `off`"
    mem = v.mem
    if run.watched:
        run.access(m, v, off, site, 'read')
    if np.ndim(off) == 0:
        return mem.data[off]
    return mem.data[off if m is run.g.all else np.where(m, off, 0)]


# A tuple whose index differs between threads: Numba allows it if all elements have one type.
def _load_from_tuple(run, m, v, i, site):
    if i.dtype.kind not in 'iu' or not isinstance(v, tuple):
        raise run.refusal(site, m, 'a tuple with an index that is not an integer', 'Use //, or int(...).', NotCompiled)
    n = len(v)
    i = i.astype(np.int64)
    outside = m & ((i < -n) | (i >= n))
    if outside.any():
        lane = int(np.argmax(outside))
        fields = dict(access='read', array='tuple', index=(int(i[lane]),), shape=(n,))
        raise run.finding('memcheck', 'outside', site, m, lane, **fields)
    return _gather(run, m, v, np.where(m, i % n, 0), site)


def _gather(run, m, v, i, site):
    "Gather element `i` of `v`, where `i` differs between lanes"
    kinds = {(type(x), getattr(as_numba(x), 'dtype', len(x) if isinstance(x, tuple) else None)) for x in v}
    if len({kind for _, kind in kinds}) > 1 or None in {kind for _, kind in kinds}:
        what = 'a tuple of several types that is indexed differently in different threads'
        raise run.refusal(site, m, what, 'Make its elements of one type, or use an array.', NotCompiled)
    if isinstance(v[0], tuple):
        return tuple(_gather(run, m, part, i, site) for part in zip(*v))
    if isinstance(v[0], View):
        res = v[0]
        for k, item in enumerate(v[1:], 1):
            res = item.merge(i == k, res)
        return res
    if not any(np.ndim(item) for item in v):
        return np.array([as_numba(item) for item in v])[i]
    return np.stack([np.broadcast_to(item, i.shape) for item in v])[i, np.arange(len(i))]


def refuse_to_write(run, m, v, off, site):
    "Raise an error if the array is read-only, or was captured from outside the kernel"
    if v.mem.frozen:
        first = off if np.ndim(off) == 0 else off[run.active(m)[0]]
        raise run.finding('memcheck', 'constant', site, m, **element_at(v, first))
    if v.name in v.mem.sealed:
        s = run.program.sites[site]
        what = f'{run.kernel}: {v.name} is read-only, but line {s.line} writes to it: {s.source}'
        raise WrongArgument(f'{what}\n  Pass a copy: {v.name}.copy()')


_NOT_NUMBERS = {  # type -> what it is called, and how to fix it
    'NoneType': ('None', 'A function that returns nothing gives None: let it return a number.'),
    'Undefined': ('what has no value', 'A variable needs one before, and a function has to `return` what it computes.'),
    'Record': ('a record', 'Write one of its fields.'),
    'Records': ('an array of records', 'Write a field of one of them.'),
    'View': ('an array', 'Write one of its elements.'),
    'tuple': ('a tuple', 'Write its elements one by one.'),
}


def not_a_number(run, v, value, site):
    "Make the `TypeError` for a value that is not a number but is written to an array of numbers"
    s = run.program.sites[site]
    kind = type(value).__name__
    called, hint = _NOT_NUMBERS.get(kind, (f'a {kind}', 'An element is a number.'))
    where = f'{run.kernel}, line {s.line}: {s.source}'
    return TypeError(f'{where}: {called} is written to {v.name}, whose elements are {v.dtype}\n  {hint}')


def as_element(run, m, v, value, site):
    """Convert `value` to elements of `v`, one per lane. Raises `NotSimulated` for complex numbers that Numba has not,
    `TypeError` for what is not a number"""
    given = value
    value = np.asarray(value)
    dtype = v.dtype
    if value.dtype.kind not in 'biufc' or isinstance(given, (tuple, list)):
        raise not_a_number(run, v, given, site)
    if value.dtype.kind == 'c' != dtype.kind:
        what = f'a complex number in {v.name}, whose elements are {dtype}, which Numba does not compile'
        raise run.refusal(site, m, what, 'Write z.real, or abs(z); or let the array be of np.complex64.')
    return run.broadcast_to_active(m, value.astype(dtype))


def store(run, m, v, idx, value, site):
    "Store `value` to `v[idx]` in the lanes of `m`; where lanes write one element, the last in the chosen order wins"
    if not isinstance(v, View):
        if hasattr(v, 'store'):
            return v.store(run, m, idx, value, site)
        raise not_an_array(run, v, site)
    off = locate(run, m, v, idx, site, 'write')
    if isinstance(off, View):
        _store_part(run, m, off, value, site)
    else:
        _write(run, m, v, off, value, site)


def _write(run, m, v, off, value, site):
    "Store `value` at `off`"
    mem = v.mem
    refuse_to_write(run, m, v, off, site)
    off = run.broadcast_to_active(m, off)
    value = as_element(run, m, v, value, site)
    if run.watched:
        run.access(m, v, off, site, 'written', value)
    mem.data[off] = value


# A slice, a[:, 1] or row[:], is assigned one number or the elements of another array, which are all read before
# the first is written. The slice may have another size in each thread.
def _store_part(run, m, part, value, site):
    if isinstance(value, tuple):
        value = _NumberTuple(value)
    if not isinstance(value, (View, _NumberTuple)):
        for at, here in _elements_of(m, part):
            _write(run, here, part, _off(part, at), value, site)
        return
    _need_shape(m, part, value)
    skip = len(part.shape) - len(value.shape)
    read = [
        (at, here, value.element(run, here, _within(at[skip:], value.shape), site))
        for at, here in _elements_of(m, part)
    ]
    for at, here, v in read:
        _write(run, here, part, _off(part, at), v, site)


class _NumberTuple:
    "A tuple of numbers that is assigned to a slice"

    def __init__(self, values):
        self.values, self.shape = values, (len(values),)

    def element(self, run, m, at, site):
        return self.values[at[0]]


def _elements_of(m, part):
    "Yield (index, the lanes of `m` whose slice has it) for each element of a slice"
    uniform = all(np.ndim(n) == 0 for n in part.shape)
    for at in np.ndindex(*(int(np.max(np.where(m, n, 0))) for n in part.shape)):
        here = m
        for i, n in zip(at, () if uniform else part.shape):
            here = here & (i < n)
        if uniform or here.any():
            yield at, here


def _off(v, at):
    off = v.off
    for i, s in zip(at, v.strides):
        off = off + i * s
    return off


def _within(at, shape):
    "Map the index `at` to an array whose axes of one element are broadcast"
    return tuple(0 if np.ndim(n) == 0 and n == 1 else i for i, n in zip(at, shape))


def _need_shape(m, part, value):
    "Raise `ValueError` unless `value` has the shape of the slice, or can be broadcast to it, as in NumPy"
    shapes = list(zip(part.shape[::-1], value.shape[::-1]))
    fits = all(np.all((np.equal(n, k) | np.equal(k, 1)) | ~m) for n, k in shapes)
    if len(value.shape) > len(part.shape) or not fits:
        given, wanted = (tuple(int(np.max(n)) for n in view.shape) for view in (value, part))
        raise ValueError(f'a part of {part.name} of shape {wanted} is assigned what has shape {given}')
