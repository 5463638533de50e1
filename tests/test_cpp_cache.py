"Whatever is wrong with the compile cache, it is made again, the result is right, and at most one line reports it."
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from gridstride.cpp.toolchain import cache, compilers, integrity

KEY = 'x'*20


@pytest.fixture(scope='module')
def libraries(tmp_path_factory):
    "Two libraries, compiled once: `tiny` of the first returns 1, that of the other one 2"
    folder = tmp_path_factory.mktemp('libraries')
    for n in (1, 2):
        (folder/f'{n}.c').write_text(f'int tiny(void) {{ return {n}; }}\n')
        subprocess.run([compilers.compiler().path, '-x', 'c', '-shared', '-fPIC', f'{n}.c', '-o', f'{n}.so'],
                       cwd=folder, check=True)
    return folder


class Cache:
    "A cache with an entry for each of the two, and functions that request them as kernels do"

    def __init__(self, libraries, folder):
        self.libraries, self.folder = libraries, folder

    def get(self, n=1, **how):
        "Where the library is, found or made"
        def make():
            command = ['cp', str(self.libraries/f'{n}.so'), 'tiny.so']
            return cache.build({'in/tiny.c': f'// {n}'}, [command], **how)
        return cache.cached_result((str(self.folder), n), make).folder

    def call(self, n=1, **how): return ctypes.CDLL(str(self.get(n, **how)/'tiny.so')).tiny()

    def entries(self): return sorted(self.folder.glob('[0-9a-f]*'))


@pytest.fixture
def kept(libraries, tmp_path, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'cache'))
    monkeypatch.setattr(cache.tempfile, 'tempdir', str(tmp_path/'temporary'))
    (tmp_path/'temporary').mkdir()
    monkeypatch.delenv('GRIDSTRIDE_QUIET')
    cache._reported_problems.cache_clear()
    res = Cache(libraries, tmp_path/'cache')
    res.one, res.two = res.get(1), res.get(2)
    res.note = next(p for p in (res.folder/'known').iterdir() if res.one.name in p.read_text())
    yield res
    cache._reported_problems.cache_clear()


# Faults: each function does one thing to the cache; `c.one` is the entry that is requested afterwards
def in_place(change):
    "Overwrite the library where it is"
    def fault(c):
        raw = bytearray((c.one/'tiny.so').read_bytes())
        (c.one/'tiny.so').write_bytes(change(raw))
    return fault


