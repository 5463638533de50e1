"""Runs a command of this subpackage on untrusted source, confined to a temporary folder.

The confinement is that of `judge` on a machine without namespaces. On Linux, Landlock denies the process and all
processes that it starts access to home folders, other temporary files, the network and other processes; a seccomp
filter denies system calls that kernels do not need; CPU time, files and memory are limited. The process can write to
its folder, to a compile cache that only confined programs use, and, as under `judge`, to the caches of Triton and
torch. On other systems only the limits apply; `Result.isolation` lists the active protections."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ..utils import cache_dir
from .command_line import module_command

__all__ = ['Result', 'prepare_cache', 'run_confined', 'run_in_folder', 'main']

SECONDS = 120  # the default time limit of a command
_GRACE_SECONDS = 15  # after the time limit: until then, `check` must have reported what it found
_PREPARATION_SECONDS = 900
_PROGRESS_SECONDS = 2  # between two reports
_ISOLATION = 'isolation.json'  # the file in which the child lists its protections
_COMMANDS = {  # name -> module
    'check': 'gridstride.checker.check',
    'explain': 'gridstride.checker.pages',
    'asm': 'gridstride.checker.assembly',
    'bench': 'gridstride.checker.timing',
}


class Result(NamedTuple):
    "The result of a command: its exit status, its output, and the protections that were active"

    status: int | None  # None if it timed out
    stdout: str
    stderr: str
    isolation: tuple = ()
    seconds: float = SECONDS  # the time limit


def main(argv) -> int:  # exit status of the command
    "Confine this process to the current folder, for `argv[0]` seconds, then run the command `argv[1:]`"
    from ..judge import isolation

    folder = os.getcwd()
    isolation.limit_resources((int(argv[0]) + _GRACE_SECONDS) * (os.cpu_count() or 1))  # CPU time of all threads
    protections = isolation.confine(folder, cache_dir(), False)
    Path(_ISOLATION).write_text(json.dumps(protections))
    os.environ.update(TMPDIR=folder, HOME=folder)
    tempfile.tempdir = None
    return import_module(_COMMANDS[argv[1]]).main([*argv[2:], *_limit_options(argv[1], argv[0])])


def _limit_options(command, seconds):
    "Return the options that make a command end at the time limit by itself, and report what it has found"
    return ['--time-limit', seconds] if command == 'check' else []


def run_in_folder(command, folder, seconds, **variables) -> Result:
    "Run a program in a folder; after `seconds`, end it and all programs that it started"
    env = dict(os.environ, GRIDSTRIDE_BACKEND='sim', **variables)
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    options = dict(text=True, errors='replace', start_new_session=True)
    with subprocess.Popen(command, cwd=folder, env=env, **options, **pipes) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Result(None, *process.communicate(), seconds=seconds)
    return Result(process.returncode, stdout, stderr, seconds=seconds)


def run_confined(
    argv,  # the command and its arguments: ['check', 'a.cu']
    files: dict,  # {name: text} to write to the folder
    seconds=SECONDS,  # time limit
) -> Result:
    "Run a command of `_COMMANDS`, confined, in a temporary folder with these files"
    with tempfile.TemporaryDirectory(prefix='gridstride-') as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding='utf-8')
        command = module_command('sandbox', str(seconds), *argv)
        grace = _GRACE_SECONDS if _limit_options(argv[0], seconds) else 0
        result = run_in_folder(command, folder, seconds + grace, GRIDSTRIDE_CACHE=str(_confined_cache()))
        report = Path(folder) / _ISOLATION
        isolation = tuple(json.loads(report.read_text())) if report.exists() else ()
        return result._replace(isolation=isolation, seconds=seconds)


def _confined_cache():
    "Return the compile cache of confined programs, which is separate because other programs must not run its files"
    cache = cache_dir() / 'confined'
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    return cache


def prepare_cache(
    report=lambda seconds: None,  # called every few seconds, with the time since the start
):
    """Compile the emulator's runtime and headers into the cache of confined programs, unless it contains them.

    They are part of this package, so they are compiled without confinement, and outside the time limit of a program.
    If they cannot be compiled, the first program reports why."""
    command = [sys.executable, '-m', 'gridstride.cpp.toolchain.build']
    env = dict(os.environ, GRIDSTRIDE_CACHE=str(_confined_cache()), GRIDSTRIDE_BACKEND='sim')
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], env=env, start_new_session=True, **pipes) as process:
        for seconds in range(_PROGRESS_SECONDS, _PREPARATION_SECONDS, _PROGRESS_SECONDS):
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_PROGRESS_SECONDS)
            report(seconds)
        os.killpg(process.pid, signal.SIGKILL)
