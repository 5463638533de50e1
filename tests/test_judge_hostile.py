"""Submissions that attack the judge or the machine: each is rejected, or has no effect.

`PRELUDE` gives them what they need; each prints what it could get hold of, and returns a right answer, so that nothing
but the attack itself can be a reason to reject it."""
import ctypes
import json
import math
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import pytest
from exhaustive import mark_exhaustive
from gridstride.cpp.toolchain import compilers
from gridstride.judge import TASKS, Verdict, compiling, honest, processes, read_submission, wire
from gridstride.judge.__main__ import main
from gridstride.judge.calls import CallChecker, Call, Rejection, _valid_facts
from gridstride.judge.isolation import are_namespaces_supported, descendants, hidden_folders, is_stopped, needed_paths
from gridstride.judge.verdicts import ISOLATION
from gridstride.utils import cache_dir
from found import names
from judging import ON_GPU, cpu_only, judge, where

pytestmark = where

PRELUDE = '''import ctypes, glob, json, os, signal, socket, subprocess, sys, time
import torch

libc = ctypes.CDLL(None, use_errno=True)


def attempt(f):
    try: return str(f())
    except (Exception, SystemExit) as e: return 'no: ' + type(e).__name__


def say(**got): print(json.dumps(got), flush=True)


def put(path, text, how='w'):
    with open(path, how) as f: return f.write(text)


def custom_kernel(data): return torch.softmax(data, -1)


'''
EVERYTHING = tuple(ISOLATION)


@pytest.fixture
def servers(monkeypatch):
    "Servers of this test's own, which see the environment that it sets"
    monkeypatch.setattr(processes, '_servers', {})
    yield processes._servers
    processes.stop()


def attack(text, **values):
    "The verdict on a submission with these values in it, and what it said, which must fit into what a verdict keeps"
    for name, value in values.items(): text = text.replace(name, repr(value))
    v = judge(PRELUDE + text, 'softmax')
    assert not v.accepted or len(v.log) < processes._MAX_LOG_CHARACTERS, 'the log was cut off: print less'
    said = [json.loads(o) for o in v.log.splitlines() if o.startswith('{')]
    return v, {k: x for o in said for k, x in o.items()}


@pytest.fixture(scope='module')
def sandbox():
    "A system that offers all of it. Elsewhere the verdict states what is missing: there is nothing else to test"
    held = judge(honest()['softmax_torch']).isolation
    if held != EVERYTHING: pytest.skip(f'this system offers {", ".join(held)} alone')


@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux has namespaces')
def test_a_verdict_says_what_holds():
    v = judge(honest()['softmax_torch'])
    supported = are_namespaces_supported(str(cache_dir()))
    assert ('processes' in v.isolation) == ('files' in v.isolation) == supported, v.isolation
    assert 'limits' in v.isolation and ('not isolated' in str(v)) == (v.isolation != EVERYTHING)


@pytest.mark.slow
@pytest.mark.usefixtures('sandbox')
def test_a_submission_cannot_rewrite_files_of_the_judge():
    "Modules, what Python runs at its start, compiled modules"
    marker = '# planted'
    v, got = attack('''
import gridstride.judge as j
folders = [o for o in sys.path if os.path.isdir(o)] + [os.path.dirname(j.__file__)]
say(own=[attempt(lambda: put(o, MARKER, 'a')) for o in glob.glob(os.path.dirname(j.__file__) + '/*.py')],
    start=[attempt(lambda: put(o + '/sitecustomize.py', MARKER)) for o in folders],
    pth=[attempt(lambda: put(o + '/planted.pth', 'import os ' + MARKER)) for o in folders],
    chmod=attempt(lambda: os.chmod(j.__file__, 0o777)),
    rename=attempt(lambda: os.rename(os.path.dirname(j.__file__), os.path.dirname(j.__file__) + '2')))
''', MARKER=marker)
    assert v.accepted, str(v)
    folder = Path(processes.__file__).parent
    assert len(got['own']) > 10 and all(o.startswith('no: ') for o in got['own'])
    assert got['chmod'].startswith('no: ') and got['rename'].startswith('no: ')
    assert not any(marker in o.read_text() for o in folder.glob('*.py'))
    assert not [o for p in map(Path, sys.path) for o in (p/'planted.pth', p/'sitecustomize.py')
                if o.exists() and marker in o.read_text()]


@pytest.mark.usefixtures('sandbox')
def test_what_a_submission_puts_into_the_cache_is_gone():
    "It finds what was compiled, and can add to it, for itself alone"
    before = {o.name for o in cache_dir().iterdir()}  # other tests add to it meanwhile
    v, got = attack('''
cache = os.environ['GRIDSTRIDE_CACHE']
say(there=len(os.listdir(cache)), put=attempt(lambda: put(cache + '/planted', 'x')),
    replaced=[attempt(lambda: put(o, 'x')) for o in glob.glob(cache + '/*/*')[:20]],
    read=attempt(lambda: open(cache + '/planted').read()))
''')
    assert v.accepted and got['read'] == 'x' and got['there'] > len(before)//2, (str(v), got)
    assert not (cache_dir()/'planted').exists()
    replaced = []
    for entry in cache_dir().iterdir():
        with suppress(OSError):  # another test builds it, and renames it
            replaced += [o for o in entry.iterdir() if o.is_file() and o.stat().st_size == 1]
    assert not replaced


# What is compiled elsewhere, and kept
COMPILES = '''
from gridstride.cpp.toolchain import build; from gridstride.cpp import cuda_kernel
from gridstride.judge import wire
SRC = """__global__ void plus(int *x) { x[0] += NUMBER; }"""
cache = os.environ['GRIDSTRIDE_CACHE']


def run(k):
    x = torch.ones(1).int()
    k[1, 1](x)
    return int(x)


'''


def compiled(text, number): return attack(COMPILES + text, NUMBER=number)[1]


def judged():
    "{name: inode} of the folders that are complete: a folder being compiled has a suffix"
    return {p.name: p.stat().st_ino for p in (cache_dir()/'judged').iterdir() if not p.name[20:].startswith('.')}


