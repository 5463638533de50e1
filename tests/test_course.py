"""course.py as a learner meets it: in a copy of the course, with stand-ins for the packages that it installs.

It is started by a Python of its own, made here: what would go astray goes there, and is seen.
"""
import ast, errno, fcntl, importlib.util, json, os, re, shutil, signal, socket, subprocess, sys, threading, time
import zipfile
from configparser import ConfigParser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from gridstride.course import doctor
from found import names
from uv import find_uv_bin

ROOT = Path(__file__).resolve().parents[1]
PINS = 'setuptools==84.0\nwheel==1.0\nnumpy==3.0\n'

# What waits in a step of setting up: it writes its process into the file that the variable names, until that is gone.
PAUSE = '''
import os, time
def pause(variable):
    path, end = os.environ.get(variable), time.monotonic() + 300
    if not path: return
    with open(path + '.new', 'w') as f: f.write(str(os.getpid()))
    os.rename(path + '.new', path)
    while os.path.exists(path) and time.monotonic() < end: time.sleep(.02)
'''
BACKEND = PAUSE + '''
import zipfile
META = """Metadata-Version: 2.1
Name: gridstride
Version: 0.1.0
Provides-Extra: course
Requires-Dist: jupyterlab; extra == 'course'
Provides-Extra: test
Requires-Dist: pytest; extra == 'test'
"""

def build_editable(folder, config_settings=None, metadata_directory=None):
    pause('SLOW')
    if os.environ.get('SAY'): raise SystemExit(os.environ['SAY'])
    name = 'gridstride-0.1.0-py3-none-any.whl'
    tags = 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'
    with zipfile.ZipFile(os.path.join(folder, name), 'w') as z:
        z.writestr('gridstride.pth', os.getcwd())
        z.writestr('gridstride-0.1.0.dist-info/METADATA', META)
        z.writestr('gridstride-0.1.0.dist-info/WHEEL', tags)
        z.writestr('gridstride-0.1.0.dist-info/RECORD', '')
    return name
'''
# The base's ensurepip: the base's own pip, in a fifth of a second instead of six.
ENSUREPIP = PAUSE + '''
import shutil, sysconfig
from pathlib import Path
pause('SLOW_PIP')
for p in Path(__file__).parents[1].glob('site-packages/pip*'):
    shutil.copytree(p, Path(sysconfig.get_path('purelib'))/p.name, copy_function=os.link)
'''
# Unpacks the wheels that pip would install, in a tenth of a second instead of two: where pip itself is not in question.
PIP = '''
import os, re, sys, sysconfig, tempfile, zipfile
from pathlib import Path

def unpack(wheel):
    packages = Path(sysconfig.get_path('purelib'))
    zipfile.ZipFile(wheel).extractall(packages)
    for info in packages.glob('*.dist-info'): open(info/'INSTALLER', 'a').close()

extras = re.findall(r'course|test', sys.argv[-1]) if '-e' in sys.argv else []
wheels = [dict(course='jupyterlab', test='pytest')[o] for o in extras] or ['setuptools', 'wheel', 'numpy']
for name in wheels: unpack(next(Path(os.environ['PIP_FIND_LINKS']).glob(f'{name}-*.whl')))
if extras:
    from setuptools.build_meta import build_editable
    with tempfile.TemporaryDirectory() as folder: unpack(os.path.join(folder, build_editable(folder)))
print('Successfully installed', *wheels)
'''
ECHO = "import json, os, sys\nprint(json.dumps(dict(argv=sys.argv[1:], cwd=os.getcwd(), env=dict(os.environ))))\n"


