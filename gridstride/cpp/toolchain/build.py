"""Compilers, and how they are called: for the emulator's runtime, and for sources."""

import os, platform, re, shutil, subprocess, sys, threading
from collections import namedtuple
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from . import headers
from ..lint.unsupported_api import describe_unsupported
from .cache import LOG, Built, build, cpu, first_use, folder_of, headers_hash, cached_result, run_command
from ..lint.callers import Unit, mark, without_marked, find_wrong_calls
from ..lint.compile_errors import WARNINGS, CompileError, CompileWarning, read_log, warn_of
from ..frontend.edits import NotEmulated
from .includes import current_folder, read_headers
from ..lint.static_initialization import runs_when_loaded
from ..lint.library import OwnNames, find_host_device_uses, guard_host_calls, find_host_uses
from .host_only_files import FIRST, OUTPUT, is_plain
from ..rewriters.rewrite import to_cpp
from ..rewriters.variables import shared_variables
from ...diagnostics.errors import warn_outside


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
    homes = [os.environ.get(o) for o in ('CUDA_HOME', 'CUDA_PATH')] + ['/usr/local/cuda', '/opt/cuda']
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


def _division_flags(c):
    "Return flags that make the compiler test divisors if the CPU does not: on Arm a division by zero gives 0"
    return [] if _target(c.path) == 'x86_64' else ['-fsanitize=integer-divide-by-zero']


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
        passes = [o for p in tsan for o in ('-mllvm', f'-tsan-{p}')]
        return [*look, *endless_flags(c), '-fsanitize=thread', '-fno-vectorize', '-fno-slp-vectorize', *passes]
    volatile = ['--param=tsan-distinguish-volatile=1'] if c.version >= 11 else []
    calls = [f'-fno-builtin-{o}' for o in ('memcpy', 'memmove', 'memset')]  # they are reported to the detectors
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
    seen = [f'-Wl,--wrap={o}' for o in ('__cxa_allocate_exception', '_exit', '_Exit', 'quick_exit')]
    return ['-Wl,-Bsymbolic', *seen, *(['-nodefaultlibs', '-lm', '-lgcc'] if shared else _ARCHIVES_INSIDE)]


# Symbols of an archive stay private: exceptions of Matplotlib failed where they met C++'s library in ours.
_ARCHIVES_INSIDE = ['-Wl,--exclude-libs,ALL'] if sys.platform == 'linux' else []


@lru_cache
def _shares_libraries(path):
    "Does this compiler link C++'s library as a shared one? The runtime would hold only parts of an archive"
    asked = subprocess.run([path, '-print-file-name=libstdc++.so'], capture_output=True, text=True)
    return os.path.isabs(asked.stdout.strip())


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


def _is_runtime_there():
    return _runtime.cache_info().currsize or any(folder_of(*_steps_of_runtime(*o)).exists() for o in (['-fopenmp'], []))


def _steps_of_runtime(*more):
    "Return the arguments of `build`: no sources, the commands, and what else decides the result"
    c = compiler()
    # a hook that crosses a line of the instruction cache costs up to a tenth more, and every access calls one
    flags = [*common_flags(c), *more, '-fvisibility=hidden', '-falign-functions=64']
    units = 'inside', 'around', 'border'
    compile_all = [[c.path, *flags, '-c', str(here / f'runtime/{o}.cpp'), '-o', f'{o}.o'] for o in units]
    link = [
        c.path,
        *flags,
        '-shared',
        *(f'{o}.o' for o in units),
        '-o',
        _LIBRARY,
        '-ldl',
        '-pthread',
        *_ARCHIVES_INSIDE,
    ]
    decides = c, cpu(), headers_hash(here / 'runtime'), headers_hash(here / 'include')
    return {}, [[_relocatable(o) for o in compile_all], _relocatable(link)], *decides


# The runtime is the same wherever the package is installed: another environment finds it in the cache.
_HERE = '{gridstride.cpp}'


def _relocatable(command):
    return [o.replace(str(here), _HERE) for o in command]


def _run_here(command, folder):
    return first_use([o.replace(_HERE, str(here)) for o in command], folder)


