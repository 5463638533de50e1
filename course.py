#!/usr/bin/env python3
"""Sets up the course and opens it. Needs Python 3.10 or newer, and nothing else.

python3 course.py [NN]         set up, then open JupyterLab on your copy of lesson NN, such as 08 or 08a, or on the
                               start page; your copies are in the folder my
    --port N                   first port to try (8888)
    --no-browser               print the address instead of opening a browser
python3 course.py setup        only set up
python3 course.py test [ARGS]  set up, then run the tests; ARGS go to pytest
    --fast                     without tests that are marked slow or browser, while editing
    --all                      also the tests that are marked exhaustive: more cases of what the others cover, before a
                               release, or after a change of the emulator, the translation or a family of kernels
python3 course.py run [NN ...] execute these lessons, or all, and report each result
    --save                     write the outputs back into the lessons that completed
    --jobs N                   how many lessons run at a time (1)
python3 course.py record NN ... execute lessons on a machine with a GPU, and write recordings for others to nbs/recorded
python3 course.py site         build the course as a website in site/_build, from the notebooks as they are
    --serve [N]                then serve it on this machine, on port N or the next free one (8000)
python3 course.py canary [ARGS] test with the newest version of each requirement, in .canary; ARGS go to pytest
    --keep                     reuse what is in .canary already
python3 course.py doctor       what is installed, what is missing, and the command that fixes it
python3 course.py lessons      list the lessons, with the time that each takes
python3 course.py progress [NN ...] show how many exercises are solved, and which lesson comes next; or lesson NN's
python3 course.py update       bring a newer course (git pull) and keep your answers
python3 course.py reset NN     make a fresh copy of lesson NN; the old copy gets another name
python3 course.py student NN ... write lessons without solutions and outputs, for a class, to the folder student
    --to FOLDER                another folder
    --nbgrader                 write sources of an nbgrader assignment, with solutions and tests
python3 course.py slides NN ... write lessons as slides to the folder slides, one HTML file each, usable offline
python3 course.py grade FOLDER run submitted notebooks, FOLDER/STUDENT/NN_slug.ipynb, in a sandbox; list what is solved
    --csv FILE                 write the table to a file
    --seconds N                time limit of a cell (120)
python3 course.py clean        remove .venv and all build results; notebooks and progress stay
"""
import signal, sys

if __name__ == '__main__' and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C prints no traceback before main() can answer it

if sys.version_info < (3, 10):
    sys.stderr.write('The course needs Python 3.10 or newer, and this is %d.%d. Install a newer version and use it, '
                     'for example: python3.12 course.py\n' % sys.version_info[:2])
    sys.exit(2)

import argparse, ast, errno, hashlib, json, os, re, secrets, shutil, socket, subprocess, tempfile, threading
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
GONE = '.venv.gone-'  # prefix of the name that .venv gets before it is removed
INPUTS = ['constraints.txt', 'settings.ini', 'setup.py', 'pyproject.toml']
PORTS = 100  # that are tried
SECONDS_PER_LINE = 15  # of the progress of a step that is not shown in a terminal

sys.path.insert(0, str(ROOT))
from gridstride.course import classroom, copies, curriculum, doctor, lessons


def fail(message):
    "Print one line, on what is wrong and how to fix it, and exit with status 2"
    sys.stderr.write(f'{message}\n')
    sys.exit(2)


def parser(command, about):
    "Make a parser for the arguments of one command, which reports errors in one line"
    p = argparse.ArgumentParser(prog=f'course.py {command}'.strip(), description=about)
    p.error = lambda message: fail(f'{message}. See: python3 course.py --help')
    return p


# Problems are reported before the set-up starts, if they can be detected then.

def check_machine():
    "Fail if this machine cannot create a virtual environment or compile C++"
    if not (find_spec('venv') and find_spec('ensurepip')):
        fail(f"This Python cannot create virtual environments. Fix it with: {doctor.fix('venv')}")
    if not doctor.compiler():
        fail(f"No C++ compiler was found: neither g++, clang++, c++ nor $CXX. Fix it with: {doctor.fix('compiler')}")


def check_space():
    "Fail if the disk has too little free space for a first set-up"
    free = shutil.disk_usage(ROOT).free
    if free < doctor.MIN_FREE:
        fail(f'{free/1e9:.1f} GB are free on the disk of {ROOT}, and setting up takes {doctor.MIN_FREE/1e9:.0f} GB. '
             'Free some space, then run the same command again.')


AGAIN = 'then run the same command again; it continues where it stopped.'
CAUSES = [  # (pattern in the log, what is wrong and how to fix it)
    (r'No space left on device|Errno 28|disk quota', f'The disk is full. Free some space, {AGAIN}'),
    (r'NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|ConnectionResetError'
     r'|ProtocolError|Temporary failure in name resolution|Network is unreachable|Connection refused|Read timed out'
     r'|Connection broken|IncompleteRead', f'The network cannot be reached, or the connection broke. Connect, {AGAIN}'),
]


