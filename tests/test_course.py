"course.py as a learner meets it: in a copy of the course, with stand-ins for the packages that it installs."
import ast, errno, importlib.util, json, os, re, shutil, signal, socket, subprocess, sys, time, zipfile
from configparser import ConfigParser
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[1]
PINS = 'setuptools==84.0\nwheel==1.0\n'

BACKEND = '''
import os, sys, time, zipfile
META = "Metadata-Version: 2.1\\nName: gridstride\\nVersion: 0.1.0\\nProvides-Extra: course\\nRequires-Dist: jupyterlab; extra == 'course'\\n" \\
       "Provides-Extra: test\\nRequires-Dist: pytest; extra == 'test'\\n"

def build_editable(folder, config_settings=None, metadata_directory=None):
    if os.environ.get('SLOW'):
        with open(os.environ['SLOW'], 'w') as f: f.write(str(os.getpid()))
        time.sleep(60)
    if os.environ.get('SAY'): raise SystemExit(os.environ['SAY'])
    name = 'gridstride-0.1.0-py3-none-any.whl'
    with zipfile.ZipFile(os.path.join(folder, name), 'w') as z:
        z.writestr('gridstride.pth', os.getcwd())
        z.writestr('gridstride-0.1.0.dist-info/METADATA', META)
        z.writestr('gridstride-0.1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        z.writestr('gridstride-0.1.0.dist-info/RECORD', '')
    return name
'''
ECHO = "import json, os, sys\nprint(json.dumps(dict(argv=sys.argv[1:], cwd=os.getcwd(), env=dict(os.environ))))\n"


