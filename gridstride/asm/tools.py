"""Find NVIDIA's compilers in Python packages or in a CUDA toolkit, call them, and parse their output."""

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
from ..cpp.toolchain.nvrtc import CUDA_HEADER, FIRST_HEADER, substitute_headers


# None of these tools needs a GPU or its driver. The library [NVRTC](https://docs.nvidia.com/cuda/nvrtc/) compiles CUDA
# C to PTX and machine code, the library nvJitLink compiles PTX to machine code, and the program `nvdisasm` disassembles
# machine code. NVIDIA's Python packages install all of them in one folder, `nvidia/cu13`; in a toolkit they are next to
# `nvcc`.
def toolkit_folders():
    "Return folders with `bin`, `lib` and `include` that may contain NVIDIA's tools, Python packages first"
    folders = [
        path
        for entry in sys.path
        if entry
        for path in sorted(Path(entry).glob('nvidia/*'), reverse=True)
        if path.is_dir()
    ]
    try:
        folders.append(Path(nvcc()).resolve().parent.parent)
    except CompilerMissing:
        pass
    # nvcc may be a script that calls the nvcc of another folder, so standard folders are added.
    standard_folders = [*(os.environ.get(name) for name in ('CUDA_HOME', 'CUDA_PATH')), '/usr/local/cuda', '/opt/cuda']
    return folders + [Path(name) for name in standard_folders if name and Path(name).is_dir()]


def missing_tool(
    tool,  # the missing program or library
    purpose,  # the task for which it is required
    package,  # the Python package that contains it
) -> CompilerMissing:
    "Return the exception for a missing tool, with the command that installs it"
    remedy = (
        f'Install it: pip install {package}' if sys.platform == 'linux' else 'On Linux, a Python package contains it'
    )
    return CompilerMissing(f'{purpose} requires {tool}, which is not installed. {remedy}')


# All packages are from the same toolkit, so that NVRTC and its headers have the same version.
_TOOLKIT_PACKAGES = "'cuda-toolkit[nvrtc,nvjitlink,cudart,crt,cccl]==13.*'"


def _find_library(pattern, tool, purpose):
    "Return the path of the first library that matches a pattern. Raises CompilerMissing if there is none"
    for toolkit_folder in toolkit_folders():
        paths = [path for folder in ('lib', 'lib64') for path in (toolkit_folder / folder).glob(pattern)]
        for path in sorted(path for path in paths if '.alt.' not in path.name):
            return path
    raise missing_tool(tool, purpose, _TOOLKIT_PACKAGES)


def find_program(
    name: str,  # such as 'nvdisasm'
    purpose: str,  # the task for which it is required, for the error
) -> str:  # its path
    "Return the path of one of NVIDIA's programs. Raises CompilerMissing if it is missing"
    triton_paths = [Path(folder) / 'triton/backends/nvidia/bin' / name for folder in sys.path]
    for path in [*(folder / 'bin' / name for folder in toolkit_folders()), shutil.which(name), *triton_paths]:
        if path and os.access(path, os.X_OK):
            return str(path)
    raise missing_tool(name, purpose, f'nvidia-cuda-{name}')


def include_folders() -> list:  # of paths
    "Return the folders of CUDA's headers"
    subfolders = ('include', 'include/cccl', 'targets/x86_64-linux/include/cccl')
    return [
        str(folder / subfolder)
        for folder in toolkit_folders()
        for subfolder in subfolders
        if (folder / subfolder).is_dir()
    ]


@lru_cache
def _load_nvrtc():
    "Load NVRTC. Raises CompilerMissing without it"
    path = _find_library('libnvrtc.so.*', 'NVRTC', 'Compiling CUDA C for a GPU')
    for library in path.parent.glob('libnvrtc-builtins.so.*'):
        ctypes.CDLL(str(library))  # NVRTC finds this library only if it is already loaded
    return ctypes.CDLL(str(path))


def _read_buffer(library, function, handle):
    "Return the bytes that `function` of a library writes; `<function>Size` returns how many there are"
    size = ctypes.c_size_t()
    getattr(library, f'{function}Size')(handle, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, function)(handle, buffer)
    return buffer.raw


def _decode(buffer):
    "Return the text in a buffer without its null bytes: one at the end, and one before the log that ptxas appends"
    return buffer.replace(b'\0', b'').decode(errors='replace')


