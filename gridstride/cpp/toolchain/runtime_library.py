"""Builds the emulator's runtime, which is a shared library, once per compiler."""

import os, sys, threading, zlib
from functools import lru_cache
from pathlib import Path

from .cache import build, cpu_key, run_one_time_build, entry_folder, headers_hash
from .compilers import STATIC_LIBRARY_FLAGS, common_flags, compiler, CPP_FOLDER


_lock = threading.Lock()
os.register_at_fork(after_in_child=_lock._at_fork_reinit)


def runtime() -> Path:  # a shared library
    "Return the path of the emulator's runtime, built if needed; with OpenMP if the compiler supports it"
    with _lock:
        if not _runtime().exists():  # the cache was emptied since the last call
            _runtime.cache_clear()
        return _runtime()


@lru_cache
def _runtime():
    try:
        return _build_runtime('-fopenmp')
    except RuntimeError:
        return _build_runtime()


_LIBRARY = 'libgridstride.so'


def _build_runtime(*flags):
    return build(*_build_arguments(*flags), run=_run_in_package, shared=True).folder / _LIBRARY


def runtime_is_built():
    "Return whether the runtime is already built"
    return _runtime.cache_info().currsize or any(
        entry_folder(*_build_arguments(*options)).exists() for options in (['-fopenmp'], [])
    )


_ABI_HEADERS = 'cuda/finding.h', 'cuda/runtime.h', 'torch/gridstride/call.h'


def abi_checksum() -> int:
    """Return a checksum of the headers whose structures, enumerations and functions Python and the runtime share.

    It is not cached: a process that runs while the package is updated must notice that the headers have changed. 0 in a
    browser, where the compiler has the headers, and loads no other runtime."""
    if sys.platform == 'emscripten':
        return 0
    headers = [(CPP_FOLDER / 'include' / name).read_bytes() for name in _ABI_HEADERS]
    return zlib.crc32(b'\0'.join(headers)) & 0x7FFFFFFF


def _build_arguments(*extra_flags):
    "Return the positional arguments of `build`: no sources, the commands, and the other parts of the key"
    c = compiler()
    # Every access calls a hook. A hook that crosses an instruction cache line takes up to 10% more time.
    flags = [*common_flags(c), *extra_flags, '-fvisibility=hidden', '-falign-functions=64']
    flags.append(f'-DGRIDSTRIDE_ABI_CHECKSUM={abi_checksum()}')
    extra_flags_of_unit = {'unit_launch': (), 'unit_access': (), 'unit_rare': ('-O1',), 'unit_python': ()}
    compile_commands = [
        [c.path, *flags, *unit_flags, '-c', str(CPP_FOLDER / f'runtime/{unit}.cpp'), '-o', f'{unit}.o']
        for unit, unit_flags in extra_flags_of_unit.items()
    ]
    link = [
        c.path,
        *flags,
        '-shared',
        *(f'{unit}.o' for unit in extra_flags_of_unit),
        '-o',
        _LIBRARY,
        '-ldl',
        '-pthread',
        *STATIC_LIBRARY_FLAGS,
    ]
    key = c, cpu_key(), headers_hash(CPP_FOLDER / 'runtime'), headers_hash(CPP_FOLDER / 'include')
    return {}, [[_relocatable(command) for command in compile_commands], _relocatable(link)], *key


# The commands in the key do not contain the path of the package, so that all environments share one runtime.
_PACKAGE_FOLDER = '{gridstride.cpp}'


def _relocatable(command):
    "Replace the path of the package in a command with a placeholder"
    return [argument.replace(str(CPP_FOLDER), _PACKAGE_FOLDER) for argument in command]


def _run_in_package(command, folder):
    "Run a command that `_relocatable` returned"
    return run_one_time_build([argument.replace(_PACKAGE_FOLDER, str(CPP_FOLDER)) for argument in command], folder)


def prepare_runtime():
    "Build the runtime before its first use; an error is ignored here, because the first use raises it"
    try:
        runtime()
    except RuntimeError:
        pass
