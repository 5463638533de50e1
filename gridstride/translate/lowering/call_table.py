"""The table of the functions that a kernel may call, and the look-up of an object in it."""

import functools
import inspect
import sys

import numpy as np

from ..tree import Expr, Call
from ..types import INT


# A function of the table makes an expression of the arguments' expressions. It gets the `Function` that is
# lowered, and the location in the source, for errors.
CALLS = {}


def call(*names):
    "Enter a function into the table under `names`: `f(fn, node, *args)` returns the expression of such a call"

    def _f(f):
        for n in names:
            CALLS[n] = f
        return f

    return _f


def native(
    name, type, args=(), parameter_types=(), result_type='int', has_side_effects=False, low=-(2**31), high=2**31 - 1
):
    "Return a call of a function that CUDA C has: `native('__popc', INT, (e,))`"
    return Expr('call', type, args, Call(name, parameter_types, result_type, has_side_effects, low, high))


# How a name in the table is found for an object: `cuda.` and what follows for the functions of `numba.cuda`
# and of the simulator, however they were imported; `math.`, `np.` and `operator.` likewise; Python's own have
# no dot.
_CUDA_MODULES = ('gridstride.sim.cuda', 'numba.cuda')


def is_cuda(module):
    "Return whether the object `module` is Numba's `cuda`, or the simulator's"
    return inspect.ismodule(module) and (
        module.__name__ in _CUDA_MODULES
        or module.__name__.startswith('numba.cuda.simulator')
        or module.__name__.startswith('numba_cuda.')
    )


def _resolve(module, path):
    for k in path.split('.')[1:]:
        module = getattr(module, k, None)
    return module


@functools.lru_cache(None)
def _names_by_id(modules):
    "Return {id: name in the table} of what the CUDA modules define"
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
        id(outer_value): n
        for m in modules
        for n in names
        if (outer_value := _resolve(sys.modules[m], n)) is not None and not isinstance(outer_value, int)
    }


def name_of(f):
    "Return the name in the table of the object `f`, 'math.sqrt'; None if it has none"
    if is_cuda(f):
        return 'cuda'
    known = _names_by_id(tuple(m for m in _CUDA_MODULES if m in sys.modules)).get(id(f))
    if known:
        return known
    name, module = getattr(f, '__name__', None), getattr(f, '__module__', None)
    if isinstance(f, np.ufunc):
        return f'np.{name}'
    if module in ('math', 'builtins', 'cmath'):
        return name if module == 'builtins' else f'{module}.{name}'
    if module == '_operator':
        return f'operator.{name}'


def builtin(name):
    "Return a variable of CUDA, such as 'threadIdx.x'"
    return Expr('builtin', INT, value=name)