def wheel(folder, name, version, files):
    "Write a wheel that holds `files` and nothing else"
    info = f'{name}-{version}.dist-info'
    files = {**files, f'{info}/METADATA': f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n',
             f'{info}/WHEEL': 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n'}
    with zipfile.ZipFile(folder/f'{name}-{version}-py3-none-any.whl', 'w') as z:
        for path, text in files.items(): z.writestr(path, text)
        z.writestr(f'{info}/RECORD', ''.join(f'{f},,\n' for f in [*files, f'{info}/RECORD']))


def make_wheels(folder):
    "Stand-ins for the packages that course.py installs: they say how they were called"
    folder.mkdir()
    wheel(folder, 'setuptools', '84.0', {'setuptools/__init__.py': '', 'setuptools/build_meta.py': BACKEND})
    wheel(folder, 'wheel', '1.0', {'wheel/__init__.py': ''})
    lab = {'jupyterlab/__init__.py': '', 'jupyterlab/__main__.py': ECHO, 'tqdm.py': ECHO + 'sys.exit(7)\n'}  # the runner of lessons imports tqdm
    wheel(folder, 'jupyterlab', '1.0', lab)
    wheel(folder, 'pytest', '1.0', {'pytest/__init__.py': '', 'pytest/__main__.py': ECHO})
    return folder


def make_course(folder):
    "A small copy of the course"
    (folder/'nbs').mkdir(parents=True)
    shutil.copytree(ROOT/'gridstride', folder/'gridstride', ignore=shutil.ignore_patterns('__pycache__'))
    for f in ('course.py', 'settings.ini', 'setup.py', 'pyproject.toml'): shutil.copy(ROOT/f, folder)
    (folder/'constraints.txt').write_text(PINS)
    for name in ('01_first', '02_second'): (folder/'nbs'/f'{name}.ipynb').write_text(notebook("@exercise('%s.a')\ndef f(): ..." % name[:2]))
    return folder


def notebook(*sources):
    "The JSON of a notebook with these code cells"
    cells = [dict(cell_type='code', id=f'c{i}', metadata={}, source=s, outputs=[], execution_count=None) for i, s in enumerate(sources)]
    return json.dumps(dict(cells=cells, metadata={}, nbformat=4, nbformat_minor=5))


def environ(folder, **env):
    "A learner's environment: an empty home, no display, and pip that sees the stand-ins alone"
    keep = {k: v for k, v in os.environ.items() if not k.startswith(('PIP_', 'JUPYTER', 'PYTEST', 'VIRTUAL_ENV', 'GRIDSTRIDE')) and k not in ('DISPLAY', 'WAYLAND_DISPLAY', 'CXX')}
    own = dict(HOME=str(folder), PIP_NO_INDEX='1', PIP_FIND_LINKS=str(folder.parent/'wheels'), PIP_CONFIG_FILE=os.devnull)
    return {**keep, **own, **{k: str(v) for k, v in env.items()}}


def course(folder, *args, python=sys.executable, **env):
    "What course.py does in `folder`"
    return subprocess.run([python, 'course.py', *args], cwd=folder, env=environ(folder, **env), text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)


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


@pytest.fixture(scope='session')
def made(tmp_path_factory):
    "A course that is set up, and what that printed"
    base = tmp_path_factory.mktemp('made')
    make_wheels(base/'wheels')
    folder = make_course(base/'course')
    res = course(folder, 'setup')
    assert res.returncode == 0, res
    return folder, res


@pytest.fixture
def fresh(tmp_path):
    "A course that is not set up"
    make_wheels(tmp_path/'wheels')
    return make_course(tmp_path/'course')


# Setting up

def test_first_setup_shows_its_steps(made):
    folder, res = made
    for line in ('1/3 making .venv ...', '1/3 making .venv: done', '2/3', '3/3 installing the course: done', 'Set up in'): assert line in res.stdout
    assert '\r' not in res.stdout, 'a log file gets whole lines'
    assert 'Successfully installed' in (folder/'.venv/setup.log').read_text()
    assert 'Successfully installed' not in res.stdout
    assert json.loads((folder/'.venv/setup.json').read_text())['extras'] == ['course']


def test_second_setup_installs_nothing(made):
    folder, _ = made
    before = (folder/'.venv/setup.log').stat().st_mtime_ns
    res = course(folder, 'setup', PIP_FIND_LINKS='/nowhere')
    assert res.stdout == 'The course is set up. Open it with: python3 course.py\n' and res.returncode == 0
    assert (folder/'.venv/setup.log').stat().st_mtime_ns == before


def test_jupyterlab_and_kernels_are_quiet(made):
    settings = json.loads((made[0]/'.venv/share/jupyter/lab/settings/overrides.json').read_text())
    assert settings == {'@jupyterlab/apputils-extension:notification': {'fetchNews': 'false', 'checkForUpdates': False}}
    assert json.loads((made[0]/'.venv/etc/ipython/ipython_kernel_config.json').read_text()) == {'IPKernelApp': {'log_level': 'ERROR'}}


def test_changed_pins_and_a_moved_folder_install_again(fresh):
    assert course(fresh, 'setup').returncode == 0
    (fresh/'constraints.txt').write_text(PINS+'# changed\n')
    again = course(fresh, 'setup').stdout
    assert '3/3 installing the course: done' in again and '1/3' not in again
    moved = fresh.rename(fresh.with_name('moved'))
    assert '3/3 installing the course: done' in course(moved, 'setup').stdout
    assert (next((moved/'.venv').glob('lib/*/site-packages/gridstride.pth'))).read_text() == str(moved)


def test_interrupt_then_the_same_command_goes_on(fresh):
    pid = fresh/'pid'
    child = subprocess.Popen([sys.executable, 'course.py', 'setup'], cwd=fresh, env=environ(fresh, SLOW=pid), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: pid.exists() and pid.read_text(), child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130 and err.strip() == 'Stopped; the same command goes on where it stopped.', err
    assert not running(int(pid.read_text())), 'what pip started must end too'
    again = course(fresh, 'setup')
    assert again.returncode == 0 and 'making .venv' not in again.stdout, again


def wait_for(ready, child, seconds=60):
    "Wait until `ready()`, or fail when that takes too long or `child` ends before"
    end = time.monotonic() + seconds
    while not ready():
        assert child.poll() is None and time.monotonic() < end, 'it never came so far'
        time.sleep(.05)


def running(pid):
    "Whether a process still runs; one that only waits to be collected does not"
    try: return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess: return False


def test_half_made_environment_is_made_anew(fresh):
    (fresh/'.venv/bin').mkdir(parents=True)
    (fresh/'.venv/bin/python').write_text('not a program')
    (fresh/'.venv/left_over').write_text('')
    res = course(fresh, 'setup')
    assert res.returncode == 0 and not res.stderr and not (fresh/'.venv/left_over').exists(), res


def test_broken_environment(fresh):
    assert course(fresh, 'setup').returncode == 0
    shutil.rmtree(next((fresh/'.venv').glob('lib/*/site-packages/pip')))
    for args in (['setup'], [], ['run', '1'], ['test']): refused(course(fresh, *args), 'broken', 'python3 course.py clean')
    assert 'does not work' in course(fresh, 'doctor').stdout
    assert course(fresh, 'clean').returncode == 0
    assert course(fresh, 'setup').returncode == 0


def test_half_installed_package_is_forgotten(tmp_path):
    m = load()
    m.VENV = tmp_path
    for name, files in (('whole', ['METADATA', 'RECORD']), ('half', ['METADATA'])):
        d = tmp_path/f'lib/python3/site-packages/{name}-1.0.dist-info'
        d.mkdir(parents=True)
        for f in files: (d/f).write_text('')
    m.drop_half_installed()
    assert [p.name for p in tmp_path.glob('lib/*/*/*')] == ['whole-1.0.dist-info']


def test_progress_line_in_a_terminal(fresh):
    import pty
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, 'course.py', 'setup'], cwd=fresh, env=environ(fresh, COLUMNS=60), stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    text = b''.join(iter(lambda: read(ours), b'')).decode().replace('\x1b[K', '')
    assert child.wait(60) == 0
    line = next(l for l in text.split('\n') if '1/3' in l)
    shown = [l.rstrip() for l in line.split('\r') if l.strip()]
    assert re.fullmatch(r'1/3 making \.venv, \d+ s', shown[0]) and re.fullmatch(r'1/3 making \.venv: done, \d+ s', shown[-1]), shown
    assert all(len(l) < 60 for l in line.split('\r')), 'a line that wraps cannot be overwritten'
    assert text.count('\n') < 12


def read(fd):
    "The next of a terminal's output; nothing at its end"
    try: return os.read(fd, 4096)
    except OSError as e:
        assert e.errno == errno.EIO
        return b''


@pytest.mark.parametrize('line,want', [
    ('Collecting torch==2.13.0 (from -c constraints.txt (line 3))', 'collecting torch==2.13.0'),
    ('  Downloading https://example.org/a/b/torch-2.13.0.whl (500 MB)', 'downloading torch-2.13.0.whl'),
    ('Installing collected packages: a, b, c', 'installing 3 packages'),
    ('Requirement already satisfied: numpy', None)])
def test_what_pip_does(line, want): assert load().doing(line) == want


# What can be wrong

def test_old_python(tmp_path):
    source = (ROOT/'course.py').read_text()
    ast.parse(source, feature_version=(3, 6))
    cfg = ConfigParser()
    cfg.read(ROOT/'settings.ini')
    old = hook(tmp_path/'hook', "import sys\nsys.version_info = (3, 8, 18, 'final', 0)\n")
    refused(course(ROOT, 'setup', PYTHONPATH=old), f"Python {cfg['DEFAULT']['min_python']} or newer is needed", 'this is 3.8')


@pytest.mark.parametrize('version', ['3.6', '3.7', '3.8', '3.9'])
def test_real_old_python(version):
    python = shutil.which(f'python{version}')
    if not (python and subprocess.run([python, '-V'], capture_output=True).returncode == 0): pytest.skip(f'no Python {version} here')
    refused(course(ROOT, 'setup', python=python), 'or newer is needed', f'this is {version}')


def test_no_venv_module(fresh, tmp_path):
    bare = hook(tmp_path/'hook', "import sys\nsys.modules['ensurepip'] = None\n")
    refused(course(fresh, 'setup', PYTHONPATH=bare), 'virtual environment', 'venv')
    assert not (fresh/'.venv').exists()


def test_no_compiler(fresh, tmp_path):
    (tmp_path/'bin').mkdir()
    refused(course(fresh, 'setup', PATH=tmp_path/'bin'), 'C++ compiler', 'g++')
    assert not (fresh/'.venv').exists()


def test_compiler_named_by_cxx(fresh, tmp_path):
    (tmp_path/'bin').mkdir()
    (tmp_path/'bin/mine').symlink_to('/bin/true')
    assert course(fresh, 'setup', PATH=tmp_path/'bin', CXX='mine -O2').returncode == 0


def test_no_space(fresh, tmp_path):
    full = hook(tmp_path/'hook', "import shutil\nshutil.disk_usage = lambda p: type('U', (), dict(free=2*10**9))\n")
    refused(course(fresh, 'setup', PYTHONPATH=full), '2.0 GB are free', '5 GB')
    assert not (fresh/'.venv').exists()


def test_disk_that_fills_up_on_the_way(fresh):
    res = course(fresh, 'setup', SAY='OSError: [Errno 28] No space left on device')
    refused(res, 'disk is full', 'same command again', str(fresh/'.venv/setup.log'))
    assert course(fresh, 'setup').returncode == 0


def test_no_network(fresh):
    index = dict(PIP_NO_INDEX='', PIP_FIND_LINKS='', PIP_INDEX_URL='http://127.0.0.1:9/', PIP_RETRIES='1')
    refused(course(fresh, 'setup', **index), 'network', 'same command again', str(fresh/'.venv/setup.log'))
    again = course(fresh, 'setup')
    assert again.returncode == 0 and 'making .venv' not in again.stdout, again


def test_pip_fails_for_another_reason(fresh):
    (fresh/'constraints.txt').write_text('setuptools==0.1\n')
    refused(course(fresh, 'setup'), 'ERROR: ', 'setuptools', str(fresh/'.venv/setup.log'))
    assert not (fresh/'.venv/setup.json').exists()


def test_read_only_folder(fresh):
    if os.geteuid():
        fresh.chmod(0o555)
        cmd = [sys.executable, 'course.py', 'setup']
    else:
        mount = f'mount --bind {fresh} {fresh} && mount -o remount,ro,bind {fresh} && cd {fresh} && exec {sys.executable} course.py setup'
        cmd = ['unshare', '-m', 'sh', '-c', mount]
        if not shutil.which('unshare') or subprocess.run(['unshare', '-m', 'true'], capture_output=True).returncode: pytest.skip('root writes everywhere, and no read-only mount can be made')
    res = subprocess.run(cmd, cwd=fresh, env=environ(fresh), text=True, capture_output=True, timeout=60)
    fresh.chmod(0o755)
    refused(res, str(fresh/'.venv'), 'cannot be used')


@pytest.mark.parametrize('args,words', [
    (['42'], ['no lesson 42', '01, 02']),
    (['run', '01', '42'], ['no lesson 42', '01, 02']),
    (['record', '42'], ['no lesson 42', '01, 02']),
    (['record'], ['Which lesson', 'record 08']),
    (['run', '--jobs', '0'], ["'0'", '--jobs']),
    (['run', '--jobs', 'two'], ["'two'", '--jobs']),
    (['run', '--fast'], ['--fast']),
    (['--port', 'x'], ['--port', "'x'"]),
    (['--port', '99999'], ['99999 is no port']),
    (['setup', 'now'], ['now']),
    (['paint'], ["no command 'paint'", 'doctor', 'clean'])])
def test_a_question_that_makes_no_sense(fresh, args, words):
    refused(course(fresh, *args), *words)
    assert not (fresh/'.venv').exists(), 'it is told before anything is set up'


# The commands

def lab(res):
    "The address that was printed, and how JupyterLab was called"
    assert res.returncode == 0, res
    *said, called = res.stdout.strip().splitlines()
    return next(l.strip() for l in said if l.strip().startswith('http')), json.loads(called)


def test_open_prints_the_address_without_a_display(made):
    folder, _ = made
    url, called = lab(course(folder))
    assert re.fullmatch(r'http://localhost:\d+/lab/tree/nbs/01_first\.ipynb\?token=[0-9a-f]{32}', url)
    assert called['env']['JUPYTER_TOKEN'] == url.split('=')[1] and url.split('=')[1] not in ' '.join(called['argv']), 'other users can read a command line'
    assert called['env']['JUPYTER_PREFER_ENV_PATH'] == '1' and called['cwd'] == str(folder)
    assert called['env']['PATH'].startswith(str(folder/'.venv'))
    assert {f'--ServerApp.root_dir={folder}', '--LabApp.default_url=/lab/tree/nbs/01_first.ipynb', '--ServerApp.open_browser=False'} <= set(called['argv'])


@pytest.mark.parametrize('args,browser', [([], True), (['--no-browser'], False)])
@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='DISPLAY is for Linux')
def test_open_with_a_display(made, tmp_path, args, browser):
    window = tmp_path/'firefox'
    window.symlink_to('/bin/true')
    _, called = lab(course(made[0], *args, DISPLAY=':0', PATH=f'{tmp_path}:/usr/bin:/bin', BROWSER=window))
    assert f'--ServerApp.open_browser={browser}' in called['argv']


