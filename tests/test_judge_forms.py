"Forms in which people write honest submissions: each is accepted. What looks alike and is wrong is rejected."
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from exhaustive import some
from gridstride.cpp.toolchain import build as cpp_build
from gridstride.cpp.toolchain import cache, compilers
from gridstride.judge import processes, read_submission
from judging import ON_GPU, cpu_only, judge, where

pytestmark = where

# Each computes softmax of rows. What a file begins with is here what it says, not `import torch`.
RIGHT = dict(
    if_else='''import torch
if torch.cuda.is_available():
    def custom_kernel(data): return torch.softmax(data, -1)
else:
    def custom_kernel(data): return torch.softmax(data, dim=-1)
''',
    try_except='''import torch
try:
    import no_such_module
    def custom_kernel(data): return no_such_module.softmax(data)
except ImportError:
    def custom_kernel(data): return torch.softmax(data, -1)
''',
    with_block='''import torch, warnings
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    custom_kernel = lambda data: torch.softmax(data, -1)
''',
    annotated='''from functools import partial
from typing import Callable
import torch
custom_kernel: Callable = partial(torch.softmax, dim=-1)
''',
    unpacked='''import torch
name, custom_kernel = 'softmax', lambda data: torch.softmax(data, -1)
''',
    walrus='''import torch
print((custom_kernel := lambda data: torch.softmax(data, -1)))
''',
    loop='''import torch
for custom_kernel in (lambda data: data, lambda data: torch.softmax(data, -1)): pass
''',
    a_global='''import torch
def choose():
    global custom_kernel
    def custom_kernel(data): return torch.softmax(data, -1)
choose()
''',
    globals_dict='''import torch
def softmax(data): return torch.softmax(data, -1)
globals()['custom_kernel'] = softmax
''',
    alias='''import torch
def softmax(data): return torch.softmax(data, -1)
custom_kernel = softmax
''',
    imported_name='''from torch.nn.functional import normalize, softmax
def rows(data): return softmax(data, dim=-1)
custom_kernel = rows
''',
    callable_object='''import torch
class Softmax:
    def __init__(self, dim): self.dim = dim
    def __call__(self, data): return torch.softmax(data, self.dim)
custom_kernel = Softmax(-1)
''',
    method='''import torch
class Softmax:
    dim = -1
    def run(self, data): return torch.softmax(data, self.dim)
    @staticmethod
    def other(data): return data
custom_kernel = Softmax().run
''',
    module_object='''import torch
custom_kernel = torch.nn.Softmax(dim=-1)
''',
    scripted='''import torch
@torch.jit.script
def custom_kernel(data):
    return torch.softmax(data, -1)
''',
    traced='''import torch
custom_kernel = torch.jit.trace(lambda data: torch.softmax(data, -1), torch.ones(2, 3))
''',
    compiled='''import torch
@torch.compile(mode='max-autotune', fullgraph=True)
def custom_kernel(data): return torch.softmax(data, -1)
''',
    unpacking_decorator='''import functools, torch
def of_rows(f):
    @functools.wraps(f)
    def call(data): return f(data, data.shape[-1])
    return call
@of_rows
def custom_kernel(data, n): return torch.softmax(data, -1)
''',
    inference_mode='''import torch
@torch.inference_mode()
def custom_kernel(data): return torch.softmax(data, -1)
''',
    gradients='''import torch
scale = torch.nn.Parameter(torch.ones(1, device='cuda'))
def custom_kernel(data):
    with torch.enable_grad(): return torch.softmax(data*scale, -1)
''',
    autograd_function='''import torch
class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return torch.softmax(x, -1)
def custom_kernel(data): return Softmax.apply(data)
''',
    default_argument='''import torch
def custom_kernel(data, dim=-1, *, dtype=None): return torch.softmax(data, dim, dtype)
''',
    star_arguments='''import torch
def custom_kernel(*args, **kwargs): return torch.softmax(args[0], -1)
''',
    positional_only='''import torch
def custom_kernel(data, /): return torch.softmax(data, -1)
''',
    later_helper='''import torch
def custom_kernel(data): return helper(data)
def helper(data): return torch.softmax(data, DIM)
DIM = -1
''',
    import_inside='''def custom_kernel(data):
    import torch
    from torch.nn import functional as F
    return F.softmax(data, dim=-1)
''',
    defined_twice='''import torch
def custom_kernel(a, b): return a
def custom_kernel(data): return torch.softmax(data, -1)
''',
    dataclass='''from __future__ import annotations
from dataclasses import dataclass, field
import torch
@dataclass(frozen=True)
class Config:
    dim: int = -1
    names: list[str] = field(default_factory=list)
config = Config()
def custom_kernel(data: torch.Tensor | None) -> torch.Tensor: return torch.softmax(data, config.dim)
''',
    protocol='''from enum import Enum
from typing import NamedTuple, Protocol, TypeVar, overload, runtime_checkable
import torch
T = TypeVar('T', bound=torch.Tensor)
@runtime_checkable
class Kernel(Protocol):
    def __call__(self, data: T) -> T: ...
class Shape(NamedTuple):
    rows: int
    n: int
class Dim(Enum): LAST = -1
def kernel(data: T) -> T: return torch.softmax(data.view(Shape(*data.shape)), Dim.LAST.value)
assert isinstance(kernel, Kernel)
custom_kernel: Kernel = kernel
''',
    abstract_class='''from abc import ABC, abstractmethod
import torch
class Base(ABC):
    registry = {}
    def __init_subclass__(cls): Base.registry[cls.__name__] = cls
    @abstractmethod
    def run(self, x): ...
class Softmax(Base):
    def run(self, x): return torch.softmax(x, -1)
def custom_kernel(data): return Base.registry['Softmax']().run(data)
''',
    main_block='''import torch
def custom_kernel(data): return torch.softmax(data, -1)
if __name__ == '__main__':
    import no_such_module
    custom_kernel(torch.ones(2, 3, 4, device='cuda'))
''',
    buffers='''import torch
buffers = {}
def custom_kernel(data):
    out = buffers.setdefault(tuple(data.shape), torch.empty_like(data))
    return torch.softmax(data, -1, out=out) if False else out.copy_(torch.softmax(data, -1))
''',
    cached_plan='''from functools import cache, lru_cache, singledispatch
import torch
@lru_cache(maxsize=None)
def plan(rows, n): return torch.arange(n)
@singledispatch
def run(data): raise TypeError
@run.register
def _(data: torch.Tensor): return torch.softmax(data[:, plan(*data.shape)], -1)
def custom_kernel(data): return run(data)
''',
    context_manager='''from contextlib import ExitStack, contextmanager
import torch
@contextmanager
def scratch(shape):
    yield torch.empty(shape)
def custom_kernel(data):
    with scratch(data.shape) as out, ExitStack() as stack, torch.autocast('cpu', enabled=False):
        return out.copy_(torch.softmax(data, -1))
''',
    transposed='''import torch
def custom_kernel(data): return torch.softmax(data.T.contiguous(), 0).T
''',
    in_place='''import torch
def custom_kernel(data):
    x = data.clone()
    x -= x.amax(-1, keepdim=True)
    x.exp_()
    x /= x.sum(-1, keepdim=True)
    return x
''',
    list_of_one='''import torch
def custom_kernel(data): return [torch.softmax(data, -1)]
''',
    global_settings='''import logging, os, random, gc
import numpy as np
import torch
os.environ.setdefault('TORCH_CUDA_ARCH_LIST', '9.0')
logging.basicConfig(level=logging.INFO)
torch.manual_seed(0); random.seed(0); np.random.seed(0)
torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision('high')
torch.set_grad_enabled(False)
gc.disable()
def custom_kernel(data): return torch.softmax(data, -1)
''',
    worker='''import queue, threading, torch
asks, answers, begun = queue.Queue(), queue.Queue(), []
def serve():
    while True: answers.put(torch.softmax(asks.get(), -1))
def custom_kernel(data):
    if not begun:
        begun.append(threading.Thread(target=serve, daemon=True)); begun[0].start()
    asks.put(data)
    return answers.get()
''',
    simple_queue_worker='''import queue, threading, torch
asks, answers, begun = queue.SimpleQueue(), queue.SimpleQueue(), []
def serve():
    while True:
        x = asks.get()
        answers.put(torch.softmax(x, -1))
def custom_kernel(data):
    if not begun: begun.append(threading.Thread(target=serve, daemon=True)); begun[0].start()
    asks.put(data)
    return answers.get()
''',
    event_worker='''import threading, torch
ask, done, box, begun = threading.Event(), threading.Event(), {}, []
def serve():
    while True:
        ask.wait(); ask.clear()
        box['out'] = torch.softmax(box['in'], -1)
        done.set()
def custom_kernel(data):
    if not begun: begun.append(threading.Thread(target=serve, daemon=True)); begun[0].start()
    box['in'] = data
    ask.set(); done.wait(); done.clear()
    return box['out']
''',
    threads_joined='''import threading, torch
def custom_kernel(data):
    out, half = torch.empty_like(data), len(data)//2
    def part(o): out[o] = torch.softmax(data[o], -1)
    threads = [threading.Thread(target=part, args=(o,)) for o in (slice(0, half), slice(half, None))]
    for t in threads: t.start()
    for t in threads: t.join()
    return out
''',
    pool_first_call='''from concurrent.futures import ThreadPoolExecutor
import torch
pool = None
def custom_kernel(data):
    global pool
    pool = pool or ThreadPoolExecutor(2)
    return torch.cat(list(pool.map(lambda x: torch.softmax(x, -1), data.split(3))))
''',
    streams='''import torch
a, done = torch.cuda.Stream(), torch.cuda.Event()
def custom_kernel(data):
    a.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(a):
        out = torch.softmax(data, -1)
        done.record(a)
    torch.cuda.current_stream().wait_event(done)
    return out
''',
    docstring_kernel='''"""Plain torch. On a GPU one would write

    __global__ void softmax_kernel(const float *x, float *out, int n) { ... }
"""
import torch
def custom_kernel(data):
    "As __global__ void f(float *x)"
    return torch.softmax(data, -1)
"""
__global__ void older(float *x) {}
"""
''',
    commented_kernel='''import torch
NOTES = """
// __global__ void softmax_kernel(float *x) {}
/* __global__ void other(float *x) {}
*/"""
def custom_kernel(data): return torch.softmax(data, -1)
''',
    numba_on_the_cpu='''import numba, torch
from numba import jit, njit
@jit(nopython=True)
def size(n): return n
@njit
def other(n): return n
def custom_kernel(data): return torch.softmax(data, size(data.dim()) - 1)
''',
    triton_by_another_name='''import torch
import triton as tr, triton.language as t
from triton import jit, cdiv
@jit
def total(x): return t.sum(x, 0)
@tr.jit
def rows(x, out, n, B: t.constexpr):
    i = t.arange(0, B)
    e = t.exp(t.load(x + t.program_id(0)*n + i, mask=i < n, other=-float('inf')))
    t.store(out + t.program_id(0)*n + i, e/total(e), mask=i < n)
def custom_kernel(data):
    out = torch.empty_like(data)
    rows[(len(data),)](data, out, data.shape[1], B=tr.next_power_of_2(data.shape[1]))
    return out
''',
    windows='\ufeffimport torch\r\ndef weicher_größter(x): return torch.softmax(x, -1)\r\n'
            'def custom_kernel(data): print("größter"); return weicher_größter(data)\r\n',
    model='''import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x): return x
class ModelNew(Model):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
        self.register_buffer('one', torch.ones(1))
    def forward(self, x): return self.softmax(x)*self.one
def get_inputs(): return [torch.randn(2, 3)]
def get_init_inputs(): return []
''',
    coding_line='# -*- coding: utf-8 -*-\nimport torch\ndef custom_kernel(data): return torch.softmax(data, -1)\n',
)


