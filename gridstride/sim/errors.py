"""Explains Python's errors in a kernel, with its line: an array used as a number, a name that Numba does not have."""

import linecache
import re
import sys
from difflib import get_close_matches

from ..diagnostics.errors import NotSimulated, Location, exception_of
from ..diagnostics.launch_config import argument_error
from ..support.short_tracebacks import ShownBriefly, briefly
from .memory import View

__all__ = ['add_kernel_line']


def add_kernel_line(program, values, error):
    "Return the error with the kernel's line; one of Python's errors is shown without the simulator's frames"
    _, number = _kernel_frame(program, error)
    source = linecache.getline(program.file, number).strip()
    if isinstance(error, NotSimulated) and number and not error.line:
        where = dict(kernel=program.name, file=program.file, line=number, source=source)
        return NotSimulated(error.summary, error.hint, **where)
    if isinstance(error, ShownBriefly) or not number:
        return error
    if isinstance(error, TypeError) and re.search(r'\bView\b', str(error)):
        return _array_as_number_error(program, values, error)
    error.__notes__ = [f'  line {number}: {source}\n  in {program.name}{_suggest_name(error)}']
    return briefly(error)


def _suggest_name(error):
    "Return a hint with a similar name for one that does not exist, or ''"
    name = getattr(error, 'name', None) or ''
    cuda = sys.modules[f'{__package__}.cuda']
    if close_matches := get_close_matches(name, dir(cuda), 1, 0.75):
        return f'\n  Numba calls it cuda.{close_matches[0]}.'
    close_matches = get_close_matches(name, dir(getattr(error, 'obj', None)), 1, 0.7)
    return f'\n  There is {close_matches[0]!r}.' if close_matches else ''


def _array_as_number_error(program, values, error):
    "Make the error for a line that uses an array as a number"
    frame, number = _kernel_frame(program, error)
    line = linecache.getline(program.file, number).strip()
    for name, value in frame.items():
        subscripts = re.findall(rf'(?<![\w.]){re.escape(name)}\s*\[([^][]*)\]', line) if isinstance(value, View) else []
        for index_count in (subscript.count(',') + 1 for subscript in subscripts if ':' not in subscript):
            if index_count < value.ndim:
                fields = dict(array=name, dimensions=value.ndim, given=index_count)
                return exception_of(
                    'memcheck', 'indices', 'python', fields, Location(program.name, program.file, number, line)
                )
    for position, (name, value) in enumerate(zip(program.params, values)):
        if isinstance(value, View) and re.search(rf'(?<![\w.]){name}(?!\s*[\w\[.])', line):
            shape = tuple(map(int, value.shape))
            what = f'is an array of shape {shape}, but line {number} uses it as a number: {line}'
            hint = 'Pass the number itself: {}.item()' if value.size == 1 else 'Use one of its elements, as in {}[i].'
            return argument_error(program.name, position, name, f'{what}\n  {hint.format(name)}')
    what, hint = 'arithmetic on a whole array', 'A thread computes with numbers: write a loop over the elements.'
    return NotSimulated(what, hint, kernel=program.name, file=program.file, line=number or None, source=line)


def _kernel_frame(program, error):
    "Return (variables, line number) of the kernel's frame that an error comes from"
    found = {}, 0
    traceback = error.__traceback__
    while traceback:
        if traceback.tb_frame.f_code.co_filename == program.file:
            found = traceback.tb_frame.f_locals, traceback.tb_lineno
        traceback = traceback.tb_next
    return found
