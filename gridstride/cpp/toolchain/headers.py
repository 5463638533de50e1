"""Precompiles the emulator's headers, and runs the compiler with the precompiled header.

Without a precompiled header, parsing these headers takes half of the compile time of a small kernel. There is one
precompiled header per set of flags, of 47 MB with g++ and 8 MB with clang. A source that is compiled with it still
contains the #include lines, so a compiler that ignores a missing or damaged precompiled header only takes longer.
"""

import hashlib, os, shutil
from collections import Counter
from functools import lru_cache, partial
from pathlib import Path

from .cache import SLOW_SECONDS, build, cpu_key, run_one_time_build, headers_hash, run_command, report_slow


CPP_FOLDER = Path(__file__).parents[1]
MIN_FREE_SPACE = 500e6  # bytes on the disk for a precompiled header and the compiler's temporary files
MAX_HEADERS = 16  # how many precompiled headers to keep; the least recently used ones are removed
_num_failures = Counter()  # folder -> failed compilations due to its header; after two, the header is not used


def make_runner(
    compiler,  # a `Compiler`
    flags: list,  # all of its arguments except for the files
    header_names: tuple,  # of the headers that each source includes first; empty: no precompiled header
    description: str,  # of the command, printed if it is slow
):  # (command, folder) -> (status, log)
    "Return a function that runs the compiler; it compiles with a precompiled header, and links without one"

    def run(command, folder):
        if not header_names:
            return run_command(command, folder, report_delay=None)
        precompiled = get_precompiled(compiler, flags, header_names) if '-c' in command else None
        with report_slow(description):
            return _run_with_precompiled(precompiled, command, folder) if precompiled else run_command(command, folder)

    return run


# Flags that do not affect a precompiled header: sources with and without them share one
_IRRELEVANT_FLAGS = {'clang': ['-I.'], 'gcc': ['-I.', '-fsanitize=alignment']}


def get_precompiled(
    compiler,  # a `Compiler`
    flags: list,  # as for `make_runner`
    header_names: tuple,  # as for `make_runner`
    announce=True,  # whether to print "preparing" immediately instead of after `SLOW_SECONDS` seconds
) -> Path:
    "Return the precompiled header of `header_names`, compiled if it does not exist; None if that is not possible"
    file = 'headers.h.pch' if compiler.kind == 'clang' else 'headers.h.gch'
    include = [flag for name in header_names for flag in ('-include', name)]
    header_flags = [flag for flag in flags if flag not in _IRRELEVANT_FLAGS[compiler.kind]]
    command = [compiler.path, *header_flags, '-x', 'c++-header', os.devnull, *include, '-o', file]
    key = compiler, cpu_key(), headers_hash(CPP_FOLDER / 'include')
    try:
        run = partial(_precompile, report_delay=0.0 if announce else SLOW_SECONDS)
        entry = build({}, [command], *key, run=run, section='headers', shared=True, compare_checksums=False)
        if _num_failures[entry.folder] > 1:
            return None
        os.utime(entry.folder)
    except (OSError, RuntimeError):
        return None
    if not entry.cached:
        _prune(entry.folder.parent)
    return entry.folder / file


def _precompile(command, folder, report_delay):
    "Run the compiler, and write the checksum of the precompiled header next to it; returns (status, log)"
    if shutil.disk_usage(folder).free < MIN_FREE_SPACE:
        return 1, f'less than {MIN_FREE_SPACE / 1e6:.0f} MB of disk space is free'
    status, log = run_one_time_build(command, folder, report_delay)
    if not status:
        (folder / 'sum').write_text(_checksum(folder / command[-1]))
    return status, log


def _checksum(path):
    return hashlib.blake2b(path.read_bytes()).hexdigest()


def _prune(folder):
    "Remove all but the `MAX_HEADERS` most recently used precompiled headers"
    precompiled = [p for p in folder.iterdir() if p.is_dir()]
    for p in sorted(precompiled, key=_last_used)[:-MAX_HEADERS]:
        shutil.rmtree(p, ignore_errors=True)


def _last_used(path):
    try:
        return path.stat().st_mtime
    except OSError:  # another process has removed it
        return 0.0


# The file `headers.h` does not exist: for `-include headers.h`, the compilers read `headers.h.gch` or `headers.h.pch`.
def _run_with_precompiled(precompiled, command, folder):
    "Run the compiler with the precompiled header; if this header makes it fail, run it again without the header"
    status, log = run_command([command[0], '-include', str(precompiled.with_suffix('')), *command[1:]], folder)
    if not (status and _is_caused_by_headers(precompiled, log)):
        return status, log
    _num_failures[precompiled.parent] += 1
    shutil.rmtree(precompiled.parent, ignore_errors=True)
    return run_command(command, folder)


def _is_caused_by_headers(precompiled, log):
    "Return whether the precompiled header, not the source, caused the errors in the compiler's `log`"
    if precompiled.parent.name in log or 'PCH file' in log or 'internal compiler error' in log:
        return True
    try:
        file_stat = precompiled.stat()
        return not _is_intact(precompiled, file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns)
    except OSError:
        return True


@lru_cache
def _is_intact(precompiled, *state):
    """Return whether the precompiled header matches its checksum.

    Hashing takes 0.1 s, so the result is cached until `state` changes: the file's inode, size and modification time."""
    return (precompiled.parent / 'sum').read_text() == _checksum(precompiled)
