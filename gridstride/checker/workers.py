"""Worker processes, in which `gridstride check` runs a program once per schedule.

    with Workers() as workers: status, output = workers.run(job, 'output.txt')

Importing torch takes seconds, longer than most jobs. On Linux, the jobs therefore run in forks of one server process,
which imports the large modules that an earlier job imported: torch, and modules of this package. The server never
imports the program itself, so each job runs it from the start."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from .command_line import module_command
from .worker import Job
from .worker import main as run_job

__all__ = ['Workers', 'main']

_ENVIRONMENT = dict(GRIDSTRIDE_BACKEND='sim')


class Workers:
    "Runs jobs one after another, each in a separate process; at the deadline, it interrupts the last one"

    def __init__(
        self,
        deadline=math.inf,  # on the clock `time.monotonic`
    ):
        self._deadline = deadline
        self._server = None

    @property
    def seconds_left(self):
        "The seconds until the deadline"
        return self._deadline - time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self._server:
            self._lines.close()  # the server exits when the socket is closed
            self._server.wait()

    def run(
        self,
        job: Job,
        output_path,  # of the file for the output of the program
    ) -> tuple:  # (exit status, output of the program)
        "Run a job to its end; a negative status is a signal, as in `subprocess`"
        if self._deadline < math.inf:
            job = replace(job, time_limit=self.seconds_left)
        run = self._run_fork if sys.platform == 'linux' else _run_process
        status = run(job, output_path)
        return status, Path(output_path).read_text(encoding='utf-8', errors='replace')

    def _run_fork(self, job, output_path):
        if self._server is None or self._server.poll() is not None:
            self._start_server()
        self._lines.write(json.dumps([job.to_json(), os.fspath(output_path)]) + '\n')
        self._lines.flush()
        reply = self._lines.readline()
        return int(reply) if reply else self._server.wait()

    def _start_server(self):
        parent_end, server_end = socket.socketpair()
        with parent_end, server_end:
            command = module_command('workers', str(server_end.fileno()))
            self._server = subprocess.Popen(command, env=os.environ | _ENVIRONMENT, pass_fds=[server_end.fileno()])
            self._lines = parent_end.makefile('rw', encoding='utf-8')


def _run_process(job, output_path):
    "Run a job in a new Python process; returns its exit status"
    command = module_command('worker', job.to_json())
    with open(output_path, 'w', encoding='utf-8') as output:
        return subprocess.run(command, env=os.environ | _ENVIRONMENT, stdout=output, stderr=output).returncode


def main(argv) -> int:  # exit status
    "Run each job that arrives at the socket with file descriptor `argv[0]`, and reply with its exit status"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the job and the command; then this process ends, too
    with socket.socket(fileno=int(argv[0])) as connection, connection.makefile('rw', encoding='utf-8') as lines:
        imported = []  # by the previous job
        for line in iter(lines.readline, ''):
            _preimport(imported)
            job, output_path = json.loads(line)
            child = os.fork()
            if not child:
                break
            _, status = os.waitpid(child, 0)
            imported = _imported_by(job)  # before the reply, after which the report may be removed
            lines.write(f'{os.waitstatus_to_exitcode(status)}\n')
            lines.flush()
        else:
            return 0
    return _become_worker(job, output_path)


def _become_worker(job, output_path):
    "Run a job in this process, which has just been forked"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(output_path, 'wb') as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    return run_job([job])


def _imported_by(job):
    "Return the names of the modules that a job has imported, according to its report; none if it ended early"
    with suppress(OSError, ValueError, LookupError):
        last_line = Path(Job.from_json(job).report).read_text(encoding='utf-8').splitlines()[-1]
        return json.loads(last_line)['imported']
    return []


def _preimport(names):
    for name in names:
        with suppress(ImportError):
            import_module(name)
