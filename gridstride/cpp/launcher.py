"""Builds and loads the compiled launcher, `launcher.cpp` and `launcher_src`, once per version of Python and torch.

It is a Python extension module, because a launch in pure Python is many times slower than the driver. It needs a
compiler, Python's headers and a torch that exports its tensors to C (2.10); without them, ctypes launches kernels.
"""

import ctypes, sys, sysconfig
from functools import lru_cache, partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path

from .toolchain.compilers import compiler
from .toolchain.cache import build, run_command
from .driver import driver

_CUDA = 2  # DLPack's code for CUDA
_FUNCTIONS = (
    'cuLaunchKernelEx',
    'cuCtxGetDevice',
    'cuTensorMapReplaceAddress',
    'cuMemsetD8Async',
    'cuStreamIsCapturing',
)

# Private functions of torch that `kernels.matmul` calls at each launch. If a later version of torch lacks one, all
# launches take the slow path, which uses none of them.
_PRIVATE_NAMES = (
    '_C._len_torch_dispatch_stack',
    '_C._functorch.peek_interpreter_stack',
    '_C._dynamo.guards._empty_strided_cuda',
    'autograd.forward_ad._current_level',
)


class NoLauncher(RuntimeError):
    "The compiled launcher cannot be used, so launches take the slow path; the message states the reason"


def _missing_requirement(torch):
    "Return the reason why the compiled launcher cannot be built here; None if it can"
    if sys.platform != 'linux':
        return 'it supports only Linux'
    if not hasattr(torch.Tensor, '__dlpack_c_exchange_api__'):
        return f'torch {torch.__version__} does not export its tensors to C; torch 2.10 does'
    if missing_name := next((name for name in _PRIVATE_NAMES if not torch_has(name)), None):
        return f'torch {torch.__version__} has no torch.{missing_name}, which each call of matmul uses'
    if not Path(sysconfig.get_path('include'), 'Python.h').exists():
        return "Python's headers are missing; `python -m gridstride.course.doctor` shows how to get them"


def torch_has(name: str) -> bool:  # such as '_C._functorch'
    "Return whether this torch has `torch.NAME`"
    import torch

    try:
        attrgetter(name)(torch)
        return True
    except AttributeError:
        return False


def _build():
    "Compile the module unless it is in the cache; return the path of its file"
    import torch

    if reason := _missing_requirement(torch):
        raise NoLauncher(reason)
    headers = [f'-I{sysconfig.get_path("include")}', f'-I{Path(torch.__file__).parent / "include"}']
    folder = Path(__file__).parent
    sources = {path.name: path.read_text() for path in (folder / 'launcher.cpp', *folder.glob('launcher_src/*.h'))}
    try:
        cpp_compiler = compiler()
        command = [
            cpp_compiler.path,
            '-std=c++17',
            '-O2',
            '-fPIC',
            '-shared',
            *headers,
            'launcher.cpp',
            '-o',
            'launcher.so',
        ]
        key = cpp_compiler, sys.version, torch.__version__
        run = partial(run_command, description='compiling the launcher for this Python, once')
        entry = build(sources, [command], *key, run=run, shared=True)
    except (RuntimeError, OSError) as e:
        raise NoLauncher(_main_error(str(e))) from None
    return entry.folder / 'launcher.so'


def _main_error(log):
    "Return the first error of a compiler's log, else its last line"
    lines = log.strip().splitlines()
    return next((line for line in lines if 'error: ' in line), lines[-1])


def load(
    device_type=_CUDA,  # of tensors, DLPack's code
    functions=None,  # addresses of `_FUNCTIONS`, and of a function that returns the current stream
):
    "Load the compiled module, which calls these functions; raise `NoLauncher` if that fails"
    import torch

    functions = functions or _driver_functions()
    path = _build()
    try:
        loader = ExtensionFileLoader('launcher', str(path))
        module = module_from_spec(spec_from_file_location('launcher', path, loader=loader))
        module.setup(torch.Tensor, torch.nn.Parameter, _mode_functions(torch), device_type, *functions)
    except (ImportError, AttributeError, ValueError) as e:
        raise NoLauncher(f'the compiled launcher does not load: {e}') from None
    return module


def _mode_functions(torch):
    "Return the functions that report torch's modes (gradients, dispatch modes, transforms), and those of forward AD"
    transform = torch._C._functorch.peek_interpreter_stack
    return torch.is_grad_enabled, torch._C._len_torch_dispatch_stack, transform, vars(torch.autograd.forward_ad)


def _driver_functions():
    "Return the addresses of the driver's functions; the current stream comes from torch"
    try:
        return *(ctypes.cast(getattr(driver(), name), ctypes.c_void_p).value for name in _FUNCTIONS), 0
    except (OSError, AttributeError) as e:
        raise NoLauncher(str(e)) from None


@lru_cache
def _load_once():
    "Return (the compiled module for the GPU or None, the reason or None)"
    try:
        return load(), None
    except NoLauncher as e:
        return None, str(e)


@lru_cache  # called at each launch
def launcher():
    "Return the compiled module for the GPU, or None; `no_launcher_reason` returns the reason"
    return _load_once()[0]


def no_launcher_reason():
    "Return the reason why launches take the slow path, in one line; None if they do not"
    return _load_once()[1]
