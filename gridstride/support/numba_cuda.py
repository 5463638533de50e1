"""`numba.cuda`, imported so that it works with every NumPy that Numba allows."""

import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec

import numpy as np

__all__ = ['exchange', 'import_numba_cuda', 'numbas_own', 'prepare', 'is_simulated']


# numba-cuda 0.30 names `np.row_stack` when it compiles its first kernel, and NumPy 2.5 has it no more. So it finds one
# while it is imported, all of it.
def import_numba_cuda():
    "Import the module `numba.cuda`; raises `ImportError` without it"
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
    "Let `from numba import cuda` in other people's code work from now on, even if NumPy lacks a name that Numba uses"
    if not hasattr(np, 'row_stack') and find_spec('numba'):
        with suppress(ImportError):
            import_numba_cuda()


_own = {}  # Numba's modules, while the simulator's stand for them


def is_simulated():
    "Return whether `numba.cuda` is the simulator's module in this process"
    return _simulated(sys.modules)


def _simulated(modules):
    return getattr(modules.get('numba.cuda'), 'simulated', False)


def exchange(
    modules,  # name -> module
) -> dict:  # what was there
    "Replace `numba.cuda` and all modules below it by `modules`"
    if not _simulated(modules):  # Numba's own are imported once: it refuses to register a second copy's types
        modules = _own | modules
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
        _own.update(old)
    return old


@contextmanager
def numbas_own():
    "Restore Numba's own `numba.cuda` in the `with` block, if the simulator's replaces it"
    if not is_simulated():
        yield
        return
    simulated = exchange(_own)
    try:
        yield
    finally:
        exchange(simulated)
