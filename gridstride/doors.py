"""Front doors of rooms that take long to import, as torch does: names are looked up when they are asked for."""

import sys
from importlib import import_module


def front_door(
    room,  # the package's `__name__`
    names,  # module of the package -> the names of it that the room has
):  # (`__all__`, `__getattr__`, `__dir__`) of the package
    "What a package says it has, and gives when somebody asks"
    home = {name: module for module, own in names.items() for name in own}

    def find(name):
        if name not in home:
            raise AttributeError(f'module {room!r} has no attribute {name!r}')
        return getattr(import_module(f'{room}.{home[name]}'), name)

    def listing():
        return sorted({*vars(sys.modules[room]), *home})

    return [*home], find, listing
