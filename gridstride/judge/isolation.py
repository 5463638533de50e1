"""Isolate a submission's process from the rest of the machine, on Linux, with namespaces, Landlock and limits.

`bwrap` builds the same sandbox, but only around a program that it starts. Submissions are forked from a process that
has already imported torch, which saves seconds per verdict, so this module builds the sandbox after the fork."""

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

CACHE_SECTION = 'judged'  # the section of the cache that `compiling` writes, and submissions can only read
_MAX_DISK = '1g'  # total size of the tmpfs folders to which a submission may write
_MAX_FILE_BYTES = 1 << 30
_MAX_OPEN_FILES = 1024
_MAX_PROCESSES = 256
_MAX_TASKS = 1024  # processes and threads
# With a limit of 0 for core dumps the system would still start its handler of core dumps; with 1 it does not.
_RESOURCE_LIMITS = {'RLIMIT_CORE': 1, 'RLIMIT_FSIZE': _MAX_FILE_BYTES, 'RLIMIT_NOFILE': _MAX_OPEN_FILES}
# file in /proc/sys -> limit; pid_max is per namespace since Linux 6.14
_KERNEL_LIMITS = {'kernel/pid_max': _MAX_TASKS, 'user/max_user_namespaces': 0}
_SYSTEM_ENTRIES = (
    'acpi asound bus driver fs irq scsi sys sysrq-trigger'.split()
)  # entries of /proc other than processes
_HIDDEN_FOLDERS = '/root /home /mnt /media /srv /run /tmp /var/tmp /var/mail /var/spool /etc/ssh'
_DEVICES = 'null zero full random urandom nvidia* dri kfd'.split()

# Constants from linux/sched.h, mount.h, prctl.h, keyctl.h and landlock.h
_NEW_USER, _NEW_MOUNT, _NEW_PID, _NEW_NET, _NEW_IPC, _NEW_UTS = (
    0x10000000,
    0x20000,
    0x20000000,
    0x40000000,
    0x08000000,
    0x04000000,
)
_BIND = 0x1000
_RECURSIVE = 0x4000
_PRIVATE = 1 << 18
_NOSUID = 2
_NODEV = 4
_NOEXEC = 8
_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_ATTR_READ_ONLY = 1
_SET_DUMPABLE, _DROP_CAPABILITY, _NO_NEW_PRIVILEGES = 4, 24, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446  # system calls
_KEYCTL = dict(x86_64=250, aarch64=219)  # machine -> number of the system call
_JOIN_SESSION_KEYRING = 1
_EXECUTE = 1 << 0
_WRITE = 1 << 1
_READ = 1 << 2
_LIST = 1 << 3
_IOCTL = 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | 1 << 14 | _IOCTL  # rights that apply to files; others apply to folders only


def _call(name, *args):
    "Call a function of the C library; raises `OSError` if it fails"
    libc = ctypes.CDLL(None, use_errno=True)
    args = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    if (result := getattr(libc, name)(*args)) == -1:
        raise OSError(ctypes.get_errno(), f'{name}: {os.strerror(ctypes.get_errno())}')
    return result


def prctl(option, value=0):
    "Call Linux's prctl; on other systems do nothing"
    if sys.platform == 'linux':
        with suppress(OSError):
            _call('prctl', option, value, 0, 0, 0)


# Folders
def _is_inside(path, folders):
    "Return whether a path is one of these folders, or is inside one of them"
    return any(path == folder or path.startswith(folder.rstrip('/') + '/') for folder in folders)


def hidden_folders() -> list:  # of paths
    "List the folders that are hidden from a submission: homes, other disks, mail, temporary files, sockets of services"
    folders = {os.path.expanduser('~'), tempfile.gettempdir(), *_HIDDEN_FOLDERS.split()}
    paths = sorted({os.path.realpath(path) for path in folders} - {'/'})
    return [path for i, path in enumerate(paths) if os.path.isdir(path) and not _is_inside(path, paths[:i])]


def _unreadable_files():
    "List files in /etc without read permission for all users, such as keys, which a submission of root could read"
    folders = filter(os.path.isdir, ('/etc', '/etc/ssl'))
    entries = [entry for folder in folders for entry in os.scandir(folder) if not entry.is_symlink()]
    return [entry.path for entry in entries if not entry.stat().st_mode & stat.S_IROTH]


