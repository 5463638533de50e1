"""Kernels that Numba writes for a function of one element: `cuda.reduce`, `vectorize` and `guvectorize(target='cuda')`.

@cuda.reduce                                  @vectorize(['float32(float32, float32)'], target='cuda')
def total(a, b): return a + b                 def hypot(a, b): return math.sqrt(a*a + b*b)
total(x)                                      hypot(x, y)
"""

import functools
import linecache
import math
import re

import numpy as np

from . import types
from .host import DeviceArray, device_array, to_device
from .intrinsics import grid
from .kernel import jit
from .signatures import declared
from ..utils import cdiv

__all__ = ['Reduce', 'reduce', 'vectorize', 'guvectorize']

_THREADS = 256  # of a block


def _launch_elementwise(kernel, n, *args):
    "Launch a kernel with one thread per element, of `n` elements"
    kernel[cdiv(n, _THREADS), min(n, _THREADS)](*args)


def _host(a):
    return a.data if isinstance(a, DeviceArray) else np.asarray(a)


class Reduce:
    "A reduction of all elements of an array to one by `f`, a commutative function of two numbers"

    def __init__(self, f):
        if not callable(f):
            raise TypeError(f'cuda.reduce takes a function of two numbers, not a {type(f).__name__}')
        self.py_func, f = f, jit(device=True)(f)

        def fold(x, n, half):
            "Fold the second half of x onto the first"
            i = grid(1)
            if i < n - half:
                x[i] = f(x[i], x[i + half])

        self._kernel = jit(fold)

    def __call__(
        self,
        arr,  # one-dimensional, on the host or the device
        size=None,  # how many of its elements to reduce; None: all
        res=None,  # an array on the device, whose first element becomes the result; None: the result is returned
        init=0,  # the initial value
        stream=0,  # not needed here
    ):
        "Reduce `arr`; returns a value of its type, or None with `res`; for an empty array `init`"
        if not hasattr(arr, 'ndim'):
            raise TypeError(f'cuda.reduce takes an array, not a {type(arr).__name__}: use np.asarray(...)')
        if arr.ndim != 1:
            raise TypeError(
                f'cuda.reduce takes a one-dimensional array, not one of {arr.ndim} dimensions: use arr.ravel()'
            )
        if res is not None and not isinstance(res, DeviceArray):
            raise TypeError('cuda.reduce(..., res=): an array on the device, such as cuda.device_array(1, arr.dtype)')
        given = _host(arr)[:size]
        x = to_device(np.concatenate([[given.dtype.type(init)], given]).astype(given.dtype))
        n = len(x)
        while n > 1:
            half = cdiv(n, 2)
            _launch_elementwise(self._kernel, n - half, x, n, half)
            n = half
        if res is None:
            return x.data[0]
        res[:1] = x[:1]


def reduce(functor):
    "Make a `Reduce`, as a decorator"
    return Reduce(functor)


class _Vectorized:
    "A function of numbers that is applied elementwise to arrays, which broadcast as in NumPy"

    def __init__(self, f, signatures):
        self.py_func, self._results = f, dict(map(_signature, signatures))  # {argument dtypes: result dtype}
        functools.update_wrapper(self, f)
        self._kernel = jit(_kernel_on_arrays(f, len(next(iter(self._results)))))

    def __call__(self, *args, out=None, stream=0):
        "Apply `f` elementwise: returns a device array if an argument, or `out`, is one, else a host array"
        dtypes = self._pick(args)
        on_device = any(isinstance(array, DeviceArray) for array in (*args, out))
        arrays = np.broadcast_arrays(*(np.asarray(_host(a), t) for a, t in zip(args, dtypes)))
        given = [to_device(a.ravel()) for a in arrays]
        result = to_device(np.empty(arrays[0].size, self._results[dtypes]))
        if result.size:
            _launch_elementwise(self._kernel, result.size, *given, result)
        result = result.reshape(arrays[0].shape or (1,))  # for numbers, Numba makes arrays of one element
        if out is None:
            return result if on_device else result.copy_to_host()
        out[...] = result if isinstance(out, DeviceArray) else result.data
        return out

    def _pick(self, args):
        "Return the declared types for `args`: exact for arrays, converted for numbers; raises `TypeError` if none fits"
        exact = [tuple(_host(a).dtype for a in args)]
        fitting = [t for t in self._results if len(t) == len(args) and all(map(_takes, t, args))]
        found = [t for t in fitting if t in exact] or fitting
        if len(found) == 1:
            return found[0]
        what = 'fits none' if not found else 'fits several'
        given = ', '.join(map(str, exact[0]))
        declared = '; '.join(', '.join(map(str, t)) for t in self._results)
        raise TypeError(
            f'{self.__name__}({given}) {what} of its signatures: {declared}. Arrays have to have the very types: '
            'x.astype(np.float32)'
        )

    def reduce(self, arg, stream=0):
        "Reduce all elements of `arg` by this function of two numbers"
        if not len(arg):
            raise TypeError(f'{self.__name__}.reduce of an array without elements')
        return Reduce(self.py_func)(arg[1:], init=arg[:1].copy_to_host()[0] if isinstance(arg, DeviceArray) else arg[0])


