"""The compiled part of a launch, `launcher.cpp`: a module of Python's, built once for this Python and this torch.

In Python alone a launch costs many times what the driver takes for it. Without a compiler, Python's headers or a torch
that lends its tensors to C (2.10), kernels are launched all the same, by ctypes.
"""

import ctypes, sys, sysconfig
from functools import lru_cache, partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path

from .toolchain.build import compiler
from .toolchain.cache import build, run_command
from .driver import driver

_CUDA = 2  # DLPack's number for it
_FUNCTIONS = 'cuLaunchKernelEx', 'cuCtxGetDevice', 'cuTensorMapReplaceAddress'

# What `kernels.matmul` asks of torch at each call, by names that are torch's own. Where a later version has dropped
# one, nothing is known of what it stood for, and all launches take the long way, which asks for none of them.
_ASKED = (
    '_C._len_torch_dispatch_stack',
    '_C._functorch.peek_interpreter_stack',
    '_C._dynamo.guards._empty_strided_cuda',
    'autograd.forward_ad._current_level',
)


class NoLauncher(RuntimeError):
    "Launches take the long way here, and why"


def _what_lacks(torch):
    "What the compiled launcher needs and has not got, or None"
    if sys.platform != 'linux':
        return 'it is made for Linux'
    if not hasattr(torch.Tensor, '__dlpack_c_exchange_api__'):
        return f'torch {torch.__version__} does not lend its tensors to C; torch 2.10 does'
    if gone := next((o for o in _ASKED if not torch_has(o)), None):
        return f'torch {torch.__version__} has no torch.{gone}, which each call of matmul would ask'
    if not Path(sysconfig.get_path('include'), 'Python.h').exists():
        return 'the headers of Python are not here; `python -m gridstride.course.doctor` says how to get them'


def torch_has(name: str) -> bool:  # such as '_C._functorch'
    "Whether this torch has what it calls `torch.NAME`"
    import torch

    try:
        attrgetter(name)(torch)
        return True
    except AttributeError:
        return False


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
    except (RuntimeError, OSError) as e:
        raise NoLauncher(_gist(str(e))) from None
    return built.folder / 'launcher.so'


def _gist(log):
    "The first error of a compiler, else the last line"
    lines = log.strip().splitlines()
    return next((o for o in lines if 'error: ' in o), lines[-1])


def load(
    where=_CUDA,  # DLPack's number of the kind of device on which tensors lie
    functions=None,  # addresses: of what launches, names the current device, moves a map, names the current stream
):
    "The compiled module, which launches by these functions from now on; `NoLauncher` says why there is none"
    import torch

    functions = functions or _of_the_driver()
    path = _build()
    try:
        loader = ExtensionFileLoader('launcher', str(path))
        module = module_from_spec(spec_from_file_location('launcher', path, loader=loader))
        module.setup(torch.Tensor, torch.nn.Parameter, where, *functions)
    except (ImportError, AttributeError, ValueError) as e:
        raise NoLauncher(f'the compiled launcher does not load: {e}') from None
    return module


def _of_the_driver():
    "The addresses of the driver's functions; the current stream is asked of torch"
    try:
        return *(ctypes.cast(getattr(driver(), o), ctypes.c_void_p).value for o in _FUNCTIONS), 0
    except (OSError, AttributeError) as e:
        raise NoLauncher(str(e)) from None


@lru_cache
def _load_once():
    "(the compiled module for the GPU or None, why there is none or None)"
    try:
        return load(), None
    except NoLauncher as e:
        return None, str(e)


@lru_cache  # asked at each launch
def launcher():
    "The compiled module for the GPU; None where there is none: `why_not` says why"
    return _load_once()[0]


def why_not():  # None if it is here
    "Why launches take the long way here, in one line"
    return _load_once()[1]
