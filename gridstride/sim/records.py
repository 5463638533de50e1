"""Arrays of records in a kernel, `np.dtype([('x', 'f4'), ('n', 'i4')])`: one `View` per field.

`a[i]` is a record, and `a[i].x` or `a[i]['x']` is its field x. `a['x']` or `a.x` is the array of the fields x of all
records. A field may be an array, or a record. Memory is accessed per field, so each field has its own shadow memory,
and findings name the field: `a.x`. initcheck tracks shared, local and device arrays of records; it assumes that others
are initialized.
"""

import ctypes

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..support.array_memory import address, owner
from .lanes import merge
from .memory import Mem, View, allocate_view, load, view_of_elements, store, strides_of, make_view

__all__ = [
    'Record',
    'Records',
    'allocate_array',
    'attribute',
    'freeze_records',
    'store_attribute',
    'wrap_array',
    'wrap_record',
]


class Records:
    "Records in a kernel; the first `ndim` axes of each field are the axes of the records"

    def __init__(self, name, fields, ndim):
        self.name = name
        self.fields = fields  # name -> `View` or `Records`
        self.ndim = ndim

    first_field = property(lambda self: next(iter(self.fields.values())))
    shape = property(lambda self: self.first_field.shape[: self.ndim])
    size = property(lambda self: np.prod(self.shape, dtype=np.int64))
    nbytes = property(lambda self: sum(v.nbytes for v in self.fields.values()))

    def __len__(self):
        return int(self.shape[0])

    def __getattr__(self, k):
        raise AttributeError(f'records in a kernel have no {k!r}: their fields are {", ".join(self.fields)}')

    def renamable_copy(self):
        "Return `Records` of the same memory, which can be renamed without renaming these"
        return Records(self.name, {k: view.renamable_copy() for k, view in self.fields.items()}, self.ndim)

    def rename(self, name):
        "Name the records, and their fields accordingly"
        self.name = name
        for field, view in self.fields.items():
            view.rename(f'{name}.{field}')

    def merge(self, mask, old_records):
        "Return these records for the lanes of `mask` and `old_records` for the others"
        if not isinstance(old_records, Records) or old_records.fields.keys() != self.fields.keys():
            raise NotSimulated('a variable cannot refer to different arrays in different threads')
        return Records(
            self.name,
            {name: view.merge(mask, old_records.fields[name]) for name, view in self.fields.items()},
            self.ndim,
        )

    def field(self, name):
        "Return the field of this name"
        if name not in self.fields:
            raise AttributeError(f'{self.name} has no field {name!r}; it has {", ".join(self.fields)}')
        return self.fields[name]

    def load(self, ctx, active, idx, site):
        "Load a field of all records, a record, or a slice of the records"
        if isinstance(idx, str):
            return self.field(idx)
        index = idx if isinstance(idx, tuple) else (idx,)
        if len(index) == self.ndim and not any(isinstance(i, slice) for i in index):
            return Record(self, index)
        fields = {name: load(ctx, active, view, idx, site) for name, view in self.fields.items()}
        return Records(self.name, fields, self.ndim - sum(not isinstance(i, slice) for i in index))

    def store(self, ctx, active, idx, value, site):
        "Store a record"
        target = self.load(ctx, active, idx, site)
        if not isinstance(target, Record) or not isinstance(value, Record):
            raise ctx.unsupported_error(
                site, active, f'an element of {self.name} can only be assigned a record; store its fields one by one'
            )
        _copy(ctx, active, target, value, site)


class Record:
    "An element of `records`, which may differ between lanes"

    def __init__(self, records, index):
        self.records, self.index = records, index  # index: one per axis

    def merge(self, mask, old_record):
        "Return this record for the lanes of `mask` and `old_record` for the others"
        if not isinstance(old_record, Record) or old_record.records is not self.records:
            raise NotSimulated('a variable cannot refer to records of different arrays in different threads')
        return Record(self.records, merge(mask, self.index, old_record.index))

    def load(self, ctx, active, name, site):
        "Load a field by its name or its index"
        if isinstance(name, (int, np.integer)):
            name = [*self.records.fields][name]
        return load(ctx, active, self.records.field(name), self.index, site)

    def store(self, ctx, active, name, value, site):
        "Store the field `name`"
        store(ctx, active, self.records.field(name), self.index, value, site)


