"""Finds the installed compilers, and chooses their flags for the emulator."""

import os, platform, re, shutil, subprocess, sys
from collections import namedtuple
from functools import lru_cache
from pathlib import Path


CPP_FOLDER = Path(__file__).parents[1]


class CompilerMissing(RuntimeError):
    "No C++ compiler was found, or no nvcc, although it is needed"


class Compiler(namedtuple('Compiler', 'path kind version text')):
    "A C++ compiler: `path`, `kind` ('gcc' or 'clang'), major `version`, and the `text` that it prints for --version"


_MIN_VERSION = dict(gcc=8, clang=5)  # the first major version with -std=c++17


@lru_cache
def _find_compiler(names):
    "Return the first of these programs that is a compiler; None if there is none"
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
    "Return the C++ compiler for a C compiler, which would not link the C++ library; any other name unchanged"
    m = re.fullmatch(r'((?:.*[/-])?)(gcc|clang|cc)((?:-[\d.]+)?)', name)
    if not m or not shutil.which(name):
        return name
    cpp_name = m[1] + _C_TO_CPP[m[2]] + m[3]
    if not shutil.which(cpp_name):
        problem = f'{name} (from the variable CXX) is a C compiler, and {cpp_name} was not found'
        raise CompilerMissing(f'{problem}: set CXX to a C++ compiler, such as g++ or clang++')
    return cpp_name


def compiler() -> Compiler:
    "Return the C++ compiler: the one that CXX names, or the first that is installed; raises `CompilerMissing`"
    cxx = os.environ.get('CXX')
    c = _find_compiler((_for_cpp(cxx),) if cxx else ('g++', 'clang++', 'c++'))
    if c and c.version < (min_version := _MIN_VERSION[c.kind]):
        problem = f'{c.path} has version {c.version}, but C++17 needs {min_version} or newer'
        raise CompilerMissing(f'{problem}. Set CXX to the path of another compiler')
    if c:
        return c
    install_command = {'darwin': 'xcode-select --install'}.get(sys.platform, 'sudo apt install g++')
    if cxx:
        raise CompilerMissing(f'{cxx} (from the variable CXX) is not a compiler')
    raise CompilerMissing(
        f'CUDA C needs a C++ compiler, and neither g++ nor clang++ was found. Install one: {install_command}'
    )


def nvcc() -> str:  # its path
    "Return the path of NVIDIA's compiler; raises `CompilerMissing` if there is none"
    homes = [os.environ.get(variable) for variable in ('CUDA_HOME', 'CUDA_PATH')] + ['/usr/local/cuda', '/opt/cuda']
    for path in [shutil.which('nvcc'), *(f'{h}/bin/nvcc' for h in homes if h)]:
        if path and os.access(path, os.X_OK):
            return path
    problem = 'CUDA C on this GPU needs nvcc, which was not found: run `python -m gridstride.course.doctor`'
    raise CompilerMissing(f'{problem}. GRIDSTRIDE_BACKEND=sim runs it on the emulator, without nvcc')


def _architecture(name):
    "Return the name that compilers use for an architecture"
    return {'arm64': 'aarch64', 'amd64': 'x86_64'}.get(name.lower(), name.lower())


@lru_cache
def _target_architecture(path):
    "Return the architecture for which this compiler generates code"
    triple = subprocess.run([path, '-dumpmachine'], capture_output=True, text=True).stdout
    return _architecture(triple.split('-')[0])


def _cpu_flags(path):
    "Return flags for this CPU, if the compiler compiles for it, and for a signed `char`, as on x86"
    target_architecture = _target_architecture(path)
    is_x86, is_native = target_architecture == 'x86_64', target_architecture == _architecture(platform.machine())
    native_flag = '-march=native' if is_x86 else '-mcpu=native'
    return [*([native_flag] if is_native else []), *([] if is_x86 else ['-fsigned-char'])]


def _stack_clash_flags(c):
    "Return flags that make a stack overflow by large local variables hit the unmapped guard page"
    is_supported = sys.platform != 'darwin' and c.version >= dict(gcc=8, clang=11)[c.kind]
    return ['-fstack-clash-protection'] if is_supported else []


# Two commands compile and link a module, because linking with `-fsanitize=thread` would add ThreadSanitizer's runtime,
# which the emulator's runtime replaces. `-O2` does not reorder additions of floats; a product and a sum may be fused to
# an FMA, as on a GPU.
def common_flags(c):
    "Return the flags for all code of the emulator"
    gnu_unique_flags = ['-fno-gnu-unique'] if c.kind == 'gcc' else []
    return [
        '-std=c++17',
        '-O2',
        '-fPIC',
        *_cpu_flags(c.path),
        *gnu_unique_flags,
        '-ffp-contract=fast',
        '-fno-strict-aliasing',
        '-fno-delete-null-pointer-checks',
        *_stack_clash_flags(c),
        '-U_FORTIFY_SOURCE',
        f"-I{CPP_FOLDER / 'include/cuda'}",
        f"-I{CPP_FOLDER / 'include/torch'}",
    ]


# In a checked build each access is a call, so -O1 is not faster than -Og, but takes 25% more time to compile. Functions
# that are called once are inlined, as with -O1, so that a `std::copy` is reported at the learner's line. -Og does not
# align loops, which can make them 10% slower.
_ALIGNMENT_FLAGS = '-falign-functions=64', '-falign-loops=32'
_OPTIMIZATION_FLAGS = {'gcc': ['-Og', '-finline-functions-called-once', *_ALIGNMENT_FLAGS], 'clang': ['-O1']}
_VECTOR_TYPES = re.compile(r'\b(?:u?(?:char|short|int|long|longlong)|float|double)[234]\b|\breinterpret_cast\b')


