"""Compiles CUDA C of a submission in a sandbox of its own, in which nothing of the submission runs, so that the result
can be cached: what a submission writes itself is deleted with its process.

A submission's process requests a module by its sources and flags. The judge looks up the hash of the request in a
section of the cache that submissions can only read; if the entry is missing, it starts a process that compiles it. So
an entry always holds the compiled form of the sources whose hash is its name. A request with other flags or headers
has an entry of another name, and only the judge's sandboxes read this section."""

import json
import os
import re
import shutil
import socket
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from . import wire
from ..utils import cache_dir

JUDGED = 'judged'  # in the cache
_MAX_REQUESTS = 64  # modules that a process may request
_MAX_REQUEST_BYTES, _MAX_MODULE_BYTES = 16 << 20, 64 << 20  # largest request and largest module, in bytes
# Limits of the cache, in entries and in bytes: a submission may compile large ones
_MAX_ENTRIES = 200
_MAX_CACHE_BYTES = 512 << 20
_FILE = re.compile(r'(?:[\w-][\w.-]*/)*[\w-][\w.-]*')


def _build():
    return import_module('gridstride.cpp.toolchain.build')


# In a submission's process
class Client:
    "Requests modules from the judge; only one process can, and one of its threads at a time"

    def __init__(self, sock):
        self.sock = sock
        self.pid = os.getpid()
        self.lock = threading.Lock()

    def __call__(self, request, fail):
        "Return the module that the judge compiled; None if it must be compiled in this process"
        cache = import_module('gridstride.cpp.toolchain.cache')
        if os.getpid() != self.pid or cache.is_cached(*request.steps()):
            return None
        with self.lock, suppress(wire.ConnectionClosed, wire.ProtocolError):
            wire.send(self.sock, {}, [json.dumps(request).encode()])
            answer, _ = wire.receive(self.sock)
            if answer.get('log') is not None:
                raise fail(answer['log'])
            folder = cache_dir() / JUDGED / str(answer.get('folder'))
            if folder.is_dir():
                return cache.BuildResult(folder, request.steps()[1], 0.0, True)
        return None


# In the judge's process
def _parse_request(blob):
    "Parse the request of a submission's process; raises `ProtocolError` for an invalid one"
    try:
        request = _build().CompileRequest(*json.loads(blob))
        names = [*request.sources, request.name, *request.more_units, *request.host_only]
        is_valid = all(map(_FILE.fullmatch, names)) and all(isinstance(text, str) for text in request.sources.values())
        if is_valid and all(isinstance(flag, str) for flag in request.flags):
            return request
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise wire.ProtocolError('an invalid request to compile')


class Service(threading.Thread):
    "A service that compiles what a submission's process requests, until it is stopped"

    def __init__(
        self,
        sock,
        start,  # a function without arguments that starts a process to compile in
    ):
        super().__init__(daemon=True)
        self.sock = sock
        self.start_process = start
        self.process = None
        self.stopped = False
        self.start()

    def run(self):
        ended = import_module('gridstride.judge.processes').Ended
        with (
            suppress(
                wire.ConnectionClosed,
                wire.ProtocolError,
                wire.Timeout,
                ended,
                RuntimeError,
                OSError,
                TypeError,
                ValueError,
            ),
            self.sock,
        ):
            for _ in range(_MAX_REQUESTS):
                _, blobs = wire.receive(self.sock, most=_MAX_REQUEST_BYTES)
                wire.send(self.sock, self._answer(_parse_request(blobs[0] if blobs else b'')))

    def _answer(self, request):
        "Return the folder of the module, or the compiler's messages"
        cache = import_module('gridstride.cpp.toolchain.cache')
        logs = []

        def fail(log):
            logs.append(log)
            return RuntimeError(log)

        def run(command, folder):
            return self._compile(request, folder)

        try:
            built = cache.build(
                {}, [['compiled apart']], *request, *request.steps(), section=JUDGED, shared=True, fail=fail, run=run
            )
        except RuntimeError:
            return dict(log=logs[0][: wire.TEXT]) if logs else {}
        with suppress(OSError):
            os.utime(built.folder)
        if not built.cached:
            _prune(built.folder.parent)
        return dict(folder=built.folder.name)

    def _compile(self, request, folder):
        "Compile in a new process and fill `folder` with the files: (status, log)"
        with self.start_process() as self.process:
            if self.stopped:
                raise wire.ConnectionClosed
            answer, blobs = self.process.ask(dict(op='compile'), [json.dumps(request).encode()], _MAX_MODULE_BYTES)
        names = answer.get('files')
        if isinstance(answer.get('log'), str):
            return 1, answer['log']
        if not isinstance(names, list) or len(names) != len(blobs) or not all(map(_is_name, names)):
            raise wire.ProtocolError('no module')
        for name, blob in zip(names, blobs):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(blob)
        return 0, ''

    def stop(self):
        "End the service, and the process that it waits for"
        self.stopped = True
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        if process := self.process:
            process.hang_up()
        self.join()


def _is_name(name):
    return isinstance(name, str) and len(name) < 200 and bool(_FILE.fullmatch(name))


def _prune(section):
    "Remove the oldest entries until the others are within the limits"
    with suppress(OSError):
        entries = sorted((p for p in section.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
        total = 0
        for i, p in enumerate(entries):
            total += sum(path.stat().st_size for path in p.rglob('*') if path.is_file())
            if i >= _MAX_ENTRIES or total > _MAX_CACHE_BYTES:
                shutil.rmtree(p, ignore_errors=True)


# In the process that compiles
def main(
    sock,  # to the judge
):
    "Compile what the judge requests, send the files, and exit"
    with suppress(wire.ConnectionClosed):
        _, blobs = wire.receive(sock)
        try:
            wire.send(sock, *_build_files(_build().CompileRequest(*json.loads(blobs[0]))))
        except _Failed as e:
            wire.send(sock, dict(log=str(e)[: wire.TEXT]))
    os._exit(0)


class _Failed(Exception):
    "The compiler's message about a source that it rejects"


def _build_files(request):
    "Return (header, blobs): the names and the bytes of the files of a module"
    options = dict(key_parts=request.key_parts, more_units=request.more_units, host_only=request.host_only)
    folder = _build().compile_module(*request[:4], lambda log, command: _Failed(log), **options).folder
    sums = import_module('gridstride.cpp.toolchain.integrity').CHECKSUMS
    files = {p.relative_to(folder).as_posix(): p for p in sorted(Path(folder).rglob('*')) if p.is_file()}
    files.pop(sums, None)
    return dict(op='made', files=[*files]), [p.read_bytes() for p in files.values()]
