"""Adds the comments after a function's parameters to its docstring, so that `help` and editors show them."""

import inspect
import re
from typing import TypeVar

__all__ = ['documented']

_F = TypeVar('_F')
_PARAMETER = re.compile(r'    (?P<name>\*{0,2}\w+)\b[^#]*,  # (?P<comment>.*)')
_CONTINUED = re.compile(r'    # (?P<comment>.*)')


def documented(fn: _F) -> _F:  # a function with one parameter per line, each with a comment
    "Decorate a function: append its parameters and their comments to its docstring"
    try:
        head = inspect.getsource(fn).partition('\n)')[0].splitlines()
    except OSError:  # the source is not installed
        return fn
    rows = []
    for line in head:
        if m := _PARAMETER.fullmatch(line):
            rows.append([m['name'], m['comment']])
        elif rows and (m := _CONTINUED.fullmatch(line)):
            rows[-1][1] += f' {m["comment"]}'
    width = max((len(name) for name, _ in rows), default=0)
    parameters = '\n'.join(f'    {name:{width}}  {comment}' for name, comment in rows)
    fn.__doc__ = f'{inspect.cleandoc(fn.__doc__)}\n\nParameters:\n\n{parameters}' if rows else fn.__doc__
    return fn
