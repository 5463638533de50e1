"""Which kernel is meant, of whatever kind it is, and how it is compiled."""

import re
from collections import namedtuple
from pathlib import Path

from .tools import nvrtc, usage
from ..cpp.frontend.reader import device_only, kernels


# A **unit** is a kernel that can be compiled: it has a `name`, a `file` and the numbered lines of its
# `source`, a `key` that is another one whenever the result could be, and `make`, which compiles.
#
# What it made: PTX, the kernel's name in it and in the machine code, that, what the kernel takes, and who made it; for
# a kernel of Triton also what its compiler writes before PTX.
Made = namedtuple('Made', 'ptx entry cubin takes by ttgir', defaults=('',))


class Unit:
    "A kernel that can be compiled: by `make`, which those below have, each in its own way"

    def __init__(self, name, file, source, key):
        self.name = name
        self.file = file
        self.source = source
        self.key = key


def _number_lines(text, first=1):
    return dict(enumerate(text.splitlines(), first))


def _which(src, name):
    "Return the kernel of this source that is meant, and its name without template arguments"
    known = {k.name: k for k in kernels(src)}
    if not known:
        what = 'this source' if '\n' in src.strip() else f'{src!r}, taken for CUDA C,'
        raise ValueError(f'{what} has no __global__ function')
    if name is None and len(known) > 1:
        raise ValueError(
            f"this source has {len(known)} kernels: say which one, as in name='{next(iter(known))}'. "
            f"There are {', '.join(known)}"
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
        self.src, (self.expression, base) = src, _which(src, name)
        super().__init__(self.expression, f'{base}.cu', _number_lines(src), ('cuda', src, self.expression))

    def make(self, arch, opt, flags) -> Made:
        "Compile it with NVRTC; `CompileError` shows the line, `CompilerMissing` says what brings the compiler"
        ptx, cubin, said, entry = nvrtc(device_only(self.src), self.expression, arch, opt, flags, self.file, self.src)
        version = re.search(r'release [\d.]+, V([\d.]+)', ptx)
        by = f"NVRTC {version[1] if version else ''}".strip()
        return Made(ptx, entry, cubin, usage(said, cubin, entry, arch), by)


# A `cuda_kernel` and a `load_cuda` module have both the source and what was compiled from it.
def source_of(k):
    "Return the CUDA C from which a `cuda_kernel` or a `load_cuda` module was made"
    folder = getattr(k, 'build_directory', None) or getattr(k.built, 'folder', None)
    src = getattr(k, 'src', None)
    if src is None and folder:
        src = next((p.read_text() for p in Path(folder).glob('*.cu') if not p.name.endswith('.gpu.cu')), None)
    if src is None:
        raise ValueError(f'{k!r} has not kept its source; give that, as in ptx(src, name=...)')
    return src