def test_open_another_lesson(made):
    url, called = lab(course(made[0], '2', '--no-browser'))
    assert '/lab/tree/nbs/02_second.ipynb?' in url


@pytest.mark.parametrize('family,host', [(socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')])
def test_a_taken_port_moves_to_the_next(made, family, host):
    try: s = socket.create_server((host, 0), family=family)
    except OSError: pytest.skip(f'no {host} here')
    with s:
        port = s.getsockname()[1]
        url, called = lab(course(made[0], '--port', str(port)))
    moved = int(re.search(r':(\d+)/', url)[1])
    assert port < moved < port+100 and f'--ServerApp.port={moved}' in called['argv']


def test_test_command(fresh):
    res = course(fresh, 'test')
    assert res.returncode == 0, res
    assert json.loads(res.stdout.splitlines()[-1])['argv'] == ['-n', '2', '-rsx', '--durations=10', 'tests']
    res = course(fresh, 'test', '-x', 'tests/test_a.py', '-k', 'b')
    assert json.loads(res.stdout)['argv'] == ['-x', 'tests/test_a.py', '-k', 'b'], 'the second time it is set up already'
    lab(course(fresh))


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
    assert e.value.code == status and 'Written: 08_a.json, 08_new.json\n' in said and ('Not written: 08_b: needs ncu' in said) == bool(missed)


def test_nothing_recorded_is_a_failure(tmp_path, monkeypatch, capsys):
    m = load()
    m.ROOT, m.setup = tmp_path, lambda: None
    (tmp_path/'nbs').mkdir()
    (tmp_path/'nbs/08_x.ipynb').write_text(notebook('1'))
    monkeypatch.setattr(m.subprocess, 'call', lambda *args, **kw: 0)
    with pytest.raises(SystemExit) as e: m.record(['08'])
    assert e.value.code == 1 and 'Written: nothing' in capsys.readouterr().out


@pytest.mark.parametrize('broken', [False, True])
def test_doctor_without_a_working_environment(fresh, broken):
    if broken: (fresh/'.venv').mkdir()
    res = course(fresh, 'doctor')
    assert res.returncode == 1 and not res.stderr, res
    assert re.search(r'missing +\.venv +' + ('does not work' if broken else 'not set up yet'), res.stdout)


def test_progress(fresh):
    def ask(**env):
        res = course(fresh, 'progress', **env)
        assert res.returncode == 0, res
        return res.stdout
    assert '0 of 2 exercises solved' in ask()
    done = json.dumps(dict(solved={'01.a': '2026-11-21'}))
    (fresh/'.progress.json').write_text(done)
    assert '1 of 2 exercises solved' in ask() and '2026-11-21  01.a' in ask()
    assert '0 of 2 exercises solved' in ask(GRIDSTRIDE_PROGRESS=fresh/'other.json')
    assert not (fresh/'.venv').exists()


@pytest.mark.parametrize('text', ['{"solved": {"01.a"', '[]', ''])
def test_progress_file_that_cannot_be_read(fresh, text):
    (fresh/'.progress.json').write_text(text)
    refused(course(fresh, 'progress'), str(fresh/'.progress.json'), 'cannot be read')
    assert (fresh/'.progress.json').read_text() == text


def test_clean(fresh):
    kept = {p: p.read_bytes() for p in (fresh/'nbs').iterdir()}
    (fresh/'.progress.json').write_text('{"solved": {}}')
    for d in ('.venv/bin', 'build/lib', 'dist', 'gridstride.egg-info', 'gridstride/__pycache__', '.pytest_cache', 'nbs/.ipynb_checkpoints'): (fresh/d).mkdir(parents=True, exist_ok=True)
    res = course(fresh, 'clean', PYTHONDONTWRITEBYTECODE=1)
    assert res.returncode == 0 and '.venv' in res.stdout, res
    assert {p.name for p in fresh.iterdir()} == {'nbs', 'gridstride', 'course.py', 'settings.ini', 'setup.py', 'pyproject.toml', 'constraints.txt', '.progress.json'}
    assert not (fresh/'gridstride/__pycache__').exists() and (fresh/'nbs/.ipynb_checkpoints').exists()
    assert all(p.read_bytes() == b for p, b in kept.items())
    assert course(fresh, 'clean', PYTHONDONTWRITEBYTECODE=1).stdout == 'There was nothing to remove.\n'


def test_clean_of_a_linked_environment_leaves_the_target(fresh, tmp_path):
    (tmp_path/'elsewhere').mkdir()
    (fresh/'.venv').symlink_to(tmp_path/'elsewhere')
    assert course(fresh, 'clean').returncode == 0
    assert (tmp_path/'elsewhere').exists() and not (fresh/'.venv').is_symlink()


def test_help():
    res = course(ROOT, '--help')
    m = load()
    assert res.returncode == 0 and res.stdout.strip() == m.__doc__.strip()
    for command in set(m.COMMANDS) - {'open'}: assert f'course.py {command}' in res.stdout
