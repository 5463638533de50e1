"The site: built once, then read by a parser, as its readers' browsers see it, and as they use it."
import ast, fcntl, hashlib, html, json, os, re, subprocess, sys, threading
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browsers import chromium
from gridstride.course import curriculum, lessons
from gridstride.course.publishing import settings

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT/'site'))
import pages, race, reference
from lexer import CudaInPython

LESSONS = [p.stem for p in lessons.lessons()]


LEFT_OUT = {'tests', 'build', 'dist', '_build', '_cache', '__pycache__'}  # folders that the site shows nothing of


def all_it_is_made_of():
    "A hash of the course's files and of what is installed"
    installed = sorted(f'{o.name} {o.version}' for o in distributions())
    seen = hashlib.sha256(repr([sys.version, *installed]).encode())
    for at, folders, names in os.walk(ROOT):
        folders[:] = sorted(o for o in folders if o not in LEFT_OUT and not o.startswith('.'))
        for path in (Path(at, o) for o in sorted(names) if not o.startswith('.')):
            seen.update(repr(path).encode() + hashlib.sha256(path.read_bytes()).digest())
    return seen.hexdigest()


@pytest.fixture(scope='session')
def site(pytestconfig, tmp_path_factory):
    """The folder of the built site; workers that share the tests build it once, pages that did not change never, and
    nothing where nothing has changed at all"""
    known = getattr(pytestconfig, 'cache', None)
    folder = Path(known.mkdir('site')) if known else tmp_path_factory.mktemp('site')
    session = tmp_path_factory.getbasetemp()
    built = (session.parent if 'PYTEST_XDIST_WORKER' in os.environ else session)/'site-is-built'
    with open(folder/'lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made_of = folder/'made-of'
        if not built.exists() and not (made_of.exists() and made_of.read_text() == all_it_is_made_of()):
            made_of.unlink(missing_ok=True)
            cmd = [sys.executable, 'site/build.py', '--to', folder, '--no-lite', '--jobs', '1']  # others are at work
            res = subprocess.run(cmd, cwd=ROOT, text=True, capture_output=True, timeout=900)
            assert res.returncode == 0, f'{res.stdout}\n{res.stderr[-5000:]}'
            made_of.write_text(all_it_is_made_of())
        built.touch()
    return folder/'_build'


LOADS = dict(script='src', img='src', iframe='src', source='src', video='src', audio='src', embed='src', object='data')
TAG, ATTRIBUTE = re.compile(r'<(\w+)(\s[^<>]*)>'), re.compile(r'([\w-]+)="([^"]*)"')


class Page:
    "What a page links to, what it loads by itself, its anchors and pictures"
    def __init__(self, text):
        self.links, self.loads, self.ids, self.pictures = [], [], set(), []
        for tag, attributes in TAG.findall(re.sub(r'<(script|style)\b([^>]*)>.*?</\1>', r'<\1\2>', text, flags=re.S)):
            a = {k: html.unescape(v) for k, v in ATTRIBUTE.findall(attributes)}
            if 'id' in a: self.ids.add(a['id'])
            if tag == 'a' and a.get('href'): self.links.append(a['href'])
            if a.get(LOADS.get(tag)): self.loads.append(a[LOADS[tag]])
            if tag == 'link' and a['rel'] not in ('next', 'prev', 'index', 'search', 'canonical'):
                self.loads.append(a['href'])
            self.loads += re.findall(r'url\(([^)]*)\)', a.get('style', ''))
            if tag in ('img', 'svg'): self.pictures.append((tag, a.get('alt')))


@cache
def parsed(path): return Page(path.read_text(encoding='utf-8'))


def every_page(site): return sorted(p for p in site.rglob('*.html') if '_static' not in p.parts)


EVERY = os.environ.get('GRIDSTRIDE_PAGES') == 'every'


def to_visit(site, some):
    "The names of pages that a browser opens: `some`, one of each kind, or every page, in minutes, if EVERY is set"
    if not EVERY: return some
    return [p.relative_to(site).with_suffix('').as_posix() for p in every_page(site)]


def is_elsewhere(address): return bool(re.match(r'(https?:)?//', address or ''))


@pytest.mark.takes(35)
def test_every_lesson_and_text_has_its_page(site):
    there = {p.relative_to(site).with_suffix('').as_posix() for p in every_page(site)}
    notebooks = {p.relative_to(ROOT).with_suffix('').as_posix() for d in ('nbs', 'nbs/inside', 'nbs/lib')
                 for p in (ROOT/d).glob('*.ipynb')}
    tables = {f'benchmarks/{p.stem}' for p in (ROOT/'benchmarks').glob('*.txt')}
    assert len(notebooks) > 25 and len(tables) > 10
    texts = {'index', 'search', 'ARCHITECTURE', 'GLOSSARY', 'SECURITY', 'gridstride/judge/README', 'reference/sim',
             'messages/index'}
    assert not (notebooks | tables | texts) - there


@pytest.mark.slow
def test_links_and_anchors_exist(site):
    gone = []
    for p in every_page(site):
        for link in parsed(p).links + parsed(p).loads:
            at = urlsplit(link)
            if at.scheme or at.netloc or at.path.startswith(f'{"../" * 5}'): continue
            file = (p.parent/unquote(at.path)).resolve() if at.path else p
            if file.is_dir(): file /= 'index.html'
            if not file.exists(): gone.append((p.relative_to(site).as_posix(), link))
            elif at.fragment and file.suffix == '.html' and unquote(at.fragment) not in parsed(file).ids | {''}:
                gone.append((p.relative_to(site).as_posix(), link))
    assert not gone, gone[:20]


def test_nothing_is_loaded_from_elsewhere(site):
    "Neither by a page nor by a style sheet"
    assert not {(p.name, o) for p in every_page(site) for o in parsed(p).loads if is_elsewhere(o)}
    styles = {p: re.findall(r'url\(["\']?([^"\')]*)|@import\s+["\']([^"\']*)', p.read_text(encoding='utf-8'))
              for p in site.rglob('*.css')}
    assert len(styles) > 5
    assert not {(p.name, o) for p, found in styles.items() for pair in found for o in pair if is_elsewhere(o)}


@pytest.mark.parametrize('name', LESSONS)
def test_a_lesson_s_pictures_and_exercises_are_there(site, name):
    page, nb = parsed(site/f'nbs/{name}.html'), lessons.read(ROOT/f'nbs/{name}.ipynb')
    shown = [o for c in nb['cells'] for o in c.get('outputs', [])
             if {'image/png', 'image/svg+xml'} & set(o.get('data', {}))]
    assert len(page.pictures) >= len(shown)
    assert all(alt and not alt.endswith(('.svg', '.png')) for tag, alt in page.pictures if tag == 'img')
    text = (site/f'nbs/{name}.html').read_text(encoding='utf-8')
    mine = set(lessons.exercises(nb))
    assert mine <= set(pages.hints_of(name)) and all(f'Solution of {o}</summary>' in text for o in mine)
    assert text.count('<summary>Hint 1 of ') == len(mine)


@pytest.mark.parametrize('name', LESSONS)
def test_a_lesson_says_how_long_it_takes_and_how_to_open_it(site, name):
    reading, exercises = curriculum.minutes(curriculum.lesson_of_file(name))
    assert f'nbs/{name}.html' in (site/'index.html').read_text('utf-8')
    table = (site/'nbs/README.html').read_text('utf-8')
    row = next(o for o in re.findall(r'<tr.*?</tr>', table, re.S) if f'href="{name}.html"' in o)
    assert f'{reading} min' in row and f'{exercises} min' in row
    assert f'python3 course.py {name.partition("_")[0]}<' in (site/f'nbs/{name}.html').read_text('utf-8')


def test_the_moving_picture_shows_what_a_launch_prints_today():
    found, drawn = race.finding(), race.draw()
    assert (found.kind, found.code, found.line, found.other.line) == ('racecheck', 'race', 9, 8)
    shown = html.unescape(re.sub('<[^>]*>', ' ', drawn))
    assert {type(found).__name__, *str(found).split()} <= {o.rstrip(':') for o in shown.split()} | set(shown.split())
    for access, did in (found.other, found.fields['before']), (found, found.fields['now']):
        assert f'line {access.line}: s[63] is {did} by thread {access.thread[0]}' in shown
    assert race.PICTURE.read_text('utf-8') == drawn, 'run: python site/race.py'
    assert len(drawn) < 50_000 and 'prefers-reduced-motion' in drawn


def test_the_home_page_begins_as_the_readme_does(site):
    "What it is, buttons, commands and learning paths, in this order; the picture of the race; a card for shared links"
    readme = (ROOT/'README.md').read_text('utf-8')
    home = (site/'index.html').read_text('utf-8')
    text = ' '.join(html.unescape(re.sub('<[^>]*>', '', home)).split())
    meta = settings(ROOT)
    marks = re.search(r'[A-Z][^`.!]*? laptop', readme)[0], 'GitHub', f'git clone {meta["repository"]}', 'I know'
    order = [text.index(o) for o in marks]
    assert order == sorted(order) and home.index('race.svg') < home.index('I know')
    assert f'href="{meta["repository"]}"' in home and meta['author'] in text and meta['license'] in text
    card, = re.findall(f'property="og:image" content="{re.escape(meta["site"])}/([^"]*)"', home)
    assert (site/card).read_bytes()[:4] == b'\x89PNG' and f'name="description" content="{meta["description"]}"' in home
    assert len(readme.splitlines()) <= 100


def test_a_lesson_without_a_notebook_is_named_and_not_linked(monkeypatch):
    "So that the site can be built while a chapter is written"
    planned = curriculum.LESSONS[-1]._replace(slug='planned', title='Planned')
    monkeypatch.setattr(curriculum, 'LESSONS', [*curriculum.LESSONS, planned])
    monkeypatch.setattr(pages, 'LESSON_FILES', {planned.file})
    assert not pages.is_written(planned) and Path(planned.file).stem not in pages.lesson_toctrees()
    links = f'[{planned.number}]({planned.file}) [gone](gone.ipynb)'
    assert pages.adapt_markdown(links, 'nbs/README.md') == f'{planned.number} [gone](gone.ipynb)'


LABELLED = re.compile(r'<(a|button|summary)\b[^>]*\saria-label="([^"]*)"[^>]*>(.*?)</\1>', re.S)


def test_headings_are_in_order_and_a_label_has_the_text_that_is_seen(site):
    "A page has one first heading and skips no level; who reads aloud what is shown names what is meant"
    wrong = []
    for p in every_page(site):
        text = p.read_text('utf-8')
        article = re.search(r'<article class="bd-article".*?</article>', text, re.S)
        levels = [int(n) for n in re.findall(r'<h([1-6])\b', article[0] if article else '')]
        if article and levels.count(1) != 1: wrong.append((p.name, 'first headings', levels.count(1)))
        wrong += [(p.name, f'h{a}', f'h{b}') for a, b in zip([0, *levels], levels) if b > a + 1]
        for _, label, inside in LABELLED.findall(text):
            seen = ' '.join(re.sub('<[^>]*>', ' ', inside).split())
            if seen not in label: wrong.append((p.name, label, seen))
    assert not wrong, wrong[:10]


def test_pages_that_run_in_the_browser_state_how_much_they_load():
    lite = json.loads((ROOT/'site/lite/lite.json').read_text('utf-8'))
    boxes = {name: pages.how_to_open(ROOT/f'nbs/{name}.ipynb', lite) for name in LESSONS}
    assert [name for name, box in boxes.items() if f'href="../lite/notebooks/index.html?path={name}.ipynb"' in box
            and f'{lite["megabytes"]} MB' in box] == lite['lessons']
    assert lite['without_compiler'] == LESSONS[:4]
    assert [name for name, box in boxes.items() if f'{lite["compiler_megabytes"]} MB' in box] == lite['lessons'][4:]


def test_the_home_page_runs_the_race_only_where_notebooks_run():
    lite = json.loads((ROOT/'site/lite/lite.json').read_text('utf-8'))
    with_lite, without = (pages.add_buttons('<!-- buttons --><!-- live -->', lite, o) for o in (True, False))
    assert 'data-page="lite/notebooks/index.html?path=race.ipynb"' in with_lite
    assert f'{lite["megabytes"]} MB' in with_lite
    assert 'data-page' not in without and f'nbs/{LESSONS[0]}.html' in without


def test_a_translated_lesson_is_a_page_that_others_link_to(site):
    path = ROOT/f'nbs/{LESSONS[0]}.ipynb'
    languages = set(pages.translations_of(path))
    assert languages >= {'pt_BR', 'zh_CN'} and not pages.translations_of(ROOT/f'nbs/lib/{LESSONS[0]}.ipynb')
    names = {'en': LESSONS[0], **{o: pages.name_of_translation(path, o) for o in languages}}
    for language, name in names.items():
        text = (site/f'nbs/{name}.html').read_text('utf-8')
        linked = {o for o, other in names.items() if f'href="{other}.html" lang="{o.replace("_", "-")}"' in text}
        assert linked == names.keys() - {language}
        assert re.search('<html[^>]* lang="([^"]*)"', text)[1] == language.replace('_', '-')


def test_play_links_leave_the_headings():
    got = pages.adapt_markdown('## Fill  ([▶ 24:39](https://youtu.be/wVsR-YhaHlM?t=1479))\n\ntext', 'nbs/x.ipynb')
    assert got == '## Fill\n\n[▶ 24:39](https://youtu.be/wVsR-YhaHlM?t=1479){.play}\n\ntext'


def test_links_lead_to_pages():
    text = ('[a](../benchmarks/sim.txt) [b](../gridstride/utils.py) [c](../tests/cuda) '
            '[d](01_first_kernel.ipynb#x) [e](#y)')
    assert pages.adapt_markdown(text, 'nbs/x.ipynb') == ('[a](../benchmarks/sim.md) [b](../gridstride/utils.py.md) c '
                                                 '[d](01_first_kernel.ipynb#x) [e](#y)')
    assert pages.adapt_markdown('[f](site/messages)', 'README.md') == '[f](messages/index.md)'
    assert pages.adapt_markdown('[f](../../site/messages)', 'a/b/README.md') == '[f](../../messages/index.md)'


SOURCE = '''
def f(a, b,      # two numbers
      c='x',     # a letter,
                 # or none
      *, d=None  # later
     ) -> int:   # a sum
    "What it does"  # no parameter's
'''


def test_what_a_parameter_is():
    rows = reference.parameters(ast.parse(SOURCE).body[0], reference.comments(SOURCE))
    assert rows == [('a, b', '', 'two numbers'), ('c', "'x'", 'a letter, or none'), ('d', 'None', 'later'),
                    ('returns', 'int', 'a sum')]
    one = 'def f(p) -> float:  # p: a `Point`\n    pass\n'
    assert reference.parameters(ast.parse(one).body[0], reference.comments(one)) == [
        ('p', '', 'a `Point`'), ('returns', 'float', '')]


def test_the_reference_has_what_the_comments_say(site):
    text = re.sub('<[^>]*>', '', (site/'reference/course.runner.html').read_text('utf-8'))
    assert 'how many floats of shared memory a block has' in text and 'Call the kernel f for every block' in text


def test_examples_in_docstrings_are_code():
    node = ast.parse('def f(x):\n    """Add 1.\n\n    >>> f(1)\n    2\n\n    More."""').body[0]
    assert reference.docstring_markdown(node) == 'Add 1.\n\n```python\n>>> f(1)\n2\n```\n\nMore.'


def test_cuda_in_a_string_has_the_colours_of_cpp():
    def kinds(text, word): return [str(k) for k, v in CudaInPython().get_tokens(text) if v == word]
    cell = "k = cuda_kernel(r'''\n__global__ void k(float *x) { x[0] = 1; }\n''')\nfor i in x: pass"
    assert kinds(cell, 'void') == ['Token.Keyword.Type'] and kinds(cell, 'for') == ['Token.Keyword']
    assert kinds('%%cuda\n__global__ void k() {}', 'void') == ['Token.Keyword.Type']
    for prose in ('"""Of `threadIdx.x`; a void."""', "'''\nimport torch\nk('__global__ void k()')\n'''"):
        assert not kinds(prose, 'void')
    for text in (cell, '%%cuda\n__global__ void k() {}\n'):
        assert ''.join(v for _, v in CudaInPython().get_tokens(text)) == text.strip() + '\n'


# In a browser

class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args): pass