def wheel(folder, name, version, files):
    "Write a wheel that holds `files` and nothing else"
    info = f'{name}-{version}.dist-info'
    files = {**files, f'{info}/METADATA': f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n',
             f'{info}/WHEEL': 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n'}
    with zipfile.ZipFile(folder/f'{name}-{version}-py3-none-any.whl', 'w') as z:
        for path, text in files.items(): z.writestr(path, text)
        z.writestr(f'{info}/RECORD', ''.join(f'{f},,{len(o)}\n' for f, o in files.items()) + f'{info}/RECORD,,\n')


def make_wheels(folder):
    "Stand-ins for the packages that course.py installs: they say how they were called"
    folder.mkdir()
    wheel(folder, 'setuptools', '84.0', {'setuptools/__init__.py': '', 'setuptools/build_meta.py': BACKEND})
    for name, version in (('wheel', '1.0'), ('numpy', '3.0')): wheel(folder, name, version, {f'{name}/__init__.py': ''})
    runner = {'tqdm.py': ECHO + 'sys.exit(7)\n'}  # the runner of lessons imports tqdm
    wheel(folder, 'jupyterlab', '1.0', {'jupyterlab/__init__.py': '', 'jupyterlab/__main__.py': ECHO, **runner})
    wheel(folder, 'pytest', '1.0', {'pytest/__init__.py': '', 'pytest/__main__.py': ECHO})
    return folder


OWN = ('site-packages', 'dist-packages', 'ensurepip', 'EXTERNALLY-MANAGED')  # what a base does not share


def make_base(folder):
    "A Python with site-packages of its own, and this one's standard library; its executable, and those"
    stdlib, real = Path(os.__file__).parent, Path(sys._base_executable).resolve()
    lib = folder/'lib'/stdlib.name
    for d in (folder/'bin', lib/'ensurepip'): d.mkdir(parents=True)
    for p in stdlib.iterdir():
        if p.name not in OWN: (lib/p.name).symlink_to(p)
    (lib/'ensurepip/__init__.py').write_text('')
    (lib/'ensurepip/__main__.py').write_text(ENSUREPIP)
    return Path(shutil.copy(real, folder/'bin')), lib/'site-packages'


def add_pip(packages):
    pip = distribution('pip')
    for p in (pip.locate_file('pip'), pip._path): shutil.copytree(p, packages/Path(p).name)


def add_mock(packages):
    "What unpacks the wheels of these tests, for pip"
    files = {'pip/__init__.py': '', 'pip/__main__.py': PIP, 'pip-1.0.dist-info/RECORD': 'pip/__main__.py,,\n',
             'pip-1.0.dist-info/INSTALLER': '',
             'pip-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: pip\nVersion: 1.0\n'}
    for path, text in files.items():
        (packages/path).parent.mkdir(parents=True, exist_ok=True)
        (packages/path).write_text(text)


def make_course(folder):
    "A small copy of the course: of the package what course.py imports, compiled, as nothing is written next to it"
    (folder/'nbs').mkdir(parents=True)
    (folder/'gridstride/__pycache__').mkdir(parents=True)
    for p in [q for o in ('.', 'support', 'course') for g in ('*.py', '__pycache__/*.pyc')
              for q in (ROOT/'gridstride'/o).glob(g)]:
        (folder/p.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(p, folder/p.relative_to(ROOT))
    for f in ('course.py', 'settings.ini', 'setup.py', 'pyproject.toml'): shutil.copy(ROOT/f, folder)
    (folder/'constraints.txt').write_text(PINS)
    for name in ('01_first', '02_second'):
        (folder/'nbs'/f'{name}.ipynb').write_text(notebook("@exercise('%s.a')\ndef f(): ..." % name[3:]))
    return folder


def notebook(*sources):
    "The JSON of a notebook with these code cells"
    kept = dict(cell_type='code', metadata={}, outputs=[], execution_count=None)
    cells = [dict(kept, id=f'c{i}', source=s) for i, s in enumerate(sources)]
    return json.dumps(dict(cells=cells, metadata={}, nbformat=4, nbformat_minor=5))


def foreign(name):
    "Whether an environment variable of these tests' own would change what course.py does"
    tools = ('PIP_', 'JUPYTER', 'PYTEST', 'VIRTUAL_ENV', 'GRIDSTRIDE')
    return name.startswith(tools) or name in ('DISPLAY', 'WAYLAND_DISPLAY', 'CXX')


def environ(folder, **env):
    """A learner's environment: an empty home, no display, pip that sees the stand-ins alone and installs without uv,
    which saves two of its starts; the base stays as it is"""
    keep = {k: v for k, v in os.environ.items() if not foreign(k)}
    wheels = str(folder.parent/'wheels')
    pip = dict(PIP_NO_INDEX='1', PIP_FIND_LINKS=wheels, PIP_CONFIG_FILE=os.devnull, GRIDSTRIDE_INSTALLER='pip')
    return {**keep, **pip, 'HOME': str(folder), 'PYTHONDONTWRITEBYTECODE': '1', **{k: str(v) for k, v in env.items()}}


def start(folder, *args, python=None, before=(), **env):
    "course.py, started in `folder`: by the base next to it, if there is one; `before` begins the command line"
    base = folder.parent/'base'
    python = python or (base.resolve() if base.exists() else sys.executable)
    return subprocess.Popen([*before, python, 'course.py', *args], cwd=folder, env=environ(folder, **env), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(child):
    "What `child`, which `start` started, did to its end"
    out, err = child.communicate(timeout=600)
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def course(folder, *args, **kw):
    "What course.py does in `folder`"
    return end(start(folder, *args, **kw))


def refused(res, *words):
    "Assert that `res` is one clear line that has `words`, and status 2"
    assert res.returncode == 2, res
    assert len(res.stderr.splitlines()) == 1 and 'Traceback' not in res.stdout, res
    for w in words: assert w in res.stderr, res.stderr


def hook(folder, code):
    "A folder for PYTHONPATH whose `code` runs when Python starts"
    folder.mkdir()
    (folder/'sitecustomize.py').write_text(code)
    return folder


def load():
    "course.py as a module"
    spec = importlib.util.spec_from_file_location('course', ROOT/'course.py')
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def in_folder(folder):
    "course.py as a module that works in `folder`"
    m = load()
    m.ROOT, m.VENV, m.LOCK = folder, folder/'.venv', folder/'.venv.lock'
    return m


def working_base(folder, add):
    "The executable of a base to whose packages `add` has added pip"
    python, packages = make_base(folder/'python')
    add(packages)
    prefix = subprocess.run([python, '-c', 'import sys; print(sys.prefix)'], text=True, capture_output=True).stdout
    if prefix.strip() != str(python.parents[1]): pytest.skip(f'a copied Python has another home here: {prefix}')
    return python


@pytest.fixture(scope='session')
def base(tmp_path_factory):
    "The Python that course.py is started by"
    return working_base(tmp_path_factory.mktemp('base'), add_pip)


@pytest.fixture(scope='session')
def quick_base(tmp_path_factory):
    "The same, with a stand-in for pip"
    return working_base(tmp_path_factory.mktemp('quick_base'), add_mock)


def place(folder, base):
    "A course that is not set up, in `folder`, with what it needs for that"
    make_wheels(folder/'wheels')
    (folder/'base').symlink_to(base)
    return make_course(folder/'course')


def make(folder, base):
    "A course that is set up, and what that printed"
    folder = place(folder, base)
    res = course(folder, 'setup')
    assert res.returncode == 0, res
    return folder, res


@pytest.fixture(scope='session')
def made(tmp_path_factory, base):
    "A course that is set up by pip, and what that printed"
    return make(tmp_path_factory.mktemp('made'), base)


@pytest.fixture(scope='session')
def quickly_made(tmp_path_factory, quick_base):
    "A course that is set up"
    return make(tmp_path_factory.mktemp('made'), quick_base)[0]


def contents(base):
    "What is in the base, and when it was last changed"
    files = (p for p in base.parents[1].rglob('*') if '__pycache__' not in p.parts)
    return {p: (p.lstat().st_mtime_ns, p.lstat().st_size) for p in files}


def placed(folder, base):
    "A course that is not set up; afterwards, the Python that it was set up by is as it was"
    before = contents(base)
    yield place(folder, base)
    assert contents(base) == before, 'something was installed into the base'


@pytest.fixture
def fresh(tmp_path, base):
    "A course that is not set up, and pip"
    yield from placed(tmp_path, base)


@pytest.fixture
def quick(tmp_path, quick_base):
    "A course that is not set up, and the stand-in for pip"
    yield from placed(tmp_path, quick_base)


@pytest.fixture
def ready(quick, quickly_made):
    "A course that is set up, to be changed: a copy, with the stamp of its own folder"
    shutil.copytree(quickly_made/'.venv', quick/'.venv', symlinks=True)
    stamp = quick/'.venv/setup.json'
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), 'inputs': in_folder(quick).fingerprint()}))
    return quick


# Setting up

@pytest.mark.slow
def test_first_setup_shows_its_steps(made):
    folder, res = made
    said = ('1/3 creating .venv ...', '1/3 creating .venv: done', '2/3', '3/3 installing the course: done', 'Set up in')
    for line in said: assert line in res.stdout
    assert '\r' not in res.stdout, 'a log file gets whole lines'
    assert 'Successfully installed' in (folder/'.venv/setup.log').read_text()
    assert 'Successfully installed' not in res.stdout
    assert json.loads((folder/'.venv/setup.json').read_text())['extras'] == ['course']


def test_second_setup_installs_nothing(made):
    folder, _ = made
    before = (folder/'.venv/setup.log').stat().st_mtime_ns
    res = course(folder, 'setup', PIP_FIND_LINKS='/nowhere')
    assert res.stdout.count('\n') == 1 and res.stdout.endswith(': python3 course.py\n') and res.returncode == 0
    assert (folder/'.venv/setup.log').stat().st_mtime_ns == before


def test_the_emulator_is_compiled_while_pip_installs(quick):
    package, installing, made = quick/'gridstride/cpp/toolchain', quick/'installing', quick/'made'
    package.mkdir(parents=True)
    for folder in (package, package.parent): (folder/'__init__.py').touch()
    (package/'build.py').write_text(f'open({str(made)!r}, "w")')
    child = start(quick, 'setup', SLOW=installing)
    for path in (installing, made): wait_for(path.exists, child)
    assert child.poll() is None
    installing.unlink()
    assert end(child).returncode == 0


