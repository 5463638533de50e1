"What editors, type checkers, `help` and the command line show of the package, with and without its optional packages."
import ast, importlib.util, inspect, pydoc, re, subprocess, sys
from pathlib import Path

import front_stubs
from found import names
import gridstride
import pytest
from gridstride.support import lazy_exports
from gridstride.support.parameter_docs import documented
from gridstride.support.lazy_exports import MissingPackage, missing_package, require, run_command

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def without(monkeypatch):
    "Makes packages look as if they were not installed"
    def hide(*packages):
        real = importlib.util.find_spec
        hidden = lambda name, *args: None if name in packages else real(name, *args)
        for module in (importlib.util, lazy_exports): monkeypatch.setattr(module, 'find_spec', hidden)
    return hide


# Stubs

def test_stubs_are_those_of_the_exports():
    old = [str(p.relative_to(ROOT)) for p, text in front_stubs.stubs().items()
           if not p.exists() or p.read_text(encoding='utf-8') != text]
    assert not old, f'{old}: run python tests/front_stubs.py'


def named(path):
    imports = [n for n in ast.parse(path.read_text('utf-8')).body if isinstance(n, ast.ImportFrom)]
    return {o.asname or o.name for n in imports for o in n.names}


def test_the_stub_of_the_package_has_its_public_names():
    assert named(ROOT/'gridstride/__init__.pyi') == set(gridstride.__all__)


@pytest.mark.parametrize('name', ['cuda', 'triton'])
def test_what_the_other_stubs_name_is_there(name):
    module = getattr(gridstride, name)
    assert [o for o in named(ROOT/f'gridstride/{name}.pyi') - {'*', '__getattr__'} if not hasattr(module, o)] == []


@pytest.mark.parametrize('code, expected', [('gridstride.cuda_k', 'cuda_kernel'), ('gridstride.load', 'load_cuda'),
                                            ('gridstride.cpp.opt', 'options'), ('gridstride.kernels.soft', 'softmax'),
                                            ('gridstride.sim.cuda.syncth', 'syncthreads'),
                                            ("gridstride.cuda_kernel('').par", 'params')])
def test_editors_complete(code, expected):
    jedi = pytest.importorskip('jedi')
    project = jedi.Project(ROOT, added_sys_path=[str(ROOT)])
    imports = 'import gridstride, gridstride.cpp, gridstride.kernels, gridstride.sim'
    script = jedi.Script(f'{imports}\n{code}', project=project)
    assert expected in [o.name for o in script.complete()]


# Missing packages

def test_help_works_without_optional_packages(without):
    without('ml_dtypes', 'torch')
    assert {'tile', 'triton', 'kernels'} & {*dir(gridstride)} == set()
    assert gridstride.__doc__.splitlines()[0] in pydoc.render_doc(gridstride, renderer=pydoc.plaintext)


def test_a_missing_package_names_the_extra_that_installs_it():
    for package, extra in lazy_exports._EXTRA_OF_PACKAGE.items():
        assert f"'gridstride[{extra}]'" in str(missing_package(package, 'x'))
    assert str(missing_package('other', 'x')).endswith('install other')


def test_each_extra_is_in_the_settings():
    from gridstride.course.publishing import settings
    assert all(f'{extra}_requirements' in settings(ROOT) for extra in lazy_exports._EXTRA_OF_PACKAGE.values())


def test_a_lesson_alone_has_the_packages_that_its_kernels_require():
    "Lesson 19 runs the tests of a project, and a notebook alone installs `gridstride[lesson]`"
    from gridstride.course.publishing import settings
    required = set(re.findall(r"require\('(\w+)'", (ROOT/'gridstride/kernels/project.py').read_text()))
    assert required and required <= set(re.findall(r'^(\w+)', settings(ROOT)['lesson_requirements'], re.M))


def test_a_command_without_its_package_ends_in_one_line(without):
    without('torch')
    def main(argv): require('torch', f'command {argv}')
    line = run_command(main, ['a'])
    assert 'torch' in line and len(line.splitlines()) == 1
    assert run_command(lambda argv: 3) == 3
    with pytest.raises(ZeroDivisionError): run_command(lambda argv: 1/0)


COMMANDS = [['judge', 'x.py'], ['judge', 'submit', 'add_triton'], ['kernels', 'export', 'x'], ['as_gpu', 'x.py']]


@pytest.mark.slow
@pytest.mark.parametrize('argv', COMMANDS, ids=' '.join)
@pytest.mark.parametrize('dotted', [True, False])
def test_commands_without_torch(argv, dotted, tmp_path):
    (tmp_path/'x.py').write_text('')
    (tmp_path/'torch.py').write_text('raise ModuleNotFoundError("no torch", name="torch")')
    code = ('import importlib.util as u; f = u.find_spec\n'
            'u.find_spec = lambda n, *a: None if n == "torch" else f(n, *a)\n'
            f'import runpy, sys; sys.argv[1:] = {argv[1:] if dotted else argv}\n'
            f'runpy.run_module("gridstride.{argv[0]}" if {dotted} else "gridstride", run_name="__main__")')
    run = subprocess.run([sys.executable, '-c', code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == (1 if dotted else 2), run.stderr
    assert 'gridstride[torch]' in run.stderr and len(run.stderr.splitlines()) == 1


def test_the_judges_help_needs_no_torch(without, capsys):
    from gridstride.judge import __main__ as command
    without('torch')
    with pytest.raises(SystemExit) as e: command.main(['--help'])
    assert e.value.code == 0 and '--task' in capsys.readouterr().out


def test_the_error_is_still_that_of_a_missing_module():
    assert issubclass(MissingPackage, ModuleNotFoundError) and missing_package('torch', 'x').name == 'torch'


# Docstrings

def test_help_shows_parameters_with_their_comments():
    from gridstride import asm, bench, cpp, sim
    shown = [gridstride.cuda_kernel, gridstride.load_cuda, gridstride.check, bench.bench, bench.compare, asm.resources,
             cpp.options, sim.options]
    for fn in shown:
        said, parameters = inspect.getdoc(fn).split('\n\nParameters:\n\n')
        first = next(iter(inspect.signature(fn).parameters))
        assert said and parameters.splitlines()[0].split()[0].lstrip('*') == first and len(parameters.splitlines()) >= 3
    assert names(inspect.getdoc(bench.bench), 'flops', 'floating-point', 'seconds', 'limit'), 'comments'


@documented
def sample(
    a,  # the first,
    # on two lines
    *others: int,  # the others
    b=(1, 2),
    c='#',  # not read: the default has a hash
):
    "Do nothing"


def test_a_comment_may_continue_and_a_parameter_may_have_none():
    a, others = sample.__doc__.splitlines()[-2:]
    assert (a.split()[0], others.split()[0]) == ('a', '*others') and names(a, 'first', 'two lines')
    assert documented(lambda x: x).__doc__ is None
