"""Shortens errors in notebooks and scripts to the learner's lines and the message, without frames of the package."""

import linecache
import os
import sys
import traceback

__all__ = ['ShownBriefly', 'briefly', 'is_machinery', 'point_to_first_cell']

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_MACHINERY = ('/IPython/', '/ipykernel/', '/traitlets/')
_MAX_LINES = 4  # lines of the learner that are shown, the innermost


def is_machinery(file) -> bool:
    "Return whether the file belongs to the notebook runtime"
    return any(part in file.replace(os.sep, '/') for part in _MACHINERY)


class ShownBriefly:
    """An exception that is shown in a few lines if it is not caught.

    For all frames, use `%tb` after `%xmode Verbose` in a notebook, or GRIDSTRIDE_TRACEBACK=1 for a script."""

    def __init__(self, *args):
        _shorten_in_scripts()
        super().__init__(*args)

    def _render_traceback_(self):
        return _render(self)


def briefly(error: Exception) -> Exception:
    "Let an error be shown like a `ShownBriefly` one; return it"
    _shorten_in_scripts()
    error._render_traceback_ = lambda: _render(error)
    return error


_hook = None


def _shorten_in_scripts():
    "Install a hook that shortens such errors when they end a script; other errors are not changed"
    global _hook
    if _hook:
        return
    previous_hook = sys.excepthook

    def _hook(kind, error, tb):
        own = isinstance(error, ShownBriefly) or '_render_traceback_' in vars(error)
        frames = _own_frames(tb) if own and os.environ.get('GRIDSTRIDE_TRACEBACK', '0') == '0' else []
        if not frames:
            return previous_hook(kind, error, tb)
        text = traceback.format_list(frames[-_MAX_LINES:]) + traceback.format_exception_only(error)
        sys.stderr.write(f'Traceback (most recent call last):\n{"".join(text)}(GRIDSTRIDE_TRACEBACK=1: every call)\n')

    sys.excepthook = _hook


def _render(error):
    shell = sys.modules['IPython'].get_ipython()
    if getattr(shell.InteractiveTB, 'mode', '') == 'Verbose':
        return shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__, tb_offset=1)
    lines = [_line(shell, frame) for frame in _own_frames(error.__traceback__)[-_MAX_LINES:]]
    message = '\n'.join([f'{type(error).__name__}: {error}', *getattr(error, '__notes__', [])]).split('\n')
    return [*lines, *message, '(%xmode Verbose, then %tb: every call)']


def _own_frames(tb):
    "Return the frames of the learner's code: those before the first frame of the package"
    frames = []
    for frame in traceback.extract_tb(tb):
        if frame.filename.startswith(_PACKAGE):
            break
        if not is_machinery(frame.filename) and not frame.filename.startswith('<frozen '):
            frames.append(frame)
    return frames


def _line(shell, frame):
    "Format a call as `Cell In[3], line 5: k[1, 32](x)`"
    cell = getattr(shell.compile, 'format_code_name', lambda name: None)(frame.filename)
    text = linecache.getline(frame.filename, frame.lineno).strip()
    if text.startswith('get_ipython().run_cell_magic('):
        text = '%%' + text.split("'")[1]
    return f'{" ".join(cell) if cell else frame.filename}, line {frame.lineno}: {text}'


FIRST_CELL = "run the lesson's first cell, or all cells above this one (Run > Run All Above Selected Cell)"


def point_to_first_cell():
    """Let the `NameError` of an exercise cell name the cell to run first.

    The Jupyter kernels of the course call it when they start: `course.py` configures that in `.venv/etc/ipython`."""
    shell = sys.modules['IPython'].get_ipython()

    def show(shell, kind, error, tb, tb_offset=None):
        cell = shell.history_manager.input_hist_raw[-1]
        if error.name in ('exercise', 'hint') or '@exercise(' in cell and 'exercise' not in shell.user_ns:
            error.args = (f'{error}: {FIRST_CELL}',)
        shell.showtraceback((kind, error, tb), tb_offset=tb_offset)

    shell.set_custom_exc((NameError,), show)