def flipped(raw):
    raw[len(raw)//2] ^= 255
    return raw


def sums(change):
    def fault(c):
        said = json.loads((c.one/integrity.CHECKSUMS).read_text())
        (c.one/integrity.CHECKSUMS).write_text(json.dumps(change(said)))
    return fault


def note(text):
    def fault(c): c.note.write_text(text.replace('ONE', c.one.name).replace('TWO', c.two.name)
                                    .replace('NOTE', c.note.name))
    return fault


def replaced(what, by):
    "Replace a part of the cache by something else"
    def fault(c):
        path = dict(library=c.one/'tiny.so', entry=c.one, sums=c.one/integrity.CHECKSUMS, note=c.note,
                    known=c.folder/'known', source=c.one/'in/tiny.c', cache=c.folder)[what]
        kept = path.with_name('kept')
        os.rename(path, kept)
        dict(nothing=lambda: None, file=lambda: path.write_text('x'), folder=path.mkdir,
             link=lambda: path.symlink_to(kept), dangling=lambda: path.symlink_to(path.parent/'nowhere'),
             loop=lambda: path.symlink_to(path), fifo=lambda: os.mkfifo(path))[by]()
    return fault


def other_file(c): shutil.copy(c.two/'tiny.so', c.one/'tiny.so')
def other_entry(c): shutil.rmtree(c.one); shutil.copytree(c.two, c.one)
def other_sums(c): shutil.copy(c.two/integrity.CHECKSUMS, c.one/integrity.CHECKSUMS)
def swapped(c):
    aside = c.folder/'aside'
    os.rename(c.one, aside); os.rename(c.two, c.one); os.rename(aside, c.two)
def swapped_notes(c):
    two = next(p for p in c.note.parent.iterdir() if p != c.note)
    a, b = c.note.read_text(), two.read_text()
    c.note.write_text(b); two.write_text(a)
def linked_entry(c): os.rename(c.one, c.folder/'kept'); c.one.symlink_to(c.folder/'kept')
def half_made(c): (c.one/'tiny.so').unlink(); (c.one/integrity.CHECKSUMS).unlink()
def emptied(c):
    for o in c.folder.iterdir(): shutil.rmtree(o)
def empty_entry(c): shutil.rmtree(c.one); c.one.mkdir()
def extra(c): (c.one/'more').write_text('x')
def without(c): shutil.rmtree(c.one)
def of_another_compiler(c): (c.folder/('0'*20)).mkdir(); (c.folder/('0'*20)/'tiny.so').write_bytes(b'\x7fELF')
def left_over(c): without(c); (c.folder/f'{c.one.name}.abc').mkdir(); (c.folder/f'{c.one.name}.abc/tiny.so').touch()
def lock_is_folder(c): without(c); c.one.with_suffix('.lock').mkdir()
def lock_is_left(c): without(c); c.one.with_suffix('.lock').touch()


def mode(what, bits):
    def fault(c): os.chmod(dict(library=c.one/'tiny.so', entry=c.one, sums=c.one/integrity.CHECKSUMS, cache=c.folder,
                                known=c.folder/'known', source=c.one/'in/tiny.c')[what], bits)
    return fault


def owner(what):
    "As if another user had made it"
    def fault(c): os.chown(dict(library=c.one/'tiny.so', entry=c.one, sums=c.one/integrity.CHECKSUMS, cache=c.folder,
                                known=c.folder/'known')[what], 12345, 12345)
    return fault


FAULTS = dict(
    library_cut_off=in_place(lambda b: b[:len(b)//2]), library_of_one_page=in_place(lambda b: b[:4096]),
    library_emptied=in_place(lambda b: b''), library_flipped=in_place(flipped),
    library_zeroed=in_place(lambda b: bytes(len(b))), library_longer=in_place(lambda b: b + b'x'),
    library_is_text=in_place(lambda b: b'#!/bin/sh\n'),
    **{f'{what}_is_{by}': replaced(what, by) for what in ('library', 'sums', 'entry', 'note')
       for by in ('nothing', 'file', 'folder', 'link', 'dangling', 'loop')},
    library_is_fifo=replaced('library', 'fifo'), entry_is_fifo=replaced('entry', 'fifo'),
    **{f'known_is_{by}': replaced('known', by) for by in ('nothing', 'file', 'link', 'dangling', 'loop')},
    **{f'cache_is_{by}': replaced('cache', by) for by in ('nothing', 'file', 'folder', 'link', 'dangling', 'loop')},
    source_is_lost=replaced('source', 'nothing'),
    other_file=other_file, other_entry=other_entry, other_sums=other_sums, swapped=swapped,
    swapped_notes=swapped_notes, linked_entry=linked_entry, half_made=half_made, emptied=emptied,
    empty_entry=empty_entry, extra=extra, of_another_compiler=of_another_compiler, left_over=left_over,
    lock_is_folder=lock_is_folder, lock_is_left=lock_is_left,
    sums_of_nothing=sums(lambda s: {}), sums_is_list=sums(lambda s: [s]),
    sums_of_another=sums(lambda s: dict(s, name=KEY)), sums_of_other_types=sums(lambda s: dict(s, files=[3])),
    sums_of_no_sizes=sums(lambda s: dict(s, files={'tiny.so': None})),
    sums_of_more=sums(lambda s: dict(s, files=dict(s['files'], more=[1, 'x']))),
    note_is_half=note('["NOTE", "ONE'), note_is_number=note('3'), note_is_empty=note(''),
    note_of_parent=note('["NOTE", "..", []]'), note_of_root=note('["NOTE", "/", []]'),
    note_of_none=note('["NOTE", "' + KEY + '", []]'), note_of_other=note('["' + KEY + '", "TWO", []]'),
    note_of_number=note('["NOTE", 3, []]'), note_of_library=note('["NOTE", "ONE/tiny.so", []]'),
    **{f'{what}_{bits:o}': mode(what, bits) for what, bits in dict(
        library=0o666, entry=0o777, sums=0o622, cache=0o777, known=0o770, source=0o646).items()},
    **{f'{o}_of_another_user': pytest.param(owner(o), marks=pytest.mark.skipif(os.geteuid() != 0, reason='needs root'))
       for o in ('library', 'entry', 'sums', 'cache', 'known')},
)
QUIET = {'extra', 'of_another_compiler', 'left_over', 'lock_is_folder', 'lock_is_left', 'emptied', 'swapped_notes'}


def test_there_are_enough(): assert len(FAULTS) >= 60


@pytest.mark.parametrize('name,fault', [
    pytest.param(k, *getattr(v, 'values', (v,)), id=k, marks=getattr(v, 'marks', ())) for k, v in FAULTS.items()])
def test_a_fault_is_made_good(name, fault, kept, capfd):
    fault(kept)
    assert [kept.call(1), kept.call(2), kept.call(1)] == [1, 2, 1]
    said = capfd.readouterr().err
    assert said.count('\n') <= 1 and (not said or said.startswith('gridstride: '))
    if name in QUIET or name.startswith('note'): assert said == ''
    if name.startswith(('library', 'sums', 'other')): assert 'damaged' in said and str(kept.folder) in said


def test_a_second_fault_of_the_same_entry_is_found_too(kept):
    "Hashes are not computed again for files that have not changed, and are for those that have"
    whole = (kept.one/'tiny.so').read_bytes()
    for change in flipped, lambda b: b[:-1], flipped:
        in_place(change)(kept)
        assert (kept.get()/'tiny.so').read_bytes() == whole


def test_hashes_are_computed_once(kept, monkeypatch):
    hashed = []
    real = integrity._hash_of
    monkeypatch.setattr(integrity, '_hash_of', lambda path: hashed.append(path) or real(path))
    integrity._metadata_when_verified.clear()
    for _ in range(3): kept.get()
    assert len(hashed) == len(set(hashed)) == 2


def made_again(*_, **__): raise AssertionError('the entry is made again')


def test_what_is_whole_is_not_made_again(kept, monkeypatch):
    monkeypatch.setattr(cache, '_build_entry', made_again)
    assert kept.get() == kept.one


def test_the_cache_is_private(kept):
    assert kept.folder.stat().st_mode & 0o777 == (kept.folder/'known').stat().st_mode & 0o777 == 0o700
    assert not kept.one.stat().st_mode & 0o022


@pytest.mark.parametrize('mask', [0, 0o002, 0o077])
def test_whatever_the_umask(kept, mask, monkeypatch):
    "Others can write no file and no folder of an entry, so that it is used"
    without(kept)
    old = os.umask(mask)
    try: made = kept.get()
    finally: os.umask(old)
    assert integrity.find_damage(made) == '' and not [o for o in (made, *made.rglob('*')) if o.stat().st_mode & 0o022]
    monkeypatch.setattr(cache, '_build_entry', made_again)
    assert kept.get() == made


@pytest.mark.parametrize('squatted', ['', 'file', 'link', 'owner', 'writable'])
def test_a_cache_that_cannot_be_used_has_a_substitute(kept, capfd, squatted, tmp_path):
    "Only this user's: what another user has put there is not used"
    spare = cache._replacement_path()
    if squatted == 'owner' and os.geteuid(): pytest.skip('needs root')
    if squatted == 'file': spare.write_text('')
    if squatted == 'link': (tmp_path/'theirs').mkdir(); spare.symlink_to(tmp_path/'theirs')
    if squatted in ('owner', 'writable'): spare.mkdir()
    if squatted == 'owner': os.chown(spare, 12345, 12345)
    if squatted == 'writable': os.chmod(spare, 0o777)
    shutil.rmtree(kept.folder)
    kept.folder.write_text('')
    assert kept.call() == kept.call() == 1
    assert kept.get().is_relative_to(spare) == (not squatted)
    if squatted == 'link': assert not list((tmp_path/'theirs').iterdir())
    assert capfd.readouterr().err.count('\n') == 1


def refused(*_, **__): raise PermissionError(13, 'Permission denied')


def test_a_cache_that_is_read_only(kept, capfd, monkeypatch):
    "What it holds is used; what it lacks is made elsewhere"
    real = cache.tempfile.mkdtemp
    monkeypatch.setattr(cache.tempfile, 'mkdtemp',
                        lambda dir=None, **how: refused() if Path(dir or '/') == kept.folder else real(dir=dir, **how))
    monkeypatch.setattr(cache, 'discard', lambda path: None)
    assert kept.get() == kept.one and capfd.readouterr().err == ''
    in_place(flipped)(kept)
    assert kept.call() == 1 and kept.get() != kept.one and capfd.readouterr().err.count('\n') == 1


def test_a_cache_that_is_full(kept, capfd, monkeypatch):
    without(kept)
    real = Path.write_text
    def full(self, *args, **how):
        if kept.folder in self.parents: raise OSError(28, 'No space left on device')
        return real(self, *args, **how)
    monkeypatch.setattr(Path, 'write_text', full)
    assert kept.call() == 1 and str(kept.folder) in capfd.readouterr().err
    assert not [o for o in kept.folder.iterdir() if '.' in o.name]


def test_no_link_is_written_through(kept, tmp_path):
    "A link with the name of a lock, or of a note, to a file that matters"
    mine = tmp_path/'mine'
    mine.write_text('thesis')
    without(kept)
    kept.one.with_suffix('.lock').symlink_to(mine)
    kept.note.unlink()
    kept.note.symlink_to(mine)
    assert kept.call(shared=True) == 1 and mine.read_text() == 'thesis'


def test_a_cache_that_is_emptied_while_something_is_made(kept, tmp_path):
    command = ['sh', '-c', f'test -e {tmp_path}/once || {{ touch {tmp_path}/once; rm -rf {kept.folder}; }}; '
               f'cp {kept.libraries}/1.so tiny.so']
    folder = cache.build({'a': ''}, [command]).folder
    assert ctypes.CDLL(str(folder/'tiny.so')).tiny() == 1


def test_what_is_loaded_lives_on_when_it_is_removed(kept):
    library = ctypes.CDLL(str(kept.get()/'tiny.so'))
    emptied(kept)
    assert library.tiny() == 1 and kept.call() == 1


def test_what_killed_processes_began_is_removed_some_day(kept):
    cache._remove_stale_work_folders.cache_clear()
    for name, age in dict(old=2, new=0).items():
        folder = kept.folder/f'{"0"*20}.{name}'
        folder.mkdir()
        os.utime(folder, (time.time() - age*86400,)*2)
    without(kept)
    kept.get()
    assert [o.name for o in kept.folder.glob(f'{"0"*20}*')] == [f'{"0"*20}.new']


PROGRAM = '''import ctypes, sys
from gridstride.cpp.toolchain.cache import build
command = ['sh', '-c', f'cp {sys.argv[1]} tiny.so; sleep {sys.argv[2]}']
built = build({}, [command], 'program', shared=True)
print(ctypes.CDLL(str(built.folder/'tiny.so')).tiny(), built.folder)
'''


@pytest.mark.slow
def test_processes_at_once_and_one_that_is_killed(kept):
    "Whatever becomes of the first: all others find what is whole"
    def start(seconds):
        command = [sys.executable, '-c', PROGRAM.replace("{sys.argv[2]}", str(seconds)), str(kept.libraries/'1.so')]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)
    first = start(600)
    while not list(kept.folder.glob('*/tiny.so.begun')) and not list(kept.folder.glob('*.*/tiny.so')): time.sleep(.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    others = [start(.01) for _ in range(3)]
    said = [o.communicate() for o in others]
    assert {o.split()[0] for o, _ in said} == {'1'} and {e for _, e in said} == {''}
    (kept.folder/said[0][0].split()[1]/'tiny.so').write_bytes(b'')
    said = [o.communicate() for o in [start(.01) for _ in range(3)]]
    assert {o.split()[0] for o, _ in said} == {'1'}


def test_the_hook_for_children_heals(kept, monkeypatch):
    from gridstride import child_processes
    for fault in ('text', 'folder', 'link', 'writable', 'file', 'cache'):
        folder = child_processes._hook_folder()
        assert folder == kept.folder/'children' and (folder/'sitecustomize.py').read_text() == child_processes._HOOK
        file = folder/'sitecustomize.py'
        if fault == 'text': file.write_bytes(b'\xff')
        if fault == 'writable': os.chmod(file, 0o666)
        if fault == 'link':
            os.rename(file, folder/'other'); file.symlink_to(folder/'other')
        if fault == 'folder':
            file.unlink(); file.mkdir()
            assert (child_processes._hook_folder()/'sitecustomize.py').read_text() == child_processes._HOOK
            file.rmdir()
        if fault == 'file':
            shutil.rmtree(folder); folder.write_text('')
            assert (child_processes._hook_folder()/'sitecustomize.py').read_text() == child_processes._HOOK
            folder.unlink()
    os.chmod(kept.folder, 0o777)
    assert child_processes._hook_folder() != kept.folder/'children'


@pytest.fixture(params=[True, False], ids=['interrupts', 'restarts'])
def system_calls(request):
    "Does SIGINT interrupt system calls, as it does in Python, or are they restarted?"
    signal.siginterrupt(signal.SIGINT, request.param)
    yield
    signal.siginterrupt(signal.SIGINT, True)


@pytest.mark.parametrize('command', [['sleep', '900'], [['sleep', '900']]])
def test_ctrl_c_ends_the_compiler_and_leaves_nothing(kept, command, system_calls):
    "A plain KeyboardInterrupt at once; the next one compiles"
    main, begin = threading.main_thread().ident, time.monotonic()
    timer = threading.Timer(.3, signal.pthread_kill, [main, signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt) as e: cache.build({'in/tiny.c': '// slow'}, [command])
    timer.join()
    assert not e.value.args and time.monotonic() - begin < 300
    assert sorted(o.name for o in kept.entries()) == sorted(o.name for o in (kept.one, kept.two))
    assert not list(kept.folder.glob('*.lock')) and kept.call() == 1
