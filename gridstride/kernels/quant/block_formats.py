"""Block-scaled formats in plain torch: the elements are narrow floats, and consecutive elements of a row share a scale,
which is a narrow float, too. MXFP8 and MXFP4 are formats of the Open Compute Project's Microscaling specification,
NVFP4 is NVIDIA's; the tensor cores of Blackwell GPUs multiply all three without dequantization.
"""

from typing import NamedTuple

import torch

from .formats import E4M3_MAX, expand_scales, group_size


class BlockFormat(NamedTuple):
    "A block-scaled format"

    element: str  # 'e4m3' or 'e2m1'
    block: int  # consecutive elements of a row that share a scale
    scale: str  # 'e8m0', a power of two, or 'e4m3'

    @property
    def bits(self) -> float:
        "Bits per element, including those of the scale, divided by the block size"
        return (8 if self.element == 'e4m3' else 4) + 8 / self.block


BLOCK_FORMATS = dict(
    mxfp8=BlockFormat('e4m3', 32, 'e8m0'), mxfp4=BlockFormat('e2m1', 32, 'e8m0'), nvfp4=BlockFormat('e2m1', 16, 'e4m3')
)

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of codes 0 to 7; codes 8 to 15 are their negatives
_LARGEST = dict(e2m1=6.0, e4m3=E4M3_MAX)
_MAX_EXPONENT = dict(e2m1=2, e4m3=8)  # of the largest element: 6 = 1.5 * 2^2, 448 = 1.75 * 2^8


class BlockScaled(NamedTuple):
    "A quantized matrix: its values are elements * scales of their blocks * matrix_scale"

    format: str  # a key of `BLOCK_FORMATS`
    codes: object  # (rows, columns) of uint8
    scales: object  # (rows, columns / block) of uint8: codes
    matrix_scale: object  # () of float32; 1 for MXFP8 and MXFP4


def e2m1_codes(x):  # of uint8
    """Round to e2m1, ties to even; values beyond 6 become 6.

    >>> e2m1_codes(torch.tensor([0.3, -2.5, 100.0])).tolist()
    [1, 12, 7]"""
    values = torch.tensor(E2M1_VALUES, device=x.device)
    midpoints, magnitude = (values[1:] + values[:-1]) / 2, x.float().abs()
    codes = torch.bucketize(magnitude, midpoints)  # for a tie, the lower code
    is_odd_tie = (codes % 2 == 1) & (magnitude == midpoints[codes.clamp(max=len(midpoints) - 1)])
    return (codes + is_odd_tie).to(torch.uint8) | torch.signbit(x).to(torch.uint8) << 3


def e2m1_values(codes):  # of float32
    "Return the values of codes of e2m1"
    values = torch.tensor(E2M1_VALUES + tuple(-value for value in E2M1_VALUES), device=codes.device)
    return values[codes.long()]


def e8m0_codes(
    x,  # positive floats
    rounding='down',  # to a power of two; or 'up'
):  # of uint8
    """Round to powers of two, from 2^-127 to 2^127; the code is the exponent plus 127.

    >>> e8m0_codes(torch.tensor([1.0, 1.5]), 'up').tolist()
    [127, 128]"""
    fraction, exponent = torch.frexp(x.float())  # x = fraction * 2^exponent, and fraction is at least 1/2
    power = exponent - 1 + ((fraction > 0.5) if rounding == 'up' else 0)
    return torch.where(x > 0, power + 127, 0).clamp(0, 254).to(torch.uint8)


def e8m0_values(codes):  # of float32
    "Return the values of codes of e8m0; code 255, NaN, is not expected"
    return torch.ldexp(torch.ones_like(codes, dtype=torch.float32), codes.int() - 127)


def e4m3_codes(x):  # of uint8
    "Round to e4m3, ties to even; values beyond 448 become 448"
    return x.float().clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def e4m3_values(codes):  # of float32
    "Return the values of codes of e4m3"
    return codes.view(torch.float8_e4m3fn).float()


_ENCODE = dict(e2m1=e2m1_codes, e4m3=e4m3_codes)
_DECODE = dict(e2m1=e2m1_values, e4m3=e4m3_values, e8m0=e8m0_values)


def quantize_blocks(
    w,  # (rows, columns) of floats
    format,  # 'mxfp8', 'mxfp4', 'nvfp4'
    scale_rounding='down',  # of the powers of two of MXFP8 and MXFP4; 'up': no element of a block is clipped
) -> BlockScaled:
    """Quantize a matrix to a block-scaled format.

    With scale_rounding 'down' the scale is that of the specification: the power of two of the block's largest element,
    divided by that of the largest value of the format. NVFP4's scales, which are at most 448, are relative to a scale
    of the matrix, so that the largest block has the largest scale.

        quantized = quantize_blocks(w, 'nvfp4')

    Raises ValueError for an unknown format, and for columns that are not a multiple of its block."""
    if format not in BLOCK_FORMATS:
        raise ValueError(f'format must be one of {", ".join(BLOCK_FORMATS)}; got {format!r}')
    element, block, scale = BLOCK_FORMATS[format]
    group_size(w.shape, block)
    w, largest = w.float(), _LARGEST[element]
    maxima = w.unflatten(1, (-1, block)).abs().amax(-1)
    matrix_scale = torch.ones((), device=w.device)
    if scale == 'e4m3':
        matrix_scale = (maxima.amax() / (largest * E4M3_MAX)).clamp(min=torch.finfo(torch.float32).tiny)
        scales = e4m3_codes(maxima / largest / matrix_scale)
    elif scale_rounding == 'down':
        scales = e8m0_codes(maxima * 2.0 ** -_MAX_EXPONENT[element])
    else:
        scales = e8m0_codes(maxima / largest, 'up')
    factors = expand_scales(_DECODE[scale](scales) * matrix_scale, w.shape)
    return BlockScaled(format, _ENCODE[element](torch.where(factors > 0, w / factors, 0)), scales, matrix_scale)


def dequantize_blocks(quantized: BlockScaled):  # a matrix of float32
    "Dequantize a matrix to the values that it represents"
    element, _, scale = BLOCK_FORMATS[quantized.format]
    factors = _DECODE[scale](quantized.scales) * quantized.matrix_scale
    return _DECODE[element](quantized.codes) * expand_scales(factors, quantized.codes.shape)