def _to_c_strings(strings):
    "Return a C array of strings"
    return (ctypes.c_char_p * len(strings))(*(string.encode() for string in strings))


_NO_CACHE = '--no-cache'  # an option of NVRTC and nvJitLink; older versions have no cache


def _nvrtc_options(arch, opt, folders, flags):
    "Return the options for NVRTC"
    fixed_options = ['-std=c++17', '-lineinfo' if opt else '-G', '--ptxas-options=-v', '-default-device', '-w']
    return [
        f'-arch={arch}',
        *fixed_options,
        f'--pre-include={FIRST_HEADER}',
        *(f'-I{folder}' for folder in folders),
        '-I.',
        *flags,
    ]


def nvrtc(
    src: str,  # CUDA C without host code
    name: str,  # the kernel; `k<float>` for a template
    arch='sm_90',  # the GPU architecture
    opt=True,  # optimize
    flags=(),  # more options of NVRTC
    file='kernel.cu',  # name of the source in messages
    user_src='',  # the source as the user wrote it, for messages; empty: `src`
) -> tuple:  # PTX, machine code, the log of ptxas, the mangled name of the kernel
    "Compile with NVRTC, or load the result from the cache. Raises CompileError, which shows the line of the error"
    library, folders = _load_nvrtc(), include_folders()
    headers = substitute_headers(src, folders)
    options = _nvrtc_options(arch, opt, folders, flags)
    key_parts = [(part, os.stat(part).st_mtime) for part in (library._name, *folders)]

    def compile_source():
        result = _run_nvrtc(library, src, name, headers, options, file, user_src or src)
        # The driver's cache has the compiled code without the log of ptxas. If the log is missing, compile
        # again.
        if _NO_CACHE not in flags and not _log_of_kernel(result[3], result[2]):
            uncached_options = _nvrtc_options(arch, opt, folders, (*flags, _NO_CACHE))
            result = _run_nvrtc(library, src, name, headers, uncached_options, file, user_src or src)
        return result

    key = [
        src,
        name,
        file,
        headers,
        options,
        key_parts,
        [sorted(header.items()) for header in read_headers(src, Path.cwd())[:2]],
    ]
    return cached_result('nvrtc', compile_source, *key)


def cached_result(
    compiler,  # name of the compiler
    compile_source,  # a function without arguments, whose result is cached
    *key_parts,  # everything that the result depends on, as JSON data
):
    "Return the result of `compile_source()`, from the cache if the input is the same as in an earlier call"

    def run(command, folder):
        _write_result(folder, compile_source())
        return 0, ''

    def find_folder():
        return build({}, [[compiler]], *key_parts, run=run, section='cubin').folder

    if (result := _read_result(folder := find_folder())) is None:
        shutil.rmtree(folder, ignore_errors=True)
        result = _read_result(find_folder())
    return result


def _write_result(folder, result):
    "Write a result to a folder, with a checksum"
    data = pickle.dumps(result)
    (folder / 'result').write_bytes(hashlib.blake2b(data).digest() + data)


def _read_result(folder):
    "Return the result that `_write_result` wrote; None if it is missing, damaged, or cannot be unpickled"
    try:
        stored_bytes = (folder / 'result').read_bytes()
    except OSError:
        return None
    digest_size = hashlib.blake2b().digest_size
    if hashlib.blake2b(stored_bytes[digest_size:]).digest() != stored_bytes[:digest_size]:
        return None
    try:
        return pickle.loads(stored_bytes[digest_size:])
    except (AttributeError, ImportError):  # another version of this package wrote it
        return None


@contextmanager
def _interruptible():
    """Keep system calls of this process interruptible by Ctrl-C after a `with` block that calls NVRTC.

    NVRTC replaces the handler of SIGINT while it compiles. When it restores Python's handler, it sets SA_RESTART, so
    Ctrl-C would no longer interrupt a wait for another program."""
    try:
        yield
    finally:
        if callable(signal.getsignal(signal.SIGINT)):
            signal.siginterrupt(signal.SIGINT, True)


