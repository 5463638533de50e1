"The doctor on other machines than this one. What a single check says is tested in its notebook; here is the command."
import re, subprocess, sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from gridstride.course import doctor

ROOT = Path(__file__).resolve().parents[1]


def examined(**machine):
    "What each check says of a machine"
    return {what: row for what, why, row in doctor.examine(doctor.machine(**machine))}


def run(*args, **kw):
    return subprocess.run([sys.executable, *args, '-m', 'gridstride.course.doctor'], cwd=ROOT, text=True,
                          capture_output=True, timeout=300, **kw)


def test_every_row_has_its_purpose_and_its_fix():
    bare = doctor.machine(path='', site=[], env={}, cuda='/nowhere', include='/nowhere', driver=lambda: (1, '13.0'),
                          root=Path('/nowhere'), has_module=lambda o: False, python=(3, 8, 0), free=lambda: 0,
                          no_launcher_reason=lambda: 'no way', system='linux')
    rows = doctor.examine(bare)
    assert [w for w, _, _ in rows] == [w for w, _, _ in doctor.CHECKS]
    for what, why, row in rows:
        assert why and row.found and row.state in ('ok', 'missing', 'optional', 'mismatch')
        assert row.fix and '\n' not in row.fix or row.state == 'ok', what
    missing = {'Python', 'venv, pip', '.venv', 'disk', 'C++ compiler', 'numpy', 'torch', 'jupyterlab', 'nvcc'}
    assert {w for w, _, r in rows if r.state == 'missing'} == missing


@pytest.mark.parametrize('works,how', [('3.12', '.venv/bin/python -m pip install -c constraints.txt {}'),
                                       (None, 'python3 course.py setup')])
def test_what_is_needed_is_installed_by_pip_where_a_set_up_would_find_nothing_to_do(monkeypatch, works, how):
    monkeypatch.setattr(doctor, 'environment_version', lambda home: works)
    rows = examined(site=[])
    for name in ('numpy', 'torch', 'jupyterlab'): assert rows[name] == ('missing', 'not installed', how.format(name))


def test_the_package_alone_gets_no_advice_on_the_course():
    "pip has installed it: there is no course.py next to it, and no .venv; NumPy is all that it needs"
    bare = dict(path='', site=[], env={}, cuda='/nowhere', include='/nowhere', root=Path('/nowhere'), pci='/nowhere',
                has_module=lambda o: False, driver=lambda: (0, None), free=lambda: 2*10**9, system='linux')
    alone,course = examined(**bare, course=False),examined(**bare, course=True)
    advice = ' '.join(o.fix for o in alone.values())
    assert 'course.py' not in advice and '.venv' not in advice.replace(sys.executable, '') and '-c ' not in advice
    assert {what for what,o in alone.items() if o.state=='missing'} == {'C++ compiler', 'numpy'}
    for name in ('numpy', 'torch', 'numba', 'jupyterlab'):
        assert alone[name].fix == f'{sys.executable} -m pip install {name}'
    assert {'.venv', 'venv, pip', 'torch'} < {what for what,o in course.items() if o.state=='missing'}

def test_without_a_gpu_nothing_of_it_is_missing():
    rows = examined(driver=lambda: (0, None), pci='/nowhere', path='', env={})
    assert rows['GPU, driver'].state == 'optional' and rows['nvcc'].state in ('ok', 'optional')


@pytest.mark.slow
def test_why_launches_take_long_is_a_row_where_there_is_a_gpu():
    asked = []
    def why(): return asked.append(1) or 'torch 3.0 has no such name'
    assert examined(driver=lambda: (0, None), no_launcher_reason=why)['launches'].state == 'optional' and not asked
    row = examined(driver=lambda: (1, '13.0'), no_launcher_reason=why)['launches']
    assert row.state == 'optional' and 'torch 3.0' in row.found
    assert examined(driver=lambda: (1, '13.0'), no_launcher_reason=lambda: '')['launches'].state == 'ok'


@pytest.mark.slow
def test_why_launches_take_long_is_what_the_launcher_says():
    from gridstride.cpp import launcher
    assert doctor._no_launcher_reason() == (launcher.no_launcher_reason() or '')


def test_a_check_that_fails_is_a_row():
    "Whatever a probe finds, there is a table"
    def bang(*args, **kw): raise RuntimeError('bang')
    rows = examined(driver=bang, has_module=bang, free=bang, site=3, include=None, path=None, pci=None, python=None,
                    root=None, env=None)
    assert any('(RuntimeError: bang)' in r.found for r in rows.values())
    assert all(r.state in ('ok', 'missing', 'optional', 'mismatch') for r in rows.values())


@pytest.mark.parametrize('states,status', [(['ok', 'optional'], 0), (['ok', 'missing'], 1), (['mismatch'], 1)])
def test_status(monkeypatch, capsys, states, status):
    monkeypatch.setattr(doctor, 'CHECKS', [])
    monkeypatch.setattr(doctor, 'examine', lambda: [('a', 'b', doctor.Row(s, 'c')) for s in states])
    assert doctor.main() == status
    assert ('1 to fix' in capsys.readouterr().out) == (status == 1)


@pytest.mark.slow
def test_command_needs_the_standard_library_alone():
    res = run('-S')  # no site-packages
    assert not res.stderr and res.returncode == 1 and re.search(r'missing +torch +not installed', res.stdout), res


def test_command_with_nothing_in_path():
    res = run(env={'PATH': ''})
    assert not res.stderr and re.search(r'missing +C\+\+ compiler', res.stdout), res


def test_torch_is_not_imported():
    res = run('-X', 'importtime')
    assert not re.search(r'\| +(torch|numba|numpy)$', res.stderr, re.M) and re.search(r'ok +torch', res.stdout), res


def test_python_version_is_the_one_of_the_package():
    cfg = ConfigParser()
    cfg.read(ROOT/'settings.ini')
    assert '.'.join(map(str, doctor.MIN_PYTHON)) == cfg['DEFAULT']['min_python']
