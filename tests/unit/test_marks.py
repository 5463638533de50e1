"The marks by which `course.py test` selects tests, with `--fast` and `--all`, too; what a run reports."
import os, re, subprocess, sys, threading
from pathlib import Path

import pytest
from conftest import busy_threads
from exhaustive import included_values, mark_exhaustive, pairwise, some

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

@pytest.mark.exhaustive
def test_exhaustive(): pass

@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_cases(n): pass

@pytest.mark.one_order
@pytest.mark.parametrize('n', [1, 2])
def test_orders(n, order): pass

def test_that_builds_the_site(site): pass

def test_that_opens_a_page(browser_page): pass

@pytest.mark.gpu
def test_on_a_gpu():
    from gridstride.utils import gpu_count
    assert gpu_count()
"""


def ran(folder, *args):
    "What pytest prints for those of `TESTS` that it selects"
    (folder/'test_those.py').write_text(TESTS)
    here = Path(__file__).parents[1]
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(map(str, [here, here.parent]))}
    return subprocess.run([sys.executable, '-m', 'pytest', '-p', 'conftest', '-v', *args], cwd=folder, env=env,
                          capture_output=True, text=True).stdout


def outcomes(said): return dict(re.findall(r'::(\w+(?:\[[\w-]+\])?) (PASSED|FAILED|SKIPPED|ERROR)', said))


USUAL = {'test_short', 'test_slow', 'test_that_takes_long', 'test_that_builds_the_site', 'test_that_opens_a_page',
         'test_on_a_gpu', 'test_cases[1]', 'test_orders[forward-1]', 'test_orders[reverse-2]'}

SLOW = {'test_slow', 'test_that_takes_long', 'test_that_builds_the_site', 'test_that_opens_a_page'}
LEFT = 6


def left(said):
    "How many tests the summary says that it leaves to `--all`, once; 0 if it says nothing"
    return sum(map(int, re.findall(r'^(\d+) tests? (?:is|are) left to: python3 course.py test --all', said, re.M)))


@pytest.mark.slow
def test_fast_tests_are_neither_slow_nor_in_a_browser_nor_exhaustive(tmp_path):
    said = ran(tmp_path, '-p', 'no:xdist', '-m', 'not slow and not browser')
    assert outcomes(said).keys() == USUAL - SLOW and left(said) == 6
    assert outcomes(said)['test_short'] == 'PASSED'


@pytest.mark.slow
def test_a_run_counts_what_it_leaves_to_all(tmp_path):
    said = ran(tmp_path, '-p', 'no:xdist')
    usual = outcomes(said)
    assert usual.keys() == USUAL and {end for name, end in usual.items() if name != 'test_on_a_gpu'} == {'PASSED'}
    assert usual['test_on_a_gpu'] in ('PASSED', 'SKIPPED')
    assert left(said) == LEFT and f'{LEFT} deselected' in said


@pytest.mark.exhaustive
def test_all_leaves_nothing(tmp_path):
    said = ran(tmp_path, '--all', '-n', '2')
    assert len(re.findall('PASSED|SKIPPED', said)) >= len(USUAL) + LEFT and not left(said)


@pytest.mark.slow
def test_processes_that_share_the_tests_leave_out_the_same_ones(tmp_path):
    assert left(said := ran(tmp_path, '-n', '2')) == LEFT and 'test_exhaustive' not in said


@pytest.mark.slow
def test_an_exhaustive_test_that_is_named_runs_and_others_are_not_counted(tmp_path):
    said = ran(tmp_path, '-p', 'no:xdist', '-k', 'cases')
    assert outcomes(said) == {'test_cases[1]': 'PASSED'} and left(said) == 1
    said = ran(tmp_path, '-p', 'no:xdist', 'test_those.py::test_exhaustive', 'test_those.py::test_cases')
    assert outcomes(said) == dict.fromkeys(['test_exhaustive', 'test_cases[1]', 'test_cases[2]'], 'PASSED')


def is_usual(case): return not hasattr(case, 'marks')


def test_some_cases_are_left_to_all():
    cases = some([(1, 'a'), (2, 'b'), 3, pytest.param(4, id='d')], 2, first=1)
    assert [*map(is_usual, cases)] == [False, True, False, False] and cases[3].marks == () and cases[3].id == 'd'
    assert cases[0].values == (1, 'a') and cases[2].values == (3,)
    assert [o.name for o in cases[0].marks] == ['exhaustive'] == [o.name for o in mark_exhaustive('x').marks]


def test_each_pair_of_values_runs_each_time():
    axes = 'ab', range(3), 'xyz'
    cases = pairwise(*axes)
    usual = [o for o in cases if is_usual(o)]
    assert len(cases) == 18 and 9 <= len(usual) <= 11
    for i, j in (0, 1), (0, 2), (1, 2):
        assert {(o[i], o[j]) for o in usual} == {(p, q) for p in axes[i] for q in axes[j]}


def test_what_a_run_leaves_out_is_not_at_hand(request, monkeypatch):
    cases = some([(1, 'a'), (2, 'b')], 2)
    for every, found in (False, [(1, 'a')]), (True, [(1, 'a'), (2, 'b')]):
        monkeypatch.setattr(request.config.option, 'all_tests', every)
        assert included_values(request, cases) == found


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='lists its threads in /proc')
def test_threads_that_use_a_core_are_reported_and_those_that_wait_are_not():
    end = threading.Event()
    def spin():
        while not end.is_set(): pass
    spinning, waiting = threading.Thread(target=spin, daemon=True), threading.Thread(target=end.wait, daemon=True)
    for thread in (spinning, waiting): thread.start()
    try:
        found = [busy_threads()]
        while spinning.native_id not in found[-1] and len(found) < 50: found.append(busy_threads())  # a busy machine
    finally: end.set()
    assert spinning.native_id in found[-1] and not any(waiting.native_id in threads for threads in found)
    spinning.join()
    assert spinning.native_id not in busy_threads(.05)
