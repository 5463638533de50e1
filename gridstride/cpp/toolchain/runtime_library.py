"""The emulator's runtime: a shared library, compiled once per compiler."""

import os, threading
from functools import lru_cache
from pathlib import Path

from .cache import build, cpu, first_use, folder_of, headers_hash
from .compilers import ARCHIVES_INSIDE, common_flags, compiler, here


_one_runtime = threading.Lock()
os.register_at_fork(after_in_child=_one_runtime._at_fork_reinit)


def runtime() -> Path:  # a shared library
    "Return the emulator's runtime, compiled once; with OpenMP if the compiler has it"
    with _one_runtime:
        if not _runtime().exists():  # the cache was emptied meanwhile
            _runtime.cache_clear()
        return _runtime()


@lru_cache
def _runtime():
    try:
        return _runtime_with('-fopenmp')
    except RuntimeError:
        return _runtime_with()


_LIBRARY = 'libgridstride.so'


def _runtime_with(*more):
    return build(*_steps_of_runtime(*more), run=_run_here, shared=True).folder / _LIBRARY


def is_runtime_there():
    "Is the runtime compiled already?"
    return _runtime.cache_info().currsize or any(
        folder_of(*_steps_of_runtime(*options)).exists() for options in (['-fopenmp'], [])
    )


def _steps_of_runtime(*more):
    "Return the arguments of `build`: no sources, the commands, and what else decides the result"
    c = compiler()
    # a hook that crosses a line of the instruction cache costs up to a tenth more, and every access calls one
    flags = [*common_flags(c), *more, '-fvisibility=hidden', '-falign-functions=64']
    units = 'inside', 'around', 'border'
    compile_all = [[c.path, *flags, '-c', str(here / f'runtime/{unit}.cpp'), '-o', f'{unit}.o'] for unit in units]
    link = [
        c.path,
        *flags,
        '-shared',
        *(f'{unit}.o' for unit in units),
        '-o',
        _LIBRARY,
        '-ldl',
        '-pthread',
        *ARCHIVES_INSIDE,
    ]
    decides = c, cpu(), headers_hash(here / 'runtime'), headers_hash(here / 'include')
    return {}, [[_relocatable(command) for command in compile_all], _relocatable(link)], *decides


# The runtime is the same wherever the package is installed: another environment finds it in the cache.
_HERE = '{gridstride.cpp}'


def _relocatable(command):
    return [word.replace(str(here), _HERE) for word in command]


def _run_here(command, folder):
    return first_use([word.replace(_HERE, str(here)) for word in command], folder)


def prepare_runtime():
    "Build the runtime ahead of its first use; an error is raised where it is used"
    try:
        runtime()
    except RuntimeError:
        pass
