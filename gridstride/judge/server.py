"""The process that starts submissions. It has imported the modules that they need, and forks a process per submission,
with a supervisor that ends all processes of the submission. It never receives a task.

    python -m gridstride.judge.server FD cpu|cuda|lesson [DISABLED PROTECTION ...]      # as `processes` starts it

A fork of this process is a **supervisor**. Below it, in new namespaces if the system allows them, is the first process
of the namespaces, and below that one the submission's process. File descriptors connect them to the judge: a socket of
the supervisor, a socket for messages, a pipe for reports, and, if the submission may compile, a socket for compile
requests."""

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

_CHILD_SUBREAPER, _PARENT_DEATH_SIGNAL = 36, 1  # options of Linux's prctl
_CHECK_SECONDS = 0.1  # between two checks of the resources of a submission
# command of the judge -> signal to all processes of the submission; any other command ends the submission
_SIGNALS = {b's': signal.SIGSTOP, b'c': signal.SIGCONT}
_MAX_LOG_BYTES = 64 << 20


def _kill_descendants():
    "Kill all descendants of this process"
    while children := isolation.children():
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _signal_all(pid, number):
    "Send a signal to a process and its descendants; repeat SIGSTOP until all of them are stopped"
    for _ in range(20):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        descendants = isolation.descendants()
        pending_pids = [child for child in descendants if number != signal.SIGSTOP or not isolation.is_stopped(child)]
        for child in pending_pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, number)
        if number != signal.SIGSTOP or not pending_pids:
            break
        time.sleep(0.001)


def _exceeded_limit(log_fd, max_memory, tmpfs_bytes_before):
    "Describe the limit that the submission exceeds; return '' if there is none"
    if os.fstat(log_fd).st_blocks * 512 > _MAX_LOG_BYTES:  # the log is a file on disk
        return f'more than {_MAX_LOG_BYTES >> 20} MiB of printed text'
    return isolation.exceeded_limit(max_memory, tmpfs_bytes_before)


def _wait(pid, judge_socket, log_fd, max_memory):  # (exit status or None, exceeded limit or '')
    "Wait until the process ends, exceeds a limit, or the judge ends it; execute the judge's commands"
    watched = [judge_socket]
    tmpfs_bytes_before = isolation.tmpfs_bytes()
    if hasattr(os, 'pidfd_open'):
        watched.append(os.pidfd_open(pid))
    while True:
        ready_fds = select.select(watched, [], [], _CHECK_SECONDS if len(watched) > 1 else 0.02)[0]
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            return os.waitstatus_to_exitcode(status), ''
        if judge_socket in ready_fds:
            number = _SIGNALS.get(judge_socket.recv(1))
            if number is None:
                return None, ''
            _signal_all(pid, number)
            judge_socket.sendall(b'=')
        if not ready_fds and (excess := _exceeded_limit(log_fd, max_memory, tmpfs_bytes_before)):
            return None, excess


def _supervise(pid, judge_socket, num_own_processes, status_pipe, log_fd, max_memory):
    "Wait for the process, kill the processes that it left, and report its end to the judge"
    status, excess = _wait(pid, judge_socket, log_fd, max_memory)
    num_left = len(isolation.descendants()) - (num_own_processes if status is None else 0)
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    _kill_descendants()
    if num_own_processes > 1 and status is not None:
        # `pid` is the first process of the namespaces, which writes the exit status of the submission's process
        status = json.loads(os.read(status_pipe, 64) or b'null')
    with suppress(OSError):
        report = dict(status=status, left=max(0, num_left), excess=excess)
        judge_socket.sendall(json.dumps(report).encode() + b'\n')


def _run_supervisor(pid, start_pipe, status_pipe, judge_fd, log_fd, max_memory):
    "Report the processes and the isolation to the judge, and supervise the processes until they end"
    with open(start_pipe) as f:  # the pid of the first process of the namespaces, if there are any; the protections
        *first_pid, protections = f.read().splitlines() or ['[]']
    watched = int(first_pid[0]) if first_pid else pid
    if watched != pid:
        os.waitpid(pid, 0)
    with socket.socket(fileno=judge_fd) as judge_socket:
        report = dict(pids=[os.getpid(), watched], isolation=json.loads(protections))
        judge_socket.sendall(json.dumps(report).encode() + b'\n')
        _supervise(watched, judge_socket, 1 + (watched != pid), status_pipe, log_fd, max_memory)


