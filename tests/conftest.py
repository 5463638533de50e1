"""What all tests share.

Kernels run on the emulator and the simulator, whatever GPU is here, but for the tests that say they want the real
thing; nothing of the user's is touched. `--fast` leaves out the slow tier: a test is stopped where it calls a compiler
or starts a Python, and when it has used the processor for longer than a moment. What lies compiled in the cache is
loaded, so that most of the emulator's tests run.
"""

import gc, os, re, shlex, shutil, signal, subprocess, sys, threading
from itertools import islice
from pathlib import Path

import pytest
from warm import used_by_kernels, warm_kernels  # noqa: F401 (a fixture)

# Set before anything is imported: fixtures of a session and the programs that tests start have it, too. The processes
# that share the tests are started by one that has set it already.
GIVEN = os.environ.setdefault('GRIDSTRIDE_GIVEN_BACKEND', os.environ.get('GRIDSTRIDE_BACKEND', ''))
os.environ.update(GRIDSTRIDE_BACKEND='sim', GRIDSTRIDE_QUIET='1', OMP_WAIT_POLICY='passive')
for name in ('GRIDSTRIDE_RECORD', 'GRIDSTRIDE_MISSED', 'GRIDSTRIDE_CLAIMS', 'GRIDSTRIDE_PROGRESS'):
    os.environ.pop(name, None)
# Where it is set, as containers do, each of the hundreds of Pythons that tests start would compile the package anew.
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 'gridstride/seconds'  # in pytest's cache: for how long each test used the processor when it last ran
MOMENT = .15  # seconds
LONG = 20  # seconds


# What is imported and collected stays until the end: looking through it for garbage, again and again as it grows, takes
# a fifth of the time of a short run; looking through what tests make as often as Python does it, 3% of one.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    "Pytest looks through all for garbage five times at the end; once is enough"
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption('--fast', action='store_true', help='leave out what compiles C++, starts a Python or takes long')


def pytest_configure(config):
    config.addinivalue_line('markers', 'real_backend: runs kernels where a user would: on the GPU, if one is here')
    config.addinivalue_line('markers', 'own_process: runs in a process where no other test has run, as a new kernel is')
    config.addinivalue_line('markers', 'takes(seconds): takes so long where nothing is compiled yet, and starts early')
    if config.getoption('fast'):
        limit = Limit(seconds(config))
        leave_out_what_starts_programs(limit)
        config.pluginmanager.register(limit)
    config.pluginmanager.register(Clock(config))


def seconds(config): return config.cache.get(SECONDS, {}) if getattr(config, 'cache', None) else {}


@pytest.fixture(autouse=True)
def backend(request, monkeypatch):
    "Kernels run emulated, but for tests that want the real thing and say so"
    if not request.node.get_closest_marker('real_backend'): return
    if GIVEN: monkeypatch.setenv('GRIDSTRIDE_BACKEND', GIVEN)
    else: monkeypatch.delenv('GRIDSTRIDE_BACKEND')


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    "Run a test that wants its own process there, unless this process has no other"
    if not (pyfuncitem.get_closest_marker('own_process') and 'PYTEST_XDIST_WORKER' in os.environ): return None
    env = {k: v for k, v in os.environ.items() if not k.startswith('PYTEST_')}
    command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', pyfuncitem.nodeid]
    ran = subprocess.run(command, cwd=pyfuncitem.config.rootpath, env=env, capture_output=True, text=True)
    assert ran.returncode == 0 and '1 passed' in ran.stdout, ran.stdout + ran.stderr
    return True


@pytest.fixture(params=['forward', 'reverse', 'shuffle'])
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


# The fast tier

SLOW = re.compile(r'python[\d.]*|([\w-]+-)?(g|c|clang)\+\+[-\d]*|gcc|clang|nvcc|ptxas|nvdisasm|cuobjdump|jupyter.*'
                  r'|chrom.*|firefox.*|qemu-.*')
ASKS = {'--version', '-dumpversion', '-V'}


def is_slow(command):
    words = shlex.split(command) if isinstance(command, str) else [str(o) for o in command]
    return bool(SLOW.fullmatch(Path(words[0]).name)) and not ASKS & set(words)


