"""The lessons that run in a browser with nothing installed: the replacements for torch and threads, the simulator where
integers have 32 bits, what is downloaded, and a lesson in Chromium, or each of them."""
import ast, fcntl, importlib.util, json, os, re, shutil, subprocess, sys, threading, time, zipfile
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from browsers import chromium, needs_chromium
from gridstride.course import lessons
from gridstride.course.curriculum import lesson_of_file
from found import names
from gridstride.course.publishing import is_setup
from gridstride.support.array_memory import owner

ROOT = Path(__file__).resolve().parents[1]
LITE = ROOT/'site/lite'
SETTINGS = json.loads((LITE/'lite.json').read_text(encoding='utf-8'))


def load(name, path):
    "A module of `site/lite`, under a name that nothing else has"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fetch = load('lite_fetch', LITE/'fetch.py')
notebooks = load('lite_notebooks', LITE/'notebooks.py')
COMPILER = SETTINGS['compiler_megabytes']


def load_package(name, path):
    "A package of `site/lite`, whose modules import each other"
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


standin = load_package('torch_in_the_browser', LITE/'browser/torch/__init__.py')


# The stand-in for torch

def sources():
    "The Python code that runs in the browser: of lessons, their solutions and their exercises"
    for n in SETTINGS['lessons']:
        nb = notebooks.page(lessons.read(ROOT/'nbs'/f'{n}.ipynb'), SETTINGS['lessons'], n, COMPILER)
        code = [notebooks.source(c) for c in nb['cells'] if c['cell_type'] == 'code']
        yield from (s for s in code if not s.startswith('%%'))
        chapter = lesson_of_file(f'{n}.ipynb').chapter
        if not any('@exercise(' in s for s in code): continue  # they are shown only
        for c in nb['cells']:
            if 'Solution of' in (text := notebooks.source(c)): yield from re.findall(r'```python\n(.*?)```', text, re.S)
        yield (ROOT/f'gridstride/course/exercises/{chapter}.py').read_text(encoding='utf-8')


# of strings, math, NumPy, Matplotlib, Triton and ours
OTHERS = {'split', 'name', 'log', 'trace', 'cumsum', 'values', 'ceil', 'log2', 'det', 'histogram', 'index', '__name__',
          '__init__', 'scatter', 'sigmoid'}


# only a GPU runs the lines that use these, or cells that are shown with their outputs
ON_A_GPU = {'bfloat16', 'compile', 'profiler', '_dynamo', 'requires_grad_', '__cuda_array_interface__', 'optim',
            'addmm_'}


def test_torch_in_the_browser_has_what_the_lessons_use():
    nodes = [n for s in sources() for n in ast.walk(notebooks.parse(s)) if isinstance(n, ast.Attribute)]
    of = {m: {n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == m} for m in ('torch', 'np')}
    assert len(of['torch']) > 12 and not {f for f in of['torch'] if not hasattr(standin, f)} - ON_A_GPU
    methods = {n.attr for n in nodes} & set(dir(torch.Tensor)) - OTHERS - of['torch'] - of['np']
    assert len(methods) > 20 and not {m for m in methods if m not in dir(standin.Tensor)} - ON_A_GPU


def test_what_torch_in_the_browser_lacks_is_reported():
    for ask in (lambda: standin.einsum, lambda: standin.zeros(2).backward):
        with pytest.raises(AttributeError, match='01 to 20'): ask()


