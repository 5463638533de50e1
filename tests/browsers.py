"A real browser, which set-up does not install: tests skip without one, unless `GRIDSTRIDE_NEED_CHROMIUM` is set."
import os, shutil
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync']
NOT_FOUND = 'Chromium not found: neither chromium, chromium-browser nor google-chrome is in PATH'


IS_REQUIRED = bool(os.environ.get('GRIDSTRIDE_NEED_CHROMIUM'))
# as a mark, it skips before fixtures build anything
needs_chromium = pytest.mark.skipif(not CHROMIUM and not IS_REQUIRED, reason=NOT_FOUND)


def require_chromium():
    "Skip the running test on a machine without Chromium; fail if `.ci/run` requires it"
    if CHROMIUM: return
    if IS_REQUIRED: pytest.fail(f'{NOT_FOUND}. Install chromium')
    pytest.skip(NOT_FOUND)


@contextmanager
def chromium(*args):
    "Start a Chromium with `args` and `ARGS`, which takes a second; close it at the end of the `with` block"
    require_chromium()
    from playwright.sync_api import sync_playwright
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=[*ARGS, *args])
        try: yield browser
        finally: browser.close()
