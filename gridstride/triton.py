"""Triton on a machine with a working GPU, else kernels that are checked on the CPU: importing this module returns one.

It prints its choice once. GRIDSTRIDE_BACKEND=sim or =gpu overrides it; `gpu` without a GPU is an error. Without a GPU,
`triton.jit` makes a kernel that `gridstride.tile` runs. All other names are Triton's if it is installed; otherwise
there are `language`, `cdiv`, `next_power_of_2`, `Config`, `autotune` and `heuristics`."""

import sys
from importlib import import_module

from .utils import backend


def choose_module():
    "Return (module that runs Triton's kernels, description of the device)"
    if backend() != 'gpu':
        return import_module('gridstride.tile.triton_shim').module(), 'checked, on the CPU'
    import torch

    return import_module('triton'), f'on the GPU, {torch.cuda.get_device_name()}'


sys.modules[__name__], _device = choose_module()  # the import system returns this entry
print(f"gridstride: Triton's kernels run {_device}")