SAME = '''
tensor([1, 2]) | tensor([1., 2]) | tensor(3) | arange(6).reshape(2, 3) | arange(2, 9, 3) | full((5,), -1) | zeros(2, 3)
full((2,), nan) | arange(6)/4 | arange(6)*2 | arange(6)*.5 | 255 - arange(3) | (arange(6) == 3).sum() | arange(6) // 4
where(arange(4) > 1, 3, -1) | where(arange(4) > 1, 3., 0.) | isin(arange(6), tensor([1, 4]))
cat([zeros(2), full((2,), 1.)]) | tensor([[1, 2], [3, 4]]).max()
bincount(tensor([1, 1, 4]), minlength=6) | arange(6).reshape(2, 3).permute(1, 0).contiguous() | arange(6).view(-1, 2)
arange(3).expand(2, -1) | arange(3)[:,None]*4 + arange(4) | arange(-3, 3).abs().max() | full((2,), nan).nan_to_num(0)
arange(3.).double() | arange(6).eq(2).int() | arange(6.).reshape(2, 3) @ arange(3.)
arange(6).reshape(2, 3).T.flatten() | arange(-3., 3).abs()
tensor([.1, .2]).double()/3 - tensor([.1, .2]) | arange(6)[::2].clone() | allclose(arange(3.), arange(3.) + 1e-6)
rsqrt(tensor([4., 9])) | tanh(arange(3.)) | tensor([[0., 200]]).log_softmax(-1) | arange(3.)[1].isnan()
cat(tensor_split(arange(7), 3)[1:]) | isclose(arange(3.), tensor([0., 1, 3])) | arange(4).view(int32).view(2, 4)
equal(arange(3), arange(3)) | equal(arange(3), arange(1, 4)) | arange(12.).reshape(3, 4)[1:,::2].sum()
'''.replace('|', '\n')


@pytest.mark.parametrize('code', [l.strip() for l in SAME.splitlines() if l.strip()])
def test_torch_in_the_browser_gives_what_torch_gives(code):
    got, want = (eval(code, vars(o).copy()) for o in (standin, torch))
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)  # both round once to the same type


def test_memory_in_the_browser_begins_where_kernels_need_it():
    "At multiples of the 32 bytes of a sector, of results, too; a part of a tensor shares its memory"
    made = [standin.zeros(3), standin.randn(5), standin.arange(7) + 1, standin.cat([standin.ones(1)]*3).double()]
    assert not [x for x in made if x.data_ptr() % 32 or owner(x).ctypes.data != x.data_ptr()]
    x = standin.arange(12.).reshape(3, 4)
    x[1:].fill_(5)
    assert x.sum() == 6 + 8*5 and x[1].as_strided((2,), (2,), 1).tolist() == [1, 3]
    assert x[1].untyped_storage().nbytes() == 48


def test_random_tensors_of_torch_in_the_browser():
    standin.manual_seed(3)
    x = standin.randn(100, 50)
    standin.manual_seed(3)
    assert np.array_equal(x, standin.randn(100, 50)) and x.dtype == np.float32
    assert abs(x.mean()) < .07 and abs(x.std() - 1) < .05  # 5,000 values: five standard errors
    assert 0 <= (u := standin.rand(1000)).min() and u.max() < 1 and sorted(standin.randperm(9).tolist()) == [*range(9)]


def test_tensors_of_the_browser_are_memory_for_kernels():
    "By reference, and a part of one knows of the whole"
    from gridstride.sim import MemcheckError, cuda
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        out[i] = 2*x[i]
    x = standin.arange(24.).reshape(4, 6)
    out = standin.full((6,), standin.nan)
    k[1,6](x[2], out)
    assert (out == 2*x[2]).all()
    with pytest.raises(MemcheckError): k[1,7](x[2], out)


# Threads

def test_a_browser_that_suspends_no_stacks_says_what_threads_need(monkeypatch):
    "Free locks work there, too: lessons 01 to 03 use them"
    ffi = dict(can_run_sync=lambda: False, create_once_callable=None, create_proxy=lambda f: f, run_sync=None)
    for name, members in {'js': dict(Promise=None), 'pyodide': {}, 'pyodide.ffi': ffi,
                        'pyodide.code': dict(run_js=lambda code: None)}.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**members))
    threads = load('threads_in_the_browser', LITE/'browser/in_browser/threads.py')
    lock = threads.Lock()
    with lock: assert lock.locked() and not lock.acquire(blocking=False) and not lock.acquire(timeout=0)
    assert lock.acquire()
    for stops in (lambda: threads.start_thread(print, ()), lock.acquire):
        with pytest.raises(RuntimeError, match='JSPI.*Chrome.*Edge.*137'): stops()


