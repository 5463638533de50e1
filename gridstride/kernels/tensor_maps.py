"""Tensor maps: descriptors of arrays for the Tensor Memory Accelerator (TMA) of a Hopper GPU.

One TMA instruction copies a box of an array. A **tensor map** describes the layout of the array: 128 bytes that the
driver fills in, and that a kernel takes by value. The emulator has no driver, so it defines its own map format.
"""

import ctypes
import struct

from ..cpp.driver import driver, call_in_context, error_string
from ..utils import cdiv


# The requirements of TMA: rows are multiples of 16 bytes, a box has at most 256 elements along each axis, and with a
# swizzle a row of the box has at most as many bytes as the swizzle spans. Elements out of bounds are read as zeros and
# never written, so that a kernel needs no guard for partial tiles.
_DATA_TYPES = {
    'uint8': (0, 1),
    'uint16': (1, 2),
    'uint32': (2, 4),
    'int32': (3, 4),
    'uint64': (4, 8),
    'int64': (5, 8),
    'float16': (6, 2),
    'float32': (7, 4),
    'float64': (8, 8),
    'bfloat16': (9, 2),
}  # dtype -> (CUtensorMapDataType, bytes per element)
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle
# CU_TENSOR_MAP_L2_PROMOTION_L2_128B: with 256 bytes, rows that are not multiples of 128 bytes were 10 to 25% slower on
# an H100.
_L2_PROMOTION = 2