@pytest.fixture(scope='module')
def address(site):
    "Where the site is served"
    server = ThreadingHTTPServer(('127.0.0.1', 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}'
    server.shutdown()
    server.server_close()


HERE_ALONE = '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'


@contextmanager
def page_of(browser, **how):
    "A page of a new window that notes which hosts are asked and what goes wrong; nothing leaves this machine"
    page = browser.new_page(**how)
    page.set_default_timeout(120_000)  # of a machine that is busy with other tests, too
    page.asked, page.errors = [], []
    page.on('request', lambda r: is_here(r.url) or page.asked.append(r.url))
    page.on('console', lambda m: m.type == 'error' and page.errors.append(m.text))
    page.on('pageerror', lambda e: page.errors.append(str(e)))
    yield page
    page.close()


@contextmanager
def films(page):
    "Others' addresses are answered here. Only while one is asked: as long as that is so, Chromium keeps no file"
    page.route(lambda url: not is_here(url), lambda r: r.fulfill(body='<p>a film</p>', content_type='text/html'))
    yield
    page.unroute_all()


@pytest.fixture(scope='module')
def browser_page():
    "What makes a page, as `page_of` does, all in one Chromium"
    with chromium(HERE_ALONE) as browser: yield partial(page_of, browser)


def is_here(url): return url.startswith(('http://127.0.0.1', 'data:', 'blob:', 'about:'))


NOT_SHOWN = '''() => [...document.querySelectorAll('.bd-article img')]
    .filter(i => !i.complete || !i.naturalWidth).length'''
TOO_WIDE = '() => document.documentElement.scrollWidth - document.documentElement.clientWidth'
SOME = ['index', 'nbs/03_shared_memory', 'nbs/08a_timing', 'reference/sim', 'messages/index',
        'messages/launch-dynamic_size', 'benchmarks/README', 'ARCHITECTURE', 'gridstride/sim/counters.py']


# The newest theme that Python 3.10 can have is of 2024, and its scripts fail; later Pythons build what readers see.
todays_theme = pytest.mark.skipif(sys.version_info < (3, 11), reason="today's theme of the site needs Python 3.11")


@todays_theme
@pytest.mark.parametrize('tags,outputs,kept', [
    ([], [], {}), (['hide-input', 'x'], [], dict(tags=['hide-input'])),
    (['hide-input'], [dict(data={'image/png': '', 'text/plain': 'a plot'})],
     dict(tags=['hide-input'], mystnb=dict(image=dict(alt='a plot'))))])
def test_folded_code_is_folded_on_the_site(tags, outputs, kept):
    assert pages.cell_metadata(dict(metadata=dict(tags=tags), outputs=outputs)) == kept


def test_pages_load_nothing_from_elsewhere_and_fit_a_phone(site, address, browser_page):
    "`test_site_browsers` visits them on a desk"
    with browser_page(viewport=dict(width=390, height=800)) as page:
        for name in to_visit(site, SOME):
            page.goto(f'{address}/{name}.html')
            assert page.evaluate(NOT_SHOWN) == 0, name
            assert page.evaluate(TOO_WIDE) <= 0, name
        assert page.asked == [] and page.errors == []


SCREENS = '() => document.documentElement.scrollHeight/innerHeight'


@todays_theme
@pytest.mark.parametrize('size,screens', [((1280, 800), 3), ((390, 844), 4)], ids=['desk', 'phone'])
def test_the_home_page_is_short(address, browser_page, size, screens):
    "Less a tenth of a screen, for the button that runs the race: this site is built without it"
    with browser_page(viewport=dict(width=size[0], height=size[1])) as page:
        page.goto(f'{address}/index.html')
        assert 1 < page.evaluate(SCREENS) <= screens - .1


HEADS = '''() => [...document.querySelectorAll('#the-lessons table')].map(
    t => [...t.querySelectorAll('th')].map(o => [o.offsetWidth/t.offsetWidth, o.scrollWidth <= o.clientWidth]))'''


@todays_theme
def test_what_a_lesson_does_has_the_widest_column(address, browser_page):
    with browser_page(viewport=dict(width=1280, height=800)) as page:
        page.goto(f'{address}/nbs/README.html')
        tables = page.evaluate(HEADS)
        assert len(tables) == 7
        for columns in tables: assert columns[1][0] > .35 and all(fits for _, fits in columns), columns


GROWN = "width => document.querySelector('.video-box').getBoundingClientRect().width > width"


def test_the_lecture_next_to_the_lesson(address, browser_page):
    with browser_page(viewport=dict(width=1400, height=900)) as page, films(page):
        page.goto(f'{address}/nbs/03_shared_memory.html')
        box = page.locator('.video-box')
        small = box.bounding_box()
        assert page.asked == [] and page.locator('iframe').count() == 0
        page.click('a.play:text("24:39")')
        page.wait_for_selector('.video-box.playing iframe')
        page.wait_for_function(GROWN, arg=small['width'])
        assert page.url.endswith('03_shared_memory.html')
        assert page.asked == ['https://www.youtube-nocookie.com/embed/wVsR-YhaHlM?start=1479&autoplay=1']
        page.click('a.play:text("28:32"), a:text("28:32")')
        page.wait_for_function("() => document.querySelector('iframe').src.includes('start=1712')")
        page.evaluate('() => scrollTo(0, 3000)')
        y = box.bounding_box()['y']
        assert 0 < y < 900
        page.click('.video-box button[aria-label^="Collapse"]')
        assert page.locator('iframe').count() == 1 and box.bounding_box()['height'] < 60  # it goes on
        page.click('.video-box button[aria-label^="Close"]')
        assert page.locator('iframe').count() == 0


@pytest.mark.slow
def test_without_scripts_play_links_lead_to_the_lecture(address, browser_page):
    with browser_page(java_script_enabled=False) as page:
        page.goto(f'{address}/nbs/03_shared_memory.html')
        assert page.locator('.video-box').count() == 0
        assert page.get_attribute('a.play:text("24:39")', 'href') == 'https://youtu.be/wVsR-YhaHlM?t=1479'
