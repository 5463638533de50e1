"""The judge's side of a submission's process: started, spoken to, timed and ended from here."""

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
from pathlib import Path

from . import wire

_START = 120.0  # seconds in which torch is imported, on a busy machine
_COMPILE = 180.0  # seconds in which a submission is imported that may call nvcc: torch's load_inline takes a minute
_FORK = 30.0  # seconds in which the warm process forks, on a busy machine
_GRACE = 5.0  # seconds in which a warden ends all that is below it
_SAID = 2000  # characters of what a submission printed that are kept
_TEXT = 400  # characters of what it says that are repeated
_MOST_TOLD = 1 << 16  # bytes of what was noticed that are read at once


class Ended(Exception):
    "A submission's process is of no more use: what became of it"

    def __init__(self, code, text):
        self.code, self.text = code, text
        super().__init__(text)


class _Server:
    "A warm process that forks others"

    def __init__(self, device):
        self.users = set()  # `Process`es that it has started
        self.control, theirs = socket.socketpair()
        root = str(Path(__file__).parents[2])
        env = dict(os.environ, OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1', MKL_NUM_THREADS='1', GRIDSTRIDE_QUIET='1')
        env['TORCHINDUCTOR_COMPILE_THREADS'] = '1'  # torch.compile's own processes would stay when all is done
        env['GRIDSTRIDE_BACKEND'] = 'gpu' if device == 'cuda' else 'sim'
        env['PYTHONPATH'] = os.pathsep.join(filter(None, [root, env.get('PYTHONPATH')]))
        command = [sys.executable, '-m', f'{__package__}.server', str(theirs.fileno()), device]
        with theirs:
            how = dict(pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self.process = subprocess.Popen(command, env=env, **how)
        if not self.answers(_START):
            self.close()
            raise RuntimeError(f'the process that starts submissions does not start: {" ".join(command)}')

    def answers(self, seconds):
        "Whether the server says that it is ready, or has heard"
        self.control.settimeout(seconds)
        with suppress(OSError):
            return self.control.recv(1) == b'!'
        return False

    def start(self, order, fds):
        "Whether the server starts a process"
        with suppress(OSError):
            socket.send_fds(self.control, [json.dumps(order).encode()], fds)
            return self.answers(_FORK)
        return False

    def leave(self, process=None, last=False):
        "A process has ended; `last`: no other shall start. It is closed when none is left: its end would kill them"
        with _one_at_a_time:
            self.users.discard(process)
            if last and self in _servers.values():
                _servers.pop(next(k for k, v in _servers.items() if v is self))
            if not self.users and self not in _servers.values():
                self.close()

    def close(self):
        "End the server; what it has started has ended before"
        self.control.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        self.process.kill()
        self.process.wait()


_servers = {}  # device -> server
_one_at_a_time = threading.RLock()  # submissions may be judged by several threads
if hasattr(os, 'register_at_fork'):  # a process that is forked from this one starts a server of its own
    os.register_at_fork(after_in_child=lambda: (_servers.clear(), globals().update(_one_at_a_time=threading.RLock())))


def _start(device, order, fds, process):
    "The server that has started a process for a device; one that is gone, or does not answer, is replaced"
    if not hasattr(socket, 'send_fds'):
        raise RuntimeError('judge: submissions run in processes that are forked, which needs Linux or macOS')
    with _one_at_a_time:
        for _ in range(2):
            server = _servers[device] = _servers.get(device) or _Server(device)
            if server.start(order, fds):
                server.users.add(process)
                return server
            server.leave(last=True)
    raise RuntimeError('the process that starts submissions does not answer')


@atexit.register
def stop():
    "End the warm processes; a later `judge` starts them anew"
    with _one_at_a_time:
        while _servers:
            _servers.popitem()[1].close()


def _signal_name(code):
    return signal.Signals(-code).name


class Process:
    "A process with a submission in it; use it in a `with` block, after which nothing of it is left"

    def __init__(
        self,
        submission,  # a `Submission`
        device: str,  # 'cpu' or 'cuda'
        patience: float,  # seconds that each answer may take
    ):
        self.device, self.patience, self.told, self.printed, self.heard = device, patience, [], '', b''
        self.compiles = device == 'cpu' and submission.compiles
        self.folder = tempfile.TemporaryDirectory(prefix='gridstride-judge-', ignore_cleanup_errors=True)
        (Path(self.folder.name) / 'submission.py').write_text(submission.text, encoding='utf-8')
        self.said = tempfile.TemporaryFile()
        self.talk, talk = socket.socketpair()
        self.talk.settimeout(patience)
        self.life, life = socket.socketpair()
        self.tell, tell = os.pipe()
        os.set_blocking(self.tell, False)
        order = dict(device=device, folder=self.folder.name, cpu_seconds=int(20 * patience) + 60)
        fds = [life.fileno(), talk.fileno(), tell, self.said.fileno()]
        try:
            self.server = _start(device, order, fds, self)
        finally:
            for end in (talk, life):
                end.close()
            os.close(tell)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def ask(self, header, blobs=(), most=0):
        "Send a message and get the answer's header and blobs; `Ended` if there is none"
        compiles = header['op'] == 'load' and self.device == 'cuda' or self.compiles
        self.compiles = self.compiles and header['op'] == 'load'  # else at the first call
        patience = max(self.patience, _COMPILE) if compiles else self.patience
        with self._ending(patience):
            wire.send(self.talk, header, blobs)
        return self.hear(most, patience)

    def hear(self, most=0, patience=None, room=bytearray):
        "The next message, within so many seconds; its blobs lie in what room(n) gives"
        patience = patience or self.patience
        with self._ending(patience):
            header, blobs = wire.receive(self.talk, most, time.monotonic() + patience, room)
        if header.get('op') == 'error':
            raise Ended('raised', str(header.get('text'))[:_TEXT])
        return header, blobs

    @contextmanager
    def _ending(self, patience):
        "`Ended` for what goes wrong between the two processes"
        try:
            yield
        except wire.Gone:
            raise self._gone() from None
        except wire.Late:
            raise Ended('time', f'no answer within {patience:g} s') from None
        except wire.Garbled as e:
            raise Ended('type', f'it sent {e}') from None

    def _gone(self):
        "The `Ended` of a process that left without a word"
        code = (self._how_it_ended() or {}).get('status')
        if code == -signal.SIGXCPU:
            return Ended('time', 'it used the processor for too long')
        how = 'it left' if code is None or code >= 0 else f'it died of {_signal_name(code)}'
        more = f', with exit code {code}' if code and code > 0 else ''
        return Ended('died', f'{how} before it gave an answer{more}')

    def _how_it_ended(self):
        "What the warden says, in two lines: the processes, and when all have ended, how; None if it does not"
        self.life.settimeout(_GRACE)
        with suppress(OSError, ValueError):
            while self.heard.count(b'\n') < 2 and (text := self.life.recv(1 << 12)):
                self.heard += text
            return json.loads(self.heard.split(b'\n')[1])

    def _kill(self):
        "Kill what the warden should have killed, were it not stopped or dead itself"
        for pid in self.heard.split(b'\n')[0].split():
            with suppress(OSError, ValueError):
                os.kill(int(pid), signal.SIGKILL)
        self.server.leave(self, last=True)

    def hints(self) -> list:  # of (code, text)
        "What was noticed within the process until now"
        with suppress(OSError):  # nothing there, or closed
            for line in os.read(self.tell, _MOST_TOLD).decode(errors='replace').splitlines():
                self._note(line)
        return self.told

    def _note(self, line):
        "Remember what was noticed"
        with suppress(ValueError, TypeError, RecursionError):
            code, text = json.loads(line)
            self.told.append((str(code), str(text)[:_TEXT]))

    def _printed(self):
        "The end of what the submission printed"
        size = self.said.seek(0, os.SEEK_END)
        self.said.seek(max(0, size - _SAID))
        return self.said.read().decode(errors='replace').strip()

    def end(self) -> int:  # how many processes it had left
        "Kill what is there, all that it started included; nothing is left after this"
        if self.life.fileno() < 0:
            return 0
        self.hints()
        self.printed = self._printed()
        with suppress(OSError):
            self.life.shutdown(socket.SHUT_WR)
        ended = self._how_it_ended()
        if ended is None:
            self._kill()
        for o in (self.talk, self.life, self.said):
            o.close()
        os.close(self.tell)
        self.folder.cleanup()
        self.server.leave(self)
        return (ended or {}).get('left', 1)
