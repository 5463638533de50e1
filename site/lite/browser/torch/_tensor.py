"The class of tensors: NumPy's, with torch's methods and types"

from collections import namedtuple
from types import SimpleNamespace

import numpy as np
from gridstride.support.array_memory import owner

MISSING = 'the replacement for torch in the browser has no {}: it has what lessons 01 to 20 use'
WithIndices = namedtuple('WithIndices', 'values indices')


class Size(tuple):
    "A shape"

    def numel(self):
        return int(np.prod(self, dtype=np.int64))

    def __repr__(self):
        return f'torch.Size({list(self)})'


class device(str):
    "The name of a device; there is only the CPU"

    type, index = 'cpu', None

    def __new__(cls, name='cpu', index=None):
        if str(name) != 'cpu':
            raise AttributeError(MISSING.format(f'device {name!r}'))
        return super().__new__(cls, name)


ALIGNMENT = 64  # bytes, as in torch; NumPy's memory begins at multiples of 8 in a browser


def empty_aligned(shape, dtype=np.float32):
    "Return a tensor of uninitialized memory, aligned as in torch"
    num_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = bytearray(num_bytes + ALIGNMENT)  # no array, so that the tensor owns its memory
    begin = -np.frombuffer(memory, np.uint8).ctypes.data % ALIGNMENT
    return np.ndarray.__new__(Tensor, shape, dtype, memory, begin)


def to_tensor(x):
    "Convert an array, or a scalar, to a tensor; copies it if its memory is not aligned as in torch"
    x = np.asarray(x)
    if x.ctypes.data % ALIGNMENT == 0:
        return x.view(Tensor)
    copy = empty_aligned(x.shape, x.dtype)
    copy[...] = x
    return copy


def to_numpy(x):
    "Convert a tensor to an array; return anything else unchanged"
    return np.asarray(x) if isinstance(x, Tensor) else x


def _axis(dim):
    "Convert torch's `dim` to NumPy's `axis`"
    return tuple(dim) if isinstance(dim, list) else dim


def _shape(sizes):
    "Return the shape that was passed as one tuple, or as separate sizes"
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def _convert(x, dtype):
    "Return `x` with another type, or itself"
    return x if dtype is None or dtype == x.dtype else to_tensor(np.asarray(x).astype(dtype))


