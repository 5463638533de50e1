"What a statement makes and reads, and which statements a function depends on."
import math
import pickle
import textwrap

import pytest
from gridstride.prof.isolate import extract_program, parse_statements, pickle_arguments, slice_statements
from found import saying

CELLS = [
    'import torch\nimport numpy as np\nunused = 3',
    'def helper(x): return scale*x',
    'scale = 2\ntorch.manual_seed(0)',
    'def f(x): return helper(x) + unknown',
    'print(f(1))',
    'scale = 3\ntorch.backends.flag = 1\nx = torch.ones(scale)',
]


def texts(kept): return [s.text for s in kept]


def test_statements_know_what_they_make_and_read():
    s = parse_statements('import math as m\nhalf = 2', '@jit\ndef f(x, y=half):\n    return m.sqrt(x)*g(y)',
                   'this is no Python', 'half += 1; x = [g(i) for i in y]')
    assert [sorted(o.defines) for o in s] == [['m'], ['half'], ['f'], ['half'], ['x']]
    assert sorted(s[2].reads_now) == ['half', 'jit'] and sorted(s[2].reads_later) == ['g', 'm']
    assert s[3].reads_now == {'half'} and s[4].reads_now-{'range'} == {'g', 'y'}
    assert s[2].text.splitlines()[0] == '@jit'


def test_a_function_brings_what_it_needs_and_names_what_is_missing():
    kept, missing = slice_statements(parse_statements(*CELLS), ['f'])
    assert texts(kept) == [CELLS[1], CELLS[3], 'scale = 3'] and missing == {'unknown'}


def test_settings_on_the_way_are_kept():
    assert texts(slice_statements(parse_statements(*CELLS), ['x'])[0]) == [
        'import torch', 'torch.manual_seed(0)', 'scale = 3', 'torch.backends.flag = 1', 'x = torch.ones(scale)']


def test_a_name_may_be_needed_twice():
    cells = ['x = 1', 'y = x', 'x = 2', 'def f(): return x+y']
    assert texts(slice_statements(parse_statements(*cells), ['f'])[0]) == cells


scale = 3
def area(r): return scale*math.pi*r*r
def peek(): return hidden  # noqa: F821


@pytest.fixture
def in_main(monkeypatch, tmp_path):
    "This file as the program that runs: what it defines is not imported from anywhere"
    import sys
    main = sys.modules['__main__']
    (tmp_path / 'main.py').write_text(
        'import math\nscale = 3\ndef area(r): return scale*math.pi*r*r\ndef peek(): return hidden\n'
    )
    monkeypatch.setattr(main, '__file__', str(tmp_path/'main.py'), raising=False)
    for f in (area, peek): monkeypatch.setattr(f, '__module__', '__main__')


def test_a_program_gives_the_same_result_elsewhere(in_main):
    source, name = extract_program(area)
    box = {}
    exec(source, box)
    assert box[name](2) == area(2)


def test_what_nothing_makes_is_named_unless_a_setup_makes_it(in_main):
    with pytest.raises(ValueError, match=saying('peek uses', 'hidden')): extract_program(peek)
    assert extract_program(peek, setup='hidden = 5')[0] == 'hidden = 5\ndef peek(): return hidden'


def test_what_can_be_imported_is(): assert extract_program(textwrap.dedent) == ('from textwrap import dedent', 'dedent')


def test_arguments_travel_or_are_named(in_main):
    assert pickle.loads(pickle_arguments((1, 'a'), dict(k=[2]))) == ((1, 'a'), {'k': [2]})
    with pytest.raises(ValueError, match='argument f'): pickle_arguments((1,), dict(f=lambda: 1))
    with pytest.raises(
        ValueError, match='argument 2, .*PicklingError: area'
    ):
        pickle_arguments((1, [area]), {})
