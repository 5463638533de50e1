"""Separates a submission's process from the rest of the machine, on Linux: namespaces, Landlock, limits.

`bwrap` builds the same sandbox, but only around a program that it starts. Submissions are forked from a process that
has imported torch already, which saves seconds per verdict, so system calls build the sandbox after the fork."""

import ctypes
import glob
import json
import os
import re
import resource
import select
import stat
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from . import seccomp
from .compiling import JUDGED

_DISK = '1g'  # limit of all folders in memory together that a submission may write to
_FILE = 1 << 30  # limit of a file, in bytes
_OPEN = 1024  # limit of open files
_PROCESSES, _TASKS = 256, 1024  # limits of processes, and of processes and threads together
# The system starts its handler of core dumps even if the limit of a core is 0, but not if it is 1
_LIMITS = {'RLIMIT_CORE': 1, 'RLIMIT_FSIZE': _FILE, 'RLIMIT_NOFILE': _OPEN}
_SETTINGS = {'kernel/pid_max': _TASKS, 'user/max_user_namespaces': 0}  # the first per namespace since Linux 6.14
_SYSTEM_ENTRIES = 'acpi asound bus driver fs irq scsi sys sysrq-trigger'.split()  # in /proc, next to the processes
_HIDDEN = '/root /home /mnt /media /srv /run /tmp /var/tmp /var/mail /var/spool /etc/ssh'
_DEVICES = 'null zero full random urandom nvidia* dri kfd'.split()

# Of linux/sched.h, mount.h, prctl.h, landlock.h
_USER, _MOUNT, _PID, _NET, _IPC, _UTS = 0x10000000, 0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000
_BIND = 0x1000
_REC = 0x4000
_PRIVATE = 1 << 18
_NOSUID = 2
_NODEV = 4
_NOEXEC = 8
_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_ATTR_READ_ONLY = 1
_DUMPABLE, _BOUNDING, _NO_NEW_PRIVILEGES = 4, 24, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446
_KEYCTL = dict(x86_64=250, aarch64=219)
_JOIN_SESSION_KEYRING = 1
_EXECUTE = 1 << 0
_WRITE = 1 << 1
_READ = 1 << 2
_LIST = 1 << 3
_IOCTL = 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | 1 << 14 | _IOCTL  # rights that a file, and not only a folder, can have


def _call(name, *args):
    "Call a function of the C library; raises `OSError` if it fails"
    libc = ctypes.CDLL(None, use_errno=True)
    args = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    if (done := getattr(libc, name)(*args)) == -1:
        raise OSError(ctypes.get_errno(), f'{name}: {os.strerror(ctypes.get_errno())}')
    return done


def prctl(option, value=0):
    "Call Linux's prctl; on other systems do nothing"
    if sys.platform == 'linux':
        with suppress(OSError):
            _call('prctl', option, value, 0, 0, 0)


# Folders
def _is_inside(path, folders):
    "Return whether a path is one of these folders, or inside one of them"
    return any(path == folder or path.startswith(folder.rstrip('/') + '/') for folder in folders)


def hidden() -> list:  # of paths
    "List folders that a submission finds empty: homes, other disks, mail, temporary files, sockets of services"
    found = {os.path.expanduser('~'), tempfile.gettempdir(), *_HIDDEN.split()}
    real = sorted({os.path.realpath(path) for path in found} - {'/'})
    return [path for i, path in enumerate(real) if os.path.isdir(path) and not _is_inside(path, real[:i])]


def _secrets():
    "List files in /etc without read permission for all users, such as keys, which root could read"
    folders = filter(os.path.isdir, ('/etc', '/etc/ssl'))
    found = [entry for folder in folders for entry in os.scandir(folder) if not entry.is_symlink()]
    return [entry.path for entry in found if not entry.stat().st_mode & stat.S_IROTH]