# The simulator where NumPy's own integers have 32 bits

class Narrow:
    "NumPy, whose own integer has 32 bits: what a browser has. Functions that choose a type by themselves choose int32"
    def __getattr__(self, name): return getattr(np, name)

    def choose(name):
        def f(self, *args, **kw):
            res = getattr(np, name)(*args, **kw)
            typed = 'dtype' in kw or any(isinstance(a, (type, np.dtype)) or hasattr(a, 'dtype') for a in args)
            short = lambda a: a.astype(np.int32) if isinstance(a, np.ndarray) and a.dtype == np.int64 else a
            return res if typed else tuple(map(short, res)) if isinstance(res, tuple) else short(res)
        return f

    arange, full, array, asarray = choose('arange'), choose('full'), choose('array'), choose('asarray')

    def index(name): return lambda self, *args, **kw: getattr(np, name)(*args, **kw).astype(np.int32)
    flatnonzero, argsort, argmax, searchsorted = map(index, ('flatnonzero', 'argsort', 'argmax', 'searchsorted'))

    def bincount(self, x, minlength=0):
        if not np.can_cast(x.dtype, np.int32): raise TypeError(f'Cannot cast array data from {x.dtype} to int32')
        return np.bincount(x, minlength=minlength).astype(np.int32)


@pytest.fixture
def narrow(monkeypatch):
    from gridstride import sim
    sim.cuda  # all of it is imported
    for name, module in list(sys.modules.items()):
        if name.startswith('gridstride.sim.') or name == 'gridstride.support.memory_transactions':
            if getattr(module, 'np', None) is np: monkeypatch.setattr(module, 'np', Narrow())
    sys.modules['gridstride.sim.lanes']._lanes_of.cache_clear()
    yield
    sys.modules['gridstride.sim.lanes']._lanes_of.cache_clear()


def big(out, n):
    "A kernel whose values need more than 32 bits, with a barrier, shared memory and a branch"
    from gridstride.sim import cuda
    @cuda.jit
    def k(out, n):
        s = cuda.shared.array(64, np.int64)
        t,b,i = cuda.threadIdx.x,cuda.blockIdx.x,cuda.grid(1)
        s[t] = t*2**40 + b*2**33 + i*2**35
        cuda.syncthreads()
        if i < n: out[i] = s[63-t] + cuda.laneid
    return k


