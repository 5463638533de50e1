"""Lowers a kernel's Python to the typed expressions and statements of `translate.tree`.

The functions are lowered one at a time. Each of these modules lowers one kind of syntax, in a class that derives from
the one before it:

| module | contents |
|---|---|
| `function` | the state: variables, their types, lowered statements, temporaries |
| `values` | expressions: names, literals, subscripts, calls |
| `assignments` | assignments to names, elements and tuples of targets |
| `statements` | branches and loops; `Lowering`, the last class |
| `unit` | `Unit`: a kernel with the device functions that it calls |

They use `convert` (conversions between types), `operators`, `arrays` (indices, slices, pointers) and `call_table`, the
table of the functions that a kernel may call, whose rows are in `cuda_calls` and `math_calls`.
"""

from . import cuda_calls, math_calls
from .statements import Lowering
from .unit import Unit

__all__ = ['Lowering', 'Unit', 'cuda_calls', 'math_calls']
