"""`load_cuda`: CUDA C as the lecture writes it, on a GPU and without one."""

import os, re, signal, threading
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from . import emulator, loaded
from .toolchain.build import CONSTRUCTS, ORIGINALS, CompileError, emulate, native
from .driver import arch, show_prints, warn_unchecked
from .frontend.reader import functions, host_functions, not_on_host
from .rewriters.rewrite import without_line_numbers
from .frontend.tokens import WrongSource
from .values import FINDING, Library
from ..diagnostics.settings import checks_to_compile, parse_checks
from ..utils import backend, cuda_begin


_SUFFIXES = '.cu', '.cpp', '.cuh', '.h', '.hpp'


class Module(Library):
    "A compiled source: its functions (see `Library`), and the files that were compiled"

    def __init__(self, built, name, declarations, emulated, src=None):
        self.built, self.src = built, src  # src: CUDA C as `load_cuda` got it
        super().__init__(built.folder / f'{name}.so', declarations, emulated, name)
        self.build_directory = str(built.folder)
        self.seconds = built.seconds
        self.cached = built.cached
        self.command = '\n'.join(' '.join(command) for command in built.commands)

    def sources(self) -> dict:  # file name -> text
        "Return the files that were compiled, the source as it was given, and headers as they were written"
        folder = Path(self.build_directory)
        if not folder.is_dir():  # the cache was emptied
            return {f'{self.__name__}.cu': self.src or ''}
        originals = {p.relative_to(folder / ORIGINALS).as_posix(): p for p in (folder / ORIGINALS).rglob('*')}
        files = {p.name: p for p in sorted(folder.iterdir())} | originals
        return {k: p.read_text() for k, p in files.items() if p.is_file() and (k in originals or p.suffix in _SUFFIXES)}


# Before each call the emulator's runtime must know which checks are enabled; its finding becomes an
# exception.
one_at_a_time = threading.RLock()  # there is one emulated device
os.register_at_fork(after_in_child=one_at_a_time._at_fork_reinit)  # another thread may have held it


def pass_on_ctrl_c(error):
    "Pass on a Ctrl-C that has ended a launch of this thread to the main thread, and end a system call that waits there"
    main = threading.main_thread()
    is_elsewhere = isinstance(error, KeyboardInterrupt) and threading.current_thread() is not main
    if is_elsewhere and callable(signal.getsignal(signal.SIGINT)):
        signal.pthread_kill(main.ident, signal.SIGINT)


@contextmanager
def _loading():
    "Load a module in the `with` block: first, modules without references are unloaded"
    loaded.collect()
    with one_at_a_time:
        loaded.unload(emulator.device().gridstride_unload)
        yield


def open_emulated(
    path: str,  # of a shared library
) -> loaded.OpenLibrary:
    "Load a library for the emulator; it stays loaded as long as the returned object is referenced"
    with _loading():
        return loaded.opened(path, True)


class Emulated(Module):
    "A module whose kernels run on the emulator"

    def __init__(self, built, name, declarations, checks, src=None):
        self.build_directory, self.__name__, self.src = str(built.folder), name, src  # `sources` needs them
        with _loading():  # its __device__ variables are created
            if (built.folder / CONSTRUCTS).exists() and not loaded.is_open(path := built.folder / f'{name}.so'):
                emulator.try_to_load(path, self.sources)
            super().__init__(built, name, declarations, True, src)
        self.checks, self._found = checks, threading.local()

    def call(self, entry, call):
        with one_at_a_time:
            emulator.prepare(self.checks)
            code = super().call(entry, call)
            if code == FINDING:
                self._found.error = emulator.last_exception(self.sources())
                pass_on_ctrl_c(self._found.error)
            else:
                emulator.raise_refused()
            return code

    def finding(self, function):
        return self._found.error


class OnGPU(Module):
    "A module whose kernels run on a GPU; `prints`: do they print?"

    def __init__(self, built, name, declarations, prints, src):
        super().__init__(built, name, declarations, False, src)
        self.prints = prints

    def call(self, entry, call):
        with show_prints(self.prints):
            return super().call(entry, call)


class _Source(NamedTuple):
    "The source to compile: CUDA C, the C++ before it, the functions to export, and the module's name"

    cuda_src: str  # the learner's lines
    cpp_src: str  # or None
    functions: list
    name: str
    given: tuple  # CUDA C and the C++ before it, as passed to `load_cuda`

    @property
    def text(self):
        "Return all of it, in which every line knows its number and its file"
        if not self.cpp_src:
            return self.cuda_src
        return f'#line 1 "{self.name}.cpp"\n{self.cpp_src}\n#line 1 "{self.name}.cu"\n{self.cuda_src}'

    @property
    def exports(self):
        "Return C++ that exports the functions"
        names = {f.name: f'{f.scope}::{f.name}' if f.scope else f.name for f in self.functions}
        return ' '.join(f'GRIDSTRIDE_EXPORT_AS({k}, {v})' for k, v in names.items())

    @property
    def declarations(self):
        "Return {name: declaration}, the first of overloads"
        return {f.name: f.signature for f in reversed(self.functions)}


