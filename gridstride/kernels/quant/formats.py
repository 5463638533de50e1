"""Quantize matrices in plain torch, to integers with scales, to NF4 (a codebook of 16 values) or to e4m3; pack bits.

The elements of a group share a scale. A group is the whole matrix, a row, or some consecutive elements of a row. Larger
groups need fewer scales, but then an outlier increases the quantization steps of more elements.
"""

from functools import lru_cache
from typing import NamedTuple

import torch


class QuantizedInts(NamedTuple):
    "A matrix quantized to integers: its values are (integers - zeros) * scales"

    integers: object  # (rows, columns): int8 from -2^(bits-1); with zero points uint8 from 0
    scales: object  # (rows, groups)
    zeros: object = None  # (rows, groups) of uint8: zero points, the integers that represent 0; None: 0 represents 0


def group_size(
    shape,  # of a matrix
    group,  # 'tensor', 'row', or the number of columns that share a scale
) -> tuple:  # (rows, columns) of a group
    """Return the size of a group, whose elements share a scale.

    >>> group_size((4, 128), 32)
    (1, 32)

    Raises ValueError for an unknown group, or one that does not divide the columns."""
    rows, columns = shape
    if group in ('tensor', 'row'):
        return (rows if group == 'tensor' else 1), columns
    if isinstance(group, bool) or not isinstance(group, int) or group < 1:
        raise ValueError(f"group must be 'tensor', 'row', or the number of columns that share a scale; got {group!r}")
    if columns % group:
        raise ValueError(f'the matrix has {columns} columns; expected a multiple of the group size, {group}')
    return 1, group