def test_jupyterlab_and_kernels_are_quiet(made):
    settings = json.loads((made[0]/'.venv/share/jupyter/lab/settings/overrides.json').read_text())
    assert settings['@jupyterlab/apputils-extension:notification'] == {'fetchNews': 'false', 'checkForUpdates': False}
    settings = json.loads((made[0]/'.venv/etc/ipython/ipython_kernel_config.json').read_text())
    assert settings['IPKernelApp']['log_level'] == 'ERROR'


def test_the_first_screen_has_the_contents_open(made):
    "The files are where JupyterLab reads them, and name settings that it has"
    from jupyterlab_server.workspaces_handler import slugify
    share = made[0]/'.venv/share/jupyter/lab'
    layout = json.loads((share/'workspaces'/f'{slugify("default")}.jupyterlab-workspace').read_text())
    assert layout['data']['layout-restorer:data']['left']['current'] == '@jupyterlab/toc:plugin'
    assert Path(lab(course(made[0]))[1]['env']['JUPYTERLAB_WORKSPACES_DIR']) == share/'workspaces'
    for plugin, chosen in json.loads((share/'settings/overrides.json').read_text()).items():
        package, name = plugin.split(':')
        schema = Path(sys.prefix)/'share/jupyter/lab/schemas'/package/f'{name}.json'
        assert chosen.keys() <= json.loads(schema.read_text())['properties'].keys(), plugin


@pytest.mark.slow
def test_changed_pins_and_a_moved_folder_install_again(ready):
    (ready/'constraints.txt').write_text(PINS+'# changed\n')
    again = course(ready, 'setup').stdout
    assert '3/3' in again and '1/3' not in again
    moved = ready.rename(ready.with_name('moved'))
    assert '3/3' in course(moved, 'setup').stdout
    assert (next((moved/'.venv').glob('lib/*/site-packages/gridstride.pth'))).read_text() == str(moved)


def add_uv(folder, main):
    "Let pip find a package uv whose program is `main`"
    wheel(folder.parent/'wheels', 'uv', '1.0', {'uv/__init__.py': '', 'uv/__main__.py': main})


def installer_of(folder, package):
    "Return what installed a package"
    return next((folder/'.venv').glob(f'lib/*/site-packages/{package}-*.dist-info/INSTALLER')).read_text().strip()


@pytest.mark.slow
def test_uv_installs_the_course_with_pip_s_settings(fresh):
    add_uv(fresh, f'import os, sys\nos.execv({find_uv_bin()!r}, ["uv", *sys.argv[1:]])\n')
    res = course(fresh, 'setup', GRIDSTRIDE_INSTALLER='')
    assert res.returncode == 0 and 'failed' not in res.stdout, res
    assert [installer_of(fresh, name) for name in ('uv', 'numpy', 'jupyterlab', 'gridstride')] == ['pip', *['uv'] * 3]


@pytest.mark.slow
def test_pip_installs_what_uv_cannot(fresh):
    add_uv(fresh, 'raise SystemExit("uv does not work here")')
    res = course(fresh, 'setup', GRIDSTRIDE_INSTALLER='')
    assert res.returncode == 0 and '3/3 installing the course' in res.stdout, res
    assert [installer_of(fresh, name) for name in ('numpy', 'jupyterlab')] == ['pip'] * 2


@pytest.mark.parametrize('settings, options', [
    ({'timeout': '60', 'no-index': 'false'}, []),
    ({'no-index': '1', 'find-links': '/a /b'}, ['--no-index', '--find-links', '/a', '--find-links', '/b']),
    ({'index-url': 'https://a', 'cert': '/b.pem'}, ['--index-url', 'https://a', '--cert', '/b.pem']),
    ({'index-url': 'https://a', 'client-cert': '/b.pem'}, None),
], ids=['ignored', 'several', 'one', 'unknown'])
def test_settings_of_pip_as_options_of_uv(settings, options): assert load().uv_options(settings) == options


def test_variables_take_precedence_in_pip_s_settings(monkeypatch, tmp_path):
    (tmp_path/'pip.conf').write_text("[global]\nfind-links = /a\nno-binary = b\n[install]\nno-binary = it's\n")
    monkeypatch.setenv('PIP_CONFIG_FILE', str(tmp_path/'pip.conf'))
    monkeypatch.setenv('PIP_FIND_LINKS', '/c /d')
    m = load()
    m.PYTHON = Path(sys.executable)
    assert {**m.pip_settings(), 'find-links': '/c /d', 'no-binary': "it's"} == m.pip_settings()


STOPPED = re.compile('Stopped; [^\n]*')


def test_interrupt_then_the_same_command_continues(fresh):
    pid = fresh/'pid'
    child = start(fresh, 'setup', SLOW=pid)
    wait_for(pid.exists, child)
    child.send_signal(signal.SIGINT)
    res = end(child)
    assert res.returncode == 130 and STOPPED.fullmatch(res.stderr.strip()), res
    assert not running(int(pid.read_text())), 'what pip started must end too'
    again = course(fresh, 'setup')
    assert again.returncode == 0 and 'creating .venv' not in again.stdout, again


def wait_for(ready, child, seconds=300):
    "Wait until `ready()`, or fail when that takes too long or `child` ends before"
    end = time.monotonic() + seconds
    while not ready():
        assert child.poll() is None and time.monotonic() < end, 'it never came so far'
        time.sleep(.05)


def running(pid):
    "Whether a process still runs; one that only waits to be collected does not"
    try: return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess: return False


@pytest.mark.slow
def test_incomplete_environment_is_made_again(quick):
    (quick/'.venv/bin').mkdir(parents=True)
    (quick/'.venv/bin/python').write_text('not a program')
    (quick/'.venv/left_over').write_text('')
    res = course(quick, 'setup')
    assert res.returncode == 0 and not res.stderr and not (quick/'.venv/left_over').exists(), res


@pytest.mark.slow
def test_broken_environment(ready):
    shutil.rmtree(next((ready/'.venv').glob('lib/*/site-packages/pip')))
    for args in (['setup'], [], ['run', '1'], ['test']):
        refused(course(ready, *args), 'broken', 'python3 course.py clean')
    assert 'not work' in course(ready, 'doctor').stdout
    assert course(ready, 'clean').returncode == 0
    assert course(ready, 'setup').returncode == 0


def test_half_installed_package_is_forgotten(tmp_path):
    m = load()
    m.VENV = tmp_path
    files_of = dict(whole=['METADATA', 'RECORD', 'INSTALLER'], pip=['METADATA', 'INSTALLER'], uv=['METADATA', 'RECORD'])
    for name, files in files_of.items():
        d = tmp_path/f'lib/python3/site-packages/{name}-1.0.dist-info'
        d.mkdir(parents=True)
        for f in files: (d/f).write_text('')
    m.drop_half_installed()
    assert [p.name for p in tmp_path.glob('lib/*/*/*')] == ['whole-1.0.dist-info']