def _takes(dtype, arg):
    "Return whether `arg` may be passed where `dtype` is declared"
    return isinstance(arg, (int, float, complex, np.number)) or _host(arg).dtype == dtype


def _signature(s):
    "Return (argument dtypes, result dtype) of one signature, given as a string or as Numba's object"
    if isinstance(s, str):
        try:
            s = eval(s, dict(vars(types)))  # as Numba evaluates it
        except (NameError, SyntaxError) as e:
            raise TypeError(f"vectorize: {s!r} is not a signature, such as 'float32(float32, float32)': {e}") from None
    result = getattr(s, 'result', None) or getattr(s, 'return_type', None)
    if result is None:
        raise TypeError(f"vectorize(target='cuda') needs the result's type, too: 'float32(float32, float32)', not {s}")
    as_dtype = [np.dtype(t if isinstance(t, type) else str(t)) for t in (*s.args, result)]
    return tuple(as_dtype[:-1]), as_dtype[-1]


def _kernel_on_arrays(f, n):
    "Make a kernel that writes `f` of the elements of `n` arrays to the array after them"
    names = [f'x{i}' for i in range(n)]
    call = f'out[i] = f({", ".join(f"{operand}[i]" for operand in names)})'
    return _generate_kernel('vectorized', f, [*names, 'out'], 'out.size', call)


def _generate_kernel(name, f, names, count, call):
    "Make a kernel with this name in which each of `count` threads makes a `call` of `f`"
    lines = [f'def {name}({", ".join(names)}):\n', '    i = grid(1)\n', f'    if i < {count}:\n', f'        {call}\n']
    file = f'<{name}, {call}>'
    space = dict(grid=grid, f=jit(device=True)(f))
    linecache.cache[file] = sum(map(len, lines)), None, lines, file
    exec(compile(''.join(lines), file, 'exec'), space)
    return space[name]


def vectorize(
    signatures,  # 'float32(float32, float32)', or a list of such
    target='cuda',  # no other is simulated
):
    "Compile a function of numbers to one of arrays, elementwise on the GPU, as a decorator"
    if target != 'cuda':
        raise ValueError(f"the simulator has vectorize(target='cuda'); target={target!r} is Numba's own")
    one = isinstance(signatures, str) or hasattr(signatures, 'args')
    if callable(signatures) and not one or not signatures:
        raise TypeError("vectorize(target='cuda') needs signatures: vectorize(['float32(float32)'], target='cuda')")
    return lambda f: _Vectorized(f, [signatures] if one else signatures)