def test_the_simulator_computes_with_64_bits(narrow):
    from gridstride import sim
    out = np.full(200, -1, np.int64)
    with sim.trace() as t: big(out, 200)[4, 64](out, 200)
    i = np.arange(200, dtype=np.int64)
    j = 63 - i % 64
    assert (out == j*2**40 + i//64*2**33 + (i//64*64 + j)*2**35 + i % 32).all()
    # 7 warps of which the last has 8 lanes: 8 bytes per lane are 8 sectors for each of six, 2 for the last
    assert (t.stats.global_store_requests, t.stats.global_store_sectors) == (7, 50)
    assert (t.stats.shared_store_requests, t.stats.shared_store_wavefronts) == (8, 16)


def test_a_narrow_numpy_is_what_a_browser_has():
    "The test above could not fail if this were not so: the values of the old code do not fit there"
    with pytest.raises(OverflowError): Narrow().arange(8)*2**40
    with pytest.raises(TypeError): Narrow().bincount(np.arange(4, dtype=np.int64))


# What is downloaded

@pytest.fixture
def listed(tmp_path, monkeypatch):
    "Two files on the list and an empty cache; `offer(files)` is what the carrier then holds"
    right = {'a.whl': b'first', 'b.wasm': b'second'}
    monkeypatch.setattr(fetch, 'hashes', lambda: {f: fetch.digest(d) for f, d in right.items()})
    monkeypatch.setattr(fetch, 'cache_folder', lambda: tmp_path/'cache')
    def offer(files):
        def download(folder):
            with zipfile.ZipFile(Path(folder)/'carrier-1-py3-none-any.whl', 'w') as z:
                for f, d in files.items(): z.writestr(f'carrier/assets/{f}', d)
        monkeypatch.setattr(fetch, 'download', download)
    return right, offer


def test_only_what_is_on_the_list_is_kept(listed):
    right, offer = listed
    offer({**right, 'more.py': b'whatever', 'x/b.wasm': b'other bytes'})
    folder = fetch.fetch()
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == right
    (folder/'a.whl').write_bytes(b'damaged')
    assert {p.name: p.read_bytes() for p in fetch.fetch().iterdir()} == right
    offer({})
    fetch.fetch()  # nothing is missing, so nothing is downloaded


def test_a_file_with_another_sum_is_refused(listed):
    right, offer = listed
    offer({**right, 'b.wasm': b'tampered'})
    with pytest.raises(fetch.Unavailable, match='b.wasm with the SHA-256 of pyodide.json'): fetch.fetch()
    assert [p.name for p in fetch.cache_folder().iterdir()] == ['a.whl']


@pytest.mark.parametrize('said, why', [('ERROR: No matching distribution found for x', fetch.Unavailable),
    ('WARNING: Retrying after NewConnectionError\nERROR: No matching distribution found for x', fetch.Unreachable)])
def test_the_reason_of_a_failed_download_is_reported(said, why, tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, '', said)
    monkeypatch.setattr(fetch.subprocess, 'run', lambda *a, **kw: failed)
    with pytest.raises(fetch.Unavailable, match='error: ERROR: No matching') as e: fetch.download(tmp_path)
    assert e.type is why


def test_the_list_is_whole():
    "Each package's needs are on it, and each file has a sum"
    packages = fetch.MANIFEST['packages']
    assert not {d for p in packages.values() for d in p['depends']} - packages.keys()
    assert all(re.fullmatch('[0-9a-f]{64}', s) for s in fetch.hashes().values()) and len(fetch.hashes()) > 25


@pytest.mark.parametrize('keeps_sources, b', [
    (False, {'a/b.pyc': b'code'}), (True, {'a/b.py': b'b', 'a/__pycache__/b.cpython-312.pyc': b'code'})])
def test_wheels_get_lighter(keeps_sources, b, tmp_path):
    "Unread files are left out, bytecode replaces its source or is added to it, and all else is unchanged"
    files = {'a/b.py': b'b', 'a/c.py': b'c', 'a/tests/d.py': b'd', 'a/e.pyi': b'e', 'tests/f.py': b'f'}
    with zipfile.ZipFile(tmp_path/'x.whl', 'w') as z:
        for f, d in files.items(): z.writestr(f, d)
    made = {f'{lighter.PACKAGES}a/b.py': b'code', '/lib/a/c.py': b'other'}
    lighter.rewrite(tmp_path/'x.whl', lighter.PACKAGES, made, keeps_sources)
    with zipfile.ZipFile(tmp_path/'x.whl') as z: got = {n: z.read(n) for n in z.namelist()}
    assert got == {**b, 'a/c.py': b'c'}


@pytest.mark.parametrize('node, why', [(None, 'no Node.js'), (shutil.which('false'), 'Pyodide fails')])
def test_without_bytecode_sources_stay(node, why, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fetch, 'cache_folder', lambda: tmp_path)
    monkeypatch.setattr(lighter.shutil, 'which', lambda name: node)
    (tmp_path/'pyodide').mkdir()
    assert lighter.bytecode(tmp_path/'pyodide') == {} and why in capsys.readouterr().err
    assert not [*tmp_path.glob('*.zip')]


# The notebooks

def test_what_needs_a_compiler_is_shown_with_its_outputs():
    names = SETTINGS['without_compiler']
    read = {n: lessons.read(ROOT/'nbs'/f'{n}.ipynb') for n in names}
    nbs = {n: (nb, notebooks.page(nb, names, n)) for n, nb in read.items()}
    note = notebooks.NEEDS_COMPILER_NOTE
    shown = {n: [c for c in page['cells'] if note in notebooks.source(c)] for n, (_, page) in nbs.items()}
    assert [len(shown[n]) for n in names] == [3, 2, 0, 0]
    assert '__global__ void grey' in notebooks.source(shown[names[0]][0])
    assert '307,200 values agree' in notebooks.source(shown[names[0]][1])
    for n, (nb, page) in nbs.items():
        assert len(page['cells']) == len(nb['cells']), 'one more explains the browser; none installs the package'
        assert not any(map(is_setup, page['cells'])) and 'colab.' not in notebooks.source(page['cells'][0])
        code = [c for c in page['cells'] if c['cell_type'] == 'code']
        assert code and not any(c['outputs'] for c in code)
        assert not any('cuda_kernel(' in (text := notebooks.source(c)) or text.startswith('#|') for c in code)
        linked = {l for c in page['cells'] for l in re.findall(r'\]\((\w+)\.ipynb', notebooks.source(c))}
        assert linked <= set(names)


def test_cells_that_do_not_run_in_a_browser_are_shown_with_their_outputs():
    "As recorded.json lists them, with the reason; all others run"
    for n, recorded in notebooks.RECORDED.items():
        nb = lessons.read(ROOT/'nbs'/f'{n}.ipynb')
        cells = {c['id']: c for c in nb['cells']}
        assert recorded.keys() <= cells.keys(), 'run `node site/lite/run_lessons.mjs` again'
        page = {c['id']: c for c in notebooks.page(nb, SETTINGS['lessons'], n, COMPILER)['cells']}
        for id_, why in recorded.items():
            text, outputs = notebooks.source(page[id_]), cells[id_]['outputs']
            assert why in text and notebooks.source(cells[id_]) in text and notebooks.printed_text(outputs) in text
            pictures = page[id_].get('attachments', {})
            assert len(pictures) == len(notebooks.pictures(outputs)) == text.count('attachment:')
        left = len([c for c in page.values() if c['cell_type'] == 'code'])
        assert left and f'{left} of its {left + len(recorded)} cells' in notebooks.source(page['in-the-browser']), n


# In the browser

RAN = """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].filter(
    p => /\\[\\d+\\]/.test(p.textContent)).length"""
SAID = '[data-mime-type="application/vnd.jupyter.stderr"]'  # errors, too
# Cells are queued, and those after an error are dropped.
ENDED = f"""() => ({RAN})() && ![...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(
    p => p.textContent.includes('[*]'))"""


class Site(SimpleHTTPRequestHandler):
    "Serves a folder, and counts the bytes of each requested file"
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, '.wasm': 'application/wasm'}
    def log_message(self, *args): pass

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if path.is_file(): self.server.sizes[path.name] = path.stat().st_size
        if path.name == 'service-worker.js': time.sleep(3)  # a kernel must not begin without it: it would see no files
        with suppress(ConnectionError): super().do_GET()  # a page that was closed asks for no more


