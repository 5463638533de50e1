"A source as a notebook shows it: line numbers of messages, marks, colours that both themes can show."
import re, sys
from html import unescape

import pytest

from gridstride.cpp.listings import COLORS, side_by_side, show_change, show_source
from gridstride.utils import cuda_begin

SRC = '''
__global__ void double_k(float *x, int n) {
    int i = threadIdx.x;   /* which
                              thread */
    if (i < n && n > 1) x[i] = 2*x[i];
}
'''


def bare(html): return unescape(re.sub('<[^>]*>', '', html))


def test_lines_count_as_messages_do():
    assert str(show_source(cuda_begin + SRC)) == str(show_source(SRC)) == '\n'.join(
        f'{i:4}   {o}' for i, o in enumerate(SRC.splitlines(), 1) if i > 1)
    assert 'cdiv' in str(show_source(cuda_begin))
    assert str(show_source(SRC, lines=(3, 3))) == '   3       int i = threadIdx.x;   /* which'


def test_html_has_each_line_once_with_its_number_and_colours():
    html = show_source(SRC, title='a < b')._repr_html_()
    assert bare(html) == 'a < b' + ''.join(f'{i:>4}  {o}' for i, o in enumerate(SRC.splitlines(), 1) if i > 1)
    for word, kind in [('__global__', 'cuda'), ('void', 'keyword'), ('threadIdx', 'cuda'), ('2', 'number'),
                       ('/* which', 'comment')]:
        assert f'<span style="color:{COLORS[kind]}">{word}</span>' in html
    assert html.count('<span') == html.count('</span>')


def test_marks_are_lines_texts_or_new_in_the_source():
    def marked(**how): return [int(o.split()[0]) for o in str(show_source(SRC, **how)).splitlines() if o[5] == '>']
    assert marked(mark=3) == [3] and marked(mark=['if (', 2]) == [2, 5]
    assert (marked(old=SRC.replace('2*x', '3*x').replace('    int i = threadIdx.x;', '    int i = blockIdx.x;'))
            == [3, 5])
    assert show_source(SRC, mark='if (')._repr_html_().count('box-shadow') == 1


def test_a_change_shows_old_and_new_lines_and_counts_the_new_ones():
    new = SRC.replace('n > 1', 'n > 2')
    shown = show_change(new, SRC, 'a < b', num_context_lines=1)
    assert str(shown).splitlines() == [
        'a < b', '   4                                 thread */', '     -     if (i < n && n > 1) x[i] = 2*x[i];',
        '   5 +     if (i < n && n > 2) x[i] = 2*x[i];', '   6   }']
    assert bare(shown._repr_html_()).count('if (i < n') == 2 == shown._repr_html_().count('box-shadow')
    assert str(show_change(SRC, SRC)) == ''


def test_a_change_by_words_marks_them_and_ignores_indentation():
    old = 'int f(int a) {\n    g(a);\n    return a + 1;   // one\n}\n'
    new = 'int h(int a) {\n    if (a > 0)\n        g(a);\n    return a + 2; // one\n}\n'
    shown = show_change(new, old, by_words=True)
    assert str(shown).splitlines() == [
        '   1 ~ int [-f-]{+h+}(int a) {', '   2 +     if (a > 0)', '   3           g(a);',
        '   4 ~     return a + [-1-]{+2+}; // one', '   5   }']
    html = shown._repr_html_()
    assert re.findall('<(del|ins) [^>]*>(.*?)</', html) == [('del', 'f'), ('ins', 'h'), ('del', '1'), ('ins', '2')]
    below = show_change(new, old, by_words=True, first_lines=(3, 2))
    assert str(below).splitlines() == ['   3           g(a);', '   4 ~     return a + [-1-]{+2+}; // one', '   5   }']


def test_lines_that_share_few_words_are_removed_and_new():
    shown = show_change('a();\nb(c, d, 2);\n', 'x = 1;\nb(c, d, 1);\n', by_words=True)
    assert str(shown).splitlines() == ['     - x = 1;', '   1 + a();', '   2 ~ b(c, d, [-1-]{+2+});']


def test_a_python_function_is_shown_as_python():
    assert str(show_source(bare)).split() == "1 def bare(html): return unescape(re.sub('<[^>]*>', '', html))".split()


def test_a_missing_mark_is_reported():
    with pytest.raises(ValueError, match='no line'): show_source(SRC, mark='while')
    with pytest.raises(ValueError, match='no line 9'): show_source(SRC, mark=9)
    with pytest.raises(ValueError, match='lines 1 to 6'): show_source(SRC, lines=(4, 9))
    with pytest.raises(TypeError, match='got int'): show_source(3)


def test_without_pygments_the_lines_are_plain(monkeypatch):
    with_colours = bare(show_source(SRC)._repr_html_())
    monkeypatch.setitem(sys.modules, 'pygments.lexers', None)
    plain = show_source(SRC, fold=True, title='')._repr_html_()
    assert 'color:var' not in plain and bare(plain) == 'the source' + with_colours


def light(color):
    "Relative luminance, as WCAG has it"
    rgb = [int(color[i:i+2], 16)/255 for i in (1, 3, 5)]
    return sum(w*(c/12.92 if c <= 0.04045 else ((c + 0.055)/1.055)**2.4) for w, c in zip((0.2126, 0.7152, 0.0722), rgb))


@pytest.mark.parametrize('page', ['#ffffff', '#111111'])
def test_colours_of_a_page_without_a_theme_can_be_read(page):
    for color in [*(re.search('#[0-9a-f]{6}', o)[0] for o in COLORS.values()), '#808080']:
        low, high = sorted((light(color), light(page)))
        assert (high + 0.05)/(low + 0.05) >= 3, color


def test_listings_side_by_side():
    a, b = show_source(SRC, title='by hand'), show_source(SRC.replace('2*', '3*'), title='by the tool')
    both = side_by_side(a, b)
    assert repr(both) == f'{a!r}\n\n{b!r}' and both._repr_html_().count('flex:1 1') == 2
    assert bare(both._repr_html_()) == bare(a._repr_html_() + b._repr_html_())


def test_a_wrapped_line_stays_right_of_its_number():
    html = side_by_side(show_source(SRC), show_source(SRC))._repr_html_()
    rows = re.findall(r'<span style="display:block;([^"]*)"', html)
    assert len(rows) == 10 and all('padding-left:10ch;text-indent:-10ch' in o for o in rows)
    assert 'text-indent' not in show_source(SRC)._repr_html_()


def test_python_has_the_colours_of_python():
    html = show_source('@cuda.jit\ndef half_k(x, n):\n    if n//2 > cuda.threadIdx.x: x[0] = 3  # one\n')._repr_html_()
    for word, kind in [('def', 'keyword'), ('if', 'keyword'), ('threadIdx', 'cuda'), ('3', 'number'),
                       ('# one', 'comment')]:
        assert f'<span style="color:{COLORS[kind]}">{word}</span>' in html
    assert html.count(COLORS['comment']) == 1                   # `//` divides here
