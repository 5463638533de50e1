"""Write a new project: a kernel as an operator of PyTorch, in a package that others can install.

    python -m gridstride.kernels new my_norm     # then: cd my_norm; pytest --gridstride

The templates, in `new_project`, form a complete project, with NAME as the placeholder for its name."""

import keyword
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

from ..support.lazy_exports import require

_PATHS = {  # template -> path in the project
    'README.md': 'README.md',
    'pyproject.toml': 'pyproject.toml',
    'setup.py': 'setup.py',
    'workflow.yml': '.github/workflows/test.yml',
    'init.py': 'NAME/__init__.py',
    'library.py': 'NAME/_library.py',
    'kernel.cu': 'NAME/csrc/NAME.cu',
    'test.py': 'tests/test_NAME.py',
}
_RESERVED_NAMES = ('torch', 'aten', 'prim', 'prims', 'gridstride', 'tests')


def check_name(name):
    "Raise `ValueError` if `name` cannot name a package, a namespace of operators and a C++ macro"
    if not re.fullmatch('[a-z][a-z0-9_]*', name) or keyword.iskeyword(name) or name in _RESERVED_NAMES:
        raise ValueError(
            f'{name!r} cannot name a package of operators: use lower-case letters, digits and _, as in my_norm'
        )


def project_files(name) -> dict:  # path -> contents
    "Return the files of a new project"
    check_name(name)
    folder = files(__package__) / 'new_project'
    texts = {path: (folder / f'{template}.txt').read_text(encoding='utf-8') for template, path in _PATHS.items()}
    return {path.replace('NAME', name): text.replace('NAME', name) for path, text in texts.items()}


def write_project(
    name,  # of the package and of the namespace of its operators
    folder='.',  # where the project's folder is created
) -> Path:  # the project's folder
    "Write a new project; raises `FileExistsError` if its folder exists"
    texts, project = project_files(name), Path(folder) / name
    project.mkdir(parents=True)
    for path, text in texts.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text, encoding='utf-8')
    return project


_PLUGIN = f'{__package__.partition(".")[0]}.checker.pytest_plugin'  # imported by the process that runs the tests


def run_tests(
    project,  # the project's folder
    *options,  # of pytest
) -> subprocess.CompletedProcess:  # with the output as `stdout`
    "Run a project's own tests as `pytest --gridstride` does: without a GPU, with every check"
    require('pytest', 'gridstride.kernels')
    is_installed = any(plugin.value == _PLUGIN for plugin in entry_points(group='pytest11'))
    plugin = [] if is_installed else ['-p', _PLUGIN]
    package_root = Path(__file__).resolve().parents[2]
    python_path = os.pathsep.join([str(package_root), str(project), os.environ.get('PYTHONPATH', '')])
    command = [sys.executable, '-m', 'pytest', *plugin, '--gridstride', '-q', '-p', 'no:cacheprovider', '--color=no']
    env = {**os.environ, 'PYTHONPATH': python_path, 'PYTHONDONTWRITEBYTECODE': '1'}
    return subprocess.run([*command, *options], cwd=project, env=env, capture_output=True, text=True)
