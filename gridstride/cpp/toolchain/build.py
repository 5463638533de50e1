"""Compiles sources: for the emulator with a C++ compiler, for a GPU with nvcc."""

import os, re, threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

from . import headers
from ..lint.unsupported_api import describe_unsupported
from .cache import (
    LOG,
    BuildResult,
    build,
    cpu_key,
    headers_hash,
    cached_result,
    index_path,
    read_index,
    run_command,
    write_index,
)
from .compilers import (
    CPP_FOLDER,
    checked_flags,
    common_flags,
    compiler,
    division_flags,
    line_flags,
    link_flags,
    loop_flags,
    nvcc,
    uses_vector_types,
)
from ..lint.callers import Unit, mark_host_functions, drop_mark_warnings, find_wrong_calls
from ..lint.compile_errors import WARNINGS, CompileError, CompileWarning, read_log, warn_of
from ..frontend.edits import NotEmulated
from .includes import Headers, current_folder, files_used_by, fingerprint_of, folders_in_environment, includes_any
from .includes import is_current, read_headers
from ..lint.static_initialization import runs_when_loaded
from ..lint.library import ProgramNames, find_host_device_uses, guard_host_calls, find_host_uses
from .host_only_files import OUTPUT_HEADER, OUTPUT_HEADER_TEXT, is_host_only
from .runtime_library import runtime_is_built, prepare_runtime
from ..rewriters.block_loops import loop_blocks
from ..rewriters.branches import record_branches
from ..rewriters.loop_reads import record_loop_reads
from ..rewriters.rewrite import to_cpp
from ..rewriters.struct_copies import check_struct_copies, lacks_alignment_of_copies
from ..rewriters.variables import shared_variables
from ...diagnostics.errors import warn_learner


_preparation_lock = threading.Lock()  # held while a background thread builds the runtime and the precompiled headers
os.register_at_fork(after_in_child=_preparation_lock._at_fork_reinit)


def _prepare_all(c, flags, headers_first):
    "Build the runtime, then the precompiled header"
    with _preparation_lock:
        prepare_runtime()
        headers.get_precompiled(c, flags, headers_first, announce=False)


ORIGINALS_FOLDER = 'gridstride_originals'  # a folder with the learner's headers, before they were rewritten
CONSTRUCTORS_MARKER = 'has_static_constructors'  # an empty file in the folder of a module that may have them
_MARKS_LOG = 'marked.txt'  # the log, if it has only warnings about uses of marked functions


# None, or a function (`CompileRequest`, fail) -> `BuildResult` that compiles in another process; it may return None
compile_remotely = None


class CompileRequest(NamedTuple):
    "The arguments of `compile_module` that determine the module, together with this machine and this package"

    sources: dict
    name: str
    flags: list
    headers_first: tuple
    key_parts: tuple
    extra_units: tuple
    host_only_files: tuple

    def build_arguments(self) -> tuple:
        "Return the positional arguments of `cache.build`: sources, commands, and the other parts of the key"
        c = compiler()
        units = self.name, *self.extra_units
        host_only_flags = [
            '-include',
            OUTPUT_HEADER,
            f'-I{ORIGINALS_FOLDER}',
            *(flag for flag in self.flags if str(CPP_FOLDER / 'include') not in flag),
        ]
        objects = [f'{unit}.o' for unit in (*units, *self.host_only_files)]
        commands = [
            *([c.path, *self.flags, '-c', f'{unit}.cpp', '-o', f'{unit}.o'] for unit in units),
            *(
                [c.path, *host_only_flags, '-x', 'c++', '-c', f'{ORIGINALS_FOLDER}/{file}', '-o', f'{file}.o']
                for file in self.host_only_files
            ),
            [c.path, '-shared', *objects, *link_flags(), '-o', f'{self.name}.so'],
        ]
        return self.sources, commands, c, cpu_key(), headers_hash(CPP_FOLDER / 'include'), *self.key_parts


