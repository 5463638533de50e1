"""Precompiled headers save time and change nothing: broken ones are made again, and where there are
none, all works as before."""
import ctypes, os, re, shutil, threading

import pytest

from gridstride.cpp import CompileError, emulator
from gridstride.cpp.toolchain import build, cache, compilers, headers, runtime_library

count = iter(range(1000000))


def compiled(source):
    "A source, compiled as kernels are, but below a header that is precompiled in a moment"
    def fail(log, command): return CompileError(source, 'tiny.cu', log, command)
    text = f'#include <utility>\n#line 1 "tiny.cu"\n{source}'
    flags = compilers.common_flags(compilers.compiler())
    return build.compile_module({'tiny.cpp': text}, 'tiny', flags, ('utility',), fail)


def tiny():
    "Compile and call what was not compiled before"
    n = next(count)
    built = compiled(f'extern "C" int tiny() {{ return std::pair<int, int>({n}, 0).first; }}')
    assert ctypes.CDLL(built.folder/'tiny.so').tiny() == n and not built.cached


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    "A cache of our own, with headers in it"
    emulator.load_runtime()  # made elsewhere, else headers come after it; it brings C++'s libraries
    with pytest.MonkeyPatch.context() as m:
        m.setenv('GRIDSTRIDE_CACHE', str(tmp_path_factory.mktemp('cache')))
        tiny()
        yield cache.cache_dir()/'headers'


@pytest.fixture(autouse=True)
def own_cache(folder, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(folder.parent))
    monkeypatch.setattr(headers, '_num_failures', headers.Counter())


@pytest.fixture
def commands(monkeypatch):
    "The compilers' commands, as they are run"
    seen, run = [], headers.run_command
    def noted(command, *args, **more):
        seen.append(command)
        return run(command, *args, **more)
    monkeypatch.setattr(headers, 'run_command', noted)
    return seen


def made(folder):
    (file,) = folder.glob('*/headers.h.*')
    return file


def uses(command): return any(str(o).endswith('headers.h') for o in command)


def test_headers_are_made_once_and_used(folder, commands):
    before = made(folder).stat().st_mtime_ns
    tiny()
    tiny()
    assert made(folder).stat().st_mtime_ns == before and [uses(c) for c in commands if '-c' in c] == [True, True]


def test_a_program_with_headers_of_its_own_uses_the_same(folder, commands):
    c, source = compilers.compiler(), '#include <utility>\n#include "own.h"\nstd::pair<int, int> own{OWN, OWN};\n'
    flags = [*compilers.common_flags(c), '-I.']
    run = headers.make_runner(c, flags, ('utility',), 'compiling')
    cache.build({'own.h': '#define OWN 3\n', 'a.cpp': source}, [[c.path, *flags, '-c', 'a.cpp']], run=run)
    assert made(folder).exists() and len(commands) == 1 and uses(commands[0])


def test_a_source_that_does_not_compile_is_compiled_once(folder, commands):
    with pytest.raises(CompileError, match='line 1'): compiled('int f() { return y; }')
    assert len(commands) == 1 and made(folder).exists()


def truncate(file): os.truncate(file, file.stat().st_size//2)
def empty(file): os.truncate(file, 0)
def scramble(file):
    with open(file, 'r+b') as f:
        f.seek(file.stat().st_size//4)
        f.write(os.urandom(1_000_000))


@pytest.mark.slow
@pytest.mark.parametrize('harm', [truncate, empty, scramble, os.remove])
def test_broken_headers_are_made_again(folder, commands, harm):
    whole = made(folder).stat().st_size
    harm(made(folder))
    tiny()
    assert [uses(c) for c in commands if '-c' in c] == [True, False] and not list(folder.glob('*/headers.h.*'))
    tiny()
    assert uses([c for c in commands if '-c' in c][-1]) and made(folder).stat().st_size == pytest.approx(whole, rel=.01)


@pytest.mark.slow
def test_headers_that_break_again_are_given_up(folder, commands):
    for _ in range(2):
        tiny()
        truncate(made(folder))
        tiny()
    del commands[:]
    tiny()
    assert [uses(c) for c in commands if '-c' in c] == [False]


def test_without_disk_space_all_is_as_before(folder, commands, monkeypatch):
    shutil.rmtree(folder)
    monkeypatch.setattr(headers, 'MIN_FREE_SPACE', float('inf'))
    tiny()
    assert not any(map(uses, commands))


def test_a_file_where_the_folder_belongs_gives_way(folder, commands):
    shutil.rmtree(folder)
    folder.write_text('')
    tiny()
    assert uses([c for c in commands if '-c' in c][-1]) and made(folder).exists()


def test_only_the_latest_are_kept(tmp_path, monkeypatch):
    "And no other entry of the cache, of which there are thousands, counts as one"
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path))
    monkeypatch.setattr(headers, 'MAX_HEADERS', 2)
    for at, name in enumerate(['oldest', 'older', 'newer']):
        (tmp_path/'headers'/name).mkdir(parents=True)
        os.utime(tmp_path/'headers'/name, (at, at))
    (tmp_path/'headers/file').touch()
    tiny()
    folders = {p.name for p in (tmp_path/'headers').iterdir() if p.is_dir()}
    assert folders == {'newer', made(tmp_path/'headers').parent.name}


def test_the_first_use_prints_a_notice(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv('GRIDSTRIDE_QUIET')
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path))
    monkeypatch.setattr(cache, 'SLOW_SECONDS', 1000)
    tiny()
    tiny()
    said = capsys.readouterr().err
    assert said.startswith('gridstride: ') and said.count('\n') == 1 and re.search(r' \.* ?\d+ s\n$', said)


def test_slow_steps_print_a_notice(monkeypatch, capsys):
    monkeypatch.delenv('GRIDSTRIDE_QUIET')
    cache.run_command(['sleep', '.3'], None, 'compiling a.cu', .1)
    cache.run_command(['true'], None, 'compiling b.cu', .1)
    assert capsys.readouterr().err == 'gridstride: compiling a.cu  0 s\n'


def test_the_first_compilation_waits_for_no_headers(folder, commands, monkeypatch, tmp_path):
    "They are made after the runtime, and until they are there, sources are compiled without them"
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path))
    threads = threading.enumerate()
    with runtime_library._lock:  # it takes long
        with pytest.MonkeyPatch.context() as m:
            m.setattr(build, 'runtime_is_built', lambda: False)
            tiny()
        tiny()
        assert len(commands) == 4 and not any(map(uses, commands)) and not list(tmp_path.glob('headers/*/headers.h.*'))
    for t in set(threading.enumerate()) - set(threads): t.join()
    tiny()
    assert uses(commands[-2]) and made(tmp_path/'headers').exists()


def test_the_first_compilation_leaves_the_telling_to_what_takes_long(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv('GRIDSTRIDE_QUIET')
    monkeypatch.setattr(cache, 'SLOW_SECONDS', 0)
    run = headers.make_runner(None, [], (), 'compiling a.cu')
    assert run(['sleep', '.3'], None) == (0, '') and capsys.readouterr().err == ''
