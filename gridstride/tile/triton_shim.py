"""The module that `from gridstride import triton` imports without a GPU: Triton's names, with checked kernels."""

import functools
import sys
import types
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from . import language
from .kernel import CheckedKernel, checked

__all__ = ['module', 'jit', 'autotune', 'heuristics', 'Config', 'TensorDescriptor', 'cdiv', 'next_power_of_2']


class JITFunction:
    "A function decorated with `@triton.jit`, if Triton is not installed"

    def __init__(self, fn):
        self.fn = fn
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.__module__ = fn.__module__
        self.arg_names = fn.__code__.co_varnames[: fn.__code__.co_argcount]

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            f'{self.__name__} is decorated with @triton.jit: '
            f'launch it as {self.__name__}[grid](...), or call it from a kernel'
        )


original_jit = None  # Triton's `jit`, while `triton_patches.patch` replaces it in the module `triton`


def _installed_triton():
    "Return Triton itself if it is installed, else None"
    module = sys.modules.get('triton')
    if module is not None:
        return None if getattr(module, 'is_shim', False) else module
    spec = find_spec('triton')
    return import_module('triton') if spec and not hasattr(spec.loader, 'is_shim') else None


def jit(fn=None, **options) -> Any:
    "Decorate a kernel, or a function that kernels call; compiler options are accepted and ignored"
    if fn is None:
        return functools.partial(jit, **options)
    triton = _installed_triton()
    return checked((original_jit or triton.jit)(fn, **options) if triton else JITFunction(fn))


class Config:
    "One config of `autotune`: constants of the kernel, and compiler options"

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        self.kwargs = kwargs
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def all_kwargs(self):
        "Return {name: value} of the constants and compiler options"
        return {**self.kwargs, 'num_warps': self.num_warps, 'num_stages': self.num_stages, 'num_ctas': self.num_ctas}

    def __repr__(self):
        return ', '.join(f'{k}: {v}' for k, v in self.all_kwargs().items())


class AutotunedKernel:
    "A kernel decorated with `autotune`: it uses the first config, because nothing is timed on a CPU"

    def __init__(self, fn, configs, key, reset_to_zero=None, restore_value=None, pre_hook=None, **options):
        self.fn, self.configs, self.keys = fn, list(configs), key
        self.reset_to_zero, self.restore_value = reset_to_zero or (), restore_value or ()
        self.user_defined_pre_hook = pre_hook is not None
        self.arg_names = fn.arg_names
        self.best_config = self.configs[0]


class HeuristicsKernel:
    "A kernel decorated with `heuristics`: functions compute some of its constants from its arguments"

    def __init__(self, fn, values):
        self.fn, self.values = fn, values
        self.arg_names = fn.arg_names


def autotune(configs, key, **options) -> Any:
    "Return a decorator that makes a kernel with several configs; without a GPU, the kernel uses the first"
    if not configs:
        raise ValueError('triton.autotune: pass at least one triton.Config')
    return lambda fn: CheckedKernel(AutotunedKernel(_kernel_without_checks(fn), configs, key, **options))


def heuristics(values) -> Any:
    "Return a decorator; `values`: name of a constant -> function that computes it from {argument: value}"
    return lambda fn: CheckedKernel(HeuristicsKernel(_kernel_without_checks(fn), values))


def _kernel_without_checks(fn):
    "Return the kernel inside a `CheckedKernel`; return any other function unchanged"
    return fn.kernel if isinstance(fn, CheckedKernel) else fn


def cdiv(x, y):
    "Compute x/y, rounded up"
    return (x + y - 1) // y


def next_power_of_2(n):
    "Return the smallest power of 2 that is at least `n`"
    return 1 << (n - 1).bit_length() if n > 0 else 0


def set_allocator(allocate):
    "Do nothing: a checked kernel does not need a workspace"


class TensorDescriptor:
    "An array with the shape of the blocks that TMA transfers, like Triton's class of this name"

    def __init__(self, base, shape, strides, block_shape, padding='zero'):
        self.base, self.shape, self.strides = base, list(shape), list(strides)
        self.block_shape = list(block_shape)
        self.padding = padding

    @classmethod
    def from_tensor(cls, tensor, block_shape, padding='zero'):
        "Make the descriptor of a whole tensor"
        return cls(tensor, tensor.shape, tensor.stride(), block_shape, padding)


class _Shim(types.ModuleType):
    "The substitute for the module `triton`; other names come from Triton, if it is installed"

    def __getattr__(self, k):
        if k.startswith('__'):
            raise AttributeError(k)
        triton = _installed_triton()
        if triton is None:
            raise AttributeError(f'triton.{k} needs Triton, which is not installed: pip install triton (on Linux)')
        return getattr(triton, k)


@functools.lru_cache(None)
def module():
    "Return the substitute for Triton; each call returns the same module"
    substitute = _Shim('triton_checked', __doc__)
    substitute.is_shim = True
    triton = _installed_triton()
    substitute.jit = jit
    substitute.autotune = autotune
    substitute.heuristics = heuristics
    if triton is None:
        substitute.language = language
        substitute.Config = Config
        substitute.cdiv = cdiv
        substitute.next_power_of_2 = next_power_of_2
        substitute.set_allocator = set_allocator
    else:
        substitute.language = import_module('triton.language')
    return substitute
