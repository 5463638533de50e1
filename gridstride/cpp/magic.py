"""`%%cuda`: a cell of CUDA C."""

import argparse, shlex

from .kernel import Kernels, cuda_kernel
from .load import load_cuda
from .program import run
from .frontend.reader import host_functions
from ..support.short_tracebacks import shorten_traceback
from ..utils import cuda_begin


show_sass = None  # the function (cell, architecture) that `%load_ext gridstride.asm` sets


class _Parser(argparse.ArgumentParser):
    "A parser that raises `ValueError` where argparse would exit, so that a wrong option does not end the notebook"

    def error(self, message):
        raise shorten_traceback(ValueError(f'%%cuda: {message}\n{self.format_usage()}'))


def _parser():
    p = _Parser(prog='%%cuda', add_help=False)
    p.add_argument(
        'name', nargs='?', help='the Python name of the module; without it, each function becomes a Python variable'
    )
    p.add_argument('--unchecked', action='store_true', help='disable all checks: data races, memory, barriers')
    p.add_argument('--sass', metavar='ARCH', help='show SASS and register usage for an architecture, such as sm_100a')
    return p


def cuda(line, cell, namespace):
    """Compile a cell, and run it or bind its functions to Python variables.

    A cell that defines `main` is compiled and run as a program. Another cell is compiled with `load_cuda` if it has
    host functions, and with `cuda_kernel` if it has only kernels. Each function is then bound to the variable of the
    same name in `namespace`, or, if the line has a name, the module is bound to that name."""
    parser = _parser()
    try:
        arguments = shlex.split(line)
    except ValueError as e:
        parser.error(e)
    args = parser.parse_args(arguments)
    if args.sass and not show_sass:
        parser.error('--sass needs %load_ext gridstride.asm')
    checks = False if args.unchecked else None
    host_names = {f.name for f in host_functions(cell)}
    if args.sass:
        show_sass(cell, args.sass)
    if 'main' in host_names:
        return run(cell, args.name or 'program', checks=checks)
    if not host_names:
        module = cuda_kernel(cell, checks=checks)
        functions = dict(module) if isinstance(module, Kernels) else {module.__name__: module}
    else:
        module = load_cuda(cell, None if 'torch/extension.h' in cell else cuda_begin, checks=checks, name=args.name)
        functions = module.functions
    namespace.update({args.name: module} if args.name else functions)


def load_ipython_extension(shell):
    "Register the magic: `%load_ext gridstride.cpp`"
    shell.register_magic_function(lambda line, cell: cuda(line, cell, shell.user_ns), 'cell', 'cuda')
