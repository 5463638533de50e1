"""The syntax that kernels cannot use: its name in messages, and a hint what to write instead."""

import ast

__all__ = ['REFUSED', 'RETURNS']

_OUTSIDE = 'Define it outside, with @cuda.jit(device=True) above it.'
_LOOP = 'Write a loop, and store its values in cuda.local.array(size, dtype).'
_ARRAY = 'Use an array, or a tuple.'
RETURNS = 'Write it to an array: `out[i] = ...`.'
REFUSED = {  # part of the language -> what it is called, and what to write instead
    ast.FunctionDef: ('a def', _OUTSIDE),
    ast.Lambda: ('a lambda', _OUTSIDE),
    ast.ListComp: ('a list comprehension', _LOOP),
    ast.SetComp: ('a set comprehension', _LOOP),
    ast.DictComp: ('a dict comprehension', _LOOP),
    ast.GeneratorExp: ('a generator', _LOOP),
    ast.Dict: ('a dict', _ARRAY),
    ast.Set: ('a set', _ARRAY),
    ast.JoinedStr: ('an f-string', 'print takes several values: print(i, x[i]).'),
    ast.Try: ('try', 'Test with `if` what could go wrong.'),
    ast.Global: ('global', 'Write to an array that is passed to the kernel.'),
    ast.Await: ('await', ''),
    ast.Yield: ('yield', RETURNS),
    ast.YieldFrom: ('yield', RETURNS),
    ast.With: ('with', 'A thread has no files and no contexts: open them around the launch.'),
    ast.Match: ('match', 'Write if and elif.'),
    ast.Delete: ('del', 'Leave it out: a variable ends with its thread.'),
    ast.Starred: ('a * before an argument', 'Name the values one by one.'),
    ast.NamedExpr: (':=', 'Assign in a line of its own.'),
}