@contextmanager
def served(folder):
    "A server of `folder` on this machine; `.url` and `.sizes`, what was asked for"
    with ThreadingHTTPServer(('127.0.0.1', 0), partial(Site, directory=str(folder))) as server:
        server.sizes, server.url = {}, f'http://127.0.0.1:{server.server_port}'
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try: yield server
        finally:
            server.shutdown()
            thread.join(10)


build = load('lite_build', LITE/'build.py')
lighter = build.lighter


@pytest.fixture(scope='session')
def lite(pytestconfig, tmp_path_factory):
    """The folder of the lessons for the browser, built once, and where nothing has changed never; tests are skipped
    where nothing can be downloaded, and only there. Only with `--all` are sources replaced by bytecode: to compile it
    takes longer than it saves in one lesson."""
    known, with_bytecode = getattr(pytestconfig, 'cache', None), pytestconfig.option.all_tests
    name = f'lite{"" if with_bytecode else "_of_sources"}{"_with_compiler" if build.compiler.is_ready() else ""}'
    folder = Path(known.mkdir(name)) if known else tmp_path_factory.mktemp(name)
    with open(folder/'lock', 'w') as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not with_bytecode: patch.setattr(build.lighter, 'bytecode', lambda folder: {})
        # a test downloads no compiler: where it was never fetched, CUDA C is shown with its outputs
        if not build.compiler.is_ready(): patch.setattr(build, 'write_compiler', lambda folder: False)
        if not build.editor.is_ready(): patch.setattr(build.editor, 'write', lambda folder: {})
        try: build.build(folder/'_build')
        except build.fetch.Unreachable as e: pytest.skip(f'there is no network, and Pyodide is not in the cache: {e}')
    return folder/'_build'


