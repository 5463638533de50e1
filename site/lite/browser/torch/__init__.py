"""A replacement for torch where torch is not available: the part that lessons 01 to 20 use, made of NumPy arrays.

A tensor is an array whose arithmetic keeps torch's types: integers have 64 bits, and their quotients are float32. All
tensors are on the CPU, and there is no autograd. A missing name raises AttributeError.
"""

import numpy as np

from . import autograd, backends, cuda, nn  # noqa: F401
from ._tensor import MISSING, Size, Tensor, device, to_tensor, tensor  # noqa: F401
from ._functions import *  # noqa: F403
from ._functions import max, min, sum  # noqa: F401

nan, inf, pi = np.nan, np.inf, np.pi
half, float, double = float16, float32, float64 = [np.dtype(f'float{bits}') for bits in (16, 32, 64)]
int8, int16, int32, int64 = [np.dtype(f'int{bits}') for bits in (8, 16, 32, 64)]
uint8, uint16, uint32, uint64 = [np.dtype(f'uint{bits}') for bits in (8, 16, 32, 64)]
bool, int, long = np.dtype('bool'), int32, int64
dtype = np.dtype
strided, channels_last, contiguous_format = 'torch.strided', 'channels_last', 'contiguous_format'
__version__ = 'of the browser'


def __getattr__(name):
    raise AttributeError(MISSING.format(f'torch.{name}'))
