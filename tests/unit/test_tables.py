"A table as text and as HTML."
from gridstride.support.tables import CellText, Percentage, Table


def test_columns_are_aligned_to_the_right_unless_their_head_begins_with_a_bracket():
    t = Table(
        ['<kernel', 'count', 'share'],
        [[CellText('transpose'), 1, Percentage(0.878)], [CellText('a<b', depth=1), 12, Percentage(0.0622)]],
        title='Two kernels',
        note='measured today',
    )
    assert repr(t).splitlines() == [
        'Two kernels',
        'kernel     count  share',
        'transpose      1    88%',
        '  a<b         12   6.2%',
        'measured today',
    ]


def test_without_a_head_all_columns_are_aligned_to_the_left():
    assert repr(Table((), [('registers', 26, 'a thread'), ('spills', '0 bytes', 'in all')])).splitlines() == [
        'registers  26       a thread', 'spills     0 bytes  in all']


def test_a_long_text_in_the_last_column_is_wrapped():
    assert repr(Table(['n', '<text'], [[1, 'word '*30]])).splitlines()[2] == f"   {'word '*10}".rstrip()


def test_html_escapes_texts_and_draws_shares_as_bars():
    html = Table(['<kernel', 'share'], [[CellText('a<b', 'a<b>(int)', '#bdd8fb'), Percentage(.878)]])._repr_html_()
    assert 'a&lt;b' in html and 'title="a&lt;b&gt;(int)"' in html and '87.8%,transparent' in html and '#bdd8fb' in html
    assert '<thead>' in html and '<thead>' not in Table((), [('a', 'b')])._repr_html_()


def test_small_fractions_are_not_zero():
    assert [str(Percentage(o)) for o in (0, 0.0001, 0.05, 0.5)] == ['0.0%', '<0.1%', '5.0%', '50%']
