"""The sizes of convolutions, argument checks, and the rules for falling back to torch."""

from typing import NamedTuple

import torch

from .sources import DTYPE_BYTES
from ..common import check_matches, check_tensor, dtype_name

MAX_TAPS = 7  # the largest filter, along each axis


class Convolution(NamedTuple):
    "The sizes of a 2-D convolution"

    images: int
    channels: int
    height: int
    width: int
    out_channels: int
    kernel: tuple  # the filter size (height, width); pairs below are in the same order
    stride: tuple
    padding: tuple
    dilation: tuple
    groups: int

    @property
    def out_size(self) -> tuple:
        "The (height, width) of the result"
        return tuple(
            (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, pad, dilation in zip(
                (self.height, self.width), self.kernel, self.stride, self.padding, self.dilation
            )
        )

    @property
    def is_depthwise(self) -> bool:
        "Whether each channel has its own filter"
        return self.groups == self.channels == self.out_channels

    @property
    def is_dense_or_depthwise(self) -> bool:
        "Whether there is one group, or each channel has its own filter"
        return self.groups == 1 or self.is_depthwise

    def gradient(self) -> 'Convolution':
        "Return the convolution of the gradient of the result, for a stride of 1, that gives the gradient of x"
        height, width = self.out_size
        padding = tuple(d * (k - 1) - p for d, k, p in zip(self.dilation, self.kernel, self.padding))
        return self._replace(height=height, width=width, padding=padding)


def pair(name, value, minimum) -> tuple:  # (for the height, for the width)
    "Return an integer or a pair of integers as a pair; raises `ValueError` unless both are at least `minimum`"
    values = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(values) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) and n >= minimum for n in values):
        raise ValueError(f'conv2d: {name} is {value!r}; expected an integer of at least {minimum}, or two of them')
    return values


def padding_pair(padding, kernel, dilation) -> tuple:
    "Return the padding on each side of (height, width); raises `ValueError` if it would not be symmetric"
    if padding == 'valid':
        return 0, 0
    if padding == 'same':
        total = [d * (k - 1) for d, k in zip(dilation, kernel)]
        if any(n % 2 for n in total):
            problem = f'padding="same" would be asymmetric for a filter of size {kernel}'
            raise ValueError(f'conv2d: {problem}: pad x before the call')
        return tuple(n // 2 for n in total)
    return pair('padding', padding, 0)


def check_conv2d(x, weight, bias, groups):
    "Raise `TypeError` or `ValueError` for tensors that do not fit a 2-D convolution"
    check_tensor('conv2d', x, DTYPE_BYTES, any_strides=True)
    check_tensor('conv2d', weight, [dtype_name(x)], 'weight', any_strides=True)
    if x.dim() != 4 or weight.dim() != 4:
        raise ValueError(
            f'conv2d: x has shape {tuple(x.shape)} and weight {tuple(weight.shape)}; expected (images, channels, '
            'height, width) and (out_channels, channels per group, height, width)'
        )
    is_count = isinstance(groups, int) and not isinstance(groups, bool) and groups > 0
    if not is_count or x.shape[1] != groups * weight.shape[1] or weight.shape[0] % groups:
        raise ValueError(
            f'conv2d: groups is {groups!r}, x has {x.shape[1]} channels, and weight has shape {tuple(weight.shape)}; '
            'expected groups * weight.shape[1] channels, and a multiple of groups as weight.shape[0]'
        )
    if bias is not None:
        check_matches('conv2d', 'bias', bias, x, weight.shape[:1])


def convolution(x, weight, stride, padding, dilation, groups) -> Convolution:
    "Return the sizes of a call; raises `ValueError` if the filter is larger than the padded x"
    result = Convolution(*x.shape, weight.shape[0], tuple(weight.shape[2:]), stride, padding, dilation, groups)
    if min(result.out_size) < 1:
        raise ValueError(
            f'conv2d: the filter {result.kernel} with dilation {dilation} is larger than x {tuple(x.shape[2:])} with '
            f'padding {padding}'
        )
    return result


def is_channels_last(x) -> bool:
    "Return whether a tensor is stored as (images, height, width, channels), and not as (images, channels, ...)"
    return not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)


