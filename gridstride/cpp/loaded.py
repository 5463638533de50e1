"""The compiled modules that are loaded, and when they are unloaded.

A notebook that compiles a kernel again and again would collect modules: each has five mappings in memory, and its
variables on the device. One that nothing refers to any more is unloaded when the next one is loaded, unless the runtime
knows of something that leads into it (`runtime/unload.cpp`). The last few stay: a cell that runs again finds its
module, with what its kernels have left in `__device__` variables.
"""

import ctypes, gc, os, weakref
from collections import OrderedDict

KEPT = 16  # unreferenced modules that stay loaded, and uncollected ones before garbage is collected
_LATER = 2  # the result of `gridstride_unload` while a call from Python is running

_opened = weakref.WeakValueDictionary()  # path -> `OpenLibrary`
_recent = OrderedDict()  # the last few, which stay loaded
_idle = {}  # path -> handle of an unreferenced library
_most = 0  # modules that may be loaded until garbage is collected: `KEPT` more than there were at the fewest since


class OpenLibrary:
    "A shared library, loaded for as long as this object is referenced"

    def __init__(self, path, handle=None):
        self.path = path
        self.dll = ctypes.CDLL(path, handle=handle)


def opened(
    path: str,  # of a shared library
    emulated,  # does it run on the emulator? Others are never unloaded
) -> OpenLibrary:
    "Load a library, unless it is loaded"
    if not emulated:
        return OpenLibrary(path)
    if (found := _opened.get(path)) is None:
        found = _opened[path] = OpenLibrary(path, _idle.pop(path, None))
        weakref.finalize(found, _idle.__setitem__, path, found.dll._handle).atexit = False
    _recent[path] = found
    _recent.move_to_end(path)
    return found


def is_open(path) -> bool:
    "Is a library loaded?"
    return (path := os.path.abspath(path)) in _opened or path in _idle


def collect():
    "Collect garbage if many modules are loaded: a module and its functions reference each other"
    global _most
    if len(_opened) > max(_most, 2 * KEPT) and gc.isenabled():
        gc.collect()
        _most = len(_opened) + KEPT
    _most = min(_most, len(_opened) + KEPT)  # where many were dropped, garbage must not replace them


def unload(
    close,  # `gridstride_unload`
):
    "Unload unreferenced modules; no other thread may load or call one meanwhile"
    while len(_recent) > KEPT:
        _recent.popitem(last=False)
    for path in list(_idle):
        if path not in _opened and close(ctypes.c_void_p(_idle[path])) != _LATER:
            del _idle[path]
