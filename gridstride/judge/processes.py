"""Start and end the process of a submission, and exchange messages with it, from the judge's process."""

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
from .compiling import CACHE_SECTION, Service

# Time limits in seconds, for a busy machine
_START_SECONDS = 120.0  # the server imports torch
_COMPILE_SECONDS = 180.0  # the import of a submission calls nvcc; torch's load_inline takes a minute
_FORK_SECONDS = 30.0  # the server forks
_GRACE_SECONDS = 5.0  # a supervisor ends all processes below it
# Other limits
_MAX_LOG_CHARACTERS = 2000  # of what a submission prints, which are kept
_MAX_ERROR_TEXT = 400  # characters of its error message or of a report that are kept
_MAX_REPORT_BYTES = 1 << 16  # of reports, per read


# Environment variables that are passed to a submission; none of them contains passwords or tokens
_PASSED_VARIABLES = (
    'PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR TERM SHELL VIRTUAL_ENV LD_LIBRARY_PATH DYLD_LIBRARY_PATH CC CXX '
    'CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_MODULE_LOADING MKL_THREADING_LAYER SDKROOT '
    'CUDACXX CUDAHOSTCXX NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH '
    'NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_TF32_OVERRIDE '
    'XDG_CACHE_HOME TRITON_CACHE_DIR TRITON_INTERPRET TRITON_LIBCUDA_PATH TRITON_PTXAS_PATH TORCH_CUDA_ARCH_LIST '
    'TORCH_EXTENSIONS_DIR TORCHINDUCTOR_CACHE_DIR NUMBA_CUDA_DRIVER MAX_JOBS CONDA_PREFIX PYTHONDONTWRITEBYTECODE'
).split()
_PASSED_PREFIXES = 'LC_', 'GRIDSTRIDE_'  # of passed variables; not NVIDIA_, because these may contain API keys
_ROOT = str(Path(__file__).parents[2])  # the folder that contains the package
_MEMORY_FRACTION = 0.5  # of this machine's memory, for all processes of a submission
_DISABLED_PROTECTIONS = ()  # keys of `verdicts.ISOLATION`; for tests


def _environment(device):
    "Return the environment variables of a submission's process"
    inherited_variables = {
        k: v for k, v in os.environ.items() if k in _PASSED_VARIABLES or k.startswith(_PASSED_PREFIXES)
    }
    variables = inherited_variables | dict(
        OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1', MKL_NUM_THREADS='1', GRIDSTRIDE_QUIET='1'
    )
    variables['TORCHINDUCTOR_COMPILE_THREADS'] = '1'  # otherwise torch.compile leaves processes running
    variables['PYTHONUNBUFFERED'] = '1'  # keeps what a process printed before it is killed
    variables['GRIDSTRIDE_BACKEND'] = 'gpu' if device == 'cuda' else 'sim'
    cache = import_module('gridstride.cpp.toolchain.cache')
    cache.make_section(CACHE_SECTION)
    variables['GRIDSTRIDE_CACHE'] = str(cache.usable_cache().absolute())
    paths = filter(None, os.environ.get('PYTHONPATH', '').split(os.pathsep))
    return variables | dict(PYTHONPATH=os.pathsep.join([_ROOT, *map(os.path.abspath, paths)]))


class _Server:
    "A process that has imported torch, and forks the processes of submissions"

    def __init__(self, device):
        self.processes = set()  # running `Process`es that it has started
        self.control, server_end = socket.socketpair()
        fd = server_end.fileno()
        command = [sys.executable, '-m', f'{__package__}.server', str(fd), device, *_DISABLED_PROTECTIONS]
        with server_end:
            options = dict(pass_fds=[fd], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self.process = subprocess.Popen(command, env=_environment(device), cwd=_ROOT, **options)
        if not self.wait_for_confirmation(_START_SECONDS):
            self.close()
            raise RuntimeError(f'the process that starts submissions did not start: {" ".join(command)}')

    def wait_for_confirmation(self, seconds):
        "Return whether the server confirms in time that it is ready, or that it has received a job"
        self.control.settimeout(seconds)
        with suppress(OSError):
            return self.control.recv(1) == b'!'
        return False

    def start(self, job, fds):
        "Request a process from the server; return whether it was started"
        with suppress(OSError):
            socket.send_fds(self.control, [json.dumps(job).encode()], fds)
            return self.wait_for_confirmation(_FORK_SECONDS)
        return False

    def release(self, process=None, retire=False):
        """Remove a process that has ended; with `retire`, start no more processes. A retired server is closed after its
        last process, because closing it kills its processes."""
        with _lock:
            self.processes.discard(process)
            if retire and self in _servers.values():
                _servers.pop(next(device for device, server in _servers.items() if server is self))
            if not self.processes and self not in _servers.values():
                self.close()

    def close(self):
        "End the server, which first ends all processes that it started"
        self.control.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE_SECONDS)
        self.process.kill()
        self.process.wait()


