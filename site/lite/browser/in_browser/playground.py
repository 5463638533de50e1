"Runs the programs of the playground: CUDA C with a `main`, or a cell of Python."

import ast, contextlib, io, json, linecache, re, time, traceback, warnings

from gridstride.cpp import emulator
from gridstride.cpp.program import run as run_program
from gridstride.diagnostics.errors import KernelError

from .served import HAS_COMPILER

if HAS_COMPILER:
    from . import cuda

    cuda.install()

SECONDS = 20  # the time limit of a kernel
# the first line that is neither blank nor begins with #, if it is Python
PYTHON = re.compile(r'(?:\s*#.*\n|\s*\n)*(?:import |from |def |@|\w+ = )')


def is_python(text):
    "Return whether a program is Python, not CUDA C: strings of Python may hold CUDA C, and Python may have mistakes"
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return bool(PYTHON.match(text))


def run_python(text):
    "Run a cell of Python, whose lines tracebacks and findings can read"
    linecache.cache['playground'] = len(text), None, text.splitlines(True), 'playground'
    exec(compile(text, 'playground', 'exec'), {'__name__': 'playground'})


def line_in(text, n, source):
    "Return the line of the program that has the text `source`: line `n`, or of a kernel in a string, a later one"
    lines = [line.strip() for line in text.splitlines()]
    if not n or not source or (n <= len(lines) and lines[n - 1] == source.strip()):
        return n
    return next((i for i in range(n, len(lines) + 1) if lines[i - 1] == source.strip()), n)


def describe(error, text):
    "Return the fields of a finding, or of another error, for the page"
    if not isinstance(error, KernelError):
        return dict(message=f'{type(error).__name__}: {error}', line=getattr(error, 'line', None))
    other = error.other and error.other.line and line_in(text, error.other.line, error.other.source)
    described = dict(code=f'{error.kind} {error.code}', line=line_in(text, error.line, error.source), other=other)
    return dict(described, message=f'{type(error).__name__}: {error}')


def run(text) -> str:  # JSON: printed, seconds, and of a finding code, message, line, other
    "Run a program, and describe what it printed and how it ended"
    printed, start = io.StringIO(), time.time()
    found = {}
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter('always')
        try:
            with emulator.options(seconds=SECONDS):
                run_python(text) if is_python(text) else run_program(text, 'program')
        except KernelError as e:
            found = describe(e, text)
        except Exception as e:
            found = describe(e, text)
            if is_python(text) and not found.get('line'):
                frames = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == 'playground']
                found['line'] = frames[-1] if frames else None
    lines = [printed.getvalue(), *(f'{w.category.__name__}: {w.message}' for w in warned)]
    return json.dumps(dict(found, printed='\n'.join(filter(None, lines)), seconds=time.time() - start))
