"""CUDA C: compiled for a GPU where there is one, and for the CPU where there is none.

Nothing is imported before it is asked for, so that the reader of CUDA C, which needs the standard library
alone, can be had without the rest.
"""

from ..doors import front_door

_NAMES = {
    'build': ('CompileError', 'CompilerMissing'),
    'cache': ('cache_dir',),
    'edits': ('NotEmulated',),
    'emulator': ('on_emulator', 'options'),
    'kernel': ('cuda_kernel',),
    'load': ('load_cuda',),
    'magic': ('load_ipython_extension',),
}
__all__, __getattr__, __dir__ = front_door(__name__, _NAMES)