def named_sockets() -> list:  # of paths
    "List sockets with a path, to which a process can connect even on a read-only file system"
    with suppress(OSError):
        fields = (line.split(maxsplit=7) for line in Path('/proc/net/unix').read_text(errors='replace').splitlines())
        return sorted({field[7] for field in fields if len(field) > 7 and field[7].startswith('/')})
    return []


def needed_paths(folders) -> list:  # of paths
    "List the paths in hidden folders that a submission needs: Python, its packages, compilers, drivers"
    paths = [sys.prefix, sys.base_prefix, *sys.path, str(Path(__file__).parents[1]), '/run/opengl-driver']
    for name in ('PATH', 'LD_LIBRARY_PATH', 'CUDA_HOME', 'CUDA_PATH', 'CXX', 'CC'):
        paths += os.environ.get(name, '').split(os.pathsep)
    paths = [path for path in paths if os.path.isabs(path) and os.path.exists(path)]
    candidates = {*map(os.path.abspath, paths), *map(os.path.realpath, paths)}
    inner_paths = sorted(
        path for path in candidates if _is_inside(path, folders) and not any(_is_inside(f, [path]) for f in folders)
    )
    return [path for i, path in enumerate(inner_paths) if not _is_inside(path, inner_paths[:i])]


# Mounts, in a new mount namespace
def _mount(source, target, file_system=None, flags=0, options=None):
    args = source, target, file_system, options
    source, target, file_system, options = (arg.encode() if isinstance(arg, str) else arg for arg in args)
    _call('mount', source, target, file_system, flags, options)


def _make_read_only(path, recursive=True):
    "Make the mount at `path`, and all mounts below it, read-only"
    attributes = struct.pack('QQQQ', _ATTR_READ_ONLY, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    _call('syscall', _MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, attributes, len(attributes))


def _mount_tmpfs(path, size=_MAX_DISK):
    "Mount an empty tmpfs at `path`, with a limit on bytes and files"
    os.path.isdir(path) or os.makedirs(path)
    _mount('tmpfs', path, 'tmpfs', _NOSUID | _NODEV, f'size={size},nr_inodes=64k,mode=755')


def _mount_common_tmpfs(paths):
    "Mount folders of one tmpfs at all of `paths`, so that they have a common limit on bytes and files"
    first = paths[0]
    _mount_tmpfs(first)
    for i, path in reversed([*enumerate(paths)]):  # the first path last, because its mount contains all of them
        os.path.isdir(path) or os.makedirs(path)
        os.mkdir(f'{first}/{i}')
        _mount(f'{first}/{i}', path, flags=_BIND)


def _bind_mount(path, fd):
    "Mount the file or folder of `fd` at `path`, which another mount has hidden"
    if os.path.isdir(f'/proc/self/fd/{fd}'):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, 'w').close()
    _mount(f'/proc/self/fd/{fd}', path, flags=_BIND | _RECURSIVE)
    os.close(fd)


def _open_paths(paths):  # path -> file descriptor, which stays valid if a mount hides the path
    return {path: os.open(path, os.O_PATH) for path in paths}


def _cache_folders(cache):
    "List the folders of existing compile caches: `cache`, and those of Triton, torch and the driver"
    home = os.path.expanduser('~')
    paths = [cache, f'{home}/.triton', f'{home}/.nv', f'{home}/.cache/torch_extensions']
    paths += [
        os.environ.get(name, '') for name in ('TRITON_CACHE_DIR', 'TORCH_EXTENSIONS_DIR', 'TORCHINDUCTOR_CACHE_DIR')
    ]
    return [path for path in dict.fromkeys(map(os.path.abspath, filter(None, paths))) if os.path.isdir(path)]


def _mount_overlay(path, lower_fd, upper):
    "Mount the folder of `lower_fd` at `path`; writes go to the folder `upper`"
    for name in ('upper', 'work'):
        os.mkdir(f'{upper}/{name}')
    os.makedirs(path, exist_ok=True)
    options = f'lowerdir=/proc/self/fd/{lower_fd},upperdir={upper}/upper,workdir={upper}/work,userxattr'
    _mount('overlay', path, 'overlay', _NOSUID | _NODEV, options)
    os.close(lower_fd)


