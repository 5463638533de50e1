"""What compilers made, kept in the user's cache.

Everything that is compiled lands in a folder of its own, whose name is a hash of all that decides the
result: the sources, the compiler and its flags, our headers, the kind of CPU. So nothing that is found
there can be stale, and nothing is ever overwritten. Deleting it all costs only the time to compile again.

An entry that is damaged, or that another user could have written, is made again (`integrity`); where the cache
cannot be used at all, a folder of this user's for temporary files takes its place.
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
    "Hash of all files below `folder`: what includes them depends on it"
    files = sorted(p for p in Path(folder).rglob('*') if p.is_file())
    return _hash(*((str(p.relative_to(folder)), p.read_bytes()) for p in files))


@lru_cache
def cpu():
    """What kind of CPU this is, and which C library: code compiled for one may not run with another that shares the
    home folder"""
    try:
        info = Path('/proc/cpuinfo').read_text()
    except OSError:
        return platform.machine(), platform.processor(), _libc()
    lines = re.findall(r'^(?:flags|Features|model name|CPU part)\s*:.*', info, re.M)
    return platform.machine(), _hash(*sorted(set(lines))), _libc()


def _libc():
    "The version of glibc, '' of another C library"
    try:
        return os.confstr('CS_GNU_LIBC_VERSION') or ''
    except (AttributeError, ValueError, OSError):
        return ''


# A learner who waits is told what for. One line at a time: what is compiled meanwhile is part of it.
SLOW = 2.0  # seconds, after which a compilation is told
_told = threading.Lock()


@contextmanager
def telling(
    what,  # takes so long
    after=SLOW,  # seconds; what is done by then is not told; None: nothing is
):
    "Say on stderr what goes on in the `with` block, with a dot for each second; `GRIDSTRIDE_QUIET` says nothing"
    if after is None or os.environ.get('GRIDSTRIDE_QUIET') or not _told.acquire(blocking=False):
        return (yield)
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, after, over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
        _told.release()


def _tell(what, after, over):
    start = time.perf_counter()
    if over.wait(after):
        return

    def say(text):
        print(text, end='', file=sys.stderr, flush=True)

    say(f'gridstride: {what} ')
    while not over.wait(1):
        say('.')
    say(f' {time.perf_counter() - start:.0f} s\n')


# `build` runs commands in a folder beside the final one, and renames it when all went well. Two processes
# that build the same thing at once do the work twice, and the second finds that the first was there before:
# nobody ever sees half a folder.
Built = namedtuple('Built', 'folder commands seconds cached')  # seconds: 0 if it was in the cache


def folder_of(sources, commands, *decides, section='') -> Path:
    "Where `build` puts, or has put, what it makes of the same"
    return cache_dir() / section / _hash(_SEALED, sources, commands, *decides)


_SEALED = 'with sums'  # decides the name: entries of older versions have none


class Unusable(RuntimeError):
    "The cache cannot be written, or is not this user's alone"


def build(
    sources: dict,  # file name -> text
    commands: list,  # each a list of strings, or several of them to run at once; in the folder that holds the sources
    *decides,  # whatever else decides the result
    fail=None,  # called with the log when a command fails; returns an exception
    run=None,  # runs a command in a folder and returns its status and its log; None: `run_command`
    section='',  # a folder inside the cache
    shared=False,  # is it made for many? Then other processes that need it, too, wait
    contents=True,  # compare the hashes of what is found? Else who uses it notices what is wrong
) -> Built:
    "The folder in which `commands` have made what they make from `sources`"
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
    "Has `build` put there what it makes of the same?"
    return _is_whole(folder_of(sources, commands, *decides), True)


def _make_once(final, shared, contents, how):
    "Make an entry that is not there; the folder itself"
    _prepare_room(final)
    with one_at_a_time(final) if shared else nullcontext():
        for _ in range(3):
            if _is_whole(final, contents):
                return final
            with suppress(_Removed):
                _make(final, **how)
                return final
    raise Unusable(f'{final.parent} is removed again and again')


def _make_in_spare(why, usual, section, shared, contents, how):
    "Make an entry where temporary files are; the first reason why it is needed is raised if that fails, too"
    spare = _spare_for(why)
    try:
        return _make_once(spare / section / usual.name, shared, contents, how)
    except Unusable:
        raise why from None


def _spare_for(why):
    "The folder that takes the place of the cache; `why` is told once, or raised if there is none"
    try:
        spare = _spare()
    except OSError:
        raise why from None
    _tell_once(f'{why}; {spare} is used instead. Set GRIDSTRIDE_CACHE to a folder of yours to keep what is compiled')
    return spare


# Whose is it, and is it whole?
def _is_whole(final, contents):
    "Whether an entry is there and can be used; one that cannot is removed, as far as it can be"
    if _why_foreign(final.parent) or (why := flaw(final, contents)) is None:
        return False
    if why:
        with one_at_a_time(final.with_name(f'{final.name}-broken')):
            if flaw(final, contents):  # nobody else has made it again
                _tell_once(f'the cache is damaged ({final} {why}); what cannot be used is made again')
                discard(final)
        return False
    return True


def _why_foreign(folder):
    "Why other users could put entries into a folder of the cache; '' if they cannot, or if it is not there yet"
    for o in _chain(folder):
        with suppress(OSError):
            found = os.lstat(o) if o == _spare_path() else os.stat(o)
            if why := is_foreign(found) or ('is a link' if stat.S_ISLNK(found.st_mode) else ''):
                return f'{o} {why}'
    return ''


def _chain(folder):
    "A folder of the cache, and the cache"
    return [o for o in dict.fromkeys((cache_dir(), _spare_path(), folder)) if folder.is_relative_to(o)]


def discard(path):
    "Remove a folder, file or link, in one step for others"
    path = Path(path)
    aside = path.with_name(f'{path.name}.{os.getpid()}.{threading.get_ident()}.old')
    with suppress(OSError):
        os.rename(path, aside)
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink()


def usable() -> Path:
    "The cache, made if it is not there; where it cannot be written, what takes its place, which is told once"
    try:
        _prepare_room(cache_dir() / 'entry')
    except Unusable as e:
        return _spare_for(e)
    return cache_dir()


def make_section(name):
    "Make a folder of the cache that is not there, if it can be had"
    with suppress(Unusable):
        _prepare_room(cache_dir() / name / 'entry')


def _prepare_room(final):
    "Make the folder that an entry is put into; `Unusable` if it cannot be had, or is not this user's alone"
    section = final.parent
    try:
        for o in _chain(section):
            _make_private(o)
    except OSError as e:
        raise Unusable(
            f'{section} cannot be written ({e.strerror}); set GRIDSTRIDE_CACHE to a folder that can'
        ) from None
    if why := _why_foreign(section):
        raise Unusable(why)


def _make_private(folder):
    "A folder that others can neither read nor write; one that is there loses what lets others write"
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
    "A folder of this user's where temporary files are, for what the cache cannot take"
    with suppress(OSError):
        _spare_path().mkdir(mode=0o700, exist_ok=True)
    if _spare_path().is_dir() and not _why_foreign(_spare_path()):
        return _spare_path()
    return _own_spare()


@lru_cache
def _own_spare():
    "The same for this process alone, where another user's files have that name"
    folder = Path(tempfile.mkdtemp(prefix='gridstride-'))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@lru_cache
def _once():
    return []


def _tell_once(text):
    "Say on stderr what is wrong with the cache, in one line, once; `GRIDSTRIDE_QUIET` says nothing"
    if not _once():
        _once().append(text)
        if not os.environ.get('GRIDSTRIDE_QUIET'):
            print(f'gridstride: {text}', file=sys.stderr, flush=True)


# What a source becomes on its way to a compiler follows from it and from the modules here. To look up what it became
# takes a fifth of the time that reading it again does.
TOLD = 'log.txt'  # in a folder of `build`: what a compiler had to say, which is told each time


@lru_cache
def _modules_hash():
    "Hash of the modules here: they read sources, and rewrite them"
    return _hash(*((p.name, p.read_bytes()) for p in sorted(Path(__file__).parents[1].rglob('*.py'))))


def remembered(
    asked,  # all that decides what `make` does but for the modules here
    make,  # a function without arguments that returns a `Built`
) -> Built:
    "What `make` returned when it was asked the same before; it is called if that is gone, or if there is more to tell"
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
    if not (built.folder / TOLD).exists() and built.folder.parent == cache_dir():
        with suppress(OSError):
            _make_private(note.parent)
            if note.is_symlink() or note.is_dir():
                discard(note)
            write_whole(note, json.dumps([key, built.folder.name, built.commands]))
    return built


class _Removed(Exception):
    "Somebody has removed the folder in which something is made"


def _make(final, sources, commands, run, fail):
    work = _folder_beside(final)
    try:
        _fill(work, sources, commands, run, fail)
        seal(work, final.name)
        os.chmod(work, 0o755)
        _put(work, final)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            what = f'no space is left in {final.parent}, or in {tempfile.gettempdir()}, which compilers use'
            how = 'free some, or set GRIDSTRIDE_CACHE and TMPDIR to folders with room'
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
    "Each command, alone or of several that run at once, with its status and its log"
    if isinstance(command[0], str):
        return [(command, run(command, folder))]
    if len(command) == 1:  # in this thread, where Ctrl-C ends the compiler
        return [(command[0], run(command[0], folder))]
    with ThreadPoolExecutor(len(command)) as pool:
        return list(zip(command, pool.map(lambda o: run(o, folder), command)))


def _folder_beside(final):
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        _sweep(final.parent)
        return Path(tempfile.mkdtemp(dir=final.parent, prefix=f'{final.name}.'))
    except OSError as e:
        why = f'{final.parent} cannot be written ({e.strerror}); set GRIDSTRIDE_CACHE to a folder that can'
        raise Unusable(why) from None


_UNFINISHED = re.compile(r'[0-9a-f]{20}\.')
_LONG_AGO = 24 * 3600  # seconds: no compiler takes as long


@lru_cache
def _sweep(folder):
    "Remove what processes that were killed had begun, once for each process"
    for o in os.scandir(folder):
        with suppress(OSError):
            if _UNFINISHED.match(o.name) and time.time() - o.stat(follow_symlinks=False).st_mtime > _LONG_AGO:
                discard(o.path)


def _put(work, final):
    "Give the folder its name, unless another process was faster; what cannot be used gives way"
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
    what='compiling',  # is told when it takes long
    after=SLOW,  # seconds; None: it is not told
) -> tuple:  # its status and all that it said
    "Run a compiler, which shall speak English"
    how = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    with telling(what, after):
        done = subprocess.run(command, cwd=folder, env={**os.environ, 'LC_ALL': 'C'}, **how)
    return done.returncode, done.stdout


# What is slow to make and needed by all is made by one process, while the others wait.
@contextmanager
def one_at_a_time(final):
    "No other process is inside of this block for the same folder `final`, where the system has such locks"
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
    "Run a compiler, and say, at once or `after` so many seconds, that this is done only once; linking takes a moment"
    if '-shared' in command:
        return run_command(command, folder)
    return run_command(command, folder, 'preparing the emulator for this compiler, once', after)
