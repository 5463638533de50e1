"""Compiles and runs a whole CUDA program, with its own `main`, on the emulator."""

import os, re, shlex, shutil, subprocess, tempfile
from contextlib import contextmanager
from pathlib import Path

from . import emulator
from .toolchain.build import emulate
from .load import EmulatorModule
from .rewriters.rewrite import strip_line_directives
from ..diagnostics.errors import KernelCrash
from ..diagnostics.settings import checks_to_compile


# The program's `main` is called like any function of a library, so that a crash in it can be reported. Its arguments
# are one string, each with a terminating 0: code that receives a list of strings is longer than a small program.
_ENTRY = r'''
#ifdef __APPLE__
extern "C" int gs_program(int, char **) __asm__("_main");
#else
extern "C" int gs_program(int, char **) __asm__("main");
#endif
static int gs_run(std::string arguments, int n) {
    ::gridstride::handle_assertions(%s);
    cudaGetLastError();  // clears the error of an earlier program in this process
    char *next = arguments.data(), **argv = static_cast<char **>(__builtin_alloca((n + 1) * sizeof next));
    for (int i = 0; i < n; i++) argv[i] = next, next += __builtin_strlen(next) + 1;
    argv[n] = nullptr;
    return gs_program(n, argv);
}
GRIDSTRIDE_EXPORT(gs_run)
'''


def _describe_undefined(symbol):
    "Describe the linker error for a symbol that no file of the program defines"
    name = symbol
    if shutil.which('c++filt'):
        name = subprocess.run(['c++filt', symbol], capture_output=True, text=True).stdout.strip() or symbol
    problem = (
        f'no file of the program defines {name}: pass all of its files, as in `python -m gridstride.cpp a.cu b.cu`'
    )
    hint_for_main = '; without a main, launch a kernel: `python -m gridstride.cpp --launch KERNEL a.cu`'
    return problem + hint_for_main * (name == 'main')


def run(
    src: str,  # a program in CUDA C
    name,  # of the program
    args=(),  # command line arguments of the program
    checks=None,  # as for `compile_program`
    command=(),  # runs this program again, without its arguments, if it executes itself (`execvp(argv[0], ...)`)
    **options,  # as for `compile_program`
) -> int:  # the exit status
    "Compile a program for the emulator and run it; raises `CompileError`, or `KernelError` for a finding"
    build_result, checks = compile_program(src, name, checks, **options)
    with _executable_name(name, command):
        return run_compiled(build_result, name, [name, *args], checks)


@contextmanager
def _executable_name(name, command):
    "Let the program find itself by its name, in a folder of PATH, in the `with` block"
    if not command:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, name)
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        script.chmod(0o755)
        previous = os.environ.get('PATH', '')
        os.environ['PATH'] = f'{folder}{os.pathsep}{previous}'
        try:
            yield
        finally:
            os.environ['PATH'] = previous


def compile_program(
    src: str,
    name,
    checks=None,  # the checks to enable, as for `cuda_kernel`
    folder=None,  # of the program's own headers; None: the current folder
    include=(),  # other folders of headers
    defines=(),  # macros: 'NAME' or 'NAME=VALUE'
    units=(),  # dict: file name -> text of the other source files, each a translation unit
    is_host_only=False,  # whether the first file is a `.cpp`, which nvcc passes to the host's compiler
    extensions=(),  # of 'constexpr' and 'lambda': those of nvcc's --expt-relaxed-constexpr and --extended-lambda
    flags=(),  # of the C++ compiler
) -> tuple:  # (`BuildResult`, the checks to enable)
    "Compile a program for the emulator; raises `CompileError`"
    checks = checks_to_compile(checks)
    prefix = f'#undef __CUDACC__\n#undef __NVCC__\n#line 1 "{name}.cu"\n' if is_host_only else ''
    options = dict(folder=folder, include=include, units=units, extensions=extensions, defines=defines)
    handles_assertions = any('cudaErrorAssert' in text for text in (src, *dict(units).values()))
    options.update(original=src, prefix=prefix, suffix=_ENTRY % str(handles_assertions).lower())
    return emulate(strip_line_directives(src), name, bool(checks), [*flags, '-I.'], **options), checks


def run_compiled(
    build_result,  # of `compile_program`
    name,  # of the program
    argv,  # of `main`
    checks,  # the checks to enable
) -> int:  # the exit status
    "Run a compiled program; raises `KernelError` for a finding"
    # Runs a copy: a library at a new path is loaded separately, so its variables are initialized again.
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(build_result.folder, copy, dirs_exist_ok=True)
        emulator.load_runtime().gridstride_set_module_folder(os.fsencode(copy))
        try:
            module = EmulatorModule(build_result._replace(folder=Path(copy)), name, {}, checks)
            return module.gs_run(''.join(f'{arg}\0' for arg in argv), len(argv))
        except OSError as e:
            if m := re.search(r'undefined symbol: (\S+)', str(e)):
                raise ValueError(_describe_undefined(m[1])) from None
            raise
        except KernelCrash as e:
            if e.block is None and (m := re.search(r'exit\((-?\d+)\) was called', str(e))):
                return int(m[1])
            raise
