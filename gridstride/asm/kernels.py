"""Resolve which kernel a user means, and compile kernels in CUDA C."""

import re
from collections import namedtuple
from pathlib import Path

from .tools import nvrtc, usage
from ..cpp.frontend.reader import device_only, kernels


# The result of compiling a unit: PTX, the (mangled) name of the kernel, machine code, resources, the compiler with its
# version, and for Triton the TTGIR.
Made = namedtuple('Made', 'ptx entry cubin takes by ttgir', defaults=('',))


class Unit:
    """A kernel that can be compiled. Subclasses define `make`, which compiles it.

    `source` has the lines of the source by number. `key` differs whenever the result may differ."""

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
    known = {k.name: k for k in kernels(src)}
    if not known:
        what = 'this source' if '\n' in src.strip() else f'{src!r}, read as CUDA C,'
        raise ValueError(f'{what} has no __global__ function')
    if name is None and len(known) > 1:
        raise ValueError(
            f"found {len(known)} kernels ({', '.join(known)}) in this source: select one, "
            f"for example name='{next(iter(known))}'"
        )
    name = name or next(iter(known))
    base = name.split('<')[0].split('::')[-1].strip()
    if base not in known:
        raise ValueError(f'no kernel {name!r} in this source; there are {", ".join(known)}')
    if known[base].template and '<' not in name:
        raise ValueError(f"{name} is a template: name its arguments, as in name='{name}<float>'")
    return (f'{known[base].scope}::{name}' if known[base].scope and '::' not in name else name), base


class CudaC(Unit):
    "A kernel in CUDA C"

    def __init__(self, src, name=None):
        self.src, (self.expression, base) = src, _resolve_kernel(src, name)
        super().__init__(self.expression, f'{base}.cu', _number_lines(src), ('cuda', src, self.expression))

    def make(self, arch, opt, flags) -> Made:
        "Compile with NVRTC. Raises CompileError for errors in the source, CompilerMissing without NVRTC"
        ptx, cubin, said, entry = nvrtc(device_only(self.src), self.expression, arch, opt, flags, self.file, self.src)
        version = re.search(r'release [\d.]+, V([\d.]+)', ptx)
        by = f"NVRTC {version[1] if version else ''}".strip()
        return Made(ptx, entry, cubin, usage(said, cubin, entry, arch), by)


def source_of(k):
    "Return the CUDA C source of a `cuda_kernel` or of a `load_cuda` module"
    folder = getattr(k, 'build_directory', None) or getattr(k.built, 'folder', None)
    src = getattr(k, 'src', None)
    if src is None and folder:
        src = next((p.read_text() for p in Path(folder).glob('*.cu') if not p.name.endswith('.gpu.cu')), None)
    if src is None:
        raise ValueError(f'{k!r} has no source; pass the source itself, as in ptx(src, name=...)')
    return src
