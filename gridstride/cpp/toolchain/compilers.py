"""Compilers: which there are, and the flags with which they compile for the emulator."""

import os, platform, re, shutil, subprocess, sys
from collections import namedtuple
from functools import lru_cache
from pathlib import Path


here = Path(__file__).parents[1]


# `CXX` names one; otherwise it is the first that is installed.
class CompilerMissing(RuntimeError):
    "There is no C++ compiler, or no nvcc where one is needed"


class Compiler(namedtuple('Compiler', 'path kind version text')):
    "A C++ compiler: its path, 'gcc' or 'clang', its major version, and the text that it prints for its version"


_OLDEST = dict(gcc=8, clang=5)  # the first with -std=c++17


@lru_cache
def _compiler(names):
    for name in names:
        path = shutil.which(name)
        if not path:
            continue
        text = subprocess.run([path, '--version'], capture_output=True, text=True).stdout
        kind = 'clang' if 'clang' in text else 'gcc'
        version = subprocess.run([path, '-dumpversion'], capture_output=True, text=True).stdout.strip()
        if m := re.match(r'\d+', version):
            return Compiler(path, kind, int(m[0]), text)


_C_TO_CPP = dict(gcc='g++', clang='clang++', cc='c++')


def _for_cpp(name):
    "Return the C++ compiler that belongs to a C compiler, whose modules would lack C++'s library; else `name` itself"
    m = re.fullmatch(r'((?:.*[/-])?)(gcc|clang|cc)((?:-[\d.]+)?)', name)
    if not m or not shutil.which(name):
        return name
    cpp_name = m[1] + _C_TO_CPP[m[2]] + m[3]
    if not shutil.which(cpp_name):
        what = f'{name} (from the variable CXX) compiles C, and there is no {cpp_name}'
        raise CompilerMissing(f'{what}: let CXX name a C++ compiler, such as g++ or clang++')
    return cpp_name


def compiler() -> Compiler:
    "Return the C++ compiler; raises `CompilerMissing` that says how to install one"
    own = os.environ.get('CXX')
    found = _compiler((_for_cpp(own),) if own else ('g++', 'clang++', 'c++'))
    if found and found.version < (least := _OLDEST[found.kind]):
        what = f'{found.path} is of version {found.version}, and C++17 needs {least} or newer'
        raise CompilerMissing(f'{what}. CXX may hold the path of another compiler')
    if found:
        return found
    get = {'darwin': 'xcode-select --install'}.get(sys.platform, 'sudo apt install g++')
    if own:
        raise CompilerMissing(f'{own} (from the variable CXX) is not a compiler')
    raise CompilerMissing(f'CUDA C needs a C++ compiler, and neither g++ nor clang++ is here. Get one: {get}')


def nvcc() -> str:  # its path
    "Return the path of NVIDIA's compiler; raises `CompilerMissing` if there is none"
    homes = [os.environ.get(variable) for variable in ('CUDA_HOME', 'CUDA_PATH')] + ['/usr/local/cuda', '/opt/cuda']
    for path in [shutil.which('nvcc'), *(f'{h}/bin/nvcc' for h in homes if h)]:
        if path and os.access(path, os.X_OK):
            return path
    what = 'CUDA C on this GPU needs nvcc, and none is here; `python -m gridstride.course.doctor` says how to get it'
    raise CompilerMissing(f'{what}. GRIDSTRIDE_BACKEND=sim runs without')


# Two steps, because the second must not link the library of `-fsanitize=thread`: the
# emulator's own runtime replaces it. `-O2` is what nvcc's host side uses as well; loops over floats
# are not reordered, products and sums may be fused as a GPU fuses them.
def _kind_of_machine(name):
    return {'arm64': 'aarch64', 'amd64': 'x86_64'}.get(name.lower(), name.lower())


@lru_cache
def _target(path):
    "Return the kind of machine that this compiler compiles for"
    said = subprocess.run([path, '-dumpmachine'], capture_output=True, text=True).stdout
    return _kind_of_machine(said.split('-')[0])


def _cpu_flags(path):
    "Return flags for this CPU, unless the compiler is for another kind; `char` is signed everywhere, as on x86"
    target = _target(path)
    is_x86, is_here = target == 'x86_64', target == _kind_of_machine(platform.machine())
    native = '-march=native' if is_x86 else '-mcpu=native'
    return [*([native] if is_here else []), *([] if is_x86 else ['-fsigned-char'])]


def _large_frames(c):
    "Return flags by which a function with larger local variables than the stack touches the unmapped page below it"
    known = sys.platform != 'darwin' and c.version >= dict(gcc=8, clang=11)[c.kind]
    return ['-fstack-clash-protection'] if known else []


def common_flags(c):
    "Return flags for all that is compiled for the emulator"
    unique = ['-fno-gnu-unique'] if c.kind == 'gcc' else []
    return [
        '-std=c++17',
        '-O2',
        '-fPIC',
        *_cpu_flags(c.path),
        *unique,
        '-ffp-contract=fast',
        '-fno-strict-aliasing',
        '-fno-delete-null-pointer-checks',
        *_large_frames(c),
        '-U_FORTIFY_SOURCE',
        f"-I{here / 'include/cuda'}",
        f"-I{here / 'include/torch'}",
    ]


