"""Triton where a GPU works, its kernels checked on the CPU elsewhere: importing this module gives what runs them here.

It says which, once, in one line. GRIDSTRIDE_BACKEND=sim or =gpu chooses; `gpu` without one is an error. Without a GPU
`triton.jit` makes a kernel that `gridstride.tile` runs; all else is Triton's own where it is installed, and where it
is not, `language`, `cdiv`, `next_power_of_2`, `Config`, `autotune` and `heuristics` are there."""

import sys
from importlib import import_module

from .utils import backend


def choose():
    "Return the module that runs Triton's kernels here, and where that is, in words"
    if backend() != 'gpu':
        return import_module('gridstride.tile.triton_shim').module(), 'checked, on the CPU'
    import torch

    return import_module('triton'), f'on the GPU, {torch.cuda.get_device_name()}'


sys.modules[__name__], _where = choose()  # the import system returns this entry
print(f"gridstride: Triton's kernels run {_where}")
