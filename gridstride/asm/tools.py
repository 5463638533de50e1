"""Find NVIDIA's compilers in Python packages or in a CUDA toolkit, call them, and parse their reports."""

import ctypes
import hashlib
import os
import pickle
import re
import shutil
import signal
import struct
import subprocess
import sys
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

from ..cpp.toolchain.build import CompileError
from ..cpp.toolchain.compilers import CompilerMissing, nvcc
from ..cpp.toolchain.cache import build
from ..cpp.toolchain.includes import read_headers
from ..cpp.toolchain.nvrtc import CUDA, FIRST, replacements


# None of these tools needs a GPU or its driver. The library [NVRTC](https://docs.nvidia.com/cuda/nvrtc/) compiles CUDA
# C to PTX and machine code, the library nvJitLink compiles PTX to machine code, and the program `nvdisasm` disassembles
# machine code. NVIDIA's Python packages install all of them in one folder, `nvidia/cu13`; in a toolkit they are next to
# `nvcc`.
def homes():
    "Return folders with `bin`, `lib` and `include` that may contain NVIDIA's tools, Python packages first"
    res = [
        d for folder in sys.path if folder for d in sorted(Path(folder).glob('nvidia/*'), reverse=True) if d.is_dir()
    ]
    try:
        res.append(Path(nvcc()).resolve().parent.parent)
    except CompilerMissing:
        pass
    # Standard folders come in addition, because nvcc may be a script that calls another nvcc.
    named = [*(os.environ.get(name) for name in ('CUDA_HOME', 'CUDA_PATH')), '/usr/local/cuda', '/opt/cuda']
    return res + [Path(name) for name in named if name and Path(name).is_dir()]


def missing_tool(
    what,  # the missing program or library
    why,  # what needs it
    package,  # the Python package that contains it
) -> CompilerMissing:
    "Return the exception for a missing tool, with the command that installs it"
    get = f'Get it: pip install {package}' if sys.platform == 'linux' else 'On Linux, a Python package contains it'
    return CompilerMissing(f'{why} needs {what}, which was not found. {get}')


# All packages are of one toolkit, so that NVRTC and its headers have the same version.
_TOOLKIT = "'cuda-toolkit[nvrtc,nvjitlink,cudart,crt,cccl]==13.*'"


def _library(pattern, what, why):
    "Return the path of the first library that matches. Raises CompilerMissing if there is none"
    for home in homes():
        for path in sorted(
            p for folder in ('lib', 'lib64') for p in (home / folder).glob(pattern) if '.alt.' not in p.name
        ):
            return path
    raise missing_tool(what, why, _TOOLKIT)


def program(
    name: str,  # such as 'nvdisasm'
    why: str,  # what needs it, for the error
) -> str:  # its path
    "Return the path of one of NVIDIA's programs. Raises CompilerMissing if it is missing"
    with_triton = [Path(folder) / 'triton/backends/nvidia/bin' / name for folder in sys.path]
    for path in [*(h / 'bin' / name for h in homes()), shutil.which(name), *with_triton]:
        if path and os.access(path, os.X_OK):
            return str(path)
    raise missing_tool(name, why, f'nvidia-cuda-{name}')


def includes() -> list:  # of paths
    "Return the folders of CUDA's headers"
    below = ('include', 'include/cccl', 'targets/x86_64-linux/include/cccl')
    return [str(h / folder) for h in homes() for folder in below if (h / folder).is_dir()]


@lru_cache
def _nvrtc():
    path = _library('libnvrtc.so.*', 'NVRTC', 'Compiling CUDA C for a GPU')
    for library in path.parent.glob('libnvrtc-builtins.so.*'):
        ctypes.CDLL(str(library))  # NVRTC finds it by name only if it is loaded
    return ctypes.CDLL(str(path))


def _fetch(lib, function, handle):
    "Return the bytes that `function` of a library writes; `functionSize` returns their number"
    n = ctypes.c_size_t()
    getattr(lib, f'{function}Size')(handle, ctypes.byref(n))
    res = ctypes.create_string_buffer(n.value)
    getattr(lib, function)(handle, res)
    return res.raw


def _text(raw):
    return raw.rstrip(b'\0').decode(errors='replace')


def _strings(xs):
    return (ctypes.c_char_p * len(xs))(*(x.encode() for x in xs))


_NO_CACHE = '--no-cache'  # an option of NVRTC and nvJitLink; older versions have no cache


def _options(arch, opt, folders, flags):
    "Return the options for NVRTC"
    how = ['-std=c++17', '-lineinfo' if opt else '-G', '--ptxas-options=-v', '-default-device', '-w']
    return [f'-arch={arch}', *how, f'--pre-include={FIRST}', *(f'-I{folder}' for folder in folders), '-I.', *flags]


