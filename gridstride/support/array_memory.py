"""Finds the memory of an array: its owner, its bounds, and the memory as a flat array."""

import numpy as np

__all__ = [
    'owner',
    'address',
    'byte_bounds',
    'span_length',
    'span',
    'flat_storage',
    'strided_view',
    'array_from_interface',
]


def owner(a):
    "Return the array that owns the memory of the NumPy array `a`"
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def address(a):
    "Return the address of the first element of a NumPy array"
    return a.__array_interface__['data'][0]


def byte_bounds(a):
    "Return (address of the first byte of a NumPy array, address past its last byte); equal for an empty array"
    start = address(a)
    if not a.size:
        return start, start
    ends = [(n - 1) * s for n, s in zip(a.shape, a.strides)]
    return start + sum(end for end in ends if end < 0), start + sum(end for end in ends if end > 0) + a.itemsize


def span_length(shape, strides):
    """Count the elements from the lowest to the highest address of an array, gaps included; `strides` are in elements.

    >>> span_length((2, 3), (8, 1))
    11"""
    return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides)) if all(shape) else 0


def span(a):
    "Return the memory from the lowest to the highest element of a NumPy array, as a flat array"
    ascending = a[(..., *(slice(None, None, -1) if s < 0 else slice(None) for s in a.strides))]
    size = -(
        -span_length(ascending.shape, ascending.strides) // a.itemsize
    )  # strides in bytes may not be multiples of the item size
    return np.lib.stride_tricks.as_strided(ascending, (size,), (a.itemsize,))


def flat_storage(tensor):
    "Return the whole storage of a torch tensor as a flat tensor"
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


def strided_view(
    flat,  # a flat NumPy array
    first_index,  # index of the first element
    shape,
    strides,  # in elements of `flat`
):
    "Return a strided view of `flat`"
    step = flat.strides[0] or flat.itemsize  # the stride may be 0 for an empty array
    return np.lib.stride_tricks.as_strided(flat[first_index:], shape, [s * step for s in strides])


class _ArrayInterface:
    "Exposes the memory of an array with a `__cuda_array_interface__` to NumPy, and keeps the array alive"

    def __init__(self, array):
        self.array = array
        interface = array.__cuda_array_interface__
        fields = 'shape', 'strides', 'typestr', 'descr', 'data', 'version'
        self.__array_interface__ = {field: interface[field] for field in fields if field in interface}


def array_from_interface(array):
    "Return the memory of an array of another library as a NumPy array; it must be CPU memory"
    return np.asarray(_ArrayInterface(array))
