"""Caches the outputs of compilers in a folder that belongs to the user.

Each result of a build is an entry, a folder whose name is a hash of all inputs: the sources, the compiler and its
flags, our headers and the CPU. So an entry cannot be stale, and it is never overwritten. The cache may be deleted at
any time.

An entry that is damaged, or that another user could have written, is rebuilt (`integrity`). If the cache
cannot be used at all, a temporary folder of this user replaces it.
"""

import atexit, errno, hashlib, json, os, platform, re, shutil, stat, subprocess, sys, tempfile, threading, time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path

from ...support.atomic_write import untrusted_reason, write_atomically
from ...utils import cache_dir
from .integrity import find_damage, write_checksums


def _hash(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(repr(p).encode())
    return h.hexdigest()[:20]


@lru_cache
def headers_hash(folder):
    "Return a hash of all sources in `folder`, which is part of the key of entries that include them"
    files = sorted(p for p in Path(folder).rglob('*') if p.is_file() and p.suffix != '.md')
    return _hash(*((str(p.relative_to(folder)), p.read_bytes()) for p in files))


@lru_cache
def cpu_key():
    "Return a key for this CPU and C library, because machines that share a home folder may be incompatible"
    try:
        info = Path('/proc/cpuinfo').read_text()
    except OSError:
        return platform.machine(), platform.processor(), _libc()
    lines = re.findall(r'^(?:flags|Features|model name|CPU part)\s*:.*', info, re.M)
    return platform.machine(), _hash(*sorted(set(lines))), _libc()


def _libc():
    "Return the version of glibc; '' for another C library"
    try:
        return os.confstr('CS_GNU_LIBC_VERSION') or ''
    except (AttributeError, ValueError, OSError):
        return ''


# A slow compilation prints a line to stderr. A build inside another build prints nothing, so that there is only one
# line.
SLOW_SECONDS = 2.0  # seconds after which a compilation is reported
_report_lock = threading.Lock()


@contextmanager
def report_slow(
    description,  # of the operation
    report_delay=SLOW_SECONDS,  # seconds; nothing is printed if the block ends earlier; None: never
):
    "Print to stderr, with a dot per second, that a slow operation runs in the `with` block; not with GRIDSTRIDE_QUIET"
    if report_delay is None or os.environ.get('GRIDSTRIDE_QUIET') or not _report_lock.acquire(blocking=False):
        return (yield)
    ended = threading.Event()
    printer = threading.Thread(target=_report, args=(description, report_delay, ended), daemon=True)
    printer.start()
    try:
        yield
    finally:
        ended.set()
        printer.join()
        _report_lock.release()


def _report(description, report_delay, ended):
    start = time.perf_counter()
    if ended.wait(report_delay):
        return

    def write(text):
        print(text, end='', file=sys.stderr, flush=True)

    write(f'gridstride: {description} ')
    while not ended.wait(1):
        write('.')
    write(f' {time.perf_counter() - start:.0f} s\n')


# `build` runs commands in a temporary folder next to the entry, and renames this folder after they succeed, so that no
# process ever sees an incomplete entry. If two processes build the same entry at the same time, the second discards its
# result.
BuildResult = namedtuple('BuildResult', 'folder commands seconds cached')  # seconds: 0 if it was in the cache


def entry_folder(sources, commands, *key, section='') -> Path:
    "Return the folder in which `build` puts the result for these arguments"
    return cache_dir() / section / _hash(_FORMAT, sources, commands, *key)


_FORMAT = 'with sums'  # a part of the key: entries of older versions have no checksums, and must not be found


class CacheUnusable(RuntimeError):
    "The cache cannot be written, or other users can write it"


def build(
    sources: dict,  # file name -> text
    commands: list,  # each a list of strings, or several such lists to run in parallel, in the folder of the sources
    *key,  # all other inputs of the result
    fail=None,  # called with the log if a command fails; returns an exception
    run=None,  # runs a command in a folder and returns its status and its log; None: `run_command`
    section='',  # the folder of the entry inside the cache
    shared=False,  # whether other processes may need the entry at the same time: one builds it, the others wait
    compare_checksums=True,  # of an existing entry; if False, the caller must detect damage
) -> BuildResult:
    "Return the entry with the outputs of `commands` for `sources`; run the commands if the cache has no such entry"
    entry = entry_folder(sources, commands, *key, section=section)
    start = time.perf_counter()
    for folder in (entry, _replacement_path() / section / entry.name):
        if _is_usable(folder, compare_checksums):
            return BuildResult(folder, commands, 0.0, True)
    steps = dict(sources=sources, commands=commands, run=run or run_command, fail=fail)
    try:
        folder = _build_if_missing(entry, shared, compare_checksums, steps)
    except CacheUnusable as e:
        folder = _build_in_replacement(e, entry, section, shared, compare_checksums, steps)
    return BuildResult(folder, commands, time.perf_counter() - start, False)


def is_cached(sources, commands, *key) -> bool:
    "Return whether the entry for these arguments of `build` is in the cache"
    return _is_usable(entry_folder(sources, commands, *key), True)


def _build_if_missing(entry, shared, compare_checksums, steps):
    "Build an entry if it is missing; returns its folder"
    _prepare_folder(entry)
    with lock_entry(entry) if shared else nullcontext():
        for _ in range(3):
            if _is_usable(entry, compare_checksums):
                return entry
            with suppress(_FolderRemoved):
                _build_entry(entry, **steps)
                return entry
    raise CacheUnusable(f'another process keeps removing {entry.parent}')


def _build_in_replacement(error, entry, section, shared, compare_checksums, steps):
    "Build an entry in the replacement of the cache; if that fails, too, raise `error`, the error of the cache"
    replacement = _replacement_for(error)
    try:
        return _build_if_missing(replacement / section / entry.name, shared, compare_checksums, steps)
    except CacheUnusable:
        raise error from None


def _replacement_for(error):
    "Report `error` once and return the temporary folder that replaces the cache; raise `error` if there is none"
    try:
        replacement = _usable_replacement()
    except OSError:
        raise error from None
    _report_once(
        f'{error}; using {replacement} instead. To keep compiled modules, set GRIDSTRIDE_CACHE to a private folder'
    )
    return replacement


def _is_usable(entry, compare_checksums):
    "Return whether an entry exists and is usable; report and remove an unusable one"
    if _untrusted_folder(entry.parent) or (damage := find_damage(entry, compare_checksums)) is None:
        return False
    if damage:
        with lock_entry(entry.with_name(f'{entry.name}-broken')):
            if find_damage(entry, compare_checksums):  # otherwise another process has replaced it
                _report_once(f'the cache is damaged ({entry} {damage}); unusable entries are rebuilt')
                discard(entry)
        return False
    return True


def _untrusted_folder(folder):
    "Return why the cache's `folder` may be controlled by other users; '' if it is not, or does not exist"
    for ancestor in _folders_of_cache(folder):
        with suppress(OSError):
            folder_status = os.lstat(ancestor) if ancestor == _replacement_path() else os.stat(ancestor)
            is_link = stat.S_ISLNK(folder_status.st_mode)
            if reason := untrusted_reason(folder_status) or ('is a link' if is_link else ''):
                return f'{ancestor} {reason}'
    return ''


def _folders_of_cache(folder):
    "Return the roots of the cache that contain `folder`: the cache itself or its replacement, and `folder`"
    return [root for root in dict.fromkeys((cache_dir(), _replacement_path(), folder)) if folder.is_relative_to(root)]


def discard(path):
    "Remove a folder, file or link; rename it first, so that it disappears atomically"
    path = Path(path)
    renamed = path.with_name(f'{path.name}.{os.getpid()}.{threading.get_ident()}.old')
    with suppress(OSError):
        os.rename(path, renamed)
        if renamed.is_dir() and not renamed.is_symlink():
            shutil.rmtree(renamed, ignore_errors=True)
        else:
            renamed.unlink()


def usable_cache() -> Path:
    "Return the folder of the cache, made if it is missing; return its replacement if it cannot be written"
    try:
        _prepare_folder(cache_dir() / 'entry')
    except CacheUnusable as e:
        return _replacement_for(e)
    return cache_dir()


def make_section(name):
    "Create a section of the cache, if possible"
    with suppress(CacheUnusable):
        _prepare_folder(cache_dir() / name / 'entry')


def _prepare_folder(entry):
    "Make the folder that will contain an entry; raise `CacheUnusable` if that fails, or if other users can write to it"
    section = entry.parent
    try:
        for ancestor in _folders_of_cache(section):
            _make_private(ancestor)
    except OSError as e:
        raise CacheUnusable(
            f'{section} cannot be written ({e.strerror}); set GRIDSTRIDE_CACHE to a writable folder'
        ) from None
    if reason := _untrusted_folder(section):
        raise CacheUnusable(reason)


def _make_private(folder):
    "Make a folder that other users cannot access; if it exists, only remove their write permission"
    if not folder.is_dir():
        if folder.parent == cache_dir() and os.path.lexists(folder):
            discard(folder)  # a file with the name of a cache folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    folder_status = folder.stat()
    if untrusted_reason(folder_status) == 'can be written by others':
        os.chmod(folder, folder_status.st_mode & 0o7755)


def _replacement_path():
    name = f'gridstride-{os.geteuid() if hasattr(os, "geteuid") else os.environ.get("USERNAME", "")}'
    return Path(tempfile.gettempdir()) / name


def _usable_replacement():
    "Return the temporary folder of this user that replaces the cache"
    with suppress(OSError):
        _replacement_path().mkdir(mode=0o700, exist_ok=True)
    if _replacement_path().is_dir() and not _untrusted_folder(_replacement_path()):
        return _replacement_path()
    return _make_process_replacement()


@lru_cache
def _make_process_replacement():
    "Return a temporary folder for this process alone, in case another user has taken the usual name"
    folder = Path(tempfile.mkdtemp(prefix='gridstride-'))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@lru_cache
def _reported_problems():  # a list, cached so that tests can clear it
    return []


def _report_once(text):
    "Print the first problem of the cache to stderr; print no later ones, and nothing with `GRIDSTRIDE_QUIET`"
    if not _reported_problems():
        _reported_problems().append(text)
        if not os.environ.get('GRIDSTRIDE_QUIET'):
            print(f'gridstride: {text}', file=sys.stderr, flush=True)


# The key of an entry contains the rewritten source. A lookup is five times faster than rewriting a source, so an
# index maps the hash of the original source to the entry.
LOG = 'log.txt'  # a file of an entry: the compiler's log, whose warnings are printed at each use


@lru_cache
def _modules_hash():
    "Return a hash of the modules of this package, which rewrite sources"
    return _hash(*((p.name, p.read_bytes()) for p in sorted(Path(__file__).parents[1].rglob('*.py'))))


def index_path(
    index: str,  # the name of the index
    inputs,  # all inputs of the result, except the modules of this package
) -> Path:
    "Return the path of the file that `write_index` writes for these inputs"
    return cache_dir() / index / _hash(inputs, _modules_hash())


def read_index(path: Path):
    "Return the data that `write_index` stored at `path`; None if there are none, or other users may have written them"
    with suppress(OSError, ValueError, TypeError, RecursionError):
        key, data = json.loads(path.read_text(encoding='utf-8'))
        return data if key == path.name and not _untrusted_folder(path.parent) else None


def write_index(path: Path, data):
    "Store `data`, as JSON, at `path`, if that is possible"
    with suppress(OSError):
        _make_private(path.parent)
        if path.is_symlink() or path.is_dir():
            discard(path)
        write_atomically(path, json.dumps([path.name, data]))


def cached_result(
    inputs,  # all inputs of `make`, except the modules of this package
    make,  # a function without arguments that returns a `BuildResult`
) -> BuildResult:
    "Return the result of `make`, from the cache if the index has it; an entry with a log to print is not indexed"
    index_entry = index_path('known', inputs)
    with suppress(OSError, ValueError, TypeError):
        name, commands = read_index(index_entry)
        folder = cache_dir() / name
        if re.fullmatch(r'[0-9a-f]{20}', name) and _is_usable(folder, True):
            return BuildResult(folder, commands, 0.0, True)
    result = make()
    if not (result.folder / LOG).exists() and result.folder.parent == cache_dir():
        write_index(index_entry, [result.folder.name, result.commands])
    return result


class _FolderRemoved(Exception):
    "The temporary folder of an entry was removed during the build"


def _build_entry(entry, sources, commands, run, fail):
    "Build an entry in a temporary folder, then rename the folder to `entry`"
    work_folder = _make_work_folder(entry)
    try:
        _run_commands(work_folder, sources, commands, run, fail)
        write_checksums(work_folder, entry.name)
        os.chmod(work_folder, 0o755)
        _rename_to_final(work_folder, entry)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = f'no space left in {entry.parent}, or in {tempfile.gettempdir()}, where compilers write'
            hint = 'free disk space, or set GRIDSTRIDE_CACHE and TMPDIR to folders with free space'
            raise CacheUnusable(f'{problem}: {hint}') from None
        if not work_folder.exists():
            raise _FolderRemoved from None
        raise
    except Exception:
        if not work_folder.exists():
            raise _FolderRemoved from None
        raise
    finally:
        shutil.rmtree(work_folder, ignore_errors=True)


def _run_commands(work_folder, sources, commands, run, fail):
    "Write the sources and run the commands"
    for name, text in sources.items():
        (work_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (work_folder / name).write_text(text)
    for command in commands:
        for step, (status, log) in _run_command_or_several(command, work_folder, run):
            if status and 'No space left on device' in log:
                raise OSError(errno.ENOSPC, log)
            if status:
                raise fail(log) if fail else RuntimeError(f"{' '.join(step)}\n{log}")


def _run_command_or_several(command, folder, run):
    "Run a command, or several in parallel; returns a list of (command, (status, log))"
    if isinstance(command[0], str):
        return [(command, run(command, folder))]
    if len(command) == 1:  # in this thread, where Ctrl-C ends the compiler
        return [(command[0], run(command[0], folder))]
    with ThreadPoolExecutor(len(command)) as pool:
        return list(zip(command, pool.map(lambda step: run(step, folder), command)))


def _make_work_folder(entry):
    "Make the temporary folder in which an entry is built; raise `CacheUnusable` if that fails"
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale_work_folders(entry.parent)
        return Path(tempfile.mkdtemp(dir=entry.parent, prefix=f'{entry.name}.'))
    except OSError as e:
        message = f'{entry.parent} cannot be written ({e.strerror}); set GRIDSTRIDE_CACHE to a writable folder'
        raise CacheUnusable(message) from None


_WORK_FOLDER_NAME = re.compile(r'[0-9a-f]{20}\.')
_MAX_AGE_SECONDS = 24 * 3600  # seconds, longer than any compiler runs


@lru_cache
def _remove_stale_work_folders(folder):
    "Remove the temporary folders of killed processes; the cached result makes this run once per process"
    for entry in os.scandir(folder):
        with suppress(OSError):
            if (
                _WORK_FOLDER_NAME.match(entry.name)
                and time.time() - entry.stat(follow_symlinks=False).st_mtime > _MAX_AGE_SECONDS
            ):
                discard(entry.path)


def _rename_to_final(work_folder, entry):
    "Rename the folder to `entry`; keep an entry that another process has built, replace an unusable one"
    try:
        os.rename(work_folder, entry)
    except OSError:
        if find_damage(entry) == '':
            return
        discard(entry)
        try:
            os.rename(work_folder, entry)
        except OSError:
            if find_damage(entry) != '':
                raise CacheUnusable(f'{entry} cannot be replaced') from None


def run_command(
    command: list,  # of strings
    folder,  # to run it in
    description='compiling',  # of the command, printed if it is slow
    report_delay=SLOW_SECONDS,  # seconds after which it is reported; None: never
) -> tuple:  # (exit status, output)
    "Run a compiler, with messages in English"
    process_options = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    with (
        report_slow(description, report_delay),
        subprocess.Popen(command, cwd=folder, env={**os.environ, 'LC_ALL': 'C'}, **process_options) as process,
    ):
        try:
            return _wait_interruptibly(process)
        except BaseException:
            process.kill()
            raise


def _wait_interruptibly(process):
    """Wait for a process, and return its exit status and output.

    Python handles Ctrl-C only when it executes bytecode. The signal may not interrupt a system call, for example if it
    arrives in another thread, or if the call is restarted. So each call here waits for at most a second."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=1)
            return process.returncode, output


@contextmanager
def lock_entry(entry):
    "Hold the lock of an entry in the `with` block; do nothing on a system without file locks"
    path = entry.with_suffix('.lock')
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
            fcntl.flock(lock, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file open, too


def run_one_time_build(command, folder, report_delay=0.0):
    """Run a compiler; after `report_delay` seconds, print that this happens only once.

    Linking is not reported, because it is fast."""
    if '-shared' in command:
        return run_command(command, folder)
    part = 'headers' if 'c++-header' in command else 'runtime'
    return run_command(command, folder, f"preparing the emulator's {part} for this compiler, once", report_delay)
