"""The process that starts submissions: it has imported what they need, and forks one process per submission, with a
warden that ends all processes of the submission. It never gets a task.

    python -m gridstride.judge.server FD cpu|cuda [PROTECTION TO LEAVE OUT ...]      # as `processes` starts it"""

import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from importlib import import_module

from . import isolation
from ..utils import cache_dir

_SUBREAPER, _DEATH = 36, 1  # of Linux's prctl
_INTERVAL = 0.1  # seconds between two checks of the resources of a submission
_ORDERS = {b's': signal.SIGSTOP, b'c': signal.SIGCONT}  # from the judge to a warden; any other ends the submission
_PRINTED = 64 << 20  # limit of its output, in bytes


def _kill_descendants():
    "Kill all descendants of this process"
    while alive := isolation.children():
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _signal_all(pid, number):
    "Send a signal to a process and its descendants; repeat SIGSTOP until no new one has been started"
    for _ in range(20):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        found = [
            child for child in isolation.descendants() if number != signal.SIGSTOP or not isolation.is_stopped(child)
        ]
        for child in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, number)
        if number != signal.SIGSTOP or not found:
            break
        time.sleep(0.001)


def _exceeded_limit(output, most, before):
    "Return which limit the submission exceeds; '' if none"
    if os.fstat(output).st_blocks * 512 > _PRINTED:  # the output is a file on disk
        return f'more than {_PRINTED >> 20} MiB of output'
    return isolation.exceeded_limit(most, before)


def _wait(pid, life, output, most):
    "Wait until the process ends, exceeds a limit, or the judge ends it: (status or None, limit or '')"
    watch = [life]
    before = isolation.files_in_memory()
    if hasattr(os, 'pidfd_open'):
        watch.append(os.pidfd_open(pid))
    while True:
        ready = select.select(watch, [], [], _INTERVAL if len(watch) > 1 else 0.02)[0]
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), ''
        if life in ready:
            number = _ORDERS.get(life.recv(1))
            if number is None:
                return None, ''
            _signal_all(pid, number)
            life.sendall(b'=')
        if not ready and (excess := _exceeded_limit(output, most, before)):
            return None, excess


def _guard(pid, life, own, ended, output, most):
    "Wait for the process, kill what it left, and report both to the judge"
    status, excess = _wait(pid, life, output, most)
    left = len(isolation.descendants()) - (own if status is None else 0)
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    _kill_descendants()
    if own > 1 and status is not None:  # the first process of a namespace, which reports how the submission's ended
        status = json.loads(os.read(ended, 64) or b'null')
    with suppress(OSError):
        life.sendall(json.dumps(dict(status=status, left=max(0, left), excess=excess)).encode() + b'\n')


def _warden(pid, report, ended, life, output, most):
    "Report the processes and the isolation to the judge, then guard them"
    with open(report) as f:
        *first, held = f.read().splitlines() or ['[]']
    watched = int(first[0]) if first else pid
    if watched != pid:
        os.waitpid(pid, 0)
    with socket.socket(fileno=life) as s:
        known = dict(pids=[os.getpid(), watched], isolation=json.loads(held))
        s.sendall(json.dumps(known).encode() + b'\n')
        _guard(watched, s, 1 + (watched != pid), ended, output, most)


def _enter_namespaces(order, report, line, ended):
    "Fork twice, into new namespaces: their first process, and the process that returns to run the submission"
    sockets = isolation.named_sockets()
    isolation.leave()
    if pid := os.fork():
        os.write(report, f'{pid}\n'.encode())
        os._exit(0)
    isolation.mount_file_system(order['folder'], order['cache'], sockets)
    isolation.hide()
    if pid := os.fork():
        low, high = sorted((line, ended))
        for span in ((0, low), (low + 1, high), (high + 1, os.sysconf('SC_OPEN_MAX'))):
            os.closerange(*span)
        isolation.wait_for_child(pid, line, ended)
    isolation.limit_processes()


def _start(order, life, talk, report_fd, output, ask=None):
    "Become the warden, and fork the submission's process; called in a fork of the server"
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    isolation.prctl(_SUBREAPER, 1)
    (report, to_report), (line, lifeline), (ended, to_ended) = os.pipe(), os.pipe(), os.pipe()
    if pid := os.fork():
        for fd in (talk, report_fd, to_report, line, to_ended, *([] if ask is None else [ask])):
            os.close(fd)
        return _warden(pid, report, ended, life, output, order['share'] * isolation.memory())
    for fd in (life, report, lifeline, ended):
        os.close(fd)
    if order['able']:
        _enter_namespaces(order, to_report, line, to_ended)
    elif ask is not None:  # without a sandbox it compiles itself, since it could write to the cache anyway
        os.close(ask)
        ask = None
    for fd in (line, to_ended):
        os.close(fd)
    _run(order, to_report, talk, report_fd, output, ask)


def _run(order, report, talk, report_fd, output, ask):
    "Confine the submission's process, in which this is called, report the isolation, and start the worker"
    os.setsid()
    isolation.prctl(_DEATH, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, to in enumerate((nothing, output, output)):
        os.dup2(to, fd)
    for fd in (nothing, output):
        os.close(fd)
    os.chdir(order['folder'])
    isolation.limit(order['cpu_seconds'])
    held = isolation.confine(order['folder'], order['cache'], order['able'], order['without'])
    os.write(report, json.dumps(held).encode())
    os.close(report)
    os.environ.update(TMPDIR=order['folder'], **({} if 'files' in held else {'HOME': order['folder']}))
    tempfile.tempdir = None
    if order['compiles']:
        import_module('gridstride.judge.compiling').main(socket.socket(fileno=talk))
    if ask is not None:
        client = import_module('gridstride.judge.compiling').Client(socket.socket(fileno=ask))
        import_module('gridstride.cpp.toolchain.build').compile_remotely = client
    if order.pop('idle'):  # removed from the order, so that the submission cannot see it
        import_module('gridstride.judge.devices').launch_nothing()
    import_module('gridstride.judge.worker').main(socket.socket(fileno=talk), report_fd, order)


def serve(
    control,  # a socket: an order in JSON and four or five file descriptors per process
    without=(),  # words of `verdicts.ISOLATION`: protections to leave out
):
    "Fork a process per order, until the judge closes the connection"
    cache = str(cache_dir())
    able = 'processes' not in without and isolation.possible(cache)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the judge handles interrupts
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens are not waited for
    isolation.prctl(_SUBREAPER, 1)
    while True:
        text, fds, _, _ = socket.recv_fds(control, 1 << 16, 5)
        if not text:
            _kill_descendants()  # processes that outlived their warden
            return
        control.sendall(b'!')
        if os.fork() == 0:
            control.close()
            order = dict(json.loads(text), able=able, cache=cache, without=without)
            text = None
            try:
                _start(order, *fds)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


def _prepare(device):
    """Import what submissions import, without starting what a fork cannot inherit: no thread, no CUDA

    The imported objects live until the end, so garbage collection skips them: this saves a fifth of the time here,
    and copies of their memory in each fork."""
    gc.disable()
    import_module('gridstride.judge.worker')
    if device == 'cpu':
        import_module('gridstride.judge.devices').emulate()
        import_module('gridstride.judge.compiling')
        import_module('gridstride.cpp.toolchain.build')
    gc.freeze()
    gc.enable()


if __name__ == '__main__':
    _prepare(sys.argv[2])
    with socket.socket(fileno=int(sys.argv[1])) as control:
        control.sendall(b'!')  # ready
        serve(control, sys.argv[3:])
