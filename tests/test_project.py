"A new project, a kernel as an operator of PyTorch: its tests pass without a GPU, and fail on a wrong kernel"
import os, subprocess, sys, zipfile
import pytest
from gridstride.kernels import operator_costs
from gridstride.kernels.__main__ import main
from gridstride.kernels.project import project_files, run_tests, write_project
from found import names


@pytest.mark.parametrize('name', ['', 'My', '2d', 'a-b', 'class', 'torch', 'a.b', 'a/b', 'tests'])
def test_a_wrong_name_is_refused(name, tmp_path):
    with pytest.raises(ValueError) as e:
        write_project(name, tmp_path)
    assert repr(name) in str(e.value) and not list(tmp_path.iterdir())


def test_the_command_writes_a_project_once(tmp_path, capsys):
    assert not main(['new', 'my_norm', '--folder', str(tmp_path)])
    assert names(capsys.readouterr().out, 'my_norm', 'pytest --gridstride')
    files = {p.relative_to(tmp_path / 'my_norm').as_posix() for p in tmp_path.rglob('*') if p.is_file()}
    assert files == {*project_files('my_norm')} and 'my_norm/csrc/my_norm.cu' in files
    assert 'my_norm' in main(['new', 'my_norm', '--folder', str(tmp_path)])     # the text of an error


def test_no_template_keeps_its_placeholder():
    for path, text in project_files('my_norm').items():
        assert 'NAME' not in text.replace('NAMESPACE', '') and 'NAME' not in path, path
        if path.endswith('.py'): compile(text, path, 'exec')
    assert '\nname = "my_norm"\n' in project_files('my_norm')['pyproject.toml']


# Lesson 19 runs these two programs, and asserts the same, each time.

@pytest.mark.exhaustive
@pytest.mark.takes(20)
def test_its_tests_pass_without_a_gpu(tmp_path):
    done = run_tests(write_project('good_norm', tmp_path))
    assert not done.returncode and '14 passed, 3 skipped' in done.stdout, done.stdout


@pytest.mark.exhaustive
@pytest.mark.slow
def test_its_tests_find_a_missing_barrier(tmp_path):
    project = write_project('racy_norm', tmp_path)
    source = project / 'racy_norm' / 'csrc' / 'racy_norm.cu'
    source.write_text(source.read_text().replace('    __syncthreads();\n', ''))
    done = run_tests(project, '-k', '257')
    assert done.returncode == 1 and 'racecheck/race' in done.stdout, done.stdout
    assert 'partial[0]' in done.stdout and 'of __init__.py' in done.stdout


@pytest.mark.slow
def test_its_wheel_has_the_source(tmp_path):
    project = write_project('packed_norm', tmp_path)
    options = '-q', '--no-deps', '--no-build-isolation', '-w', str(tmp_path)
    command = [sys.executable, '-m', 'pip', 'wheel', '.', *options]
    subprocess.run(command, cwd=project, check=True, env={**os.environ, 'PYTHONPATH': ''})
    wheel, = tmp_path.glob('packed_norm-*-none-any.whl')
    names_inside = zipfile.ZipFile(wheel).namelist()
    assert {'packed_norm/__init__.py', 'packed_norm/_library.py', 'packed_norm/csrc/packed_norm.cu'} <= {*names_inside}


@pytest.mark.slow
@pytest.mark.takes(10)
def test_each_layer_of_a_call_is_measured(monkeypatch):
    monkeypatch.setattr(operator_costs, 'microseconds', lambda call, x: getattr(call(x), 'shape', ()))
    layers = operator_costs.measure_layers('cpu')
    assert layers.pop('launch from C, by ctypes') == () and {*layers.values()} == {(4,)} and len(layers) == 10