class _Guvectorized:
    "A function of parts of arrays that writes its results: one thread per part"

    def __init__(self, f, types, layout):
        self.py_func, self._types = f, types
        functools.update_wrapper(self, f)
        self._in, self._out = _axes_of(layout)
        self._kernels = {}

    def __call__(self, *args, out=None, stream=0):
        "Apply `f` to each part: returns device arrays if an argument or output is one, else host arrays"
        n = len(self._in)
        if len(args) not in (n, n + len(self._out)) or out is not None and len(args) > n:
            raise TypeError(f'{self.__name__} takes {n} arrays, and the arrays for its results if need be')
        outs = list(args[n:]) or [out] * len(self._out)
        on_device = any(isinstance(array, DeviceArray) for array in (*args, *outs))
        given = [np.asarray(_host(a)) for a in args[:n]]
        types = self._pick(tuple(a.dtype for a in given))
        sizes, loop = self._sizes(given)
        made = [to_device(self._spread(a, axes, loop, sizes, t)) for a, axes, t in zip(given, self._in, types)]
        shapes = [(*loop, *(sizes[k] for k in axes)) for axes in self._out]
        results = [device_array(self._flat(s, axes, t), t.dtype) for s, axes, t in zip(shapes, self._out, types[n:])]
        _launch_elementwise(self._kernel(types), math.prod(loop), *made, *results)
        results = [r.reshape(s) for r, s in zip(results, shapes)]
        res = [_return_result(r, result, on_device) for r, result in zip(results, outs)]
        return res[0] if len(res) == 1 else tuple(res)

    def _pick(self, dtypes):
        "Return the declared types for these dtypes: an exact match, else the first to which they can be converted"
        n = len(self._in)
        wanted = {tuple(np.dtype(t.dtype) for t in types[:n]): types for types in self._types}
        fitting = [w for w in wanted if all(map(np.can_cast, w, dtypes))]
        if dtypes not in wanted and not fitting:
            raise TypeError(f'{self.__name__}: no signature takes {", ".join(map(str, dtypes))}')
        return wanted[dtypes if dtypes in wanted else fitting[0]]

    def _sizes(self, given):
        "Return ({axis name: size}, sizes of the loop axes)"
        sizes = {}
        outer = []
        for n, (a, axes) in enumerate(zip(given, self._in)):
            if a.ndim < len(axes):
                raise ValueError(f'{self.__name__}: argument {n} has {a.ndim} axes, and ({",".join(axes)}) are needed')
            at = a.ndim - len(axes)
            outer.append(a.shape[:at])
            for k, size in zip(axes, a.shape[at:]):
                if sizes.setdefault(k, size) != size:
                    raise ValueError(f'{self.__name__}: argument {n} has {size} along {k}, others have {sizes[k]}')
        loop = max(outer, key=math.prod)
        for n, shape in enumerate(outer):
            if shape not in (loop, (), (1,)):
                raise ValueError(f'{self.__name__}: the outer axes of argument {n} are {shape}, those of others {loop}')
        return sizes, loop

    def _spread(self, a, axes, loop, sizes, t):
        "Broadcast an argument to one part per thread"
        inner = tuple(sizes[k] for k in axes)
        full = np.broadcast_to(a.reshape(inner) if a.size == math.prod(inner) else a, (*loop, *inner))
        return full.reshape(self._flat(full.shape, axes, t)).astype(t.dtype)

    def _flat(self, shape, axes, t):
        "Return the shape with one axis for the threads; a number that the function takes as an array has one element"
        inner = shape[len(shape) - len(axes) :]
        return (math.prod(shape[: len(shape) - len(axes)]), *inner, *(1,) * (t.ndim is not None and not axes))

    def _kernel(self, types):
        if types not in self._kernels:
            names = [f'x{i}' for i in range(len(types))]
            parts = [operand + '[' + ', '.join(['i', *':' * (t.ndim or 0)]) + ']' for operand, t in zip(names, types)]
            made = _generate_kernel(
                'guvectorized', self.py_func, names, f'{names[-1]}.shape[0]', f'f({", ".join(parts)})'
            )
            self._kernels[types] = jit(made)
        return self._kernels[types]


def _return_result(result, out, on_device):
    "Return a result in `out`, or on the side of the arguments"
    if out is None:
        return result if on_device else result.copy_to_host()
    out[...] = result if isinstance(out, DeviceArray) else result.data
    return out


def _axes_of(layout):
    "Parse a layout such as '(n),()->(n)' to (axis names of each argument, of each result)"
    sides = layout.replace(' ', '').split('->')
    if len(sides) != 2 or any(re.sub(r'\(([A-Za-z_]\w*(,[A-Za-z_]\w*)*)?\)', '', s).strip(',') for s in sides):
        raise TypeError(f"guvectorize: {layout!r} is not a layout, such as '(n),()->(n)'")
    given, made = (
        [tuple(filter(None, operand.split(','))) for operand in re.findall(r'\(([^)]*)\)', s)] for s in sides
    )
    unknown = {k for dims in made for k in dims} - {k for dims in given for k in dims}
    if unknown:
        raise NameError(f'guvectorize: no argument has the axis {", ".join(sorted(unknown))}')
    return given, made


def guvectorize(
    ftylist,  # 'void(float32[:], float32[:])', or a list of such
    signature=None,  # the layout: '(n)->(n)'
    target='cuda',  # no other is simulated
    **how,
):
    "Compile a function of parts of arrays, such as rows, to one of arrays, with one thread per part, as a decorator"
    if target != 'cuda':
        raise ValueError(f"the simulator has guvectorize(target='cuda'); target={target!r} is Numba's own")
    types = declared(ftylist)
    if signature is None or not types:
        raise TypeError(
            "guvectorize(target='cuda') needs signatures and a layout: "
            "guvectorize(['void(float32[:], float32[:])'], '(n)->(n)', target='cuda')"
        )
    return lambda f: _Guvectorized(f, types, signature)
