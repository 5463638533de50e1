"""The compiled modules that are loaded, and when one is unloaded.

A notebook that compiles a kernel again and again would collect modules: each has five mappings in memory, and its
variables on the device. One that nothing refers to any more is unloaded when the next one is loaded, unless the runtime
knows of something that leads into it (`runtime/unload.cpp`). The last few stay: a cell that runs again finds its
module, with what its kernels have left in `__device__` variables.
"""

import ctypes, gc, weakref
from collections import OrderedDict

KEPT = 16  # modules that stay though nothing refers to them, and of garbage until it is collected
_LATER = 2  # what `gridstride_unload` returns while a call of Python's is at work

_opened = weakref.WeakValueDictionary()  # path -> `Opened`
_recent = OrderedDict()  # the same of the last few, which stay
_idle = {}  # path -> handle of a library that nothing refers to
_most = 0  # so many may be loaded until garbage is collected


class Opened:
    "A shared library, loaded for as long as something refers to this"

    def __init__(self, path, handle=None):
        self.path, self.dll = path, ctypes.CDLL(path, handle=handle)


def opened(
    path: str,  # of a shared library
    emulated,  # does it run on the emulator? Others stay
) -> Opened:
    "The library, loaded if it is not"
    if not emulated:
        return Opened(path)
    if (found := _opened.get(path)) is None:
        found = _opened[path] = Opened(path, _idle.pop(path, None))
        weakref.finalize(found, _idle.__setitem__, path, found.dll._handle).atexit = False
    _recent[path] = found
    _recent.move_to_end(path)
    return found


def collect():
    "Collect garbage if many modules are loaded: functions of a module and the module refer to each other"
    global _most
    if len(_opened) > max(_most, 2 * KEPT) and gc.isenabled():
        gc.collect()
        _most = len(_opened) + KEPT


def unload(
    close,  # `gridstride_unload`
):
    "Unload modules that nothing refers to; no other thread may load or call one meanwhile"
    while len(_recent) > KEPT:
        _recent.popitem(last=False)
    for path in list(_idle):
        if path not in _opened and close(ctypes.c_void_p(_idle[path])) != _LATER:
            del _idle[path]
