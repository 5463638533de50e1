"""Determines which functions belong to the C library, which only host code can call.

A list of names would be incomplete, so this module looks up the symbols of the library: an exported function is a host
function, unless device code has it, too.
"""

import ctypes
import re
from functools import lru_cache

_LIBRARIES = 'libc.so.6', 'libpthread.so.0', 'librt.so.1', 'libdl.so.2', 'libSystem.dylib'

# names that device code has as well: functions of CUDA, and `sync` and `wait` of cooperative groups
_ALSO_IN_DEVICE_CODE = set(
    'abs clock copysign copysignf finite finitef free frexp frexpf isinf isinff isnan isnanf labs ldexp ldexpf llabs '
    'malloc memcpy memset modf modff printf scalbn scalbnf signbit sync wait'.split()
)
_PUBLIC = re.compile(r'[a-zA-Z]\w*|_[eE]xit')  # other names with _ are internal
_POSIX = re.compile(r'pthread_\w+|sem_\w+|fe(?:clear|get|hold|raise|set|test|update)(?:except(?:flag)?|env|round)')


@lru_cache
def _load_libraries():
    "Open the libraries of `_LIBRARIES` that this machine has"
    libraries = []
    for name in _LIBRARIES:
        try:
            libraries.append(ctypes.CDLL(name))
        except OSError:
            pass
    return libraries


@lru_cache(4096)
def is_host_function(
    name: str,  # of a function
) -> bool:
    "Return whether a function belongs to the C library, and device code cannot call it"
    if name in _ALSO_IN_DEVICE_CODE or not _PUBLIC.fullmatch(name):
        return False
    return bool(_POSIX.fullmatch(name)) or any(hasattr(library, name) for library in _load_libraries())


_END_THREAD = 'write `return`, or `__trap()` to end the launch'
_GENERATE_NUMBERS = 'use <curand_kernel.h>, or random numbers that the host has generated'
_SLEEP = 'write `__nanosleep(ns)`'
_READ_CLOCK = 'write `clock64()`'
_PRINT = 'write `printf`'
_WRITE_LOOP = 'write a loop'
_CALL_ON_HOST = 'call it in host code, and pass what the kernel needs as an argument'
_ALTERNATIVES = [  # pattern of functions -> what to write instead
    (r'_?exit|_Exit|quick_exit|at_quick_exit|atexit', _END_THREAD),
    (r'abort|raise|kill|pthread_(?:exit|kill|cancel)', 'write `__trap()` to end the launch'),
    (r's?rand(?:om|_r)?|[delmnj]rand48', _GENERATE_NUMBERS),
    (r'u?sleep|nanosleep|clock_nanosleep|pause|sched_yield|pthread_yield', _SLEEP),
    (r'time|clock_gettime|gettimeofday|ftime|times', _READ_CLOCK),
    (r'[vdf]*printf|f?puts|f?putc(?:har)?|fwrite|write|perror|putw', _PRINT),
    (r'mem(?:move|cmp|chr)|bcmp|bzero|str\w+|wcs\w+|qsort|bsearch|ffsl?', _WRITE_LOOP),
    (r'calloc|realloc|aligned_alloc|posix_memalign', 'write `malloc`'),
]


def alternative_to(
    name: str,  # of a host function
) -> str:
    "Return what to write instead of a call of this host function in device code, as an imperative"
    return next((alternative for pattern, alternative in _ALTERNATIVES if re.fullmatch(pattern, name)), _CALL_ON_HOST)
