"""Compiles and runs CUDA C: on a GPU if there is one, else on the CPU.

The modules and packages, in reading order:

- the interface: `kernel` (`cuda_kernel`), `load` (`load_cuda`), `extension` (several files as one extension), `magic`
    (`%%cuda`), `program` (a whole program with its `main`), `ranks` (starts a program as several processes), `nvcc` (a
    substitute for nvcc's command line), `harness` (launches a kernel of a file without `main`), `listings` (displays
    source in a notebook);
- compilation: `frontend` (parses source), `lint` (errors that nvcc reports but a C++ compiler does not), `rewriters`
    (CUDA C to C++), `toolchain` (compilers and their cache), `driver` (NVIDIA's, for a GPU);
- launches: `arguments` (checks them), `values` (converts them for compiled code), `launcher` (compiled code that
    launches kernels on a GPU), `several_devices` (emulates several), `open_libraries` (unloads modules), `fourier`
    (computes cuFFT's transforms);
- findings: `emulator` (runs kernels, and raises findings as exceptions), `finding` (reads findings of the runtime).

The runtime of the emulator is in C++, in `runtime`; its README follows one access. The headers that replace CUDA's and
torch's are in `include`. Each module is imported at its first use, so that `frontend`, which needs only the standard
library, can be used without the others.
"""

from ..support.lazy_exports import lazy_exports_of

_NAMES = {
    'lint.compile_errors': ('CompileError',),
    'toolchain.compilers': ('CompilerMissing',),
    'toolchain.cache': ('cache_dir',),
    'frontend.edits': ('NotEmulated',),
    'emulator': ('on_emulator', 'options'),
    'several_devices': ('devices',),
    'kernel': ('cuda_kernel',),
    'load': ('load_cuda',),
    'magic': ('load_ipython_extension',),
}
__all__, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