@pytest.mark.parametrize('name', some(sorted(RIGHT), 2))
def test_an_honest_form_is_accepted(name):
    v = judge(RIGHT[name], 'softmax')
    assert v and v.code == 'accepted', str(v)
    assert bool(v.launch_counts) == (ON_GPU or 'triton' in name)  # a GPU runs kernels of torch, too


def test_files_as_editors_write_them(tmp_path):
    "A byte order mark, other line ends, and the encodings that a first line names"
    text = '#!POPCORN leaderboard softmax\nimport torch\n# größter\ndef custom_kernel(data): return data.softmax(-1)\n'
    for how, raw in dict(bom=b'\xef\xbb\xbf' + text.encode(), crlf=text.replace('\n', '\r\n').encode(),
                         latin=b'# coding: latin-1\n' + text.encode('latin-1')).items():
        (tmp_path/how).write_bytes(raw)
        s = read_submission(tmp_path/how)
        assert s.form == 'custom_kernel' and s.leaderboard == 'softmax' and '# größter\n' in s.text
        assert judge(tmp_path/how), how


@pytest.mark.parametrize('text,code,said', [
    ('def other(data): return data\nif False:\n    custom_kernel = other\n', 'raised', 'not define custom_kernel'),
    ('custom_kernel: object\nx = 1\n', 'form', 'defines x'),
    ('def f():\n    def custom_kernel(data): return data\n', 'form', 'defines f'),
    ('class A:\n    def custom_kernel(data): return data\n', 'form', 'defines A'),
    ('if 1:\n    def custom_kernel(a, b): pass\nelse:\n    def custom_kernel(a, b): pass\n', 'form', 'takes a, b'),
    ('x = 1\nif __name__ == "__main__":\n    custom_kernel = print\n', 'form', 'defines x'),
    ('x = ' + '-'*100000 + '1\n', 'form', 'submission.py'),
    ('import threading, time, torch\ndef nap():\n    time.sleep(1)\ndef custom_kernel(data):\n'
     '    threading.Thread(target=nap).start()\n    return torch.softmax(data, -1)\n', 'late', 'line 3'),
    ('import threading, torch\ndef spin():\n    while True: pass\ndef custom_kernel(data):\n    '
     'threading.Thread(target=spin, daemon=True).start()\n    return torch.softmax(data, -1)\n', 'late', 'line 3'),
    ('import threading, torch\ngo = threading.Event()\ndef custom_kernel(data):\n    out = torch.empty_like(data)\n'
     '    def work():\n        go.wait(.005)\n        out.copy_(torch.softmax(data, -1))\n'
     '    threading.Thread(target=work).start()\n    return out\n', 'late', 'shortly after'),
])
def test_what_looks_like_a_form_and_is_none(text, code, said):
    v = judge(text, 'softmax')
    assert v.code == code and said in v.reason, str(v)


