"""The emulator's headers, precompiled.

Half of the time that a small kernel takes to compile would be spent on reading the same headers again. A precompiled
header is 47 MB with g++ and 8 MB with clang, one per set of flags. It only saves time: the sources include
the headers themselves, so that if it cannot be made, or is found broken, the compiler runs without it with
the same result.
"""

import hashlib, os, shutil
from collections import Counter
from functools import partial
from pathlib import Path

from .cache import SLOW, build, cpu, first_use, headers_hash, run_command, report_slow


here = Path(__file__).parents[1]
FREE = 500e6  # bytes that must be free on the disk: for one such header, and for a compiler to work
KEPT = 16  # as many are kept: older ones are of other versions or compilers
_broken = Counter()  # folder -> how often this process found its headers broken; the second time is the last


def runner(
    c,  # a `Compiler`
    flags: list,  # all of its arguments except for the files
    names: tuple,  # the headers that each source begins with; (): none are there yet, and their builder reports it
    what: str,  # reported if it takes long
):  # (command, folder) -> (status, log)
    "Return a function that runs the compiler, with precompiled headers if it compiles and they are available"

    def run(command, folder):
        if not names:
            return run_command(command, folder, after=None)
        made = get_precompiled(c, flags, names) if '-c' in command else None
        with report_slow(what):
            return _run_with(made, command, folder) if made else run_command(command, folder)

    return run


# A program's own headers, which are in its folder, are not precompiled; g++ uses the addresses of what it compiles,
# precompiled or not, so that the first kernel with a float4 finds headers as all others do.
_CHANGE_NOTHING = {'clang': ['-I.'], 'gcc': ['-I.', '-fsanitize=alignment']}


def get_precompiled(
    c,  # a `Compiler`
    flags: list,  # as for `runner`
    names: tuple,  # of the headers
    announce=True,  # report at once that they are made?
) -> Path:
    "Return the file with the precompiled headers `names`, made if it is not there; None if that is not possible"
    file = 'headers.h.pch' if c.kind == 'clang' else 'headers.h.gch'
    include = [flag for name in names for flag in ('-include', name)]
    ours = [flag for flag in flags if flag not in _CHANGE_NOTHING[c.kind]]
    command = [c.path, *ours, '-x', 'c++-header', os.devnull, *include, '-o', file]
    decides = c, cpu(), headers_hash(here / 'include')
    try:
        run = partial(_precompile, after=0.0 if announce else SLOW)
        built = build({}, [command], *decides, run=run, section='headers', shared=True, contents=False)
        if _broken[built.folder] > 1:
            return None
        os.utime(built.folder)
    except (OSError, RuntimeError):
        return None
    if not built.cached:
        _prune(built.folder.parent)
    return built.folder / file


def _precompile(command, folder, after):
    if shutil.disk_usage(folder).free < FREE:
        return 1, 'the disk is full'
    status, log = first_use(command, folder, after)
    if not status:
        (folder / 'sum').write_text(_checksum(folder / command[-1]))
    return status, log


def _checksum(path):
    return hashlib.blake2b(path.read_bytes()).hexdigest()


def _prune(folder):
    for p in sorted(folder.iterdir(), key=_age)[:-KEPT]:
        shutil.rmtree(p, ignore_errors=True)


def _age(path):
    try:
        return path.stat().st_mtime
    except OSError:  # another process has removed it
        return 0.0


# Both compilers take `headers.h.gch` or `headers.h.pch` for an included `headers.h`, which does not exist.
def _run_with(made, command, folder):
    "Run the compiler with the precompiled headers `made`; once more without, if it fails because of them"
    status, log = run_command([command[0], '-include', str(made.with_suffix('')), *command[1:]], folder)
    if not (status and _is_caused_by_headers(made, log)):
        return status, log
    _broken[made.parent] += 1
    shutil.rmtree(made.parent, ignore_errors=True)
    return run_command(command, folder)


def _is_caused_by_headers(made, log):
    "Did the headers rather than the source cause the compiler's `log`?"
    if made.parent.name in log or 'PCH file' in log or 'internal compiler error' in log:
        return True
    try:
        return (made.parent / 'sum').read_text() != _checksum(made)
    except OSError:
        return True
