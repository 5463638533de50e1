"""Pack quantized matrices into the memory layout that the kernels read, and multiply by packed matrices."""

from functools import lru_cache
from typing import NamedTuple

import torch

from . import formats
from .block_formats import BLOCK_FORMATS, BlockScaled, quantize_blocks, dequantize_blocks
from .calls import GROUPS, MAX_ROWS, matvec_launches
from .formats import QuantizedNF4, QuantizedInts
from .fragments import BITS, STEP, from_fragments, to_fragments, to_lane_order, from_lane_order
from .sources import FLOATS, KINDS
from ..ladder.rung import current_device_properties
from ..common import check_matches, check_tensor, launch, dtype_name
from ...utils import backend, cdiv

# how scales are chosen: from the largest magnitude of a group, or by a search for the least squared error
FITS = 'absmax', 'mse'
DEFAULT_GROUP = dict(int8='row', int4=128, nf4=64, fp8='row')  # kind -> group; see `default_group`
DEFAULT_GROUP |= {kind: BLOCK_FORMATS[kind].block for kind in KINDS if kind in BLOCK_FORMATS}

ARRAYS = 'words', 'scales', 'zeros', 'matrix_scale'  # of a packed matrix


class PackedMatrix(NamedTuple):
    "A quantized matrix in the memory layout that the kernels read"

    kind: str  # 'int8', 'int4', 'nf4', 'fp8', 'mxfp8', 'nvfp4'
    group: object  # columns that share a scale, or 'row'
    shape: tuple  # (rows, columns) of the matrix
    words: object  # the elements as packed words, as `fragments.to_fragments` returns them
    scales: object  # 16-bit floats, or bytes of 'mxfp8' and 'nvfp4', as `fragments.to_lane_order` returns them
    zeros: object = None  # zero points like `scales`: -8 to 7, or -128 to 127
    matrix_scale: object = None  # (1,) of float32: an additional scale of all elements of 'nvfp4'

    @property
    def nbytes(self) -> int:
        "Bytes of elements, scales and zero points"
        return sum(array.nbytes for array in self[3:] if array is not None)


def default_group(kind, columns):
    """Return the default group of a kind: 'row', except 128 columns for int4 and 64 for NF4. If these do not divide the
    number of columns, the largest smaller group that does.

    >>> [default_group('int4', columns) for columns in (4096, 1600, 1632)], default_group('int8', 1600)
    ([128, 64, 32], 'row')"""
    largest = DEFAULT_GROUP.get(kind)
    if not isinstance(largest, int):
        return largest
    groups = [group for group in GROUPS[:3] if group <= largest and not columns % group]
    return max(groups, default=largest)


def unsupported_reason(kind, group, shape):  # None if it is supported
    "Return the reason why a matrix of this shape cannot be packed. Raises ValueError for an unknown kind or group"
    if kind not in KINDS:
        raise ValueError(f'kind must be one of {", ".join(KINDS)}; got {kind!r}')
    if kind in BLOCK_FORMATS and group != DEFAULT_GROUP[kind]:
        raise ValueError(f'group is {group!r}, but {kind} has a scale per {DEFAULT_GROUP[kind]} columns: omit group')
    if kind not in BLOCK_FORMATS and (group not in (*GROUPS, 'tensor') or isinstance(group, bool)):
        choices = ', '.join(map(repr, GROUPS))
        raise ValueError(
            f"group must be one of {choices} (columns of a row that share a scale) or 'tensor'; got {group!r}"
        )
    if isinstance(group, int) and shape[1] % group:
        return f'w has {shape[1]} columns; expected a multiple of the group size, {group}'


def _quantize(w, kind, group, dtype, zeros, fit):
    "Return (one byte per element, scales, zero points or None, and for NVFP4 the scale of the matrix)"
    if kind in BLOCK_FORMATS:
        _, codes, scales, matrix_scale = quantize_blocks(w, kind, scale_rounding='up')
        return codes, scales, None, *([matrix_scale.view(1)] if kind == 'nvfp4' else [])
    if kind == 'fp8':
        return *formats.fp8(w, group, dtype), None
    if kind == 'nf4':
        return *(formats.nf4 if fit == 'absmax' else formats.search_nf4)(w, group, dtype), None
    quantizer = formats.affine if zeros else formats.symmetric
    bits = BITS[kind]
    if fit == 'absmax':
        quantized = quantizer(w, bits, group, dtype)
    else:
        quantized = formats.search_scales(w, bits, group, dtype, quantizer=quantizer)
    if not zeros:
        return quantized
    offset = 2 ** (bits - 1)  # from unsigned to signed integers
    integers = (quantized.integers.short() - offset).to(torch.int8)
    return integers, quantized.scales, quantized.zeros.to(dtype) - offset


def invalid_options_reason(kind, zeros, fit):  # None if they are valid
    "Return the reason why a kind does not support these options"
    if fit not in FITS:
        return f'fit is {fit!r}; expected {" or ".join(map(repr, FITS))}'
    if zeros and kind not in ('int4', 'int8'):
        return f'zeros is {zeros}, but only int4 and int8 have zero points; kind is {kind}: omit zeros'
    if fit == 'mse' and kind not in ('int4', 'int8', 'nf4'):
        return f"{kind} does not support fit='mse', because its steps grow with its values: use fit='absmax'"