def test_kernels_are_those_of_the_program():
    "Not those in docstrings and comments, nor other functions named jit; whatever Triton and Numba are imported as"
    for text, names in (
            ('from numba import cuda as c\n@c.jit("void(f4)")\ndef a(x): pass', ('a',)),
            ('import numba as nb\n@nb.cuda.jit\ndef a(x): pass\n@nb.jit\ndef b(x): pass', ('a',)),
            ('import triton\n@triton.autotune([], [])\n@triton.jit\ndef a(x): pass', ('a',)),
            ('s = r"""/* __global__ void a() */ extern "C" __global__ void b() {}"""', ('b',)),
            ('s = f"""__global__ void {name}() {{}} __global__ void __launch_bounds__(8) b() {{}}"""', ('b',)),
            ('s = "__global__ void name##_kernel() {}"', ()),
            ('def f():\n    """__global__ void a() {}"""\n    return "__global__ void b() {}"', ('b',))):
        assert read_submission(text + '\ncustom_kernel = print\n').kernels == names, text


# Several at once, and compilers
SOFTMAX = 'import torch\ndef custom_kernel(data): return torch.softmax(data, -1)\n'


@pytest.mark.slow
def test_several_threads_judge_at_once(monkeypatch):
    "They share the one process that starts submissions; one that is attacked is replaced, and ends with its last user"
    begun = []

    class Server(processes._Server):
        def __init__(self, device):
            begun.append(self)
            super().__init__(device)

    monkeypatch.setattr(processes, '_servers', {})
    monkeypatch.setattr(processes, '_Server', Server)
    monkeypatch.setattr(processes, '_GRACE_SECONDS', .5)
    slow = SOFTMAX.replace(': return', ':\n    time.sleep(.15)\n    return').replace('torch\n', 'torch, time\n', 1)
    attack = 'import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\n' + SOFTMAX
    with ThreadPoolExecutor(5) as pool:
        right = [pool.submit(judge, o, 'softmax') for o in (slow, SOFTMAX, slow, SOFTMAX)]
        wrong = pool.submit(judge, attack, 'softmax')
        assert all(o.result() for o in right), [str(o.result()) for o in right]
        wrong.result()
    assert len(begun) <= 2
    processes.stop()
    assert all(o.process.poll() is not None for o in begun)


