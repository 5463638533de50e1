"""NVIDIA's compilers where they are found: in Python packages or in a CUDA toolkit, and what they say of a kernel."""

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


# None of this needs a GPU or its driver. [NVRTC](https://docs.nvidia.com/cuda/nvrtc/), a shared library,
# compiles CUDA C to PTX and machine code. nvJitLink, another library, compiles PTX to machine code. `nvdisasm`, a
# program, prints machine code. NVIDIA's Python packages put all of them below one folder, `nvidia/cu13`; in a
# toolkit they are in the folder of `nvcc`.
def homes():
    "Folders with `bin`, `lib` and `include` in which NVIDIA's tools may be, Python's packages first"
    res = [
        d for folder in sys.path if folder for d in sorted(Path(folder).glob('nvidia/*'), reverse=True) if d.is_dir()
    ]
    try:
        res.append(Path(nvcc()).resolve().parent.parent)
    except CompilerMissing:
        pass
    # too, for nvcc may be a script that calls another one
    named = [*(os.environ.get(name) for name in ('CUDA_HOME', 'CUDA_PATH')), '/usr/local/cuda', '/opt/cuda']
    return res + [Path(name) for name in named if name and Path(name).is_dir()]


def missing_tool(
    what,  # is missing
    why,  # what needs it
    package,  # Python package that brings it
) -> CompilerMissing:
    "Return the exception for a tool that is not here, with the command that brings it"
    get = f'Get it: pip install {package}' if sys.platform == 'linux' else 'On Linux, a Python package brings it'
    return CompilerMissing(f'{why} needs {what}, which is not here. {get}')


# The packages of one toolkit, or else NVRTC's headers may be of another version than itself.
_TOOLKIT = "'cuda-toolkit[nvrtc,nvjitlink,cudart,crt,cccl]==13.*'"


def _library(pattern, what, why):
    "Return the first of the libraries that match; raises `CompilerMissing` if there is none"
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
    "Return one of NVIDIA's programs; raises `CompilerMissing` if there is none"
    with_triton = [Path(folder) / 'triton/backends/nvidia/bin' / name for folder in sys.path]
    for path in [*(h / 'bin' / name for h in homes()), shutil.which(name), *with_triton]:
        if path and os.access(path, os.X_OK):
            return str(path)
    raise missing_tool(name, why, f'nvidia-cuda-{name}')


def includes() -> list:  # of paths
    "Folders with CUDA's headers"
    below = ('include', 'include/cccl', 'targets/x86_64-linux/include/cccl')
    return [str(h / folder) for h in homes() for folder in below if (h / folder).is_dir()]


@lru_cache
def _nvrtc():
    path = _library('libnvrtc.so.*', 'NVRTC', 'Compiling CUDA C for a GPU')
    for library in path.parent.glob('libnvrtc-builtins.so.*'):
        ctypes.CDLL(str(library))  # NVRTC looks for it by its name alone
    return ctypes.CDLL(str(path))


def _fetch(lib, function, handle):
    "Return the bytes that `function` of a library returns, which has a companion that returns their number"
    n = ctypes.c_size_t()
    getattr(lib, f'{function}Size')(handle, ctypes.byref(n))
    res = ctypes.create_string_buffer(n.value)
    getattr(lib, function)(handle, res)
    return res.raw


def _text(raw):
    return raw.rstrip(b'\0').decode(errors='replace')


def _strings(xs):
    return (ctypes.c_char_p * len(xs))(*(x.encode() for x in xs))


_FRESH = '--no-cache'  # an option of NVRTC and nvJitLink; versions without it have no cache


def _options(arch, opt, folders, flags):
    "Return the options that NVRTC gets"
    how = ['-std=c++17', '-lineinfo' if opt else '-G', '--ptxas-options=-v', '-default-device', '-w']
    return [f'-arch={arch}', *how, f'--pre-include={FIRST}', *(f'-I{folder}' for folder in folders), '-I.', *flags]


