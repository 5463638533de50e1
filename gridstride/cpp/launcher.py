"""The compiled part of a launch, `launcher.cpp`: a module of Python's, built once for this Python and this torch.

In Python alone a launch costs many times what the driver takes for it. Without a compiler, Python's headers or a torch
that lends its tensors to C (2.10), kernels are launched all the same, by ctypes.
"""

import ctypes, sys, sysconfig
from functools import lru_cache, partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from .build import compiler
from .cache import build, run_command
from .driver import driver

_CUDA = 2  # DLPack's number for it
_FUNCTIONS = 'cuLaunchKernelEx', 'cuCtxGetDevice', 'cuTensorMapReplaceAddress'


class NoLauncher(RuntimeError):
    "Launches take the long way here, and why"


def _what_lacks(torch):
    "What the compiled launcher needs and has not got, or None"
    if sys.platform != 'linux':
        return 'it is made for Linux'
    if not hasattr(torch.Tensor, '__dlpack_c_exchange_api__'):
        return f'torch {torch.__version__} does not lend its tensors to C; torch 2.10 does'
    if not Path(sysconfig.get_path('include'), 'Python.h').exists():
        return 'the headers of Python are not here; `python3 course.py doctor` says how to get them'


def _build():
    "The module's file, compiled where it is not in the cache"
    import torch

    if why := _what_lacks(torch):
        raise NoLauncher(why)
    headers = [f'-I{sysconfig.get_path("include")}', f'-I{Path(torch.__file__).parent / "include"}']
    source = Path(__file__).with_suffix('.cpp').read_text()
    try:
        c = compiler()
        command = [c.path, '-std=c++17', '-O2', '-fPIC', '-shared', *headers, 'launcher.cpp', '-o', 'launcher.so']
        decides = c, sys.version, torch.__version__
        run = partial(run_command, what='preparing launches for this Python, once')
        built = build({'launcher.cpp': source}, [command], *decides, run=run, shared=True)
    except RuntimeError as e:
        raise NoLauncher(str(e).strip().splitlines()[-1]) from None
    return built.folder / 'launcher.so'


def load(
    where=_CUDA,  # DLPack's number of the kind of device on which tensors lie
    functions=None,  # addresses: of what launches, names the current device, moves a map, names the current stream
):
    "The compiled module, which launches by these functions from now on; `NoLauncher` says why there is none"
    import torch

    functions = functions or _of_the_driver()
    path = _build()
    loader = ExtensionFileLoader('launcher', str(path))
    module = module_from_spec(spec_from_file_location('launcher', path, loader=loader))
    module.setup(torch.Tensor, torch.nn.Parameter, where, *functions)
    return module


def _of_the_driver():
    "The addresses of the driver's functions; the current stream is asked of torch"
    try:
        return *(ctypes.cast(getattr(driver(), o), ctypes.c_void_p).value for o in _FUNCTIONS), 0
    except (OSError, AttributeError) as e:
        raise NoLauncher(str(e)) from None


@lru_cache
def launcher():
    "The compiled module for the GPU; None where there is none: `why_not` says why"
    try:
        return load()
    except NoLauncher:
        return None


def why_not():  # None if it is here
    "Why launches take the long way here"
    try:
        _build()
    except NoLauncher as e:
        return str(e)
