"Runs the programs of the playground: CUDA C with a `main`, or a cell of Python."

import ast, contextlib, io, json, linecache, re, time, traceback, warnings

from gridstride.cpp import emulator
from gridstride.cpp.program import run as run_program
from gridstride.diagnostics.errors import KernelError

from .served import HAS_COMPILER

if HAS_COMPILER:
    from . import cuda

    cuda.install()

MAX_SECONDS = 20  # time limit of a kernel
# a program whose first line, except for blank lines and those that begin with #, is Python
PYTHON_START = re.compile(r'(?:\s*#.*\n|\s*\n)*(?:import |from |def |@|\w+ = )')


def is_python(text):
    "Return whether a program is Python, not CUDA C: it may contain CUDA C in strings, or syntax errors"
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return bool(PYTHON_START.match(text))


def run_python(text):
    "Run a cell of Python; tracebacks and findings can show its lines"
    linecache.cache['playground'] = len(text), None, text.splitlines(True), 'playground'
    exec(compile(text, 'playground', 'exec'), {'__name__': 'playground'})


def find_line(text, n, source):
    "Return the number of the line with the text `source`: `n`, or a later one for a kernel in a string"
    lines = [line.strip() for line in text.splitlines()]
    if not n or not source or (n <= len(lines) and lines[n - 1] == source.strip()):
        return n
    return next((i for i in range(n, len(lines) + 1) if lines[i - 1] == source.strip()), n)


def describe(error, text):
    "Return the fields of a finding, or of another error, for the page"
    if not isinstance(error, KernelError):
        return dict(message=f'{type(error).__name__}: {error}', line=getattr(error, 'line', None))
    other = error.other and error.other.line and find_line(text, error.other.line, error.other.source)
    fields = dict(code=f'{error.kind} {error.code}', line=find_line(text, error.line, error.source), other=other)
    return dict(fields, message=f'{type(error).__name__}: {error}')


def run(text) -> str:  # JSON: printed, seconds, and of a finding code, message, line, other
    "Run a program, and describe what it printed and how it ended"
    printed, start = io.StringIO(), time.time()
    fields = {}
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        try:
            with emulator.options(seconds=MAX_SECONDS):
                run_python(text) if is_python(text) else run_program(text, 'program')
        except KernelError as e:
            fields = describe(e, text)
        except Exception as e:
            fields = describe(e, text)
            if is_python(text) and not fields.get('line'):
                frames = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == 'playground']
                fields['line'] = frames[-1] if frames else None
    lines = [printed.getvalue(), *(f'{w.category.__name__}: {w.message}' for w in caught)]
    return json.dumps(dict(fields, printed='\n'.join(filter(None, lines)), seconds=time.time() - start))