def nvrtc(
    src: str,  # CUDA C without host code
    name: str,  # the kernel; `k<float>` for a template
    arch='sm_90',  # which GPU's machine code
    opt=True,  # optimise?
    flags=(),  # more of NVRTC's options
    file='kernel.cu',  # the source's name in messages
    original='',  # the source as it was given, for messages
) -> tuple:  # PTX, machine code, what the assembler said, the kernel's name in these
    "Compile for a GPU, or find it in the cache; raises `CompileError`, which shows the line"
    lib, folders = _nvrtc(), includes()
    given = replacements(src, folders)
    options = _options(arch, opt, folders, flags)
    decides = [(part, os.stat(part).st_mtime) for part in (lib._name, *folders)]

    def compile():
        made = _compiled(lib, src, name, given, options, file, original or src)
        # The driver keeps what NVRTC has compiled, but not what the assembler said then.
        if _FRESH not in flags and not _part_about(made[3], made[2]):
            fresh = _options(arch, opt, folders, (*flags, _FRESH))
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
    compile,  # called with nothing: what is to be kept
    *decides,  # all that decides what that is: what JSON can hold
):
    "Return `compile()` for this input, from the cache of compiled kernels if it is there"

    def run(command, folder):
        _keep(folder, compile())
        return 0, ''

    def find():
        return build({}, [[compiler]], *decides, run=run, section='cubin').folder

    if (made := _read_kept(folder := find())) is None:
        shutil.rmtree(folder, ignore_errors=True)
        made = _read_kept(find())
    return made


def _keep(folder, made):
    "Write what was made into the folder, and a sum by which it is known to be whole"
    data = pickle.dumps(made)
    (folder / 'made').write_bytes(hashlib.blake2b(data).digest() + data)


def _read_kept(folder):
    "Return what `_keep` wrote; None if that is broken"
    try:
        raw = (folder / 'made').read_bytes()
    except OSError:
        return None
    size = hashlib.blake2b().digest_size
    return pickle.loads(raw[size:]) if hashlib.blake2b(raw[size:]).digest() == raw[:size] else None


@contextmanager
def _interruptible():
    """Let Ctrl-C interrupt system calls of this process after the `with` block, as Python does.

    NVRTC has a handler of its own for SIGINT while it compiles, and restores Python's such that system calls are
    restarted: a wait for another program would then last until its end."""
    try:
        yield
    finally:
        if callable(signal.getsignal(signal.SIGINT)):
            signal.siginterrupt(signal.SIGINT, True)


@_interruptible()
def _compiled(lib, src, name, given, options, file, original):
    "Compile by `nvrtc` now"
    p = ctypes.c_void_p()
    # in no folder: else the current one is in the machine code, which no cache knows elsewhere
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
    "Return the exception for a compilation that ended with this log"
    m = re.search(r'could not open source file "([^"]+)"|cannot open source file "([^"]+)"', log)
    if m and CUDA.match(m[1] or m[2]):
        return missing_tool(f"CUDA's header {m[1] or m[2]}", 'This source', _TOOLKIT)
    return CompileError(src, file, log, ('nvrtc',))


@lru_cache
def _jitlink():
    "nvJitLink's functions by name; the library has them once per version"
    path = _library('libnvJitLink.so.*', 'nvJitLink', 'Making machine code of PTX')
    lib = ctypes.CDLL(str(path))
    version = path.name.split('.')[-1]
    logs = 'GetErrorLogSize GetErrorLog GetInfoLogSize GetInfoLog'
    names = f'Create AddData Complete {logs} GetLinkedCubinSize GetLinkedCubin Destroy'.split()
    return SimpleNamespace(**{name: getattr(lib, f'__nvJitLink{name}_{version}_0') for name in names})


