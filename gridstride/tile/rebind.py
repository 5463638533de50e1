"""Binds the function of a kernel to the names of this package: for example `tl` to `tile.language`.

The rewritten code of the function keeps its file and its lines, so that errors and debuggers show the original."""

import builtins
import types

from . import language, libdevice
from .hooks import HOOKS
from .rewrite import code_of
from .run import KernelGlobals, compile_error
from .types import const, dtype, to_dtype

__all__ = ['BoundFunctions', 'function_of', 'is_jitted', 'unwrap']

# The builtins of Python that a kernel may call; builtins that have another meaning in Triton are in `_BUILTINS`.
_UNCHANGED_BUILTINS = (
    'len list tuple float int bool str isinstance getattr hasattr breakpoint slice type AssertionError __import__'
)
_BUILTINS = {k: getattr(builtins, k) for k in _UNCHANGED_BUILTINS.split()} | dict(
    range=language.range,
    min=language.builtin_min,
    max=language.builtin_max,
    abs=language.abs,
    print=language.device_print,
)


def is_jitted(fn):
    "Return whether `fn` is a function decorated with `@triton.jit`, of Triton or of its shim"
    return isinstance(getattr(fn, 'fn', None), types.FunctionType)


def unwrap(fn):
    "Return the object decorated with `@triton.jit` that a checked kernel, an autotuner or heuristics wrap"
    while not is_jitted(fn) and hasattr(fn, 'fn'):
        fn = fn.fn
    return fn


def function_of(fn):
    "Return the Python function of a kernel"
    fn = unwrap(fn)
    return getattr(fn, 'fn', fn)


class BoundFunctions:
    "The functions of one launch, each of them bound once"

    def __init__(self):
        self.functions = {}

    def function(self, fn):
        "Return a copy of the Python function `fn` with a `_Scope` as its globals"
        key = id(fn)
        if key not in self.functions:
            scope = _Scope(fn, self)
            code = code_of(fn)
            bound_function = types.FunctionType(code, scope, fn.__name__, None, _cells(fn, code, self))
            bound_function.__defaults__ = (
                tuple(self.value(default) for default in fn.__defaults__) if fn.__defaults__ else None
            )
            bound_function.__kwdefaults__ = {k: self.value(v) for k, v in (fn.__kwdefaults__ or {}).items()} or None
            self.functions[key] = bound_function
        return self.functions[key]

    def value(self, value):
        "Convert a value of the host to its substitute in a kernel"
        if value is None or isinstance(value, (bool, int, float, str)):
            return const(value)
        if isinstance(value, tuple):
            values = [self.value(item) for item in value]
            return type(value)(*values) if hasattr(value, '_fields') else tuple(values)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        module = getattr(value, '__module__', None) or ''
        if type(value) is language.Constant or type(value).__name__ == 'constexpr' and module.startswith('triton.'):
            return self.value(value.value)
        if isinstance(value, types.ModuleType):
            return _substitute_module(value)
        if is_jitted(unwrap(value)):
            return self._bind_jitted(value)
        if isinstance(value, dtype):
            return value
        if module.startswith('triton.') or type(value).__module__.startswith('triton.'):
            return self._convert_triton_object(value)
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
            return _substitute_host_function(value)
        return value

    def _bind_jitted(self, value):
        "Convert a function decorated with `@triton.jit`: of the learner, or of Triton's own library"
        function = function_of(value)
        if function.__module__.startswith('triton.language'):
            return _language_function(function.__module__, function.__name__)
        return self.function(function)

    def _convert_triton_object(self, value):
        "Convert a type, function or option of Triton to its counterpart in this package"
        try:
            return to_dtype(value)
        except TypeError:
            pass
        if callable(value):
            return _language_function(value.__module__, value.__name__)
        if type(value).__name__ == 'PropagateNan':
            return value.value
        return value


def _substitute_module(module):
    "Return the substitute for a module that a kernel refers to"
    name = module.__name__
    if name == 'triton' or getattr(module, 'is_shim', False):
        return _TritonModule
    if name.endswith('libdevice'):
        return libdevice
    if name == 'triton.language' or name.startswith('triton.language.'):
        return language
    return module if module.__name__.startswith('gridstride.tile.') else _HostModule(module)


class _HostModule:
    "A module of the host: kernels can use its constants, but not its functions"

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        value = getattr(self._module, name)
        module_name = self._module.__name__.split('.')[-1]
        return (
            _substitute_host_function(value, f'{module_name}.{name}')
            if callable(value) and not isinstance(value, type)
            else value
        )


def _substitute_host_function(function, name=None):
    "Return a function that raises an error, for one that is not decorated with `@triton.jit`"
    name = name or function.__name__
    replacement = function.__name__ if hasattr(language, getattr(function, '__name__', '?')) else None
    if (getattr(function, '__module__', '') or '').startswith('gridstride.tile.'):
        return getattr(language, replacement) if replacement else function

    def raise_not_callable(*args, **kwargs):
        hint = (
            f'Use tl.{replacement}.'
            if replacement
            else 'Look for it in tl; decorate your own function with @triton.jit.'
        )
        raise compile_error(f'{name} is a Python function, which a kernel cannot call', hint)

    return raise_not_callable


def _language_function(module_name, name):
    "Return the function of this package for a function of Triton"
    if 'libdevice' in module_name:
        return getattr(libdevice, name)
    return getattr(language, name)


class _TritonModule:
    "The names of `triton` that a kernel may use"

    language = language
    cdiv = staticmethod(language.cdiv)

    @staticmethod
    def next_power_of_2(n):
        "Return the smallest power of 2 that is at least `n`"
        return const(1 << (n - 1).bit_length())


def _cells(fn, code, bound_functions):
    "Return the closure of the bound function, with converted values; None if it is not a closure"
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    return tuple(types.CellType(bound_functions.value(cells[k].cell_contents)) for k in code.co_freevars) or None


class _Scope(KernelGlobals):
    "The globals of a kernel's function: a value is converted by `BoundFunctions.value` when the kernel first reads it"

    def __init__(self, fn, bound_functions):
        super().__init__(HOOKS, __builtins__=_Builtins(), __name__=fn.__module__)
        self.fn, self.bound_functions = fn, bound_functions

    def __missing__(self, name):
        host_globals = self.fn.__globals__
        if name in host_globals:
            value = host_globals[name]
            if isinstance(value, (bool, int, float, str)) and not name.startswith('__'):
                raise compile_error(
                    f'{name} is a global variable, but a kernel can only use global variables that are constexpr',
                    f'Pass it as an argument, or write {name} = tl.constexpr({value!r}).',
                )
            value = self[name] = self.bound_functions.value(value)
            return value
        if name in _BUILTINS:
            return _BUILTINS[name]
        if hasattr(builtins, name):
            raise compile_error(f"a kernel cannot use Python's {name}", 'Use a function from tl.')
        raise KeyError(name)


class _Builtins(dict):
    "The builtins of a kernel's function"

    def __missing__(self, k):
        if k in _BUILTINS:
            return _BUILTINS[k]
        raise KeyError(k)