def _mount_empty(path):
    "Mount an empty file or folder at `path`"
    with suppress(OSError):
        _mount_tmpfs(path, '4k') if os.path.isdir(path) else _mount('/dev/null', path, flags=_BIND)


def _hide_folders(folders, writable, cache):
    "Hide folders, except for the needed paths in them; writes to caches are discarded at the end"
    needed, caches = _open_paths(needed_paths(folders)), _open_paths(_cache_folders(cache))
    judged = _open_paths(filter(os.path.isdir, [os.path.join(cache, CACHE_SECTION)]))
    _mount_common_tmpfs([*folders, *writable])
    for path, fd in needed.items():
        _bind_mount(path, fd)
    for path in (os.path.expanduser('~'), tempfile.gettempdir()):
        with suppress(OSError):  # the home of some users does not exist
            os.makedirs(path, exist_ok=True)
    for path, fd in caches.items():
        _mount_overlay(path, fd, tempfile.mkdtemp(prefix='.written-', dir='/tmp'))
    for path, fd in judged.items():  # unlike an overlay, this mount shows modules that are compiled later
        _bind_mount(path, fd)
        _make_read_only(path)


def _device_files():
    return [p for device in _DEVICES for p in glob.glob(f'/dev/{device}')]


def _mount_devices():
    "Mount a /dev with only the GPUs and the devices that every program needs: no terminals, no disks"
    devices = _open_paths(_device_files())
    _mount_tmpfs('/dev', '1m')
    for path, fd in devices.items():
        _bind_mount(path, fd)
    for name, target in dict(fd='', stdin='/0', stdout='/1', stderr='/2').items():
        os.symlink(f'/proc/self/fd{target}', f'/dev/{name}')


def _mount_proc():
    """Mount a /proc that shows the processes of this namespace, with read-only system settings. The entries of the
    process itself are writable, because the CUDA driver must name its threads there"""
    try:
        _mount('proc', '/proc', 'proc', _NOSUID | _NODEV | _NOEXEC)
    except OSError:  # a container that hides parts of /proc does not allow a new one; the old one is read-only
        return
    for name, maximum in _KERNEL_LIMITS.items():
        with suppress(OSError):
            Path('/proc/sys', name).write_text(str(maximum))
    for path in filter(os.path.exists, (f'/proc/{name}' for name in _SYSTEM_ENTRIES)):
        _mount(path, path, flags=_BIND | _RECURSIVE)
        _make_read_only(path)
    for path in filter(os.path.exists, ('/proc/keys', '/proc/key-users')):
        _mount_empty(path)


def mount_file_system(
    folder,  # of the submission; remains writable
    cache,  # the compile cache
    sockets=(),  # paths of named sockets to hide
):
    "Mount a file system that contains only the files that a submission needs, in the first process of new namespaces"
    _mount('none', '/', flags=_RECURSIVE | _PRIVATE)
    contents = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    _make_read_only('/')
    hidden = hidden_folders()
    _mount_devices()
    _hide_folders(hidden, ['/dev/shm', *[folder] * (not _is_inside(folder, hidden))], cache)
    for path in filter(os.path.exists, [*_unreadable_files(), *sockets]):
        _mount_empty(path)
    os.makedirs(folder, exist_ok=True)
    for name, content in contents.items():
        (Path(folder) / name).write_bytes(content)
    _mount_proc()


def enter_namespaces():
    "Enter new namespaces; children are in a new PID namespace, too. Raises `OSError` if the system does not allow it"
    uid = os.getuid()
    gid = os.getgid()
    _call('unshare', _NEW_USER | _NEW_MOUNT | _NEW_PID | _NEW_NET | _NEW_IPC | _NEW_UTS)
    Path('/proc/self/setgroups').write_text('deny')
    Path('/proc/self/uid_map').write_text(f'{uid} {uid} 1')
    Path('/proc/self/gid_map').write_text(f'{gid} {gid} 1')