@cpu_only
@pytest.mark.usefixtures('sandbox')
def test_what_was_compiled_for_a_submission_is_kept_where_it_cannot_write():
    "The second verdict compiles nothing, nor does the second process of the first one"
    number, before = 1000 + secrets.randbelow(10**6), judged()
    text = '''
k = cuda_kernel(SRC)
folder = str(k.build_result.folder)
files = glob.glob(folder + '/*')
say(got=run(k), folder=folder, files=len(files), put=attempt(lambda: put(cache + '/judged/planted', 'x')),
    replaced=[attempt(lambda: put(o, 'x')) for o in files], renamed=attempt(lambda: os.rename(folder, folder + '2')),
    made=attempt(lambda: os.mkdir(cache + '/judged/' + 'a' * 20)), unmounted=libc.umount(cache.encode() + b'/judged'),
    chmod=attempt(lambda: os.chmod(folder, 0o777)))
'''
    first = compiled(text, number)
    new, made = Path(first['folder']).name, judged()  # other tests' modules are added meanwhile
    assert first['got'] == number + 1 and Path(first['folder']) == cache_dir()/'judged'/new, first
    assert new in made and new not in before and first['files'] > 2, first
    assert all(o.startswith('no: ') for o in first['replaced']), first
    assert all(first[o].startswith('no: ') for o in ('put', 'renamed', 'made', 'chmod')) and first['unmounted'] == -1
    assert compiled(text, number) == first and judged()[new] == made[new] and 'planted' not in judged()


@cpu_only
@pytest.mark.usefixtures('sandbox')
def test_what_a_submission_asks_to_compile_is_found_by_that_alone():
    "Whatever it requests: a changed header of ours, other flags, other names, an invalid request"
    number = 1000 + secrets.randbelow(10**6)
    got = compiled('''
client, evil = build.compile_remotely, '#include "/proc/self/cwd/../emulator.h"'
def ask(asked):
    try:
        wire.send(client.sock, {}, [json.dumps(asked).encode() if not isinstance(asked, bytes) else asked])
        return wire.receive(client.sock)[0]
    except Exception as e: return 'no: ' + type(e).__name__
def plants(asked, fail):
    text = asked.sources['plus.cpp'].replace('+= NUMBER', '+= 7')
    say(other=ask(asked._replace(sources={**asked.sources, 'plus.cpp': text})),
        flag=ask(asked._replace(flags=[*asked.flags, '-DOTHER=7'])),
        wrapped=ask(asked._replace(flags=[*asked.flags, '-wrapper', 'sh,-c,cp /etc/passwd "$PWD/../planted"'])),
        plugin=ask(asked._replace(flags=[*asked.flags, '-fplugin=/tmp/planted.so'])),
        above=ask(asked._replace(sources={**asked.sources, '../planted': 'x'})))
    say(after=ask(asked))
build.compile_remotely = plants
say(got=run(cuda_kernel(SRC)))
'''.replace('NUMBER', str(number)), number)
    assert set(got['other']) == set(got['flag']) == {'folder'} and got['got'] == number + 1, got
    assert 'log' in got['wrapped'] and 'log' in got['plugin'], got
    assert got['above'] == got['after'] == 'no: ConnectionClosed', got
    # os.walk skips the folders that another process's compilation removes meanwhile
    assert not [base for base, _, files in os.walk(cache_dir()) if 'planted' in files]
    assert all(re.fullmatch('[0-9a-f]{20}', o) for o in judged())
    honest_one = compiled('k = cuda_kernel(SRC)\nsay(got=run(k), folder=k.build_result.folder.name)', number)
    assert honest_one['got'] == number + 1
    assert honest_one['folder'] not in (got['other']['folder'], got['flag']['folder'])


@cpu_only
@pytest.mark.usefixtures('sandbox')
def test_compile_errors_are_reported_as_usual():
    v, _ = attack(COMPILES + 'cuda_kernel(SRC.replace(";", ":"))', NUMBER=1)
    assert v.code == 'raised' and 'CompileError' in v.reason, str(v)


@cpu_only
@pytest.mark.usefixtures('sandbox')
def test_a_submission_that_asks_without_end_is_ended_in_time():
    "It waits for no process when it has finished"
    begin = time.monotonic()
    v, _ = attack(COMPILES + '''
asked = build.CompileRequest({'plus.cpp': 'int x;'}, 'plus', ['-wrapper', 'sleep,999'], (), (), (), ())
wire.send(build.compile_remotely.sock, {}, [json.dumps(asked).encode()])
os._exit(3)
''', NUMBER=1)
    assert v.code == 'died' and time.monotonic() - begin < 120, str(v)


@pytest.mark.usefixtures('sandbox')
def test_nothing_of_the_judge_can_be_read_or_stopped():
    "By its number, which the submission even gets; by /proc, by ptrace, by process_vm_readv, by a signal to all"
    secret = f'the answer is {os.getpid()}'
    v, got = attack('''
pid, parent = JUDGE, os.getppid()
def trace(p): return libc.ptrace(16, p, 0, 0)
class Part(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
def peek(p):
    room = ctypes.create_string_buffer(64)
    mine, theirs = Part(ctypes.addressof(room), 64), Part(ADDRESS, 64)
    libc.process_vm_readv(p, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
    return SECRET_WORD in room.value.decode(errors='replace')
say(seen=[o for o in os.listdir('/proc') if o.isdigit()],
    memory=attempt(lambda: len(open(f'/proc/{pid}/mem', 'rb').read(1))),
    files=attempt(lambda: os.listdir(f'/proc/{pid}/fd')), environ=attempt(lambda: open(f'/proc/{pid}/environ').read()),
    parent=attempt(lambda: open(f'/proc/{parent}/mem', 'rb').read(1)), parents_files=attempt(lambda:
        [os.readlink(o) for o in glob.glob(f'/proc/{parent}/fd/*')]),
    traced=[trace(pid), trace(parent)], peeked=[peek(pid), peek(parent)],
    killed=[attempt(lambda: os.kill(p, s)) for p in (pid, parent, -1) for s in (signal.SIGSTOP, signal.SIGKILL)
            if p != -1 or s == signal.SIGSTOP])
''', JUDGE=os.getpid(), ADDRESS=id(secret) + 40, SECRET_WORD='the answer is ')
    assert got['seen'] == ['1', '2'], got
    assert got['traced'] == [-1, -1] and got['peeked'] == [False, False], got
    for what in ('memory', 'files', 'environ', 'parent'): assert got[what].startswith('no: '), (what, got)
    assert got['parents_files'] in ('[]', 'no: PermissionError'), got
    assert v.accepted, str(v)  # it goes on, as its signals reach no process
    assert judge(honest()['softmax_torch'])


