"""CUDA C in the browser: the compiler as WebAssembly, the emulator's runtime, the playground. Skips where the
compiler was never fetched: `python site/lite/build.py` does that, and compiles the runtime."""
import base64, importlib, itertools, json, re, sys, time, zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from browsers import chromium, needs_chromium
from exhaustive import mark_exhaustive
from found import names
from gridstride.checker.pages import examples
from test_lite import LITE, SETTINGS, build, lite, load, load_package, served  # noqa: F401  (`lite` is a fixture)
from test_site_browsers import AXE, VIOLATIONS, firefox

browser_page, findings_pages = (load(f'{name}_of_tests', build.HERE.parent/f'{name}.py')
                                for name in ('browser_page', 'findings_pages'))
compiler = build.compiler
NOT_FETCHED = 'the compiler of CUDA C for the browser was never fetched: run `python site/lite/build.py`'


def test_a_file_with_another_sum_is_refused(tmp_path, monkeypatch):
    "As for Pyodide's files: what npm gives needs no trust"
    import io, tarfile
    monkeypatch.setattr(compiler, 'toolchain', lambda: tmp_path/'cache')
    def download(folder, names):
        with tarfile.open(folder/'clang.tgz', 'w:gz') as archive:
            for path in compiler.MANIFEST['files']:
                info = tarfile.TarInfo(f'package/{path}')
                info.size = 8
                archive.addfile(info, io.BytesIO(b'tampered'))
        return [folder/'clang.tgz']
    monkeypatch.setattr(compiler.npm, 'download', download)
    with pytest.raises(compiler.Unavailable, match='SHA-256'): compiler.fetch()
    assert not [*(tmp_path/'cache').iterdir()]


def test_without_npm_the_reason_is_reported(tmp_path, monkeypatch, capsys):
    "Then CUDA C is shown with its outputs, and the playground's editor is a text field"
    monkeypatch.setattr(compiler, 'toolchain', lambda: tmp_path/'cache')
    monkeypatch.setattr(build.editor, 'folders', lambda: {tmp_path/'editor': build.editor.MANIFEST[0]})
    monkeypatch.setattr(compiler, 'build_runtime', compiler.fetch)
    monkeypatch.setattr(compiler.shutil, 'which', lambda name: None)
    assert not build.write_compiler(tmp_path/'cuda') and 'npm' in capsys.readouterr().err
    build.write_playground(tmp_path/'playground', 'version', has_compiler=False)
    assert 'npm' in capsys.readouterr().err
    page, script = ((tmp_path/'playground'/name).read_text() for name in ('index.html', 'playground.js'))
    assert '"imports": {}' in page and "await import('./plain.js')." in script


def test_what_the_browser_replaces_of_the_runtime_is_there():
    "A file of the platform replaces the one of the runtime that has its name"
    platform, runtime = ({p.name for p in folder.glob('*.cpp')} for folder in (
        compiler.HERE/'cuda/platform', compiler.CPP/'runtime'))
    own = {'platform.cpp', 'python.cpp', 'begin_of_user_code.cpp', 'end_of_user_code.cpp'}
    assert len(platform & runtime) > 2 and platform - runtime == own


# what the emulator calls of its runtime only for traces, for another process, or for a shared library
NOT_IN_BROWSER = {'take_executed_blocks', 'take_branches', 'load_in_child', 'unload'}


def test_the_browser_has_the_functions_of_the_runtime_that_are_called():
    "`_Runtime` replaces it; programs in the playground failed where it lacked one"
    python = ''.join((compiler.CPP/f'{name}.py').read_text() for name in ('emulator', 'program', 'load', 'kernel'))
    called = set(re.findall(r'load_runtime\(\)\.gridstride_(\w+)', python))
    found = set(re.findall(r'def gridstride_(\w+)', (LITE/'browser/in_browser/cuda.py').read_text()))
    assert called - NOT_IN_BROWSER == found and NOT_IN_BROWSER < called


load_package('playground_of_tests', LITE/'browser/in_browser/__init__.py')
sys.modules['playground_of_tests.served'] = SimpleNamespace(HAS_COMPILER=False)
playground = importlib.import_module('playground_of_tests.playground')
MISTAKEN = "import numpy as np\nk = r'''\n__global__ void empty() {}'''\nk[1, 32]((\n"


def test_a_program_is_python_or_cuda_c():
    "Python may have CUDA C in a string, as the programs of the pages of messages, and a mistake"
    pages = [text for _, *texts in examples().values() for text in texts]
    assert sum('\n__global__' in text for text in pages) > 100
    assert not [text for text in [*pages, MISTAKEN, f'\n# one\n\n{MISTAKEN}'] if not playground.is_python(text)]
    programs = [p.read_text() for kind in ('wrong', 'right') for p in (PROGRAMS/kind).glob('*.cu')]
    assert not [text for text in [*programs, '__global__ void empty() {}\n'] if playground.is_python(text)]


