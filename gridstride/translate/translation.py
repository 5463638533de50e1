"""The result of `to_cuda`: CUDA C, and the mapping of the Python kernel's arguments to those of C."""

from collections import namedtuple

import numpy as np

from ..support.array_memory import reach, span
from .intervals import of_dtype
from .types import INT_LIMIT, INTEGERS, ArrayOf, Number, example, steps_of, write_type

# A parameter of the C kernel. type, name: in C; kind: array, number, size, stride or start; path: which argument, and
# which part of a tuple; dim: the dimension of a size or stride, for an array its `ArrayOf`
Parameter = namedtuple('Parameter', 'type name kind path dim')


class Translation(str):
    """The CUDA C of a kernel, a string with these attributes:

    - `kernel`, the kernel's name, and `params`, one `Parameter` per parameter that it has in C;
    - `lines`, from the number of a line to (file, line) of the Python source;
    - `pack(args)`, the arguments for `cuda_kernel(text)` that belong to the arguments of the Python kernel.

    `known`, `names` and `defaults` describe the Python kernel's parameters; `least` has the minimums of some
    integers, by name.
    """

    def __new__(cls, text, kernel, params, lines, known, names, defaults, least):
        self = super().__new__(cls, text)
        self.kernel = kernel
        self.params = params
        self.lines = lines
        self.known = known
        self.names = names
        self.defaults = defaults
        self.least = least
        return self

    def pack(self, args):
        """Return the C kernel's arguments: scalars, the memory of arrays, their sizes and strides.

        Example: `cuda_kernel(text)[grid, block](*text.pack((x, out)))`. Raises `TypeError` for arguments that have
        another type or layout than the examples.
        """
        args = [*args, *self.defaults[len(args) - len(self.names) :]] if len(args) < len(self.names) else list(args)
        if len(args) != len(self.names):
            takes = f"{self.kernel} takes {len(self.names)} arguments ({', '.join(self.names)})"
            raise TypeError(f'{takes}, but {len(args)} were given')
        for n, k, a in zip(self.names, self.known, args):
            _require_like_example(n, k, a)
        res = [_pack(p, _at(args, p.path)) for p in self.params]
        for p, v in zip(self.params, res):
            least = self.least.get(p.name)
            if least is not None and v < least:
                takes = f'this translation requires at least {least}, like its example'
                raise TypeError(f'{p.name} is {v}, but {takes}; translate again with such an argument')
        return res


def _at(args, path):
    for i in path:
        args = args[i]
    return _unwrap_device_array(args)


def _unwrap_device_array(a):
    return a.data if type(a).__name__ == 'DeviceArray' and hasattr(a, 'mem') else a


def _require_like_example(name, known, a):
    "Raise unless `a` is of the kind of the example"
    if isinstance(known, tuple) and not isinstance(known, (ArrayOf, Number)):
        if not isinstance(a, (tuple, list)) or len(a) != len(known):
            raise TypeError(f'{name} was translated as a tuple of {len(known)}')
        for n, (k, x) in enumerate(zip(known, a)):
            _require_like_example(f'{name}[{n}]', k, x)
        return
    if isinstance(known, Number):
        return _require_number_like_example(name, known, a)
    mine = example(a)
    if not isinstance(mine, ArrayOf) or mine[:2] != known[:2]:
        raise TypeError(f'{name} was translated as {write_type(known)}, but got {write_type(mine)}')
    if any(m and not k for m, k in zip(mine.strides, known.strides)) or mine.backwards and not known.backwards:
        hint = 'translate with this array, or give a contiguous copy'
        raise TypeError(f'{name} has another layout than the example; {hint}')


def _require_number_like_example(name, known, a):
    "Raise unless `a` is a number like the example"
    if hasattr(a, 'shape') and not isinstance(a, np.generic):
        raise TypeError(f'{name} was translated as a number, but got a {type(a).__name__}')
    if known.type not in INTEGERS:
        return
    if isinstance(a, (float, np.floating)):
        hint = 'translate again with such an argument'
        raise TypeError(f'{name} was translated as an integer, but got {a!r}; {hint}')
    low, high = (-INT_LIMIT, INT_LIMIT) if known.dtype == 'int' else of_dtype(known.dtype)
    if not low <= int(a) <= high:
        takes = f'this translation takes {known.dtype}s from {low} to {high}'
        raise TypeError(f'{name} is {a}, but {takes}; translate again with such a number')


def _pack(p, a):
    "Return the value of the parameter `p` for the argument `a`"
    if p.kind == 'number':
        return float(a) if p.type in ('float', 'double') else bool(a) if p.type == 'bool' else int(a)
    if p.kind == 'size':
        return _require_32_bits(p, int(a.shape[p.dim]))
    if p.kind == 'stride':
        return _require_32_bits(p, int(steps_of(a)[p.dim]))
    if p.kind == 'start':
        return _require_32_bits(p, sum((s - 1) * -t for s, t in zip(a.shape, steps_of(a)) if t < 0))
    return _flat(a, 'const' in p.type)


def _require_32_bits(p, v):
    "Return the integer `v`, which must fit into the parameter's type"
    if p.type == 'int' and abs(v) > INT_LIMIT:
        raise TypeError(f'{p.name} is {v}: this kernel has 32-bit indices; translate it with wide=True')
    return v


def _flat(a, const):
    "Return the memory of an array, as an array without gaps"
    steps = steps_of(a)
    n = reach(a.shape, steps)
    if n > INT_LIMIT:
        _require_32_bits(Parameter('int', 'the span of an array', '', (), 0), n)
    if hasattr(a, 'data_ptr'):
        return a if a.is_contiguous() and a.dim() else a.as_strided((n,), (1,))
    if a.ndim == 0:
        a = a.reshape(1)
    if a.flags.c_contiguous:
        return a if a.flags.writeable or not const else a.copy()
    flat = span(a)
    return flat if flat.flags.writeable or not const else flat.copy()
