"""`numba.cuda` where a GPU works, the simulator elsewhere: importing this module gives the one that runs kernels here.

It says which, once, in one line. GRIDSTRIDE_BACKEND=sim or =gpu chooses; `gpu` without one is an error.
"""

import sys
from importlib import import_module

from .support.numba_cuda import import_numba_cuda
from .utils import backend


def choose():
    "Return the module that runs kernels here, and where that is, in words"
    if backend() != 'gpu':
        return import_module('gridstride.sim.cuda'), 'the simulator, on the CPU'
    cuda = import_numba_cuda()
    name = cuda.get_current_device().name
    return cuda, f'the GPU, {name.decode() if isinstance(name, bytes) else name}'


sys.modules[__name__], _where = choose()  # the import system returns this entry
print(f'gridstride: kernels run on {_where}')
