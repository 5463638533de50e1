"""The wheel alone, in an environment of its own and without the network, does what the page of the checker shows."""
import json, os, re, shutil, subprocess, sys, sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT/'gridstride/checker/README.md').read_text(encoding='utf-8')
FILES = dict(re.findall(r'`([\w.]+)`:\n\n```\w+\n(.*?)```', README, re.S))
SESSIONS = re.findall(r'```console\n\$ (.*?)\n(.*?)```', README, re.S)
WORKFLOW = re.search(r'- run: (gridstride check .*)', README)[1]
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive,
              pytest.mark.skipif(os.name == 'nt', reason='an environment has other folders on Windows')]


def run(command, cwd, **options):
    env = {name: value for name, value in os.environ.items() if name not in ('PYTHONPATH', 'PYTEST_ADDOPTS')}
    return subprocess.run(command, cwd=cwd, env=env | dict(PIP_NO_INDEX='1'), capture_output=True, text=True, **options)


def build_wheel(folder):
    "Build the wheel from a copy of the sources, because setuptools writes into their folder"
    files = 'setup.py', 'pyproject.toml', 'settings.ini', 'MANIFEST.in', 'README.md', 'LICENSE'
    for name in files: shutil.copy(ROOT/name, folder)
    shutil.copytree(ROOT/'gridstride', folder/'gridstride', ignore=shutil.ignore_patterns('__pycache__'))
    for name in 'nbs', 'site':  # of which setup.py takes files
        if (ROOT/name).exists(): (folder/name).symlink_to(ROOT/name)
    options = '--no-deps', '--no-build-isolation', '-w', str(folder)
    done = run([sys.executable, '-m', 'pip', 'wheel', '-q', '.', *options], folder)
    assert not done.returncode, done.stdout + done.stderr
    wheel, = folder.glob('gridstride-*.whl')
    return wheel


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    "Return the folder of the commands of a new environment: the wheel, and the packages of this environment after it"
    folder = tmp_path_factory.mktemp('environment')
    (sources := folder/'sources').mkdir()
    wheel = build_wheel(sources)
    run([sys.executable, '-m', 'venv', '--without-pip', 'venv'], folder, check=True)
    python = folder/'venv/bin/python'
    site, = folder.glob('venv/lib/*/site-packages')
    (site/'packages_of_the_tests.pth').write_text(sysconfig.get_path('purelib') + '\n')
    done = run([sys.executable, '-m', 'pip', '--python', str(python), 'install', '-q', '--no-deps', str(wheel)], folder)
    assert not done.returncode, done.stdout + done.stderr
    assert run([python, '-c', 'import gridstride; print(gridstride.__file__)'], folder).stdout.startswith(str(site))
    shutil.rmtree(sources)
    return python.parent


@pytest.fixture(scope='module')
def page_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('page')
    for name, text in FILES.items(): (folder/name).write_text(text)
    return folder


@pytest.mark.takes(60)
@pytest.mark.parametrize('command, shown', SESSIONS, ids=[command.split()[-1] for command, _ in SESSIONS])
def test_a_command_of_the_page_prints_what_the_page_shows(command, shown, installed, page_folder):
    program, *args = command.split()
    launcher = [installed/program] if program == 'gridstride' else [installed/'python', '-m', program]
    done = run([*launcher, *args], page_folder)
    assert done.returncode == 1, done.stdout + done.stderr
    if program == 'gridstride': assert done.stdout == shown
    else: assert shown and all(line in done.stdout for line in shown.splitlines()), done.stdout


def test_other_commands_of_the_page(installed, page_folder):
    gridstride = installed/'gridstride'
    assert 'race' in run([gridstride, 'explain', 'race'], page_folder).stdout
    as_json, as_sarif = (run([gridstride, 'check', '--format', name, 'reverse.py'], page_folder)
                         for name in ('json', 'sarif'))
    assert json.loads(as_json.stdout)['findings'][0]['code'] == 'race' and as_json.returncode == 1
    assert json.loads(as_sarif.stdout)['version'] == '2.1.0' and as_sarif.returncode == 1
    annotations = run([gridstride, *WORKFLOW.split()[1:]], page_folder).stdout
    assert annotations.count('::error ') == 2, annotations
    assert not run([gridstride, 'kernels', 'new', 'good_norm'], page_folder).returncode
    client = dict(protocolVersion='2025-06-18', capabilities={}, clientInfo=dict(name='test', version='1'))
    requests = [dict(jsonrpc='2.0', id=1, method='initialize', params=client),
                dict(jsonrpc='2.0', id=2, method='tools/list')]
    answers = run([gridstride, 'mcp'], page_folder, input=''.join(json.dumps(o) + '\n' for o in requests)).stdout
    tools = json.loads(answers.splitlines()[1])['result']['tools']
    assert {tool['name'] for tool in tools} == {'check', 'explain', 'asm', 'bench', 'judge'}