def pack(
    w,  # (rows, columns) of float16, bfloat16 or float32; scales have the same dtype, or bfloat16 if it is float32
    kind='int4',  # 'int8', 'int4', 'nf4', 'fp8', 'mxfp8', 'nvfp4'
    group=None,  # columns that share a scale: 32, 64, 128, 'row', 'tensor'; None: that of `default_group`
    zeros=False,  # integers only: give each group a zero point
    fit='absmax',  # represent the largest element of each group; 'mse': search for the least squared error
) -> PackedMatrix:
    """Quantize a matrix, and pack it as `matvec` reads it. With group 'tensor', each row stores the same scale.

        matvec(x, pack(w, 'int4'))

    Raises TypeError or ValueError for unsupported operands and options."""
    if w.dim() != 2 or dtype_name(w) not in (*FLOATS, 'float32'):
        choices = f'{", ".join(FLOATS)} or float32'
        raise TypeError(f'pack: w must be a matrix of {choices}; got a {w.dim()}-dimensional {dtype_name(w)} tensor')
    group = default_group(kind, w.shape[1]) if group is None else group
    if reason := unsupported_reason(kind, group, w.shape) or invalid_options_reason(kind, zeros, fit):
        raise ValueError(f'pack: {reason}')
    dtype = w.dtype if dtype_name(w) in FLOATS else torch.bfloat16
    rows, columns = w.shape
    integers, *scales_and_zeros = _quantize(w.detach(), kind, group, dtype, zeros, fit)
    scales_and_zeros, matrix_scale = scales_and_zeros[:2], scales_and_zeros[2:]
    if group == 'tensor':
        group, scales_and_zeros = (
            'row',
            [tensor if tensor is None else tensor.expand(rows, 1) for tensor in scales_and_zeros],
        )
    num_groups = 1 if group == 'row' else cdiv(columns, STEP) * (STEP // group)
    scales_and_zeros = [tensor if tensor is None else to_lane_order(tensor, num_groups) for tensor in scales_and_zeros]
    return PackedMatrix(kind, group, (rows, columns), to_fragments(integers, kind), *scales_and_zeros, *matrix_scale)


def unpack(packed: PackedMatrix):  # (rows, columns) of float32
    "Dequantize a packed matrix to float32"
    kind, group, (rows, columns), words, *scales_and_zeros, matrix_scale = packed
    integers = from_fragments(words, kind, rows, columns)
    num_groups = 1 if group == 'row' else columns // group
    scales, zeros = (
        None if tensor is None else from_lane_order(tensor, rows, num_groups) for tensor in scales_and_zeros
    )
    if kind in BLOCK_FORMATS:
        return dequantize_blocks(BlockScaled(kind, integers, scales, 1 if matrix_scale is None else matrix_scale))
    if kind == 'nf4':
        return formats.dequantize_nf4(QuantizedNF4(integers, scales))
    integers = integers.view(torch.float8_e4m3fn).float() if kind == 'fp8' else integers
    return formats.dequantize_ints(QuantizedInts(integers, scales, zeros))


@lru_cache(1024)
def _cached_matvec_launches(device, backend, *problem):  # `device` and `backend` are only part of the cache key
    "Return `matvec_launches` on the current device; cached, because querying the device is slow"
    return matvec_launches(*problem, current_device_properties())


def align_rows(x):
    "Return x with rows that begin at multiples of 16 bytes: x itself, a copy, or x padded with zeros"
    if x.shape[1] % 8:
        return torch.nn.functional.pad(x, (0, -x.shape[1] % 8))
    return x.clone() if x.data_ptr() % 16 else x


def packed_arrays(packed) -> dict:  # name -> tensor or None
    "Return the arrays of a packed matrix; on the emulator, which checks dtypes, as arrays of 32-bit words"
    arrays = packed._asdict()
    arrays = {name: arrays[name] for name in ARRAYS}
    if packed.words.is_cuda:
        return arrays
    return {name: array if array is None else as_words(array) for name, array in arrays.items()}


def as_words(array):
    "Return an array of a packed matrix as 32-bit words: (tiles, words)"
    return array.view(len(array), -1).view(torch.uint32)


def accepts(x, scales) -> bool:
    "Return whether the kernels multiply x by a matrix with these scales: their dtypes are equal, or scales are bytes"
    return x.dtype == scales.dtype or scales.dtype == torch.uint8 and dtype_name(x) in FLOATS


def run_matvec(x, packed, bias):
    "Compute `matvec` for valid operands"
    batch, rows, x = x.shape[0], packed.shape[0], align_rows(x)
    y = x.new_empty(batch, rows)
    if not y.numel():
        return y
    has_bias, has_zeros = bias is not None, packed.zeros is not None
    problem = packed.kind, dtype_name(x), packed.group, batch, rows, x.shape[1], has_bias, has_zeros
    kernel_launches = _cached_matvec_launches(x.get_device(), backend(), *problem)
    launch(kernel_launches, x, **packed_arrays(packed), bias=bias, y=y)
    return y


def matvec(
    x,  # (batch, columns), contiguous, with the dtype of the scales: float16 or bfloat16; at most 64 rows
    packed,  # a `PackedMatrix`
    bias=None,  # (rows,)
):  # (batch, rows), with the dtype of x
    """Compute x @ w.T (+ bias) for a packed matrix w on tensor cores, with float32 accumulators.

        matvec(x, pack(w, 'int4'))

    Raises TypeError or ValueError for unsupported operands."""
    check_tensor('matvec', x, FLOATS if packed.kind in BLOCK_FORMATS else [dtype_name(packed.scales)])
    if x.dim() != 2 or x.shape[0] > MAX_ROWS or x.shape[1] != packed.shape[1]:
        expected = f'({MAX_ROWS} or fewer, {packed.shape[1]})'
        raise ValueError(f'matvec: x has shape {tuple(x.shape)}; expected {expected}')
    for name, array in zip(ARRAYS, packed[3:]):
        if array is not None:
            check_tensor('matvec', array, [dtype_name(array)], name)
    if bias is not None:
        check_matches('matvec', 'bias', bias, x, (packed.shape[0],))
    return run_matvec(x, packed, bias)
