"""Quantize matrices in plain torch: to integers with scales, to the codebook NF4, and to e4m3; pack bits into bytes.

The elements of a group share a scale. A group is the whole matrix, a row, or some consecutive elements of a row. Larger
groups need fewer scales, but then an outlier makes the quantization steps of more elements large.
"""

from functools import lru_cache
from typing import NamedTuple

import torch


class QuantizedInts(NamedTuple):
    "A matrix quantized to integers: its values are (integers - zeros) * scales"

    integers: object  # (rows, columns): int8 from -2^(bits-1) on, or uint8 from 0 on where there are zeros
    scales: object  # (rows, groups)
    zeros: object = None  # (rows, groups) of uint8: the zero point, which stands for 0; None: 0 itself


def group_size(
    shape,  # of a matrix
    group,  # 'tensor', 'row', or columns that share a scale
) -> tuple:  # (rows, columns) of a group
    """Return the size of the groups that share a scale.

    >>> group_size((4, 128), 32)
    (1, 32)

    Raises ValueError for an unknown group, or one that does not divide the columns."""
    rows, columns = shape
    if group in ('tensor', 'row'):
        return (rows if group == 'tensor' else 1), columns
    if isinstance(group, bool) or not isinstance(group, int) or group < 1:
        raise ValueError(f"group must be 'tensor', 'row', or the number of columns that share a scale; got {group!r}")
    if columns % group:
        raise ValueError(f'{columns} columns are not a multiple of the group of {group}')
    return 1, group


