"A real browser, which set-up does not install: tests skip without one, unless `GRIDSTRIDE_NEED_CHROMIUM` is set."
import os, shutil
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync']
ABSENT = 'no Chromium here: neither chromium, chromium-browser nor google-chrome is in PATH'


DEMANDED = bool(os.environ.get('GRIDSTRIDE_NEED_CHROMIUM'))
needs_chromium = pytest.mark.skipif(not CHROMIUM and not DEMANDED, reason=ABSENT)  # before fixtures build anything


def require_chromium():
    "Skip the running test where there is no Chromium; fail where `.ci/run` demands one"
    if CHROMIUM: return
    if DEMANDED: pytest.fail(f'{ABSENT}. Install chromium')
    pytest.skip(ABSENT)


@contextmanager
def chromium(*args):
    "A running Chromium, started with `args` and the usual ones; takes a second to start"
    require_chromium()
    from playwright.sync_api import sync_playwright
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=[*ARGS, *args])
        try: yield browser
        finally: browser.close()
