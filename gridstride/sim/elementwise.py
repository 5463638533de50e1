"""Makes kernels from elementwise functions: `cuda.reduce`, `vectorize` and `guvectorize(target='cuda')`.

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
from .signatures import declared_types
from ..utils import cdiv

__all__ = ['Reduce', 'reduce', 'vectorize', 'guvectorize']

_THREADS_PER_BLOCK = 256


def _launch_elementwise(kernel, n, *args):
    "Launch a kernel on `n` elements, with one thread per element"
    kernel[cdiv(n, _THREADS_PER_BLOCK), min(n, _THREADS_PER_BLOCK)](*args)


def _host_array(a):
    return a.data if isinstance(a, DeviceArray) else np.asarray(a)


class Reduce:
    "Reduces the elements of an array to one by `fn`, an associative and commutative function of two numbers"

    def __init__(self, fn):
        if not callable(fn):
            raise TypeError(f'cuda.reduce: expected a function of two numbers, got a {type(fn).__name__}')
        self.py_func, fn = fn, jit(device=True)(fn)

        def fold(x, n, half):
            "Combine each element of the second half of x with one of the first half"
            i = grid(1)
            if i < n - half:
                x[i] = fn(x[i], x[i + half])

        self._kernel = jit(fold)

    def __call__(
        self,
        arr,  # one-dimensional, on the host or the device
        size=None,  # how many of its elements to reduce; None: all
        res=None,  # a device array, whose first element becomes the result; None: the result is returned
        init=0,  # the initial value
        stream=0,  # ignored
    ):
        "Reduce `arr` to a value of its type, `init` if it is empty; returns it, or stores it to `res[0]`"
        if not hasattr(arr, 'ndim'):
            raise TypeError(f'cuda.reduce: expected an array, got a {type(arr).__name__}: use np.asarray(...)')
        if arr.ndim != 1:
            raise TypeError(
                f'cuda.reduce: expected a one-dimensional array, got {arr.ndim} dimensions: use arr.ravel()'
            )
        if res is not None and not isinstance(res, DeviceArray):
            raise TypeError('cuda.reduce: res must be a device array, such as cuda.device_array(1, arr.dtype)')
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
    "Decorate a function of two scalars: return a `Reduce`"
    return Reduce(functor)


class _Vectorized:
    "Applies a function of numbers elementwise to arrays, which broadcast as in NumPy"

    def __init__(self, fn, signatures):
        self.py_func = fn
        self._result_of_types = dict(map(_parse_signature, signatures))  # argument dtypes -> result dtype
        functools.update_wrapper(self, fn)
        self._kernel = jit(_kernel_on_arrays(fn, len(next(iter(self._result_of_types)))))

    def __call__(self, *args, out=None, stream=0):
        "Apply `fn` elementwise: returns a device array if an argument, or `out`, is one, else a host array"
        dtypes = self._match_signature(args)
        is_on_device = any(isinstance(array, DeviceArray) for array in (*args, out))
        arrays = np.broadcast_arrays(*(np.asarray(_host_array(a), t) for a, t in zip(args, dtypes)))
        inputs = [to_device(a.ravel()) for a in arrays]
        result = to_device(np.empty(arrays[0].size, self._result_of_types[dtypes]))
        if result.size:
            _launch_elementwise(self._kernel, result.size, *inputs, result)
        result = result.reshape(arrays[0].shape or (1,))  # for numbers, Numba makes arrays of one element
        if out is None:
            return result if is_on_device else result.copy_to_host()
        out[...] = result if isinstance(out, DeviceArray) else result.data
        return out

    def _match_signature(self, args):
        "Return the one declared signature that fits `args`; arrays must have its types, numbers are converted"
        dtypes = tuple(_host_array(a).dtype for a in args)
        candidates = [t for t in self._result_of_types if len(t) == len(args) and all(map(_accepts, t, args))]
        matches = [t for t in candidates if t == dtypes] or candidates
        if len(matches) == 1:
            return matches[0]
        num_matches = 'several' if matches else 'none'
        signatures = '; '.join(', '.join(map(str, t)) for t in self._result_of_types)
        raise TypeError(
            f'{self.__name__}({", ".join(map(str, dtypes))}) matches {num_matches} of its signatures: {signatures}. '
            'Arrays must have exactly these types: convert with x.astype(np.float32)'
        )

    def reduce(self, arg, stream=0):
        "Reduce all elements of `arg` by this function of two numbers"
        if not len(arg):
            raise TypeError(f'{self.__name__}.reduce requires at least one element; got an empty array')
        return Reduce(self.py_func)(arg[1:], init=arg[:1].copy_to_host()[0] if isinstance(arg, DeviceArray) else arg[0])


def _accepts(dtype, arg):
    "Return whether `arg` may be passed to a parameter of type `dtype`"
    return isinstance(arg, (int, float, complex, np.number)) or _host_array(arg).dtype == dtype


def _parse_signature(signature):
    "Return (argument dtypes, result dtype) of a signature: a string, or an object of Numba"
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
            f"vectorize(target='cuda') needs the return type, too: 'float32(float32, float32)'; got {signature}"
        )
    *argument_types, result_type = (np.dtype(t if isinstance(t, type) else str(t)) for t in (*signature.args, result))
    return tuple(argument_types), result_type


def _kernel_on_arrays(fn, num_inputs):
    "Make a kernel of `num_inputs` arrays and an output array, to which it writes `fn` of the elements"
    names = [f'x{i}' for i in range(num_inputs)]
    call = f'out[i] = f({", ".join(f"{operand}[i]" for operand in names)})'
    return _generate_kernel('vectorized', fn, [*names, 'out'], 'out.size', call)


def _generate_kernel(name, fn, parameters, num_threads, call):
    "Generate the source of a kernel, and compile it: the first `num_threads` threads execute `call`, a call of `fn`"
    lines = [
        f'def {name}({", ".join(parameters)}):\n',
        '    i = grid(1)\n',
        f'    if i < {num_threads}:\n',
        f'        {call}\n',
    ]
    file = f'<{name}, {call}>'
    namespace = dict(grid=grid, f=jit(device=True)(fn))
    linecache.cache[file] = sum(map(len, lines)), None, lines, file
    exec(compile(''.join(lines), file, 'exec'), namespace)
    return namespace[name]


def vectorize(
    signatures,  # 'float32(float32, float32)', or a list of such strings
    target='cuda',  # the only target that is simulated
):
    "Decorate a function of scalars: return an elementwise function of arrays"
    if target != 'cuda':
        raise ValueError(f"vectorize: the simulator supports only target='cuda'; got {target!r}")
    is_single = isinstance(signatures, str) or hasattr(signatures, 'args')
    if callable(signatures) and not is_single or not signatures:
        raise TypeError("vectorize(target='cuda') needs signatures: vectorize(['float32(float32)'], target='cuda')")
    return lambda fn: _Vectorized(fn, [signatures] if is_single else signatures)


class _Guvectorized:
    "Applies a function of subarrays, such as rows, to arrays: one thread per subarray"

    def __init__(self, fn, types, layout):
        self.py_func, self._types = fn, types
        functools.update_wrapper(self, fn)
        self._input_axes, self._output_axes = _parse_layout(layout)  # axis names per argument
        self._kernels = {}

    def __call__(self, *args, out=None, stream=0):
        "Apply `fn` to each subarray: returns device arrays if an argument or output is one, else host arrays"
        num_inputs = len(self._input_axes)
        if (
            len(args) not in (num_inputs, num_inputs + len(self._output_axes))
            or out is not None
            and len(args) > num_inputs
        ):
            raise TypeError(f'{self.__name__} takes {num_inputs} input arrays, optionally followed by output arrays')
        outputs = list(args[num_inputs:]) or [out] * len(self._output_axes)
        is_on_device = any(isinstance(array, DeviceArray) for array in (*args, *outputs))
        inputs = [np.asarray(_host_array(array)) for array in args[:num_inputs]]
        types = self._match_signature(tuple(array.dtype for array in inputs))
        size_of_axis, loop_shape = self._match_axes(inputs)
        device_inputs = [
            to_device(self._broadcast(array, axes, loop_shape, size_of_axis, t))
            for array, axes, t in zip(inputs, self._input_axes, types)
        ]
        shapes = [(*loop_shape, *(size_of_axis[axis] for axis in axes)) for axes in self._output_axes]
        results = [
            device_array(self._with_thread_axis(shape, axes, t), t.dtype)
            for shape, axes, t in zip(shapes, self._output_axes, types[num_inputs:])
        ]
        _launch_elementwise(self._kernel(types), math.prod(loop_shape), *device_inputs, *results)
        results = [device_result.reshape(shape) for device_result, shape in zip(results, shapes)]
        returned_arrays = [
            _return_result(device_result, output, is_on_device) for device_result, output in zip(results, outputs)
        ]
        return returned_arrays[0] if len(returned_arrays) == 1 else tuple(returned_arrays)

    def _match_signature(self, dtypes):
        "Return the declared types that equal `dtypes`, else the first ones that can be cast to `dtypes`, as Numba does"
        num_inputs = len(self._input_axes)
        types_of_dtypes = {tuple(np.dtype(t.dtype) for t in types[:num_inputs]): types for types in self._types}
        convertible = [types for types in types_of_dtypes if all(map(np.can_cast, types, dtypes))]
        if dtypes not in types_of_dtypes and not convertible:
            raise TypeError(f'{self.__name__}: no signature matches the argument types ({", ".join(map(str, dtypes))})')
        return types_of_dtypes[dtypes if dtypes in types_of_dtypes else convertible[0]]

    def _match_axes(self, inputs):
        "Return ({axis name: size}, loop dimensions); raises `ValueError` if the inputs do not match the layout"
        size_of_axis = {}
        outer_shapes = []
        for position, (array, axes) in enumerate(zip(inputs, self._input_axes)):
            if array.ndim < len(axes):
                raise ValueError(
                    f'{self.__name__}: argument {position} has {array.ndim} axes, but needs at least ({",".join(axes)})'
                )
            num_outer_axes = array.ndim - len(axes)
            outer_shapes.append(array.shape[:num_outer_axes])
            for axis, size in zip(axes, array.shape[num_outer_axes:]):
                if size_of_axis.setdefault(axis, size) != size:
                    expected = f'expected {size_of_axis[axis]}, as in other arguments'
                    raise ValueError(f'{self.__name__}: axis {axis} of argument {position} has size {size}; {expected}')
        loop_shape = max(outer_shapes, key=math.prod)
        for position, shape in enumerate(outer_shapes):
            if shape not in (loop_shape, (), (1,)):
                raise ValueError(
                    f'{self.__name__}: argument {position} has loop dimensions {shape}; '
                    f'expected {loop_shape}, as in other arguments'
                )
        return size_of_axis, loop_shape

    def _broadcast(self, array, axes, loop_shape, size_of_axis, type_):
        "Broadcast an argument to one subarray per thread"
        inner_shape = tuple(size_of_axis[axis] for axis in axes)
        broadcast = np.broadcast_to(
            array.reshape(inner_shape) if array.size == math.prod(inner_shape) else array, (*loop_shape, *inner_shape)
        )
        return broadcast.reshape(self._with_thread_axis(broadcast.shape, axes, type_)).astype(type_.dtype)

    def _with_thread_axis(self, shape, axes, type_):
        "Return `shape` with one outer axis, of threads; a number that is declared as an array has one element"
        inner_shape = shape[len(shape) - len(axes) :]
        return (math.prod(shape[: len(shape) - len(axes)]), *inner_shape, *(1,) * (type_.ndim is not None and not axes))

    def _kernel(self, types):
        if types not in self._kernels:
            names = [f'x{i}' for i in range(len(types))]
            subarrays = [name + '[' + ', '.join(['i', *':' * (t.ndim or 0)]) + ']' for name, t in zip(names, types)]
            generated = _generate_kernel(
                'guvectorized', self.py_func, names, f'{names[-1]}.shape[0]', f'f({", ".join(subarrays)})'
            )
            self._kernels[types] = jit(generated)
        return self._kernels[types]


def _return_result(result, out, is_on_device):
    "Copy a result to `out` if there is one; else return it on the device if `is_on_device`, or on the host"
    if out is None:
        return result if is_on_device else result.copy_to_host()
    out[...] = result if isinstance(out, DeviceArray) else result.data
    return out


def _parse_layout(layout):
    "Parse a layout such as '(n),()->(n)'; returns (axis names of each argument, axis names of each result)"
    sides = layout.replace(' ', '').split('->')
    if len(sides) != 2 or any(re.sub(r'\(([A-Za-z_]\w*(,[A-Za-z_]\w*)*)?\)', '', side).strip(',') for side in sides):
        raise TypeError(f"guvectorize: {layout!r} is not a layout, such as '(n),()->(n)'")
    inputs, results = (
        [tuple(filter(None, operand.split(','))) for operand in re.findall(r'\(([^)]*)\)', side)] for side in sides
    )
    unknown_axes = {axis for dims in results for axis in dims} - {axis for dims in inputs for axis in dims}
    if unknown_axes:
        raise NameError(f'guvectorize: no argument has the axis {", ".join(sorted(unknown_axes))}')
    return inputs, results


def guvectorize(
    ftylist,  # 'void(float32[:], float32[:])', or a list of such strings
    signature=None,  # the layout: '(n)->(n)'
    target='cuda',  # the only target that is simulated
    **options,
):
    "Decorate a function of subarrays, such as rows: return a function of arrays with one thread per subarray"
    if target != 'cuda':
        raise ValueError(f"guvectorize: the simulator supports only target='cuda'; got {target!r}")
    types = declared_types(ftylist)
    if signature is None or not types:
        raise TypeError(
            "guvectorize(target='cuda') needs signatures and a layout: "
            "guvectorize(['void(float32[:], float32[:])'], '(n)->(n)', target='cuda')"
        )
    return lambda fn: _Guvectorized(fn, types, signature)
