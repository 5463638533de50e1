"A listing from a text that was written by hand: lines, loops, counts, HTML."
import pytest
from gridstride.asm.listing import Listing, side_by_side, text_lines
from gridstride.asm.read import read_sass

TEXT = '''
//--------------------- .text._Z5scalePff --------------------------
\t//## File "scale.cu", line 1
        /*0000*/                   S2R R2, SR_TID.X ;
\t//## File "scale.cu", line 2
        /*0010*/                   MOV R3, RZ ;
.L_x_1:
\t//## File "scale.cu", line 3
        /*0020*/                   LDS R4, [R2] ;
        /*0030*/                   FFMA R5, R4, R4, R5 ;
\t//## File "scale.cu", line 2
        /*0040*/                   ISETP.GE.AND P0, PT, R3, R0, PT ;
        /*0050*/              @!P0 BRA `(.L_x_1) ;
\t//## File "scale.cu", line 5
        /*0060*/                   STG.E desc[UR4][R2.64], R5 ;
        /*0070*/                   EXIT ;
.L_x_2:
        /*0080*/                   BRA `(.L_x_2);
'''
LINES = ['int i = threadIdx.x;', 'for (int j = 0; j < n; j++) {', '    t += s[i]*s[i];', '}', 'x[i] = t;']


@pytest.fixture
def listing():
    items = read_sass(TEXT, '_Z5scalePff', 'scale.cu')
    return Listing('\n'.join(text_lines(items)), items, dict(enumerate(LINES, 1)), 'sass', 'scale', 'sm_90', 'hand')


def test_instructions_are_counted_by_kind(listing):
    assert listing.count() == {'shared': 1, 'float': 1, 'move': 2, 'integer': 1, 'control': 2, 'global': 1}


def test_it_is_still_a_string(listing):
    assert listing.count('R5') == 3 and listing.startswith('    S2R') and 'FFMA' in listing.loop()


def test_lines_are_those_that_have_instructions(listing): assert [n for n, _, _ in listing.lines] == [1, 2, 3, 5]


def test_the_loop_is_what_the_jump_goes_back_over(listing):
    assert len(listing.loops) == 1
    assert [o.op for o in listing.loop().instructions] == ['LDS', 'FFMA', 'ISETP.GE.AND', 'BRA']
    with pytest.raises(ValueError, match='1 innermost loop$'): listing.loop(1)


def test_html_folds_the_instructions_of_each_line(listing):
    html = listing._repr_html_()
    assert 't += s[i]*s[i];' in html and '<script' not in html and html.count('<details>') == 4


def test_listings_of_one_source_are_side_by_side(listing):
    assert side_by_side(listing, listing)._repr_html_().count('STG.E') == 2
    with pytest.raises(ValueError, match='same source'):
        side_by_side(listing, Listing('', [], {}, 'sass', 'none', 'sm_90', 'hand'))


def test_a_stretch_ends_at_labels_jumps_and_barriers(listing):
    assert [o.op for o in listing.basic_block('shared').instructions] == ['LDS', 'FFMA', 'ISETP.GE.AND', 'BRA']
    assert [o.op for o in listing.basic_block('global').instructions] == ['STG.E', 'EXIT']
    assert [o.op for o in listing.basic_block('move').instructions] == ['S2R', 'MOV']
    items = [o if isinstance(o, str) else o._replace(op='BAR.SYNC', kind='barrier', target='') if o.op == 'FFMA' else o
             for o in listing.items]
    cut = listing._listing_of(items)
    assert [o.op for o in cut.basic_block('shared').instructions] == ['LDS']
    assert [o.op for o in cut.basic_block('control').instructions][0] == 'ISETP.GE.AND'
    with pytest.raises(ValueError, match="scale .*'tensor'.*SASS"):
        listing.basic_block('tensor')
