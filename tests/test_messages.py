"The kernels on the pages of messages: each wrong one gives the finding of its page, each right one none."
import json, linecache, os, re, sys, warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from exhaustive import some
import torch
import gridstride
from gridstride.cpp import kernel, load
from gridstride.cpp.frontend import reader
from gridstride.kernels.ptx import PTX, TCGEN05, wgmma
from gridstride.diagnostics.errors import WARNINGS, KernelError
from gridstride.diagnostics.messages import MESSAGES

sys.path.insert(0, str(Path(__file__).parents[1]/'site'))
import findings_pages
from warm import run_python

PAGES = findings_pages.examples()
BLOCKS = [(*key, side, code) for key, (_, *sides) in PAGES.items() for side, code in zip(('wrong', 'right'), sides)]
# the wrong kernels of all pages, and each third of the right ones
CASES = [o for o in BLOCKS if o[2] == 'wrong'] + some([o for o in BLOCKS if o[2] == 'right'], 3)
SOURCE = re.compile(r"cuda_kernel\((?:PTX \+ )?(?:(?:wgmma\(8\)|TCGEN05) \+ )?r'''(.*?)'''(, checks=False)?", re.S)
HOST = re.compile(r"load_cuda\(r'''(.*?)'''\)", re.S)
NAME = re.compile(r'__global__ void (?:__(?:cluster_dims|launch_bounds)__\([^)]*\) )?(\w+)')
INCLUDE = re.compile(r'^#include .*\n', re.M)


@pytest.fixture(scope='module')
def compiled():
    "cuda_kernel for the kernels of all pages: they are compiled as one unit, each in a namespace of its own"
    found = dict.fromkeys((src, not off) for *_, code in BLOCKS for src, off in SOURCE.findall(code))
    names = {key: f'page_{i}::{NAME.search(key[0])[1]}' for i, key in enumerate(found)}
    made = {checks: unit({src: name for (src, c), name in names.items() if c == checks}, checks)
            for checks in (True, False)}
    def get(src, checks=True): return made[checks][src.removeprefix(PTX).removeprefix(wgmma(8)).removeprefix(TCGEN05)]
    return get


def unit(names, checks):
    "{source: kernel} of sources whose kernels get these names"
    spaces = [f'namespace {name.split(":")[0]} {{\n{INCLUDE.sub("", src)}\n}}\n' for src, name in names.items()]
    includes = dict.fromkeys(o for src in names for o in INCLUDE.findall(src))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # g++ notices the missing `return`, too
        text = ''.join([*includes, PTX, wgmma(8), TCGEN05, *spaces])
        made = kernel.cuda_kernel(text, list(names.values()), checks=checks)
    return {src: made[name] for src, name in names.items()}


@pytest.fixture(scope='module')
def loaded():
    "load_cuda for the sources of all pages: one unit, a namespace for each, and a number after a function's name"
    found, functions = list(dict.fromkeys(src for *_, code in BLOCKS for src in HOST.findall(code))), {}
    includes = dict.fromkeys(o for src in found for o in INCLUDE.findall(src))
    spaces = []
    for i, src in enumerate(found):
        (functions[src],) = (f.name for f in reader.host_functions(src))
        text = re.sub(rf'\b{functions[src]}\(', rf'{functions[src]}_{i}(', INCLUDE.sub('', src))
        spaces.append(f'namespace page_{i} {{\n{text}\n}}\n')
    module = load.load_cuda(''.join([*includes, *spaces]), name='pages')
    named = {src: {f: getattr(module, f'{f}_{i}')} for i, (src, f) in enumerate(functions.items())}
    return lambda src: SimpleNamespace(**named[src])


def run(code, name):
    "Run a block as a notebook's cell is run: its source can be read"
    linecache.cache[name] = len(code), None, code.splitlines(True), name
    np.random.seed(0)
    torch.manual_seed(0)
    exec(compile(code, name, 'exec'), {'__name__': name})


def finding(code, name):
    "(kind, code or class of warning, the first line of the message) of what is found; three times None"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        try: run(code, name)
        except KernelError as e: return e.kind, e.code, first_line(e)
    caught = [w.message for w in caught if hasattr(w.message, 'kind')]
    return (caught[0].kind, type(caught[0]), first_line(caught[0])) if caught else (None, None, None)


