"A reader guesses before a result is shown: which guess is missing, noted, or refused."
import pytest
from gridstride.support.guesses import guess, guessed
from found import names


def said(capsys, *args):
    guess(*args)
    return capsys.readouterr().out


@pytest.mark.parametrize('made', [..., {'rows': ..., 'columns': ...}, (..., ...)])
def test_a_guess_comes_first(capsys, made):
    out = said(capsys, made, 'ms')
    assert '...' in out and names(out, 'ms', 'again') and 'Noted' not in out and len(out.splitlines()) == 1
    assert guessed(made) == ''


@pytest.mark.parametrize('made,unit,text', [
    (.3, 'ms', '0.3 ms'), (2, 'x', '2x'), (45, '%', '45%'), (7, '', '7'), ('order', '', 'order'), (0, 'ms', '0 ms'),
    ({'rows': 32, 'columns': 4}, 'ms', 'rows: 32 ms, columns: 4 ms'), ((1, 33), '', '(1, 33)')])
def test_a_guess_is_noted_and_repeated(capsys, made, unit, text):
    assert said(capsys, made, unit) == f'Noted: {text}\n'
    assert guessed(made, unit) == f'(you guessed {text})'


def test_of_several_guesses_those_that_are_missing_are_named(capsys):
    noted, left = said(capsys, {'rows': 32, 'columns': ...}, 'sectors').splitlines()
    assert '32' in noted and 'columns' not in noted and 'columns' in left and 'rows' not in left
    noted, left = said(capsys, (..., 8, ...), 'x').splitlines()
    assert '8x' in noted and names(left, '1', '3')
    assert guessed((..., 8, ...), 'x') == '(you guessed 2: 8x)'
    assert 'zigzag, PCIe; striped, PCIe' in said(capsys, {'zigzag, PCIe': ..., 'striped, PCIe': ...})


@pytest.mark.parametrize('made', ['fast', True, None, {'rows': 'many'}])
def test_a_guess_in_a_unit_is_a_number(made):
    with pytest.raises(TypeError, match='my_guess is'): guess(made, 'ms')