def test_an_unknown_start_of_kernels_fails_the_build(tmp_path):
    "Another version may start them elsewhere, where they would run without their files"
    folder = tmp_path/'extensions'/build.PLUGIN/'static'
    folder.mkdir(parents=True)
    (folder/'154.js').write_text('create:async e=>new Kernel({...e,mountDrive:i.enabled})')
    with pytest.raises(SystemExit, match='0 times.*KERNEL_START'):
        build.wait_for_files(tmp_path)


def test_the_logo_of_the_interface_leads_to_the_site(tmp_path):
    "It opens `tree` of the folder of the lessons, `lite`, which is a folder of the site"
    (tmp_path/'lite').mkdir()
    build.write_home_redirect(tmp_path/'lite')
    targets = re.findall(r'(?:url=|href=")([^"]*)"', (tmp_path/'lite/tree/index.html').read_text())
    assert [(tmp_path/'lite/tree'/o).resolve() for o in targets] == [tmp_path.resolve()]*2


STILL = '.jp-KernelStatus-spinner { animation: none !important }'  # it is drawn 60 times a second while cells run


def open_page(context, url, name):
    "A notebook in a page of its own, with its cells there and nothing run"
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.asked = []
    page.on('request', lambda r: page.asked.append(r.url))
    page.goto(f"{url}/{SETTINGS['page'].format(name=name).removeprefix('lite/')}")
    page.wait_for_selector('.jp-CodeCell')
    page.add_style_tag(content=STILL)
    return page


RARELY = 250  # milliseconds; by default Playwright polls at each frame, and the browser draws one for each
BEGUN = """() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(
    p => /\\[[*\\d]+\\]/.test(p.textContent))"""
CONNECTED = "() => /Python/.test(document.querySelector('.jp-KernelName, .jp-Toolbar-kernelName')?.textContent)"


def begin_all(page):
    "Run all cells. Before the notebook has its kernel the command is lost, so repeat it if no cell waits or has run"
    from playwright.sync_api import TimeoutError
    page.wait_for_function(CONNECTED, polling=RARELY)
    for _ in range(20):
        page.click('.lm-MenuBar-itemLabel:text-is("Run")')
        page.click('.lm-Menu-itemLabel:text-is("Run All Cells")')
        try: return page.wait_for_function(BEGUN, timeout=6_000, polling=RARELY)
        except TimeoutError: continue
    raise AssertionError('Run All Cells does nothing')


def run_all(page, cells, seconds=400):  # on a machine that is busy with other tests, too
    "Run all cells; what stopped that before the last one"
    begin_all(page)
    page.wait_for_function(ENDED, timeout=1000*seconds, polling=RARELY)
    return [] if page.evaluate(RAN) == cells else page.locator(SAID).all_inner_texts() or ['nothing is said']