@pytest.mark.usefixtures('sandbox')
def test_a_signal_to_all_ends_the_submission_alone():
    v, _ = attack('''
def custom_kernel(data):
    attempt(lambda: os.kill(-1, signal.SIGKILL))
    os.kill(0, signal.SIGKILL)
''')
    assert v.code == 'died', str(v)


@pytest.mark.slow
@pytest.mark.usefixtures('sandbox')
def test_neither_keys_nor_passwords_are_there(servers, tmp_path, monkeypatch):
    "Files of the home folder, of the system, and variables, by whatever way"
    (tmp_path/'.ssh').mkdir()
    (tmp_path/'.ssh'/'id_ed25519').write_text('a private key')
    monkeypatch.setenv('HOME', str(tmp_path))
    for o in ('CLOUD_TOKEN', 'NVIDIA_API_KEY', 'SSH_AUTH_SOCK', 'LD_AUDIT', 'PYTHONSTARTUP'):
        monkeypatch.setenv(o, 'a password')
    v, got = attack('''
home = os.path.expanduser('~')
say(home=home, there=os.listdir(home), key=attempt(lambda: open(KEY).read()), shadow=attempt(lambda:
    open('/etc/shadow').read()), kept=attempt(lambda: put(home + '/kept', 'x')),
    passwords=[PASSWORD in attempt(lambda: open(f'/proc/{p}/environ').read()) for p in ('self', 1)],
    known=[k for k, v in os.environ.items() if v == PASSWORD])
''', PASSWORD='a password', KEY=str(tmp_path/'.ssh'/'id_ed25519'))
    assert v.accepted and got['home'] == str(tmp_path), str(v)
    assert '.ssh' not in got['there'] and got['key'].startswith('no: ')
    assert got['shadow'] in ('', 'no: FileNotFoundError')
    assert got['passwords'] == [False, False] and not got['known'] and not (tmp_path/'kept').exists()


@pytest.mark.usefixtures('sandbox')
def test_there_is_no_network():
    "Neither a port of this machine, nor a socket by its name"
    with socket.socket() as port, socket.socket(socket.AF_UNIX) as named:
        port.bind(('127.0.0.1', 0))
        port.listen()
        named.bind(name := f'\0gridstride-{os.getpid()}')
        named.listen()
        v, got = attack('''
def reach(family, where): socket.socket(family).connect(where); return 'connected'
say(port=attempt(lambda: reach(socket.AF_INET, ('127.0.0.1', PORT))),
    named=attempt(lambda: reach(socket.AF_UNIX, NAME)))
''', PORT=port.getsockname()[1], NAME=name)
    assert v.accepted and got['port'].startswith('no: ') and got['named'].startswith('no: '), (str(v), got)


@pytest.mark.usefixtures('sandbox')
def test_the_system_cannot_be_changed():
    "By settings in /proc, by mounts, by devices, in a namespace of its own"
    before = Path('/proc/sys/kernel/core_pattern').read_text()
    v, got = attack('''
def again():
    if libc.unshare(0x10020000): return 'no: unshare'
    put('/proc/self/setgroups', 'deny')
    return libc.mount(b'none', b'/', None, 0x20 | 0x1000, None)
say(core=attempt(lambda: put('/proc/sys/kernel/core_pattern', '|/bin/false')),
    opened=libc.mount(b'none', b'/', None, 0x20 | 0x1000, None), again=attempt(again), freed=libc.umount(b'/tmp'),
    rooted=attempt(lambda: os.mknod('/dev/disk', 0o60600, os.makedev(8, 0))), devices=os.listdir('/dev'),
    terminal=[attempt(lambda: open(o, 'w')) for o in ('/dev/tty', '/dev/pts/0', '/dev/console')],
    caps=[o.split()[1] for o in open('/proc/self/status') if o[:6] in ('CapEff', 'CapPrm', 'CapBnd')])
''')
    assert v.accepted and got['core'].startswith('no: '), (str(v), got)
    assert got['opened'] == got['freed'] == -1 and got['again'] == 'no: unshare'
    assert got['rooted'].startswith('no: ') and all(o.startswith('no: ') for o in got['terminal'])
    assert got['caps'] == ['0' * 16] * 3 and Path('/proc/sys/kernel/core_pattern').read_text() == before


@pytest.mark.usefixtures('sandbox')
def test_no_more_is_open_than_its_messages_need():
    "The socket to the judge, the pipe by which it reports, and its output"
    v, got = attack("say(open=[os.readlink(o) for o in glob.glob('/proc/self/fd/*') if os.path.islink(o)])")
    files = got['open']
    if ON_GPU:  # without the driver's devices and events, and pipes of which it has both ends; it may have sockets, too
        files = [o for o in files if not re.match('/dev/(nvidia|zero)|anon_inode:|/proc', o)
                 and (o[:5] != 'pipe:' or files.count(o) == 1)]
    kinds = sorted(re.sub(r'[\d\[\]() ].*', '', o) for o in files)
    channels = [o for o in kinds if o[0] != '/']
    assert v.accepted and (sorted(set(channels)) if ON_GPU else channels) == ['pipe:', 'socket:'], files
    assert [o for o in kinds if o[0] == '/'][:3] == ['/dev/null', '/tmp/#', '/tmp/#'], files
    assert len(kinds) - channels.count('socket:') <= 5, files


@pytest.mark.usefixtures('sandbox')
def test_its_folders_are_limited_and_vanish():
    name = f'planted-{os.getpid()}'
    v, got = attack('''
places = ['/tmp', '/dev/shm', '/var/tmp', os.getcwd(), os.path.expanduser('~')]
say(put=[attempt(lambda: put(f'{o}/NAME', 'x')) for o in places],
    room=[os.statvfs(o).f_bavail * os.statvfs(o).f_frsize for o in places])
'''.replace('NAME', name))
    assert v.accepted and got['put'] == ['1'] * 5 and max(got['room']) <= 1 << 30, (str(v), got)
    assert not [o for o in ('/tmp', '/dev/shm', '/var/tmp', Path.home()) if (Path(o)/name).exists()]