def cause(lines):
    "Return the cause of a failed step, from its output, in one line"
    text = ''.join(lines)
    for pattern, advice in CAUSES:
        if re.search(pattern, text): return advice
    said = [l.strip() for l in lines if l.strip()] or ['it printed nothing']
    return next((l for l in said if l.startswith('ERROR')), said[-1])


# One step of the set-up: a child process whose output goes to the log, and a line that shows the progress.

def doing(line):
    "Describe what pip or uv is doing, if this line of its output shows it; else None"
    if line.startswith('Installing collected packages'): return f"installing {line.count(',')+1} packages"
    if line.startswith('Resolved'): return f"installing {' '.join(line.split()[1:3])}"
    m = re.match(r'\s*(Collecting|Downloading|Building|Preparing|Obtaining) (\S+)', line)
    return f"{m[1].lower()} {m[2].rsplit('/', 1)[-1]}" if m else None


def show(text, end=''):
    "Replace the terminal's last line by `text`"
    print(f'\r{text[:shutil.get_terminal_size().columns-1]}\x1b[K', end=end, flush=True)


def stop(child):
    "Terminate a child process and all processes that it started"
    kill = (lambda s: os.killpg(child.pid, s)) if os.name != 'nt' else child.send_signal
    for s in (signal.SIGTERM, getattr(signal, 'SIGKILL', signal.SIGTERM)):
        if child.poll() is not None: return
        kill(s)
        try: child.wait(5)
        except subprocess.TimeoutExpired: pass


def follow(child, log, lines):
    "Copy the output of `child` to `log` and `lines`"
    for line in child.stdout:
        log.write(line)
        log.flush()
        lines.append(line)


def launch(cmd, lock):
    "Start `cmd` in a new session; it inherits the lock, so that others wait for it even if this process ends"
    return subprocess.Popen(list(map(str, cmd)), cwd=ROOT, env=environment(), pass_fds=[lock.fileno()] if fcntl else [],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                            encoding='utf-8', errors='replace', start_new_session=True)


def follow_to_end(cmd, lock, lines, title):
    "Run `cmd` and return its exit status; show `title()` and what it does: a terminal always, a file at times"
    last_line = time.monotonic()
    with open(LOG, 'a', encoding='utf-8') as log:
        child = launch(cmd, lock)
        try:
            reader = threading.Thread(target=follow, args=(child, log, lines), daemon=True)
            reader.start()
            while reader.is_alive():
                reader.join(.2)
                now = next(filter(None, map(doing, reversed(lines))), '')
                if sys.stdout.isatty(): show(f'{title()}  {now}')
                elif time.monotonic() - last_line >= SECONDS_PER_LINE:
                    last_line = time.monotonic()
                    print(f'    {title()}  {now}', flush=True)
            return child.wait()
        finally: stop(child)


def attempt(lock, which, what, *cmd):
    "Run `cmd` and show its progress; return its exit status and output"
    live, start, lines = sys.stdout.isatty(), time.monotonic(), []
    if not live: print(f'{which} {what} ...', flush=True)
    status = follow_to_end(cmd, lock, lines, lambda: f'{which} {what}, {time.monotonic()-start:.0f} s')
    done = f"{which} {what}: {'failed' if status else 'done'}, {time.monotonic()-start:.0f} s"
    show(done, end='\n') if live else print(done, flush=True)
    return status, lines


def step(lock, which, what, *cmd):
    "Run `attempt`, and fail with the cause if it fails"
    status, lines = attempt(lock, which, what, *cmd)
    if status: fail(f'{cause(lines)} The whole log: {LOG}')


# One set-up at a time. The operating system's lock ends with the last process that holds it, even if that is killed.

