"""`gridstride nvcc` accepts nvcc's command line and builds programs for the emulator: `make NVCC="gridstride nvcc"`.

An object file contains its sources, because the emulator compiles a program as a whole: `-c` reports the errors of the
sources, and linking compiles them again. An executable is a zip file that Python runs; it contains the compiled module,
and needs this version of the package, but neither the sources nor the cache.
"""

import json, os, re, sys, tempfile, zipfile
from pathlib import Path
from typing import NamedTuple

from . import emulator, program
from .frontend.reader import kernels
from .rewriters.rewrite import strip_line_directives
from .toolchain.build import ARCH_MACRO, emulate
from .toolchain.cache import BuildResult, cpu_key, headers_hash
from .toolchain.compilers import CPP_FOLDER
from .toolchain.runtime_library import abi_checksum
from ..diagnostics.settings import checks_to_compile

_SOURCES = '.cu', '.cpp', '.cc', '.cxx', '.c', '.C'
_OBJECT_HEADER = 'gridstride object 1\n'
_VERSION_TEXT = 'nvcc: the emulator of gridstride\nCuda compilation tools, release 13.0, V13.0.0'

# flags whose value is the next argument, unless it follows `=` or, for one letter, the flag itself
_FLAGS_WITH_VALUE = frozenset(
    '-o -I -D -U -L -l -x -t -O -isystem -include -std --std -arch --gpu-architecture -code --gpu-code -gencode '
    '--generate-code -Xcompiler --compiler-options -Xptxas --ptxas-options -Xlinker --linker-options -Xcudafe -Xnvlink '
    '-ccbin --compiler-bindir -maxrregcount --maxrregcount -rdc --relocatable-device-code -MF -MT -MQ -cudart --cudart '
    '-diag-suppress -fmad --threads --output-file --include-path --define-macro --library --library-path '
    '-default-stream --default-stream'.split()
)
_ARCHITECTURE_FLAGS = '-arch', '--gpu-architecture', '-gencode', '--generate-code'
_LONG_NAMES = {
    '--output-file': '-o',
    '--include-path': '-I',
    '--define-macro': '-D',
    '--compile': '-c',
    '-isystem': '-I',
}
_LONG_NAMES |= {'--std': '-std', '--compiler-options': '-Xcompiler', '-dc': '-c', '--device-c': '-c'}
_EXTENSIONS = {
    '--expt-relaxed-constexpr': 'constexpr',
    '--extended-lambda': 'lambda',
    '--expt-extended-lambda': 'lambda',
}
_EXTENSIONS |= {flag[1:]: extension for flag, extension in _EXTENSIONS.items()}


class Request(NamedTuple):
    "A command line of nvcc: the files, and those flags that have an effect on the emulator"

    files: list
    output: str = ''  # '': the default name
    compile_only: bool = False  # -c
    module: str = ''  # the ending of a module's file, '.fatbin'; '': an object or an executable
    include: tuple = ()  # folders
    defines: tuple = ()  # macros: 'NAME' or 'NAME=VALUE'
    flags: tuple = ()  # of the host's compiler
    extensions: tuple = ()  # as for `program.compile_program`
    checked: bool = True
    ignored: tuple = ()  # flags without an effect


def _split_flags(argv):
    "Yield (flag, value) per flag, and ('', file) per file"
    arguments = iter(argv)
    for argument in arguments:
        name, equals, value = argument.partition('=')
        if not argument.startswith('-'):
            yield '', argument
        elif name in _FLAGS_WITH_VALUE and len(name) > 2:
            yield _LONG_NAMES.get(name, name), value if equals else next(arguments, '')
        elif argument[:2] in _FLAGS_WITH_VALUE and argument[:2] != '-t':
            yield argument[:2], argument[2:].removeprefix('=') or next(arguments, '')
        else:
            yield _LONG_NAMES.get(argument, argument), ''


# flags that compile to a module for cuModuleLoad, and the ending of its file
_MODULE_FLAGS = {f'{dashes}{kind}': f'.{kind}' for dashes in ('-', '--') for kind in ('fatbin', 'cubin', 'ptx')}
_HOST_FLAG = re.compile(r'-fopenmp$|-std=|-D|-I')


def _expand_host_flags(pairs):
    "Yield the pairs of `_split_flags`; flags in -Xcompiler that the emulator supports are yielded separately"
    for flag, value in pairs:
        host_flags = value.replace('"', '').replace(',', ' ').split() if flag == '-Xcompiler' else []
        supported_flags = [f for f in host_flags if _HOST_FLAG.match(f)]
        yield from _split_flags(supported_flags)
        if len(supported_flags) < len(host_flags) or flag != '-Xcompiler':
            yield flag, value


