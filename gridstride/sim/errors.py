"""Explains Python errors in a kernel and names the line: an array used as a number, a name that Numba does not have."""

import linecache
import re
import sys
from difflib import get_close_matches

from ..diagnostics.errors import NotSimulated, Location, exception_of
from ..diagnostics.launch_config import argument_error
from ..support.short_tracebacks import ShortTracebackError, shorten_traceback
from .memory import View

__all__ = ['add_kernel_line']


def add_kernel_line(program, values, error):
    "Return the error with the line of the kernel that raised it; Python's own errors hide the simulator's frames"
    _, line = _innermost_kernel_frame(program, error)
    source = linecache.getline(program.file, line).strip()
    if isinstance(error, NotSimulated) and line and not error.line:
        location = dict(kernel=program.name, file=program.file, line=line, source=source)
        return NotSimulated(error.summary, error.hint, **location)
    if isinstance(error, ShortTracebackError) or not line:
        return error
    if isinstance(error, TypeError) and re.search(r'\bView\b', str(error)):
        return _array_as_number_error(program, values, error)
    error.__notes__ = [f'  line {line}: {source}\n  in {program.name}{_similar_name_hint(error)}']
    return shorten_traceback(error)


def _similar_name_hint(error):
    "Return a hint that suggests a similar name if the error is about an unknown one, else ''"
    name = getattr(error, 'name', None) or ''
    cuda = sys.modules[f'{__package__}.cuda']
    if close_matches := get_close_matches(name, dir(cuda), 1, 0.75):
        return f'\n  Did you mean cuda.{close_matches[0]}?'
    close_matches = get_close_matches(name, dir(getattr(error, 'obj', None)), 1, 0.7)
    return f'\n  Did you mean {close_matches[0]!r}?' if close_matches else ''


def _array_as_number_error(program, values, error):
    "Make the error for a line that uses an array as a number"
    variables, line = _innermost_kernel_frame(program, error)
    source = linecache.getline(program.file, line).strip()
    for name, value in variables.items():
        subscripts = (
            re.findall(rf'(?<![\w.]){re.escape(name)}\s*\[([^][]*)\]', source) if isinstance(value, View) else []
        )
        for num_indices in (subscript.count(',') + 1 for subscript in subscripts if ':' not in subscript):
            if num_indices < value.ndim:
                fields = dict(array=name, dimensions=value.ndim, given=num_indices)
                return exception_of(
                    'memcheck', 'indices', 'python', fields, Location(program.name, program.file, line, source)
                )
    for position, (name, value) in enumerate(zip(program.params, values)):
        if isinstance(value, View) and re.search(rf'(?<![\w.]){name}(?!\s*[\w\[.])', source):
            shape = tuple(map(int, value.shape))
            problem = f'is an array of shape {shape}, but line {line} uses it as a number: {source}'
            hint = 'Pass the number itself: {}.item()' if value.size == 1 else 'Use one of its elements, as in {}[i].'
            return argument_error(program.name, position, name, f'{problem}\n  {hint.format(name)}')
    problem, hint = 'arithmetic on a whole array', 'A thread computes with scalars: write a loop over the elements.'
    return NotSimulated(problem, hint, kernel=program.name, file=program.file, line=line or None, source=source)


def _innermost_kernel_frame(program, error):
    "Return (variables, line number) of the innermost frame of the kernel in the traceback of an error"
    variables, line = {}, 0
    traceback = error.__traceback__
    while traceback:
        if traceback.tb_frame.f_code.co_filename == program.file:
            variables, line = traceback.tb_frame.f_locals, traceback.tb_lineno
        traceback = traceback.tb_next
    return variables, line