def _split_into_groups(w, group):
    "Reshape a matrix to (rows of groups, groups per row, elements of a group)"
    group_rows, group_columns = group_size(w.shape, group)
    return w.reshape(w.shape[0] // group_rows, -1, group_rows * group_columns)


def expand_scales(scales, shape):
    "Expand scales or zero points of groups to the shape of the matrix"
    (rows, columns), (scale_rows, groups) = shape, scales.shape
    return scales.repeat_interleave(rows // scale_rows, 0).repeat_interleave(columns // groups, 1)


def _round_scales(scales, dtype):
    "Round scales to the dtype in which they are stored; clamp them, so that none is 0, subnormal or infinite"
    float_limits = torch.finfo(dtype)
    return scales.clamp(float_limits.tiny, float_limits.max).to(dtype)


def symmetric(
    w,  # a matrix of floats
    bits,  # 2 to 8
    group='row',  # as for `group_size`
    scale_dtype=torch.float32,
    shrink=1.0,  # factor of the scale; below 1 the largest elements are clipped, and all steps are finer
) -> QuantizedInts:
    "Quantize so that the largest magnitude of a group becomes 2^(bits-1) - 1, and 0 stays 0; ties round to even"
    max_integer = 2 ** (bits - 1) - 1
    group_maxima = _split_into_groups(w.float(), group).abs().amax(-1)
    scales = _round_scales(group_maxima * shrink / max_integer, scale_dtype)
    integers = (w.float() / expand_scales(scales.float(), w.shape)).round().clamp(-max_integer - 1, max_integer)
    return QuantizedInts(integers.to(torch.int8), scales)


def affine(
    w,  # a matrix of floats
    bits,  # 1 to 8
    group='row',
    scale_dtype=torch.float32,
    shrink=1.0,  # of the scale, as for `symmetric`
) -> QuantizedInts:
    "Divide the range of a group, extended to contain 0, into 2^bits - 1 steps; 0 is represented exactly"
    groups, max_integer = _split_into_groups(w.float(), group), 2**bits - 1
    low, high = groups.amin(-1).clamp(max=0) * shrink, groups.amax(-1).clamp(min=0) * shrink
    scales = _round_scales((high - low) / max_integer, scale_dtype)
    zeros = (-low / scales.float()).round().clamp(0, max_integer)
    integers = (w.float() / expand_scales(scales.float(), w.shape)).round() + expand_scales(zeros, w.shape)
    return QuantizedInts(integers.clamp(0, max_integer).to(torch.uint8), scales, zeros.to(torch.uint8))


def dequantize_ints(quantized: QuantizedInts):  # a matrix of float32
    "Dequantize integers to the values that they represent"
    values = quantized.integers.float()
    if quantized.zeros is not None:
        values = values - expand_scales(quantized.zeros.float(), values.shape)
    return values * expand_scales(quantized.scales.float(), values.shape)


def _search_shrink(quantize, dequantize, w, group, steps):
    "Call `quantize(shrink)` for `steps` factors; return, per group, the result with the least squared error"
    best, least_error = None, None
    for shrink in torch.linspace(1, 0.5, steps).tolist():
        quantized = quantize(shrink)
        error = _split_into_groups((dequantize(quantized) - w.float()) ** 2, group).sum(-1)
        if best is None:
            best, least_error = quantized, error
            continue
        is_better = error < least_error
        elements = torch.where(expand_scales(is_better, w.shape), quantized[0], best[0])
        scales_and_zeros = [
            candidate if candidate is None else torch.where(is_better, candidate, previous)
            for candidate, previous in zip(quantized[1:], best[1:])
        ]
        best = type(quantized)(elements, *scales_and_zeros)
        least_error = torch.minimum(error, least_error)
    return best


def search_scales(
    w,  # a matrix of floats
    bits,
    group='row',
    scale_dtype=torch.float32,
    steps=20,  # candidates per group, from 1 to 0.5 times the scale that `quantizer` chooses
    quantizer=symmetric,  # or `affine`
) -> QuantizedInts:
    "Quantize with the scale that has the least squared error among `steps` candidates per group"

    def quantize(shrink):
        return quantizer(w, bits, group, scale_dtype, shrink)

    return _search_shrink(quantize, dequantize_ints, w, group, steps)


# NF4 of Dettmers et al., "QLoRA": 16 quantiles of the normal distribution, because weights are nearly normally
# distributed. Seven are negative, one is 0, and eight are positive; they are scaled so that the largest one is 1.

# Probability of the largest quantile: the quantile of 1 would be infinite, so QLoRA takes the mean of two probabilities
# slightly below 1.
_LARGEST_PROBABILITY = (1 - 1 / 32 + 1 - 1 / 30) / 2


@lru_cache
def nf4_codebook() -> tuple:  # of 16 float32 values, ascending from -1 to 1
    """Return the 16 values of NF4.

    >>> nf4_codebook()[0], nf4_codebook()[7], nf4_codebook()[15]
    (-1.0, 0.0, 1.0)"""

    def positive_quantiles(count):  # count - 1 of them: the last one, which is 0, is dropped
        return torch.special.ndtri(torch.linspace(_LARGEST_PROBABILITY, 0.5, count, dtype=torch.float64))[:-1]

    values = (
        torch.cat([-positive_quantiles(8), torch.zeros(1, dtype=torch.float64), positive_quantiles(9)]).sort().values
    )
    return tuple((values / values.max()).float().tolist())


class QuantizedNF4(NamedTuple):
    "A matrix quantized to indices of the NF4 codebook: its values are codebook[indices] * scales"

    indices: object  # (rows, columns) of uint8
    scales: object  # (rows, groups)


def _codebook(scales):
    "Return the codebook, rounded to the dtype of the scales as in the kernels"
    return torch.tensor(nf4_codebook(), dtype=scales.dtype, device=scales.device).float()


def nf4(
    w,  # a matrix of floats
    group=64,
    scale_dtype=torch.float32,
    shrink=1.0,  # of the scale, as for `symmetric`
) -> QuantizedNF4:
    "Scale each group so that its largest magnitude is 1, and quantize to the nearest values of NF4"
    scales = _round_scales(_split_into_groups(w.float(), group).abs().amax(-1) * shrink, scale_dtype)
    codebook = _codebook(scales)
    boundaries = (codebook[1:] + codebook[:-1]) / 2
    indices = torch.bucketize(w.float() / expand_scales(scales.float(), w.shape), boundaries)
    return QuantizedNF4(indices.to(torch.uint8), scales)


def dequantize_nf4(quantized: QuantizedNF4):  # a matrix of float32
    "Dequantize codebook indices to the values that they represent"
    indices, scales = quantized
    return _codebook(scales)[indices.long()] * expand_scales(scales.float(), indices.shape)


def search_nf4(
    w,  # a matrix of floats
    group=64,
    scale_dtype=torch.float32,
    steps=20,
) -> QuantizedNF4:
    "Quantize to NF4 with the scale that has the least squared error among `steps` candidates per group"
    return _search_shrink(lambda shrink: nf4(w, group, scale_dtype, shrink), dequantize_nf4, w, group, steps)


E4M3_MAX = 448.0


def fp8(
    x,  # a matrix of floats
    group='row',
    scale_dtype=torch.float32,
) -> tuple:  # (float8_e4m3fn tensor of the shape of x, scales (rows, groups))
    "Scale each group so that its largest magnitude is 448, the largest e4m3 value, and round to e4m3"
    scales = _round_scales(_split_into_groups(x.float(), group).abs().amax(-1) / E4M3_MAX, scale_dtype)
    scaled_elements = (x.float() / expand_scales(scales.float(), x.shape)).clamp(-E4M3_MAX, E4M3_MAX)
    return scaled_elements.to(torch.float8_e4m3fn), scales


# Packed elements: element i occupies bits i * bits to i * bits + bits - 1; bit 0 of a byte is its lowest bit.
def pack_bits(
    integers,  # (..., n) of uint8 below 2^bits
    bits,  # 1 to 8
):  # (..., ceil(n * bits / 8)) of uint8
    "Pack elements of `bits` bits each; the last byte is padded with zeros"
    single_bits = integers.unsqueeze(-1) >> torch.arange(bits, dtype=torch.uint8, device=integers.device) & 1
    single_bits = single_bits.flatten(-2)
    single_bits = torch.nn.functional.pad(single_bits, (0, -single_bits.shape[-1] % 8)).unflatten(-1, (-1, 8))
    return (single_bits << torch.arange(8, dtype=torch.uint8, device=integers.device)).sum(-1, dtype=torch.uint8)


def unpack_bits(
    packed,  # (..., bytes) of uint8
    bits,
    count,  # number of elements, n
):  # (..., n) of uint8
    """Unpack elements of `bits` bits each.

    >>> unpack_bits(pack_bits(torch.tensor([5, 2, 7], dtype=torch.uint8), 3), 3, 3).tolist()
    [5, 2, 7]"""
    single_bits = packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=packed.device) & 1
    single_bits = single_bits.flatten(-2)[..., : count * bits].unflatten(-1, (count, bits))
    return (single_bits << torch.arange(bits, dtype=torch.uint8, device=packed.device)).sum(-1, dtype=torch.uint8)


def snr_db(
    w,  # the matrix
    dequantized,  # the matrix after quantization and dequantization
) -> float:
    """Compute the signal-to-noise ratio, 10 log10(sum of squares / sum of squared errors); infinite without error.

    >>> round(snr_db(torch.ones(4), torch.full((4,), 1.1)))
    20

    An additional bit per element adds about 6 dB."""
    w, dequantized = w.double(), dequantized.double()
    return 10 * (w.square().sum() / (w - dequantized).square().sum()).log10().item()
