"""`%%cuda`: a cell of CUDA C."""

import argparse, shlex

from .kernel import Kernels, cuda_kernel
from .load import load_cuda
from .program import run
from .frontend.reader import host_functions
from ..support.short_tracebacks import shorten_traceback
from ..utils import cuda_begin


# A cell with a `main` is a program, which runs. Otherwise `load_cuda` compiles a cell with host functions,
# `cuda_kernel` compiles a cell with kernels alone, and each function or kernel becomes a Python variable of its name.
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
    p.add_argument('--unchecked', action='store_true', help='disable all detectors')
    p.add_argument('--sass', metavar='ARCH', help='show machine code and registers for sm_100a or another GPU')
    return p


def cuda(line, cell, namespace):
    "Compile the cell and define its functions in `namespace`"
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
