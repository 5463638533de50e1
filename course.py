#!/usr/bin/env python3
"""Sets up the course and opens it. Needs Python 3.10 or newer, and nothing else.

python3 course.py [NN]         set up, then open JupyterLab on lesson NN (01)
    --port N                   first port to try (8888)
    --no-browser               print the address instead of opening a browser
python3 course.py setup        set up only
python3 course.py test [ARGS]  set up, then run the tests; ARGS go to pytest
    --fast                     while editing: without those that are marked slow or browser
python3 course.py run [NN ...] execute lessons, or all of them, and say how each went
    --save                     write the outputs back into the lessons that ran to their end
    --jobs N                   how many at a time (1)
python3 course.py record NN ... execute lessons on a machine with a GPU, and keep in nbs/recorded what others are shown
python3 course.py site         build the site of the course, in site/_build, from the notebooks as they are
    --serve [N]                then serve it on this machine, at port N or the next free one (8000)
python3 course.py canary [ARGS] test with the newest of what the course needs, in .canary; ARGS go to pytest
    --keep                     with what is in .canary already
python3 course.py doctor       what is here, what is missing, and the command that mends it
python3 course.py progress     which exercises are solved
python3 course.py clean        remove .venv and what was built; notebooks and progress stay
"""
import signal, sys

if __name__ == '__main__' and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C prints no traceback before main() can answer it

if sys.version_info < (3, 10):
    sys.stderr.write('Python 3.10 or newer is needed, and this is %d.%d. Install a newer one and start with it, '
                     'like this: python3.12 course.py\n' % sys.version_info[:2])
    sys.exit(2)

import argparse, errno, hashlib, json, os, re, secrets, shutil, socket, subprocess, tempfile, threading
import time, webbrowser
from configparser import ConfigParser
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # Windows