def named_sockets() -> list:  # of paths
    "List sockets with a name in the file system, which a read-only mount does not close"
    with suppress(OSError):
        fields = (line.split(maxsplit=7) for line in Path('/proc/net/unix').read_text(errors='replace').splitlines())
        return sorted({field[7] for field in fields if len(field) > 7 and field[7].startswith('/')})
    return []


def needed_paths(folders) -> list:  # of paths
    "List what a submission must read in hidden folders: Python, its packages, compilers, drivers"
    paths = [sys.prefix, sys.base_prefix, *sys.path, str(Path(__file__).parents[1]), '/run/opengl-driver']
    for name in ('PATH', 'LD_LIBRARY_PATH', 'CUDA_HOME', 'CUDA_PATH', 'CXX', 'CC'):
        paths += os.environ.get(name, '').split(os.pathsep)
    paths = [path for path in paths if os.path.isabs(path) and os.path.exists(path)]
    real = {*map(os.path.abspath, paths), *map(os.path.realpath, paths)}
    real = sorted(
        path for path in real if _is_inside(path, folders) and not any(_is_inside(f, [path]) for f in folders)
    )
    return [path for i, path in enumerate(real) if not _is_inside(path, real[:i])]


# Mounts, in a mount namespace of its own
def _mount(source, target, kind=None, flags=0, options=None):
    source, target, kind, options = (
        value.encode() if isinstance(value, str) else value for value in (source, target, kind, options)
    )
    _call('mount', source, target, kind, flags, options)


def _read_only(path, recursive=True):
    "Make everything below `path` read-only"
    attributes = struct.pack('QQQQ', _ATTR_READ_ONLY, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    _call('syscall', _MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, attributes, len(attributes))


def _in_memory(path, size=_DISK):
    "Mount an empty folder in memory over `path`, with a limit on bytes and files"
    os.path.isdir(path) or os.makedirs(path)
    _mount('tmpfs', path, 'tmpfs', _NOSUID | _NODEV, f'size={size},nr_inodes=64k,mode=755')


def _share_memory(paths):
    "Mount an empty folder in memory over each of `paths`, with a common limit on bytes and files"
    first = paths[0]
    _in_memory(first)
    for i, path in reversed([*enumerate(paths)]):  # the first path last, because its mount contains all of them
        os.path.isdir(path) or os.makedirs(path)
        os.mkdir(f'{first}/{i}')
        _mount(f'{first}/{i}', path, flags=_BIND)


def _show(path, fd):
    "Make what `fd` was opened for visible at `path` again, after another mount has covered it"
    if os.path.isdir(f'/proc/self/fd/{fd}'):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, 'w').close()
    _mount(f'/proc/self/fd/{fd}', path, flags=_BIND | _REC)
    os.close(fd)


def _open_paths(paths):
    return {path: os.open(path, os.O_PATH) for path in paths}


def _caches(cache):
    "List the compile caches: ours, and those of Triton, torch and the driver"
    home = os.path.expanduser('~')
    found = [cache, f'{home}/.triton', f'{home}/.nv', f'{home}/.cache/torch_extensions']
    found += [
        os.environ.get(name, '') for name in ('TRITON_CACHE_DIR', 'TORCH_EXTENSIONS_DIR', 'TORCHINDUCTOR_CACHE_DIR')
    ]
    return [path for path in dict.fromkeys(map(os.path.abspath, filter(None, found))) if os.path.isdir(path)]


def _mount_overlay(path, below, above):
    "Mount the folder `below` at `path`; writes go to the folder `above`"
    for part in ('upper', 'work'):
        os.mkdir(f'{above}/{part}')
    os.makedirs(path, exist_ok=True)
    options = f'lowerdir=/proc/self/fd/{below},upperdir={above}/upper,workdir={above}/work,userxattr'
    _mount('overlay', path, 'overlay', _NOSUID | _NODEV, options)
    os.close(below)


def _cover(path):
    "Hide the contents of a file or folder"
    with suppress(OSError):
        _in_memory(path, '4k') if os.path.isdir(path) else _mount('/dev/null', path, flags=_BIND)