def parse(
    argv,  # arguments of nvcc
) -> Request:
    "Parse a command line, such as `parse(['-O3', '-o', 'a', 'a.cu'])`; unknown flags are ignored"
    lists = dict(files=[], include=[], defines=[], flags=[], extensions=[], ignored=[])
    options = {}
    for flag, value in _expand_host_flags(_split_flags(argv)):
        if flag == '':
            lists['files'].append(value)
        elif flag == '-o':
            options['output'] = value
        elif flag == '-c':
            options['compile_only'] = True
        elif flag in _MODULE_FLAGS:
            options['module'] = _MODULE_FLAGS[flag]
        elif flag == '--unchecked':
            options['checked'] = False
        elif flag in ('-I', '-D'):
            lists['include' if flag == '-I' else 'defines'].append(value)
        elif flag in _ARCHITECTURE_FLAGS and (m := re.search(r'\b(?:sm|compute)_100[af]?\b', value)):
            lists['defines'].append(f'{ARCH_MACRO}={m[0]}')
        elif flag == '-std' and re.fullmatch(r'c\+\+2\w', value):
            lists['flags'].append(f'-std={value}')
        elif flag == '-fopenmp':
            lists['flags'].append(flag)
        elif flag in _EXTENSIONS:
            lists['extensions'].append(_EXTENSIONS[flag])
        else:
            lists['ignored'].append(f'{flag}{" " * (len(flag) > 2 and bool(value))}{value}')
    files = lists.pop('files')
    return Request(files, **options, **{name: tuple(dict.fromkeys(values)) for name, values in lists.items()})


def _read_source(path, request):
    "Return the contents of an object file for one source"
    if not Path(path).is_file():
        raise ValueError(f'{path}: {os.strerror(2)}')
    text = Path(path).read_text(encoding='utf-8-sig', errors='replace')
    include = [str(Path(folder).resolve()) for folder in request.include]
    keys = dict(defines=request.defines, flags=request.flags, extensions=request.extensions, checked=request.checked)
    return dict(path=str(Path(path).resolve()), text=text, include=include, **keys)


def _read_object(path):
    "Return the sources of an object file; raises `ValueError` for one that another compiler wrote"
    try:
        magic, _, data = Path(path).read_text(encoding='utf-8').partition('\n')
        if f'{magic}\n' == _OBJECT_HEADER:
            return json.loads(data)
    except OSError as error:
        raise ValueError(f'{path}: {error.strerror}') from None
    except UnicodeDecodeError:
        pass
    raise ValueError(f'{path} was not compiled by `gridstride nvcc`: compile all files of the program with it')


def _merged(sources, key):
    "Merge the values of a key of all sources; raises `ValueError` for macros that have several values"
    values = tuple(dict.fromkeys(value for source in sources for value in source[key]))
    names = [value.partition('=')[0] for value in values]
    if key == 'defines' and (wrong := next((name for name in names if names.count(name) > 1), None)):
        raise ValueError(f'conflicting values of -D {wrong}: compile all files of a program with the same macros')
    return values


def compile_sources(
    sources: list,  # results of `_read_source`; `main` may be in any of them
) -> tuple:  # (`BuildResult`, the module's name, the detectors)
    "Compile the sources of a program, or of an object file"
    first = next((s for s in sources if re.search(r'\bmain\s*\(', s['text'])), sources[0])
    others = [s for s in sources if s is not first]
    paths = [Path(s['path']) for s in (first, *others)]
    folder = os.path.commonpath([path.parent for path in paths])
    is_unique = len({path.name for path in paths}) == len(paths)
    units = {
        path.name if is_unique else path.relative_to(folder).as_posix(): s['text'] for path, s in zip(paths[1:], others)
    }
    include = [
        Path(p) for p in dict.fromkeys((*_merged(sources, 'include'), *(str(path.parent) for path in paths[1:])))
    ]
    name = ''.join(c if c.isalnum() else '_' for c in paths[0].stem)
    name += '_' * bool({f'{name}.cpp', f'{name}.cu'} & units.keys())
    checks = None if all(s['checked'] for s in sources) else False
    options = dict(folder=paths[0].parent, include=include, units=units, is_host_only=paths[0].suffix != '.cu')
    options.update({key: _merged(sources, key) for key in ('defines', 'flags', 'extensions')})
    build_result, checks = program.compile_program(first['text'], name, checks, **options)
    return build_result, name, checks


_RUN_SCRIPT = """import sys
from gridstride.cpp.nvcc import run_executable
sys.exit(run_executable(sys.argv))
"""


def _machine():
    "Return what an executable is built for: this version of the emulator, and this CPU"
    header_hashes = [headers_hash(CPP_FOLDER / folder) for folder in ('include', 'runtime')]
    return json.loads(json.dumps([*header_hashes, cpu_key()]))


def write_executable(path, build_result, name, checks):
    "Write a zip file that Python runs"
    path = Path(path)
    path.unlink(missing_ok=True)  # it may be running
    with open(path, 'wb') as file:
        file.write(f'#!{sys.executable}\n'.encode())
        with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr('__main__.py', _RUN_SCRIPT)
            archive.writestr('program.json', json.dumps(dict(name=name, checks=checks, machine=_machine())))
            for p in sorted(p for p in build_result.folder.rglob('*') if p.is_file() and p.suffix != '.o'):
                archive.write(p, f'build/{p.relative_to(build_result.folder).as_posix()}')
    path.chmod(0o755)


