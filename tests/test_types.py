"""The public names have types: a type checker accepts a program that uses them, and finds the mistakes of another."""
import json, os, subprocess, sys
from importlib.util import find_spec
from pathlib import Path

import gridstride
import pytest

ROOT = Path(__file__).resolve().parents[1]
RIGHT = '\n'.join(f'from gridstride import {name} as {name}' for name in gridstride.__all__) + '''
import numpy as np
from gridstride import cdiv, cuda, kernels, sim
from gridstride.checker.finding import Finding
from gridstride.kernels import attention, matmul

@cuda.jit
def copied(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]

copied[cdiv(100, 32), 32](np.ones(100), np.zeros(100))
with sim.options(order='reverse', checks='no racecheck'):
    copied[4, 32](np.ones(100), np.zeros(100))
def code(finding: Finding) -> str:
    return finding.code
'''
WRONG = '''
from gridstride import no_such_name  # mistake
from gridstride import cdiv, sim
from gridstride.checker.finding import Finding
from gridstride.kernels import no_such_kernel  # mistake
blocks = cdiv(100, 32)
sim.no_such_function()  # mistake
def length(finding: Finding) -> int:
    return finding.code  # mistake
'''


def errors_of_pyright(folder):
    config = dict(extraPaths=[str(ROOT)], pythonVersion=f'{sys.version_info[0]}.{sys.version_info[1]}')
    (folder/'pyrightconfig.json').write_text(json.dumps(config))
    if run_checker('pyright', '--version', folder=folder).returncode:
        pytest.skip('pyright cannot run: it needs node, and downloads its JavaScript once')
    done = run_checker('pyright', '--outputjson', '--pythonpath', sys.executable, folder=folder)
    found = json.loads(done.stdout)['generalDiagnostics']
    return {(Path(o['file']).name, o['range']['start']['line'] + 1) for o in found if o['severity'] == 'error'}


def errors_of_mypy(folder):
    options = '--follow-imports=silent', '--ignore-missing-imports', '--check-untyped-defs', '--output=json'
    done = run_checker('mypy', *options, '--cache-dir=cache', 'right.py', 'wrong.py', folder=folder)
    assert not done.stderr, done.stderr
    return {(o['file'], o['line']) for o in map(json.loads, done.stdout.splitlines()) if o['severity'] == 'error'}


def run_checker(module, *args, folder):
    command = [sys.executable, '-m', module, *args]
    return subprocess.run(command, cwd=folder, env=dict(os.environ, MYPYPATH=str(ROOT)), capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize('checker, errors_of', [('pyright', errors_of_pyright), ('mypy', errors_of_mypy)])
def test_type_checkers_know_the_public_names(checker, errors_of, tmp_path):
    if not find_spec(checker): pytest.skip(f'{sys.executable} -m pip install -c constraints.txt {checker}')
    (tmp_path/'right.py').write_text(RIGHT)
    (tmp_path/'wrong.py').write_text(WRONG)
    mistakes = {('wrong.py', n) for n, text in enumerate(WRONG.splitlines(), 1) if text.endswith('# mistake')}
    assert errors_of(tmp_path) == mistakes and len(mistakes) == 4
