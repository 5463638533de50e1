"""Compile kernels with compilers other than NVIDIA's, without a GPU: hipcc for AMD, and those of tile languages."""

import base64
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from .listing import text_lines
from .read import read_sass
from .tools import assemble, disassemble, nvrtc, registers_used, section_sizes
from ..cpp.driver import set_max_dynamic_smem, launch_by_driver, load_machine_code
from ..cpp.frontend.reader import kernels
from ..bench.recording import Unavailable, recorded

__all__ = ['AMD', 'TileKernel', 'amd', 'compile_or_load', 'hip', 'compile_with_kittens', 'run_program']


# The prefix of an AMD instruction determines its kind: an `s_` instruction runs on the scalar unit, once per wavefront,
# and a `v_` instruction on the vector unit, once per lane. The first prefix in this order that matches is used.
KINDS = {
    's_waitcnt': 'wait',
    's_barrier': 'barrier',
    's_load': 'scalar load',
    's_': 'scalar',
    'v_': 'vector',
    'global_load': 'load',
    'global_store': 'store',
    'global_': 'atomic',
    'ds_bpermute': 'shuffle',
    'ds_': 'LDS',
}


class AMD(str):
    """A listing of AMD instructions.

    `resources`: registers per lane (vgprs) and per wavefront (sgprs), and bytes of LDS; `by`: the compiler's name and
    version.
    """

    def __new__(cls, text, resources, by):
        self = super().__new__(cls, text)
        self.resources, self.by = resources, by
        return self

    @property
    def instructions(self) -> list:
        "The text of each instruction, in order"
        return [line.strip() for line in self.splitlines() if line.startswith('\t')]

    def count(self, *substring):
        "Count the instructions of each kind; with arguments, count a substring like `str.count`"
        if substring:
            return super().count(*substring)
        return Counter(
            next((kind for prefix, kind in KINDS.items() if instruction.startswith(prefix)), 'other')
            for instruction in self.instructions
        )

    def __repr__(self):
        return str(self)


_RESOURCE_PATTERNS = dict(
    vgprs=r'\.vgpr_count:\s+(\d+)', sgprs=r'\.sgpr_count:\s+(\d+)', lds=r'\.group_segment_fixed_size:\s*(\d+)'
)


def hip(
    src: str,  # CUDA C with one kernel, which is also valid HIP
    arch='gfx90a',  # the GPU: gfx90a is an MI200
) -> AMD:
    "Compile a kernel for an AMD GPU with hipcc. Raises Unavailable without hipcc, RuntimeError for compile errors"
    tool = shutil.which('hipcc')
    if tool is None:
        raise Unavailable('hipcc was not found; install it (on Debian: apt install hipcc)')
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / 'k.hip').write_text(f'#include <hip/hip_runtime.h>\n{src}')
        flags = [f'--offload-arch={arch}', '--offload-device-only', '-x', 'hip', '-S', '-O3', 'k.hip', '-o', 'k.s']
        process = subprocess.run([tool, *flags], cwd=folder, capture_output=True, text=True)
        if process.returncode:
            raise RuntimeError('\n'.join(line for line in process.stderr.splitlines() if ' error: ' in line))
        return read_amd((Path(folder) / 'k.s').read_text(), _version_of(tool))


def _version_of(tool):
    output = subprocess.run([tool, '--version'], capture_output=True, text=True).stdout
    return f'hipcc {match[1]}' if (match := re.search(r'HIP version: (\S+)', output)) else 'hipcc'


def read_amd(
    text: str,  # assembly of one kernel, as clang writes it
    by='',  # the compiler and its version
) -> AMD:
    "Return the instructions and labels of the kernel, without assembler directives"
    body = text[text.index('; @') : text.index('s_endpgm') + len('s_endpgm')]
    lines = [re.sub(r'\s*;.*', '', line) for line in body.splitlines()[1:]]
    lines = [line for line in lines if re.match(r'\t[a-z]\w*|\.LBB', line)]
    resources = {
        name: int(match[1]) for name, pattern in _RESOURCE_PATTERNS.items() if (match := re.search(pattern, text))
    }
    return AMD('\n'.join(lines), resources, by)