ROOT = Path(__file__).resolve().parent
VENV = ROOT/'.venv'
PYTHON = VENV/('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
STAMP = VENV/'setup.json'
LOG = VENV/'setup.log'
LOCK = ROOT/'.venv.lock'
GONE = '.venv.gone-'  # how the name begins that .venv gets before it is removed
INPUTS = ['constraints.txt', 'settings.ini', 'setup.py', 'pyproject.toml']
PORTS = 100  # how many ports to try

sys.path.insert(0, str(ROOT))
from gridstride.course import doctor, lessons


def fail(message):
    "One line on what is wrong and what to do, and exit status 2"
    sys.stderr.write(f'{message}\n')
    sys.exit(2)


def parser(command, about):
    "A parser of one command's arguments that fails in one line"
    p = argparse.ArgumentParser(prog=f'course.py {command}'.strip(), description=about)
    p.error = lambda message: fail(f'{message}. See: python3 course.py --help')
    return p


# Problems of a set-up are reported before it starts, if they can be seen then.

def check_machine():
    "Fail unless a virtual environment and C++ code can be made here"
    if not (find_spec('venv') and find_spec('ensurepip')):
        fail(f"This Python cannot make virtual environments. Fix it with: {doctor.mend('venv')}")
    if not doctor.compiler():
        fail(f"No C++ compiler was found: neither g++, clang++, c++ nor $CXX. Fix it with: {doctor.mend('compiler')}")


def check_space():
    "Fail unless the disk has room for a first set-up"
    free = shutil.disk_usage(ROOT).free
    if free < doctor.MIN_FREE:
        fail(f'{free/1e9:.1f} GB are free on the disk of {ROOT}, and setting up takes {doctor.MIN_FREE/1e9:.0f} GB. '
             'Free some space, then run the same command again.')


AGAIN = 'then run the same command again; it continues where it stopped.'
CAUSES = [  # what the log says, and what to do
    (r'No space left on device|Errno 28|disk quota', f'The disk is full. Free some space, {AGAIN}'),
    (r'NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|ConnectionResetError'
     r'|ProtocolError|Temporary failure in name resolution|Network is unreachable|Connection refused|Read timed out'
     r'|Connection broken|IncompleteRead', f'The network cannot be reached, or the connection broke. Connect, {AGAIN}'),
]


def cause(lines):
    "What a failed step's output means, in one line"
    text = ''.join(lines)
    for pattern, advice in CAUSES:
        if re.search(pattern, text): return advice
    said = [l.strip() for l in lines if l.strip()] or ['it printed nothing']
    return next((l for l in said if l.startswith('ERROR')), said[-1])


# One step of setting up: a child process whose noise goes to the log, and a line that says how far it is.

def doing(line):
    "What pip does now, in a few words, if this line of its output says so"
    if line.startswith('Installing collected packages'): return f"installing {line.count(',')+1} packages"
    m = re.match(r'\s*(Collecting|Downloading|Building|Preparing|Obtaining) (\S+)', line)
    return f"{m[1].lower()} {m[2].rsplit('/', 1)[-1]}" if m else None


def show(text, end=''):
    "Put `text` in place of the terminal's last line"
    print(f'\r{text[:shutil.get_terminal_size().columns-1]}\x1b[K', end=end, flush=True)


def stop(child):
    "End a child process and all that it started"
    kill = (lambda s: os.killpg(child.pid, s)) if os.name != 'nt' else child.send_signal
    for s in (signal.SIGTERM, getattr(signal, 'SIGKILL', signal.SIGTERM)):
        if child.poll() is not None: return
        kill(s)
        try: child.wait(5)
        except subprocess.TimeoutExpired: pass


def follow(child, log, lines):
    "Copy what `child` prints into `log` and `lines`"
    for line in child.stdout:
        log.write(line)
        log.flush()
        lines.append(line)


def launch(cmd, lock):
    "Start `cmd` in a session of its own. It holds the lock, too: should it outlive this process, others wait for it"
    return subprocess.Popen(list(map(str, cmd)), cwd=ROOT, env=environment(), pass_fds=[lock.fileno()] if fcntl else [],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                            encoding='utf-8', errors='replace', start_new_session=True)


def follow_to_end(cmd, lock, lines, title):
    "Run `cmd`, with what it does now beside `title()` in a terminal; its exit status"
    with open(LOG, 'a', encoding='utf-8') as log:
        child = launch(cmd, lock)
        try:
            reader = threading.Thread(target=follow, args=(child, log, lines), daemon=True)
            reader.start()
            while reader.is_alive():
                reader.join(.2)
                now = next(filter(None, map(doing, reversed(lines))), '')
                if sys.stdout.isatty(): show(f'{title()}  {now}')
            return child.wait()
        finally: stop(child)


def attempt(lock, which, what, *cmd):
    "Run `cmd` and show what it is doing; its exit status, and what it printed"
    live, start, lines = sys.stdout.isatty(), time.monotonic(), []
    if not live: print(f'{which} {what} ...', flush=True)
    status = follow_to_end(cmd, lock, lines, lambda: f'{which} {what}, {time.monotonic()-start:.0f} s')
    done = f"{which} {what}: {'failed' if status else 'done'}, {time.monotonic()-start:.0f} s"
    show(done, end='\n') if live else print(done, flush=True)
    return status, lines


def step(lock, which, what, *cmd):
    "`attempt`, and fail in one line if that does"
    status, lines = attempt(lock, which, what, *cmd)
    if status: fail(f'{cause(lines)} The whole log: {LOG}')


# One at a time. The lock is the operating system's: it ends with the last process that holds it, however that ends.

def acquire(lock):
    "Lock the file `lock`; say for whom this waits, if it must"
    try: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().decode(errors='replace') or 'another course.py'
        print(f'Waiting for {holder}, which is running here (Ctrl-C stops waiting) ...', flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError: pass  # a disk without locks, as some network drives are


@contextmanager
def locked(what):
    "Keep every other set-up or clean of this folder waiting; they say that it is for `what`"
    with open(LOCK, 'ab+', buffering=0) as lock:
        if fcntl: acquire(lock)
        with suppress(OSError):  # a full disk, where `clean` must work all the more
            lock.truncate(0)
            lock.write(f'{what} (process {os.getpid()})'.encode())
        yield lock


# The set-up: .venv, and a stamp in it that says for what it was made. No stamp means that it is not finished.

def fingerprint():
    "What must be the same for a finished set-up to count: the requirements, and where the course is"
    files = b'\0'.join((ROOT/f).read_bytes() for f in INPUTS)
    return hashlib.sha256(files + os.fsencode(ROOT)).hexdigest()


def stamp():
    "What the finished set-up in .venv was made for; an empty dict when it is not finished, or the stamp is damaged"
    try:
        made = json.loads(STAMP.read_bytes())
        extras = made['extras']
        whole = {'inputs', 'python'} < set(made) and extras == sorted(extras) and all(map(str.isidentifier, extras))
    except (OSError, ValueError, TypeError, LookupError, RecursionError): return {}
    return made if whole else {}


def version():
    "The version of .venv's Python, which must be an environment of its own with pip; None when it is not"
    return doctor.environment_version(VENV, environment())


def remove(path):
    "Remove a file, link or folder, and say whether it was there"
    if path.is_symlink() or path.is_file(): path.unlink()
    elif path.is_dir(): shutil.rmtree(path)
    else: return False
    return True


def remove_environment():
    """Remove .venv, and what removals that were interrupted left; the list of what was there

    .venv gets another name first, which happens at once or not at all: nobody takes the half of one for a whole.
    """
    there = [p for p in [VENV, *ROOT.glob(f'{GONE}*')] if os.path.lexists(p)]
    if VENV in there: VENV.rename(ROOT/f'{GONE}{secrets.token_hex(4)}')
    for p in ROOT.glob(f'{GONE}*'): remove(p)
    return there


def drop_half_installed():
    "Make pip forget the packages whose installation was cut short: the list of files comes last"
    for d in VENV.glob('lib/*/site-packages/*.dist-info'):
        if not (d/'RECORD').exists(): shutil.rmtree(d)


# JupyterLab: no question about news, no look for updates.
NOTIFICATION = {'fetchNews': 'false', 'checkForUpdates': False}
# Kernels: no warning that they talk over TCP, as they always did; an exercise before the lesson's first cell is no bare
# NameError.
FIRST_CELL = 'from gridstride.support.short_tracebacks import point_to_first_cell as _f; _f(); del _f'
QUIET = {
    'share/jupyter/lab/settings/overrides.json': {'@jupyterlab/apputils-extension:notification': NOTIFICATION},
    'etc/ipython/ipython_kernel_config.json': {'IPKernelApp': {'log_level': 'ERROR', 'exec_lines': [FIRST_CELL]}},
}


def quieten():
    "Write settings that keep JupyterLab and its kernels from saying what no learner can use"
    for path, settings in QUIET.items():
        (VENV/path).parent.mkdir(parents=True, exist_ok=True)
        (VENV/path).write_text(json.dumps(settings, indent=1))


BROKEN = (f'{VENV} is broken: its Python or its pip does not work, or its Python is not its own. '
          'Run this, then start again: python3 course.py clean')


def working_version():
    "`version()`; fails where there is none"
    return version() or fail(BROKEN)


def wanted(made, extras):
    "What .venv is to be made for: the requirements, this place, and all extras that were ever asked for"
    return dict(inputs=fingerprint(), extras=sorted({'course', *extras, *made.get('extras', [])}))


def finished(made, extras):
    "Whether a set-up that left the stamp `made` needs nothing done for `extras`"
    return bool(made) and {**made, **wanted(made, extras)} == made and version() == made['python']


def setup(*extras):
    "Make .venv hold what the lessons need, and `extras`; nothing happens when it already does"
    if finished(stamp(), extras): return
    check_machine()
    with locked('the set-up') as lock:
        if not finished(stamp(), extras): complete(extras, lock)  # who had the lock before may have done it


def complete(extras, lock):
    "Make .venv, or bring it up to date, and stamp it; a finished one that broke is not removed without being asked"
    made, works = stamp(), version()
    if made and not works: fail(BROKEN)
    want, start = wanted(made, extras), time.monotonic()
    if not works:
        remove_environment()
        check_space()
    install(want['extras'], works, lock)
    STAMP.write_text(json.dumps(dict(want, python=working_version())))
    build = doctor.torch_build(site_packages())
    if build: print(f'PyTorch is {build}.')
    print(f'Set up in {time.monotonic()-start:.0f} s.', flush=True)


# pip's default PyTorch for Linux brings gigabytes of CUDA libraries. Where no GPU is, PyTorch's own index of builds for
# the CPU is asked first, for this one package: all others come from where pip always finds them.

PLACES = ('index-url', 'extra-index-url', 'find-links', 'no-index')  # how pip is told where packages are
TORCH_INDEX = 'GRIDSTRIDE_TORCH_INDEX'  # the variable with another address to ask; empty: none


def is_pip_told():
    "Whether variables or files tell pip where packages are: then nobody else is asked"
    if any(os.environ.get(f'PIP_{o}'.upper().replace('-', '_')) for o in PLACES): return True
    how = dict(env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    said = subprocess.run([str(PYTHON), '-m', 'pip', 'config', 'list'], **how).stdout
    return bool(re.search(rf"\.({'|'.join(PLACES)})=", said))


def torch_index():
    "The address of the index that PyTorch's build for the CPU is to come from; None: nobody is asked for one"
    own = os.environ.get(TORCH_INDEX)
    if not sys.platform.startswith('linux') or doctor.has_gpu() or is_torch_there(): return None
    if own is not None: return own or None
    if is_pip_told(): return None
    settings = ConfigParser()
    settings.read(ROOT/'settings.ini', encoding='utf-8')
    return settings['DEFAULT']['torch_cpu_index']


def site_packages():
    "Where .venv keeps its packages"
    return [str(p) for p in VENV.glob('lib/*/site-packages')]


def is_torch_there():
    "Whether .venv has the PyTorch that constraints.txt names, in whatever build"
    pin = re.search(r'^torch==([^\s;]+)', (ROOT/'constraints.txt').read_text(encoding='utf-8'), re.M)
    return bool(pin) and any(list(Path(p).glob(f'torch-{pin[1]}[+.]*dist-info')) for p in site_packages())


def answers(address, seconds=2):
    "Whether an index of packages at `address` has a page on PyTorch, and gives it within so many seconds"
    from http.client import HTTPException  # a third of what a start takes, and only asked here
    from urllib.request import urlopen
    def ask():
        with suppress(OSError, ValueError, HTTPException):
            with urlopen(f"{address.rstrip('/')}/torch/", timeout=seconds) as page: found.append(page.status)
    found, asking = [], threading.Thread(target=ask, daemon=True)  # to look up a name can take longer
    asking.start()
    asking.join(seconds)
    return found == [200]


def install_torch_for_cpu(lock, pip):
    "Install PyTorch's build for the CPU where it suits and can be had; where not, pip's default comes with the rest"
    index = torch_index()
    if not index: return
    instead = "pip installs its default build of PyTorch instead, which may include gigabytes of CUDA libraries."
    if not answers(index): return print(f'{index} does not answer within two seconds: {instead}', flush=True)
    how = [*pip, '--no-deps', '--index-url', index, 'torch']
    status, lines = attempt(lock, '2/3', "installing PyTorch's build for the CPU", *how)
    if status: print(f'{cause(lines)} Until then {instead}', flush=True)


def install(extras, works, lock):
    "The three steps; the first is left out when .venv works already"
    VENV.mkdir(exist_ok=True)
    LOG.write_text('')
    remove(STAMP)
    drop_half_installed()
    if not works: step(lock, '1/3', 'making .venv', sys.executable, '-m', 'venv', VENV)
    working_version()
    pip = [PYTHON, '-m', 'pip', '--disable-pip-version-check', '--no-input', '--require-virtualenv',
           'install', '-c', 'constraints.txt']
    step(lock, '2/3', 'installing what builds the package', *pip, 'setuptools', 'wheel')
    install_torch_for_cpu(lock, pip)
    step(lock, '3/3', 'installing the course', *pip, '--no-build-isolation', '-e', f".[{','.join(extras)}]")
    quieten()


# The commands. What runs in .venv takes this process's place, so that Ctrl-C and the exit status are its own.

LEAD_ELSEWHERE = {'PYTHONHOME', 'PIP_PREFIX', 'PIP_ROOT', 'PIP_TARGET'}


def environment():
    "The environment of what runs in .venv: its programs come first, and no variable leads Python or pip out of it"
    path = os.pathsep.join([str(PYTHON.parent), os.environ.get('PATH', '')])
    kept = {k: v for k, v in os.environ.items() if k not in LEAD_ELSEWHERE}
    return dict(kept, PATH=path, PIP_USER='0', JUPYTER_PREFER_ENV_PATH='1')


def become(*cmd, **env):
    "Run `cmd` in the course's folder, with .venv's programs first, in place of this process"
    argv, env = list(map(str, cmd)), dict(environment(), **env)
    os.chdir(ROOT)
    sys.stdout.flush()
    if os.name == 'nt': sys.exit(subprocess.call(argv, env=env))
    os.execve(argv[0], argv, env)


def taken(port):
    "Whether somebody listens on `port` of localhost, which has two addresses"
    for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
        try:
            with socket.socket(family) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((host, port))
        except OSError as e:
            if e.errno in (errno.EADDRINUSE, errno.EACCES): return True  # anything else: a machine without IPv6
    return False


def free_port(first):
    "The first port from `first` up that is not taken"
    for port in range(first, min(first+PORTS, 65536)):
        if not taken(port): return port
    fail(f'No port from {first} up is free. Choose another with --port N.')


def has_browser():
    "Whether a browser can open a window here"
    display = os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')
    if sys.platform.startswith('linux') and not display: return False
    try: return bool(webbrowser.get())
    except webbrowser.Error: return False


def lesson_page(number):
    "Where JupyterLab shows a lesson; fails when there is no such lesson"
    try: return f"/lab/tree/nbs/{lessons.pick([number], ROOT/'nbs')[0].name}"
    except LookupError as e: fail(e)


def open_lab(argv):
    "Set up, then open JupyterLab on a lesson"
    p = parser('', 'Set up, then open JupyterLab on a lesson.')
    p.add_argument('lesson', nargs='?', default='01', metavar='NN')
    p.add_argument('--port', type=int, default=8888, metavar='N')
    p.add_argument('--no-browser', action='store_true')
    args = p.parse_args(argv)
    if not 0 < args.port < 65536: p.error(f'{args.port} is not a port')
    page = lesson_page(args.lesson)
    setup()
    beside('gridstride.course.lessons', 'trust')  # or JupyterLab hides their pictures until a cell is run
    beside('gridstride.cpp.toolchain.build')  # the emulator, so that no cell waits for it
    start_lab(page, free_port(args.port), has_browser() and not args.no_browser)


def beside(*module):
    "Run a module of the package, which is done before JupyterLab, which takes longer, reads the first lesson"
    with open(LOG, 'a', encoding='utf-8') as log:
        subprocess.Popen([str(PYTHON), '-m', *module], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def lab_command(page, port, browser):
    "The command that JupyterLab is started by"
    cmd = [PYTHON, '-m', 'jupyterlab', '--Application.log_level=ERROR', f'--ServerApp.root_dir={ROOT}',
           f'--ServerApp.port={port}', '--ServerApp.port_retries=0', f'--LabApp.default_url={page}',
           f'--ServerApp.open_browser={browser}']
    return cmd + ['--allow-root'] * (hasattr(os, 'geteuid') and not os.geteuid())  # root: as in most containers


def start_lab(page, port, browser):
    "Say where JupyterLab will be, and become it"
    token = secrets.token_hex(16)
    where = f'http://localhost:{port}{page}?token={token}'
    said = 'JupyterLab is at' if browser else 'Open this address in a browser'
    print(f'{said} (Ctrl-C here ends it):\n\n    {where}\n')
    become(*lab_command(page, port, browser), JUPYTER_TOKEN=token)


def setup_only(argv):
    "Set up, and say so"
    parser('setup', 'Set up only.').parse_args(argv)
    setup()
    print('The course is set up. Open it with: python3 course.py')


def test(argv):
    "Set up with what the tests need, and run them: those that are named, the fast ones (--fast), or all"
    setup('test')
    unused = ['-p', 'no:logging', '-p', 'no:anyio']  # plugins that take their time for each test
    cores = max(2, min(os.cpu_count() or 2, 8))
    workers = ['--dist', 'worksteal', *unused]
    if argv == ['--fast']:
        argv = ['-n', str(cores), *workers, '-m', 'not slow and not browser', '-q', 'tests']
    # one more than cores, for the times when tests wait: for a network, a browser, a deadline
    become(PYTHON, '-m', 'pytest', *(argv or ['-n', str(cores+1), *workers, '-rsx', '--durations=10', 'tests']))


def run(argv):
    "Execute lessons; a lesson that does not exist is reported before setting up"
    try: lessons.run_args(argv, ROOT/'nbs')
    except (LookupError, ValueError) as e: fail(e)
    setup()
    become(PYTHON, '-m', 'gridstride.course.lessons', 'run', *argv)


def written():
    "What is in nbs/recorded, with the time of its last change"
    return {p.name: p.stat().st_mtime_ns for p in (ROOT/'nbs/recorded').glob('*') if not p.name.startswith('.')}


def record(argv):
    "Execute lessons, keep what only this machine can show, and say what was written; status 1 if anything could not be"
    if not argv: fail('Name a lesson, for example: python3 course.py record 08')
    try: lessons.run_args(argv, ROOT/'nbs')
    except (LookupError, ValueError) as e: fail(e)
    setup()
    before = written()
    status, missed = run_recording(argv)
    new = sorted(k for k, t in written().items() if before.get(k) != t)
    print(f"\nWritten: {', '.join(new) or 'nothing'}", *(f'Not written: {o}' for o in missed), sep='\n')
    sys.exit(status or int(bool(missed or not new)))


def run_recording(argv):
    "Execute lessons in recording mode; their exit status, and a line for each recording that could not be made"
    with tempfile.TemporaryDirectory() as folder:
        missed = Path(folder)/'missed'
        missed.touch()
        env = dict(environment(), GRIDSTRIDE_RECORD='1', GRIDSTRIDE_MISSED=str(missed))
        status = subprocess.call([str(PYTHON), '-m', 'gridstride.course.lessons', 'run', *argv], cwd=ROOT, env=env)
        return status, missed.read_text(encoding='utf-8').splitlines()


def site(argv):
    "Build the site, and serve it if asked"
    p = parser('site', 'Build the site of the course from the notebooks as they are.')
    p.add_argument('--serve', nargs='?', type=int, const=8000, metavar='N')
    args = p.parse_args(argv)
    if args.serve is not None and not 0 < args.serve < 65536: p.error(f'{args.serve} is not a port')
    if 'site' not in stamp().get('extras', []):
        print('First, the packages that build the site (Sphinx, myst-nb and a theme) are installed.', flush=True)
    setup('site')
    become(PYTHON, 'site/build.py', *([] if args.serve is None else ['--serve', free_port(args.serve)]))


def canary(argv):
    "Test with the newest of all packages, in an environment of its own"
    become(sys.executable, 'tests/canary.py', *argv)


def examine(argv):
    "Show what is installed and what is missing, seen from .venv if that works"
    parser('doctor', 'Show what is installed and what is missing.').parse_args(argv)
    become(PYTHON if version() else sys.executable, '-m', 'gridstride.course.doctor')


def progress(argv):
    "Which exercises are solved"
    parser('progress', 'Show which exercises are solved.').parse_args(argv)
    try: print(lessons.progress(ROOT/'nbs'))
    except ValueError as e: fail(e)


def clean(argv):
    "Remove .venv and what was built"
    parser('clean', 'Remove .venv and what was built.').parse_args(argv)
    with locked('the removal'):
        gone = remove_environment()
        built = [ROOT/'build', ROOT/'dist', ROOT/'.pytest_cache', ROOT/'site/_build', ROOT/'site/_cache',
                 ROOT/'.canary', *ROOT.glob('*.egg-info')]
        gone += [p for p in built + sorted(ROOT.rglob('__pycache__')) if remove(p)]
    print(f"Removed {', '.join(str(p.relative_to(ROOT)) for p in gone)}." if gone else 'There was nothing to remove.')


COMMANDS = dict(open=open_lab, setup=setup_only, test=test, run=run, record=record, site=site, canary=canary,
                doctor=examine, progress=progress, clean=clean)


def command_of(argv):
    "The command that `argv` means, and its own arguments"
    if not argv or argv[0].isdigit() or argv[0].startswith('-'): return open_lab, argv
    if argv[0] in COMMANDS: return COMMANDS[argv[0]], argv[1:]
    fail(f"There is no command {argv[0]!r}. The commands are: {', '.join(COMMANDS)}. See: python3 course.py --help")


def interrupt_at(*names):
    "Let the signals `names` interrupt, so that no child is left behind; not those that are ignored, as under nohup"
    for number in (getattr(signal, name) for name in names if hasattr(signal, name)):
        if signal.getsignal(number) != signal.SIG_IGN: signal.signal(number, signal.default_int_handler)


def main(argv):
    "Do what the command line says"
    if argv[:1] and argv[0] in ('-h', '--help', 'help'): return print(__doc__)
    command, rest = command_of(argv)
    interrupt_at('SIGINT', 'SIGTERM', 'SIGHUP')
    try: command(rest)
    except KeyboardInterrupt:
        sys.stderr.write('\nStopped; the same command continues where it stopped.\n')
        sys.exit(130)
    except OSError as e:
        what, why = e.filename or ROOT, e.strerror or e
        fail(f'{what} cannot be used: {why}. Fix that, then run the same command again.')


if __name__ == '__main__': main(sys.argv[1:])
