"""`load_cuda`: compiles CUDA C with host functions for a GPU or the emulator, and exports them to Python."""

import os, re, signal, threading
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from . import emulator, open_libraries
from .toolchain.build import CONSTRUCTORS_MARKER, ORIGINALS_FOLDER, CompileError, compile_native, emulate
from .driver import arch, forward_printf, warn_unchecked
from .frontend.reader import functions, host_functions, not_on_host_error
from .rewriters.rewrite import strip_line_directives
from .frontend.tokens import WrongSource
from .values import FINDING, Library
from ..diagnostics.settings import checks_to_compile, parse_checks
from ..support.parameter_docs import documented
from ..utils import backend, cuda_begin


_SUFFIXES = '.cu', '.cpp', '.cuh', '.h', '.hpp'


class Module(Library):
    "A compiled source: its functions (see `Library`), and the files that were compiled"

    def __init__(self, build_result, name, declarations, emulated, src=None):
        self.build_result, self.src = build_result, src  # src: the CUDA C that was passed to `load_cuda`
        super().__init__(build_result.folder / f'{name}.so', declarations, emulated, name)
        self.build_directory = str(build_result.folder)
        self.seconds = build_result.seconds
        self.cached = build_result.cached
        self.command = '\n'.join(' '.join(command) for command in build_result.commands)

    def sources(self) -> dict:  # file name -> text
        "Return the source of each compiled file; that of a learner's header is from before rewriting"
        folder = Path(self.build_directory)
        if not folder.is_dir():  # the cache was emptied
            return {f'{self.__name__}.cu': self.src or ''}
        originals = {
            p.relative_to(folder / ORIGINALS_FOLDER).as_posix(): p for p in (folder / ORIGINALS_FOLDER).rglob('*')
        }
        files = {p.name: p for p in sorted(folder.iterdir())} | originals
        return {k: p.read_text() for k, p in files.items() if p.is_file() and (k in originals or p.suffix in _SUFFIXES)}


device_lock = threading.RLock()  # only one thread at a time may call the emulated device
os.register_at_fork(after_in_child=device_lock._at_fork_reinit)  # another thread may have held it


def forward_interrupt(error):
    "Send SIGINT to the main thread if `error` is a Ctrl-C that ended a launch in another thread, so that both stop"
    main = threading.main_thread()
    is_elsewhere = isinstance(error, KeyboardInterrupt) and threading.current_thread() is not main
    if is_elsewhere and callable(signal.getsignal(signal.SIGINT)):
        signal.pthread_kill(main.ident, signal.SIGINT)


@contextmanager
def _lock_for_loading():
    "Unload modules without references, then lock the device in the `with` block, which loads a module"
    open_libraries.collect_garbage()
    with device_lock:
        open_libraries.unload(emulator.load_runtime().gridstride_unload)
        yield


def open_emulated(
    path: str,  # of a shared library
) -> open_libraries.OpenLibrary:
    "Load a library for the emulator; it stays loaded as long as the returned object is referenced"
    with _lock_for_loading():
        return open_libraries.open_library(path, True)


class EmulatorModule(Module):
    """A module whose kernels run on the emulator.

    Before each call, it passes the enabled checks to the runtime; after the call, it raises the runtime's finding."""

    def __init__(self, build_result, name, declarations, checks, src=None):
        self.build_directory, self.__name__, self.src = str(build_result.folder), name, src  # `sources` needs them
        with _lock_for_loading():  # loading also creates its __device__ variables
            if (build_result.folder / CONSTRUCTORS_MARKER).exists() and not open_libraries.is_open(
                path := build_result.folder / f'{name}.so'
            ):
                emulator.try_to_load(path, self.sources)
            super().__init__(build_result, name, declarations, True, src)
        self.checks, self._finding_of_thread = checks, threading.local()

    def call(self, entry, call):
        with device_lock:
            emulator.prepare(self.checks, sources=self.sources)
            emulator.defer_call(self.sources, self.checks)
            code = super().call(entry, call)
            if code == FINDING:
                self._finding_of_thread.error = emulator.last_exception(self.sources())
                forward_interrupt(self._finding_of_thread.error)
            else:
                emulator.raise_pending_error()
            return code

    def error_of_finding(self, function):
        return self._finding_of_thread.error


