"""What the programs in tests/cuda expect of the detectors, against compute-sanitizer's findings on
a GPU: the same, or the reason why not."""
import importlib.util, json, re, shutil
from pathlib import Path

import pytest

from exhaustive import some
import test_cpp_programs
from gridstride.cpp.toolchain import build, compilers
from gridstride.cpp.toolchain.build import CompileError
from gridstride.cpp.rewriters.rewrite import to_cpp

CUDA = Path(__file__).parent/'cuda'


def module(name):
    spec = importlib.util.spec_from_file_location(f'cuda_{name}', CUDA/f'{name}.py')
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


judge, judged, sources = map(module, ('judge', 'judged', 'sources'))
RECORD = judged.recorded()
NVCC = json.loads((CUDA/'nvcc.json').read_text())
INCLUDE = re.compile(r'^#include <.*$', re.M)
NAMES = [n for n in RECORD if n.startswith(('right/', 'wrong/'))]


@pytest.mark.parametrize('name', NAMES)
def test_program_is_judged_alike_or_it_is_known_why(name):
    assert judged.agree(RECORD, name) != (name in judged.DIFFERS), RECORD[name]['sanitizer']


def test_the_record_is_of_these_programs():
    files = {judge.key(p): judge.digest(p.read_text()) for p in CUDA.glob('*/*.cu')}
    files = {n: o for n, o in files.items() if n in RECORD or not n.startswith(('documented/', 'libraries/'))}
    assert ({n: r['sha256'] for n, r in RECORD.items()}
            == files), 'programs have changed since they ran on a GPU: run tests/cuda/judge.py'
    assert all(sum(n.startswith(f'{kind}/') for n in files) > 40 for kind in ('same', 'right', 'wrong'))
    assert len(NAMES) - len(judged.DIFFERS) >= 70
    assert all(r['stable'] for n, r in RECORD.items() if not n.startswith('wrong/'))


@pytest.mark.parametrize('text,same,other', [
    ('f(a, b);', '// of two\nf( a,\n    b ) /* ; */ ;', 'f(a b);'), ('a + +b', 'a +\n+b', 'a ++b'),
    ('.5f', ' .5f', '. 5f'), ("1'000 'a'", "1'000\n'a'", "1000 'a'"), ("'\"' \"x\"", "'\"'\"x\"", "'x'"),
    ('"a b" "c"', '"a b"\n    "c"', '"a  b" "c"'), ('"//a" b', '"//"\n"a" b', '"//" b'),
    ('R"(a\n#b)"', 'R"(a\n#b)" // c', 'R"(a\n #b)"'), ('R"(a"\n"b)"', ' R"(a"\n"b)"', 'R"(ab)"'),
    ('// flags: -G\na', '// flags:  -G \n\na', 'a'),
    ('#define A b c\nd', '  #define A b \\\n    c\n\nd', '#define A b\nc d'),
    ('#define A (b)', '#define A \\\n(b)', '#define A(b)')])
def test_a_digest_is_of_what_a_program_says(text, same, other):
    assert judge.digest(text) == judge.digest(same) != judge.digest(other)


def test_the_table_is_that_of_the_record():
    assert judged.WARNED == {f'wrong/{o}.cu' for o in test_cpp_programs.WARNED}
    assert (CUDA/'judged.txt').read_text().splitlines() == list(judged.table()), 'run tests/cuda/judged.py > judged.txt'


def without_comments(text): return re.sub(r'//.*', '', text).split()


def verdict(sanitizer):
    "Which check of compute-sanitizer reports a program, as the file of the lesson has it"
    if any(t.get('timeout') for t in sanitizer.values()): return 'hangs'
    return next((tool for tool, t in sanitizer.items() if t['errors']), 'nothing')


MISTAKES = re.findall(r'^// \d+ [^|\n]*\|[^|\n]*\| (\w+)\n(__global__.*?^}\n)',
                      (CUDA.parents[1]/'nbs/recorded/where_next_mistakes.cu').read_text(), re.M | re.S)


