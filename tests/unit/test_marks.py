"The marks by which `course.py test --fast` selects tests."
import os, re, subprocess, sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.fixture
def site(): pass

@pytest.fixture
def browser_page(): pass

def test_short(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.takes(30)
def test_that_takes_long(): pass

def test_that_builds_the_site(site): pass

def test_that_opens_a_page(browser_page): pass

@pytest.mark.gpu
def test_on_a_gpu():
    from gridstride.utils import gpu_count
    assert gpu_count()
"""


def ended(folder, *args):
    "The outcome of each of `TESTS` that pytest selects"
    (folder/'test_those.py').write_text(TESTS)
    here = Path(__file__).parents[1]
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(map(str, [here, here.parent]))}
    ran = subprocess.run([sys.executable, '-m', 'pytest', '-p', 'conftest', '-p', 'no:xdist', '-v', *args],
                         cwd=folder, env=env, capture_output=True, text=True)
    return dict(re.findall(r'::(\w+) (\w+)', ran.stdout))


@pytest.mark.slow
def test_fast_tests_are_neither_slow_nor_in_a_browser(tmp_path):
    fast = ended(tmp_path, '-m', 'not slow and not browser')
    assert fast.keys() == {'test_short', 'test_on_a_gpu'} and fast['test_short'] == 'PASSED'
    every = ended(tmp_path)
    assert len(every) == 6 and {end for name, end in every.items() if name != 'test_on_a_gpu'} == {'PASSED'}
    assert every['test_on_a_gpu'] in ('PASSED', 'SKIPPED')
