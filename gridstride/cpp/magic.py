"""`%%cuda`: a cell of CUDA C."""

import argparse, shlex

from .kernel import Kernels, cuda_kernel
from .load import load_cuda
from .program import run
from .frontend.reader import host_functions
from ..support.short_tracebacks import briefly
from ..utils import cuda_begin


# A cell with host functions goes to `load_cuda`, one with kernels alone to `cuda_kernel`; a cell with
# a `main` is a program, and runs. What the cell defines gets a Python name.
class _Parser(argparse.ArgumentParser):
    "A parser that raises its errors: a wrong option must not end the notebook"

    def error(self, message):
        raise briefly(ValueError(f'%%cuda: {message}\n{self.format_usage()}'))


def _parser():
    p = _Parser(prog='%%cuda', add_help=False)
    p.add_argument(
        'name', nargs='?', help='what the module is called; its functions get names of their own if this is left out'
    )
    p.add_argument('--unchecked', action='store_true', help='do not look for races and stray accesses')
    return p


def cuda(line, cell, namespace):
    "Compile the cell and define its functions in `namespace`"
    parser = _parser()
    try:
        words = shlex.split(line)
    except ValueError as e:
        parser.error(e)
    args = parser.parse_args(words)
    checks = False if args.unchecked else None
    host = {f.name for f in host_functions(cell)}
    if 'main' in host:
        return run(cell, args.name or 'program', checks=checks)
    if not host:
        made = cuda_kernel(cell, checks=checks)
        found = dict(made) if isinstance(made, Kernels) else {made.__name__: made}
    else:
        made = load_cuda(cell, None if 'torch/extension.h' in cell else cuda_begin, checks=checks, name=args.name)
        found = made.functions
    namespace.update({args.name: made} if args.name else found)


def load_ipython_extension(shell):
    "Register the magic: `%load_ext gridstride.cpp`"
    shell.register_magic_function(lambda line, cell: cuda(line, cell, shell.user_ns), 'cell', 'cuda')