class TileKernel(NamedTuple):
    "The output of a tile language's compiler for one kernel"

    by: str  # package and version of the compiler
    written: str  # the generated CUDA C, Triton or PTX; empty if the compiler generated only machine code
    sass: list  # instructions of the kernel, for `arch`
    registers: int  # per thread
    arch: str
    cubin: bytes = b''  # the machine code

    def ops(self) -> Counter:
        "Count the instructions by opcode"
        return Counter(re.sub(r'^@!?\w+ ', '', instruction).split()[0] for instruction in self.sass)

    def count(self, pattern) -> int:
        "Count the instructions whose opcode matches a regular expression"
        return sum(count for op, count in self.ops().items() if re.match(pattern, op))

    def kernel(
        self,
        threads: int,  # per block
        shared=0,  # bytes of dynamic shared memory
    ):  # a function (blocks, *arguments); arguments: tensors, 32-bit integers, structs as bytes
        "Return a function that launches the kernel on torch's GPU. Raises Unavailable if it is for another GPU"
        (name,) = (
            section.removeprefix(_ARGUMENTS_SECTION)
            for section in section_sizes(self.cubin)
            if section.startswith(_ARGUMENTS_SECTION)
        )
        try:
            handle = load_machine_code(self.cubin, name)
        except (OSError, RuntimeError) as e:
            raise Unavailable(
                f'the machine code that {self.by} generated for {self.arch} cannot be loaded here ({e})'
            ) from None
        if shared:
            set_max_dynamic_smem(handle, name, shared)

        def launch(blocks, *args):
            import torch

            values = [_to_ctypes(arg) for arg in args]
            pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            stream = torch.cuda.current_stream().cuda_stream
            launch_by_driver(handle, name, (blocks, 1, 1), (threads, 1, 1), shared, stream, pointers)

        return launch

    def __repr__(self):
        return f'{self.by}: {len(self.sass)} instructions for {self.arch}, {self.registers} registers per thread'


# prefix of the section with the arguments of a kernel; device functions have no such section
_ARGUMENTS_SECTION = '.nv.constant0.'


def _to_ctypes(arg):
    "Convert a kernel argument to the ctypes object that the driver reads it from"
    if isinstance(arg, bytes):
        return ctypes.create_string_buffer(arg, len(arg))
    return ctypes.c_int(arg) if isinstance(arg, int) else ctypes.c_void_p(arg.data_ptr())


# Some of these packages need different versions of the same libraries, so each may have its own environment in the
# folder GRIDSTRIDE_LANGUAGES: cuda-tile/bin/python, tilelang/bin/python, ...
def _find_python(package):
    "Return (path of the Python that has a package, the package's version). Raises Unavailable if there is none"
    try:
        return sys.executable, metadata.version(package)
    except metadata.PackageNotFoundError:
        pass
    python = Path(os.environ.get('GRIDSTRIDE_LANGUAGES', '')) / package / 'bin/python'
    if 'GRIDSTRIDE_LANGUAGES' not in os.environ or not python.exists():
        raise Unavailable(f'{package} is not installed here (pip install {package})')
    command = f'from importlib import metadata; print(metadata.version({package!r}))'
    return str(python), subprocess.run([python, '-c', command], capture_output=True, text=True).stdout.strip()


def run_program(
    package: str,  # the compiler
    program: str,  # in Python or in the package's own language; it writes kernel.cu, kernel.ptx or kernel.cubin
    suffix='.py',  # of the program's file
    command=('{python}',),  # the command that runs the program; the file is appended
    arch='sm_90a',  # the GPU for which PTX is assembled
) -> TileKernel:
    "Run a program that compiles a kernel, in a temporary folder. Raises Unavailable without the package"
    python, version = _find_python(package)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f'program{suffix}'
        file.write_text(program)
        arguments = [part.format(python=python, bin=Path(python).parent) for part in command]
        # The program only compiles, so it needs no emulated GPU.
        env = {name: value for name, value in os.environ.items() if name != 'GRIDSTRIDE_AS_GPU'}
        process = subprocess.run([*arguments, file.name], cwd=folder, capture_output=True, text=True, env=env)
        outputs = {path.suffix: path.read_bytes() for path in Path(folder).glob('kernel.*')}
    if not outputs:
        output = process.stdout[-2000:] + process.stderr[-2000:]
        raise RuntimeError(f'{package} {version} produced no compiled kernel; its output:\n{output}')
    return disassemble_output(f'{package} {version}', outputs, arch)