def acquire(lock):
    "Lock the file `lock`; if another process holds the lock, print which, and wait"
    try: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().decode(errors='replace') or 'another course.py'
        print(f'Waiting for {holder}, which is running here (Ctrl-C stops waiting) ...', flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError: pass  # a disk without locks, as some network drives are


@contextmanager
def locked(what):
    "Make every other set-up or removal in this folder wait for `what`"
    with open(LOCK, 'ab+', buffering=0) as lock:
        if fcntl: acquire(lock)
        with suppress(OSError):  # a full disk, on which `clean` must still work
            lock.truncate(0)
            lock.write(f'{what} (process {os.getpid()})'.encode())
        yield lock


# The set-up: .venv, and a stamp in it that records what it was made for. Without a stamp the set-up is incomplete.

def fingerprint():
    "Return a hash of what a set-up depends on: the requirements, and the folder of the course"
    files = b'\0'.join((ROOT/f).read_bytes() for f in INPUTS)
    return hashlib.sha256(files + os.fsencode(ROOT)).hexdigest()


def stamp():
    "Read the stamp of .venv, what it was made for; an empty dict if the set-up is incomplete or the stamp damaged"
    try:
        made = json.loads(STAMP.read_bytes())
        extras = made['extras']
        is_whole = {'inputs', 'python'} < set(made) and extras == sorted(extras) and all(map(str.isidentifier, extras))
    except (OSError, ValueError, TypeError, LookupError, RecursionError): return {}
    return made if is_whole else {}


def version():
    "Return the version of .venv's Python; None if .venv is not a working environment with pip"
    try: return doctor.environment_version(VENV, environment())
    except subprocess.TimeoutExpired as e:
        fail(f"{VENV}'s Python did not answer in {e.timeout:.0f} s. The machine is busy: run the same command later")


def remove(path):
    "Remove a file, link or folder; return whether it existed"
    if path.is_symlink() or path.is_file(): path.unlink()
    elif path.is_dir(): shutil.rmtree(path)
    else: return False
    return True


def remove_environment():
    """Remove .venv, and what interrupted removals left; return the list of removed paths

    .venv is renamed first, which is atomic, so that a partly removed one is never used.
    """
    there = [p for p in [VENV, *ROOT.glob(f'{GONE}*')] if os.path.lexists(p)]
    if VENV in there: VENV.rename(ROOT/f'{GONE}{secrets.token_hex(4)}')
    for p in ROOT.glob(f'{GONE}*'): remove(p)
    return there


def drop_half_installed():
    "Remove the metadata of packages whose installation was interrupted: pip writes RECORD last, and uv INSTALLER"
    for d in VENV.glob('lib/*/site-packages/*.dist-info'):
        if not ((d/'RECORD').exists() and (d/'INSTALLER').exists()): shutil.rmtree(d)


# JupyterLab: do not ask about news, do not search for updates.
NOTIFICATION = {'fetchNews': 'false', 'checkForUpdates': False}
# Kernels: do not warn that they use TCP, as they always did; if an exercise runs before the lesson's first cell, add a
# hint to the NameError.
FIRST_CELL = 'from gridstride.support.short_tracebacks import point_to_first_cell as _f; _f(); del _f'
# The first screen: the start page rendered, the lesson's table of contents open, names of lessons not cut off.
OVERRIDES = {
    '@jupyterlab/apputils-extension:notification': NOTIFICATION,
    '@jupyterlab/apputils-extension:themes': {'adaptive-theme': True},  # dark with a dark system, as pictures are
    '@jupyterlab/docmanager-extension:plugin': {'defaultViewers': {'markdown': 'Markdown Preview'}},
    '@jupyterlab/filebrowser-extension:browser': {'showLastModifiedColumn': False},
}
CONTENTS = '@jupyterlab/toc:plugin'
LEFT = {'collapsed': False, 'visible': True, 'current': CONTENTS, 'widgets': ['filebrowser', CONTENTS]}
LAYOUT = {'layout-restorer:data': {'main': {'dock': None}, 'left': LEFT, 'relativeSizes': [.24, .76, 0]}}
WORKSPACES = 'share/jupyter/lab/workspaces'
WORKSPACE = f'{WORKSPACES}/default-37a8.jupyterlab-workspace'  # as JupyterLab names the file of the workspace `default`
QUIET = {
    'share/jupyter/lab/settings/overrides.json': OVERRIDES,
    WORKSPACE: {'data': LAYOUT, 'metadata': {'id': 'default'}},
    'etc/ipython/ipython_kernel_config.json': {'IPKernelApp': {'log_level': 'ERROR', 'exec_lines': [FIRST_CELL]}},
}


def quieten():
    "Write settings that suppress messages of JupyterLab and its kernels that do not help learners"
    for path, settings in QUIET.items():
        (VENV/path).parent.mkdir(parents=True, exist_ok=True)
        (VENV/path).write_text(json.dumps(settings, indent=1))


BROKEN = (f'{VENV} is broken: its Python or its pip does not work, or its Python is not its own. '
          'Remove it, then start again: python3 course.py clean')


def working_version():
    "Return `version()`; fail if it is None"
    return version() or fail(BROKEN)


def wanted(made, extras):
    "Return what .venv must be made for: the requirements, this folder, and all extras that were ever requested"
    return dict(inputs=fingerprint(), extras=sorted({'course', *extras, *made.get('extras', [])}))


def finished(made, extras):
    "Return whether the set-up with the stamp `made` is complete and includes `extras`"
    return bool(made) and {**made, **wanted(made, extras)} == made and version() == made['python']


def setup(*extras):
    "Install what the lessons and `extras` need in .venv, unless that is already there"
    if finished(stamp(), extras): return
    check_machine()
    with locked('the set-up') as lock:
        if not finished(stamp(), extras): complete(extras, lock)  # the previous holder of the lock may have done it


def complete(extras, lock):
    "Create or update .venv, and stamp it; a complete one that broke is only removed by `clean`"
    made, works = stamp(), version()
    if made and not works: fail(BROKEN)
    want, start = wanted(made, extras), time.monotonic()
    if not works:
        remove_environment()
        check_space()
        print(f'Setting up the course in {VENV}, once: three steps, usually two to four minutes, and about 3 GB.\n'
              f'Ctrl-C stops it, and the same command continues. The whole log: {LOG}', flush=True)
    install(want['extras'], works, lock)
    STAMP.write_text(json.dumps(dict(want, python=working_version())))
    build = doctor.torch_build(site_packages())
    if build: print(f'PyTorch is {build}.')
    print(f'Set up in {time.monotonic()-start:.0f} s.', flush=True)


# pip's default PyTorch for Linux includes gigabytes of CUDA libraries. On machines without a GPU, PyTorch's own index
# of builds for the CPU provides this one package; all others come from pip's usual index.

INDEX_SETTINGS = ('index-url', 'extra-index-url', 'find-links', 'no-index')  # pip's settings for its index
TORCH_INDEX = 'GRIDSTRIDE_TORCH_INDEX'  # the variable with the address of another index; empty: none


def pip_settings():
    "Return pip's settings, from variables and files: {name: value}; None if pip lists none"
    how = dict(env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    listed = subprocess.run([str(PYTHON), '-m', 'pip', 'config', 'list'], **how)
    found = re.findall(r'^(global|install|:env:)\.([\w-]+)=(.*)$', listed.stdout, re.M)
    found.sort(key=lambda setting: ('global', 'install', ':env:').index(setting[0]))  # the last one takes precedence
    return None if listed.returncode else {name: ast.literal_eval(value) for _, name, value in found}


def has_pip_an_index():
    "Return whether variables or files configure an index for pip: then no other index is queried"
    if any(os.environ.get(f'PIP_{name}'.upper().replace('-', '_')) for name in INDEX_SETTINGS): return True
    return not {*(pip_settings() or {})}.isdisjoint(INDEX_SETTINGS)


def torch_index():
    "Return the address of the index with PyTorch's builds for the CPU; None if no index is to be queried"
    own = os.environ.get(TORCH_INDEX)
    if not sys.platform.startswith('linux') or doctor.has_gpu() or is_torch_there(): return None
    if own is not None: return own or None
    if has_pip_an_index(): return None
    settings = ConfigParser()
    settings.read(ROOT/'settings.ini', encoding='utf-8')
    return settings['DEFAULT']['torch_cpu_index']


def site_packages():
    "List the folders of .venv's packages"
    return [str(p) for p in VENV.glob('lib/*/site-packages')]


def is_torch_there():
    "Return whether .venv has the version of PyTorch in constraints.txt, in any build"
    pin = re.search(r'^torch==([^\s;]+)', (ROOT/'constraints.txt').read_text(encoding='utf-8'), re.M)
    return bool(pin) and any(list(Path(p).glob(f'torch-{pin[1]}[+.]*dist-info')) for p in site_packages())


def answers(address, seconds=2):
    "Return whether the package index at `address` answers within a number of seconds"
    from http.client import HTTPException  # takes a third of the start-up time, and only needed here
    from urllib.request import urlopen
    def ask():
        with suppress(OSError, ValueError, HTTPException):
            with urlopen(f"{address.rstrip('/')}/torch/", timeout=seconds) as page: found.append(page.status)
    found, asking = [], threading.Thread(target=ask, daemon=True)  # a name lookup can take longer
    asking.start()
    asking.join(seconds)
    return found == [200]


def install_torch_for_cpu(lock, installer):
    "Install PyTorch's build for the CPU if that suits and is available; otherwise its default is installed later"
    index = torch_index()
    if not index: return
    instead = "pip installs its default build of PyTorch instead, which may include gigabytes of CUDA libraries."
    if not answers(index): return print(f'{index} does not answer within two seconds: {instead}', flush=True)
    how = [*installer, '--no-deps', '--index-url', index, 'torch']
    status, lines = attempt(lock, '2/3', "installing PyTorch's build for the CPU", *how)
    if status: print(f'{cause(lines)} Until then {instead}', flush=True)


# uv installs the course several times faster than pip, but does not read pip's settings, which become its options. pip
# installs uv, and it installs everything if it has other settings, there is no uv for this machine, or uv fails.

INSTALLER = 'GRIDSTRIDE_INSTALLER'  # the variable that selects pip
UV_OPTIONS = {'index-url': '--index-url', 'extra-index-url': '--extra-index-url', 'find-links': '--find-links',
              'constraint': '--constraints', 'cert': '--cert', 'trusted-host': '--allow-insecure-host'}
WITHOUT_EFFECT = {'disable-pip-version-check', 'no-input', 'require-virtualenv', 'user', 'no-compile', 'compile',
                  'progress-bar', 'quiet', 'verbose', 'no-color', 'timeout', 'default-timeout', 'retries', 'cache-dir',
                  'no-cache-dir', 'config-file', 'root-user-action', 'break-system-packages'}  # on what is installed
FALSE = ('', '0', 'false', 'no', 'off')


def uv_options(settings):
    "Return the options of uv that mean the same as pip's `settings`; None if there are none for one of them"
    settings = {name: value for name, value in settings.items() if name not in WITHOUT_EFFECT}
    options = [] if settings.pop('no-index', '').lower() in FALSE else ['--no-index']
    if not settings.keys() <= UV_OPTIONS.keys(): return None
    return options + [o for name, values in settings.items() for value in values.split()
                      for o in (UV_OPTIONS[name], value)]


def installers(lock, pip):
    "Return the commands that install packages, in the order to try them: uv, which pip installs if possible, and pip"
    settings = None if os.environ.get(INSTALLER) == 'pip' else pip_settings()
    options = None if settings is None else uv_options(settings)
    if options is None: return [pip]
    if not any(list(Path(p).glob('uv-*.dist-info')) for p in site_packages()):
        how = [*pip, '--no-deps', '--only-binary=:all:', 'uv']
        status, lines = attempt(lock, '2/3', 'installing uv, which installs the rest', *how)
        if status and cause(lines) in dict(CAUSES).values(): fail(f'{cause(lines)} The whole log: {LOG}')
        if status: return [pip]
    # pip, too, takes the best version of all indexes. The cache is on the disk of .venv, where links need no space.
    return [[PYTHON, '-m', 'uv', 'pip', 'install', '--python', PYTHON, '--cache-dir', VENV/'uv-cache', '--no-progress',
             '--index-strategy', 'unsafe-best-match', '-c', 'constraints.txt', *options], pip]


def install_packages(lock, commands, which, what, *packages):
    "Install packages with the first of `commands` that can, and forget those that cannot; fail if none can"
    status, lines = attempt(lock, which, what, *commands[0], *packages)
    if status and commands[1:]:
        del commands[0]
        drop_half_installed()
        return install_packages(lock, commands, which, f'{what} with pip', *packages)
    if status: fail(f'{cause(lines)} The whole log: {LOG}')


def install(extras, works, lock):
    "Run the three steps, without the first if .venv already works"
    VENV.mkdir(exist_ok=True)
    LOG.write_text('')
    remove(STAMP)
    drop_half_installed()
    if not works: step(lock, '1/3', 'creating .venv', sys.executable, '-m', 'venv', VENV)
    working_version()
    pip = [PYTHON, '-m', 'pip', '--disable-pip-version-check', '--no-input', '--require-virtualenv',
           'install', '--no-compile', '-c', 'constraints.txt']
    commands = installers(lock, pip)
    install_packages(lock, commands, '2/3', 'installing what builds the package', 'setuptools', 'wheel', 'numpy')
    prepare_emulator()  # on another core than the installation
    install_torch_for_cpu(lock, commands[0])
    install_packages(lock, commands, '3/3', 'installing the course', '--no-build-isolation', '-e',
                     f".[{','.join(extras)}]")
    compile_packages(lock)
    quieten()


# The installation compiles nothing to bytecode: a third of the modules is ever imported. To import those once takes as
# long as to compile them; otherwise each of the processes that run tests, which start together, would compile them.

IMPORTED = ['torch torch.fx.experimental.symbolic_shapes triton',
            'numba.cuda matplotlib.pyplot ipywidgets ipykernel.kernelapp nbclient jupyterlab.labapp']
IMPORT = """import sys
sys.dont_write_bytecode = False
for name in sys.argv[1].split():
    try: __import__(name)
    except Exception as e: print(f'{name}: {e!r}')
"""
IN_PARALLEL = """import subprocess, sys
for process in [subprocess.Popen([sys.executable, '-c', sys.argv[1], names]) for names in sys.argv[2:]]: process.wait()
"""


def compile_packages(lock):
    "Import the modules that lessons and tests begin with, in two processes, which compiles them to bytecode"
    attempt(lock, '3/3', 'compiling the packages', PYTHON, '-c', IN_PARALLEL, IMPORT, *IMPORTED)


# The commands. What runs in .venv replaces this process, so that it receives Ctrl-C and sets the exit status.

LEAD_ELSEWHERE = {'PYTHONHOME', 'PIP_PREFIX', 'PIP_ROOT', 'PIP_TARGET'}


def environment():
    "Return the environment variables for .venv: its programs come first, and Python and pip use only .venv"
    path = os.pathsep.join([str(PYTHON.parent), os.environ.get('PATH', '')])
    kept = {k: v for k, v in os.environ.items() if k not in LEAD_ELSEWHERE}
    return dict(kept, PATH=path, PIP_USER='0', JUPYTER_PREFER_ENV_PATH='1')


def become(*cmd, **env):
    "Replace this process by `cmd`, in the course's folder and with .venv's programs first"
    argv, env = list(map(str, cmd)), dict(environment(), **env)
    os.chdir(ROOT)
    sys.stdout.flush()
    if os.name == 'nt': sys.exit(subprocess.call(argv, env=env))
    os.execve(argv[0], argv, env)


def taken(port):
    "Return whether a process listens on `port` of localhost, which has two addresses"
    for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
        try:
            with socket.socket(family) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((host, port))
        except OSError as e:
            if e.errno in (errno.EADDRINUSE, errno.EACCES): return True  # any other error: a machine without IPv6
    return False


def free_port(first):
    "Return the first free port from `first` up"
    for port in range(first, min(first+PORTS, 65536)):
        if not taken(port): return port
    fail(f'No port from {first} up is free. Choose another with --port N.')


def has_browser():
    "Return whether a browser can open a window on this machine"
    display = os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')
    if sys.platform.startswith('linux') and not display: return False
    try: return bool(webbrowser.get())
    except webbrowser.Error: return False


def first_page(number):
    "Return the path in JupyterLab of a lesson, or of the start page; fail if there is no such lesson"
    try: return f"/lab/tree/my/{lessons.pick([number], ROOT/'nbs')[0].name if number else copies.START}"
    except LookupError as e: fail(e)


def open_lab(argv):
    "Set up, then open JupyterLab on a lesson"
    p = parser('', 'Set up, then open JupyterLab on a lesson.')
    p.add_argument('lesson', nargs='?', metavar='NN')
    p.add_argument('--port', type=int, default=8888, metavar='N')
    p.add_argument('--no-browser', action='store_true')
    args = p.parse_args(argv)
    if not 0 < args.port < 65536: p.error(f'{args.port} is not a port')
    page = first_page(args.lesson)
    setup()
    copy_lessons()
    run_in_background('gridstride.course.lessons', 'trust')  # or JupyterLab hides pictures, and sees a change
    prepare_emulator()
    start_lab(page, free_port(args.port), has_browser() and not args.no_browser)


def copy_lessons():
    "Copy the lessons that have no copy yet, and write the start page"
    try: copies.make()
    except ValueError as e: fail(e)


def prepare_emulator():
    "Compile the emulator in the background, which needs only NumPy, so that no cell and no test waits for it"
    run_in_background('gridstride.cpp.toolchain.build')


def run_in_background(*module):
    "Run a module of the package; it finishes before JupyterLab, which starts more slowly, reads the first lesson"
    with open(LOG, 'a', encoding='utf-8') as log:
        subprocess.Popen([str(PYTHON), '-m', *module], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def lab_command(page, port, browser):
    "Return the command that starts JupyterLab"
    cmd = [PYTHON, '-m', 'jupyterlab', '--Application.log_level=ERROR', f'--ServerApp.root_dir={ROOT}',
           f'--ServerApp.port={port}', '--ServerApp.port_retries=0', f'--LabApp.default_url={page}',
           f'--ServerApp.open_browser={browser}']
    return cmd + ['--allow-root'] * (hasattr(os, 'geteuid') and not os.geteuid())  # root: as in most containers


def start_lab(page, port, browser):
    "Print the address of JupyterLab, and become JupyterLab"
    token = secrets.token_hex(16)
    where = f'http://localhost:{port}{page}?token={token}'
    said = 'JupyterLab is at' if browser else 'In a few seconds, open this address in a browser'
    print(f'{said} (stop it with Ctrl-C here):\n\n    {where}\n')
    become(*lab_command(page, port, browser), JUPYTER_TOKEN=token, JUPYTERLAB_WORKSPACES_DIR=str(VENV/WORKSPACES))


def setup_only(argv):
    "Set up, and print the command that opens the course"
    parser('setup', 'Only set up.').parse_args(argv)
    setup()
    print('The course is set up. Open it with: python3 course.py')


def test(argv):
    "Set up with what the tests need, and run the named tests, the fast ones (--fast), the usual ones, or all (--all)"
    setup('test')
    unused = ['-p', 'no:logging', '-p', 'no:anyio', '-p', 'no:hypothesispytest']  # plugins that slow down every test
    cores = max(2, min(os.cpu_count() or 2, 8))
    workers = ['--dist', 'worksteal', *unused]
    if argv == ['--fast']:
        argv = ['-n', str(cores), *workers, '-m', 'not slow and not browser', '-q', 'tests']
    # two more than cores, since tests also wait: for a process, a lock, a deadline, a browser
    if argv in ([], ['--all']):
        argv = ['-n', str(cores+2), *workers, '-rsx', '--durations=10', *argv, 'tests']
    become(PYTHON, '-m', 'pytest', *argv)


def run(argv):
    "Execute lessons; a lesson that does not exist is reported before the set-up"
    try: lessons.run_args(argv, ROOT/'nbs')
    except (LookupError, ValueError) as e: fail(e)
    setup()
    become(PYTHON, '-m', 'gridstride.course.lessons', 'run', *argv)


def written():
    "Return {file: time of its last change} of nbs/recorded"
    return {p.name: p.stat().st_mtime_ns for p in (ROOT/'nbs/recorded').glob('*') if not p.name.startswith('.')}


def record(argv):
    "Execute lessons, record what needs this machine's GPU, and list the files; exit status 1 if any is missing"
    if not argv: fail('Name a lesson, for example: python3 course.py record 08')
    try: lessons.run_args(argv, ROOT/'nbs')
    except (LookupError, ValueError) as e: fail(e)
    setup()
    before = written()
    status, missed = run_recording(argv)
    new = sorted(k for k, t in written().items() if before.get(k) != t)
    print(f"\nWritten: {', '.join(new) or 'nothing'}", *(f'Not written: {line}' for line in missed), sep='\n')
    sys.exit(status or int(bool(missed or not new)))


def run_recording(argv):
    "Execute lessons in recording mode; return their exit status, and one line per recording that failed"
    with tempfile.TemporaryDirectory() as folder:
        missed = Path(folder)/'missed'
        missed.touch()
        env = dict(environment(), GRIDSTRIDE_RECORD='1', GRIDSTRIDE_MISSED=str(missed))
        status = subprocess.call([str(PYTHON), '-m', 'gridstride.course.lessons', 'run', *argv], cwd=ROOT, env=env)
        return status, missed.read_text(encoding='utf-8').splitlines()


def site(argv):
    "Build the site, and serve it with --serve"
    p = parser('site', 'Build the site of the course from the notebooks as they are.')
    p.add_argument('--serve', nargs='?', type=int, const=8000, metavar='N')
    args = p.parse_args(argv)
    if args.serve is not None and not 0 < args.serve < 65536: p.error(f'{args.serve} is not a port')
    if 'site' not in stamp().get('extras', []):
        print('First, installing the packages that build the site (Sphinx, myst-nb and a theme).', flush=True)
    setup('site')
    become(PYTHON, 'site/build.py', *([] if args.serve is None else ['--serve', free_port(args.serve)]))


def canary(argv):
    "Test with the newest version of each package, in a separate environment"
    become(sys.executable, 'tests/canary.py', *argv)


def examine(argv):
    "Show what is installed and what is missing, in .venv if that works"
    parser('doctor', 'Show what is installed and what is missing.').parse_args(argv)
    become(PYTHON if version() else sys.executable, '-m', 'gridstride.course.doctor')


def list_lessons(argv):
    "List the lessons, with the time that each takes"
    parser('lessons', 'List the lessons.').parse_args(argv)
    print(curriculum.listing())


def progress(argv):
    "Show how many exercises are solved, or which ones of the lessons that are named"
    p = parser('progress', 'Show how many exercises are solved, and which lesson comes next.')
    p.add_argument('lessons', nargs='*', metavar='NN')
    args = p.parse_args(argv)
    try: print(lessons.progress(copies.FOLDER if copies.FOLDER.exists() else ROOT/'nbs', chosen_lessons=args.lessons))
    except (LookupError, ValueError) as e: fail(e)


def git(*args):
    "Run git in the folder of the course; it prints English and asks for no password"
    env = {**os.environ, 'LC_ALL': 'C', 'GIT_TERMINAL_PROMPT': '0'}
    return subprocess.run(['git', *args], cwd=ROOT, capture_output=True, text=True, env=env)


def output_of_git(*args, advice):
    "Return what git prints; if it stops, fail with its error and an advice"
    done = git(*args)
    if done.returncode: fail(f'git {args[0]} stopped:\n{done.stderr.strip()}\n{advice}')
    return done.stdout.strip()


NOT_FETCHED = 'The newer course could not be fetched, and nothing was changed. Connect, then run this command again.'
NO_BRANCH = 'This folder follows no branch of the published course: git switch main, then run this command again.'
OWN_COMMITS = 'You have commits of your own: git pull --rebase, then run this command again.'
OWN_CHANGES = ('Your own changes to files of the course stop it: save them with git stash, run this command again, '
               'then git stash pop.')


def pull():
    "Bring the newest commits; return how many"
    output_of_git('symbolic-ref', 'HEAD', advice=NO_BRANCH)
    output_of_git('rev-parse', '--abbrev-ref', '@{upstream}', advice=NO_BRANCH)
    output_of_git('fetch', '--quiet', advice=NOT_FETCHED)
    own, newer = output_of_git('rev-list', '--left-right', '--count', 'HEAD...@{upstream}', advice='').split()
    if int(newer): output_of_git('merge', '--ff-only', advice=OWN_COMMITS if int(own) else OWN_CHANGES)
    return int(newer)


def update(argv):
    "Bring a newer course, and newer lessons into the copies"
    parser('update', 'Bring a newer course, and keep your answers.').parse_args(argv)
    if (ROOT/'.git').exists() and shutil.which('git'):
        newer = pull()
        print(f'Fetched {newer} newer commit{"s" * (newer > 1)}.' if newer else 'The course is up to date.', flush=True)
    else: print('git did not make this copy of the course: unpack the new course over this folder first.', flush=True)
    become(sys.executable, '-m', 'gridstride.course.copies', 'update')  # in a new process, which runs the new course


def reset(argv):
    "Make fresh copies of a lesson"
    p = parser('reset', 'Make a fresh copy of a lesson; the old copy gets another name.')
    p.add_argument('lesson', metavar='NN')
    args = p.parse_args(argv)
    try:
        for name, old in copies.reset(args.lesson):
            print(f'my/{name} is new' + (f'; your old copy is my/{old}' if old else ''))
    except LookupError as e: fail(e)


def student(argv):
    "Write lessons without solutions and outputs"
    p = parser('student', 'Write lessons without solutions and outputs, for a class.')
    p.add_argument('lessons', nargs='+', metavar='NN')
    p.add_argument('--to', type=Path, default=classroom.STUDENT_FOLDER, metavar='FOLDER')
    p.add_argument('--nbgrader', action='store_true')
    args = p.parse_args(argv)
    try: paths = classroom.write_student_editions(args.lessons, args.to, nbgrader=args.nbgrader)
    except (LookupError, ValueError) as e: fail(e)
    print(*(f'Written: {path}' for path in paths), sep='\n')


def slides(argv):
    "Set up, and write lessons as slides; a lesson that does not exist is reported before the set-up"
    p = parser('slides', 'Write lessons as slides to the folder slides.')
    p.add_argument('lessons', nargs='+', metavar='NN')
    args = p.parse_args(argv)
    try: lessons.pick(args.lessons, ROOT/'nbs')
    except LookupError as e: fail(e)
    setup()
    become(PYTHON, '-m', 'gridstride.course.slides', *args.lessons)


def grade(argv):
    "Set up, and run submitted notebooks in a sandbox"
    p = parser('grade', 'Run submitted notebooks FOLDER/STUDENT/NN_slug.ipynb in a sandbox, and list what is solved.')
    p.add_argument('folder', type=Path, metavar='FOLDER')
    p.add_argument('--csv', type=Path, metavar='FILE')
    p.add_argument('--seconds', type=int, default=120, metavar='N')
    args = p.parse_args(argv)
    if not args.folder.is_dir(): fail(f'{args.folder} is not a folder. It must have STUDENT/NN_slug.ipynb.')
    table = ['--csv', args.csv.resolve()] if args.csv else []
    setup()
    become(PYTHON, '-m', 'gridstride.course.submissions', args.folder.resolve(), *table, '--seconds', args.seconds)


def clean(argv):
    "Remove .venv and all build results"
    parser('clean', 'Remove .venv and all build results.').parse_args(argv)
    with locked('the removal'):
        gone = remove_environment()
        built = [ROOT/'build', ROOT/'dist', ROOT/'.pytest_cache', ROOT/'site/_build', ROOT/'site/_cache',
                 ROOT/'.canary', *ROOT.glob('*.egg-info')]
        gone += [p for p in built + sorted(ROOT.rglob('__pycache__')) if remove(p)]
    print(f"Removed {', '.join(str(p.relative_to(ROOT)) for p in gone)}." if gone else 'There was nothing to remove.')


COMMANDS = dict(open=open_lab, setup=setup_only, test=test, run=run, record=record, site=site, canary=canary,
                doctor=examine, lessons=list_lessons, progress=progress, update=update, reset=reset, student=student,
                slides=slides, grade=grade, clean=clean)


def command_of(argv):
    "Return the command that `argv` names, and its arguments"
    if not argv or re.fullmatch(r'\d+[a-z]?', argv[0]) or argv[0].startswith('-'): return open_lab, argv
    if argv[0] in COMMANDS: return COMMANDS[argv[0]], argv[1:]
    fail(f"There is no command {argv[0]!r}. The commands are: {', '.join(COMMANDS)}. See: python3 course.py --help")


def interrupt_at(*names):
    "Let signals raise KeyboardInterrupt, so that no child keeps running; ignored signals, as under nohup, stay ignored"
    for number in (getattr(signal, name) for name in names if hasattr(signal, name)):
        if signal.getsignal(number) != signal.SIG_IGN: signal.signal(number, signal.default_int_handler)


def main(argv):
    "Run the command line"
    if argv[:1] and argv[0] in ('-h', '--help', 'help'): return print(__doc__)
    command, args = command_of(argv)
    interrupt_at('SIGINT', 'SIGTERM', 'SIGHUP')
    try: command(args)
    except KeyboardInterrupt:
        sys.stderr.write('\nStopped; the same command continues where it stopped.\n')
        sys.exit(130)
    except BrokenPipeError:  # `course.py progress | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as e:
        what, why = e.filename or ROOT, e.strerror or e
        fail(f'{what} cannot be used: {why}. Fix that, then run the same command again.')


if __name__ == '__main__': main(sys.argv[1:])
