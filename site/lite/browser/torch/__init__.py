"""The part of torch that lessons 01 to 04 use, made of NumPy arrays, for browsers, where torch is not available.

A tensor is an array whose arithmetic keeps torch's types: integers have 64 bits, and their quotients are float32. One
element of a tensor is a NumPy scalar. A missing name raises AttributeError.
"""

from types import SimpleNamespace

import numpy as np

nan = np.nan
MISSING = 'the replacement for torch in the browser has no {}: it has what lessons 01 to 04 use'


def __getattr__(name):
    raise AttributeError(MISSING.format(f'torch.{name}'))


def _memory(a):
    "Return the array that owns the memory of `a`"
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


class Tensor(np.ndarray):
    "An array with torch's methods and types"

    layout = 'torch.strided'  # not sparse

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kw):
        plain = [np.asarray(o) if isinstance(o, Tensor) else o for o in inputs]
        if out is not None:
            kw['out'] = tuple(map(np.asarray, out))
        got = getattr(ufunc, method)(*plain, **kw)
        if out is not None:
            return out[0]
        double = any(getattr(o, 'dtype', None) == np.float64 for o in plain)
        if got.dtype == np.float64 and not double:
            got = got.astype(np.float32)
        return got.view(Tensor) if isinstance(got, np.ndarray) else got

    def __getattr__(self, name):
        raise AttributeError(MISSING.format(f'Tensor.{name}'))

    def __repr__(self):
        return f"tensor({np.array2string(np.asarray(self), separator=', ', precision=4, prefix='tensor(')})"

    def as_strided(self, size, stride, offset):
        strides = [s * self.itemsize for s in stride]
        return np.ndarray.__new__(Tensor, size, self.dtype, _memory(self), offset * self.itemsize, strides)

    def expand(self, *shape):
        known = (1,) * (len(shape) - self.ndim) + self.shape
        return np.broadcast_to(self, [k if n == -1 else n for n, k in zip(shape, known)], subok=True)

    def view(self, *shape):
        return self.reshape(shape) if all(isinstance(o, int) for o in shape) else super().view(*shape)

    def abs(self):
        return np.abs(self)

    def clone(self):
        return self.copy()

    def contiguous(self):
        return np.ascontiguousarray(self).view(Tensor)

    def cpu(self):
        return self

    def detach(self):
        return self

    def double(self):
        return self.astype(np.float64)

    def element_size(self):
        return self.itemsize

    def eq(self, other):
        return self == other

    def flatten(self):
        return self.reshape(-1)

    def int(self):
        return self.astype(np.int32)

    def nan_to_num(self, nan):
        return np.nan_to_num(self, nan=nan)

    def numpy(self):
        return np.asarray(self)

    def permute(self, *axes):
        return self.transpose(axes)

    def to(self, device):
        if device != 'cpu':
            raise AttributeError(MISSING.format(f'Tensor.to({device!r})'))
        return self

    def untyped_storage(self):
        return SimpleNamespace(nbytes=lambda: _memory(self).nbytes)


def tensor(data):
    a = np.array(data, order='C')
    if not hasattr(data, 'dtype'):
        a = a.astype(dict(f=np.float32, i=np.int64).get(a.dtype.kind, a.dtype))
    return a.view(Tensor)


def _shape(shape):
    return shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape


# What makes tensors
def arange(*ends):
    return tensor(np.arange(*ends).tolist())


def empty(*shape, device='cpu'):
    return np.empty(_shape(shape), np.float32).view(Tensor)


def full(shape, value, device='cpu'):
    return np.full(shape, value, tensor(value).dtype).view(Tensor)


def zeros(*shape, device='cpu'):
    return np.zeros(_shape(shape), np.float32).view(Tensor)


# Random tensors
_random = np.random.default_rng()


def manual_seed(seed):
    global _random
    _random = np.random.default_rng(seed)


def rand(*shape):
    return _random.random(_shape(shape), np.float32).view(Tensor)


def randn(*shape):
    return _random.standard_normal(_shape(shape), np.float32).view(Tensor)


def randperm(n):
    return _random.permutation(n).astype(np.int64).view(Tensor)


# What takes tensors
def allclose(a, b, rtol=1e-5, atol=1e-8):
    return np.allclose(a, b, rtol, atol)


def bincount(x, minlength=0):
    return np.bincount(np.asarray(x, np.intp), minlength=minlength).astype(np.int64).view(Tensor)


def cat(parts):
    return np.concatenate(parts).view(Tensor)


def equal(a, b):
    return np.array_equal(a, b)


def isin(a, b):
    return np.isin(a, b).view(Tensor)


def where(yes, a, b):
    return np.where(yes, tensor(a), tensor(b)).view(Tensor)