def _copy(ctx, active, target, value, site):
    "Copy a record field by field, or an array in a record element by element"
    for key in target.records.fields if isinstance(target, Record) else np.ndindex(*map(int, target.shape)):
        element = (
            value.load(ctx, active, key, site) if isinstance(value, Record) else load(ctx, active, value, key, site)
        )
        if isinstance(element, (Record, View)):
            _copy(ctx, active, target.load(ctx, active, key, site), element, site)
        else:
            store(ctx, active, target, key, element, site)


def attribute(ctx, active, value, name, site):
    "Load the attribute `name` of `value`"
    if isinstance(value, Record) or isinstance(value, Records) and name in value.fields:
        return value.load(ctx, active, name, site)
    return getattr(value, name)


def store_attribute(ctx, active, record, name, value, site):
    "Store `value` to the field `name` of a record"
    if not isinstance(record, Record):
        raise ctx.unsupported_error(site, active, f'.{name} cannot be assigned: only fields of records can')
    record.store(ctx, active, name, value, site)


def wrap_array(
    array,  # a NumPy array of any layout
    name,  # in messages
    memories,  # memory key -> `Mem`: the memories of this launch so far
):
    "Make a `View` of an array of scalars, or `Records` of an array of records"
    if array.dtype.names is None:
        return (
            _wrap_packed_field(array, name, memories)
            if any(s % array.itemsize for s in array.strides)
            else make_view(array, name, memories)
        )
    return Records(name, {k: wrap_array(array[k], f'{name}.{k}', memories) for k in array.dtype.names}, array.ndim)


def wrap_record(
    record,  # a record of NumPy, which is a view of its memory
    name,
    memories,  # as for `wrap_array`
):
    "Make a `Record` of a single record that is passed as an argument; the kernel accesses it in place"
    memory = (ctypes.c_byte * record.nbytes).from_address(np.frombuffer(record, np.uint8).ctypes.data)
    memory.owner = record  # `memory` itself does not keep the record alive
    return Record(wrap_array(np.frombuffer(memory, record.dtype), name, memories), (np.int64(0),))


def freeze_records(array, name):
    "Make read-only `Records` of a copy of `array`, a global array: Numba compiles its values into the kernel"
    array = array.copy()
    memories = {}
    array.flags.writeable = False
    records = wrap_array(array, name, memories)
    for mem in memories.values():
        mem.is_constant = True
    return records


def _wrap_packed_field(array, name, memories):
    "Make a `View` of a field of packed records, whose stride is not a multiple of its size: one `Mem` per field"
    base = owner(array)
    record_bytes = base.itemsize
    if base.flags.c_contiguous and base.dtype.names and not any(stride % record_bytes for stride in array.strides):
        byte_offset = (address(array) - address(base)) % record_bytes  # of the field in a record
        flat = np.ndarray(base.size, array.dtype, base.reshape(-1).view(np.uint8), byte_offset, (record_bytes,))
        return view_of_elements(flat, array, name, memories)
    flat = array.reshape(-1)
    if not np.shares_memory(flat, array) and array.size:
        problem = f'the strides of {name} must be multiples of the element size'
        raise NotSimulated(problem, 'Pass a copy, or use np.dtype(..., align=True).')
    mem = Mem(flat, name, 'global')
    if not array.flags.writeable:
        mem.read_only_names.add(name)
    return View(mem, np.int64(0), tuple(np.int64(size) for size in array.shape), strides_of(array.shape), name)


def allocate_array(shape, dtype, space, num_copies, copy_index):
    "Allocate `num_copies` uninitialized arrays of scalars or records; lane i has copy `copy_index[i]`"
    if dtype.subdtype is not None:
        dtype, inner_shape = dtype.subdtype
        shape = (*shape, *inner_shape)
    if dtype.names is None:
        return allocate_view(shape, dtype, None, space, num_copies, copy_index)
    fields = {name: allocate_array(shape, dtype[name], space, num_copies, copy_index) for name in dtype.names}
    return Records(None, fields, len(shape))
