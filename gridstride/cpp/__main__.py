"""`python -m gridstride.cpp program.cu`: a whole CUDA program, with its own `main`, on the emulator."""

import argparse, ctypes, sys
from pathlib import Path

from . import emulator
from .toolchain.build import CompileError
from .toolchain.compilers import CompilerMissing
from .frontend.edits import NotEmulated
from .program import run
from ..diagnostics.errors import KernelError

_SOURCES = '.cu', '.cpp', '.cc', '.cxx', '.c'


_TAKES = (
    ('expt-relaxed-constexpr', 'constexpr', 'constexpr functions run on the GPU, too, as with nvcc'),
    ('extended-lambda', 'lambda', 'lambdas of the host may be those of the GPU, as with nvcc'),
)


def _parser():
    p = argparse.ArgumentParser(
        prog='python -m gridstride.cpp', description='Compile and run a CUDA C program without a GPU.'
    )
    p.add_argument('file', type=Path, help='the program; more source files may follow, which belong to it')
    p.add_argument('args', nargs=argparse.REMAINDER, help="the program's own arguments; after -- if one ends in .cu")
    p.add_argument('-I', dest='include', metavar='FOLDER', type=Path, action='append', default=[], help='of headers')
    p.add_argument('-D', dest='define', metavar='NAME[=VALUE]', action='append', default=[], help='a macro')
    for name, short, what in _TAKES:
        p.add_argument(f'--{name}', f'-{name}', dest=short, action='store_true', help=what)
    p.add_argument('--unchecked', action='store_true', help='do not look for races and stray accesses: faster')
    p.add_argument('--checks', help=f'the detectors to enable: {", ".join(emulator.CHECKS)}; or "no racecheck"')
    p.add_argument('--order', choices=emulator.ORDERS, default='forward', help='of blocks and threads')
    p.add_argument('--seed', type=int, help='of the shuffled order')
    p.add_argument('--seconds', type=float, default=60, help='after which a kernel counts as endless')
    p.add_argument('--memory', metavar='SIZE', help='of the device: 8G; else GRIDSTRIDE_DEVICE_MEMORY, or what is free')
    p.add_argument(
        '--leaks', action='store_true', help='report what was allocated and never freed; then the status is 1'
    )
    return p


def _split(a):
    "Split the command line into (source files, arguments of the program)"
    n = next((i for i, arg in enumerate(a.args) if not arg.endswith(_SOURCES)), len(a.args))
    own = a.args[n:]
    return [a.file, *map(Path, a.args[:n])], own[1:] if own[:1] == ['--'] else own


class _Leak(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_size_t), ('line', ctypes.c_int)]


def _leaks(files):
    "Describe the memory that the program did not free; `files`: {file name: text}"
    lines = [path.splitlines() for path in files]
    leak, n = _Leak(), 0
    left = emulator.device().gridstride_left
    left.restype = ctypes.c_bool
    while left(n, ctypes.byref(leak)):
        n += 1
        what = f'{leak.bytes:,} bytes are never freed'
        asks = [
            line[leak.line - 1].strip()
            for line in lines
            if 0 < leak.line <= len(line) and 'lloc' in line[leak.line - 1]
        ]
        yield f'{what}; line {leak.line}: {asks[0]}' if asks else what


def main(argv=None) -> int:  # exit status
    "Run the command; returns the program's exit status, or 1 after printing what is wrong with it"
    p = _parser()
    a = p.parse_args(argv)
    files, args = _split(a)
    if gone := [path for path in a.include if not path.is_dir()] or [path for path in files if not path.is_file()]:
        p.error(f'{gone[0]}: No such file or directory')
    src, *others = [path.read_text(encoding='utf-8-sig', errors='replace') for path in files]
    units = {line.name: text for line, text in zip(files[1:], others)}
    name = ''.join(c if c.isalnum() else '_' for c in a.file.stem)
    if {f'{name}.cpp', f'{name}.cu'} & units.keys():
        name += '_'
    if len(units) < len(others):
        p.error('two of the source files have one name')
    include = [path.resolve() for path in (*a.include, *(path.parent for path in files[1:]))]
    try:
        with emulator.options(a.checks, a.order, a.seed, seconds=a.seconds, memory=a.memory):
            where = a.file.resolve().parent, include, a.define, units, a.file.suffix != '.cu'
            takes = [short for _, short, _ in _TAKES if getattr(a, short)]
            status = run(src, name, args, False if a.unchecked else None, *where, takes)
    except (KernelError, CompileError, CompilerMissing, NotEmulated, ValueError) as e:
        print(f'{type(e).__name__}: {e}', file=sys.stderr)
        return 1
    except KeyboardInterrupt as e:
        print(e, file=sys.stderr)
        return 130  # as a shell reports a program that Ctrl-C has ended
    found = list(_leaks([src, *others])) if a.leaks else []
    print(*found, sep='\n', end='\n' if found else '', file=sys.stderr)
    return status or int(bool(found))


if __name__ == '__main__':
    sys.exit(main())
