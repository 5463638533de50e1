"""The outputs of compilers, kept in the user's cache.

Everything that is compiled has a folder of its own, whose name is a hash of all that decides the
result: the sources, the compiler and its flags, our headers, the kind of CPU. So an entry
cannot be stale, and is never overwritten. Deleting the cache costs only the time to compile again.

An entry that is damaged, or that another user could have written, is made again (`integrity`); if the cache
cannot be used at all, a temporary folder of this user replaces it.
"""

import atexit, errno, hashlib, json, os, platform, re, shutil, stat, subprocess, sys, tempfile, threading, time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path

from ...support.atomic_write import is_foreign, write_whole
from ...utils import cache_dir
from .integrity import flaw, seal


def _hash(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(repr(p).encode())
    return h.hexdigest()[:20]


@lru_cache
def headers_hash(folder):
    "Hash all files in `folder`: what includes them depends on it"
    files = sorted(p for p in Path(folder).rglob('*') if p.is_file())
    return _hash(*((str(p.relative_to(folder)), p.read_bytes()) for p in files))


@lru_cache
def cpu():
    """Identify this CPU and C library: code compiled for one may not run with another that shares the
    home folder"""
    try:
        info = Path('/proc/cpuinfo').read_text()
    except OSError:
        return platform.machine(), platform.processor(), _libc()
    lines = re.findall(r'^(?:flags|Features|model name|CPU part)\s*:.*', info, re.M)
    return platform.machine(), _hash(*sorted(set(lines))), _libc()


def _libc():
    "Return the version of glibc, '' of another C library"
    try:
        return os.confstr('CS_GNU_LIBC_VERSION') or ''
    except (AttributeError, ValueError, OSError):
        return ''


# A waiting learner sees what is being compiled. One line at a time: nested compilations are part of it.
SLOW = 2.0  # seconds, after which a compilation is reported
_reporting = threading.Lock()


@contextmanager
def report_slow(
    what,  # the slow operation
    after=SLOW,  # seconds; nothing is printed if it ends before; None: never
):
    "Report on stderr what goes on in the `with` block, with a dot per second; not with `GRIDSTRIDE_QUIET`"
    if after is None or os.environ.get('GRIDSTRIDE_QUIET') or not _reporting.acquire(blocking=False):
        return (yield)
    ended = threading.Event()
    printer = threading.Thread(target=_report, args=(what, after, ended), daemon=True)
    printer.start()
    try:
        yield
    finally:
        ended.set()
        printer.join()
        _reporting.release()


def _report(what, after, ended):
    start = time.perf_counter()
    if ended.wait(after):
        return

    def write(text):
        print(text, end='', file=sys.stderr, flush=True)

    write(f'gridstride: {what} ')
    while not ended.wait(1):
        write('.')
    write(f' {time.perf_counter() - start:.0f} s\n')


# `build` runs commands in a folder next to the final one, and renames it after they succeed. If two processes
# build the same entry at once, both do the work, and the second finds that the first was faster:
# no process ever sees half a folder.
Built = namedtuple('Built', 'folder commands seconds cached')  # seconds: 0 if it was in the cache


def folder_of(sources, commands, *decides, section='') -> Path:
    "Return the folder in which `build` puts the result for these arguments"
    return cache_dir() / section / _hash(_SEALED, sources, commands, *decides)


_SEALED = 'with sums'  # part of the name: entries of older versions have none


class Unusable(RuntimeError):
    "The cache cannot be written, or other users can write it"


def build(
    sources: dict,  # file name -> text
    commands: list,  # each a list of strings, or several of them to run at once; in the folder that holds the sources
    *decides,  # whatever else decides the result
    fail=None,  # called with the log if a command fails; returns an exception
    run=None,  # runs a command in a folder and returns its status and its log; None: `run_command`
    section='',  # a folder inside the cache
    shared=False,  # do several processes need it? Then the others wait
    contents=True,  # compare the hashes of an existing entry? Otherwise its user notices damage
) -> Built:
    "Return the folder in which `commands` have made their outputs from `sources`, from the cache if it is there"
    usual, start = folder_of(sources, commands, *decides, section=section), time.perf_counter()
    for final in (usual, _spare_path() / section / usual.name):
        if _is_whole(final, contents):
            return Built(final, commands, 0.0, True)
    how = dict(sources=sources, commands=commands, run=run or run_command, fail=fail)
    try:
        final = _make_once(usual, shared, contents, how)
    except Unusable as e:
        final = _make_in_spare(e, usual, section, shared, contents, how)
    return Built(final, commands, time.perf_counter() - start, False)


def is_there(sources, commands, *decides) -> bool:
    "Has `build` put a result for these arguments there?"
    return _is_whole(folder_of(sources, commands, *decides), True)


def _make_once(final, shared, contents, how):
    "Make an entry that is not there; returns its folder"
    _prepare_folder(final)
    with one_at_a_time(final) if shared else nullcontext():
        for _ in range(3):
            if _is_whole(final, contents):
                return final
            with suppress(_Removed):
                _make(final, **how)
                return final
    raise Unusable(f'{final.parent} is removed again and again')


def _make_in_spare(why, usual, section, shared, contents, how):
    "Make an entry in a temporary folder; if that fails, too, raises the first reason"
    spare = _spare_for(why)
    try:
        return _make_once(spare / section / usual.name, shared, contents, how)
    except Unusable:
        raise why from None


def _spare_for(why):
    "Return the temporary folder that replaces the cache; `why` is reported once, or raised if there is none"
    try:
        spare = _spare()
    except OSError:
        raise why from None
    _report_once(f'{why}; {spare} is used instead. Set GRIDSTRIDE_CACHE to a folder of yours to keep what is compiled')
    return spare


# Ownership and integrity
def _is_whole(final, contents):
    "Is an entry there, and usable? An unusable one is removed, as far as possible"
    if _why_foreign(final.parent) or (why := flaw(final, contents)) is None:
        return False
    if why:
        with one_at_a_time(final.with_name(f'{final.name}-broken')):
            if flaw(final, contents):  # no other process has made it again
                _report_once(f'the cache is damaged ({final} {why}); what cannot be used is made again')
                discard(final)
        return False
    return True


def _why_foreign(folder):
    "Explain why other users could put entries into a folder of the cache; '' if they cannot, or if it is not there yet"
    for ancestor in _chain(folder):
        with suppress(OSError):
            found = os.lstat(ancestor) if ancestor == _spare_path() else os.stat(ancestor)
            if why := is_foreign(found) or ('is a link' if stat.S_ISLNK(found.st_mode) else ''):
                return f'{ancestor} {why}'
    return ''


def _chain(folder):
    "Return a folder of the cache, and the cache"
    return [root for root in dict.fromkeys((cache_dir(), _spare_path(), folder)) if folder.is_relative_to(root)]


def discard(path):
    "Remove a folder, file or link, atomically for others"
    path = Path(path)
    aside = path.with_name(f'{path.name}.{os.getpid()}.{threading.get_ident()}.old')
    with suppress(OSError):
        os.rename(path, aside)
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink()


def usable() -> Path:
    "Return the cache, made if needed; if it cannot be written, its replacement, which is reported once"
    try:
        _prepare_folder(cache_dir() / 'entry')
    except Unusable as e:
        return _spare_for(e)
    return cache_dir()


def make_section(name):
    "Make a folder of the cache that is not there, if possible"
    with suppress(Unusable):
        _prepare_folder(cache_dir() / name / 'entry')


def _prepare_folder(final):
    "Make the folder that will contain an entry; raises `Unusable` if that fails, or others can write it"
    section = final.parent
    try:
        for ancestor in _chain(section):
            _make_private(ancestor)
    except OSError as e:
        raise Unusable(
            f'{section} cannot be written ({e.strerror}); set GRIDSTRIDE_CACHE to a folder that can'
        ) from None
    if why := _why_foreign(section):
        raise Unusable(why)


def _make_private(folder):
    "Make a folder that others can neither read nor write; an existing one loses the permissions of others to write"
    if not folder.is_dir():
        if folder.parent == cache_dir() and os.path.lexists(folder):
            discard(folder)  # a file where a part of the cache belongs
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.stat()
    if is_foreign(found) == 'can be written by others':
        os.chmod(folder, found.st_mode & 0o7755)


def _spare_path():
    name = f'gridstride-{os.geteuid() if hasattr(os, "geteuid") else os.environ.get("USERNAME", "")}'
    return Path(tempfile.gettempdir()) / name


def _spare():
    "Return this user's temporary folder, for what the cache cannot take"
    with suppress(OSError):
        _spare_path().mkdir(mode=0o700, exist_ok=True)
    if _spare_path().is_dir() and not _why_foreign(_spare_path()):
        return _spare_path()
    return _own_spare()


@lru_cache
def _own_spare():
    "Return one for this process alone, if another user's files have that name"
    folder = Path(tempfile.mkdtemp(prefix='gridstride-'))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@lru_cache
def _once():
    return []


def _report_once(text):
    "Report on stderr what is wrong with the cache, in one line, once; not with `GRIDSTRIDE_QUIET`"
    if not _once():
        _once().append(text)
        if not os.environ.get('GRIDSTRIDE_QUIET'):
            print(f'gridstride: {text}', file=sys.stderr, flush=True)


# What a source is rewritten to depends on it and on the modules here. To look up the result
# takes a fifth of the time of reading the source again.
LOG = 'log.txt'  # in a folder of `build`: the compiler's log, which is printed each time


@lru_cache
def _modules_hash():
    "Hash the modules here: they read and rewrite sources"
    return _hash(*((p.name, p.read_bytes()) for p in sorted(Path(__file__).parents[1].rglob('*.py'))))


def cached_result(
    asked,  # all that decides the result of `make`, except the modules here
    make,  # a function without arguments that returns a `Built`
) -> Built:
    "Return the cached result of `make`; it is called if that is gone, or if there is a log to print"
    key = _hash(asked, _modules_hash())
    note = cache_dir() / 'known' / key
    with suppress(OSError, ValueError, TypeError, RecursionError):
        of, name, commands = json.loads(note.read_text(encoding='utf-8'))
        folder = cache_dir() / name
        if (
            of == key
            and re.fullmatch(r'[0-9a-f]{20}', name)
            and not _why_foreign(note.parent)
            and _is_whole(folder, True)
        ):
            return Built(folder, commands, 0.0, True)
    built = make()
    if not (built.folder / LOG).exists() and built.folder.parent == cache_dir():
        with suppress(OSError):
            _make_private(note.parent)
            if note.is_symlink() or note.is_dir():
                discard(note)
            write_whole(note, json.dumps([key, built.folder.name, built.commands]))
    return built


class _Removed(Exception):
    "The folder in which an entry is being made was removed"


def _make(final, sources, commands, run, fail):
    work = _unfinished_folder(final)
    try:
        _fill(work, sources, commands, run, fail)
        seal(work, final.name)
        os.chmod(work, 0o755)
        _put(work, final)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            what = f'no space is left in {final.parent}, or in {tempfile.gettempdir()}, which compilers use'
            how = 'free some, or set GRIDSTRIDE_CACHE and TMPDIR to folders with free space'
            raise Unusable(f'{what}: {how}') from None
        if not work.exists():
            raise _Removed from None
        raise
    except Exception:
        if not work.exists():
            raise _Removed from None
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(work, sources, commands, run, fail):
    "Write the sources and run the commands"
    for name, text in sources.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    for command in commands:
        for done, (status, log) in _run(command, work, run):
            if status and 'No space left on device' in log:
                raise OSError(errno.ENOSPC, log)
            if status:
                raise fail(log) if fail else RuntimeError(f"{' '.join(done)}\n{log}")


def _run(command, folder, run):
    "Run each command, alone or several at once; yields them with their status and log"
    if isinstance(command[0], str):
        return [(command, run(command, folder))]
    if len(command) == 1:  # in this thread, where Ctrl-C ends the compiler
        return [(command[0], run(command[0], folder))]
    with ThreadPoolExecutor(len(command)) as pool:
        return list(zip(command, pool.map(lambda step: run(step, folder), command)))


def _unfinished_folder(final):
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        _sweep(final.parent)
        return Path(tempfile.mkdtemp(dir=final.parent, prefix=f'{final.name}.'))
    except OSError as e:
        why = f'{final.parent} cannot be written ({e.strerror}); set GRIDSTRIDE_CACHE to a folder that can'
        raise Unusable(why) from None


_UNFINISHED = re.compile(r'[0-9a-f]{20}\.')
_LONG_AGO = 24 * 3600  # seconds: no compiler runs as long


@lru_cache
def _sweep(folder):
    "Remove what killed processes had begun, once per process"
    for entry in os.scandir(folder):
        with suppress(OSError):
            if _UNFINISHED.match(entry.name) and time.time() - entry.stat(follow_symlinks=False).st_mtime > _LONG_AGO:
                discard(entry.path)


def _put(work, final):
    "Give the folder its final name, unless another process was faster; an unusable one is replaced"
    try:
        os.rename(work, final)
    except OSError:
        if flaw(final) == '':
            return
        discard(final)
        try:
            os.rename(work, final)
        except OSError:
            if flaw(final) != '':
                raise Unusable(f'{final} cannot be replaced') from None


def run_command(
    command: list,  # of strings
    folder,  # to run it in
    what='compiling',  # reported if it takes long
    after=SLOW,  # seconds; None: it is not reported
) -> tuple:  # its status and its output
    "Run a compiler, with messages in English"
    how = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    with (
        report_slow(what, after),
        subprocess.Popen(command, cwd=folder, env={**os.environ, 'LC_ALL': 'C'}, **how) as process,
    ):
        try:
            return _wait_interruptibly(process)
        except BaseException:
            process.kill()
            raise


def _wait_interruptibly(process):
    """Return the status and the output of a process.

    Python answers Ctrl-C when it executes bytecode. A system call that the signal does not interrupt (it came just
    before the call, or to another thread, or the call is restarted) lasts a second at most here, not until the end."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=1)
            return process.returncode, output


# What is slow to make and needed by all is made by one process, while the others wait.
@contextmanager
def one_at_a_time(final):
    "Lock the folder `final` for this process in the `with` block, if the system has such locks"
    path = final.with_suffix('.lock')
    try:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), 'w')
        fcntl.flock(lock, fcntl.LOCK_EX)
    except (ImportError, OSError):
        return (yield)
    with lock:
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()


def first_use(command, folder, after=0.0):
    "Run a compiler, and report, at once or after `after` seconds, that this is done only once; linking takes a moment"
    if '-shared' in command:
        return run_command(command, folder)
    return run_command(command, folder, 'preparing the emulator for this compiler, once', after)