@pytest.mark.slow
def test_progress_line_in_a_terminal(quick):
    import pty
    ours, theirs = pty.openpty()
    cmd = [(quick.parent/'base').resolve(), 'course.py', 'setup']
    child = subprocess.Popen(cmd, cwd=quick, env=environ(quick, COLUMNS=60), stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    text = b''.join(iter(lambda: read(ours), b'')).decode().replace('\x1b[K', '')
    assert child.wait(300) == 0
    line = next(l for l in text.split('\n') if '1/3' in l)
    shown = [l.rstrip() for l in line.split('\r') if l.strip()]
    assert re.fullmatch(r'1/3 creating \.venv, \d+ s', shown[0]), shown
    assert re.fullmatch(r'1/3 creating \.venv: done, \d+ s', shown[-1]), shown
    assert all(len(l) < 60 for l in line.split('\r')), 'a line that wraps cannot be overwritten'
    assert text.count('\n') < 12


def read(fd):
    "The next of a terminal's output; nothing at its end"
    try: return os.read(fd, 4096)
    except OSError as e:
        assert e.errno == errno.EIO
        return b''


def test_a_step_that_takes_long_prints_lines_to_a_file(tmp_path, capsys, monkeypatch):
    m = load()
    monkeypatch.setattr(m, 'SECONDS_PER_LINE', .3)
    monkeypatch.setattr(m, 'LOG', tmp_path/'log')
    code = 'import time; print("Collecting numpy (from x)", flush=True); time.sleep(1.2)'
    with open(tmp_path/'lock', 'w') as lock:
        assert m.follow_to_end([sys.executable, '-c', code], lock, [], lambda: '3/3 installing') == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert sum(line.startswith('3/3') and line.endswith('numpy') for line in lines) >= 2


@pytest.mark.parametrize('line,want', [
    ('Collecting torch==2.13.0 (from -c constraints.txt (line 3))', 'collecting torch==2.13.0'),
    ('  Downloading https://example.org/a/b/torch-2.13.0.whl (500 MB)', 'downloading torch-2.13.0.whl'),
    ('Installing collected packages: a, b, c', 'installing 3 packages'),
    ('Resolved 139 packages in 1.20s', 'installing 139 packages'),
    ('Requirement already satisfied: numpy', None)])
def test_what_an_installer_does(line, want): assert load().doing(line) == want


# PyTorch: where no GPU is, the build for the CPU, if its index answers

class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args): pass


@pytest.fixture
def served(tmp_path):
    "A folder, and the address at which it is served"
    (tmp_path/'served').mkdir()
    with ThreadingHTTPServer(('127.0.0.1', 0), partial(Quiet, directory=tmp_path/'served')) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path/'served', f'http://127.0.0.1:{server.server_port}'
        server.shutdown()


def torch_wheel(folder, version, cuda):
    "A stand-in for PyTorch in a folder of an index"
    folder.mkdir(parents=True)
    wheel(folder, 'torch', version, {'torch/version.py': f'cuda = {cuda!r}\n', 'torch/lib.so': '0'*3_000_000})


NO_GPU = 'import gridstride.course.doctor\ngridstride.course.doctor.has_gpu = lambda m=None: False\n'


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='elsewhere PyTorch has one build')
def test_torch_for_the_cpu_and_for_a_gpu_that_comes_later(fresh, served):
    folder, address = served
    torch_wheel(folder/'simple/torch', '2.13.0', '13.0')
    torch_wheel(folder/'cpu/torch', '2.13.0+cpu', None)
    (fresh/'constraints.txt').write_text(PINS + 'torch==2.13.0\n')
    asks = "Requires-Dist: jupyterlab; extra == 'course'\n"
    backend = BACKEND.replace(asks, asks + asks.replace('jupyterlab', 'torch'))
    modules = {'setuptools/__init__.py': '', 'setuptools/build_meta.py': backend}
    wheel(fresh.parent/'wheels', 'setuptools', '84.0', modules)
    env = dict(PYTHONPATH=f"{hook(fresh.parent/'hook', NO_GPU)}:{fresh}", GRIDSTRIDE_TORCH_INDEX=f'{address}/cpu',
               PIP_NO_INDEX='', PIP_INDEX_URL=f'{address}/simple')
    res = course(fresh, 'setup', **env)
    assert res.returncode == 0 and names(res.stdout, '2/3', 'CPU'), res
    assert names(res.stdout, 'PyTorch is 2.13.0+cpu', '3.0 MB.\n')
    site = list((fresh/'.venv').glob('lib/*/site-packages'))
    gpu = doctor._torch(doctor.machine(site=site, driver=lambda: (1, '13.0')))
    assert gpu.state == 'mismatch' and gpu.found.startswith('2.13.0+cpu')
    fixed = subprocess.run(gpu.fix, shell=True, cwd=fresh, env=environ(fresh, **env), capture_output=True, text=True)
    assert fixed.returncode == 0 and doctor.torch_build(site) == '2.13.0, built for CUDA 13.0, 3.0 MB', fixed
    (fresh/'constraints.txt').write_text(PINS + 'torch==2.13.0\n# changed\n')
    again = course(fresh, 'setup', **env).stdout
    assert 'build for' not in again and names(again, 'PyTorch is 2.13.0', 'CUDA 13.0', '3.0 MB.\n')


def test_whether_an_index_answers(served):
    m, (folder, address) = load(), served
    assert not m.answers(address), 'it has no page on PyTorch'
    (folder/'torch').mkdir()
    assert m.answers(address) and m.answers(f'{address}/')
    with socket.create_server(('127.0.0.1', 0)) as silent:
        start = time.monotonic()
        assert not m.answers(f'http://127.0.0.1:{silent.getsockname()[1]}', .3) and time.monotonic()-start < 60
    assert not m.answers('http://127.0.0.1:9') and not m.answers('no address')


@pytest.fixture
def asks(tmp_path, monkeypatch):
    "course.py on Linux without a GPU or any word on packages, but for what the test says"
    for name in [o for o in os.environ if foreign(o)]: monkeypatch.delenv(name)
    monkeypatch.setattr(sys, 'platform', 'linux')
    m = load()
    monkeypatch.setattr(m.doctor, 'has_gpu', lambda: False)
    m.VENV, m.has_pip_an_index = tmp_path, lambda: False
    return m


def test_the_index_that_is_queried(asks, monkeypatch):
    cfg = ConfigParser()
    cfg.read(ROOT/'settings.ini')
    assert asks.torch_index() == cfg['DEFAULT']['torch_cpu_index']
    asks.has_pip_an_index = lambda: True
    assert asks.torch_index() is None
    monkeypatch.setenv('GRIDSTRIDE_TORCH_INDEX', 'http://127.0.0.1')
    assert asks.torch_index() == 'http://127.0.0.1'
    monkeypatch.setenv('GRIDSTRIDE_TORCH_INDEX', '')
    assert asks.torch_index() is None


@pytest.mark.parametrize('what', ['gpu', 'macOS', 'there'])
def test_no_index_is_queried_for_a_useless_build(asks, tmp_path, monkeypatch, what):
    if what == 'gpu': monkeypatch.setattr(asks.doctor, 'has_gpu', lambda: True)
    if what == 'macOS': monkeypatch.setattr(sys, 'platform', 'darwin')
    if what == 'there':
        pin = re.search('^torch==(.*)$', (ROOT/'constraints.txt').read_text(), re.M)[1]
        site = tmp_path/'lib/python3/site-packages'
        (site/'torch-0.1.dist-info').mkdir(parents=True)
        assert not asks.is_torch_there(), 'the exact version counts'
        (site/f'torch-{pin}+cpu.dist-info').mkdir()
    assert asks.torch_index() is None