def nvrtc(
    src: str,  # CUDA C without host code
    name: str,  # the kernel; `k<float>` for a template
    arch='sm_90',  # the GPU architecture
    opt=True,  # optimize
    flags=(),  # more options of NVRTC
    file='kernel.cu',  # name of the source in messages
    original='',  # the user's source, for messages
) -> tuple:  # PTX, machine code, the assembler's output, the mangled name of the kernel
    "Compile for a GPU, or take the result from the cache. Raises CompileError, which shows the line"
    lib, folders = _nvrtc(), includes()
    given = replacements(src, folders)
    options = _options(arch, opt, folders, flags)
    decides = [(part, os.stat(part).st_mtime) for part in (lib._name, *folders)]

    def compile():
        made = _compiled(lib, src, name, given, options, file, original or src)
        # The driver caches compiled code, but not the output of the assembler: without it, compile again.
        if _NO_CACHE not in flags and not _log_of_kernel(made[3], made[2]):
            fresh = _options(arch, opt, folders, (*flags, _NO_CACHE))
            made = _compiled(lib, src, name, given, fresh, file, original or src)
        return made

    how = [
        src,
        name,
        file,
        given,
        options,
        decides,
        [sorted(header.items()) for header in read_headers(src, Path.cwd())],
    ]
    return from_cache('nvrtc', compile, *how)


def from_cache(
    compiler,  # its name
    compile,  # a function without arguments, whose result is cached
    *decides,  # all that the result depends on, as data for JSON
):
    "Return `compile()`, or its cached result for the same input"

    def run(command, folder):
        _store(folder, compile())
        return 0, ''

    def find():
        return build({}, [[compiler]], *decides, run=run, section='cubin').folder

    if (made := _load_stored(folder := find())) is None:
        shutil.rmtree(folder, ignore_errors=True)
        made = _load_stored(find())
    return made


def _store(folder, made):
    "Write a result to a folder, with a checksum"
    data = pickle.dumps(made)
    (folder / 'made').write_bytes(hashlib.blake2b(data).digest() + data)


def _load_stored(folder):
    "Return what `_store` wrote; None if it is missing or damaged"
    try:
        raw = (folder / 'made').read_bytes()
    except OSError:
        return None
    size = hashlib.blake2b().digest_size
    return pickle.loads(raw[size:]) if hashlib.blake2b(raw[size:]).digest() == raw[:size] else None


@contextmanager
def _interruptible():
    """Let Ctrl-C interrupt system calls of this process again after the `with` block.

    NVRTC installs its own handler for SIGINT while it compiles. It restores Python's handler in a way that restarts
    system calls, so that Ctrl-C would not interrupt a wait for another program."""
    try:
        yield
    finally:
        if callable(signal.getsignal(signal.SIGINT)):
            signal.siginterrupt(signal.SIGINT, True)


@_interruptible()
def _compiled(lib, src, name, given, options, file, original):
    "Compile for `nvrtc`, without the cache"
    p = ctypes.c_void_p()
    # An absolute path keeps the current folder out of the machine code, which is cached.
    path = file if os.path.isabs(file) else f'/{file}'
    texts = _strings(given.values())
    names = _strings(given)
    lib.nvrtcCreateProgram(ctypes.byref(p), src.encode(), path.encode(), len(given), texts, names)
    try:
        lib.nvrtcAddNameExpression(p, name.encode())
        failed = lib.nvrtcCompileProgram(p, len(options), _strings(options))
        log = _text(_fetch(lib, 'nvrtcGetProgramLog', p)).replace(path, file)
        if failed:
            raise _compile_error(log, original, file)
        entry = ctypes.c_char_p()
        lib.nvrtcGetLoweredName(p, name.encode(), ctypes.byref(entry))
        return _text(_fetch(lib, 'nvrtcGetPTX', p)), _fetch(lib, 'nvrtcGetCUBIN', p), log, entry.value.decode()
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(p))


def _compile_error(log, src, file):
    "Return the exception for a failed compilation with this log"
    m = re.search(r'could not open source file "([^"]+)"|cannot open source file "([^"]+)"', log)
    if m and CUDA.match(m[1] or m[2]):
        return missing_tool(f"CUDA's header {m[1] or m[2]}", 'This source', _TOOLKIT)
    return CompileError(src, file, log, ('nvrtc',))


@lru_cache
def _jitlink():
    "Load nvJitLink and return its functions by name; their symbols contain the version"
    path = _library('libnvJitLink.so.*', 'nvJitLink', 'Making machine code of PTX')
    lib = ctypes.CDLL(str(path))
    version = path.name.split('.')[-1]
    logs = 'GetErrorLogSize GetErrorLog GetInfoLogSize GetInfoLog'
    names = f'Create AddData Complete {logs} GetLinkedCubinSize GetLinkedCubin Destroy'.split()
    return SimpleNamespace(**{name: getattr(lib, f'__nvJitLink{name}_{version}_0') for name in names})


def link(
    ptx: str,  # the whole module
    arch='sm_90',  # the GPU architecture
    opt=True,  # optimize
    flags=(),  # more options of nvJitLink
) -> tuple:  # machine code, the assembler's output
    "Compile PTX to machine code. Raises RuntimeError with the assembler's message"
    made = _linked(ptx, arch, opt, flags)
    # As with NVRTC, the driver caches the code, but not the output of the assembler.
    if _NO_CACHE not in flags and 'Compiling entry function' not in made[1]:
        made = _linked(ptx, arch, opt, (*flags, _NO_CACHE))
    return made


