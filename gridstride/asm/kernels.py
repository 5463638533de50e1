"""Find the kernel that a name selects in CUDA C, and compile it."""

import re
from collections import namedtuple
from pathlib import Path

from .tools import nvrtc, usage
from ..cpp.frontend.reader import device_only, kernels


# ptx; entry: the mangled name of the kernel; cubin: machine code; takes: resources, see `tools.usage`; by: the compiler
# and its version; ttgir: only from Triton
CompilerOutput = namedtuple('CompilerOutput', 'ptx entry cubin takes by ttgir', defaults=('',))


class Unit:
    """A kernel that can be compiled. Subclasses define `compile`, which returns a `CompilerOutput`.

    `source` maps the index of a line to its text. `key` identifies everything in the kernel that the output depends
    on."""

    def __init__(self, name, file, source, key):
        self.name = name
        self.file = file
        self.source = source
        self.key = key


def _number_lines(text, first=1):
    "Return {line number: line}"
    return dict(enumerate(text.splitlines(), first))


def _resolve_kernel(src, name):
    "Return (name expression of the kernel, name without template arguments). Raises ValueError for an ambiguous name"
    by_name = {k.name: k for k in kernels(src)}
    if not by_name:
        subject = 'this source' if '\n' in src.strip() else f'{src!r}, read as CUDA C,'
        raise ValueError(f'{subject} has no __global__ function')
    if name is None and len(by_name) > 1:
        raise ValueError(
            f"found {len(by_name)} kernels ({', '.join(by_name)}) in this source: select one, "
            f"for example name='{next(iter(by_name))}'"
        )
    name = name or next(iter(by_name))
    base = name.split('<')[0].split('::')[-1].strip()
    if base not in by_name:
        raise ValueError(f'no kernel {name!r} in this source; there are {", ".join(by_name)}')
    if by_name[base].template and '<' not in name:
        raise ValueError(f"{name} is a template: name its arguments, as in name='{name}<float>'")
    return (f'{by_name[base].scope}::{name}' if by_name[base].scope and '::' not in name else name), base


class CudaC(Unit):
    "A kernel in CUDA C"

    def __init__(self, src, name=None):
        self.src, (self.expression, base) = src, _resolve_kernel(src, name)
        super().__init__(self.expression, f'{base}.cu', _number_lines(src), ('cuda', src, self.expression))

    def compile(self, arch, opt, flags) -> CompilerOutput:
        "Compile with NVRTC. Raises CompileError for errors in the source, CompilerMissing without NVRTC"
        ptx, cubin, log, entry = nvrtc(device_only(self.src), self.expression, arch, opt, flags, self.file, self.src)
        version = re.search(r'release [\d.]+, V([\d.]+)', ptx)
        by = f"NVRTC {version[1] if version else ''}".strip()
        return CompilerOutput(ptx, entry, cubin, usage(log, cubin, entry, arch), by)


def source_of(k):
    "Return the CUDA C source of a `cuda_kernel` or of a `load_cuda` module"
    folder = getattr(k, 'build_directory', None) or getattr(k.built, 'folder', None)
    src = getattr(k, 'src', None)
    if src is None and folder:
        src = next((p.read_text() for p in Path(folder).glob('*.cu') if not p.name.endswith('.gpu.cu')), None)
    if src is None:
        raise ValueError(f'{k!r} has no source; pass the source itself, as in ptx(src, name=...)')
    return src
