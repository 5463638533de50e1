"A strip of boxes: its axis, what is drawn and what is too thin."
import pytest
from gridstride.draw import PALETTE
from gridstride.prof.strip import Box, Row, strip, ticks

US = 1e-6


@pytest.mark.parametrize('span,most,want', [(7.3, 8, list(range(8))), (100, 5, [0, 20, 40, 60, 80, 100]), (0, 8, [0])])
def test_ticks_are_round(span, most, want): assert ticks(span, most) == want


def test_ticks_are_some_whatever_the_unit(): assert len(ticks(31.2*US)) == 7


def test_a_strip_names_its_boxes_and_leaves_out_what_is_too_thin():
    cpu = Row('CPU', [Box(0, 40*US, 'matmul', PALETTE[0]), Box(45*US, 60*US, 'softmax', PALETTE[1])])
    tiny = [Box((143+i*.1)*US, (143.05+i*.1)*US, 'tiny') for i in range(50)]
    gpu = Row(
        'stream 7',
        [Box(30 * US, 130 * US, 'sgemm_128x128', PALETTE[0]), Box(130 * US, 142 * US, 'softmax', PALETTE[1]), *tiny],
    )
    svg = strip([cpu, gpu], arrows=[(0, 5*US, 1, 30*US), (0, 50*US, 1, 130*US)], title='one step').svg
    assert 10 < svg.count('tiny') < 30 and svg.count('<marker ') == 1 and 'sgemm_128x128: 100 µs' in svg


def test_nothing_to_draw_is_reported():
    with pytest.raises(ValueError, match='to draw'): strip([Row('CPU', [])])
