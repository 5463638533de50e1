"""Tracks which compiled modules are loaded, and unloads them when they are no longer needed.

A notebook that compiles a kernel again and again would accumulate modules, each with five memory mappings and its own
variables on the device. A module without references is unloaded when the next module is loaded, unless the runtime
still holds a pointer into it (`runtime/unload.cpp`). The most recent modules stay loaded: a cell that runs again finds
its module, with the values that its kernels have written to `__device__` variables.
"""

import ctypes, gc, os, weakref
from collections import OrderedDict

MAX_UNREFERENCED = 16  # modules that stay loaded without references; also, new modules per garbage collection
_BUSY = 2  # the result of `gridstride_unload` while a call from Python is running

_open_libraries = weakref.WeakValueDictionary()  # path -> `OpenLibrary`
_recent = OrderedDict()  # path -> `OpenLibrary` of the most recent modules, which stay loaded
_unreferenced = {}  # path -> handle of an unreferenced library
# Garbage is collected when more modules than this are loaded. After a collection, it is the number of modules that are
# still loaded plus `MAX_UNREFERENCED`.
_collect_above = 0


class OpenLibrary:
    "A shared library, loaded for as long as this object is referenced"

    def __init__(self, path, handle=None):
        self.path = path
        self.dll = ctypes.CDLL(path, handle=handle)


def open_library(
    path: str,  # of a shared library
    is_emulated,  # whether it runs on the emulator; libraries for a GPU are never unloaded
) -> OpenLibrary:
    "Load a library, or return the one that is already loaded"
    if not is_emulated:
        return OpenLibrary(path)
    if (library := _open_libraries.get(path)) is None:
        library = _open_libraries[path] = OpenLibrary(path, _unreferenced.pop(path, None))
        weakref.finalize(library, _unreferenced.__setitem__, path, library.dll._handle).atexit = False
    _recent[path] = library
    _recent.move_to_end(path)
    return library


def is_open(path) -> bool:
    "Return whether a library is loaded"
    return (path := os.path.abspath(path)) in _open_libraries or path in _unreferenced


def collect_garbage():
    "Collect garbage if many modules are loaded: a module and its functions reference each other"
    global _collect_above
    if len(_open_libraries) > max(_collect_above, 2 * MAX_UNREFERENCED) and gc.isenabled():
        gc.collect()
        _collect_above = len(_open_libraries) + MAX_UNREFERENCED
    # After modules were unloaded, fewer new ones trigger a collection
    _collect_above = min(_collect_above, len(_open_libraries) + MAX_UNREFERENCED)


def unload(
    unload_library,  # the runtime's `gridstride_unload`
):
    "Unload unreferenced modules; the caller must prevent other threads from loading or calling one meanwhile"
    while len(_recent) > MAX_UNREFERENCED:
        _recent.popitem(last=False)
    for path in list(_unreferenced):
        if path not in _open_libraries and unload_library(ctypes.c_void_p(_unreferenced[path])) != _BUSY:
            del _unreferenced[path]
