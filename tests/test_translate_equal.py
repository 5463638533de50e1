"""What `to_cuda` makes, on the emulator, gives what the simulator gives: for kernels that a generator writes, and for
those that are there already."""
import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent/'translate'
sys.path.insert(0, str(HERE))
import cases
import corpus
from compare import EXAMPLES, differences, generated, rightly, smallest, described

MODES = {}, dict(doubles=True), dict(doubles=True, wide=True)

@pytest.fixture(scope='module')
def fresh(): return generated(EXAMPLES)

@pytest.fixture(scope='module')
def there(): return [c for c in corpus.all_cases() if not corpus.refused(c)]

def test_enough_kernels_of_every_shape(fresh, there):
    assert len(fresh) >= 300 and len(there) >= 140
    for what in ('shared.array','local.array','atomic','shfl_','_sync(','while','break','continue','elif','device=True',
                 'range(6, -3, -2)','//','**','>>','cuda.grid(3)','float16','uint8'):
        assert any(what in c.source + json.dumps(c.args) for c in fresh), what

def test_every_kernel_of_the_lessons_is_here():
    found = set(corpus.lesson_kernels())
    assert found <= set(corpus.RIGHT) | corpus.WRONG and corpus.WRONG <= found

@pytest.mark.takes(12)
def test_generated_kernels_give_the_same(fresh):
    for how in MODES[:2]:
        got = differences(fresh, **how)
        if any(got): smallest(EXAMPLES, {c.source:d for c,d in zip(fresh, got)}, **how)
        assert not any(got), f'{how}: {described(fresh, got)}'

@pytest.mark.takes(8)
def test_kernels_that_are_there_give_the_same(there):
    for how in MODES:
        got = differences(there, **how)
        assert not any(got), f'{how}: {described(there, got)}'

@pytest.mark.slow
def test_checked_kernels_have_no_findings(fresh):
    "The generated kernels once more, optimised, under all detectors, some of them"
    some = fresh[::5]
    got = differences(some, checks=True, flags=('-O2',), doubles=True)
    assert not any(got), described(some, got)

def test_a_difference_is_seen(fresh):
    case = next(c for c in fresh if 'out[i] = ' in c.source and c.compare=='bits' and not c.source.count('bool'))
    want = rightly(case)
    wrong = [a.copy() for a in want]
    assert cases.difference(wrong, want, case) is None
    wrong[-1].view('u1')[0] ^= 1
    assert 'differ' in cases.difference(wrong, want, case)