def _prepare_runtime():
    try:
        runtime()
    except RuntimeError:
        pass  # whoever needs it gets the error


_preparing = threading.Lock()
os.register_at_fork(after_in_child=_preparing._at_fork_reinit)


def _prepare_all(c, flags, headers_first):
    with _preparing:
        _prepare_runtime()
        headers.get_precompiled(c, flags, headers_first, announce=False)


ORIGINALS = 'gridstride_originals'  # a folder with the learner's headers; next to it are those that are compiled
CONSTRUCTS = 'has_static_constructors'  # an empty file in the folder of a module: its source may have some
_OF_MARKED = 'marked.txt'  # a log that reports uses of marked functions alone


elsewhere = None  # a function (`CompileRequest`, fail) -> `Built` or None, which compiles in another process


class CompileRequest(NamedTuple):
    "The arguments of `compile_module` that decide a module, together with this machine and this package"

    sources: dict
    name: str
    flags: list
    headers_first: tuple
    others: tuple
    more: tuple
    plain: tuple

    def steps(self) -> tuple:  # the arguments of `build`: sources, commands, and what else decides the result
        "Return how the module is compiled"
        c = compiler()
        units = self.name, *self.more
        bare = ['-include', FIRST, *(o for o in self.flags if str(here / 'include') not in o)]
        objects = [f'{o}.o' for o in (*units, *self.plain)]
        commands = [
            *([c.path, *self.flags, '-c', f'{o}.cpp', '-o', f'{o}.o'] for o in units),
            *([c.path, *bare, '-x', 'c++', '-c', o, '-o', f'{o}.o'] for o in self.plain),
            [c.path, '-shared', *objects, *link_flags(), '-o', f'{self.name}.so'],
        ]
        return self.sources, commands, c, cpu(), headers_hash(here / 'include'), *self.others


def compile_module(
    sources: dict,  # file name -> text; `name.cpp` begins with the headers
    name,  # of the source to compile
    flags: list,
    headers_first: tuple,  # the headers
    fail,  # called with the command and the log if it does not compile; returns an exception
    warn=None,  # called with the log if it does, also for a cached module
    others=(),  # whatever else decides the result
    more=(),  # names of other sources that become part of it
    plain=(),  # file names of still others, which know nothing of CUDA, nor of the headers
) -> Built:  # with `name.so` in its folder
    """Compile C++ for the emulator; its runtime is built meanwhile if it is not there yet.

    The precompiled headers are built after it, and until they are there, compilers read the headers themselves."""
    c, asked = compiler(), CompileRequest(sources, name, flags, headers_first, others, more, plain)
    sources, commands, *decides = asked.steps()
    there = not _preparing.locked() and _is_runtime_there()
    meanwhile = _prepare_runtime if there else partial(_prepare_all, c, flags, headers_first)
    threading.Thread(target=meanwhile).start()
    compile_it = headers.runner(c, flags, headers_first if there else (), f'compiling {name}.cu')

    def run(command, folder):
        if FIRST in command:
            status, log = run_command(command, folder, f'compiling {command[-3]}')
        else:
            status, log = compile_it(command, folder)
        if log and not status:
            with open(folder / (LOG if ': warning: ' in without_marked(log) else _OF_MARKED), 'a') as f:
                f.write(log)
        return status, log

    def failed(log):
        return fail(log, commands[0])

    built = elsewhere and elsewhere(asked, failed) or build(sources, commands, *decides, fail=failed, run=run)
    if warn:
        logs = [built.folder / o for o in (LOG, _OF_MARKED)]
        warn(''.join(o.read_text() for o in logs if o.exists()))
    return built


