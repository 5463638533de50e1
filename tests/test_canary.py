"The course with the newest of what it needs, and what publishes it: the commands that workflows run are there."
import re
import sys
from functools import partial
from pathlib import Path

import canary
import course
import pytest
import yaml
from found import names

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT/'.github/workflows').glob('*.yml'))
TESTS = '''
import pytest
def test_good(): pass
def test_bad(): assert 0
@pytest.fixture
def broken(): 1/0
def test_error(broken): pass
@pytest.mark.skip(reason='no')
def test_not(): pass
'''


def test_what_is_requested_and_what_is_pinned():
    settings = ('[DEFAULT]\nrequirements = numpy>=1\na_requirements =\n    Ruamel.Yaml>2; x == "y"\n'
                '    gridstride[b]\n    cuda-toolkit[crt,nvcc]<14\n')
    assert canary.required_packages(settings) == ['cuda-toolkit', 'numpy', 'ruamel-yaml']
    assert canary.pinned_versions("# a\nA_b==1.2 ; python_version < '3'\nc==4\n") == {'a-b': '1.2', 'c': '4'}
    ours = canary.required_packages((ROOT/'settings.ini').read_text())
    assert {'torch', 'numba', 'triton', 'jupyterlab', 'pytest'} <= set(ours)
    assert set(ours) - set(canary.pinned_versions((ROOT/'constraints.txt').read_text())) == set()


def test_table():
    said = canary.table({'torch': '2.15', 'b': '1'}, {'torch': '2.13.0'}, ['b', 'c', 'torch'])
    assert said.splitlines() == ['package  tested  pinned', 'b        1       -', 'torch    2.15    2.13.0']


@pytest.mark.slow
def test_a_run(tmp_path, monkeypatch, capfd):
    (tmp_path/'test_some.py').write_text(TESTS)
    monkeypatch.setattr(canary, 'PYTHON', Path(sys.executable))
    monkeypatch.setattr(canary, 'RESULTS', tmp_path/'results.xml')
    args = '--keep', '-q', '-p', 'no:cacheprovider', '--rootdir', str(tmp_path), str(tmp_path/'test_some.py')
    assert canary.main(args) == 1
    said = capfd.readouterr().out
    assert names(said, '1 passed, 2 failed', '1 skipped', 'test_some::test_bad\ntest_some::test_error\n')
    assert re.search(r'^pytest +\d[\d.]+ +\d', said, re.M)


@pytest.mark.slow
def test_a_run_that_does_not_begin(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(canary, 'PYTHON', Path(sys.executable))
    monkeypatch.setattr(canary, 'RESULTS', tmp_path/'results.xml')
    assert canary.main(['--keep', '-q', '-p', 'no:cacheprovider', str(tmp_path/'none.py')])
    assert 'not found' in ''.join(capfd.readouterr())


@pytest.mark.parametrize('index,answers,asked', [('https://cpu', True, 1), ('https://cpu', False, 0), (None, True, 0)])
def test_torch_comes_for_the_cpu_where_the_set_up_would_take_it(index, answers, asked, monkeypatch):
    calls = []
    for name in ('VENV', 'PYTHON'): monkeypatch.setattr(course, name, getattr(course, name))
    monkeypatch.setattr(course, 'torch_index', lambda: index if course.VENV == canary.CANARY else 'another place')
    monkeypatch.setattr(course, 'answers', lambda address: answers)
    monkeypatch.setattr(canary.subprocess, 'call', lambda cmd: calls.append(cmd))
    canary.install_torch_for_cpu()
    assert [c[-3:] for c in calls] == asked*[['--index-url', index, 'torch']]


@pytest.mark.parametrize('file', WORKFLOWS, ids=lambda p: p.stem)
def test_workflows_run_commands_that_are_there(file):
    jobs = yaml.safe_load(file.read_text())['jobs']
    steps = [s for job in jobs.values() for s in job['steps']]
    commands = [c for s in steps for c in re.findall(r'course\.py (\w+)', s.get('run', ''))]
    assert commands and set(commands) <= set(course.COMMANDS)
    assert all('run' in s or re.fullmatch(r'[\w-]+/[\w-]+@(v\d+|release/v1)', s['uses']) for s in steps)


def test_the_version_of_a_tag_is_that_of_the_settings():
    run = next(s['run'] for s in yaml.safe_load((ROOT/'.github/workflows/publish.yml').read_text())
               ['jobs']['package']['steps'] if 'GITHUB_REF_NAME' in s.get('run', ''))
    pattern = re.search(r"sed -n 's/(.*?)//p'", run)[1]
    (line,) = [l for l in (ROOT/'settings.ini').read_text().splitlines() if re.match(pattern, l)]
    assert re.fullmatch(r'\d+\.\d+\.\d+', re.sub(pattern, '', line))


def test_a_package_is_published_after_its_tests_and_with_a_dated_changelog():
    package = yaml.safe_load((ROOT/'.github/workflows/publish.yml').read_text())['jobs']['package']
    assert package['needs'] == 'site' and package['permissions'] == {'id-token': 'write', 'contents': 'read'}
    commands = '\n'.join(s.get('run', '') for s in package['steps'])
    pattern = re.search('grep -E "(.*)" CHANGELOG.md', commands)[1]
    version = re.search(r'^version = (.*)', (ROOT/'settings.ini').read_text(), re.M)[1]
    newest = next(l for l in (ROOT/'CHANGELOG.md').read_text().splitlines() if l.startswith('## '))
    dated = newest.replace('(unreleased)', '(2026-01-31)')
    matches = partial(re.fullmatch, pattern.replace('${GITHUB_REF_NAME#v}', re.escape(version)))
    assert matches(dated) and not matches(f'## {version} (unreleased)')
