"""The front end of CUDA C takes work in proportion to the source: counted are the lines of Python that run for a source
of n, 2n and 4n pieces. Of linear work the second difference is twice the first."""
import importlib.util, sys
from pathlib import Path

import pytest

from exhaustive import some
from gridstride.cpp.frontend.tokens import WrongSource, _spliced_lexemes, tokens, tokens_of

spec = importlib.util.spec_from_file_location('front_end', Path(__file__).parents[1]/'benchmarks/front_end.py')
front_end = importlib.util.module_from_spec(spec)
spec.loader.exec_module(front_end)


def count_lines(src):
    "How many lines of `gridstride.cpp` run for a source; one that loops within itself counts each time"
    count = 0

    def local(frame, event, arg):
        nonlocal count
        count += event == 'line'
        return local

    before = sys.gettrace()
    front_end.clear_caches()
    sys.settrace(lambda frame, event, arg: local if '/gridstride/cpp/' in frame.f_code.co_filename else None)
    try: front_end.process(src)
    finally: sys.settrace(before)
    return count


@pytest.mark.parametrize('kind', front_end.KINDS)
def test_work_is_in_proportion_to_the_source(kind):
    make = front_end.KINDS[kind]
    few, more, most = (count_lines(make(n)) for n in (48, 96, 192))
    assert most - more <= 2.03*(more - few) + 100


def _span(start=0, end=None): return slice(start, end)


class CountedSource(str):
    "A source that counts how many of its characters are searched or copied: one call of C passes over many"
    looked_at = 0

    def __contains__(self, text): return self._count(len(self), super().__contains__(text))
    def __getitem__(self, key): return self._count(len(res := super().__getitem__(key)), res)
    def find(self, *args): return self._count(len(range(len(self))[_span(*args[1:])]), super().find(*args))
    def count(self, *args): return self._count(len(range(len(self))[_span(*args[1:])]), super().count(*args))

    def _count(self, n, res):
        CountedSource.looked_at += n
        return res


def count_characters(src):
    CountedSource.looked_at = 0
    front_end.clear_caches()
    text = CountedSource(front_end.rewrite.to_cpp(CountedSource(src)))
    front_end.reader.functions(CountedSource(src))
    front_end.callers.mark_host_functions(text, inline_specifiers='inline ')
    return CountedSource.looked_at


@pytest.mark.slow
@pytest.mark.parametrize('kind', some(front_end.KINDS, 2))
def test_characters_are_searched_in_proportion_to_the_source(kind):
    make = front_end.KINDS[kind]
    few, more, most = (count_characters(make(n)) for n in (100, 200, 400))
    assert most - more <= 2.1*(more - few) + 2000


PROGRAMS = sorted((Path(__file__).parent/'cuda').rglob('*.cu'))


def test_a_rewritten_source_has_the_tokens_that_splitting_it_finds():
    sources = [make(20) for make in front_end.KINDS.values()] + [o.read_text() for o in PROGRAMS]
    kept = 0
    for src in sources:
        front_end.clear_caches()
        try: text = front_end.rewrite.to_cpp(src)
        except (ValueError, NotImplementedError): continue
        kept += text in _spliced_lexemes
        assert [*tokens_of(text)] == [*tokens(text)]
    assert kept > len(sources)/2


def test_an_edit_may_join_tokens():
    text = front_end.rewrite.to_cpp('__device__ int v = 1;\nconst int w = 2;')
    assert text in _spliced_lexemes and 'gs_init_v' in tokens_of(text).texts


def test_quadratic_work_is_seen():
    "A reader that scans all earlier tokens for every token"
    code = compile('def f(n):\n for i in range(n):\n  for j in range(i):\n   pass\n', '/gridstride/cpp/none.py', 'exec')
    names = {}
    exec(code, names)
    before, front_end.process = front_end.process, names['f']
    try: few, more, most = (count_lines(n) for n in (24, 48, 96))
    finally: front_end.process = before
    assert most - more > 3*(more - few)


@pytest.mark.parametrize('kind', [o for o in front_end.KINDS if 'in each other' in o or 'chain' in o or 'nested' in o])
def test_brackets_may_be_nested_as_deeply_as_a_source_likes(kind):
    front_end.clear_caches()
    front_end.process(front_end.KINDS[kind](10_000))


@pytest.mark.parametrize('src', ['('*10_000, '{'*10_000, 'int f() {' + '('*10_000 + '}', 'A<'*10_000, '#if 1\n'*10_000])
def test_brackets_that_do_not_close_are_named_at_any_depth(src):
    front_end.clear_caches()
    try: front_end.process(src)
    except WrongSource as e: assert 'line' in str(e)
