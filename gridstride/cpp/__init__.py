"""CUDA C: compiled for a GPU where there is one, and for the CPU where there is none.

Nothing is imported before it is asked for, so that the reader of CUDA C, which needs the standard library
alone, can be had without the rest.
"""

from importlib import import_module

_HOMES = {
    'build': ('CompileError', 'CompilerMissing'),
    'cache': ('cache_dir',),
    'edits': ('NotEmulated',),
    'emulator': ('on_emulator', 'options'),
    'kernel': ('cuda_kernel',),
    'load': ('load_cuda',),
    'magic': ('load_ipython_extension',),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME]


def __getattr__(name):
    "A public name of this package, imported when it is first asked for"
    if name not in _HOME:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    globals()[name] = value = getattr(import_module(f'.{_HOME[name]}', __name__), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