class TensorMap:
    """A tensor map of 128 bytes, stored at `address`, a multiple of 64; pass it for a kernel's parameter
    `const __grid_constant__ TensorMap`"""

    def __init__(self, x, box, swizzle):
        self.description = f"{str(x.dtype).removeprefix('torch.')}{tuple(x.shape)}"
        self.box = tuple(box)
        self.swizzle = swizzle
        self.tensor = None if _on_gpu(x) else x  # the emulator checks accesses against the tensor
        self._buffer = ctypes.create_string_buffer(128 + 64)
        self.address = -(-ctypes.addressof(self._buffer) // 64) * 64

    def __repr__(self):
        return f'<TensorMap of {self.description}, boxes of {"x".join(map(str, self.box))}, swizzle {self.swizzle}>'

    def __bytes__(self):
        return ctypes.string_at(self.address, 128)


def unsupported_reason(
    shape,
    strides,  # in elements
    address,  # of the first element
    dtype,  # its name
    box,  # sizes of a box
    swizzle,  # in bytes
):
    """Return the reason why TMA cannot copy boxes of an array; None if it can.

    >>> unsupported_reason((64, 100), (100, 1), 0, 'float16', (16, 64), 128)
    'a row begins 200 bytes after the one before, and that must be a multiple of 16: pad the rows to 104 elements'"""
    if dtype not in _DATA_TYPES:
        return f'the dtype is {dtype}; expected one of {", ".join(_DATA_TYPES)}'
    if swizzle not in SWIZZLES:
        return f'swizzle is {swizzle}; expected one of {", ".join(map(str, SWIZZLES))}'
    element_bytes = _DATA_TYPES[dtype][1]
    if len(box) != len(shape) or not 1 <= len(shape) <= 5:
        return f'the array has {len(shape)} axes and the box {len(box)}; both must have the same number of axes, 1 to 5'
    if min(shape) < 1 or min(box) < 1:
        return f'the shape of the array is {tuple(shape)} and the box is {tuple(box)}; each size must be at least 1'
    if max(box) > 256:
        return f'the box is {tuple(box)}, and no side may be longer than 256 elements'
    if strides[-1] != 1:
        return f'its strides are {tuple(strides)}; the last one must be 1: use .contiguous()'
    if unaligned_strides := [stride * element_bytes for stride in strides[:-1] if stride * element_bytes % 16]:
        padded_width = -(-unaligned_strides[-1] // 16) * 16 // element_bytes
        return (
            f'a row begins {unaligned_strides[-1]} bytes after the one before, and that must be a multiple of 16: '
            f'pad the rows to {padded_width} elements'
        )
    if address % 16:
        return 'its address must be a multiple of 16, and a slice may be misaligned: use .clone()'
    row_bytes = box[-1] * element_bytes
    if row_bytes % 16:
        return f'a row of the box has {row_bytes} bytes; expected a multiple of 16'
    if swizzle and row_bytes > swizzle:
        return (
            f'a row of the box has {row_bytes} bytes, and a swizzle of {swizzle} spans no more than {swizzle}: '
            f'make it {swizzle // element_bytes} elements'
        )


def _on_gpu(x):
    return x.is_cuda


def _fill_for_emulator(tensor_map, shape, strides, box, element_bytes, swizzle):
    "Fill in a map in the format of the emulator's `TensorMap` in `runtime.h`; innermost axis first"

    def reverse_and_pad(sizes):
        return [*reversed(sizes), *[1] * (5 - len(sizes))]

    fields = struct.pack(
        '8sQP4i5i5i5q',
        b'gs tmap',
        0,
        0,
        len(box),
        element_bytes,
        swizzle,
        0,
        *reverse_and_pad(shape),
        *reverse_and_pad(box),
        *(stride * element_bytes for stride in reverse_and_pad(strides)),
    )
    ctypes.memmove(tensor_map.address, fields, len(fields))
    return tensor_map


def _valid_strides(x):
    "Return the strides; that of an axis of size 1, which torch leaves arbitrary, is replaced by one that TMA accepts"
    strides, elements_per_index = [], 1  # elements that an index of the axis spans
    for size, stride in zip(reversed(x.shape), reversed(x.stride())):
        stride = elements_per_index if size == 1 else stride
        strides.insert(0, stride)
        elements_per_index = cdiv(size * stride * x.element_size(), 16) * 16 // x.element_size()
    return tuple(strides)


def tensor_map(
    x,  # a torch tensor on the device where kernels run
    box,  # sizes of a box, like a shape: (rows, columns)
    swizzle=128,  # bytes that the swizzle of the box in shared memory spans: 0, 32, 64 or 128
) -> TensorMap:
    """Return the tensor map with which TMA copies boxes of `x`.

        tensor_map(x, (128, 64))

    Raises ValueError if TMA does not support the array or the box."""
    strides, dtype = _valid_strides(x), str(x.dtype).removeprefix('torch.')
    if reason := unsupported_reason(x.shape, strides, x.data_ptr(), dtype, box, swizzle):
        raise ValueError(f'cannot create a tensor map of {dtype}{tuple(x.shape)}: {reason}')
    new_map, axes = TensorMap(x, box, swizzle), len(box)
    data_type, element_bytes = _DATA_TYPES[dtype]
    if not _on_gpu(x):
        return _fill_for_emulator(new_map, x.shape, strides, box, element_bytes, swizzle)
    # The driver takes the innermost axis first, and no stride for it.
    dims = (ctypes.c_uint64 * axes)(*x.shape[::-1])
    byte_strides = (ctypes.c_uint64 * axes)(*(stride * element_bytes for stride in strides[-2::-1]))
    box_sizes = (ctypes.c_uint32 * axes)(*box[::-1])
    element_strides = (ctypes.c_uint32 * axes)(*[1] * axes)
    map_address, array_address = ctypes.c_void_p(new_map.address), ctypes.c_void_p(x.data_ptr())
    code = call_in_context(
        lambda: driver().cuTensorMapEncodeTiled(
            map_address,
            data_type,
            axes,
            array_address,
            dims,
            byte_strides,
            box_sizes,
            element_strides,
            0,
            SWIZZLES[swizzle],
            _L2_PROMOTION,
            0,
        )
    )
    if code:
        raise RuntimeError(
            f'cannot create a tensor map of {dtype}{tuple(x.shape)} with box {tuple(box)}: {error_string(code)}'
        )
    return new_map
