"""Starts, times and ends the process of a submission, and exchanges messages with it, from the judge's process."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from . import wire
from .compiling import JUDGED, Service

# Limits in seconds, for a busy machine
_START = 120.0  # to import torch
_COMPILE = 180.0  # to import a submission that may call nvcc: torch's load_inline takes a minute
_FORK = 30.0  # for the warm process to fork
_GRACE = 5.0  # for a warden to end all processes below it
# Limits in characters and bytes
_OUTPUT = 2000  # characters of a submission's output that are kept
_TEXT = 400  # characters of its error message that are repeated
_MAX_REPORTED = 1 << 16  # bytes of reports that are read at once


class Ended(Exception):
    "A submission's process has ended or must be ended; the message says why"

    def __init__(self, code, text):
        self.code, self.text = code, text
        super().__init__(text)


# Environment variables that a submission gets: none of them has passwords or tokens
_PASSED = (
    'PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR TERM SHELL VIRTUAL_ENV LD_LIBRARY_PATH DYLD_LIBRARY_PATH CC CXX '
    'CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_MODULE_LOADING MKL_THREADING_LAYER SDKROOT '
    'CUDACXX CUDAHOSTCXX NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH '
    'NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_TF32_OVERRIDE '
    'XDG_CACHE_HOME TRITON_CACHE_DIR TRITON_INTERPRET TRITON_LIBCUDA_PATH TRITON_PTXAS_PATH TORCH_CUDA_ARCH_LIST '
    'TORCH_EXTENSIONS_DIR TORCHINDUCTOR_CACHE_DIR NUMBA_CUDA_DRIVER MAX_JOBS CONDA_PREFIX PYTHONDONTWRITEBYTECODE'
).split()
_PASSED_ALL = 'LC_', 'GRIDSTRIDE_'  # prefixes; not NVIDIA_, since such variables may be keys of its services
_ROOT = str(Path(__file__).parents[2])
_MEMORY = 0.5  # fraction of this machine's memory for all processes of a submission
_WITHOUT = ()  # words of `verdicts.ISOLATION`: protections to leave out although the system has them


def _environment(device):
    "Return the environment variables of a submission's process"
    res = {k: v for k, v in os.environ.items() if k in _PASSED or k.startswith(_PASSED_ALL)}
    res |= dict(OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1', MKL_NUM_THREADS='1', GRIDSTRIDE_QUIET='1')
    res['TORCHINDUCTOR_COMPILE_THREADS'] = '1'  # otherwise processes of torch.compile remain after the end
    res['PYTHONUNBUFFERED'] = '1'  # so that output is kept if the process is killed
    res['GRIDSTRIDE_BACKEND'] = 'gpu' if device == 'cuda' else 'sim'
    cache = import_module('gridstride.cpp.toolchain.cache')
    cache.make_section(JUDGED)
    res['GRIDSTRIDE_CACHE'] = str(cache.usable_cache().absolute())
    paths = filter(None, os.environ.get('PYTHONPATH', '').split(os.pathsep))
    return res | dict(PYTHONPATH=os.pathsep.join([_ROOT, *map(os.path.abspath, paths)]))


class _Server:
    "A warm process, which forks the processes of submissions"

    def __init__(self, device):
        self.users = set()  # `Process`es that it has started
        self.control, theirs = socket.socketpair()
        command = [sys.executable, '-m', f'{__package__}.server', str(theirs.fileno()), device, *_WITHOUT]
        with theirs:
            how = dict(pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self.process = subprocess.Popen(command, env=_environment(device), cwd=_ROOT, **how)
        if not self.answers(_START):
            self.close()
            raise RuntimeError(f'the process that starts submissions did not start: {" ".join(command)}')

    def answers(self, seconds):
        "Return whether the server confirms, in time, that it is ready or got an order"
        self.control.settimeout(seconds)
        with suppress(OSError):
            return self.control.recv(1) == b'!'
        return False

    def start(self, order, fds):
        "Let the server start a process; return whether it did"
        with suppress(OSError):
            socket.send_fds(self.control, [json.dumps(order).encode()], fds)
            return self.answers(_FORK)
        return False

    def leave(self, process=None, last=False):
        "Forget a process that has ended; close the server after the last one, because its end kills all others"
        with _one_at_a_time:
            self.users.discard(process)
            if last and self in _servers.values():
                _servers.pop(next(k for k, v in _servers.items() if v is self))
            if not self.users and self not in _servers.values():
                self.close()

    def close(self):
        "End the server, after all processes that it started"
        self.control.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        self.process.kill()
        self.process.wait()


_servers = {}  # device -> server
_one_at_a_time = threading.RLock()  # submissions may be judged by several threads
if hasattr(os, 'register_at_fork'):  # a fork of this process starts its own server
    os.register_at_fork(after_in_child=lambda: (_servers.clear(), globals().update(_one_at_a_time=threading.RLock())))


def _start(device, order, fds, process):
    "Start a process on the device's server and return the server; one that does not answer is replaced"
    if not hasattr(socket, 'send_fds'):
        raise RuntimeError('judge: submissions run in forked processes, which need Linux or macOS')
    with _one_at_a_time:
        for _ in range(2):
            server = _servers[device] = _servers.get(device) or _Server(device)
            if server.start(order, fds):
                server.users.add(process)
                return server
            server.leave(last=True)
    raise RuntimeError('the process that starts submissions did not answer')


@atexit.register
def stop():
    "End the warm processes; a later `judge` starts them again"
    with _one_at_a_time:
        while _servers:
            _servers.popitem()[1].close()


def _signal_name(code):
    return signal.Signals(-code).name


class Process:
    "The process of a submission, for a `with` block, after which none of its processes is left"

    def __init__(
        self,
        submission,  # a `Submission`
        device: str,  # 'cpu' or 'cuda'
        timeout: float,  # seconds that each answer may take
        idle: bool = False,  # on a CPU: whether launches do nothing
        compiles: bool = False,  # whether to compile only, instead of running the submission
    ):
        self.device = device
        self.timeout = timeout
        self.reported = []
        self.printed = ''
        self.received = b''
        self.compiles = device == 'cpu' and submission.compiles and not compiles
        self.pids, self.isolation = (), ()  # words of `verdicts.ISOLATION`
        self.folder = tempfile.TemporaryDirectory(prefix='gridstride-judge-', ignore_cleanup_errors=True)
        if not compiles:
            (Path(self.folder.name) / 'submission.py').write_text(submission.text, encoding='utf-8')
        self.output = tempfile.TemporaryFile()
        self.talk, talk = socket.socketpair()
        self.talk.settimeout(timeout)
        self.life, life = socket.socketpair()
        self.report, report = os.pipe()
        os.set_blocking(self.report, False)
        order = dict(device=device, folder=self.folder.name, cpu_seconds=int(20 * timeout) + 60)
        order |= dict(share=_MEMORY, idle=idle, compiles=compiles)
        fds = [life.fileno(), talk.fileno(), report, self.output.fileno()]
        self.service, ask = None, None
        if self.compiles:
            mine, ask = socket.socketpair()
            self.service = Service(mine, lambda: Process(submission, device, _COMPILE, compiles=True))
            fds.append(ask.fileno())
        try:
            self.server = _start(device, order, fds, self)
        finally:
            for end in filter(None, (talk, life, ask)):
                end.close()
            os.close(report)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def ask(self, header, blobs=(), most=0):
        "Send a message and return the header and blobs of the answer; raises `Ended` if there is none"
        timeout = self.timeout_for(header['op'])
        self.send(header, blobs)
        return self.receive(most, timeout)

    def timeout_for(self, op):
        "Return the seconds that an answer may take: more if a compiler runs"
        compiles = op == 'load' and self.device == 'cuda' or self.compiles
        self.compiles = self.compiles and op == 'load'  # a compiler may run once more, in the first call
        return max(self.timeout, _COMPILE) if compiles else self.timeout

    def send(self, header, blobs=()):
        "Send a message; raises `Ended` if the process does not read it"
        with self._connection_errors(self.timeout):
            wire.send(self.talk, header, blobs)

    def receive(self, most=0, timeout=None, buffer=bytearray):
        "Return the next message within `timeout` seconds; `buffer(n)` makes the buffers of its blobs"
        timeout = timeout or self.timeout
        with self._connection_errors(timeout):
            header, blobs = wire.receive(self.talk, most, time.monotonic() + timeout, buffer)
        if header.get('op') == 'error':
            raise Ended('raised', str(header.get('text'))[:_TEXT])
        return header, blobs

    @contextmanager
    def _connection_errors(self, timeout):
        "Raise `Ended` for errors of the connection"
        try:
            yield
        except wire.ConnectionClosed:
            raise self._ended_error() from None
        except wire.Timeout:
            raise Ended('time', f'no answer within {timeout:g} s') from None
        except wire.ProtocolError as e:
            raise Ended('type', f'it sent {e}') from None

    def _ended_error(self):
        "Make the `Ended` of a process that closed the connection"
        ended = self._how_it_ended() or {}
        if ended.get('excess'):
            return Ended('died', f'it was killed because it used {ended["excess"]}')
        code = ended.get('status')
        if code == -signal.SIGXCPU:
            return Ended('time', 'it exceeded its limit of CPU time')
        how = 'it left' if code is None or code >= 0 else f'it died of {_signal_name(code)}'
        more = f', with exit code {code}' if code and code > 0 else ''
        return Ended('died', f'{how} before it sent an answer{more}')

    def _how_it_ended(self):
        "Return the warden's last report: how the process ended, how many processes it left; None if there is none"
        self._read_lines(2)
        with suppress(ValueError, IndexError):
            return json.loads(self.received.split(b'\n')[1])

    def _read_lines(self, lines):
        "Read lines of the warden: first its processes and the isolation, then how the process ended"
        self.life.settimeout(_GRACE)
        with suppress(OSError):
            while self.received.count(b'\n') < lines and (text := self.life.recv(1 << 12)):
                self.received += text
        with suppress(ValueError):
            known = json.loads(self.received.split(b'\n')[0])
            self.pids = known['pids']
            self.isolation = tuple(known['isolation'])

    @contextmanager
    def stopped(self):
        "Stop it and all processes that it started inside the `with` block, in which others are timed"
        self._ask_warden(b's')
        try:
            yield
        finally:
            self._ask_warden(b'c')

    def _ask_warden(self, what):
        "Send the warden an order, and wait until it is done; the answer may be its last report"
        self._read_lines(1)
        with suppress(OSError):
            self.life.sendall(what)
            if (reply := self.life.recv(1)) != b'=':
                self.received += reply

    def _kill(self):
        "Kill the processes in place of a warden that is stopped or dead"
        for pid in self.pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.server.leave(self, last=True)

    def hints(self) -> list:  # of (code, text)
        "Return the reports from within the process so far"
        with suppress(OSError):  # no report, or closed
            for line in os.read(self.report, _MAX_REPORTED).decode(errors='replace').splitlines():
                self._keep_report(line)
        return self.reported

    def _keep_report(self, line):
        "Parse and keep one report"
        with suppress(ValueError, TypeError, RecursionError):
            code, text = json.loads(line)
            self.reported.append((str(code), str(text)[:_TEXT]))

    def _printed(self):
        "Return the end of what the submission printed"
        size = self.output.seek(0, os.SEEK_END)
        self.output.seek(max(0, size - _OUTPUT))
        return self.output.read().decode(errors='replace').strip()

    def hang_up(self):
        "Let the warden end all processes below it"
        with suppress(OSError):
            self.life.shutdown(socket.SHUT_WR)

    def end(self) -> int:  # number of processes that were still running
        "Kill the process and all that it started"
        if self.life.fileno() < 0:
            return 0
        if self.service:
            self.service.stop()
        self.hints()
        self.printed = self._printed()
        self.hang_up()
        ended = self._how_it_ended()
        if ended is None:
            self._kill()
        for end in (self.talk, self.life, self.output):
            end.close()
        os.close(self.report)
        self.folder.cleanup()
        self.server.leave(self)
        return (ended or {}).get('left', 1)
