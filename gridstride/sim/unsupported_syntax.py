"""The syntax that kernels cannot use: its name in messages, and what to write instead."""

import ast

__all__ = ['REFUSED', 'RETURNS']

_OUTSIDE = 'Define it outside, with @cuda.jit(device=True) above it.'
_LOOP = 'Write a loop, and store its values in cuda.local.array(size, dtype).'
_ARRAY = 'Use an array, or a tuple.'
RETURNS = 'Write it to an array: `out[i] = ...`.'
REFUSED = {  # part of the language -> its name in messages, and what to write instead
    ast.FunctionDef: ('a def', _OUTSIDE),
    ast.Lambda: ('a lambda', _OUTSIDE),
    ast.ListComp: ('a list comprehension', _LOOP),
    ast.SetComp: ('a set comprehension', _LOOP),
    ast.DictComp: ('a dict comprehension', _LOOP),
    ast.GeneratorExp: ('a generator', _LOOP),
    ast.Dict: ('a dict', _ARRAY),
    ast.Set: ('a set', _ARRAY),
    ast.JoinedStr: ('an f-string', 'print takes several values: print(i, x[i]).'),
    ast.Try: ('try', 'Test for the error with `if`.'),
    ast.Global: ('global', 'Write to an array that is passed to the kernel.'),
    ast.Await: ('await', ''),
    ast.Yield: ('yield', RETURNS),
    ast.YieldFrom: ('yield', RETURNS),
    ast.With: ('with', 'Use the context manager around the launch.'),
    ast.Match: ('match', 'Write if and elif.'),
    ast.Delete: ('del', 'Omit it: a variable lives until its thread ends.'),
    ast.Starred: ('a * before an argument', 'Name the values one by one.'),
    ast.NamedExpr: (':=', 'Assign on a separate line.'),
}