def test_a_process_that_is_forked_has_no_server():
    "It would speak into the socket of the process that it was forked from"
    assert judge(SOFTMAX, 'softmax') and processes._servers
    pid = os.fork()
    if not pid: os._exit(len(processes._servers) + processes._lock._is_owned())
    assert os.waitpid(pid, 0)[1] == 0 and judge(SOFTMAX, 'softmax')


@cpu_only
def test_what_all_submissions_need_is_compiled_before_the_clock_runs(monkeypatch):
    "Here, not in its process; and its own CUDA C has the time that a compiler takes"
    prepared = []
    monkeypatch.setattr(cpp_build, 'prepare', lambda: (time.sleep(.6), prepared.append(os.getpid())))
    slow = '# by torch.utils.cpp_extension.load_inline\nimport time\ntime.sleep(.6)\n' + SOFTMAX
    assert (v := judge(slow, 'softmax', timeout=.5)), str(v)
    assert prepared == [os.getpid()]
    v = judge(slow.replace('load_inline', ''), 'softmax', timeout=.5)  # cpp_extension alone reports it, too
    assert v and len(prepared) == 2, str(v)
    v = judge(slow.replace('load_inline', '').replace('cpp_extension', ''), 'softmax', timeout=.5)
    assert v.code == 'time' and len(prepared) == 2, str(v)


def test_a_machine_without_a_compiler_judges(monkeypatch):
    def missing(): raise compilers.CompilerMissing('no compiler')
    monkeypatch.setattr(cpp_build, 'prepare', missing)
    assert judge('# not __global__\n' + SOFTMAX, 'softmax')


@pytest.mark.slow
def test_a_cache_that_is_a_file_stops_no_judge(monkeypatch, tmp_path, capfd):
    "Its substitute is used, which one line reports"
    (tmp_path/'file').write_text('')
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'file'))
    monkeypatch.setattr(cache.tempfile, 'tempdir', str(tmp_path))
    monkeypatch.setattr(processes, '_servers', {})
    monkeypatch.delenv('GRIDSTRIDE_QUIET')
    cache._reported_problems.cache_clear()
    assert judge(SOFTMAX, 'softmax')
    processes.stop()
    cache._reported_problems.cache_clear()
    said = capfd.readouterr().err
    assert said.count('\n') == 1 and 'GRIDSTRIDE_CACHE' in said