_servers = {}  # device -> `_Server`
_lock = threading.RLock()  # several threads may judge submissions
if hasattr(os, 'register_at_fork'):  # a fork of this process starts its own servers
    os.register_at_fork(after_in_child=lambda: (_servers.clear(), globals().update(_lock=threading.RLock())))


def _start(device, job, fds, process):
    "Start a process on the server of a device, and return this server; a server that does not reply is replaced"
    if not hasattr(socket, 'send_fds'):
        raise RuntimeError('judge: submissions run in forked processes, which require Linux or macOS')
    with _lock:
        for _ in range(2):
            server = _servers[device] = _servers.get(device) or _Server(device)
            if server.start(job, fds):
                server.processes.add(process)
                return server
            server.release(retire=True)
    raise RuntimeError('the process that starts submissions did not reply')


@atexit.register
def stop():
    "End all servers; the next `judge` starts new ones"
    with _lock:
        while _servers:
            _servers.popitem()[1].close()


def _signal_name(status):
    return signal.Signals(-status).name


class Process:
    "The process of a submission, for a `with` block that ends it and all processes that it started"

    def __init__(
        self,
        submission,  # a `Submission`
        device: str,  # 'cpu', 'cuda', or 'lesson': the CPU without an emulated GPU for PyTorch
        timeout: float,  # seconds per reply
        skips_launches: bool = False,  # on a CPU: let launches do nothing
        is_compiler: bool = False,  # compile a module instead of running the submission
        worker: str = f'{__package__}.worker',  # the module whose `main` runs the submission
    ):
        self.device = device
        self.timeout = timeout
        self.reports = []  # (code, text)
        self.log = ''  # the end of what the submission printed, after `end`
        self.supervisor_lines = b''  # received from the supervisor
        self.may_compile = device != 'cuda' and submission.may_compile and not is_compiler
        self.pids = ()  # of the supervisor and of the process below it
        self.isolation = ()  # keys of `verdicts.ISOLATION`
        self.folder = tempfile.TemporaryDirectory(prefix='gridstride-judge-', ignore_cleanup_errors=True)
        if not is_compiler:
            (Path(self.folder.name) / 'submission.py').write_text(submission.text, encoding='utf-8')
        self.log_file = tempfile.TemporaryFile()
        self.messages, messages_end = socket.socketpair()
        self.messages.settimeout(timeout)
        self.supervisor, supervisor_end = socket.socketpair()
        self.report_pipe, report_end = os.pipe()
        os.set_blocking(self.report_pipe, False)
        job = dict(device=device, folder=self.folder.name, cpu_seconds=int(20 * timeout) + 60)
        job |= dict(
            memory_fraction=_MEMORY_FRACTION, skips_launches=skips_launches, is_compiler=is_compiler, worker=worker
        )
        fds = [supervisor_end.fileno(), messages_end.fileno(), report_end, self.log_file.fileno()]
        self.service, requests_end = None, None
        if self.may_compile:
            requests, requests_end = socket.socketpair()
            self.service = Service(requests, lambda: Process(submission, device, _COMPILE_SECONDS, is_compiler=True))
            fds.append(requests_end.fileno())
        try:
            self.server = _start(device, job, fds, self)
        finally:
            for sock in filter(None, (messages_end, supervisor_end, requests_end)):
                sock.close()
            os.close(report_end)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def request(self, header, blobs=(), max_bytes=0):
        "Send a message, and return the header and blobs of the reply; raises `ProcessEnded` if there is none"
        timeout = self.timeout_for(header['op'])
        self.send(header, blobs)
        return self.receive(max_bytes, timeout)

    def timeout_for(self, op):
        "Return the time limit of a reply in seconds: longer if a compiler may run"
        may_compile = op == 'load' and self.device == 'cuda' or self.may_compile
        self.may_compile = self.may_compile and op == 'load'  # a compiler may also run in the first call
        return max(self.timeout, _COMPILE_SECONDS) if may_compile else self.timeout

    def send(self, header, blobs=()):
        "Send a message; raises `ProcessEnded` if the process does not read it"
        with self._connection_errors(self.timeout):
            wire.send(self.messages, header, blobs)

    def receive(self, max_bytes=0, timeout=None, make_buffer=bytearray):
        "Receive the next message within `timeout` seconds; `make_buffer(n)` returns the buffer of a blob"
        timeout = timeout or self.timeout
        with self._connection_errors(timeout):
            header, blobs = wire.receive(self.messages, max_bytes, time.monotonic() + timeout, make_buffer)
        if header.get('op') == 'error':
            raise wire.ProcessEnded('raised', str(header.get('text'))[:_MAX_ERROR_TEXT])
        return header, blobs

    @contextmanager
    def _connection_errors(self, timeout):
        "Convert errors of the connection to `ProcessEnded`"
        try:
            yield
        except wire.ConnectionClosed:
            raise self._ended_error() from None
        except wire.Timeout:
            raise wire.ProcessEnded('time', f'timed out: no reply within {timeout:g} s') from None
        except wire.ProtocolError as e:
            raise wire.ProcessEnded('type', f'it sent {e}') from None

    def _ended_error(self):
        "Return the `ProcessEnded` of a process that closed the connection"
        report = self._last_supervisor_report() or {}
        if report.get('excess'):
            return wire.ProcessEnded('died', f'it was killed because it used {report["excess"]}')
        status = report.get('status')
        if status == -signal.SIGXCPU:
            return wire.ProcessEnded('time', 'it exceeded its limit of CPU time')
        event = 'it exited' if status is None or status >= 0 else f'it was killed by {_signal_name(status)}'
        exit_code = f', with exit code {status}' if status and status > 0 else ''
        return wire.ProcessEnded('died', f'{event} before it replied{exit_code}')

    def _last_supervisor_report(self):
        "Return the supervisor's last report: exit status, remaining processes, exceeded limit; None if there is none"
        self._read_supervisor_lines(2)
        with suppress(ValueError, IndexError):
            return json.loads(self.supervisor_lines.split(b'\n')[1])

    def _read_supervisor_lines(self, num_lines):
        "Read lines from the supervisor: the first has its processes and the isolation, the second is its last report"
        self.supervisor.settimeout(_GRACE_SECONDS)
        with suppress(OSError):
            while self.supervisor_lines.count(b'\n') < num_lines and (text := self.supervisor.recv(1 << 12)):
                self.supervisor_lines += text
        with suppress(ValueError):
            first_report = json.loads(self.supervisor_lines.split(b'\n')[0])
            self.pids = first_report['pids']
            self.isolation = tuple(first_report['isolation'])

    @contextmanager
    def suspended(self):
        "Suspend all processes of the submission inside the `with` block, in which the reference is timed"
        self._request_supervisor(b's')
        try:
            yield
        finally:
            self._request_supervisor(b'c')

    def _request_supervisor(self, command):
        "Send the supervisor a command, and wait for its confirmation, or for its last report if the process has ended"
        self._read_supervisor_lines(1)
        with suppress(OSError):
            self.supervisor.sendall(command)
            if (reply := self.supervisor.recv(1)) != b'=':
                self.supervisor_lines += reply

    def _kill(self):
        "Kill the processes if the supervisor, which is stopped or dead, cannot"
        for pid in self.pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.server.release(self, retire=True)

    def read_reports(self) -> list:  # of (code, text)
        "Return all reports of `audit` so far"
        with suppress(OSError):  # there is no report, or the pipe is closed
            for line in os.read(self.report_pipe, _MAX_REPORT_BYTES).decode(errors='replace').splitlines():
                self._add_report(line)
        return self.reports

    def _add_report(self, line):
        "Parse a report, and add it to the list"
        with suppress(ValueError, TypeError, RecursionError):
            code, text = json.loads(line)
            self.reports.append((str(code), str(text)[:_MAX_ERROR_TEXT]))

    def _read_log(self):
        "Return the end of what the submission printed"
        size = self.log_file.seek(0, os.SEEK_END)
        self.log_file.seek(max(0, size - _MAX_LOG_CHARACTERS))
        return self.log_file.read().decode(errors='replace').strip()

    def request_end(self):
        "Make the supervisor end all its descendants"
        with suppress(OSError):
            self.supervisor.shutdown(socket.SHUT_WR)

    def end(self) -> int:  # number of processes that were still running
        "Kill the process and all processes that it started"
        if self.supervisor.fileno() < 0:
            return 0
        if self.service:
            self.service.stop()
        self.read_reports()
        self.log = self._read_log()
        self.request_end()
        report = self._last_supervisor_report()
        if report is None:
            self._kill()
        for connection in (self.messages, self.supervisor, self.log_file):
            connection.close()
        os.close(self.report_pipe)
        self.folder.cleanup()
        self.server.release(self)
        return (report or {}).get('left', 1)
