"""`python -m gridstride.cpp program.cu`: a whole CUDA program, with its own `main`, on the emulator."""

import argparse, re, shutil, sys, tempfile
from pathlib import Path

from . import emulator
from .build import CompileError, CompilerMissing, emulate
from .load import Emulated
from .edits import NotEmulated
from .rewrite import to_cpp
from ..findings import KernelCrash, KernelError
from ..options import CHECKS, parse_checks


# The program's `main` is called like any function of a library, so that a crash in it can be told.
_ENTRY = r'''
#ifdef __APPLE__
extern "C" int gs_program(int, char **) __asm__("_main");
#else
extern "C" int gs_program(int, char **) __asm__("main");
#endif
static int gs_run(std::vector<std::string> words) {
    std::vector<char *> argv;
    for (auto &o : words) argv.push_back(o.data());
    argv.push_back(nullptr);
    return gs_program(int(words.size()), argv.data());
}
GRIDSTRIDE_EXPORT(gs_run)
'''


def run(
    src: str,  # a program in CUDA C
    name,  # what it is called
    args=(),  # its arguments
    checks=True,  # what to look for, as `cuda_kernel` takes it
    folder=None,  # with headers of its own; None: the current one
) -> int:  # what `main` returned
    "Compile a program for the emulator and run it; `CompileError` or a `KernelError` says what is wrong with it"
    checks = CHECKS if checks is None else parse_checks(checks)
    built = emulate(to_cpp(src) + _ENTRY, name, bool(checks), original=src, folder=folder)
    emulator.device()
    with tempfile.TemporaryDirectory() as folder:  # a copy, so that its variables are new even if it has run before
        shutil.copytree(built.folder, folder, dirs_exist_ok=True)
        try:
            return Emulated(built._replace(folder=Path(folder)), name, {}, checks).gs_run([name, *args])
        except KernelCrash as e:
            if e.block is None and (m := re.search(r'exit\((-?\d+)\) was called', str(e))):
                return int(m[1])
            raise


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
