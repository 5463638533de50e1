"""`numba_simulator`: runs a kernel in Numba's own simulator, to compare it with this package's."""

import ast
import pickle
import subprocess
import sys
from importlib.util import find_spec
from os import environ

import numpy as np

from ..support.function_source import source_of
from ..support.lazy_exports import missing_package

# Numba decides at its import whether it simulates, so the kernel runs in another process. This process reads a pickle
# and writes another one: the arrays after the kernel, the seconds that the kernel took, and its output.
_PROCESS = """
import io, pickle, sys, time
from contextlib import redirect_stdout
import numpy as np
from numba import cuda
source, name, global_values, grid, block, args = pickle.load(sys.stdin.buffer)
namespace = dict(global_values, cuda=cuda, np=np)
exec(source, namespace)
kernel, output, start = cuda.jit(namespace[name]), io.StringIO(), time.perf_counter()
with redirect_stdout(output): kernel[grid, block](*args)
pickle.dump((args, time.perf_counter() - start, output.getvalue()), sys.stdout.buffer)
"""
TIMEOUT = 60  # seconds; Numba's simulator may deadlock at a barrier that not all threads reach


def _source(fn):
    "Return (source, syntax tree) of a function without its decorators"
    text = source_of(fn).text
    node = ast.parse(text).body[0]
    return '\n'.join(text.splitlines()[node.lineno - 1 :]), node


def _global_values(fn, node):
    "Return {name: value} of the globals that a function reads, if they are numbers, strings or tuples"
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return {k: v for k, v in fn.__globals__.items() if k in names and isinstance(v, (bool, int, float, str, tuple))}


def _run(job, name):
    "Run the kernel of `job`, the input of `_PROCESS`, in another process; returns (arrays, seconds, output)"
    if not find_spec('numba'):
        raise missing_package('numba', 'numba_simulator')
    cmd = [sys.executable, '-W', 'ignore', '-c', _PROCESS]
    env = {**environ, 'NUMBA_ENABLE_CUDASIM': '1'}
    try:
        process = subprocess.run(cmd, input=pickle.dumps(job), capture_output=True, timeout=TIMEOUT, env=env)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{name} timed out after {TIMEOUT} seconds in Numba's simulator") from None
    if process.returncode:
        output = process.stderr.decode().strip().splitlines() or ['no message']
        raise RuntimeError(f"{name} failed in Numba's simulator: {output[-1]}")
    return pickle.loads(process.stdout)


class _ConfiguredKernel:
    "A kernel with its grid and block; a call runs it in Numba's simulator"

    def __init__(self, fn, grid, block):
        self.fn = fn
        self.grid = grid
        self.block = block

    def __call__(self, *args):
        copies = [np.array(a) if hasattr(a, 'shape') else a for a in args]
        text, node = _source(self.fn)
        job = text, self.fn.__name__, _global_values(self.fn, node), self.grid, self.block, copies
        results, seconds, output = _run(job, self.fn.__name__)
        print(output, end='')
        for array, result in zip(args, results):
            if hasattr(array, 'shape'):
                array[...] = array.new_tensor(result) if hasattr(array, 'new_tensor') else result
        return seconds


class numba_simulator:
    """Runs a kernel in Numba's own simulator: `numba_simulator(k)[grid, block](*args)`.

    The call writes to the arrays and returns the seconds that the kernel took. Raises `RuntimeError` with the last line
    of Numba's message if the kernel fails, `TimeoutError` after a minute."""

    def __init__(self, kernel):
        self.fn = getattr(kernel, 'py_func', kernel)

    def __getitem__(self, brackets):
        return _ConfiguredKernel(self.fn, *brackets)