# A source that names nothing of torch's, and nothing else of the standard library, begins with half the headers, and
# takes half the time.
HEADERS = 'emulator.h', 'gridstride/tensor.h'
KERNEL_HEADERS = 'emulator.h', 'gridstride/kernel.h'
_FEW = (
    r'(?:is_\w+|enable_if\w*|conditional\w*|decay\w*|remove_\w+|integral_constant|true_type|false_type|declval|'
    r'index_sequence\w*|make_index_sequence|min|max|swap|move|forward|size_t|ptrdiff_t|u?int\d+_t|abs|sqrt|exp|log|pow)'
)
_TENSORS = re.compile(
    r'\b(?:torch|c10|ATen|pybind11|(?:TORCH_|AT_|C10_|PYBIND11_|GRIDSTRIDE_EXPORT)\w*)\b|\bat\s*::|'
    rf'\bstd\b(?!\s*::\s*{_FEW}\b)'
)


def choose_headers(sources):
    "Choose the precompiled headers that all of these sources begin with"
    return HEADERS if any(map(_TENSORS.search, sources)) else KERNEL_HEADERS


# A source that does not write at:: may call a function of its own that way.
def _names_at(src):
    return re.search(r'\bat\s*::', src)


_SPECIAL = re.compile(
    r'\b(?:(?:assoc|comp_ellint|cyl|ellint|sph)_\w+|(?:beta|expint|hermite|laguerre|legendre|riemann_zeta)[fl]?)\b'
)


# What few sources use is in separate headers, with which those sources begin
_EXTRA = {
    'special_functions.h': _SPECIAL,
    'nv_atomic.h': re.compile(r'\b__(?:nv_atomic|NV_ATOMIC|NV_THREAD_SCOPE)_'),
    'graph_nodes.h': re.compile(
        r'\bcuda(?:\w+NodeParams|MemsetParams|Device\w*Graph|Stream(?:\w+ToGraph|GetCaptureInfo)|Graph(?!(?:_t|Exec_t|'
        r'Node_t|Create|Destroy|Instantiate\w*|Launch|Upload|ExecDestroy|GetNodes|NodeGetType|NodeType\w*)\b))'
    ),
    'textures.h': re.compile(
        r'\b(?:tex(?:[123]D|Cubemap)|surf(?:[123]D|Cubemap)|'
        r'cuda(?:Texture|Surface|Array|Pos|Extent|Pitched|ChannelFormat|ResourceDesc|MallocArray|'
        r'M(?:alloc|emcpy|emset)3D))'
    ),
}


# nvcc defines this in a `.cu`, and passes a `.cpp` to the host's compiler
_BY_NVCC = '#define __CUDACC__ 1\n#define __NVCC__ 1\n'


def _include_first(sources):
    "Return the first lines of a source for the emulator, given all `sources` that it consists of"
    extra = [name for name, used in _EXTRA.items() if any(map(used.search, sources))]
    return ''.join(f'#include "{o}"\n' for o in [*choose_headers(sources), *extra])


def line_flags(c):
    """Return flags for line numbers, and for the functions that are inlined there.

    With DWARF 5, addr2line 2.40 confuses the first function with one of the compiled file, and misses
    what clang has inlined in several pieces. Without linkage names it gives the innermost function the name of the
    outermost."""
    return ['-gdwarf-4', *(['-fdebug-info-for-profiling'] if c.kind == 'clang' else []), '-g1']


def emulated_flags(c, src, checks):
    "Return flags for a source of CUDA C; `checks`: for the detectors, too?"
    maybe = ['-Wmaybe-uninitialized'] if c.kind == 'gcc' else []
    return [
        *common_flags(c),
        *line_flags(c),
        '-DGRIDSTRIDE_WITHOUT_AT',
        *(f'-W{o}' for o in WARNINGS),
        *maybe,
        '-Wvla',
        '-fsanitize=return',
        *_division_flags(c),
        *(checked_flags(c, src) if checks else []),
    ]


# The standard library tests macros such as NDEBUG and _GNU_SOURCE. All others come after the headers, which are
# precompiled without them, and may use the same names.
_EARLY = re.compile(r'NDEBUG\b|_')


def _macros(defines):
    "Return (compiler flags, lines after the headers) for the macros `defines`"
    early = [f'-D{o}' for o in defines if _EARLY.match(o)]
    late = [o.partition('=') for o in defines if not _EARLY.match(o)]
    return early, ''.join(f'#define {name} {value if given else 1}\n' for name, given, value in late)


