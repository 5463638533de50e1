"""Matrices in few bits, in plain torch: integers with scales, the codebook NF4, e4m3, and how elements of 2, 3 or 4
bits are packed into bytes.

A matrix is divided into groups of elements that share a scale: all of it, a row, or some consecutive ones of a row.
The larger the group, the fewer scales, and the more an outlier costs those that share one with it.
"""

from functools import lru_cache
from typing import NamedTuple

import torch


class Whole(NamedTuple):
    "A matrix as integers: its values are (numbers - zeros) * scales"

    numbers: object  # (rows, columns): int8 from -2^(bits-1) on, or uint8 from 0 on where there are zeros
    scales: object  # (rows, groups)
    zeros: object = None  # (rows, groups) of uint8: which number stands for 0; None: 0 itself


def group_size(
    shape,  # of a matrix
    group,  # 'tensor', 'row', or columns that share a scale
) -> tuple:  # (rows, columns) of a group
    "What shares a scale; `ValueError` for a group that is none of these or does not divide the columns"
    rows, columns = shape
    if group in ('tensor', 'row'):
        return (rows if group == 'tensor' else 1), columns
    if isinstance(group, bool) or not isinstance(group, int) or group < 1:
        raise ValueError(f"group is {group!r}, and it may be 'tensor', 'row', or how many columns share a scale")
    if columns % group:
        raise ValueError(f'{columns} columns are not a multiple of the group of {group}')
    return 1, group