def compile_module(
    sources: dict,  # file name -> text; `name.cpp` begins with the headers
    name,  # of the module
    flags: list,
    headers_first: tuple,  # the headers with which `name.cpp` begins
    fail,  # called with the log and the command if it does not compile; returns an exception
    warn=None,  # called with the log if it compiles, also for a cached module
    key_parts=(),  # other parts of the cache's key
    extra_units=(),  # names of the module's other translation units
    host_only_files=(),  # file names of its host-only sources, which are compiled without the headers
) -> BuildResult:  # with `name.so` in its folder
    """Compile C++ for the emulator.

    If the runtime does not exist yet, a background thread builds it, then the precompiled header; meanwhile, modules
    are compiled without the precompiled header."""
    c = compiler()
    request = CompileRequest(sources, name, flags, headers_first, key_parts, extra_units, host_only_files)
    sources, commands, *key = request.build_arguments()
    runtime_exists = not _preparation_lock.locked() and runtime_is_built()
    task = prepare_runtime if runtime_exists else partial(_prepare_all, c, flags, headers_first)
    threading.Thread(target=task).start()
    compile_with_headers = headers.make_runner(
        c, flags, headers_first if runtime_exists else (), f'compiling {name}.cu'
    )

    def run(command, folder):
        if OUTPUT_HEADER in command:
            status, log = run_command(command, folder, f'compiling {command[-3]}')
        else:
            status, log = compile_with_headers(command, folder)
        if log and not status:
            with open(folder / (LOG if ': warning: ' in drop_mark_warnings(log) else _MARKS_LOG), 'a') as f:
                f.write(log)
        return status, log

    def make_exception(log):
        return fail(log, commands[0])

    result = compile_remotely and compile_remotely(request, make_exception)
    if not result:
        # shared: the processes of a group, such as ranks, compile the same kernel at the same time
        result = build(sources, commands, *key, fail=make_exception, run=run, shared=True)
    if warn:
        logs = [result.folder / name for name in (LOG, _MARKS_LOG)]
        warn(''.join(log.read_text() for log in logs if log.exists()))
    return result


# A source that uses neither torch nor much of the standard library begins with `KERNEL_HEADERS`, which halves its
# compile time.
HEADERS = 'emulator.h', 'gridstride/tensor.h'
KERNEL_HEADERS = 'emulator.h', 'gridstride/kernel.h'
_LIGHT_STD_NAMES = (
    r'(?:is_\w+|enable_if\w*|conditional\w*|decay\w*|remove_\w+|integral_constant|true_type|false_type|declval|'
    r'index_sequence\w*|make_index_sequence|min|max|swap|move|forward|size_t|ptrdiff_t|u?int\d+_t|abs|sqrt|exp|log|pow)'
)
_TENSOR_FEATURES = re.compile(
    r'\b(?:torch|c10|ATen|pybind11|(?:TORCH_|AT_|C10_|PYBIND11_|GRIDSTRIDE_EXPORT)\w*)\b|\bat\s*::|'
    rf'\bstd\b(?!\s*::\s*{_LIGHT_STD_NAMES}\b)'
)


def choose_headers(sources):
    "Return the precompiled headers with which all of these sources begin"
    return HEADERS if any(map(_TENSOR_FEATURES.search, sources)) else KERNEL_HEADERS


# Only a source that uses `at::` gets that namespace, because `at` may be a function in another source.
def _uses_at_namespace(src):
    return re.search(r'\bat\s*::', src)


_SPECIAL_FUNCTIONS = re.compile(
    r'\b(?:(?:assoc|comp_ellint|cyl|ellint|sph)_\w+|(?:beta|expint|hermite|laguerre|legendre|riemann_zeta)[fl]?)\b'
)


