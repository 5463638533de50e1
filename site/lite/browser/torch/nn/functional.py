"The functions of torch.nn.functional that lessons 01 to 20 use, in NumPy"

import math

import numpy as np

from .._functions import relu, softmax  # noqa: F401
from .._tensor import MISSING, Tensor, to_tensor


def __getattr__(name):
    raise AttributeError(MISSING.format(f'torch.nn.functional.{name}'))


def linear(x, weight, bias=None):
    y = x @ weight.mT
    return y if bias is None else y + bias


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    axes = list(range(-len(normalized_shape), 0))
    y = (x - x.mean(axes, keepdim=True)) / (x.var(axes, 0, keepdim=True) + eps).sqrt()
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def gelu(x, approximate='none'):
    if approximate == 'tanh':
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    erf = np.vectorize(math.erf, otypes=[np.float64])(np.asarray(x, np.float64) / math.sqrt(2))
    return to_tensor((np.asarray(x, np.float64) * (1 + erf) / 2).astype(x.dtype))


def cross_entropy(x, target, reduction='mean'):
    losses = -x.log_softmax(-1).gather(1, target[:, None])[:, 0]
    return losses if reduction == 'none' else losses.mean()


def _pair(x):
    return (x, x) if isinstance(x, int) else tuple(x)


def pad(x, pad, value=0.0):
    "Pad the last axes, the last one first, as torch does"
    widths = [(0, 0)] * (x.ndim - len(pad) // 2) + [tuple(pad[i : i + 2]) for i in range(len(pad) - 2, -1, -2)]
    return np.pad(np.asarray(x), widths, constant_values=value).view(Tensor)


def unfold(x, kernel_size, padding=0, stride=1):
    "Return the patches of images (n, channels, h, w) as columns (n, channels*kh*kw, patches)"
    (kh, kw), (ph, pw), (sh, sw) = map(_pair, (kernel_size, padding, stride))
    x = np.asarray(pad(x, (pw, pw, ph, ph)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (2, 3))[:, :, ::sh, ::sw]
    n, channels, h, w = windows.shape[:4]
    return np.ascontiguousarray(windows.transpose(0, 1, 4, 5, 2, 3)).reshape(n, channels * kh * kw, h * w).view(Tensor)


def conv2d(x, weight, bias=None, stride=1, padding=0, groups=1):
    batched = x if x.ndim == 4 else x[None]
    (kh, kw), (ph, pw), (sh, sw) = weight.shape[2:], _pair(padding), _pair(stride)
    h, w = ((n + 2 * p - k) // s + 1 for n, p, k, s in zip(batched.shape[2:], (ph, pw), (kh, kw), (sh, sw)))
    parts = []
    for filters, images in zip(weight.chunk(groups), batched.chunk(groups, 1)):
        columns = unfold(images.contiguous(), (kh, kw), padding, stride)
        parts.append(np.asarray(filters.reshape(filters.shape[0], -1)) @ np.asarray(columns))
    y = np.concatenate(parts, 1).reshape(batched.shape[0], -1, h, w).view(Tensor)
    y = y if bias is None else y + bias[:, None, None]
    return y if x.ndim == 4 else y[0]


def conv1d(x, weight, bias=None, stride=1, padding=0, groups=1):
    return conv2d(x[..., None, :], weight[:, :, None], bias, (1, stride), (0, padding), groups)[..., 0, :]
