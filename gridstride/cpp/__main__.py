"""`python -m gridstride.cpp program.cu` runs a whole CUDA program, with its own `main`, on the emulator.

With `--launch`, it launches a kernel of a source that has no `main`."""

import argparse, ctypes, re, sys
from functools import partial
from pathlib import Path

from . import emulator
from .toolchain.build import CompileError
from .toolchain.compilers import CompilerMissing
from .frontend.edits import NotEmulated
from .program import run
from .ranks import end_with_launcher, run_ranks
from ..diagnostics.errors import KernelError
from ..support.lazy_exports import run_command

_SOURCES = '.cu', '.cpp', '.cc', '.cxx', '.c'


# (nvcc's flag, the extension that it enables, help)
_EXTENSIONS = (
    ('expt-relaxed-constexpr', 'constexpr', 'device code may call constexpr functions, as with nvcc'),
    ('extended-lambda', 'lambda', 'host code may define __device__ lambdas, as with nvcc'),
)


def _parser():
    p = argparse.ArgumentParser(
        prog='python -m gridstride.cpp', description='Compile and run a CUDA C program without a GPU.'
    )
    p.add_argument('file', type=Path, help='the program; its other source files may follow')
    p.add_argument('args', nargs=argparse.REMAINDER, help="the program's own arguments; after -- if one ends in .cu")
    p.add_argument('-I', dest='include', metavar='FOLDER', type=Path, action='append', default=[], help='header folder')
    p.add_argument('-D', dest='define', metavar='NAME[=VALUE]', action='append', default=[], help='a macro')
    for flag, extension, description in _EXTENSIONS:
        p.add_argument(f'--{flag}', f'-{flag}', dest=extension, action='store_true', help=description)
    p.add_argument('--unchecked', action='store_true', help='disable all checks, which is faster')
    p.add_argument('--checks', help=f'the checks to enable: {", ".join(emulator.CHECKS)}; or "no racecheck"')
    p.add_argument('--order', choices=emulator.ORDERS, default='forward', help='the order of blocks and threads')
    p.add_argument('--seed', type=int, help='the seed of the shuffled order')
    p.add_argument('--seconds', type=float, default=60, help='the time limit per kernel')
    p.add_argument(
        '--memory',
        metavar='SIZE',
        help='the size of device memory, such as 8G; default: GRIDSTRIDE_DEVICE_MEMORY, or the free memory',
    )
    p.add_argument('--devices', type=int, help='number of devices, 1 to 8; default: GRIDSTRIDE_DEVICES, or 1')
    p.add_argument(
        '--ranks',
        type=int,
        metavar='N',
        help='run N processes, 1 to 8, which find their RANK and WORLD_SIZE in the environment, as with torchrun',
    )
    p.add_argument('--leaks', action='store_true', help='report memory that was never freed; then the exit status is 1')
    g = p.add_argument_group('a file without a main')
    g.add_argument('--launch', metavar='KERNEL', help="launch this kernel, 'k<float>' for a template")
    g.add_argument('--size', type=int, default=1000, help='size of arrays and value of integers; default 1000')
    g.add_argument('--grid', type=_dims, metavar='X[,Y[,Z]]', help='blocks; default: as many as SIZE threads need')
    g.add_argument('--block', type=_dims, metavar='X[,Y[,Z]]', default=256, help='threads per block; default 256')
    g.add_argument('--arg', metavar='NAME=VALUE', action='append', default=[], help='a number, 32x48, or x.npy')
    g.add_argument('--args', dest='args_file', metavar='FILE', help='JSON: {"x": "x.npy", "out": [32, 48], "n": 48}')
    return p


def _dims(text):
    "Parse the size of a grid or of a block"
    sizes = tuple(map(int, text.split(',')))
    return sizes if len(sizes) > 1 else sizes[0]


def _launch(options, src):
    "Launch a kernel of a file without `main`; print the configuration first, because findings depend on its sizes"
    from .harness import launch, read_values

    values = read_values(options.arg, options.args_file)
    sizes = options.size, options.grid, options.block, options.seed or 0
    launch(src, options.launch, values, *sizes, False if options.unchecked else None, partial(print, flush=True))
    print('The launch ended, without checks.' if options.unchecked else 'No finding. Values were not checked.')
    return 0


def _split_files(options):
    "Return (source files, arguments of the program) of the parsed command line"
    num_files = next((i for i, arg in enumerate(options.args) if not arg.endswith(_SOURCES)), len(options.args))
    program_args = options.args[num_files:]
    if program_args[:1] == ['--']:
        program_args = program_args[1:]
    return [options.file, *map(Path, options.args[:num_files])], program_args


