# Runs the cells of a lesson, in Pyodide, for run_lessons.mjs, which sets `name` and `report`. Its value is a JSON
# object {id of a cell that does not run: what the browser lacks}, null for an error that no reason explains.
import contextlib, io, json, re, sys, time, traceback

name, report = globals()['name'], globals()['report']

sys.path.insert(0, '/repository/site/lite')

import matplotlib

import notebooks
import utils  # noqa: F401 (threads and CUDA C, as the lessons import them first)
from IPython.core.interactiveshell import InteractiveShell
from gridstride.course.publishing import is_setup

LONGEST = 60  # seconds
REASONS = [  # pattern of an error, what it means
    (r'replacement for torch in the browser has no (autograd|Tensor\.\w+|[\w.]+)', 'PyTorch itself (`{}`)'),
    (r"No module named '(torch[\w.]*)'", 'PyTorch itself (`{}`)'),
    (r'MissingPackage: .* needs (torch[\w.]*)', 'PyTorch itself (`{}`)'),
    (r'ZeroDivisionError', 'a clock with a finer resolution'),
    (r'MissingPackage: in_numbas needs numba', 'Numba itself'),
    (r"No module named '(\w+)'|MissingPackage: .* needs (\w+)", 'the package `{}`'),
    (r"engine='c'", 'a C++ compiler for the processor of this machine'),
    (r'NVRTC|CompilerMissing|Numba', "a GPU's compiler"),
    (r'is not emulated|NotEmulated', 'what the emulator lacks in a browser'),
    (r'does not support processes', 'a second process'),
    (r"name '\w+' is not defined|KeyError", 'a cell above that does not run here'),
]


def reason(error, seconds):
    "Return what a browser lacks for a cell, None if that is unknown: then the lesson, or its browser, has a fault"
    if error is None:
        return f'more than a minute ({seconds:.0f} s)'
    text = f'{type(error).__name__}: {error}'
    for pattern, meaning in REASONS:
        if match := re.search(pattern, text):
            return meaning.format(*filter(None, match.groups()))
    return None


def described(error):
    "Return an error and the last three lines of code that led to it"
    frames = traceback.extract_tb(error.__traceback__)[-3:] if error else []
    where = ', '.join(f'{frame.filename.rpartition("/")[2]}:{frame.lineno}' for frame in frames)
    return f'{type(error).__name__}: {error} ({where})'


def run(shell, cell):
    "Run a cell; return its error, or None, and the seconds"
    start, output = time.time(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        result = shell.run_cell(notebooks.source(cell), store_history=True)
    return result.error_before_exec or result.error_in_exec, time.time() - start


def run_all(nb):
    "Run all cells; return {id: reason} of those that fail"
    matplotlib.use('agg')
    shell, failed = InteractiveShell.instance(), {}
    shell.showtraceback = lambda *args, **kw: None
    cells = [c for c in nb['cells'] if c['cell_type'] == 'code' and not is_setup(c)]
    for i, cell in enumerate(cells):
        error, seconds = run(shell, cell)
        if error is not None or seconds > LONGEST:
            failed[cell['id']] = reason(error, seconds)
            report(f'{name} cell {i} {cell["id"]}: {failed[cell["id"]]}\n    {described(error)}'[:600])
    report(f'{name}: {len(cells) - len(failed)} of {len(cells)} cells run')
    return failed


with open(f'/repository/nbs/{name}.ipynb', encoding='utf-8') as file:
    failed = run_all(json.load(file))
json.dumps(failed)
