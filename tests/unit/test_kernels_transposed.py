"The kernel that reads an operand as its transpose."
import pytest
from gridstride.cpp import on_emulator
from gridstride.kernels.ladder import right
from gridstride.kernels.transposed import choose_nt, choose_tn, rung_for


@pytest.mark.parametrize('layout', ['nn', 'tn', 'nt'])
def test_a_layout_is_a_constant_of_one_source(layout):
    r = rung_for(layout)
    assert (r.constants['M_TURNED'], r.constants['N_TURNED']) == (layout == 'tn', layout == 'nt') and r.layout == layout
    assert r.src.split('\n', 1)[1] == rung_for('nn').src.split('\n', 1)[1]


@pytest.mark.parametrize('layout', ['tn', 'nt'])
def test_it_is_right_on_the_emulator(layout):
    with on_emulator(): assert right(rung_for(layout), [(8, 8, 8), (264, 264, 328)]) == 2


def test_rows_as_they_lie_are_of_sixteen_bytes():
    assert [rung_for('tn').why_not(*s) for s in ((8, 8, 3), (3, 8, 8), (8, 3, 8))] == [
        None, 'TMA needs rows of whole 16 bytes, 8 bfloat16s, and there are 3 columns of m',
        'TMA needs rows of whole 16 bytes, 8 bfloat16s, and there are 3 columns of n']


@pytest.mark.parametrize('shape,taken',
    [((8192, 8192, 8192), True), ((8192, 1024, 4096), True), ((1000, 1000, 8192), False), ((8192, 8192, 64), False)])
def test_it_is_chosen_where_it_fills_the_gpu(shape, taken):
    for choose, layout in ((choose_tn, 'tn'), (choose_nt, 'nt')):
        kernel = choose(*shape, 132)
        assert kernel is rung_for(layout) if taken else 'the library reads a transpose faster' in kernel