def test_a_file_has_a_limit():
    v, _ = attack("os.truncate(put('big', '') or 'big', 1 << 40)")
    assert not v and v.code in ('raised', 'died'), str(v)


@pytest.mark.usefixtures('sandbox')
def test_too_many_processes_end_it():
    "And it does not hold the machine up"
    begin = time.monotonic()
    v, _ = attack('''
while True:
    try: subprocess.Popen(['sleep', '600'])
    except OSError: pass
''')
    assert v.code == 'died' and '256 processes' in v.reason and time.monotonic() - begin < 120, str(v)


@lru_cache
def used_at_first():
    "Bytes that a process with a GPU has before a submission does anything: libraries of CUDA, pages that they pin"
    return attack("say(pages=int(open('/proc/self/statm').read().split()[1]))")[1]['pages']*4096 if ON_GPU else 0


def limit_memory(monkeypatch, n):
    "A submission may have so many bytes of memory"
    memory = os.sysconf('SC_PHYS_PAGES')*os.sysconf('SC_PAGE_SIZE')
    monkeypatch.setattr(processes, '_MEMORY_FRACTION', (n + used_at_first())/memory)


@pytest.mark.usefixtures('sandbox')
def test_too_much_memory_ends_it(monkeypatch):
    limit_memory(monkeypatch, 1 << 30)
    v, _ = attack("kept = bytearray(b'x' * (3 << 29)); time.sleep(60)")
    assert v.code == 'died' and 'GiB of memory' in v.reason, str(v)


@pytest.mark.usefixtures('sandbox')
@pytest.mark.parametrize('home', ['/nonexistent/home', str(Path(processes.__file__).parents[2]), '/'])
def test_a_sandbox_does_not_depend_on_where_the_home_folder_is(home, monkeypatch):
    "It may not exist, or hold the package: what is needed of it is shown"
    monkeypatch.setenv('HOME', home)
    package = str(Path(processes.__file__).parents[1])
    shown = any(Path(package).is_relative_to(o) for o in needed_paths(hidden_folders()))
    assert are_namespaces_supported(str(cache_dir()))
    assert shown == any(Path(package).is_relative_to(o) for o in hidden_folders())


# What reaches beyond a process without a path to it
@pytest.mark.usefixtures('sandbox')
def test_no_socket_and_no_pipe_leads_out():
    "Those that have names outside the hidden folders; families that no namespace isolates; shared memory"
    if any(Path(__file__).resolve().is_relative_to(o) for o in hidden_folders()):
        pytest.skip('these tests are in a folder that submissions find empty')
    with tempfile.TemporaryDirectory(prefix='.named-', dir=Path(__file__).parent) as folder, \
            socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        named.bind(f'{folder}/named')
        named.listen()
        datagrams.bind(f'{folder}/datagrams')
        os.mkfifo(f'{folder}/fifo')
        pipe = os.open(f'{folder}/fifo', os.O_RDWR | os.O_NONBLOCK)
        shared = ctypes.CDLL(None).shmget(key := os.getpid(), 4096, 0o1600)
        v, got = attack('''
def reach(name, kind):
    s = socket.socket(socket.AF_UNIX, kind)
    s.connect(FOLDER + '/' + name)
    return s.send(b'x')
families = [o for o in dir(socket) if o.startswith('AF_') and o != 'AF_UNIX']
say(there=os.path.isdir(FOLDER), named=attempt(lambda: reach('named', socket.SOCK_STREAM)),
    datagrams=attempt(lambda: reach('datagrams', socket.SOCK_DGRAM)), fifo=attempt(lambda:
    os.write(os.open(FOLDER + '/fifo', os.O_WRONLY | os.O_NONBLOCK), b'x')), shared=libc.shmget(KEY, 4096, 0o600),
    families=[o for o in families for kind in (1, 2, 3) if not attempt(lambda:
        socket.socket(getattr(socket, o), kind)).startswith('no: ')], pair=attempt(lambda: socket.socketpair() and 1))
''', FOLDER=folder, KEY=key)
        ctypes.CDLL(None).shmctl(shared, 0, None)
        for o in named, datagrams: o.setblocking(False)
        for reached in named.accept, lambda: datagrams.recv(1), lambda: os.read(pipe, 1):
            with pytest.raises(BlockingIOError): reached()
        os.close(pipe)
    assert v.accepted and got['there'] and got['families'] == [] and got['pair'] == '1', (str(v), got)
    assert shared >= 0 > got['shared'] and all(got[o].startswith('no: ') for o in ('named', 'datagrams', 'fifo')), got


KEYCTL, ADD_KEY = (250, 248) if os.uname().machine == 'x86_64' else (219, 217)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux has keyrings')
def test_no_key_of_the_keyrings_is_there(servers, monkeypatch):
    "Neither by its number nor by its name, even where the calls for keys are not denied"
    monkeypatch.setattr(processes, '_DISABLED_PROTECTIONS', ('seccomp',))
    libc, session = ctypes.CDLL(None), -3
    key = libc.syscall(ADD_KEY, b'user', b'gridstride-test', b'a secret', 8, session)
    if key < 0: pytest.skip('this system has no keyrings')
    try:
        v, got = attack('''
def read(key):
    room = ctypes.create_string_buffer(64)
    return '' if libc.syscall(CALL, 11, key, room, 64) < 0 else room.value.decode()
def find(ring): return read(libc.syscall(CALL, 10, ring, b'user', b'gridstride-test', 0))
say(mine=read(NUMBER), found=[find(ring) for ring in (-3, -4, -5)],
    listed=attempt(lambda: open('/proc/keys').read()))
''', CALL=KEYCTL, NUMBER=key)
    finally: libc.syscall(KEYCTL, 9, key, session)
    assert v.accepted and got['mine'] == '' and got['found'] == ['', '', ''], (str(v), got)
    assert 'seccomp' not in v.isolation and ('processes' not in v.isolation or got['listed'] == ''), (v.isolation, got)