# Where each access is a call, -O1 makes nothing faster than -Og, but takes a quarter longer to compile, and -O2 more.
# A function that is called once is inlined, as with -O1, so that a `std::copy` is reported with the learner's line.
# -Og aligns nothing, so that the alignment of a loop may cost a tenth.
_ALIGNED = '-falign-functions=64', '-falign-loops=32'
_LEVEL = {'gcc': ['-Og', '-finline-functions-called-once', *_ALIGNED], 'clang': ['-O1']}
_VECTORS = re.compile(r'\b(?:u?(?:char|short|int|long|longlong)|float|double)[234]\b|\breinterpret_cast\b')


def endless_flags(c):
    "Return flags for loops that may never end: C++ allows a compiler to remove one without side effects"
    return ['-fno-finite-loops'] if c.version >= dict(gcc=10, clang=13)[c.kind] else []


def division_flags(c):
    """Return flags that make the compiler test divisors if the CPU does not: on Arm a division by zero gives 0, and the
    smallest integer divided by -1 itself. With gcc's -fwrapv divisions alone are tested for an overflow"""
    if _target(c.path) == 'x86_64':
        return []
    overflow = ['-fwrapv', '-fsanitize=signed-integer-overflow'] if c.kind == 'gcc' else []
    return ['-fsanitize=integer-divide-by-zero', *overflow]


# arithmetic with another result on a GPU
_UNDEFINED_RESULTS = '-fsanitize=shift-exponent', '-fsanitize=float-cast-overflow'


def checked_flags(c, src):
    """Return flags that make the compiler report every access to the runtime.

    Also indices that violate an array's type, and misaligned addresses of vectors. A finding names the calls."""
    bounds = '-fsanitize=array-bounds' if c.kind == 'clang' else '-fsanitize=bounds'
    alignment = ['-fsanitize=alignment'] if _VECTORS.search(src) else []
    look = [*_LEVEL[c.kind], '-DGRIDSTRIDE_CHECKED', '-fno-optimize-sibling-calls', bounds, *alignment]
    look += ['-fstack-protector-strong', *_UNDEFINED_RESULTS]  # a pointer has no bounds
    # clang's instrumentation comes after its vectorizer and misses accesses of 32 bytes
    if c.kind == 'clang':
        tsan = 'instrument-func-entry-exit=0', 'distinguish-volatile=1', 'instrument-read-before-write=1'
        passes = [flag for p in tsan for flag in ('-mllvm', f'-tsan-{p}')]
        return [*look, *endless_flags(c), '-fsanitize=thread', '-fno-vectorize', '-fno-slp-vectorize', *passes]
    volatile = ['--param=tsan-distinguish-volatile=1'] if c.version >= 11 else []
    calls = [
        f'-fno-builtin-{function}' for function in ('memcpy', 'memmove', 'memset')
    ]  # they are reported to the detectors
    # gcc does not report a result that a function returns directly into a struct; it reports a copy
    calls.append('-fno-elide-constructors')
    calls.append('-fno-semantic-interposition')  # otherwise gcc inlines no function that another library could replace
    return [*look, *calls, '-fsanitize=thread', '--param=tsan-instrument-func-entry-exit=0', *volatile]


def link_flags() -> list:
    """Return flags for linking a module whose runtime is found when it is loaded.

    So are C++'s own libraries, which the runtime links: a linker takes longest for searching their symbols. Not
    libm: without a symbol version, `expf`, `powf` and the like resolve to the oldest, which sets `errno` and takes
    twice as long."""
    if sys.platform == 'darwin':
        return ['-Wl,-undefined,dynamic_lookup']
    shared = _shares_libraries(compiler().path)
    # what a kernel throws: include/cuda/emulator.h; what would end Python, too: runtime/findings.cpp
    seen = [f'-Wl,--wrap={function}' for function in ('__cxa_allocate_exception', '_exit', '_Exit', 'quick_exit')]
    return ['-Wl,-Bsymbolic', *seen, *(['-nodefaultlibs', '-lm', '-lgcc'] if shared else ARCHIVES_INSIDE)]


# Symbols of an archive stay private: exceptions of Matplotlib failed where they met C++'s library in ours.
ARCHIVES_INSIDE = ['-Wl,--exclude-libs,ALL'] if sys.platform == 'linux' else []


@lru_cache
def _shares_libraries(path):
    "Does this compiler link C++'s library as a shared one? The runtime would hold only parts of an archive"
    asked = subprocess.run([path, '-print-file-name=libstdc++.so'], capture_output=True, text=True)
    return os.path.isabs(asked.stdout.strip())


def line_flags(c):
    """Return flags for line numbers, and for the functions that are inlined there.

    With DWARF 5, addr2line 2.40 confuses the first function with one of the compiled file, and misses
    what clang has inlined in several pieces. Without linkage names it gives the innermost function the name of the
    outermost."""
    return ['-gdwarf-4', *(['-fdebug-info-for-profiling'] if c.kind == 'clang' else []), '-g1']
