"""How sources are compiled: for the emulator by a C++ compiler, for a GPU by nvcc."""

import os, re, threading
from functools import partial
from typing import NamedTuple

from . import headers
from ..lint.unsupported_api import describe_unsupported
from .cache import LOG, Built, build, cpu, headers_hash, cached_result, run_command
from .compilers import checked_flags, common_flags, compiler, division_flags, here, line_flags, link_flags, nvcc
from ..lint.callers import Unit, mark, without_marked, find_wrong_calls
from ..lint.compile_errors import WARNINGS, CompileError, CompileWarning, read_log, warn_of
from ..frontend.edits import NotEmulated
from .includes import current_folder, read_headers
from ..lint.static_initialization import runs_when_loaded
from ..lint.library import OwnNames, find_host_device_uses, guard_host_calls, find_host_uses
from .host_only_files import FIRST, OUTPUT, is_plain
from .runtime_library import is_runtime_there, prepare_runtime
from ..rewriters.rewrite import to_cpp
from ..rewriters.variables import shared_variables
from ...diagnostics.errors import warn_learner


_preparing = threading.Lock()
os.register_at_fork(after_in_child=_preparing._at_fork_reinit)


def _prepare_all(c, flags, headers_first):
    with _preparing:
        prepare_runtime()
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
        bare = ['-include', FIRST, *(flag for flag in self.flags if str(here / 'include') not in flag)]
        objects = [f'{unit}.o' for unit in (*units, *self.plain)]
        commands = [
            *([c.path, *self.flags, '-c', f'{unit}.cpp', '-o', f'{unit}.o'] for unit in units),
            *([c.path, *bare, '-x', 'c++', '-c', file, '-o', f'{file}.o'] for file in self.plain),
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
    there = not _preparing.locked() and is_runtime_there()
    meanwhile = prepare_runtime if there else partial(_prepare_all, c, flags, headers_first)
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
        logs = [built.folder / name for name in (LOG, _OF_MARKED)]
        warn(''.join(log.read_text() for log in logs if log.exists()))
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
    return ''.join(f'#include "{header}"\n' for header in [*choose_headers(sources), *extra])


def emulated_flags(c, src, checks):
    "Return flags for a source of CUDA C; `checks`: for the detectors, too?"
    maybe = ['-Wmaybe-uninitialized'] if c.kind == 'gcc' else []
    return [
        *common_flags(c),
        *line_flags(c),
        '-DGRIDSTRIDE_WITHOUT_AT',
        *(f'-W{warning}' for warning in WARNINGS),
        *maybe,
        '-Wvla',
        '-fsanitize=return',
        *division_flags(c),
        *(checked_flags(c, src) if checks else []),
    ]


# The standard library tests macros such as NDEBUG and _GNU_SOURCE. All others come after the headers, which are
# precompiled without them, and may use the same names.
_EARLY = re.compile(r'NDEBUG\b|_')


def _macros(defines):
    "Return (compiler flags, lines after the headers) for the macros `defines`"
    early = [f'-D{define}' for define in defines if _EARLY.match(define)]
    late = [define.partition('=') for define in defines if not _EARLY.match(define)]
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
    c = compiler()
    file = f'{name}.cu'
    shown = original or src
    given = {file: shown, **dict(units)}
    early, macros = _macros(defines)
    flags = [*emulated_flags(c, '\n'.join(given.values()), checks), *more, *early]

    def fail(log, command):
        return _what_failed(without_marked(log), command, given, own)

    compiled = {name: (file, src)}
    hosts = [k for k, v in dict(units).items() if is_plain(k, v, folder or current_folder(), include)]
    units = {k: v for k, v in dict(units).items() if k not in hosts}
    compiled |= {f'{name}.part{n}': (k, to_cpp(v, shared=shared)) for n, (k, v) in enumerate(units.items())}
    read = [*(text for _, text in compiled.values()), *(given[path] for path in hosts)]
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
        warn_learner(CompileWarning(said), *where)
    return built


def _shared(src, units, folder, include):
    "Return `shared_variables` of a source, its `units` and their own headers"
    files = {'': src, **dict(units)}
    own, _ = _headers_of(files.values(), folder or current_folder(), include)
    every = {**own, **files}
    return shared_variables(every) if any('extern' in text for text in every.values()) else ()


def _refuse_library(units, others, takes):
    """Raise `WrongSource` for what device code uses of the host's libraries; the compiler refuses what cannot be read.

    Returns the result of `find_host_device_uses`."""
    try:
        own = OwnNames([*(unit.text for unit in units), *others])
        wrong = next((use for unit in units for use in find_host_uses(unit, own, takes)), None)
        doubtful = [use for unit in units for use in find_host_device_uses(unit, own)]
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
    known = [path for path in given if read_log(log, path)] or [path for path in given if f'{path}:' in log] or [*given]
    return CompileError(given[known[0]], known[0], log, command, own)


def native(
    src: str,  # CUDA C
    name: str,  # of the source, in messages
    arch: str,  # such as 'sm_90'
    more=(),  # more flags
    original='',  # the learner's source, for messages
) -> Built:  # with `name.so` in its folder
    "Compile by nvcc; raises `CompileError` with the learner's lines"
    file = f'{name}.cu'
    cc = nvcc()
    shown = original or src
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
    preparing = threading.Thread(target=prepare_runtime)
    preparing.start()
    for names in (KERNEL_HEADERS, HEADERS):
        headers.get_precompiled(c, emulated_flags(c, '', checks=True), names)
    preparing.join()


if __name__ == '__main__':
    prepare()
