"""Triton kernels on a CPU, checked: `tile.checked(kernel)[grid](...)` runs any function decorated with `@triton.jit`.

The Python code of the kernel runs, program by program, on NumPy arrays, with Triton's types and rules. The modules, in
a good reading order: `types` (types and promotion), `rounding` (arithmetic of arrays), `block` (values and their
operators), `memory` (pointers, load, store, atomics), `descriptors` (block pointers and tensor descriptors), `shadow`
(the shadow memory of racecheck and initcheck), `unmasked_axis` (detects a missing mask from the addresses of a
block), `lost_update` (names the atomic operation that replaces an update), `language` (the names of `triton.language`;
`shapes`, `elements`, `reductions`, `randoms`, `hints_and_debug`, `products` and `libdevice` are parts of it), `rewrite`
and `hints` (rewrite a function as Triton's compiler reads it), `hooks` (the functions that rewritten code calls),
`rebind` (replaces the names of `triton.language` in a function), `run` (the context of a launch), `kernel` (launches),
`tuning` (checks how autotune changes arguments), `trace` (records accesses), `triton_shim` (the module `from gridstride
import triton`), `triton_patches` and `profiler` (`import triton` and `import triton.profiler` under
`gridstride.as_gpu`).

Triton's own interpreter is not used because it needs Triton, which is for Linux only; it does not report out-of-bounds
stores, data races and masked lanes, does not round bf16, and does not support autotune. It is also slower: it takes
0.57, 1.13 and 17 ms per program for a vector add, a softmax and a matmul, and this package 0.10, 0.08 and 1.0 ms with
every check (benchmarks/tile.txt).

The checks find out-of-bounds accesses and invalid pointers; data races between programs, in whichever order they run
(atomics order accesses as their `sem` says); reads of uninitialized elements and lanes; invalid launches; and code that
Triton does not compile. An array whose elements are all NaN when the launch begins counts as uninitialized. Lanes
that are masked out of a load without `other` are 0, as on NVIDIA's GPUs; a warning reports a result that depends on
such a lane, because Triton leaves its value undefined.

The following is not modelled:

- the distribution of a program over threads: layouts, warps, shared memory, pipelines. A warning reports a lane that
  reads or overwrites an element that another lane of its program has stored, and an atomic that releases accesses of
  other lanes, unless a `tl.debug_barrier` is in between, or a scalar atomic whose result is used; it may be a false
  alarm, because both lanes may belong to one thread. A block that is loaded, and then stored by other lanes, is not
  reported;
- the last bits of functions that a GPU approximates (`tl.exp` and similar functions, division of fp32), of sums in
  another order, and of a product and a sum that the compiler fuses;
- the elements between the rows of a slice: they count as elements of the slice;
- inline PTX, `tl.dot_scaled`, fp8e4b15, Gluon kernels. Using an unsupported name raises an error.
"""

from ..diagnostics.settings import options
from .kernel import CheckedKernel, checked
from .triton_shim import TensorDescriptor
from .trace import Trace, trace

__all__ = ['CheckedKernel', 'TensorDescriptor', 'Trace', 'checked', 'options', 'trace']
