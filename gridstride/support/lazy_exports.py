"""Lazy exports of subpackages: a name is imported on first use, because importing packages such as torch is slow.

`MissingPackage` is the error for a required package that is not installed; a command prints it as one line."""

import gc, sys
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec


# package -> the extra of settings.ini that installs it: gridstride[tile] installs ml_dtypes
_EXTRA_OF_PACKAGE = {
    'torch': 'torch',
    'ml_dtypes': 'tile',
    'triton': 'triton',
    'numba': 'numba',
    'nbclient': 'course',
    'babel': 'site',  # it comes with Sphinx
}


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
    requirement = f"'gridstride[{_EXTRA_OF_PACKAGE[package]}]'" if package in _EXTRA_OF_PACKAGE else package
    message = f'{needed_by} needs {package}, which is not installed: python -m pip install {requirement}'
    return MissingPackage(message, name=package)


def run_command(
    main,  # the command's `main`
    argv=None,  # its arguments; None: those of this program
):  # its exit status, or an error message for `sys.exit`
    "Call the `main` of a command; if a package is missing, return the message of the error"
    try:
        return main(argv)
    except MissingPackage as e:
        return str(e)


@contextmanager
def paused_garbage_collection():
    """Disable garbage collection until the end of the outermost `with` block.

    Imports and source parsers create many objects, hardly any of which are garbage: garbage collection would take a
    seventh of the time of torch's import."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


exports_of_package = {}  # package -> {exported name: module of the package}, of the packages that were imported


def lazy_exports_of(
    package,  # the package's `__name__`
    names,  # module of the package -> the names that the package exports from it
):  # (`__all__`, `__getattr__`, `__dir__`) of the package
    "Export names of a package, each imported on first use"
    module_of_name = {name: module for module, module_names in names.items() for name in module_names}
    exports_of_package[package] = module_of_name

    def import_name(name):
        if name not in module_of_name:
            hint = ''.join(f'; there is {similar!r}' for similar in get_close_matches(name, module_of_name, 1))
            raise AttributeError(f'module {package!r} has no attribute {name!r}{hint}')
        try:
            value = getattr(import_module(f'{package}.{module_of_name[name]}'), name)
        except ModuleNotFoundError as e:
            if not e.name or e.name.partition('.')[0] == package.partition('.')[0]:
                raise
            raise missing_package(e.name, f'{package}.{name}') from None
        # The next use finds it without this function, which takes longer than a small kernel.
        setattr(sys.modules[package], name, value)
        return value

    def list_names():
        return sorted({*vars(sys.modules[package]), *module_of_name})

    return [*module_of_name], import_name, list_names
