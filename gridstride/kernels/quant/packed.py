"""Matrices in few bits, packed as kernels read them, and products with them."""

from functools import lru_cache
from typing import NamedTuple

import torch

from . import formats
from .calls import GROUPS, MAX_ROWS, matvec_calls
from .formats import Coded, Whole
from .fragments import BITS, STEP, from_fragments, to_fragments, to_lanes, from_lanes
from .sources import FLOATS, KINDS
from ..ladder.rung import this_device
from ..tool import check_fits, check_tensor, launch, type_of
from ...utils import backend, cdiv

FITS = 'absmax', 'mse'  # the largest number of a group fits; what has the least squared error is searched
DEFAULT = dict(int8='row', int4=128, nf4=64, fp8='row')  # kind -> its default group


class Packed(NamedTuple):
    "A matrix in few bits"

    kind: str  # 'int8', 'int4', 'nf4', 'fp8'
    group: object  # columns that share a scale, or 'row'
    shape: tuple  # (rows, columns) of the matrix
    words: object  # its elements, as of `fragments.to_fragments`
    scales: object  # of 16-bit floats, as of `fragments.to_lanes`
    zeros: object = None  # likewise: the number that stands for 0, -8 to 7 or -128 to 127

    @property
    def nbytes(self) -> int:
        "Bytes of elements, scales and zeros"
        return sum(o.nbytes for o in self[3:] if o is not None)


def why_not(kind, group, shape):  # None if it can
    "Why a matrix of that shape can't be packed, in a few words; `ValueError` for a kind or group that there is not"
    if kind not in KINDS:
        raise ValueError(f'the kind is {kind!r}, and it may be {", ".join(KINDS)}')
    if group not in (*GROUPS, 'tensor') or isinstance(group, bool):
        said = ', '.join(map(repr, GROUPS))
        raise ValueError(f"group is {group!r}, and it may be {said}: columns of a row that share a scale; or 'tensor'")
    if isinstance(group, int) and shape[1] % group:
        return f'{shape[1]} columns are not a multiple of the group of {group}'


def _quantized(w, kind, group, dtype, zeros, fit):
    "(bytes of the elements, scales, zeros or None)"
    if kind == 'fp8':
        return *formats.fp8(w, group, dtype), None
    if kind == 'nf4':
        return *(formats.nf4 if fit == 'absmax' else formats.searched_nf4)(w, group, dtype), None
    way = formats.affine if zeros else formats.symmetric
    bits, half = BITS[kind], 2 ** (BITS[kind] - 1)
    q = way(w, bits, group, dtype) if fit == 'absmax' else formats.searched(w, bits, group, dtype, way=way)
    if not zeros:
        return q
    return (q.numbers.short() - half).to(torch.int8), q.scales, q.zeros.to(dtype) - half


def why_not_so(kind, zeros, fit):  # None if it can
    "The reason why elements of a kind cannot have zeros, or be fitted so, in a few words"
    if fit not in FITS:
        return f'fit is {fit!r}, and it may be {" or ".join(map(repr, FITS))}'
    if zeros and kind not in ('int4', 'int8'):
        return f'zeros are for integers, and the kind is {kind}; use int4 or int8'
    if fit == 'mse' and kind == 'fp8':
        return "the steps of fp8 grow with its values, so a search gains nothing; use fit='absmax'"


def pack(
    w,  # (rows, columns) of float16, bfloat16 or float32: also the type of the scales, but for float32 it is bfloat16
    kind='int4',  # 'int8', 'int4', 'nf4', 'fp8'
    group=None,  # columns that share a scale: 32, 64, 128, 'row', 'tensor'; None: 'row', but 128 of int4, 64 of NF4
    zeros=False,  # for integers: does each group have a zero point, too?
    fit='absmax',  # the largest element of a group fits; 'mse': search for the scale with the least squared error
) -> Packed:
    "Quantize a matrix, and pack it as `matvec` reads it; with one scale for all of it, each row has that"
    group = DEFAULT.get(kind) if group is None else group
    if w.dim() != 2 or type_of(w) not in (*FLOATS, 'float32'):
        said = f'{", ".join(FLOATS)} or float32'
        raise TypeError(f'pack: w is {type_of(w)} of {w.dim()} axes, and a matrix of {said} is needed')
    if why := why_not(kind, group, w.shape) or why_not_so(kind, zeros, fit):
        raise ValueError(f'pack: {why}')
    dtype = w.dtype if type_of(w) in FLOATS else torch.bfloat16
    (rows, columns), (integers, *others) = w.shape, _quantized(w.detach(), kind, group, dtype, zeros, fit)
    if group == 'tensor':
        group, others = 'row', [other if other is None else other.expand(rows, 1) for other in others]
    groups = 1 if group == 'row' else cdiv(columns, STEP) * (STEP // group)
    lanes = [other if other is None else to_lanes(other, groups) for other in others]
    return Packed(kind, group, (rows, columns), to_fragments(integers, kind), *lanes)


def unpack(p: Packed):  # (rows, columns) of float32
    "Dequantize a packed matrix"
    rows, columns = p.shape
    integers = from_fragments(p.words, p.kind, rows, columns)
    groups = 1 if p.group == 'row' else columns // p.group
    scales, zeros = (None if o is None else from_lanes(o, rows, groups) for o in (p.scales, p.zeros))
    if p.kind == 'nf4':
        return formats.restore_nf4(Coded(integers, scales))
    integers = integers.view(torch.float8_e4m3fn).float() if p.kind == 'fp8' else integers
    return formats.restore(Whole(integers, scales, zeros))


@lru_cache(1024)
def _calls_here(device, backend, *what):
    "The launches on a device, which is queried once"
    return matvec_calls(*what, this_device())


def run_matvec(x, p, bias):
    "`matvec` of operands that are known to fit"
    (batch, columns), (rows, _) = x.shape, p.shape
    if columns % 8:
        x = torch.nn.functional.pad(x, (0, -columns % 8))
    elif x.data_ptr() % 16:
        x = x.clone()
    y = x.new_empty(batch, rows)
    if not y.numel():
        return y
    what = p.kind, type_of(x), p.group, batch, rows, x.shape[1], bias is not None, p.zeros is not None
    calls, packed = _calls_here(x.get_device(), backend(), *what), dict(words=p.words, scales=p.scales, zeros=p.zeros)
    if not x.is_cuda:  # the emulator checks types, too
        packed = {name: o if o is None else o.view(torch.uint32) for name, o in packed.items()}
    launch(calls, x, **packed, bias=bias, y=y)
    return y


def matvec(
    x,  # (batch, columns), contiguous, of the type of the scales: float16 or bfloat16; at most 64 rows
    p,  # a `Packed`
    bias=None,  # (rows,)
):  # (batch, rows), of the type of x
    """Compute x @ w.T (+ bias) for a packed matrix w, by tensor cores, summed in float32.

        matvec(x, pack(w, 'int4'))

    Raises TypeError and ValueError for operands that do not fit."""
    check_tensor('matvec', x, [type_of(p.scales)])
    if x.dim() != 2 or x.shape[0] > MAX_ROWS or x.shape[1] != p.shape[1]:
        want = f'({MAX_ROWS} or fewer, {p.shape[1]})'
        raise ValueError(f'matvec: x has the shape {tuple(x.shape)}, and {want} is needed')
    for name, o in (('words', p.words), ('scales', p.scales), ('zeros', p.zeros)):
        if o is not None:
            check_tensor('matvec', o, [type_of(o)], name)
    if bias is not None:
        check_fits('matvec', 'bias', bias, x, (p.shape[0],))
    return run_matvec(x, p, bias)