@_interruptible()
def _run_nvrtc(library, src, name, headers, options, file, user_src):
    "Call NVRTC, and return the result of `nvrtc`"
    program = ctypes.c_void_p()
    # With an absolute path, the machine code, which is cached, does not contain the current folder.
    path = file if os.path.isabs(file) else f'/{file}'
    contents = _to_c_strings(headers.values())
    names = _to_c_strings(headers)
    library.nvrtcCreateProgram(ctypes.byref(program), src.encode(), path.encode(), len(headers), contents, names)
    try:
        library.nvrtcAddNameExpression(program, name.encode())
        status = library.nvrtcCompileProgram(program, len(options), _to_c_strings(options))
        log = _decode(_read_buffer(library, 'nvrtcGetProgramLog', program)).replace(path, file)
        if status:
            raise _compile_error(log, user_src, file)
        entry = ctypes.c_char_p()
        library.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(entry))
        return (
            _decode(_read_buffer(library, 'nvrtcGetPTX', program)),
            _read_buffer(library, 'nvrtcGetCUBIN', program),
            log,
            entry.value.decode(),
        )
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _compile_error(log, src, file):
    "Return the exception for a failed compilation with this log"
    match = re.search(r'could not open source file "([^"]+)"|cannot open source file "([^"]+)"', log)
    if match and CUDA_HEADER.match(match[1] or match[2]):
        return missing_tool(f"CUDA's header {match[1] or match[2]}", 'This source', _TOOLKIT_PACKAGES)
    return CompileError(src, file, log, ('nvrtc',))


@lru_cache
def _load_jitlink():
    "Load nvJitLink and return its functions by name; their symbols contain the version"
    path = _find_library('libnvJitLink.so.*', 'nvJitLink', 'Compiling PTX')
    library = ctypes.CDLL(str(path))
    version = path.name.split('.')[-1]
    logs = 'GetErrorLogSize GetErrorLog GetInfoLogSize GetInfoLog'
    names = f'Create AddData Complete {logs} GetLinkedCubinSize GetLinkedCubin Destroy'.split()
    return SimpleNamespace(**{name: getattr(library, f'__nvJitLink{name}_{version}_0') for name in names})


def assemble(
    ptx: str,  # the whole module
    arch='sm_90',  # the GPU architecture
    opt=True,  # optimize
    flags=(),  # more options of nvJitLink
) -> tuple:  # machine code, the log of ptxas
    "Compile PTX to machine code. Raises RuntimeError with the message of ptxas"
    result = _run_jitlink(ptx, arch, opt, flags)
    # As for NVRTC, the driver's cache has the code without the log of ptxas.
    if _NO_CACHE not in flags and 'Compiling entry function' not in result[1]:
        result = _run_jitlink(ptx, arch, opt, (*flags, _NO_CACHE))
    return result


@_interruptible()
def _run_jitlink(ptx, arch, opt, flags):
    "Call nvJitLink, and return the result of `assemble`"
    functions = _load_jitlink()
    program = ctypes.c_void_p()
    options = [f'-arch={arch}', '-lineinfo', '-Xptxas=-v', '-verbose', *([] if opt else ['-O0']), *flags]
    functions.Create(ctypes.byref(program), len(options), _to_c_strings(options))
    try:
        status = functions.AddData(
            program, 2, ptx.encode() + b'\0', len(ptx.encode()) + 1, b'kernel.ptx'
        ) or functions.Complete(program)
        if status:
            raise RuntimeError(
                f"PTX could not be assembled for {arch}:\n{_decode(_read_buffer(functions, 'GetErrorLog', program))}"
            )
        return _read_buffer(functions, 'GetLinkedCubin', program), _decode(
            _read_buffer(functions, 'GetInfoLog', program)
        )
    finally:
        functions.Destroy(ctypes.byref(program))


# With `-v`, ptxas prints registers and spills per kernel. The machine code is an ELF file; per kernel, the sizes of two
# sections are the bytes of shared memory and of constant memory, which contains the arguments.
def _read_sections(elf):
    "Return {name: (offset, size)} of the sections of a 64-bit ELF file"
    (table,) = struct.unpack_from('<Q', elf, 0x28)
    header_size, num_headers, names_index = struct.unpack_from('<3H', elf, 0x3A)
    headers = [struct.unpack_from('<IIQQQQ', elf, table + i * header_size) for i in range(num_headers)]
    names = headers[names_index][4]  # offset of the section with the names

    def string_at(offset):
        return elf[offset : elf.index(b'\0', offset)].decode()

    return {string_at(names + header[0]): (header[4], header[5]) for header in headers}


