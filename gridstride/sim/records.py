"""Arrays of records in a kernel, `np.dtype([('x', 'f4'), ('n', 'i4')])`: one `View` per field.

`a[i]` is a record, `a[i].x` and `a[i]['x']` its field, `a['x']` and `a.x` the array of this field of all records. A
field may be an array, or a record. Memory is accessed per field; so each field has its own shadow, and findings name
it, `a.x`. initcheck tracks records that a kernel makes and those of the device; others count as written.
"""

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..support.array_memory import address, owner
from .lanes import merge
from .memory import Mem, View, fresh_view, load, part_of, store, strides_of, wrap

__all__ = ['Record', 'Records', 'attribute', 'freeze_records', 'fresh_array', 'store_attribute', 'wrap_array']


class Records:
    "Records in a kernel; the first `ndim` axes of each field are those of the records"

    def __init__(self, name, fields, ndim):
        self.name = name
        self.fields = fields  # name -> `View` or `Records`
        self.ndim = ndim

    first = property(lambda self: next(iter(self.fields.values())))
    shape = property(lambda self: self.first.shape[: self.ndim])
    size = property(lambda self: np.prod(self.shape, dtype=np.int64))
    nbytes = property(lambda self: sum(v.nbytes for v in self.fields.values()))

    def __len__(self):
        return int(self.shape[0])

    def __getattr__(self, k):
        raise AttributeError(f'records in a kernel have no {k!r}: their fields are {", ".join(self.fields)}')

    def again(self):
        "Return a copy of the records that can be renamed"
        return Records(self.name, {k: v.again() for k, v in self.fields.items()}, self.ndim)

    def rename(self, name):
        "Name the records, and their fields accordingly"
        self.name = name
        for k, v in self.fields.items():
            v.rename(f'{name}.{k}')

    def merge(self, m, old):
        "Return these records for the lanes of `m` and `old` for the others"
        if not isinstance(old, Records) or old.fields.keys() != self.fields.keys():
            raise NotSimulated('a variable that holds different arrays in different threads')
        return Records(self.name, {k: v.merge(m, old.fields[k]) for k, v in self.fields.items()}, self.ndim)

    def field(self, k):
        "Return the field of this name"
        if k not in self.fields:
            raise AttributeError(f'{self.name} has no field {k!r}; it has {", ".join(self.fields)}')
        return self.fields[k]

    def load(self, run, m, idx, site):
        "Load a field of all records, a record, or a slice of the records"
        if isinstance(idx, str):
            return self.field(idx)
        at = idx if isinstance(idx, tuple) else (idx,)
        if len(at) == self.ndim and not any(isinstance(i, slice) for i in at):
            return Record(self, at)
        fields = {k: load(run, m, v, idx, site) for k, v in self.fields.items()}
        return Records(self.name, fields, self.ndim - sum(not isinstance(i, slice) for i in at))

    def store(self, run, m, idx, value, site):
        "Store a whole record"
        to = self.load(run, m, idx, site)
        if not isinstance(to, Record) or not isinstance(value, Record):
            raise run.refusal(site, m, f'assigning to {self.name} what is not a record; write its fields one by one')
        _copy(run, m, to, value, site)


class Record:
    "One of `records`, or one per lane"

    def __init__(self, records, at):
        self.records, self.at = records, at  # at: its index, per axis

    def merge(self, m, old):
        "Return this record for the lanes of `m` and `old` for the others"
        if not isinstance(old, Record) or old.records is not self.records:
            raise NotSimulated('a variable that is a record of different arrays in different threads')
        return Record(self.records, merge(m, self.at, old.at))

    def load(self, run, m, k, site):
        "Load the field `k`"
        return load(run, m, self.records.field(k), self.at, site)

    def store(self, run, m, k, value, site):
        "Store the field `k`"
        store(run, m, self.records.field(k), self.at, value, site)


def _copy(run, m, to, value, site):
    "Store a record, or an array in one, as a whole"
    for k in to.records.fields if isinstance(to, Record) else np.ndindex(*map(int, to.shape)):
        new = value.load(run, m, k, site) if isinstance(value, Record) else load(run, m, value, k, site)
        if isinstance(new, (Record, View)):
            _copy(run, m, to.load(run, m, k, site), new, site)
        else:
            store(run, m, to, k, new, site)


def attribute(run, m, v, k, site):
    "Load `v.k`"
    if isinstance(v, Record) or isinstance(v, Records) and k in v.fields:
        return v.load(run, m, k, site)
    return getattr(v, k)


def store_attribute(run, m, v, k, value, site):
    "Store `v.k = value`"
    if not isinstance(v, Record):
        raise run.refusal(site, m, f'assigning to .{k} of what is not a record')
    v.store(run, m, k, value, site)


def wrap_array(
    a,  # a NumPy array of any layout
    name,  # what messages call it
    known,  # memory that was wrapped already -> its `Mem`
):
    "Convert the array `a`, of numbers or of records, to what a kernel accesses"
    if a.dtype.names is None:
        return _wrap_packed_field(a, name, known) if any(s % a.itemsize for s in a.strides) else wrap(a, name, known)
    return Records(name, {k: wrap_array(a[k], f'{name}.{k}', known) for k in a.dtype.names}, a.ndim)


def freeze_records(a, name):
    "Make `Records` of a copy of `a`, records outside the kernel: Numba makes them a constant when it compiles"
    a = a.copy()
    known = {}
    a.flags.writeable = False
    res = wrap_array(a, name, known)
    for mem in known.values():
        mem.frozen = True
    return res


def _wrap_packed_field(a, name, known):
    "Wrap a field of packed records: its elements are the memory, whatever is between them"
    base = owner(a)
    step = base.itemsize
    if base.flags.c_contiguous and base.dtype.names and not any(s % step for s in a.strides):
        phase = (address(a) - address(base)) % step
        flat = np.ndarray(base.size, a.dtype, base.reshape(-1).view(np.uint8), phase, (step,))
        return part_of(flat, a, name, known)
    flat = a.reshape(-1)
    if not np.shares_memory(flat, a) and a.size:
        what = f'the layout of {name}, whose elements are not on a grid'
        raise NotSimulated(what, 'Pass a copy; records of np.dtype(..., align=True) are on one.')
    mem = Mem(flat, name, 'global')
    if not a.flags.writeable:
        mem.sealed.add(name)
    return View(mem, np.int64(0), tuple(np.int64(size) for size in a.shape), strides_of(a.shape), name)


def fresh_array(shape, dtype, space, copies, which):
    "Allocate `copies` uninitialized arrays of numbers or of records; lane i has copy `which[i]`"
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        shape = (*shape, *inner)
    if dtype.names is None:
        return fresh_view(shape, dtype, None, space, copies, which)
    fields = {k: fresh_array(shape, dtype[k], space, copies, which) for k in dtype.names}
    return Records(None, fields, len(shape))