def _enter_namespaces(job, start_pipe, lifeline, status_pipe):
    "Fork the first process of new namespaces, and from it the submission's process, in which this function returns"
    sockets = isolation.named_sockets()
    isolation.enter_namespaces()
    if pid := os.fork():
        os.write(start_pipe, f'{pid}\n'.encode())
        os._exit(0)
    isolation.mount_file_system(job['folder'], job['cache'], sockets)
    isolation.forbid_tracing()
    if pid := os.fork():
        low, high = sorted((lifeline, status_pipe))
        for fds in ((0, low), (low + 1, high), (high + 1, os.sysconf('SC_OPEN_MAX'))):
            os.closerange(*fds)
        isolation.wait_for_child(pid, lifeline, status_pipe)
    isolation.limit_processes()


def _start(job, judge_fd, message_fd, report_fd, log_fd, request_fd=None):
    "Fork the submission's process, and become its supervisor; called in a fork of the server"
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    isolation.prctl(_CHILD_SUBREAPER, 1)
    start_read, start_write = os.pipe()  # from the start of the submission's process to the supervisor
    status_read, status_write = os.pipe()  # from the first process of the namespaces to the supervisor
    lifeline_read, lifeline_write = os.pipe()  # closed when the supervisor ends
    if pid := os.fork():
        for fd in (message_fd, report_fd, start_write, lifeline_read, status_write):
            os.close(fd)
        if request_fd is not None:
            os.close(request_fd)
        max_memory = job['memory_fraction'] * isolation.total_memory()
        return _run_supervisor(pid, start_read, status_read, judge_fd, log_fd, max_memory)
    for fd in (judge_fd, start_read, lifeline_write, status_read):
        os.close(fd)
    if job['has_namespaces']:
        _enter_namespaces(job, start_write, lifeline_read, status_write)
    elif request_fd is not None:  # without a sandbox, this process compiles: it could write to the cache anyway
        os.close(request_fd)
        request_fd = None
    for fd in (lifeline_read, status_write):
        os.close(fd)
    _run_submission(job, start_write, message_fd, report_fd, log_fd, request_fd)


def _run_submission(job, start_pipe, message_fd, report_fd, log_fd, request_fd):
    "Confine this process, report the protections to the supervisor, and start the worker"
    os.setsid()
    isolation.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    no_input = os.open(os.devnull, os.O_RDONLY)
    for standard_fd, fd in enumerate((no_input, log_fd, log_fd)):
        os.dup2(fd, standard_fd)
    for fd in (no_input, log_fd):
        os.close(fd)
    os.chdir(job['folder'])
    isolation.limit_resources(job['cpu_seconds'])
    protections = isolation.confine(job['folder'], job['cache'], job['has_namespaces'], job['disabled'])
    os.write(start_pipe, json.dumps(protections).encode())
    os.close(start_pipe)
    os.environ.update(TMPDIR=job['folder'], **({} if 'files' in protections else {'HOME': job['folder']}))
    tempfile.tempdir = None
    if job['is_compiler']:
        import_module('gridstride.judge.compiling').main(socket.socket(fileno=message_fd))
    if request_fd is not None:
        client = import_module('gridstride.judge.compiling').Client(socket.socket(fileno=request_fd))
        import_module('gridstride.cpp.toolchain.build').compile_remotely = client
    if job.pop('skips_launches'):  # removed from the job, so that the submission cannot see it
        import_module('gridstride.judge.devices').disable_launches()
    import_module(job['worker']).main(socket.socket(fileno=message_fd), report_fd, job)


def serve(
    control,  # a socket: per process, a job in JSON and four or five file descriptors
    disabled=(),  # keys of `verdicts.ISOLATION`: disabled protections
):
    "Start a process per job, until the judge closes the connection"
    cache = str(cache_dir())
    has_namespaces = 'processes' not in disabled and isolation.are_namespaces_supported(cache)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the judge handles interrupts
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are not waited for
    isolation.prctl(_CHILD_SUBREAPER, 1)
    while True:
        text, fds, _, _ = socket.recv_fds(control, 1 << 16, 5)
        if not text:
            _kill_descendants()  # processes that outlived their supervisor
            return
        control.sendall(b'!')
        if os.fork() == 0:
            control.close()
            job = dict(json.loads(text), has_namespaces=has_namespaces, cache=cache, disabled=disabled)
            text = None
            try:
                _start(job, *fds)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


def _prepare(device):
    """Import the modules that submissions import, but start no threads and no CUDA, which a fork cannot inherit.

    The imported objects are never freed, so they are excluded from garbage collection: this makes the imports 20%
    faster, and avoids copies of their memory in each fork."""
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
        control.sendall(b'!')  # confirms that this process is ready
        serve(control, sys.argv[3:])