def depthwise_fallback(
    problem,
    x,
    uses_tiles,  # whether x is stored channels last and can be copied to shared memory in chunks of 16 bytes
) -> str:  # None if our kernel computes it
    "Return the reason why torch computes a depthwise convolution"
    return _depthwise_limit(problem) or (_nhwc_fallback_reason(problem, x, uses_tiles) if is_channels_last(x) else None)


# Measured on an NVIDIA H200 (benchmarks/conv.py)
_NHWC_MIN_OUTPUTS = 2**20


def _nhwc_fallback_reason(problem, x, uses_tiles=False) -> str:
    "Return the reason why cuDNN is faster for images that are stored channels last, or None"
    (height, width), taps, element_bytes = problem.out_size, min(problem.kernel), x.element_size()
    if uses_tiles and element_bytes == 2:
        return None
    if problem.images * problem.channels * height * width < _NHWC_MIN_OUTPUTS:
        return f'channels last, and fewer than {_NHWC_MIN_OUTPUTS:,} outputs: cuDNN is faster'
    if uses_tiles:
        is_slow = problem.stride != (1, 1) and taps < 5
        return 'channels last, float32, a stride above 1 and a filter below 5 x 5: cuDNN is faster' if is_slow else None
    if problem.stride != (1, 1) or taps < (5 if element_bytes == 4 else 7):
        smallest = '5 x 5' if element_bytes == 4 else '7 x 7'
        return f'channels last, with a stride above 1 or a filter below {smallest}: cuDNN is faster'
    if element_bytes == 2 and max(height, width) > 32:
        return 'channels last, 16-bit elements, and more than 32 pixels per row: cuDNN is faster'


# Planes are small if a row has at most this many outputs: a block computes one tile of a plane, so most of its threads
# have no output. stride -> taps -> (outputs of 16-bit elements, of float32)
_SMALL_ROWS = {1: {3: (14, 14), 5: (7, 7)}, 2: {3: (9, 7), 5: (7, 5), 7: (5, 5)}}
_FEW_OUTPUTS = 2**18


def plane_fallback_reason(problem, x) -> str:
    "Return the reason why cuDNN is faster for contiguous images without a gradient, or None"
    (height, width), stride, is_float32 = problem.out_size, problem.stride[0], x.element_size() == 4
    has_few_outputs = problem.images * problem.channels * height * width < _FEW_OUTPUTS
    max_small_row = _SMALL_ROWS[stride].get(min(problem.kernel), (0, 0))[is_float32]
    if max(height, width) <= max_small_row and (has_few_outputs or stride == 2):
        return f'planes of {height} x {width} outputs: cuDNN is faster'
    if stride == 2 and has_few_outputs:
        return f'a stride of 2, and fewer than {_FEW_OUTPUTS:,} outputs: cuDNN is faster'


def _depthwise_limit(problem) -> str:
    "Return the reason why our kernels cannot compute a depthwise convolution, or None"
    if max(problem.kernel) > MAX_TAPS:
        return f'a filter of {problem.kernel}: our kernels hold up to {MAX_TAPS} x {MAX_TAPS} taps in registers'
    if len(set(problem.stride)) > 1 or len(set(problem.dilation)) > 1 or min(problem.padding) < 0:
        return 'different strides or dilations along the two axes, or a negative padding'
    if problem.stride[0] > 2 or problem.dilation[0] > 4:
        return f'a stride of {problem.stride[0]} and a dilation of {problem.dilation[0]}: the halo exceeds a tile'
    if max(problem.height * problem.width, problem.images * problem.channels) >= 2**31:
        return 'a plane has 2^31 or more elements, or there are 2^31 or more planes'
