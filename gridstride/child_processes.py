"""Lets Python programs that an emulated program starts (`!python file.py`, `subprocess`) find a GPU, too.

A folder with a `sitecustomize` is prepended to PYTHONPATH: a Python of the same environment then emulates a GPU as soon
as it imports torch, Numba or Triton. The Python of another environment is not changed.
"""

import atexit
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from .support.atomic_write import untrusted_reason, write_atomically
from .utils import cache_dir

__all__ = ['emulate_children']

# The variable that a child process reads, as JSON: [sys.prefix, the folder of gridstride, whether it runs unchecked].
_VARIABLE = 'GRIDSTRIDE_AS_GPU'

# Any version of Python may read this file. It also imports the `sitecustomize` of the machine.
_HOOK = '''# Python programs that an emulated program starts find a GPU, too: see gridstride/child_processes.py
import json, os, sys

_folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.curdir) != _folder]
_hook = sys.modules.pop('sitecustomize', None)
try:
    import sitecustomize
except ImportError:
    sys.modules['sitecustomize'] = _hook


class EmulatingFinder(object):
    "A finder that emulates a GPU as soon as a module that uses one is imported"

    def __init__(self, root, unchecked, numba_alone=False):
        self.root, self.unchecked, self.numba_alone = root, unchecked, numba_alone

    def find_spec(self, name, path=None, target=None):
        if name not in (('numba', 'numba_cuda_mlir') if self.numba_alone else ('torch', 'numba', 'triton')):
            return None
        sys.meta_path.remove(self)
        if name == 'triton':
            self.emulate()
        specs = (f.find_spec(name, path) for f in sys.meta_path if hasattr(f, 'find_spec'))
        spec = next((s for s in specs if s is not None), None)
        if spec is not None and name != 'triton':
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (execute(module), self.emulate())
        return spec

    def emulate(self):
        sys.path.append(self.root)
        from gridstride import as_gpu
        as_gpu.simulate_numba() if self.numba_alone else as_gpu.enable(self.unchecked, quiet=True, imports_torch=False)


_request = json.loads(os.environ.get('GRIDSTRIDE_AS_GPU') or 'null')
_chosen = os.environ.get('NUMBA_ENABLE_CUDASIM') and not os.environ.get('GRIDSTRIDE_CUDASIM')
if _request and _request[0] == sys.prefix and not _chosen:
    sys.meta_path.insert(0, EmulatingFinder(*_request[1:]))
'''


def _hook_folder():
    "Write the hook to the cache, or to a temporary folder if the cache cannot be written; returns the folder"
    folder = cache_dir() / 'children'
    try:
        _write_hook(folder)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix='gridstride-'))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _write_hook(folder)
    return folder


def _write_hook(folder):
    "Write the hook, unless it exists; raises `OSError` if other users could replace it"
    file = folder / 'sitecustomize.py'
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(untrusted_reason(os.stat(path)) for path in (folder.parent, folder)):
        raise PermissionError(f'{folder} can be changed by other users')
    if (
        file.is_symlink()
        or not file.is_file()
        or untrusted_reason(os.stat(file))
        or file.read_bytes() != _HOOK.encode()
    ):
        file.unlink(missing_ok=True)
        write_atomically(file, _HOOK)


def emulate_children(
    unchecked,  # without checks
    numba_alone=False,  # replace `numba.cuda` only
):
    "Emulate a GPU for the Python programs that this process starts from now on"
    folder = _hook_folder()
    os.environ[_VARIABLE] = json.dumps([sys.prefix, str(Path(__file__).parents[1]), unchecked, numba_alone])
    paths = os.environ.get('PYTHONPATH', '').split(os.pathsep)
    os.environ['PYTHONPATH'] = os.pathsep.join([str(folder), *(p for p in paths if p and p != str(folder))])
