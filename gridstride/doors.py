"""Front doors of rooms that take long to import, as torch does: names are looked up when they are asked for. And what
is said where a package that a room needs is not installed."""

import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec


def require(
    package,  # that can do without it until now
    who,  # needs it
):
    "Raise an error that says what to install, unless `package` is there"
    if find_spec(package) is None:
        raise lacking(package, who)


def lacking(package, who):
    "The error that says which package `who` needs, and how to get it"
    what = f'{who} needs {package}, which is not installed: python -m pip install {package}'
    return ModuleNotFoundError(what, name=package)


def front_door(
    room,  # the package's `__name__`
    names,  # module of the package -> the names of it that the room has
):  # (`__all__`, `__getattr__`, `__dir__`) of the package
    "What a package says it has, and gives when somebody asks"
    home = {name: module for module, own in names.items() for name in own}

    def find(name):
        if name not in home:
            near = ''.join(f'; there is {o!r}' for o in get_close_matches(name, home, 1))
            raise AttributeError(f'module {room!r} has no attribute {name!r}{near}')
        try:
            return getattr(import_module(f'{room}.{home[name]}'), name)
        except ModuleNotFoundError as e:
            if not e.name or e.name.partition('.')[0] == room.partition('.')[0]:
                raise
            raise lacking(e.name, f'{room}.{name}') from None

    def listing():
        return sorted({*vars(sys.modules[room]), *home})

    return [*home], find, listing
