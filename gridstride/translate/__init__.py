"""Kernels in Numba's dialect as CUDA C.

The modules, in a good reading order:

- the input: `source` (a kernel's tree, comments and names), `kernel` (`to_cuda`, all steps of it);
- from Python to a tree with types: `tree`, `operations` (its vocabulary), `types`, `lowering` (a subpackage),
  `verify` (checks that the tree is well formed);
- analyses of the tree: `intervals` and `ranges` (the values that an integer can have), `c_types` (chooses which
  integers are an `int` in C), `flow` (which assignments become one variable);
- from the tree to C: `codegen` (a subpackage), `launcher` (the host code), `translation` (the generated source, and the
  roles of its parameters);
- `engine` (`sim.options(engine='c')`: simulated kernels as compiled CUDA C).
"""

from .kernel import Translation, to_cuda
from .source import Untranslatable

__all__ = ['Translation', 'to_cuda', 'Untranslatable']
