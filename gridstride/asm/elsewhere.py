"""What compilers other than NVIDIA's make of a kernel, without a GPU: hipcc for AMD's, and tile languages' own."""

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
from .tools import disassemble, link, nvrtc, registers_used, sections
from ..cpp.driver import set_max_dynamic_smem, launch_by_driver, load_machine_code
from ..cpp.frontend.reader import kernels
from ..bench.recording import Unavailable, recorded

__all__ = ['AMD', 'Compiled', 'amd', 'compiled', 'hip', 'kittens', 'run_program']


# A listing of AMD's instructions is read by their first letters: `s_` are those of the scalar unit, done once for the
# whole wavefront, `v_` those of the vector unit, done per lane.
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
    "A listing of AMD's instructions: `instructions`, `count()`; `takes`: registers of a lane and of a wavefront, LDS"

    def __new__(cls, text, takes, by):
        self = super().__new__(cls, text)
        self.takes, self.by = takes, by
        return self

    @property
    def instructions(self) -> list:
        "Each instruction's text, in order"
        return [line.strip() for line in self.splitlines() if line.startswith('\t')]

    def count(self, *text):
        "Return how many instructions of each kind there are; with a text, how often it occurs"
        if text:
            return super().count(*text)
        return Counter(
            next((v for k, v in KINDS.items() if instruction.startswith(k)), 'other')
            for instruction in self.instructions
        )

    def __repr__(self):
        return str(self)


_TAKES = dict(
    vgprs=r'\.vgpr_count:\s+(\d+)', sgprs=r'\.sgpr_count:\s+(\d+)', lds=r'\.group_segment_fixed_size:\s*(\d+)'
)


