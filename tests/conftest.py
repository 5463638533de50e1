"""What all tests share.

Kernels run on the emulator and the simulator, even if a GPU is here, except in tests that are marked `gpu` or
`real_backend`; no file of the user's is touched. `course.py test --fast` selects the tests that are marked neither
`slow` nor `browser`. Tests that are marked `exhaustive` run with `--all`, or if they are named; the last line of a run
says how many were left out.
"""

import gc, importlib, os, shutil, sys
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from warm import warm_kernels  # noqa: F401 (a fixture)

pytest.register_assert_rewrite('sim_cases')  # its functions are tests of two modules

# Set before anything is imported: fixtures of a session and the programs that tests start have it, too. The processes
# that share the tests are started by one that has set it already.
GIVEN = os.environ.setdefault('GRIDSTRIDE_GIVEN_BACKEND', os.environ.get('GRIDSTRIDE_BACKEND', ''))
os.environ.update(GRIDSTRIDE_BACKEND='sim', GRIDSTRIDE_QUIET='1', OMP_WAIT_POLICY='passive')
os.environ['OPENBLAS_NUM_THREADS'] = '1'  # two threads on busy cores slow a small product down tenfold
for name in ('GRIDSTRIDE_RECORD', 'GRIDSTRIDE_MISSED', 'GRIDSTRIDE_LOOKUPS', 'GRIDSTRIDE_CLAIMS',
             'GRIDSTRIDE_PROGRESS'):
    os.environ.pop(name, None)
# Where it is set, as containers do, each of the hundreds of Pythons that tests start would compile the package again.
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)

ROOT = Path(__file__).resolve().parents[1]
LONG = 20  # seconds