def _hide(folders, writable, cache):
    "Hide folders, except for what is needed in them; writes to caches are discarded at the end"
    again, below = _open_paths(needed_paths(folders)), _open_paths(_caches(cache))
    judged = _open_paths(filter(os.path.isdir, [os.path.join(cache, JUDGED)]))
    _share_memory([*folders, *writable])
    for path, fd in again.items():
        _show(path, fd)
    for path in (os.path.expanduser('~'), tempfile.gettempdir()):
        with suppress(OSError):  # the home of some users does not exist
            os.makedirs(path, exist_ok=True)
    for path, fd in below.items():
        _mount_overlay(path, fd, tempfile.mkdtemp(prefix='.written-', dir='/tmp'))
    for path, fd in judged.items():  # modules that are compiled later appear there, too
        _show(path, fd)
        _read_only(path)


def _device_files():
    return [p for device in _DEVICES for p in glob.glob(f'/dev/{device}')]


def _devices():
    "Mount a /dev with only the GPUs and the devices that every program needs: no terminals, no disks"
    fds = _open_paths(_device_files())
    _in_memory('/dev', '1m')
    for path, fd in fds.items():
        _show(path, fd)
    for name, target in dict(fd='', stdin='/0', stdout='/1', stderr='/2').items():
        os.symlink(f'/proc/self/fd{target}', f'/dev/{name}')


def _processes():
    """Mount a /proc that shows the processes of this namespace and the system's settings, read-only. The entries of a
    process itself are writable: CUDA's driver names its threads there, and does not start otherwise"""
    try:
        _mount('proc', '/proc', 'proc', _NOSUID | _NODEV | _NOEXEC)
    except OSError:  # a container that hides parts of /proc allows no new one; the old one stays, read-only
        return
    for name, most in _SETTINGS.items():
        with suppress(OSError):
            Path('/proc/sys', name).write_text(str(most))
    for path in filter(os.path.exists, (f'/proc/{name}' for name in _SYSTEM_ENTRIES)):
        _mount(path, path, flags=_BIND | _REC)
        _read_only(path)
    for path in filter(os.path.exists, ('/proc/keys', '/proc/key-users')):
        _cover(path)


def mount_file_system(
    folder,  # of the submission, which stays writable
    cache,  # the compile cache
    sockets=(),  # paths of named sockets to hide
):
    "Mount a file system with only what a submission needs; called by the first process of new namespaces"
    _mount('none', '/', flags=_REC | _PRIVATE)
    texts = {p.name: p.read_bytes() for p in Path(folder).iterdir()}
    _read_only('/')
    covered = hidden()
    _devices()
    _hide(covered, ['/dev/shm', *[folder] * (not _is_inside(folder, covered))], cache)
    for path in filter(os.path.exists, [*_secrets(), *sockets]):
        _cover(path)
    os.makedirs(folder, exist_ok=True)
    for name, text in texts.items():
        (Path(folder) / name).write_bytes(text)
    _processes()


def leave():
    "Move to new namespaces, except that of process ids, which only children enter; raises `OSError`"
    uid = os.getuid()
    gid = os.getgid()
    _call('unshare', _USER | _MOUNT | _PID | _NET | _IPC | _UTS)
    Path('/proc/self/setgroups').write_text('deny')
    Path('/proc/self/uid_map').write_text(f'{uid} {uid} 1')
    Path('/proc/self/gid_map').write_text(f'{gid} {gid} 1')


def possible(
    cache,  # a folder
) -> bool:
    "Return whether this system allows all of that, tried in a process of its own"
    if sys.platform != 'linux' or not hasattr(os, 'pidfd_open'):
        return False
    with tempfile.TemporaryDirectory(prefix='gridstride-judge-') as folder:
        return _ends_well(lambda: leave() or _ends_well(lambda: mount_file_system(folder, cache) or True))


