"""Imports `numba.cuda` so that it works with every version of NumPy that Numba allows."""

import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec

import numpy as np

__all__ = ['replace_modules', 'import_numba_cuda', 'real_numba_cuda', 'import_early', 'is_simulated']


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


def import_early():
    "Import `numba.cuda` early if NumPy lacks a name that it uses, so that other code can import it later"
    if not hasattr(np, 'row_stack') and find_spec('numba'):
        with suppress(ImportError):
            import_numba_cuda()


_real_modules = {}  # Numba's modules, while those of the simulator replace them


def is_simulated():
    "Return whether `numba.cuda` is the simulator's module in this process"
    return _has_simulator(sys.modules)


def _has_simulator(modules):
    return getattr(modules.get('numba.cuda'), 'simulated', False)


def replace_modules(
    modules,  # name -> module
) -> dict:  # the modules that were replaced
    "Replace `numba.cuda` and all of its submodules by `modules`"
    if not _has_simulator(modules):  # Numba cannot register the types of a second copy of its modules
        modules = _real_modules | modules
    old_modules = {k: m for k, m in sys.modules.items() if k.split('.')[:2] == ['numba', 'cuda']}
    for k in old_modules:
        del sys.modules[k]
    sys.modules.update(modules)
    numba = sys.modules['numba']
    if 'numba.cuda' in modules:
        numba.cuda = modules['numba.cuda']
    elif hasattr(numba, 'cuda'):
        del numba.cuda
    if not _has_simulator(old_modules):
        _real_modules.update(old_modules)
    return old_modules


@contextmanager
def real_numba_cuda():
    "Restore the real `numba.cuda` in the `with` block, if the simulator has replaced it"
    if not is_simulated():
        yield
        return
    simulator_modules = replace_modules(_real_modules)
    try:
        yield
    finally:
        replace_modules(simulator_modules)
