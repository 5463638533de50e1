"""What compilers made, kept in the user's cache.

Everything that is compiled lands in a folder of its own, whose name is a hash of all that decides the
result: the sources, the compiler and its flags, our headers, the kind of CPU. So nothing that is found
there can be stale, and nothing is ever overwritten. Deleting it all costs only the time to compile again.
"""

import errno, hashlib, json, os, platform, re, shutil, subprocess, sys, tempfile, threading, time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path

from ..files import write_whole
from ..utils import cache_dir


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
    "What kind of CPU this is: code compiled for one may not run on another that shares the home folder"
    try:
        info = Path('/proc/cpuinfo').read_text()
    except OSError:
        return platform.machine(), platform.processor()
    lines = re.findall(r'^(?:flags|Features|model name|CPU part)\s*:.*', info, re.M)
    return platform.machine(), _hash(*sorted(set(lines)))


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


def folder_of(sources, commands, *decides, room='') -> Path:
    "Where `build` puts, or has put, what it makes of the same"
    return cache_dir() / room / _hash(sources, commands, *decides)


def build(
    sources: dict,  # file name -> text
    commands: list,  # each a list of strings, or several of them to run at once; in the folder that holds the sources
    *decides,  # whatever else decides the result
    fail=None,  # called with the log when a command fails; returns an exception
    run=None,  # runs a command in a folder and returns its status and its log; None: `run_command`
    room='',  # a folder inside the cache
    shared=False,  # is it made for many? Then other processes that need it, too, wait
) -> Built:
    "The folder in which `commands` have made what they make from `sources`"
    final, start = folder_of(sources, commands, *decides, room=room), time.perf_counter()
    if final.exists():
        return Built(final, commands, 0.0, True)
    with one_at_a_time(final) if shared else nullcontext():
        if not final.exists():
            _make(final, sources, commands, run or run_command, fail)
    return Built(final, commands, time.perf_counter() - start, False)


# What a source becomes on its way to a compiler follows from it and from the modules here. To look up what it became
# takes a fifth of the time that reading it again does.
TOLD = 'log.txt'  # in a folder of `build`: what a compiler had to say, which is told each time


@lru_cache
def _modules_hash():
    "Hash of the modules here: they read sources, and rewrite them"
    return _hash(*((p.name, p.read_bytes()) for p in sorted(Path(__file__).parent.glob('*.py'))))


def remembered(
    asked,  # all that decides what `make` does but for the modules here
    make,  # a function without arguments that returns a `Built`
) -> Built:
    "What `make` returned when it was asked the same before; it is called if that is gone, or if there is more to tell"
    note = cache_dir() / 'known' / _hash(asked, _modules_hash())
    with suppress(OSError, ValueError):
        name, commands = json.loads(note.read_text(encoding='utf-8'))
        if (folder := cache_dir() / name).exists():
            return Built(folder, commands, 0.0, True)
    built = make()
    if not (built.folder / TOLD).exists():
        with suppress(OSError):
            note.parent.mkdir(exist_ok=True)
            write_whole(note, json.dumps([built.folder.name, built.commands]))
    return built


def _make(final, sources, commands, run, fail):
    work = _folder_beside(final)
    try:
        for name, text in sources.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(text)
        for command in commands:
            for done, (status, log) in _run(command, work, run):
                if status and 'No space left on device' in log:
                    raise OSError(errno.ENOSPC, log)
                if status:
                    raise fail(log) if fail else RuntimeError(f"{' '.join(done)}\n{log}")
        os.chmod(work, 0o755)
        _put(work, final)
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
        what = f'no space is left in {final.parent}, or in {tempfile.gettempdir()}, which compilers use'
        raise RuntimeError(f'{what}: free some, or set GRIDSTRIDE_CACHE and TMPDIR to folders with room') from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command, folder, run):
    "Each command, alone or of several that run at once, with its status and its log"
    if isinstance(command[0], str):
        return [(command, run(command, folder))]
    with ThreadPoolExecutor(len(command)) as pool:
        return list(zip(command, pool.map(lambda o: run(o, folder), command)))


def _folder_beside(final):
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=final.parent, prefix=f'{final.name}.'))
    except OSError as e:
        why = f'{final.parent} cannot be written ({e.strerror}); set GRIDSTRIDE_CACHE to a folder that can'
        raise RuntimeError(why) from None


def _put(work, final):
    try:
        os.rename(work, final)
    except OSError:
        if not final.exists():
            raise


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
        lock = open(path, 'w')
        fcntl.flock(lock, fcntl.LOCK_EX)
    except (ImportError, OSError):
        return (yield)
    with lock:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def first_use(command, folder, after=0.0):
    "Run a compiler, and say, at once or `after` so many seconds, that this is done only once; linking takes a moment"
    if '-shared' in command:
        return run_command(command, folder)
    return run_command(command, folder, 'preparing the emulator for this compiler, once', after)