def uses_vector_types(src) -> bool:
    "Return whether a source may access memory as vector types, whose alignment is then checked"
    return bool(_VECTOR_TYPES.search(src))


def endless_loop_flags(c):
    "Return flags that preserve infinite loops: C++ allows a compiler to remove a loop without side effects"
    return ['-fno-finite-loops'] if c.version >= dict(gcc=10, clang=13)[c.kind] else []


def division_flags(c):
    """Return flags that make the compiler check divisions whose errors the CPU does not trap.

    On Arm a division by zero gives 0, and the smallest integer divided by -1 gives itself. With -fwrapv, gcc checks
    only divisions for an overflow."""
    if _target_architecture(c.path) == 'x86_64':
        return []
    overflow_flags = ['-fwrapv', '-fsanitize=signed-integer-overflow'] if c.kind == 'gcc' else []
    return ['-fsanitize=integer-divide-by-zero', *overflow_flags]


# flags for operations that are undefined behaviour in C++, and whose results differ between a CPU and a GPU
_UNDEFINED_BEHAVIOUR_FLAGS = '-fsanitize=shift-exponent', '-fsanitize=float-cast-overflow'


def checked_flags(c, src):
    """Return flags that instrument every access, so that the runtime checks it.

    They also instrument indices of arrays with a known size, and addresses of vector types for their alignment."""
    bounds_flag = '-fsanitize=array-bounds' if c.kind == 'clang' else '-fsanitize=bounds'
    alignment_flags = ['-fsanitize=alignment'] if uses_vector_types(src) else []
    flags = [*_OPTIMIZATION_FLAGS[c.kind], '-DGRIDSTRIDE_CHECKED', '-fno-optimize-sibling-calls', bounds_flag]
    flags += alignment_flags
    # the stack protector finds writes out of bounds through pointers, for which the compiler knows no bounds
    flags += ['-fstack-protector-strong', *_UNDEFINED_BEHAVIOUR_FLAGS]
    # clang instruments after its vectorizer has run, and does not instrument accesses of 32 bytes
    if c.kind == 'clang':
        tsan_options = 'instrument-func-entry-exit=0', 'distinguish-volatile=1', 'instrument-read-before-write=1'
        tsan_flags = [flag for option in tsan_options for flag in ('-mllvm', f'-tsan-{option}')]
        return [
            *flags,
            *endless_loop_flags(c),
            '-fsanitize=thread',
            '-fno-vectorize',
            '-fno-slp-vectorize',
            *tsan_flags,
        ]
    volatile_flags = ['--param=tsan-distinguish-volatile=1'] if c.version >= 11 else []
    # without these builtins, gcc calls our functions, which report to the detectors
    call_flags = [f'-fno-builtin-{function}' for function in ('memcpy', 'memmove', 'memset')]
    # gcc does not instrument the write of a result that is constructed in place; it instruments a copy
    call_flags.append('-fno-elide-constructors')
    call_flags.append('-fno-semantic-interposition')  # so that gcc inlines functions that another library could replace
    call_flags.append('-fno-plt')  # a hook is called directly, which takes 5% less time
    return [*flags, *call_flags, '-fsanitize=thread', '--param=tsan-instrument-func-entry-exit=0', *volatile_flags]


# With -O2 alone, g++ vectorizes only loops with a constant number of iterations, and unrolls few. -O3 would do so, too,
# but takes longer to compile.
def loop_flags(c):
    "Return flags that vectorize loops over the threads of a block, for code without checks"
    unrolling_flags = ['-fpeel-loops', '--param=max-completely-peeled-insns=400']
    return ['-fvect-cost-model=dynamic', *unrolling_flags] if c.kind == 'gcc' else []


def link_flags() -> list:
    """Return flags for linking a module; its references to the runtime are resolved when it is loaded.

    References to the C++ library are resolved then, too: the runtime links this library, and searching it takes most of
    a linker's time. But libm is linked: without a symbol version, `expf`, `powf` and the like resolve to the oldest
    version, which sets `errno` and takes twice as long."""
    if sys.platform == 'darwin':
        return ['-Wl,-undefined,dynamic_lookup']
    has_shared_library = _has_shared_libstdcxx(compiler().path)
    # include/cuda/emulator.h defines the wrapper for exceptions, runtime/findings.cpp the wrappers for functions that
    # end the process
    wrap_flags = [f'-Wl,--wrap={function}' for function in ('__cxa_allocate_exception', '_exit', '_Exit', 'quick_exit')]
    return [
        '-Wl,-Bsymbolic',
        *wrap_flags,
        *(['-nodefaultlibs', '-lm', '-lgcc'] if has_shared_library else STATIC_LIBRARY_FLAGS),
    ]


# These flags keep the symbols of static libraries private. Otherwise the C++ library in our module would handle the
# exceptions of other packages, such as Matplotlib, and fail.
STATIC_LIBRARY_FLAGS = ['-Wl,--exclude-libs,ALL'] if sys.platform == 'linux' else []


@lru_cache
def _has_shared_libstdcxx(path):
    "Return whether this compiler links the C++ library dynamically; otherwise each module needs a copy"
    result = subprocess.run([path, '-print-file-name=libstdc++.so'], capture_output=True, text=True)
    return os.path.isabs(result.stdout.strip())


def line_flags(c):
    """Return flags for debug information about lines and inlined functions, which addr2line reads.

    With DWARF 5, addr2line 2.40 names a wrong file for the first function, and misses functions that clang has inlined
    in several pieces. Without linkage names it gives the innermost function the name of the outermost."""
    return ['-gdwarf-4', *(['-fdebug-info-for-profiling'] if c.kind == 'clang' else []), '-g1']
