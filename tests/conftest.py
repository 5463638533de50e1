"""Fixtures and hooks of all tests.

Kernels run on the emulator and the simulator, even on a machine with a GPU, except in tests with the mark `gpu` or
`real_backend`; the user's files are not touched. `course.py test --fast` selects the tests with neither of the marks
`slow` and `browser`. Tests with the mark `exhaustive` run with `--all`, or if they are named; the last line of a run
states how many were deselected.
"""

import gc, importlib, os, shutil, sys, threading, time
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from warm import warm_kernels, warm_ranks  # noqa: F401 (fixtures)

pytest.register_assert_rewrite('sim_cases')  # its functions are tests of two modules

# Set before any other import, so that session fixtures and the programs that tests start see it, too. Workers of xdist
# inherit it from the process that starts them.
REQUESTED_BACKEND = os.environ.setdefault('GRIDSTRIDE_GIVEN_BACKEND', os.environ.get('GRIDSTRIDE_BACKEND', ''))
os.environ.update(GRIDSTRIDE_BACKEND='sim', GRIDSTRIDE_QUIET='1', OMP_WAIT_POLICY='passive')
os.environ['OPENBLAS_NUM_THREADS'] = '1'  # on busy cores, two threads make a small product ten times slower
for name in ('GRIDSTRIDE_RECORD', 'GRIDSTRIDE_MISSED', 'GRIDSTRIDE_LOOKUPS', 'GRIDSTRIDE_CLAIMS',
             'GRIDSTRIDE_PROGRESS'):
    os.environ.pop(name, None)
# If it is set, as in many containers, each of the hundreds of Pythons that tests start would compile the package again.
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)

