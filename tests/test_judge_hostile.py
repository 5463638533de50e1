"""Submissions that attack the judge or the machine: each is refused, or has no effect.

`PRELUDE` gives them what they need; each prints what it could get hold of, and returns a right answer, so that nothing
but the attack itself can be a reason to refuse it."""
import json
import math
import os
import re
import socket
import sys
import tempfile
import time
from pathlib import Path

import pytest
from gridstride.judge import TASKS, Verdict, honest, judge, processes, wire
from gridstride.judge.__main__ import main
from gridstride.judge.bench import Bench, Call, Refused, _facts_of
from gridstride.judge.isolation import hidden, kept, possible
from gridstride.judge.verdicts import ISOLATION
from gridstride.utils import cache_dir

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
    "The verdict on a submission with these values in it, and what it said"
    for name, value in values.items(): text = text.replace(name, repr(value))
    v = judge(PRELUDE + text, 'softmax')
    said = [json.loads(o) for o in v.printed.splitlines() if o.startswith('{')]
    return v, {k: x for o in said for k, x in o.items()}


@pytest.fixture(scope='module')
def sandbox():
    "A system that offers all of it. Where one does not, the verdict says so: there is nothing else to test"
    held = judge(honest()['softmax_torch']).isolation
    if held != EVERYTHING: pytest.skip(f'this system offers {", ".join(held)} alone')


@pytest.mark.skipif(sys.platform != 'linux', reason='only Linux has namespaces')
def test_a_verdict_says_what_holds():
    v = judge(honest()['softmax_torch'])
    assert ('processes' in v.isolation) == ('files' in v.isolation) == possible(str(cache_dir())), v.isolation
    assert 'limits' in v.isolation and ('not isolated' in str(v)) == (v.isolation != EVERYTHING)


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
    before = sorted(o.name for o in cache_dir().iterdir())
    v, got = attack('''
cache = os.environ['GRIDSTRIDE_CACHE']
say(there=len(os.listdir(cache)), put=attempt(lambda: put(cache + '/planted', 'x')),
    replaced=[attempt(lambda: put(o, 'x')) for o in glob.glob(cache + '/*/*')[:20]],
    read=attempt(lambda: open(cache + '/planted').read()))
''')
    assert v.accepted and got['read'] == 'x' and got['there'] == len(before), (str(v), got)
    assert sorted(o.name for o in cache_dir().iterdir()) == before
    assert not [o for o in list(cache_dir().glob('*/*'))[:400] if o.is_file() and o.stat().st_size == 1]


@pytest.mark.usefixtures('sandbox')
def test_nothing_of_the_judge_can_be_read_or_stopped():
    "By its number, which the submission is even told; by /proc, by ptrace, by process_vm_readv, by a signal to all"
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
    assert v.accepted, str(v)  # it goes on, as its signals reach nobody
    assert judge(honest()['softmax_torch'])


@pytest.mark.usefixtures('sandbox')
def test_a_signal_to_all_ends_the_submission_alone():
    v, _ = attack('''
def custom_kernel(data):
    attempt(lambda: os.kill(-1, signal.SIGKILL))
    os.kill(0, signal.SIGKILL)
''')
    assert v.code == 'died', str(v)


@pytest.mark.usefixtures('sandbox')
def test_neither_keys_nor_passwords_are_there(servers, tmp_path, monkeypatch):
    "Files of the home folder, of the system, and variables, by whatever way"
    (tmp_path/'.ssh').mkdir()
    (tmp_path/'.ssh'/'id_ed25519').write_text('a private key')
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.setenv('CLOUD_TOKEN', 'a password')
    v, got = attack('''
home = os.path.expanduser('~')
say(home=home, there=os.listdir(home), key=attempt(lambda: open(KEY).read()), shadow=attempt(lambda:
    open('/etc/shadow').read()), kept=attempt(lambda: put(home + '/kept', 'x')),
    environ=[attempt(lambda: open(f'/proc/{p}/environ').read()) for p in ('self', 1)], known=dict(os.environ))
''', KEY=str(tmp_path/'.ssh'/'id_ed25519'))
    assert v.accepted and got['home'] == str(tmp_path), str(v)
    assert '.ssh' not in got['there'] and got['key'].startswith('no: ')
    assert got['shadow'] in ('', 'no: FileNotFoundError')
    assert 'a password' not in v.printed and not (tmp_path/'kept').exists()


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
    "The socket to the judge, the pipe by which it tells, and what it prints"
    v, got = attack("say(open=[os.readlink(o) for o in glob.glob('/proc/self/fd/*') if os.path.islink(o)])")
    kinds = sorted(re.sub(r'[\d\[\]() ].*', '', o) for o in got['open'])
    assert v.accepted and sorted(o for o in kinds if o[0] != '/') == ['pipe:', 'socket:'], got
    assert [o for o in kinds if o[0] == '/'][:3] == ['/dev/null', '/tmp/#', '/tmp/#'] and len(kinds) <= 6, got


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
    assert v.code == 'died' and 'more than 256 processes' in v.why and time.monotonic() - begin < 20, str(v)


@pytest.mark.usefixtures('sandbox')
def test_too_much_memory_ends_it(monkeypatch):
    monkeypatch.setattr(processes, '_MEMORY', (1 << 30)/(os.sysconf('SC_PHYS_PAGES')*os.sysconf('SC_PAGE_SIZE')))
    v, _ = attack("kept = bytearray(b'x' * (3 << 29)); time.sleep(60)")
    assert v.code == 'died' and 'GiB of memory' in v.why, str(v)