def _ends_well(f):
    "Return whether a function returns a true value in a fork"
    if pid := os.fork():
        return os.waitpid(pid, 0)[1] == 0
    with suppress(OSError):
        os._exit(not f())
    os._exit(1)


# Privileges that a process drops before it runs a submission
def drop_privileges():
    "Drop all capabilities, for this process and all programs that it starts"
    if sys.platform != 'linux':
        return
    for capability in range(64):
        prctl(_BOUNDING, capability)
    with suppress(OSError):
        _call('capset', struct.pack('Ii', 0x20080522, 0), bytes(24))
    prctl(_NO_NEW_PRIVILEGES, 1)
    prctl(_DUMPABLE, 1)


def forget_keys():
    "Replace the session's keyring, in which programs of this user keep keys and tickets, by an empty one"
    with suppress(OSError, KeyError):
        _call('syscall', _KEYCTL[os.uname().machine], _JOIN_SESSION_KEYRING, None, 0, 0, 0)


def _paths_outside(folders, path='/'):
    "Yield the largest folders and files that contain none of `folders`"
    if not _is_inside(path, folders):
        if not any(_is_inside(folder, [path]) for folder in folders):
            yield path
        else:
            with suppress(OSError):
                for name in sorted(os.listdir(path)):
                    yield from _paths_outside(folders, os.path.join(path, name))


def _allow(ruleset, path, rights):
    "Add a rule that allows `rights` below `path`"
    with suppress(OSError):
        fd = os.open(path, os.O_PATH)
        rights &= -1 if os.path.isdir(path) else _FILE_RIGHTS
        _call('syscall', _ADD_RULE, ruleset, 1, struct.pack('=Qi', rights, fd), 0)
        os.close(fd)


def landlock(
    readable,  # paths
    writable,
) -> int:  # the version of Landlock that holds; 0 where there is none
    "Deny from now on other files, signals to and traces of other processes, and network connections"
    with suppress(OSError):
        version = _call('syscall', _CREATE_RULESET, None, 0, 1)
        every = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
        handled = struct.pack('QQQ', every, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
        ruleset = _call('syscall', _CREATE_RULESET, handled, len(handled), 0)
        for path in readable:
            _allow(ruleset, path, _EXECUTE | _READ | _LIST)
        for path in _device_files():
            _allow(ruleset, path, (_READ | _LIST | _WRITE | _IOCTL) & every)
        _allow(ruleset, '/dev', _LIST)
        _allow(ruleset, f'/proc/{os.getpid()}', every)  # of this process alone: CUDA's driver writes there at its start
        for path in writable:
            _allow(ruleset, path, every)
        _call('syscall', _RESTRICT, ruleset, 0)
        os.close(ruleset)
        return version
    return 0


def confine(
    folder,  # of the submission
    cache,  # the compile cache
    furnished: bool,  # whether this process is in namespaces of its own
    without=(),  # words of `verdicts.ISOLATION` that are left out
) -> list:  # words of `verdicts.ISOLATION`: the protections that hold from now on
    "Drop privileges and keys, and apply Landlock and a filter of system calls"
    held = ['processes', 'files', 'network'] if furnished else []
    if furnished and os.readlink('/proc/self') != str(os.getpid()):  # a container that allows no new /proc
        held.remove('processes')
    if sys.platform == 'linux':
        drop_privileges()
        covered = hidden()
        forget_keys()
        readable = ['/'] if furnished else [*_paths_outside([*covered, '/dev', *_secrets()]), *needed_paths(covered)]
        writable = [folder, '/dev/shm', *_caches(cache), *([*covered, '/proc'] if furnished else [])]
        held += ['landlock'] * ('landlock' not in without and landlock(readable, writable) > 0)
        held += ['seccomp'] * ('seccomp' not in without and seccomp.deny())
    return [*held, 'limits']


def limit(seconds):
    "Limit the resources of this process"
    for name, most in _LIMITS.items():
        hard = resource.getrlimit(limit := getattr(resource, name))[1]
        most = most if hard < 0 else min(most, hard)
        resource.setrlimit(limit, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    with suppress(OSError):  # if memory runs short, the system kills this process first
        Path('/proc/self/oom_score_adj').write_text('1000')


def limit_processes():
    "Limit the processes and threads in a submission's namespace"
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (_TASKS, _TASKS))


# The warden's view of the processes below it
def children(pid='self') -> list:
    "List the child processes of a process"
    with suppress(OSError):
        return [
            int(child) for t in Path(f'/proc/{pid}/task').iterdir() for child in (t / 'children').read_text().split()
        ]
    return []


def _is_alive(pid):
    "Return whether a process still runs; a zombie does not"
    with suppress(OSError, IndexError):
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] not in 'ZX'
    return False