@pytest.mark.parametrize('found, kernel', MISTAKES, ids=range(1, len(MISTAKES) + 1))
def test_kernels_of_a_lesson_are_programs_that_were_judged(found, kernel):
    "What the lesson shows of compute-sanitizer is what the record has of the program with this kernel"
    words = ' '.join(without_comments(kernel))
    [name] = [n for n in NAMES if words in ' '.join(without_comments((CUDA/n).read_text()))]
    assert verdict(RECORD[name]['sanitizer']) == found


def test_the_lesson_has_ten_of_them(): assert len(MISTAKES) == 10


# Sources that a compiler refuses


def together(parts):
    "Sources in one, each in a namespace, and the name of the one that each line belongs to"
    text, of_line = '\n'.join(dict.fromkeys(INCLUDE.findall('\n'.join(parts.values())))), []
    for n, (name, src) in enumerate(parts.items()):
        of_line += [None]*(1 + text.count('\n') - len(of_line))
        piece = f'\nnamespace n{n} {{\n{INCLUDE.sub("", src)}\n}}'
        of_line += [name]*piece.count('\n')
        text += piece
    return text, of_line


def read(src):
    "What the reader makes of a source, or None where it refuses it"
    try: return to_cpp(src)
    except (ValueError, NotImplementedError): return None


def find(parts, monkeypatch):
    "Names of the sources of which something is refused once they are compiled"
    text, of_line = together(parts)
    found = []
    for name in ('find_wrong_calls', 'find_host_uses'):
        real = getattr(build, name)
        monkeypatch.setattr(build, name, lambda *args, real=real: iter(found.extend(real(*args)) or ()))
    build.emulate_rewritten(text, 'late', False)
    return {of_line[int(re.search(r'line (\d+)', str(e))[1])] for e in found}


def refused(): return {k for k, v in NVCC.items() if bool(v['nvcc']) != (k in sources.DIFFERS)}


SAYS_NOTHING = {'gcc': set(), 'clang': {'inherited constructor'}}  # of these uses a compiler does not warn


@pytest.mark.slow
def test_sources_are_refused_as_by_nvcc_or_it_is_known_why(monkeypatch):
    assert {k: v['source'] for k, v in NVCC.items()} == {k: sources.digest(v) for k, v in sources.SOURCES.items()}, (
        'sources have changed since nvcc judged them: run tests/cuda/sources.py --new')
    parts = {k: read(v) for k, v in sources.SOURCES.items()}
    left = {k for k, v in parts.items() if v is not None}
    assert not [k for k in parts if k not in left and k not in refused()]
    text, _ = together({k: parts[k] for k in left - refused()})
    build.emulate_rewritten(text, 'accepted', False)
    early = left & refused() - sources.SIDES.keys()
    text, of_line = together({k: parts[k] for k in parts if k in early})
    with pytest.raises(CompileError) as e: build.emulate_rewritten(text, 'refused', False)
    assert {of_line[o.line] for o in e.value.errors} == early
    late = left & refused() & sources.SIDES.keys()
    nothing = SAYS_NOTHING[compilers.compiler().kind]
    assert find({k: parts[k] for k in parts if k in late}, monkeypatch) == late - nothing


CLANG = next(filter(shutil.which, ('clang++', *(f'clang++-{n}' for n in range(19, 13, -1)))), None)


@pytest.mark.skipif(not CLANG, reason='no clang++, nor clang++-14 to -19, is here')
def test_clang_reports_the_same_uses(monkeypatch):
    monkeypatch.setenv('CXX', CLANG)
    monkeypatch.setattr(build, '_prepare_all', lambda *_: None)  # the headers are read once
    parts = {k: read(v) for k, v in sources.SIDES.items() if k in refused()}
    late = {k: v for k, v in parts.items() if v is not None}
    assert find(late, monkeypatch) == late.keys() - SAYS_NOTHING['clang']


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which('nvcc'), reason='nvcc is not here')
@pytest.mark.parametrize('name', some(['overload int', 'implicit constructor', 'functor'], 3))
def test_the_record_is_what_nvcc_says(name):
    assert sources.verdict(sources.SOURCES[name]) == NVCC[name]['nvcc']
