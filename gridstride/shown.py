"""Errors as a notebook shows them: the learner's own lines and the message, without the package's inside."""

import linecache
import os
import sys
import traceback

__all__ = ['ShownBriefly', 'briefly', 'is_machinery']

_PACKAGE = os.path.dirname(__file__) + os.sep
_MACHINERY = ('/IPython/', '/ipykernel/', '/traitlets/')
MOST = 4  # of the learner's lines, the innermost


def is_machinery(file) -> bool:
    "Belongs the file to what runs a notebook's cells?"
    return any(o in file.replace(os.sep, '/') for o in _MACHINERY)


class ShownBriefly:
    "An exception that IPython shows in a few lines; after `%xmode Verbose`, `%tb` shows every call"

    def _render_traceback_(self):
        return _render(self)


def briefly(error: Exception) -> Exception:
    "The error, shown as those that are `ShownBriefly`"
    error._render_traceback_ = lambda: _render(error)
    return error


def _render(error):
    shell = sys.modules['IPython'].get_ipython()
    if getattr(shell.InteractiveTB, 'mode', '') == 'Verbose':
        return shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__, tb_offset=1)
    lines = [_line(shell, frame) for frame in _own_frames(error.__traceback__)[-MOST:]]
    message = f'{type(error).__name__}: {error}'.split('\n')
    return [*lines, *message, '(%xmode Verbose, then %tb: every call)']


def _own_frames(tb):
    "The calls up to the package: those of the learner"
    frames = []
    for frame in traceback.extract_tb(tb):
        if frame.filename.startswith(_PACKAGE):
            break
        if not is_machinery(frame.filename):
            frames.append(frame)
    return frames


def _line(shell, frame):
    "A call as `Cell In[3], line 5: k[1, 32](x)`"
    cell = getattr(shell.compile, 'format_code_name', lambda name: None)(frame.filename)
    text = linecache.getline(frame.filename, frame.lineno).strip()
    if text.startswith('get_ipython().run_cell_magic('):
        text = '%%' + text.split("'")[1]
    return f'{" ".join(cell) if cell else frame.filename}, line {frame.lineno}: {text}'
