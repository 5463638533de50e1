"""The table of the functions that a kernel may call, and the lookup of an object in it."""

import functools
import inspect
import sys

import numpy as np

from ..tree import Expr, Call
from ..types import INT64


# The table maps a name to a function that lowers calls: `lower(fn, node, *args)` gets the `Function` that is being
# lowered, the node of the call, for errors, and the expressions of the arguments, and returns an expression.
CALLS = {}


def register(*names):
    "Return a decorator that registers a function in the table under `names`"

    def decorate(lower):
        for name in names:
            CALLS[name] = lower
        return lower

    return decorate


def native_call(
    name, type, args=(), parameter_types=(), result_type='int', has_side_effects=False, low=-(2**31), high=2**31 - 1
):
    "Return a call of a CUDA C function: `native_call('__popc', INT64, (e,))`"
    return Expr('call', type, args, Call(name, parameter_types, result_type, has_side_effects, low, high))


# Functions of `numba.cuda` and of the simulator have names that begin with `cuda.` in the table, whatever name a
# program imports them by; others begin with `math.`, `np.` or `operator.`. Python's builtins have no prefix.
_CUDA_MODULES = ('gridstride.sim.cuda', 'numba.cuda')


def is_cuda_module(module):
    "Return whether an object is the module `cuda` of Numba or of the simulator"
    return inspect.ismodule(module) and (
        module.__name__ in _CUDA_MODULES
        or module.__name__.startswith('numba.cuda.simulator')
        or module.__name__.startswith('numba_cuda.')
    )


def _resolve(module, path):
    "Return the object that `path`, such as 'cuda.atomic.add', names in `module`; None if there is none"
    obj = module
    for attribute in path.split('.')[1:]:
        obj = getattr(obj, attribute, None)
    return obj


@functools.lru_cache(None)
def _names_by_id(modules):
    "Return {id: name in the table} of the objects of the CUDA modules"
    names = [n for n in CALLS if n.startswith('cuda.')] + [
        'cuda.' + name
        for name in (
            'threadIdx',
            'blockIdx',
            'blockDim',
            'gridDim',
            'laneid',
            'warpsize',
            'shared',
            'local',
            'const',
            'atomic',
            'cg',
            'fp16',
        )
    ]
    return {
        id(value): name
        for module in modules
        for name in names
        if (value := _resolve(sys.modules[module], name)) is not None and not isinstance(value, int)
    }


def table_name(obj):
    "Return the name of an object in the table, such as 'math.sqrt'; None if it has none"
    if is_cuda_module(obj):
        return 'cuda'
    cuda_name = _names_by_id(tuple(m for m in _CUDA_MODULES if m in sys.modules)).get(id(obj))
    if cuda_name:
        return cuda_name
    name, module = getattr(obj, '__name__', None), getattr(obj, '__module__', None)
    if isinstance(obj, np.ufunc):
        return f'np.{name}'
    if module in ('math', 'builtins', 'cmath'):
        return name if module == 'builtins' else f'{module}.{name}'
    if module == '_operator':
        return f'operator.{name}'


def builtin(name):
    "Return the expression of a CUDA built-in variable, such as 'threadIdx.x'"
    return Expr('builtin', INT64, value=name)
