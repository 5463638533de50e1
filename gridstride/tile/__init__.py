"""Triton kernels on a CPU, checked: `tile.checked(kernel)[grid](...)` runs any function under `@triton.jit`.

The kernel's own Python code runs, program by program, with NumPy below it and Triton's types and rules on top:
`types` (types and promotion), `block` (values and their arithmetic), `memory` (pointers, load, store, atomics),
`shadow` (what the detectors remember), `language` (the names of `triton.language`), `rebind` (a function with these
names), `kernel` (launches), `run` (where a program is), `trace` (what it did).
"""

from ..options import options
from .kernel import Checked, checked
from .trace import Trace, trace

__all__ = ['Checked', 'Trace', 'checked', 'options', 'trace']
