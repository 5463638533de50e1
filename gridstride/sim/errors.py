"""Explains Python's own errors with the kernel's line: an array used as a number, a name that Numba does not have."""

import linecache
import re
import sys
from difflib import get_close_matches

from ..diagnostics.errors import NotSimulated, Location, exception_of
from ..diagnostics.launch_config import argument_error
from ..support.short_tracebacks import ShownBriefly, briefly
from .memory import View

__all__ = ['add_kernel_line']


def add_kernel_line(prog, values, error):
    "Add the kernel's line to an error; one of Python's own is shown with that line, and without its internal frames"
    _, number = _frame_of(prog, error)
    source = linecache.getline(prog.file, number).strip()
    if isinstance(error, NotSimulated) and number and not error.line:
        where = dict(kernel=prog.name, file=prog.file, line=number, source=source)
        return NotSimulated(error.what, error.hint, **where)
    if isinstance(error, ShownBriefly) or not number:
        return error
    if isinstance(error, TypeError) and re.search(r'\bView\b', str(error)):
        return _number_error(prog, values, error)
    error.__notes__ = [f'  line {number}: {source}\n  in {prog.name}{_suggest_name(error)}']
    return briefly(error)


def _suggest_name(error):
    "Suggest a similar name for one that does not exist"
    name = getattr(error, 'name', None) or ''
    cuda = sys.modules[f'{__package__}.cuda']
    if near := get_close_matches(name, dir(cuda), 1, 0.75):
        return f'\n  cuda.{near[0]} is what Numba calls it.'
    near = get_close_matches(name, dir(getattr(error, 'obj', None)), 1, 0.7)
    return f'\n  There is {near[0]!r}.' if near else ''


def _number_error(prog, values, error):
    "Explain which array a line uses as a number"
    frame, number = _frame_of(prog, error)
    line = linecache.getline(prog.file, number).strip()
    for name, v in frame.items():
        found = re.findall(rf'(?<![\w.]){re.escape(name)}\s*\[([^][]*)\]', line) if isinstance(v, View) else []
        for given in (dims.count(',') + 1 for dims in found if ':' not in dims):
            if given < v.ndim:
                fields = dict(array=name, dimensions=v.ndim, given=given)
                return exception_of(
                    'memcheck', 'indices', 'python', fields, Location(prog.name, prog.file, number, line)
                )
    for i, (name, v) in enumerate(zip(prog.params, values)):
        if isinstance(v, View) and re.search(rf'(?<![\w.]){name}(?!\s*[\w\[.])', line):
            shape = tuple(map(int, v.shape))
            what = f'is an array of shape {shape}, but line {number} uses it as a number: {line}'
            hint = 'Pass the number itself: {}.item()' if v.size == 1 else 'Take one of its elements, as in {}[i].'
            return argument_error(prog.name, i, name, f'{what}\n  {hint.format(name)}')
    what, hint = 'computing with an array', 'A thread computes with numbers: take the elements one by one, in a loop.'
    return NotSimulated(what, hint, kernel=prog.name, file=prog.file, line=number or None, source=line)


def _frame_of(prog, error):
    "Return (variables, line number) of the kernel's frame that an error comes from"
    found = {}, 0
    tb = error.__traceback__
    while tb:
        if tb.tb_frame.f_code.co_filename == prog.file:
            found = tb.tb_frame.f_locals, tb.tb_lineno
        tb = tb.tb_next
    return found