def disassemble_output(
    by: str,  # package and version
    outputs: dict,  # suffix of a file -> its bytes
    arch: str,  # the GPU for which PTX is assembled
) -> TileKernel:
    "Compile the output of a compiler to machine code and disassemble it. Raises CompilerMissing without NVIDIA's tools"
    generated_src = next((outputs[suffix] for suffix in ('.cu', '.triton', '.ptx') if suffix in outputs), b'').decode()
    if '.cubin' in outputs:
        cubin = outputs['.cubin']
    elif '.ptx' in outputs:
        cubin, _ = assemble(outputs['.ptx'].decode(), arch)
    else:
        _, cubin, _, _ = nvrtc(generated_src, kernels(generated_src)[0].name, arch)
    return TileKernel(by, generated_src, kernel_sass(cubin), registers_used(cubin), arch, cubin)


def kernel_sass(cubin: bytes) -> list:
    "Return the instructions of a cubin's only kernel, and of the functions that it calls"
    text = disassemble(cubin)
    sections = re.split(r'^//-+ +(?=\.)', text, flags=re.M)
    entry = next(
        re.match(r'\.text\.([^\s,]+)', section)[1]
        for section in sections
        if '.text.' in section[:80] and 'STO_CUDA_ENTRY' in section
    )
    return [line.strip() for line in text_lines(read_sass(text, entry, '')) if line.startswith(' ')]


def compile_with_kittens(
    src: str,  # CUDA C++ that includes kittens.cuh
    arch='sm_90a',
) -> TileKernel:
    "Compile a kernel that uses ThunderKittens with nvcc. Raises Unavailable without nvcc or THUNDERKITTENS_ROOT"
    root = os.environ.get('THUNDERKITTENS_ROOT')
    nvcc = shutil.which('nvcc')
    if not root or not nvcc:
        raise Unavailable('nvcc or the ThunderKittens headers were not found: set THUNDERKITTENS_ROOT')
    flags = ['-std=c++20', f'-arch={arch}', '-DKITTENS_HOPPER', '-DKITTENS_SM90', f'-I{root}/include', '-ptx']
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / 'kernel.cu').write_text(src)
        command = [nvcc, *flags, '--expt-relaxed-constexpr', 'kernel.cu', '-o', 'kernel.ptx']
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        return disassemble_output('ThunderKittens', {'.ptx': (Path(folder) / 'kernel.ptx').read_bytes()}, arch)


# The output of these compilers is recorded, because few readers have installed all of them.
def compile_or_load(
    name: str,  # of the recording
    make,  # a function without arguments that returns a `TileKernel`
    *key_parts,  # the input of the compiler, such as the program
) -> TileKernel:
    "Return `make()` if its compiler is installed, else the recording for these `key_parts`"
    return recorded(name, make, *key_parts, save=to_json, load=lambda data, mark: from_json(data))


def to_json(output: TileKernel) -> dict:
    "Return the fields as JSON data; the machine code is compressed and base64-encoded"
    return output._asdict() | dict(cubin=base64.b64encode(zlib.compress(output.cubin, 9)).decode())


def from_json(data: dict) -> TileKernel:
    "Return the `TileKernel` from the data of `to_json`"
    return TileKernel(**data | dict(cubin=zlib.decompress(base64.b64decode(data['cubin']))))


def amd(
    name: str,  # of the recording
    src: str,  # CUDA C with one kernel
    arch='gfx90a',
) -> AMD:
    "Return `hip(src, arch)` if hipcc is installed, else the recording"

    def save(listing):
        return [str(listing), listing.resources, listing.by]

    return recorded(name, lambda: hip(src, arch), src, arch, save=save, load=lambda data, mark: AMD(*data))
