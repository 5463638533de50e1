"""The kernels that are there already, as cases: those of the lessons, of the simulator's tests and
of the comparison with Nsight Compute.

The launches of the tests are recorded while the simulator runs them; each becomes a text of its own, with what the
kernel takes from around it written above it.
"""
import ast, importlib, inspect, itertools, json, re, sys, textwrap, types, warnings
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

from cases import Case, array, described, kept
from gridstride.diagnostics import settings
from gridstride import sim
from gridstride.sim import cuda

TESTS = Path(__file__).parents[1]
NOTEBOOKS = TESTS.parent/'nbs'
BYTES = 6000     # launches on more memory are left out
# which thread gets which ticket depends on their order; named tuples are not translated
OTHERWISE = {'test_exchange_and_compare', 'test_an_argument_may_be_a_named_tuple'}


# a kernel as a text of its own

def function_text(f, decorator):
    "The source of a function under the decorator, with CUDA's functions called by their full names"
    text = textwrap.dedent(inspect.getsource(f))
    fn = ast.parse(text).body[0]
    text = '\n'.join(text.splitlines()[fn.lineno-1:fn.end_lineno])
    for name,v in used(f, fn).items():
        if not inspect.ismodule(v) and (path := path_of(v)): text = re.sub(rf'\b{name}\b(?=\()', path, text)
    return f'{decorator}\n{text}\n'

def is_device(v): return isinstance(v, cuda.Device) or type(v).__name__ == 'CPUDispatcher'   # of @njit

def used(f, tree):
    "Names that a function takes from around it, and what they mean"
    names = {o.id for o in ast.walk(tree) if isinstance(o, ast.Name)} - set(f.__code__.co_varnames)
    cells = {k:c.cell_contents for k,c in zip(f.__code__.co_freevars, f.__closure__ or ())}
    return {**{n:f.__globals__[n] for n in sorted(names) if n in f.__globals__}, **cells}

def path_of(v):
    "How one of CUDA's functions is called, such as cuda.atomic.add"
    for nm,o in vars(cuda).items():
        if o is v: return f'cuda.{nm}'
        if isinstance(o, types.SimpleNamespace):
            for k,p in vars(o).items():
                if p is v: return f'cuda.{nm}.{k}'

def definition(name, v, done):
    "A line, or a device function, that gives `name` its meaning"
    if inspect.ismodule(v):
        if v is cuda or v is sim:
            return '' if name=='cuda' else 'import types\nsim = types.SimpleNamespace(cuda=cuda)\n'
        return '' if name in ('np','math') else f'import {v.__name__} as {name}\n'
    if isinstance(v, np.ndarray): return f'{name} = np.array({v.tolist()}, np.{v.dtype})\n'
    if isinstance(v, (bool,int,float,tuple)): return f'{name} = {v!r}\n'
    if isinstance(v, type) and issubclass(v, np.generic): return f'{name} = np.{v.__name__}\n'
    if is_device(v):
        own = v.py_func.__name__
        return (('' if own in done else needs(v.py_func, done) + function_text(v.py_func, '@cuda.jit(device=True)'))
                + (f'{name} = {own}\n' if own!=name else ''))
    if path_of(v): return ''                             # written out in the text
    raise TypeError(f'{name}: what is {v!r}?')

def needs(f, done):
    done.add(f.__name__)
    tree = ast.parse(textwrap.dedent(inspect.getsource(f))).body[0]
    tree.decorator_list = []
    return ''.join(definition(n, v, done)
                   for n,v in used(f, tree).items() if not (is_device(v) and v.py_func.__name__ in done))

def text_of(k): return needs(k.py_func, set()) + function_text(k.py_func, '@cuda.jit')


# recording

@contextmanager
def recording():
    """The checked launches inside the `with` block that succeed, as (name, text, arguments,
    grid, block, shared bytes)"""
    found,launch = [],cuda.Kernel._launch
    def _launch(self, grid, block, dynamic, stream, *args):
        before = [as_described(a) for a in args]
        launch(self, grid, block, dynamic, stream, *args)
        # cells are overwritten: the text now
        if settings.settings.checks==settings.CHECKS:
            found.append(
                (self.__name__, text_of(self), before, list(np.atleast_1d(grid)), list(np.atleast_1d(block)), dynamic))
    with patch.object(cuda.Kernel, '_launch', _launch): yield found

def as_described(a):
    if isinstance(a, cuda.DeviceArray): a = a.data
    return described(a.detach().numpy() if hasattr(a, 'detach') else a)

def parameters(test):
    "The arguments of every call of a test function"
    marks = [m for m in getattr(test, 'pytestmark', []) if m.name=='parametrize']
    for values in itertools.product(*(m.args[1] for m in marks)):
        given = {}
        for m,v in zip(marks, values):
            names = [o.strip() for o in m.args[0].split(',')]
            given.update(zip(names, v if len(names)>1 else [v]))
        yield given

def simulator_tests():
    "The launches of tests/test_sim.py and its cases"
    sys.path.insert(0, str(TESTS))
    tests = importlib.import_module('test_sim')
    with recording() as found, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        for name,f in vars(tests).items():
            if name.startswith('test_') and name not in OTHERWISE:
                for given in parameters(f):
                    if {*given} == {*inspect.signature(f).parameters}: f(**given)     # no fixture is needed
    return found

