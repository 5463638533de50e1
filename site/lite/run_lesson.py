# Runs the cells of a lesson, in Pyodide, for run_lessons.mjs, which sets `name`, `report` and `cpu_seconds`. Its value
# is a JSON object {id of a cell that does not run: what the browser lacks}, null for an error that no reason explains.
import ast, contextlib, io, json, re, sys, traceback

name, report, cpu_seconds = (globals()[name] for name in ('name', 'report', 'cpu_seconds'))

sys.path.insert(0, '/repository/site/lite')

import matplotlib

import notebooks
import utils  # noqa: F401 (threads and CUDA C, as the lessons import them first)
from IPython.core.interactiveshell import InteractiveShell
from gridstride.course.publishing import is_setup

MAX_SECONDS = 60  # of CPU time, so that other programs on the machine do not count
CELL_ABOVE = 'a cell above that does not run here'
REASONS = [  # (pattern of an error message, what the browser lacks; None: the lesson has a fault)
    (r'was made from another source', None),
    (r'replacement for torch in the browser has no (autograd|Tensor\.\w+|[\w.]+)', 'PyTorch itself (`{}`)'),
    (r"No module named '(torch[\w.]*)'", 'PyTorch itself (`{}`)'),
    (r"cannot import name '\w+' from '(torch[\w.]*)'", 'PyTorch itself (`{}`)'),
    (r'MissingPackage: .* needs (torch[\w.]*)', 'PyTorch itself (`{}`)'),
    (r'ZeroDivisionError', 'a clock with a finer resolution'),
    (r'MissingPackage: numba_simulator needs numba', 'Numba itself'),
    (r"No module named '(\w+)'|MissingPackage: .* needs (\w+)", 'the package `{}`'),
    (r"engine='c'", "a C++ compiler for the machine's CPU"),
    (r'NVRTC|CompilerMissing|Numba', "a GPU's compiler"),
    (r'is not emulated|NotEmulated', 'what the emulator lacks in a browser'),
    (r'does not support processes', 'a second process'),
    (r"name '\w+' is not defined|KeyError", CELL_ABOVE),
    (r'ChangeError: \w+\.ipynb has no string or function', 'a cell of another lesson that does not run here'),
]


def missing_feature(error, seconds):
    "Return what the browser lacks for a cell; None if that is unknown: then the lesson, or the browser, has a fault"
    if error is None:
        return f'more than a minute ({seconds:.0f} s)'
    text = f'{type(error).__name__}: {error}'
    for pattern, feature in REASONS:
        if match := re.search(pattern, text):
            return feature and feature.format(*filter(None, match.groups()))
    return None


def describe_error(error):
    "Return an error and the last three lines of code that led to it"
    frames = traceback.extract_tb(error.__traceback__)[-3:] if error else []
    position = ', '.join(f'{frame.filename.rpartition("/")[2]}:{frame.lineno}' for frame in frames)
    return f'{type(error).__name__}: {error} ({position})'


def run(shell, code):
    "Run a cell's code; return its error, or None, and the seconds of CPU time"
    start, output = cpu_seconds(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        result = shell.run_cell(code, store_history=True)
    return result.error_before_exec or result.error_in_exec, cpu_seconds() - start


def reads_any(code, names):
    "Return whether code reads one of `names`"
    return not code.startswith('%%') and bool(notebooks.names(notebooks.parse(code), ast.Load) & names)


def defined_names(code):
    "Return the names that code defines"
    if code.startswith('%%'):
        return set()
    tree = notebooks.parse(code)
    definitions = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return definitions | notebooks.names(tree, ast.Store)


missing_names = set()  # which would have been defined by cells that do not run


def try_code(shell, code, cell):
    "Return why a cell's code does not run here; '' if it does. If it fails, its definitions are undone"
    before = dict(shell.user_ns)
    error, seconds = run(shell, code)
    if error is None and seconds <= MAX_SECONDS:
        missing_names.difference_update(defined_names(code))
        return ''
    shell.user_ns.clear()
    shell.user_ns.update(before)
    why = missing_feature(error, seconds) or (CELL_ABOVE if reads_any(code, missing_names) else None)
    missing_names.update(defined_names(code))
    report(f'{name} {cell}: {why}\n    {describe_error(error)}'[:600])
    return why


def solutions(cells):
    "Return {id of the cell of an exercise: its folded solution}"
    text = '\n'.join(map(notebooks.source, cells))
    found = dict(re.findall(r'Solution of ([\w.]+).*?```python\n(.*?)\n```', text, re.S))
    code = [c for c in cells if c['cell_type'] == 'code']
    names = {c['id']: re.search(r"^@exercise\('([\w.]+)'\)", notebooks.source(c), re.M) for c in code}
    return {id_: found[match[1]] for id_, match in names.items() if match and match[1] in found}


def run_all(nb):
    "Run all cells, then the solutions of the exercises; return {id: reason} of those that fail"
    matplotlib.use('agg')
    shell = InteractiveShell.instance()
    shell.showtraceback = lambda *args, **kw: None
    cells = [c for c in nb['cells'] if c['cell_type'] == 'code' and not is_setup(c)]
    found = {c['id']: try_code(shell, notebooks.source(c), f'cell {i} {c["id"]}') for i, c in enumerate(cells)}
    for id_, code in solutions(nb['cells']).items():
        found[id_] = found[id_] or try_code(shell, code, f'solution {id_}')
    failed = {id_: why for id_, why in found.items() if why != ''}
    report(f'{name}: {len(cells) - len(failed)} of {len(cells)} cells run')
    return failed


with open(f'/repository/nbs/{name}.ipynb', encoding='utf-8') as file:
    failed = run_all(json.load(file))
json.dumps(failed)
