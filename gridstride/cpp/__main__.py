"""`python -m gridstride.cpp program.cu`: a whole CUDA program, with its own `main`, on the emulator."""

import argparse, sys
from pathlib import Path

from . import emulator
from .build import CompileError, CompilerMissing
from .edits import NotEmulated
from .program import run
from ..findings import KernelError


def _parser():
    p = argparse.ArgumentParser(
        prog='python -m gridstride.cpp', description='Compile and run a CUDA C program without a GPU.'
    )
    p.add_argument('file', type=Path)
    p.add_argument('args', nargs=argparse.REMAINDER, help="the program's own arguments")
    p.add_argument('--unchecked', action='store_true', help='do not look for races and stray accesses: faster')
    p.add_argument('--order', choices=emulator.ORDERS, default='forward', help='of blocks and threads')
    p.add_argument('--seconds', type=float, default=60, help='after which a kernel counts as endless')
    return p


def main(argv=None) -> int:  # exit status
    "What the command does: the program's own status, or 1 and what is wrong with it"
    p = _parser()
    a = p.parse_args(argv)
    try:
        src = a.file.read_text()
    except OSError as e:
        p.error(f'{a.file}: {e.strerror}')
    name = ''.join(c if c.isalnum() else '_' for c in a.file.stem)
    try:
        with emulator.options(order=a.order, seconds=a.seconds):
            return run(src, name, a.args, not a.unchecked, a.file.resolve().parent)
    except (KernelError, CompileError, CompilerMissing, NotEmulated, ValueError) as e:
        print(f'{type(e).__name__}: {e}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())