class GpuModule(Module):
    "A module whose kernels run on a GPU; `has_printf`: whether the source calls printf"

    def __init__(self, build_result, name, declarations, has_printf, src):
        super().__init__(build_result, name, declarations, False, src)
        self.has_printf = has_printf

    def call(self, entry, call):
        with forward_printf(self.has_printf):
            return super().call(entry, call)


class _Source(NamedTuple):
    "A source to compile: CUDA C, the C++ before it, the functions to export, and the module's name"

    cuda_src: str  # the learner's lines
    cpp_src: str  # or None
    functions: list
    name: str
    arguments: tuple  # CUDA C and the C++ before it, as passed to `load_cuda`

    @property
    def text(self):
        "Return the complete source, with `#line` directives so that messages name the learner's lines"
        if not self.cpp_src:
            return self.cuda_src
        return f'#line 1 "{self.name}.cpp"\n{self.cpp_src}\n#line 1 "{self.name}.cu"\n{self.cuda_src}'

    @property
    def exports(self):
        "Return C++ code that exports the functions"
        names = {f.name: f'{f.scope}::{f.name}' if f.scope else f.name for f in self.functions}
        return ' '.join(f'GRIDSTRIDE_EXPORT_AS({k}, {v})' for k, v in names.items())

    @property
    def declarations(self):
        "Return {name: declaration}, with the first declaration of an overloaded function"
        return {f.name: f.signature for f in reversed(self.functions)}


@documented
def load_cuda(
    cuda_src: str,  # CUDA C, with host functions that launch its kernels
    cpp_src=None,  # C++ to put before it, such as declarations
    funcs=None,  # names of the functions for Python; None: all host functions that are not static or inline
    opt=True,  # whether to optimize
    verbose=False,  # whether to print the commands
    name=None,  # of the module; None: the first function's
    checks=None,  # True, False, 'racecheck, memcheck', or a list; None: all, if `options` enable any
) -> Module:  # its attributes are the functions; they take and return torch tensors
    """Compile `cuda_src` for the GPU, or for the emulator if there is none; raises `CompileError` with the lines.

    Line 1 is the first line of `cuda_src` after `cuda_begin`.

    Example: `m = load_cuda(src); y = m.square(x)`"""
    checks = parse_checks(checks)
    source = _make_source(cuda_src, cpp_src, funcs, name)
    flags = () if opt else ('-O0',)
    if backend() == 'gpu':
        return _compile_for_gpu(source, flags, verbose, checks)
    checks = checks_to_compile(checks)
    options = dict(original=source.cuda_src, extensions=('constexpr', 'lambda'), suffix=f'\n{source.exports}\n')
    build_result = emulate(source.text, source.name, bool(checks), flags, **options)
    if verbose:
        _print_commands(build_result, source.name)
    emulator.load_runtime()
    return EmulatorModule(build_result, source.name, source.declarations, checks, source.arguments[0])