def are_namespaces_supported(
    cache,  # the compile cache
) -> bool:
    "Return whether this system supports the namespaces and mounts; tries them in a separate process"
    if sys.platform != 'linux' or not hasattr(os, 'pidfd_open'):
        return False
    with tempfile.TemporaryDirectory(prefix='gridstride-judge-') as folder:
        return _succeeds(lambda: enter_namespaces() or _succeeds(lambda: mount_file_system(folder, cache) or True))


def _succeeds(function):
    "Return whether a function returns a true value in a fork"
    if pid := os.fork():
        return os.waitpid(pid, 0)[1] == 0
    with suppress(OSError):
        os._exit(not function())
    os._exit(1)


# Privileges
def drop_privileges():
    "Drop all capabilities, for this process and all programs that it starts"
    if sys.platform != 'linux':
        return
    for capability in range(64):
        prctl(_DROP_CAPABILITY, capability)
    with suppress(OSError):
        _call('capset', struct.pack('Ii', 0x20080522, 0), bytes(24))
    prctl(_NO_NEW_PRIVILEGES, 1)
    prctl(_SET_DUMPABLE, 1)


def replace_session_keyring():
    "Replace the session's keyring, which may have keys and tickets of this user, with an empty one"
    with suppress(OSError, KeyError):
        _call('syscall', _KEYCTL[os.uname().machine], _JOIN_SESSION_KEYRING, None, 0, 0, 0)


def _paths_outside(folders, path='/'):
    "Yield the topmost folders and the files that together contain the whole file system except `folders`"
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


def apply_landlock(
    readable,  # paths
    writable,  # paths
) -> int:  # the version of Landlock; 0 if the system has none
    "Deny all other files, network connections, and signalling or tracing of other processes"
    with suppress(OSError):
        version = _call('syscall', _CREATE_RULESET, None, 0, 1)
        all_rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
        attributes = struct.pack('QQQ', all_rights, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
        ruleset = _call('syscall', _CREATE_RULESET, attributes, len(attributes), 0)
        for path in readable:
            _allow(ruleset, path, _EXECUTE | _READ | _LIST)
        for path in _device_files():
            _allow(ruleset, path, (_READ | _LIST | _WRITE | _IOCTL) & all_rights)
        _allow(ruleset, '/dev', _LIST)
        _allow(ruleset, f'/proc/{os.getpid()}', all_rights)  # the CUDA driver writes there when it starts
        for path in writable:
            _allow(ruleset, path, all_rights)
        _call('syscall', _RESTRICT, ruleset, 0)
        os.close(ruleset)
        return version
    return 0


def confine(
    folder,  # of the submission
    cache,  # the compile cache
    has_namespaces: bool,  # this process is in new namespaces
    disabled=(),  # keys of `verdicts.ISOLATION`: disabled protections
) -> list:  # keys of `verdicts.ISOLATION`: the active protections
    "Drop privileges and keys, and apply Landlock and a seccomp filter"
    protections = ['processes', 'files', 'network'] if has_namespaces else []
    if has_namespaces and os.readlink('/proc/self') != str(os.getpid()):  # a container that does not allow a new /proc
        protections.remove('processes')
    if sys.platform == 'linux':
        drop_privileges()
        hidden = hidden_folders()
        replace_session_keyring()
        if has_namespaces:
            readable, hidden_writable = ['/'], [*hidden, '/proc']
        else:
            readable = [*_paths_outside([*hidden, '/dev', *_unreadable_files()]), *needed_paths(hidden)]
            hidden_writable = []
        writable = [folder, '/dev/shm', *_cache_folders(cache), *hidden_writable]
        if 'landlock' not in disabled and apply_landlock(readable, writable) > 0:
            protections.append('landlock')
        if 'seccomp' not in disabled and seccomp.install_filter():
            protections.append('seccomp')
    return [*protections, 'limits']


def limit_resources(cpu_seconds):
    "Limit the resources of this process"
    for name, maximum in _RESOURCE_LIMITS.items():
        resource_id = getattr(resource, name)
        hard_limit = resource.getrlimit(resource_id)[1]
        maximum = maximum if hard_limit < 0 else min(maximum, hard_limit)
        resource.setrlimit(resource_id, (maximum, maximum))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    with suppress(OSError):  # if memory runs short, the system should kill this process first
        Path('/proc/self/oom_score_adj').write_text('1000')


def limit_processes():
    "Limit the processes and threads in a submission's namespace"
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (_MAX_TASKS, _MAX_TASKS))


