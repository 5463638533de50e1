"""Lazy exports of subpackages whose imports, such as torch, take long: a name is imported on first use. And the error
for a required package that is not installed."""

import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec


def require(
    package,  # its name
    needed_by,  # the module or function that needs it
):
    "Raise an error that names the command to install `package`, unless it is installed"
    if find_spec(package) is None:
        raise missing_package(package, needed_by)


def missing_package(package, needed_by):
    "Make the error for a missing package that `needed_by` needs, with the command that installs it"
    what = f'{needed_by} needs {package}, which is not installed: python -m pip install {package}'
    return ModuleNotFoundError(what, name=package)


def lazy_exports_of(
    package,  # the package's `__name__`
    names,  # module of the package -> the names that the package exports from it
):  # (`__all__`, `__getattr__`, `__dir__`) of the package
    "Export names of a package, each imported on first use"
    home = {name: module for module, own in names.items() for name in own}

    def find(name):
        if name not in home:
            near = ''.join(f'; there is {similar!r}' for similar in get_close_matches(name, home, 1))
            raise AttributeError(f'module {package!r} has no attribute {name!r}{near}')
        try:
            return getattr(import_module(f'{package}.{home[name]}'), name)
        except ModuleNotFoundError as e:
            if not e.name or e.name.partition('.')[0] == package.partition('.')[0]:
                raise
            raise missing_package(e.name, f'{package}.{name}') from None

    def listing():
        return sorted({*vars(sys.modules[package]), *home})

    return [*home], find, listing