ROOT = Path(__file__).resolve().parents[1]
SLOW_SECONDS = 20
# A busy machine delays examples, which must not fail a test.
settings.register_profile('busy cores', deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile('busy cores')


# Imported modules and collected tests live until the end. To traverse them in each garbage collection would take a
# fifth of the time of a short run, and to collect the objects of tests as often as by default 3%.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def num_full_collections(): return gc.get_stats()[2]['collections']


num_collections_seen = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Exempt what outlives a test from later garbage collections, once the test has caused a full one. The package
    collects after every 16 modules that it loads, which takes a second in a process with the objects of many tests."""
    global num_collections_seen
    result = yield
    if num_full_collections() > num_collections_seen:
        gc.collect()
        gc.freeze()
        num_collections_seen = num_full_collections()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    """Import part of the test modules in each worker, so that together they rewrite the assertions of all edited
    modules; otherwise each worker would rewrite all of them"""
    worker = getattr(session.config, 'workerinput', None)
    if not worker or ROOT/'tests' not in map(Path.absolute, map(Path, session.config.args)): return
    modules = sorted((ROOT/'tests').rglob('test_*.py'), key=lambda path: path.stat().st_size)
    for path in modules[int(worker['workerid'][2:])::worker['workercount']]:
        # pytest imports a module that fails again, and reports the error
        with suppress(Exception, pytest.skip.Exception): import_path(path)


def import_path(path):
    "Import a test's module as pytest does"
    if (folder := str(path.parent)) not in sys.path: sys.path.insert(0, folder)
    importlib.import_module(path.stem)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Collect garbage once, and exempt what remains from the five collections of pytest at the end; count the threads
    that are still busy"""
    gc.collect()
    gc.freeze()
    if num_busy := len(busy_threads()):
        counts = getattr(session.config, 'workeroutput', session.config.stash.setdefault(COUNTS, {}))
        counts['busy'] = num_busy


def busy_threads(seconds=.4):
    "Return the ids of this process's other threads that use a core at the moment; none where Linux does not list them"
    before = cpu_ticks_of_threads()
    time.sleep(seconds)
    min_ticks = .05*seconds*os.sysconf('SC_CLK_TCK')  # few, because other processes may share the core
    return {thread for thread, ticks in cpu_ticks_of_threads().items()
            if thread != threading.get_native_id() and ticks - before.get(thread, ticks) > min_ticks}


def cpu_ticks_of_threads():
    "Return {thread id: ticks of CPU time}"
    ticks = {}
    for path in Path('/proc/self/task').glob('*/stat'):
        with suppress(OSError):  # the thread has ended
            fields = path.read_text().rpartition(')')[2].split()
            ticks[int(path.parent.name)] = int(fields[11]) + int(fields[12])
    return ticks


def pytest_addoption(parser):
    parser.addoption('--all', action='store_true', dest='all_tests', help='also run tests that are marked exhaustive')


def pytest_configure(config):
    config.addinivalue_line('markers', 'slow: uses a core for longer than half a second once its kernels are compiled')
    config.addinivalue_line('markers', 'browser: opens pages in a browser')
    config.addinivalue_line('markers', 'gpu: needs a GPU, is skipped without one, and runs its kernels there')
    config.addinivalue_line('markers', 'real_backend: runs kernels where a user would: on the GPU, if one is here')
    config.addinivalue_line('markers', 'exhaustive: one more case of what others cover; runs with --all, or if named')
    config.addinivalue_line('markers', 'one_order: each case runs in one of the orders of threads, in all with --all')
    config.addinivalue_line('markers', 'takes(seconds): slow; takes so long if nothing is compiled, and starts early')
    config.pluginmanager.register(Clock())
    config.pluginmanager.register(Selection())


@pytest.fixture(autouse=True)
def backend(request, monkeypatch):
    "Restore the requested backend in tests with a mark for it; in others, kernels are emulated"
    if not any(map(request.node.get_closest_marker, ('real_backend', 'gpu'))): return
    if REQUESTED_BACKEND: monkeypatch.setenv('GRIDSTRIDE_BACKEND', REQUESTED_BACKEND)
    else: monkeypatch.delenv('GRIDSTRIDE_BACKEND')


ORDERS = ['forward', 'reverse', 'shuffle']


@pytest.fixture(params=ORDERS)
def order(request):
    "Run the test with each order in which the emulator can run blocks and threads"
    from gridstride import cpp
    with cpp.options(order=request.param, seed=3): yield request.param


@pytest.fixture
def freeze_gc():
    "Exempt all existing objects from garbage collection, so that only the objects of the test are traversed"
    gc.freeze()


@pytest.fixture
def ipython():
    "Make a new IPython shell and remove it afterwards: while it exists, its namespace is that of `__main__`"
    from IPython.core.interactiveshell import InteractiveShell
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(colors='NoColor')
    yield shell
    shell.user_ns.clear()  # cheaper than `%reset`, which collects garbage twice
    shell.init_user_ns()
    InteractiveShell.clear_instance()


@pytest.fixture(scope='session')
def copied_course(tmp_path_factory):
    "Copy the course to run notebooks in. One copy is enough, as they change nothing there; compiled modules are copied"
    ignored = shutil.ignore_patterns('.*', 'tests', 'build', '_build', '_cache')
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp('copy')/'course', symlinks=True, ignore=ignored))


# Marks for the tests that use some fixtures

NOTEBOOK_FIXTURES = {'warm_kernels'}
SLOW_FIXTURES = {'site', 'lite', 'made', 'built'}
BROWSER_FIXTURES = {'browser_page', 'window'}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        fixtures = {*item.fixturenames}
        if fixtures & NOTEBOOK_FIXTURES: item.add_marker(pytest.mark.takes(10))
        if fixtures & SLOW_FIXTURES or item.get_closest_marker('takes'): item.add_marker('slow')
        if fixtures & BROWSER_FIXTURES: item.add_marker('browser')
    mark_other_orders(items)