def type_into(page, old, new):
    "Replace the cell that begins with `old` by `new`, and run it; what it prints"
    cells = page.locator('.jp-CodeCell')
    cell = cells.nth(next(i for i, text in enumerate(cells.all_inner_texts()) if old in text))
    cell.locator('.cm-content').click()
    page.keyboard.press('Control+A')
    page.keyboard.insert_text(new)
    page.keyboard.press('Shift+Enter')
    cell.locator('.jp-OutputArea-output', has_text=': right').wait_for()
    cell.locator('.jp-InputPrompt', has_text=re.compile(r'\[\d+\]')).first.wait_for()  # it is remembered
    return cell.locator('.jp-OutputArea').inner_text()


def solution(nb, name):
    "The folded solution of an exercise"
    text = next(s for c in nb['cells'] if f'Solution of {name}' in (s := notebooks.source(c)))
    return re.search(r'```python\n(.*?)\n```', text, re.S)[1]


def try_lesson(context, url, name):
    """Run a lesson to its end in the browser, solve its first exercise by typing, and draw a picture in its last cell;
    returns the exercise"""
    compiler_megabytes = COMPILER if build.compiler.is_ready() else None
    nb = notebooks.page(lessons.read(ROOT/'nbs'/f'{name}.ipynb'), SETTINGS['lessons'], name, compiler_megabytes)
    page, code = open_page(context, url, name), [c for c in nb['cells'] if c['cell_type'] == 'code']
    folded = [c for c in code if c['metadata'].get('jupyter', {}).get('source_hidden')]  # without a prompt that counts
    assert run_all(page, len(code) - len(folded)) == [], name
    exercise = lessons.exercises(nb)[0]
    assert f'{exercise}: right' in type_into(page, f"@exercise('{exercise}')", solution(nb, exercise))
    assert exercise in try_picture(page, notebooks.source(code[-1]).splitlines()[0])
    assert not [u for u in page.asked if not u.startswith((url, 'data:', 'blob:'))], 'something left this machine'
    page.close()
    return exercise


def to_try():
    """The names of lessons: 04, where threads start, the simulator finds what is wrong, and drawings move; or each
    where GRIDSTRIDE_PAGES requests it"""
    known = SETTINGS['lessons' if build.compiler.is_ready() else 'without_compiler']
    return known if os.environ.get('GRIDSTRIDE_PAGES') == 'every' else known[3:4]


def first_picture():
    "The cells of lesson 01 down to its first picture: what matplotlib reads and shows, which 04 does not"
    code = lessons.code(lessons.read(ROOT/'nbs'/f"{SETTINGS['lessons'][0]}.ipynb"))
    shows = next(i for i, c in enumerate(code) if 'show_img(' in c)
    return '\n'.join(code[:shows+1])


# Two threads wake each other without end, and the one that waits for nothing continues when its time is up.
IN_TIME = """
import threading
here, there, over = threading.Semaphore(1), threading.Semaphore(0), threading.Event()
def play(mine, other):
    while not over.is_set():
        mine.acquire()
        other.release()
players = [threading.Thread(target=play, args=o) for o in ((here, there), (there, here))]
for p in players: p.start()
assert not over.wait(.2)
over.set()
for p in players: p.join()
"""


def try_picture(page, old):
    "Type the first picture, and threads, into the cell that begins with `old`; returns the exercises that are solved"
    pictures = page.locator('.jp-OutputArea-output img[src^="data:image/png"]')
    before = pictures.count()
    done = type_into(page, old, f'{first_picture()}\n{IN_TIME}'
                                'from gridstride.course.lessons import read_progress\n'
                                'print(": right", *read_progress())')
    assert pictures.count() == before + 1, "matplotlib's picture"
    return done.partition(': right')[2].split()


@needs_chromium
@pytest.mark.browser
@pytest.mark.takes(50)
def test_the_lessons_run_in_a_browser_with_nothing_installed(lite):
    "All cells of a lesson, an exercise solved, that remembered, and a picture"
    with served(lite) as server, chromium() as b:
        context = b.new_context(viewport=dict(width=1200, height=900))
        for n in to_try(): try_lesson(context, server.url, n)
        megabytes = sum(server.sizes.values())/1e6
    assert abs(megabytes/SETTINGS['megabytes'] - 1) < .1, f'{megabytes:.1f} MB came, and the page states another size'


