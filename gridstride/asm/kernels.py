"""Find the kernel that a name selects in CUDA C, and compile it."""

import re
from collections import namedtuple
from pathlib import Path

from .tools import nvrtc, resource_usage
from ..cpp.frontend.reader import device_only, kernels


# ptx; entry: the mangled name of the kernel; cubin: machine code; resources: see `tools.resource_usage`; compiler: its
# name and version; ttgir: only from Triton
CompilerOutput = namedtuple('CompilerOutput', 'ptx entry cubin resources compiler ttgir', defaults=('',))


class KernelSource:
    """The source of a kernel. Subclasses define `compile`, which returns a `CompilerOutput`.

    `source` maps each line number to its line. `key` identifies everything in the source that the output depends on."""

    def __init__(self, name, file, source, key):
        self.name = name
        self.file = file
        self.source = source
        self.key = key


def _number_lines(text, first=1):
    "Return {line number: line}"
    return dict(enumerate(text.splitlines(), first))


def _resolve_kernel(src, name):
    "Return the kernel's (name expression, name without template arguments). Raises ValueError for an ambiguous name"
    kernel_of_name = {kernel.name: kernel for kernel in kernels(src)}
    if not kernel_of_name:
        subject = 'this source' if '\n' in src.strip() else f'{src!r}, read as CUDA C,'
        raise ValueError(f'{subject} has no __global__ function')
    if name is None and len(kernel_of_name) > 1:
        raise ValueError(
            f"found {len(kernel_of_name)} kernels ({', '.join(kernel_of_name)}) in this source: select one, "
            f"for example name='{next(iter(kernel_of_name))}'"
        )
    name = name or next(iter(kernel_of_name))
    base = name.split('<')[0].split('::')[-1].strip()
    if base not in kernel_of_name:
        raise ValueError(f'no kernel {name!r} in this source; available: {", ".join(kernel_of_name)}')
    if kernel_of_name[base].template and '<' not in name:
        raise ValueError(f"{name} is a template: pass its arguments, for example name='{name}<float>'")
    return (f'{kernel_of_name[base].scope}::{name}' if kernel_of_name[base].scope and '::' not in name else name), base


# Host code that NVRTC does not see, such as the launcher that `to_cuda` appends
_HOST_ONLY = re.compile(
    r'^[ \t]*#ifndef __CUDACC_RTC__\b.*\n(?:(?![ \t]*#[ \t]*(?:if|el|endif)).*\n)*[ \t]*#endif.*\n?', re.M
)


class CudaC(KernelSource):
    "A kernel in CUDA C"

    def __init__(self, src, name=None):
        self.src, (self.expression, base) = src, _resolve_kernel(src, name)
        key = 'cuda', _HOST_ONLY.sub('', src), self.expression
        super().__init__(self.expression, f'{base}.cu', _number_lines(src), key)

    def compile(self, arch, opt, flags) -> CompilerOutput:
        "Compile with NVRTC. Raises CompileError for errors in the source, CompilerMissing without NVRTC"
        ptx, cubin, log, entry = nvrtc(device_only(self.src), self.expression, arch, opt, flags, self.file, self.src)
        version = re.search(r'release [\d.]+, V([\d.]+)', ptx)
        compiler = f"NVRTC {version[1] if version else ''}".strip()
        return CompilerOutput(ptx, entry, cubin, resource_usage(log, cubin, entry, arch), compiler)


def source_of(kernel):
    "Return the CUDA C source of a `cuda_kernel` or of a `load_cuda` module"
    folder = getattr(kernel, 'build_directory', None) or getattr(kernel.build_result, 'folder', None)
    src = getattr(kernel, 'src', None)
    if src is None and folder:
        src = next((path.read_text() for path in Path(folder).glob('*.cu') if not path.name.endswith('.gpu.cu')), None)
    if src is None:
        raise ValueError(f'{kernel!r} has no source; pass the source itself, as in ptx(src, name=...)')
    return src