def is_stopped(pid):
    "Return whether a process is stopped by a signal"
    with suppress(OSError, IndexError):
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] == 'T'
    return True


def descendants(pid='self') -> list:
    "List all processes that run below a process"
    below = children(pid)
    return [pid for pid in below if _is_alive(pid)] + [child for b in below for child in descendants(b)]


def memory() -> int:
    "Return the bytes of memory of this machine or container"
    total = 1 << 62
    with suppress(OSError, ValueError):
        total = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
        total = min(total, int(Path('/sys/fs/cgroup/memory.max').read_text()))
    return total


def _resident(pid, name):
    "Return the resident bytes of a process, as the counter `name` of smaps_rollup has them"
    with suppress(OSError, ValueError, IndexError):
        text = Path(f'/proc/{pid}/smaps_rollup').read_text()
        return 1024 * int(text.partition(f'\n{name}:')[2].split()[0])
    return 0


def _resident_with_shared(pid):
    "Return the resident bytes of a process, including shared ones"
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f'/proc/{pid}/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    return 0


def files_in_memory() -> int:
    "Return the bytes of files in memory, mapped or not, on this machine or in this container"
    for path, name in ('/sys/fs/cgroup/memory.stat', r'shmem (\d+)$'), ('/proc/meminfo', r'Shmem: +(\d+) kB'):
        with suppress(OSError):
            if found := re.search(f'^{name}', Path(path).read_text(), re.M):
                return int(found[1]) * (1024 if 'kB' in found[0] else 1)
    return 0


def exceeded_limit(
    most,  # bytes of memory
    before,  # `files_in_memory()` before the submission started
) -> str:  # '' if it is within the limits
    "Return which limit the processes below this one exceed together"
    pids = descendants()
    files = max(0, files_in_memory() - before)
    if len(pids) > _PROCESSES:
        return f'more than {_PROCESSES} processes'
    if sum(map(_resident_with_shared, pids)) + files > most:
        mapped = sum(_resident(pid, 'Pss_Shmem') for pid in pids)  # files that are counted in Pss, too
        if sum(_resident(pid, 'Pss') for pid in pids) + max(0, files - mapped) > most:
            return f'more than {most / 2**30:.3g} GiB of memory'
    return ''


# The first process of a PID namespace: all others end with it
def wait_for_child(
    child,  # the process with the submission
    line,  # a pipe: its other end closes when the warden is gone
    to_warden,  # a pipe: how the child ended
):
    "Wait for the child, or for the warden's end; orphans are waited for, too"
    fd = os.pidfd_open(child)
    while True:
        ready = select.select([fd, line], [], [], 0.5)[0]
        if line in ready:
            os._exit(0)
        while (found := _ended())[0]:
            if found[0] == child:
                os.write(to_warden, json.dumps(os.waitstatus_to_exitcode(found[1])).encode())
                os._exit(0)


def _ended():
    with suppress(ChildProcessError):
        return os.waitpid(-1, os.WNOHANG)
    return 0, 0


def hide():
    "Deny processes without privileges to trace this process or to read its memory"
    prctl(_DUMPABLE, 0)
