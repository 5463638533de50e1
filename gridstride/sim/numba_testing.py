"""`numba.cuda.testing`: the names that tests of other packages import.

Its decorators skip the same tests as in Numba's own simulator: those that need a compiler or a driver."""

import unittest
from importlib.util import find_spec
from pathlib import Path

__all__ = [  # and the test classes, which `__getattr__` creates
    'ForeignArray',
    'cc_X_or_above',
    'cudadevrt_missing',
    'ensure_supported_ccs_initialized',
    'skip_if_cuda_includes_missing',
    'skip_if_cudadevrt_missing',
    'skip_if_curand_kernel_missing',
    'skip_if_external_memmgr',
    'skip_if_mvc_enabled',
    'skip_if_mvc_libraries_unavailable',
    'skip_if_nvjitlink_missing',
    'skip_on_arm',
    'skip_on_cudasim',
    'skip_on_nvjitlink_13_1_sm_120',
    'skip_on_standalone_numba_cuda',
    'skip_on_wsl2',
    'skip_under_cuda_memcheck',
    'skip_unless_cc_50',
    'skip_unless_cc_53',
    'skip_unless_cc_60',
    'skip_unless_cc_75',
    'skip_unless_cc_90',
    'skip_unless_conda_cudatoolkit',
    'skip_unless_cudasim',
    'skip_with_cuda_python',
    'skip_with_nvdisasm',
    'skip_without_nvdisasm',
    'unittest',
    'xfail_unless_cudasim',
]


def _base_test_case():
    "Return the base class of Numba's tests, which adds assertions; without Numba, `unittest.TestCase`"
    try:
        from numba.tests.support import TestCase
    except ImportError:
        return unittest.TestCase
    return TestCase


def __getattr__(name):
    "Create the test classes, or locate Numba's test data, at first use, because this imports Numba's tests"
    if name == 'test_data_dir' and (numba := find_spec('numba')):
        return Path(numba.origin).parent / 'cuda' / 'tests' / 'data'
    if name not in ('CUDATestCase', 'ContextResettingTestCase'):
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    attributes = dict(FLOAT16_RTOL=2.0**-10, skip_if_lto=lambda self, reason: None)
    case = type('CUDATestCase', (_base_test_case(),), attributes)
    globals().update(CUDATestCase=case, ContextResettingTestCase=type('ContextResettingTestCase', (case,), {}))
    return globals()[name]


class ForeignArray:
    "An array of another library, which exposes only its `__cuda_array_interface__`"

    def __init__(self, array):
        self._array = array  # owns the memory
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def _skip(reason):
    return unittest.skip(reason)


def _run(reason=None):
    "Return a decorator that leaves a test unchanged; if called without a reason, return the test itself"
    return reason if callable(reason) else lambda test: test


skip_on_cudasim = skip_without_nvdisasm = skip_unless_conda_cudatoolkit = skip_if_nvjitlink_missing = _skip
skip_unless_cudasim = skip_if_external_memmgr = skip_under_cuda_memcheck = skip_with_nvdisasm = _run
skip_on_arm = skip_on_wsl2 = skip_on_nvjitlink_13_1_sm_120 = skip_if_mvc_enabled = skip_with_cuda_python = _run
skip_unless_cc_50 = skip_unless_cc_53 = skip_unless_cc_60 = skip_unless_cc_75 = skip_unless_cc_90 = _run
skip_if_cudadevrt_missing = skip_on_standalone_numba_cuda = xfail_unless_cudasim = _run
skip_if_cuda_includes_missing = skip_if_curand_kernel_missing = unittest.skip('the simulator has no CUDA C compiler')
skip_if_mvc_libraries_unavailable = unittest.skip('the simulator has no driver')


def cc_X_or_above(major, minor):
    "Return True: every compute capability is supported"
    return True


def cudadevrt_missing():
    "Return False: no library is needed"
    return False


def ensure_supported_ccs_initialized():
    "Do nothing: there is no compiler to initialize"
