"Tokens of CUDA C, the branches of its preprocessor, its brackets, and what these open."
import pytest

from gridstride.cpp.frontend.code import Code
from gridstride.cpp.frontend.preprocessor import Macros, evaluate
from gridstride.cpp.frontend.reader import compiled_tokens
from gridstride.cpp.frontend.tokens import line_at, string_value, tokens


def texts(src): return [t.text for t in tokens(src)]


def kept(src, assume_likely=False):
    found, lines = compiled_tokens(src, assume_likely)
    return [o for i, text in enumerate([*found.texts, '']) for o in (*(t.text for t in lines.get(i, ())), text) if o]


def code(src):
    found, lines = compiled_tokens(src, assume_likely=False)
    return Code(src, found, {}, directives=lines)


def scope(src, word='x'):
    c = code(src)
    return c.scope([t.text for t in c.tokens].index(word))


def test_each_closing_angle_is_a_token():
    assert (texts("k<A<B<int>>><<<1'000>>1, 0x1p-3f>>>(x); // <<<")
            == "k < A < B < int > > > <<< 1'000 > > 1 , 0x1p-3f > > > ( x ) ;".split())


def test_strings_hide_what_is_in_them():
    assert texts('a /* " */ "<<<//" R"x(a )" b)x" \'"\' u8"é"_s') == ['a', '"<<<//"', 'R"x(a )" b)x"',
                                                                      '\'"\'', 'u8"é"_s']


def test_a_preprocessor_line_is_one_token_with_the_lines_that_continue_it():
    assert ([t.kind for t in tokens('#define A(x) x \\\n  + "//"\n  # if 0 /* \n */\na #b')]
            == 'directive directive word op word'.split())


@pytest.mark.parametrize('token,text', [(r'"a\n\"b\\"', 'a\n"b\\'), ('R"(a\\n)"', 'a\\n'), ('R"x(a)" b)x"', 'a)" b')])
def test_literal(token, text): assert string_value(token) == text


def test_lines_are_counted_as_the_source_says():
    src = '#line 1 "a.cpp"\nx\n#line 1 "a.cu"\ny\nz'
    assert [line_at(src, src.index(o)) for o in 'xyz'] == [1, 1, 2] and line_at('a\nb', 2) == 2


@pytest.mark.parametrize('src,want', [
    ('#if 0 // why\na\n#if b\nc\n#endif\n#else\nd\n#endif\ne', 'd e'),
    ('#ifdef GRIDSTRIDE_EMULATOR\na\n#else\nb\n#endif\n#ifndef GRIDSTRIDE_EMULATOR\nc\n#endif\n'
     '#if !defined(GRIDSTRIDE_EMULATOR)\nd\n#endif', 'a'),
    ('#if 1\na\n#elif B\nb\n#else\nc\n#endif\n#if 0\n#if A\nd\n#else\ne\n#endif\n#endif', 'a'),
    ('#if A\na\n#else\nb\n#endif', '#if A|a|#else|b|#endif'),
    ('#if 0\na\n#elif A\nb\n#else\nc\n#endif', '#if|b|#else|c|#endif'),
    ('#define N 16 // wide\n#if N > 8 && (N >> 1) == 8\na\n#else\nb\n#endif', '#define N 16 // wide|a'),
    ('#define A\n#undef A\n#ifdef A\na\n#endif\nb', '#define A|#undef A|b')])
def test_what_is_surely_not_compiled_goes(src, want):
    assert kept(src) == (want.split('|') if '|' in want else want.split())


@pytest.mark.parametrize('src,want', [
    ('#ifdef A\na\n#elif defined(B) || C\nb\n#else\nc\n#endif', 'c'),
    ('#ifndef N\n#define N 8\n#endif\n#if N == 8\na\n#endif', '#define N 8|a'),
    ('#include "mine.h"\n#ifdef A\na\n#endif', '#include "mine.h"|#ifdef A|a|#endif'),
    ('#ifdef __SOMETHING__\na\n#endif', '#ifdef __SOMETHING__|a|#endif'),
    ('#if __CUDA_ARCH__ >= 800\na\n#else\nb\n#endif', 'a'),
    ('#ifdef A\n#define B\n#endif\n#ifdef B\na\n#endif\nb', 'b')])
def test_an_undefined_name_is_likely_undefined(src, want): assert kept(src, assume_likely=True) == want.split('|')


@pytest.mark.parametrize('text,sure,likely', [
    ('2*3+4 == 10 && 10 > 9', True, True), ('0x10', 16, 16), ("1'000u", 1000, 1000), ('-1 < 0', True, True),
    ('!A', None, True), ('defined(A) || 1', True, True), ('A && 0', False, False), ('A && 1', None, False),
    ('~0', -1, -1), ('1/0', None, None), ('1 +', None, None), ('(1', None, None), ("'a' == 97", None, None),
    ('__has_include(<x>)', None, None), ('', None, None)])
def test_a_condition_has_three_values(text, sure, likely):
    assert (evaluate(text, Macros()), evaluate(text, Macros(assume_likely=True))) == (sure, likely)


def test_brackets_know_their_mates():
    c = code('f(a[1], {b})')
    assert (c.match[1], c.match[3], c.parent[4], c.parent[0]) == (10, 5, 3, -1)
    code('#if A\nf(x,\n#else\nf(y,\n#endif\nz);')


@pytest.mark.parametrize('src,says', [('int main() {\n  f(x;\n}', "line 2: f\\(x;"), ('a\n}', 'no opening'),
                                      ('int f() {\n  a = (b // c) + 1;\n}', '`//`(.|\n)*line 2: '),
                                      ('int f() {\n  g();\n', 'never closed')])
def test_brackets_without_mates_are_named(src, says):
    with pytest.raises(ValueError, match=says): code(src)


@pytest.mark.parametrize('src,kind', [
    ('namespace a::b { inline namespace { extern "C" { int x; } } }', 'namespace'),
    ('template <class T> struct __align__(16) S : B<(1>0)> { int x; };', 'type'),
    ('struct S { int f() const { x; } };', 'code'),
    ('template <typename T, class U=int> struct S f(U u) { x; }', 'code'), ('int a[] = { x };', 'code')])
def test_what_a_brace_opens(src, kind): assert scope(src) == kind