def link(
    ptx: str,  # the whole module
    arch='sm_90',  # which GPU's machine code
    opt=True,  # optimise?
    flags=(),  # more of nvJitLink's options
) -> tuple:  # machine code, what the assembler said
    "PTX to machine code; `RuntimeError` with the assembler's words if it refuses"
    made = _linked(ptx, arch, opt, flags)
    # as with NVRTC: the driver keeps what was linked, but not what the assembler said then
    if _FRESH not in flags and 'Compiling entry function' not in made[1]:
        made = _linked(ptx, arch, opt, (*flags, _FRESH))
    return made


@_interruptible()
def _linked(ptx, arch, opt, flags):
    "Link by `link` now"
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


# The assembler prints registers and spills of each kernel. Its bytes of shared and of constant memory
# (its arguments are in the latter) are in the machine code, which comes in an ELF file, whose sections are
# named after kernels.
def _sections(elf):
    "name -> (where it begins, size) of each section of a 64-bit ELF file"
    (at,) = struct.unpack_from('<Q', elf, 0x28)
    size, n, names = struct.unpack_from('<3H', elf, 0x3A)
    heads = [struct.unpack_from('<IIQQQQ', elf, at + i * size) for i in range(n)]

    def name(at):
        return elf[at : elf.index(b'\0', at)].decode()

    return {name(heads[names][4] + h[0]): (h[4], h[5]) for h in heads}


def sections(elf: bytes) -> dict:  # name -> size in bytes
    "Return the sections of a 64-bit ELF file"
    return {name: size for name, (_, size) in _sections(elf).items()}


# What the driver is to know of a cubin's functions is in `.nv.info`: records of a format, an attribute and a number,
# which is how many bytes follow if the format is 4. One attribute has (symbol, registers of a thread).
_FOLLOWED, _REGISTERS = 4, 0x2F


def registers_used(cubin: bytes) -> int:
    "Registers that each thread of a cubin's kernel gets: what its functions use at most"
    at, size = _sections(cubin)['.nv.info']
    end = at + size
    most = 0
    while at < end:
        form, attribute, n = struct.unpack_from('<BBH', cubin, at)
        at += 4
        if form == _FOLLOWED:
            if attribute == _REGISTERS:
                most = max(most, struct.unpack_from('<II', cubin, at)[1])
            at += n
    return most


_TAKES = {
    'registers': r'Used (\d+) registers',
    'local': r'(\d+) bytes stack frame',
    'spill_stores': r'(\d+) bytes spill stores',
    'spill_loads': r'(\d+) bytes spill loads',
    'barriers': r'used (\d+) barriers',
}


def _part_about(entry, log):
    "Return the part of the assembler's words that is about one kernel"
    parts = re.split(r"Compiling entry function '|Function properties for ", log)
    return ''.join(part for part in parts if re.match(rf"{re.escape(entry)}\b", part))


def usage(
    log: str,  # what the assembler said
    cubin: bytes,  # machine code
    entry: str,  # the kernel's name there
    arch='sm_90',  # whose machine code it is
) -> dict:
    """What a kernel takes: `registers` of a thread; bytes of static `shared` memory of a block, of a thread's `local`
    memory, of `spill_stores` and `spill_loads` (as instructions say), of `constant` memory; `barriers`"""
    text = _part_about(entry, log)
    if not text:
        raise RuntimeError(f'the assembler said nothing of {entry}:\n{log}')
    res = {k: int(m[1]) if (m := re.search(p, text)) else 0 for k, p in _TAKES.items()}
    sizes = sections(cubin)
    # since sm_90 this includes what the system reserves
    shared = sizes.get(f'.nv.shared.{entry}', 0) - (1024 if int(re.search(r'\d+', arch)[0]) >= 90 else 0)
    return {**res, 'shared': max(0, shared), 'constant': sizes.get(f'.nv.constant0.{entry}', 0)}


# nvdisasm takes a third of a second for a kernel of ten lines, 14 times the time of NVRTC. So its output is
# kept where compiled kernels are.
def disassemble(cubin: bytes) -> str:
    "Machine code as nvdisasm prints it, each instruction after the source line that it came from"
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
