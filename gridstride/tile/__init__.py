"""Triton kernels on a CPU, checked: `tile.checked(kernel)[grid](...)` runs any function under `@triton.jit`.

The kernel's own Python code runs, program by program, with NumPy below it and Triton's types and rules on top. The
modules, in a good reading order: `types` (types and promotion), `rounding` (arithmetic of arrays), `block` (values and
their arithmetic), `memory` (pointers, load, store, atomics), `descriptors` (block pointers and tensor descriptors),
`shadow` (what the detectors remember), `language` (the names of `triton.language`; those of `shapes`, `elements`,
`reductions`, `randoms`, `hints_and_debug`, `products` and `libdevice` are parts of it), `rewrite`, `hints` and `rebind`
(a function as Triton's compiler reads it, with these names), `run` and `kernel` (a launch at work), `tuning` (what
autotune does to arguments), `trace` (what it did), `triton_shim` (what `from gridstride import triton` gives), `plain`
and `profiler` (what `import triton` and `import triton.profiler` give under `gridstride.as_gpu`).

Why not on Triton's interpreter: that needs Triton, which is for Linux alone; it is silent about out-of-bounds stores,
about data races and masked lanes, does not round bf16, and knows no autotune. It is also slower: 0.57, 1.13 and 17 ms
per program for a vector add, a softmax and a matmul, where this takes 0.10, 0.08 and 1.0 with every check
(benchmarks/tile.txt).

What is found: out-of-bounds accesses, and pointers that point nowhere; data races between programs, whatever the order
in which they run (atomics order what `sem` says); reads of uninitialized elements and lanes; impossible launches; what
does not compile. An array that holds nothing but NaN when the launch
begins counts as unwritten. Lanes that a masked load leaves without `other` are 0, as NVIDIA's GPUs have it, and a
warning reports it if the value of such a lane reaches a result, as Triton promises nothing.

What is not modelled:

- how a program is spread over threads: layouts, warps, shared memory, pipelines. A warning reports a lane that reads
  or overwrites what another lane of its program has stored, and an atomic that releases what other lanes did, unless a
  `tl.debug_barrier` is in between, or a scalar atomic whose result is used; the two lanes may be one thread, which is
  not known here. A block that is loaded, and then stored by other lanes, is not reported;
- the last bits of what a GPU approximates (`tl.exp` and similar functions, division of fp32), of sums in another order,
  and of a product and a sum that the compiler fuses;
- the elements between the rows of a slice: they count as the slice's own;
- inline PTX, `tl.dot_scaled`, fp8e4b15, kernels of Gluon. Using a name that is missing raises an error.
"""

from ..diagnostics.settings import options
from .kernel import Checked, checked
from .triton_shim import TensorDescriptor
from .trace import Trace, trace

__all__ = ['Checked', 'TensorDescriptor', 'Trace', 'checked', 'options', 'trace']