@pytest.mark.usefixtures('sandbox')
def test_no_privilege_comes_back():
    "By namespaces, by calls in which the kernel had flaws, by other processes' folders, by settings and priorities"
    v, got = attack('''
import resource
NEW = dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x08000000, uts=0x04000000, time=0x80)
DENIED = (321, 298, 323, 304, 425, 308, 250) if os.uname().machine == 'x86_64' else (280, 241, 282, 265, 425, 268, 219)
SETTINGS = '/sys/fs/cgroup/cgroup.procs', '/proc/sys/kernel/hostname', '/proc/sys/vm/drop_caches', '/proc/sysrq-trigger'
def entered(p, kind): return libc.setns(os.open(f'/proc/{p}/ns/{kind}', os.O_RDONLY), 0)
def looked(o): return os.listdir(o) if os.path.isdir(o) else os.readlink(o) if os.path.islink(o) else open(o).read(1)
def won(f): return not attempt(f).startswith(('no: ', '-1'))
say(new=[o for o, flag in NEW.items() if not libc.unshare(flag)],
    denied=[libc.syscall(o, 0, 0, 0, 0, 0, 0) for o in DENIED],
    entered=[o for p in (1, 'self') for o in ('user', 'mnt', 'net', 'pid') if won(lambda: entered(p, o))],
    first=[o for o in ('root/tmp', 'cwd', 'mem', 'environ', 'map_files') if won(lambda: looked(f'/proc/1/{o}'))],
    set=[o for o in SETTINGS if won(lambda: put(o, '1'))],
    traced=[won(lambda: libc.ptrace(o, 1, 0, 0)) for o in (16, 0x4206)],
    borrowed=won(lambda: libc.syscall(438, os.pidfd_open(1), 0, 0)),
    root=[i for i, f in enumerate((lambda: os.chroot('/tmp'), lambda: socket.sethostname('x'), lambda: os.nice(-1),
        lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), lambda: os.setgroups([0]),
        lambda: time.clock_settime(0, 0), lambda: os.mknod('/tmp/null', 0o20666, os.makedev(1, 3)))) if won(f)],
    status=[o.split()[1] for o in open('/proc/self/status') if o.startswith(('NoNewPrivs', 'Seccomp:'))],
    core=resource.getrlimit(resource.RLIMIT_CORE)[0])
''')
    assert v.accepted, str(v)
    assert got['new'] == got['entered'] == got['first'] == got['set'] == got['root'] == [], got
    assert got['denied'] == [-1]*7 and got['traced'] == [False, False] and not got['borrowed'], got
    assert got['status'] == ['1', '2'] and got['core'] <= 1, got


@pytest.mark.usefixtures('sandbox')
def test_a_compiler_reads_no_more_than_the_submission():
    "What assembler and preprocessor can include, and code that runs as soon as a library is loaded"
    with tempfile.NamedTemporaryFile('w+', suffix='.h') as key:
        key.write('a private key')
        key.flush()
        v, got = attack(r'''
file = FILE
def compiled(text, *options):
    done = subprocess.run([COMPILER, '-x', 'c++', '-shared', '-fPIC', '-', '-o', 'made.so', *options], input=text,
                          text=True, capture_output=True)
    return 'made' if not done.returncode else 'private' if 'private' in done.stderr else 'no: failed'
begun = compiled('#include <stdlib.h>\n__attribute__((constructor)) void f() { _Exit(7); }')
start = [sys.executable, '-c', 'import ctypes; ctypes.CDLL("./made.so")']
say(began=[begun, *(subprocess.run(o, env=dict(os.environ, **more), capture_output=True).returncode
        for o, more in ((start, {}), (['true'], dict(LD_PRELOAD='./made.so'))))])
say(included=compiled(f'#include "{file}"'), forced=compiled('', '-include', file),
    macros=compiled('', '-imacros', file), lines=compiled(f'#line 1 "{file}"\n#error'),
    has=compiled(f'#if !__has_include("{file}")\n#error\n#endif'),
    assembled=compiled(f'asm(".incbin \\"{file}\\"");'), embedded=compiled(f'char x[] = {{\n#embed "{file}"\n}};'))
''', FILE=key.name, COMPILER=compilers.compiler().path)
    assert v.accepted and got.pop('began') == ['made', 7, 7], (str(v), got)  # within the sandbox it may do as it likes
    assert len(got) == 7 and set(got.values()) == {'no: failed'}, got


@pytest.mark.usefixtures('sandbox')
def test_all_its_folders_together_are_limited():
    v, got = attack('''
put('/tmp/big', 'x' * (1 << 24))
folders = [os.statvfs(o) for o in ('/tmp', '/dev/shm', '/var/tmp', '/run')]
say(size=[o.f_blocks * o.f_frsize for o in folders], files=[o.f_files for o in folders],
    left=[o.f_bavail * o.f_frsize >> 20 for o in folders])
''')
    assert v.accepted and set(got['size']) == {1 << 30} and max(got['files']) <= 1 << 16, (str(v), got)
    assert len(set(got['left'])) == 1 and got['left'][0] <= 1024 - 16, got


@pytest.mark.usefixtures('sandbox')
@pytest.mark.parametrize('where,text', [
    ('GiB of memory', "fd = os.memfd_create('x')\nfor _ in range(11): os.write(fd, b'x' * (1 << 26))"),
    ('GiB of memory', "for o in '/tmp/x', '/dev/shm/x': put(o, 'x' * (350 << 20))"),
    ('GiB of memory', '''libc.shmat.restype = ctypes.c_void_p
place = libc.shmat(libc.shmget(0, ctypes.c_size_t(700 << 20), 0o1600), None, 0)
ctypes.memset(place, 1, 700 << 20)
libc.shmdt(ctypes.c_void_p(place))'''),
    ('64 MiB of printed text', "for _ in range(2): os.write(1, b'x' * (48 << 20))"),
], ids=['memfd', 'files', 'sysv', 'output'])
def test_what_no_process_has_mapped_is_counted_too(where, text, monkeypatch):
    limit_memory(monkeypatch, 1 << 29)
    v, _ = attack(f'{text}\ntime.sleep(60)')
    assert v.code == 'died' and where in v.reason, str(v)


