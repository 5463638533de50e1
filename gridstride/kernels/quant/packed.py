"""Pack quantized matrices in the memory layout that the kernels read, and multiply by packed matrices."""

from functools import lru_cache
from typing import NamedTuple

import torch

from . import formats
from .calls import GROUPS, MAX_ROWS, matvec_calls
from .formats import QuantizedNF4, QuantizedInts
from .fragments import BITS, STEP, from_fragments, to_fragments, to_lane_order, from_lane_order
from .sources import FLOATS, KINDS
from ..ladder.rung import this_device
from ..common import check_matches, check_tensor, launch, dtype_name
from ...utils import backend, cdiv

# How scales are chosen: 'absmax': by the largest element of a group; 'mse': by a search for the least squared error
FITS = 'absmax', 'mse'
DEFAULT_GROUP = dict(int8='row', int4=128, nf4=64, fp8='row')  # by kind


class Packed(NamedTuple):
    "A quantized matrix, packed as the kernels read it"

    kind: str  # 'int8', 'int4', 'nf4', 'fp8'
    group: object  # columns that share a scale, or 'row'
    shape: tuple  # (rows, columns) of the matrix
    words: object  # the elements, as `fragments.to_fragments` returns them
    scales: object  # 16-bit floats, as `fragments.to_lane_order` returns them
    zeros: object = None  # likewise: zero points, -8 to 7 or -128 to 127

    @property
    def nbytes(self) -> int:
        "Bytes of elements, scales and zero points"
        return sum(x.nbytes for x in self[3:] if x is not None)


def why_unsupported(kind, group, shape):  # None if it is supported
    "Return the reason why a matrix of that shape cannot be packed. Raises ValueError for an unknown kind or group"
    if kind not in KINDS:
        raise ValueError(f'kind must be one of {", ".join(KINDS)}; got {kind!r}')
    if group not in (*GROUPS, 'tensor') or isinstance(group, bool):
        choices = ', '.join(map(repr, GROUPS))
        raise ValueError(
            f"group must be one of {choices} (columns of a row that share a scale) or 'tensor'; got {group!r}"
        )
    if isinstance(group, int) and shape[1] % group:
        return f'{shape[1]} columns are not a multiple of the group of {group}'


def _quantize(w, kind, group, dtype, zeros, fit):
    "Return (one byte per element, scales, zero points or None)"
    if kind == 'fp8':
        return *formats.fp8(w, group, dtype), None
    if kind == 'nf4':
        return *(formats.nf4 if fit == 'absmax' else formats.search_nf4)(w, group, dtype), None
    quantizer = formats.affine if zeros else formats.symmetric
    bits, half = BITS[kind], 2 ** (BITS[kind] - 1)
    q = (
        quantizer(w, bits, group, dtype)
        if fit == 'absmax'
        else formats.search_scales(w, bits, group, dtype, quantizer=quantizer)
    )
    if not zeros:
        return q
    return (q.integers.short() - half).to(torch.int8), q.scales, q.zeros.to(dtype) - half


def why_invalid(kind, zeros, fit):  # None if it is valid
    "Return the reason why a kind does not support zero points, or this choice of scales"
    if fit not in FITS:
        return f'fit must be {" or ".join(map(repr, FITS))}; got {fit!r}'
    if zeros and kind not in ('int4', 'int8'):
        return f'zeros needs an integer kind, int4 or int8; the kind is {kind}'
    if fit == 'mse' and kind == 'fp8':
        return "fp8 has steps that grow with its values, so a search gains nothing; use fit='absmax'"


