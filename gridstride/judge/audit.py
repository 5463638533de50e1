"""Watch a submission in its process: report access to its callers' objects, functions that it replaces, and threads
that keep running after a call. A submission could defeat this, so these reports only add the reason to a rejection."""

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


# Each report is written to a pipe immediately, so that the submission cannot withdraw it.
class Reporter:
    "Sends reports to the judge, each of them once"

    def __init__(self, fd):
        self.fd = fd
        self.reported = set()

    def __call__(self, code, text):
        if (code, text) not in self.reported:
            self.reported.add((code, text))
            os.write(self.fd, (json.dumps([code, text[:300]]) + '\n').encode())


_INSPECTIONS = {  # audit event -> its description in a report
    'gc.get_objects': 'searches all objects of the process (gc.get_objects)',
    'gc.get_referrers': 'searches for the referrers of an object (gc.get_referrers)',
    'gc.get_referents': 'searches for the referents of an object (gc.get_referents)',
    'sys._getframe': "inspects its callers' frames",
    'sys._current_frames': 'inspects the frames of all threads',
    'sys.settrace': 'traces its callers',
    'sys.setprofile': 'traces its callers',
}
_TORCH = os.path.dirname(torch.__file__)


def _library_prefixes():
    "Return path prefixes of library files: of Python, torch, folders of sys.path, and files that torch.compile writes"
    temporary = tempfile.gettempdir()  # not a library, because it contains submissions, too
    path_folders = (
        os.path.join(folder, '')
        for folder in sys.path
        if os.path.isabs(folder) and not (temporary + os.sep).startswith(os.path.join(folder, ''))
    )
    inductor_folder = os.environ.get('TORCHINDUCTOR_CACHE_DIR') or os.path.join(temporary, 'torchinductor_')
    installed_folders = (
        os.path.dirname(os.__file__),
        os.path.dirname(_TORCH),
        os.path.dirname(os.path.dirname(__file__)),
    )
    return *installed_folders, *path_folders, inductor_folder, '<frozen'


_LIBRARIES = _library_prefixes()


def _is_called_by_submission():
    "Return whether the submission calls the audited function, directly or through `inspect`"
    frame = sys._getframe(2)
    while frame and (frame.f_code.co_filename.endswith(('inspect.py', '/gc.py')) or frame.f_globals is globals()):
        frame = frame.f_back
    return bool(frame) and not frame.f_code.co_filename.startswith(_LIBRARIES)


def submission_threads(old_threads):
    """Format the lines of the submission that new threads execute; return '' if there are none.

    Threads of libraries do not count, nor do threads that wait for work, such as a worker that reads its queue."""
    new_frames = {ident: frame for ident, frame in sys._current_frames().items() if ident not in old_threads}
    frames = [_submission_frame(frame) for ident, frame in new_frames.items() if not _is_waiting(ident, frame)]
    return '; '.join(f'{os.path.basename(f.f_code.co_filename)}, line {f.f_lineno}' for f in frames if f)


def remaining_submission_threads(old_threads):
    "Return `submission_threads` after a pause, in which workers that have finished return to their queues"
    deadline = time.monotonic() + _PAUSE
    while (text := submission_threads(old_threads)) and time.monotonic() < deadline:
        time.sleep(_PAUSE / 20)
    return text


_PAUSE = 0.02  # seconds
_WAITING_MODULES = 'threading.py', 'queue.py', 'selectors.py'
# Blocking system calls of Linux that only another thread ends: futex, in which locks and queues wait, and read, which
# waits for a pipe. (number on x86_64 or ARM, index of the timeout argument)
_BLOCKING_CALLS = {('202', 4), ('98', 4), ('0', None), ('63', None)}


def _submission_frame(frame):
    "Return the innermost frame of a thread that executes code of the submission; None if there is none"
    return next((f for f in _frames(frame) if not f.f_code.co_filename.startswith(_LIBRARIES)), None)


def _is_waiting(ident, frame):
    "Return whether a thread waits for another one, in a module of Python or in a system call"
    if os.path.basename(frame.f_code.co_filename) in _WAITING_MODULES and frame.f_code.co_filename.startswith(
        _LIBRARIES
    ):
        return True
    return any(t.ident == ident and _is_blocked(t.native_id) for t in threading.enumerate())


def _is_blocked(thread):
    "Return whether a thread is in one of `_BLOCKING_CALLS`; False if the system does not report system calls"
    try:
        with open(f'/proc/self/task/{thread}/syscall') as f:
            fields = f.read().split()
    except OSError:
        return False
    # '0x0': the call has no timeout
    return any(fields[:1] == [number] and (i is None or fields[i] == '0x0') for number, i in _BLOCKING_CALLS)


def _frames(frame):
    "Yield a frame and all its callers"
    while frame:
        yield frame
        frame = frame.f_back


def watch(report, may_import_judge=False):
    "Install an audit hook that reports inspections of callers and, unless they are allowed, imports of judge modules"
    active_events = []  # not empty while the hook runs, which ignores the events that it causes

    def hook(event, args):
        if active_events or event != 'import' and event not in _INSPECTIONS:
            return
        active_events.append(event)
        try:
            if event == 'import':
                may_import_judge or _check_import(args[0], report)
            elif _is_called_by_submission():
                report('inspected', f'it {_INSPECTIONS[event]}')
        finally:
            active_events.clear()

    sys.addaudithook(hook)


def _check_import(name, report):
    "Report an import of a module of the judge, and raise `ImportError`"
    if name == 'reference' or name.startswith('gridstride.judge.'):
        report('reference', f'it imports {name}, which has the reference')
        raise ImportError(f'{name} is not available to a submission')


# A clock or a comparison in the submission's process would use functions of these namespaces. The judge uses neither
# there, but a submission that replaces such a function tries to cheat.
def _watched_namespaces():
    "Return {name: namespace} of Python and torch that a submission must not change"
    modules = dict(time=time, torch=torch, json=json, os=os, gc=gc, signal=signal, builtins=__builtins__)
    torch_namespaces = {'torch.Tensor': torch.Tensor, 'torch.cuda': torch.cuda, 'torch.testing': torch.testing}
    return modules | torch_namespaces | {'torch.cuda.Event': torch.cuda.Event}


def _attributes(namespace):
    return namespace if isinstance(namespace, Mapping) else vars(namespace)


def _callables(namespace):
    return {name: value for name, value in dict(_attributes(namespace)).items() if callable(value)}


def _is_torch_wrapper(new, old):
    "Return whether `new` is torch's wrapper of `old`, such as the one of `torch.compile` around `torch.manual_seed`"
    code = getattr(new, '__code__', None)
    return getattr(new, '__wrapped__', None) is old and code and code.co_filename.startswith(_TORCH)


class Guard:
    "Saves the functions of namespaces, to find functions that were replaced later"

    def __init__(
        self,
        judge_namespaces: dict,  # {name: namespace} of the judge
    ):
        namespaces = {**_watched_namespaces(), **judge_namespaces}
        self.originals = {name: (namespace, _callables(namespace)) for name, namespace in namespaces.items()}

    def replaced_functions(self):
        "Return the names of functions that were replaced"
        replaced_names = []
        for namespace_name, (namespace, originals) in self.originals.items():
            current_attributes = _attributes(namespace)
            for name, original in originals.items():
                function = current_attributes.get(name)
                if function is not original and not _is_torch_wrapper(function, original):
                    replaced_names.append(f'{namespace_name}.{name}')
        return replaced_names