def counted_kernels():
    "The kernels that Nsight Compute counted; some read uninitialized memory, and have no result"
    sys.path.insert(0, str(TESTS/'ncu'))
    with recording() as found:
        for _,k,grid,block,args in importlib.import_module('kernels').kernels(cuda):
            try: k[grid, block](*(small(a) for a in args))
            except sim.InitcheckError: pass
    return found

def small(a): return a.copy() if isinstance(a, np.ndarray) else a

def size(d):
    return (sum(size(o) for o in d['tuple']) if 'tuple' in d else d['size']*np.dtype(d['dtype']).itemsize if 'size' in d
            else 8)

def as_cases(prefix, launches):
    "A case per kernel and kinds of arguments, the launch on most memory that is not too much"
    best = {}
    for k,text,args,grid,block,dynamic in launches:
        bytes = sum(map(size, args))
        key = text,json.dumps([kinds(a) for a in args])
        if bytes <= BYTES and bytes >= best.get(key, (0,))[0]: best[key] = bytes,k,args,grid,block,dynamic
    res = []
    for n,((text,_),(_,k,args,grid,block,dynamic)) in enumerate(best.items()):
        grid,block = ([int(o) for o in s] for s in (grid,block))
        res.append(Case(f'{prefix}_{n}_{k}', text, args, grid, block, dynamic, 'scale' if rounds(text) else 'bits'))
    return res

def kinds(d):
    return ([kinds(o) for o in d['tuple']] if 'tuple' in d else [d.get('dtype'), len(d['shape']), d['strides']]
            if 'size' in d else d['number'])

def rounds(text):
    "Does the kernel compute with floats in a way whose last bits are not the same everywhere?"
    return bool(re.search(r'float32|float64|atomic|math\.|np\.(sqrt|sin|exp)|\b0\.|[*/]', text))


# the lessons

def lesson_kernels():
    "{name: text} of all functions under @cuda.jit in the lessons and the solutions of their exercises"
    found = {}
    for nb in sorted(NOTEBOOKS.glob('0[1-6]*.ipynb')):
        for c in json.loads(nb.read_text(encoding='utf-8'))['cells']:
            src = ''.join(c['source'])
            if c['cell_type']=='markdown':
                src = ((re.search(r'```python\n(.*?)```', src, re.S) or ['',''])[1]
                       if 'solution' in c['metadata'].get('tags', []) else '')
            found.update(kernels_in('\n'.join('' if l.startswith('%') else l for l in src.splitlines())))
    return found

def kernels_in(src):
    if 'cuda.jit' not in src: return {}
    found = {}
    for s in ast.parse(src).body:
        if (isinstance(s, ast.FunctionDef) and any('cuda.jit' in ast.unparse(d) for d in s.decorator_list)
            and not isinstance(s.body[-1], ast.Expr)):
            found[s.name] = '@cuda.jit\n' + '\n'.join(src.splitlines()[s.lineno-1:s.end_lineno]) + '\n'
    return found

def floats(*shape, seed=1): return array('float32', shape, 'C', [seed, -2**18, 2**18, -16])
def number(v): return dict(number='int', value=v)
def product(m, k, n, tw): return [floats(m,k), floats(k,n,seed=2), floats(m,n,seed=3)],[-(-n//tw),-(-m//tw)],[tw,tw]

# name of the kernel -> (what is defined above it, arguments, grid, block); the wrong ones have no
# result: test_engine.py has them
RIGHT = dict(
    grey_cuda=('', [floats(3*35), floats(35), number(35)], [5], [8]),
    plain_cuda=('', *product(16,16,16,16)),
    matmul_cuda=('tw = 16\n', *product(20,35,18,16)),
    small=('tw = 4\n', *product(7,5,6,4)),
    block_max=('', [floats(1000), floats(16, seed=2)], [16], [64]))
WRONG = {'no_guard','no_first_cuda','no_second_cuda','no_wait_cuda','no_guard_cuda','wraps_cuda','leaves_early_cuda',
         'no_padding_cuda'}

def lessons():
    known = lesson_kernels()
    known['small'] = known['matmul_cuda']
    return [Case(f'lesson_{name}', above+known[name], args, grid, block, 0, 'scale')
            for name,(above,args,grid,block) in RIGHT.items()]

# not translated, which the error says; the last is translated, and the emulator has no barrier of the whole grid
REFUSED = 'complex64','complex128','cmath','fact(','this_grid()'
def refused(case): return any(o in case.source + json.dumps(case.args) for o in REFUSED)

@lru_cache
def all_cases():
    "Of all three; the same in every call and process, as running the tests of the simulator takes seconds"
    files = [*(TESTS.parent/'gridstride').rglob('*.py'), *NOTEBOOKS.glob('0[1-6]*.ipynb'), TESTS/'test_sim.py',
             TESTS/'sim_cases.py', *(TESTS/'ncu').glob('*.py'), *Path(__file__).parent.glob('*.py')]
    return kept('corpus', [(str(p), p.read_bytes()) for p in sorted(files)], _all_cases)

def _all_cases(): return [*lessons(), *as_cases('ncu', counted_kernels()), *as_cases('sim', simulator_tests())]
