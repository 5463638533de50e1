"""The syntax that kernels cannot use, with its name in messages and a hint."""

import ast

__all__ = ['RETURN_HINT', 'UNSUPPORTED']

_DEVICE_FUNCTION_HINT = 'Define it outside, with @cuda.jit(device=True) above it.'
_LOOP_HINT = 'Write a loop, and store its values in cuda.local.array(size, dtype).'
_ARRAY_HINT = 'Use an array, or a tuple.'
RETURN_HINT = 'Write it to an array: `out[i] = ...`.'
UNSUPPORTED = {  # type of a node -> (its name in messages, a hint)
    ast.FunctionDef: ('a def', _DEVICE_FUNCTION_HINT),
    ast.Lambda: ('a lambda', _DEVICE_FUNCTION_HINT),
    ast.ListComp: ('a list comprehension', _LOOP_HINT),
    ast.SetComp: ('a set comprehension', _LOOP_HINT),
    ast.DictComp: ('a dict comprehension', _LOOP_HINT),
    ast.GeneratorExp: ('a generator', _LOOP_HINT),
    ast.Dict: ('a dict', _ARRAY_HINT),
    ast.Set: ('a set', _ARRAY_HINT),
    ast.JoinedStr: ('an f-string', 'print takes several values: print(i, x[i]).'),
    ast.Try: ('try', 'Test for the error with `if`.'),
    ast.Global: ('global', 'Write to an array that is passed to the kernel.'),
    ast.Await: ('await', ''),
    ast.Yield: ('yield', RETURN_HINT),
    ast.YieldFrom: ('yield', RETURN_HINT),
    ast.With: ('with', 'Use the context manager around the launch.'),
    ast.Match: ('match', 'Write if and elif.'),
    ast.Delete: ('del', 'Omit it: a variable lives until its thread ends.'),
    ast.Starred: ('a * before a name or an index', 'Write the values one by one.'),
    ast.NamedExpr: (':=', 'Assign on a separate line.'),
}