def leave_out_what_starts_programs(limit):
    "From now on a test that starts a compiler or a Python is skipped; what other threads start goes on"
    start = subprocess.Popen.__init__
    def guarded(self, args, *more, **kw):
        if ('PYTEST_CURRENT_TEST' in os.environ and threading.current_thread() is threading.main_thread()
            and is_slow(args)):
            limit.stop()
        start(self, args, *more, **kw)
    subprocess.Popen.__init__ = guarded


# An import, a context's begin and end; Numba, whose tables are filled by the first kernel that it compiles: what is
# half filled stays so, and every later kernel fails of it; and Playwright, whose connection to a browser, which later
# tests use, too, is closed by what is raised in it.
WHOLE = re.compile(r'<frozen importlib.*|.*[/\\](numba(_cuda)?|playwright)[/\\].*')


def is_whole(code):
    "Is this code of what is done wholly or not at all?"
    return bool(WHOLE.match(code.co_filename)) or code.co_name in ('__enter__', '__exit__')


def is_skipping(e):
    "Is a skip on its way out, also below an exception that was raised meanwhile?"
    return bool(e) and (isinstance(e, pytest.skip.Exception) or is_skipping(e.__context__))


class Limit:
    "Skips a test that is known to take long, or that does"
    def __init__(self, known):
        self.known,self.over = known,False
        signal.signal(signal.SIGPROF, self.tick)

    def tick(self, _, frame):
        """Stop, but neither in the middle of what would be left half done to the tests that follow, nor again on the
        way out, where what was borrowed is put back"""
        while frame and not is_whole(frame.f_code): frame = frame.f_back
        if not (frame or is_skipping(sys.exc_info()[1])): self.stop()

    def stop(self):
        self.over = True
        pytest.skip('left out by --fast')

    # trylast: closest to what is limited, so that no other plugin is stopped half-way, such as the one that captures
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_setup(self, item):
        if self.known.get(item.nodeid, 0) > MOMENT: pytest.skip('left out by --fast')
        yield from self.limited()

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self): yield from self.limited()

    def limited(self):
        "Whoever catches the skip, or dies of it, was left out; it comes again should it be lost"
        self.over = False
        signal.setitimer(signal.ITIMER_PROF, MOMENT, MOMENT)
        try: outcome = yield
        finally: signal.setitimer(signal.ITIMER_PROF, 0)
        if self.over: outcome.force_exception(pytest.skip.Exception('left out by --fast'))


def pytest_terminal_summary(terminalreporter):
    left_out = [r for r in terminalreporter.stats.get('skipped', []) if 'left out by --fast' in str(r.longrepr)]
    if left_out:
        terminalreporter.write_line(f'{len(left_out)} tests were left out: they compile, start programs or take long. '
                                    'All: python3 course.py test')


# How long tests take

def used(): return sum(os.times()[:4]) + used_by_kernels()


class Clock:
    "Notes for how long each test and what it starts use the processor, and keeps that in pytest's cache"
    def __init__(self, config): self.config,self.start,self.seconds,self.unmarked = config,0,{},{}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self): self.start = used()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, call):
        report = (yield).get_result()
        if call.when == 'teardown': report.user_properties.append(('used', used()-self.start))

    def pytest_runtest_logreport(self, report):
        self.seconds.update((report.nodeid, t) for name,t in report.user_properties if name == 'used')
        if report.duration > LONG and 'takes' not in report.keywords: self.unmarked[report.nodeid] = report.duration

    def pytest_terminal_summary(self, terminalreporter):
        for name, t in self.unmarked.items():
            terminalreporter.write_line(f'{name} took {t:.0f} s. If it does where nothing else runs, mark it '
                                        f'pytest.mark.takes({t:.0f}): it starts early, and nobody waits for it alone.')

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        if hasattr(self.config, 'workerinput') or not getattr(self.config, 'cache', None): return
        known = seconds(self.config)
        fast = self.config.getoption('fast')  # what was left out may take longer than it seemed to
        known.update({k: round(t, 2) for k,t in self.seconds.items() if not fast or t > known.get(k, 0)})
        self.config.cache.set(SECONDS, known)


# The longest first, so that the last test to end does not keep one core busy alone.

def pytest_collection_modifyitems(config, items):
    for o in items:
        if 'warm_kernels' in o.fixturenames: o.add_marker(pytest.mark.takes(10))  # notebooks
    items[:] = dealt(items, getattr(config, 'workerinput', {}).get('workercount', 1))


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
