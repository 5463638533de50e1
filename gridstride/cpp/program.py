"""A whole CUDA program, with its own `main`, on the emulator."""

import re, shutil, subprocess, tempfile
from pathlib import Path

from . import emulator
from .toolchain.build import emulate
from .load import Emulated
from .rewriters.rewrite import without_line_numbers
from ..diagnostics.errors import KernelCrash
from ..diagnostics.settings import checks_to_compile


# The program's `main` is called like any function of a library, so that a crash in it can be reported.
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


def _missing(symbol):
    "Report a function or variable that no file defines"
    name = symbol
    if shutil.which('c++filt'):
        name = subprocess.run(['c++filt', symbol], capture_output=True, text=True).stdout.strip() or symbol
    return f'no file of the program defines {name}: name them all, as in `python -m gridstride.cpp a.cu b.cu`'


def run(
    src: str,  # a program in CUDA C
    name,  # its name
    args=(),  # its arguments
    checks=None,  # which checks, as for `cuda_kernel`
    folder=None,  # with headers of its own; None: the current one
    include=(),  # more such folders
    defines=(),  # macros: 'NAME' or 'NAME=VALUE'
    units=(),  # dict: file name -> text of other files that belong to it, compiled each by itself
    host=False,  # is the first file a `.cpp`, which nvcc gives to the host's compiler?
    takes=(),  # 'constexpr', 'lambda': as nvcc with --expt-relaxed-constexpr, --extended-lambda
) -> int:  # what `main` returned
    "Compile a program for the emulator and run it; raises `CompileError` or a `KernelError` for what is wrong with it"
    checks = checks_to_compile(checks)
    not_nvcc = f'#undef __CUDACC__\n#undef __NVCC__\n#line 1 "{name}.cu"\n' if host else ''
    how = dict(folder=folder, include=include, units=units, takes=takes, defines=defines)
    how.update(original=src, prefix=not_nvcc, suffix=_ENTRY)
    built = emulate(without_line_numbers(src), name, bool(checks), ['-I.'], **how)
    emulator.device()
    with tempfile.TemporaryDirectory() as folder:  # a copy, so that its variables are new in each run
        shutil.copytree(built.folder, folder, dirs_exist_ok=True)
        try:
            return Emulated(built._replace(folder=Path(folder)), name, {}, checks).gs_run([name, *args])
        except OSError as e:
            if m := re.search(r'undefined symbol: (\S+)', str(e)):
                raise ValueError(_missing(m[1])) from None
            raise
        except KernelCrash as e:
            if e.block is None and (m := re.search(r'exit\((-?\d+)\) was called', str(e))):
                return int(m[1])
            raise
