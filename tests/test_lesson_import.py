"The line with which a lesson begins: what it offers, what it imports late, and what a missing package says."
import subprocess, sys

import pytest
from gridstride import lesson


def run(code):
    res = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=600)
    assert res.returncode == 0, res.stderr
    return res.stdout


def test_each_name_is_there_once_and_documented():
    assert len(set(lesson.__all__)) == len(lesson.__all__)
    assert [name for name in lesson.__all__ if not hasattr(lesson, name)] == []
    of_utils = lesson._names_of_utils
    assert [n for n in lesson.__all__ if n not in of_utils and f'`{n}`' not in lesson.__doc__] == []


def test_heavy_modules_are_imported_on_first_use_in_any_thread_and_nothing_is_printed():
    "By one program, because it takes two seconds to import torch"
    out = run('''
from gridstride.lesson import *
from concurrent.futures import ThreadPoolExecutor
heavy = ('torch._C', 'matplotlib.figure', 'numba', 'gridstride.sim.cuda', 'gridstride.kernels.gemm', 'triton')
assert inspect.getmodule(check).__name__ == 'gridstride.utils'    # as tracebacks do it, for all modules
assert not [name for name in heavy if name in sys.modules], 'imported too early'

with ThreadPoolExecutor(4) as pool: found = [*pool.map(lambda i: sim.cuda.jit, range(4))]
assert len({*found}) == 1
import gridstride.sim
assert sim is gridstride.sim and kernels.matmul and asm.sass and draw.Picture and tile.trace

from torch.autograd.gradcheck import gradcheck    # a submodule imports its package first
import torch.nn as nn
import torch.nn.functional as F
assert nn is torch.nn and gradcheck is torch.autograd.gradcheck and nn.Linear(2, 3)(torch.ones(1, 2)).shape == (1, 3)
assert F.relu(torch.tensor(-1.)) == 0 and torch.nn.functional is F and torch is sys.modules['torch']
assert not hasattr(torch, 'no_such_name') and 'Tensor' in dir(torch) and type(torch) is type(sys) is type(sim)

import matplotlib.pyplot
assert callable(plt.subplots) and plt is matplotlib.pyplot
assert backend() and device in ('cuda', 'cpu') and cdiv(7, 2) == 4
''')
    assert out == ''


def test_it_is_the_same_as_what_a_lesson_imported_by_name():
    assert run('''
from gridstride.lesson import *
from gridstride.lesson import check as ours
from utils import *
from gridstride.bench.variants import compare_variants as same
assert ours is check and compare_variants is same
''') == ''


@pytest.mark.parametrize('name', ['torch', 'matplotlib'])
def test_a_missing_package_stops_a_lesson_where_it_is_used(name):
    module = dict(torch='torch', matplotlib='plt')[name]
    out = run(f'''
import sys
sys.modules[{name!r}] = None   # as if it were not installed
from gridstride.lesson import *
print(cdiv(7, 2))
try: {module}.anything
except ModuleNotFoundError as e: print(e.name, e)
''')
    assert out.startswith(f'4\n{name} ') and dict(torch="'gridstride[torch]'").get(name, f'install {name}') in out