def _in_groups(w, group):
    "(rows of groups, groups, elements of a group)"
    h, k = group_size(w.shape, group)
    return w.reshape(w.shape[0] // h, -1, h * k) if h > 1 else w.reshape(w.shape[0], -1, k)


def _spread(scales, shape):
    "Scales, or zeros, of groups, expanded to each element of a matrix"
    (h, k), (rows, groups) = shape, scales.shape
    return scales.repeat_interleave(h // rows, 0).repeat_interleave(k // groups, 1)


def _kept(scale, dtype):
    "A scale as it is stored: one that would be 0, or not a number, is the smallest or the largest there is"
    info = torch.finfo(dtype)
    return scale.clamp(info.tiny, info.max).to(dtype)


def symmetric(
    w,  # a matrix of floats
    bits,  # 2 to 8
    group='row',  # as for `group_size`
    scale_dtype=torch.float32,
    shrink=1.0,  # of the scale: below 1 the largest elements are clipped, and the others get finer steps
) -> Whole:
    "The largest of a group becomes 2^(bits-1) - 1, 0 stays 0; what is nearest to each number, halves to the even one"
    g, top = _in_groups(w.float(), group), 2 ** (bits - 1) - 1
    scales = _kept(g.abs().amax(-1) * shrink / top, scale_dtype)
    q = (w.float() / _spread(scales.float(), w.shape)).round().clamp(-top - 1, top)
    return Whole(q.to(torch.int8), scales)


def affine(
    w,  # a matrix of floats
    bits,  # 1 to 8
    group='row',
    scale_dtype=torch.float32,
    shrink=1.0,  # of the scale, as for `symmetric`
) -> Whole:
    "From the smallest of a group, or 0, to its largest, or 0, in 2^bits - 1 steps: 0 is one of them"
    g, top = _in_groups(w.float(), group), 2**bits - 1
    low, high = g.amin(-1).clamp(max=0) * shrink, g.amax(-1).clamp(min=0) * shrink
    scales = _kept((high - low) / top, scale_dtype)
    zeros = (-low / scales.float()).round().clamp(0, top)
    q = (w.float() / _spread(scales.float(), w.shape)).round() + _spread(zeros, w.shape)
    return Whole(q.clamp(0, top).to(torch.uint8), scales, zeros.to(torch.uint8))


def restore(q: Whole):  # a matrix of float32
    "Dequantize integers"
    values = q.numbers.float()
    if q.zeros is not None:
        values = values - _spread(q.zeros.float(), values.shape)
    return values * _spread(q.scales.float(), values.shape)


def _least(make, back, w, group, steps):
    "Per group that of `make(shrink)` with the least squared error; `back` dequantizes"
    best, least = None, None
    for shrink in torch.linspace(1, 0.5, steps).tolist():
        q = make(shrink)
        error = _in_groups((back(q) - w.float()) ** 2, group).sum(-1)
        if best is None:
            best, least = q, error
            continue
        better, old = error < least, best
        best = [torch.where(_spread(better, w.shape), q[0], old[0])]
        best = type(q)(*best, *(None if a is None else torch.where(better, a, b) for a, b in zip(q[1:], old[1:])))
        least = torch.minimum(error, least)
    return best


def searched(
    w,  # a matrix of floats
    bits,
    group='row',
    scale_dtype=torch.float32,
    steps=20,  # scales that are tried per group, from half of `way`'s to all of it
    way=symmetric,  # or `affine`
) -> Whole:
    "`symmetric`, or `affine`, per group with the scale of the least squared error of `steps`"
    return _least(lambda o: way(w, bits, group, scale_dtype, o), restore, w, group, steps)


# NF4 of Dettmers et al., "QLoRA": 16 quantiles of the normal distribution, for weights look like samples of it. Eight
# from 0 up and nine from 0 down share the 0; the largest is 1.
_TAIL = (1 - 1 / 32 + 1 - 1 / 30) / 2  # where the outermost quantiles are: the mean of two ways to leave out infinity


@lru_cache
def nf4_codebook():  # (16,) of float32, ascending from -1 to 1; a tuple
    "The 16 values of NF4"

    def quantiles(n):
        return torch.special.ndtri(torch.linspace(_TAIL, 0.5, n, dtype=torch.float64))[:-1]

    values = torch.cat([-quantiles(8), torch.zeros(1, dtype=torch.float64), quantiles(9)]).sort().values
    return tuple((values / values.max()).float().tolist())


class Coded(NamedTuple):
    "A matrix as indices of NF4's codebook, in the type of the scales: its values are codebook[indices] * scales"

    indices: object  # (rows, columns) of uint8
    scales: object  # (rows, groups)


def _book(scales):
    "The codebook as kernels have it"
    return torch.tensor(nf4_codebook(), dtype=scales.dtype, device=scales.device).float()


def nf4(
    w,  # a matrix of floats
    group=64,
    scale_dtype=torch.float32,
    shrink=1.0,  # of the scale, as for `symmetric`
) -> Coded:
    "The largest of a group becomes 1 or -1, and each number the nearest of NF4's"
    scales = _kept(_in_groups(w.float(), group).abs().amax(-1) * shrink, scale_dtype)
    book = _book(scales)
    between = (book[1:] + book[:-1]) / 2
    return Coded(torch.bucketize(w.float() / _spread(scales.float(), w.shape), between).to(torch.uint8), scales)


def restore_nf4(q: Coded):  # a matrix of float32
    "Dequantize codebook indices"
    return _book(q.scales)[q.indices.long()] * _spread(q.scales.float(), q.indices.shape)


def searched_nf4(
    w,  # a matrix of floats
    group=64,
    scale_dtype=torch.float32,
    steps=20,
) -> Coded:
    "`nf4`, per group with the scale of the least squared error of `steps`, as `searched`"
    return _least(lambda o: nf4(w, group, scale_dtype, o), restore_nf4, w, group, steps)


E4M3_MAX = 448.0


def fp8(
    x,  # a matrix of floats
    group='row',
    scale_dtype=torch.float32,
) -> tuple:  # (x's shape of float8_e4m3fn, (rows, groups))
    "Divide by a scale per group that makes its largest element 448, the largest of e4m3, and round to 8 bits"
    scales = _kept(_in_groups(x.float(), group).abs().amax(-1) / E4M3_MAX, scale_dtype)
    q = (x.float() / _spread(scales.float(), x.shape)).clamp(-E4M3_MAX, E4M3_MAX)
    return q.to(torch.float8_e4m3fn), scales


# Elements of few bits in bytes: element i has the bits i * bits to i * bits + bits - 1, the first of a byte its lowest.
def pack_bits(
    integers,  # (..., n) of uint8 below 2^bits
    bits,  # 1 to 8
):  # (..., ceil(n * bits / 8)) of uint8
    "Pack elements without their unused bits; the last byte is padded with 0"
    each = integers.unsqueeze(-1) >> torch.arange(bits, dtype=torch.uint8, device=integers.device) & 1
    each = each.flatten(-2)
    each = torch.nn.functional.pad(each, (0, -each.shape[-1] % 8)).unflatten(-1, (-1, 8))
    return (each << torch.arange(8, dtype=torch.uint8, device=integers.device)).sum(-1, dtype=torch.uint8)


def unpack_bits(
    packed,  # (..., bytes) of uint8
    bits,
    count,  # n
):  # (..., n) of uint8
    "Unpack the elements"
    each = packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=packed.device) & 1
    each = each.flatten(-2)[..., : count * bits].unflatten(-1, (count, bits))
    return (each << torch.arange(bits, dtype=torch.uint8, device=packed.device)).sum(-1, dtype=torch.uint8)


def decibels(
    w,  # what it was
    got,  # what it became
) -> float:
    "Signal to noise, 10 log10(sum of squares / sum of squared errors): 6 dB per bit; infinite without error"
    w, got = w.double(), got.double()
    return 10 * (w.square().sum() / (w - got).square().sum()).log10().item()