def mark_other_orders(items):
    """Mark cases of `one_order` tests `exhaustive` in all but one order: the first of case 0, the second of case 1, ...
    A test with no other parameter has one case; the length of its name is the number of its order"""
    cases_of_test = {}  # test -> its cases, without the order
    for item in (item for item in items if item.get_closest_marker('one_order')):
        if not (order := getattr(item, 'callspec', None) and item.callspec.params.get('order')): continue
        test = item.nodeid.partition('[')[0]
        cases = cases_of_test.setdefault(test, [])
        case = item.callspec.id.replace(order, '')
        if case not in cases: cases.append(case)
        number = cases.index(case) if len(item.callspec.params) > 1 else len(test)
        if number % len(ORDERS) != ORDERS.index(order): item.add_marker('exhaustive')


def deselect_exhaustive(config, items):
    "Deselect tests that are marked `exhaustive`, unless `--all`, `-m` or a name (`file::test`) requests them"
    is_named = any('::' in arg for arg in config.args)
    is_requested = config.option.all_tests or 'exhaustive' in config.option.markexpr or is_named
    exhaustive = [] if is_requested else [item for item in items if item.get_closest_marker('exhaustive')]
    if not exhaustive: return
    items[:] = [item for item in items if not item.get_closest_marker('exhaustive')]
    config.hook.pytest_deselected(items=exhaustive)
    getattr(config, 'workeroutput', config.stash.setdefault(COUNTS, {}))['left'] = len(exhaustive)


class Selection:
    "Deselects exhaustive tests and sorts the others, after the selection by `-m` and `-k`"
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        deselect_exhaustive(config, items)
        items[:] = order_for_workers(items, getattr(config, 'workerinput', {}).get('workercount', 1))


# {'left': number of tests that only run with `--all`, 'busy': number of threads that use a core after the tests}
COUNTS = pytest.StashKey()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    "Keep the counts of a worker; the number of deselected tests is the same in all workers"
    node.config.stash.setdefault(COUNTS, {}).update(getattr(node, 'workeroutput', {}))


def pytest_terminal_summary(terminalreporter, config):
    counts = config.stash.get(COUNTS, {})
    if counts.get('busy'):
        terminalreporter.write_line(f"Threads that tests started and that still use a core: {counts['busy']}. They "
                                    'slow down all later tests: let them end, or sleep')
    if num_deselected := counts.get('left'):
        what = f'{num_deselected} tests are' if num_deselected > 1 else '1 test is'
        terminalreporter.write_line(f'{what} left to: python3 course.py test --all')


def pytest_runtest_setup(item):
    from gridstride.utils import gpu_count
    if item.get_closest_marker('gpu') and not gpu_count(): pytest.skip('requires a GPU')


class Clock:
    "Reports slow tests without the mark `takes`"
    def __init__(self): self.unmarked = {}

    def pytest_runtest_logreport(self, report):
        if report.duration > SLOW_SECONDS and 'takes' not in report.keywords:
            self.unmarked[report.nodeid] = report.duration

    def pytest_terminal_summary(self, terminalreporter):
        for name, t in self.unmarked.items():
            terminalreporter.write_line(f'{name} took {t:.0f} s. If it does where nothing else runs, mark it '
                                        f'pytest.mark.takes({t:.0f}): it starts early, and no worker ends late.')


# The longest first, so that the last test to end does not keep one core busy alone.

def marked_seconds(item): return mark.args[0] if (mark := item.get_closest_marker('takes')) else 0


def order_for_workers(items, num_workers):
    """Sort tests into one part per worker, each with its longest tests first. xdist starts each worker with one part; a
    worker that is done takes tests from the end of another's part."""
    items = sorted(items, key=marked_seconds, reverse=True)
    long_tests = [item for item in items if marked_seconds(item)]
    short_tests = iter(items[len(long_tests):])
    ordered = []
    for i in range(num_workers):
        worker_tests = long_tests[i::num_workers]
        size = len(items)*(i+1)//num_workers - len(items)*i//num_workers
        ordered += [*worker_tests, *islice(short_tests, max(0, size - len(worker_tests)))]
    return [*ordered, *short_tests]
