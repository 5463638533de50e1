"""Tracks which compiled modules are loaded, and unloads them when they are no longer needed.

A notebook that compiles a kernel many times would accumulate modules, each with five memory mappings and its own
variables on the device. A module without references is unloaded when the next module is loaded, unless the runtime
still holds a pointer into it (`runtime/unload.cpp`). The most recent modules stay loaded, so a cell that runs again
finds its module, with the values that kernels have written to its `__device__` variables.
"""

import ctypes, gc, os, weakref
from collections import OrderedDict

MAX_UNREFERENCED = 16  # modules that stay loaded without references, and new modules between garbage collections
_BUSY = 2  # the result of `gridstride_unload` while Python calls a module

_open_libraries = weakref.WeakValueDictionary()  # path -> `OpenLibrary`
_recent_libraries = OrderedDict()  # path -> `OpenLibrary` of the most recent modules, which stay loaded
_unreferenced_handles = {}  # path -> handle of an unreferenced library
# The garbage collector runs when more modules than this are loaded. Each collection sets it to the number of modules
# that are still loaded, plus `MAX_UNREFERENCED`.
_garbage_threshold = 0


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
        library = _open_libraries[path] = OpenLibrary(path, _unreferenced_handles.pop(path, None))
        weakref.finalize(library, _unreferenced_handles.__setitem__, path, library.dll._handle).atexit = False
    _recent_libraries[path] = library
    _recent_libraries.move_to_end(path)
    return library


def is_open(path) -> bool:
    "Return whether a library is loaded"
    return (path := os.path.abspath(path)) in _open_libraries or path in _unreferenced_handles


def collect_garbage():
    "Run the garbage collector if many modules are loaded: cycles of modules and their functions keep them alive"
    global _garbage_threshold
    if len(_open_libraries) > max(_garbage_threshold, 2 * MAX_UNREFERENCED) and gc.isenabled():
        gc.collect()
        _garbage_threshold = len(_open_libraries) + MAX_UNREFERENCED
    # After an unload, the threshold follows the smaller number of loaded modules.
    _garbage_threshold = min(_garbage_threshold, len(_open_libraries) + MAX_UNREFERENCED)


def unload(
    unload_library,  # the runtime's `gridstride_unload`
):
    "Unload unreferenced modules; the caller must hold the lock of the device"
    while len(_recent_libraries) > MAX_UNREFERENCED:
        _recent_libraries.popitem(last=False)
    for path in list(_unreferenced_handles):
        if path not in _open_libraries and unload_library(ctypes.c_void_p(_unreferenced_handles[path])) != _BUSY:
            del _unreferenced_handles[path]