# The descendants of the supervisor
def children(pid='self') -> list:
    "List the child processes of a process"
    with suppress(OSError):
        tasks = Path(f'/proc/{pid}/task').iterdir()
        return [int(child) for task in tasks for child in (task / 'children').read_text().split()]
    return []


def _is_alive(pid):
    "Return whether a process is running; a zombie is not"
    with suppress(OSError, IndexError):
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] not in 'ZX'
    return False


def is_stopped(pid):
    "Return whether a process is stopped by a signal"
    with suppress(OSError, IndexError):
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] == 'T'
    return True


def descendants(pid='self') -> list:
    "List all running descendants of a process"
    direct = children(pid)
    indirect = [descendant for child in direct for descendant in descendants(child)]
    return [child for child in direct if _is_alive(child)] + indirect


def total_memory() -> int:
    "Return the bytes of memory of this machine or container"
    total = 1 << 62
    with suppress(OSError, ValueError):
        total = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
        total = min(total, int(Path('/sys/fs/cgroup/memory.max').read_text()))
    return total


def _smaps_bytes(pid, name):
    "Return the counter `name` of a process in smaps_rollup, in bytes"
    with suppress(OSError, ValueError, IndexError):
        text = Path(f'/proc/{pid}/smaps_rollup').read_text()
        return 1024 * int(text.partition(f'\n{name}:')[2].split()[0])
    return 0


def _resident_bytes(pid):
    "Return the resident bytes of a process, including memory that it shares"
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f'/proc/{pid}/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    return 0


def tmpfs_bytes() -> int:
    "Return the total bytes of files in memory on this machine or in this container"
    for path, pattern in ('/sys/fs/cgroup/memory.stat', r'shmem (\d+)$'), ('/proc/meminfo', r'Shmem: +(\d+) kB'):
        with suppress(OSError):
            if match := re.search(f'^{pattern}', Path(path).read_text(), re.M):
                return int(match[1]) * (1024 if 'kB' in match[0] else 1)
    return 0


def exceeded_limit(
    max_memory,  # bytes
    tmpfs_bytes_before,  # `tmpfs_bytes()` before the submission started
) -> str:  # '' if there is none
    "Describe the limit that the descendants of this process jointly exceed"
    pids = descendants()
    file_bytes = max(0, tmpfs_bytes() - tmpfs_bytes_before)
    if len(pids) > _MAX_PROCESSES:
        return f'more than {_MAX_PROCESSES} processes'
    # The first sum, which counts shared memory several times, is only a quick test.
    if sum(map(_resident_bytes, pids)) + file_bytes > max_memory:
        mapped_file_bytes = sum(_smaps_bytes(pid, 'Pss_Shmem') for pid in pids)  # counted in Pss, too
        if sum(_smaps_bytes(pid, 'Pss') for pid in pids) + max(0, file_bytes - mapped_file_bytes) > max_memory:
            return f'more than {max_memory / 2**30:.3g} GiB of memory'
    return ''


# The first process of a PID namespace; when it ends, the system kills all others
def wait_for_child(
    child,  # the submission's process
    lifeline,  # a pipe whose other end closes when the supervisor ends
    status_pipe,  # a pipe for the child's exit status
):
    "Wait until the child or the supervisor ends; wait for orphans, too, so that they do not remain zombies"
    fd = os.pidfd_open(child)
    while True:
        ready_fds = select.select([fd, lifeline], [], [], 0.5)[0]
        if lifeline in ready_fds:
            os._exit(0)
        while (pid_and_status := _wait_for_any())[0]:
            if pid_and_status[0] == child:
                os.write(status_pipe, json.dumps(os.waitstatus_to_exitcode(pid_and_status[1])).encode())
                os._exit(0)


def _wait_for_any():  # (pid, status) of an ended child, or (0, 0)
    with suppress(ChildProcessError):
        return os.waitpid(-1, os.WNOHANG)
    return 0, 0


def forbid_tracing():
    "Forbid processes without privileges to trace this process or to read its memory"
    prctl(_SET_DUMPABLE, 0)
