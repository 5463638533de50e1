"""Imports `numba.cuda` so that it works with every version of NumPy that Numba allows."""

import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec

import numpy as np

__all__ = ['exchange', 'import_numba_cuda', 'real_numba_cuda', 'prepare', 'is_simulated']


# numba-cuda 0.30 uses `np.row_stack` when it compiles its first kernel, but NumPy 2.5 has removed it. So all modules
# that use it are imported here, while it exists.
def import_numba_cuda():
    "Import the module `numba.cuda`; raises `ImportError` without it"
    if hasattr(np, 'row_stack'):
        return import_module('numba.cuda')
    np.row_stack = lambda arrays: np.vstack(arrays)
    try:
        cuda = import_module('numba.cuda')
        with suppress(ImportError):  # older versions of Numba do not have this module
            import_module('numba.cuda.np.arrayobj')
    finally:
        del np.row_stack
    return cuda


def prepare():
    "Let `from numba import cuda` in other code work from now on, even if NumPy lacks a name that Numba uses"
    if not hasattr(np, 'row_stack') and find_spec('numba'):
        with suppress(ImportError):
            import_numba_cuda()


_real_modules = {}  # Numba's modules, while the simulator's replace them


def is_simulated():
    "Return whether `numba.cuda` is the simulator's module in this process"
    return _simulated(sys.modules)


def _simulated(modules):
    return getattr(modules.get('numba.cuda'), 'simulated', False)


def exchange(
    modules,  # name -> module
) -> dict:  # the modules that were replaced
    "Replace `numba.cuda` and all modules below it by `modules`"
    if not _simulated(modules):  # Numba refuses to register the types of a second copy of its modules
        modules = _real_modules | modules
    old = {k: m for k, m in sys.modules.items() if k.split('.')[:2] == ['numba', 'cuda']}
    for k in old:
        del sys.modules[k]
    sys.modules.update(modules)
    numba = sys.modules['numba']
    if 'numba.cuda' in modules:
        numba.cuda = modules['numba.cuda']
    elif hasattr(numba, 'cuda'):
        del numba.cuda
    if not _simulated(old):
        _real_modules.update(old)
    return old


@contextmanager
def real_numba_cuda():
    "Restore the real `numba.cuda` in the `with` block, if the simulator's replaces it"
    if not is_simulated():
        yield
        return
    simulated = exchange(_real_modules)
    try:
        yield
    finally:
        exchange(simulated)
