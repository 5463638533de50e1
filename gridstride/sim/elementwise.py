"""Kernels that Numba writes for a function of one element: `cuda.reduce` and `vectorize(target='cuda')`.

@cuda.reduce                                  @vectorize(['float32(float32, float32)'], target='cuda')
def total(a, b): return a + b                 def hypot(a, b): return math.sqrt(a*a + b*b)
total(x)                                      hypot(x, y)
"""

import functools
import linecache

import numpy as np

from . import types
from .host import DeviceArray, to_device
from .intrinsics import grid
from .kernel import jit
from ..findings import NotSimulated
from ..utils import cdiv

__all__ = ['Reduce', 'reduce', 'vectorize', 'guvectorize']

_THREADS = 256  # of a block


def _on_each(kernel, n, *args):
    "Launch a kernel with a thread for each of `n` elements"
    kernel[cdiv(n, _THREADS), min(n, _THREADS)](*args)


def _host(a):
    return a.data if isinstance(a, DeviceArray) else np.asarray(a)


class Reduce:
    "All elements of an array, folded into one by `f`, a function of two numbers whose order does not matter"

    def __init__(self, f):
        if not callable(f):
            raise TypeError(f'cuda.reduce takes a function of two numbers, and this is a {type(f).__name__}')
        self.py_func, f = f, jit(device=True)(f)

        def fold(x, n, half):
            "The second half of x onto the first"
            i = grid(1)
            if i < n - half:
                x[i] = f(x[i], x[i + half])

        self._kernel = jit(fold)

    def __call__(
        self,
        arr,  # one-dimensional, on the host or the device
        size=None,  # so many of its elements; None: all
        res=None,  # an array on the device, whose first element becomes the result; None: the result is returned
        init=0,  # what the elements are folded onto
        stream=0,  # not needed here
    ):
        "The result, of the type of `arr`, or None with `res`; `init` for an array without elements"
        if not hasattr(arr, 'ndim'):
            raise TypeError(f'cuda.reduce takes an array, and this is a {type(arr).__name__}: use np.asarray(...)')
        if arr.ndim != 1:
            raise TypeError(
                f'cuda.reduce takes an array of one dimension, and this one has {arr.ndim}: use arr.ravel()'
            )
        if res is not None and not isinstance(res, DeviceArray):
            raise TypeError('cuda.reduce(..., res=): an array on the device, such as cuda.device_array(1, arr.dtype)')
        given = _host(arr)[:size]
        x = to_device(np.concatenate([[given.dtype.type(init)], given]).astype(given.dtype))
        n = len(x)
        while n > 1:
            half = cdiv(n, 2)
            _on_each(self._kernel, n - half, x, n, half)
            n = half
        if res is None:
            return x.data[0]
        res[:1] = x[:1]


def reduce(functor):
    "`Reduce`, as a decorator"
    return Reduce(functor)


class _Vectorized:
    "A function of numbers that takes arrays, which broadcast as NumPy's do"

    def __init__(self, f, signatures):
        self.py_func, self._results = f, dict(map(_signature, signatures))  # {dtypes of what it takes: of the result}
        functools.update_wrapper(self, f)
        self._kernel = jit(_kernel_on_arrays(f, len(next(iter(self._results)))))

    def __call__(self, *args, out=None, stream=0):
        "`f` of each element: an array on the device if one of `args` is there, or `out`, else one of the host"
        dtypes = self._pick(args)
        on_device = any(isinstance(o, DeviceArray) for o in (*args, out))
        arrays = np.broadcast_arrays(*(np.asarray(_host(a), t) for a, t in zip(args, dtypes)))
        given = [to_device(a.ravel()) for a in arrays]
        result = to_device(np.empty(arrays[0].size, self._results[dtypes]))
        if result.size:
            _on_each(self._kernel, result.size, *given, result)
        result = result.reshape(arrays[0].shape)
        if out is None:
            return result if on_device else result.copy_to_host()
        out[...] = result if isinstance(out, DeviceArray) else result.data
        return out

    def _pick(self, args):
        "The declared types that `args` have: arrays exactly, numbers if need be by conversion; `TypeError` if none"
        exact = [tuple(_host(a).dtype for a in args)]
        fitting = [t for t in self._results if len(t) == len(args) and all(map(_takes, t, args))]
        found = [t for t in fitting if t in exact] or fitting
        if len(found) == 1:
            return found[0]
        what = 'fits none' if not found else 'fits several'
        given, declared = ', '.join(map(str, exact[0])), '; '.join(', '.join(map(str, t)) for t in self._results)
        raise TypeError(
            f'{self.__name__}({given}) {what} of its signatures: {declared}. Arrays have to have the very types: '
            'x.astype(np.float32)'
        )

    def reduce(self, arg, stream=0):
        "All elements of `arg`, folded by this function of two numbers"
        if not len(arg):
            raise TypeError(f'{self.__name__}.reduce of an array without elements')
        return Reduce(self.py_func)(arg[1:], init=arg[:1].copy_to_host()[0] if isinstance(arg, DeviceArray) else arg[0])


def _takes(dtype, arg):
    "May `arg` stand where `dtype` is declared?"
    return isinstance(arg, (int, float, complex, np.number)) or _host(arg).dtype == dtype


def _signature(s):
    "(dtypes of what is taken, dtype of the result) of one signature, as text or as Numba's object"
    if isinstance(s, str):
        try:
            s = eval(s, dict(vars(types)))  # as Numba reads it
        except (NameError, SyntaxError) as e:
            raise TypeError(f"vectorize: {s!r} is no signature, such as 'float32(float32, float32)': {e}") from None
    result = getattr(s, 'result', None) or getattr(s, 'return_type', None)
    if result is None:
        raise TypeError(f"vectorize(target='cuda') needs the result's type, too: 'float32(float32, float32)', not {s}")
    as_dtype = [np.dtype(t if isinstance(t, type) else str(t)) for t in (*s.args, result)]
    return tuple(as_dtype[:-1]), as_dtype[-1]


def _kernel_on_arrays(f, n):
    "A kernel that writes `f` of the elements of `n` arrays to the array behind them"
    names = [f'x{i}' for i in range(n)]
    lines = [
        f'def vectorized({", ".join([*names, "out"])}):\n',
        '    i = grid(1)\n',
        '    if i < out.size:\n',
        f'        out[i] = f({", ".join(f"{o}[i]" for o in names)})\n',
    ]
    file, space = f'<vectorized, {n}>', dict(grid=grid, f=jit(device=True)(f))
    linecache.cache[file] = sum(map(len, lines)), None, lines, file
    exec(compile(''.join(lines), file, 'exec'), space)
    return space['vectorized']


def vectorize(
    signatures,  # 'float32(float32, float32)', or a list of such
    target='cuda',  # no other is simulated
):
    "Numba's decorator: a function of numbers becomes one of arrays, whose elements threads of a GPU compute"
    if target != 'cuda':
        raise ValueError(f"the simulator has vectorize(target='cuda'); target={target!r} is Numba's own")
    one = isinstance(signatures, str) or hasattr(signatures, 'args')
    if callable(signatures) and not one or not signatures:
        raise TypeError("vectorize(target='cuda') needs signatures: vectorize(['float32(float32)'], target='cuda')")
    return lambda f: _Vectorized(f, [signatures] if one else signatures)


def guvectorize(*args, **how):
    "Numba's `guvectorize(target='cuda')`, which is not simulated"
    raise NotSimulated("guvectorize(target='cuda')", 'Write the kernel, with @cuda.jit, and one thread for each row.')