# Results and calls: each tries to be accepted for less than the work, or to harm the judge
TRICKS = dict(
    equal_to_all=('subclass', '''
class Same(torch.Tensor):
    def __eq__(self, other): return torch.ones(self.shape, dtype=torch.bool)
    def __torch_function__(*args, **kwargs): return Same()
def custom_kernel(data): return torch.zeros_like(data).as_subclass(Same)
'''),
    a_signal_fills_it=('late', '''
def custom_kernel(data):
    out = torch.zeros_like(data)
    signal.signal(signal.SIGALRM, lambda *_: out.copy_(torch.softmax(data, -1)))
    signal.setitimer(signal.ITIMER_REAL, .1)
    return out
'''),
    hides_its_thread=('late', '''
import threading
worker = sys.modules['gridstride.judge.worker']
worker.submission_threads.__code__ = (lambda before: '').__code__
def custom_kernel(data):
    out = torch.zeros_like(data)
    threading.Timer(.1, lambda: out.copy_(torch.softmax(data, -1))).start()
    return out
'''),
    a_finalizer_fills_it=('late', '''
import weakref
class Held: pass
def custom_kernel(data):
    global held
    out, held = torch.zeros_like(data), Held()
    weakref.finalize(held, lambda: out.copy_(torch.softmax(data, -1)))
    signal.signal(signal.SIGALRM, lambda *_: globals().pop('held'))
    signal.setitimer(signal.ITIMER_REAL, .1)
    return out
'''),
    at_the_end=('constant', '''
import atexit, gc
def custom_kernel(data):
    out = torch.zeros_like(data)
    atexit.register(lambda: out.copy_(torch.softmax(data, -1)))
    gc.callbacks.append(lambda *_: None)
    return out
'''),
    traces_the_judge=('inspected', '''
sys.addaudithook(lambda event, args: None)
sys.settrace(lambda *args: None)
'''),
    quick_calls_alone=('wrong later', '''
last = [0.]
def custom_kernel(data):
    before, last[0] = last[0], time.monotonic()
    return torch.zeros_like(data) if last[0] - before < 60 else torch.softmax(data, -1)
'''),
    told_sizes_roughly=('wrong later', '''
calls = [0]
def custom_kernel(data):
    calls[0] += 1
    out = torch.softmax(data, -1)
    return out.half().float() if calls[0] > 1 and data.shape == (7, 100) else out
'''),
    restores_its_input=('alias', '''
def custom_kernel(data):
    kept = data.clone()
    out = torch.from_dlpack(data) if ON_GPU else torch.from_numpy(data.numpy())
    return out.copy_(torch.softmax(kept, -1))
'''),
    another_storage=('alias', '''
def custom_kernel(data):
    out = torch.empty(0, device=data.device).set_(data.untyped_storage(), 0, data.shape, data.stride())
    return out.copy_(torch.softmax(data, -1))
'''),
    writes_by_address=('inputs', '''
def custom_kernel(data):
    out = torch.softmax(data, -1)
    x = ctypes.c_void_p(data.data_ptr())
    assert not ctypes.CDLL('libcuda.so.1').cuMemsetD32_v2(x, 0, 1) if ON_GPU else ctypes.memset(x, 0, 4)
    return out
'''),
    by_seeds=('constant', '''
def custom_kernel(data):
    torch.manual_seed(torch.initial_seed())
    return torch.softmax(3 * torch.randn(data.shape), -1)
'''),
    two_of_it=(('late', 'type', 'died', 'time', 'inputs', *['raised']*ON_GPU), '''
def custom_kernel(data):
    os.fork()
    return torch.softmax(data, -1)
'''),
    a_pickle=('type', '''
import pickle, struct
class Evil:
    def __reduce__(self): return os.system, ('true',)
def custom_kernel(data):
    text = pickle.dumps(Evil())
    for o in map(int, os.listdir('/dev/fd')):
        attempt(lambda: socket.socket(fileno=os.dup(o)).sendall(struct.pack('<Q', len(text)) + text))
    return torch.softmax(data, -1)
'''),
    speaks_for_its_worker=('constant', '''
worker = sys.modules['gridstride.judge.worker']
worker._inspect.__code__ = (lambda answer, data, writes: ([answer], {})).__code__
def custom_kernel(data): return torch.zeros_like(data)
'''),
    no_plain_memory=(('raised', 'type', 'subclass'), '''
def custom_kernel(data): return torch.nested.nested_tensor([torch.softmax(o, -1) for o in data])
'''),
    nowhere=(('raised', 'type', 'subclass'), '''
def custom_kernel(data): return torch.softmax(data.to('meta'), -1)
'''),
)  # fmt: skip


@pytest.mark.parametrize('name', sorted(TRICKS))
def test_a_trick_is_rejected(name):
    codes, text = TRICKS[name]
    v, _ = attack(text, ON_GPU=ON_GPU)
    assert not v and v.code in ((codes,) if isinstance(codes, str) else codes), str(v)


def soon(true):
    "A signal reaches a process when that is scheduled next"
    end = time.monotonic() + 120
    while not true() and time.monotonic() < end: time.sleep(.01)
    return true()


@pytest.mark.skipif(sys.platform != 'linux', reason='the states of processes are those of /proc')
def test_all_of_it_stands_still_while_the_reference_is_timed():
    "Also what it started, in another session, and its threads: it cannot make the reference slow"
    text = PRELUDE + """
import threading
threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()
for _ in range(3):
    if not os.fork():
        os.setsid()
        while True: pass
"""
    with processes.Process(read_submission(text), 'cpu', 20) as p:
        p.request(dict(op='load', form='custom_kernel', init=[]))
        with p.suspended():
            pids = descendants(p.pids[0])
            assert len(pids) >= 4 and soon(lambda: all(is_stopped(o) for o in pids))
        assert soon(lambda: not any(is_stopped(o) for o in pids))
        with p.suspended(): pass
        assert p.end() == 3


def test_the_reference_is_timed_while_the_submission_stands_still(monkeypatch):
    "On a CPU also the process in which launches do nothing"
    stopped = []
    monkeypatch.setattr(processes.Process, '_request_supervisor', lambda self, what: stopped.append((self, what)))
    v = judge(honest()['softmax_triton'], timing=True)
    n = 1 if ON_GPU else 2
    assert v and len(stopped) == 2*n*11 and len({o for o, _ in stopped}) == n, str(v)


