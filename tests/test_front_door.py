"`import gridstride`: a dozen names, looked up when they are used."
import importlib.util, json, os, subprocess, sys
from pathlib import Path

import pytest
from gridstride import kernels
from gridstride.__main__ import COMMANDS, main
from found import names, saying

ROOT = Path(__file__).resolve().parents[1]


def run(code, **env):
    "What a fresh Python prints"
    res = subprocess.run([sys.executable, '-c', code], cwd=ROOT, text=True, capture_output=True,
                         env={**os.environ, 'GRIDSTRIDE_BACKEND': 'sim', **env})
    assert res.returncode == 0, res.stderr
    return res.stdout


def test_one_line_imports_what_programs_need():
    code = ('from gridstride import cdiv, dim3, get_signature, check, show_img, load_cuda, cuda_kernel, to_cuda, sim, '
            'cpp, asm, bench, prof, draw; print(cdiv(7, 2), dim3(3).size, sim.cuda.grid.__name__)')
    assert run(code) == '4 3 grid\n'


def test_names_are_attributes_too():
    assert run('import gridstride; print(gridstride.cdiv(7, 2), gridstride.sim.RacecheckError.kind)') == '4 racecheck\n'


def test_cuda_says_once_where_kernels_run():
    code = ('from gridstride.cuda import jit; from gridstride import cuda, sim; import gridstride.cuda as c; '
            'assert jit is cuda.jit and cuda is c is sim.cuda')
    said = run(code)
    assert names(said, 'gridstride', 'simulator', 'CPU') and said.count('\n') == 1


def test_forcing_a_gpu_that_is_not_there_is_an_error():
    from gridstride.utils import gpu_count
    if gpu_count(): pytest.skip('a GPU is here')
    with pytest.raises(AssertionError, match='GRIDSTRIDE_BACKEND'):
        run('from gridstride import cuda', GRIDSTRIDE_BACKEND='gpu')


def test_a_folder_on_the_path_knows_its_version():
    "No package is installed, so nothing but settings.ini says it"
    code = f'import sys; sys.path.insert(0, {str(ROOT)!r}); import gridstride; print(gridstride.__version__)'
    res = subprocess.run([sys.executable, '-I', '-S', '-c', code], text=True, capture_output=True)
    assert f'version = {res.stdout}' in (ROOT/'settings.ini').read_text(), res.stderr


def test_an_unknown_name_is_an_import_error():
    with pytest.raises(AssertionError, match="name 'cduv'"): run('from gridstride import cduv')


def test_a_subpackage_suggests_a_similar_name():
    with pytest.raises(AttributeError, match="'atention'.*'attention'"): kernels.atention
    with pytest.raises(AttributeError, match="'zzz'$"): kernels.zzz


def test_the_package_lists_commands_that_there_are(capsys):
    assert main() is None is main(['-h'])
    said = capsys.readouterr().out
    for command, (module, forms) in COMMANDS.items():
        text = Path(importlib.util.find_spec(module).origin).read_text()
        for arguments in forms:
            assert f'gridstride {command} {arguments}' in said
            if (first := arguments.split(' ')[0]).isalpha(): assert f"'{first}'" in text
    assert names(main(['nonsense']), 'nonsense') and capsys.readouterr().out in said


@pytest.mark.parametrize('command', COMMANDS)
def test_a_command_is_the_main_of_its_module(command, monkeypatch):
    monkeypatch.setattr(importlib.import_module(COMMANDS[command][0]), 'main', lambda argv: ('main', argv))
    assert main([command, 'a', '-b']) == ('main', ['a', '-b'])


def test_commands_end_as_their_modules_do(tmp_path):
    "The same arguments by both names, with the same result"
    (tmp_path/'a.cu').write_text('#include <cstdio>\nint main(int n, char **a) { printf("%s", a[n-1]); return n; }')
    for way in (['gridstride', 'cpp'], ['gridstride.cpp']):
        done = subprocess.run([sys.executable, '-m', *way, tmp_path/'a.cu', 'one'], text=True, capture_output=True)
        assert (done.stdout, done.returncode) == ('one', 2), done.stderr
    for way in (['gridstride', 'lessons'], ['gridstride.course.lessons']):
        done = subprocess.run([sys.executable, '-m', *way], text=True, capture_output=True)
        assert done.returncode == 2 and 'run|progress|trust' in done.stderr


def test_all_names_what_is_public():
    listed = json.loads(run('import json, gridstride; print(json.dumps([gridstride.__all__, dir(gridstride)]))'))
    assert len(listed[0]) < 20 and set(listed[0]) <= set(listed[1])


@pytest.mark.parametrize('module',
    ['gridstride', 'gridstride.utils', 'gridstride.sim', 'gridstride.cpp', 'gridstride.course.lessons',
     'gridstride.course.doctor'])
def test_import_is_light(module):
    "No torch, no numba; and NumPy only where arrays are"
    heavy = {'torch', 'numba', 'triton', 'matplotlib', 'IPython', 'nbclient'}
    if module in ('gridstride', 'gridstride.course.lessons', 'gridstride.course.doctor'): heavy.add('numpy')
    found = json.loads(run(f'import sys, json, {module}; print(json.dumps(sorted(sys.modules)))'))
    assert module in found and not heavy & set(found)


@pytest.mark.slow
def test_what_is_lacking_is_named_with_the_command_that_brings_it():
    lacks = 'import sys; sys.modules.update(dict.fromkeys(["torch", "ml_dtypes"]));'
    for code, says in [('from gridstride.kernels import matmul', 'gridstride.kernels.matmul needs torch'),
                       ('from gridstride import tile', 'gridstride.tile needs ml_dtypes')]:
        with pytest.raises(AssertionError, match=saying(says, 'not installed', 'python -m pip install')):
            run(f'{lacks} {code}')
    with pytest.raises(AssertionError, match='python -m gridstride.course.lessons run|progress|trust'):
        run('from gridstride.course import lessons; import sys; sys.exit(lessons.main([]))')
