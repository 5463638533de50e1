"""Makes kernels from functions of elements: `cuda.reduce`, `vectorize` and `guvectorize(target='cuda')`.

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

_THREADS = 256  # per block


def _launch_elementwise(kernel, n, *args):
    "Launch a kernel on `n` elements, with one thread per element"
    kernel[cdiv(n, _THREADS), min(n, _THREADS)](*args)


def _host_array(a):
    return a.data if isinstance(a, DeviceArray) else np.asarray(a)


class Reduce:
    "Reduces the elements of an array to one by `f`, an associative and commutative function of two numbers"

    def __init__(self, f):
        if not callable(f):
            raise TypeError(f'cuda.reduce takes a function of two numbers, not a {type(f).__name__}')
        self.py_func, f = f, jit(device=True)(f)

        def fold(x, n, half):
            "Combine each element of the second half of x with one of the first half"
            i = grid(1)
            if i < n - half:
                x[i] = f(x[i], x[i + half])

        self._kernel = jit(fold)

    def __call__(
        self,
        arr,  # one-dimensional, on the host or the device
        size=None,  # how many of its elements to reduce; None: all
        res=None,  # a device array, whose first element becomes the result; None: the result is returned
        init=0,  # the initial value
        stream=0,  # ignored
    ):
        "Reduce `arr` to a value of its type; returns None if `res` is given, and `init` for an empty array"
        if not hasattr(arr, 'ndim'):
            raise TypeError(f'cuda.reduce takes an array, not a {type(arr).__name__}: use np.asarray(...)')
        if arr.ndim != 1:
            raise TypeError(
                f'cuda.reduce takes a one-dimensional array, not one of {arr.ndim} dimensions: use arr.ravel()'
            )
        if res is not None and not isinstance(res, DeviceArray):
            raise TypeError('cuda.reduce: res must be an array on the device, such as cuda.device_array(1, arr.dtype)')
        elements = _host_array(arr)[:size]
        x = to_device(np.concatenate([[elements.dtype.type(init)], elements]).astype(elements.dtype))
        size = len(x)
        while size > 1:
            half = cdiv(size, 2)
            _launch_elementwise(self._kernel, size - half, x, size, half)
            size = half
        if res is None:
            return x.data[0]
        res[:1] = x[:1]


def reduce(functor):
    "Make a `Reduce`, as a decorator"
    return Reduce(functor)


class _Vectorized:
    "Applies a function of numbers elementwise to arrays, which broadcast as in NumPy"

    def __init__(self, f, signatures):
        self.py_func, self._results = f, dict(map(_signature, signatures))  # {argument dtypes: result dtype}
        functools.update_wrapper(self, f)
        self._kernel = jit(_kernel_on_arrays(f, len(next(iter(self._results)))))

    def __call__(self, *args, out=None, stream=0):
        "Apply `f` elementwise: returns a device array if an argument, or `out`, is one, else a host array"
        dtypes = self._pick(args)
        on_device = any(isinstance(array, DeviceArray) for array in (*args, out))
        arrays = np.broadcast_arrays(*(np.asarray(_host_array(a), t) for a, t in zip(args, dtypes)))
        inputs = [to_device(a.ravel()) for a in arrays]
        result = to_device(np.empty(arrays[0].size, self._results[dtypes]))
        if result.size:
            _launch_elementwise(self._kernel, result.size, *inputs, result)
        result = result.reshape(arrays[0].shape or (1,))  # for numbers, Numba makes arrays of one element
        if out is None:
            return result if on_device else result.copy_to_host()
        out[...] = result if isinstance(out, DeviceArray) else result.data
        return out

    def _pick(self, args):
        "Return the declared types that fit `args`, arrays exactly and numbers converted; raises `TypeError` if none do"
        exact = [tuple(_host_array(a).dtype for a in args)]
        candidates = [t for t in self._results if len(t) == len(args) and all(map(_accepts, t, args))]
        matches = [t for t in candidates if t in exact] or candidates
        if len(matches) == 1:
            return matches[0]
        what = 'matches none' if not matches else 'matches several'
        given_types = ', '.join(map(str, exact[0]))
        declared = '; '.join(', '.join(map(str, t)) for t in self._results)
        raise TypeError(
            f'{self.__name__}({given_types}) {what} of its signatures: {declared}. Arrays must have exactly these '
            'types: convert with x.astype(np.float32)'
        )

    def reduce(self, arg, stream=0):
        "Reduce all elements of `arg` by this function of two numbers"
        if not len(arg):
            raise TypeError(f'{self.__name__}.reduce of an array without elements')
        return Reduce(self.py_func)(arg[1:], init=arg[:1].copy_to_host()[0] if isinstance(arg, DeviceArray) else arg[0])


def _accepts(dtype, arg):
    "Return whether `arg` may be passed where `dtype` is declared"
    return isinstance(arg, (int, float, complex, np.number)) or _host_array(arg).dtype == dtype


def _signature(signature):
    "Return (argument dtypes, result dtype) of one signature, given as a string or as Numba's object"
    if isinstance(signature, str):
        try:
            signature = eval(signature, dict(vars(types)))  # as Numba evaluates it
        except (NameError, SyntaxError) as error:
            raise TypeError(
                f"vectorize: {signature!r} is not a signature, such as 'float32(float32, float32)': {error}"
            ) from None
    result = getattr(signature, 'result', None) or getattr(signature, 'return_type', None)
    if result is None:
        raise TypeError(
            f"vectorize(target='cuda') needs the result's type, too: 'float32(float32, float32)', not {signature}"
        )
    as_dtype = [np.dtype(t if isinstance(t, type) else str(t)) for t in (*signature.args, result)]
    return tuple(as_dtype[:-1]), as_dtype[-1]


def _kernel_on_arrays(f, count):
    "Make a kernel of `count` input arrays and an output array, to which it writes `f` of the elements"
    names = [f'x{i}' for i in range(count)]
    call = f'out[i] = f({", ".join(f"{operand}[i]" for operand in names)})'
    return _generate_kernel('vectorized', f, [*names, 'out'], 'out.size', call)


def _generate_kernel(name, f, names, count, call):
    "Make a kernel of this name: source in which each of the first `count` threads executes `call`, a call of `f`"
    lines = [f'def {name}({", ".join(names)}):\n', '    i = grid(1)\n', f'    if i < {count}:\n', f'        {call}\n']
    file = f'<{name}, {call}>'
    namespace = dict(grid=grid, f=jit(device=True)(f))
    linecache.cache[file] = sum(map(len, lines)), None, lines, file
    exec(compile(''.join(lines), file, 'exec'), namespace)
    return namespace[name]


def vectorize(
    signatures,  # 'float32(float32, float32)', or a list of such
    target='cuda',  # the only target that is simulated
):
    "Make an elementwise function of arrays from a function of numbers, as a decorator"
    if target != 'cuda':
        raise ValueError(f"the simulator supports vectorize(target='cuda'), not target={target!r}")
    one = isinstance(signatures, str) or hasattr(signatures, 'args')
    if callable(signatures) and not one or not signatures:
        raise TypeError("vectorize(target='cuda') needs signatures: vectorize(['float32(float32)'], target='cuda')")
    return lambda f: _Vectorized(f, [signatures] if one else signatures)


class _Guvectorized:
    "Applies a function of parts of arrays, such as rows, to whole arrays: one thread per part"

    def __init__(self, f, types, layout):
        self.py_func, self._types = f, types
        functools.update_wrapper(self, f)
        self._in, self._out = _axes_of(layout)
        self._kernels = {}

    def __call__(self, *args, out=None, stream=0):
        "Apply `f` to each part: returns device arrays if an argument or output is one, else host arrays"
        input_count = len(self._in)
        if len(args) not in (input_count, input_count + len(self._out)) or out is not None and len(args) > input_count:
            raise TypeError(
                f'{self.__name__} takes {input_count} arrays, optionally followed by arrays for the results'
            )
        outputs = list(args[input_count:]) or [out] * len(self._out)
        on_device = any(isinstance(array, DeviceArray) for array in (*args, *outputs))
        inputs = [np.asarray(_host_array(array)) for array in args[:input_count]]
        types = self._pick(tuple(array.dtype for array in inputs))
        sizes, loop = self._sizes(inputs)
        spread_inputs = [
            to_device(self._broadcast(array, axes, loop, sizes, t)) for array, axes, t in zip(inputs, self._in, types)
        ]
        shapes = [(*loop, *(sizes[axis] for axis in axes)) for axes in self._out]
        results = [
            device_array(self._with_thread_axis(shape, axes, t), t.dtype)
            for shape, axes, t in zip(shapes, self._out, types[input_count:])
        ]
        _launch_elementwise(self._kernel(types), math.prod(loop), *spread_inputs, *results)
        results = [device_result.reshape(shape) for device_result, shape in zip(results, shapes)]
        returned = [_return_result(device_result, output, on_device) for device_result, output in zip(results, outputs)]
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _pick(self, dtypes):
        "Return the declared types for these dtypes: an exact match, else the first to which they can be converted"
        input_count = len(self._in)
        declared_types = {tuple(np.dtype(t.dtype) for t in types[:input_count]): types for types in self._types}
        convertible = [w for w in declared_types if all(map(np.can_cast, w, dtypes))]
        if dtypes not in declared_types and not convertible:
            raise TypeError(f'{self.__name__}: no signature takes {", ".join(map(str, dtypes))}')
        return declared_types[dtypes if dtypes in declared_types else convertible[0]]

    def _sizes(self, given):
        "Return ({axis name: size}, sizes of the loop axes)"
        sizes = {}
        outer_shapes = []
        for position, (array, axes) in enumerate(zip(given, self._in)):
            if array.ndim < len(axes):
                raise ValueError(
                    f'{self.__name__}: argument {position} has {array.ndim} axes, but needs at least ({",".join(axes)})'
                )
            outer_count = array.ndim - len(axes)
            outer_shapes.append(array.shape[:outer_count])
            for axis, size in zip(axes, array.shape[outer_count:]):
                if sizes.setdefault(axis, size) != size:
                    raise ValueError(
                        f'{self.__name__}: argument {position} has {size} along {axis}, others {sizes[axis]}'
                    )
        loop_shape = max(outer_shapes, key=math.prod)
        for position, shape in enumerate(outer_shapes):
            if shape not in (loop_shape, (), (1,)):
                raise ValueError(
                    f'{self.__name__}: the outer axes of argument {position} are {shape}, those of others {loop_shape}'
                )
        return sizes, loop_shape

    def _broadcast(self, array, axes, loop_shape, sizes, type_):
        "Broadcast an argument to one part per thread"
        inner_shape = tuple(sizes[axis] for axis in axes)
        broadcast = np.broadcast_to(
            array.reshape(inner_shape) if array.size == math.prod(inner_shape) else array, (*loop_shape, *inner_shape)
        )
        return broadcast.reshape(self._with_thread_axis(broadcast.shape, axes, type_)).astype(type_.dtype)

    def _with_thread_axis(self, shape, axes, type_):
        "Return a shape whose first axis is that of the threads; a number declared as an array has one element"
        inner_shape = shape[len(shape) - len(axes) :]
        return (math.prod(shape[: len(shape) - len(axes)]), *inner_shape, *(1,) * (type_.ndim is not None and not axes))

    def _kernel(self, types):
        if types not in self._kernels:
            names = [f'x{i}' for i in range(len(types))]
            parts = [operand + '[' + ', '.join(['i', *':' * (t.ndim or 0)]) + ']' for operand, t in zip(names, types)]
            generated = _generate_kernel(
                'guvectorized', self.py_func, names, f'{names[-1]}.shape[0]', f'f({", ".join(parts)})'
            )
            self._kernels[types] = jit(generated)
        return self._kernels[types]


def _return_result(result, out, on_device):
    "Return a result: in `out` if given, else on the device or the host, as the arguments are"
    if out is None:
        return result if on_device else result.copy_to_host()
    out[...] = result if isinstance(out, DeviceArray) else result.data
    return out


def _axes_of(layout):
    "Parse a layout such as '(n),()->(n)' to (axis names of each argument, of each result)"
    sides = layout.replace(' ', '').split('->')
    if len(sides) != 2 or any(re.sub(r'\(([A-Za-z_]\w*(,[A-Za-z_]\w*)*)?\)', '', side).strip(',') for side in sides):
        raise TypeError(f"guvectorize: {layout!r} is not a layout, such as '(n),()->(n)'")
    inputs, results = (
        [tuple(filter(None, operand.split(','))) for operand in re.findall(r'\(([^)]*)\)', side)] for side in sides
    )
    unknown = {axis for dims in results for axis in dims} - {axis for dims in inputs for axis in dims}
    if unknown:
        raise NameError(f'guvectorize: no argument has the axis {", ".join(sorted(unknown))}')
    return inputs, results


def guvectorize(
    ftylist,  # 'void(float32[:], float32[:])', or a list of such
    signature=None,  # the layout: '(n)->(n)'
    target='cuda',  # the only target that is simulated
    **options,
):
    "Make a function of arrays from a function of their parts, such as rows, as a decorator; one thread runs per part"
    if target != 'cuda':
        raise ValueError(f"the simulator supports guvectorize(target='cuda'), not target={target!r}")
    types = declared(ftylist)
    if signature is None or not types:
        raise TypeError(
            "guvectorize(target='cuda') needs signatures and a layout: "
            "guvectorize(['void(float32[:], float32[:])'], '(n)->(n)', target='cuda')"
        )
    return lambda f: _Guvectorized(f, types, signature)
