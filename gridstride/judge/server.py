"""The process that starts submissions: it has imported what they need, and forks one process for each, with a warden
that sees to it that nothing is left of it. It has never seen a task.

    python -m gridstride.judge.server FD cpu|cuda      # as `processes` starts it"""

import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

_SUBREAPER, _DEATH = 36, 1  # of Linux's prctl
_FILE = 1 << 30  # bytes of a file that a submission writes
_CHILDREN = Path('/proc/self/task')


def _prctl(option, value):
    "Linux's prctl; nothing elsewhere"
    if sys.platform == 'linux':
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _children():
    "The processes whose parent is this one"
    with suppress(OSError):
        return [int(o) for t in _CHILDREN.iterdir() for o in (t / 'children').read_text().split()]
    return []


def _status(status):
    "How a process ended: its exit code, or minus the signal"
    return os.waitstatus_to_exitcode(status)


def _sweep():
    "Kill all that descends from this process; how many that were"
    killed = set()
    while alive := _children():
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        killed.update(alive)
    return len(killed)


def _wait(pid, life):
    "Until the process ends, or the judge says so: its status, or None if it was killed for the judge"
    watch = [life]
    if hasattr(os, 'pidfd_open'):
        watch.append(os.pidfd_open(pid))
    while True:
        ready = select.select(watch, [], [], None if len(watch) > 1 else 0.02)[0]
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return _status(status)
        if life in ready:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None


def _guard(pid, life):
    "The warden's work: what became of the process, and how many it left behind, all of them killed"
    status = _wait(pid, life)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    left = _sweep()
    with suppress(OSError):
        life.sendall(json.dumps(dict(status=status, left=left)).encode() + b'\n')


def _limits(seconds):
    "What a submission may use"
    import resource  # Windows has none

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))


def _start(order, life, talk, tell, said):
    "In a fork of the server: the warden, and below it the submission's process"
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _prctl(_SUBREAPER, 1)
    pid = os.fork()
    if pid:
        for o in (talk, tell, said):
            os.close(o)
        with socket.socket(fileno=life) as s:
            s.sendall(f'{os.getpid()} {pid}\n'.encode())
            _guard(pid, s)
        return
    os.setsid()
    _prctl(_DEATH, signal.SIGKILL)
    os.close(life)
    for fd in (1, 2):
        os.dup2(said, fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.close(said)
    os.chdir(order['folder'])
    _limits(order['cpu_seconds'])
    import_module('gridstride.judge.worker').main(socket.socket(fileno=talk), tell, order)


def serve(
    control,  # a socket: an order in JSON and four file descriptors for each submission
):
    "Fork a process for each order, until the judge is gone"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the judge's
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for wardens
    _prctl(_SUBREAPER, 1)
    while True:
        text, fds, _, _ = socket.recv_fds(control, 1 << 16, 4)
        if not text:
            _sweep()  # what has outlived its warden
            return
        control.sendall(b'!')
        if os.fork() == 0:
            control.close()
            try:
                _start(json.loads(text), *fds)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


def _prepare(device):
    """Import what submissions would import, and start nothing that a fork cannot take along: no thread, no CUDA

    All of it stays, so nobody looks through it for garbage: neither meanwhile, which is a fifth of the time, nor in
    each fork, which would copy the memory for it."""
    gc.disable()
    import_module('gridstride.judge.worker')
    if device == 'cpu':
        import_module('gridstride.judge.machines').emulate()
    gc.freeze()
    gc.enable()


if __name__ == '__main__':
    _prepare(sys.argv[2])
    with socket.socket(fileno=int(sys.argv[1])) as control:
        control.sendall(b'!')  # ready
        serve(control)
