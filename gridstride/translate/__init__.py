"""Kernels in Numba's dialect as CUDA C."""

from .kernel import Translation, to_cuda
from .source import Untranslatable

__all__ = ['Translation', 'to_cuda', 'Untranslatable']
