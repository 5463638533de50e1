"""The emulator's headers, read by the compiler once and kept as it holds them in memory.

Half of the time that a small kernel takes to compile would go into reading the same headers again. A precompiled
header is 47 MB with g++ and 8 MB with clang, one for each set of flags. It only saves time: the sources include
what they include, so that where it cannot be made, or is found broken, the compiler is called without it and makes
the same of them.
"""

import hashlib, os, shutil
from collections import Counter
from functools import partial
from pathlib import Path

from .cache import SLOW, build, cpu, first_use, headers_hash, run_command, telling


here = Path(__file__).parents[1]
FREE = 500e6  # bytes that must be free on the disk: for one such header, and for a compiler to work
KEPT = 16  # as many are kept: more are those of older versions, or of other compilers
_broken = Counter()  # folder -> how often its headers were found broken by this process; the second time is the last


def runner(
    c,  # a `Compiler`
    flags: list,  # all that it is called with but for the files
    names: tuple,  # the headers that each source begins with; (): none are there yet, and who makes them tells that
    what: str,  # is told when it takes long
):  # (command, folder) -> (status, log)
    "What runs the compiler, with precompiled headers where it compiles and they can be had"

    def run(command, folder):
        if not names:
            return run_command(command, folder, after=None)
        made = get_precompiled(c, flags, names) if '-c' in command else None
        with telling(what):
            return _run_with(made, command, folder) if made else run_command(command, folder)

    return run


# A program's own headers, which it has in its folder, are no part of these; g++ looks at addresses in what it compiles,
# precompiled or not, so that the first kernel with a float4 finds headers as all others do.
_CHANGE_NOTHING = {'clang': ['-I.'], 'gcc': ['-I.', '-fsanitize=alignment']}


def get_precompiled(
    c,  # a `Compiler`
    flags: list,  # as for `runner`
    names: tuple,  # of the headers
    told=True,  # is it told at once that they are made?
) -> Path:
    "The file with the precompiled headers `names`, which is made if it is not there yet; None where it cannot be had"
    file = 'headers.h.pch' if c.kind == 'clang' else 'headers.h.gch'
    include = [o for name in names for o in ('-include', name)]
    ours = [o for o in flags if o not in _CHANGE_NOTHING[c.kind]]
    command = [c.path, *ours, '-x', 'c++-header', os.devnull, *include, '-o', file]
    decides = c, cpu(), headers_hash(here / 'include')
    try:
        run = partial(_precompile, after=0.0 if told else SLOW)
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


# Both compilers take `headers.h.gch` or `headers.h.pch` for a `headers.h` that they are told to include; there is none.
def _run_with(made, command, folder):
    "Run the compiler with the precompiled headers `made`; once more without, should it fail because of them"
    status, log = run_command([command[0], '-include', str(made.with_suffix('')), *command[1:]], folder)
    if not (status and _to_blame(made, log)):
        return status, log
    _broken[made.parent] += 1
    shutil.rmtree(made.parent, ignore_errors=True)
    return run_command(command, folder)


def _to_blame(made, log):
    "Whether the headers rather than the source made a compiler say `log`"
    if made.parent.name in log or 'PCH file' in log or 'internal compiler error' in log:
        return True
    try:
        return (made.parent / 'sum').read_text() != _checksum(made)
    except OSError:
        return True