def section_sizes(elf: bytes) -> dict:  # name -> size in bytes
    "Return the sizes of the sections of a 64-bit ELF file"
    return {name: size for name, (_, size) in _read_sections(elf).items()}


# A record in the section `.nv.info` of a cubin has a format, an attribute and a value. With format 4, the value is the
# number of bytes that follow. One attribute contains (symbol, registers per thread).
_HAS_PAYLOAD, _REGISTERS = 4, 0x2F


def registers_used(cubin: bytes) -> int:
    "Return the registers per thread of a cubin's kernel: the maximum over its functions"
    offset, size = _read_sections(cubin)['.nv.info']
    end = offset + size
    registers = 0
    while offset < end:
        record_format, attribute, payload_size = struct.unpack_from('<BBH', cubin, offset)
        offset += 4
        if record_format == _HAS_PAYLOAD:
            if attribute == _REGISTERS:
                registers = max(registers, struct.unpack_from('<II', cubin, offset)[1])
            offset += payload_size
    return registers


_USAGE_PATTERNS = {
    'registers': r'Used (\d+) registers',
    'local': r'(\d+) bytes stack frame',
    'spill_stores': r'(\d+) bytes spill stores',
    'spill_loads': r'(\d+) bytes spill loads',
    'barriers': r'used (\d+) barriers',
}


def _log_of_kernel(entry, log):
    "Return the lines about one kernel in the log of ptxas"
    parts = re.split(r"Compiling entry function '|Function properties for ", log)
    return ''.join(part for part in parts if re.match(rf"{re.escape(entry)}\b", part))


def resource_usage(
    log: str,  # printed by `ptxas -v`
    cubin: bytes,  # machine code
    entry: str,  # mangled name of the kernel
    arch='sm_90',  # architecture of the machine code
) -> dict:
    """Return the resources of a kernel.

    `registers` are per thread. In bytes: static `shared` memory per block, `local` memory per thread, register spills
    per thread that are stored (`spill_stores`) and loaded (`spill_loads`), and `constant` memory. `barriers` is the
    number of named barriers.

    Raises RuntimeError if the log does not contain the kernel."""
    kernel_log = _log_of_kernel(entry, log)
    if not kernel_log:
        raise RuntimeError(f'the log of ptxas does not mention {entry}:\n{log}')
    counts = {
        resource: int(match[1]) if (match := re.search(pattern, kernel_log)) else 0
        for resource, pattern in _USAGE_PATTERNS.items()
    }
    sizes = section_sizes(cubin)
    # From sm_90 on, the size of the section includes the 1 KiB that the system reserves.
    shared = sizes.get(f'.nv.shared.{entry}', 0) - (1024 if int(re.search(r'\d+', arch)[0]) >= 90 else 0)
    return {**counts, 'shared': max(0, shared), 'constant': sizes.get(f'.nv.constant0.{entry}', 0)}


# Data-flow analysis takes a third of nvdisasm's time, and is needed only for the targets of indirect branches.
_SKIP_DATA_FLOW = '--no-dataflow'
_INDIRECT_BRANCH = re.compile(r'\b(?:BRX|JMX)')


# The output of nvdisasm is cached: for a kernel of ten lines, nvdisasm takes 0.33 s and NVRTC only 0.024 s.
def disassemble(cubin: bytes) -> str:
    "Disassemble machine code with nvdisasm, with source lines. Raises CompilerMissing without nvdisasm"
    nvdisasm = find_program('nvdisasm', 'Reading machine code (SASS)')

    def run(command, folder):
        (folder / 'k.cubin').write_bytes(cubin)
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if _INDIRECT_BRANCH.search(process.stdout) and _SKIP_DATA_FLOW in command:
            return run([part for part in command if part != _SKIP_DATA_FLOW], folder)
        (folder / 'k.sass').write_text(process.stdout)
        return process.returncode, process.stderr

    def fail(log):
        return RuntimeError(f'{nvdisasm} cannot read this machine code:\n{log}')

    key_parts = hashlib.sha256(cubin).hexdigest(), os.stat(nvdisasm).st_mtime
    build_result = build(
        {}, [[nvdisasm, '-c', '-gi', _SKIP_DATA_FLOW, 'k.cubin']], *key_parts, fail=fail, run=run, section='sass'
    )
    return (build_result.folder / 'k.sass').read_text()
