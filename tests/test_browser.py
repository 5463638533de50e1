"Lesson 01 as a learner steps through it: in JupyterLab, in a real browser."
import json, os, shutil, subprocess, sys, time, urllib.error, urllib.request
from pathlib import Path

import pytest
from browsers import chromium, needs_chromium
from gridstride.utils import cache_dir

ROOT = Path(__file__).resolve().parents[1]
START = '''
import sys
from pathlib import Path
import course
course.PYTHON = Path(sys.executable)  # the packages are here already
course.copy_lessons()
course.lessons.main(['trust'])
course.start_lab(course.first_page('01'), course.free_port(8900), False)
'''
WHOLE_PAGE = {'windowingMode': 'none'}  # cells that are scrolled away stay in the page
READY = '''n => document.querySelectorAll('.jp-Notebook .jp-CodeCell').length >= n
    && document.querySelector('#jp-main-statusbar')?.innerText.includes('| Idle')'''  # before that, Run All is lost
RARELY = 250  # milliseconds; by default Playwright polls at each frame, and the browser draws one for each
RAN = ('() => [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].filter(p => '
       '/\\[\\d+\\]/.test(p.textContent)).length')
ENDED = f'''([cells, errors]) => ({RAN})() == cells
    || document.querySelectorAll('[data-mime-type="application/vnd.jupyter.error"]').length > errors'''
GREY = '''() => [...document.querySelectorAll('.jp-OutputArea-output img')].map(img => {
    const c = document.createElement('canvas');
    [c.width, c.height] = [img.naturalWidth, img.naturalHeight];
    const ctx = c.getContext('2d');
    ctx.drawImage(img, 0, 0);
    const d = ctx.getImageData(0, 0, c.width, c.height).data, levels = new Set();
    let grey = true;
    for (let i = 0; i < d.length; i += 4) {
        levels.add(d[i]);
        if (Math.max(d[i], d[i+1], d[i+2]) - Math.min(d[i], d[i+1], d[i+2]) > 2) grey = false;
    }
    return {grey, levels: levels.size};
})'''


@pytest.fixture
def course(tmp_path):
    "A copy of the course whose lesson 01 has no outputs, so that what is seen was made in the browser"
    here = tmp_path/'course'
    shutil.copytree(ROOT, here, symlinks=True, ignore=shutil.ignore_patterns('.*', '__pycache__', 'tests'))
    path = next((here/'nbs').glob('01_*.ipynb'))
    nb = json.loads(path.read_text(encoding='utf-8'))
    for c in nb['cells']:
        if c['cell_type'] == 'code': c['outputs'] = []
    path.write_text(json.dumps(nb), encoding='utf-8')
    shown = [c for c in nb['cells'] if not c['metadata'].get('jupyter', {}).get('source_hidden')]  # with a prompt
    return here, [c for c in shown if c['cell_type'] == 'code' and ''.join(c['source']).strip()]


@pytest.fixture
def address(course, tmp_path):
    "Where JupyterLab answers, started as course.py starts it"
    settings = tmp_path/'home/.jupyter/lab/user-settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings'
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(WHOLE_PAGE))
    env = {**{k: v for k, v in os.environ.items() if not k.startswith('JUPYTER')}, 'HOME': str(tmp_path/'home'),
           'XDG_CACHE_HOME': str(cache_dir().parent), 'GRIDSTRIDE_BACKEND': 'sim'}  # the emulator is there already
    with open(tmp_path/'log', 'w') as log:
        server = subprocess.Popen([sys.executable, '-c', START], cwd=course[0], env=env, stdout=log, stderr=log)
    try:
        yield answering(server, tmp_path/'log')
    finally:
        server.terminate()
        server.wait(20)


def answering(server, log, seconds=60):
    "The address in the log, as soon as it answers"
    end = time.monotonic() + seconds
    while server.poll() is None and time.monotonic() < end:
        url = next((l.strip() for l in log.read_text().splitlines() if l.strip().startswith('http')), None)
        try:
            if url and urllib.request.urlopen(url, timeout=5).status == 200: return url
        except (urllib.error.URLError, TimeoutError): pass
        time.sleep(.1)
    pytest.fail(f'JupyterLab did not start: {log.read_text()}')


@pytest.mark.exhaustive
@needs_chromium
@pytest.mark.browser
@pytest.mark.takes(20)
def test_lesson_01_in_the_browser(course, address):
    _, code = course
    with chromium() as browser:
        page = browser.new_page(viewport=dict(width=1200, height=900))
        page.goto(address)
        page.wait_for_function(READY, arg=len(code), timeout=60_000, polling=RARELY)
        assert page.locator('.lm-TabBar-tab.jp-mod-current').count() == 1 and page.locator('.jp-mod-dirty').count() == 0
        page.click('.lm-MenuBar-itemLabel:text-is("Run")')
        page.click('.lm-Menu-itemLabel:text-is("Run All Cells")')
        wrong_on_purpose = sum('raises-exception' in c['metadata'].get('tags', []) for c in code)
        page.wait_for_function(ENDED, arg=[len(code), wrong_on_purpose], timeout=150_000, polling=RARELY)
        errors = page.locator('[data-mime-type="application/vnd.jupyter.error"]').all_inner_texts()
        assert len(errors) == wrong_on_purpose, errors
        assert page.evaluate(RAN) == len(code)
        assert page.locator('[data-mime-type="application/vnd.jupyter.stderr"]').all_inner_texts() == []
        pictures = page.evaluate(GREY)
        assert any(o['grey'] and o['levels'] > 64 for o in pictures), pictures