@needs_chromium
@pytest.mark.browser
@pytest.mark.takes(50)
@pytest.mark.exhaustive
def test_other_pages_run_and_know_what_was_solved(lite):
    "The empty one, and the kernel of the home page, which has a data race"
    with served(lite) as server, chromium() as b:
        context = b.new_context(viewport=dict(width=1200, height=900))
        solved = [try_lesson(context, server.url, n) for n in to_try()]
        page = open_page(context, server.url, SETTINGS['scratch'])
        cells = json.loads((LITE/'scratch.ipynb').read_text())['cells']
        assert run_all(page, sum(c['cell_type'] == 'code' for c in cells)) == []
        home = open_page(context, server.url, 'race')
        assert run_all(home, 1) == [] and names(''.join(home.locator(SAID).all_inner_texts()), 'RacecheckError')
        assert set(try_picture(page, 'def mine')) == set(solved), 'what was solved is kept for every page'


# The simulator's own tests, in Pyodide

RUNNER = ['pytest', '_pytest', 'pluggy', 'iniconfig']  # plain Python, which runs there, too
IN_PYODIDE = """async ([url, chosen]) => {
    await new Promise(done => {
        const s = document.createElement('script');
        [s.src, s.onload] = [`${url}/pyodide/pyodide.js`, done];
        document.head.append(s);
    });
    const py = await loadPyodide({indexURL: `${url}/pyodide/`, packages: ['gridstride', 'packaging', 'pygments']});
    py.unpackArchive(await (await fetch(`${url}/tests.zip`)).arrayBuffer(), 'zip', {extractDir: '/work'});
    const said = [];
    py.setStdout({batched: s => said.push(s)});
    const status = await py.runPythonAsync(`
import os, sys
os.chdir('/work')
sys.path.append('/work')
import pytest
int(pytest.main(${JSON.stringify(chosen)}))`);
    return [status, said.join('\\n')];
}"""
NOT_THERE = 'not numba_has and not knows_32_lanes_alone'  # Numba, and a C++ compiler


def zip_tests(path, tests):
    "The tests, and what runs them, as a zip archive"
    site = Path(pytest.__file__).parents[1]
    with zipfile.ZipFile(path, 'w') as z:
        for t in tests: z.write(t, t.relative_to(ROOT))
        for f in [site/'py.py', *(f for p in RUNNER for f in (site/p).rglob('*.py'))]: z.write(f, f.relative_to(site))


@needs_chromium
@pytest.mark.browser
@pytest.mark.takes(15)
@pytest.mark.exhaustive
def test_the_simulators_tests_pass_in_pyodide(lite, tmp_path):
    "Where NumPy's own integers have 32 bits, and threads are missing; in one order, which is a third of all"
    (tmp_path/'pyodide').symlink_to(lite/'pyodide')
    (tmp_path/'empty.html').write_text('<!doctype html>')
    tests = [ROOT/'tests'/f'test_{o}.py' for o in ('sim', 'sim_warps', 'counters')]
    what_they_need = [ROOT/'tests/found.py', ROOT/'tests/sim_cases.py', *(ROOT/'tests/ncu').glob('*.py'),
                      ROOT/'tests/ncu/h100.json']
    zip_tests(tmp_path/'tests.zip', [*tests, *what_they_need])
    chosen = ['-q', '-x', '--capture=sys', '-p', 'no:cacheprovider', '-W', 'ignore',
              '--assert=plain',  # or every assertion is rewritten, in Pyodide
              '-k', f'(forward or not reverse and not shuffle) and {NOT_THERE}', 'tests']
    with served(tmp_path) as server, chromium() as b:
        page = b.new_page()
        page.goto(f'{server.url}/empty.html')
        status, said = page.evaluate(IN_PYODIDE, [server.url, chosen])
    assert status == 0 and int(re.search(r'(\d+) passed', said)[1]) > 300, said[-5000:]