FILE = '[install]\nextra-index-url = http://127.0.0.1\n'


@pytest.mark.slow
@pytest.mark.parametrize('setting', ['PIP_FIND_LINKS', 'PIP_NO_INDEX', FILE, ''])
def test_settings_that_give_pip_an_index(asks, tmp_path, monkeypatch, setting):
    if setting.startswith('PIP'): monkeypatch.setenv(setting, '1')
    (tmp_path/'pip.conf').write_text(setting)
    monkeypatch.setenv('PIP_CONFIG_FILE', str(tmp_path/'pip.conf') if setting else os.devnull)  # devnull: no other
    m = load()
    m.PYTHON = Path(sys.executable)
    assert m.has_pip_an_index() == bool(setting)


@pytest.mark.parametrize('there', [False, True])
def test_a_build_for_the_cpu_that_cannot_be_had_stops_nothing(asks, capsys, there):
    asks.answers = lambda index: there
    asks.attempt = lambda *args: (1, ['ERROR: No matching distribution found for torch==2.13.0\n'])
    asks.install_torch_for_cpu(None, [])
    said = capsys.readouterr().out
    assert names(said, *(['No matching', 'distribution'] if there else ['answer', 'two seconds']))
    assert 'default build' in said and said.count('\n') == 1


# An environment of its own. Without pyvenv.cfg, the Python in .venv is the base, whose pip works as well.

@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_real_environment(tmp_path):
    "By the Python of these tests, and its own ensurepip, as the set-up before each run of all tests"
    make_wheels(tmp_path/'wheels')
    folder = make_course(tmp_path/'course')
    res = course(folder, 'setup', python=sys.executable, PIP_REQUIRE_VIRTUALENV=1)
    assert res.returncode == 0 and (folder/'.venv/pyvenv.cfg').exists(), res
    assert doctor.environment_version(folder/'.venv') == '%d.%d' % sys.version_info[:2]


@pytest.mark.slow
def test_broken_unfinished_environment_is_made_again(ready):
    for name in ('pyvenv.cfg', 'setup.json'): (ready/'.venv'/name).unlink()
    res = course(ready, 'setup')
    assert res.returncode == 0 and '1/3 creating .venv: done' in res.stdout, res
    assert (ready/'.venv/pyvenv.cfg').exists()


@pytest.mark.slow
def test_finished_environment_that_is_none_any_more(ready):
    (ready/'.venv/pyvenv.cfg').unlink()
    refused(course(ready, 'setup'), 'broken', 'python3 course.py clean')
    assert re.search(r'missing +\.venv +does not work', course(ready, 'doctor').stdout)


def test_environment_that_cannot_be_made(fresh, base):
    "It is looked at before anything is installed"
    venv = f'import os, sys; os.makedirs(sys.argv[1] + "/bin"); os.symlink({str(base)!r}, sys.argv[1] + "/bin/python")'
    (fresh.parent/'hook/venv').mkdir(parents=True)
    (fresh.parent/'hook/venv/__init__.py').write_text('')
    (fresh.parent/'hook/venv/__main__.py').write_text(venv)
    res = course(fresh, 'setup', PYTHONPATH=fresh.parent/'hook')
    refused(res, 'broken', 'its Python is not its own')
    assert '2/3' not in res.stdout


@pytest.fixture
def environment(tmp_path, base):
    "A virtual environment with pip"
    subprocess.run([base, '-m', 'venv', tmp_path/'env'], check=True)
    return tmp_path/'env'


def test_what_counts_as_an_environment(environment):
    works = doctor.environment_version(environment)
    assert works == '%d.%d' % sys.version_info[:2]
    moved = environment.rename(environment.with_name('moved'))
    environment.symlink_to(moved)
    assert doctor.environment_version(moved) == doctor.environment_version(environment) == works


def test_an_environment_that_is_slow_is_not_broken(tmp_path, monkeypatch):
    "As on a machine with many times more work than cores: removing it would not make it faster"
    (python := tmp_path/'.venv/bin/python').parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nexec sleep 60\n')
    python.chmod(0o755)
    monkeypatch.setattr(doctor, '_TIMEOUT_SECONDS', .1)
    with pytest.raises(subprocess.TimeoutExpired): doctor.environment_version(tmp_path/'.venv')
    row = doctor._environment(SimpleNamespace(course=True, root=tmp_path))
    assert row.state == 'missing' and 'clean' not in row.fix


def test_what_does_not_count_as_one(environment, base):
    pip = next(environment.glob('lib/*/site-packages/pip-*.dist-info'))
    (pip/'RECORD').rename(pip/'kept')
    assert doctor.environment_version(environment) is None, 'pip was not installed to its end'
    (pip/'kept').rename(pip/'RECORD')
    other = environment.with_name('other')
    (other/'bin').mkdir(parents=True)
    (other/'bin/python').symlink_to(environment/'bin/python')
    assert doctor.environment_version(other) is None, 'its Python is another environment\'s'
    (environment/'pyvenv.cfg').unlink()
    assert doctor.environment_version(environment) is None and doctor.environment_version(base.parents[1]) is None


@pytest.mark.slow
def test_settings_that_lead_elsewhere(fresh, tmp_path):
    there = tmp_path/'elsewhere'
    for name in ('PIP_TARGET', 'PIP_PREFIX', 'PIP_ROOT', 'PYTHONHOME'):
        assert name in load().LEAD_ELSEWHERE
    res = course(fresh, 'setup', PIP_TARGET=there, PIP_PREFIX=there, PIP_ROOT=there, PIP_USER=1)
    assert res.returncode == 0 and not there.exists(), res
    assert list((fresh/'.venv').glob('lib/*/site-packages/jupyterlab'))


DAMAGED = [b'', b'[]', b'{}', b'null', b'3', b'"inputs"', b'{"inputs": "a"', b'\xff\x00', b'['*100_000,
           b'{"inputs": "a", "python": "3.11", "extras": "course"}', b'{"inputs": "a", "python": "3.11", "extras": 3}',
           b'{"inputs": "a", "python": "3.11", "extras": [3]}', b'["inputs", "python", "extras"]',
           b'{"inputs": "a", "python": "3.11", "extras": ["\\u0000", "\\ud800"]}', b'{"extras": []}']


@pytest.mark.parametrize('text', DAMAGED, ids=lambda t: ascii(t[:60]))
def test_damaged_stamp_counts_as_none(tmp_path, text):
    m = load()
    m.STAMP = tmp_path/'setup.json'
    m.STAMP.write_bytes(text)
    assert m.stamp() == {}