# example -> (code, line of the finding, line of the other access)
FOUND = {'race': ('racecheck race', 6, 5), 'bounds': ('memcheck outside', 4, None),
         'barrier': ('synccheck diverged', 6, None), 'banks': ('', None, None), 'ring': ('', None, None)}
PRINTS = {'banks': r'wavefronts 1024', 'ring': 'each lane has 28'}


def lines_of(page, kind):
    "The lines of the editor that are marked, counted from 1"
    script = 'kind => [...document.querySelectorAll(`.cm-line.${kind}`)].map(row => Number(row.dataset.line))'
    return page.evaluate(script, kind)


def test_pages_of_messages_link_the_programs_that_end_in_a_browser_as_natively():
    "`run_pages.mjs` compares their messages"
    names, recorded = {p['name'] for p in findings_pages.programs()}, findings_pages.IN_BROWSER
    assert not recorded.keys() - names and len(names - recorded.keys()) < 10, 'run site/lite/run_pages.mjs'
    num_links = sum(text.count('class="run-here"') for text in findings_pages.pages(run_here=True).values())
    assert num_links == [*recorded.values()].count('as natively') > 300


def fragment_of(text):
    "The fragment of a link that holds a program"
    deflate = zlib.compressobj(wbits=-15)
    data = deflate.compress(text.encode()) + deflate.flush()
    return f"program={base64.urlsafe_b64encode(data).decode().rstrip('=')}"


def find_faults_of_pages(page):
    "What axe-core finds in the light and in the dark theme, on a phone, where the program scrolls, and on a desktop"
    page.evaluate(AXE)
    for width, theme in itertools.product((390, 1280), ('light', 'dark')):
        page.set_viewport_size(dict(width=width, height=800))
        page.emulate_media(color_scheme=theme)
        if found := page.evaluate(VIOLATIONS): return width, theme, found


def run_example(page, url, name):
    page.goto(f'{url}/playground/index.html#example={name}')
    page.click('#run')
    page.wait_for_selector('#run:enabled', timeout=400_000)
    return page.text_content('#result')


def run_program(page, url, text):
    "Run a program that a link holds; return the code of its finding"
    page.goto(f'{url}/playground/index.html#{fragment_of(text)}')
    begins = 'text => document.querySelector("#program").innerText.startsWith(text)'
    page.wait_for_function(begins, arg=text.split('\n')[0])
    page.click('#run')
    page.wait_for_selector('#run:enabled', timeout=400_000)
    return page.get_attribute('#result', 'data-code') or ''


# the first race is allowed, so the kernel continues to the second one
ALLOWED_RACE = """import numpy as np
from gridstride import cuda_kernel
from gridstride.diagnostics.settings import change, settings
two = cuda_kernel(r'''__global__ void two(int *a, int *b) {
    a[0] += 1;
    b[0] = threadIdx.x;
}''')
with change(settings, allowed_findings=frozenset({('race', 'two', 2)})):
    two[1, 32](np.zeros(1, np.int32), np.zeros(1, np.int32))
"""


def run_page_of(page, url, kind, code):
    "Run the wrong kernel of the page of a finding; return the code of its finding"
    return run_program(page, url, examples()[kind, code][1])


@pytest.mark.browser
@pytest.mark.slow
@needs_chromium
def test_the_playground_finds_what_the_emulator_finds(lite):  # noqa: F811
    "Five examples, whose findings are those of the emulator; the program of a link; a second visit without a network"
    if not compiler.is_ready(): pytest.skip(NOT_FETCHED)
    with served(lite) as server, chromium() as browser:
        page, warned = browser.new_page(), []
        page.on('console', lambda message: warned.append(message.text))
        for name, (code, line, other) in FOUND.items():
            said = run_example(page, server.url, name)
            assert (page.get_attribute('#result', 'data-code') or '', name) == (code, name), said
            assert lines_of(page, 'now') == [line]*bool(line) and lines_of(page, 'before') == [other]*bool(other), said
            assert re.search(PRINTS.get(name, ''), said), said
            if name == 'race': assert not find_faults_of_pages(page)
        page.fill('#program', '#include <cstdio>\n#include <map>\nint main() { printf("%d\\n", 6*7); }\n')
        page.click('#share')
        page.wait_for_function("() => location.hash.startsWith('#program=')")
        page.reload()
        page.click('#run')
        page.wait_for_selector('#run:enabled', timeout=400_000)
        assert page.text_content('#result').strip() == '42'
        assert run_page_of(page, server.url, 'crash', 'host_memory') == 'crash host_memory'
        assert run_program(page, server.url, ALLOWED_RACE) == 'racecheck race' and lines_of(page, 'now') == [6]
        assert run_page_of(page, server.url, 'synccheck', 'process_missing') == ''
        assert names(page.text_content('#result'), 'a browser has no processes', 'line 12: if (fork() == 0) {')
        assert not [text for text in warned if 'precompiled' in text], 'each compilation is seconds longer'


