"""Shortens the tracebacks of errors in notebooks and scripts to the learner's lines and the message."""

import linecache
import os
import sys
import traceback

__all__ = ['ShortTracebackError', 'shorten_traceback', 'is_notebook_runtime', 'point_to_first_cell']

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_NOTEBOOK_RUNTIME = ('/IPython/', '/ipykernel/', '/traitlets/')
_MAX_FRAMES = 4  # how many frames of the learner's code are printed: the innermost ones


def is_notebook_runtime(file) -> bool:
    "Return whether the file belongs to the notebook runtime"
    return any(part in file.replace(os.sep, '/') for part in _NOTEBOOK_RUNTIME)


class ShortTracebackError:
    """An exception that prints a short traceback if it is not caught.

    To see all frames, use `%tb` after `%xmode Verbose` in a notebook, or GRIDSTRIDE_TRACEBACK=1 for a script."""

    def __init__(self, *args):
        _shorten_in_scripts()
        super().__init__(*args)

    def _render_traceback_(self):
        return _render(self)


def shorten_traceback(error: Exception) -> Exception:
    "Make an error print a short traceback, as `ShortTracebackError` does; returns the error"
    _shorten_in_scripts()
    error._render_traceback_ = lambda: _render(error)
    return error


_hook = None


def _shorten_in_scripts():
    "Install a hook that shortens the traceback of a `ShortTracebackError` that ends a script, and no others"
    global _hook
    if _hook:
        return
    previous_hook = sys.excepthook

    def _hook(kind, error, tb):
        is_brief = isinstance(error, ShortTracebackError) or '_render_traceback_' in vars(error)
        frames = _learner_frames(tb) if is_brief and os.environ.get('GRIDSTRIDE_TRACEBACK', '0') == '0' else []
        if not frames:
            return previous_hook(kind, error, tb)
        text = traceback.format_list(frames[-_MAX_FRAMES:]) + traceback.format_exception_only(error)
        remedy = '(set GRIDSTRIDE_TRACEBACK=1 to see the full traceback)'
        sys.stderr.write(f'Traceback (most recent call last):\n{"".join(text)}{remedy}\n')

    sys.excepthook = _hook


def _render(error):
    shell = sys.modules['IPython'].get_ipython()
    if getattr(shell.InteractiveTB, 'mode', '') == 'Verbose':
        return shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__, tb_offset=1)
    lines = [_format_frame(shell, frame) for frame in _learner_frames(error.__traceback__)[-_MAX_FRAMES:]]
    message = '\n'.join([f'{type(error).__name__}: {error}', *getattr(error, '__notes__', [])]).split('\n')
    return [*lines, *message, '(to see the full traceback, run %xmode Verbose, then %tb)']


def _learner_frames(tb):
    "Return the frames of the learner's code, which come before the first frame of the package"
    frames = []
    for frame in traceback.extract_tb(tb):
        if frame.filename.startswith(_PACKAGE):
            break
        if not is_notebook_runtime(frame.filename) and not frame.filename.startswith('<frozen '):
            frames.append(frame)
    return frames


def _format_frame(shell, frame):
    "Format a frame as `Cell In[3], line 5: k[1, 32](x)`"
    cell = getattr(shell.compile, 'format_code_name', lambda name: None)(frame.filename)
    text = linecache.getline(frame.filename, frame.lineno).strip()
    if text.startswith('get_ipython().run_cell_magic('):
        text = '%%' + text.split("'")[1]
    return f'{" ".join(cell) if cell else frame.filename}, line {frame.lineno}: {text}'


RUN_FIRST_CELL = "run the lesson's first cell, or all cells above this one (Run > Run All Above Selected Cell)"


def point_to_first_cell():
    """Make the `NameError` of an exercise cell name the cell to run first.

    The Jupyter kernels of the course call it when they start: `course.py` configures that in `.venv/etc/ipython`."""
    shell = sys.modules['IPython'].get_ipython()

    def show(shell, kind, error, tb, tb_offset=None):
        cell = shell.history_manager.input_hist_raw[-1]
        if error.name in ('exercise', 'hint') or '@exercise(' in cell and 'exercise' not in shell.user_ns:
            error.args = (f'{error}: {RUN_FIRST_CELL}',)
        shell.showtraceback((kind, error, tb), tb_offset=tb_offset)

    shell.set_custom_exc((NameError,), show)
