"""Lowers a kernel's Python to the typed expressions and statements of `translate.tree`.

Python's syntax tree is lowered one function at a time. There is one module per part of the language; each class
builds on the one before it:

| module | what it has |
|---|---|
| `function` | the state: variables and their types, the statements so far, temporaries |
| `values` | expressions: names, literals, subscripts, calls |
| `assignments` | to names, to elements, to several side by side |
| `statements` | branches and loops; `Lowering`, which has all of these |
| `unit` | `Unit`: a kernel with the device functions that it calls |

They use `convert` (types of values), `operators`, `arrays` (indices, slices, pointers) and `call_table`, the table of
what a kernel may call, which `cuda_calls` and `math_calls` fill.
"""

from . import cuda_calls, math_calls
from .statements import Lowering
from .unit import Unit

__all__ = ['Lowering', 'Unit', 'cuda_calls', 'math_calls']