IS_RUNNING = "() => document.querySelector('#run').disabled"


def wait_for_button(tab, seconds=300):
    end = time.monotonic() + seconds
    while tab.js(IS_RUNNING):
        assert time.monotonic() < end, 'the playground does not answer'
        time.sleep(.1)


@pytest.mark.browser
@pytest.mark.exhaustive
def test_the_playground_in_firefox(lite, tmp_path):  # noqa: F811
    if not compiler.is_ready(): pytest.skip(NOT_FETCHED)
    with served(lite) as server, firefox(tmp_path) as tab:
        tab.go(f'{server.url}/playground/index.html#example=race')
        wait_for_button(tab)
        tab.js("() => document.querySelector('#run').click()")
        wait_for_button(tab)
        assert tab.js("() => document.querySelector('#result').dataset.code") == 'racecheck race'


def answer_with(script):
    "A handler of requests that puts a script in front of the file"
    def handle(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=f'{script}\n{answer.text()}')
    return handle


def block(route): route.abort()


OUT_OF_MEMORY = "WebAssembly.instantiateStreaming = () => Promise.reject(new RangeError('Out of memory'))"
# what is wrong -> (address, handler of its requests, what the page says)
BROKEN = {'no workers': ('**/playground.js', answer_with('delete globalThis.Worker'), 'Worker.*Reload the page'),
          'worker blocked': ('**/worker.js', block, 'allow this site'),
          'no WebAssembly': ('**/worker.js', answer_with('delete self.WebAssembly'), 'Chrome or Edge from version'),
          'no memory': ('**/worker.js', answer_with(OUT_OF_MEMORY), 'Close other tabs'),
          'Python blocked': ('**/pyodide.js', block, 'Check the connection'),
          'module blocked': ('**/pyodide.asm.wasm', block, 'Check the connection')}


@pytest.mark.browser
@pytest.mark.slow
@needs_chromium
def test_errors_of_loading_say_what_to_do(lite):  # noqa: F811
    "And leave the button enabled; without CodeMirror the editor is a text field"
    with served(lite) as server, chromium() as browser:
        for name, (address, handler, said) in BROKEN.items():
            page = browser.new_page(service_workers='block')
            page.route('**/codemirror/**', block)
            page.route(address, handler)
            result = run_example(page, server.url, 'race')
            assert re.search(said, result), (name, result)
            assert page.input_value('textarea#program'), name
            page.close()


PROGRAMS = Path(__file__).parent/'cuda'
# not stopped, as a GPU does not: tests/test_cpp_programs.py has the warnings
WARNED = {'46_return_before_a_barrier', '88_return_before_the_grid'}


def differences(page, url, path):
    "Run a program of tests/cuda in the playground; return how it differs from what its first line expects"
    text = path.read_text()
    code, said = run_program(page, url, text), page.text_content('#result')
    if path.parent.name == 'right' or path.stem in WARNED: return [(path.stem, code, said)]*bool(code)
    kind, wanted = re.match(r'// expect: (\w+) line ([\d or]+)$', text.splitlines()[0]).groups()
    line = str(*lines_of(page, 'now'))
    return [(path.stem, code, line, said)]*(code.split(' ')[0] != kind or line not in wanted.split(' or '))


RECORDED = json.loads((compiler.HERE/'programs.json').read_text())


def test_each_program_ends_as_natively_or_the_reason_is_recorded():
    "`run_programs.mjs` compares what programs of tests/cuda print, and the findings"
    paths = [p for kind in ('wrong', 'right') for p in (PROGRAMS/kind).glob('*.cu')]
    assert not {f'{p.parent.name}/{p.stem}' for p in paths} ^ RECORDED.keys(), 'run site/lite/run_programs.mjs'
    others = [entry for entry in RECORDED.values() if entry != 'as natively']
    assert len(others) < 10 and all(entry['reason'] for entry in others)
    page = browser_page.pages()['in_the_browser.md']
    assert all(f'](nbs/{name}.ipynb)' in page for name in SETTINGS['lessons'])
    assert all(f'| {entry["reason"]} |' in page for entry in others)


ALL_PROGRAMS = [p for kind in ('wrong', 'right') for p in sorted((PROGRAMS/kind).glob('*.cu'))
                if RECORDED.get(f'{kind}/{p.stem}') == 'as natively']


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize('part', [mark_exhaustive(pytest.param(i, id=f'part {i}')) for i in range(8)])
@needs_chromium
def test_programs_of_the_emulator_end_as_natively(lite, part):  # noqa: F811
    "Those of tests/cuda: wrong ones are found on their line, right ones are silent"
    if not compiler.is_ready(): pytest.skip(NOT_FETCHED)
    with served(lite) as server, chromium() as browser:
        page = browser.new_page()
        found = [d for path in ALL_PROGRAMS[part::8] for d in differences(page, server.url, path)]
    assert not found
