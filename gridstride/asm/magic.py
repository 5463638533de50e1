"""`%%cuda --sass sm_100a`: the machine code of a cell's kernels, for any GPU that NVIDIA's compiler knows."""

from .report import resources, sass
from ..cpp import magic
from ..cpp.frontend.reader import kernels


def show_sass(cell, arch):
    "Display the registers and the SASS of each kernel in a cell of CUDA C, next to its source lines"
    from IPython.display import display

    for name in dict.fromkeys(kernel.name for kernel in kernels(cell)):
        display(resources(cell, name=name, arch=arch), sass(cell, name=name, arch=arch))


def load_ipython_extension(shell):
    "Register `%%cuda` with the option `--sass`: `%load_ext gridstride.asm`"
    magic.show_sass = show_sass
    magic.load_ipython_extension(shell)
