"What `--fast` leaves out leaves nothing behind, whenever it is stopped, and nothing fails of it."
import os, re, subprocess, sys
from pathlib import Path

TESTS = """
import contextlib, subprocess, sys, time
import pytest

borrowed = []

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass

def put_back():
    work(.2)                                        # longer than a moment
    borrowed.pop()

@contextlib.contextmanager
def borrow(before=0):
    borrowed.append(1)
    work(before)
    try: yield
    finally: put_back()

@pytest.fixture(scope='module')
def shared():
    borrowed.append(1)
    try: work(1); yield
    finally: put_back()

def test_that_works_too_long():
    with borrow(): work(1)

def test_whose_context_begins_too_slowly():
    with borrow(before=.2): work(1)

def test_whose_context_ends_too_slowly():
    with borrow(): pass

def test_that_ends_badly():
    try: work(1)
    finally:
        borrowed.append(1)
        try: 1/0
        except ZeroDivisionError: put_back()

def test_that_fills_the_tables_of_numba():
    exec(compile("borrowed.append(1); work(.2); borrowed.pop()", '/lib/numba_cuda/typing/context.py', 'exec'))
    work(1)

def test_that_catches_all():
    for _ in range(3):
        with contextlib.suppress(BaseException): work(1)

def test_whose_set_up_is_too_slow(shared): pass

def test_with_the_same_set_up(shared): pass

def test_that_starts_a_python(): subprocess.run([sys.executable, '-c', ''])

def test_short(capsys):
    print('said')
    assert not borrowed and capsys.readouterr().out == 'said\\n'
"""


def run(folder, *args):
    "What pytest says of `TESTS` in the fast tier"
    here = Path(__file__).parents[1]
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(map(str, [here, here.parent]))}
    return subprocess.run([sys.executable, '-m', 'pytest', '-p', 'conftest', '-p', 'no:xdist', '--fast', '-v', *args],
                          cwd=folder, env=env, capture_output=True, text=True).stdout


def test_what_is_left_out_leaves_nothing_behind(tmp_path):
    (tmp_path/'test_those.py').write_text(TESTS)
    said = run(tmp_path)
    ends = dict(re.findall(r'::(\w+) (\w+)', said))
    passed = {k for k, end in ends.items() if end == 'PASSED'}
    assert passed == {'test_short', 'test_whose_context_ends_too_slowly'}, said
    assert set(ends.values()) == {'PASSED', 'SKIPPED'} and '8 tests were left out' in said and len(ends) == 10