@pytest.mark.slow
def test_damaged_stamp_means_unfinished(ready):
    whole = (ready/'.venv/setup.json').read_text()
    (ready/'.venv/setup.json').write_text('[]')
    res = course(ready, 'setup')
    assert res.returncode == 0 and '1/3' not in res.stdout and '3/3' in res.stdout, res
    assert (ready/'.venv/setup.json').read_text() == whole


# One at a time

@pytest.mark.slow
@pytest.mark.parametrize('where', ['SLOW_PIP', 'SLOW'])
def test_second_setup_waits_and_says_for_whom(quick, tmp_path, where):
    first = start(quick, 'setup', **{where: tmp_path/'pause'})
    wait_for((tmp_path/'pause').exists, first)
    second = start(quick, 'setup')
    said = second.stdout.readline()
    (tmp_path/'pause').unlink()
    holder = f'the set-up (process {first.pid})'
    assert said.startswith(f'Waiting for {holder}, ') and 'Ctrl-C' in said
    first, second = end(first), end(second)
    assert first.returncode == second.returncode == 0, (first, second)
    assert 'Set up' in first.stdout and 'Set up' not in second.stdout
    assert second.stdout.endswith(': python3 course.py\n')


@pytest.mark.slow
def test_what_a_killed_setup_started_is_waited_for(quick, tmp_path):
    first = start(quick, 'setup', SLOW_PIP=tmp_path/'pause')
    wait_for((tmp_path/'pause').exists, first)
    first.kill()
    second = start(quick, 'setup')
    assert names(second.stdout.readline(), 'Waiting', 'set-up'), 'it still fills .venv'
    (tmp_path/'pause').unlink()
    second, _ = end(second), first.communicate()
    assert second.returncode == 0 and 'Set up' in second.stdout, second


@pytest.mark.parametrize('command', ['setup', 'clean'])
def test_waiting_ends_with_ctrl_c(quick, command):
    (quick/'.venv').mkdir()
    with open(quick/'.venv.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child = start(quick, command)
        assert names(child.stdout.readline(), 'Waiting', 'another course.py')
        child.send_signal(signal.SIGINT)
        res = end(child)
    assert res.returncode == 130 and not res.stdout and STOPPED.fullmatch(res.stderr.strip()), res
    assert not list((quick/'.venv').iterdir())


def test_hang_up_is_ignored_under_nohup(quick):
    with open(quick/'.venv.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child = start(quick, 'clean', before=['nohup'])
        assert names(child.stdout.readline(), 'Waiting', 'another course.py')
        child.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired): child.wait(.5)
    assert end(child).returncode == 0


def test_ctrl_c_before_anything_is_done(quick):
    early = quick.parent/'hook'
    early.mkdir()
    (early/'webbrowser.py').write_text('import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n')
    res = course(quick, 'setup', PYTHONPATH=early)
    assert res.returncode == -signal.SIGINT and not res.stderr, res


def test_finished_setup_does_not_wait(made):
    "It writes nothing, either: the folder may be read-only"
    with open(made[0]/'.venv.lock') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert course(made[0], 'setup').returncode == 0


def test_lock_on_a_disk_without_locks_or_space(tmp_path, monkeypatch):
    m = in_folder(tmp_path)
    def no_locks(*args): raise OSError(errno.ENOLCK, 'No locks available')
    monkeypatch.setattr(m.fcntl, 'flock', no_locks)
    monkeypatch.setattr(m, 'open', lambda *args, **kw: open('/dev/full', 'ab', buffering=0), raising=False)
    with m.locked('the removal') as lock: assert not lock.closed


# Removing: an environment is whole, or under another name

def test_interrupted_clean_leaves_no_half_environment(tmp_path, monkeypatch, capsys):
    m = in_folder(tmp_path)
    (m.VENV/'bin').mkdir(parents=True)
    def interrupt(path): raise KeyboardInterrupt
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(m.shutil, 'rmtree', interrupt)
        m.clean([])
    left = [p.name for p in tmp_path.glob('.venv*') if p != m.LOCK]
    assert len(left) == 1 and left[0].startswith('.venv.gone-')
    m.clean([])
    assert capsys.readouterr().out == f'Removed {left[0]}.\n' and list(tmp_path.iterdir()) == [m.LOCK]


@pytest.mark.slow
def test_setup_removes_what_an_interrupted_clean_left(quick):
    (quick/'.venv.gone-1/bin').mkdir(parents=True)
    assert course(quick, 'setup').returncode == 0 and not (quick/'.venv.gone-1').exists()


# What can be wrong

def test_old_python(tmp_path):
    source = (ROOT/'course.py').read_text()
    ast.parse(source, feature_version=(3, 6))
    cfg = ConfigParser()
    cfg.read(ROOT/'settings.ini')
    old = hook(tmp_path/'hook', "import sys\nsys.version_info = (3, 8, 18, 'final', 0)\n")
    needed = f"Python {cfg['DEFAULT']['min_python']} or newer"
    refused(course(ROOT, 'setup', PYTHONPATH=old), needed, 'this is 3.8')


@pytest.mark.parametrize('version', ['3.6', '3.7', '3.8', '3.9'])
def test_real_old_python(version):
    python = shutil.which(f'python{version}')
    if not (python and subprocess.run([python, '-V'], capture_output=True).returncode == 0):
        pytest.skip(f'no Python {version} here')
    refused(course(ROOT, 'setup', python=python), 'or newer is needed', f'this is {version}')


def test_no_venv_module(quick, tmp_path):
    bare = hook(tmp_path/'hook', "import sys\nsys.modules['ensurepip'] = None\n")
    refused(course(quick, 'setup', PYTHONPATH=bare), 'virtual environment', 'venv')
    assert not (quick/'.venv').exists()


def test_no_compiler(quick, tmp_path):
    (tmp_path/'bin').mkdir()
    refused(course(quick, 'setup', PATH=tmp_path/'bin'), 'C++ compiler', 'g++')
    assert not (quick/'.venv').exists()


@pytest.mark.slow
def test_compiler_named_by_cxx(quick, tmp_path):
    (tmp_path/'bin').mkdir()
    (tmp_path/'bin/mine').symlink_to('/bin/true')
    assert course(quick, 'setup', PATH=tmp_path/'bin', CXX='mine -O2').returncode == 0


def test_no_space(quick, tmp_path):
    full = hook(tmp_path/'hook', "import shutil\nshutil.disk_usage = lambda p: type('U', (), dict(free=2*10**9))\n")
    refused(course(quick, 'setup', PYTHONPATH=full), '2.0 GB are free', '5 GB')
    assert not (quick/'.venv').exists()


@pytest.mark.slow
def test_disk_that_fills_up_on_the_way(fresh):
    res = course(fresh, 'setup', SAY='OSError: [Errno 28] No space left on device')
    refused(res, 'disk is full', 'same command again', str(fresh/'.venv/setup.log'))


@pytest.mark.slow
def test_no_network(fresh):
    index = dict(PIP_NO_INDEX='', PIP_FIND_LINKS='', PIP_INDEX_URL='http://127.0.0.1:9/', PIP_RETRIES='1')
    refused(course(fresh, 'setup', **index), 'network', 'same command again', str(fresh/'.venv/setup.log'))


@pytest.mark.slow
def test_pip_fails_for_another_reason(fresh):
    (fresh/'constraints.txt').write_text('setuptools==0.1\n')
    refused(course(fresh, 'setup'), 'ERROR: ', 'setuptools', str(fresh/'.venv/setup.log'))
    assert not (fresh/'.venv/setup.json').exists()


def read_only(folder):
    "How a command line begins that runs in `folder`, where it cannot write"
    if os.geteuid(): return folder.chmod(0o555) or []
    if subprocess.run(['sh', '-c', 'unshare -m true'], capture_output=True).returncode:
        pytest.skip('root writes everywhere, and no read-only mount can be made')
    mount = f'mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && cd {folder} && exec "$@"'
    return ['unshare', '-m', 'sh', '-c', mount, 'sh']


def test_read_only_folder(quick):
    python = (quick.parent/'base').resolve()
    cmd = [*read_only(quick), python, 'course.py', 'setup']
    res = subprocess.run(cmd, cwd=quick, env=environ(quick), text=True, capture_output=True, timeout=300)
    quick.chmod(0o755)
    refused(res, str(quick/'.venv'), 'cannot be used')


@pytest.mark.parametrize('args,words', [
    (['42'], ['no lesson 42', '01, 02']),
    (['run', '01', '42'], ['no lesson 42', '01, 02']),
    (['record', '42'], ['no lesson 42', '01, 02']),
    (['record'], ['record 08']),
    (['run', '--jobs', '0'], ["'0'", '--jobs']),
    (['run', '--jobs', 'two'], ["'two'", '--jobs']),
    (['run', '--fast'], ['--fast']),
    (['--port', 'x'], ['--port', "'x'"]),
    (['--port', '99999'], ['99999']),
    (['setup', 'now'], ['now']),
    (['paint'], ["no command 'paint'", 'doctor', 'clean'])])
def test_a_question_that_makes_no_sense(quick, args, words):
    refused(course(quick, *args), *words)
    assert not (quick/'.venv').exists(), 'it is reported before anything is set up'


# The commands

def lab(res):
    "The address that was printed, and how JupyterLab was called"
    assert res.returncode == 0, res
    *said, called = res.stdout.strip().splitlines()
    return next(l.strip() for l in said if l.strip().startswith('http')), json.loads(called)


def test_open_prints_the_address_without_a_display(made):
    folder, _ = made
    url, called = lab(course(folder))
    assert re.fullmatch(r'http://localhost:\d+/lab/tree/my/START\.md\?token=[0-9a-f]{32}', url)
    token = url.split('=')[1]
    assert called['env']['JUPYTER_TOKEN'] == token
    assert token not in ' '.join(called['argv']), 'other users can read a command line'
    assert called['env']['JUPYTER_PREFER_ENV_PATH'] == '1' and called['cwd'] == str(folder)
    assert called['env']['PATH'].startswith(str(folder/'.venv'))
    page = '--LabApp.default_url=/lab/tree/my/START.md'
    assert {f'--ServerApp.root_dir={folder}', page, '--ServerApp.open_browser=False'} <= set(called['argv'])


@pytest.mark.parametrize('args,browser', [([], True), (['--no-browser'], False)])
@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='DISPLAY is for Linux')
def test_open_with_a_display(made, tmp_path, args, browser):
    window = tmp_path/'firefox'
    window.symlink_to('/bin/true')
    _, called = lab(course(made[0], *args, DISPLAY=':0', PATH=f'{tmp_path}:/usr/bin:/bin', BROWSER=window))
    assert f'--ServerApp.open_browser={browser}' in called['argv']


