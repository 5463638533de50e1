"The functions of torch that create or take tensors"

from functools import wraps
from types import SimpleNamespace

import numpy as np

from ._tensor import MISSING, Tensor, _shape, empty_aligned, to_numpy, to_tensor, tensor

__all__ = [
    *('allclose', 'arange', 'bincount', 'cat', 'cumsum', 'empty', 'empty_like', 'equal', 'from_numpy', 'full'),
    *('full_like', 'hann_window', 'hypot', 'isin', 'linalg', 'linspace', 'manual_seed', 'matmul', 'maximum', 'minimum'),
    *('no_grad', 'normal', 'ones', 'ones_like', 'outer', 'rand', 'randint', 'randn', 'randperm', 'relu', 'softmax'),
    *('sort', 'square', 'stack', 'topk', 'unique', 'use_deterministic_algorithms', 'where', 'zeros', 'zeros_like'),
    *('argmax', 'as_tensor', 'exp', 'isnan', 'sqrt', 'argsort', 'eye', 'Generator', 'isclose', 'log_softmax'),
    *('add', 'randn_like', 'rsqrt', 'sin', 'tanh', 'tensor_split'),
]


def _with_tensor_options(f):
    "Decorate a function that creates a tensor: add torch's options for its dtype and device"

    @wraps(f)
    def make(*args, dtype=None, device='cpu', requires_grad=False, **options):
        if requires_grad:
            raise AttributeError(MISSING.format('autograd'))
        return f(*args, **options).to(device, dtype=dtype)

    return make


# Tensors of given sizes
@_with_tensor_options
def arange(*ends):
    return tensor(np.arange(*ends).tolist())


@_with_tensor_options
def empty(*sizes):
    return empty_aligned(_shape(sizes))


@_with_tensor_options
def eye(n):
    return to_tensor(np.eye(n, dtype=np.float32))


@_with_tensor_options
def ones(*sizes):
    return empty_aligned(_shape(sizes)).fill_(1)


@_with_tensor_options
def zeros(*sizes):
    return empty_aligned(_shape(sizes)).fill_(0)


@_with_tensor_options
def full(size, fill_value):
    return empty_aligned(size, tensor(fill_value).dtype).fill_(fill_value)


def empty_like(x, dtype=None):
    return empty_aligned(x.shape, dtype or x.dtype)


def ones_like(x, dtype=None):
    return empty_aligned(x.shape, dtype or x.dtype).fill_(1)


def zeros_like(x, dtype=None):
    return empty_aligned(x.shape, dtype or x.dtype).fill_(0)


def full_like(x, fill_value, dtype=None):
    return empty_aligned(x.shape, dtype or x.dtype).fill_(fill_value)


def as_tensor(data, dtype=None, device='cpu'):
    return data.to(device, dtype=dtype) if isinstance(data, Tensor) else tensor(data, dtype, device)


def from_numpy(x):
    return x.view(Tensor)


@_with_tensor_options
def linspace(start, end, steps):
    return np.linspace(start, end, steps, dtype=np.float32).view(Tensor)


def hann_window(length, periodic=True):
    steps = np.arange(length) / (length if periodic else length - 1)
    return (0.5 - 0.5 * np.cos(2 * np.pi * steps)).astype(np.float32).view(Tensor)


# Random tensors
class Generator:
    "A generator of random values"

    def __init__(self, device='cpu'):
        self.numpy = np.random.default_rng()

    def manual_seed(self, seed):
        self.numpy = np.random.default_rng(seed)
        return self


_default = Generator()


def manual_seed(seed):
    return _default.manual_seed(seed)


@_with_tensor_options
def rand(*sizes, generator=_default):
    return to_tensor(generator.numpy.random(_shape(sizes), np.float32))


@_with_tensor_options
def randn(*sizes, generator=_default):
    return to_tensor(generator.numpy.standard_normal(_shape(sizes), np.float32))


def randn_like(x):
    return randn(x.shape, dtype=x.dtype)


@_with_tensor_options
def randint(low, high=None, size=None, generator=_default):
    if size is None:
        low, high, size = 0, low, high
    return to_tensor(generator.numpy.integers(low, high, size, np.int64))


@_with_tensor_options
def randperm(n, generator=_default):
    return to_tensor(generator.numpy.permutation(n).astype(np.int64))


@_with_tensor_options
def normal(mean, std, size, generator=_default):
    return to_tensor(generator.numpy.normal(mean, std, size).astype(np.float32))


# Comparisons, choices
def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return np.allclose(to_numpy(a), to_numpy(b), rtol, atol, equal_nan)


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return to_tensor(np.isclose(to_numpy(a), to_numpy(b), rtol, atol, equal_nan))


def equal(a, b):
    return np.array_equal(a, b)


def isin(a, b):
    return np.isin(a, b).view(Tensor)


def _as_operand(x, other):
    "Return a tensor; a Python number takes the type of the other operand, as far as that represents its kind"
    takes_type = isinstance(x, (int, float)) and isinstance(other, Tensor)
    is_represented = takes_type and (other.dtype.kind == 'f' or isinstance(x, int))
    return tensor(x, other.dtype) if is_represented else tensor(x)


def where(condition, a, b):
    return to_tensor(np.where(condition, _as_operand(a, b), _as_operand(b, a)))


# Methods as functions
def _as_function(name):
    def f(x, *args, **kw):
        return getattr(x, name)(*args, **kw)

    f.__name__ = name
    return f


add, argmax, argsort, bincount, cumsum, max, min, sort, sum, topk, unique = map(
    _as_function, ('add', 'argmax', 'argsort', 'bincount', 'cumsum', 'max', 'min', 'sort', 'sum', 'topk', 'unique')
)
exp, isnan, log_softmax, matmul, rsqrt, sin, softmax, sqrt, square, tanh = map(
    _as_function, ('exp', 'isnan', 'log_softmax', 'matmul', 'rsqrt', 'sin', 'softmax', 'sqrt', 'square', 'tanh')
)


def hypot(a, b):
    return np.hypot(a, b)


def maximum(a, b):
    return np.maximum(a, b)


def minimum(a, b):
    return np.minimum(a, b)


def outer(a, b):
    return a[:, None] * b[None]


def relu(x):
    return np.maximum(x, 0)


def cat(tensors, dim=0):
    return to_tensor(np.concatenate([to_numpy(t) for t in tensors], dim))


def tensor_split(x, indices_or_sections, dim=0):
    parts = to_numpy(indices_or_sections)
    return tuple(np.array_split(x, parts if isinstance(parts, int) else list(parts), dim))


def stack(tensors, dim=0):
    return to_tensor(np.stack([to_numpy(t) for t in tensors], dim))


def _matrix_rank(x):
    return to_tensor(np.int64(np.linalg.matrix_rank(np.asarray(x))))


linalg = SimpleNamespace(matrix_rank=_matrix_rank)


# Settings
class no_grad:
    "Does nothing: there is no autograd"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self, f):
        return f


def use_deterministic_algorithms(mode, warn_only=False):
    if mode:
        raise AttributeError(MISSING.format('torch.use_deterministic_algorithms(True)'))
