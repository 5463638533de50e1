"""`numba.cuda`, imported so that it works beside every NumPy that Numba allows."""

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

import numpy as np

__all__ = ['import_numba_cuda', 'prepare']


# numba-cuda 0.30 names `np.row_stack` when it compiles its first kernel, and NumPy 2.5 has it no more. So it finds one
# while it is imported, all of it.
def import_numba_cuda():
    "The module `numba.cuda`; `ImportError` without it"
    if hasattr(np, 'row_stack'):
        return import_module('numba.cuda')
    np.row_stack = lambda arrays: np.vstack(arrays)
    try:
        cuda = import_module('numba.cuda')
        with suppress(ImportError):  # Numba's own, of old, has no such module
            import_module('numba.cuda.np.arrayobj')
    finally:
        del np.row_stack
    return cuda


def prepare():
    "`from numba import cuda` of other people's code works from now on, too, where NumPy lacks what Numba names"
    if not hasattr(np, 'row_stack') and find_spec('numba'):
        with suppress(ImportError):
            import_numba_cuda()