# The lectures wrap calls of the CUDA runtime in this macro.
_CUDA_ERR = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#define CUDA_ERR(call) do { \
    cudaError_t cuda_err = (call); \
    TORCH_CHECK(cuda_err == cudaSuccess, #call ": ", cudaGetErrorString(cuda_err)); \
} while (0)
"""


def _make_source(cuda_src, cpp_src, funcs, name):
    "Return the `_Source` for the arguments of `load_cuda`"
    arguments = cuda_src, cpp_src
    for parameter, src in zip(('cuda_src', 'cpp_src'), arguments):
        if not isinstance(src, str if parameter == 'cuda_src' else (str, type(None))):
            raise TypeError(
                f"{parameter} must be source text, not {type(src).__name__}; name functions with funcs=['f', 'g']"
            )
    cuda_src, cpp_src = strip_line_directives(cuda_src), cpp_src and cpp_src.removeprefix('\ufeff')
    if 'CUDA_ERR(' in cuda_src and '#define CUDA_ERR' not in f'{cpp_src}{cuda_src}':
        cpp_src = f'{cpp_src or ""}{_CUDA_ERR}'
    if cuda_src.startswith(cuda_begin):
        cpp_src, cuda_src = f'{cpp_src or ""}{cuda_begin}', cuda_src.removeprefix(cuda_begin)
    exported_functions = _choose_functions(functions(f'{cpp_src}\n#line 1\n{cuda_src}' if cpp_src else cuda_src), funcs)
    return _Source(cuda_src, cpp_src, exported_functions, _module_name(name, exported_functions), arguments)


def _choose_functions(functions, funcs):
    "Choose the functions to export: those named by `funcs`; for None, all host functions with external linkage"
    candidates = [f for f in functions if f.is_host]
    if funcs is not None:
        names = [funcs] if isinstance(funcs, str) else list(funcs)
        for name in names:
            if not any(f.name == name for f in candidates):
                raise not_on_host_error(name, functions)
        return [f for f in candidates if f.name in names]
    exported_functions = [
        f for f in candidates if f.name != 'main' and not f.template and not f.specifiers & {'inline', 'static'}
    ]
    if not exported_functions:
        problem = 'this source has no host function that Python could call'
        raise WrongSource(
            f'{problem}. Write a host function that launches the kernel, or pass the source to cuda_kernel'
        )
    return exported_functions


def _module_name(name, functions):
    if name is None:
        return functions[0].name
    if not re.fullmatch(r'\w+', name):
        raise ValueError(f'name must contain only letters, digits and _, because it names a file; got {name!r}')
    return name


def _print_commands(build_result, name):
    print(*(' '.join(command) for command in build_result.commands), sep='\n')
    origin = 'found in the cache' if build_result.cached else f'built in {build_result.seconds:.2f} s'
    print(f'{build_result.folder / name}.so: {origin}')


# Our headers replace torch's, which take a minute to compile, on a GPU, too. If a source uses ATen features that they
# lack, torch's `load_inline` compiles it, and a message reports this.
_ATEN = re.compile(r'\b(torch|at|c10|pybind11|ATen)\b|Tensor')


def _compile_for_gpu(source, flags, verbose, checks):
    if checks:
        warn_unchecked()
    try:
        build_result = compile_native(f'{source.text}\n{source.exports}\n', source.name, arch(), flags, source.cuda_src)
    except CompileError as e:
        if not any(_ATEN.search(error.message) for error in e.errors):
            raise
        return _compile_by_torch(source, flags, verbose, e)
    if verbose:
        _print_commands(build_result, source.name)
    return GpuModule(build_result, source.name, source.declarations, 'printf' in source.text, source.arguments[0])


def _compile_by_torch(source, flags, verbose, error):
    "Compile with torch's `load_inline`; if that fails, too, raise `error`, the error with our own headers"
    from torch.utils.cpp_extension import load_inline

    missing_feature = error.errors[0].message if error.errors else 'see the log'
    problem = f"{source.name}: gridstride's headers lack a feature of ATen ({missing_feature})"
    print(f"{problem}; compiling with torch's load_inline instead, which takes a minute")
    cuda_src = source.arguments[0]
    cpp_src = source.arguments[1] or ''
    names = [f.name for f in source.functions]
    signatures = [f'{f.signature};' for f in host_functions(cuda_src) if f.name in names]
    declarations = '\n'.join([cpp_src, *(signature for signature in signatures if signature not in cpp_src)])
    sources = dict(cpp_sources=[declarations], cuda_sources=[cuda_src], functions=names)
    options = dict(extra_cuda_cflags=list(flags) or ['-O2'], verbose=verbose)
    try:
        return load_inline(f'{source.name}_aten', **sources, **options)
    except RuntimeError:
        raise error from None