def test_what_is_compiled_for_submissions_does_not_fill_the_disk(tmp_path, monkeypatch):
    "The newest entries remain, as many and as large as may be"
    monkeypatch.setattr(compiling, '_MAX_ENTRIES', 4)
    monkeypatch.setattr(compiling, '_MAX_CACHE_BYTES', 2500)
    for i, size in enumerate((10, 10, 1000, 1000, 10, 10, 10)):
        (tmp_path/f'{i}').mkdir()
        (tmp_path/f'{i}'/'made.so').write_bytes(bytes(size))
        os.utime(tmp_path/f'{i}', (i, i))
    compiling._prune(tmp_path)
    assert sorted(o.name for o in tmp_path.iterdir()) == ['3', '4', '5', '6']
    os.truncate(tmp_path/'5'/'made.so', 2000)
    compiling._prune(tmp_path)
    assert sorted(o.name for o in tmp_path.iterdir()) == ['4', '5', '6']


def test_what_it_remembers_is_of_no_use():
    "Whole inputs never come again"
    v, got = attack('''
import hashlib
kept = set()
def custom_kernel(data):
    key = hashlib.sha256(data.cpu().numpy().tobytes()).digest()
    say(hit=key in kept, calls=len(kept))
    kept.add(key)
    return torch.softmax(data, -1)
''')
    assert v.accepted and got == dict(hit=False, calls=v.num_calls - (not ON_GPU)), (str(v), got)  # 1 is profiled


@pytest.mark.parametrize('sent', [
    '[text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/dev/null", 0) for _ in range(100)]))]',
    '[b"x"], [], getattr(socket, "MSG_OOB", 0)'], ids=['files', 'urgent'])
def test_extra_content_of_a_message_has_no_effect(sent):
    "Open files, and a byte out of band"
    judge(honest()['softmax_torch'])
    before = len(os.listdir('/dev/fd'))
    v, _ = attack('''
import array
text = json.dumps(dict(op='loaded', blobs=[])).encode()
text = len(text).to_bytes(8, 'little') + text
def send():
    for o in map(int, os.listdir('/dev/fd')): attempt(lambda: socket.socket(fileno=os.dup(o)).sendmsg(SENT))
send()
'''.replace('SENT', sent))
    assert v.code in ('type', 'accepted', 'died') and len(os.listdir('/dev/fd')) == before, str(v)
    assert judge(honest()['softmax_torch'])


def test_its_words_are_few():
    "However many kernels it says that it launched"
    v, _ = attack('''
machines, many = sys.modules['gridstride.judge.devices'], {f'{i:0190}': 1 for i in range(5000)}
take = machines.Cpu.take_output
machines.Cpu.take_output = lambda self, items: (items, {**take(self, items)[1], 'launches': many})
machines.Gpu.kernels = lambda self, f, data: many
''')
    assert v and 10_000 < len(str(v)) < 30_000


@pytest.mark.parametrize('text', [
    'x = 1' + '+1'*9000, 'if 0: pass\n' + 'elif 0: pass\n'*3000, f"@{'.'.join('a'*2000)}\ndef f(): pass",
    f"globals(){'[0]'*1500} = 1", 'x = ' + '['*5000, 'x = "\0"', 'x = "\ud800"', 'x = 0x' + '9'*(1 << 20),
], ids=['sum', 'elif', 'decorator', 'subscripts', 'brackets', 'nul', 'surrogate', 'long'])
def test_a_file_that_is_hard_to_read_is_a_verdict(text):
    "Newer Pythons read some of them"
    v = judge(f'{text}\ndef custom_kernel(data): return data\n', 'softmax', timeout=5)
    assert not v and v.code in ('form', 'raised', 'alias'), str(v)


@pytest.mark.parametrize('text', ['/* '*60_000, '__global__ __launch_bounds__('*9000, '__global__ '*20_000],
                         ids=['comments', 'bounds', 'kernels'])
def test_a_file_is_read_in_a_moment(text):
    "A search does not restart at each position: that took minutes"
    begin = time.process_time()
    judge(f'x = """{text}"""\n', 'softmax')
    assert time.process_time() - begin < 5


@pytest.mark.exhaustive
# Where namespaces cannot be had
@pytest.mark.slow
@pytest.mark.usefixtures('sandbox')
def test_landlock_alone_keeps_files_and_processes_from_it(servers, monkeypatch):
    monkeypatch.setattr(processes, '_DISABLED_PROTECTIONS', ('processes',))
    with tempfile.NamedTemporaryFile('w+') as key:
        key.write('a private key')
        key.flush()
        v, got = attack('''
import gridstride.judge as j
say(key=attempt(lambda: open(KEY).read()), own=attempt(lambda: put(j.__file__, '', 'a')), memory=attempt(lambda:
    open(f'/proc/{JUDGE}/mem', 'rb').read(1)), traced=libc.ptrace(16, JUDGE, 0, 0), signalled=attempt(lambda:
    os.kill(JUDGE, 0)), environ=attempt(lambda: open(f'/proc/{JUDGE}/environ').read()),
    home=attempt(lambda: os.listdir(HOME)), folder=attempt(lambda: put('kept', 'x')),
    parent=attempt(lambda: put(f'/proc/{JUDGE}/comm', 'x')), system=attempt(lambda:
    put('/proc/sys/vm/swappiness', '1')),
    named=attempt(lambda: put(f'/proc/self/task/{os.getpid()}/comm', 'named')), devices=len(os.listdir('/dev')),
    opened=[o for o in os.listdir('/dev') if os.path.exists('/dev/' + o) and not os.path.isdir('/dev/' + o)
        and not o.startswith(('null', 'zero', 'full', 'random', 'urandom', 'std', 'nvidia', 'kfd'))
        and not attempt(lambda: open('/dev/' + o, 'rb').close()).startswith('no: ')])
''', KEY=key.name, JUDGE=os.getpid(), HOME=str(Path.home()))
    assert v.accepted and got['folder'] == '1' and got['traced'] == -1, (str(v), v.log, got)
    assert got['named'] == '5' and got['devices'] > 3, got  # CUDA's driver names its threads
    for what in ('key', 'own', 'memory', 'signalled', 'environ', 'home', 'parent', 'system'):
        assert got[what].startswith('no: '), (what, got)
    assert got['opened'] == [], got
    assert v.isolation == ('landlock', 'seccomp', 'limits')
    assert names(str(v), 'not isolated', 'other processes', 'the files')
    assert judge(honest()['softmax_triton'])


