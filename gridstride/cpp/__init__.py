"""CUDA C: compiled for a GPU where there is one, and for the CPU where there is none.

The modules and packages, in the order in which they are read best:

- what a learner calls: `kernel` (`cuda_kernel`), `load` (`load_cuda`), `extension` (files that are one), `magic`
  (`%%cuda`), `program` (a whole program with its `main`), `listings` (a source as a notebook shows it);
- a source is compiled: `frontend` (reads it), `lint` (what nvcc refuses), `rewriters` (CUDA C to C++), `toolchain`
  (compilers and their cache), for a GPU `driver`;
- it is launched: `arguments` (what may be given), `values` (to compiled code and back), `launcher` (the compiled part),
  `loaded` (modules, and when one is unloaded);
- it is wrong: `emulator` (how kernels run there, and what was found), `finding` (the mirror of the runtime's).

The runtime of the emulator is C++, `runtime`, with a README that walks one access; CUDA's and torch's headers for it
are in `include`. Nothing is imported before it is asked for, so that the reader of CUDA C, which needs the standard
library alone, can be had without the rest.
"""

from ..support.lazy_exports import front_door

_NAMES = {
    'toolchain.build': ('CompileError', 'CompilerMissing'),
    'toolchain.cache': ('cache_dir',),
    'frontend.edits': ('NotEmulated',),
    'emulator': ('on_emulator', 'options'),
    'kernel': ('cuda_kernel',),
    'load': ('load_cuda',),
    'magic': ('load_ipython_extension',),
}
__all__, __getattr__, __dir__ = front_door(__name__, _NAMES)