# header -> pattern of its features; only sources that use one of them begin with the header
_EXTRA_HEADERS = {
    'special_functions.h': _SPECIAL_FUNCTIONS,
    'wide_strings.h': re.compile(r'\bwstring\b|\bto_wstring\b|\bwchar_t\b|\bL"'),
    'dpx.h': re.compile(r'\b__vi(?:addm|m|bm)(?:ax|in)3?_'),
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


# nvcc defines these in a `.cu`, and passes a `.cpp` to the host compiler
_NVCC_MACROS = '#define __CUDACC__ 1\n#define __NVCC__ 1\n'


def _include_first(sources):
    "Return the includes with which a source for the emulator begins, given all `sources` of the module"
    extra_headers = [name for name, pattern in _EXTRA_HEADERS.items() if any(map(pattern.search, sources))]
    return ''.join(f'#include "{header}"\n' for header in [*choose_headers(sources), *extra_headers])


_tracing = SimpleNamespace(flags=())


@contextmanager
def tracing_blocks():
    "Compile modules in the `with` block so that the runtime records the basic blocks and branches that are executed"
    previous, _tracing.flags = _tracing.flags, ('-fsanitize-coverage=trace-pc',)
    try:
        yield
    finally:
        _tracing.flags = previous


def emulated_flags(c, src, checks):
    "Return the compiler's flags for a source of CUDA C; `checks`: whether to instrument it for the detectors"
    uninitialized_warning = ['-Wmaybe-uninitialized'] if c.kind == 'gcc' else []
    return [
        *common_flags(c),
        *line_flags(c),
        '-DGRIDSTRIDE_WITHOUT_AT',
        *(f'-W{warning}' for warning in WARNINGS),
        *uninitialized_warning,
        '-Wvla',
        '-fsanitize=return',
        *division_flags(c),
        *(checked_flags(c, src) if checks else loop_flags(c)),
        *_tracing.flags,
    ]


# The standard library tests macros such as NDEBUG and _GNU_SOURCE, so these become compiler flags. All other macros are
# defined after the headers, which are precompiled without them and may use the same names.
_BEFORE_HEADERS = re.compile(r'NDEBUG\b|_')


def _macros(defines):
    "Return (compiler flags, lines after the headers) for the macros `defines`"
    flags = [f'-D{define}' for define in defines if _BEFORE_HEADERS.match(define)]
    definitions = [define.partition('=') for define in defines if not _BEFORE_HEADERS.match(define)]
    lines = [f'#define {name} {value if equals else 1}\n' for name, equals, value in definitions]
    arch = next((value for name, _, value in definitions if name == ARCH_MACRO), None)
    return flags, ''.join(lines) + (_architecture(arch) if arch else '')


# The macro with which a program selects the architecture that the emulator emulates; the default is sm_90a.
ARCH_MACRO = 'GRIDSTRIDE_ARCH'


def _architecture(arch):
    """Return the lines after the headers that set the macros and the device's properties for an architecture; raises
    `ValueError` for an unsupported architecture"""
    if not (m := re.fullmatch(r'(?:sm|compute)_(90|100)([af]?)', arch)):
        raise ValueError(f'the emulator supports sm_90a and sm_100a; got {ARCH_MACRO}={arch}')
    arch_value = int(m[1]) * 10
    names = ['__CUDA_ARCH__', '__CUDA_ARCH_LIST__', *(['__CUDA_ARCH_SPECIFIC__'] if m[2] else [])]
    if m[2] and arch_value == 1000:
        names.append('__CUDA_ARCH_FAMILY_SPECIFIC__')
    macros = ''.join(f'#undef {name}\n#define {name} {arch_value}\n' for name in names)
    feature = f'#define __CUDA_ARCH_FEAT_SM{m[1]}_ALL 1\n' if m[2] else ''
    host = f'namespace {{ const int gridstride_architecture = gridstride::architecture = {arch_value}; }}\n'
    # In CuTe's headers for Blackwell two force-inlined functions call each other, which g++ rejects.
    inline = '#undef __forceinline__\n#define __forceinline__ inline\n' if arch_value == 1000 else ''
    return f'{macros}#undef __CUDA_ARCH_FEAT_SM90_ALL\n{feature}{inline}{host}'


def emulate(
    src: str,  # CUDA C
    name: str,  # of the source, in messages: `name.cu`
    checks: bool,  # whether the detectors check every access
    extra_flags=(),  # of the compiler
    original='',  # the learner's source, for messages
    folder=None,  # of the learner's own headers; None: the current folder
    include=(),  # other folders of such headers
    units=(),  # dict: file name -> CUDA C of the other files of the program
    extensions=(),  # language extensions of nvcc that are enabled: see `callers` and `library`
    defines=(),  # macros for all files: 'NAME' or 'NAME=VALUE'
    prefix='',  # C++ to insert before the source
    suffix='',  # C++ to append to the source
) -> BuildResult:  # with `name.so` in its folder
    """Rewrite and compile a source for the emulator; raise `CompileError`, or `WrongSource` for an error that only nvcc
    reports.

    The learner's own headers, which are searched in `folder` and `include`, are rewritten, too."""

    texts = (src, *dict(units).values())
    folder = folder or current_folder()

    def rewrite_and_compile():
        headers = found or headers_of(texts, folder, include, defines)
        shared = _shared_variables_of({'': src, **dict(units)}, headers)
        text = f'{prefix}{to_cpp(src, shared=shared)}{suffix}'
        options = dict(folder=folder, include=include, units=units, extensions=extensions, defines=defines)
        options.update(headers=headers)
        return emulate_rewritten(
            text, name, checks, extra_flags, original or src, find_constructors=True, shared=shared, **options
        )

    key = src, name, checks, extra_flags, original, extensions, defines, prefix, suffix, units, folder, include
    key = *key, folders_in_environment()
    key = *key, compiler(), cpu_key(), headers_hash(CPP_FOLDER / 'include'), _tracing.flags
    index_entry, found = index_path('includes', key), None
    if not is_current(fingerprint := read_index(index_entry)):
        found = headers_of(texts, folder, include, defines)
        fingerprint = fingerprint_of(texts, found, (folder, *include))
        write_index(index_entry, fingerprint)
    return cached_result((*key, fingerprint), rewrite_and_compile)


def emulate_rewritten(
    src: str,
    name: str,
    checks: bool,
    extra_flags=(),
    original='',
    folder=None,
    include=(),
    units=(),
    extensions=(),
    defines=(),
    shared=(),  # the result of `shared_variables` for all of its files
    headers=None,  # the result of `headers_of` for all of its files; None: find them
    find_constructors=False,  # whether to look for static constructors in `original`, `units` and their headers
) -> BuildResult:
    "Compile a source that has been rewritten to C++; the other parameters are those of `emulate`"
    c = compiler()
    file = f'{name}.cu'
    displayed_src = original or src
    learners_files = {file: displayed_src, **dict(units)}
    macro_flags, macros = _macros(defines)
    flags = [*emulated_flags(c, '\n'.join(learners_files.values()), checks), *extra_flags, *macro_flags]

    def fail(log, command):
        return _compile_exception(_clean(log), command, learners_files, own_headers)

    compiled = {name: (file, src)}
    host_only_files = [k for k, v in dict(units).items() if is_host_only(k, v, folder or current_folder(), include)]
    units = {k: v for k, v in dict(units).items() if k not in host_only_files}
    compiled |= {f'{name}.part{n}': (k, to_cpp(v, shared=shared)) for n, (k, v) in enumerate(units.items())}
    all_sources = [*(text for _, text in compiled.values()), *(learners_files[path] for path in host_only_files)]
    learners_headers = headers or headers_of(all_sources, folder or current_folder(), include, defines)
    own_headers, other_headers = learners_headers.own_texts, learners_headers.other_texts
    texts = [*(text for _, text in compiled.values()), *own_headers.values(), *other_headers.values()]
    rewritten = {k: learners_headers.redirect(text) for k, text in compiled.values()} | {
        k: learners_headers.redirect(to_cpp(v, register_names=False, shared=shared), k) for k, v in own_headers.items()
    }
    originals = {**own_headers, **learners_files}
    linted_texts = {k: text for k, text in rewritten.items() if k not in learners_headers.libraries}
    warned_uses = _reject_host_uses(
        [Unit(text, k, originals[k]) for k, text in linted_texts.items()], other_headers.values(), extensions
    )
    if warned_uses:
        program_names = ProgramNames([*linted_texts.values(), *other_headers.values()])
        rewritten |= {k: guard_host_calls(text, program_names) for k, text in linted_texts.items()}
    # A finding names the calls that led to an access, so a checked build inlines small functions but no static ones.
    static_specifiers = 'static __attribute__((noinline)) ' if checks else 'static '
    has_one_file = len(all_sources) == 1 and not (own_headers or other_headers)
    inline_specifiers = '__attribute__((always_inline)) ' if checks else ''
    registers_kernels = any('cudaLaunchKernelExC' in text for text in rewritten.values())
    marked_sources = {
        k: mark_host_functions(text, static_specifiers if has_one_file else '', inline_specifiers, registers_kernels)
        for k, text in rewritten.items()
        if k in linted_texts or '__global__' in text
    }
    marked_sources = rewritten | marked_sources
    if _tracing.flags:
        marked_sources = {k: record_branches(text) for k, text in marked_sources.items()}
    elif not checks:
        marked_sources = {k: loop_blocks(text) for k, text in marked_sources.items()}
    # Not in `marked_sources`, whose lines are the learner's
    compiled_texts = marked_sources
    if checks and not _tracing.flags:
        compiled_texts = {
            k: text if k in learners_headers.libraries else record_loop_reads(text)
            for k, text in marked_sources.items()
        }
    if checks and lacks_alignment_of_copies(c) and uses_vector_types('\n'.join(learners_files.values())):
        compiled_texts = {
            k: text if k in learners_headers.libraries else check_struct_copies(text)
            for k, text in compiled_texts.items()
        }
    sources = {
        **{k: learners_headers.redirect(text) for k, text in learners_files.items()},
        **{k: compiled_texts[k] for k in own_headers},
        **({OUTPUT_HEADER: OUTPUT_HEADER_TEXT} if host_only_files else {}),
    }
    sources |= {f'{ORIGINALS_FOLDER}/{k}': text for k, text in own_headers.items()}
    # next to the headers that are not rewritten, which a quoted #include searches first
    sources |= {f'{ORIGINALS_FOLDER}/{k}': learners_headers.redirect(learners_files[k]) for k in host_only_files}
    if find_constructors and any(
        runs_when_loaded(text) for k, text in originals.items() if k not in learners_headers.libraries
    ):
        sources[CONSTRUCTORS_MARKER] = ''
    for unit, (path, text) in compiled.items():
        at_alias = 'namespace at = torch;' if _uses_at_namespace(text) else ''
        nvcc_macros = _NVCC_MACROS if path.endswith('.cu') else ''
        preamble = f'{_include_first(texts)}{at_alias}\n{nvcc_macros}{macros}'
        sources[f'{unit}.cpp'] = f'{preamble}#line 1 "{path}"\n{compiled_texts[path]}'

    def warn(log):
        marked_units = [Unit(marked_sources[k], k, originals[k]) for k in linted_texts]
        for error in find_wrong_calls(log, marked_units, extensions, 8 if c.kind == 'gcc' and c.version >= 11 else 1):
            raise error
        warn_of(_clean(log), displayed_src, file, {k: v for k, v in originals.items() if k != file})

    options = dict(key_parts=sorted(other_headers.items()), extra_units=tuple(compiled)[1:])
    result = compile_module(
        sources, name, flags, choose_headers(texts), fail, warn, host_only_files=host_only_files, **options
    )
    for message, *location in warned_uses:
        (result.folder / LOG).touch()  # so that each use of the cached module warns, too
        warn_learner(CompileWarning(message), *location)
    return result


def _clean(log):
    "Return a compiler's log without the warnings about marked functions, and with the learner's file names"
    return drop_mark_warnings(log).replace(f'{ORIGINALS_FOLDER}/', '')


def _shared_variables_of(files, headers):
    "Return `shared_variables` of `files`, {file name: text}, and their own headers"
    all_texts = {**headers.own_texts, **files}
    return shared_variables(all_texts) if any('extern' in text for text in all_texts.values()) else ()


def _reject_host_uses(units, other_headers, extensions):
    """Raise `WrongSource` for a use of a host-only function or type in device code.

    Returns the uses that are warnings, the result of `find_host_device_uses`; [] if a source cannot be parsed."""
    try:
        own_names = ProgramNames([*(unit.text for unit in units), *other_headers])
        host_use = next((use for unit in units for use in find_host_uses(unit, own_names, extensions)), None)
        warned_uses = [use for unit in units for use in find_host_device_uses(unit, own_names)]
    except ValueError:
        return []
    if host_use:
        raise host_use
    return warned_uses


def headers_of(
    sources,  # texts
    folder,
    include=(),
    defines=(),
) -> Headers:
    "Return the headers that the compiler reads for these sources; the other parameters are those of `emulate`"
    merged = Headers({}, {}, {}, {}, {})
    for src in sources:
        used = _files_used_by(src, folder, include, defines) if includes_any(src, folder, include) else set()
        headers = read_headers(src, folder, include, used)
        for texts, new_texts in zip(merged, headers):
            texts.update(new_texts)
    return merged


def _files_used_by(src, folder, include, defines):
    "Return `files_used_by` for a source of CUDA C"
    c = compiler()
    flags, macros = _macros(defines)
    first_headers = ''.join(f'#include "{header}"\n' for header in HEADERS)
    return files_used_by(
        f'{first_headers}{_NVCC_MACROS}{macros}{src}', folder, include, [c.path, *common_flags(c), *flags]
    )


def _compile_exception(log, command, learners_files, own_headers):
    "Return the exception for a compiler's log about `learners_files` or `own_headers`, both {file name: text}"
    for file, text in learners_files.items():
        if unsupported_text := describe_unsupported(log, text, file, own_headers):
            return NotEmulated(unsupported_text)
    reported_files = [path for path in learners_files if read_log(log, path)]
    files = reported_files or [path for path in learners_files if f'{path}:' in log] or [*learners_files]
    return CompileError(learners_files[files[0]], files[0], log, command, own_headers)


def compile_native(
    src: str,  # CUDA C
    name: str,  # of the source, in messages
    arch: str,  # such as 'sm_90'
    extra_flags=(),  # of nvcc
    original='',  # the learner's source, for messages
) -> BuildResult:  # with `name.so` in its folder
    "Compile with nvcc; raise `CompileError`, which shows the learner's lines"
    file = f'{name}.cu'
    cc = nvcc()
    displayed_src = original or src
    macro_line = '' if _uses_at_namespace(src) else '#define GRIDSTRIDE_WITHOUT_AT\n'
    text = f'{macro_line}#include "gridstride/tensor.h"\n#line 1 "{file}"\n{src}'
    flags = ['-std=c++17', '-shared', f'-arch={arch}', '-lineinfo', '-Xcompiler', '-fPIC', '-diag-error=940']
    flags += ['--expt-relaxed-constexpr', '--extended-lambda']
    command = [cc, *flags, f"-I{CPP_FOLDER / 'include/torch'}", *extra_flags, f'{name}.gpu.cu', '-o', f'{name}.so']
    own_headers, other_headers, *_ = read_headers(src, current_folder())
    return build(
        {f'{name}.gpu.cu': text, file: displayed_src, **own_headers},
        [command],
        os.stat(cc).st_mtime,
        headers_hash(CPP_FOLDER / 'include/torch'),
        sorted(other_headers.items()),
        fail=lambda log: CompileError(displayed_src, file, log, command),
        run=partial(run_command, description=f'compiling {file} by nvcc'),
    )


def prepare():
    "Build the runtime and the precompiled headers of checked kernels before the first kernel needs them"
    cpp_compiler = compiler()
    runtime_thread = threading.Thread(target=prepare_runtime)
    runtime_thread.start()
    for names in (KERNEL_HEADERS, HEADERS):
        headers.get_precompiled(cpp_compiler, emulated_flags(cpp_compiler, '', checks=True), names)
    runtime_thread.join()


if __name__ == '__main__':
    prepare()