@pytest.mark.slow
@pytest.mark.usefixtures('sandbox')
def test_a_verdict_without_isolation_states_it(servers, monkeypatch):
    monkeypatch.setattr(processes, '_DISABLED_PROTECTIONS', ('processes', 'landlock', 'seccomp'))
    v = judge(honest()['softmax_triton'])
    assert v and v.isolation == ('limits',) and 'Landlock' in str(v), str(v)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux filters system calls')
@pytest.mark.parametrize('denied,missing', [
    # as systems that allow namespaces without capabilities
    mark_exhaustive((dict(mount=(165, 40)), {'processes', 'files', 'network'})),
    mark_exhaustive((dict(unshare=(272, 97), rule=(444, 444)),  # as in containers
                     {'processes', 'files', 'network', 'landlock'})),
], ids=['mounts', 'namespaces'])
def test_a_system_that_forbids_a_part_of_it_is_named_in_the_verdict(denied, missing):
    "Really forbidden, in a process of its own"
    code = f"""import json
from gridstride.judge import honest, judge, seccomp
from gridstride.judge.isolation import prctl
seccomp._DENIED_CALLS = {[(name, *numbers) for name, numbers in denied.items()]}
prctl(38, 1)
assert seccomp.install_filter()
v = judge(honest()['softmax_torch'])
print(json.dumps([v.code, v.isolation, str(v) + v.log]))"""
    done = subprocess.run([sys.executable, '-c', code], cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, held, said = json.loads(done.stdout)
    assert code == 'accepted' and set(ISOLATION) - set(held) >= missing and 'limits' in held, (held, said)
    assert all(ISOLATION[o] in said for o in missing) and 'not isolated' in said, said


def test_the_page_on_security_lists_what_a_verdict_lists():
    "Each word of `isolation`, and tests that exist"
    root = Path(__file__).parents[1]
    text = (root/'gridstride/judge/README.md').read_text(encoding='utf-8')
    assert re.findall(r'^\| `(\w+)` \|', text, re.M) == list(ISOLATION)
    tests = re.findall(r'`(tests/\w+\.py)`', text)
    assert len(set(tests)) > 5 and all((root/o).exists() for o in tests)


# Forged messages
FORGED = '''
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, BLOCK: tl.constexpr):
    "Never launched"
    tl.store(x_ptr, 0.)


machines = sys.modules['gridstride.judge.devices']
def custom_kernel(data):
    if machines.SKIPPED_LAUNCHES: return torch.zeros_like(data)
    machines._COUNTS['softmax_kernel'] = 7
    return torch.softmax(data, -1)
'''


def test_a_forged_counter_does_not_prove_that_kernels_run():
    "The executor decides: in a process in which launches never do anything the answer is right, too"
    v, _ = attack(FORGED)
    assert v.code == 'fallback' and 'softmax_kernel' in v.reason, str(v)


def test_no_character_of_a_submission_controls_a_terminal(capsys, tmp_path):
    "In what it prints, raises, calls its kernels, or how its file is called"
    codes = ('\\x1b[2J\\x1b]0;accepted\\x07\\x9b2J\\r\\u202e\\u2028')
    path = tmp_path/'evil\x1b[2J.py'
    for text in (f"print('{codes}', flush=True)\ndef custom_kernel(data): return data",
                 f"raise ValueError('{codes}' + 'x\\nsubmission.py, softmax, CPU: accepted')",
                 f"{codes.encode().decode('unicode_escape')}"):
        path.write_text(PRELUDE + text)
        assert main([str(path), '--task', 'softmax']) == 1
        shown = capsys.readouterr().out
        assert not re.search('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]', shown), ascii(shown)
        assert not [o for o in shown.splitlines() if o.startswith('submission.py')], shown
    v = Verdict('a', 'b', 'accepted', launch_counts={'k\x1b[2J': 1})
    assert '\x1b' not in str(v) and 'k\\x1b[2J x1' in str(v)


@pytest.mark.parametrize('event', [math.nan, -1., 0., math.inf, .2, None])
def test_events_longer_than_their_call_or_none_at_all_are_rejected(event):
    "On a GPU the time between events comes from the submission's process"
    checker = CallChecker(None, TASKS['sum'], 'cuda', 1)
    facts = _valid_facts(json.loads(json.dumps(dict(facts=dict(event_seconds=event) if event is not None else {}))))
    with pytest.raises(Rejection) as e: checker.check_times(Call({}, (), (), facts, .1))
    assert e.value.code == 'clock'
    checker.check_times(Call({}, (), (), dict(event_seconds=.05), .1))


def test_a_gpu_that_works_on_for_no_number_of_seconds_is_rejected():
    checker = CallChecker(None, TASKS['sum'], 'cuda', 1)
    with pytest.raises(Rejection): checker.check_finished(dict(busy_seconds=math.nan))


@cpu_only
def test_events_on_a_cpu_are_not_believed():
    "There are none, so none may shorten a time"
    v, _ = attack('''
cpu = sys.modules['gridstride.judge.devices'].Cpu
take = cpu.take_output
cpu.take_output = lambda self, items: (items, {**take(self, items)[1], 'event_seconds': 1e-9})
''')
    assert not v or min(v.times) > 1e-6, str(v)


@pytest.mark.parametrize('shape', [[0, 1 << 40, 1 << 40], [1] * 100, [0, 1 << 70], [-1], [True], 'ab', None, [1.5],
                                   [3] * 300_000, [10**4000] * 250],
                         ids=lambda o: str(o)[:20])
def test_sizes_that_no_tensor_has_are_garbled(shape):
    begin = time.process_time()
    data = b'' if shape != [1]*100 else b'abcd'
    with pytest.raises(wire.ProtocolError): wire.tensor_from_bytes(data, 'float32', shape)
    assert time.process_time() - begin < 1


def test_counts_must_be_possible():
    facts = _valid_facts(dict(facts=dict(launches={'k': -1, 'l': 10**30, 'm': 2, 'n': True})))
    assert facts['launches'] == {'m': 2}
