"""Fourier transforms of emulated programs that call cuFFT; NumPy computes them."""

import ctypes

import numpy as np


class _Transform(ctypes.Structure):
    "`gridstride_transform` of include/cuda/runtime.h"

    _fields_ = [
        ('source', ctypes.c_void_p),
        ('target', ctypes.c_void_p),
        ('rank', ctypes.c_int),
        ('batch', ctypes.c_int),
        ('sizes', ctypes.c_int * 3),
        ('is_double', ctypes.c_int),
        ('is_complex_in', ctypes.c_int),
        ('is_complex_out', ctypes.c_int),
        ('direction', ctypes.c_int),
    ]


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Transform))


def _array_at(address, shape, is_complex, is_double):
    "Return the memory at an address as an array"
    dtype = np.dtype(('c' if is_complex else 'f') + str((8 if is_double else 4) * (2 if is_complex else 1)))
    memory = (ctypes.c_char * (int(np.prod(shape)) * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def compute(
    request,  # a `_Transform`
):
    "Compute a batch of transforms as cuFFT does: unnormalized in both directions"
    sizes = tuple(request.sizes[: request.rank])
    half = *sizes[:-1], sizes[-1] // 2 + 1
    is_complex = request.is_complex_in and request.is_complex_out
    shape_in = sizes if is_complex or not request.is_complex_in else half
    shape_out = sizes if is_complex or not request.is_complex_out else half
    x = _array_at(request.source, (request.batch, *shape_in), request.is_complex_in, request.is_double)
    out = _array_at(request.target, (request.batch, *shape_out), request.is_complex_out, request.is_double)
    axes = tuple(range(1, request.rank + 1))
    if not request.is_complex_in:
        out[:] = np.fft.rfftn(x, axes=axes)
    elif not request.is_complex_out:
        out[:] = np.fft.irfftn(x, sizes, axes, norm='forward')
    elif request.direction < 0:
        out[:] = np.fft.fftn(x, axes=axes)
    else:
        out[:] = np.fft.ifftn(x, axes=axes, norm='forward')