def _time_limit():
    "Return the time limit per kernel that GRIDSTRIDE_SECONDS sets; None if it sets none"
    text = os.environ.get('GRIDSTRIDE_SECONDS')
    try:
        return float(text) if text else None
    except ValueError:
        raise ValueError(f'GRIDSTRIDE_SECONDS must be a positive number; got {text!r}') from None


def run_executable(
    argv,  # its path, then the program's arguments
) -> int:  # exit status
    "Run a program that `write_executable` has written"
    from .__main__ import report_errors

    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(argv[0]) as archive:
        info = json.loads(archive.read('program.json'))
        if info['machine'] != _machine():
            print(f'{argv[0]} was built for another version of gridstride, or another CPU: rebuild it', file=sys.stderr)
            return 1
        archive.extractall(folder)
        build_result = BuildResult(Path(folder, 'build'), [], 0.0, True)

        def run():
            with emulator.options(seconds=_time_limit()):
                return program.run_compiled(build_result, info['name'], argv, info['checks'])

        return report_errors(run, [argv[0]])


# A module contains a table of its kernels, which `runtime/modules.cpp` reads.
_MODULE_KERNEL = 'struct gs_name_%d { static constexpr const char *value() { return "%s"; } };'
_MODULE_TABLE = """
namespace { %s }
extern "C" __attribute__((visibility("default"))) const ::gridstride::ModuleKernel gs_module_kernels[];
const ::gridstride::ModuleKernel gs_module_kernels[] = { %s {} };
"""


def _module_table(src):
    "Return C++ code for the table of a module's kernels; templates have no entry"
    names = dict.fromkeys(f'{f.scope}::{f.name}' if f.scope else f.name for f in kernels(src) if not f.template)
    entries = [f'::gridstride::KernelOfModule<gs_name_{i}, {name}>::description(),' for i, name in enumerate(names)]
    return _MODULE_TABLE % (' '.join(_MODULE_KERNEL % (i, name) for i, name in enumerate(names)), ' '.join(entries))


def write_module(
    path,  # of the file
    source,  # a result of `_read_source`
    is_text=False,  # whether the file has no bytes but those of text, as PTX
):
    "Compile a source to a module, which a program loads by cuModuleLoad"
    file, text = Path(source['path']), source['text']
    name = ''.join(c if c.isalnum() else '_' for c in file.stem)
    checks = checks_to_compile(None if source['checked'] else False)
    options = dict(folder=file.parent, include=[Path(folder) for folder in source['include']])
    options.update({key: tuple(source[key]) for key in ('defines', 'extensions')})
    options.update(original=text, suffix=_module_table(text))
    build_result = emulate(strip_line_directives(text), name, bool(checks), [*source['flags'], '-I.'], **options)
    library = (build_result.folder / f'{name}.so').read_bytes()
    source_bytes = text.encode()
    contents = library + source_bytes
    if is_text:
        contents = contents.hex().encode()
    header = f'gridstride {"ptx" if is_text else "module"} {abi_checksum()} {len(library)} {len(source_bytes)}'
    Path(path).write_bytes(f'{header} {file.name}\n'.encode() + contents)


def _build(request):
    "Compile or link the files of a request"
    sources = []
    for path in request.files:
        sources += [_read_source(path, request)] if path.endswith(_SOURCES) else _read_object(path)
    if request.module:
        if len(request.files) > 1:
            raise ValueError('a module has only one source file')
        path = request.output or f'{Path(request.files[0]).stem}{request.module}'
        write_module(path, *sources, is_text=request.module == '.ptx')
        return 0
    if not request.compile_only:
        write_executable(request.output or 'a.out', *compile_sources(sources))
        return 0
    if request.output and len(request.files) > 1:
        raise ValueError('-o with -c allows only one source file')
    for path, source in zip(request.files, sources):
        compile_sources([source])
        text = _OBJECT_HEADER + json.dumps([source])
        Path(request.output or f'{Path(path).stem}.o').write_text(text, encoding='utf-8')
    return 0


def main(argv=None) -> int:  # exit status
    "Run the command: compile, link, or print the version; prints ignored flags"
    from .__main__ import report_errors

    argv = sys.argv[1:] if argv is None else argv
    if not argv or {'-h', '--help'} & {*argv}:
        print(__doc__)
        return 0 if argv else 2
    if {'-V', '--version'} & {*argv}:
        print(_VERSION_TEXT)
        return 0
    request = parse(argv)
    if request.ignored:
        print(f"gridstride nvcc: ignored: {' '.join(request.ignored)}", file=sys.stderr)
    if not request.files:
        print('gridstride nvcc: no input files', file=sys.stderr)
        return 2
    return report_errors(
        lambda: _build(request), [path for path in request.files if path.endswith(_SOURCES)] or ['a.cu']
    )
