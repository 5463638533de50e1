"""`numba.cuda` on a machine with a working GPU, else the simulator: importing this module returns one of the two.

It prints its choice once. GRIDSTRIDE_BACKEND=sim or =gpu overrides it; `gpu` without a GPU is an error.
"""

import sys
from importlib import import_module

from .support.numba_cuda import import_numba_cuda
from .utils import backend


def choose_module():
    "Return (module that runs kernels, description of the device)"
    if backend() != 'gpu':
        return import_module('gridstride.sim.cuda'), 'the simulator, on the CPU'
    cuda = import_numba_cuda()
    name = cuda.get_current_device().name
    return cuda, f'the GPU, {name.decode() if isinstance(name, bytes) else name}'


sys.modules[__name__], _device = choose_module()  # the import system returns this entry
print(f'gridstride: kernels run on {_device}')