def hip(
    src: str,  # CUDA C with one kernel; that of HIP has the same words
    arch='gfx90a',  # which of AMD's GPUs: gfx90a is an MI200
) -> AMD:
    "AMD's instructions for a kernel, by hipcc; `Unavailable` where it is not installed, `RuntimeError` if it refuses"
    tool = shutil.which('hipcc')
    if tool is None:
        raise Unavailable('This needs hipcc, which is not here (Debian has it: apt install hipcc)')
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / 'k.hip').write_text(f'#include <hip/hip_runtime.h>\n{src}')
        flags = [f'--offload-arch={arch}', '--offload-device-only', '-x', 'hip', '-S', '-O3', 'k.hip', '-o', 'k.s']
        done = subprocess.run([tool, *flags], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError('\n'.join(line for line in done.stderr.splitlines() if ' error: ' in line))
        return read_amd((Path(folder) / 'k.s').read_text(), _version_of(tool))


def _version_of(tool):
    said = subprocess.run([tool, '--version'], capture_output=True, text=True).stdout
    return f'hipcc {m[1]}' if (m := re.search(r'HIP version: (\S+)', said)) else 'hipcc'


def read_amd(
    text: str,  # as clang writes it, with one kernel
    by='',  # who wrote it
) -> AMD:
    "Return the instructions and labels of the kernel, without what is for the assembler alone"
    body = text[text.index('; @') : text.index('s_endpgm') + len('s_endpgm')]
    kept = [re.sub(r'\s*;.*', '', line) for line in body.splitlines()[1:]]
    kept = [line for line in kept if re.match(r'\t[a-z]\w*|\.LBB', line)]
    takes = {k: int(m[1]) for k, p in _TAKES.items() if (m := re.search(p, text))}
    return AMD('\n'.join(kept), takes, by)


class Compiled(NamedTuple):
    "The output of a tile language's compiler for a program"

    by: str  # package and version
    written: str  # CUDA C or PTX that it wrote; nothing if it wrote machine code at once
    sass: list  # instructions of the kernel, for `arch`
    registers: int  # of a thread
    arch: str
    cubin: bytes = b''  # the machine code itself

    def ops(self) -> Counter:
        "Return how many instructions there are of each first word"
        return Counter(re.sub(r'^@!?\w+ ', '', instruction).split()[0] for instruction in self.sass)

    def count(self, pattern) -> int:
        "Return how many instructions begin with what a regular expression says"
        return sum(n for op, n in self.ops().items() if re.match(pattern, op))

    def kernel(
        self,
        threads: int,  # of a block
        shared=0,  # bytes of dynamic shared memory
    ):  # k(blocks, *arguments): tensors, integers of 32 bits, structs as bytes
        """Return a launcher on torch's GPU, without its compiler; raises `Unavailable` if the machine code is for
        another GPU"""
        (name,) = (
            section.removeprefix(_CONSTANTS) for section in sections(self.cubin) if section.startswith(_CONSTANTS)
        )
        try:
            handle = load_machine_code(self.cubin, name)
        except (OSError, RuntimeError) as e:
            raise Unavailable(f'the machine code of {self.by} for {self.arch} cannot be loaded here ({e})') from None
        if shared:
            set_max_dynamic_smem(handle, name, shared)

        def launch(blocks, *args):
            import torch

            values = [_argument(arg) for arg in args]
            pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            stream = torch.cuda.current_stream().cuda_stream
            launch_by_driver(handle, name, (blocks, 1, 1), (threads, 1, 1), shared, stream, pointers)

        return launch

    def __repr__(self):
        return f'{self.by}: {len(self.sass)} instructions for {self.arch}, {self.registers} registers a thread'


_CONSTANTS = '.nv.constant0.'  # the section in which a kernel finds its arguments; functions that it calls have none


def _argument(x):
    "Return an argument as the driver takes it"
    if isinstance(x, bytes):
        return ctypes.create_string_buffer(x, len(x))
    return ctypes.c_int(x) if isinstance(x, int) else ctypes.c_void_p(x.data_ptr())


# Some of these packages need other versions of the same libraries, so each may have an environment of its own, in the
# folder that GRIDSTRIDE_LANGUAGES names: cuda-tile/bin/python, tilelang/bin/python, ...
def _python_of(package):
    "Return the Python that has a package, and the package's version there; raises `Unavailable` if none has"
    try:
        return sys.executable, metadata.version(package)
    except metadata.PackageNotFoundError:
        pass
    python = Path(os.environ.get('GRIDSTRIDE_LANGUAGES', '')) / package / 'bin/python'
    if 'GRIDSTRIDE_LANGUAGES' not in os.environ or not python.exists():
        raise Unavailable(f'{package} is not installed here (pip install {package})')
    ask = f'from importlib import metadata; print(metadata.version({package!r}))'
    return str(python), subprocess.run([python, '-c', ask], capture_output=True, text=True).stdout.strip()


def run_program(
    package: str,  # what compiles
    program: str,  # in Python, or in the package's own language; it leaves kernel.cu, kernel.ptx or kernel.cubin
    suffix='.py',  # of the file that it is kept in
    command=('{python}',),  # what runs it: the file is its last argument
    arch='sm_90a',  # whose machine code is made of PTX
) -> Compiled:
    "Run a program that compiles a kernel, in a folder of its own; raises `Unavailable` without the package"
    python, version = _python_of(package)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f'program{suffix}'
        file.write_text(program)
        words = [word.format(python=python, bin=Path(python).parent) for word in command]
        env = {k: v for k, v in os.environ.items() if k != 'GRIDSTRIDE_AS_GPU'}  # it compiles, and launches nothing
        done = subprocess.run([*words, file.name], cwd=folder, capture_output=True, text=True, env=env)
        made = {p.suffix: p.read_bytes() for p in Path(folder).glob('kernel.*')}
    if not made:
        raise RuntimeError(f'{package} {version} made nothing:\n{done.stdout[-2000:]}{done.stderr[-2000:]}')
    return read_made(f'{package} {version}', made, arch)


def read_made(
    by: str,  # package and version
    made: dict,  # suffix -> bytes
    arch: str,  # whose machine code is made of PTX
) -> Compiled:
    "The machine code of what it made, as instructions; `CompilerMissing` without nvJitLink, NVRTC and nvdisasm"
    written = made.get('.cu', made.get('.ptx', b'')).decode()
    if '.cubin' in made:
        cubin = made['.cubin']
    elif '.ptx' in made:
        cubin, _ = link(made['.ptx'].decode(), arch)
    else:
        _, cubin, _, _ = nvrtc(written, kernels(written)[0].name, arch)
    return Compiled(by, written, kernel_sass(cubin), registers_used(cubin), arch, cubin)


def kernel_sass(cubin: bytes) -> list:
    "Return the instructions of the entry in machine code that has one, and of what it calls"
    text = disassemble(cubin)
    parts = re.split(r'^//-+ +(?=\.)', text, flags=re.M)
    entry = next(
        re.match(r'\.text\.([^\s,]+)', section)[1]
        for section in parts
        if '.text.' in section[:80] and 'STO_CUDA_ENTRY' in section
    )
    return [line.strip() for line in text_lines(read_sass(text, entry, '')) if line.startswith(' ')]


def kittens(
    src: str,  # CUDA C++ that includes kittens.cuh
    arch='sm_90a',  # for which GPU
) -> Compiled:
    "Compile a kernel with ThunderKittens' headers by nvcc; raises `Unavailable` without THUNDERKITTENS_ROOT"
    root = os.environ.get('THUNDERKITTENS_ROOT')
    nvcc = shutil.which('nvcc')
    if not root or not nvcc:
        raise Unavailable("ThunderKittens' headers (THUNDERKITTENS_ROOT) or nvcc are not here")
    flags = ['-std=c++20', f'-arch={arch}', '-DKITTENS_HOPPER', '-DKITTENS_SM90', f'-I{root}/include', '-ptx']
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / 'kernel.cu').write_text(src)
        command = [nvcc, *flags, '--expt-relaxed-constexpr', 'kernel.cu', '-o', 'kernel.ptx']
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        return read_made('ThunderKittens', {'.ptx': (Path(folder) / 'kernel.ptx').read_bytes()}, arch)


# What these compilers made is recorded: few readers have them all.
def compiled(
    name: str,  # of the recording
    make,  # called with nothing; gives what `run_program` or `kittens` does
    *parts,  # what decides the result: the program
) -> Compiled:
    "Return `make()` if its compiler is installed, else the recording"
    return recorded(name, make, *parts, save=plain, load=lambda data, mark: from_plain(data))


def plain(made: Compiled) -> dict:
    "Return what JSON can hold of it: the machine code compressed, as text"
    return made._asdict() | dict(cubin=base64.b64encode(zlib.compress(made.cubin, 9)).decode())


def from_plain(data: dict) -> Compiled:
    "The `Compiled` that `plain` was given"
    return Compiled(**data | dict(cubin=zlib.decompress(base64.b64decode(data['cubin']))))


def amd(
    name: str,  # of the recording
    src: str,  # CUDA C with one kernel
    arch='gfx90a',  # which of AMD's GPUs
) -> AMD:
    "Return `hip(src, arch)` where hipcc is; elsewhere the recording"

    def save(listing):
        return [str(listing), listing.takes, listing.by]

    return recorded(name, lambda: hip(src, arch), src, arch, save=save, load=lambda data, mark: AMD(*data))
