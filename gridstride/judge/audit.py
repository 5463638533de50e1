"""Watches a submission in its process: access to its callers' objects, functions that it replaces, threads that
continue after a call. This only gives a refusal its reason, because a submission could defeat it."""

import gc
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping

import torch


# A report goes through a pipe at once, so that the submission cannot withdraw it.
class Reporter:
    "Reports to the judge what the submission does, each kind once"

    def __init__(self, fd):
        self.fd = fd
        self.reported = set()

    def __call__(self, what, text):
        if (what, text) not in self.reported:
            self.reported.add((what, text))
            os.write(self.fd, (json.dumps([what, text[:300]]) + '\n').encode())


_SPYING = {
    'gc.get_objects': 'searches all objects of the process (gc.get_objects)',
    'gc.get_referrers': 'searches for the holders of an object (gc.get_referrers)',
    'gc.get_referents': 'searches for what an object refers to (gc.get_referents)',
    'sys._getframe': "inspects its callers' frames",
    'sys._current_frames': 'inspects the frames of all threads',
    'sys.settrace': 'traces what its callers do',
    'sys.setprofile': 'traces what its callers do',
}
_TORCH = os.path.dirname(torch.__file__)


def _libraries():
    "Return prefixes of files that are not the submission's: Python, torch, the path, files that torch.compile writes"
    temporary = tempfile.gettempdir()  # submissions are there, too
    on_path = (
        os.path.join(folder, '')
        for folder in sys.path
        if os.path.isabs(folder) and not (temporary + os.sep).startswith(os.path.join(folder, ''))
    )
    written = os.environ.get('TORCHINDUCTOR_CACHE_DIR') or os.path.join(temporary, 'torchinductor_')
    installed = os.path.dirname(os.__file__), os.path.dirname(_TORCH), os.path.dirname(os.path.dirname(__file__))
    return *installed, *on_path, written, '<frozen'


_LIBRARIES = _libraries()


def _is_asked_by_submission():
    "Return whether the nearest caller is the submission, directly or through `inspect`"
    f = sys._getframe(2)
    while f and (f.f_code.co_filename.endswith(('inspect.py', '/gc.py')) or f.f_globals is globals()):
        f = f.f_back
    return bool(f) and not f.f_code.co_filename.startswith(_LIBRARIES)


def own_threads(before):
    """Return where new threads execute code of the submission, as text; threads of libraries do not count

    A thread that waits for work, such as a worker at its queue, does not count either."""
    new = {ident: f for ident, f in sys._current_frames().items() if ident not in before}
    own = [_own_frame(f) for ident, f in new.items() if not _waits(ident, f)]
    return '; '.join(f'{os.path.basename(f.f_code.co_filename)}, line {f.f_lineno}' for f in own if f)


def own_threads_soon(before):
    "Return `own_threads` after a moment, in which workers that are finished return to their queues"
    end = time.monotonic() + _MOMENT
    while (text := own_threads(before)) and time.monotonic() < end:
        time.sleep(_MOMENT / 20)
    return text


_MOMENT = 0.02  # seconds in which a finished worker returns to its queue
_WAITING = 'threading.py', 'queue.py', 'selectors.py'
# Linux's calls that only another thread ends: (number on x86_64 or ARM, the argument that is its limit of time)
_ENDLESS = {('202', 4), ('98', 4), ('0', None), ('63', None)}  # futex, which locks and queues wait in; read, of a pipe


def _own_frame(frame):
    "Return the innermost frame of a thread that is the submission's; None if there is none"
    return next((f for f in _stack(frame) if not f.f_code.co_filename.startswith(_LIBRARIES)), None)


def _waits(ident, frame):
    "Return whether a thread waits for another one, in a module of Python or in a system call"
    if os.path.basename(frame.f_code.co_filename) in _WAITING and frame.f_code.co_filename.startswith(_LIBRARIES):
        return True
    return any(t.ident == ident and _is_blocked(t.native_id) for t in threading.enumerate())


def _is_blocked(thread):
    "Return whether a thread is in a system call that only another thread ends; False if the system does not report it"
    try:
        with open(f'/proc/self/task/{thread}/syscall') as f:
            words = f.read().split()
    except OSError:
        return False
    return any(words[:1] == [n] and (at is None or words[at] == '0x0') for n, at in _ENDLESS)


def _stack(frame):
    "Yield a frame and all that called it"
    while frame:
        yield frame
        frame = frame.f_back


def watch(report):
    "Report to the judge, from now on, when the submission inspects its callers or imports the judge"
    busy = []

    def hook(event, args):
        if busy or event != 'import' and event not in _SPYING:
            return
        busy.append(event)
        try:
            if event == 'import':
                _imported(args[0], report)
            elif _is_asked_by_submission():
                report('spied', f'it {_SPYING[event]}')
        finally:
            busy.clear()

    sys.addaudithook(hook)


def _imported(name, report):
    "Report and refuse the import of a module of the judge"
    if name == 'reference' or name.startswith('gridstride.judge.'):
        report('reference', f'it imports {name}, where the reference is')
        raise ImportError(f'{name} is not available to a submission')


# Functions that a clock or a comparison in this process would use. The judge uses none of them, but a submission that
# replaces one tries to cheat.
def _watched():
    "Return {name: namespace} that a submission must not change, except the judge's own"
    res = {'time': time, 'torch': torch, 'torch.Tensor': torch.Tensor, 'torch.cuda': torch.cuda, 'json': json, 'os': os}
    res |= {'torch.cuda.Event': torch.cuda.Event, 'torch.testing': torch.testing, 'builtins': __builtins__}
    return res | {'gc': gc, 'signal': signal}


def _names(thing):
    return thing if isinstance(thing, Mapping) else vars(thing)


def _callables(thing):
    return {k: v for k, v in dict(_names(thing)).items() if callable(v)}


def _is_wrapped(new, old):
    "Return whether this is torch's own wrapper, such as `torch.compile`'s around `torch.manual_seed`"
    code = getattr(new, '__code__', None)
    return getattr(new, '__wrapped__', None) is old and code and code.co_filename.startswith(_TORCH)


class Guard:
    "Remembers functions, and reports which of them were replaced"

    def __init__(
        self,
        own: dict,  # {name: namespace} of the judge
    ):
        self.were = {name: (thing, _callables(thing)) for name, thing in {**_watched(), **own}.items()}

    def changed(self):
        "Return the names of functions that were replaced"
        res = []
        for name, (thing, were) in self.were.items():
            now = _names(thing)
            res += [f'{name}.{k}' for k, v in were.items() if now.get(k) is not v and not _is_wrapped(now.get(k), v)]
        return res
