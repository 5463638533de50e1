"""Host memory that the device accesses, too: pinned, mapped and managed arrays.

`HostArray` is a NumPy array that reports to `happens_before` when the host reads or writes its elements: by an index,
in a ufunc, or by one of its methods. Other accesses by NumPy, such as `np.asarray`, are not reported.
"""

from functools import partialmethod

import numpy as np

from ..support.array_memory import address
from .happens_before import check_host_access, stream_order
from .host import DeviceArray
from .memory import Mem, as_dtype
from .records import wrap_array

__all__ = ['pinned_array', 'pinned_array_like', 'mapped_array', 'mapped_array_like', 'managed_array']


class HostArray(np.ndarray):
    "A host array that kernels and asynchronous copies may access"

    mem = None

    def __array_finalize__(self, obj):
        mem = getattr(obj, 'mem', None)
        overlaps = mem is not None and 0 <= address(self) - address(mem.data) < max(mem.data.nbytes, 1)
        self.mem = mem if overlaps else None

    def report_access(self, writes, index=...):
        "Report that the host reads or writes `self[index]`"
        if self.mem is not None:
            check_host_access(self.view(np.ndarray), self.mem, writes, index)

    def device_view(self, name, memories):
        "Return this array as a `View` or `Records` for a kernel"
        a = self.view(np.ndarray)
        return (
            wrap_array(a, name, memories) if self.mem is None else DeviceArray(a, self.mem).device_view(name, memories)
        )

    def __getitem__(self, i):
        item = super().__getitem__(i)
        if getattr(item, 'mem', None) is None:  # a number or a copy, not a view
            self.report_access(False, i)
        return item

    def __setitem__(self, i, value):
        self.report_access(True, i)
        super().__setitem__(i, _read_plain(value))

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **keywords):
        outputs = (*out, *inputs[:1]) if method == 'at' else out
        for a in outputs:
            if isinstance(a, HostArray):
                a.report_access(True)
        if out:
            keywords['out'] = tuple(array.view(np.ndarray) if isinstance(array, HostArray) else array for array in out)
        result = getattr(ufunc, method)(*map(_read_plain, inputs), **{k: _read_plain(v) for k, v in keywords.items()})
        return result if not out else out[0] if len(out) == 1 else out

    def _call(self, method, writes, /, *args, **keywords):
        "Report an access to the array, and call NumPy's method"
        self.report_access(writes)
        return getattr(self.view(np.ndarray), method)(*args, **keywords)


def _read_plain(value):
    "Convert an argument of a NumPy function to a plain array, and report that the function reads it"
    if not isinstance(value, HostArray):
        return value
    value.report_access(False)
    return value.view(np.ndarray)


_READING_METHODS = """__repr__ __str__ __iter__ __contains__ __float__ __int__ __bool__ __index__ __complex__ all any
argmax argmin argsort astype choose clip compress copy cumprod cumsum diagonal dot flatten item max mean min nonzero
prod repeat round searchsorted std sum take tobytes tofile tolist trace var"""
for _writes, _methods in ((False, _READING_METHODS), (True, 'fill itemset partition put sort')):
    for _name in _methods.split():
        if hasattr(np.ndarray, _name):
            setattr(HostArray, _name, partialmethod(HostArray._call, _name, _writes))


def _allocate(shape, dtype, order, is_pinned):
    stream_order.has_host_arrays = True
    data = np.zeros(shape, as_dtype(dtype), order)
    array = data.view(HostArray)
    array.mem = Mem(data.reshape(-1, order='A'), None, 'global')
    array.mem.is_pinned = is_pinned
    return array


def pinned_array(shape, dtype=np.float64, strides=None, order='C'):
    "Allocate a page-locked host array: a stream copies to and from it asynchronously"
    return _allocate(shape, dtype, order, True)


def mapped_array(shape, dtype=np.float64, strides=None, order='C', stream=0, portable=False, wc=False):
    "Allocate a host array that kernels access in host memory"
    return _allocate(shape, dtype, order, False)


def managed_array(shape, dtype=np.float64, strides=None, order='C', stream=0, attach_global=True):
    "Allocate an array that both the host and kernels access"
    return _allocate(shape, dtype, order, False)


def _order(a):
    return 'F' if a.flags.f_contiguous and not a.flags.c_contiguous else 'C'


def pinned_array_like(a):
    "Allocate a pinned array with the shape and type of `a`"
    return pinned_array(a.shape, a.dtype, order=_order(a))


def mapped_array_like(a, stream=0, portable=False, wc=False):
    "Allocate a mapped array with the shape and type of `a`"
    return mapped_array(a.shape, a.dtype, order=_order(a))