@_interruptible()
def _linked(ptx, arch, opt, flags):
    "Compile PTX for `link`, without the cache"
    lib = _jitlink()
    p = ctypes.c_void_p()
    options = [f'-arch={arch}', '-lineinfo', '-Xptxas=-v', '-verbose', *([] if opt else ['-O0']), *flags]
    lib.Create(ctypes.byref(p), len(options), _strings(options))
    try:
        failed = lib.AddData(p, 2, ptx.encode() + b'\0', len(ptx.encode()) + 1, b'kernel.ptx') or lib.Complete(p)
        if failed:
            raise RuntimeError(f"PTX could not be assembled for {arch}:\n{_text(_fetch(lib, 'GetErrorLog', p))}")
        return _fetch(lib, 'GetLinkedCubin', p), _text(_fetch(lib, 'GetInfoLog', p))
    finally:
        lib.Destroy(ctypes.byref(p))


# The assembler prints registers and spills per kernel. The machine code is an ELF file with sections per kernel, whose
# sizes are the bytes of shared memory and of constant memory, which contains the arguments.
def _sections(elf):
    "Return {name: (offset, size)} of the sections of a 64-bit ELF file"
    (at,) = struct.unpack_from('<Q', elf, 0x28)
    size, n, names = struct.unpack_from('<3H', elf, 0x3A)
    heads = [struct.unpack_from('<IIQQQQ', elf, at + i * size) for i in range(n)]

    def name(at):
        return elf[at : elf.index(b'\0', at)].decode()

    return {name(heads[names][4] + h[0]): (h[4], h[5]) for h in heads}


def sections(elf: bytes) -> dict:  # name -> size in bytes
    "Return the sizes of the sections of a 64-bit ELF file"
    return {name: size for name, (_, size) in _sections(elf).items()}


# The section `.nv.info` of a cubin has records of a format, an attribute and a number; with format 4, so many bytes
# follow. One attribute contains (symbol, registers per thread).
_HAS_PAYLOAD, _REGISTERS = 4, 0x2F


def registers_used(cubin: bytes) -> int:
    "Return the registers per thread of a cubin's kernel: the maximum over its functions"
    at, size = _sections(cubin)['.nv.info']
    end = at + size
    most = 0
    while at < end:
        form, attribute, n = struct.unpack_from('<BBH', cubin, at)
        at += 4
        if form == _HAS_PAYLOAD:
            if attribute == _REGISTERS:
                most = max(most, struct.unpack_from('<II', cubin, at)[1])
            at += n
    return most


_USAGE_PATTERNS = {
    'registers': r'Used (\d+) registers',
    'local': r'(\d+) bytes stack frame',
    'spill_stores': r'(\d+) bytes spill stores',
    'spill_loads': r'(\d+) bytes spill loads',
    'barriers': r'used (\d+) barriers',
}


def _log_of_kernel(entry, log):
    "Return the part of the assembler's output that is about one kernel"
    parts = re.split(r"Compiling entry function '|Function properties for ", log)
    return ''.join(part for part in parts if re.match(rf"{re.escape(entry)}\b", part))


def usage(
    log: str,  # the assembler's output
    cubin: bytes,  # machine code
    entry: str,  # mangled name of the kernel
    arch='sm_90',  # architecture of the machine code
) -> dict:
    """Return the resources of a kernel: `registers` per thread; bytes of static `shared` memory per block, of `local`
    memory per thread, of `spill_stores` and `spill_loads` in its instructions, of `constant` memory; `barriers`.

    Raises RuntimeError if the log does not contain the kernel."""
    text = _log_of_kernel(entry, log)
    if not text:
        raise RuntimeError(f"the assembler's output does not mention {entry}:\n{log}")
    res = {k: int(m[1]) if (m := re.search(p, text)) else 0 for k, p in _USAGE_PATTERNS.items()}
    sizes = sections(cubin)
    # Since sm_90 this includes the 1 KiB that the system reserves.
    shared = sizes.get(f'.nv.shared.{entry}', 0) - (1024 if int(re.search(r'\d+', arch)[0]) >= 90 else 0)
    return {**res, 'shared': max(0, shared), 'constant': sizes.get(f'.nv.constant0.{entry}', 0)}


# nvdisasm takes a third of a second for a kernel of ten lines, and NVRTC only a fourteenth of that. So its output is
# cached.
def disassemble(cubin: bytes) -> str:
    "Disassemble machine code with nvdisasm, with source lines. Raises CompilerMissing without nvdisasm"
    tool = program('nvdisasm', 'Reading machine code (SASS)')

    def run(command, folder):
        (folder / 'k.cubin').write_bytes(cubin)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        (folder / 'k.sass').write_text(done.stdout)
        return done.returncode, done.stderr

    def fail(log):
        return RuntimeError(f'{tool} cannot read this machine code:\n{log}')

    decides = hashlib.sha256(cubin).hexdigest(), os.stat(tool).st_mtime
    built = build({}, [[tool, '-c', '-gi', 'k.cubin']], *decides, fail=fail, run=run, section='sass')
    return (built.folder / 'k.sass').read_text()
