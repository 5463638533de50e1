"""The memory that an array covers: its owner, its bounds, and all of it as a flat array."""

import numpy as np

__all__ = ['owner', 'address', 'byte_bounds', 'reach', 'span', 'whole_storage', 'part']


def owner(a):
    "Return the array that owns the memory of the NumPy array `a`"
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def address(a):
    "Return the address of the first element of a NumPy array"
    return a.__array_interface__['data'][0]


def byte_bounds(a):
    "Return the addresses of the first byte that a NumPy array covers, and of the byte after the last; equal if empty"
    first = address(a)
    if not a.size:
        return first, first
    ends = [(n - 1) * s for n, s in zip(a.shape, a.strides)]
    return first + sum(end for end in ends if end < 0), first + sum(end for end in ends if end > 0) + a.itemsize


def reach(shape, strides):
    """Count the elements from the lowest address of an array to the highest, gaps included; `strides` in elements.

    >>> reach((2, 3), (8, 1))
    11"""
    return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides)) if all(shape) else 0


def span(a):
    "Return the memory from the lowest to the highest element of a NumPy array, as a flat array"
    low = a[(..., *(slice(None, None, -1) if s < 0 else slice(None) for s in a.strides))]
    n = -(-reach(low.shape, low.strides) // a.itemsize)  # strides in bytes may not be multiples of the item size
    return np.lib.stride_tricks.as_strided(low, (n,), (a.itemsize,))


def whole_storage(t):
    "Return the whole storage of a tensor as a flat tensor"
    return t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)


def part(
    flat,  # a flat NumPy array
    first,  # index of the part's first element
    shape,
    strides,  # in elements of `flat`
):
    "Return a strided view of `flat`"
    step = flat.strides[0] or flat.itemsize  # the stride may be 0 for an empty array
    return np.lib.stride_tricks.as_strided(flat[first:], shape, [s * step for s in strides])