def test_open_another_lesson(made):
    url, called = lab(course(made[0], '2', '--no-browser'))
    assert '/lab/tree/my/02_second.ipynb?' in url
    assert (made[0]/'my/02_second.ipynb').read_text() == (made[0]/'nbs/02_second.ipynb').read_text()


@pytest.mark.parametrize('family,host', [(socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')])
def test_a_taken_port_moves_to_the_next(made, family, host):
    try: s = socket.create_server((host, 0), family=family)
    except OSError: pytest.skip(f'no {host} here')
    with s:
        port = s.getsockname()[1]
        url, called = lab(course(made[0], '--port', str(port)))
    moved = int(re.search(r':(\d+)/', url)[1])
    assert port < moved < port+100 and f'--ServerApp.port={moved}' in called['argv']


@pytest.mark.slow
def test_test_command(quick):
    res = course(quick, 'test')
    assert res.returncode == 0, res
    argv = json.loads(res.stdout.splitlines()[-1])['argv']
    assert argv[0] == '-n' and 4 <= int(argv[1]) <= 10
    assert argv[2:8] == ['--dist', 'worksteal', '-p', 'no:logging', '-p', 'no:anyio']
    assert argv[8:] == ['-p', 'no:hypothesispytest', '-rsx', '--durations=10', 'tests']
    fast = ['-n', str(int(argv[1]) - 2), *argv[2:10], '-m', 'not slow and not browser', '-q', 'tests']
    assert json.loads(course(quick, 'test', '--fast').stdout)['argv'] == fast
    assert json.loads(course(quick, 'test', '--all').stdout)['argv'] == [*argv[:-1], '--all', 'tests']
    res = course(quick, 'test', '-x', 'tests/test_a.py', '-k', 'b')
    called = json.loads(res.stdout)  # nothing else: the second time it is set up already
    assert called['argv'] == ['-x', 'tests/test_a.py', '-k', 'b']
    lab(course(quick))


def test_run_command_calls_the_runner_in_the_environment(made):
    folder, _ = made
    res = course(folder, 'run', '01', '--jobs', '3')
    called = json.loads(res.stdout)
    assert res.returncode == 7 and called['argv'] == ['run', '01', '--jobs', '3'], res
    assert called['env']['PATH'].startswith(str(folder/'.venv'))


def test_record_command_runs_lessons_in_recording_mode(made):
    folder, _ = made
    res = course(folder, 'record', '02')
    called = json.loads(res.stdout.splitlines()[0])
    assert res.returncode == 7 and called['argv'] == ['run', '02'] and called['env']['GRIDSTRIDE_RECORD'] == '1', res
    assert res.stdout.splitlines()[-1] == 'Written: nothing'


@pytest.mark.parametrize('missed,status', [('', 0), ('08_b: needs ncu\n', 1)])
def test_record_says_what_was_written(tmp_path, monkeypatch, capsys, missed, status):
    m = load()
    m.ROOT, m.setup = tmp_path, lambda: None
    (tmp_path/'nbs/recorded').mkdir(parents=True)
    (tmp_path/'nbs/08_x.ipynb').write_text(notebook('1'))
    for name in ('08_old', '08_a'): (tmp_path/f'nbs/recorded/{name}.json').write_text('{}')
    os.utime(tmp_path/'nbs/recorded/08_a.json', (1, 1))
    def lesson(cmd, cwd, env):
        for name in ('08_a', '08_new'): (tmp_path/f'nbs/recorded/{name}.json').write_text('{}')
        Path(env['GRIDSTRIDE_MISSED']).write_text(missed)
        return 0
    monkeypatch.setattr(m.subprocess, 'call', lesson)
    with pytest.raises(SystemExit) as e: m.record(['08'])
    said = capsys.readouterr().out
    assert e.value.code == status and 'Written: 08_a.json, 08_new.json\n' in said
    assert ('Not written: 08_b: needs ncu' in said) == bool(missed)


def test_nothing_recorded_is_a_failure(tmp_path, monkeypatch, capsys):
    m = load()
    m.ROOT, m.setup = tmp_path, lambda: None
    (tmp_path/'nbs').mkdir()
    (tmp_path/'nbs/08_x.ipynb').write_text(notebook('1'))
    monkeypatch.setattr(m.subprocess, 'call', lambda *args, **kw: 0)
    with pytest.raises(SystemExit) as e: m.record(['08'])
    assert e.value.code == 1 and 'Written: nothing' in capsys.readouterr().out


@pytest.mark.parametrize('broken', [False, True])
def test_doctor_without_a_working_environment(quick, broken):
    if broken: (quick/'.venv').mkdir()
    res = course(quick, 'doctor')
    assert res.returncode == 1 and not res.stderr, res
    assert re.search(r'missing +\.venv .*' + ('not work' if broken else 'not set'), res.stdout)


@pytest.mark.slow
def test_progress(quick):
    def ask(*chosen, **env):
        res = course(quick, 'progress', *chosen, **env)
        assert res.returncode == 0, res
        return res.stdout
    assert '0 of 2 exercises' in ask()
    done = json.dumps(dict(solved={'first.a': '2026-11-21'}))
    (quick/'nbs/.progress.json').write_text(done)
    assert '1 of 2 exercises' in ask() and '02_second' in ask() and '2026-11-21  first.a' in ask('1')
    assert 'second.a' not in ask('01') and 'first.a' not in ask('02')
    refused(course(quick, 'progress', '03'), '03')
    assert '0 of 2 exercises' in ask(GRIDSTRIDE_PROGRESS=quick/'other.json')
    assert not (quick/'.venv').exists()


@pytest.mark.parametrize('text', ['{"solved": {"01.a"', '[]', ''])
def test_progress_file_that_cannot_be_read(quick, text):
    (quick/'nbs/.progress.json').write_text(text)
    refused(course(quick, 'progress'), str(quick/'nbs/.progress.json'), 'cannot be read')
    assert (quick/'nbs/.progress.json').read_text() == text


def test_reset_keeps_the_old_copy(quick):
    refused(course(quick, 'reset', '03'), '03')
    for expected in (['01_first.ipynb'], ['01_first.ipynb', 'old_01_first.ipynb']):
        assert course(quick, 'reset', '1').returncode == 0
        assert [p.name for p in sorted((quick/'my').glob('*.ipynb'))] == expected
        assert (quick/'my/01_first.ipynb').read_text() == (quick/'nbs/01_first.ipynb').read_text()
        (quick/'my/01_first.ipynb').write_text(notebook('mine'))
    assert (quick/'my/old_01_first.ipynb').read_text() == notebook('mine')


def git(*args, cwd):
    subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *args], cwd=cwd, check=True,
                   capture_output=True, env=dict(os.environ, GIT_CONFIG_GLOBAL=os.devnull))


@pytest.fixture
def mine(quick, tmp_path):
    "A clone of the course `quick`, which is a repository"
    (quick/'.gitignore').write_text('/my/\n__pycache__/\n')
    for args in (['init', '-q', '-b', 'main'], ['add', '-A'], ['commit', '-qm', 'one']): git(*args, cwd=quick)
    git('clone', '-q', str(quick), str(tmp_path/'mine'), cwd=tmp_path)
    return tmp_path/'mine'


@pytest.mark.slow
def test_update_pulls_the_course_and_keeps_answers(quick, mine):
    assert course(mine, 'update').returncode == 0 and (mine/'my/START.md').exists()
    copy, newer = mine/'my/01_first.ipynb', json.loads((quick/'nbs/01_first.ipynb').read_text())
    edited = json.loads(copy.read_text())
    edited['cells'][0]['source'] = 'my answer'
    copy.write_text(json.dumps(edited))
    newer['cells'].append(dict(newer['cells'][0], id='new', source='a new cell'))
    (quick/'nbs/01_first.ipynb').write_text(json.dumps(newer))
    git('commit', '-qam', 'two', cwd=quick)
    res = course(mine, 'update')
    assert res.returncode == 0 and '01_first' in res.stdout and '02_second' not in res.stdout, res
    assert [c['source'] for c in json.loads(copy.read_text())['cells']] == ['my answer', 'a new cell']


@pytest.mark.slow
def test_an_update_that_git_stops_says_what_to_do(quick, mine):
    def stopped(*words):
        res = course(mine, 'update')
        assert res.returncode == 2 and names(res.stderr, *words) and 'Traceback' not in res.stderr, res
    (quick/'settings.ini').write_text('[DEFAULT]\nname = gridstride\n')
    git('commit', '-qam', 'two', cwd=quick)
    (mine/'settings.ini').write_text('[DEFAULT]\n')
    stopped('settings.ini', 'git stash')
    git('commit', '-qam', 'mine', cwd=mine)
    stopped('git pull --rebase')
    git('checkout', '-q', '--detach', cwd=mine)
    stopped('git switch main')
    git('switch', '-q', 'main', cwd=mine)
    quick.rename(quick.with_name('offline'))
    stopped('git fetch', 'run this command again')


BUILT = ['.venv/bin', 'build/lib', 'dist', 'gridstride.egg-info', 'gridstride/__pycache__', '.pytest_cache']


def test_clean(quick):
    (quick/'nbs/.progress.json').write_text('{"solved": {}}')
    (quick/'nbs/.ipynb_checkpoints').mkdir()
    top = {p.name for p in quick.iterdir()}
    kept = {p: p.read_bytes() for p in (quick/'nbs').iterdir() if p.is_file()}
    for d in BUILT: (quick/d).mkdir(parents=True, exist_ok=True)
    res = course(quick, 'clean')
    assert res.returncode == 0 and '.venv' in res.stdout, res
    assert {p.name for p in quick.iterdir()} == top | {'.venv.lock'}
    assert not (quick/'gridstride/__pycache__').exists() and (quick/'nbs/.ipynb_checkpoints').exists()
    assert all(p.read_bytes() == b for p, b in kept.items())
    assert names(course(quick, 'clean').stdout, 'nothing', 'remove')


def test_clean_of_a_linked_environment_leaves_the_target(quick, tmp_path):
    (tmp_path/'elsewhere').mkdir()
    (quick/'.venv').symlink_to(tmp_path/'elsewhere')
    assert course(quick, 'clean').returncode == 0
    assert (tmp_path/'elsewhere').exists() and not (quick/'.venv').is_symlink()


def test_help():
    res = course(ROOT, '--help')
    m = load()
    assert res.returncode == 0 and res.stdout.strip() == m.__doc__.strip()
    for command in set(m.COMMANDS) - {'open'}: assert f'course.py {command}' in res.stdout