class _Leak(ctypes.Structure):
    "Memory that was never freed, as the runtime reports it: its size, and the line that allocated it"

    _fields_ = [('bytes', ctypes.c_size_t), ('line', ctypes.c_int)]


def _describe_leaks(sources):
    "Yield a line of text per allocation that the program did not free; `sources` are its texts"
    lines_of_files = [text.splitlines() for text in sources]
    leak, num_leaks = _Leak(), 0
    read_leak = emulator.load_runtime().gridstride_get_leak
    read_leak.restype = ctypes.c_bool
    while read_leak(num_leaks, ctypes.byref(leak)):
        num_leaks += 1
        summary = f'{leak.bytes:,} bytes are never freed'
        allocations = [
            lines_of_file[leak.line - 1].strip()
            for lines_of_file in lines_of_files
            if 0 < leak.line <= len(lines_of_file) and 'lloc' in lines_of_file[leak.line - 1]
        ]
        yield f'{summary}; line {leak.line}: {allocations[0]}' if allocations else summary


def _describe(error, files):
    "Return an error's message; a compile error contains the file's name as given on the command line"
    if not isinstance(error, CompileError):
        return str(error)
    path = next((path for path in files[1:] if Path(path).name == error.source_name), files[0])
    return re.sub(rf'(?<![\w.]){re.escape(error.source_name)}(?=, line )', lambda _: str(path), str(error))


def _without_ranks(command):
    "Return a command line without the option --ranks"
    i = next(i for i, word in enumerate(command) if word.split('=')[0] == '--ranks')
    return command[:i] + command[i + (1 if '=' in command[i] else 2) :]


def main(argv=None) -> int:  # exit status
    "Run the command; returns the program's exit status, or 1 after printing an error or a finding"
    end_with_launcher()
    p = _parser()
    options = p.parse_args(argv)
    files, args = _split_files(options)
    if '--launch' in args:
        p.error(f'options come before the file: python -m gridstride.cpp --launch KERNEL {options.file}')
    missing_folders = [path for path in options.include if not path.is_dir()]
    if missing := missing_folders or [path for path in files if not path.is_file()]:
        p.error(f'{missing[0]}: No such file or directory')
    src, *other_sources = [path.read_text(encoding='utf-8-sig', errors='replace') for path in files]
    units = {path.name: text for path, text in zip(files[1:], other_sources)}
    name = ''.join(c if c.isalnum() else '_' for c in options.file.stem)
    if {f'{name}.cpp', f'{name}.cu'} & units.keys():
        name += '_'
    if len(units) < len(other_sources):
        p.error('two of the source files have the same name')
    include = [path.resolve() for path in (*options.include, *(path.parent for path in files[1:]))]

    own_arguments = sys.argv[1:] if argv is None else list(argv)
    command = [sys.executable, '-m', 'gridstride.cpp', *own_arguments[: len(own_arguments) - len(args)]]

    def run_file():
        if options.ranks:
            return run_ranks([*_without_ranks(command), *args], options.ranks)
        limits = dict(seconds=options.seconds, memory=options.memory, devices=options.devices)
        with emulator.options(options.checks, options.order, options.seed, **limits):
            extensions = [extension for _, extension, _ in _EXTENSIONS if getattr(options, extension)]
            sources = dict(
                folder=options.file.resolve().parent,
                include=include,
                units=units,
                is_host_only=options.file.suffix != '.cu',
            )
            checks = False if options.unchecked else None
            return (
                _launch(options, src)
                if options.launch
                else run(
                    src, name, args, checks, command=command, defines=options.define, extensions=extensions, **sources
                )
            )

    status = report_errors(run_file, files)
    leaks = list(_describe_leaks([src, *other_sources])) if options.leaks else []
    print(*leaks, sep='\n', end='\n' if leaks else '', file=sys.stderr)
    return status or int(bool(leaks))


def report_errors(
    call,  # a function without arguments that returns an exit status
    files,  # of the program, as the command line names them
) -> int:  # exit status
    "Return the result of `call`, or 1 after printing an error or a finding"
    try:
        return call()
    except (KernelError, CompileError, CompilerMissing, NotEmulated, ValueError) as e:
        print(f'{type(e).__name__}: {_describe(e, files)}', file=sys.stderr)
        return 1
    except KeyboardInterrupt as e:
        print(e, file=sys.stderr)
        return 130  # as a shell reports a program that Ctrl-C has ended


if __name__ == '__main__':
    sys.exit(run_command(main))
