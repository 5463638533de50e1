"""The result of `to_cuda`: CUDA C, and the conversion of the Python kernel's arguments to those of the C kernel."""

from collections import namedtuple

import numpy as np

from ..support.array_memory import span_length, span
from .intervals import dtype_interval
from .types import INT_LIMIT, INTEGERS, ArrayArgument, ScalarArgument, argument_type, element_strides, format_type

# A parameter of the C kernel. type, name: in C; kind: array, scalar, size, stride or start (the offset of
# element 0 from the lowest address, for arrays with negative strides); path: the index of the argument, followed by the
# indices of an item if the argument is a tuple; dim: the dimension of a size or stride, or the `ArrayArgument` of an
# array
Parameter = namedtuple('Parameter', 'type name kind path dim')


class Translation(str):
    """The CUDA C of a kernel, a string with these attributes:

    - `kernel`, the kernel's name, and `params`, one `Parameter` per parameter of the C kernel;
    - `lines`, which maps the number of a line to (file, line) of the Python source;
    - `pack(args)`, which converts arguments of the Python kernel to those of `cuda_kernel(text)`.

    `argument_types`, `names` and `defaults` describe the Python kernel's parameters; `minimums` maps the names of C
    parameters to their smallest allowed values.
    """

    def __new__(cls, text, kernel, params, lines, argument_types, names, defaults, minimums):
        self = super().__new__(cls, text)
        self.kernel = kernel
        self.params = params
        self.lines = lines
        self.argument_types = argument_types
        self.names = names
        self.defaults = defaults
        self.minimums = minimums
        return self

    def pack(self, args):
        """Return the arguments of the C kernel: scalars, and the memory, sizes and strides of arrays.

        Example: `cuda_kernel(text)[grid, block](*text.pack((x, out)))`. Raises `TypeError` for arguments whose
        type or layout differs from that of the examples.
        """
        args = [*args, *self.defaults[len(args) - len(self.names) :]] if len(args) < len(self.names) else list(args)
        if len(args) != len(self.names):
            problem = f"wrong number of arguments for {self.kernel}({', '.join(self.names)})"
            raise TypeError(f'{problem}: expected {len(self.names)}, got {len(args)}')
        for name, type, argument in zip(self.names, self.argument_types, args):
            _require_like_example(name, type, argument)
        values = [_pack(param, _argument_at(args, param.path)) for param in self.params]
        for param, value in zip(self.params, values):
            minimum = self.minimums.get(param.name)
            if minimum is not None and value < minimum:
                raise TypeError(
                    f'{param.name} is {value}, but must be at least {minimum}, as in the example; translate again'
                    f' with {param.name} = {value}'
                )
        return values


def _argument_at(args, path):
    for i in path:
        args = args[i]
    return _unwrap_device_array(args)


def _unwrap_device_array(a):
    return a.data if type(a).__name__ == 'DeviceArray' and hasattr(a, 'mem') else a


def _require_like_example(name, expected, argument):
    "Raise `TypeError` unless `argument` has the type and layout of the example"
    if isinstance(expected, tuple) and not isinstance(expected, (ArrayArgument, ScalarArgument)):
        if not isinstance(argument, (tuple, list)) or len(argument) != len(expected):
            raise TypeError(f'{name} was translated as a tuple of {len(expected)}; pass a tuple of that length')
        for n, (item_type, item) in enumerate(zip(expected, argument)):
            _require_like_example(f'{name}[{n}]', item_type, item)
        return
    if isinstance(expected, ScalarArgument):
        return _require_scalar_like_example(name, expected, argument)
    actual = argument_type(argument)
    if not isinstance(actual, ArrayArgument) or actual[:2] != expected[:2]:
        raise TypeError(f'{name} was translated as {format_type(expected)}; got {format_type(actual)}')
    has_extra_stride = any(a and not e for a, e in zip(actual.takes_stride, expected.takes_stride))
    if has_extra_stride or actual.has_negative_stride and not expected.has_negative_stride:
        hint = 'translate with this array, or pass a contiguous copy'
        raise TypeError(f'{name} has a layout that differs from that of the example; {hint}')


def _require_scalar_like_example(name, expected, argument):
    "Raise `TypeError` unless `argument` is a number that the translation accepts"
    if hasattr(argument, 'shape') and not isinstance(argument, np.generic):
        raise TypeError(f'{name} was translated as a scalar; got {type(argument).__name__}')
    if expected.type not in INTEGERS:
        return
    if isinstance(argument, (float, np.floating)):
        hint = 'translate again with a float, or pass an integer'
        raise TypeError(f'{name} must be an integer; got {argument!r}; {hint}')
    low, high = (-INT_LIMIT, INT_LIMIT) if expected.dtype == 'int' else dtype_interval(expected.dtype)
    if not low <= int(argument) <= high:
        accepted = f'this translation takes values of type {expected.dtype} from {low} to {high}'
        raise TypeError(f'{name} is {argument}, but {accepted}; translate again with this value')


def _pack(param, argument):
    "Return the value of the C parameter `param` for the Python argument `argument`"
    if param.kind == 'scalar':
        convert = float if param.type in ('float', 'double') else bool if param.type == 'bool' else int
        return convert(argument)
    if param.kind == 'size':
        return _require_32_bits(param, int(argument.shape[param.dim]))
    if param.kind == 'array':
        return _flat_memory(argument, 'const' in param.type)
    strides = element_strides(argument)
    if param.kind == 'stride':
        return _require_32_bits(param, int(strides[param.dim]))
    start = sum((size - 1) * -stride for size, stride in zip(argument.shape, strides) if stride < 0)
    return _require_32_bits(param, start)


def _require_32_bits(param, value):
    "Return the integer `value`; raise `TypeError` if it does not fit the type of the parameter"
    if param.type == 'int' and abs(value) > INT_LIMIT:
        raise TypeError(f'{param.name} is {value}: this kernel has 32-bit indices; translate it with all_int64=True')
    return value


def _flat_memory(a, is_const):
    "Return the memory that an array covers, from its lowest to its highest element, as a contiguous array"
    n = span_length(a.shape, element_strides(a))
    if n > INT_LIMIT:
        _require_32_bits(Parameter('int', 'the span of an array', '', (), 0), n)
    if hasattr(a, 'data_ptr'):
        return a if a.is_contiguous() and a.dim() else a.as_strided((n,), (1,))
    if a.ndim == 0:
        a = a.reshape(1)
    if a.flags.c_contiguous:
        return a if a.flags.writeable or not is_const else a.copy()
    flat = span(a)
    return flat if flat.flags.writeable or not is_const else flat.copy()
