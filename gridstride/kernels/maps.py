"""Tensor maps: descriptors of arrays for the copy engine of a Hopper GPU (TMA).

The engine takes a box out of an array with one instruction. The layout of the array is described by a **tensor
map**, 128 bytes that the driver fills in and the kernel gets by value. The emulator has no driver, and fills
in a map of its own.
"""

import ctypes
import struct

from ..cpp.driver import driver, in_context, error_string


# The engine has its rules: rows of whole 16 bytes, at most 256 elements of a box along each axis, and with a
# swizzle no more bytes along a row than the swizzle spans. What is out of bounds is read as zeros
# and never written, which is why a ragged edge costs a kernel nothing.
_KINDS = {
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
}  # CUtensorMapDataType, bytes
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
# CU_TENSOR_MAP_L2_PROMOTION_L2_128B: with 256 bytes, rows that are not multiples of 128 bytes were 10 to 25% slower on
# an H100.
_PROMOTION = 2


class TensorMap:
    """128 bytes for the copy engine, at an `address` that is a multiple of 64; give it to a kernel for a
    `const __grid_constant__ TensorMap`"""

    def __init__(self, x, box, swizzle):
        self.of, self.box, self.swizzle = f"{str(x.dtype).removeprefix('torch.')}{tuple(x.shape)}", tuple(box), swizzle
        self.tensor = None if _on_gpu(x) else x  # on the emulator the map goes with its tensor
        self._buffer = ctypes.create_string_buffer(128 + 64)
        self.address = -(-ctypes.addressof(self._buffer) // 64) * 64

    def __repr__(self):
        return f'<TensorMap of {self.of}, boxes of {"x".join(map(str, self.box))}, swizzle {self.swizzle}>'

    def __bytes__(self):
        return ctypes.string_at(self.address, 128)


def why_no_map(shape, strides, address, dtype, box, swizzle):  # strides: in elements; None if there can be a map
    "Return why the copy engine cannot copy a box of an array"
    if dtype not in _KINDS:
        return f'there are no {dtype}s in tensor maps; there are {", ".join(_KINDS)}'
    if swizzle not in SWIZZLES:
        return f'swizzle is {swizzle}; it must be {", ".join(map(str, SWIZZLES))}'
    size = _KINDS[dtype][1]
    if len(box) != len(shape) or not 1 <= len(shape) <= 5:
        return f'the array has {len(shape)} axes and the box {len(box)}; both have the same, 1 to 5'
    if min(shape) < 1 or min(box) < 1:
        return f'the array is {tuple(shape)} and the box {tuple(box)}; each size is 1 or more'
    if max(box) > 256:
        return f'the box is {tuple(box)}, and no side may be longer than 256 elements'
    if strides[-1] != 1:
        return f'its strides are {tuple(strides)}, and the last must be 1: use .contiguous()'
    if bad := [s * size for s in strides[:-1] if s * size % 16]:
        padded = -(-bad[-1] // 16) * 16 // size
        return (
            f'a row begins {bad[-1]} bytes after the one before, and that must be a multiple of 16: '
            f'pad the rows to {padded} elements'
        )
    if address % 16:
        return 'it begins at an address that is not a multiple of 16, as a slice may; use .clone()'
    if box[-1] * size % 16:
        return f'a row of the box has {box[-1] * size} bytes, and that must be a multiple of 16'
    if swizzle and box[-1] * size > swizzle:
        return (
            f'a row of the box has {box[-1] * size} bytes, and a swizzle of {swizzle} spans no more than {swizzle}: '
            f'make it {swizzle // size} elements'
        )


def _on_gpu(x):
    return x.is_cuda


def _for_the_emulator(res, shape, strides, box, size, swizzle):
    "Fill the map as `TensorMap` of the emulator's `runtime.h` has it"

    def five(xs):
        return [*reversed(xs), *[1] * (5 - len(xs))]

    words = struct.pack(
        '8sQ4i5i5i5q',
        b'gs tmap',
        0,
        len(box),
        size,
        swizzle,
        0,
        *five(shape),
        *five(box),
        *(s * size for s in five(strides)),
    )
    ctypes.memmove(res.address, words, len(words))
    return res


def tensor_map(
    x,  # a torch tensor, where kernels run
    box,  # its sizes, the rows' length last: (rows, columns)
    swizzle=128,  # of shared memory: 0, 32, 64, 128 bytes
) -> TensorMap:
    "The map by which TMA copies boxes of `x`"
    strides, dtype = x.stride(), str(x.dtype).removeprefix('torch.')
    if why := why_no_map(x.shape, strides, x.data_ptr(), dtype, box, swizzle):
        raise ValueError(f'no tensor map of {dtype}{tuple(x.shape)}: {why}')
    res, n = TensorMap(x, box, swizzle), len(box)
    kind, size = _KINDS[dtype]
    if not _on_gpu(x):
        return _for_the_emulator(res, x.shape, strides, box, size, swizzle)
    dims, steps, sides = (
        (ctypes.c_uint64 * n)(*x.shape[::-1]),
        (ctypes.c_uint64 * n)(*(s * size for s in strides[-2::-1])),
        (ctypes.c_uint32 * n)(*box[::-1]),
    )  # the driver names the innermost axis first
    at, offsets, ones = ctypes.c_void_p(res.address), ctypes.c_void_p(x.data_ptr()), (ctypes.c_uint32 * n)(*[1] * n)
    code = in_context(
        lambda: driver().cuTensorMapEncodeTiled(
            at, kind, n, offsets, dims, steps, sides, ones, 0, SWIZZLES[swizzle], _PROMOTION, 0
        )
    )
    if code:
        raise RuntimeError(f'no tensor map of {dtype}{tuple(x.shape)}, box {tuple(box)}: {error_string(code)}')
    return res