def pack(
    w,  # (rows, columns) of float16, bfloat16 or float32; scales have this type, but bfloat16 for float32
    kind='int4',  # 'int8', 'int4', 'nf4', 'fp8'
    group=None,  # columns that share a scale: 32, 64, 128, 'row', 'tensor'; None: 'row', but 128 for int4, 64 for NF4
    zeros=False,  # integers only: give each group a zero point
    fit='absmax',  # the largest element of a group is representable; 'mse': search for the least squared error
) -> Packed:
    """Quantize a matrix, and pack it as `matvec` reads it. Group 'tensor' is stored as one equal scale per row.

        matvec(x, pack(w, 'int4'))

    Raises TypeError or ValueError for unsupported operands and options."""
    group = DEFAULT_GROUP.get(kind) if group is None else group
    if w.dim() != 2 or dtype_name(w) not in (*FLOATS, 'float32'):
        choices = f'{", ".join(FLOATS)} or float32'
        raise TypeError(f'pack: w must be a matrix of {choices}; got {dtype_name(w)} of {w.dim()} axes')
    if why := why_unsupported(kind, group, w.shape) or why_invalid(kind, zeros, fit):
        raise ValueError(f'pack: {why}')
    dtype = w.dtype if dtype_name(w) in FLOATS else torch.bfloat16
    (rows, columns), (integers, *scales_and_zeros) = w.shape, _quantize(w.detach(), kind, group, dtype, zeros, fit)
    if group == 'tensor':
        group, scales_and_zeros = 'row', [x if x is None else x.expand(rows, 1) for x in scales_and_zeros]
    groups = 1 if group == 'row' else cdiv(columns, STEP) * (STEP // group)
    ordered = [x if x is None else to_lane_order(x, groups) for x in scales_and_zeros]
    return Packed(kind, group, (rows, columns), to_fragments(integers, kind), *ordered)


def unpack(p: Packed):  # (rows, columns) of float32
    "Dequantize a packed matrix to float32"
    rows, columns = p.shape
    integers = from_fragments(p.words, p.kind, rows, columns)
    groups = 1 if p.group == 'row' else columns // p.group
    scales, zeros = (None if x is None else from_lane_order(x, rows, groups) for x in (p.scales, p.zeros))
    if p.kind == 'nf4':
        return formats.restore_nf4(QuantizedNF4(integers, scales))
    integers = integers.view(torch.float8_e4m3fn).float() if p.kind == 'fp8' else integers
    return formats.restore(QuantizedInts(integers, scales, zeros))


@lru_cache(1024)
def _calls_on(device, backend, *problem):
    "Return the launches on a device, cached, so that the properties of the device are queried only once"
    return matvec_calls(*problem, this_device())


def align_rows(x):
    "Return x with rows that begin at a multiple of 16 bytes: padded with zeros, or copied, if they do not"
    if x.shape[1] % 8:
        return torch.nn.functional.pad(x, (0, -x.shape[1] % 8))
    return x.clone() if x.data_ptr() % 16 else x


def packed_arrays(p) -> dict:
    "Return the arrays of a packed matrix, {name: tensor or None}, as words on the emulator, which checks types"
    arrays = dict(words=p.words, scales=p.scales, zeros=p.zeros)
    if p.words.is_cuda:
        return arrays
    return {name: array if array is None else array.view(torch.uint32) for name, array in arrays.items()}


def run_matvec(x, p, bias):
    "Compute `matvec` of operands that have been checked"
    batch, rows, x = x.shape[0], p.shape[0], align_rows(x)
    y = x.new_empty(batch, rows)
    if not y.numel():
        return y
    problem = p.kind, dtype_name(x), p.group, batch, rows, x.shape[1], bias is not None, p.zeros is not None
    launch(_calls_on(x.get_device(), backend(), *problem), x, **packed_arrays(p), bias=bias, y=y)
    return y


def matvec(
    x,  # (batch, columns), contiguous, of the type of the scales: float16 or bfloat16; at most 64 rows
    p,  # a `Packed`
    bias=None,  # (rows,)
):  # (batch, rows), of the type of x
    """Compute x @ w.T (+ bias) for a packed matrix w on tensor cores, with float32 accumulators.

        matvec(x, pack(w, 'int4'))

    Raises TypeError or ValueError for unsupported operands."""
    check_tensor('matvec', x, [dtype_name(p.scales)])
    if x.dim() != 2 or x.shape[0] > MAX_ROWS or x.shape[1] != p.shape[1]:
        want = f'({MAX_ROWS} or fewer, {p.shape[1]})'
        raise ValueError(f'matvec: x must have the shape {want}; got {tuple(x.shape)}')
    for name, array in (('words', p.words), ('scales', p.scales), ('zeros', p.zeros)):
        if array is not None:
            check_tensor('matvec', array, [dtype_name(array)], name)
    if bias is not None:
        check_matches('matvec', 'bias', bias, x, (p.shape[0],))
    return run_matvec(x, p, bias)