@pytest.mark.usefixtures('sandbox')
@pytest.mark.parametrize('home', ['/nonexistent/home', str(Path(processes.__file__).parents[2]), '/'])
def test_a_sandbox_does_not_depend_on_where_the_home_folder_is(home, monkeypatch):
    "It may not exist, or hold the package: what is needed of it is shown"
    monkeypatch.setenv('HOME', home)
    package = str(Path(processes.__file__).parents[1])
    shown = any(Path(package).is_relative_to(o) for o in kept(hidden()))
    assert possible(str(cache_dir())) and shown == any(Path(package).is_relative_to(o) for o in hidden())


# Where namespaces cannot be had
@pytest.mark.usefixtures('sandbox')
def test_landlock_alone_keeps_files_and_processes_from_it(servers, monkeypatch):
    monkeypatch.setattr(processes, '_WITHOUT', ('processes',))
    with tempfile.NamedTemporaryFile('w+') as key:
        key.write('a private key')
        key.flush()
        v, got = attack('''
import gridstride.judge as j
say(key=attempt(lambda: open(KEY).read()), own=attempt(lambda: put(j.__file__, '', 'a')), memory=attempt(lambda:
    open(f'/proc/{JUDGE}/mem', 'rb').read(1)), traced=libc.ptrace(16, JUDGE, 0, 0), signalled=attempt(lambda:
    os.kill(JUDGE, 0)), environ=attempt(lambda: open(f'/proc/{JUDGE}/environ').read()),
    home=attempt(lambda: os.listdir(HOME)), folder=attempt(lambda: put('kept', 'x')))
''', KEY=key.name, JUDGE=os.getpid(), HOME=str(Path.home()))
    assert v.accepted and got['folder'] == '1' and got['traced'] == -1, (str(v), got)
    assert all(got[o].startswith('no: ') for o in ('key', 'own', 'memory', 'signalled', 'environ', 'home')), got
    assert v.isolation == ('landlock', 'seccomp', 'limits')
    assert 'not isolated on this system: it saw other processes, it saw the files' in str(v)
    assert judge(honest()['softmax_triton'])


@pytest.mark.usefixtures('sandbox')
def test_without_any_isolation_the_verdict_says_so(servers, monkeypatch):
    monkeypatch.setattr(processes, '_WITHOUT', ('processes', 'landlock', 'seccomp'))
    v = judge(honest()['softmax_triton'])
    assert v and v.isolation == ('limits',) and 'Landlock did not' in str(v), str(v)


# Forged messages
FORGED = '''
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, BLOCK: tl.constexpr):
    "Never launched"
    tl.store(x_ptr, 0.)


machines = sys.modules['gridstride.judge.machines']
def custom_kernel(data):
    if machines.IDLE: return torch.zeros_like(data)
    machines._COUNTS['softmax_kernel'] = 7
    return torch.softmax(data, -1)
'''


def test_a_counter_that_is_written_does_not_tell_that_kernels_run():
    "The executor decides: in a process in which launches never do anything the answer is right, too"
    v, _ = attack(FORGED)
    assert v.code == 'fallback' and 'for show' in v.why, str(v)


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
    v = Verdict('a', 'b', 'accepted', counts={'k\x1b[2J': 1})
    assert '\x1b' not in str(v) and 'k\\x1b[2J x1' in str(v)


@pytest.mark.parametrize('event', [math.nan, -1., 0., math.inf, .2, None])
def test_events_longer_than_their_call_or_none_at_all_are_refused(event):
    "On a GPU the time between events comes from the submission's process"
    bench = Bench(None, TASKS['sum'], 'cuda', 1)
    facts = _facts_of(json.loads(json.dumps(dict(facts=dict(event=event) if event is not None else {}))))
    with pytest.raises(Refused) as e: bench.look_at_times(Call({}, (), (), facts, .1))
    assert e.value.code == 'clock'
    bench.look_at_times(Call({}, (), (), dict(event=.05), .1))


def test_a_gpu_that_works_on_for_no_number_of_seconds_is_refused():
    with pytest.raises(Refused): Bench(None, TASKS['sum'], 'cuda', 1).look_at_ends(dict(after=math.nan))


def test_events_on_a_cpu_are_not_believed():
    "There are none, so none may shorten a time"
    v, _ = attack('''
cpu = sys.modules['gridstride.judge.machines'].Cpu
take = cpu.take
cpu.take = lambda self, items: (items, {**take(self, items)[1], 'event': 1e-9})
''')
    assert not v or min(v.times) > 1e-6, str(v)


@pytest.mark.parametrize('shape', [[0, 1 << 40, 1 << 40], [1] * 100, [0, 1 << 70], [-1], [True], 'ab', None, [1.5]])
def test_sizes_that_no_tensor_has_are_garbled(shape):
    with pytest.raises(wire.Garbled): wire.tensor_of(b'' if shape != [1]*100 else b'abcd', 'float32', shape)


def test_counts_are_numbers_that_can_be():
    facts = _facts_of(dict(facts=dict(launches={'k': -1, 'l': 10**30, 'm': 2, 'n': True})))
    assert facts['launches'] == {'m': 2}