def emulate(
    src: str,  # CUDA C
    name: str,  # of the source, in messages: `name.cu`
    checks: bool,  # report every access to the detectors?
    more=(),  # more flags
    original='',  # the learner's source, for messages
    folder=None,  # with the learner's own headers; None: the current one
    include=(),  # more folders with such headers
    units=(),  # dict: file name -> CUDA C that becomes part of it
    takes=(),  # features beyond nvcc without options: see `callers` and `library`
    defines=(),  # macros for all of it: 'NAME' or 'NAME=VALUE'
    prefix='',  # C++ before it
    suffix='',  # C++ after it
) -> Built:  # with `name.so` in its folder
    """Rewrite and compile for the emulator; raises `CompileError` or, for what nvcc alone refuses, `WrongSource`.

    The learner's own headers are searched in `folder` and `include`, and compiled as CUDA C, too."""

    def make():
        shared = _shared(src, units, folder, include)
        text = f'{prefix}{to_cpp(src, shared=shared)}{suffix}'
        how = dict(folder=folder, include=include, units=units, takes=takes, defines=defines, shared=shared)
        return emulate_rewritten(text, name, checks, more, original or src, constructs=True, **how)

    if units or '__has_include' in src or any(read_headers(src, folder or current_folder(), include)):
        return make()  # it depends on other files
    asked = src, name, checks, more, original, takes, defines, prefix, suffix
    return cached_result((*asked, compiler(), cpu(), headers_hash(here / 'include')), make)


def emulate_rewritten(
    src: str,
    name: str,
    checks: bool,
    more=(),
    original='',
    folder=None,
    include=(),
    units=(),
    takes=(),
    defines=(),
    shared=(),  # the result of `shared_variables` for all of its files
    constructs=False,  # may `original`, `units` or their headers have static constructors?
) -> Built:
    "Compile a source that is C++ already, as `emulate` does"
    c, file, shown = compiler(), f'{name}.cu', original or src
    given = {file: shown, **dict(units)}
    early, macros = _macros(defines)
    flags = [*emulated_flags(c, '\n'.join(given.values()), checks), *more, *early]

    def fail(log, command):
        return _what_failed(without_marked(log), command, given, own)

    compiled = {name: (file, src)}
    hosts = [k for k, v in dict(units).items() if is_plain(k, v, folder or current_folder(), include)]
    units = {k: v for k, v in dict(units).items() if k not in hosts}
    compiled |= {f'{name}.part{n}': (k, to_cpp(v, shared=shared)) for n, (k, v) in enumerate(units.items())}
    read = [*(text for _, text in compiled.values()), *(given[o] for o in hosts)]
    own, others = _headers_of(read, folder or current_folder(), include)
    texts = [*(text for _, text in compiled.values()), *own.values(), *others.values()]
    plain = dict(compiled.values()) | {k: to_cpp(v, names=False, shared=shared) for k, v in own.items()}
    originals = {**own, **given}
    doubtful = _refuse_library([Unit(text, k, originals[k]) for k, text in plain.items()], others.values(), takes)
    if doubtful:
        known = OwnNames([*plain.values(), *others.values()])
        plain = {k: guard_host_calls(text, known) for k, text in plain.items()}
    # A finding names the calls.
    own_to_it = 'static __attribute__((noinline)) ' if checks else 'static '
    alone = len(read) == 1 and not (own or others)
    inline = '__attribute__((always_inline)) ' if checks else ''
    marked = {k: mark(text, own_to_it if alone else '', inline) for k, text in plain.items()}
    sources = {**given, **{k: marked[k] for k in own}, **({FIRST: OUTPUT} if hosts else {})}
    sources |= {f'{ORIGINALS}/{k}': text for k, text in own.items()}
    if constructs and any(map(runs_when_loaded, originals.values())):
        sources[CONSTRUCTS] = ''
    for unit, (shown_as, text) in compiled.items():
        at = 'namespace at = torch;' if _names_at(text) else ''
        by_nvcc = _BY_NVCC if shown_as.endswith('.cu') else ''
        first = f'{_include_first(texts)}{at}\n{by_nvcc}{macros}'
        sources[f'{unit}.cpp'] = f'{first}#line 1 "{shown_as}"\n{marked[shown_as]}'

    def warn(log):
        known = [Unit(text, k, originals[k]) for k, text in marked.items()]
        for wrong in find_wrong_calls(log, known, takes, 8 if c.kind == 'gcc' and c.version >= 11 else 1):
            raise wrong
        warn_of(without_marked(log), shown, file, {k: v for k, v in originals.items() if k != file})

    parts = tuple(compiled)[1:], hosts
    built = compile_module(sources, name, flags, choose_headers(texts), fail, warn, sorted(others.items()), *parts)
    for said, *where in doubtful:
        (built.folder / LOG).touch()  # it is printed each time
        warn_outside(CompileWarning(said), *where)
    return built


