"""Compile the CUDA C of a submission in a separate sandbox, in which no code of the submission runs, so that the result
can be cached safely. Files that the submission itself writes are deleted when its process ends.

A submission's process requests a module by its sources and flags. The judge looks up the hash of the request in a
section of the cache that submissions can only read. If the entry is missing, the judge starts a process that compiles
the module, so an entry is always compiled from the sources whose hash is its name. A request with other flags or
headers has another hash, and only the judge's sandboxes read this section."""

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
from .isolation import CACHE_SECTION

_MAX_REQUESTS = 64  # per process
_MAX_REQUEST_BYTES, _MAX_MODULE_BYTES = 16 << 20, 64 << 20
# Limits of the section of the cache
_MAX_ENTRIES = 200
_MAX_CACHE_BYTES = 512 << 20
_RELATIVE_PATH = re.compile(r'(?:[\w-][\w.-]*/)*[\w-][\w.-]*')


def _build_module():
    return import_module('gridstride.cpp.toolchain.build')


# In a submission's process
class Client:
    "Requests compiled modules from the judge, one at a time; does nothing in forks of the process that created it"

    def __init__(self, sock):
        self.sock = sock
        self.owner_pid = os.getpid()
        self.lock = threading.Lock()

    def __call__(self, request, make_error):
        "Return the result of a build by the judge; None if the module must be compiled in this process"
        cache = import_module('gridstride.cpp.toolchain.cache')
        if os.getpid() != self.owner_pid or cache.is_cached(*request.build_arguments()):
            return None
        with self.lock, suppress(wire.ConnectionClosed, wire.ProtocolError):
            wire.send(self.sock, {}, [json.dumps(request).encode()])
            reply, _ = wire.receive(self.sock)
            if reply.get('log') is not None:
                raise make_error(reply['log'])
            folder = cache_dir() / CACHE_SECTION / str(reply.get('folder'))
            if folder.is_dir():
                return cache.BuildResult(folder, request.build_arguments()[1], 0.0, True)
        return None


# In the judge's process
def _parse_request(blob):
    "Parse the request of a submission's process; raises `ProtocolError` for an invalid one"
    try:
        request = _build_module().CompileRequest(*json.loads(blob))
        names = [*request.sources, request.name, *request.extra_units, *request.host_only_files]
        is_valid = all(map(_RELATIVE_PATH.fullmatch, names)) and all(
            isinstance(text, str) for text in request.sources.values()
        )
        if is_valid and all(isinstance(flag, str) for flag in request.flags):
            return request
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise wire.ProtocolError('invalid compile request')


class Service(threading.Thread):
    "A thread that serves the compile requests of a submission's process, until it is stopped"

    def __init__(
        self,
        sock,
        start_process,  # a function without arguments that starts a process for a compilation
    ):
        super().__init__(daemon=True)
        self.sock = sock
        self.start_process = start_process
        self.process = None
        self.is_stopped = False
        self.start()

    def run(self):
        with (
            suppress(
                wire.ConnectionClosed,
                wire.ProtocolError,
                wire.Timeout,
                wire.ProcessEnded,
                RuntimeError,
                OSError,
                TypeError,
                ValueError,
            ),
            self.sock,
        ):
            for _ in range(_MAX_REQUESTS):
                _, blobs = wire.receive(self.sock, max_bytes=_MAX_REQUEST_BYTES)
                wire.send(self.sock, self._reply_to(_parse_request(blobs[0] if blobs else b'')))

    def _reply_to(self, request):
        "Return the reply to a request: the name of the module's folder, or the compiler's messages"
        cache = import_module('gridstride.cpp.toolchain.cache')
        logs = []

        def make_error(log):
            logs.append(log)
            return RuntimeError(log)

        def run_command(command, folder):
            return self._compile(request, folder)

        try:
            # The command is only a placeholder: `run_command` compiles in another process.
            arguments = {}, [['placeholder']], *request, *request.build_arguments()
            build_result = cache.build(*arguments, section=CACHE_SECTION, shared=True, fail=make_error, run=run_command)
        except RuntimeError:
            return dict(log=logs[0][: wire.MAX_TEXT]) if logs else {}
        with suppress(OSError):
            os.utime(build_result.folder)
        if not build_result.cached:
            _prune(build_result.folder.parent)
        return dict(folder=build_result.folder.name)

    def _compile(self, request, folder):  # (exit status, log)
        "Compile in a new process, and write the files of the module to `folder`"
        with self.start_process() as self.process:
            if self.is_stopped:
                raise wire.ConnectionClosed
            reply, blobs = self.process.request(dict(op='compile'), [json.dumps(request).encode()], _MAX_MODULE_BYTES)
        names = reply.get('files')
        if isinstance(reply.get('log'), str):
            return 1, reply['log']
        if not isinstance(names, list) or len(names) != len(blobs) or not all(map(_is_file_name, names)):
            raise wire.ProtocolError('invalid module')
        for name, blob in zip(names, blobs):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(blob)
        return 0, ''

    def stop(self):
        "End the thread, and the process that it waits for"
        self.is_stopped = True
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        if process := self.process:
            process.request_end()
        self.join()


def _is_file_name(name):
    return isinstance(name, str) and len(name) < 200 and bool(_RELATIVE_PATH.fullmatch(name))


def _prune(section):
    "Delete the least recently used entries until the section is within the limits"
    with suppress(OSError):
        entries = [entry for entry in section.iterdir() if entry.is_dir()]
        total_bytes = 0
        for i, entry in enumerate(sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True)):
            total_bytes += sum(path.stat().st_size for path in entry.rglob('*') if path.is_file())
            if i >= _MAX_ENTRIES or total_bytes > _MAX_CACHE_BYTES:
                shutil.rmtree(entry, ignore_errors=True)


# In the process that compiles
def main(
    sock,  # to the judge
):
    "Receive a request from the judge, compile it, send the files, and exit"
    with suppress(wire.ConnectionClosed):
        _, blobs = wire.receive(sock)
        try:
            wire.send(sock, *_build_files(_build_module().CompileRequest(*json.loads(blobs[0]))))
        except _CompileError as e:
            wire.send(sock, dict(log=str(e)[: wire.MAX_TEXT]))
    os._exit(0)


class _CompileError(Exception):
    "The compiler rejected a source; the message has its output"


def _build_files(request):
    "Return (header, blobs): the names and the bytes of the files of a module"
    options = dict(
        key_parts=request.key_parts, extra_units=request.extra_units, host_only_files=request.host_only_files
    )
    folder = _build_module().compile_module(*request[:4], lambda log, command: _CompileError(log), **options).folder
    checksums = import_module('gridstride.cpp.toolchain.integrity').CHECKSUMS
    paths = (path for path in sorted(Path(folder).rglob('*')) if path.is_file())
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    files.pop(checksums, None)
    return dict(op='compiled', files=[*files]), [path.read_bytes() for path in files.values()]
