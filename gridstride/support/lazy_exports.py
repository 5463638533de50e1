"""Lazy exports of subpackages whose imports, such as torch, take long: a name is imported on first use. And the error
for a required package that is not installed, which a command prints as one line."""

import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec


# The extra of settings.ini that installs a package: gridstride[tile] installs ml_dtypes.
_EXTRA = {'torch': 'torch', 'ml_dtypes': 'tile', 'triton': 'triton', 'numba': 'numba', 'nbclient': 'course'}


class MissingPackage(ModuleNotFoundError):
    "A package that gridstride needs here is not installed; the message has the command that installs it"


def require(
    package,  # its name
    needed_by,  # the module or function that needs it
):
    "Raise an error that names the command to install `package`, unless it is installed"
    if find_spec(package) is None:
        raise missing_package(package, needed_by)


def missing_package(package, needed_by):
    "Make the error for a missing package that `needed_by` needs, with the command that installs it"
    wanted = f"'gridstride[{_EXTRA[package]}]'" if package in _EXTRA else package
    what = f'{needed_by} needs {package}, which is not installed: python -m pip install {wanted}'
    return MissingPackage(what, name=package)


def run_command(
    main,  # the command's `main`
    argv=None,  # its arguments; None: those of this program
):  # its exit status, or an error message for `sys.exit`
    "Call the `main` of a command; if a package is missing, return the one line that names it and how to install it"
    try:
        return main(argv)
    except MissingPackage as e:
        return str(e)


exported = {}  # package -> {name: module of the package}, of all packages below that were imported


def lazy_exports_of(
    package,  # the package's `__name__`
    names,  # module of the package -> the names that the package exports from it
):  # (`__all__`, `__getattr__`, `__dir__`) of the package
    "Export names of a package, each imported on first use"
    home = exported[package] = {name: module for module, own in names.items() for name in own}

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