def _split_into_groups(w, group):
    "Reshape a matrix to (rows of groups, groups per row, elements of a group)"
    h, k = group_size(w.shape, group)
    return w.reshape(w.shape[0] // h, -1, h * k) if h > 1 else w.reshape(w.shape[0], -1, k)


def _expand(scales, shape):
    "Expand scales or zero points of groups to the shape of the matrix"
    (h, k), (rows, groups) = shape, scales.shape
    return scales.repeat_interleave(h // rows, 0).repeat_interleave(k // groups, 1)


def _stored_scale(scale, dtype):
    "Round scales to the type in which they are stored, clamped to its normal numbers: neither 0 nor infinite"
    info = torch.finfo(dtype)
    return scale.clamp(info.tiny, info.max).to(dtype)


def symmetric(
    w,  # a matrix of floats
    bits,  # 2 to 8
    group='row',  # as for `group_size`
    scale_dtype=torch.float32,
    shrink=1.0,  # factor of the scale; below 1, the largest elements are clipped, and the others have finer steps
) -> QuantizedInts:
    "Quantize so that the largest element of a group becomes 2^(bits-1) - 1, and 0 stays 0; ties round to even"
    g, top = _split_into_groups(w.float(), group), 2 ** (bits - 1) - 1
    scales = _stored_scale(g.abs().amax(-1) * shrink / top, scale_dtype)
    q = (w.float() / _expand(scales.float(), w.shape)).round().clamp(-top - 1, top)
    return QuantizedInts(q.to(torch.int8), scales)


def affine(
    w,  # a matrix of floats
    bits,  # 1 to 8
    group='row',
    scale_dtype=torch.float32,
    shrink=1.0,  # of the scale, as for `symmetric`
) -> QuantizedInts:
    "Quantize the range of a group, extended to contain 0, in 2^bits - 1 steps; 0 is represented exactly"
    g, top = _split_into_groups(w.float(), group), 2**bits - 1
    low, high = g.amin(-1).clamp(max=0) * shrink, g.amax(-1).clamp(min=0) * shrink
    scales = _stored_scale((high - low) / top, scale_dtype)
    zeros = (-low / scales.float()).round().clamp(0, top)
    q = (w.float() / _expand(scales.float(), w.shape)).round() + _expand(zeros, w.shape)
    return QuantizedInts(q.clamp(0, top).to(torch.uint8), scales, zeros.to(torch.uint8))


def restore(q: QuantizedInts):  # a matrix of float32
    "Dequantize integers to their values"
    values = q.integers.float()
    if q.zeros is not None:
        values = values - _expand(q.zeros.float(), values.shape)
    return values * _expand(q.scales.float(), values.shape)


def _search_shrink(quantize, dequantize, w, group, steps):
    "Return, per group, the `quantize(shrink)` with the least squared error after `dequantize`"
    best, least_error = None, None
    for shrink in torch.linspace(1, 0.5, steps).tolist():
        q = quantize(shrink)
        error = _split_into_groups((dequantize(q) - w.float()) ** 2, group).sum(-1)
        if best is None:
            best, least_error = q, error
            continue
        better, old = error < least_error, best
        best = [torch.where(_expand(better, w.shape), q[0], old[0])]
        best = type(q)(*best, *(None if a is None else torch.where(better, a, b) for a, b in zip(q[1:], old[1:])))
        least_error = torch.minimum(error, least_error)
    return best


def search_scales(
    w,  # a matrix of floats
    bits,
    group='row',
    scale_dtype=torch.float32,
    steps=20,  # candidate scales per group, from 1 to 0.5 times the scale that `quantizer` chooses
    quantizer=symmetric,  # or `affine`
) -> QuantizedInts:
    "Quantize with the scale per group that has the least squared error among `steps` candidates"
    return _search_shrink(lambda shrink: quantizer(w, bits, group, scale_dtype, shrink), restore, w, group, steps)


# NF4 of Dettmers et al., "QLoRA": 16 quantiles of the normal distribution, because weights are distributed like it.
# Nine are at least 0 and eight at most 0, so both halves share the 0; the largest is 1.
#
# The probability of the outermost quantile, as in QLoRA: a mean of two values below 1, because the quantile of 1 is
# infinite
_OUTERMOST_PROBABILITY = (1 - 1 / 32 + 1 - 1 / 30) / 2


@lru_cache
def nf4_codebook():  # (16,) of float32, ascending from -1 to 1; a tuple
    """Return the 16 values of NF4.

    >>> nf4_codebook()[0], nf4_codebook()[7], nf4_codebook()[15]
    (-1.0, 0.0, 1.0)"""

    def quantiles(n):
        return torch.special.ndtri(torch.linspace(_OUTERMOST_PROBABILITY, 0.5, n, dtype=torch.float64))[:-1]

    values = torch.cat([-quantiles(8), torch.zeros(1, dtype=torch.float64), quantiles(9)]).sort().values
    return tuple((values / values.max()).float().tolist())


class QuantizedNF4(NamedTuple):
    "A matrix quantized to indices of NF4's codebook: its values are codebook[indices] * scales"

    indices: object  # (rows, columns) of uint8
    scales: object  # (rows, groups)


def _codebook(scales):
    "Return the codebook rounded to the type of the scales, as the kernels use it"
    return torch.tensor(nf4_codebook(), dtype=scales.dtype, device=scales.device).float()


def nf4(
    w,  # a matrix of floats
    group=64,
    scale_dtype=torch.float32,
    shrink=1.0,  # of the scale, as for `symmetric`
) -> QuantizedNF4:
    "Quantize to the nearest values of NF4, after a scale that makes the largest element of a group 1 or -1"
    scales = _stored_scale(_split_into_groups(w.float(), group).abs().amax(-1) * shrink, scale_dtype)
    codebook = _codebook(scales)
    boundaries = (codebook[1:] + codebook[:-1]) / 2
    return QuantizedNF4(
        torch.bucketize(w.float() / _expand(scales.float(), w.shape), boundaries).to(torch.uint8), scales
    )


def restore_nf4(q: QuantizedNF4):  # a matrix of float32
    "Dequantize codebook indices to their values"
    return _codebook(q.scales)[q.indices.long()] * _expand(q.scales.float(), q.indices.shape)


def search_nf4(
    w,  # a matrix of floats
    group=64,
    scale_dtype=torch.float32,
    steps=20,
) -> QuantizedNF4:
    "Quantize to NF4 with the scale per group that has the least squared error among `steps` candidates"
    return _search_shrink(lambda shrink: nf4(w, group, scale_dtype, shrink), restore_nf4, w, group, steps)


E4M3_MAX = 448.0


def fp8(
    x,  # a matrix of floats
    group='row',
    scale_dtype=torch.float32,
) -> tuple:  # (x's shape of float8_e4m3fn, (rows, groups))
    "Quantize to e4m3, after a scale that makes the largest element of a group 448, the largest e4m3 value"
    scales = _stored_scale(_split_into_groups(x.float(), group).abs().amax(-1) / E4M3_MAX, scale_dtype)
    q = (x.float() / _expand(scales.float(), x.shape)).clamp(-E4M3_MAX, E4M3_MAX)
    return q.to(torch.float8_e4m3fn), scales


# Packed bits: element i occupies the bits from i * bits to i * bits + bits - 1, and bit 0 of a byte is its lowest.
def pack_bits(
    integers,  # (..., n) of uint8 below 2^bits
    bits,  # 1 to 8
):  # (..., ceil(n * bits / 8)) of uint8
    "Pack elements without their unused bits; the last byte is padded with 0"
    single_bits = integers.unsqueeze(-1) >> torch.arange(bits, dtype=torch.uint8, device=integers.device) & 1
    single_bits = single_bits.flatten(-2)
    single_bits = torch.nn.functional.pad(single_bits, (0, -single_bits.shape[-1] % 8)).unflatten(-1, (-1, 8))
    return (single_bits << torch.arange(8, dtype=torch.uint8, device=integers.device)).sum(-1, dtype=torch.uint8)


def unpack_bits(
    packed,  # (..., bytes) of uint8
    bits,
    count,  # n
):  # (..., n) of uint8
    """Unpack elements of `bits` bits each.

    >>> unpack_bits(pack_bits(torch.tensor([5, 2, 7], dtype=torch.uint8), 3), 3, 3).tolist()
    [5, 2, 7]"""
    single_bits = packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=packed.device) & 1
    single_bits = single_bits.flatten(-2)[..., : count * bits].unflatten(-1, (count, bits))
    return (single_bits << torch.arange(bits, dtype=torch.uint8, device=packed.device)).sum(-1, dtype=torch.uint8)


def decibels(
    w,  # the matrix
    got,  # the matrix after quantization
) -> float:
    """Compute the signal-to-noise ratio, 10 log10(sum of squares / sum of squared errors); infinite without error.

    >>> round(decibels(torch.ones(4), torch.full((4,), 1.1)))
    20

    One more bit per element adds about 6 dB."""
    w, got = w.double(), got.double()
    return 10 * (w.square().sum() / (w - got).square().sum()).log10().item()
