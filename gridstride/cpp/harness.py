"""Launches a kernel from a source file without a `main`, with arguments from the command line or defaults.

    python -m gridstride.cpp --launch scale --size 1000 scale.cu
    python -m gridstride.cpp --launch matmul --grid 2,2 --block 16,16 --arg a=32x48 --arg n=48 matmul.cu

Defaults: an array has `size` random elements, an integer is `size`, a float is 1, a bool is false. So for a kernel
whose parameters are arrays and their size, the name is enough.
"""

import json
import re
from pathlib import Path

import numpy as np

from ..utils import cdiv
from .arguments import dtype_of
from .frontend.reader import kernels
from .kernel import cuda_kernel

__all__ = ['ArgumentError', 'parse_value', 'read_values', 'make_arguments', 'launch']

_NUM_COMPONENTS = {'2': 2, '3': 3, '4': 4}  # by the last character of a vector type, such as float4


class ArgumentError(ValueError):
    "An argument given for the launch is invalid"


def parse_value(
    text,  # '1000', '0.5', '32x48' or 'x.npy'
):  # an int or float; a tuple, the shape of a random array; or a `Path`
    "Parse the value of a parameter on the command line: `parse_value('32x48') == (32, 48)`"
    if text.endswith('.npy'):
        return Path(text)
    for convert in (int, float, lambda shape: tuple(map(int, shape.split('x')))):
        try:
            return convert(text)
        except ValueError:
            continue
    usage = 'use a number, a shape such as 32x48, or a NumPy file such as x.npy'
    raise ArgumentError(f'{text!r} is not a valid value: {usage}')


def read_values(
    pairs,  # from the command line, each 'NAME=VALUE'
    file=None,  # a JSON file {name: number, shape as a list, or name of a .npy file}
) -> dict:
    "Return {parameter: value}; values from the command line override those in the file"
    values = {}
    if file:
        try:
            entries = json.loads(Path(file).read_text(encoding='utf-8'))
        except (OSError, ValueError) as e:
            raise ArgumentError(f'{file} cannot be read as JSON: {e}') from None
        for name, value in entries.items():
            is_path = isinstance(value, str)
            values[name] = Path(file).parent / value if is_path else tuple(value) if isinstance(value, list) else value
    for pair in pairs:
        name, equals, text = pair.partition('=')
        if not equals:
            raise ArgumentError(f'{pair!r} must have the form NAME=VALUE')
        values[name] = parse_value(text)
    return values


def _random_array(shape, dtype, int_bound, rng):
    "Return random values: normally distributed floats, or integers below `int_bound`, which can be indices"
    if dtype == 'bfloat16':
        raise ArgumentError('NumPy does not support bfloat16: launch this kernel from Python, with torch tensors')
    if 'float' in dtype:
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype == 'bool' else min(int_bound, np.iinfo(dtype).max), shape).astype(dtype)


def _make_array(param, dtype, value, size, rng):
    if isinstance(value, Path):
        try:
            return np.ascontiguousarray(np.load(value))
        except (OSError, ValueError) as e:
            raise ArgumentError(f'{param.name}: {value} cannot be read: {e}') from None
    if dtype is None:
        usage = f'pass its bytes as {param.name}=x.npy'
        raise ArgumentError(f'{param.name} has type {param.type}, which the source defines: {usage}')
    if isinstance(value, float):
        usage = f'pass a shape, such as {param.name}=32x48, or a file, {param.name}=x.npy'
        raise ArgumentError(f'{param.name} has type {param.type}: {usage}')
    if value is None:
        base = param.type.replace('const', '').split('*')[0].strip()
        value = (size * (_NUM_COMPONENTS.get(base[-1], 1) if base[:-1].isalpha() else 1),)
    return _random_array(value, dtype, size, rng)


def make_arguments(
    params,  # of the kernel, `Param`s
    values,  # {name: value}, as `read_values` returns them
    size=1000,  # elements of an array for which no value is given; also the default for integers
    seed=0,  # of random values
) -> list:
    "Return an argument per parameter; raises `ArgumentError` for a value that does not fit its parameter"
    if unknown := values.keys() - {p.name for p in params}:
        names = ', '.join(p.name for p in params)
        raise ArgumentError(f'there is no parameter {min(unknown)}; available: {names}')
    rng = np.random.default_rng(seed)
    arguments = []
    for p in params:
        dtype, is_pointer = dtype_of(p.type)
        value = values.get(p.name)
        if is_pointer:
            arguments.append(_make_array(p, dtype, value, size, rng))
        elif isinstance(value, (tuple, Path)):
            raise ArgumentError(f'{p.name} has type {p.type}: pass a number')
        else:
            default = 1.0 if 'float' in (dtype or '') else False if dtype == 'bool' else size
            arguments.append(default if value is None else bool(value) if dtype == 'bool' else value)
    return arguments


def _instantiate_parameters(params, src, name):
    "Return a kernel's parameters; for `k<float>`, with the template arguments substituted: `T *` becomes `float *`"
    base, _, template_arguments = name.partition('<')
    template = next(f.template for f in kernels(src) if f.name == base.split('::')[-1].strip())
    names = re.findall(r'(?:\b(?:class|typename)|[\w>]) +(\w+)\s*(?:=[^,>]*)?(?=[,>])', template)
    type_of = dict(zip(names, map(str.strip, template_arguments.rstrip('> ').split(','))))
    return [p._replace(type=re.sub(r'\w+', lambda word: type_of.get(word[0], word[0]), p.type)) for p in params]


def _format_argument(param, x):
    return f'{param.name}: {x.dtype}{list(x.shape)}' if isinstance(x, np.ndarray) else f'{param.name} = {x}'


def launch(
    src,  # CUDA C
    name,  # of the kernel; 'k<float>' for a template
    values,  # {parameter: value}, as `read_values` returns them
    size=1000,  # elements of an array for which no value is given; also the default for integers
    grid=None,  # blocks, an integer or a tuple; None: as many as `size` elements need
    block=256,  # threads per block, an integer or a tuple
    seed=0,  # of random values
    checks=None,  # as for `cuda_kernel`
    report=lambda line: None,  # called before the launch with a line that describes it
):
    "Launch a kernel with these arguments; raises `KernelError` for a finding"
    kernel = cuda_kernel(src, name, checks=checks)
    arguments = make_arguments(_instantiate_parameters(kernel.params, src, name), values, size, seed)
    threads = int(np.prod(block))
    grid = cdiv(size, threads) if grid is None else grid
    report(f'{name}<<<{grid}, {block}>>>({", ".join(map(_format_argument, kernel.params, arguments))})')
    kernel[grid, block](*arguments)