# What is imported and collected stays until the end: looking through it for garbage, again and again as it grows, takes
# a fifth of the time of a short run; looking through what tests make as often as Python does it, 3% of one.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    """Pytest rewrites the assertions of a module that was edited, or is new. Each of the processes that share the tests
    would do so for all modules: it imports a part of them first, and finds the others rewritten by then"""
    mine = getattr(session.config, 'workerinput', None)
    if not mine or ROOT/'tests' not in map(Path.absolute, map(Path, session.config.args)): return
    modules = sorted((ROOT/'tests').rglob('test_*.py'), key=lambda o: o.stat().st_size)
    for path in modules[int(mine['workerid'][2:])::mine['workercount']]:
        # what fails is imported again where the module is collected, which reports it
        with suppress(Exception, pytest.skip.Exception): import_path(path)


def import_path(path):
    "Import a test's module as pytest does"
    if (folder := str(path.parent)) not in sys.path: sys.path.insert(0, folder)
    importlib.import_module(path.stem)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    "Pytest looks through all for garbage five times at the end; once is enough"
    gc.collect()
    gc.freeze()


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
    "Kernels run emulated, except in tests with a mark that requests a GPU"
    if not any(map(request.node.get_closest_marker, ('real_backend', 'gpu'))): return
    if GIVEN: monkeypatch.setenv('GRIDSTRIDE_BACKEND', GIVEN)
    else: monkeypatch.delenv('GRIDSTRIDE_BACKEND')


ORDERS = ['forward', 'reverse', 'shuffle']


@pytest.fixture(params=ORDERS)
def order(request):
    "The order in which the emulator runs blocks and threads: the test is run in each"
    from gridstride import cpp
    with cpp.options(order=request.param, seed=3): yield request.param


@pytest.fixture
def young():
    "From now on garbage is looked for among what the test makes, not through all that was made before"
    gc.freeze()


@pytest.fixture
def ipython():
    "A new shell as notebooks have it, and none afterwards: while there is one, its cells' functions are `__main__`'s"
    from IPython.core.interactiveshell import InteractiveShell
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(colors='NoColor')
    yield shell
    shell.user_ns.clear()  # `%reset` looks through all that there is for garbage, twice
    shell.init_user_ns()
    InteractiveShell.clear_instance()


@pytest.fixture(scope='session')
def copied_course(tmp_path_factory):
    "A copy of the course to run notebooks in: one for all, compiled as the course is, since they change nothing there"
    ignored = shutil.ignore_patterns('.*', 'tests', 'build', '_build', '_cache')
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp('copy')/'course', symlinks=True, ignore=ignored))


# Marks that say what a test needs

NOTEBOOKS = {'warm_kernels'}  # fixtures, and the marks of the tests that use them
SLOW = {'site', 'lite', 'made', 'built'}
BROWSERS = {'browser_page', 'window'}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for o in items:
        used = {*o.fixturenames}
        if used & NOTEBOOKS: o.add_marker(pytest.mark.takes(10))
        if used & SLOW or o.get_closest_marker('takes'): o.add_marker('slow')
        if used & BROWSERS: o.add_marker('browser')
    leave_orders_out(items)


def leave_orders_out(items):
    "Mark cases `exhaustive` of tests with the mark `one_order`: case 0 stays in order 0, case 1 in order 1, and so on"
    met = {}  # test -> its cases, without the order
    for o in (o for o in items if o.get_closest_marker('one_order')):
        order, known = o.callspec.params['order'], met.setdefault(o.nodeid.partition('[')[0], [])
        case = o.callspec.id.replace(order, '')
        if case not in known: known.append(case)
        if known.index(case) % len(ORDERS) != ORDERS.index(order): o.add_marker('exhaustive')


def leave_out_exhaustive(config, items):
    "Deselect tests that are marked `exhaustive`, unless `--all`, `-m` or a name (`file::test`) requests them"
    asked = config.option.all_tests or 'exhaustive' in config.option.markexpr or any('::' in o for o in config.args)
    left = [] if asked else [o for o in items if o.get_closest_marker('exhaustive')]
    if not left: return
    items[:] = [o for o in items if not o.get_closest_marker('exhaustive')]
    config.hook.pytest_deselected(items=left)
    getattr(config, 'workeroutput', config.stash.setdefault(LEFT, {}))['left'] = len(left)


class Selection:
    "Leaves out what is exhaustive, then sorts, once `-m` and `-k` have selected"
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        leave_out_exhaustive(config, items)
        items[:] = dealt(items, getattr(config, 'workerinput', {}).get('workercount', 1))


LEFT = pytest.StashKey()  # {'left': how many tests are left to `--all`}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    "Each of the processes that share the tests has left out the same ones"
    node.config.stash.setdefault(LEFT, {}).update(getattr(node, 'workeroutput', {}))


def pytest_terminal_summary(terminalreporter, config):
    if left := config.stash.get(LEFT, {}).get('left'):
        what = f'{left} tests are' if left > 1 else '1 test is'
        terminalreporter.write_line(f'{what} left to: python3 course.py test --all')


def pytest_runtest_setup(item):
    from gridstride.utils import gpu_count
    if item.get_closest_marker('gpu') and not gpu_count(): pytest.skip('needs a GPU')


class Clock:
    "Reports the tests that take long and are not marked so"
    def __init__(self): self.unmarked = {}

    def pytest_runtest_logreport(self, report):
        if report.duration > LONG and 'takes' not in report.keywords: self.unmarked[report.nodeid] = report.duration

    def pytest_terminal_summary(self, terminalreporter):
        for name, t in self.unmarked.items():
            terminalreporter.write_line(f'{name} took {t:.0f} s. If it does where nothing else runs, mark it '
                                        f'pytest.mark.takes({t:.0f}): it starts early, and no worker ends late.')


# The longest first, so that the last test to end does not keep one core busy alone.

def takes(item): return mark.args[0] if (mark := item.get_closest_marker('takes')) else 0


def dealt(items, workers):
    """Those that take long first, the longest at the front, in each of as many parts as there are workers: xdist gives
    each worker one part to begin with, and those who are done take from the end of the others'"""
    items = sorted(items, key=takes, reverse=True)
    long = [o for o in items if takes(o)]
    short = iter(items[len(long):])
    res = []
    for i in range(workers):
        mine = long[i::workers]
        size = len(items)*(i+1)//workers - len(items)*i//workers
        res += [*mine, *islice(short, max(0, size - len(mine)))]
    return [*res, *short]