def _shared(src, units, folder, include):
    "Return `shared_variables` of a source, its `units` and their own headers"
    files = {'': src, **dict(units)}
    own, _ = _headers_of(files.values(), folder or current_folder(), include)
    every = {**own, **files}
    return shared_variables(every) if any('extern' in o for o in every.values()) else ()


def _refuse_library(units, others, takes):
    """Raise `WrongSource` for what device code uses of the host's libraries; the compiler refuses what cannot be read.

    Returns the result of `find_host_device_uses`."""
    try:
        own = OwnNames([*(unit.text for unit in units), *others])
        wrong = next((o for unit in units for o in find_host_uses(unit, own, takes)), None)
        doubtful = [o for unit in units for o in find_host_device_uses(unit, own)]
    except ValueError:
        return []
    if wrong:
        raise wrong
    return doubtful


def _headers_of(sources, folder, include):
    "Return the result of `read_headers` for all of these sources"
    own, others = {}, {}
    for src in sources:
        for known, found in zip((own, others), read_headers(src, folder, include)):
            known.update(found)
    return own, others


def _what_failed(log, command, given, own):
    "Make the exception for a compiler's log about `given` or their headers, {file name: text}"
    for file, text in given.items():
        if missing := describe_unsupported(log, text, file, own):
            return NotEmulated(missing)
    known = [o for o in given if read_log(log, o)] or [o for o in given if f'{o}:' in log] or [*given]
    return CompileError(given[known[0]], known[0], log, command, own)


def native(
    src: str,  # CUDA C
    name: str,  # of the source, in messages
    arch: str,  # such as 'sm_90'
    more=(),  # more flags
    original='',  # the learner's source, for messages
) -> Built:  # with `name.so` in its folder
    "Compile by nvcc; raises `CompileError` with the learner's lines"
    file, cc, shown = f'{name}.cu', nvcc(), original or src
    without = '' if _names_at(src) else '#define GRIDSTRIDE_WITHOUT_AT\n'
    text = f'{without}#include "gridstride/tensor.h"\n#line 1 "{file}"\n{src}'
    flags = ['-std=c++17', '-shared', f'-arch={arch}', '-lineinfo', '-Xcompiler', '-fPIC', '-diag-error=940']
    flags += ['--expt-relaxed-constexpr', '--extended-lambda']
    command = [cc, *flags, f"-I{here / 'include/torch'}", *more, f'{name}.gpu.cu', '-o', f'{name}.so']
    own, others = read_headers(src, current_folder())
    return build(
        {f'{name}.gpu.cu': text, file: shown, **own},
        [command],
        os.stat(cc).st_mtime,
        headers_hash(here / 'include/torch'),
        sorted(others.items()),
        fail=lambda log: CompileError(shown, file, log, command),
        run=partial(run_command, what=f'compiling {file} by nvcc'),
    )


def prepare():
    "Build what all kernels need, ahead of the first one: the runtime, and precompiled headers for a checked one"
    c = compiler()
    preparing = threading.Thread(target=_prepare_runtime)
    preparing.start()
    for names in (KERNEL_HEADERS, HEADERS):
        headers.get_precompiled(c, emulated_flags(c, '', checks=True), names)
    preparing.join()


if __name__ == '__main__':
    prepare()
