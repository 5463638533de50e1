"""The names that every lesson needs, from one line:

    from gridstride.lesson import *

| names | description |
|---|---|
| `np`, `plt`, `torch` | NumPy, matplotlib's pyplot and PyTorch; the last two are imported on first use |
| `inspect`, `json`, `math`, `os`, `random`, `re`, `sys`, `time`, `cache`, `partial`, `zip_longest`, `Path` | from
Python's standard library |
| `asm`, `cpp`, `draw`, `kernels`, `plots`, `prof`, `ring`, `sim`, `tile` | gridstride's modules, on first use, too |
| `cdiv`, `dim3`, `check`, `should_fail`, `show_img`, ... | all of `gridstride.utils` |
| `cuda_kernel`, `load_cuda`, `on_emulator`, `show_source`, `side_by_side` | CUDA C |
| `gpu`, `device` | whether kernels run on a GPU; then `'cuda'`, else `'cpu'` |
| `exercise`, `hint`, `guess`, `guessed` | exercises and guesses of the reader |
| `bench`, `ceilings`, `compare`, `Comparison`, `H100`, `roofline`, `Roofline` | timing |
| `occupancy`, `ptx`, `resources`, `sass`, `wavefronts` | the compiler's output, and the memory requests of the hardware
|
| `changed`, `code_of`, `compare_variants`, `define`, `from_lesson`, `source_in` | variants of a kernel, timed |
| `recorded`, `on_gpu`, `print_on_gpu`, `made_on`, `Unavailable` | results of a GPU, recorded for readers without one |
| `recorded_file` | the path of a recorded file, next to the lesson or in the package |
| `claim`, `claim_table`, `expected`, `EXPECTED`, `Table` | expected results in a lesson's text, and tables |

A lesson imports other names itself. The choice of `cuda` and `triton` is visible in the lesson:
`from gridstride import cuda` runs kernels on the GPU if there is one, `from gridstride.sim import cuda` always in the
simulator, which counts; `from gridstride import triton` likewise runs Triton's kernels on the GPU, or checks them.

A package that is not installed stops a lesson where the lesson uses it first, with the command that installs it.
"""

# ruff: noqa: F401, F403 (this module exports its imports)

import inspect
import json
import math
import os
import random
import re
import sys
import time
from functools import cache, partial
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import numpy as np

from .asm import occupancy, ptx, resources, sass
from .bench import H100, Comparison, Roofline, bench, ceilings, compare, roofline
from .bench.recording import (
    EXPECTED,
    Unavailable,
    claim,
    claim_table,
    expected,
    made_on,
    on_gpu,
    print_on_gpu,
    recorded,
    recorded_file,
)
from .bench.variants import changed, code_of, compare_variants, define, from_lesson, source_in
from .course import exercise, hint
from .cpp import cuda_kernel, load_cuda, on_emulator
from .cpp.listings import show_source, side_by_side
from .support import numba_cuda, plots
from .support.guesses import guess, guessed
from .support.lazy_exports import missing_package, paused_garbage_collection
from .support.memory_transactions import wavefronts
from .support.tables import Table
from .utils import *
from .utils import __all__ as _names_of_utils
from .utils import backend


class _LazyModule(ModuleType):
    """A placeholder that imports a module when one of its attributes is used first.

    From then on, the names of the placeholder in the notebook refer to the module."""

    def _module(self):
        "Import the module; raise `ModuleNotFoundError` with the command that installs it"
        try:
            with paused_garbage_collection():
                module = import_module(self.__name__)
        except ModuleNotFoundError as e:
            root = self.__name__.partition('.')[0]
            raise missing_package(root, 'this lesson') if e.name.partition('.')[0] == root else e from None
        notebook = vars(sys.modules['__main__'])
        for name in [name for name, value in list(notebook.items()) if value is self]:
            notebook[name] = module
        return module

    def __getattr__(self, name):
        return getattr(self._module(), name)

    def __dir__(self):
        return dir(self._module())


os.environ.setdefault('NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS', '0')  # small grids are intended in a lesson
os.environ.setdefault('KINETO_LOG_LEVEL', '99')  # PyTorch's profiler prints nothing
numba_cuda.import_early()
gpu = backend() == 'gpu'
device = 'cuda' if gpu else 'cpu'
torch, plt = _LazyModule('torch'), _LazyModule('matplotlib.pyplot')
asm, cpp, draw, kernels, prof, ring, sim, tile = (
    _LazyModule(f'gridstride.{name}') for name in 'asm cpp draw kernels prof ring sim tile'.split()
)

__all__ = [
    *_names_of_utils,
    *('np', 'plt', 'torch'),
    *('inspect', 'json', 'math', 'os', 'random', 're', 'sys', 'time', 'cache', 'partial', 'zip_longest', 'Path'),
    *('asm', 'cpp', 'draw', 'kernels', 'plots', 'prof', 'ring', 'sim', 'tile'),
    *('cuda_kernel', 'load_cuda', 'on_emulator', 'show_source', 'side_by_side'),
    *('gpu', 'device'),
    *('exercise', 'hint', 'guess', 'guessed'),
    *('bench', 'ceilings', 'compare', 'Comparison', 'H100', 'roofline', 'Roofline'),
    *('occupancy', 'ptx', 'resources', 'sass', 'wavefronts'),
    *('changed', 'code_of', 'compare_variants', 'define', 'from_lesson', 'source_in'),
    *('recorded', 'recorded_file', 'on_gpu', 'print_on_gpu', 'made_on', 'Unavailable'),
    *('claim', 'claim_table', 'expected', 'EXPECTED', 'Table'),
]
