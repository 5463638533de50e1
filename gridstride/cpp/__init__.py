"""CUDA C: compiled for a GPU where there is one, and for the CPU where there is none.

The modules, in the order in which they are read best:

- what a learner calls: `kernel` (`cuda_kernel`), `load` (`load_cuda`), `extension` (files that are one), `magic`
  (`%%cuda`), `program` (a whole program with its `main`);
- a source is read: `tokens`, `code` (with their brackets), `preprocessor`, `includes`, `declarations`, `reader` (its
  functions), `sides` (what the host may call), `plain` (files that are the host's alone), `doubts` (variables that may
  have no value);
- it becomes C++: `rewrite`, by `edits`, of `launches`, `variables` in shared memory, `captures` of these, `statements`,
  `inline_asm` and `ptx`;
- it is compiled: `build`, `headers` (read once), `cache` and `integrity` (what is found there is what was put there),
  `compile_errors` and `absent` (what the compiler says, for a learner), `callers`, `library` and `libc` (what device
  code may call), `inlined` (what becomes part of its callers), `host_variables` (what it may not
  read), `kernel_heads` (what a kernel may not say of itself); for a GPU,
  `nvrtc` (what its compiler lacks) and `driver`;
- it is launched: `loaded` (modules, and when one is unloaded), `arguments` (what may be given), `values` (to compiled
  code and back), `launcher` (the compiled part);
- it is wrong: `emulator` (how kernels run there, and what was found), `finding` (the mirror of the runtime's).

The runtime of the emulator is C++, `runtime`, with a README that walks one access; CUDA's and torch's headers for it
are in `include`. Nothing is imported before it is asked for, so that the reader of CUDA C, which needs the standard
library alone, can be had without the rest.
"""

from ..doors import front_door

_NAMES = {
    'build': ('CompileError', 'CompilerMissing'),
    'cache': ('cache_dir',),
    'edits': ('NotEmulated',),
    'emulator': ('on_emulator', 'options'),
    'kernel': ('cuda_kernel',),
    'load': ('load_cuda',),
    'magic': ('load_ipython_extension',),
}
__all__, __getattr__, __dir__ = front_door(__name__, _NAMES)