def load_cuda(
    cuda_src: str,  # CUDA C, with host functions that launch its kernels
    cpp_src=None,  # declarations (or more C++) to put before it; not needed
    funcs=None,  # names of the functions for Python; None: all host functions that are not static or inline
    opt=True,  # optimise?
    verbose=False,  # print the commands?
    name=None,  # of the module; None: the first function's
    checks=None,  # which checks: True, False, 'racecheck, memcheck', a list; None: all, if `options` enable any
) -> Module:  # its attributes are the functions; they take and return torch tensors
    """Compile `cuda_src` for the GPU, or for the emulator if there is none; raises `CompileError` that shows the line.

    Lines are counted from the first of `cuda_src`, without `cuda_begin`.

    Example: `m = load_cuda(src); y = m.square(x)`"""
    checks = parse_checks(checks)
    source = _read(cuda_src, cpp_src, funcs, name)
    flags = () if opt else ('-O0',)
    if backend() == 'gpu':
        return _on_gpu(source, flags, verbose, checks)
    checks = checks_to_compile(checks)
    how = dict(original=source.cuda_src, takes=('constexpr', 'lambda'), suffix=f'\n{source.exports}\n')
    built = emulate(source.text, source.name, bool(checks), flags, **how)
    if verbose:
        _print_commands(built, source.name)
    emulator.device()
    return Emulated(built, source.name, source.declarations, checks, source.given[0])


# The lectures' macro around a call of the CUDA runtime
_CUDA_ERR = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#define CUDA_ERR(call) do { \
    cudaError_t cuda_err = (call); \
    TORCH_CHECK(cuda_err == cudaSuccess, #call ": ", cudaGetErrorString(cuda_err)); \
} while (0)
"""


def _read(cuda_src, cpp_src, funcs, name):
    "Make the `_Source` for the arguments of `load_cuda`"
    given = cuda_src, cpp_src
    for what, src in zip(('cuda_src', 'cpp_src'), given):
        if not isinstance(src, str if what == 'cuda_src' else (str, type(None))):
            given_as = type(src).__name__
            raise TypeError(f"{what} is source as text, not {given_as}; functions are named by funcs=['f', 'g']")
    cuda_src, cpp_src = without_line_numbers(cuda_src), cpp_src and cpp_src.removeprefix('\ufeff')
    if 'CUDA_ERR(' in cuda_src and '#define CUDA_ERR' not in f'{cpp_src}{cuda_src}':
        cpp_src = f'{cpp_src or ""}{_CUDA_ERR}'
    if cuda_src.startswith(cuda_begin):
        cpp_src, cuda_src = f'{cpp_src or ""}{cuda_begin}', cuda_src.removeprefix(cuda_begin)
    found = _choose(functions(f'{cpp_src}\n#line 1\n{cuda_src}' if cpp_src else cuda_src), funcs)
    return _Source(cuda_src, cpp_src, found, _name(name, found), given)


def _choose(every, funcs):
    "Choose the functions to export: the ones in `funcs`, or all that a caller could mean"
    known = [f for f in every if f.on_host]
    if funcs is not None:
        names = [funcs] if isinstance(funcs, str) else list(funcs)
        for name in names:
            if not any(f.name == name for f in known):
                raise not_on_host(name, every)
        return [f for f in known if f.name in names]
    found = [f for f in known if f.name != 'main' and not f.template and not f.words & {'inline', 'static'}]
    if not found:
        what = 'this source has no host function that Python could call'
        raise WrongSource(f'{what}. Write a host function that launches the kernel, or give the source to cuda_kernel')
    return found


def _name(name, functions):
    if name is None:
        return functions[0].name
    if not re.fullmatch(r'\w+', name):
        raise ValueError(f'name is {name!r}; it names a file, so it may have letters, digits and _ only')
    return name


def _print_commands(built, name):
    print(*(' '.join(command) for command in built.commands), sep='\n')
    print(f'{built.folder / name}.so: ' + ('was there already' if built.cached else f'built in {built.seconds:.2f} s'))


# On a GPU the interface to tensors is ours as well, because torch's own headers take a minute. If they
# are really needed, torch's `load_inline` compiles them, and one line reports that.
_ATEN = re.compile(r'\b(torch|at|c10|pybind11|ATen)\b|Tensor')


def _on_gpu(source, flags, verbose, checks):
    if checks:
        warn_unchecked()
    try:
        built = native(f'{source.text}\n{source.exports}\n', source.name, arch(), flags, source.cuda_src)
    except CompileError as e:
        if not any(_ATEN.search(error.what) for error in e.errors):
            raise
        return _by_torch(source, flags, verbose, e)
    if verbose:
        _print_commands(built, source.name)
    return OnGPU(built, source.name, source.declarations, 'printf' in source.text, source.given[0])


def _by_torch(source, flags, verbose, error):
    "Compile by `load_inline`; if that fails, too, raise `error`"
    from torch.utils.cpp_extension import load_inline

    what = error.errors[0].what if error.errors else 'see the log'
    needs = f"{source.name}: needs more of ATen than gridstride's interface has ({what})"
    print(f"{needs}; torch's load_inline compiles it, which takes a minute")
    cuda_src = source.given[0]
    before = source.given[1] or ''
    names = [f.name for f in source.functions]
    signatures = [f'{f.signature};' for f in host_functions(cuda_src) if f.name in names]
    declared = '\n'.join([before, *(signature for signature in signatures if signature not in before)])
    sources = dict(cpp_sources=[declared], cuda_sources=[cuda_src], functions=names)
    how = dict(extra_cuda_cflags=list(flags) or ['-O2'], verbose=verbose)
    try:
        return load_inline(f'{source.name}_aten', **sources, **how)
    except RuntimeError:
        raise error from None
