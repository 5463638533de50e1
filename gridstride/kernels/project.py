"""Write a new project: a kernel as an operator of PyTorch, in a package that others can install.

    python -m gridstride.kernels new my_norm     # then: cd my_norm; pytest --gridstride

The templates, in `new_project`, are a complete project, with NAME instead of its name."""

import keyword
import re
from importlib.resources import files
from pathlib import Path

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


def project_files(name) -> dict:  # path -> text
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
