"`import gridstride`: a dozen names, looked up when they are asked for."
import importlib.util, json, os, subprocess, sys
from pathlib import Path

import pytest
from gridstride import kernels
from gridstride.__main__ import COMMANDS, main

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
    assert run(code) == 'gridstride: kernels run on the simulator, on the CPU\n'


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
    with pytest.raises(AssertionError, match="cannot import name 'cduv'"): run('from gridstride import cduv')


def test_a_room_says_which_of_its_names_is_near():
    with pytest.raises(AttributeError, match="has no attribute 'atention'; there is 'attention'"): kernels.atention
    with pytest.raises(AttributeError, match="has no attribute 'zzz'$"): kernels.zzz


def test_the_package_lists_commands_that_there_are(capsys):
    main()
    said = capsys.readouterr().out
    for command in COMMANDS:
        room, *rest = command.split()
        found = importlib.util.find_spec(f'gridstride.{room}')
        text = Path(found.origin).with_name('__main__.py') if found.submodule_search_locations else Path(found.origin)
        assert '__main__' in text.read_text() and f'python -m gridstride.{command} ' in said
        for o in rest:
            if o.isalpha() and o.islower(): assert f"'{o}'" in text.read_text()


def test_a_command_without_its_dot_is_told(capsys):
    with pytest.raises(SystemExit, match=r'python -m gridstride\.course\.doctor'): main(['doctor'])
    assert 'python -m gridstride.course.doctor ' in capsys.readouterr().out


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
        with pytest.raises(AssertionError, match=f'{says}, which is not installed: python -m pip install'):
            run(f'{lacks} {code}')
    with pytest.raises(AssertionError, match='python -m gridstride.course.lessons run|progress|trust'):
        run('from gridstride.course import lessons; import sys; sys.exit(lessons.main([]))')
