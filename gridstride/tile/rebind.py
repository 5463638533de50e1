"""Bind a kernel's function to the names that Triton's compiler gives it: `tl` is ours, `range` and `max` are Triton's.

The function's own code runs, with its file and its lines, so that errors and debuggers show what the learner wrote."""

import builtins
import types

from . import language, libdevice
from .rewrite import HOOKS, code_of
from .run import Names, refuse
from .types import const, dtype, to_dtype

__all__ = ['Bound', 'function_of', 'is_jitted', 'unwrap']

# The builtins that a kernel may call. Those to which Triton gives another meaning come from the language.
_PLAIN = 'len list tuple float int bool str isinstance getattr hasattr breakpoint slice type AssertionError __import__'
_BUILTINS = {k: getattr(builtins, k) for k in _PLAIN.split()} | dict(
    range=language.range,
    min=language.builtin_min,
    max=language.builtin_max,
    abs=language.abs,
    print=language.device_print,
)


def is_jitted(f):
    "Return whether `f` is a function under `@triton.jit`, of Triton or of its shim"
    return isinstance(getattr(f, 'fn', None), types.FunctionType)


def unwrap(f):
    "Return the object under `@triton.jit` that a checked kernel, an autotuner or heuristics wrap"
    while not is_jitted(f) and hasattr(f, 'fn'):
        f = f.fn
    return f


def function_of(f):
    "Return the Python function of a kernel"
    f = unwrap(f)
    return getattr(f, 'fn', f)


class Bound:
    "The functions of one launch, each bound once to our names"

    def __init__(self):
        self.functions = {}

    def function(self, f):
        "Return the Python function `f` with its names bound to ours"
        key = id(f)
        if key not in self.functions:
            scope = _Scope(f, self)
            code = code_of(f)
            new = types.FunctionType(code, scope, f.__name__, None, _cells(f, code, self))
            new.__defaults__ = tuple(self.value(default) for default in f.__defaults__) if f.__defaults__ else None
            new.__kwdefaults__ = {k: self.value(v) for k, v in (f.__kwdefaults__ or {}).items()} or None
            self.functions[key] = new
        return self.functions[key]

    def value(self, v):
        "Convert a value of the host to its substitute in a kernel"
        if v is None or isinstance(v, (bool, int, float, str)):
            return const(v)
        if isinstance(v, tuple):
            values = [self.value(item) for item in v]
            return type(v)(*values) if hasattr(v, '_fields') else tuple(values)
        if isinstance(v, list):
            return [self.value(item) for item in v]
        module = getattr(v, '__module__', None) or ''
        if type(v) is language.Constant or type(v).__name__ == 'constexpr' and module.startswith('triton.'):
            return self.value(v.value)
        if isinstance(v, types.ModuleType):
            return _module(v)
        if is_jitted(unwrap(v)):
            return self._jitted(v)
        if isinstance(v, dtype):
            return v
        if module.startswith('triton.') or type(v).__module__.startswith('triton.'):
            return self._translate(v)
        if isinstance(v, (types.FunctionType, types.BuiltinFunctionType)):
            return _refuse_calls(v)
        return v

    def _jitted(self, v):
        f = function_of(v)
        if f.__module__.startswith('triton.language'):
            return _our_function(f.__module__, f.__name__)
        return self.function(f)

    def _translate(self, v):
        try:
            return to_dtype(v)
        except TypeError:
            pass
        if callable(v):
            return _our_function(v.__module__, v.__name__)
        if type(v).__name__ == 'PropagateNan':
            return v.value
        return v


def _module(m):
    "Return our module for a module of Triton"
    name = m.__name__
    if name == 'triton' or getattr(m, 'is_shim', False):
        return _Triton
    if name.endswith('libdevice'):
        return libdevice
    if name == 'triton.language' or name.startswith('triton.language.'):
        return language
    return m if m.__name__.startswith('gridstride.tile.') else _Foreign(m)


class _Foreign:
    "A module that is not Triton's: kernels can use its constants, but not its functions"

    def __init__(self, module):
        self._module = module

    def __getattr__(self, k):
        v = getattr(self._module, k)
        name = self._module.__name__.split('.')[-1]
        return _refuse_calls(v, f'{name}.{k}') if callable(v) and not isinstance(v, type) else v


def _refuse_calls(f, name=None):
    "Return a substitute for a function that is not under `@triton.jit`: calling it raises an error"
    name = name or f.__name__
    own = f.__name__ if hasattr(language, getattr(f, '__name__', '?')) else None
    if (getattr(f, '__module__', '') or '').startswith('gridstride.tile.'):
        return getattr(language, own) if own else f

    def called(*args, **kwargs):
        hint = f'Triton has tl.{own}.' if own else 'Look for it in tl; a function of your own gets @triton.jit.'
        raise refuse(f'{name} is a function of Python, which a kernel cannot call', hint)

    return called


def _our_function(module, name):
    "Return our function for a function of Triton, by its name"
    if 'libdevice' in module:
        return getattr(libdevice, name)
    return getattr(language, name)


class _Triton:
    "The names of `triton` that a kernel uses"

    language = language
    cdiv = staticmethod(language.cdiv)

    @staticmethod
    def next_power_of_2(n):
        "Return the next power of 2"
        return const(1 << (n - 1).bit_length())


def _cells(f, code, bound):
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
    return tuple(types.CellType(bound.value(cells[k].cell_contents)) for k in code.co_freevars) or None


class _Scope(Names):
    "The globals of a kernel's function: each name is looked up and translated when the kernel first uses it"

    def __init__(self, f, bound):
        super().__init__(HOOKS, __builtins__=_Builtins(), __name__=f.__module__)
        self.f, self.bound = f, bound

    def __missing__(self, k):
        theirs = self.f.__globals__
        if k in theirs:
            v = theirs[k]
            if isinstance(v, (bool, int, float, str)) and not k.startswith('__'):
                raise refuse(
                    f'{k} is a global variable, but a kernel can only use global variables that are constexpr',
                    f'Pass it as an argument, or write {k} = tl.constexpr({v!r}).',
                )
            v = self[k] = self.bound.value(v)
            return v
        if k in _BUILTINS:
            return _BUILTINS[k]
        if hasattr(builtins, k):
            raise refuse(f"Python's {k} is not one of the few functions that a kernel may use", 'Look for it in tl.')
        raise KeyError(k)


class _Builtins(dict):
    "An empty namespace: names that the scope of a function does not know are unknown"

    def __missing__(self, k):
        if k in _BUILTINS:
            return _BUILTINS[k]
        raise KeyError(k)