class Tensor(np.ndarray):
    "An array with torch's methods and types"

    layout, requires_grad, is_cuda, is_sparse, grad, grad_fn = 'torch.strided', False, False, False, None, None
    device, is_leaf, is_quantized, is_nested = device(), True, False, False
    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kw):
        if out is not None:
            kw['out'] = tuple(map(np.asarray, out))
        result = getattr(ufunc, method)(*map(to_numpy, inputs), **kw)
        if out is not None:
            return out[0]
        if isinstance(result, tuple):
            return tuple(map(to_tensor, result))
        double = any(getattr(o, 'dtype', None) == np.float64 for o in inputs)
        if result.dtype == np.float64 and not double:
            result = result.astype(np.float32)
        return to_tensor(result)

    def __getattr__(self, name):
        raise AttributeError(MISSING.format(f'Tensor.{name}'))

    def __repr__(self):
        return f"tensor({np.array2string(np.asarray(self), separator=', ', precision=4, prefix='tensor(')})"

    def __format__(self, spec):
        return format(self.item() if self.ndim == 0 and spec else str(self), spec)

    def __str__(self):
        return repr(self)

    def __getitem__(self, index):
        index = tuple(map(to_numpy, index)) if isinstance(index, tuple) else to_numpy(index)
        result = super().__getitem__(index)
        return result if isinstance(result, np.ndarray) else to_tensor(result)

    def __len__(self):
        if self.ndim == 0:
            raise TypeError('len() of a 0-d tensor')
        return self.shape[0]

    # Memory
    def as_strided(self, size, stride, storage_offset=0):
        strides = [s * self.itemsize for s in stride]
        return np.ndarray.__new__(Tensor, size, self.dtype, owner(self), storage_offset * self.itemsize, strides)

    def contiguous(self, memory_format=None):
        return self if self.flags.c_contiguous else to_tensor(np.ascontiguousarray(self))

    def data_ptr(self):
        return self.ctypes.data

    def element_size(self):
        return self.itemsize

    def get_device(self):
        return -1

    def is_contiguous(self):
        return self.flags.c_contiguous

    def is_floating_point(self):
        return self.dtype.kind == 'f'

    def numel(self):
        return int(np.prod(self.shape, dtype=np.int64))

    def stride(self, dim=None):
        strides = tuple(s // self.itemsize for s in self.strides)
        return strides if dim is None else strides[dim]

    def untyped_storage(self):
        return SimpleNamespace(nbytes=lambda: owner(self).nbytes)

    def dim(self):
        return self.ndim

    # Copies
    def clone(self):
        return to_tensor(self.copy())

    def copy_(self, other):
        self[...] = to_numpy(other)
        return self

    def cpu(self):
        return self

    def detach(self):
        return self

    def fill_(self, value):
        self[...] = value
        return self

    def zero_(self):
        return self.fill_(0)

    def numpy(self):
        return np.asarray(self)

    def new_empty(self, *sizes, dtype=None):
        return empty_aligned(_shape(sizes), dtype or self.dtype)

    def new_zeros(self, *sizes, dtype=None):
        return empty_aligned(_shape(sizes), dtype or self.dtype).fill_(0)

    def new_full(self, size, value, dtype=None):
        return empty_aligned(size, dtype or self.dtype).fill_(value)

    # Types
    def to(self, *args, dtype=None, device=None):
        for arg in (*args, *([device] if device else [])):
            if isinstance(arg, (np.dtype, type)):
                dtype = arg
            elif isinstance(arg, Tensor):
                dtype = arg.dtype
            elif arg != 'cpu':
                raise AttributeError(MISSING.format(f'Tensor.to({arg!r})'))
        return _convert(self, dtype)

    def bool(self):
        return _convert(self, np.dtype(np.bool_))

    def double(self):
        return _convert(self, np.dtype(np.float64))

    def float(self):
        return _convert(self, np.dtype(np.float32))

    def half(self):
        return _convert(self, np.dtype(np.float16))

    def int(self):
        return _convert(self, np.dtype(np.int32))

    def long(self):
        return _convert(self, np.dtype(np.int64))

    # Shapes
    def expand(self, *sizes):
        sizes = _shape(sizes)
        known = (1,) * (len(sizes) - self.ndim) + self.shape
        return np.broadcast_to(self, [k if n == -1 else n for n, k in zip(sizes, known)], subok=True)

    def flatten(self, start_dim=0):
        return self.reshape(*self.shape[:start_dim], -1)

    @property
    def mT(self):
        return self.swapaxes(-1, -2)

    def t(self):
        return self.swapaxes(0, 1) if self.ndim == 2 else self

    def permute(self, *axes):
        return super().transpose(_shape(axes))

    def transpose(self, *axes):
        return self.swapaxes(*axes) if len(axes) == 2 else super().transpose(*axes)

    def split(self, size, dim=0):
        ends = np.cumsum(size)[:-1] if isinstance(size, (list, tuple)) else range(size, self.shape[dim], size)
        return tuple(np.split(self, list(ends), dim))

    def chunk(self, chunks, dim=0):
        return self.split(-(-self.shape[dim] // chunks), dim)

    def unfold(self, dimension, size, step):
        windows = np.lib.stride_tricks.sliding_window_view(self, size, dimension, subok=True, writeable=True)
        return windows[(slice(None),) * dimension + (slice(None, None, step),)]

    def unsqueeze(self, dim):
        return np.expand_dims(self, dim)

    def view(self, *sizes):
        if len(sizes) == 1 and isinstance(sizes[0], (np.dtype, type, str)):
            return super().view(*sizes)
        return self.reshape(_shape(sizes))

    # Elementwise
    def abs(self):
        return np.abs(self)

    def add(self, other):
        return self + other

    def add_(self, other):
        self += other
        return self

    def clamp(self, min=None, max=None):
        return np.clip(self, min, max)

    def cos(self):
        return np.cos(self)

    def divide(self, other):
        return self / other

    def div(self, other):
        return self / other

    def eq(self, other):
        return self == other

    def exp(self):
        return np.exp(self)

    def isnan(self):
        return np.isnan(self)

    def log(self):
        return np.log(self)

    def mul(self, other):
        return self * other

    def mul_(self, other):
        self *= other
        return self

    def nan_to_num(self, nan=0.0):
        return np.nan_to_num(self, nan=nan)

    def neg(self):
        return -self

    def round(self):
        return np.rint(self)

    def rsqrt(self):
        return 1 / np.sqrt(self)

    def sin(self):
        return np.sin(self)

    def sqrt(self):
        return np.sqrt(self)

    def square(self):
        return np.square(self)

    def sub(self, other):
        return self - other

    def tanh(self):
        return np.tanh(self)

    # Reductions; NumPy's functions pass `numpy_options`: axis, out, keepdims
    def _reduce(self, name, dim, keepdim, numpy_options=(), **kw):
        numpy_options = dict(numpy_options)
        axis, keepdims = numpy_options.get('axis', dim), numpy_options.get('keepdims', keepdim)
        return to_tensor(getattr(np, name)(np.asarray(self), axis=_axis(axis), keepdims=keepdims, **kw))

    def _sum_type(self):
        return np.int64 if self.dtype.kind in 'iub' else self.dtype

    def sum(self, dim=None, keepdim=False, dtype=None, **numpy_options):
        return self._reduce('sum', dim, keepdim, numpy_options, dtype=dtype or self._sum_type())

    def prod(self, dim=None, keepdim=False, dtype=None, **numpy_options):
        return self._reduce('prod', dim, keepdim, numpy_options, dtype=dtype or self._sum_type())

    def mean(self, dim=None, keepdim=False, dtype=None, **numpy_options):
        if self.dtype.kind != 'f':
            raise RuntimeError(f'mean of {self.dtype}: convert it to a floating-point type first')
        return self._reduce('mean', dim, keepdim, numpy_options)

    def var(self, dim=None, correction=1, keepdim=False, unbiased=True):
        return self._reduce('var', dim, keepdim, ddof=correction if unbiased else 0)

    def std(self, dim=None, correction=1, keepdim=False):
        return self._reduce('std', dim, keepdim, ddof=correction)

    def all(self, dim=None, keepdim=False, **numpy_options):
        return self._reduce('all', dim, keepdim, numpy_options)

    def any(self, dim=None, keepdim=False, **numpy_options):
        return self._reduce('any', dim, keepdim, numpy_options)

    def amax(self, dim=None, keepdim=False):
        return self._reduce('max', dim, keepdim)

    def amin(self, dim=None, keepdim=False):
        return self._reduce('min', dim, keepdim)

    def argmax(self, dim=None, keepdim=False, **numpy_options):
        return self._reduce('argmax', dim, keepdim, numpy_options).astype(np.int64)

    def argmin(self, dim=None, keepdim=False, **numpy_options):
        return self._reduce('argmin', dim, keepdim, numpy_options).astype(np.int64)

    def max(self, dim=None, keepdim=False, **numpy_options):
        if dim is None:
            return self._reduce('max', None, keepdim, numpy_options)
        return WithIndices(self.amax(dim, keepdim), self.argmax(dim, keepdim))

    def min(self, dim=None, keepdim=False, **numpy_options):
        if dim is None:
            return self._reduce('min', None, keepdim, numpy_options)
        return WithIndices(self.amin(dim, keepdim), self.argmin(dim, keepdim))

    def median(self, **numpy_options):
        return self.flatten().sort().values[(self.numel() - 1) // 2]

    def softmax(self, dim):
        e = np.exp(self - self.amax(dim, keepdim=True))
        return e / e.sum(dim, keepdim=True)

    def log_softmax(self, dim):
        shifted = self - self.amax(dim, keepdim=True)
        return shifted - np.exp(shifted).sum(dim, keepdim=True).log()

    def norm(self):
        return self.square().sum().sqrt()

    # Scans and sorting
    def cumsum(self, dim):
        return to_tensor(np.cumsum(np.asarray(self), dim, dtype=self._sum_type()))

    def diff(self, dim=-1):
        return np.diff(self, axis=dim)

    def argsort(self, dim=-1, descending=False, stable=True):
        return self.sort(dim, descending).indices

    def sort(self, dim=-1, descending=False, stable=True):
        x = np.asarray(self)
        ordered = np.flip(x, dim) if descending else x
        indices = np.argsort(ordered, dim, kind='stable')
        if descending:
            indices = np.flip(x.shape[dim] - 1 - indices, dim)
            ordered = np.take_along_axis(x, indices, dim)
            return WithIndices(to_tensor(ordered), to_tensor(indices.astype(np.int64)))
        return WithIndices(to_tensor(np.take_along_axis(x, indices, dim)), to_tensor(indices.astype(np.int64)))

    def topk(self, k, dim=-1, largest=True):
        values, indices = self.sort(dim, descending=largest)
        first = (..., slice(0, k)) if dim in (-1, self.ndim - 1) else (slice(None),) * dim + (slice(0, k),)
        return WithIndices(values[first], indices[first])

    def unique(self):
        return np.unique(np.asarray(self)).view(Tensor)

    def bincount(self, minlength=0):
        return np.bincount(np.asarray(self, np.intp), minlength=minlength).astype(np.int64).view(Tensor)

    # Indices
    def gather(self, dim, index):
        return to_tensor(np.take_along_axis(np.asarray(self), np.asarray(index, np.intp), dim))

    def index_add_(self, dim, index, source):
        np.add.at(np.moveaxis(np.asarray(self), dim, 0), np.asarray(index), np.moveaxis(np.asarray(source), dim, 0))
        return self

    def masked_fill(self, mask, value):
        return np.where(mask, np.asarray(value, self.dtype), self).view(Tensor)

    def nonzero(self):
        return np.argwhere(np.asarray(self)).astype(np.int64).view(Tensor)

    def repeat_interleave(self, repeats):
        return np.repeat(self, to_numpy(repeats))

    def roll(self, shifts, dims=None):
        return np.roll(self, shifts, dims)

    # Products
    def matmul(self, other):
        return self @ other


def tensor(data, dtype=None, device='cpu', requires_grad=False):
    "Make a tensor of values, or a copy of an array"
    if requires_grad:
        raise AttributeError(MISSING.format('autograd'))
    if isinstance(data, (list, tuple)) and any(isinstance(o, Tensor) for o in data):
        data = [o.item() if isinstance(o, Tensor) and o.ndim == 0 else o for o in data]
    a = np.array(data, order='C')
    if dtype is None and not hasattr(data, 'dtype'):
        dtype = dict(f=np.float32, i=np.int64).get(a.dtype.kind, a.dtype)
    return to_tensor(_convert(a, dtype)).to(device=device)