def first_line(e):
    "Of a message, without its kind and line, the namespace of these tests, and what differs from run to run"
    line = re.sub(r'^line \d+(?: of \w+)?: ', '', str(e).splitlines()[0].removeprefix(f'{e.kind}: '))
    line = re.sub(r'\d+ of them in use', '0 of them in use', re.sub(r'page_\d+::', '', line))
    line = re.sub(r'\bprocess \d+', 'process 4711', line)
    return re.sub(r'0x[0-9a-f]{6,}', '0x7f...', line)


@pytest.mark.slow
@pytest.mark.parametrize('kind,code,side,block', CASES, ids=lambda o: o if len(o) < 30 else '')
def test_kernels_of_the_pages(kind, code, side, block, compiled, loaded, monkeypatch):
    monkeypatch.setattr(kernel, 'cuda_kernel', compiled)
    monkeypatch.setattr(load, 'load_cuda', loaded)
    monkeypatch.setattr(gridstride, 'cuda_kernel', compiled)  # names that were used are stored there
    monkeypatch.setattr(gridstride, 'load_cuda', loaded)
    want = (kind, WARNINGS[code][1] if code in WARNINGS else code) if side == 'wrong' else (None, None)
    *found, line = finding(block, f'<{kind} {code} {side}>')
    assert tuple(found) == want
    if side == 'right': return
    if os.environ.get('GRIDSTRIDE_PRINTED'): write_printed(f'{kind}-{code}', line)
    else: assert findings_pages.PRINTED.get(f'{kind}-{code}') == line, WRITE


WRITE = 'run GRIDSTRIDE_PRINTED=1 pytest tests/test_messages.py'


def write_printed(name, line):
    "Store what the wrong kernel of a page prints, for its page and the index"
    path = findings_pages.PRINTED_FILE
    kept = json.loads(path.read_text(encoding='utf-8')) if path.exists() else {}
    text = json.dumps({**kept, name: line}, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + '\n', encoding='utf-8')


LIMITED = """
import resource, sys
import numpy as np
from gridstride import cuda_kernel

def allow(more):
    used = int(open('/proc/self/statm').read().split()[0])*resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))

k = cuda_kernel(r'''
__global__ void turn(float *x) {
    float mine = x[threadIdx.x];
    __syncthreads_count(1);
    x[blockDim.x-1 - threadIdx.x] = mine;
}''', checks=sys.argv[1] == 'no_addresses')
if sys.argv[1] == 'no_stack': k[1, 32](np.ones(32, np.float32))
allow(4 << 30 if sys.argv[1] == 'no_addresses' else 16 << 20)
try: k[1, 1024](np.ones(1024, np.float32))
except Exception as e: print(e.kind, e.code)
"""


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='limits of processes are those of Linux')
@pytest.mark.parametrize('code', ['no_addresses', 'no_stack'])
def test_findings_of_a_limited_process(code, tmp_path):
    (tmp_path/'limited.py').write_text(LIMITED)
    said = run_python(tmp_path/'limited.py', code)
    assert said.stdout == f'crash {code}\n', said.stderr


def test_a_page_has_kernels_or_says_why_not():
    without = {key for codes in findings_pages.REASON_WITHOUT_KERNELS.values() for key in codes}
    assert not set(MESSAGES) - set(PAGES) - without, 'write a wrong and a right kernel into site/messages'
    assert not (set(PAGES) | without) - set(MESSAGES) and not set(PAGES) & without


def test_pages_do_not_quote_what_is_all_names():
    pages = findings_pages.pages()
    assert '> {' not in pages['messages/launch-sizes.md'].split('##')[0]
    assert re.search(r'^\|.*`cdiv`.*\|$', pages['messages/index.md'], re.M)
    assert '> {kernel} ' in pages['messages/launch-no_brackets.md'].replace('\\_', '_')


def test_the_page_of_a_finding_shows_what_its_test_runs():
    text = findings_pages.pages()['messages/racecheck-race.md']
    assert all(code in text for code in PAGES['racecheck', 'race'][1:]) and '## Wrong' in text and '## Right' in text
